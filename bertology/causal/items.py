"""Pairs of texts to patch, made of agreement items, of facts and of minimal pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bertology.causal._pairs import PatchPair
from bertology.cloze import MASK, Prompt, ask
from bertology.corpora import Sentence, as_sentences
from bertology.corpora.prompts import TableItem, read_item_table, source_name, split_language
from bertology.corpora.prompts.lama import read_lama
from bertology.corpora.prompts.pairs import read_agreement
from bertology.errors import ClozeError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_MASK = "[MASK]"
_LONGEST_ENDING = 2
_Made = TypeVar("_Made")


def agreement_pairs(
    source: Any = "pocket",
    *,
    columns: str | None = None,
    structure: str | None = None,
    most: int | None = None,
    seed: int = 0,
) -> list[PatchPair]:
    """Pairs of texts that differ in the number of the subject, for :func:`patch`.

    Places are ``before`` the subject, ``subject``, ``between``, ``mask`` and ``after``. Clusters are those of the
    items: in Marvin & Linzen's set the frame of noun and verb, in the pocket world each sentence.

    Args:
        source: ``pocket``, or a file or folder of agreement items as the task ``agreement`` reads them. Of a set, two
            items of one construction make a pair where they differ in one noun alone, singular in one and plural in
            the other, and call for opposite forms. Its numbers are told apart by their ending, as English has them:
            the plural is the singular with one or two letters more.
        columns: which columns of a table of agreement items hold what, as ``"text=prompt,good=is,bad=are"``.
        structure: construction of the items, as the task ``agreement:structure`` names it.
        most: number of pairs drawn at random; all when left out.
        seed: random seed.

    Raises:
        ClozeError: there is no such pair.
        BertologyError: the source cannot be read.
    """
    is_pocket = isinstance(source, str) and source == "pocket" and columns is None
    made = list(_of_pocket(structure) if is_pocket else _of_items(source, structure, columns))
    if not made:
        of = "" if structure is None else f" of structure {structure}"
        raise ClozeError(f"{source_name(source)}: no two items{of} differ in the number of one noun alone")
    made = _drawn(made, most, seed)
    sides = zip(*(_words([getattr(pair, side) for pair in made], None) for side in ("text", "other")), strict=True)
    return [replace(pair, places=named_places(*words)) for pair, words in zip(made, sides, strict=True)]


def _drawn(made: list[_Made], most: int | None, seed: int) -> list[_Made]:
    """A random sample of at most ``most`` items, in their original order."""
    if most is None or most >= len(made):
        return made
    return [made[number] for number in np.sort(np.random.default_rng(seed).choice(len(made), most, replace=False))]


def _of_pocket(structure: str | None) -> Iterator[PatchPair]:
    from bertology.pocket import agreement_items

    for item in agreement_items():
        if item.other and structure in (None, item.structure):
            values = ("plural", "singular") if item.plural else ("singular", "plural")
            yield PatchPair(item.text, item.other, item.good, item.bad, values=values)


def _of_items(source: Any, structure: str | None, columns: str | None) -> Iterator[PatchPair]:
    """Pairs in the order of the source; each two items once, the text that comes first in it first."""
    waiting: dict[tuple[object, ...], list[TableItem]] = defaultdict(list)
    for item in read_agreement(source, columns=columns):
        if not isinstance(item, TableItem) or structure not in (None, item.group):
            continue
        words = Prompt(item.text).written(_MASK).split()
        mask = next(number for number, word in enumerate(words) if _MASK in word)
        forms = tuple(sorted((item.good, item.bad[0])))
        for place in range(mask):
            key = (item.group, forms, place, *words[:place], "", *words[place + 1 :])
            for earlier in waiting[key]:
                before = Prompt(earlier.text).written(_MASK).split()[place]
                if earlier.good == item.bad[0] and _are_numbers_of_one_noun(before, words[place]):
                    values = ("singular", "plural") if len(before) < len(words[place]) else ("plural", "singular")
                    yield PatchPair(earlier.text, item.text, earlier.good, item.good, earlier.cluster, values=values)
            waiting[key].append(item)


def _are_numbers_of_one_noun(one: str, other: str) -> bool:
    singular, plural = sorted((one, other), key=len)
    return plural.startswith(singular) and plural.endswith("s") and 0 < len(plural) - len(singular) <= _LONGEST_ENDING


def named_places(words: Sequence[str], others: Sequence[str], changed: str = "subject") -> tuple[str, ...]:
    """``[word]`` names; none where the texts have not as many words, which is found when they are patched."""
    if len(words) != len(others) or _MASK not in words:
        return ()
    differ = [number for number, (a, b) in enumerate(zip(words, others, strict=True)) if a != b]
    if not differ:
        return ()
    mask = words.index(_MASK)
    named = dict.fromkeys(differ, changed) | {mask: "mask"}
    first, last = sorted((differ[0], mask))
    rest = ("before" if n < first else "between" if n < last else "after" for n in range(len(words)))
    return tuple(named.get(number, name) for number, name in enumerate(rest))


@dataclass(frozen=True)
class Fact:
    """A fact as a text whose mask is its object."""

    text: str
    """The mask is written ``{mask}``."""
    subject: str
    answer: str
    relation: str
    language: str | None = None
    """Language of the text, by whose rules words are found."""

    def as_pair(self) -> PatchPair:
        """The fact with itself; its cluster is the subject."""
        return PatchPair(self.text, self.text, self.answer, self.answer, self.subject, language=self.language)


def read_facts(source: Any = "pocket", *, columns: str | None = None) -> list[Fact]:
    """Facts with a subject that stands in the text.

    The source is ``pocket``, of whose facts those are taken that the training text states; a file or folder of facts as
    the task ``lama`` reads them; or any table with a text, an answer and a subject in each row, in ``columns`` such as
    ``"text=prompt,answer=object,subject=name,group=relation"``, which may also name the language, as ``"language=zh"``.
    """
    _, language = split_language(columns)
    if (items := read_item_table(source, "facts", columns=columns)) is not None:
        rows = [item for item in items if isinstance(item, TableItem)]
        return _with_subject(source, [Fact(item.text, item.subject, item.good, item.group, language) for item in rows])
    if source == "pocket":
        from bertology.pocket import facts

        stated = [(fact, fact.templates[0]) for fact in facts() if fact.n_stated]
        texts = [template.replace("[X]", fact.subject).replace("[Y]", MASK) for fact, template in stated]
        return [Fact(text, one.subject, one.object, one.relation) for text, (one, _) in zip(texts, stated, strict=True)]
    found, _ = read_lama(source)
    return _with_subject(source, [Fact(one.text, one.subject, one.good, one.group, language) for one in found])


def _with_subject(source: Any, facts: Sequence[Fact]) -> list[Fact]:
    made = [fact for fact in facts if fact.subject and fact.subject in fact.text]
    if not made:
        raise ClozeError(f"{source_name(source)}: no fact with a subject in its text")
    return made


def fact_pairs(
    source: Any = "pocket", *, columns: str | None = None, most: int | None = None, seed: int = 0
) -> list[PatchPair]:
    """Pairs of facts of one relation whose subjects have equally many words and whose objects differ.

    Places are those of :func:`agreement_pairs`; clusters are first subjects, values the relation with the object.

    Args:
        source: as for :func:`read_facts`.
        columns: as for :func:`read_facts`.
        most: number of pairs drawn at random; all when left out.
        seed: random seed.

    Raises:
        ClozeError: there is no such pair.
        BertologyError: the source cannot be read.
    """
    waiting: dict[tuple[str, int], list[Fact]] = defaultdict(list)
    pairs: list[tuple[Fact, Fact]] = []
    for fact in read_facts(source, columns=columns):
        of_kind = waiting[fact.relation, len(fact.subject.split())]
        if of_kind and of_kind[-1].answer != fact.answer and of_kind[-1].subject != fact.subject:
            pairs.append((of_kind.pop(), fact))
        else:
            of_kind.append(fact)
    if not pairs:
        raise ClozeError(f"{source_name(source)}: no two facts of one relation with subjects of equally many words")
    drawn = _drawn(pairs, most, seed)
    language = drawn[0][0].language  # of one source
    texts = [_words([pair[side].text for pair in drawn], language) for side in (0, 1)]
    made = []
    for (one, other), words, of_other in zip(drawn, *texts, strict=True):
        values = (f"{one.relation}: {one.answer}", f"{other.relation}: {other.answer}")
        named = {"places": named_places(words, of_other), "values": values, "language": language}
        made.append(PatchPair(one.text, other.text, one.answer, other.answer, one.subject, **named))  # type: ignore[arg-type]
    return made


def subject_pairs(facts: Sequence[Fact]) -> list[PatchPair | None]:
    """Each fact with itself, words of its subject called ``subject``; None where the subject is part of a word."""
    made: list[PatchPair | None] = []
    language = next((fact.language for fact in facts), None)
    texts, subjects = _words([one.text for one in facts], language), _words([one.subject for one in facts], language)
    for fact, words, subject in zip(facts, texts, subjects, strict=True):
        starts = [start for start in range(len(words)) if words[start : start + len(subject)] == subject]
        if not starts or _MASK not in words:
            made.append(None)
            continue
        of_subject = range(starts[0], starts[0] + len(subject))
        changed = tuple("" if number in of_subject else word for number, word in enumerate(words))
        made.append(replace(fact.as_pair(), places=named_places(words, changed)))
    return made


def _words(texts: Sequence[str], language: str | None) -> list[tuple[str, ...]]:
    written = [Prompt(text).written(_MASK) for text in texts]
    return [tuple(one.words) for one in as_sentences(written, language=language)]


@dataclass(frozen=True)
class SensitivePairs:
    """Minimal pairs in which a model predicts a word that both sentences share better in the grammatical one."""

    pairs: tuple[PatchPair, ...]
    """Texts in which that word is masked. Values are the group and the word, with ``grammatical`` or ``ungrammatical``:
    texts of one value share the word and what decides about it."""
    falls: tuple[float, ...]
    """Decrease of the word's log-probability (nats) in the ungrammatical sentence."""
    rises: tuple[float, ...]
    """Increase there of the log-probability of the shared word that rises most, by pair; 0 where
    none does. A model that knows nothing of grammar has falls and rises of one size."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the other pairs, and why they are left out."""


