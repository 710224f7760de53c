"""What can be wrong with labelled spans: one line that names it and exit status 2, or a note that counts it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Command = Callable[..., Any]


def test_an_annotation_of_another_name(probe: Command, tmp_path: Path) -> None:
    example = {"text": "the cat saw two dogs", "targets": [{"span1": [2, 3], "span2": [0, 2], "label": "A0"}]}
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(example) + "\n")
    line = probe("--corpus", f"{tmp_path}#roles", "--task", "edge_srl").one_line()
    assert "no span has a label in layer 'srl': the layers of spans are roles" in line


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
        ({"name": "linear", "fraction": 1.5}, "should be at most 1 or a list"),
        ({"name": "linear", "fraction": [0.5, 0]}, "should be over 0, not 0"),
        (
            {"name": "linear", "fraction": [0.5, 0.5]},
            "task pos is read twice by linear.v1 fraction=0.5: name each way once",
        ),
        ({"name": "linear", "codelength": "offline"}, "codelength"),
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
