"""What ``bertology explain`` says of a cell is what the run's folder holds."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bertology import probe
from bertology.corpora import Corpus, Sentence, Sentences, load_corpus
from bertology.errors import BertologyError
from bertology.runner.explain import explain_cell


@pytest.fixture(scope="module")
def run(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run with a baseline and random weights."""
    folder = tmp_path_factory.mktemp("explained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        settings = {"layers": "0-1", "controls": "majority,random", "device": "cpu", "progress": False}
        probe("pos", model=tiny_bert, corpus=tiny_corpus, out=folder / "run", **settings)
    return folder / "run"


def test_counts_and_scores_are_those_of_the_tables(run: Path) -> None:
    rows = pd.read_parquet(run / "results.parquet")
    row = rows[(rows["layer"] == 1) & (rows["init"] == "pretrained") & rows["main_metric"]].iloc[0]
    text = " ".join(explain_cell(run, "pos@1").split())
    assert f"{row['cell_id']}: task pos · task version v1 · layer 1 · seed 0" in text
    assert f"items {row['n_items']} ·" in text
    assert (
        f"accuracy {row['value']:.4f} (main metric) · ci low {row['ci_low']:.4g} · ci high {row['ci_high']:.4g}" in text
    )
    right = round(row["value"] * row["n_items"])
    assert f"predictions that equal the annotation {right} ·" in text
    assert f"-10000 · items {row['n_items']} · clusters {row['n_clusters']}" in text


def test_a_baseline_is_named_by_the_beginning_of_its_id(run: Path) -> None:
    rows = pd.read_parquet(run / "results.parquet")
    cell_id = rows[rows["control"] == "majority"]["cell_id"].iloc[0]
    text = explain_cell(run, cell_id[:10])
    assert "control majority" in text
    assert "this baseline reads no model" in text
    assert "Fit " not in text


@pytest.mark.parametrize(("cell", "named"), [("pos@7", "no cell is 'pos@7'"), ("", "several cells are ''")])
def test_other_names_are_refused_with_the_cells_there_are(run: Path, cell: str, named: str) -> None:
    with pytest.raises(BertologyError, match=named) as error:
        explain_cell(run, cell)
    assert "task pos · task version v1 · layer 0" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_baseline_of_what_a_model_can_read_names_it(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    whole = load_corpus(str(tiny_corpus))
    first, *others = whole["test"]
    words = (*first.words[:-1], "\u200b")  # no subword is left of the last one
    changed = replace(Sentence.from_words(words), layers=first.layers, heads=first.heads)
    corpus = Corpus("damaged", {**whole.splits, "test": Sentences([changed, *others])})
    settings = {"layers": "0", "controls": "majority", "device": "cpu", "progress": False}
    rows = probe("pos", model=tiny_bert, corpus=corpus, out=tmp_path / "run", **settings).to_pandas()
    for cell_id in rows["cell_id"].unique():
        assert not {"<NA>", "nan", "None"} & set(explain_cell(tmp_path / "run", cell_id).split())
    text = " ".join(explain_cell(tmp_path / "run", rows[rows["control"] == "majority"]["cell_id"].iloc[0]).split())
    assert f"scored on the items that {tiny_bert} can read" in text
