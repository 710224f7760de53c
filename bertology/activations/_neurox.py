"""Import and export of HDF5 files in the form that NeuroX and related tools share.

Dataset ``str(i)`` holds ``[layer, word, dim]`` of one sentence, ``sentence_to_index`` one JSON object from sentence to
``str(i)``. Layer 0 is the embedding output in both, so layers need no conversion. A sentence is identified by its words
joined with single spaces, which is the text that these tools read; sentences with the same words share a dataset.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from bertology._files import digest_file, explained_write_errors, parse_json, shortened
from bertology.activations import store
from bertology.activations.store import Entry, Manifest, OpenShard, Recipe
from bertology.corpora import Sentence, Sentences
from bertology.encoders.batching import CLS
from bertology.errors import BertologyError, StoreError

_INDEX = "sentence_to_index"
_MOST_COMPRESSION = 2000
"""Bytes of values by bytes of file; gzip, the closest of HDF5's filters, packs at most 1032 into one."""


def export_neurox(entry: Entry, sentences: Sentences, path: Path) -> None:
    """Write the stored vectors of some sentences as a NeuroX-style HDF5 file, in place of an existing one.

    A StoreError is raised for an entry of another text or of sentences, or where words have no vector, which the format
    cannot express; a BertologyError where h5py is not installed.
    """
    h5py, manifest = _h5py(), entry.manifest
    if manifest.recipe.text_fingerprint != sentences.text_fingerprint:
        raise StoreError(f"{entry.folder.name} holds the vectors of another text: give the sentences it was read from")
    if manifest.recipe.pooling == CLS:
        raise StoreError(f"{entry.folder.name} holds one vector a sentence, where the format has words: give another")
    for word in np.flatnonzero(entry.place[:, 0] < 0)[:1].tolist():
        of_sentence = sentences.id(int(sentences.sentence_of_word[word]))
        which = f"word {sentences.word(word)!r} of sentence {of_sentence}"
        raise StoreError(f"{which} has no vector, which the format has no place for: leave that sentence out")
    partial = path.with_name(f".{path.name}.part")
    with explained_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(partial, "w") as file:
            index: dict[str, str] = {}
            for number, sentence in enumerate(sentences):
                key = index.setdefault(" ".join(sentence.words), str(len(index)))
                if key in file:
                    continue
                place = entry.place[sentences.starts[number] : sentences.starts[number + 1]]
                vectors = np.empty((len(manifest.layers), len(place), manifest.dim), dtype=np.float32)
                for shard in np.unique(place[:, 0]):  # a sentence read in windows may have its words in several
                    rows, stored = place[:, 0] == shard, OpenShard(entry.shard_path(int(shard)))
                    low, high = place[rows, 1].min(), place[rows, 1].max() + 1
                    for at, layer in enumerate(manifest.layers):
                        vectors[at, rows] = stored.rows(layer, int(low), int(high))[place[rows, 1] - low]
                file.create_dataset(key, data=vectors)
            # NeuroX reads the whole object from the one element of an array of text.
            text = h5py.string_dtype(encoding="utf-8")
            file.create_dataset(_INDEX, (1,), dtype=text)[0] = json.dumps(index, ensure_ascii=False)
        partial.replace(path)


def import_neurox(path: Path, sentences: Sentences) -> Entry:
    """Import a NeuroX-style HDF5 file into the store.

    Returns an entry whose layers are those of the file, 0 the embedding output. ``sentences`` are those that it was
    made from. A StoreError is raised where the file lacks a sentence, or has another number of words for it, or vectors
    that are not finite or not of one shape; a BertologyError where h5py is not installed, or the file is not of this
    form.
    """
    h5py = _h5py()
    if not path.is_file():
        raise StoreError(f"{path}: no such file; it should be a NeuroX-style HDF5 file")
    if not len(sentences):
        raise StoreError(f"{path}: no sentence to look up in it: give those that it was made from")
    with _explained(f"{path}: not an HDF5 file"):
        file = h5py.File(path, "r")
    with file:
        names = _index(file, path)
        model, text = f"neurox-{digest_file(path)}", sentences.text_fingerprint
        recipe = Recipe(model, text, pooling="file", compute_dtype="file", stored_dtype="float32")
        layers = tuple(range(_dataset(path, file, names, sentences[0]).shape[0]))
        folder, n_words = recipe.folder(layers), sentences.n_words
        store.make_folder(folder)
        with FileLock(folder.with_suffix(".lock")):
            entry = recipe.find(layers)
            if entry is not None and not entry.damaged_files():
                return entry
            vectors, name = _vectors(path, file, names, sentences), store.shard_name(0)
            checksum = store.write_shard(folder / name, vectors, layers)
            place = np.stack([np.zeros(n_words), np.arange(n_words)], axis=1).astype(np.int32)
            manifest = Manifest(
                recipe=recipe,
                layers=layers,
                dim=vectors.shape[2],
                n_words=n_words,
                shards=((name, n_words, checksum),),
                index_checksum=store.write_index(folder, place),
                skipped=(),
                model=path.name,
            )
            return Entry(folder, manifest).complete([checksum])


