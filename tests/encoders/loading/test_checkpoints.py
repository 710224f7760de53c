"""Checkpoints of a training: in folders, and as revisions in a cache of the hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.encoders import find_checkpoints
from bertology.errors import BertologyError


def folders(root: Path, *names: str) -> str:
    for name in names:
        (root / name).mkdir(parents=True)
    return str(root)


def test_sub_folders_with_a_step_by_their_number(tmp_path: Path) -> None:
    name = folders(tmp_path, "checkpoints/step-001000", "checkpoints/step-000500", "checkpoint-20", "logs", "step-x")
    assert [(one.step, Path(one.name).name) for one in find_checkpoints(name)] == [
        *((20, "checkpoint-20"), (500, "step-000500"), (1000, "step-001000"))
    ]
    assert [one.step for one in find_checkpoints(name, [1000, "checkpoint-20"])] == [20, 1000]
    assert [one.step for one in find_checkpoints(name, "step-*")] == [500, 1000]


def test_mistakes_are_named(tmp_path: Path) -> None:
    name = folders(tmp_path / "a", "checkpoints/step-500", "checkpoint-7")
    with pytest.raises(BertologyError, match=r"unknown checkpoint of model .*600.*there is checkpoint-7, step-500"):
        find_checkpoints(name, [600])
    with pytest.raises(BertologyError, match="no checkpoints; a folder has them as checkpoints/step-500"):
        find_checkpoints(folders(tmp_path, "empty/logs").rstrip("/") + "/empty")
    folders(tmp_path / "a", "checkpoint-500")
    with pytest.raises(BertologyError, match="are both of step 500"):
        find_checkpoints(name)
    with pytest.raises(BertologyError, match=r"pocket has no checkpoints.*keep_checkpoints"):
        find_checkpoints("pocket")
    with pytest.raises(BertologyError, match="'final' has no step in its name"):
        find_checkpoints("org/name", ["final"])


def test_revisions_listed_or_found_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = tmp_path / "models--org--small" / "refs"
    refs.mkdir(parents=True)
    for name in ("main", "step1000", "step250", "step_20k-tokens4B", "ext300"):
        (refs / name).write_text("c0ffee")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = find_checkpoints("org/small", "all")
    assert [(one.step, one.name, one.revision) for one in found] == [
        *((250, "org/small", "step250"), (1000, "org/small", "step1000"), (20_000, "org/small", "step_20k-tokens4B"))
    ]
    assert [one.step for one in find_checkpoints("org/small", "step?*0")] == [250, 1000]
    assert [one.revision for one in find_checkpoints("org/small", [1000])] == ["step1000"]
    # Names in a list need no list of the hub's.
    assert [(one.step, one.revision) for one in find_checkpoints("org/other", ["ext300"])] == [(300, "ext300")]
