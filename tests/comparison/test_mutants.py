"""What is given to ``compare``, damaged: taken, or refused in one line."""

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bertology import compare
from bertology.errors import BertologyError
from tests.mutations import accepted, mutated_bytes, mutated_tree, times

COUNT = times(15)
FULL = times(2)
"""Mutants with which whole comparisons are computed, each a second."""


class Computed(BertologyError):
    """Everything that was asked for has been found."""


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons end before anything is computed."""

    def stop(*_: Any, **__: Any) -> None:
        raise Computed("found")

    monkeypatch.setattr("bertology._compare.run_experiment", stop)


ARGUMENTS = {
    "tasks": b"pos,feats:Number",
    "measures": b"vectors,weights,masked_loss",
    "layers": b"0-1,3,-1",
    "controls": b"majority,random",
    "columns": b"form,xpos,ner",
    "pooling": b"first",
    "test_split": b"test",
    "dtype": b"float32",
}


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_damaged_arguments(name: str, tiny_bert: Path, noisy_bert: Path, tiny_corpus: Path) -> None:
    for mutant in mutated_bytes(ARGUMENTS[name], seed=len(name), count=COUNT):
        given: dict[str, Any] = {"progress": False, name: mutant.decode(errors="surrogateescape")}
        accepted(partial(compare, tiny_bert, noisy_bert, corpus=tiny_corpus, **given))


@pytest.fixture
def folder(noisy_bert: Path, tmp_path: Path) -> Iterator[Path]:
    return shutil.copytree(noisy_bert, tmp_path / "damaged")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_damaged_models(file: str, folder: Path, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    """Compared to the end where they are taken; what fails then is a line of the comparison."""
    plain = json.loads((folder / file).read_text())
    settings: dict[str, Any] = {"measures": "vectors,weights,masked_loss", "layers": "0,-1", "sentences": 10}
    for number, mutant in enumerate(mutated_tree(plain, seed=3, count=FULL)):
        try:
            (folder / file).write_text(json.dumps(mutant))
        except ValueError:
            continue  # a number of thousands of digits
        out = tmp_path / str(number)
        call = partial(compare, tiny_bert, folder, corpus=tiny_corpus, out=out, progress=False, **settings)
        accepted(lambda call=call: [one_line(failure) for failure in call().failures])  # type: ignore[misc]


def one_line(failure: str) -> None:
    assert "\n" not in failure
    assert not [name for name in ("Error: ", "Exception: ") if name in failure], failure
