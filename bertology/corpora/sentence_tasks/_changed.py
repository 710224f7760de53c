"""Changed sentences: two words or two clauses that have changed places, and a word replaced by another."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

from bertology.corpora._sentence import Sentence
from bertology.corpora.sentence_tasks._items import Item, Row, Rows

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
    """How often words, pairs of words, and words of one tag and features occur."""

    words: Counter[str]
    pairs: Counter[tuple[str, str]]
    alike: dict[tuple[str, ...], list[tuple[int, str]]]
    """By tag, features, initial and split the forms with their frequencies, in ascending order."""

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
