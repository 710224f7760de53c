"""Items of Ettinger (2020), of documents, and made by rule: numbers, and everyday objects of tables of our own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeVar

from bertology._inputs import given_path
from bertology.corpora._files import Oddities, T, line_blocks, split_files, suffix_of
from bertology.corpora._named import load_corpus
from bertology.corpora._sentences import Sentence, document_starts
from bertology.corpora._tables import JSON_SUFFIXES, Tables
from bertology.corpora.formats.conllu import CoNLLU
from bertology.corpora.prompts._items import MADE, TableItem, columns_of, not_items, records
from bertology.errors import CorpusError, quoted

_ARTICLE = "(a|an)"
_CPRAG = ("item", "context_s1", "context_s2", "expected", "within_category", "between_category", "constraint")
_ROLE = ("item", "context", "expected", "exp_cloze", "target", "tgt_cloze", "tgt_cloze(strict)")
_SIMPLE = ("item", "context_aff", "context_neg", "target_aff", "target_neg")
_NATURAL = (*_SIMPLE, "licensing")
_SETS = {_CPRAG: "CPRAG-102", _ROLE: "ROLE-88", _SIMPLE: "NEG-136-SIMP", _NATURAL: "NEG-136-NAT"}
_CONSTRAINTS: Mapping[str, Literal["high", "low"]] = {"H": "high", "L": "low"}
_LICENSED = {"Y": True, "N": False}


@dataclass(frozen=True, slots=True)
class PragmaticItem:
    """An item of CPRAG-102: two sentences, the second without its last word, and three candidates for that word."""

    id: str
    first: str
    second: str
    """Up to the word to be predicted."""
    expected: str
    within_category: str
    between_category: str
    constraint: Literal["high", "low"]
    """Strength of the context's constraint on the word, by human judgements."""


@dataclass(frozen=True, slots=True)
class RoleItem:
    """An item of ROLE-88: a context up to its verb."""

    id: str
    """``61-a``; ``61-b`` has the same words with the roles reversed."""
    context: str
    expected: tuple[str, ...]
    """The most frequent human completions. Of a verb with its particle (*worked for*), both words."""
    target: str
    """The verb that fits the roles of ``a``, the same in both contexts."""

    @property
    def pair(self) -> str:
        """Identifier shared with the context of reversed roles."""
        return self.id.rpartition("-")[0]

    @property
    def reversed(self) -> bool:
        """Whether the roles are those that do not fit the target."""
        return self.id.endswith("-b")


@dataclass(frozen=True, slots=True)
class NegationItem:
    """An item of NEG-136: a context and its negation, with the word that makes each true and the other false."""

    id: str
    affirmative: str
    negated: str
    true_if_affirmative: str
    true_if_negated: str
    licensed: bool | None
    """Whether the negated sentence is pragmatically natural; None for the simple ones (*A robin is a bird*)."""


@dataclass(frozen=True)
class Diagnostics:
    """The items of the three sets; a missing set is empty."""

    pragmatic: tuple[PragmaticItem, ...] = ()
    roles: tuple[RoleItem, ...] = ()
    negation: tuple[NegationItem, ...] = ()
    """The simple ones, then the natural ones."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The file of each set, by name."""


