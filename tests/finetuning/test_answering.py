"""Answers of one question: all parts of the passage that transformers' own logits allow."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer
from typer.testing import CliRunner

from bertology.cli._app import app
from bertology.errors import BertologyError, ModelError
from bertology.finetuning.answering import answer
from tests.encoders.conftest import save_model

QUESTION, PASSAGE = "who sees the fox", "The lazy dogs jump over the day , naïve cafés sell ten coffees ."


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_model(tmp_path_factory.mktemp("answers") / request.param, request.param)
    torch.manual_seed(3)
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    model.qa_outputs.weight.data.mul_(40)
    model.save_pretrained(folder)
    return folder


def test_all_parts_of_the_passage_in_the_order_of_their_logits(folder: Path) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForQuestionAnswering.from_pretrained(folder)
    encoded = tokenizer(QUESTION, PASSAGE, return_tensors="pt", return_offsets_mapping=True)
    offsets, parts = encoded.pop("offset_mapping")[0].tolist(), encoded.sequence_ids(0)
    with torch.inference_mode():
        output = model(**encoded)
    starts, ends = (one[0].double().numpy() for one in (output.start_logits, output.end_logits))
    scores = [("", starts[0] + ends[0])]
    for first, last in np.ndindex(len(parts), len(parts)):
        if parts[first] == parts[last] == 1 and first <= last < first + 30:
            text = PASSAGE[offsets[first][0] : offsets[last][1]].strip()
            scores.append((text, starts[first] + ends[last]))
    found = answer(QUESTION, PASSAGE, model=folder, top=1000)
    total = sum(np.exp(score) for _, score in scores)
    assert len(found) == len(scores)
    assert sum(one.probability for one in found) == pytest.approx(1)
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    for one in found:
        assert PASSAGE[one.start : one.end] == one.text
    text, score = max(scores, key=lambda one: one[1])
    assert found[0].text == text
    assert found[0].probability == pytest.approx(np.exp(score) / total, rel=1e-4)
    assert len(answer(QUESTION, PASSAGE, model=folder, top=3)) == 3


def test_what_cannot_be_answered(folder: Path) -> None:
    with pytest.raises(ModelError, match="model pocket has no head for answers: give one fine-tuned on questions"):
        answer(QUESTION, PASSAGE, model="pocket")
    with pytest.raises(ModelError, match=r"are \d+ subwords, model .* takes \d+: shorten the passage"):
        answer(QUESTION, PASSAGE * 60, model=folder)
    with pytest.raises(BertologyError, match="give a question, and the passage"):
        answer(QUESTION, " ", model=folder)


def test_the_command(folder: Path) -> None:
    asked = ["answer", QUESTION, PASSAGE, "--model", str(folder), "--top", "2"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert shown.output.split()[:2] == ["%", "answer"]
    best = answer(QUESTION, PASSAGE, model=folder, top=1)[0]
    assert f"{100 * best.probability:.1f}" in shown.output
    assert CliRunner().invoke(app, [*asked, "--format", "csv"]).output.startswith("text,start,end,probability")