def _vectors(path: Path, file: Any, names: dict[str, str], sentences: Sentences) -> NDArray[np.float32]:
    """Vectors of all sentences, ``[layer, word, dim]``, all of the layers and the width of the first's."""
    n_layers, _, dim = _dataset(path, file, names, sentences[0]).shape
    for sentence in sentences:
        other = _dataset(path, file, names, sentence).shape
        if (other[0], other[2]) != (n_layers, dim):
            sizes = f"{other[0]} layers of {other[2]} values where the first has {n_layers} of {dim}"
            raise StoreError(f"{_place(path, sentence)} has {sizes}")
    try:
        whole = np.empty((n_layers, sentences.n_words, dim), dtype=np.float32)
    except (MemoryError, ValueError) as error:
        size = n_layers * sentences.n_words * dim * 4
        raise StoreError(f"{path}: its vectors take {size / 1e9:,.1f} GB of memory; import fewer") from error
    for number, sentence in enumerate(sentences):
        of_sentence = whole[:, sentences.starts[number] : sentences.starts[number + 1]]
        # Values too large for float32 become infinite.
        with _explained(f"{_place(path, sentence)} cannot be read"), np.errstate(over="ignore"):
            of_sentence[:] = _dataset(path, file, names, sentence)[:]
        finite = np.isfinite(of_sentence).all(axis=(1, 2))
        if not finite.all():
            layer = int(np.flatnonzero(~finite)[0])
            raise StoreError(f"{_place(path, sentence)} has values in layer {layer} that are not finite in float32")
    return whole


def _dataset(path: Path, file: Any, names: dict[str, str], sentence: Sentence) -> Any:
    """The vectors ``[layer, word, dim]`` of a sentence, not read yet, after a check that they are of its words."""
    key, place = names.get(" ".join(sentence.words)), _place(path, sentence)
    if key is None:
        raise StoreError(f"{place} is not in it ({shortened(' '.join(sentence.words[:6]))} …)")
    with _explained(f"{place} cannot be read"):
        dataset = file.get(key)
        shape, kind = tuple(getattr(dataset, "shape", None) or ()), getattr(dataset, "dtype", None)
        n_stored = dataset.id.get_storage_size() if kind is not None else 0
    if kind is None:
        why = f"has no dataset {shortened(key)!r}, which {_INDEX} names"
    elif kind.kind != "f":
        why = f"has values of type {kind}: vectors are of floating-point numbers"
    elif len(shape) != 3 or not shape[0] or not shape[2]:
        why = f"has an array of shape {shape}: vectors are [layer, word, dim]"
    elif shape[1] != len(sentence):
        why = f"has {shape[1]} vectors and {len(sentence)} words"
    elif math.prod(shape) * kind.itemsize > _MOST_COMPRESSION * n_stored:
        why = f"has an array of shape {shape}, whose values are not in the file"
    else:
        return dataset
    raise StoreError(f"{place} {why}")


def _place(path: Path, sentence: Sentence) -> str:
    return f"{path}: sentence {shortened(sentence.id or ' '.join(sentence.words))}"


def _index(file: Any, path: Path) -> dict[str, str]:
    """The dataset of each sentence; an error where two sentences share one."""
    with _explained(f"{path}: {_INDEX} cannot be read"):
        dataset = file.get(_INDEX)
        text = dataset[0] if getattr(dataset, "shape", None) == (1,) else None
    if not isinstance(text, str | bytes):
        problem = f"no dataset {_INDEX}" if dataset is None else f"{_INDEX} is not one text"
        raise StoreError(f"{path}: {problem}, so it is not a NeuroX-style file")
    form, remedy = "a JSON object from sentences to datasets", "write the file anew with the tool that made it"
    index: dict[str, str] = parse_json(text, where=f"{path}: {_INDEX}", what=form, form=dict[str, str], remedy=remedy)
    owners: dict[str, str] = {}
    for sentence, key in index.items():
        if owners.setdefault(key, sentence) != sentence:
            both = f"{shortened(owners[key])!r} and {shortened(sentence)!r}"
            raise StoreError(f"{path}: {_INDEX} gives {both} the same dataset {shortened(key)!r}")
    return index


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what h5py raises for damaged files, whatever its C library meets in them, into one line."""
    try:
        yield
    except (
        OSError,
        RuntimeError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        MemoryError,
        OverflowError,
    ) as error:
        line = shortened(next(iter(str(error).splitlines()), type(error).__name__))
        raise StoreError(f"{what} ({line})") from error


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise BertologyError("HDF5 files need h5py: pip install 'bertology[hdf5]'") from error
    return h5py