def sensitive_pairs(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    *,
    clusters: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    language: str | None = None,
) -> SensitivePairs:
    """Turn minimal pairs into texts with a mask, for :func:`patch`.

    A minimal pair such as *the author laughs* and *the author laugh* has no mask. Here each word that both sentences
    share and that is a single piece is masked in turn in both; of these words the one is chosen whose log-probability
    falls most from the grammatical to the ungrammatical sentence: *author*, which *laughs* calls for and *laugh* does
    not. The choice is made on passes in which nothing is patched, so that it selects pairs and words, not places. A
    pair in which no word's log-probability falls is left out: the model does not tell its sentences apart.

    Places of the pairs returned are ``before``, ``changed`` (the words that differ), ``between``, ``mask`` and
    ``after``.

    Args:
        encoder: a masked language model.
        pairs: the grammatical and the ungrammatical sentence of each, without masks.
        clusters: what is resampled together, one name for each pair; each pair by itself when left out.
        groups: the phenomenon of each pair; one for all when left out.
        language: language of the sentences, by whose rules words are found.

    Raises:
        ClozeError: no pair, or a sentence with a mask.
        ModelError: no masked-LM head.
    """
    if not pairs:
        raise ClozeError("no pair: give at least one")
    texts = list(as_sentences([text for pair in pairs for text in pair], language=language))
    reasons: dict[int, str] = {}
    asked: list[tuple[int, int]] = []
    prompts: list[Prompt] = []
    for number, sides in enumerate(zip(texts[::2], texts[1::2], strict=True)):
        shared = _shared_words(*sides)
        if isinstance(shared, str):
            reasons[number] = shared
            continue
        for place in shared:
            asked.append((number, place))
            prompts += [Prompt(_masked(side, place), (side.words[place],)) for side in sides]
    best: dict[int, tuple[float, int]] = {}
    rises: dict[int, float] = {}
    if prompts:
        values = ask(encoder, prompts).values[-1].reshape(-1, 2)
        for (number, place), fall in zip(asked, (values[:, 0] - values[:, 1]).tolist(), strict=True):
            if np.isfinite(fall):
                best[number] = max(best.get(number, (fall, place)), (fall, place))
                rises[number] = max(rises.get(number, 0.0), -fall)
    made: dict[int, PatchPair] = {}
    for number in (n for n in range(len(pairs)) if n not in reasons):
        if number not in best:
            reasons[number] = "no shared word is a single piece"
        elif best[number][0] <= 0:
            reasons[number] = "no shared word is less probable in the ungrammatical sentence"
        else:
            cluster = f"pair {number}" if clusters is None else clusters[number]
            group = "" if groups is None else groups[number]
            made[number] = replace(
                _pair(texts[2 * number], texts[2 * number + 1], best[number][1], cluster, group), language=language
            )
    falls, of_made = tuple(best[number][0] for number in made), tuple(rises[number] for number in made)
    return SensitivePairs(tuple(made.values()), falls, of_made, tuple(sorted(reasons.items())))


