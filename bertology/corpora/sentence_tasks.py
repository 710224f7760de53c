"""The ten probing tasks of Conneau et al. (2018) made from a treebank: sentences, some of them changed, with labels."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from statistics import median
from typing import Final

from bertology._names import name_not_found
from bertology.corpora._corpus import Corpus
from bertology.corpora._sentences import Sentence, Sentences, Target
from bertology.errors import CorpusError

_FEWEST_WORDS, _MOST_WORDS = 5, 28
_RAREST_LABEL, _AT_MOST = 0.05, 3
_CLAUSE_LEVEL = ("nsubj", "csubj", "expl")


@dataclass(frozen=True)
class Row:
    """A sentence and its place, with what the rules ask of its annotation."""

    sentence: Sentence
    split: str

    def __len__(self) -> int:
        return len(self.sentence)

    def tag(self, layer: str, word: int) -> str:
        """The label of a word, empty where it has none."""
        values = self.sentence.layers.get(layer)
        return (values[word] if values else None) or ""

    def feature(self, word: int, name: str) -> str:
        """The value of a feature of a word, empty where it has none."""
        pairs = (pair.partition("=") for pair in self.tag("feats", word).split("|"))
        return next((value for key, _, value in pairs if key == name), "")

    def relation(self, word: int) -> str:
        """The relation of a word to its head, without its subtype."""
        return self.tag("deprel", word).partition(":")[0]

    @cached_property
    def root(self) -> int | None:
        """The one word without a head."""
        heads = self.sentence.heads
        return heads.index(0) if heads and heads.count(0) == 1 else None

    def below(self, word: int, *relations: str) -> list[int]:
        """The dependents of a word, of some relations or of any, in order."""
        heads = self.sentence.heads or ()
        found = [place for place, head in enumerate(heads) if head == word + 1]
        return [place for place in found if self.relation(place) in relations] if relations else found

    def depths(self) -> list[int]:
        """Number of dependencies from the root to each word."""
        heads, depths = self.sentence.heads or (), []
        for word in range(len(heads)):
            depth = 0
            while heads[word]:
                word, depth = heads[word] - 1, depth + 1
            depths.append(depth)
        return depths

    def descendants(self, word: int) -> set[int]:
        """A word and all below it."""
        found, todo = {word}, [word]
        while todo:
            new = self.below(todo.pop())
            found.update(new)
            todo += new
        return found

    def is_clause(self, word: int) -> bool:
        """Whether a word has a subject."""
        return bool(self.below(word, *_CLAUSE_LEVEL))

    @property
    def phrases(self) -> Sequence[Target]:
        """The phrases of the sentence, each before those inside it."""
        return self.sentence.targets.get("constituents", ())


@dataclass(frozen=True)
class Item:
    """A sentence, changed or not, in a split, and its label."""

    split: str
    sentence: Sentence
    label: str


@dataclass(frozen=True)
class Rows:
    """All sentences that tasks are made of."""

    rows: tuple[Row, ...]
    seed: int
    splits: tuple[str, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def draw(self, *parts: Hashable) -> float:
        """A number in [0, 1) that depends on the parts and the seed alone."""
        digest = blake2b(repr((self.seed, *parts)).encode("utf-8", "surrogatepass"), digest_size=6).digest()
        return int.from_bytes(digest, "big") / 2**48

    def drawn(self, rows: Iterable[Row], task: str) -> list[Row]:
        """Rows in an order drawn at random."""
        return sorted(rows, key=lambda row: self.draw(task, row.sentence.text))

    def split_of(self, form: str) -> str:
        """The split that a form belongs to, as probable as it has sentences."""
        place = self.draw("form", form) * len(self.rows)
        for split in self.splits[:-1]:
            place -= self.sizes[split]
            if place < 0:
                return split
        return self.splits[-1]

    @cached_property
    def sizes(self) -> Counter[str]:
        """Sentences of each split."""
        return Counter(row.split for row in self.rows)

    def train(self) -> list[Row]:
        """The rows of the training split."""
        return [row for row in self.rows if row.split == "train"]

    def balanced(self, items: Iterable[Item], task: str) -> list[Item]:
        """Equally many items of each label in each split; labels of under one item in twenty are not asked about."""
        groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
        for item in items:
            groups[item.split, item.label].append(item)
        train = {label: len(group) for (split, label), group in groups.items() if split == "train"}
        labels = {label for label, n in train.items() if n >= _RAREST_LABEL * sum(train.values())}
        most = {split: min((len(groups[split, label]) for label in labels), default=0) for split in self.splits}
        kept = []
        for (split, label), group in groups.items():
            if label in labels:
                group.sort(key=lambda item: self.draw(task, item.sentence.text))
                kept += group[: most[split]]
        return kept

    def capped(self, items: Iterable[Item], task: str) -> list[Item]:
        """Items of which each split has at most thrice as many of a label as of the label in the middle."""
        groups: dict[str, dict[str, list[Item]]] = {split: defaultdict(list) for split in self.splits}
        for item in items:
            groups[item.split][item.label].append(item)
        kept = []
        for by_label in filter(None, groups.values()):
            most = int(_AT_MOST * median(map(len, by_label.values())))
            for group in by_label.values():
                kept += sorted(group, key=lambda item: self.draw(task, item.sentence.text))[:most]
        return kept

    def halves(self, rows: Collection[Row], task: str, change: Callable[[Row], Sentence], label: str) -> list[Item]:
        """Items of each split, half as they are, ``original``, and half changed; one too many is left out."""
        items = []
        for split in self.splits:
            of_split = self.drawn((row for row in rows if row.split == split), task)
            half = len(of_split) // 2
            items += [Item(split, bare(row), "original") for row in of_split[:half]]
            for row in of_split[half : 2 * half]:
                items.append(Item(split, replace(change(row), id=f"{row.sentence.id}/{task}"), label))
        return items


def rows_of(corpus: Corpus, *, seed: int) -> Rows:
    """The sentences of usual length of all splits, each text once, with ids of their own."""
    splits = tuple(split for split in ("train", "dev", "test") if split in corpus)
    rows, seen = [], set()
    for split in splits:
        for number, sentence in enumerate(corpus[split]):
            if _FEWEST_WORDS <= len(sentence) <= _MOST_WORDS and sentence.text not in seen:
                seen.add(sentence.text)
                rows.append(Row(replace(sentence, id=f"{split}/{number}/{sentence.id}"), split))
    return Rows(tuple(rows), seed, splits)


def bare(row: Row) -> Sentence:
    """The sentence without its annotation."""
    sentence = row.sentence
    return Sentence(sentence.id, sentence.text, sentence.words, sentence.spans)


_BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
_CONTENT = ("NOUN", "VERB", "ADJ", "ADV")
_MOST_VOCABULARY, _SENTENCES_A_WORD = 1000, 100
_N_DEPTHS = 3
_N_TOPS = 19
_TENSES = {"Pres": "present", "Past": "past"}
_NUMBERS = {"Sing": "singular", "Plur": "plural"}


def length(rows: Rows) -> list[Item]:
    """Bins of the number of words."""
    bins = {n: f"{first}-{last}" for first, last in _BINS for n in range(first, last + 1)}
    return rows.balanced((Item(row.split, bare(row), bins[len(row)]) for row in rows), "length")


def words(rows: Rows) -> list[Item]:
    """The one word of a vocabulary that a sentence holds."""
    train = rows.train()
    tags: dict[str, Counter[bool]] = defaultdict(Counter)
    for row in train:
        for word, form in enumerate(row.sentence.words):
            tags[form.lower()][row.tag("upos", word) in _CONTENT] += 1
    counts = {form: sum(of.values()) for form, of in tags.items() if form.isalpha() and of[True] > of[False]}
    size = min(_MOST_VOCABULARY, len(train) // _SENTENCES_A_WORD)
    vocabulary = set(sorted(counts, key=lambda form: (-counts[form], form))[:size])
    items = []
    for row in rows:
        held = [form for form in map(str.lower, row.sentence.words) if form in vocabulary]
        if len(held) == 1:
            items.append(Item(row.split, bare(row), held[0]))
    return rows.capped(items, "words")


def depth(rows: Rows) -> list[Item]:
    """Three adjacent depths of trees, equally many sentences of each depth at each length."""
    cells: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    deepest = 0
    for row in rows:
        if (of_row := _depth(row)) is not None:
            cells[row.split, len(row), of_row].append(row)
            deepest = max(deepest, of_row)
    lengths = {(split, n) for split, n, _ in cells}

    def left(first: int) -> dict[tuple[str, int], int]:
        """Number of sentences of each depth that remain at each length, with depths from ``first`` on."""
        depths = range(first, first + _N_DEPTHS)
        return {(split, n): min(len(cells.get((split, n, of_row), ())) for of_row in depths) for split, n in lengths}

    first = max(range(1, deepest), key=lambda first: sum(left(first).values()), default=1)
    items = []
    for (split, n), most in sorted(left(first).items()):
        for of_row in range(first, first + _N_DEPTHS):
            kept = rows.drawn(cells.get((split, n, of_row), ()), "depth")[:most]
            items += [Item(split, bare(row), str(of_row)) for row in kept]
    return items


def _depth(row: Row) -> int | None:
    """Phrases over the deepest word, or else dependencies from the root to it."""
    if row.phrases:
        over = [0] * len(row)
        for phrase in row.phrases:
            for word in range(*phrase.span1):
                over[word] += 1
        return max(over)
    return None if row.root is None else max(row.depths())


def top(rows: Rows) -> list[Item]:
    """The most frequent sequences at the top of trees, and OTHER."""
    found = [(row, sequence) for row in rows if (sequence := _sequence(row))]
    counts = Counter(sequence for row, sequence in found if row.split == "train")
    frequent = sorted(counts, key=lambda sequence: (-counts[sequence], sequence))[:_N_TOPS]
    labels = ((row, sequence if sequence in frequent else "OTHER") for row, sequence in found)
    return rows.capped((Item(row.split, bare(row), label) for row, label in labels), "top")


def _sequence(row: Row) -> str:
    """The sequence just below the top: phrases and tags of words, or else relations with the root in its place."""
    if row.phrases:
        labels, word = [], 0
        inside = [phrase for phrase in row.phrases if phrase.span1 != (0, len(row))]
        while word < len(row):
            phrase = next((phrase for phrase in inside if phrase.span1[0] == word), None)
            labels.append(str(phrase.label) if phrase else row.tag("xpos", word) or row.tag("upos", word) or "word")
            word = phrase.span1[1] if phrase else word + 1
        return " ".join(labels)
    if row.root is None:
        return ""
    return " ".join(
        "root" if word == row.root else row.relation(word) for word in sorted([row.root, *row.below(row.root)])
    )


def tense(rows: Rows) -> list[Item]:
    """Tense of the main verb."""

    def label(row: Row, word: int) -> str | None:
        is_finite = row.tag("upos", word) == "VERB" and row.feature(word, "VerbForm") == "Fin"
        return _TENSES.get(row.feature(word, "Tense")) if is_finite else None

    return _by_form(rows, "tense", lambda row, root: [root], label)


def number_of(relation: str) -> Callable[[Rows], list[Item]]:
    """The task that asks for the number of the noun which is in a relation to the root."""

    def label(row: Row, word: int) -> str | None:
        return _NUMBERS.get(row.feature(word, "Number")) if row.tag("upos", word) == "NOUN" else None

    def make(rows: Rows) -> list[Item]:
        return _by_form(rows, relation, lambda row, root: row.below(root, relation), label)

    return make


def _by_form(
    rows: Rows, task: str, words: Callable[[Row, int], list[int]], label: Callable[[Row, int], str | None]
) -> list[Item]:
    """Sentences labelled by one word of theirs, in the split that the word's form belongs to."""
    items = []
    for row in rows:
        places = words(row, row.root) if row.root is not None else []
        if len(places) == 1 and (value := label(row, places[0])):
            split = rows.split_of(row.sentence.words[places[0]].lower())
            items.append(Item(split, bare(row), value))
    return rows.balanced(items, task)


