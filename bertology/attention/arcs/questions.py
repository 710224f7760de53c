"""Questions about the words of a text: arcs, words with candidates, and trees; where annotation asks them, and what is
answered without a head."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bertology.corpora import Sentences, key_values
from bertology.encoders.alignment import Integers, numbers_in
from bertology.encoders.batching import NOT_APART
from bertology.errors import CorpusError, NameNotFoundError, listed, quoted
from bertology.measures.sums import Bools, HeadRatios, text_ratios

WAYS = ("maximum attention", "spanning tree")
"""Ways to turn a head's weights into edges."""

_ALL = "all"
_UP, _DOWN = "dependent → head", "head → dependent"
_UNIVERSAL = (
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl fixed "
    "flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative xcomp"
)
"""The relations of Universal Dependencies (Nivre et al. 2020)."""
_CORE = re.compile(r"(A|ARG)[0-5]")
_KINDS = {"PRON": "pronoun", "PROPN": "proper", "NOUN": "nominal"}
_AGREEING = ("Number", "Gender", "Person")
_WORST = 3  # the rank of mentions that no sieve takes for the same
_SUBJECT_GROUPS = ("all", "first noun is the subject", "first noun is not the subject", "noun in between")
_Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Arcs:
    """Questions about words, in groups such as relations: which word of its sentence is each joined to?

    Words are numbered through all sentences. A question may have several correct answers, any of which will do, and
    wrong ones that compete with them; it belongs to one group.
    """

    names: tuple[str, ...]  # names of the groups
    asked: Integers  # [question] the word that is asked about
    groups: Integers  # [question] place in names
    questions: Integers  # [answer] number of the question, ascending
    answers: Integers  # [answer] the word, in the sentence of the asked one
    is_right: Bools  # [answer] whether it is a correct answer
    is_open: bool = True  # whether all words of the sentence compete, or else the given answers alone
    looked_at: frozenset[str] = frozenset()
    """Groups whose question is which word attends to the asked one most; in the others it is which word the asked one
    attends to most."""
    ranks: Integers | None = None  # [answer] order in which a rule prefers them, from 0; None where there is no rule

    @classmethod
    def of(cls, groups: Iterable[tuple[str, Integers, Integers]], *, looked_at: frozenset[str] = frozenset()) -> Arcs:
        """Arcs from a name, asked words and correct answers of each group, in the order of group and asked word.

        Raises:
            CorpusError: there is no arc.
        """
        present = [group for group in groups if len(group[1])]
        if not present:
            raise CorpusError("no arc between words to ask about")
        names, asked, answers = zip(*present, strict=True)
        group = np.repeat(np.arange(len(names)), [len(words) for words in asked])
        whole = np.stack([group, np.concatenate(asked), np.concatenate(answers)], axis=1).astype(np.int64)
        whole = whole[np.lexsort(whole.T[::-1])]
        opens = np.append(True, (np.diff(whole[:, :2], axis=0) != 0).any(axis=1))
        numbers, is_right = np.cumsum(opens) - 1, np.ones(len(whole), dtype=bool)
        of_groups, words = whole[opens, 0], whole[opens, 1]
        return cls(names, words, of_groups, numbers, whole[:, 2], is_right, looked_at=looked_at & set(names))

    @classmethod
    def among(cls, names: tuple[str, ...], asked: Mapping[int, Mapping[int, Sequence[Any]]], is_in: Bools) -> Arcs:
        """Questions with candidates, once in each of their groups.

        Args:
            names: of the groups.
            asked: the candidates of each word, with whether each is correct and, if there is a rule, its rank.
            is_in: ``[question, group]`` whether it belongs to a group.
        """
        lengths = np.array([len(candidates) for candidates in asked.values()], dtype=np.int64)
        columns = zip(*((word, *facts) for some in asked.values() for word, facts in some.items()), strict=True)
        words, is_right, *ranks = map(np.array, columns)
        ends = np.cumsum(lengths, dtype=np.int64)
        numbers, groups = np.nonzero(is_in)
        questions, chosen = numbers_in((ends - lengths)[numbers], ends[numbers])
        of_rule = ranks[0][chosen] if ranks else None
        answers = questions, words[chosen], is_right[chosen]
        return cls(names, np.array(list(asked))[numbers], groups, *answers, is_open=False, ranks=of_rule)

    def __len__(self) -> int:
        return len(self.asked)

    def read_from(self, windows: Integers | None) -> Arcs:
        """The questions whose asked word a model reads; their answers may lie outside of its window.

        ``windows`` is for each word the window that it is read from, −1 for words that are not read, ``NOT_APART`` for
        those of :meth:`told_apart`; None if each sentence is read from one window.
        """
        if windows is None:
            return self
        apart = self.told_apart(np.flatnonzero(windows == NOT_APART))
        return apart._some(windows[apart.asked] >= 0, np.ones(len(apart.answers), dtype=bool))

    def told_apart(self, words: Integers) -> Arcs:
        """The questions about none of ``words``, which a model cannot tell from others, without such answers.

        Questions that no answer is left to are dropped; of those among candidates all that lose a correct one.
        """
        if not len(words):
            return self
        is_lost = self.is_right & np.isin(self.answers, words)
        n_lost, n_right = (np.bincount(self.questions[some], minlength=len(self)) for some in (is_lost, self.is_right))
        is_out = n_lost == n_right if self.is_open else n_lost > 0
        return self._some(~(np.isin(self.asked, words) | is_out), ~is_lost)

    def _some(self, kept: Bools, answers: Bools) -> Arcs:
        answers = answers & kept[self.questions]
        return replace(
            self,
            asked=self.asked[kept],
            groups=self.groups[kept],
            questions=(np.cumsum(kept) - 1)[self.questions[answers]],
            answers=self.answers[answers],
            is_right=self.is_right[answers],
            ranks=None if self.ranks is None else self.ranks[answers],
        )

    @cached_property
    def starts(self) -> Integers:
        """``[question + 1]`` the first answer of each question, and the number of answers."""
        return np.searchsorted(self.questions, np.arange(len(self) + 1)).astype(np.int64)

    @cached_property
    def by_word(self) -> Integers:
        """``[question]`` places of the questions in the order of the asked words."""
        return np.argsort(self.asked, kind="stable").astype(np.int64)

    def baseline(
        self, name: str, sentences: Sentences, *, metric: str, chosen_on: Arcs | None = None, farthest: int = 3
    ) -> HeadRatios:
        """The score of answering by place, form or rule alone (Clark et al. 2019, sections 4.2 and 4.3), by group.

        - ``offset``: the word at a fixed offset of up to ``farthest``, the best one of each group on the text
          ``chosen_on``, the nearest of equally good ones, then the one before. A group that has no arc there takes the
          offset that is best over all.
        - ``nearest``: the nearest candidate, of two that are as near the one before.
        - ``head_match``: the nearest of the same form as the asked word, whatever its case, or else the nearest of all.
        - ``rule``: the nearest of those of the lowest rank.
        """
        gaps = self.answers - self.asked[self.questions]
        if name == "offset" and chosen_on is not None:
            chosen = self._best_offsets(chosen_on, farthest)[self.groups]
            right = np.bincount(self.questions[gaps == chosen[self.questions]], minlength=len(self))
        else:
            ranks = self.ranks if name == "rule" and self.ranks is not None else np.zeros_like(gaps)
            if name == "head_match":
                folded = np.unique([form.casefold() for form in sentences.forms.values], return_inverse=True)[1]
                forms = folded[sentences.forms.codes]
                ranks = (forms[self.asked[self.questions]] != forms[self.answers]).astype(np.int64)
            order = np.lexsort((2 * np.abs(gaps) + (gaps > 0), ranks, self.questions))
            right = self.is_right[order][self.starts[:-1]].astype(np.int64)
        of_sentence = sentences.sentence_of_word[self.asked]
        return text_ratios(self.names, sentences, of_sentence, self.groups, right, np.ones(len(self)), metric=metric)

    def _best_offsets(self, chosen_on: Arcs, farthest: int) -> Integers:
        """``[group]`` the offset that is most often right in another text."""
        offsets = np.array(sorted((d for d in range(-farthest, farthest + 1) if d), key=lambda d: (abs(d), d)))
        groups, gaps = chosen_on.groups[chosen_on.questions], chosen_on.answers - chosen_on.asked[chosen_on.questions]
        # A question has one answer at most at each offset, so arcs may be counted for questions.
        counts = np.stack([np.bincount(groups[gaps == d], minlength=len(chosen_on.names)) for d in offsets])
        best = {chosen_on.names[group]: counts[:, group].argmax() for group in np.unique(groups).tolist()}
        return offsets[[best.get(name, counts.sum(1).argmax()) for name in self.names]]


