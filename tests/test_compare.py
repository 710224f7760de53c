"""Models compared with a reference in one call: what is measured, what is left out, the page, mistakes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from transformers import AutoModelForMaskedLM, AutoTokenizer, ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining
from typer.testing import CliRunner

from bertology import BertologyError, ModelComparison, compare, probe
from bertology.cli._app import app
from bertology.corpora import write_conllu
from bertology.pocket import load_corpus

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
    for title in ("comparison:vectors", "comparison:weights", "comparison:attention"):
        assert f"<h2>{title}</h2>" in page
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


def test_a_discriminator_predicts_no_masked_words(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    """What the models have in common is measured, whether ``auto`` is given as a text or in a list."""
    generator, discriminator, tokenizer = tmp_path / "gen", tmp_path / "disc", AutoTokenizer.from_pretrained(tiny_bert)
    size = {"hidden_size": 32, "embedding_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
    config = ElectraConfig(vocab_size=len(tokenizer), num_hidden_layers=1, max_position_embeddings=64, **size)
    ElectraForMaskedLM(config).save_pretrained(generator)
    ElectraForPreTraining(config).save_pretrained(discriminator)
    for folder in (generator, discriminator):
        tokenizer.save_pretrained(folder)
    settings = {"corpus": tiny_corpus, "sentences": 20, "out": tmp_path / "run", **SETTINGS, "layers": "1"}
    found = compare(generator, discriminator, **settings)
    left_out = [line.partition(":")[0] for line in found.left_out]
    assert (left_out, found.failures) == (["masked_loss", "restoring"], ())
    measured = {"comparison:vectors", "comparison:attention", "comparison:weights", "frozen_probe:pos"}
    assert measured < set(found.to_pandas()["task"])
    assert found.sizes is not None
    again = compare(generator, discriminator, measures=["auto"], **settings)
    assert again.left_out == found.left_out
    assert again.to_pandas().equals(found.to_pandas())
    assert again.sizes is not None
    assert list(again.sizes["parameters"]) == list(found.sizes["parameters"])


def test_two_corpora_stand_side_by_side(tiny_bert: Path, noisy_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    """Both folders have one name, and hold different sentences."""
    folders = tmp_path / "in" / "tiny", tmp_path / "out" / "tiny"
    shutil.copytree(tiny_corpus, folders[0])
    folders[1].mkdir(parents=True)
    for split, size in (("train", 40), ("dev", 10), ("test", 15)):
        write_conllu(folders[1] / f"tiny-ud-{split}.conllu", load_corpus()[split][200 : 200 + size])
    out = tmp_path / "run"
    command = ["compare", str(tiny_bert), str(noisy_bert), "--measures", "vectors,weights", "--layers", "3", "--quiet"]
    corpora = [part for folder in folders for part in ("--corpus", str(folder))]
    done = CliRunner().invoke(app, [*command, *corpora, "--out", str(out)])
    assert done.exit_code == 0, done.output
    frame = pd.read_csv(out / "comparison.csv")
    by_corpus = frame[frame["task"] == "pos"].set_index("corpus")
    assert list(by_corpus.index) == ["in/tiny", "out/tiny"]
    assert by_corpus["value"].nunique() == by_corpus["reference_value"].nunique() == 2
    alone = compare(tiny_bert, noisy_bert, corpus=folders[1], measures="none", out=tmp_path / "one", **SETTINGS)
    of_one = alone.to_pandas().set_index("layer").loc[3]
    for name in ("value", "reference_value", "difference"):
        assert by_corpus.loc["out/tiny", name] == pytest.approx(of_one[name], abs=1e-9)
    assert set(frame.loc[frame["task"] == "comparison:vectors", "corpus"]) == {"in/tiny", "out/tiny"}
    assert set(frame.loc[frame["task"] == "comparison:weights", "corpus"]) == {"in/tiny"}  # which reads no text
    page = (out / "comparison.html").read_text(encoding="utf-8")
    assert "<h3>pos on in/tiny and out/tiny: " in page
    for corpus in ("in/tiny", "out/tiny"):
        assert f"<figcaption>{corpus}</figcaption>" in page
        assert f'<th scope="col">{corpus}: noisy-bert − tiny-bert</th>' in page
        assert f'<th scope="col">noisy-bert, {corpus}</th>' in page
        assert f"pos on {corpus}, noisy-bert: " in done.stdout


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
