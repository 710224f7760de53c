import io
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from bertology.cli._app import _PANELS, app
from bertology.corpora import known_corpora
from bertology.corpora.prompts import MADE
from bertology.encoders.sources import KNOWN_MODELS
from bertology.probing import registered_probes
from bertology.probing.probes import Subject

Command = Callable[..., Any]
ROOT = Path(__file__).parents[2]


def test_tasks_one_line_each(bertology: Command) -> None:
    outcome = bertology("tasks")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    headings = [line.removesuffix(":") for line in lines if not line.startswith("  ")]
    assert headings == [*get_args(Subject)]
    assert len(lines) == len(registered_probes()) + len(headings)
    classes = lines[: lines.index("syntax:")]
    assert any(line.startswith("  pos ") and "universal part of speech" in line for line in classes)
    assert any(line.startswith("  feats:… ") and line.endswith("Tense, Number:NOUN, all") for line in classes)


def test_tasks_are_searched_by_words(bertology: Command) -> None:
    found = bertology("tasks", "morphology").out
    assert found.startswith("word classes:\n  feats:…")
    assert "  pos " not in found
    assert "head_syntax" in bertology("tasks", "heads", "syntactic").out
    assert bertology("tasks", "zeugma").one_line().startswith("unknown task 'zeugma'")


@pytest.mark.parametrize("command", sorted({name for names in _PANELS.values() for name in names.split()}))
def test_help_fits_80_columns_and_ends_with_examples_and_their_page(bertology: Command, command: str) -> None:
    outcome = bertology(command, "--help")
    lines = outcome.out.splitlines()
    assert outcome.status == 0
    assert max(map(len, lines)) <= 80
    *_, head, first, second, empty, page = [line.strip() for line in lines]
    assert (head, empty) == ("Examples:", "")
    assert all(line.startswith("bertology ") for line in (first, second))
    assert (ROOT / page.removeprefix("Documentation: ")).is_file()


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_commands_stand_in_panels(bertology: Command, arguments: list[str]) -> None:
    found = bertology(*arguments).out
    places = [found.index(f"\n{panel}:\n") for panel in _PANELS]
    assert places == sorted(places)
    assert all(f"\n  {name} " in found for names in _PANELS.values() for name in names.split())


ALIKE = {"--layer": "--layers", "--task": "--tasks"}
"""Options of one thing or several of it."""


def options(command: Any, path: str = "bertology") -> Iterator[tuple[str, str, str]]:
    """Command, short form and long form of every option that has both."""
    for name, below in getattr(command, "commands", {}).items():
        yield from options(below, f"{path} {name}")
    for parameter in command.params:
        long = next((one for one in parameter.opts if one.startswith("--")), "")
        yield from ((path, one, long) for one in parameter.opts if len(one) == 2 and long)


def test_a_letter_means_one_thing() -> None:
    meanings: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, letter, long in options(typer.main.get_command(app)):
        meanings[letter][ALIKE.get(long, long)].append(command)
    assert list(meanings["-m"]) == ["--model"]
    assert list(meanings["-c"]) == ["--corpus"]
    assert not {letter: dict(of) for letter, of in meanings.items() if len(of) > 1}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [80, 120])
