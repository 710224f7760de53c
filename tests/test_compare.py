"""Models compared with a reference in one call: what is measured, what is left out, the page, mistakes."""

import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer
from typer.testing import CliRunner

from bertology import BertologyError, ModelComparison, compare, probe
from bertology.cli._app import app

SETTINGS = {"tasks": "pos", "layers": "0,2,3", "progress": False}
MEASURES = "vectors,weights,attention,size_and_speed"


@pytest.fixture(scope="module")
def found(
    tiny_bert: Path, noisy_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> ModelComparison:
    out = tmp_path_factory.mktemp("comparison") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("cache")))
        return compare(tiny_bert, noisy_bert, corpus=tiny_corpus, measures=MEASURES, out=out, **SETTINGS)


def test_only_what_was_changed_differs(found: ModelComparison) -> None:
    assert (found.reference, found.models, found.failures) == ("tiny-bert", ("noisy-bert",), ())
    frame = found.to_pandas()
    pos = frame[frame["task"] == "pos"].set_index("layer")
    same, changed = pos.loc[[0, 2]], pos.loc[3]
    assert (same[["difference", "difference_low", "difference_high"]] == 0).all(axis=None)
    assert (same["value"] == same["reference_value"]).all()
    assert (same["p_adj"] == 1).all()
    assert changed["difference"] == pytest.approx(changed["value"] - changed["reference_value"])
    assert changed["difference"] != 0
    alike = frame[(frame["task"] == "comparison:vectors") & (frame["metric"] == "cka")].set_index("layer")["value"]
    assert [alike[0], alike[2]] == pytest.approx([1, 1], abs=1e-6)
    assert alike[3] < 0.9
    moved = frame[(frame["task"] == "comparison:weights") & (frame["metric"] == "relative_l2")].set_index("layer")
    assert moved["value"][0] == moved["value"][2] == 0 < moved["value"][3]
    heads = frame[frame["head"].notna() & (frame["metric"] == "divergence_bits")].set_index("head")["value"]
    assert heads["L2H1"] == 0 < heads["L3H1"]


def variant(of: Path, folder: Path, change: Callable[[Any], None]) -> Path:
    model = AutoModelForMaskedLM.from_pretrained(of)
    with torch.no_grad():
        change(model)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(of).save_pretrained(folder)
    return folder


def swap_neurons(model: Any) -> None:
    """Exchange neurons of a feed-forward layer: other weights, the same function."""
    block = model.bert.encoder.layer[1]
    order = torch.arange(block.intermediate.dense.out_features).flip(0)
    block.intermediate.dense.weight.copy_(block.intermediate.dense.weight[order])
    block.intermediate.dense.bias.copy_(block.intermediate.dense.bias[order])
    block.output.dense.weight.copy_(block.output.dense.weight[:, order])