def read_diagnostics(path: str | Path, *, asks: str = "choices") -> Diagnostics:
    """The items at ``path``: one of the TSV files, or a folder that holds some of them, at any depth.

    A file is known by its first line, whatever its name. Files of other columns in a folder are passed over.

    Raises:
        CorpusError: there is no such file, two hold the same set, or a line is not as it should be; the message names
            file and line.
    """
    path = given_path(path, error=CorpusError)
    files = sorted(path.rglob("*.tsv")) if path.is_dir() else [path]
    by_set: dict[str, Path] = {}
    for file in files:
        name = _SETS.get(tuple(columns_of(file)))
        if name in by_set:
            raise CorpusError(f"{path}: {by_set[name]} and {file} both hold {name}; keep one of them")
        if name is not None:
            by_set[name] = file
    if not by_set:
        if path.is_file():
            raise not_items(path, columns_of(path), asks, nor=f"those of {', '.join(_SETS.values())}")
        raise CorpusError(
            f"{path}: none of {', '.join(_SETS.values())} there; give a TSV file of them with its column names, "
            "or the folder that has them"
        )
    simple, natural = (_items(by_set.get(name), columns, _negation) for columns, name in list(_SETS.items())[2:])
    return Diagnostics(
        pragmatic=_items(by_set.get("CPRAG-102"), _CPRAG, _pragmatic),
        roles=_items(by_set.get("ROLE-88"), _ROLE, _role),
        negation=simple + natural,
        files=by_set,
    )


def with_article(context: str, word: str) -> str:
    """A context in which ``(a|an)`` is the article that the word after it takes."""
    return context.replace(_ARTICLE, "an" if word[:1].lower() in ("a", "e", "i", "o", "u") else "a")


Item = TypeVar("Item", PragmaticItem, RoleItem, NegationItem)


def _items(file: Path | None, columns: Sequence[str], make: Callable[[str, dict[str, str]], Item]) -> tuple[Item, ...]:
    """The items of a file, each made of the place of its row and the cells by column."""
    items: dict[str, Item] = {}
    for _, where, cells in records(file) if file else ():
        row = {column: str(cells.get(column, "")).strip() for column in columns}
        if empty := next((column for column in columns if not row[column]), ""):
            raise CorpusError(f"{where}: nothing in column {empty}; write it there")
        item = make(where, row)
        if item.id in items:
            raise CorpusError(f"{where}: a second item {quoted(item.id)}; give each a name of its own")
        items[item.id] = item
    if file and not items:
        raise CorpusError(f"{file}: no item in it, only column names; give the whole file")
    return tuple(items.values())


def _one_of(where: str, cells: Mapping[str, str], column: str, known: Mapping[str, T]) -> T:
    if cells[column] not in known:
        raise CorpusError(f"{where}: {quoted(cells[column])} in column {column}; it should be {' or '.join(known)}")
    return known[cells[column]]


def _pragmatic(where: str, cells: Mapping[str, str]) -> PragmaticItem:
    name, first, second, expected, within, between, _ = cells.values()
    constraint = _one_of(where, cells, "constraint", _CONSTRAINTS)
    return PragmaticItem(name, first, second, expected, within, between, constraint)


def _role(where: str, cells: Mapping[str, str]) -> RoleItem:
    if not cells["item"].endswith(("-a", "-b")):
        raise CorpusError(f"{where}: item {quoted(cells['item'])}; write a number and -a, or -b for the roles reversed")
    expected = tuple(word.strip() for word in cells["expected"].split("|") if word.strip())
    if not expected:
        raise CorpusError(f"{where}: no word in column expected; part words by |")
    return RoleItem(cells["item"], cells["context"], expected, cells["target"])


def _negation(where: str, cells: Mapping[str, str]) -> NegationItem:
    natural = "licensing" in cells
    name = f"{'natural' if natural else 'simple'}-{cells['item']}"
    licensed = _one_of(where, cells, "licensing", _LICENSED) if natural else None
    affirmative, negated, if_affirmative, if_negated = (cells[column] for column in _SIMPLE[1:])
    return NegationItem(name, affirmative, negated, if_affirmative, if_negated, licensed)


_ASKED_SPLITS = ("test", "dev")


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
        raise not_items(path, columns_of(path), "next_sentence", nor="documents")
    if path.is_file() and suffix_of(path) == ".txt":
        documents = tuple(
            Document(f"{path.stem}-{number}", tuple(" ".join(line.split()) for line in lines))
            for number, lines in line_blocks(path)
        )
        remedy = "part documents by a blank line"
    else:
        documents = tuple(_of_sentences(_sentences(source, path)))
        remedy = "mark where documents begin by a comment # newdoc"
    if sum(len(document.sentences) > 1 for document in documents) < 2:
        raise CorpusError(f"{source}: no two documents of several sentences in it; {remedy}")
    return documents


