"""The ten probing tasks of Conneau et al. (2018) made from a treebank: sentences, some of them changed, with labels."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from statistics import median
from typing import Final

from bertology._names import check_name
from bertology.corpora._corpus import SPLITS, Corpus
from bertology.corpora._derived import changed_name
from bertology.corpora._sentences import Sentence, Sentences, Target, key_values
from bertology.errors import CorpusError

_FEWEST_WORDS, _MOST_WORDS = 5, 28
_RAREST_LABEL, _AT_MOST = 0.05, 3
_Item = tuple[str, Sentence, str]
"""Split, sentence, changed or not, and label."""


@dataclass(frozen=True)
class _Row:
    """A sentence and its place, with what the rules ask of its annotation."""

    sentence: Sentence
    split: str

    def tag(self, layer: str, word: int) -> str:
        """The label of a word, empty where it has none."""
        values = self.sentence.layers.get(layer)
        return (values[word] if values else None) or ""

    def feature(self, word: int, name: str) -> str:
        """The value of a feature of a word, empty where it has none."""
        return key_values(self.tag("feats", word)).get(name, "")

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
        found = [place for place, head in enumerate(self.sentence.heads or ()) if head == word + 1]
        return [place for place in found if self.relation(place) in relations] if relations else found

    def is_free(self, word: int) -> bool:
        """Whether what a word shows in the text is its own: no part of a token, and no clitic follows it."""
        text, words, spans = self.sentence.text, self.sentence.words, self.sentence.spans
        start, end = spans[word]
        joined = word + 1 < len(words) and spans[word + 1][0] <= end and self.tag("upos", word + 1) != "PUNCT"
        return text[start:end] == words[word] and not joined


@dataclass(frozen=True)
class _Rows:
    rows: tuple[_Row, ...]
    seed: int
    splits: tuple[str, ...]

    def draw(self, *parts: Hashable) -> float:
        """A number in [0, 1) that depends on the parts and the seed alone."""
        digest = blake2b(repr((self.seed, *parts)).encode("utf-8", "surrogatepass"), digest_size=6).digest()
        return int.from_bytes(digest, "big") / 2**48

    def drawn(self, rows: Iterable[_Row], task: str) -> list[_Row]:
        """Rows in an order drawn at random."""
        return sorted(rows, key=lambda row: self.draw(task, row.sentence.text))

    @cached_property
    def sizes(self) -> Counter[str]:
        """Sentences of each split."""
        return Counter(row.split for row in self.rows)

    def split_of(self, form: str) -> str:
        """The split that a form belongs to, as probable as it has sentences."""
        place = self.draw("form", form) * len(self.rows)
        for split in self.splits[:-1]:
            place -= self.sizes[split]
            if place < 0:
                return split
        return self.splits[-1]

    def thinned(self, items: Iterable[_Item], task: str, *, balanced: bool) -> list[_Item]:
        """Items of which no label has too many in a split.

        Where they are ``balanced``, all labels have equally many, and those of under one item of train in twenty are
        not asked about; else a label has at most thrice as many as the label in the middle.
        """
        groups: dict[str, dict[str, list[_Item]]] = {split: defaultdict(list) for split in self.splits}
        for item in items:
            groups[item[0]][item[2]].append(item)
        n_train = sum(map(len, groups["train"].values()))
        labels = [label for label, group in groups["train"].items() if len(group) >= _RAREST_LABEL * n_train]
        kept = []
        for by_label in filter(None, groups.values()):
            asked = [by_label.get(label, []) for label in labels] if balanced else list(by_label.values())
            sizes = [len(group) for group in asked]
            most = min(sizes, default=0) if balanced else int(_AT_MOST * median(sizes))
            for group in asked:
                kept += sorted(group, key=lambda item: self.draw(task, item[1].text))[:most]
        return kept

    def halves(self, rows: Collection[_Row], task: str, change: Callable[[_Row], Sentence], label: str) -> list[_Item]:
        """Items of each split, half as they are, ``original``, and half changed; one too many is left out."""
        items = []
        for split in self.splits:
            of_split = self.drawn((row for row in rows if row.split == split), task)
            half = len(of_split) // 2
            items += [(split, row.sentence, "original") for row in of_split[:half]]
            for row in of_split[half : 2 * half]:
                items.append((split, replace(change(row), id=f"{row.sentence.id}/{task}"), label))
        return items


_BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
_CONTENT = ("NOUN", "VERB", "ADJ", "ADV")
_MOST_VOCABULARY, _SENTENCES_A_WORD = 1000, 100
_N_DEPTHS, _N_TOPS = 3, 19
_TENSES = {"Pres": "present", "Past": "past"}
_NUMBERS = {"Sing": "singular", "Plur": "plural"}


def _length(rows: _Rows) -> list[_Item]:
    """Bins of the number of words."""
    bins = {n: f"{first}-{last}" for first, last in _BINS for n in range(first, last + 1)}
    items = ((row.split, row.sentence, bins[len(row.sentence)]) for row in rows.rows)
    return rows.thinned(items, "length", balanced=True)


def _words(rows: _Rows) -> list[_Item]:
    """The one word of a vocabulary that a sentence holds."""
    tags: dict[str, Counter[bool]] = defaultdict(Counter)
    for row in rows.rows:
        for word, form in enumerate(row.sentence.words if row.split == "train" else ()):
            tags[form.lower()][row.tag("upos", word) in _CONTENT] += 1
    counts = {form: of.total() for form, of in tags.items() if form.isalpha() and of[True] > of[False]}
    size = min(_MOST_VOCABULARY, rows.sizes["train"] // _SENTENCES_A_WORD)
    vocabulary = set(sorted(counts, key=lambda form: (-counts[form], form))[:size])
    held = ((row, [form for form in map(str.lower, row.sentence.words) if form in vocabulary]) for row in rows.rows)
    items = ((row.split, row.sentence, forms[0]) for row, forms in held if len(forms) == 1)
    return rows.thinned(items, "words", balanced=False)


def _depth(rows: _Rows) -> list[_Item]:
    """Three adjacent depths of trees, equally many sentences of each depth at each length.

    A depth is the number of phrases over the deepest word, or else of dependencies from the root to it.
    """
    cells: dict[tuple[str, int, int], list[_Row]] = defaultdict(list)
    for row in rows.rows:
        phrases = row.sentence.targets.get("constituents", ())
        over = Counter(word for phrase in phrases for word in range(*phrase.span1))
        depth, level = max(over.values(), default=-1), [] if phrases or row.root is None else [row.root]
        while level:
            depth, level = depth + 1, [below for word in level for below in row.below(word)]
        if depth >= 0:
            cells[row.split, len(row.sentence), depth].append(row)
    lengths = sorted({(split, n) for split, n, _ in cells})

    def left(first: int) -> list[int]:
        """Number of sentences of each depth that remain at each length, with depths from ``first`` on."""
        return [min(len(cells.get((*one, first + d), ())) for d in range(_N_DEPTHS)) for one in lengths]

    deepest = max((depth for _, _, depth in cells), default=0)
    first = max(range(1, deepest), key=lambda first: sum(left(first)), default=1)
    return [
        (split, row.sentence, str(first + d))
        for (split, n), most in zip(lengths, left(first), strict=True)
        for d in range(_N_DEPTHS)
        for row in rows.drawn(cells.get((split, n, first + d), ()), "depth")[:most]
    ]


def _top(rows: _Rows) -> list[_Item]:
    """The most frequent sequences just below the top of trees, and OTHER.

    They are of phrases and tags of words, or else of relations with the root in its place.
    """
    found: list[tuple[_Row, str]] = []
    for row in rows.rows:
        labels, word, n = list[str](), 0, len(row.sentence)
        if phrases := row.sentence.targets.get("constituents"):
            inside = [phrase for phrase in phrases if phrase.span1 != (0, n)]
            while word < n:
                phrase = next((phrase for phrase in inside if phrase.span1[0] == word), None)
                labels.append(str(phrase.label) if phrase else row.tag("xpos", word) or row.tag("upos", word) or "word")
                word = phrase.span1[1] if phrase else word + 1
        elif row.root is not None:
            words = sorted([row.root, *row.below(row.root)])
            labels = ["root" if word == row.root else row.relation(word) for word in words]
        if sequence := " ".join(labels):
            found.append((row, sequence))
    counts = Counter(sequence for row, sequence in found if row.split == "train")
    frequent = sorted(counts, key=lambda sequence: (-counts[sequence], sequence))[:_N_TOPS]
    items = ((row.split, row.sentence, one if one in frequent else "OTHER") for row, one in found)
    return rows.thinned(items, "top", balanced=False)


def _by_form(
    relation: str, tag: str, name: str, values: Mapping[str, str], required: str = ""
) -> Callable[[_Rows], list[_Item]]:
    """The task that asks for a feature of the one word in a relation to the root, or of the root.

    Sentences are in the split that the word's form belongs to.
    """

    def make(rows: _Rows) -> list[_Item]:
        items = []
        for row, root in ((row, row.root) for row in rows.rows):
            places = [] if root is None else row.below(root, relation) if relation else [root]
            if len(places) == 1 and row.tag("upos", places[0]) == tag:
                value = values.get(row.feature(places[0], name))
                if value and (not required or row.feature(places[0], "VerbForm") == required):
                    items.append((rows.split_of(row.sentence.words[places[0]].lower()), row.sentence, value))
        return rows.thinned(items, relation or "tense", balanced=True)

    return make


_QUOTES = frozenset('"“”„«»')
_MARKS = _QUOTES | frozenset("()[]")
_RAREST, _FACTOR = 5, 2
_VOWELS = frozenset("aeiou")
_Piece = tuple[int, int, str | None]
"""Part of a text by its place; or what stands there instead of the one word that it is."""


def _shift(rows: _Rows) -> list[_Item]:
    """Two adjacent words inverted: two words between spaces, different, and no punctuation."""
    pairs: dict[str, list[int]] = {}
    for row in (row for row in rows.rows if not _QUOTES & set(row.sentence.text)):
        text, words, spans = row.sentence.text, row.sentence.words, row.sentence.spans
        # Of letters or digits alone, and no part of a token.
        whole = [words[word].isalnum() and row.is_free(word) for word in range(len(words))]
        apart = [text[end:start].isspace() for (_, end), (start, _) in pairwise(spans)]
        pairs[row.sentence.id] = [
            word
            for word in range(1, len(words) - 1)
            if whole[word] and whole[word + 1] and apart[word - 1] and apart[word]
            if words[word].lower() != words[word + 1].lower()
        ]

    def inverted(row: _Row) -> Sentence:
        found = pairs[row.sentence.id]
        word = found[int(rows.draw("pair", row.sentence.text) * len(found))]
        (one, end), (other, last) = row.sentence.spans[word : word + 2]
        places = ((0, one), (other, last), (end, other), (one, end), (last, len(row.sentence.text)))
        return _pieced(row.sentence, [(*place, None) for place in places])

    return rows.halves([row for row in rows.rows if pairs.get(row.sentence.id)], "shift", inverted, "inverted")


def _odd_word(rows: _Rows) -> list[_Item]:
    """A noun or verb replaced by one of the same tag and features, and of similar frequency."""
    forms_of = {row.sentence.id: ["<s>", *map(str.lower, row.sentence.words), "</s>"] for row in rows.rows}
    pairs = Counter(pair for forms in forms_of.values() for pair in pairwise(forms))
    words = Counter(form for forms in forms_of.values() for form in forms)

    def kind(row: _Row, word: int) -> tuple[str, ...] | None:
        """Tag and features of a word, and whether it begins with a vowel, which decides *a* or *an*; None of others."""
        form = row.sentence.words[word]
        if row.tag("upos", word) not in ("NOUN", "VERB") or not (form.isalpha() and form.islower()):
            return None
        begins = str(form[0] in _VOWELS)
        tags = row.tag("upos", word), row.tag("xpos", word), row.tag("feats", word), begins
        return tags if row.is_free(word) else None

    kinds: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for row, word in ((one, word) for one in rows.rows for word in range(len(one.sentence))):
        if (of_word := kind(row, word)) is not None:
            kinds[row.sentence.words[word]][of_word] += 1
    # Forms with their frequencies, in ascending order, by tag, features, initial and split.
    alike: dict[tuple[str, ...], list[tuple[int, str]]] = defaultdict(list)
    for form, of_form in kinds.items():
        # a form counts where more than half of its occurrences are of one kind
        of_word, n = of_form.most_common(1)[0]
        if 2 * n > words[form] >= _RAREST:
            alike[*of_word, rows.split_of(form)].append((words[form], form))
    alike = {of_word: sorted(forms) for of_word, forms in alike.items()}

    def is_comparable(old: tuple[str, str], new: tuple[str, str]) -> bool:
        """Whether two pairs occur as often by a factor, the old one's own occurrence not counted."""
        times = pairs[old], 1 + pairs[new]
        return max(times) <= _FACTOR * min(times)

    def replacement(row: _Row) -> tuple[int, str] | None:
        """A word of the sentence and what can replace it, both drawn, of one split; None where there is none."""
        forms, text = forms_of[row.sentence.id], row.sentence.text
        for word in sorted(range(1, len(row.sentence)), key=lambda word: rows.draw("word", text, word)):
            old = row.sentence.words[word]
            if (n := words[old]) < _RAREST or (of_word := kind(row, word)) is None:
                continue
            known = alike.get((*of_word, rows.split_of(old)), [])
            first, last = bisect_left(known, (n / _FACTOR, "")), bisect_left(known, (_FACTOR * n + 1, ""))
            before, after = forms[word], forms[word + 2]
            fitting = [
                new
                for _, new in known[first:last]
                if is_comparable((before, old), (before, new)) and is_comparable((old, after), (new, after))
                if new != old
            ]
            if fitting:
                return word, fitting[int(rows.draw("new", text) * len(fitting))]
        return None

    chosen = {row.sentence.id: found for row in rows.rows if (found := replacement(row))}

    def changed(row: _Row) -> Sentence:
        word, form = chosen[row.sentence.id]
        start, end = row.sentence.spans[word]
        return _pieced(row.sentence, [(0, start, None), (start, end, form), (end, len(row.sentence.text), None)])

    # Each sentence is in the split of its word, which is that of what may replace it. If splits stayed as they are,
    # forms of test would be taken out of sentences of train and never put in: what a bag of words learns to be rare
    # in changed sentences would be what is put into those of test.
    asked = [row for row in rows.rows if row.sentence.id in chosen]
    divided = [replace(row, split=rows.split_of(row.sentence.words[chosen[row.sentence.id][0]])) for row in asked]
    return rows.halves(divided, "odd_word", changed, "changed")