_QUOTES = frozenset('"“”„«»')
_MARKS = _QUOTES | frozenset("()[]")
_RAREST, _FACTOR = 5, 2
_VOWELS = frozenset("aeiou")
_Piece = tuple[int, int, str | None]
"""Part of a text by its place; or what stands there instead of the one word that it is."""


def shift(rows: Rows) -> list[Item]:
    """Two adjacent words inverted."""
    pairs = {row.sentence.id: found for row in rows if (found := _pairs(row))}

    def inverted(row: Row) -> Sentence:
        found = pairs[row.sentence.id]
        word = found[int(rows.draw("pair", row.sentence.text) * len(found))]
        (one, end), (other, last) = row.sentence.spans[word : word + 2]
        places = ((0, one), (other, last), (end, other), (one, end), (last, len(row.sentence.text)))
        return _pieced(row.sentence, [(*place, None) for place in places])

    return rows.halves([row for row in rows if row.sentence.id in pairs], "shift", inverted, "inverted")


def _pairs(row: Row) -> list[int]:
    """The first words of the pairs that can be inverted: two words between spaces, different, and no punctuation."""
    sentence = row.sentence
    if _QUOTES & set(sentence.text):
        return []
    # Of letters or digits alone, and no part of a token.
    whole = [sentence.words[word].isalnum() and _free(row, word) for word in range(len(row))]
    apart = [sentence.text[end:start].isspace() for (_, end), (start, _) in pairwise(sentence.spans)]
    lower = [word.lower() for word in sentence.words]
    return [
        word
        for word in range(1, len(row) - 1)
        if whole[word] and whole[word + 1] and apart[word - 1] and apart[word] and lower[word] != lower[word + 1]
    ]