def _sentences(source: str | Path, path: Path) -> list[Sentence]:
    """The sentences of the split that is asked about; of a treebank no other split is read."""
    treebank = CoNLLU()
    if path.is_dir() and treebank.files(path):
        files = split_files(path, treebank.suffixes, what=treebank.title)
        return [sentence for file in files[_chosen(files)] for sentence in treebank.read(file, Oddities())]
    corpus = load_corpus(source)
    return list(corpus[_chosen(corpus.splits)])


def _chosen(splits: Iterable[str]) -> str:
    names = list(splits)
    return next((name for name in _ASKED_SPLITS if name in names), names[0])


def _of_sentences(sentences: Sequence[Sentence]) -> Iterator[Document]:
    starts = document_starts([one.group for one in sentences], [one.id for one in sentences])
    ends = [*(start for start, _ in starts[1:]), len(sentences)]
    for number, ((start, name), end) in enumerate(zip(starts, ends, strict=True), 1):
        yield Document(name or f"document-{number}", tuple(s.text for s in sentences[start:end]))


_UNITS, _TENS = (
    words.split()
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen",
        "twenty thirty forty fifty sixty seventy eighty ninety",
    )
)
_SIZES = ((0, 10, "0 to 9"), (10, 20, "10 to 19"), (20, 100, "20 to 99"))
_DECODE = (
    "In digits, the number {word} is {mask}.",
    "The number {word} is also written {mask}.",
    "{Word} means {mask}.",
)
_MAXIMUM = "Of the numbers {list}, the {which} is {mask}."
_ADDITION = ("{one} plus {other} equals {mask}.", "The sum of {one} and {other} is {mask}.")
_LENGTHS = (2, 3, 5)
_LISTS_OF_A_LENGTH = 60
_MOST_SUMS_OF_A_SIZE = 50
_N_RIVALS = 3


def _made(name: str, cluster: str, group: str, text: str, good: str, bad: tuple[str, ...], blind: str) -> TableItem:
    return TableItem(name, cluster, group, text, good=good, bad=bad, blind=blind)


