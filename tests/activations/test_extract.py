"""Extraction of vectors of words and first tokens into the store."""

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

from bertology.activations import (
    Entry,
    Recipe,
    SpanVectors,
    WordVectors,
    brief_store,
    empty_store,
    extract,
    read_words,
)
from bertology.activations import _extract as extraction
from bertology.activations.progress import Progress
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import ModelError, ShortMemoryError, StoreError
from tests.encoders.conftest import encoder as any_encoder
from tests.encoders.conftest import tiny as tiny

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
def test_entries_that_are_held_in_memory(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, words = load_encoder(encoder.source, device=device), np.arange(sum(map(len, sentences)))
    stored = array_of(extract(lambda: encoder, sentences, recipe=recipe, layers=ALL))
    other = replace(recipe, pooling="last")
    with brief_store(in_process=True) as folder:
        found = extract(never, sentences, recipe=recipe, layers=ALL)
        assert found.folder.parent != folder, "what is in the cache is not extracted again"
        entry = extract(lambda: read, sentences, recipe=other, layers=ALL)
        assert len(entry.manifest.shards) > 2
        assert not [*folder.rglob("shard-*")]
        held, spans = array_of(entry), np.stack([words, words + 1], axis=1)[:, None]
        of_spans = np.concatenate([chunk.words.numpy() for chunk in SpanVectors(entry, spans).chunks()], axis=1)
        assert np.array_equal(np.sort(of_spans, axis=None), np.sort(held, axis=None))
        assert np.array_equal(WordVectors(entry, words).on(torch.device(device)).cpu().numpy(), held)
        assert extract(never, sentences, recipe=other, layers=(1,)).folder == entry.folder
        empty_store(folder)
        assert other.find(ALL) is None
        monkeypatch.setattr("bertology.activations.store.memory_of", lambda _: 4 * entry.manifest.n_bytes - 1)
        in_files = extract(lambda: read, sentences, recipe=other, layers=ALL)
        assert [*folder.rglob("shard-*")]
        assert np.array_equal(array_of(in_files), held)
    assert not folder.exists()
    assert np.array_equal(array_of(extract(never, sentences, recipe=recipe, layers=ALL)), stored)
    assert not np.array_equal(held, stored)


@pytest.mark.usefixtures("small_shards")
def test_what_float16_cannot_hold_is_an_error_where_it_is_held(
    encoder: Encoder, sentences: Sentences, recipe: Recipe, device: str
) -> None:
    read = load_encoder(encoder.source, device=device)
    with torch.inference_mode():
        read.model.body.get_input_embeddings().weight.mul_(1e9)
        read.model.body.embeddings.LayerNorm.weight.mul_(1e9)
    with brief_store(in_process=True), pytest.raises(StoreError, match=r"layer 0 .* float16 cannot hold"):
        extract(lambda: read, sentences, recipe=replace(recipe, stored_dtype="float16"), layers=(0,))


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
    write = extraction.store.write_shard

    def fail_at_third(path: Path, *rest: Any) -> str:
        if path.name == "shard-00002.safetensors":
            raise KeyboardInterrupt
        return write(path, *rest)

    monkeypatch.setattr(extraction.store, "write_shard", fail_at_third)
    with pytest.raises(KeyboardInterrupt):
        extract(lambda: encoder, sentences, recipe=recipe, layers=ALL)
    assert recipe.find(ALL) is None
    monkeypatch.setattr(extraction.store, "write_shard", write)
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


of_family = pytest.fixture(name="of_family", scope="session")(any_encoder.__wrapped__)  # type: ignore[attr-defined]


@pytest.fixture
def cls(recipe: Recipe) -> Recipe:
    return replace(recipe, pooling="cls")


def array_of_cls(entry: Entry) -> np.ndarray:
    return WordVectors(entry, np.flatnonzero(entry.place[:, 0] >= 0)).array()


def first_of(encoder: Encoder, sentence: Sentence, most: int | None = None) -> np.ndarray:
    """``[layer, dim]`` the first hidden state of a sentence alone, in Hugging Face's own forward."""
    cut = {"truncation": True, "max_length": most} if most else {}
    coded = encoder.tokenizer(sentence.text, return_tensors="pt", **cut)
    assert coded["input_ids"][0, 0] in (encoder.tokenizer.cls_token_id, encoder.tokenizer.bos_token_id)
    with torch.inference_mode():
        states = encoder.model.body(**coded, output_hidden_states=True).hidden_states
    return torch.stack(states)[:, 0, 0].numpy()


@pytest.mark.usefixtures("small_shards")
def test_vectors_are_those_of_hugging_face(
    encoder: Encoder, sentences: Sentences, cls: Recipe, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertology.activations._extract.SHARD_BYTES", 8_000)
    read = load_encoder(encoder.source, device=device)
    entry = extract(lambda: read, sentences, recipe=cls, layers=ALL)
    assert len(entry.manifest.shards) > 1
    expected = np.stack([first_of(encoder, sentence) for sentence in sentences], axis=1)
    np.testing.assert_allclose(array_of_cls(entry), expected, atol=1e-5)
    np.testing.assert_allclose(read_words(encoder, sentences, layers=ALL, pooling="cls"), expected, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "mpnet"])
def test_other_models_have_it_where_they_begin(of_family: Callable[[str], Encoder], family: str) -> None:
    encoder, texts = of_family(family), Sentences([Sentence.from_words(["the", "fox"]), Sentence.from_words(["a"])])
    found = read_words(encoder, texts, layers=range(encoder.n_layers + 1), pooling="cls").numpy()
    expected = np.stack([first_of(encoder, sentence) for sentence in texts], axis=1)
    # The last state of a model with a final norm is one norm further in Hugging Face's own list.
    last = encoder.n_layers if family == "modernbert" else encoder.n_layers + 1
    np.testing.assert_allclose(found[:last], expected[:last], atol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_models_without_it_refuse(of_family: Callable[[str], Encoder], family: str) -> None:
    with pytest.raises(ModelError, match=r"^the model has no special token before the text, so no cls: pool mean, max"):
        read_words(of_family(family), Sentences([Sentence.from_words(["fox"])]), layers=(1,), pooling="cls")


def test_of_a_long_sentence_it_is_the_first_window_s(encoder: Encoder, sentences: Sentences, cls: Recipe) -> None:
    narrow = load_encoder(encoder.source, device="cpu", max_pieces=8)
    entry = extract(lambda: narrow, sentences, recipe=replace(cls, max_pieces=8), layers=(2,))
    expected = np.stack([first_of(encoder, sentence, 8)[2] for sentence in sentences])
    full = np.array([len(encoder.tokenizer(sentence.text)["input_ids"]) <= 8 for sentence in sentences])
    assert 0 < full.sum() < len(sentences)
    found = array_of_cls(entry)[0]
    np.testing.assert_allclose(found[full], expected[full], atol=1e-5)
    # Where text goes on, Hugging Face cuts as many pieces as the first window holds.
    np.testing.assert_allclose(found[~full], expected[~full], atol=1e-5)


def test_sentences_without_vectors_are_listed(encoder: Encoder, sentences: Sentences, cls: Recipe) -> None:
    narrow = load_encoder(encoder.source, device="cpu", max_pieces=8)
    entry = extract(lambda: narrow, sentences, recipe=replace(cls, max_pieces=8, on_long="skip"), layers=(1,))
    long = [i for i, one in enumerate(sentences) if len(encoder.tokenizer(one.text)["input_ids"]) > 8]
    assert [number for number, *_ in entry.manifest.skipped] == long == np.flatnonzero(entry.place[:, 0] < 0).tolist()
    number, name, text, reason = entry.manifest.skipped[0]
    assert (name, text) == (sentences.id(number), sentences.text(number))
    assert "the model takes 6" in reason
    unread = Sentences([Sentence.from_words(["\u200b"]), Sentence.from_words(["dogs"])])
    recipe = replace(cls, text_fingerprint=unread.text_fingerprint)
    entry = extract(lambda: encoder, unread, recipe=recipe, layers=(1,))
    assert entry.place[:, 0].tolist() == [-1, 0]