def _coordination(rows: _Rows) -> list[_Item]:
    """Two clauses inverted; of each split as many sentences with a longer first clause as with a longer second one."""
    clauses = {row.sentence.id: found for row in rows.rows if (found := _clauses(row))}
    by_length: dict[int, list[_Row]] = {1: [], -1: [], 0: []}
    for split in rows.splits:
        groups: dict[int, list[_Row]] = {1: [], -1: [], 0: []}
        some = [row for row in rows.rows if row.split == split and row.sentence.id in clauses]
        for row in rows.drawn(some, "clauses"):
            first, second, last = clauses[row.sentence.id]
            groups[(first > last - second) - (first < last - second)].append(row)
        most = min(len(groups[1]), len(groups[-1]))
        for sign, group in groups.items():
            by_length[sign] += group[:most] if sign else group

    def inverted(row: _Row) -> Sentence:
        sentence, spans, (first, second, last) = row.sentence, row.sentence.spans, clauses[row.sentence.id]
        (begin, new), stop, end = spans[second], spans[first - 1][1], spans[last - 1][1]
        one, other, lemma = sentence.words[0], sentence.words[second], row.tag("lemma", 0)
        keeps = lemma[:1].isupper() if lemma else row.tag("upos", 0) == "PROPN"
        pieces: list[_Piece] = [
            (begin, new, other if one[0].islower() else other[0].upper() + other[1:]),
            (new, end, None),
            (stop, begin, None),
            (0, spans[0][1], one if keeps else one[0].lower() + one[1:]),
            (spans[0][1], stop, None),
            (end, len(sentence.text), None),
        ]
        return _pieced(sentence, pieces)

    return [item for kept in by_length.values() for item in rows.halves(kept, "coordination", inverted, "inverted")]


