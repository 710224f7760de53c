"""Predictions of single items as a frame: against scikit-learn, and against the files they are kept in."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest
from sklearn.metrics import accuracy_score

import bertology
from bertology import load_corpus, read_results
from bertology.errors import ResultsError
from bertology.families.request import ReadoutConfig
from bertology.results import Results
from tests.cell_files import file_of


@pytest.fixture(scope="module")
def run(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    out = tmp_path_factory.mktemp("items") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("cache")))
        tasks = ["pos", "edge_dependencies", "structural_distance"]
        controls = ["majority", "random"]
        quick = {"edge_dependencies": (ReadoutConfig("edge", {"max_epochs": 1, "round_steps": 1}),)}
        found = bertology.probe(
            tasks, model=tiny_bert, corpus=tiny_corpus, layers="0,2", controls=controls, out=out, configs=quick
        )
    return found, out


def test_accuracy_of_the_frame_is_the_score(run: tuple[Results, Path]) -> None:
    for layer, of_layer in run[0].predictions("pos").groupby("layer"):
        value = accuracy_score(of_layer["gold"], of_layer["predicted"])
        rows = run[0].only(task="pos", layer=layer, init="pretrained", metric="accuracy").rows
        assert [row.value for row in rows] == [pytest.approx(value)]
    assert set(run[0].predictions("pos").init) == {"pretrained"}
    assert set(run[0].predictions("pos", init="random").init) == {"random"}


def test_words_are_those_of_the_corpus(run: tuple[Results, Path], tiny_corpus: Path) -> None:
    sentences = load_corpus(tiny_corpus)["test"]
    frame = run[0].predictions("pos", 2)
    words = [(sentence.id, sentence.text, word, tag) for sentence in sentences for word, tag in _tagged(sentence)]
    assert list(zip(frame["sentence"], frame["text"], frame["word"], frame["gold"], strict=True)) == words
    kept = pd.read_parquet(file_of(run[1], cell := run[0].only(task="pos", layer=2).rows[0].cell_id))
    kept = kept[kept["cell_id"] == cell].reset_index()
    assert (frame["sentence"] + ":" + frame["place"] == kept["item_id"]).all()
    assert frame["probability"].between(0, 1).all()


def test_pairs_of_words_and_edges_of_trees_have_their_words(run: tuple[Results, Path], tiny_corpus: Path) -> None:
    sentences = load_corpus(tiny_corpus)["test"]
    by_id = {sentence.id: sentence for sentence in sentences}
    for task in ("edge_dependencies", "structural_distance"):
        frame = run[0].predictions(task, 0)
        assert len(frame)
        for row in frame.itertuples():
            words = [by_id[row.sentence].words[int(place.split("-")[0]) - 1] for place in row.place.split(",")]
            assert row.word.split(" | ") == words


def test_baselines_and_everything_are_asked_for(run: tuple[Results, Path]) -> None:
    baseline = run[0].predictions("pos", control="majority")
    assert baseline["predicted"].nunique() == 1
    assert baseline["layer"].isna().all()
    assert baseline["probability"].isna().all()
    assert set(run[0].predictions(control=None)["control"]) == {"none", "majority"}
    assert set(run[0].predictions()["task"]) == {"pos", "edge_dependencies", "structural_distance"}


def test_a_folder_has_words_when_the_corpus_is_given(run: tuple[Results, Path], tiny_corpus: Path) -> None:
    again = read_results(run[1])
    assert again.predictions("pos", 2)["word"].isna().all()
    pd.testing.assert_frame_equal(again.predictions("pos", 2, texts=tiny_corpus), run[0].predictions("pos", 2))
    with pytest.raises(ResultsError, match="texts: pocket is not what was probed"):
        again.predictions("pos", 2, texts="pocket")
    with pytest.raises(ResultsError, match="no predictions kept of cell"):
        dataclasses.replace(again, kept={}).predictions("pos")


def _tagged(sentence: bertology.Sentence) -> list[tuple[str, str | None]]:
    return list(zip(sentence.words, sentence.layers["upos"], strict=True))
