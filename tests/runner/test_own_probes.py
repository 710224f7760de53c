"""Probes that are not installed: asked for as objects or by name, with every engine, and never mistaken for others."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from bertology import Corpus, Results, probe, register_probe
from bertology.corpora import Sentences
from bertology.errors import BertologyError, CorpusError, FitError
from bertology.families.request import ReadoutConfig
from bertology.probing import Examples, Probe, RepresentationProbe, word_examples
from bertology.probing.probes import OF_PROCESS
from bertology.runner import ProbeRequest
from bertology.runner.plan import Plan, make_plan
from tests.runner.conftest import fits_of
from tests.test_house import fenced


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    with patch.dict(OF_PROCESS, clear=True):
        yield


class Letter(RepresentationProbe):
    """Does a word have a letter in it?"""

    task, version = "letter", 1
    question, reference = "Does the word have the letter?", "nobody, never"
    readout, metrics = "linear.v1", ("accuracy",)

    def __init__(self, letter: str = "e") -> None:
        self.letter = letter

    def examples(self, sentences: Sentences) -> Examples:
        return word_examples(sentences, [str(self.letter in word) for one in sentences for word in one.words])


@pytest.fixture
def corpus(planted: Callable[..., Corpus]) -> Corpus:
    return planted("upos", ("NOUN", "VERB"), signal=True)


@pytest.fixture
def ask(tiny_bert: Path, corpus: Corpus) -> Callable[..., Results]:
    def run(task: Any, **settings: Any) -> Results:
        return probe(task, model=tiny_bert, corpus=corpus, layers="0", **{"controls": "none", **settings})

    return run


def test_an_object_is_asked_alone_and_among_names(ask: Callable[..., Results]) -> None:
    alone = ask(Letter(), controls="majority,word_majority,control_task")
    assert alone.view().tables[0].lines[0].main.value > 0.95
    assert {row.control for row in alone.rows} == {"none", "majority", "word_majority", "control_task"}
    both = ask(["pos", Letter()])
    assert [table.task for table in both.view().tables] == ["pos", "letter"]
    by_name = {row.task: row.cell_id for row in both.rows}
    assert by_name["letter"] in {row.cell_id for row in alone.rows}
    assert {row.cell_id for row in ask("letter,pos").rows} == set(by_name.values())


def test_two_objects_of_one_task_are_refused(ask: Callable[..., Results]) -> None:
    for both in ([Letter("a"), Letter("e")], [Letter, "letter"]):
        with pytest.raises(BertologyError, match="task letter is asked for twice: give each probe a task of its own"):
            ask(both)


def cells_of(model: Path, corpus: Corpus, own: Probe, **settings: Any) -> set[str]:
    request = ProbeRequest(tasks=(own.task,), model=str(model), corpus=corpus.name, controls=("majority",), **settings)
    with patch.dict(OF_PROCESS, {own.task: own}):
        plan = make_plan(request, corpus=corpus)
        return _cells(plan)


def _cells(plan: Plan) -> set[str]:
    fitted = {cell.id for cells in fits_of(plan) for cell in cells.cells.values()}
    return fitted | {cell.id for one in plan.baselines for cell in one.cells.values()}


def test_an_edited_probe_never_meets_old_cells(tiny_bert: Path, corpus: Corpus, ask: Callable[..., Results]) -> None:
    first = cells_of(tiny_bert, corpus, Letter("e"))
    assert first == cells_of(tiny_bert, corpus, Letter("e"))
    assert not first & cells_of(tiny_bert, corpus, Letter("a"))

    class Edited(Letter):
        def examples(self, sentences: Sentences) -> Examples:
            labels = [str("e" in word) for one in sentences for word in one.words]
            # In one split alone one label is another.
            return word_examples(sentences, [None if len(sentences) == 40 else labels[0], *labels[1:]])

    assert not first & cells_of(tiny_bert, corpus, Edited())
    before, after = (ask(Letter(letter)).rows[0] for letter in "ea")
    n_a = sum("a" in word for one in corpus["test"] for word in one.words)
    assert before.predictions_sha256 != after.predictions_sha256
    assert ask(Letter("a"), controls="majority").rows[-1].value == pytest.approx(max(n_a, 240 - n_a) / 240)


def answering(answer: Callable[[Sentences], Any]) -> Probe:
    class Answering(Letter):
        def examples(self, sentences: Sentences) -> Any:
            return answer(sentences)

    return Answering()


def at(first: int, last: int, cluster: int = 0) -> Callable[[Sentences], Examples]:
    spans = np.array([[[0, 1]], [[first, last]]])
    return lambda _: Examples(spans, np.array([0, 1]), ("a", "b"), np.array([0, cluster]))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda sentences: word_examples(sentences, ["a"]), "train split: 1 labels for 300 words: give one for each"),
        (lambda _: 1 / 0, r"train split: Answering.examples\(\) failed \(ZeroDivisionError: division by zero\)"),
        (lambda _: None, r"train split: Answering.examples\(\) returned None; it should return Examples, such as"),
        (at(3, 3), "train split: spans should be of one word or more, from 0 to 300, end exclusive"),
        (at(1, 2, 50), "train split: clusters should be numbers of sentences, 0 to 49"),
        (lambda _: Examples(np.zeros((1, 1, 2)), np.zeros(2), (), np.zeros(1)), "train split: .*of different lengths"),
    ],
)
def test_mistakes_of_examples_are_one_line(ask: Callable[..., Results], answer: Any, message: str) -> None:
    with pytest.raises((CorpusError, FitError), match=f"^task letter, {message}") as caught:
        ask(answering(answer))
    assert "\n" not in str(caught.value)


def test_a_task_of_this_process_is_not_erased(ask: Callable[..., Results]) -> None:
    register_probe(Letter)
    with pytest.raises(BertologyError, match="task pos: letter is known to this process alone; only an installed"):
        ask("pos", configs={"pos": (ReadoutConfig(erase="letter"),)})


SCRIPT = """
import sys
from pathlib import Path
import bertology
from bertology.probing import RepresentationProbe, word_examples
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import Experiment

