import json

import numpy as np
import pytest
import torch

from bertology.attention import stream_maps
from bertology.attention.patterns import PATTERNS
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder
from bertology.results.views import head_tables
from bertology.runner import ProbeRequest, run_probes
from bertology_probes.head_patterns import PROBE


def shares(encoder, sentences, **settings):
    probe = PROBE.with_settings(settings)
    level, pairs = probe.level, probe.pairs
    return stream_maps(encoder, sentences, probe.statistics(sentences), level=level, pairs=pairs).results[0][0]


@pytest.fixture
def pocket():
    return load_encoder("pocket", device="cpu")


def test_heads_that_look_at_one_place(pocket):
    """The same bias in all keys but the first makes a column; without keys attention is even."""
    sentences = load_corpus("pocket")["test"][:12]
    for block in pocket.model.blocks:
        query, key = block.attention.self.query, block.attention.self.key
        for part in (query, key):
            torch.nn.init.zeros_(part.weight)
            torch.nn.init.zeros_(part.bias)
    even = shares(pocket, sentences)
    assert (even.of("heterogeneous") == 1).all()
    # Along the direction in which [CLS] differs from all else the first layer's first head is given keys.
    first = pocket.model.blocks[0].attention.self
    states = pocket.hidden_states(torch.tensor([pocket.tokenize(sentences).window(0).tolist()]), layers=[0])[0][0]
    direction = states[0] - states[1:].mean(0)
    with torch.no_grad():
        first.key.weight[0] = direction / direction.norm()
        first.query.bias[0] = 40.0
    found = shares(pocket, sentences)
    assert found.of("vertical")[0].tolist() == [1, 0, 0, 0]


def test_layers_of_pocket_bert(pocket):
    """It learned from pairs whether the second sentence follows, so its upper layers keep the two apart."""
    sentences = load_corpus("pocket")["test"][:150]
    found = shares(pocket, sentences)
    np.testing.assert_allclose(found.values.sum(0), 1)
    assert found.under[0].sum() == 75
    assert found.of("diagonal")[0].min() > 0.8
    assert found.of("block")[0].max() == 0
    assert found.of("block")[2].max() > 0.6
    alone = shares(pocket, sentences, texts="sentences")
    assert alone.under[0].sum() > 140, "all but the shortest"
    assert (alone.of("block") == 0).all()
    assert alone.of("heterogeneous").max() > 0.5


def test_rows_of_a_run(tiny_bert, tiny_corpus):
    request = ProbeRequest(tasks=("head_patterns",), model=str(tiny_bert), corpus=str(tiny_corpus), controls=())
    rows = [row for row in run_probes(request).rows if row.init == "pretrained"]
    assert {row.metric for row in rows} == {"pattern_share"}
    assert {row.group for row in rows} == set(PATTERNS)
    for head in {row.head for row in rows}:
        own = [row for row in rows if row.head == head]
        assert sum(row.value for row in own) == pytest.approx(1)
        assert all(row.ci_low <= row.value <= row.ci_high for row in own)
    assert len(rows) == 3 * 4 * len(PATTERNS)
    assert json.loads(rows[0].params_json) == {"pairs": 15, "pairs_apart": 0}
    (notes,) = {note.text for note in head_tables(rows)[0][0].notes if note.about == "texts"}
    assert notes == "15 pairs of neighbouring sentences, for intervals drawn together"
