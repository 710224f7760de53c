"""``bertology tree``: a sentence in; heads, relations, pictures out; the probe fitted once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import load_corpus
from bertology.corpora.formats.conllu import read_conllu
from bertology.families.trees import TreeProbe
from bertology.measures import read_heads
from bertology.measures.trees import check_tree
from bertology.results.predictions import read_predictions
from tests.cell_files import records_in
from tests.cli.conftest import Command, unless_given

SENTENCE = "The old farmers near the river see the dog ."


@pytest.fixture(scope="module")
def fitted(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the probe of layer 1 is fitted, and a run of it."""
    from bertology.corpora import sentence_of_text
    from bertology.parsing import ParseRequest, parse

    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder))
        request = ParseRequest(layer=1, model=str(tiny_bert), corpus=str(tiny_corpus))
        parse(sentence_of_text("The dog sees."), request)
    return folder


@pytest.fixture
def tree(
    bertology: Command, fitted: Path, tiny_bert: Path, tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """``bertology tree`` of layer 1 of the tiny model, whose probe must not be fitted again."""
    monkeypatch.setenv("BERTOLOGY_CACHE", str(fitted))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the probe is fitted again")

    monkeypatch.setattr("bertology.families.trees.fit_trees", refuse)

    return unless_given(bertology, "tree", {"--model": tiny_bert, "--corpus": tiny_corpus, "--layer": "1"})


def run_of(cache: Path) -> Path:
    (run,) = (cache / "runs").iterdir()
    return run


def test_a_line_for_each_word(tree: Command) -> None:
    found = tree(SENTENCE)
    assert found.status == 0
    head, *lines = found.out.splitlines()
    assert head.split() == ["word", "head", "relation", "depth"]
    assert [line.split()[1] for line in lines[:10]] == SENTENCE.split()
    assert sum("0 · root" in line for line in lines) == 1
    assert lines[9].split()[2] == "–"  # the full stop hangs from nothing
    assert "layer 1" in lines[-1]


def test_conllu_is_a_tree(tree: Command, tmp_path: Path) -> None:
    path = tmp_path / "found-ud-test.conllu"
    path.write_text(tree("the farmers see a dog, and the cat sleeps .", "--format", "conllu").out)
    (sentence,) = read_conllu(path)
    assert sentence.words[4:6] == ("dog", ",")
    check_tree(sentence.heads)


def test_words_parted_by_spaces(tree: Command) -> None:
    parted = tree("don't see.", "--split-at-spaces", "--format", "displacy")
    by_rule = tree("don't see.", "--format", "displacy")
    by_english = tree("don't see.", "--language", "en", "--format", "displacy")
    words = [[word["text"] for word in json.loads(found.out)["words"]] for found in (parted, by_rule, by_english)]
    assert words == [["don't", "see."], ["don't", "see", "."], ["do", "n't", "see", "."]]


@pytest.mark.parametrize(
    ("name", "options", "begins"),
    [
        ("t.svg", [], b"<?xml"),
        ("t.png", ["--picture", "distances"], b"\x89PNG"),
        ("d.png", ["--picture", "depths"], b"\x89PNG"),
        ("t.tex", [], b"% needs \\usepackage"),
    ],
)
def test_pictures(tree: Command, tmp_path: Path, name: str, options: list[str], begins: bytes) -> None:
    found = tree(SENTENCE, "--out", tmp_path / name, *options)
    assert found.status == 0
    assert begins in (tmp_path / name).read_bytes()[:200]
    assert str(tmp_path / name) in found.err


def test_a_sentence_of_the_treebank_beside_gold(tree: Command, tiny_corpus: Path, fitted: Path) -> None:
    """What is parsed again is what was predicted when the probe was scored."""
    run = run_of(fitted)
    (file,) = (run / "probes").glob("*.safetensors")
    (cell,) = TreeProbe.read(file)
    kept = read_predictions(run, cell)
    test = load_corpus(tiny_corpus)["test"]
    same = 0
    chosen = range(0, len(kept.item_ids), 5)
    for item in chosen:
        name = kept.item_ids[item].rpartition(":")[0]
        found = tree("--sentence", name, "--format", "displacy")
        words = json.loads(found.out)["words"]
        number = next(number for number in range(len(test)) if test.id(number) == name)
        assert [word["text"] for word in words] == list(test[number].words)
        arcs = {(arc["start"], arc["end"]) for arc in json.loads(found.out)["arcs"] if arc["label"] != "root"}
        heads = read_heads(kept.labels[int(kept.pred[item])])
        expected = {(min(w, h - 1), max(w, h - 1)) for w, h in enumerate(heads) if h > 0}
        same += {(min(arc), max(arc)) for arc in arcs} == expected
    # vectors are kept in half precision and read anew in full: a tie may break the other way
    assert same >= 0.8 * len(chosen)
    table = tree("--sentence", test.id(0)).out
    assert "gold" in table.splitlines()[0]
    assert "gold edges found (UUAS): " in table


def test_a_probe_that_a_run_left(tree: Command, fitted: Path, tmp_path: Path) -> None:
    plain = tree(SENTENCE).out
    assert tree(SENTENCE, "--probe", run_of(fitted)).out == plain
    (file,) = (run_of(fitted) / "probes").glob("*.safetensors")
    assert tree(SENTENCE, "--probe", file).out == plain


def test_a_kept_probe_needs_no_treebank(tree: Command, fitted: Path, tiny_corpus: Path) -> None:
    """Only a sentence that is taken from it does."""
    given = ("--probe", run_of(fitted), "--corpus", "nowhere")
    found = tree(SENTENCE, *given)
    assert (found.status, found.out) == (0, tree(SENTENCE).out)
    name = load_corpus(tiny_corpus)["test"].id(0)
    assert "nowhere" in tree("--sentence", name, *given).one_line()
    assert "nowhere" in tree(SENTENCE, "--corpus", "nowhere").one_line()


def test_of_a_run_with_several_models_one_is_named(
    bertology: Command, fitted: Path, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(run_of(fitted), tmp_path / "run")
    both = f"[{{name: {tiny_bert}, id: tiny}}, {{name: {tiny_bert}, id: fresh, init: random}}]"
    corpora = f"[{{name: {tiny_corpus}, id: a}}, {{name: pocket, id: b}}]"
    text = f"name: both\nmodels: {both}\ncorpora: {corpora}\ntasks: [structural_parse]\n"
    (run / "experiment.yaml").write_text(text)
    assert bertology("tree", SENTENCE, "--probe", run).one_line() == (
        f"{run}: its run has tiny, fresh; choose one with --model"
    )
    assert "\ntiny" not in bertology("tree", SENTENCE, "--probe", run, "--model", "tiny").err
    assert bertology("tree", SENTENCE, "--probe", run, "--model", "tiny").status == 0
    assert (
        "no probe of distances of fresh" in bertology("tree", SENTENCE, "--probe", run, "--model", "fresh").one_line()
    )
    named = ("--probe", run, "--model", "tiny", "--sentence")
    assert "its run has a, b; choose one with --corpus" in bertology("tree", *named, "1").one_line()
    name = load_corpus(tiny_corpus)["test"].id(0)
    assert bertology("tree", *named, name, "--corpus", tiny_corpus).status == 0


def test_a_probe_is_only_for_its_model_and_layer(tree: Command, fitted: Path, tmp_path: Path) -> None:
    run = run_of(fitted)
    (file,) = (run / "probes").glob("*.safetensors")
    assert "no probe of distances in layer 2" in tree(SENTENCE, "--probe", file, "--layer", "2").one_line()
    assert "no probe of distances in layer 2" in tree(SENTENCE, "--probe", run, "--layer", "2").one_line()
    assert "in layer 1 of pocket" in tree(SENTENCE, "--probe", file, "--model", "pocket").one_line()
    assert (
        "no probe of distances in layer 1 of pocket" in tree(SENTENCE, "--probe", run, "--model", "pocket").one_line()
    )
    half = tmp_path / "half.safetensors"
    half.write_bytes(file.read_bytes()[:-20])
    assert "half.safetensors: not complete probes" in tree(SENTENCE, "--probe", half).one_line()
    (tmp_path / "empty").mkdir()
    assert "no probe is kept there" in tree(SENTENCE, "--probe", tmp_path / "empty").one_line()
    assert "nowhere: no such file; fit" in tree(SENTENCE, "--probe", tmp_path / "nowhere").one_line()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a sentence, or the id of one with --sentence"),
        (["a dog", "--sentence", "x"], "give a sentence, or the id of one with --sentence"),
        (["   "], "there is no word in the sentence"),
        (["a dog", "--out", "t.gif"], ".svg, .png or .tex"),
        (["--sentence", "nobody"], "unknown sentence of"),
    ],
)
def test_mistakes(tree: Command, arguments: list[str], message: str) -> None:
    found = tree(*arguments)
    assert found.status == 2
    assert message in " ".join(found.err.split())


