"""Labels of sentences as they stand: length, words, depth, top, tense, and the number of subject and object."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from bertology.corpora.sentence_tasks._items import Item, Row, Rows, bare

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
        """How many sentences of each depth remain at each length, with depths from ``first`` on."""
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
    """What lies just below the top: phrases and tags of words, or else relations with the root in its place."""
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
