"""Items of Ettinger (2020), of documents, and made by rule: numbers, and everyday objects of tables of our own."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from bertology._files import given_path
from bertology.corpora._data import data_path
from bertology.corpora._derived import number_word
from bertology.corpora._files import T, line_blocks, suffix_of, wrong
from bertology.corpora._named import load_corpus
from bertology.corpora._tables import JSON_SUFFIXES, Tables, names_of_columns, read_table
from bertology.corpora.prompts import _items
from bertology.corpora.prompts._items import ITEM_FORMS, MADE, MASK, ClozeItem, LeftOut
from bertology.errors import CorpusError

_ARTICLE = "(a|an)"
_NEGATION = ("item", "context_aff", "context_neg", "target_aff", "target_neg")
_SETS = {
    "CPRAG-102": ("item", "context_s1", "context_s2", "expected", "within_category", "between_category", "constraint"),
    "ROLE-88": ("item", "context", "expected", "exp_cloze", "target", "tgt_cloze", "tgt_cloze(strict)"),
    "NEG-136-SIMP": _NEGATION,
    "NEG-136-NAT": (*_NEGATION, "licensing"),
}
_PREFIXES = {"CPRAG-102": "cprag", "ROLE-88": "role", "NEG-136-SIMP": "simple", "NEG-136-NAT": "natural"}
_GENITIVE = "'s "
_CODES = {"constraint": {"H": "high", "L": "low"}, "licensing": {"Y": "licensed", "N": "not licensed"}}
Diagnostics = Mapping[str, Sequence[Mapping[str, str]]]
"""The rows of each of Ettinger's sets (``CPRAG-102``, ``ROLE-88``, ``NEG-136-SIMP``, ``NEG-136-NAT``) by column."""


def read_diagnostics(path: str | Path, *, asks: str = "choices") -> Diagnostics:
    """The items at ``path``: one of the TSV files, or a folder that holds some of them, at any depth.

    A file is known by its first line, whatever its name. Files of other columns in a folder are passed over, and a set
    that is not there has no rows. Contexts go up to the word to be predicted. ``item`` begins with the name of its set
    (``role-61-b``). ``constraint`` is ``high`` or ``low``, by human judgements; ``licensing``, whether a negated
    sentence is pragmatically natural, ``licensed`` or ``not licensed``. Of ROLE-88 ``expected`` are the most frequent
    human completions with ``|`` between them, both words of a verb with its particle, and ``pair`` is the item without
    ``-a`` or, for the roles reversed, ``-b``.

    Raises:
        CorpusError: there is no such file, two hold the same set, or a line is not as it should be; the message names
            file and line.
    """
    path = data_path(path)
    files: dict[str, Path] = {}
    for file in sorted(path.rglob("*.tsv")) if path.is_dir() else [path]:
        columns = tuple(names_of_columns(file))
        if (name := next((name for name, due in _SETS.items() if due == columns), None)) is None:
            continue
        if files.setdefault(name, file) != file:
            raise CorpusError(f"{path}: {files[name]} and {file} both hold {name}; keep one of them")
    if not files and path.is_file():
        raise ITEM_FORMS[asks].unknown(path, names_of_columns(path), nor=f"those of {', '.join(_SETS)}")
    if not files:
        remedy = "give a TSV file of them with its column names, or the folder that has them"
        raise CorpusError(f"{path}: none of {', '.join(_SETS)} there; {remedy}")
    return {name: _rows(files[name], name) if name in files else [] for name in _SETS}


