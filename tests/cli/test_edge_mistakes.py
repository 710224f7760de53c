"""What can be wrong with labelled spans: one line that names it and exit status 2, or a note that counts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Command = Callable[..., Any]

TEXT = "the cat saw two dogs"
GOOD = [
    {"span1": [2, 3], "span2": [0, 2], "label": "A0"},
    {"span1": [2, 3], "span2": [3, 5], "label": "A1"},
]


def example(*targets: dict[str, Any], text: str = TEXT) -> dict[str, Any]:
    return {"text": text, "targets": list(targets)}


def write_examples(folder: Path, **splits: list[dict[str, Any]]) -> Path:
    """A folder of edge JSONL, its splits good unless given."""
    folder.mkdir(exist_ok=True)
    for split, size in (("train", 12), ("dev", 4), ("test", 6)):
        examples = splits.get(split, [example(*GOOD)] * size)
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in examples))
    return folder


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"span1": [2, 3], "span2": [3, 5]}, "(targets.1.label: Field required); write an object"),
        ({"span1": [2, 3], "label": "A0"}, "targets[1]: found 'one span and a string'; expected two spans"),
    ],
    ids=["without label", "one span and two"],
)
def test_targets_that_are_not_well_formed(probe: Command, tmp_path: Path, target: Any, message: str) -> None:
    folder = write_examples(tmp_path / "edges", test=[example(*GOOD), example(GOOD[0], target)])
    line = probe("--corpus", f"{folder}#srl", "--task", "edge_srl").one_line()
    assert line.startswith(f"{folder / 'test.jsonl'}:2: ")
    assert message in line


def test_an_annotation_of_another_name(probe: Command, tmp_path: Path) -> None:
    folder = write_examples(tmp_path / "edges")
    line = probe("--corpus", f"{folder}#roles", "--task", "edge_srl").one_line()
    assert "no span has a label in layer 'srl': the layers of spans are roles" in line
    line = probe("--corpus", folder, "--task", "edge_srl").one_line()
    assert f"{folder}: name of the targets: found nothing; expected small letters" in line


# What is counted and left out


def propbank(name: str, *rows: str, words: bool = True) -> str:
    lines = [f"# sent_id = {name}\n"]
    for number, row in enumerate(rows, 1):
        form, head, relation, *roles = row.split()
        lines.append("\t".join([str(number), form if words else "_", *"____", head, relation, *"__", *roles]) + "\n")
    return "".join(lines) + "\n"


SAW = ("Anna 2 nsubj _ ARG0", "saw 0 root see.01 V", "dogs 2 obj _ ARG1")
RAINS = ("It 2 nsubj _ _", "rains 0 root rain.01 V")


@pytest.fixture
def roles(tmp_path: Path) -> str:
    """Roles and the treebank they are joined to; each split has a predicate without arguments, and test more."""
    above, below = tmp_path / "roles", tmp_path / "bank"
    for folder in (above, below):
        folder.mkdir()
    for split, size in (("train", 20), ("dev", 5), ("test", 8)):
        names = [f"{split}-{number}" for number in range(size)]
        annotated = [propbank(name, *SAW) for name in names] + [propbank(f"{split}-rain", *RAINS)]
        bare = ["\t".join(line.split("\t")[:10]).rstrip("\n") for text in annotated for line in text.splitlines()]
        if split == "test":
            annotated.append(propbank("lost-1", *SAW))
        (above / f"made-up-{split}.conllu").write_text("".join(annotated))
        (below / f"made-ud-{split}.conllu").write_text("\n".join(bare) + "\n\n")
    return f"{above}+{below}"


def test_what_is_left_out_of_a_joined_corpus_is_counted_and_listed(probe: Command, roles: str) -> None:
    outcome = probe("--corpus", roles, "--task", "edge_srl", "--readout", "linear", "--format", "json")
    assert outcome.status == 0, outcome.err
    told = [line.partition("left out of roles+bank: ")[2] for line in outcome.err.splitlines() if "left out" in line]
    # Sentences of three words take five lines; then come a comment, a word, and the predicate.
    lines = {"train": 20 * 5 + 3, "dev": 5 * 5 + 3, "test": 8 * 5 + 3}
    places = ", ".join(f"made-up-{split}.conllu:{line}" for split, line in lines.items())
    assert sorted(told) == [
        f"roles: predicates without arguments, 3: {places}",
        "sentences that bank does not have, 1: lost-1",
    ]


def test_an_experiment_tells_it_too(
    bertology: Command, tiny_bert: Path, roles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {
        "name": "joined",
        "models": [{"name": str(tiny_bert), "id": "tiny"}],
        "corpora": [{"name": roles, "id": "propbank"}],
        "tasks": [{"name": "edge_srl", "readout": {"name": "edge", "settings": {"max_epochs": 1}}}],
        "layers": 0,
        "controls": ["majority"],
        "outputs": {"plots": []},
    }
    path = tmp_path / "joined.yaml"
    path.write_text(yaml.safe_dump(content))
    outcome = bertology("run", path, "--engine", "serial")
    assert outcome.status == 0, outcome.err
    notes = [line for line in outcome.err.splitlines() if line.startswith("note ")]
    assert any("propbank: sentences that bank does not have, 1: lost-1" in note for note in notes)
    assert any("predicates without arguments, 3: made-up-train.conllu:" in note for note in notes)


@pytest.mark.parametrize(
    ("readout", "message"),
    [
        ({"name": "mlp", "settings": {"hidden": ["a"]}}, "setting hidden of readout mlp.v1 is 'a': input should be a"),
        ({"name": "linear", "fraction": 1.5}, "should be at most 1 or a list"),
        ({"name": "linear", "fraction": [0.5, 0]}, "should be over 0, not 0"),
        (
            {"name": "linear", "fraction": [0.5, 0.5]},
            "task pos is read twice by linear.v1 fraction=0.5: name each way once",
        ),
        ({"name": "linear", "codelength": "offline"}, "codelength"),
        ({"name": "linear", "erase": "poss"}, "unknown task 'poss': did you mean pos"),
    ],
)
def test_readings_that_there_are_not(
    bertology: Command, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readout: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {
        "name": "wrong",
        "models": [{"name": str(tiny_bert), "id": "tiny"}],
        "corpora": [{"name": "pocket", "sentences": 20}],
        "tasks": [{"name": "pos", "readout": readout}],
        "layers": 0,
    }
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(content))
    assert message in bertology("run", path, "--engine", "serial").one_line()
    assert not (tmp_path / "runs").exists()
