from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import load_corpus, probe
from bertology.activations.layers import LayerVectors
from bertology.corpora import Corpus, Sentence, Sentences
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.probing import get_probe
from bertology.runner import ProbeRequest, run_probes

PROBE: Any = get_probe("roles_and_fillers")
SIZES = {"train": 120, "dev": 40, "test": 60}


@pytest.fixture(scope="module")
def small() -> Corpus:
    pocket = load_corpus("pocket")
    return Corpus("small", {split: pocket[split][:size] for split, size in SIZES.items()})


def planted(corpus: Corpus, roles: Any, *, noise: float = 0.0, n_layers: int = 2) -> dict[str, LayerVectors]:
    """Words whose vectors are random by tag, times a random matrix by role in layer 1; layer 0 is without a role."""
    dice = np.random.default_rng(0)
    tags = sorted({tag for text in corpus.splits.values() for tag in text.layers["upos"].values})
    of_tags = {tag: dice.normal(size=6) for tag in tags}
    maps = dice.normal(size=(100, 6, 6))
    found = {}
    for split, text in corpus.splits.items():
        layers = text.layers["upos"]
        plain = np.array([of_tags[layers.values[code]] for code in layers.codes])
        placed = np.einsum("wij,wj->wi", maps[roles(text)], plain)
        placed += noise * dice.normal(size=placed.shape)
        found[split] = LayerVectors.of_arrays(np.stack([plain, placed][:n_layers]))
    return found


def from_left(text: Sentences) -> Any:
    return np.arange(text.n_words) - text.starts[text.sentence_of_word]


def test_the_scheme_that_made_the_vectors_is_found(small: Corpus) -> None:
    configured = PROBE.with_settings({"n_roles": 12, "fillers": "embeddings"})
    roles = lambda text: np.minimum(from_left(text), 11)  # noqa: E731
    found = {
        one.metric: one.values
        for one in configured.statistics(planted(small, roles), small.splits, configured.items(small.splits))
    }
    assert found["r2_bag"][0] > 0.8
    gains = {name: values[1] for name, values in found.items() if name.startswith("gain_")}
    assert max(gains, key=lambda name: gains[name]) == "gain_left_to_right"
    assert gains["gain_left_to_right"] > 0.1 + gains["gain_random_tree"]
    assert set(found) == {metric.name for metric in configured.metrics}


@pytest.mark.parametrize("fillers", ["embeddings", "forms"])
def test_trees_of_the_corpus_are_not_those_of_other_sentences(small: Corpus, fillers: str) -> None:
    """A word's vector depends on whether it stands before or after its head."""
    configured = PROBE.with_settings({"n_roles": 9, "fillers": fillers, "schemes": "tree,shuffled_tree,random_tree"})

    def side(text: Sentences) -> Any:
        places = from_left(text) + 1
        return np.where(text.heads == 0, 0, np.where(text.heads > places, 1, 2))

    found = {
        one.metric: one.values
        for one in configured.statistics(planted(small, side), small.splits, configured.items(small.splits))
    }
    assert found["tree_over_shuffled_tree"][1] > 0.02
    assert found["gain_tree"][1] > found["gain_random_tree"][1] + 0.02


def test_rows_are_of_the_encoders_vectors_and_the_special_token_is_read(tiny_bert: Path, small: Corpus) -> None:
    settings = {"schemes": "left_to_right", "n_roles": 8}
    readout = {"name": "vectors", "settings": settings, "pool": ["mean", "cls"]}
    rows = probe("roles_and_fillers", model=tiny_bert, corpus=small, readout=readout, controls=()).to_pandas()
    encoder, vectors = load_encoder(str(tiny_bert), device="cpu"), {}
    for split, text in small.splits.items():
        vectors[split] = LayerVectors.of_arrays(encoder.vectors(text).values)
    configured = PROBE.with_settings(settings)
    expected = {
        one.metric: dict(zip(one.layers, one.values, strict=True))
        for one in configured.statistics(vectors, small.splits, configured.items(small.splits))
    }
    is_cls = rows.params_json.str.contains("cls")
    got = rows[~is_cls].set_index(["metric", "layer"]).value
    assert got["r2_bag", 0] > 0.5
    for (metric, layer), value in got.items():
        assert value == pytest.approx(expected[metric][layer], abs=0.01)
    # All sentences have the same special token in layer 0.
    assert set(rows[is_cls].layer) == {1, 2, 3}
    assert set(rows.n_items) == {60}


def refused(corpus: Corpus, message: str, model: Path, **settings: Any) -> None:
    from bertology.families.request import ReadoutConfig

    layers = settings.pop("layers", "0,1")
    configs = {"roles_and_fillers": (ReadoutConfig(settings=settings),)}
    request = ProbeRequest(tasks=("roles_and_fillers",), model=str(model), configs=configs, layers=layers, controls=())
    with pytest.raises(BertologyError, match=message):
        run_probes(request, corpus=corpus)


def test_what_cannot_be_asked_is_refused(tiny_bert: Path, small: Corpus) -> None:
    flat = {split: Sentences(Sentence.from_words(one.words) for one in text) for split, text in small.splits.items()}
    plain = Corpus("plain", flat)
    refused(plain, "has no tree of dependencies: give a treebank, or schemes=left_to_right,right_to_left,", tiny_bert)
    refused(plain, "has no tree of constituents: give a treebank", tiny_bert, trees="constituents")
    refused(small, "unknown scheme of roles 'trees': there are", tiny_bert, schemes="trees")
    refused(
        small,
        "setting fit of task roles_and_fillers is 'sgd': input should be 'ridge' or 'low_rank'",
        tiny_bert,
        fit="sgd",
    )
    refused(small, "setting n_roles of task roles_and_fillers is 1: input should be greater", tiny_bert, n_roles=1)
    refused(small, "layer 0, which is not read", tiny_bert, layers="1", schemes="left_to_right")
    few = Corpus("few", {split: text[:10] for split, text in small.splits.items()})
    refused(few, "10 sentences of train whose words all have vectors are too few: give 20", tiny_bert)


def test_no_other_geometry_is_of_a_special_token(tiny_bert: Path, small: Corpus) -> None:
    with pytest.raises(BertologyError, match="nothing to erase or pool"):
        probe("contextuality", model=tiny_bert, corpus=small, pool="cls", controls=())