@dataclass(frozen=True, eq=False)
class TextTrees:
    """The trees of some sentences, between the words that count."""

    starts: Integers  # [sentence + 1] number of the first word of each sentence of the text, and the number of words
    heads: Integers  # [word] heads as CoNLL-U numbers them
    scored: Bools  # [word] which words count; the others are in no tree
    sentences: Integers  # [tree] numbers of the sentences whose trees are scored, ascending

    def some(self, n: int, *, seed: int = 0) -> TextTrees:
        """At most ``n`` of the trees, drawn at random: the same ones every time."""
        if len(self.sentences) <= n:
            return self
        return replace(self, sentences=np.sort(np.random.default_rng(seed).choice(self.sentences, n, replace=False)))

    def read_from(self, windows: Integers | None, *, every_word: bool = False) -> TextTrees:
        """The arcs whose counted words, or all of whose words, are read from one window; see :meth:`Arcs.read_from`."""
        if windows is None:
            return self
        apart, kept = self.told_apart(np.flatnonzero(windows == NOT_APART)), []
        for sentence in apart.sentences.tolist():
            words = slice(apart.starts[sentence], apart.starts[sentence + 1])
            needed = windows[words] if every_word else windows[words][apart.scored[words]]
            read = windows[words][windows[words] >= 0]
            kept.append(len(needed) > 0 and needed.min() >= 0 and read.min() == read.max())
        return replace(apart, sentences=apart.sentences[np.array(kept, dtype=bool)])

    def told_apart(self, words: Integers) -> TextTrees:
        """The same trees, in which the words do not count; those of which fewer than two words count are left out."""
        if not len(words):
            return self
        scored = self.scored.copy()
        scored[words] = False
        n_scored = np.add.reduceat(np.append(scored, 0), self.starts[:-1])[self.sentences]
        return replace(self, scored=scored, sentences=self.sentences[n_scored > 1])

    @cached_property
    def places(self) -> Integers:
        """``[word]`` place among the words of its sentence that count."""
        counted, lengths = np.cumsum(self.scored), np.diff(self.starts)
        return np.asarray(counted - 1 - np.repeat(np.append(0, counted)[self.starts[:-1]], lengths))

    @cached_property
    def parents(self) -> Integers:
        """``[word]`` place of the head among the words of the sentence that count; −1 where it is none of them."""
        heads = np.repeat(self.starts[:-1], np.diff(self.starts)) + np.maximum(self.heads, 1) - 1
        return np.where((self.heads > 0) & self.scored[heads], self.places[heads], -1)

    def tree(self, sentence: int) -> tuple[Integers, int]:
        """The words of a sentence that count, and which of them is the root: where the root itself does not count, the
        first word without a head stands in for it."""
        words = np.flatnonzero(self.scored[slice(*self.starts[sentence : sentence + 2])]) + self.starts[sentence]
        roots = np.flatnonzero(self.heads[words] == 0)
        return words, int(roots[0] if len(roots) else np.flatnonzero(self.parents[words] < 0)[0])

    def chain(self, sentences: Sentences, *, chosen_on: TextTrees, metric: str) -> HeadRatios:
        """The score of joining each word that counts to the one at a fixed distance, from 1, a chain, to 3, whichever
        is best on another text: ratios of the whole text, the same for both ways of making edges."""
        right, edges = chosen_on._edges()
        distance = 1 + int(np.argmax([(right[edges] == one).sum() for one in (1, 2, 3)]))
        gaps, edges = self._edges()
        words = np.tile(np.flatnonzero(edges), len(WAYS))
        groups = np.repeat(np.arange(len(WAYS)), edges.sum())
        hits, of_sentence = gaps[words] == distance, sentences.sentence_of_word[words]
        return text_ratios(WAYS, sentences, of_sentence, groups, hits, np.ones(len(words)), metric=metric)

    def _edges(self) -> tuple[Integers, Bools]:
        """``[word]`` distance from its head among the words that count, and whether the tree has this edge."""
        is_asked = np.isin(np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)), self.sentences)
        return np.abs(self.parents - self.places), is_asked & self.scored & (self.parents >= 0)

    def next_word(self, sentences: Sentences, *, metric: str, windows: Integers | None = None) -> HeadRatios:
        """The share of words whose head is the next word, of words that count and have a head, whether that counts or
        not: a ratio with the name ``next word``, of the trees all of whose words are read by ``windows``."""
        read, of_word = self.read_from(windows, every_word=True), sentences.sentence_of_word
        asked = read.scored & (read.heads > 0) & np.isin(of_word, read.sentences)
        places = np.arange(len(read.heads)) - read.starts[of_word]
        right, groups = asked & (read.heads == places + 2), np.zeros(len(asked), dtype=np.int64)
        return text_ratios(("next word",), sentences, of_word, groups, right, asked, metric=metric)