def _clauses(row: _Row) -> tuple[int, int, int] | None:
    """The end of the root's clause, and begin and end of the one clause joined to it, where they make up the sentence.

    What lies between and after them stays in its place.
    """
    root, text = row.root, row.sentence.text
    conjuncts = [] if root is None or _MARKS & set(text) else row.below(root, "conj")
    if root is None or len(conjuncts) != 1:
        return None
    if not all(row.below(word, "nsubj", "csubj", "expl") for word in (root, conjuncts[0])):
        return None

    def is_punctuation(first: int, last: int) -> bool:
        return all(row.tag("upos", word) == "PUNCT" for word in range(first, last))

    inside, level = set(conjuncts), list(conjuncts)
    while level:
        level = [below for word in level for below in row.below(word) if below not in inside]
        inside.update(level)
    begin, end, marks = min(inside), max(inside) + 1, row.below(conjuncts[0], "cc")
    if len(inside) != end - begin or len(marks) != 1 or root >= begin:
        return None
    if not is_punctuation(end, len(row.sentence)) or not is_punctuation(begin, marks[0]):
        return None
    first, second, last = begin, marks[0] + 1, end
    while first and is_punctuation(first - 1, first):
        first -= 1
    while last > second and is_punctuation(last - 1, last):
        last -= 1
    words, spans = row.sentence.words, row.sentence.spans
    is_own = all(text[slice(*spans[word])] == words[word] for word in (0, second) if last > second)
    return (first, second, last) if is_own and last > second and first else None


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