def test_lists_fit_a_terminal(bertology: Command, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    def shown(*command: str) -> list[str]:
        terminal = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            assert bertology(*command).status == 0
        lines = terminal.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        return lines

    *lines, empty, hint = shown("tasks")
    assert len(lines) == len(registered_probes()) + len(get_args(Subject))
    assert (empty, hint) == ("", "`bertology tasks NAME` explains one, `bertology tasks WORD` searches")
    assert any(line.endswith(" …") for line in lines) == (width == 80)
    models = shown("models")
    assert [line.split()[0] for line in models if not line.startswith(" ")] == [*KNOWN_MODELS]
    assert " ".join(" ".join(models).split()).count("hidden states and attention only") == 2
    assert sum("paper " in line for line in shown("tasks", "sentence")) == 1


def test_a_task_is_explained(bertology: Command) -> None:
    def page(name: str) -> dict[str, str]:
        outcome = bertology("tasks", name)
        assert outcome.status == 0
        return {line[:8].strip(): line[8:].strip() for line in outcome.out.splitlines()}

    pos = page("pos")
    assert pos["question"] == "Which universal part of speech does each word have?"
    assert pos["about"] == "Every word with its upos label."
    assert pos["corpus"] == "splits train, dev, test"
    assert pos["labels"].startswith("14: ADJ, ADP, ")
    assert pos["controls"] == "majority, word_majority, random, control_task"
    assert {"linear (its own)", "mlp", "edge_mix"} <= set(pos["readouts"].split(", "))
    assert "structural" not in pos["readouts"]
    assert pos["paper"] == "Liu et al. 2019, §4"
    assert pos["example"] == "bertology probe --task pos --corpus pocket"
    # What needs an argument is explained by an example of it; what pocket lacks is named with the remedy.
    number = bertology("tasks", "feats").out
    assert "feats:Number, version 1" in number
    assert "after a colon: UD feature, such as Number, Tense, Number:NOUN, all" in number
    assert "--task feats:Tense " in bertology("tasks", "feats:Tense").out
    assert "has what it takes\nlabels    those of feats:Case, " in bertology("tasks", "feats:all").out
    sentences = bertology("tasks", "sentence:tense").out
    assert "not pocket: train split: no sentence has a label for this task: give a treebank as sentence_" in sentences
    assert page("sentence:tense")["example"].endswith("--corpus PATH")
    assert page("lama")["controls"] == "majority, random, blind"
    assert page("head_syntax")["controls"] == "offset, random"
    assert page("structural-depth")["readouts"] == "structural (its own)"


@pytest.mark.parametrize("name", sorted({entry.stem for entry in registered_probes().values()}))
def test_every_task_has_a_page(bertology: Command, name: str) -> None:
    lines = bertology("tasks", name).out.splitlines()
    headings = [line.split("  ")[0] for line in lines if not line.startswith(" ")]
    assert [one for one in headings if one not in ("labels", "controls", "data")] == [
        *("task", "question", "about", "corpus", "scores", "readouts", "paper", "example")
    ]


def test_a_broken_plugin_is_shown_and_hides_no_other(
    bertology: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('first line\\nsecond line')")
    monkeypatch.syspath_prepend(str(tmp_path))
    points = [
        EntryPoint("pos.v1", "bertology_probes.pos:PROBE", "bertology.probes"),
        EntryPoint("pos.v2", "broken_plugin:PROBE", "bertology.probes"),
        EntryPoint("nameless", "bertology_probes.pos:PROBE", "bertology.probes"),
    ]
    monkeypatch.setattr("bertology._names.entry_points", lambda group: points)
    outcome = bertology("tasks")
    assert outcome.status == 0
    heading, pos, broken, nameless, second = [line.strip() for line in outcome.out.splitlines()]
    assert (heading, broken) == ("word classes:", "cannot be used:")
    # pos alone would mean the newest version, which is the broken one.
    assert pos.startswith("pos.v1 ")
    assert pos.endswith("v1)")
    assert "cannot be used: probe pos.v2 (broken_plugin:PROBE) cannot be imported" in second
    assert "second line" in second
    assert "cannot be used: probe name 'nameless'" in nameless


@pytest.mark.parametrize(("command", "known"), [("models", lambda: KNOWN_MODELS), ("corpora", known_corpora)])
def test_models_and_corpora_one_line_each(bertology: Command, command: str, known: Callable[[], Any]) -> None:
    outcome = bertology(command)
    assert outcome.status == 0
    names = [name for name in known() if not name.startswith("ud:")]
    names += ["ud:CODE", MADE] if command == "corpora" else []
    assert [line.split("  ")[0].strip() for line in outcome.out.splitlines()] == names


def test_corpora_of_a_language_and_of_a_task(bertology: Command) -> None:
    def names(*options: str) -> list[str]:
        outcome = bertology("corpora", *options)
        assert outcome.status == 0
        return [line.split()[0] for line in outcome.out.splitlines()]

    assert {"ud:fr_sequoia", "ud:fr_gsd", "hansards"} <= set(names("--language", "fr"))
    assert set(names("--language", "Ancient_Greek")) == {"ud:grc_proiel", "ud:grc_ptnk", "ud:grc_perseus"}
    assert names("--task", "ner") == ["wnut17", "uner:en_ewt"]
    assert names("--task", "lama:negated", "--language", "en") == ["lama", "lama_primed_negated", "pararel"]
    assert bertology("corpora", "--task", "lens").err.startswith("no data by name for task lens")
    assert "did you mean pos" in bertology("corpora", "--task", "poss").err
    assert "did you mean french" in bertology("corpora", "--language", "frnch").err
    outcome = bertology("--offline", "probe", "--task", "pos", "--corpus", "ud:fr_gsd")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "ud:fr_gsd: README.md is not in the cache, and this is offline" in outcome.err
    assert "data      wnut17, uner:en_ewt" in bertology("tasks", "ner").out


def test_doctor_says_what_works(bertology: Command, own_cache: Path) -> None:
    outcome = bertology("doctor")
    lines = outcome.out.splitlines()
    assert outcome.status == 0, outcome.out
    assert all(line.startswith("ok    ") for line in lines)
    for part in ("versions: bertology", "compute: device", "model pocket: 4 layers of", "corpus pocket: train"):
        assert any(part in line for line in lines), part
    assert any(f"cache: {own_cache}, " in line for line in lines)
    assert any("offline by HF_HUB_OFFLINE" in line for line in lines)
    assert not list(own_cache.iterdir())


def test_doctor_says_what_does_not(bertology: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "file" / "cache"))
    outcome = bertology("doctor")
    assert outcome.status == 1
    (failed,) = (line for line in outcome.out.splitlines() if line.startswith("FAIL"))
    assert failed.startswith("FAIL  cache: cannot write")
    assert "BERTOLOGY_CACHE" in failed


FOREIGN = {
    "my-data": "not a folder of the store",
    "notes.txt": "a file or link",
    "linked": "a file or link",
    f"{'a' * 20}-{'b' * 8}": "a file or link",
    f"{'0' * 20}-{'1' * 8}": "it holds 'thesis', which the store does not write",
    f"{'1' * 20}-{'1' * 8}": "it holds 'shard-00000.safetensors', which the store does not write",
}
DAMAGED = {f"{'2' * 20}-{number:08d}": text for number, text in enumerate(["[]", '{"format": 3}', "null", "{"])}


@pytest.fixture
def not_its_own(own_cache: Path, tmp_path: Path) -> Path:
    """The folder of all entries, with what the store did not write."""
    store = own_cache / "activations"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious")
    folders = [store / name for name in FOREIGN]
    for folder in (folders[0], *folders[4:], *(store / name for name in DAMAGED)):
        folder.mkdir(parents=True)
    (folders[0] / "manifest.json").write_text("{}")
    folders[1].write_text("notes")
    folders[2].symlink_to(precious)
    folders[3].symlink_to(precious)
    (folders[4] / "thesis").write_text("precious")
    (folders[5] / "shard-00000.safetensors").symlink_to(precious / "file")
    for name, text in DAMAGED.items():
        (store / name / "manifest.json").write_text(text)
    return store


def tree_of(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if path.suffix != ".lock")


def test_what_the_store_did_not_write_is_named_and_left_alone(
    bertology: Command, not_its_own: Path, tmp_path: Path
) -> None:
    before = tree_of(tmp_path), tree_of(not_its_own)
    listed = bertology("cache", "list").out.splitlines()
    assert listed[-1] == "0 entries, 0.0 MB (0 bytes)"
    for name, reason in FOREIGN.items():
        assert any(line.startswith(name) and line.endswith(f"left alone: {reason}") for line in listed), name
    verified = bertology("cache", "verify")
    assert verified.status == 1  # of damaged manifests
    for name in DAMAGED:
        assert any(line.startswith(name) and "left alone: " in line for line in listed), name
        assert any(f"{name}/manifest.json: not readable as the manifest" in line for line in verified.out.splitlines())
    assert bertology("cache", "prune", "--yes").out == "freed 0 entries, 0.0 MB (0 bytes)\n"
    assert (tree_of(tmp_path), tree_of(not_its_own)) == before


@pytest.fixture
def unfinished(own_cache: Path) -> Path:
    """An extraction that was killed while it wrote its second shard."""
    folder = own_cache / "activations" / f"{'0123456789' * 2}-89abcdef"
    folder.mkdir(parents=True)
    (folder / "shard-00000.safetensors").write_bytes(b"x" * 1000)
    (folder / ".shard-00001.safetensors.k2j3.tmp").write_bytes(b"x" * 500)
    return folder


def test_pruning_without_a_terminal_needs_a_yes(bertology: Command, unfinished: Path) -> None:
    line = bertology("cache", "prune").one_line()
    assert line == "1 entry, 0.0 MB (1,500 bytes) would be deleted: say so with --yes, or see which with --dry-run"
    assert unfinished.exists()
    assert "would free 1 entry, 0.0 MB (1,500 bytes)" in bertology("cache", "prune", "--dry-run").out
    assert unfinished.exists()
    assert bertology("cache", "prune", "--older-than-days", "-1").status == 2
    assert bertology("cache", "prune", "--yes", "--unfinished").out.endswith("freed 1 entry, 0.0 MB (1,500 bytes)\n")
    assert not unfinished.exists()


@pytest.mark.parametrize(("answer", "kept"), [("n\n", True), ("y\n", False)])
def test_pruning_at_a_terminal_asks(
    bertology: Command, unfinished: Path, monkeypatch: pytest.MonkeyPatch, answer: str, kept: bool
) -> None:
    asked = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", asked)
    outcome = bertology("cache", "prune")
    assert unfinished.exists() == kept
    assert outcome.status == (130 if kept else 0)
    assert f"{unfinished.name}        0.0 MB  unfinished" in asked.getvalue()
    assert "delete 1 entry, 0.0 MB (1,500 bytes)?" in asked.getvalue()


def test_the_cache_is_listed_checked_and_pruned(bertology: Command, probe: Command, own_cache: Path) -> None:
    assert bertology("cache", "list").out == "0 entries, 0.0 MB (0 bytes)\n"
    assert bertology("cache", "verify").status == 0
    before = probe("--format", "csv")
    entries = sorted(path.name for path in (own_cache / "activations").iterdir() if path.is_dir())
    assert len(entries) == 3
    listed = bertology("cache", "list").out.splitlines()
    assert sorted(line.split()[0] for line in listed[:-1]) == entries
    assert listed[-1].startswith("3 entries")
    verified = bertology("cache", "verify")
    assert verified.status == 0
    assert all(line.endswith("  ok") for line in verified.out.splitlines())

    shard = own_cache / "activations" / entries[0] / "shard-00000.safetensors"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    damaged = bertology("cache", "verify")
    assert damaged.status == 1
    assert f"{entries[0]}  shard-00000.safetensors is missing or damaged" in damaged.out.splitlines()

    assert "would free" in bertology("cache", "prune", "--dry-run").out
    assert len(list((own_cache / "activations").glob("*/manifest.json"))) == 3
    assert bertology("cache", "prune", "--unfinished").out == "freed 0 entries, 0.0 MB (0 bytes)\n"
    pruned = bertology("cache", "prune", "--yes").out.splitlines()
    assert sorted(line.split()[0] for line in pruned[:-1]) == entries
    assert pruned[-1].startswith("freed 3 entries, ")
    assert bertology("cache", "list").out == "0 entries, 0.0 MB (0 bytes)\n"
    # Results are not touched.
    assert probe("--format", "csv").out == before.out


def test_copies_of_models_are_listed_and_deleted_when_named(
    bertology: Command, probe: Command, tiny_bert: Path, own_cache: Path
) -> None:
    from bertology import load_encoder
    from bertology.encoders import model_name

    encoder = load_encoder(str(tiny_bert))
    encoder.model.body.embeddings.word_embeddings.weight[5] += 1  # type: ignore[operator, union-attr, index]
    copy = Path(model_name(encoder))
    assert copy.parent.parent == own_cache / "models"
    (own_cache / "models" / "notes").mkdir()
    line, total = bertology("cache", "list").out.splitlines()
    assert line.startswith(f"models/{copy.parent.name}  ")
    assert line.endswith(": a copy of a model, by which runs find it")
    assert total.startswith("1 entry, ")
    assert bertology("cache", "prune", "--yes").out == "freed 0 entries, 0.0 MB (0 bytes)\n"
    assert copy.is_dir()
    assert bertology("cache", "prune", "--models", "--dry-run").out.splitlines()[0] == line
    assert "would be deleted: say so with --yes" in bertology("cache", "prune", "--models").one_line()
    assert bertology("cache", "prune", "--models", "--yes", "--older-than-days", "1").out.startswith("freed 0 ")
    assert copy.is_dir()
    assert bertology("cache", "prune", "--models", "--yes").out.splitlines()[-1].startswith("freed 1 entry, ")
    assert not copy.parent.exists()
    assert (own_cache / "models" / "notes").is_dir()
    lost = bertology("probe", "--model", copy, "--corpus", "pocket").one_line()
    assert lost.startswith(f"no model folder {copy}: check the path")
