"""The HDF5 files that NeuroX and its relatives share, in and out.

Dataset ``str(i)`` holds ``[layer, word, dim]`` of one sentence, ``sentence_to_index`` one JSON object from sentence to
``str(i)``. There as here, layer 0 is the embedding output, so numbers need no conversion. Sentences are told apart by
their words joined with single spaces, which is what those tools read; sentences with the same words share a dataset.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from bertology._files import digest_file, explained_write_errors
from bertology.activations._entry import (
    Entry,
    Manifest,
    Recipe,
    entry_folder,
    find_entry,
    make_folder,
    write_index,
    write_manifest,
)
from bertology.activations._shards import OpenShard, write_shard
from bertology.corpora import Sentences
from bertology.errors import BertologyError, StoreError

_INDEX = "sentence_to_index"


def export_neurox(entry: Entry, sentences: Sentences, path: Path) -> None:
    """Write stored vectors as a NeuroX-style HDF5 file.

    Args:
        entry: the vectors.
        sentences: the text they were read from.
        path: the file to write; an existing one is replaced.

    Raises:
        StoreError: the entry holds another text, or lacks vectors of some words, which the format cannot say.
        BertologyError: h5py is not installed.
    """
    h5py = _h5py()
    _check_text(entry, sentences)
    if (entry.place < 0).any():
        word = int(np.flatnonzero(entry.place[:, 0] < 0)[0])
        sentence = sentences.id(int(sentences.sentence_of_word[word]))
        raise StoreError(
            f"word {sentences.word(word)!r} of sentence {sentence} has no vector, which the format has no place for: "
            "leave that sentence out"
        )
    partial = path.with_name(f".{path.name}.part")
    with explained_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(partial, "w") as file:
            index: dict[str, str] = {}
            for number in range(len(sentences)):
                key = index.setdefault(" ".join(sentences[number].words), str(len(index)))
                if key not in file:
                    file.create_dataset(key, data=_sentence_vectors(entry, sentences, number))
            # NeuroX reads the whole object from the one element of an array of text.
            text = h5py.string_dtype(encoding="utf-8")
            file.create_dataset(_INDEX, (1,), dtype=text)[0] = json.dumps(index, ensure_ascii=False)
        partial.replace(path)


def import_neurox(path: Path, sentences: Sentences) -> Entry:
    """Bring a NeuroX-style HDF5 file into the store.

    Args:
        path: the file.
        sentences: the sentences it was made from; each is looked up by its words joined with single spaces.

    Returns:
        An entry whose layers are those of the file, 0 the embedding output.

    Raises:
        StoreError: the file lacks a sentence, or has another number of words for it.
        BertologyError: h5py is not installed, or the file is not of this form.
    """
    h5py = _h5py()
    if not path.is_file():
        raise StoreError(f"{path}: no such file; it should be a NeuroX-style HDF5 file")
    with _open(h5py, path) as file:
        index = json.loads(file[_INDEX][0])
        shape = file[next(iter(index.values()))].shape
        layers = tuple(range(shape[0]))
        recipe = Recipe(
            model_fingerprint=f"neurox-{digest_file(path)}",
            text_fingerprint=sentences.text_fingerprint,
            pooling="file",
            compute_dtype="file",
            stored_dtype="float32",
        )
        folder = entry_folder(recipe, layers)
        make_folder(folder)
        with FileLock(folder.with_suffix(".lock")):
            found = find_entry(recipe, layers)
            if found is not None and not found.damaged_files():
                return found
            vectors = [_read_sentence(file, index, sentences, number, path) for number in range(len(sentences))]
            whole = np.concatenate(vectors, axis=1).astype(np.float32)
            name = "shard-00000.safetensors"
            checksum = write_shard(folder / name, whole, layers)
            place = np.stack([np.zeros(sentences.n_words), np.arange(sentences.n_words)], axis=1).astype(np.int32)
            manifest = Manifest(
                recipe=recipe,
                layers=layers,
                dim=int(shape[2]),
                n_words=sentences.n_words,
                shards=((name, sentences.n_words, checksum),),
                index_checksum=write_index(folder, place),
                skipped=(),
                model=path.name,
            )
            return write_manifest(folder, manifest)


def _sentence_vectors(entry: Entry, sentences: Sentences, number: int) -> NDArray[np.float32]:
    """``[layer, word, dim]`` of one sentence; its words lie side by side in one shard or in windows of several."""
    place = entry.place[sentences.starts[number] : sentences.starts[number + 1]]
    manifest = entry.manifest
    vectors = np.empty((len(manifest.layers), len(place), manifest.dim), dtype=np.float32)
    for shard in np.unique(place[:, 0]):
        rows = place[:, 0] == shard
        low, high = place[rows, 1].min(), place[rows, 1].max() + 1
        file = OpenShard(entry.shard_path(int(shard)))
        for at, layer in enumerate(manifest.layers):
            vectors[at, rows] = file.rows(layer, int(low), int(high))[place[rows, 1] - low]
    return vectors


def _read_sentence(
    file: Any, index: dict[str, str], sentences: Sentences, number: int, path: Path
) -> NDArray[np.generic]:
    sentence = sentences[number]
    key = index.get(" ".join(sentence.words))
    if key is None:
        raise StoreError(f"{path}: sentence {sentence.id or number} is not in it ({' '.join(sentence.words[:6])} …)")
    vectors: NDArray[np.generic] = file[key][:]
    if vectors.shape[1] != len(sentence):
        raise StoreError(
            f"{path}: sentence {sentence.id or number} has {vectors.shape[1]} vectors and {len(sentence)} words"
        )
    return vectors


def _open(h5py: ModuleType, path: Path) -> Any:
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise StoreError(f"{path}: not an HDF5 file ({error})") from error
    if _INDEX not in file:
        file.close()
        raise StoreError(f"{path}: no dataset {_INDEX}, so it is not a NeuroX-style file")
    return file


def _check_text(entry: Entry, sentences: Sentences) -> None:
    if entry.manifest.recipe.text_fingerprint != sentences.text_fingerprint:
        raise StoreError(f"{entry.folder.name} holds the vectors of another text: give the sentences it was read from")


def _h5py() -> ModuleType:
    try:
        import h5py
    except ImportError as error:
        raise BertologyError("HDF5 files need h5py: pip install 'bertology[hdf5]'") from error
    module: ModuleType = h5py
    return module
