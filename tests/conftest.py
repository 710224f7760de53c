"""Fixtures shared by all tests: where real corpora and a real encoder are, and a cache folder of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """The folder or file ``name`` of the real corpora; the test skips, saying what is missing, where it is absent."""
    root = Path(os.environ.get("BERTOLOGY_REAL_DATA", _SHARED / "data"))

    def find(name: str) -> Path:
        if not (root / name).exists():
            pytest.skip(f"real corpus not found: {root / name}; BERTOLOGY_REAL_DATA names the folder")
        return root / name

    return find


@pytest.fixture(scope="session")
def real_model() -> Path:
    """The folder of a real pre-trained encoder; the test skips where it is absent."""
    folder = Path(os.environ.get("BERTOLOGY_REAL_MODEL", _SHARED / "models" / "minilm-mlm"))
    if not folder.exists():
        pytest.skip(f"real encoder not found: {folder}; BERTOLOGY_REAL_MODEL names the folder")
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test keeps its cache to itself, and never asks a hub."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("BERTOLOGY_CACHE", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder
