from pathlib import Path

import pytest

from bertology import probe
from bertology.corpora import Corpus
from bertology.encoders import load_encoder
from bertology.errors import BertologyError, NameNotFoundError, ResultsError
from bertology.families.request import ReadoutConfig
from bertology.geometry import linear_cka
from bertology.pocket import load_corpus
from bertology.results.report import write_report

SMALL = Corpus("small", {"test": load_corpus()["test"][:60]})


def test_rows_are_the_similarities_of_the_encoders_layers(tiny_bert: Path) -> None:
    text = SMALL["test"]
    table = probe("layer_similarity", model=str(tiny_bert), corpus=SMALL, controls=())
    rows = table.to_pandas().query("metric == 'cka'")
    vectors = load_encoder(str(tiny_bert), device="cpu").vectors(text)
    by_pair = rows[rows.group.notna()].set_index(["layer", "group"]).value
    expected = linear_cka(vectors.at(layer=0).values, vectors.at(layer=2).values)
    assert by_pair[0, "layer 2"] == pytest.approx(expected, abs=2e-3)
    assert by_pair[0, "layer 2"] == by_pair[2, "layer 0"]
    previous = rows[rows.group.isna()].set_index("layer").value
    assert list(previous.index) == [1, 2, 3]
    assert previous[2] == by_pair[2, "layer 1"]
    assert set(rows.n_items) == {len(vectors.at(layer=0).values)}, "words, of groups as well"


def test_cells_depend_on_the_layers_that_are_read(tmp_path: Path) -> None:
    """Layer 3 with layers 1 and 3 is not what it is with all: another layer stands before it."""
    few = probe("layer_similarity", layers="1,3", controls=(), corpus=SMALL)
    every = probe("layer_similarity", layers="all", controls=(), corpus=SMALL)
    of_3 = [t.to_pandas().query("metric == 'cka' and layer == 3 and group.isna()").iloc[0] for t in (few, every)]
    assert of_3[0].cell_id != of_3[1].cell_id
    assert of_3[0].value < of_3[1].value


def test_further_measures_are_a_setting() -> None:
    configs = {"layer_similarity": (ReadoutConfig(settings={"measures": "cka, rsa"}),)}
    table = probe("layer_similarity", layers="0,1", controls=(), configs=configs, corpus=SMALL)
    assert {"cka", "rsa"} <= set(table.scores().metric)
    configs = {"layer_similarity": (ReadoutConfig(settings={"measures": "rsa"}),)}
    alone = probe("layer_similarity", layers="0,1", controls=(), configs=configs, corpus=SMALL)
    assert {row.metric for row in alone.rows if row.main_metric} == {"rsa"}
    wrong = {"layer_similarity": (ReadoutConfig(settings={"measures": "cca"}),)}
    with pytest.raises((NameNotFoundError, BertologyError), match="cka"):
        probe("layer_similarity", layers="0,1", controls=(), configs=wrong)


def test_a_run_is_reported_from_its_folder(tiny_bert: Path, tmp_path: Path) -> None:
    """Of statistics there are no predictions of items, which the page says in their place."""
    results = probe(
        "layer_similarity", model=str(tiny_bert), corpus=SMALL, layers="0,1", controls=(), out=tmp_path / "run"
    )
    page = write_report([tmp_path / "run"], tmp_path / "report.html")
    assert "statistics of vectors are kept as sums" in page.read_text(encoding="utf-8")
    with pytest.raises(ResultsError, match="no predictions of items: codes, statistics and attention heads keep sums"):
        results.predictions("layer_similarity", 1)
