"""Query and keys of one head by dimension, next to the model's own maps and projections."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from bertology.attention import query_key
from bertology.cli._app import app
from bertology.encoders import Encoder
from bertology.errors import BertologyError, CorpusError, ModelError

TEXT = "the quick fox sees the lazy dog"


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "albert", "modernbert"])
def test_products_add_up_to_the_weights_of_the_model(of_family: Callable[..., Encoder], family: str) -> None:
    encoder = of_family(family)
    for head in range(1, encoder.n_heads + 1):
        found = query_key(TEXT, "fox", head=f"L2H{head}", model=encoder)
        ids = torch.tensor([encoder.tokenizer(TEXT)["input_ids"]])
        expected = encoder.attentions(ids, layers=[2])[2][0, head - 1, found.place].numpy()
        scores = np.exp(found.scores.astype(np.float64))
        np.testing.assert_allclose(scores / scores.sum(), expected, atol=1e-5)
        assert np.array_equal(found.visible, expected > 0)
        assert sum(row[2] == "masked" for row in found.rows()) == (expected == 0).sum()
        np.testing.assert_allclose(found.weights, expected, atol=1e-6)
        assert len(found.labels) == len(expected) == ids.shape[1]
        assert not encoder.is_gated
    assert encoder.model.body.config._attn_implementation == "sdpa"  # type: ignore[union-attr]


def test_they_are_the_projections_of_bert(of_family: Callable[..., Encoder]) -> None:
    encoder: Any = of_family("bert")
    found = query_key(TEXT, "dog", head="L1H2", model=encoder)
    ids = torch.tensor([encoder.tokenizer(TEXT)["input_ids"]])
    hidden, block = encoder.hidden_states(ids, layers=[0])[0][0], encoder.model.body.encoder.layer[0].attention.self
    dim = hidden.shape[1] // encoder.n_heads
    queries, keys = (part(hidden)[:, dim : 2 * dim].detach().numpy() for part in (block.query, block.key))
    np.testing.assert_allclose(found.query, queries[found.place], atol=1e-5)
    np.testing.assert_allclose(found.keys, keys, atol=1e-5)
    np.testing.assert_allclose(found.products, queries[found.place] * keys / dim**0.5, atol=1e-5)
    assert found.labels[found.place].startswith("d")
    header, *rows = found.rows(n_dimensions=1)
    assert (header[0], len(rows)) == ("subword", len(found.labels))
    strongest = int(np.abs(found.products[0]).argmax())
    assert rows[0][-1] == f"{strongest + 1}: {found.products[0, strongest]:+.2f}"


def test_pairs_and_repeated_words(of_family: Callable[..., Encoder]) -> None:
    encoder = of_family("bert")
    one, two = (query_key(TEXT, "the", head="L2H1", model=encoder, occurrence=which) for which in (1, 2))
    assert one.place < two.place
    pair = query_key(TEXT, "fox", second="a dog", head="L2H1", model=encoder)
    assert pair.labels[: len(one.labels)] == one.labels
    assert len(pair.labels) > len(one.labels)
    with pytest.raises(CorpusError, match="'the' stands 2 times"):
        query_key(TEXT, "the", head="L2H1", model=encoder)
    with pytest.raises(BertologyError, match="is several words: a query is that of one"):
        query_key(TEXT, "the quick", head="L2H1", model=encoder)
    with pytest.raises(BertologyError, match="2 heads: a query is that of one head"):
        query_key(TEXT, "fox", head="L2H1,L2H2", model=encoder)


@pytest.mark.parametrize("family", ["deberta-v2", "mpnet"])
def test_scores_that_are_more_than_products_are_refused(of_family: Callable[..., Encoder], family: str) -> None:
    with pytest.raises(ModelError, match="scores are more than products of queries and keys"):
        query_key(TEXT, "fox", head="L1H1", model=of_family(family))


def test_the_command(tmp_path: Path) -> None:
    figure = tmp_path / "query.svg"
    asked = ["attention", "The old farmers see the dog.", "--head", "L2H1", "--out", str(figure)]
    result = CliRunner().invoke(app, [*asked, "--query", "see"])
    assert result.exit_code == 0, result.output
    assert "dimensions (from 1) with the largest products" in result.output
    assert all(text in figure.read_text() for text in ("query × key", "farmers", "attention weight"))
    assert CliRunner().invoke(app, [*asked, "--query", "zebra"]).exit_code != 0
    for wrong in ("--gold pocket --sentence 1", "--level piece", "--weights norm", "--layers 1-2"):
        refused = CliRunner().invoke(app, [*asked, "--query", "see", *wrong.split()], env={"COLUMNS": "200"})
        assert refused.exit_code == 2
        assert f"without {wrong.split()[0]}: --head" in refused.output
