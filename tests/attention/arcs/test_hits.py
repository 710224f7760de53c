"""Arcs and candidates against loops over Hugging Face's maps, and planted heads."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from bertology.attention import stream_maps
from bertology.attention.arcs.heads import ArcHits
from bertology.attention.arcs.questions import Arcs
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
    for asked, answer, group in zip(arcs.asked[arcs.questions], arcs.answers, arcs.groups[arcs.questions], strict=True):
        found[int(asked), int(group)].add(int(answer))
    return found


def drawn_candidates(sentences: Sentences) -> Arcs:
    lot = np.random.default_rng(4)
    asked: dict[int, dict[int, tuple[bool]]] = {}
    for first, last in zip(sentences.starts[:-1].tolist(), sentences.starts[1:].tolist(), strict=True):
        for word in range(first + 2, last, 2):
            chosen = lot.choice(np.arange(first, word), min(3, word - first), replace=False)
            right = [place == 0 or bool(lot.integers(2)) for place in range(len(chosen))]
            asked[word] = {place: (is_right,) for place, is_right in zip(chosen.tolist(), right, strict=True)}
    is_in = np.stack([np.ones(len(asked), dtype=bool), np.arange(len(asked)) % 2 == 0], axis=1)
    return Arcs.among(("all", "even"), asked, is_in)


def looked_at(asked: Arcs, sentences: Sentences, maps: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Of each question its sentence, what its candidates are given ``[layer, head, candidate]``, which are right."""
    for number, word in enumerate(asked.asked.tolist()):
        sentence = int(sentences.sentence_of_word[word])
        start, words = int(sentences.starts[sentence]), maps[sentence].words
        own = slice(*asked.starts[number : number + 2])
        columns = [words.index(other - start) for other in asked.answers[own].tolist()]
        yield sentence, maps[sentence].maps[:, :, words.index(word - start), columns], asked.is_right[own]


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
    for number, (sentence, weights, right) in enumerate(looked_at(asked, sentences, maps)):
        # Heads that see their neighbourhood alone give several candidates nothing: a tie.
        wins = weights[..., right].max(-1) > weights[..., ~right].max(-1, initial=-1.0)
        over[asked.groups[number], :, :, sentence] += wins
        under[asked.groups[number], :, :, sentence] += 1
    (found,) = stream_maps(loaded, sentences, [partial(ArcHits, arcs=asked, metric="hits")]).results[0]
    np.testing.assert_array_equal(found.over, over)
    np.testing.assert_array_equal(np.broadcast_to(found.under, shape), under)


def test_windows(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    narrow = encoder("bert", max_pieces=16)
    arcs, asked = drawn_arcs(sentences), drawn_candidates(sentences)
    makers = [
        Recorder,
        partial(ArcHits, arcs=arcs, metric="hits"),
        partial(ArcHits, arcs=asked, metric="hits"),
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
    assert hits.under[:, 0, 0].sum(-1).tolist() == np.bincount(arcs.groups).tolist()
    assert int(chosen.under.sum()) == len(asked)
    assert (chosen.over <= chosen.under).all()


def test_offset_baseline(sentences: Sentences) -> None:
    arcs, chosen_on = drawn_arcs(sentences, 1), drawn_arcs(sentences, 2)
    found = arcs.baseline("offset", sentences, chosen_on=chosen_on, metric="hits", farthest=4)

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
    candidates = {8: {1: (False, 1), 4: (True, 0)}, 11: {1: (False, 0), 4: (True, 0), 8: (False, 1)}}
    asked = Arcs.among(("all", "fox"), candidates, np.array([[True, True], [True, False]]))
    nearest = asked.baseline("nearest", text, metric="hits")
    assert nearest.values[:, 0, 0].tolist() == [0.5, 1.0]
    same = asked.baseline("head_match", text, metric="hits")
    assert same.values[:, 0, 0].tolist() == [1.0, 1.0]
    assert (same.unit, same.metric) == ("model", "hits")
    assert asked.baseline("rule", text, metric="hits").values[:, 0, 0].tolist() == [1.0, 1.0]
