from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bertology.activations import Entry, Progress, Recipe, WordVectors, extract
from bertology.activations import _extract as extraction
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import ModelError, ShortMemoryError, StoreError

Reference = Callable[..., NDArray[np.float32]]
ALL = (0, 1, 2, 3)


class Listening(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.total = self.advanced = self.skipped = 0

    def start(self, total: int, *, unit: str) -> None:
        self.total = total

    def advance(self, amount: int) -> None:
        self.advanced += amount

    def skip(self, amount: int) -> None:
        self.skipped += amount

    def note(self, text: str) -> None:
        self.notes.append(text)


def array_of(entry: Entry, layers: tuple[int, ...] | None = None) -> NDArray[np.float32]:
    return WordVectors(entry, np.arange(entry.manifest.n_words), layers=layers).array()


def never() -> Encoder:
    raise AssertionError("the encoder should not be needed")


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_vectors_are_those_of_each_sentence_read_alone(
    tiny_bert: Path, sentences: Sentences, recipe: Recipe, plain_vectors: Reference, pooling: Any, device: str
) -> None:
    encoder = load_encoder(str(tiny_bert), device=device)
    entry = extract(lambda: encoder, sentences, recipe=replace(recipe, pooling=pooling), layers=ALL)
    assert len(entry.manifest.shards) > 2
    np.testing.assert_allclose(array_of(entry), plain_vectors(sentences, pooling), atol=1e-5)


@pytest.mark.usefixtures("small_shards")
def test_an_accelerator_continues_what_a_processor_began(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger batches, but the same words in each shard."""
    monkeypatch.setattr(extraction, "SHARD_BYTES", 150_000)
    before = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    vectors, place = array_of(before), before.place
    for path in (before.folder / "manifest.json", before.shard_path(1)):
        path.unlink()
    batches: list[int] = []
    forward = Encoder.hidden_states

    def counted(self: Encoder, ids: torch.Tensor, *rest: Any, **more: Any) -> dict[int, torch.Tensor]:
        batches.append(ids.numel())
        return forward(self, ids, *rest, **more)

    monkeypatch.setattr(Encoder, "hidden_states", counted)
    monkeypatch.setattr(extraction, "pieces_in_batch", lambda device: 1 << 14)
    after = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    assert max(batches) > 128
    np.testing.assert_array_equal(after.place, place)
    np.testing.assert_allclose(array_of(after), vectors, atol=1e-5)


def test_half_precision_on_disk_is_half_precision_of_the_same(
    encoder: Encoder, sentences: Sentences, half: Recipe, plain_vectors: Reference
) -> None:
    entry = extract(lambda: encoder, sentences, recipe=half, layers=ALL)
    np.testing.assert_allclose(array_of(entry), plain_vectors(sentences), atol=5e-3)
    assert entry.manifest.n_bytes == sentences.n_words * 4 * encoder.dim * 2


def test_bfloat16_computes_the_same_to_its_precision(
    tiny_bert: Path, sentences: Sentences, recipe: Recipe, plain_vectors: Reference
) -> None:
    low = load_encoder(str(tiny_bert), dtype="bfloat16", device="cpu")
    entry = extract(lambda: low, sentences, recipe=replace(recipe, compute_dtype="bfloat16"), layers=ALL)
    difference = np.abs(array_of(entry) - plain_vectors(sentences))
    assert difference.mean() < 0.02


def test_what_is_stored_is_not_computed_again(encoder: Encoder, sentences: Sentences, recipe: Recipe) -> None:
    first = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    fewer = extract(never, sentences, recipe=recipe, layers=(2,))
    assert fewer.folder == first.folder
    assert np.array_equal(array_of(fewer, (2,)), array_of(first)[2:3])


def test_vectors_of_gated_models_are_not_kept(encoder: Encoder, sentences: Sentences, recipe: Recipe) -> None:
    """They would be found later as those of the model itself."""
    with encoder.gated_heads({(1, 1): 0.0}), pytest.raises(ModelError, match="extract outside gated_heads"):
        extract(lambda: encoder, sentences, recipe=recipe, layers=(1,))
    assert recipe.find((1,)) is None


def test_another_recipe_is_another_entry(encoder: Encoder, sentences: Sentences, recipe: Recipe) -> None:
    extract(lambda: encoder, sentences, recipe=recipe, layers=(1,))
    for change in ({"pooling": "last"}, {"model_fingerprint": "x"}, {"text_fingerprint": "x"}, {"on_long": "skip"}):
        assert replace(recipe, **change).find((1,)) is None
    assert recipe.find((1, 2)) is None


@pytest.mark.usefixtures("small_shards")
def test_a_killed_extraction_goes_on_at_its_first_missing_shard(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = extract(lambda: encoder, sentences, recipe=replace(recipe, model_fingerprint="twin"), layers=ALL)
    write = extraction.write_shard

    def fail_at_third(path: Path, *rest: Any) -> str:
        if path.name == "shard-00002.safetensors":
            raise KeyboardInterrupt
        return write(path, *rest)

    monkeypatch.setattr(extraction, "write_shard", fail_at_third)
    with pytest.raises(KeyboardInterrupt):
        extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    assert recipe.find(ALL) is None
    monkeypatch.setattr(extraction, "write_shard", write)
    told = Listening()
    resumed = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL, progress=told)
    assert told.skipped > 0
    assert told.skipped + told.advanced == told.total
    assert np.array_equal(array_of(resumed), array_of(whole))
    assert [shard[2] for shard in resumed.manifest.shards] == [shard[2] for shard in whole.manifest.shards]


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("damage", ["flipped byte", "cut short", "deleted", "index"])
def test_a_damaged_file_is_found_and_made_again(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, damage: str
) -> None:
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    before = array_of(entry)
    path = entry.folder / "words.parquet" if damage == "index" else entry.shard_path(1)
    content = bytearray(path.read_bytes())
    if damage in ("flipped byte", "index"):
        content[-9] ^= 1
    path.write_bytes(content[:1000] if damage == "cut short" else content)
    if damage == "deleted":
        path.unlink()
    assert entry.damaged_files() == [path]
    told = Listening()
    mended = extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 1), progress=told)
    assert mended.damaged_files() == []
    assert np.array_equal(array_of(mended), before)
    assert "damaged" in told.notes[0]
    assert told.skipped >= told.total * 0.5


def test_out_of_memory_halves_the_batch_and_says_so(
    tiny_bert: Path, sentences: Sentences, recipe: Recipe, plain_vectors: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = load_encoder(str(tiny_bert), device="cpu")
    forward = Encoder.hidden_states

    def limited(self: Encoder, ids: torch.Tensor, *rest: Any, **more: Any) -> dict[int, torch.Tensor]:
        if len(ids) > 3:
            raise torch.OutOfMemoryError("no memory left")
        return forward(self, ids, *rest, **more)

    monkeypatch.setattr(Encoder, "hidden_states", limited)
    told = Listening()
    entry = extract(lambda: small, sentences, recipe=recipe, layers=ALL, progress=told)
    assert all("out of memory: batches halved" in note for note in told.notes)
    assert told.notes
    np.testing.assert_allclose(array_of(entry), plain_vectors(sentences), atol=1e-5)


def test_a_single_window_too_large_for_memory_is_one_line(
    tiny_bert: Path, sentences: Sentences, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = load_encoder(str(tiny_bert), device="cpu")

    def full(*_: Any, **__: Any) -> dict[int, torch.Tensor]:
        raise torch.OutOfMemoryError("no memory left")

    monkeypatch.setattr(Encoder, "hidden_states", full)
    with pytest.raises(
        ShortMemoryError, match=r"a window of \d+ pieces on cpu: not enough memory .*; lower max_pieces"
    ):
        extract(lambda: small, sentences, recipe=recipe, layers=ALL, progress=Listening())


def test_other_errors_are_not_taken_for_lack_of_memory(
    tiny_bert: Path, sentences: Sentences, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = load_encoder(str(tiny_bert), device="cpu")

    def broken(*_: Any, **__: Any) -> dict[int, torch.Tensor]:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(Encoder, "hidden_states", broken)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        extract(lambda: small, sentences, recipe=recipe, layers=ALL)


def test_values_too_large_for_half_precision_name_the_layer(
    tiny_bert: Path, sentences: Sentences, half: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = load_encoder(str(tiny_bert), device="cpu")
    forward = Encoder.hidden_states

    def scaled(*args: Any, **more: Any) -> dict[int, torch.Tensor]:
        return {layer: values * (1e6 if layer == 2 else 1) for layer, values in forward(*args, **more).items()}

    monkeypatch.setattr(Encoder, "hidden_states", scaled)
    with pytest.raises(StoreError, match=r"layer 2 of .* float16 cannot hold; store it in float32"):
        extract(lambda: large, sentences, recipe=half, layers=ALL)


def test_no_space_is_seen_before_anything_is_computed(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(StoreError, match=r": [1-9]\d+ kB of vectors do not fit into the 10 B free there; free some"):
        extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)


def test_no_space_while_writing_is_one_line_and_what_is_written_stays(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, small_shards: None
) -> None:
    replace_file = os.replace

    def full(path: str, target: Path) -> None:
        if target.name == "shard-00001.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device")
        replace_file(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StoreError, match=r"no space left to write .*BERTOLOGY_CACHE"):
            extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    told = Listening()
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=ALL, progress=told)
    assert told.skipped > 0
    assert not list(entry.folder.glob("*.tmp"))


def test_words_without_pieces_are_listed_with_their_reason(encoder: Encoder, recipe: Recipe) -> None:
    odd = Sentences([Sentence.from_words(["the", "\u200b", "dog"], id="odd-1")])
    own = replace(recipe, text_fingerprint=odd.text_fingerprint)
    entry = extract(lambda: encoder, odd, recipe=own, layers=(0,))
    assert [(word, sentence, form) for word, sentence, form, _ in entry.manifest.skipped] == [(1, "odd-1", "\u200b")]
    assert entry.manifest.skipped[0][3]
    assert entry.place[:, 0].tolist() == [0, -1, 0]


def test_long_sentences_are_read_in_windows(tiny_bert: Path, sentences: Sentences, recipe: Recipe) -> None:
    narrow = load_encoder(str(tiny_bert), device="cpu", max_pieces=12)
    entry = extract(lambda: narrow, sentences, recipe=replace(recipe, max_pieces=12), layers=(0, 3))
    assert (entry.place >= 0).all()
    assert entry.manifest.skipped == ()


_TWO_PROCESSES = """
import os, sys
from pathlib import Path
from bertology.activations import Recipe, extract
from bertology.corpora import load_corpus
from bertology.encoders import Encoder, load_encoder
loads = []
def load():
    loads.append(1)
    return load_encoder(sys.argv[1], device="cpu")
text = load_corpus("pocket")["dev"][:60]
recipe = Recipe(sys.argv[2], text.text_fingerprint, stored_dtype="float32")
child = os.fork()
extract(load, text, recipe=recipe, layers=(0, 1, 2, 3))
print(len(loads), flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_of_two_processes_one_writes_and_the_other_waits(tiny_bert: Path, recipe: Recipe) -> None:
    command = [sys.executable, "-c", _TWO_PROCESSES, str(tiny_bert), recipe.model_fingerprint]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert sorted(done.stdout.split()) == ["0", "1"]
    entry = recipe.find(ALL)
    assert entry is not None
    assert entry.damaged_files() == []


def test_progress_is_told_of_every_piece(encoder: Encoder, sentences: Sentences, recipe: Recipe) -> None:
    told: Progress = Listening()
    extract(lambda: encoder, sentences, recipe=recipe, layers=(0,), progress=told)
    assert isinstance(told, Listening)
    pieces = encoder.tokenize(sentences)
    assert told.total == told.advanced == len(pieces.ids)