@bertology.register_probe
class Letter(RepresentationProbe):
    task, version = "letter", 1
    question, reference = "Does the word have an e?", "own"
    readout, metrics = "linear.v1", ("accuracy",)

    def examples(self, sentences):
        return word_examples(sentences, [str("e" in word) for one in sentences for word in one.words])

if __name__ == "__main__":
    model, corpus, out = sys.argv[1:]
    asked = Experiment(name="own", models=(model,), corpora=(corpus,), tasks=("letter",), layers="0-1",
                       controls=("majority", "random"), random_draws=1, outputs={"plots": []})
    for engine in ("serial", "joblib"):
        summary = run_experiment(asked, Path(out, engine), options=RunOptions(engine=engine, jobs=2))
        assert not summary.failures, summary.failures
"""


def test_engines_give_the_same_for_a_class_of_a_script(
    tiny_bert: Path, tiny_corpus: Path, tmp_path: Path, scores: Callable[[Path], Any], one_thread: dict[str, str]
) -> None:
    script = tmp_path / "own.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script, tiny_bert, tiny_corpus, tmp_path]
    environment = {**one_thread, "BERTOLOGY_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path / "serial").equals(scores(tmp_path / "joblib"))


def test_the_class_of_the_readme_finds_nouns_above_the_embeddings() -> None:
    (block,) = [block for block in fenced("README.md", "python") if "register_probe" in block]
    asked = 'bertology.probe("before_noun")'
    assert f"\n{asked} " in block
    namespace: dict[str, Any] = {}
    exec(
        block.replace(asked, 'table = bertology.probe("before_noun", layers=[0, 2], sentences=300, controls="none")'),
        namespace,
    )
    layers = [line.main.value for line in namespace["table"].view().tables[0].lines]
    assert layers[0] < 0.93 < 0.96 < max(layers), layers
