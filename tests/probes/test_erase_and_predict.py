"""The task erase_and_predict: rows, errors, and agreement in the pocket world without number."""

import pytest

import bertology
from bertology.errors import BertologyError
from bertology.probing import RunningModel, get_probe


def test_without_number_the_model_agrees_no_better_than_half_as_well():
    """Erased within parts of speech, at all words; as many random directions change nothing."""
    encoder = bertology.load_encoder("pocket")
    corpus = bertology.load_corpus("pocket")
    probe = get_probe("erase_and_predict:feats:Number").with_settings({"most_words": 1500, "agreement": "pocket"})
    texts = {
        split: corpus.split(split) if hasattr(corpus, "split") else corpus[split] for split in ("train", "dev", "test")
    }
    found = {
        one.metric: one.values
        for one in probe.measure(RunningModel(encoder, texts, (0, encoder.n_layers)))
        if not one.group
    }
    plain = found["choice_accuracy"][0]
    assert plain > 0.93
    assert (found["choice_accuracy_erased"] - 0.5 < (plain - 0.5) / 2).all()
    assert (found["choice_accuracy_random"] > plain - 0.03).all()
    assert (found["choice_accuracy_moved"] > plain - 0.03).all()
    assert (found["completeness_visible"] > 0.75).all()
    assert (found["others_kept_visible"] > 0.9).all()


def test_a_run_has_rows_and_resumes(tmp_path):
    out = tmp_path / "run"
    settings = {"name": "interventions", "settings": {"most_words": 300}}
    results = bertology.probe("erase_and_predict:pos", readout=settings, layers=[0, 4], controls="none", out=out)
    value = {row.metric: row for row in results.rows if row.layer == 4 and not row.group}
    rise = value["loss_increase_bits"].value - value["random_increase_bits"].value
    assert value["beyond_random_bits"].value == pytest.approx(rise)
    assert value["directions_visible_dimensions"].value >= 5
    assert value["beyond_random_bits"].ci_low < rise < value["beyond_random_bits"].ci_high
    assert "labels kept" in str(results)
    stamps = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    bertology.probe("erase_and_predict:pos", readout=settings, layers=[0, 4], controls="none", out=out)
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == stamps


def test_errors_name_the_task_and_the_remedy():
    with pytest.raises(BertologyError, match="erase_and_predict"):
        get_probe("erase_and_predict")
    with pytest.raises(BertologyError, match="unknown task"):
        get_probe("erase_and_predict:posse")