def test_without_a_layer_it_is_the_best_on_dev(
    bertology: Command, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "cache"))
    named = ("--model", tiny_bert, "--corpus", tiny_corpus)
    plain = bertology("tree", SENTENCE, *named).out
    run = run_of(tmp_path / "cache")
    (file,), every = (run / "probes").glob("*.safetensors"), records_in(run)
    records = {cell: every[cell] for cell in TreeProbe.read(file)}
    assert len(records) == 4
    best = min(records, key=lambda cell: records[cell]["facts"]["params"]["dev_loss"]["distances"])
    layer = str(records[best]["identity"]["layer"])
    assert f"layer {layer}" in plain.splitlines()[-1]
    assert bertology("tree", SENTENCE, *named, "--layer", layer).out == plain
    # Of a run's folder as well, as far as its tables are there.
    kept = tmp_path / "kept"
    tasks = ("--task", "structural_distance,structural_parse", "--layers", "all", "--controls", "none")
    assert bertology("probe", *tasks, *named, "--out", kept).status == 0
    assert bertology("tree", SENTENCE, *named, "--probe", kept).out == plain
    assert bertology("tree", SENTENCE, *named, "--probe", file, "--layer", layer).out == plain
    # The model, and the corpus of a sentence, are those of the run unless they are named.
    for probe in ((kept,), (run, "--layer", layer), (file, "--layer", layer)):
        found = bertology("tree", SENTENCE, "--probe", *probe)
        assert (found.err, found.out) == ("", plain)
    name = load_corpus(tiny_corpus)["test"].id(0)
    assert (
        bertology("tree", "--sentence", name, "--probe", kept).out == bertology("tree", "--sentence", name, *named).out
    )
    contradiction = bertology("tree", SENTENCE, "--probe", kept, "--model", "pocket").one_line()
    assert contradiction.startswith(f"{kept}: no probe of distances of pocket; there are ")
    assert bertology("tree", SENTENCE, "--probe", kept, "--pooling", "last").one_line().endswith("read their last")
    (kept / "results.parquet").unlink()
    assert "choose one with --layer" in bertology("tree", SENTENCE, *named, "--probe", kept).one_line()
    assert bertology("tree", SENTENCE, *named, "--probe", kept, "--layer", layer).out == plain


def test_the_tree_is_drawn_below_its_heads() -> None:
    from bertology.cli.look import _branches
    from bertology.results.trees import TreeReading

    blank = dict.fromkeys(TreeReading.__dataclass_fields__)
    of_words = {"words": ("the", "dog", "sees", "it", "."), "heads": (2, 3, 0, 3, -1), "relations": None}
    drawn = list(_branches(TreeReading(**{**blank, **of_words})))
    assert drawn == ["sees", "├─ dog", "│  └─ the", "└─ it", ""]
