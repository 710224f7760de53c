"""Where the cache is."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_dir

from bertology._files import cache_folder


def test_the_environment_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("BERTOLOGY_CACHE", "~/mine")
    assert cache_folder() == Path.home() / "mine"


def test_without_it_the_folder_is_the_users(monkeypatch):
    monkeypatch.delenv("BERTOLOGY_CACHE")
    assert cache_folder() == Path(user_cache_dir("bertology", appauthor=False))
    monkeypatch.setenv("BERTOLOGY_CACHE", "")
    assert cache_folder() == Path(user_cache_dir("bertology", appauthor=False))