def _free(row: Row, word: int) -> bool:
    """Whether what a word shows in the text is its own: no part of a token, and no clitic follows it."""
    sentence = row.sentence
    start, end = sentence.spans[word]
    joined = word + 1 < len(row) and sentence.spans[word + 1][0] <= end and row.tag("upos", word + 1) != "PUNCT"
    return sentence.text[start:end] == sentence.words[word] and not joined


@dataclass(frozen=True)
class _Counts:
    """Frequencies of words, of pairs of words, and of words of one tag and features."""

    words: Counter[str]
    pairs: Counter[tuple[str, str]]
    alike: dict[tuple[str, ...], list[tuple[int, str]]]
    """Forms with their frequencies, in ascending order, by tag, features, initial and split."""

    @classmethod
    def of(cls, rows: Rows) -> _Counts:
        words: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        kinds: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        for row in rows:
            forms = _forms(row)
            words.update(forms)
            pairs.update(pairwise(forms))
            for word, form in enumerate(forms[1:-1]):
                if _can_be_odd(row, word):
                    kinds[form][_kind(row, word)] += 1
        alike: dict[tuple[str, ...], list[tuple[int, str]]] = defaultdict(list)
        for form, of_form in sorted(kinds.items()):
            # a form counts where more than half of its occurrences are of one kind
            kind, n = of_form.most_common(1)[0]
            if 2 * n > words[form] >= _RAREST:
                alike[*kind, rows.split_of(form)].append((words[form], form))
        return cls(words, pairs, {kind: sorted(forms) for kind, forms in alike.items()})

    def comparable(self, old: tuple[str, str], new: tuple[str, str]) -> bool:
        """Whether two pairs occur as often by a factor, the old one's own occurrence not counted."""
        times = self.pairs[old], 1 + self.pairs[new]
        return max(times) <= _FACTOR * min(times)