def _rows(file: Path, of_set: str) -> list[dict[str, str]]:
    """The cells of each row of one of Ettinger's files; white space around words is left out."""
    rows = dict[str, dict[str, str]]()
    for row in read_table(file).rows():
        cells = {column: row.text(column) for column in _SETS[of_set]}
        if of_set == "ROLE-88":
            if not (words := [word for word in map(str.strip, cells["expected"].split("|")) if word]):
                raise row.error("expected", "words with | between them")
            cells["expected"] = "|".join(words)
        name = cells["item"]
        if name in rows or (of_set == "ROLE-88" and not name.endswith(("-a", "-b"))):
            raise row.error("item", "a name of its own; of ROLE-88 a number and -a, or -b for the roles reversed")
        for column in _CODES.keys() & cells.keys():
            if (code := cells[column]) not in _CODES[column]:
                raise row.error(column, " or ".join(_CODES[column]))
            cells[column] = _CODES[column][code]
        item = f"{_PREFIXES[of_set]}-{name}"
        rows[name] = cells | {"item": item, "pair": item.removesuffix("-a").removesuffix("-b")}
    if not rows:
        raise CorpusError(f"{file}: no item in it, only column names; give the whole file")
    return list(rows.values())


def with_article(context: str, word: str) -> str:
    """A context in which ``(a|an)`` is the article that the word after it takes."""
    return context.replace(_ARTICLE, "an" if word[:1].lower() in ("a", "e", "i", "o", "u") else "a")


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences that follow one another."""

    id: str
    sentences: tuple[str, ...]


def read_documents(source: str | Path) -> tuple[Document, ...]:
    """The documents of a corpus, their sentences in order.

    In plain text (``.txt``, one sentence a line) a blank line parts documents. In any other corpus they are the
    groups of its sentences, such as ``# newdoc`` begins in Universal Dependencies; where there is none at all, they are
    told by what comes before the number in the names of sentences (``doc-3-0012``). Of a corpus with splits it is test,
    or dev where there is no test.

    Args:
        source: a file, folder or name of a corpus, as :func:`~bertology.corpora.load_corpus` takes it.

    Raises:
        NameNotFoundError: no corpus of that name.
        CorpusError: it cannot be read, or does not tell where documents begin.
    """
    path = given_path(source, error=CorpusError)
    if path.is_file() and (Tables().is_at(path) or suffix_of(path) in JSON_SUFFIXES):
        raise ITEM_FORMS["next_sentence"].unknown(path, names_of_columns(path), nor="documents")
    if path.is_file() and suffix_of(path) == ".txt":
        blocks = ((f"{path.stem}-{number}", lines) for number, lines in line_blocks(path))
        documents = [Document(name, tuple(" ".join(line.split()) for line in lines)) for name, lines in blocks]
        remedy = "part documents by a blank line"
    else:
        remedy, splits = "mark where documents begin by a comment # newdoc", load_corpus(source).splits
        some = next((splits[name] for name in ("test", "dev") if name in splits), next(iter(splits.values())))
        documents = [
            Document(name or f"document-{number}", tuple(map(some.text, numbers)))
            for number, (numbers, name) in enumerate(some.documents, 1)
        ]
    if sum(len(document.sentences) > 1 for document in documents) < 2:
        raise CorpusError(f"{source}: no two documents of several sentences in it; {remedy}")
    return tuple(documents)


_SIZES = ((0, 10, "0 to 9"), (10, 20, "10 to 19"), (20, 100, "20 to 99"))
_DECODE = (
    "In digits, the number {word} is {mask}.",
    "The number {word} is also written {mask}.",
    "{Word} means {mask}.",
)
_ADDITION = ("{one} plus {other} equals {mask}.", "The sum of {one} and {other} is {mask}.")
_LENGTHS, _LISTS_OF_A_LENGTH = (2, 3, 5), 60
_MOST_SUMS_OF_A_SIZE = 50
_N_RIVALS = 3


def _worded(
    name: str, cluster: str, group: str, good: str, bad: Iterable[str], wordings: Iterable[str], **words: str
) -> list[ClozeItem]:
    """An item for each wording with its words put in; the blind text has masks in their place."""
    blind, bad = dict.fromkeys(words, MASK), tuple(bad)
    texts = [(one.format(**words, mask=MASK), one.format(**blind, mask=MASK)) for one in wordings]
    return [
        ClozeItem(f"{name}-{n}", cluster, group, text, good, rivals=bad, blind=blind)
        for n, (text, blind) in enumerate(texts)
    ]


def decode_items() -> tuple[ClozeItem, ...]:
    """The digits of a number word: every number from 0 to 99 in three wordings, 300 items.

    Rivals are three numbers drawn from those of the same size (0 to 9, 10 to 19, 20 to 99), so that how many digits
    the answer has does not decide.
    """
    items: list[ClozeItem] = []
    for first, end, group in _SIZES:
        for value in range(first, end):
            others = [str(other) for other in range(first, end) if other != value]
            rivals, word = drawn_order(others, f"decode {value}")[:_N_RIVALS], number_word(value)
            good = str(value)
            items += _worded(good, good, group, good, rivals, _DECODE, word=word, Word=word.capitalize())
    return tuple(items)


def maximum_items() -> tuple[ClozeItem, ...]:
    """The largest and the smallest of a list of 2, 3 or 5 numbers: 60 lists of each length, 360 items.

    The numbers of a list differ and are drawn from 0 to 99; the largest stands at each place of the list equally
    often. The rivals are the other numbers of the list. As the same list is asked for its smallest number, whoever
    always takes the larger number, or the commoner, is right half the time.
    """
    items = []
    for name, length, turn in ((f"{n}-{turn}", n, turn) for n in _LENGTHS for turn in range(_LISTS_OF_A_LENGTH)):
        numbers = drawn_order(range(100), f"list {name}")[:length]
        largest, place = numbers.index(max(numbers)), turn % length
        numbers[place], numbers[largest] = numbers[largest], numbers[place]
        *others, last = map(str, numbers)
        for which, answer in (("largest", max(numbers)), ("smallest", min(numbers))):
            rivals = tuple(str(number) for number in numbers if number != answer)
            blind = f"Of the numbers, the {which} is {MASK}."
            text = blind.replace("numbers,", f"numbers {', '.join(others)} and {last},")
            group, good = f"{which} of {length}", str(answer)
            items.append(ClozeItem(f"{name}-{which}", name, group, text, good, rivals=rivals, blind=blind))
    return tuple(items)


def addition_items() -> tuple[ClozeItem, ...]:
    """Sums of two numbers: all 36 of 2 to 9, 50 drawn of 10 to 19 and of 20 to 99, two wordings, 272 items.

    No number is 0. Rivals are three drawn from those that are 1, 2 or 10 more or less than the sum, as a slip in
    counting or in a digit would give them. Additions of one sum are one frame: they have their answer in common, and
    how common a word that is may decide them all.
    """
    items: list[ClozeItem] = []
    for first, end, group in _SIZES:
        pairs = [(one, total - one) for total in range(max(first, 2), end) for one in range(1, total)]
        for one, other in drawn_order(pairs, f"sums {group}")[:_MOST_SUMS_OF_A_SIZE]:
            total, name = one + other, f"{one}+{other}"
            near = [str(total + step) for step in (-10, -2, -1, 1, 2, 10) if total + step >= 0]
            rivals, good = drawn_order(near, f"near {name}")[:_N_RIVALS], str(total)
            items += _worded(name, good, group, good, rivals, _ADDITION, one=str(one), other=str(other))
    return tuple(items)


def drawn_order(things: Sequence[T], seed: str) -> list[T]:
    """The things in a random order that depends on their number and the seed, any text, only."""
    places = sorted(range(len(things)), key=lambda place: sha256(f"{seed} {place}".encode()).digest())
    return [things[place] for place in places]


def shuffled_words(words: Sequence[str], seed: str) -> list[str]:
    """The words in a random order other than the given one.

    Raises:
        ValueError: they are all the same, or there are fewer than two.
    """
    if len(set(words)) < 2:
        raise ValueError(f"{' '.join(words)!r} has no other order")
    turn = 0
    while (shuffled := drawn_order(words, f"{seed} {turn}")) == list(words):
        turn += 1
    return shuffled


def check_made(source: str, *, pocket: str) -> None:
    """Raise :class:`CorpusError` unless ``source`` is :data:`MADE`; ``pocket`` is why the pocket world has no items."""
    if source != MADE:
        if (path := Path(source)).is_file() and source != "pocket":
            raise ITEM_FORMS["choices"].unknown(path, names_of_columns(path))
        why = pocket if source == "pocket" else "items are made by rule and read from no file"
        raise CorpusError(f"{why}; give {MADE} for the corpus, or a table of such items")


_LEAST_RATIO, _FAR = 10, 100
"""Least ratio of the sizes or weights of a pair, and the ratio from which on they are far apart."""
_EXCHANGED = (("eat", "read"), ("drink", "drive"), ("wear", "sing"), ("climb", "spend"), ("play", "cook"))
"""Actions that rival one another: no thing of the one is a thing of the other."""
_COMPARED = (
    ("{A} is {mask} than {b}.", "One thing is {mask} than another."),
    ("Compared with {b}, {a} is {mask}.", "Compared with one thing, another is {mask}."),
    ("Next to {b}, {a} looks {mask}.", "Next to one thing, another looks {mask}."),
)
_DONE = (
    "The {thing} {is_} something that you can {mask}.",
    "If they have the {thing}, people can {mask} {it}.",
    "What shall we do with the {thing}? We could {mask} {it}.",
)
_PLURAL = frozenset({"stairs", "savings", "profits", "wages", "drums", "beans", "noodles"})


def _table(name: str) -> list[str]:
    tables: dict[str, str] = tomllib.loads(Path(__file__).with_name("objects.toml").read_text(encoding="utf-8"))
    return tables[name].strip().splitlines()


def things() -> dict[str, dict[str, float]]:
    """Everyday objects with their ``size``, the longest side in metres, and its ``weight`` in kilograms."""
    rows = (row.split() for line in _table("things") for row in line.split("|"))
    return {name: {"size": float(size), "weight": float(weight)} for name, size, weight in rows}


def comparison_items(by: Literal["size", "weight"]) -> tuple[ClozeItem, ...]:
    """Questions for the larger, or the heavier, of two objects.

    Objects are paired at random by a fixed seed, each used once, with one at least ten times as large as the other.
    Every pair is asked in both orders, in three wordings: the answer is *larger* as often as *smaller*, so that a
    constant answer is right half the time. Groups state how far apart the two are.
    """
    measure = {name: of_thing[by] for name, of_thing in things().items()}
    words = {"size": ("larger", "smaller"), "weight": ("heavier", "lighter")}[by]
    left, n_pairs, items = drawn_order(list(measure), f"pairs by {by}"), 0, list[ClozeItem]()
    while left:
        # Each object with the first one left that is far enough from it; pairs over and under _FAR times are sought
        # by turns, so that there are about as many of both.
        one = left.pop(0)
        ratios = [max(measure[one], measure[other]) / min(measure[one], measure[other]) for other in left]
        enough = [place for place, ratio in enumerate(ratios) if ratio >= _LEAST_RATIO]
        wanted = [place for place in enough if (ratios[place] >= _FAR) == n_pairs % 2]
        if not enough:
            continue
        place, n_pairs = (wanted or enough)[0], n_pairs + 1
        other, is_far = left.pop(place), ratios[place] >= _FAR
        group = f"over {_FAR} times" if is_far else f"{_LEAST_RATIO} to {_FAR} times"
        for first, second in ((one, other), (other, one)):
            good, bad = words if measure[first] > measure[second] else words[::-1]
            a, b = (f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in (first, second))
            for wording, (text, blind) in enumerate(_COMPARED):
                text, blind = text.format(A=a.capitalize(), a=a, b=b, mask=MASK), blind.format(mask=MASK)
                name, cluster = f"{first}-{second}-{wording}", f"{one} {other}"
                items.append(ClozeItem(name, cluster, group, text, good, rivals=(bad,), blind=blind))
    return tuple(items)


def affordance_items() -> tuple[ClozeItem, ...]:
    """Questions for what people can do with an object: 80 objects of ten actions, three wordings, 240 items.

    Actions rival one another in pairs (*eat* and *read*), and so do their objects: *apple* is asked with *eat* for
    right and *read* for wrong, *book* the other way about. A constant answer is right half the time.
    """
    objects = dict(line.split(": ") for line in _table("affordances"))
    items: list[ClozeItem] = []
    for one, other in _EXCHANGED:
        for thing, counterpart in zip(objects[one].split(), objects[other].split(), strict=True):
            for name, good, bad in ((thing, one, other), (counterpart, other, one)):
                forms = ("are", "them") if name in _PLURAL else ("is", "it")
                wordings = [text.replace("{is_}", forms[0]).replace("{it}", forms[1]) for text in _DONE]
                cluster, group = f"{thing} {counterpart}", f"{one} or {other}"
                items += _worded(name, cluster, group, good, [bad], wordings, thing=name)
    return tuple(items)


def read_winogender(source: str | Path) -> Iterator[ClozeItem | LeftOut]:
    """Sentences of Winogender with a mask for the pronoun, by what it refers to: ``occupation`` or ``participant``.

    A sentence is four lines, as in ``WinoGender.txt`` of the data set ``dpr``: the text with ``[MASK]``, the mask, the
    occupation and the participant with a comma between them, and the one that is meant. The pronouns, which are not in
    it, are *his* and *her* before *'s*, *him* and *her* before *to* and *upon*, and else *he* and *she*; ``good`` is
    the masculine one. Sentences with *The someone* are left out, as no English.

    Where ``occupations-stats.tsv`` of Winogender's own repository lies next to it, each occupation is a group of its
    own, with the share of women (``bls_pct_female``); those that it does not have are left out.

    Raises:
        CorpusError: there is no such file, or a sentence or share is not as it should be.
    """
    path = data_path(source)
    if path.is_file() and suffix_of(path) != ".txt":
        raise ITEM_FORMS["choices"].unknown(path, names_of_columns(path), nor="those of WinoGender.txt")
    path = path / "WinoGender.txt" if path.is_dir() else path
    file, shares = path.with_name("occupations-stats.tsv"), dict[str, str]()
    for table, names in _items.required_tables(file, _items.STATISTICS) if file.is_file() else ():
        for row in table.rows():
            _items.share_group(shares, row.text(names["occupation"][0]), row, names["bls_pct_female"][0])
    for number, lines in line_blocks(path):
        text, _, candidates, meant = map(str.strip, lines) if len(lines) == 4 else [""] * 4
        occupation, _, participant = candidates.partition(",")
        if text.count("[MASK] ") != 1 or not participant or meant not in (occupation, participant):
            due = "a text with one [MASK], the mask, occupation,participant and the one of them that is meant"
            raise wrong(f"{path}:{number}", " / ".join(lines), due)
        before, after = text.split("[MASK] ")
        is_object, is_possessive = after.split()[0] in ("to", "upon"), after.startswith(_GENITIVE)
        he, she = ("his", "her") if is_possessive else ("him", "her") if is_object else ("he", "she")
        name, group = f"winogender-{number}", "occupation" if meant == occupation else "participant"
        if shares and group == "occupation":
            group = shares.get(occupation, "")
        if text.startswith("The someone") or not group:
            yield LeftOut(name, group or occupation, "the someone: no English" if group else _items.NO_SHARE)
        else:
            text = f"{before}{MASK} {after.removeprefix(_GENITIVE)}"
            yield ClozeItem(name, occupation, group, text, he, rivals=(she,), kind="winogender")