def test_it_opens_with_a_verdict_and_the_whole_models(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    """Copies, permuted neurons, redrawn weights, and another head alone are told apart in words."""
    head = (
        tmp_path / "head",
        lambda model: model.cls.predictions.bias.add_(torch.linspace(0, 5, len(model.cls.predictions.bias))),
    )
    dice = torch.Generator().manual_seed(0)
    noise = lambda model: [weight.normal_(generator=dice) for weight in model.bert.encoder.parameters()]  # noqa: E731
    models = [
        variant(tiny_bert, tmp_path / "copy", lambda model: None),
        variant(tiny_bert, tmp_path / "swapped", swap_neurons),
        variant(tiny_bert, tmp_path / "redrawn", noise),
        variant(tiny_bert, *head),
    ]
    measures = "vectors,weights,masked_loss,size_and_speed"
    settings = {**SETTINGS, "layers": "0,3", "sentences": 40, "measures": measures}
    found = compare(tiny_bert, *models, corpus=tiny_corpus, out=tmp_path / "run", **settings)
    said = dict(line.split(": ", 1) for line in found.findings[:8])
    assert said["copy"] == "identical weights."
    assert said["swapped"] == "same function, with other weights."
    assert re.match(r"differs in weights, vectors of layer 3, predictions of masked words", said["redrawn"])
    assert said["head"] == "differs in predictions of masked words, though no weight of the encoder does."
    frame = found.to_pandas().set_index(["metric", "model"])
    change = frame.loc[[("change_bits", "redrawn")]].iloc[0]["value"]
    whole = said["redrawn as a whole"]
    assert re.search(rf"change of the masked loss in bits {f'{change:.2f}'.replace('-', '−')} \[", whole)
    assert all(
        f"; {name} " in whole
        for name in ("masked loss of the reference in bits", "cosine, %", "MB on disk", "speed-up")
    )
    assert str(found).startswith("copy: identical weights.\n")
    assert "identical weights" in found.page()


def test_a_model_of_which_lower_layers_are_read_has_no_function_yet(
    tiny_bert: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    dice = torch.Generator().manual_seed(0)
    redrawn = variant(
        tiny_bert,
        tmp_path / "redrawn",
        lambda model: model.bert.encoder.layer[-1].output.dense.weight.normal_(generator=dice),
    )
    settings = {**SETTINGS, "layers": "0,1", "sentences": 40, "measures": "vectors,weights"}
    found = compare(tiny_bert, redrawn, corpus=tiny_corpus, out=tmp_path / "run", **settings)
    assert found.findings[0] == "redrawn: differs in weights."


def test_scores_are_those_of_probe(found: ModelComparison, tiny_bert: Path, tiny_corpus: Path) -> None:
    alone = probe("pos", model=tiny_bert, corpus=tiny_corpus, layers=[3], controls="none").scores()
    frame = found.to_pandas()
    of_layer = frame[(frame["task"] == "pos") & (frame["layer"] == 3)]
    expected = alone[alone["metric"] == of_layer["metric"].iloc[0]]["value"].iloc[0]
    assert of_layer["reference_value"].iloc[0] == expected


def test_the_page_and_the_table_hold_all_of_it(found: ModelComparison, tmp_path: Path) -> None:
    page = (found.folder / "comparison.html").read_text(encoding="utf-8")
    assert page == found.page()
    for sentence in found.findings:
        assert sentence.replace("'", "&#x27;") in page
    question = "How far are a model's weights from those of its reference, layer by layer?"
    for title in ("Whole models", "Tasks by layer", question):
        assert f"<h2>{escape(title)}</h2>" in page
    for task in ("vectors", "weights", "attention"):
        assert f"<h2>comparison:{task}</h2>" not in page
        assert f"Task comparison:{task}." in page
    assert page.count('class="cell"') == 2 * 8  # heads of layers 2 and 3, by two statistics
    assert "Size and speed" in page
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    found.save(tmp_path)
    kept = pd.read_csv(tmp_path / "comparison.csv")
    assert len(kept) == len(found.to_pandas())


def test_the_same_command_goes_on_and_prints_what_changed(
    found: ModelComparison, tiny_bert: Path, noisy_bert: Path, tiny_corpus: Path
) -> None:
    command = ["compare", str(tiny_bert), str(noisy_bert), "--corpus", str(tiny_corpus), "--layers", "0,2,3"]
    done = CliRunner().invoke(app, [*command, "--measures", MEASURES, "--out", str(found.folder), "--quiet"])
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(found)
    assert "page and tables in" in done.stderr


def test_layers_of_models_of_different_depth_are_those_of_the_same_relative_depth(
    tiny_bert: Path, noisy_bert: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    shallow = tmp_path / "shallow"
    model = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    model.bert.encoder.layer = model.bert.encoder.layer[:2]
    model.config.num_hidden_layers = 2
    model.save_pretrained(shallow)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(shallow)
    settings = {**SETTINGS, "layers": "all", "sentences": 30, "measures": "vectors"}
    found = compare(tiny_bert, shallow, noisy_bert, corpus=tiny_corpus, out=tmp_path / "run", **settings)
    assert (found.models, found.failures) == (("shallow", "noisy-bert"), ())
    frame = found.to_pandas().dropna(subset="reference_layer")
    is_pos = frame.task == "pos"
    for of_task in (frame[is_pos], frame[~is_pos]):
        matched = of_task.groupby(["model", "layer"])["reference_layer"].first()
        assert matched["shallow"].to_dict() == {0: 0, 1: 2, 2: 3}
        assert matched["noisy-bert"].to_dict() == {0: 0, 1: 1, 2: 2, 3: 3}
    value = {
        (row.model, row.layer): row.value
        for row in found.results.rows
        if row.task == "pos" and row.metric == "accuracy" and row.control == "none"
    }
    top = frame[is_pos & (frame.model == "shallow") & (frame.layer == 2)].iloc[0]
    assert top.reference_value == value[found.reference, 3] != value[found.reference, 2]
    assert top.difference == pytest.approx(value["shallow", 2] - value[found.reference, 3], abs=1e-9)
    assert "(layer 3)" in found.page()


@pytest.mark.parametrize(
    ("models", "settings", "message"),
    [
        (["pocket"], {}, "give a model besides the reference"),
        (["pocket", "pocket"], {}, "given twice"),
        (["pocket", "tiny"], {"measures": "weight"}, "weights"),
        (["pocket", "tiny"], {"tasks": "poss"}, "unknown task"),
    ],
)
def test_mistakes(models: list[str], settings: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(BertologyError, match=message):
        compare(*models, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