def odd_word(rows: Rows) -> list[Item]:
    """A noun or verb replaced by one of the same tag and features, and of similar frequency."""
    counts = _Counts.of(rows)
    chosen = {row.sentence.id: found for row in rows if (found := _replacement(row, rows, counts))}

    def changed(row: Row) -> Sentence:
        word, form = chosen[row.sentence.id]
        start, end = row.sentence.spans[word]
        return _pieced(row.sentence, [(0, start, None), (start, end, form), (end, len(row.sentence.text), None)])

    # Each sentence is in the split of its word, which is that of what may replace it. If splits stayed as they are,
    # forms of test would be taken out of sentences of train and never put in: what a bag of words learns to be rare
    # in changed sentences would be what is put into those of test.
    asked = [row for row in rows if row.sentence.id in chosen]
    divided = [replace(row, split=rows.split_of(row.sentence.words[chosen[row.sentence.id][0]])) for row in asked]
    return rows.halves(divided, "odd_word", changed, "changed")


def _replacement(row: Row, rows: Rows, counts: _Counts) -> tuple[int, str] | None:
    """A word of the sentence and what can replace it, both drawn, of one split; None where there is none."""
    forms, text = _forms(row), row.sentence.text
    for word in sorted(range(1, len(row)), key=lambda word: rows.draw("word", text, word)):
        old = row.sentence.words[word]
        n = counts.words[old]
        if n < _RAREST or not _can_be_odd(row, word):
            continue
        known = counts.alike.get((*_kind(row, word), rows.split_of(old)), [])
        first, last = bisect_left(known, (n / _FACTOR, "")), bisect_left(known, (_FACTOR * n + 1, ""))
        before, after = forms[word], forms[word + 2]
        fitting = [
            new
            for _, new in known[first:last]
            if counts.comparable((before, old), (before, new))
            and counts.comparable((old, after), (new, after))
            and new != old
        ]
        if fitting:
            return word, fitting[int(rows.draw("new", text) * len(fitting))]
    return None