_MAKERS: Final[Mapping[str, Callable[[_Rows], list[_Item]]]] = {
    "length": _length,
    "words": _words,
    "depth": _depth,
    "top": _top,
    "shift": _shift,
    "tense": _by_form("", "VERB", "Tense", _TENSES, "Fin"),
    "subject_number": _by_form("nsubj", "NOUN", "Number", _NUMBERS),
    "object_number": _by_form("obj", "NOUN", "Number", _NUMBERS),
    "odd_word": _odd_word,
    "coordination": _coordination,
}
SENTENCE_TASKS: Final = tuple(_MAKERS)
"""The tasks, in the order of the paper."""


def sentence_target(task: str) -> str:
    """The name of the targets that hold the labels of a task: ``sentence:tense``.

    Raises:
        NameNotFoundError: there is no such task.
    """
    check_name("task of sentences", task, SENTENCE_TASKS)
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
    name = changed_name("sentence_tasks", corpus)
    # Sentences of usual length of all splits, each text once, with ids of their own.
    splits, unique = tuple(split for split in SPLITS if split in corpus), dict[str, _Row]()
    for split, number, one in ((name, *one) for name in splits for one in enumerate(corpus[name])):
        if _FEWEST_WORDS <= len(one) <= _MOST_WORDS and one.text not in unique:
            unique[one.text] = _Row(replace(one, id=f"{split}/{number}/{one.id}"), split)
    rows = _Rows(tuple(unique.values()), seed, splits)
    made: dict[str, dict[str, Sentence]] = {split: {} for split in rows.splits}
    counts = {}
    for task in tasks:
        target = sentence_target(task)
        items = _MAKERS[task](rows)
        sizes = Counter(split for split, *_ in items)
        counts[task] = ", ".join(f"{sizes[split]:,} {split}" for split in rows.splits) + " sentences"
        for split, one, label in items:
            bare = Sentence(one.id, one.text, one.words, one.spans)
            sentence = made[split].setdefault(one.id, bare)
            whole = {target: (Target((0, len(sentence)), label),)}
            made[split][one.id] = replace(sentence, targets={**sentence.targets, **whole})
    if not any(made["train"].values()):
        raise CorpusError(
            f"{name}: no task can be made; give a treebank with upos, feats, heads and sentences of 5 to 28 words"
        )
    # In random order, so that the first ones, to which a run may be limited, are of all tasks and labels.
    in_order = {
        split: Sentences(sorted(of.values(), key=lambda sentence: rows.draw("order", sentence.id)))
        for split, of in made.items()
    }
    of_tasks = {f"sentence:{task}": text for task, text in counts.items()}
    return replace(corpus, name=name, splits=in_order, notes={**corpus.notes, **of_tasks, "seed": str(seed)})
