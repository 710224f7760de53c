"""Tasks of trees from corpus to rows, against trees and scores made by hand from Hugging Face's own hidden states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from bertology.corpora import Sentence, Sentences, load_corpus
from bertology.errors import BertologyError
from bertology.families.trees import TreeProbe
from bertology.results.predictions import read_predictions
from bertology.runner import run_probes
from tests.cell_files import file_of
from tests.runner.tree_runs import LAYERS, TASKS, Floats, Ran, asking

# Definitions, word by word


def scored_words(sentence: Sentence) -> list[int]:
    return [word for word, tag in enumerate(sentence.layers["upos"]) if tag != "PUNCT"]


def gold_distance(heads: tuple[int, ...], a: int, b: int) -> int:
    above_a, above_b = way_up(heads, a), way_up(heads, b)
    shared = next(word for word in above_a if word in above_b)
    return above_a.index(shared) + above_b.index(shared)


def way_up(heads: tuple[int, ...], word: int) -> list[int]:
    found = [word]
    while heads[found[-1]]:
        found.append(heads[found[-1]] - 1)
    return found


def prim(distances: Floats, words: list[int]) -> set[tuple[int, int]]:
    """Grow a tree by the shortest edge that leads out of it."""
    inside, edges = {words[0]}, set()
    while len(inside) < len(words):
        _, a, b = min((distances[a, b], a, b) for a in inside for b in words if b not in inside)
        inside.add(b)
        edges.add((min(a, b), max(a, b)))
    return edges


def heads_from(edges: set[tuple[int, int]], root: int) -> dict[int, int]:
    """Of each word its head, from 1; 0 of the root."""
    heads, todo = {root: 0}, [root]
    while todo:
        word = todo.pop()
        for a, b in edges:
            for one, other in ((a, b), (b, a)):
                if one == word and other not in heads:
                    heads[other] = word + 1
                    todo.append(other)
    return heads


def correlation_by_length(rows: list[tuple[int, float]]) -> float:
    """Mean over lengths of 5 to 50 of the mean over rows."""
    by_length = {length: [rho for n, rho in rows if n == length] for length, _ in rows if 5 <= length <= 50}
    return float(np.mean([np.mean(found) for found in by_length.values()]))


def uuas_and_dspr(test: Sentences, distances: Iterator[Floats]) -> tuple[float, float]:
    right, n_edges, rows = 0, 0, []
    for sentence, found in zip(test, distances, strict=True):
        assert sentence.heads is not None
        n, words = len(sentence), scored_words(sentence)
        if n < 3 or len(words) < 2:
            continue
        gold = {(min(w, h - 1), max(w, h - 1)) for w, h in enumerate(sentence.heads) if h}
        gold = {(a, b) for a, b in gold if a in words and b in words}
        right, n_edges = right + len(gold & prim(found, words)), n_edges + len(gold)
        for a in range(n):
            true = [gold_distance(sentence.heads, a, b) for b in range(n)]
            rows.append((n, float(spearmanr(found[a], true).statistic)))
    return right / n_edges, correlation_by_length(rows)


def root_and_nspr(test: Sentences, depths: Iterator[Floats]) -> tuple[float, float]:
    right, n_roots, rows = 0, 0, []
    for sentence, found in zip(test, depths, strict=True):
        assert sentence.heads is not None
        n, words = len(sentence), scored_words(sentence)
        if n < 3 or len(words) < 2:
            continue
        root = sentence.heads.index(0)
        if root in words:
            n_roots += 1
            right += min(words, key=lambda word: found[word]) == root
        true = [len(way_up(sentence.heads, word)) - 1 for word in range(n)]
        rows.append((n, float(spearmanr(found, true).statistic)))
    return right / n_roots, correlation_by_length(rows)


def uas_and_las(test: Sentences, parses: Iterator[dict[int, tuple[int, str]]]) -> tuple[float, float]:
    heads_right, both_right, n_words = 0, 0, 0
    for sentence, found in zip(test, parses, strict=True):
        assert sentence.heads is not None
        words = scored_words(sentence)
        if len(sentence) < 3 or len(words) < 2:
            continue
        for word in words:
            head, relation = found[word]
            true = str(sentence.layers["deprel"][word]).split(":")[0]
            n_words += 1
            heads_right += head == sentence.heads[word]
            both_right += (head, relation) == (sentence.heads[word], true)
    return heads_right / n_words, both_right / n_words


def squared(vectors: Floats, by: torch.Tensor) -> Floats:
    """Distances as the paper writes them, pair by pair."""
    mapped = vectors.astype(np.float64) @ by.double().numpy()
    return np.array([[((a - b) ** 2).sum() for b in mapped] for a in mapped])


def lengths(vectors: Floats, by: torch.Tensor) -> Floats:
    return ((vectors.astype(np.float64) @ by.double().numpy()) ** 2).sum(axis=1)


def parse(probe: TreeProbe, vectors: Floats, words: list[int]) -> dict[int, tuple[int, str]]:
    relation, depths = probe.tensors["relation"], lengths(vectors, probe.tensors["depth"])
    heads = heads_from(
        prim(squared(vectors, probe.tensors["distance"]), words), min(words, key=lambda word: depths[word])
    )
    scores = vectors @ relation[:-1].numpy() + relation[-1].numpy()
    names = [probe.origin.relations[place] for place in scores.argmax(1)]
    return {word: (head, names[word] if head else "root") for word, head in heads.items()}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("layer", LAYERS)
def test_scores_are_those_of_the_saved_probes_by_hand(ran: Ran, layer: int, seed: int) -> None:
    vectors = [found[LAYERS.index(layer)] for found in ran.vectors]

    def rows(task: str, *metrics: str) -> tuple[TreeProbe, list[float]]:
        found = [ran.row(task, metric, layer=layer, seed=seed) for metric in metrics]
        probe = TreeProbe.read(file_of(ran.run, found[0].cell_id, "probes"))[found[0].cell_id]
        assert (probe.layer, probe.origin.pooling) == (layer, "mean")
        assert probe.origin.task == f"{task}.v1"
        assert probe.origin.model_fingerprint == found[0].model_fingerprint
        return probe, [row.value for row in found]

    probe, values = rows("structural_distance", "uuas", "dspr")
    assert set(probe.tensors) == {"distance"}
    expected = uuas_and_dspr(ran.test, (squared(one, probe.tensors["distance"]) for one in vectors))
    assert values == pytest.approx(expected, abs=1e-4)
    probe, values = rows("structural_depth", "root_accuracy", "nspr")
    assert set(probe.tensors) == {"depth"}
    expected = root_and_nspr(ran.test, (lengths(one, probe.tensors["depth"]) for one in vectors))
    assert values == pytest.approx(expected, abs=1e-4)
    probe, values = rows("structural_parse", "uas", "las")
    words = [scored_words(sentence) for sentence in ran.test]
    expected = uas_and_las(ran.test, (parse(probe, one, own) for one, own in zip(vectors, words, strict=True)))
    assert values == pytest.approx(expected, abs=1e-9)


def test_predictions_are_kept_as_trees(ran: Ran) -> None:
    """Scores follow from the predictions alone, without any vector."""
    row = ran.row("structural_distance", "uuas", layer=2)
    kept = read_predictions(ran.run, row.cell_id)
    by_name = {sentence.id: sentence for sentence in ran.test}
    right = n_edges = 0
    for name, gold, pred, agreement in zip(kept.item_ids, kept.gold, kept.pred, kept.score, strict=True):
        sentence = by_name[name.rpartition(":")[0]]
        assert name.endswith(f":1-{len(sentence)}")
        true, found = kept.labels[gold].split(" "), kept.labels[pred].split(" ")
        assert true == [
            "_" if tag == "PUNCT" else str(head)
            for head, tag in zip(sentence.heads or (), sentence.layers["upos"], strict=True)
        ]
        pairs = [
            {frozenset((w, int(h))) for w, h in enumerate(marks, 1) if h not in "_0" and true[int(h) - 1] != "_"}
            for marks in (true, found)
        ]
        assert len(pairs[1]) == sum(mark != "_" for mark in found) - 1
        right, n_edges = right + len(pairs[0] & pairs[1]), n_edges + len(pairs[0])
        assert -1 <= agreement <= 1
    assert row.value == pytest.approx(right / n_edges)
    assert (row.n_items, row.n_clusters) == (len(kept.item_ids), len(kept.item_ids))


def test_the_chain_of_neighbours_by_hand(ran: Ran, tiny_corpus: Path) -> None:
    def value(task: str, metric: str) -> float:
        found: float = ran.row(task, metric, control="linear_chain", seed=None, init=None).value
        return found

    def chains() -> Iterator[dict[int, tuple[int, str]]]:
        for sentence in ran.test:
            words = scored_words(sentence)
            before = [0, *(word + 1 for word in words[:-1])]
            yield {word: (head, often if head else "root") for word, head in zip(words, before, strict=True)}

    relations = Counter(
        str(relation).split(":")[0]
        for sentence in load_corpus(str(tiny_corpus))["train"]
        for relation, tag in zip(sentence.layers["deprel"], sentence.layers["upos"], strict=True)
        if tag != "PUNCT" and relation != "root" and len(sentence) > 2
    )
    often = relations.most_common(1)[0][0]
    places = [np.arange(len(sentence)) for sentence in ran.test]
    distances = (np.abs(row[:, None] - row).astype(float) for row in places)
    assert [value(TASKS[0], name) for name in ("uuas", "dspr")] == pytest.approx(uuas_and_dspr(ran.test, distances))
    found = root_and_nspr(ran.test, (row.astype(float) for row in places))
    assert [value(TASKS[1], name) for name in ("root_accuracy", "nspr")] == pytest.approx(found)
    assert [value(TASKS[2], name) for name in ("uas", "las")] == pytest.approx(uas_and_las(ran.test, chains()))


# What cannot be done


def test_a_rank_above_the_width(tiny_bert: Path, tiny_corpus: Path, counted_forwards: list[int]) -> None:
    for task in TASKS:
        request = asking(tiny_bert, str(tiny_corpus), task, settings={"rank": 33})
        with pytest.raises(BertologyError, match=f"task {task}: rank 33 of vectors that are 32 wide: give 1 to 32"):
            run_probes(request)
    assert counted_forwards == []