def _can_be_odd(row: Row, word: int) -> bool:
    form = row.sentence.words[word]
    return row.tag("upos", word) in ("NOUN", "VERB") and form.isalpha() and form.islower() and _free(row, word)


def _forms(row: Row) -> list[str]:
    """The words of a sentence in lower case, with its ends."""
    return ["<s>", *map(str.lower, row.sentence.words), "</s>"]


def _kind(row: Row, word: int) -> tuple[str, ...]:
    """Tag and features of a word, and whether it begins with a vowel, by which *a* and *an* are chosen."""
    begins = str(row.sentence.words[word][0].lower() in _VOWELS)
    return row.tag("upos", word), row.tag("xpos", word), row.tag("feats", word), begins


@dataclass(frozen=True)
class _Clauses:
    """The words of two coordinated clauses; what lies between and after them stays in its place."""

    first: tuple[int, int]
    second: tuple[int, int]

    @property
    def longer(self) -> int:
        """1 where the first has more words, −1 where the second has, else 0."""
        one, other = (end - start for start, end in (self.first, self.second))
        return (one > other) - (one < other)


def coordination(rows: Rows) -> list[Item]:
    """Two clauses inverted; of each split as many sentences with a longer first clause as with a longer second one."""
    clauses = {row.sentence.id: found for row in rows if (found := _clauses(row))}

    def inverted(row: Row) -> Sentence:
        return _inverted(row, clauses[row.sentence.id])

    by_length: dict[int, list[Row]] = {1: [], -1: [], 0: []}
    for split in rows.splits:
        of_split = rows.drawn((row for row in rows if row.split == split and row.sentence.id in clauses), "clauses")
        groups = {sign: [row for row in of_split if clauses[row.sentence.id].longer == sign] for sign in by_length}
        most = min(len(groups[1]), len(groups[-1]))
        for sign, group in groups.items():
            by_length[sign] += group[:most] if sign else group
    return [item for kept in by_length.values() for item in rows.halves(kept, "coordination", inverted, "inverted")]


