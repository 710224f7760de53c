"""Readouts of one model put to another: to itself, to a rotated copy, to one without what is asked."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertology import Corpus, Results, probe
from bertology.errors import BertologyError

LABELS = ("A", "B", "C", "D")


def scores(results: Results, metric: str = "accuracy") -> dict[str, float]:
    return {row.control: row.value for row in results.rows if row.metric == metric and row.value is not None}


def ask(model: Path | str, reference: Path | str, corpus: Corpus) -> Results:
    return probe("frozen_probe:pos", model=model, reference=reference, corpus=corpus, layers="0", controls="none")


def test_a_rotation_changes_the_form_alone(rotated: Path, tiny_bert: Path, planted: Callable[..., Corpus]) -> None:
    results = ask(rotated, tiny_bert, planted("upos", LABELS, signal=True))
    found = scores(results)
    assert max(found["none"], found["rescaled"]) < 0.7 < 0.95 < found["refit"] == found["reference"]
    (form,) = [row for row in results.rows if row.metric == "form_change"]
    assert form.value == pytest.approx(found["refit"] - found["rescaled"])
    (scale,) = scores(results, "scale_change").values()
    assert scale == pytest.approx(found["rescaled"] - found["none"])
    assert form.ci_low is not None
    assert form.ci_low > 0.2
    assert scores(results, "content_change") == {"none": 0}
    compared = {(row.diff == 0, row.p_adj < 0.01) for row in results.comparisons}
    assert compared >= {(True, False), (False, True)}
    text = " ".join(results.view().to_text().split())
    assert "refitted" in text
    assert "to which the readout was fitted" in text


def test_the_same_model_answers_the_same(tiny_bert: Path, planted: Callable[..., Corpus]) -> None:
    found = scores(ask(tiny_bert, tiny_bert, planted("upos", LABELS, signal=False)))
    assert found["none"] == found["rescaled"] == found["refit"] == found["reference"] < 0.4


def test_what_no_frozen_readout_reads_is_one_line(tiny_bert: Path, planted: Callable[..., Corpus]) -> None:
    corpus = planted("upos", LABELS, signal=True)
    with pytest.raises(BertologyError, match=r"^task frozen_probe:pos: vectors of pocket have \d+ dimensions.*32"):
        ask(tiny_bert, "pocket", corpus)
    with pytest.raises(BertologyError, match="no labels of words"):
        probe("frozen_probe:structural_depth", model=tiny_bert, reference=tiny_bert, corpus=corpus)
    with pytest.raises(BertologyError, match="give a task such as pos"):
        probe("frozen_probe:lama", model=tiny_bert, reference=tiny_bert, corpus=corpus)
