"""The line on data and alignment stands under every table, in every format, and in the rows of the task itself."""

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bertology.corpora import Corpus, MultiwordToken, Sentence, Sentences, load_corpus
from bertology.encoders.alignment import SHARED
from bertology.families.request import ReadoutConfig
from bertology.results import read_results
from bertology.results.report import write_report
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.plan import make_plan

WORDS = (
    "words with unknown subwords 1, sharing all subwords with another word 2 ({}), in sentences over the length limit 0"
)
OF_CORPUS = "texts of test also in train 1, sentences left out 2 (sentences with two roots 2)"
TASKS = {
    "pos": "ridge",
    "structural_distance": None,
    "head_syntax": None,
    "head_importance": None,
    "contextuality": None,
    "word_number:letters": None,
    "lens": None,
    "comparison:vectors": None,
    "comparison:attention": None,
    "comparison:masked_loss": None,
}
"""By task its readout: one or more of each family that reads a corpus."""
ALWAYS = frozenset({"head_importance", "lens", "comparison:attention", "comparison:masked_loss"})
"""Tasks that include words that share all their subwords."""


def with_numbers(sentence: Sentence) -> Sentence:
    """The sentence with the number of letters of each word as a layer."""
    return replace(sentence, layers={**sentence.layers, "letters": tuple(str(len(word)) for word in sentence.words)})


@pytest.fixture(scope="module")
def corpus(tiny_corpus: Path) -> Corpus:
    """A treebank with a contraction and an unknown word in each split, a text of train in test, and sentences that were
    left out."""
    splits = {}
    for name, sentences in load_corpus(str(tiny_corpus)).splits.items():
        first = sentences[0]
        words = (*first.words[:2], "ж", *first.words[3:])
        token = MultiwordToken(0, 1, f"thog{name[0]}")
        made = Sentence.from_words(words, multiword=(token,), layers=first.layers, heads=first.heads)
        splits[name] = [made, *(sentences[number] for number in range(1, 20))]
    known = {sentence.text for sentence in splits["train"]}
    splits["test"] = [sentence for sentence in splits["test"] if sentence.text not in known] + [splits["train"][5]]
    splits = {name: [with_numbers(one) for one in part] for name, part in splits.items()}
    skipped = {"sentences with two roots": ("x:1", "x:9")}
    return Corpus("mixed", {name: Sentences(part) for name, part in splits.items()}, skipped=skipped)


@pytest.mark.parametrize(("task", "setting"), [*((task, "exclude") for task in TASKS), ("pos", "include")])
def test_every_table_of_every_family_has_it(
    task: str, setting: str, tiny_bert: Path, corpus: Corpus, tmp_path: Path
) -> None:
    reference = str(tiny_bert) if task.startswith("comparison") else None
    request = ProbeRequest(
        tasks=(task,),
        model=str(tiny_bert),
        corpus="x",
        layers="1,2",
        controls=("majority",),
        reference=reference,
        model_id="tuned",
        shared_subwords=setting,
        configs={task: (ReadoutConfig(TASKS[task]),)} if TASKS[task] else {},
    )
    results = run_probes(request, corpus=corpus, out=tmp_path / "run")
    # Some tasks have no way to leave words out, and say so.
    setting = "include" if task in ALWAYS else setting
    rows = [row for row in read_results(tmp_path / "run").rows if row.control == "none"]
    assert {(row.n_unknown, row.n_shared, row.shared_subwords, row.n_long) for row in rows} == {(1, 2, setting, 0)}
    assert {json.loads(row.left_out or "")["sentences with two roots"] for row in rows} == {2}
    expected = WORDS.format("left out" if setting == "exclude" else "included")
    view = results.view()
    grids = view.shown()
    assert grids
    for grid in grids:
        (line,) = [note.text for note in grid.notes if note.about == "alignment"]
        assert line.startswith(expected), line
        assert line.endswith("sentences left out 2 (sentences with two roots 2)")
        for written in (grid.to_markdown(), grid.to_latex(), grid.to_html()):
            assert expected in html.unescape(written)
    if {"pos", "structural_distance"} & {task}:
        assert f"{expected}, {OF_CORPUS}" in " ".join(view.to_text(width=400).split())
    page = html.unescape(write_report([tmp_path / "run"], tmp_path / "report.html").read_text(encoding="utf-8"))
    assert expected in page


