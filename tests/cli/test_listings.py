from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import known_corpora
from bertology.corpora.prompts import MADE
from bertology.encoders import known_models
from bertology.probing import registered_probes

Command = Callable[..., Any]


def test_tasks_one_line_each(bertology: Command) -> None:
    outcome = bertology("tasks")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert len(lines) == len(registered_probes())
    assert any(line.startswith("pos ") and "universal part of speech" in line and "v1)" in line for line in lines)
    assert any(line.startswith("feats:… ") and line.endswith("; … is Number, Tense") for line in lines)


def test_a_broken_plugin_is_shown_and_hides_no_other(
    bertology: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('first line\\nsecond line')")
    monkeypatch.syspath_prepend(str(tmp_path))
    points = [
        EntryPoint("pos.v1", "probes.pos:PROBE", "bertology.probes"),
        EntryPoint("pos.v2", "broken_plugin:PROBE", "bertology.probes"),
        EntryPoint("nameless", "probes.pos:PROBE", "bertology.probes"),
    ]
    monkeypatch.setattr("bertology.probing._registry.entry_points", lambda group: points)
    outcome = bertology("tasks")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert len(lines) == 3
    # pos alone would mean the newest version, which is the broken one.
    assert lines[1].startswith("pos.v1 ")
    assert lines[1].endswith("v1)")
    assert "pos.v2" in lines[2]
    assert "cannot be used: probe pos.v2 (broken_plugin:PROBE) cannot be imported" in lines[2]
    assert "second line" in lines[2]
    assert "cannot be used: probe name 'nameless'" in lines[0]


@pytest.mark.parametrize(("command", "known"), [("models", known_models), ("corpora", known_corpora)])
def test_models_and_corpora_one_line_each(bertology: Command, command: str, known: Callable[[], Any]) -> None:
    outcome = bertology(command)
    assert outcome.status == 0
    of_texts = [MADE] if command == "corpora" else []
    assert [line.split("  ")[0].strip() for line in outcome.out.splitlines()] == [*known(), *of_texts]


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


def test_the_cache_is_listed_checked_and_pruned(bertology: Command, probe: Command, own_cache: Path) -> None:
    assert bertology("cache", "list").out == "0 entries, 0.0 MB\n"
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
    assert bertology("cache", "prune", "--unfinished").out == "freed 0.0 MB in 0 entries\n"
    pruned = bertology("cache", "prune")
    assert pruned.out.splitlines()[-1].endswith("in 3 entries")
    assert bertology("cache", "list").out == "0 entries, 0.0 MB\n"
    # Results are not touched.
    assert probe("--format", "csv").out == before.out
