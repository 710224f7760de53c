"""The contract of a reference model: who has one, what is read of it, what names cells, what fails in one line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from bertology import probe, register_probe
from bertology.activations.layers import LayerVectors
from bertology.comparison import EncoderComparison, EncoderPair, VectorComparison
from bertology.corpora import Sentences
from bertology.errors import BertologyError
from bertology.geometry.probes import TextItems
from bertology.measures import sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing.probes import OF_PROCESS
from bertology.runner import ProbeRequest, RunOptions, run_experiment
from bertology.runner.experiment import Experiment, ModelSettings, load_experiment
from bertology.runner.plan import make_plan, resolve_work
from tests.runner.requests import but


@dataclass(frozen=True)
class Moved(VectorComparison):
    """How far are the vectors of words from those of the reference?"""

    task, version = "moved", 1
    question, reference = "How far?", "nobody"
    metrics = (sum_metric("distance", "mean distance of a word's vectors"),)
    compares_layers, reads = False, ("dev", "test")

    def items(self, sentences: Mapping[str, Sentences], words: Any = None) -> TextItems:
        return super().items(sentences, words or {name: np.arange(one.n_words) for name, one in sentences.items()})

    def statistics(
        self,
        model: Mapping[str, LayerVectors],
        reference: Mapping[str, LayerVectors],
        sentences: Mapping[str, Sentences],
        *,
        layers: Sequence[tuple[int, int]],
    ) -> Iterator[LayerSums]:
        a, b = model["test"], reference["test"]
        of_sentence = sentences["test"].sentence_of_word[a.words]
        moved = [np.linalg.norm(a.of(one) - b.of(other), axis=1) for one, other in layers]
        over = np.stack([np.bincount(of_sentence, values) for values in moved])
        yield LayerSums("distance", a.layers, over, np.bincount(of_sentence)[None].astype(float), "sentences")


@dataclass(frozen=True)
class Depths(EncoderComparison):
    """How deep are the models?"""

    task, version = "depths", 1
    question, reference = "How deep?", "nobody"
    metrics = (sum_metric("depth_layers", "blocks"),)
    columns, reads = "both", ()

    def measure(self, pair: EncoderPair) -> Iterator[LayerSums]:
        assert pair.model.n_layers == 3
        assert not pair.sentences
        one = np.ones((1, 1))
        numbers = tuple(layer for layer, _ in pair.layers)
        yield LayerSums("depth_layers", numbers, np.array([[other] for _, other in pair.layers]), one, "blocks")
        yield LayerSums("depth_layers", (None,), one * pair.reference.n_layers, one, "blocks")


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    with patch.dict(OF_PROCESS, clear=True):
        register_probe(Moved)
        register_probe(Depths)
        yield


@pytest.fixture
def shallow(tiny_bert: Path, tmp_path: Path) -> Path:
    """The same model without its last block."""
    from transformers import AutoTokenizer, BertForMaskedLM

    folder = tmp_path / "shallow"
    BertForMaskedLM.from_pretrained(tiny_bert, num_hidden_layers=2).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    return folder


def scores(results: Any, task: str) -> dict[int | None, float]:
    return {row.layer: row.value for row in results.rows if row.task == task and row.init == "pretrained"}


def test_a_model_beside_a_shallower_one(tiny_bert: Path, tiny_corpus: Path, shallow: Path, tmp_path: Path) -> None:
    """Layers are matched by relative depth, or by likeness, which finds those that are the same."""
    tasks, out = ["moved", "depths"], tmp_path / "run"
    results = probe(tasks, model=tiny_bert, reference=shallow, corpus=tiny_corpus, controls="none", out=out)
    moved = scores(results, "moved")
    assert [row.param("reference_layer") for row in results.rows if row.task == "moved"] == [0, 1, 1, 2]
    assert moved[0] == moved[1] == 0 < min(moved[2], moved[3])
    assert scores(results, "depths") == {0: 0, 1: 1, 2: 1, 3: 2, None: 2}
    assert {row.param("reference") for row in results.rows} == {str(shallow)}
    # What the folder records is the same request.
    again = run_experiment(load_experiment(out / "experiment.yaml"), tmp_path / "again", options=RunOptions("serial"))
    assert again.failures == ()
    by_likeness = {"name": "vectors", "settings": {"match": "cka"}}
    alike = probe("moved", model=tiny_bert, reference=shallow, corpus=tiny_corpus, controls="none", readout=by_likeness)
    assert [row.param("reference_layer") for row in alike.rows][:3] == [0, 1, 2]
    assert scores(alike, "moved")[2] == 0


def test_only_models_with_a_reference_are_compared(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    other = {"name": str(tiny_bert), "id": "other", "init": "random", "init_seed": 3, "reference": "whole"}
    models = [{"name": str(tiny_bert), "id": "whole"}, other]
    asked: dict[str, Any] = {"corpora": [str(tiny_corpus)], "controls": "none", "layers": "1-2"}
    experiment = Experiment(name="two", models=models, tasks=["pos", "moved"], **asked)
    work = resolve_work(experiment)
    assert [(unit.plan.pair.source.name, unit.probe.task) for unit in work.units] == [
        *(("whole", "pos"), ("other", "pos")),
        ("other", "moved"),
    ]
    summary = run_experiment(experiment, tmp_path / "run", work=work, options=RunOptions("serial"))
    assert (summary.failures, summary.n_cells) == ((), 6)
    alone = experiment.model_copy(update={"models": (experiment.models[0],)})
    with pytest.raises(BertologyError, match=r"task moved compares .*--reference"):
        resolve_work(alone)
    itself = experiment.models[1].model_copy(update={"reference": "other"})
    with pytest.raises(BertologyError, match="its own reference"):
        resolve_work(experiment.model_copy(update={"models": (experiment.models[0], itself)}))


def test_the_reference_names_cells_of_comparisons_alone(tiny_bert: Path, tiny_corpus: Path) -> None:
    request = ProbeRequest(tasks=("pos", "moved"), model=str(tiny_bert), corpus=str(tiny_corpus), controls=())

    def ids(task: str, reference: str | ModelSettings | None) -> list[str]:
        plan = make_plan(but(request, reference=reference))
        members = [one for (_, name), fits in plan.fits.items() if name == task for one in fits[0][0]]
        return [cell.id for one in members for cell in one.cells.values()]

    fresh = ModelSettings(name=str(tiny_bert), init="random", init_seed=1)
    assert ids("pos", None) == ids("pos", "pocket") == ids("pos", fresh)
    assert not ids("moved", None)
    named = [ids("moved", one) for one in (str(tiny_bert), fresh, fresh.model_copy(update={"dtype": "bfloat16"}))]
    assert len({cell for one in named for cell in one}) == 3 * 4


def test_a_task_of_comparison_without_a_reference(tiny_bert: Path, tiny_corpus: Path) -> None:
    with pytest.raises(BertologyError, match=r"^task moved compares a model with its reference.*--reference"):
        probe("moved", model=tiny_bert, corpus=tiny_corpus)
    with pytest.raises(BertologyError, match=r"^reference '.*': no task here compares models; leave it out"):
        probe("pos", model="pocket", reference=tiny_bert, corpus=tiny_corpus)
