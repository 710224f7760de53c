"""Damaged files of settings and ``--set``: taken, or refused in one line that quotes little of them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bertology._settings import Place, parse_yaml
from bertology.errors import BertologyError
from bertology.finetuning._settings import load_grid
from bertology.landscapes import load_landscape
from bertology.pocket import load_settings
from bertology.runner.engines import read_profile
from bertology.runner.experiment import load_experiment
from tests.long_numbers import dumped
from tests.mutations import accepted, mutated_bytes, mutated_tree, times

COUNT = times(60)
EXPERIMENTS = Path(__file__).parents[1] / "experiments"
EXPERIMENT = """\
name: trial
models: [pocket, {name: pocket, init: random, init_seed: 2, pooling: first, max_pieces: 16, id: b}]
corpora: [pocket, {name: pocket, id: other, sentences: 20, test_split: dev, columns: 'form,ner'}]
tasks:
  - pos
  - {name: ner, corpora: [other], readout: {name: mlp, settings: {hidden: [8, 16]}, fraction: [0.5, 1.0], layers: [0]}}
layers: 0-2
seeds: 2
controls: [majority, random]
statistics: {resamples: 500, seed: 3, compare_layers: false}
outputs: {tables: [md, csv], plots: [png]}
device: cpu
"""
PROFILE = (
    "jobs: {minimum: 1, maximum: 4}\ncores: 4\nmemory: 16GB\njob_extra_directives: ['--gres=gpu:1']\nnanny: true\n"
)


def resolved(path: Path) -> object:
    """An experiment, and what is made of it before any name is looked up."""
    found = load_experiment(path)
    return found.plain(), found.layer_spec, [task.configs for task in found.tasks]


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "experiment": (EXPERIMENT, resolved),
    "recipe": ((EXPERIMENTS / "pretrain-bilingual.yaml").read_text(), load_settings),
    "grid": ((EXPERIMENTS / "peters-2019-frozen-or-tuned.yaml").read_text(), load_grid),
    "landscape": ((EXPERIMENTS / "hao-2019-landscape.yaml").read_text(), load_landscape),
    "profile": (PROFILE, read_profile),
}


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files(kind: str, tmp_path: Path) -> None:
    text, read = READERS[kind]
    path = tmp_path / "damaged.yaml"
    path.write_text(text)
    read(path)
    for mutant in mutated_bytes(text.encode(), seed=5, count=COUNT):
        path.write_bytes(mutant)
        accepted(lambda: read(path))


@pytest.mark.parametrize("kind", READERS)
def test_files_with_other_values(kind: str, tmp_path: Path) -> None:
    text, read = READERS[kind]
    path = tmp_path / "damaged.yaml"
    for mutant in mutated_tree(yaml.safe_load(text), seed=5, count=2 * COUNT):
        path.write_text(dumped(yaml.safe_dump, mutant))
        accepted(lambda: read(path))


CHANGES = [
    b"seeds=3",
    b"models[1].dtype=float16",
    b"tasks=[pos, {name: ner, readout: mlp}]",
    b"statistics.resamples=100",
]


@pytest.mark.parametrize("change", CHANGES)
def test_damaged_changes(change: bytes, tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT)
    for mutant in mutated_bytes(change, seed=7, count=COUNT):
        changes = [mutant.decode(errors="surrogateescape")]  # as the operating system hands arguments over
        accepted(partial(load_experiment, path, changes=changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 5000, r"here:1: '9+…' \(5,000 characters\) is not a finite number"),
        (f"-{2**63}", "is not a finite number, or beyond what 64 bits hold"),
        (".inf", "'.inf' is not a finite number"),
        ("1e999", "'1e999' is not a finite number"),
        ("!!int x", "'x' is not what its tag !!int says"),
        ("!!bool x", "'x' is not what its tag !!bool says"),
        ('"\\ud800"', "holds what is no character of a text"),
        ('"\\0"', "holds what is no character of a text"),
        ('"\\U00110000"', "not valid YAML"),
        ('"a\\nb": 1\n"a\\nb": 2', r"here:2: key 'a\\nb' is written twice"),
    ],
)
def test_values_that_are_none(text: str, message: str) -> None:
    with pytest.raises(BertologyError, match=message):
        parse_yaml(text, Place("here", 1))


def test_numbers_that_are_not_written_as_numbers_stay_text(tmp_path: Path) -> None:
    plain: Any = parse_yaml("[9_000, 0x10, 1:30, ９, '1']", Place("here"))
    assert plain == ["9_000", "0x10", "1:30", "９", "1"]