def dependency_arcs(
    sentences: Sentences,
    *,
    scored: Bools,
    downward: Literal["column", "row"],
    fewest: int = 1,
    relations: tuple[str, ...] = (),
) -> Arcs:
    """Arcs grouped as ``nsubj: dependent → head`` and ``nsubj: head → dependent``, the largest relations first.

    Relations are the universal ones, the part before the colon; ``all`` takes them together. Roots have no head among
    the words, and punctuation, of words that are not ``scored``, is not asked about. Relations with fewer arcs than
    ``fewest`` are not shown.

    Args:
        sentences: the text.
        scored: ``[word]`` which words are no punctuation.
        downward: how a head shows that it looks from heads to dependents: by the dependent's ``column`` (of all words
            its head looks at it most), or by the head's ``row`` (it looks at one of its dependents most).
        fewest: number of arcs.
        relations: which ones; any, and ``all``, when left out.
    """
    layer = sentences.layers.get("deprel")
    if sentences.heads is None or layer is None:
        problem = f"give a treebank; the annotation layers are {listed(sorted(sentences.layers))}"
        raise CorpusError(f"no word has a head and a relation to it: {problem}")
    dependents = np.flatnonzero((sentences.heads > 0) & (layer.codes >= 0) & scored)
    heads = sentences.starts[sentences.sentence_of_word[dependents]] + sentences.heads[dependents] - 1
    universal = np.array([value.partition(":")[0] for value in layer.values])
    own = universal[layer.codes[dependents]]
    names, counts = np.unique(own, return_counts=True)
    by_size = [str(name) for name in names[np.argsort(-counts, kind="stable")] if name in relations or not relations]
    for name in relations:
        # One that is rare may be missing from a small split; one that is in no text is a slip.
        if name not in _UNIVERSAL.split() and name not in by_size:
            raise NameNotFoundError(f"unknown relation {quoted(name)}: the text has {listed(map(str, names))}")
    groups = []
    for name in [_ALL] * (not relations) + by_size:
        which = np.ones(len(own), dtype=bool) if name == _ALL else own == name
        if which.sum() >= fewest:
            groups.append((f"{name}: {_UP}", dependents[which], heads[which]))
            ends = (heads, dependents) if downward == "row" else (dependents, heads)
            groups.append((f"{name}: {_DOWN}", ends[0][which], ends[1][which]))
    if not groups:
        wanted = f" of {', '.join(relations)}" if relations else ""
        raise CorpusError(f"no relation{wanted} has {fewest} arcs: give more text, or ask for fewer")
    columns = frozenset(name for name, _, _ in groups if downward == "column" and name.endswith(_DOWN))
    return Arcs.of(groups, looked_at=columns)