def test_cloze_tasks_count_the_words_of_their_texts(tmp_path: Path) -> None:
    request = ProbeRequest(tasks=("agreement",), model="pocket", corpus="pocket", layers="-1", controls=(), max_items=3)
    results = run_probes(request)
    rows = results.rows
    assert {(row.n_unknown, row.n_shared, row.n_long, row.n_repeated) for row in rows} == {(0, 0, 0, None)}
    for grid in results.view().shown():
        assert [note.text for note in grid.notes if note.about == "alignment"] == [
            "words with unknown subwords 0, sharing all subwords with another word 0, in sentences over the length "
            "limit 0, sentences left out 0"
        ]


def test_long_sentences_are_counted_by_word(tiny_bert: Path, corpus: Corpus) -> None:
    for on_long in ("window", "skip"):
        request = ProbeRequest(
            tasks=("pos",), model=str(tiny_bert), corpus="x", layers="0", controls=(), readout="ridge", max_pieces=16,
            on_long=on_long,
        )  # fmt: skip
        rows = run_probes(request, corpus=corpus).rows
        (n_long,) = {row.n_long for row in rows}
        assert n_long
        if on_long == "skip":
            reasons = json.loads(rows[0].skip_reasons)
            assert sum(number for reason, number in reasons.items() if "pieces" in reason) == n_long


def test_a_split_that_is_read_twice_is_noted(tiny_bert: Path, corpus: Corpus) -> None:
    same = Corpus("same", {"train": corpus["train"], "dev": corpus["dev"], "test": corpus["train"]})
    request = ProbeRequest(tasks=("pos",), model=str(tiny_bert), corpus="x", layers="0", controls=())
    (note,) = [note for note in make_plan(request, corpus=same).notes if "train" in note]
    assert re.match(r"20 of 20 texts of test are in train as well: scores show what was memorised", note)
    assert make_plan(request, corpus=same).pair.splits.n_repeated == 20
    assert not [note for note in make_plan(request, corpus=corpus).notes if "memorised" in note]


@pytest.fixture(scope="module")
def literate(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with a letter in its vocabulary that it does not know."""
    folder = tmp_path_factory.mktemp("models") / "literate"
    shutil.copytree(tiny_bert, folder)
    for path in (folder / "tokenizer.json", folder / "vocab.txt"):
        if path.exists():
            path.write_text(path.read_text(encoding="utf-8").replace("##ilot", "##ж"), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("task", "is_reference"), [("comparison:vectors", False), ("frozen_probe:pos", True)])
def test_words_shared_in_either_of_two_models_are_counted(
    task: str, is_reference: bool, tiny_bert: Path, literate: Path, tiny_corpus: Path
) -> None:
    splits = {}
    for name, sentences in load_corpus(str(tiny_corpus)).splits.items():
        first, second = sentences[0], sentences[1]
        # Unknown to one model as a whole, so that both words have the subword for what is unknown.
        whole = Sentence.from_words(("thedжg", *second.words[2:]), id="u")
        words, spans = ("the", "dжg", *whole.words[1:]), ((0, 3), (3, 6), *whole.spans[1:])
        unknown = replace(whole, words=words, spans=spans, layers=second.layers)
        token = MultiwordToken(0, 1, "thogq")
        contracted = Sentence.from_words(first.words, multiword=(token,), layers=first.layers)
        splits[name] = Sentences([contracted, unknown, *(sentences[number] for number in range(2, 20))])
    pair = (literate, tiny_bert) if is_reference else (tiny_bert, literate)
    request = ProbeRequest(
        tasks=(task,), model=str(pair[0]), corpus="x", reference=str(pair[1]), layers="1", controls=(), model_id="m"
    )
    rows = run_probes(request, corpus=Corpus("x", splits)).rows
    assert {row.n_shared for row in rows} == {4}
    assert {json.loads(row.skip_reasons).get(SHARED) for row in rows} == {4}
