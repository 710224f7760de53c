"""Cloze tasks beside others in an experiment: the same bytes on every engine and in parts; a model without a head."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import transformers

from bertology.results import Results, read_results
from bertology.runner import RunOptions, Shard, estimate, merge_runs, resolve_work, run_experiment, verify_run
from bertology.runner.experiment import Experiment

Scores = Callable[[Path], pa.Table]


def mixed(*models: object, **settings: object) -> Experiment:
    """A task of words and two of texts on one corpus."""
    plain = {
        "name": "mixed",
        "models": list(models),
        "corpora": [{"name": "pocket", "sentences": 30, "items": 3}],
        "tasks": ["pos", "lama", "agreement"],
        "layers": "0-1",
        "seeds": 2,
        "controls": ["majority", "random", "blind"],
        "outputs": {"plots": []},
    }
    return Experiment.model_validate({**plain, **settings})


@pytest.fixture(scope="module")
def serial(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "serial"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder.parent / "cache"))
        summary = run_experiment(mixed(str(tiny_bert)), folder, options=RunOptions(engine="serial"))
    assert not summary.failures
    return folder


def test_there_is_one_cell_a_layer_whatever_the_seeds(serial: Path) -> None:
    found = read_results(serial)
    of_texts = [row for row in found.rows if row.task == "agreement"]
    assert {row.seed for row in of_texts} == {0}
    assert {(row.init, row.control) for row in of_texts} == {
        ("pretrained", "none"),
        ("pretrained", "blind"),
        ("random", "none"),
    }
    assert {row.pooling for row in of_texts} == {None}
    assert {row.seed for row in found.rows if row.task == "pos" and row.model} == {0, 1}
    # four numbers of attractors, three items each
    assert {row.n_items + row.n_skipped for row in of_texts if row.group is None} == {12}


def test_the_plan_counts_cells_and_time(tiny_bert: Path, tmp_path: Path) -> None:
    work = resolve_work(mixed(str(tiny_bert)))
    found = estimate(work, tmp_path / "run")
    assert found.n_cells == work.n_cells == sum(len(unit.cells) for unit in work.units)
    assert found.pairs[0].fitting_flops > 0
    assert not found.pairs[0].problems
    alone = estimate(resolve_work(mixed(str(tiny_bert), tasks=["lama"])), tmp_path / "run")
    assert (alone.pairs[0].vectors, alone.pairs[0].vectors_missing) == (0, 0)
    assert alone.seconds > 0


def test_a_model_without_the_head_fails_in_its_own_cells(tiny_bert: Path, tmp_path: Path) -> None:
    headless = tmp_path / "headless"
    transformers.AutoModel.from_pretrained(tiny_bert).save_pretrained(headless)
    transformers.AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(headless)
    experiment = mixed(str(tiny_bert), {"name": str(headless), "id": "headless"}, tasks=["lama"], controls=[])
    summary = run_experiment(experiment, tmp_path / "run", options=RunOptions(engine="serial"))
    (failure,) = summary.failures
    assert "no masked-LM head in its weights" in failure
    found = read_results(tmp_path / "run")
    assert {row.model for row in found.rows if row.status == "ok"} == {str(tiny_bert)}
    assert {row.model for row in found.rows if row.status == "failed"} == {"headless"}


def test_each_model_has_the_majority_of_the_items_that_it_is_asked(
    tiny_bert: Path, tmp_path: Path, scores: Scores
) -> None:
    """Of two tokenizers one lacks a word in one piece that the other has."""
    from bertology.encoders import load_encoder

    known, cut = "dog", "river"
    assert load_encoder("pocket").tokenizer.tokenize(cut) == [cut]
    assert len(load_encoder(str(tiny_bert)).tokenizer.tokenize(cut)) > 1
    assert load_encoder(str(tiny_bert)).tokenizer.tokenize(known) == [known]
    facts = tmp_path / "facts"
    (facts / "TREx").mkdir(parents=True)
    relation = {"relation": "P1", "template": "The [X] sees the [Y] .", "label": "sees", "type": "N-1"}
    (facts / "relations.jsonl").write_text(json.dumps(relation) + "\n")
    asked = [("king", cut), ("house", cut), ("town", cut), ("cat", known), ("queen", known)]
    lines = [{"sub_label": s, "obj_label": o, "uuid": s, "predicate_id": "P1"} for s, o in asked]
    (facts / "TREx" / "P1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"corpora": [str(facts)], "tasks": ["lama"], "controls": ["majority"]}
    experiment = mixed({"name": "pocket", "id": "whole"}, {"name": str(tiny_bert), "id": "tiny"}, **settings)
    run_experiment(experiment, tmp_path / "run", options=RunOptions(engine="serial"))
    found = read_results(tmp_path / "run")
    assert majorities(found) == {None: (5, 3 / 5), "tiny": (2, 1.0)}
    tables = {str(table.about.model): table for table in found.view().tables}
    assert {name: table.about.n_items for name, table in tables.items()} == {"whole": 5, "tiny": 2}
    for table in tables.values():
        assert [line.n_items for line in table.baselines] == [table.about.n_items]
    lines = {line.label: line.cells[0].text for line in found.view().models().tables[0].lines if line.baseline}
    assert lines == {"majority (oracle), whole": "60.0", "majority (oracle), tiny": "100.0"}
    assert verify_run(tmp_path / "run") == ()
    parts = [tmp_path / f"part-{number}" for number in (1, 2)]
    for number, folder in enumerate(parts, 1):
        run_experiment(experiment, folder, options=RunOptions(engine="serial", shard=Shard(number, 2)))
    merge_runs(parts, tmp_path / "merged")
    assert scores(tmp_path / "merged").equals(scores(tmp_path / "run"))
    assert verify_run(tmp_path / "merged") == ()


def majorities(found: Results) -> dict[str | None, tuple[int, float | None]]:
    """By model how many items the baseline has, and its share of right answers."""
    rows = [row for row in found.rows if row.control == "majority" and row.metric == "micro_p_at_1"]
    return {row.model: (row.n_items, row.value) for row in rows if row.group is None}
