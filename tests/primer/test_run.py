"""A run of the primer: tables, page, verification, claims of a user's own, models that are trained for claims."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from bertology import read_results
from bertology.errors import BertologyError
from bertology.finetuning import read_finetuned
from bertology.primer import primer, read_primer
from bertology.primer.run import changed_verdicts
from bertology.runner import RunOptions, verify_run

CLAIM = {
    "id": "mine.v1",
    "section": "mine",
    "statement": "Grammatical number can be read off the upper half of the layers.",
    "sources": ["my own"],
    "measured_by": {"task": "feats:Number", "on": "treebank", "at": [0.5, 1]},
    "rule": {"name": "above", "against": "majority"},
    "margin": {"value": 0.02, "reason": "Annotators differ by as much."},
    "how": "A linear classifier on word vectors.",
    "caveat": "What can be read off need not be used.",
}
SERIAL = RunOptions(engine="serial")
SMALL = {"treebank": {"name": "pocket", "sentences": 60}}


def write(folder: Path, *claims: object, **more: object) -> Path:
    path = folder / "claims.yaml"
    path.write_text(yaml.safe_dump({"claims": list(claims), **more}))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    primer("pocket", file=write(folder, CLAIM), roles=SMALL, random=True, out=folder / "run", options=SERIAL)
    return folder / "run"


def test_an_estimate_is_what_the_run_has(run: Path) -> None:
    rows = [row for row in read_results(run).rows if row.task == "feats:Number" and row.main_metric]
    own = [row.value for row in rows if row.control == "none" and row.init == "pretrained" and (row.layer or 0) >= 2]
    (majority,) = (row.value for row in rows if row.control == "majority")
    finding = read_primer(run).of("pocket", "mine").deciding
    assert finding is not None
    assert finding.value == pytest.approx(np.mean(own) - majority)
    assert finding.verdict == "holds"


def test_the_page_shows_how_each_claim_was_measured(run: Path) -> None:
    page = (run / "primer.html").read_text()
    for text in (CLAIM["statement"], CLAIM["how"], CLAIM["caveat"], "bertology primer --model pocket --random"):
        assert str(text) in page
    assert "<svg" in page
    assert "Examples: feats:Number" in page
    assert '--set \'roles.pocket.treebank={"name": "pocket", "sentences": 60}\'' in read_primer(run).command


def test_the_folder_is_verified_with_its_claims(run: Path) -> None:
    assert verify_run(run) == ()
    assert changed_verdicts(run, run) == ()
    record = json.loads((run / "primer.json").read_text())
    record["claims"]["claims"][0]["margin"]["value"] = 0.9
    before = (run / "primer.json").read_bytes()
    try:
        (run / "primer.json").write_text(json.dumps(record))
        assert read_primer(run).of("pocket", "mine").verdict == "fails"
        assert any("primer.json" in line for line in verify_run(run))
    finally:
        (run / "primer.json").write_bytes(before)


def test_what_is_not_there_is_not_tested(tmp_path: Path) -> None:
    """A misspelt group is no score of all items."""
    wrong = {**CLAIM, "measured_by": {"task": "head_statistics", "on": "treebank", "group": "sepp"}, "rule": "rises"}
    del wrong["margin"]
    one = {**CLAIM, "id": "trained.v1", "measured_by": {"task": "pos", "on": "treebank", "model": "tuned"}}
    tuned = {"finetune": {"task": "pos"}}
    file = write(tmp_path, wrong, one, models={"tuned": tuned})
    found = primer("pocket", file=file, roles=SMALL, out=tmp_path / "run", options=SERIAL)
    assert found.of("pocket", "mine").text == "head_statistics has no attention_mass of sepp here"
    assert "ask for training with --train" in found.of("pocket", "trained").text
    with pytest.raises(BertologyError, match=r"role of a corpus 'treebanc'.*treebank"):
        primer("pocket", file=file, roles={"treebanc": "pocket"}, out=tmp_path / "other")


def test_a_training_has_the_score_of_its_own_test(tmp_path: Path) -> None:
    rule = {"name": "above", "against": 0.0, "measured_by": {"metric": "accuracy", "model": "tuned"}}
    further = [
        {**rule, "measured_by": {"metric": name, "model": "tuned"}} for name in ("sd_accuracy", "sharpness_bits")
    ]
    own = {name: of for name, of in CLAIM.items() if name != "measured_by"}
    probed = {**CLAIM, "id": "probed.v1", "measured_by": {**CLAIM["measured_by"], "model": "both"}}  # type: ignore
    claims = {**own, "rule": [rule, *further]}, probed
    around = {"points": 3, "iterations": 0, "directions": 2, "sentences": 20}
    models = {
        "tuned": {"finetune": {"task": "pos", "epochs": 1, "lr": 1e-3}, "seeds": 2, "landscape": around},
        "both": {"of": "tuned", "beside": "tuned"},
    }
    file, out = write(tmp_path, *claims, models=models), tmp_path / "run"
    found = primer("pocket", file=file, roles=SMALL, train=True, out=out, options=SERIAL, progress=False)
    runs = read_finetuned(out / "models" / "pocket-tuned").bootstraps["test"]
    values = [float(one["accuracy"].values[0]) for one in runs]
    first, second, third = found.of("pocket", "mine").findings
    assert first.value == pytest.approx(np.mean(values))
    assert second.value == pytest.approx(np.std(values, ddof=1))
    flat = [json.loads((out / f"models/pocket-tuned/landscape-{seed}/landscape.json").read_text()) for seed in (1, 2)]
    assert third.value == pytest.approx(np.mean([one["sharpness"][0]["value"] for one in flat]))
    assert {row.model for row in read_results(out).rows if row.model} == {"both seed 1", "both seed 2"}
    assert found.of("pocket", "probed").verdict in ("holds", "undecided")
    alone = primer("pocket", file=file, claims="mine", roles=SMALL, train=True, out=tmp_path / "alone", options=SERIAL)
    assert [one.value for one in alone.of("pocket", "mine").findings] == [first.value, second.value, third.value]