def _clauses(row: Row) -> _Clauses | None:
    """The root's clause and the one clause joined to it by a conjunction, where they make up the sentence."""
    joined = [] if row.root is None or _MARKS & set(row.sentence.text) else row.below(row.root, "conj")
    if row.root is None or len(joined) != 1 or not (row.is_clause(row.root) and row.is_clause(joined[0])):
        return None
    inside = sorted(row.descendants(joined[0]))
    begin, end = inside[0], inside[-1] + 1
    marks = row.below(joined[0], "cc")
    is_last = all(row.tag("upos", word) == "PUNCT" for word in range(end, len(row)))
    if len(inside) != end - begin or not is_last or len(marks) != 1 or row.root >= begin:
        return None
    if any(row.tag("upos", word) != "PUNCT" for word in range(begin, marks[0])):
        return None
    first, second, last = begin, marks[0] + 1, end
    while first and row.tag("upos", first - 1) == "PUNCT":
        first -= 1
    while last > second and row.tag("upos", last - 1) == "PUNCT":
        last -= 1
    is_own = all(
        row.sentence.text[slice(*row.sentence.spans[word])] == row.sentence.words[word] for word in (0, second)
    )
    return _Clauses((0, first), (second, last)) if is_own and last > second and first else None


def _inverted(row: Row, clauses: _Clauses) -> Sentence:
    sentence, spans = row.sentence, row.sentence.spans
    (_, first), (second, last) = clauses.first, clauses.second
    (begin, new), stop, end = spans[second], spans[first - 1][1], spans[last - 1][1]
    one, other, lemma = sentence.words[0], sentence.words[second], row.tag("lemma", 0)
    keeps = lemma[:1].isupper() if lemma else row.tag("upos", 0) == "PROPN"
    return _pieced(
        sentence,
        [
            (begin, new, other if one[0].islower() else other[0].upper() + other[1:]),
            (new, end, None),
            (stop, begin, None),
            (0, spans[0][1], one if keeps else one[0].lower() + one[1:]),
            (spans[0][1], stop, None),
            (end, len(sentence.text), None),
        ],
    )


def _pieced(sentence: Sentence, pieces: list[_Piece]) -> Sentence:
    """The sentence that pieces of a text make up in their order; each word lies in one, and none stays behind."""
    text, words = "", list[str]()
    spans: list[tuple[int, int]] = []
    for start, end, form in pieces:
        inside = [word for word, (first, last) in enumerate(sentence.spans) if start <= first and last <= end]
        words += [sentence.words[word] for word in inside] if form is None else [form]
        if form is None:
            moved = len(text) - start
            spans += [(first + moved, last + moved) for first, last in map(sentence.spans.__getitem__, inside)]
        else:
            spans.append((len(text), len(text) + len(form)))
        text += sentence.text[start:end] if form is None else form
    assert len(words) == len(sentence), f"{sentence.id}: a word in none of the pieces"
    return Sentence(sentence.id, text, tuple(words), tuple(spans))


_MAKERS: Final[Mapping[str, Callable[[Rows], list[Item]]]] = {
    "length": length,
    "words": words,
    "depth": depth,
    "top": top,
    "shift": shift,
    "tense": tense,
    "subject_number": number_of("nsubj"),
    "object_number": number_of("obj"),
    "odd_word": odd_word,
    "coordination": coordination,
}
SENTENCE_TASKS: Final = tuple(_MAKERS)
"""The tasks, in the order of the paper."""


def sentence_target(task: str) -> str:
    """The name of the targets that hold the labels of a task: ``sentence:tense``.

    Raises:
        NameNotFoundError: there is no such task.
    """
    if task not in _MAKERS:
        raise name_not_found("task of sentences", task, SENTENCE_TASKS)
    return f"sentence:{task}"


