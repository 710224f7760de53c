import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from bertology.activations import Recipe, extract
from bertology.activations.store import list_stored, prune_stored
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
    by_folder = {status.folder: status for status in list_stored()}
    whole, unfinished = (by_folder[folder] for folder in two_entries)
    assert "layers 0" in whole.text
    assert "unfinished" in unfinished.text
    assert whole.problems() == unfinished.problems() == []
    assert unfinished.n_bytes == 4
    (whole.folder / "shard-00000.safetensors").write_bytes(b"garbage")
    assert whole.problems() == ["shard-00000.safetensors is missing or damaged"]


def exchanged(head: bytes) -> bytes:
    """A header with two layers in each other's place."""
    return head.replace(b"layer_00", b"layer_xx").replace(b"layer_02", b"layer_00").replace(b"layer_xx", b"layer_02")


@pytest.mark.parametrize(
    "alter",
    [exchanged, lambda head: head.replace(b'"F32"', b'"I32"', 1), lambda head: head.replace(b"layer_00", b"layer_01")],
    ids=["exchanged layers", "another type", "another layer"],
)
def test_an_altered_header_is_damage_and_is_written_again(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, alter: Callable[[bytes], bytes]
) -> None:
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 2))
    path = entry.shard_path(0)
    whole = path.read_bytes()
    length = 8 + int.from_bytes(whole[:8], "little")
    path.write_bytes(whole[:8] + alter(whole[8:length]) + whole[length:])
    assert len(path.read_bytes()) == len(whole)
    assert path.read_bytes() != whole
    (status,) = list_stored()
    assert status.problems() == ["shard-00000.safetensors is missing or damaged"]
    again = extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 2))
    assert again.shard_path(0).read_bytes() == whole
    assert list_stored()[0].problems() == []


@pytest.mark.parametrize(
    ("field", "value"), [("skipped", []), ("model", "other"), ("layers", [0, 1]), ("about", {}), ("checksum", "")]
)
def test_an_altered_manifest_is_damage_and_is_written_again(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, field: str, value: object
) -> None:
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 2))
    path = entry.folder / "manifest.json"
    whole = path.read_text(encoding="utf-8")
    plain = json.loads(whole)
    skipped = [[0, "s", "w", "r"]]
    if field == "skipped":  # one that the entry does not have, in the place of a word that it has
        value = skipped
        plain["n_words"] += 1
    path.write_text(json.dumps({**plain, field: value}), encoding="utf-8")
    (status,) = list_stored()
    assert "manifest.json is missing or damaged" in status.problems()
    extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 2))
    assert path.read_text(encoding="utf-8") == whole


def test_prune_takes_what_is_asked_and_leaves_what_is_being_written(two_entries: list[Path]) -> None:
    whole, unfinished = two_entries
    assert {status.folder for status in prune_stored(dry_run=True)} == set(two_entries)
    assert whole.exists()
    assert prune_stored(older_than_days=1) == []
    long_ago = time.time() - 3 * 86400
    for path in whole.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert [status.folder for status in prune_stored(older_than_days=1, dry_run=True)] == [whole]
    with FileLock(unfinished.with_suffix(".lock")):
        assert prune_stored(only_unfinished=True) == []
    assert [status.folder for status in prune_stored(only_unfinished=True)] == [unfinished]
    assert [status.folder for status in prune_stored()] == [whole]
    assert list_stored() == []
