"""A readout of another package by name: installed, listed, checked, and reported where it is broken."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bertology.errors import BertologyError, FitError, NameNotFoundError
from bertology.readouts import make_readout, readout_kind, registered_readouts
from tests.toy_readout import FILE, install

Command = Callable[..., Any]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install the toy readout, with changes, for this process."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda **changes: install(tmp_path, **changes)
    sys.modules.pop("their_toy_readout", None)


def test_installed_while_the_process_runs(here: Callable[..., None], bertology: Command) -> None:
    with pytest.raises(NameNotFoundError, match="unknown readout 'toy'"):
        readout_kind("toy")
    here()
    assert readout_kind("toy").name == "toy.v1"
    assert make_readout("Toy", shrink=1).shrink == 1.0  # type: ignore[attr-defined]
    with pytest.raises(FitError, match=r"setting shrink of readout toy\.v1 is 'x': input should be a valid number"):
        make_readout("toy", shrink="x")
    with pytest.raises(NameNotFoundError, match=r"unknown setting of readout toy\.v1 'shrnk': did you mean shrink\?"):
        make_readout("toy", shrnk=1)
    assert "toy      " in bertology("readouts").out
    assert "nearest class mean (reads words; v1)" in bertology("readouts").out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"file": "raise RuntimeError('two\\nlines')"}, "cannot be imported (RuntimeError: two lines)"),
        ({"target": "their_toy_readout:Toy"}, "is of type ABCMeta; it should be a ReadoutKind"),
        ({"name": "toys.v1"}, "calls itself toy.v1; register it under that name, or change its own"),
        ({"name": "toy"}, "readout name 'toy' (their_toy_readout:TOY): it should be like linear.v1"),
    ],
)
def test_a_broken_package_is_reported_and_hides_no_other(
    changes: dict[str, str], message: str, here: Callable[..., None], bertology: Command
) -> None:
    here(**changes)
    name = changes.get("name", "toy.v1")
    assert name in registered_readouts()
    with pytest.raises(BertologyError):
        readout_kind(name)
    listing = bertology("readouts")
    assert listing.status == 0
    assert message in listing.out
    assert "linear " in listing.out


def test_a_wrong_place_of_a_readout_is_reported(here: Callable[..., None]) -> None:
    here(file=FILE.replace('ReadoutKind("toy.v1", Toy,', 'ReadoutKind("toy.v1", "their_absent_readout:Toy",'))
    assert readout_kind("toy").about == "nearest class mean"
    with pytest.raises(BertologyError, match=r"readout toy\.v1 \(their_absent_readout:Toy\) cannot be imported"):
        make_readout("toy")


def test_a_name_of_ours_is_a_collision(here: Callable[..., None]) -> None:
    here(name="linear.v1")
    with pytest.raises(
        BertologyError, match=r"two readouts are called linear\.v1: bertology\.readouts\.[\w.]+:LINEAR_V1 and"
    ):
        readout_kind("linear")
