"""Data for questions about languages: samples, labels and types of words, and answers without vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import ParallelText, Sentences
from bertology.errors import CorpusError
from bertology.geometry.languages import (
    AlignedPairs,
    LabelledWords,
    TransferItems,
    TranslatedWords,
    align_words,
    scores_of_links,
)
from bertology.measures import majority
from bertology.measures.baselines import word_majority
from bertology.measures.sums import Integers, LayerSums

FAMILIES = {
    language: family
    for family, codes in {
        "Germanic": "af da de en is nb nl nn no sv yi",
        "Romance": "ca es fr gl it la oc pt ro",
        "Slavic": "be bg bs cs hr mk pl ru sk sl sr uk",
        "Baltic": "lt lv",
        "Celtic": "br cy ga gd",
        "Indic": "bn gu hi mr ne pa ur",
        "Iranian": "fa ku ps tg",
        "Uralic": "et fi hu",
        "Turkic": "az kk ky tr tt uz",
        "Semitic": "am ar he mt",
        "Austronesian": "id jv ms su tl",
        "Dravidian": "kn ml ta te",
        "Sinitic": "yue zh",
    }.items()
    for language in codes.split()
}
"""Genera of languages by ISO 639 code, as in WALS (Dryer & Haspelmath 2013)."""
Labels = tuple[Integers, Integers, tuple[str, ...]]
"""Words of a split, the code of the label of each, and the labels."""


def sampled_sentences(text: ParallelText, most: int, *, only_translated: bool) -> NDArray[np.bool_]:
    """``[sentence]`` which are read: random ones of each language, translations with one another.

    Raises:
        CorpusError: fewer than two have a translation, where only such are read.
    """
    dice, chosen = np.random.default_rng(0), np.zeros(len(text.language), dtype=bool)
    units, times = np.unique(text.unit[text.unit >= 0], return_counts=True)
    units = units[times > 1] if only_translated else units
    if only_translated and len(units) < 2:
        raise CorpusError(f"{len(units)} sentences have a translation, fewer than two: give parallel:en=PATH,de=PATH")
    chosen[np.isin(text.unit, dice.permutation(units)[:most])] = True
    if not only_translated:
        for number in range(len(text.languages)):
            lone = np.flatnonzero((text.language == number) & (text.unit < 0))
            chosen[dice.permutation(lone)[:most]] = True
    return chosen


def sampled_by_language(sentences: Sentences, words: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Those of some words that stand in as many random sentences as have ``most`` of them in each language."""
    text = ParallelText.of(sentences)
    of_sentence = np.bincount(sentences.sentence_of_word[words], minlength=len(text.language))
    order = np.random.default_rng(0).permutation(len(of_sentence))
    chosen = np.zeros(len(of_sentence), dtype=bool)
    for language in range(len(text.languages)):
        own = order[text.language[order] == language]
        chosen[own[np.cumsum(of_sentence[own]) <= most]] = True
    return np.unique(words[chosen[sentences.sentence_of_word[words]]])


def transfer_items(
    sentences: Mapping[str, Sentences], labels: Mapping[str, Labels], words: Mapping[str, Integers]
) -> TransferItems:
    """The labelled words of all splits that are among some words, by language."""
    texts = {split: ParallelText.of(sentences[split]) for split in labels}
    names = tuple(dict.fromkeys(name for text in texts.values() for name in text.languages))
    number = {value: code for code, value in enumerate(dict.fromkeys(v for one in labels.values() for v in one[2]))}
    splits: dict[str, LabelledWords] = {}
    of_item: dict[str, Integers] = {}
    for split, (of_split, codes, values) in labels.items():
        kept = np.isin(of_split, words[split])
        of_item[split] = sentences[split].sentence_of_word[of_split[kept]]
        of_text = np.array([names.index(name) for name in texts[split].languages])
        language = of_text[texts[split].language[of_item[split]]]
        own = np.array([number[value] for value in values])[codes[kept]]
        splits[split] = LabelledWords(np.searchsorted(words[split], of_split[kept]), language, own)
    units = texts["test"].unit
    units = np.where(units >= 0, units, units.max(initial=-1) + 1 + np.arange(len(units)))
    return TransferItems(names, len(number), splits, np.unique(units[of_item["test"]], return_inverse=True)[1])


def transfer_by_label(
    items: TransferItems, sentences: Mapping[str, Sentences], words: Mapping[str, Integers], *, by_form: bool
) -> Iterator[LayerSums]:
    """The scores of the most frequent label of the language of the fit, of all words or of the same form."""
    train, test = items.splits["train"], items.splits["test"]
    forms = {
        split: _forms(sentences[split], words[split][items.splits[split].places].tolist())
        for split in ("train", "test")
    }
    known = {form: number for number, form in enumerate(dict.fromkeys(forms["train"]))}
    codes = np.array([known[form] for form in forms["train"]])
    right: dict[int, NDArray[np.float64]] = {}
    for source in items.sources:
        own = train.language == source
        if by_form:
            seen = set(codes[own].tolist())
            asked = np.array([number if (number := known.get(form, -1)) in seen else -1 for form in forms["test"]])
            predicted = word_majority(codes[own], train.codes[own], asked, n_words=len(known))
        else:
            predicted = np.full(len(test), majority(train.codes[own]))
        right[source] = np.asarray(predicted == test.codes, dtype=np.float64)[None]
    yield from items.scores("transfer", (None,), right)
    yield from items.own_scores("own", (None,), right)


def translated_words(sentences: Sentences, types: Integers) -> list[TranslatedWords]:
    """Words with one sure link, from each language to each other one.

    Raises:
        CorpusError: no sentence has gold links.
    """
    text = ParallelText.of(sentences)
    found = (TranslatedWords.of(text, *pair, types) for pair in permutations(text.languages, 2))
    if not (known := [one for one in found if one is not None]):
        remedy = "give parallel:en=PATH,fr=PATH,links=path/to/gold"
        raise CorpusError(f"no sentence has gold links of words: {remedy}")
    return known


def links_without_vectors(
    pairs: AlignedPairs, sentences: Sentences, words: Integers, *, by_place: bool
) -> Iterator[LayerSums]:
    """The scores of links between words at the same relative place, or that share most pairs of characters."""
    counts = []
    for number, (own, other) in enumerate(pairs.words):
        if by_place:
            similar = -np.abs(np.subtract.outer(*(np.linspace(0, 1, len(some)) for some in (own, other))))
            linked = align_words(similar, "argmax") if similar.size else similar > 0
        else:
            forms = [_forms(sentences, [int(words[place]) for place in some]) for some in (own, other)]
            similar = np.array([[_alike(one, two) for two in forms[1]] for one in forms[0]])
            linked = (align_words(similar, "argmax") & (similar > 0)) if similar.size else similar > 0
        counts.append(pairs.counts(number, linked))
    return scores_of_links("argmax", (None,), [counts], np.arange(len(pairs)))


def _forms(sentences: Sentences, words: list[int]) -> list[str]:
    return [sentences.word(word).casefold() for word in words]


def _alike(one: str, other: str) -> float:
    """The share of pairs of characters that two words have in common (Dice)."""
    first, second = (set(zip(f" {word}", f"{word} ", strict=True)) for word in (one, other))
    return 2 * len(first & second) / (len(first) + len(second))
