"""Arcs and candidates against loops over Hugging Face's maps, and planted heads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from bertology.attention import stream_maps
from bertology.attention.arcs.heads import ArcHits, CandidateHits
from bertology.attention.arcs.questions import Arcs, Candidates
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder
from tests.attention.recorder import Recorder

FAMILIES = ["bert", "roberta", "modernbert", "gpt2", "t5"]


def drawn_arcs(sentences: Sentences, seed: int = 0, *, itself: bool = False) -> Arcs:
    """Some arcs of two groups, one of which is asked of columns; words have one answer or several."""
    lot = np.random.default_rng(seed)
    groups = []
    for name in ("rows", "columns"):
        pairs = []
        for first, last in zip(sentences.starts[:-1].tolist(), sentences.starts[1:].tolist(), strict=True):
            for word in range(first, last):
                others = [other for other in range(first, last) if itself or other != word]
                wanted = min(len(others), int(lot.integers(0, 4)))
                pairs += [(word, other) for other in lot.choice(others, wanted, replace=False)] if wanted else []
        asked, answers = np.array(pairs).T
        groups.append((name, asked, answers))
    return Arcs.of(groups, looked_at=frozenset({"columns"}))


def answers_of(arcs: Arcs) -> dict[tuple[int, int], set[int]]:
    """By word and group what is right."""
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    for asked, answer, group in zip(arcs.asked.tolist(), arcs.answers.tolist(), arcs.groups.tolist(), strict=True):
        found[asked, group].add(answer)
    return found


def drawn_candidates(sentences: Sentences) -> Candidates:
    lot = np.random.default_rng(4)
    asked, words, right, questions = [], [], [], []
    for first, last in zip(sentences.starts[:-1].tolist(), sentences.starts[1:].tolist(), strict=True):
        for word in range(first + 2, last, 2):
            chosen = lot.choice(np.arange(first, word), min(3, word - first), replace=False)
            questions += [len(asked)] * len(chosen)
            right += [place == 0 or bool(lot.integers(2)) for place in range(len(chosen))]
            words += chosen.tolist()
            asked.append(word)
    is_in = np.stack([np.ones(len(asked), dtype=bool), np.arange(len(asked)) % 2 == 0], axis=1)
    arrays = (np.array(part) for part in (questions, words, right))
    return Candidates(np.array(asked), is_in, ("all", "even"), *arrays)


def best_other(found: Any, word: int, *, column: bool, itself: bool) -> Any:
    """``[layer, head]`` the word at which another looks most, or which looks at it most; −1 if there is none."""
    unit = found.words.index(word)
    units = [i for i, other in enumerate(found.words) if other >= 0 and (itself or other != word)]
    if not units:
        return np.full(found.maps.shape[:2], -1)
    weights = found.maps[:, :, units, unit] if column else found.maps[:, :, unit, units]
    return np.array([found.words[i] for i in units])[weights.argmax(-1)]


@pytest.mark.parametrize(("family", "itself"), [*((family, False) for family in FAMILIES), ("bert", True)])
def test_arcs(
    family: str, itself: bool, encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded, arcs = encoder(family), drawn_arcs(sentences, itself=itself)
    maps = [word_maps(loaded, sentence) for sentence in sentences]
    shape = (2, loaded.n_layers, loaded.n_heads, len(sentences))
    over, under = np.zeros(shape), np.zeros(shape)
    for (word, group), right in answers_of(arcs).items():
        sentence = int(sentences.sentence_of_word[word])
        start = int(sentences.starts[sentence])
        best = best_other(maps[sentence], word - start, column=group == 1, itself=itself)
        over[group, :, :, sentence] += np.isin(best, [answer - start for answer in right])
        under[group, :, :, sentence] += 1
    (found,) = stream_maps(
        loaded, sentences, [partial(ArcHits, arcs=arcs, metric="hits", self_competes=itself)]
    ).results[0]
    assert (found.names, found.metric, found.unit) == (("rows", "columns"), "hits", "head")
    np.testing.assert_array_equal(found.over, over)
    np.testing.assert_array_equal(np.broadcast_to(found.under, shape), under)


@pytest.mark.parametrize("family", FAMILIES)
def test_candidates(
    family: str, encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded, asked = encoder(family), drawn_candidates(sentences)
    maps = [word_maps(loaded, sentence) for sentence in sentences]
    shape = (2, loaded.n_layers, loaded.n_heads, len(sentences))
    over, under = np.zeros(shape), np.zeros(shape)
    for number, word in enumerate(asked.asked.tolist()):
        sentence = int(sentences.sentence_of_word[word])
        start, words = int(sentences.starts[sentence]), maps[sentence].words
        own = slice(*asked.starts[number : number + 2])
        columns = [words.index(other - start) for other in asked.words[own].tolist()]
        weights = maps[sentence].maps[:, :, words.index(word - start), columns]
        right = asked.is_right[own]
        # Heads that see their neighbourhood alone give several candidates nothing: a tie.
        wins = weights[..., right].max(-1) > weights[..., ~right].max(-1, initial=-1.0)
        for group in np.flatnonzero(asked.is_in[number]):
            over[group, :, :, sentence] += wins
            under[group, :, :, sentence] += 1
    (found,) = stream_maps(loaded, sentences, [partial(CandidateHits, candidates=asked, metric="hits")]).results[0]
    np.testing.assert_array_equal(found.over, over)
    np.testing.assert_array_equal(np.broadcast_to(found.under, shape), under)


def test_windows(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    narrow = encoder("bert", max_pieces=16)
    arcs, asked = drawn_arcs(sentences), drawn_candidates(sentences)
    makers = [
        Recorder,
        partial(ArcHits, arcs=arcs, metric="hits"),
        partial(CandidateHits, candidates=asked, metric="hits"),
    ]
    read = stream_maps(narrow, sentences, makers, layers=[2])
    assert read.n_windows > len(sentences)
    over, n_unseen = np.zeros((2, narrow.n_heads)), 0
    for (word, group), right in answers_of(arcs).items():
        batch, row, unit = next(
            (batch, row, int(torch.nonzero(batch.units.word[row] == word)))
            for batch in read.results[0]
            for row in range(len(batch.units))
            if bool(((batch.units.word[row] == word) & batch.units.counts[row]).any())
        )
        words = batch.units.word[row].tolist()
        others = [i for i, other in enumerate(words) if other >= 0 and other != word]
        n_unseen += not right & set(words)
        weights = batch.maps[row, :, others, unit] if group else batch.maps[row, :, unit, others]
        for head, best in enumerate(weights.argmax(-1).tolist()):
            over[group, head] += words[others[best]] in right
    assert n_unseen > 0
    ((hits,), (chosen,)) = read.results[1:]
    np.testing.assert_array_equal(hits.over[:, 0].sum(-1), over)
    assert hits.under[:, 0, 0].sum(-1).tolist() == [int(arcs.opens[arcs.groups == group].sum()) for group in (0, 1)]
    assert int(chosen.under[0].sum()) == len(asked)
    assert (chosen.over <= chosen.under).all()


def test_offset_baseline(sentences: Sentences) -> None:
    arcs, chosen_on = drawn_arcs(sentences, 1), drawn_arcs(sentences, 2)
    found = arcs.best_offset(sentences, chosen_on=chosen_on, metric="hits", farthest=4)

    def share(own: Arcs, group: int, offset: int) -> float:
        questions = [(word, right) for (word, of), right in answers_of(own).items() if of == group]
        return float(np.mean([word + offset in right for word, right in questions]))

    for group, name in enumerate(arcs.names):
        tried = sorted((offset for offset in range(-4, 5) if offset), key=lambda offset: (abs(offset), offset))
        best = max(tried, key=lambda offset: share(chosen_on, group, offset))
        assert found.of(name)[0, 0] == pytest.approx(share(arcs, group, best))
    assert (found.unit, found.layers, found.over.shape) == ("model", (), (2, 1, 1, len(sentences)))


def test_picks() -> None:
    words = ["The", "dog", "saw", "a", "dog", ",", "and", "a", "fox", "saw", "the", "Dog"]
    text = Sentences([Sentence.from_words(words)])
    # Of the last dog and of the fox; right are the first dog, and the second.
    asked = Candidates(
        asked=np.array([8, 11]),
        is_in=np.array([[True, True], [True, False]]),
        names=("all", "fox"),
        questions=np.array([0, 0, 1, 1, 1]),
        words=np.array([1, 4, 1, 4, 8]),
        is_right=np.array([False, True, False, True, False]),
    )
    nearest = asked.picked(text, pick="nearest", metric="hits")
    assert nearest.values[:, 0, 0].tolist() == [0.5, 1.0]
    same = asked.picked(text, pick="same_form", metric="hits")
    assert same.values[:, 0, 0].tolist() == [1.0, 1.0]
    assert (same.unit, same.metric) == ("model", "hits")
    ranked = replace(asked, ranks=np.array([1, 0, 0, 0, 1]))
    assert ranked.picked(text, pick="rule", metric="hits").values[:, 0, 0].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="no ranks to go by"):
        asked.picked(text, pick="rule", metric="hits")