def _shared_words(one: Sentence, other: Sentence) -> list[int] | str:
    """Places of shared words that stand by themselves, or why the sentences cannot be patched into one another."""
    if len(one) != len(other):
        return "sentences of different numbers of words"
    differ = _differing(one, other)
    if not differ:
        return "the two sentences are the same"
    if differ[-1] - differ[0] >= len(differ):
        return "sentences that differ in several places"
    return [place for place, word in enumerate(one.words) if place not in differ and any(map(str.isalpha, word))]


def _differing(one: Sentence, other: Sentence) -> list[int]:
    return [place for place in range(len(one)) if one.words[place] != other.words[place]]


def _masked(sentence: Sentence, place: int) -> str:
    start, end = sentence.spans[place]
    return f"{sentence.text[:start]}{MASK}{sentence.text[end:]}"


def _pair(one: Sentence, other: Sentence, place: int, cluster: str, group: str) -> PatchPair:
    word, differ = one.words[place], _differing(one, other)
    words = ["[MASK]" if number == place else form for number, form in enumerate(one.words)]
    places = named_places(words, ["" if n in differ else form for n, form in enumerate(words)], "changed")
    values = f"{group} {word}, grammatical", f"{group} {word}, ungrammatical"
    return PatchPair(_masked(one, place), _masked(other, place), word, "", cluster, places, values)