def antecedents(sentences: Sentences, layer: str, *, mention_head: Literal["tree", "last_word"]) -> Arcs:
    """Every mention that has an antecedent, with the heads of the mentions before it in its sentence as candidates.

    Groups are ``all`` and, where parts of speech are known, what the mention's head is: ``pronoun``, ``proper``,
    ``nominal``. Ranks are those of four sieves, as in Clark et al. (2019, section 4.3) after Lee et al. (2011): the
    same words, the same head word, heads whose number, gender and person are not known to differ, the rest.

    Mentions stand in a layer of pairs of spans with ``1`` where they mean the same: ``coref``, ``winograd``. The word
    that stands for one is the first whose head in the ``tree`` lies outside, or its ``last_word``.
    """
    if layer not in sentences.target_layers:
        there = f"the span annotation there is {listed(sentences.target_layers)}"
        raise CorpusError(f"no mention is joined to another in layer {quoted(layer)}: {there}")
    if mention_head == "tree" and sentences.heads is None:
        raise CorpusError("no tree to find the heads of mentions by: give a treebank, or set mention_head to last_word")
    by_word: dict[int, dict[int, tuple[bool, int]]] = defaultdict(dict)
    for number, targets in sentences.targets(layer):
        start = int(sentences.starts[number])
        for target in targets:
            if target.span2 is None:
                continue
            spans = target.span1, target.span2
            heads = ((_mention_head(sentences, start, span, mention_head), span) for span in spans)
            (first, one), (second, other) = sorted(heads)
            if first < second:
                # Mentions inside one another may have one head: it is right if any of them is.
                was_right, rank = by_word[second].get(first, (False, _WORST))
                rank = min(rank, _rank(sentences, start, (one, other), (first, second)))
                by_word[second][first] = was_right or "1" in target.labels, rank
    asked = {
        word: dict(sorted(candidates.items()))
        for word, candidates in sorted(by_word.items())
        if any(is_right for is_right, _ in candidates.values())
    }
    if not asked:
        raise CorpusError(f"no two mentions of a sentence mean the same in layer {quoted(layer)}")
    tags = sentences.layers.get("upos")
    of_asked = [None if tags is None else tags.decoded(word, word + 1)[0] for word in asked]
    kinds = np.array([_KINDS.get(tag or "", "") for tag in of_asked])
    names = (_ALL, *(kind for kind in _KINDS.values() if (kinds == kind).any()))
    return Arcs.among(names, asked, np.stack([(kinds == name) | (name == _ALL) for name in names], axis=1))


