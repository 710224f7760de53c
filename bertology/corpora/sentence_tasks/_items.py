"""Sentences to make tasks of, items with labels, and what is drawn and left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from statistics import median

from bertology.corpora._corpus import Corpus
from bertology.corpora._sentence import Sentence, Target

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
        """How many dependencies lead from the root to each word."""
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
        """In each split at most thrice as many items of a label as of the label in the middle."""
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
        """Of the rows of each split half as they are, ``original``, and half changed; one too many is left out."""
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
