"""Probes of attention heads from request to tables: cells, rows, controls, resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertology.attention import stream_maps
from bertology.attention.measured import Masses
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.results import Results
from bertology.runner import ProbeRequest, run_probes
from bertology.runner import plan as finder
from tests.runner.head_probes import LooksAt, Lost

Asking = Callable[..., Results]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two probes, as if someone had installed them."""
    known = finder.get_probe
    own = {"looks_at": LooksAt(), "lost": Lost()}
    monkeypatch.setattr(finder, "get_probe", lambda name: own.get(name) or known(name))


@pytest.fixture
def asking(tiny_bert: Path, tiny_corpus: Path) -> Asking:
    def run(tasks: str = "looks_at", *, out: Path | None = None, **chosen: Any) -> Results:
        given: dict[str, Any] = {"model": str(tiny_bert), "corpus": str(tiny_corpus), "controls": (), **chosen}
        return run_probes(ProbeRequest(tasks=tuple(tasks.split(",")), **given), out=out)

    return run


def of(results: Results, **values: Any) -> pd.DataFrame:
    """The rows with some values."""
    frame = results.to_pandas()
    for name, value in values.items():
        frame = frame[frame[name].isna() if value is None else frame[name] == value]
    return frame


def test_rows_are_what_the_maps_say(asking: Asking, tiny_bert: Path, tiny_corpus: Path) -> None:
    results = asking()
    encoder, corpus = load_encoder(str(tiny_bert)), load_corpus(str(tiny_corpus))
    for split in ("dev", "test"):
        masses, distance = stream_maps(encoder, corpus[split], [Masses]).results[0]
        for name in masses.names:
            found = of(results, metric="attention_mass", group=name, split=split)
            expected = masses.of(name)
            assert found["head"].nunique() == expected.size or np.isnan(expected).all()
            for _, row in found.iterrows():
                layer, head = int(row["layer"]), int(row["head"].partition("H")[2])
                assert row["head"] == f"L{layer}H{head}"
                assert row["value"] == pytest.approx(expected[layer - 1, head - 1], rel=1e-5)
        found = of(results, metric="distance", split=split)
        np.testing.assert_allclose(found["value"], distance.of("distance").ravel(), rtol=1e-5)
        assert found["group"].isna().all()
    assert set(results.to_pandas()["layer"]) == {1, 2, 3}, "layer 0 has no heads"
    assert set(results.to_pandas()["readout"]) == {"attention"}


def test_a_table_names_heads_by_dev_and_scores_them_on_test(asking: Asking) -> None:
    results = asking(controls=("offset", "random"))
    table = next(table for table in results.view().head_tables if table.metric == "attention_mass")
    assert any(note.text.startswith("are chosen on dev, scored on test") for note in table.notes)
    (line,) = [line for line in table.lines if line.label == "previous"]
    own = of(results, metric="attention_mass", group="previous", init="pretrained")
    on_dev = own[own["split"] == "dev"].set_index("head")["value"]
    on_test = own[own["split"] == "test"].set_index("head")["value"]
    assert line.row.head == line.cells[table.headers.index("head")].text == on_dev.idxmax()
    assert table.column("score")["previous"].value == on_test[on_dev.idxmax()]
    fresh = of(results, metric="attention_mass", group="previous", init="random")
    chosen = fresh[fresh["split"] == "dev"].set_index("head")["value"].idxmax()
    on_test = fresh[fresh["split"] == "test"].set_index("head")["value"]
    assert table.column("random init")["previous"].value == on_test[chosen]
    (baseline,) = of(results, control="offset").to_dict("records")
    assert table.column("best offset")["previous"].value == baseline["value"]
    assert pd.isna(baseline["head"])
    assert pd.isna(baseline["model"])
    assert "are chosen on dev, scored on test" in str(results.view())
    assert "| best offset |" in results.to_markdown()


def test_gates_have_rows_of_heads_of_layers_and_of_the_whole_model(asking: Asking) -> None:
    results = asking("lost", controls=("random", "offset"))
    assert set(results.to_pandas()["init"]) == {"pretrained"}, "random weights have nothing to lose"
    heads = of(results, metric="lost_bits", group=None).set_index("head")["value"]
    assert heads["L2H1"] == pytest.approx(2.1)
    layers = of(results, metric="layer_bits")
    assert layers["head"].isna().all()
    n_heads = len(heads) // 3
    worth = [n_heads * layer + sum(range(n_heads + 1)) / 10 for layer in (1, 2, 3)]
    assert layers.sort_values("layer")["value"].tolist() == pytest.approx(worth)
    (steps,) = results.view().step_tables
    assert {at: score.value for at, score in steps.column(steps.headers[0]).items()} == {"10 % off": 10, "20 % off": 20}
    (table,) = results.view().tables
    assert [line.main.value for line in table.lines if line.main] == pytest.approx(worth)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"layers": "0"}, r"layer 0 is the embeddings, which have no attention heads: ask for layers 1…3"),
        ({"readout": "linear"}, r"task looks_at is about attention maps, which linear\.v1 cannot read"),
        ({"test_split": "tset"}, r"split of corpus .* 'tset'.*did you mean test"),
    ],
)
def test_what_cannot_be_asked_is_said(asking: Asking, chosen: dict[str, str], message: str) -> None:
    with pytest.raises(BertologyError, match=message):
        asking(**chosen)


def test_intervals_draw_sentences(asking: Asking, tiny_bert: Path, tiny_corpus: Path) -> None:
    (row,) = of(asking(), metric="distance", split="test", head="L2H1").to_dict("records")
    _, distance = stream_maps(load_encoder(str(tiny_bert)), load_corpus(str(tiny_corpus))["test"], [Masses]).results[0]
    expected = distance.intervals("distance")
    place = distance.of("distance").shape[1]
    assert row["ci_low"] == pytest.approx(expected.ci_low[place], rel=1e-4)
    assert row["ci_high"] == pytest.approx(expected.ci_high[place], rel=1e-4)
    assert row["ci_low"] < row["value"] < row["ci_high"]
