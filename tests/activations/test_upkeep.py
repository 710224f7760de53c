from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from filelock import FileLock

from bertology.activations import Recipe, extract, prune_store, store_status
from bertology.corpora import Sentences
from bertology.encoders import Encoder


@pytest.fixture
def two_entries(encoder: Encoder, sentences: Sentences, recipe: Recipe) -> list[Path]:
    whole = extract(lambda: encoder, sentences, recipe=recipe, layers=(0,)).folder
    unfinished = whole.with_name("0" * 20 + "-00000000")
    unfinished.mkdir()
    (unfinished / "shard-00000.safetensors").write_bytes(b"half")
    return [whole, unfinished]


def test_status_tells_whole_from_unfinished_and_damaged(two_entries: list[Path]) -> None:
    by_folder = {status.folder: status for status in store_status()}
    whole, unfinished = (by_folder[folder] for folder in two_entries)
    assert "layers 0" in whole.describe()
    assert "unfinished" in unfinished.describe()
    assert whole.problems() == unfinished.problems() == []
    assert unfinished.n_bytes == 4
    (whole.folder / "shard-00000.safetensors").write_bytes(b"garbage")
    assert whole.problems() == ["shard-00000.safetensors is missing or damaged"]


def test_prune_takes_what_is_asked_and_leaves_what_is_being_written(two_entries: list[Path]) -> None:
    whole, unfinished = two_entries
    assert {status.folder for status in prune_store(dry_run=True)} == set(two_entries)
    assert whole.exists()
    assert prune_store(older_than_days=1) == []
    long_ago = time.time() - 3 * 86400
    for path in whole.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert [status.folder for status in prune_store(older_than_days=1, dry_run=True)] == [whole]
    with FileLock(unfinished.with_suffix(".lock")):
        assert prune_store(only_unfinished=True) == []
    assert [status.folder for status in prune_store(only_unfinished=True)] == [unfinished]
    assert [status.folder for status in prune_store()] == [whole]
    assert store_status() == []