def number_word(value: int) -> str:
    """The English word of a whole number from 0 to 99."""
    if not 0 <= value < 100:
        raise ValueError(f"{value} is not between 0 and 99")
    if value < len(_UNITS):
        return _UNITS[value]
    tens, unit = _TENS[value // 10 - 2], value % 10
    return f"{tens}-{_UNITS[unit]}" if unit else tens


def decode_items() -> tuple[TableItem, ...]:
    """The digits of a number word: every number from 0 to 99 in three wordings, 300 items.

    Rivals are three numbers drawn from those of the same size (0 to 9, 10 to 19, 20 to 99), so that how many digits
    the answer has does not decide.
    """
    items = []
    for first, end, group in _SIZES:
        for value in range(first, end):
            others = [other for other in range(first, end) if other != value]
            rivals = tuple(map(str, drawn_order(others, f"decode {value}")[:_N_RIVALS]))
            word = number_word(value)
            for place, wording in enumerate(_DECODE):
                text = wording.replace("{word}", word).replace("{Word}", word.capitalize())
                blind = wording.replace("{word}", "{mask}").replace("{Word}", "{mask}")
                items.append(_made(f"{value}-{place}", str(value), group, text, str(value), rivals, blind))
    return tuple(items)


def maximum_items() -> tuple[TableItem, ...]:
    """The largest and the smallest of a list of 2, 3 or 5 numbers: 60 lists of each length, 360 items.

    The numbers of a list differ and are drawn from 0 to 99; the largest stands at each place of the list equally
    often. The rivals are the other numbers of the list. As the same list is asked for its smallest number, whoever
    always takes the larger number, or the commoner, is right half the time.
    """
    items = []
    for length in _LENGTHS:
        for turn in range(_LISTS_OF_A_LENGTH):
            name = f"{length}-{turn}"
            numbers = drawn_order(range(100), f"list {name}")[:length]
            largest = numbers.index(max(numbers))
            place = turn % length
            numbers[place], numbers[largest] = numbers[largest], numbers[place]
            for which, answer in (("largest", max(numbers)), ("smallest", min(numbers))):
                text = _MAXIMUM.replace("{which}", which)
                rivals = tuple(str(number) for number in numbers if number != answer)
                *others, last = map(str, numbers)
                prompt = text.replace("{list}", f"{', '.join(others)} and {last}")
                blind = text.replace(" {list}", "")
                group = f"{which} of {length}"
                items.append(_made(f"{name}-{which}", name, group, prompt, str(answer), rivals, blind))
    return tuple(items)


def addition_items() -> tuple[TableItem, ...]:
    """Sums of two numbers: all 36 of 2 to 9, 50 drawn of 10 to 19 and of 20 to 99, two wordings, 272 items.

    No number is 0. Rivals are three drawn from those that are 1, 2 or 10 more or less than the sum, as a slip in
    counting or in a digit would give them. Additions of one sum are one frame: they have their answer in common, and
    how common a word that is may decide them all.
    """
    items = []
    for first, end, group in _SIZES:
        pairs = [(one, total - one) for total in range(max(first, 2), end) for one in range(1, total)]
        for one, other in drawn_order(pairs, f"sums {group}")[:_MOST_SUMS_OF_A_SIZE]:
            total = one + other
            near = [total + step for step in (-10, -2, -1, 1, 2, 10) if total + step >= 0]
            name = f"{one}+{other}"
            rivals = tuple(map(str, drawn_order(near, f"near {name}")[:_N_RIVALS]))
            for place, wording in enumerate(_ADDITION):
                text = wording.replace("{one}", str(one)).replace("{other}", str(other))
                blind = wording.replace("{one}", "{mask}").replace("{other}", "{mask}")
                items.append(_made(f"{name}-{place}", str(total), group, text, str(total), rivals, blind))
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
            raise not_items(path, columns_of(path), "choices")
        why = pocket if source == "pocket" else "items are made by rule and read from no file"
        raise CorpusError(f"{why}; give {MADE} for the corpus, or a table of such items")


_LEAST_RATIO = 10
"""Least ratio of the sizes or weights of a pair."""
_FAR = 100

_TABLES: Final[dict[str, str]] = tomllib.loads(Path(__file__).with_name("objects.toml").read_text(encoding="utf-8"))

_EXCHANGED = (("eat", "read"), ("drink", "drive"), ("wear", "sing"), ("climb", "spend"), ("play", "cook"))
"""Actions that rival one another: no thing of the one is a thing of the other."""
_COMPARED = (
    ("{A} is {mask} than {b}.", "One thing is {mask} than another."),
    ("Compared with {b}, {a} is {mask}.", "Compared with one thing, another is {mask}."),
    ("Next to {b}, {a} looks {mask}.", "Next to one thing, another looks {mask}."),
)
_DONE = (
    "The {thing} is something that you can {mask}.",
    "If they have the {thing}, people can {mask} it.",
    "What shall we do with the {thing}? We could {mask} it.",
)
_PLURAL = frozenset({"stairs", "savings", "profits", "wages", "drums", "beans", "noodles"})


@dataclass(frozen=True, slots=True)
class Thing:
    """An everyday object."""

    name: str
    size: float
    """Longest side, in metres."""
    weight: float
    """Weight in kilograms."""


def things() -> tuple[Thing, ...]:
    """All objects with their size and weight."""
    rows = [row.split() for line in _TABLES["things"].strip().splitlines() for row in line.split("|")]
    return tuple(Thing(name, float(size), float(weight)) for name, size, weight in rows)


def comparison_items(by: Literal["size", "weight"]) -> tuple[TableItem, ...]:
    """Questions for the larger, or the heavier, of two objects.

    Objects are paired at random by a fixed seed, each used once, with one at least ten times as large as the other.
    Every pair is asked in both orders, in three wordings: the answer is *larger* as often as *smaller*, so that a
    constant answer is right half the time. Groups state how far apart the two are.
    """
    more, less = {"size": ("larger", "smaller"), "weight": ("heavier", "lighter")}[by]
    items = []
    for one, other in _pairs_of_things(by):
        group = f"over {_FAR} times" if _ratio(one, other, by) >= _FAR else f"{_LEAST_RATIO} to {_FAR} times"
        for first, second in ((one, other), (other, one)):
            greater = first.size > second.size if by == "size" else first.weight > second.weight
            answer, rival = (more, less) if greater else (less, more)
            for place, (wording, blind) in enumerate(_COMPARED):
                a, b = _with_indefinite(first.name), _with_indefinite(second.name)
                text = wording.replace("{A}", a.capitalize()).replace("{a}", a).replace("{b}", b)
                name, frame = f"{first.name}-{second.name}-{place}", f"{one.name} {other.name}"
                items.append(_made(name, frame, group, text, answer, (rival,), blind))
    return tuple(items)


def affordance_items() -> tuple[TableItem, ...]:
    """Questions for what people can do with an object: 80 objects of ten actions, three wordings, 240 items.

    Actions rival one another in pairs (*eat* and *read*), and so do their objects: *apple* is asked with *eat* for
    right and *read* for wrong, *book* the other way about. A constant answer is right half the time.
    """
    objects = dict(line.split(": ") for line in _TABLES["affordances"].strip().splitlines())
    items = []
    for one, other in _EXCHANGED:
        for thing, counterpart in zip(objects[one].split(), objects[other].split(), strict=True):
            frame = f"{thing} {counterpart}"
            for name, answer, rival in ((thing, one, other), (counterpart, other, one)):
                for place, wording in enumerate(_DONE):
                    text = _fitting(wording, name)
                    prompt, blind = text.replace("{thing}", name), text.replace("{thing}", "{mask}")
                    group = f"{one} or {other}"
                    items.append(_made(f"{name}-{place}", frame, group, prompt, answer, (rival,), blind))
    return tuple(items)


def _pairs_of_things(by: Literal["size", "weight"]) -> list[tuple[Thing, Thing]]:
    """Every object of a drawn order with the first one left that is far enough from it.

    Pairs over and under :data:`_FAR` times are sought by turns, so that there are about as many of both.
    """
    left = drawn_order(things(), f"pairs by {by}")
    pairs: list[tuple[Thing, Thing]] = []
    while left:
        one = left.pop(0)
        apart = {place: _ratio(one, other, by) for place, other in enumerate(left)}
        enough = [place for place, ratio in apart.items() if ratio >= _LEAST_RATIO]
        wanted = [place for place in enough if (apart[place] >= _FAR) == len(pairs) % 2]
        if enough:
            pairs.append((one, left.pop((wanted or enough)[0])))
    return pairs


def _ratio(one: Thing, other: Thing, by: Literal["size", "weight"]) -> float:
    """Ratio of the sizes or weights of two objects, the larger over the smaller."""
    measures = (one.size, other.size) if by == "size" else (one.weight, other.weight)
    return max(measures) / min(measures)


def _with_indefinite(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _fitting(wording: str, name: str) -> str:
    """The wording in the number of the object."""
    if name not in _PLURAL:
        return wording
    return wording.replace("{thing} is something", "{thing} are something").replace("{mask} it.", "{mask} them.")