def role_arcs(sentences: Sentences, *, fewest: int = 1) -> Arcs:
    """Predicates and head words of core arguments: ``A1: predicate → argument`` and ``A1: argument → predicate``.

    Core arguments are those with numbers (``A0``, ``ARG1``), in a layer ``srl`` of pairs of spans, the predicate first.
    The word that stands for a span is the first whose head lies outside, or the last word where there is no tree. Roles
    with fewer arcs than ``fewest`` are not shown.
    """
    if "srl" not in sentences.target_layers:
        problem = f"the span annotation there is {listed(sentences.target_layers)}"
        raise CorpusError(f"no predicate is joined to its arguments in a layer srl: {problem}")
    by_role: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, targets in sentences.targets("srl"):
        start = int(sentences.starts[number])
        for target in targets:
            core = next((label for label in target.labels if _CORE.fullmatch(label)), None)
            if core is not None and target.span2 is not None:
                spans = target.span1, target.span2
                predicate, argument = (_mention_head(sentences, start, span, "tree") for span in spans)
                if predicate != argument:
                    by_role[f"A{core[-1]}"].append((predicate, argument))
    every = {_ALL: [arc for arcs in by_role.values() for arc in arcs], **dict(sorted(by_role.items()))}
    groups = []
    for name, arcs in every.items():
        if len(arcs) >= fewest:
            predicates, arguments = np.array(arcs, dtype=np.int64).reshape(-1, 2).T
            groups += [(f"{name}: predicate → argument", predicates, arguments)]
            groups += [(f"{name}: argument → predicate", arguments, predicates)]
    return Arcs.of(groups)


def _mention_head(sentences: Sentences, start: int, span: _Span, mention_head: str) -> int:
    """The word that stands for a mention, numbered through all sentences."""
    if mention_head == "last_word" or sentences.heads is None:
        return start + span[1] - 1
    own = sentences.heads[start + span[0] : start + span[1]]
    return start + span[0] + int(np.argmax((own <= span[0]) | (own > span[1])))


def _rank(sentences: Sentences, start: int, spans: tuple[_Span, _Span], heads: tuple[int, int]) -> int:
    """Number, from 0, of the sieve that takes two mentions for the same."""
    forms = [[sentences.word(word).casefold() for word in range(start + low, start + high)] for low, high in spans]
    if " ".join(forms[0]) == " ".join(forms[1]):
        return 0
    first, second = (sentences.word(head).casefold() for head in heads)
    if first == second:
        return 1
    layer, features = sentences.layers.get("feats"), list[dict[str, str]]()
    for head in heads:
        (value,) = layer.decoded(head, head + 1) if layer else (None,)
        features.append({name: held for name, held in key_values(value).items() if name in _AGREEING})
    shared = features[0].keys() & features[1].keys()
    return _WORST if any(features[0][name] != features[1][name] for name in shared) else 2


def subject_candidates(sentences: Sentences) -> Arcs:
    """Main auxiliaries, with the nouns of their sentences as candidates and the subject as the correct one."""
    nouns = dict(sentences.targets("subject_noun"))
    asked: dict[int, dict[int, tuple[bool]]] = {}
    is_in: list[tuple[bool, ...]] = []
    for number, auxiliaries in sentences.targets("main_auxiliary"):
        start, some = int(sentences.starts[number]), nouns.get(number, ())
        if len(some) > 1:
            right = {start + target.span1[0]: target.label == "yes" for target in some}
            (word,) = (start + target.span1[0] for target in auxiliaries if target.label == "yes")
            subject = next(place for place, is_right in right.items() if is_right)
            low, high = sorted((subject, word))
            is_first = right[start + some[0].span1[0]]
            is_in.append((True, is_first, not is_first, any(low < place < high for place in right)))
            asked[word] = {place: (is_right,) for place, is_right in right.items()}
    if not asked:
        remedy = "give a treebank as word_order:CORPUS"
        raise CorpusError(f"no sentence has its main auxiliary and its subject noun marked, and another noun: {remedy}")
    return Arcs.among(_SUBJECT_GROUPS, asked, np.array(is_in))