def sentence_tasks(corpus: Corpus, *, tasks: Collection[str] = SENTENCE_TASKS, seed: int = 0) -> Corpus:
    """The probing tasks of Conneau et al. (2018) made from a treebank, as ``sentence_tasks:CORPUS`` names it.

    Only sentences of 5 to 28 words are used, each text once, in ``train``, ``dev`` and ``test``. What a task asks is
    the label of one target over the whole sentence, ``sentence:tense`` for ``tense``; rules that need more text than a
    treebank has, or phrases where it has none, are adapted, as stated:

    - ``length``: words in six bins (5–8, 9–12, 13–16, 17–20, 21–25, 26–28), equally many of each.
    - ``words``: which of up to 1,000 words the sentence holds, exactly once and none of the others: of nouns, verbs,
      adjectives and adverbs the most frequent of train, one for each 100 of its sentences, none over thrice as
      often as the median.
    - ``depth``: how deep the tree is, in phrases over a word, or else in dependencies from the root: the three adjacent
      depths that leave most sentences when each length has equally many of each depth, so that length predicts nothing.
    - ``top``: the sequence of phrases (and words) just below the whole sentence, or else of relations below the root
      with ``root`` in its place: the 19 most frequent of train, and OTHER, none over thrice as often as the median.
    - ``tense``: whether the main verb, finite and no auxiliary, is present or past.
    - ``subject_number``, ``object_number``: whether the noun that is the root's subject or object is plural.
    - ``shift``: whether two adjacent words (not the first, no punctuation) have changed places, in texts without
      quotes.
    - ``odd_word``: whether a noun or verb was replaced by another of the same tag and features, at least 5 and half to
      twice as frequent, whose bigrams with its neighbours occur as often by a factor of 2 (counts plus one, the
      sentence itself not counted).
    - ``coordination``: whether the two clauses of a coordination at the top have changed places, in texts without
      quotes and brackets; for each label as many sentences with the longer clause first as with the shorter one.

    Labels of the tasks of two classes are equally frequent in each split, by leaving out what is too much. In
    ``tense`` and the numbers no form of the word asked about is in two splits, and in ``odd_word`` no form that is
    replaced or replaces another: sentences of all splits are divided anew by form. They stand in an order drawn at
    random.

    Args:
        corpus: the treebank, with parts of speech and heads.
        tasks: the tasks to make.
        seed: seed of all draws, which depend on it and on the sentences alone.

    Raises:
        NameNotFoundError: there is no such task.
        CorpusError: the corpus has no train or no test split, or no task can be made from it.
    """
    corpus = corpus.divided()
    for split in ("train", "test"):
        if split not in corpus:
            raise CorpusError(f"sentence_tasks:{corpus.name}: no split {split}; give a treebank with train and test")
    rows = rows_of(corpus, seed=seed)
    made: dict[str, dict[str, Sentence]] = {split: {} for split in rows.splits}
    counts = {}
    for task in tasks:
        target = sentence_target(task)
        items = _MAKERS[task](rows)
        sizes = Counter(item.split for item in items)
        counts[task] = ", ".join(f"{sizes[split]:,} {split}" for split in rows.splits) + " sentences"
        for item in items:
            sentence = made[item.split].setdefault(item.sentence.id, item.sentence)
            whole = {target: (Target((0, len(sentence)), item.label),)}
            made[item.split][sentence.id] = replace(sentence, targets={**sentence.targets, **whole})
    if not any(made["train"].values()):
        raise CorpusError(
            f"sentence_tasks:{corpus.name}: no task can be made; give a treebank with upos, feats, heads and sentences "
            "of 5 to 28 words"
        )
    # In random order, so that the first ones, to which a run may be limited, are of all tasks and labels.
    splits = {
        split: Sentences(sorted(of.values(), key=lambda sentence: rows.draw("order", sentence.id)))
        for split, of in made.items()
    }
    return replace(
        corpus,
        name=f"sentence_tasks:{corpus.name}",
        splits=splits,
        notes={**corpus.notes, **{f"sentence:{task}": text for task, text in counts.items()}, "seed": str(seed)},
    )
