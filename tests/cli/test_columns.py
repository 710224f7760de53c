"""Column files of two free tags, which do not say what their columns are: ``--columns`` and ``columns:`` do."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import probe as probe_function
from bertology.corpora import Sentences, load_corpus, write_conllu
from bertology.errors import CorpusError
from bertology.runner.experiment import load_experiment
from bertology.runner.plan import resolve_work

Command = Callable[..., Any]
COLUMNS = "form,lemma,upos,xpos"
REMEDY = "name the columns as in --columns form,xpos,chunk"


@pytest.fixture
def corpus(tiny_corpus: Path, tmp_path: Path) -> Path:
    """The tiny corpus as files of columns: words, lemmas, two kinds of tags, of which two look alike."""
    folder = tmp_path / "columns"
    folder.mkdir()
    for split, sentences in load_corpus(tiny_corpus).splits.items():
        (folder / f"{split}.conll").write_text("".join(map(_rows, sentences)))
    return folder


def _rows(sentence: Any) -> str:
    layers = sentence.layers
    cells = zip(sentence.words, layers["lemma"], layers["upos"], layers["xpos"], strict=True)
    return "".join(" ".join(value or "_" for value in row) + "\n" for row in cells) + "\n"


def test_columns_of_the_command_line(probe: Command, corpus: Path, tmp_path: Path) -> None:
    line = probe("--corpus", corpus).one_line()
    assert "one column that looks like xpos, not 2" in line
    assert REMEDY in line
    out = tmp_path / "run"
    outcome = probe("--corpus", corpus, "--columns", COLUMNS, "--format", "json", "--out", out)
    assert outcome.status == 0, outcome.err
    (asked,) = load_experiment(out / "experiment.yaml").corpora
    assert asked.columns == COLUMNS


@pytest.mark.parametrize("arguments", [["--corpus", "pocket"], ["--task", "lama", "--corpus", "facts"]])
def test_columns_of_what_has_none(probe: Command, arguments: list[str]) -> None:
    line = probe(*arguments, "--columns", COLUMNS).one_line()
    assert f"columns='{COLUMNS}' is for column files; leave it out for {arguments[-1]}" in line


def test_columns_of_a_table_of_items(probe: Command, bertology: Command, tiny_bert: Path, tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("satz\tfalsch\tphenomenon\tlang\nthe dogs chased the cats\tthe dogs chase the cats\tSV\teng\n")
    line = probe("--task", "minimal_pairs", "--corpus", table).one_line()
    assert "no columns good and bad among satz, falsch, phenomenon, lang" in line
    assert "name the columns as in --columns good=COLUMN,bad=COLUMN,group=COLUMN" in line
    named, run = ["--columns", "good=satz,bad=falsch,group=phenomenon"], tmp_path / "run"
    outcome = probe("--task", "minimal_pairs", "--corpus", table, *named, "--out", run, "--controls", "none")
    assert outcome.status == 0, outcome.err
    assert bertology("rerun", run, "--out", tmp_path / "again").status == 0
    assert bertology("report", run, "--out", tmp_path / "report.html").status == 0
    assert "the dogs chase the cats" in (tmp_path / "report.html").read_text()


def test_columns_of_a_corpus_that_is_loaded(tiny_bert: Path, tiny_corpus: Path) -> None:
    with pytest.raises(CorpusError, match="is for column files; leave it out for tiny, which is loaded already"):
        probe_function("pos", model=tiny_bert, corpus=load_corpus(tiny_corpus), columns=COLUMNS)


@pytest.mark.parametrize(
    "command",
    [
        ["tree", "--layer", "1", "--sentence", "1", "--corpus"],
        ["attention", "--sentence", "1", "--gold"],
    ],
)
def test_sentences_of_column_files(bertology: Command, corpus: Path, tiny_bert: Path, command: list[str]) -> None:
    arguments = [*command, corpus, "--model", tiny_bert]
    assert REMEDY in bertology(*arguments).one_line()
    # Read, but without the dependencies that both commands need.
    line = bertology(*arguments, "--columns", COLUMNS).one_line()
    assert REMEDY not in line
    assert "no dependencies" in line or "no word has a head" in line


def test_columns_of_an_experiment(bertology: Command, corpus: Path, tiny_bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(
        f"name: trial\nmodels: [{tiny_bert}]\ntasks: [pos]\nlayers: 0\ncontrols: none\noutputs: {{plots: []}}\n"
        f"corpora: [{{name: {corpus}, id: a}}]\n"
    )
    assert REMEDY in bertology("plan", path).one_line()
    change = ["--set", f"corpora[0].columns={COLUMNS}"]
    assert bertology("plan", path, *change).status == 0
    first, again = tmp_path / "first", tmp_path / "again"
    outcome = bertology("run", path, *change, "--out", first, "--engine", "serial", "--quiet")
    assert outcome.status == 0, outcome.err
    assert f"columns: {COLUMNS}" in (first / "experiment.yaml").read_text()
    repeated = bertology("rerun", first, "--out", again)
    assert repeated.status == 0, repeated.err
    page = tmp_path / "report.html"
    assert bertology("report", first, "--out", page).status == 0
    word = load_corpus(corpus, columns=COLUMNS)["test"][0].words[0]
    assert word in page.read_text()


def test_columns_of_the_corpus_that_is_scored(corpus: Path, tiny_corpus: Path, tiny_bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "trial.yaml"
    text = f"name: trial\nmodels: [{tiny_bert}]\ntasks: [pos]\nlayers: 0\ncorpora:\n- name: {tiny_corpus}\n"
    path.write_text(f"{text}  test_on: {corpus}\n  test_on_columns: {COLUMNS}\n")
    work = resolve_work(load_experiment(path))
    (plan,) = work.plans
    assert len(plan.pair.splits.by_name["test"]) == 30
    path.write_text(f"{text}  test_on_columns: {COLUMNS}\n")
    with pytest.raises(Exception, match=re.escape("test_on_columns says what the columns of test_on hold, which is")):
        load_experiment(path)


def test_the_same_words_have_the_same_fingerprint_however_columns_are_named(tmp_path: Path) -> None:
    """What decides a corpus' content is what was read, not how the columns were named to read it."""
    path = tmp_path / "test.conll"
    path.write_text("Ada NNP O\n\n")
    prints = {
        load_corpus(path, columns=columns).fingerprint for columns in (None, "form,xpos,ner", ["form", "xpos", "ner"])
    }
    assert len(prints) == 1
    assert load_corpus(path, columns="form,_,ner").fingerprint not in prints
    write_conllu(tmp_path / "kept.conllu", Sentences(load_corpus(path)["test"]))
