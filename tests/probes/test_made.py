"""Items made by rule: physical common sense, and numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bertology import Results, load_corpus, load_encoder, probe
from bertology.encoders.encoder import WindowReader
from bertology.errors import BertologyError, CorpusError
from bertology_probes.made import COMPARISONS, NUMERACY


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("size", 240, 40), ("weight", 252, 42), ("affordance", 240, 40)]
)
def test_items_in_which_a_constant_answer_is_right_half_the_time(kind, size, clusters):
    probe = COMPARISONS.make(kind)
    items = probe.items("made")
    assert probe.task == f"comparisons:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    for group in items.groups:
        of_group = [item for item in items.items if item.group == group]
        for word in {item.answer for item in of_group}:
            asked = [item for item in of_group if word in (item.answer, *item.rivals)]
            assert sum(item.answer == word for item in asked) * 2 == len(asked)


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("decode", 300, 100), ("maximum", 360, 180), ("addition", 272, 52)]
)
def test_items_of_numbers(kind, size, clusters):
    probe = NUMERACY.make(kind)
    items = probe.items("made")
    assert probe.task == f"numeracy:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    assert all(item.text.count("{mask}") == 1 and item.blind.endswith("{mask}.") for item in items.items)
    assert not items.left_out


def test_unknown_kinds_and_sources_of_numbers():
    with pytest.raises(BertologyError, match="task numeracy:product: it should be one of decode, maximum, addition"):
        NUMERACY.make("product")
    with pytest.raises(CorpusError, match=r"items are made by rule and read from no file; give made"):
        NUMERACY.make("addition").items("some/file")


def value_of(results: Results, metric: str, **where: Any) -> float:
    (row,) = (
        row
        for row in results.rows
        if row.metric == metric and all(getattr(row, name) == value for name, value in where.items())
    )
    assert row.value is not None
    return row.value


@pytest.mark.parametrize("split", ["test", "outside"])
def test_values_are_read_as_by_ridge_regression_of_scikit_learn(tiny_bert: Path, split: str) -> None:
    settings: Any = {"controls": ["mean"], "stored_dtype": "float32", "test_split": split}
    found = probe("numeracy:value", model=tiny_bert, corpus="numbers:words:199", layers="0,2", **settings)
    corpus, encoder = load_corpus("numbers:words:199"), load_encoder(tiny_bert)
    vectors, values = {}, {}
    for name in ("train", "dev", split):
        values[name] = np.array(list(map(int, corpus[name].layers["number"].decoded(0, corpus[name].n_words))))
        vectors[name] = WindowReader(encoder, corpus[name]).read_all([0, 2]).numpy().astype(np.float64)
    train = values["train"]
    for place, layer in enumerate((0, 2)):
        (record,) = {row.params_json for row in found.rows if row.layer == layer and row.control == "none"}
        strengths = json.loads(record)["strengths"]
        fits = [make_pipeline(StandardScaler(), Ridge(alpha=one * len(train))) for one in strengths]
        for fit in fits:
            fit.fit(vectors["train"][place], train)
        best = max(fits, key=lambda fit: fit.score(vectors["dev"][place], values["dev"]))
        predicted = best.predict(vectors[split][place])
        rmse = np.sqrt(np.mean((predicted - values[split]) ** 2))
        where = {"layer": layer, "control": "none", "init": "pretrained"}
        assert value_of(found, "rmse", **where) == pytest.approx(rmse, rel=1e-4)
        explained = 1 - rmse**2 / np.var(values[split])
        assert value_of(found, "r2", **where) == pytest.approx(explained, rel=1e-4)
    mean = np.sqrt(np.mean((values[split] - train.mean()) ** 2))
    assert value_of(found, "rmse", control="mean") == pytest.approx(mean, rel=1e-6)


def test_values_of_numbers_need_numbers() -> None:
    with pytest.raises(CorpusError, match="no word has the value of a number: give numbers:digits or numbers:words"):
        NUMERACY.make("value").examples(load_corpus("pocket")["dev"])
