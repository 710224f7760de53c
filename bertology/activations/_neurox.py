"""Import and export of HDF5 files in the form that NeuroX and related tools share.

Dataset ``str(i)`` holds ``[layer, word, dim]`` of one sentence, ``sentence_to_index`` one JSON object from sentence to
``str(i)``. Layer 0 is the embedding output in both, so layers need no conversion. A sentence is identified by its words
joined with single spaces, which is the text that these tools read; sentences with the same words share a dataset.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from bertology._files import digest_file, explained_write_errors, parse_json, shortened
from bertology.activations import store
from bertology.activations._vectors import WordVectors
from bertology.activations.store import Entry, Manifest, Recipe
from bertology.corpora import Sentence, Sentences
from bertology.encoders.batching import CLS
from bertology.encoders.sources import one_line
from bertology.errors import BertologyError, StoreError

_INDEX = "sentence_to_index"
_AGAIN = "write the file anew with the tool that made it"
_MOST_COMPRESSION = 2000
"""Bytes of values by bytes of file; gzip, the closest of HDF5's filters, packs at most 1032 into one."""


def export_neurox(entry: Entry, sentences: Sentences, path: Path) -> None:
    """Write the stored vectors of some sentences as a NeuroX-style HDF5 file, in place of an existing one.

    A StoreError is raised for an entry of another text or of sentences, or where words have no vector, which the format
    cannot express; a BertologyError where h5py is not installed.
    """
    h5py, recipe = _h5py(), entry.manifest.recipe
    if recipe.text_fingerprint != sentences.text_fingerprint or recipe.pooling == CLS:
        raise StoreError(f"{entry.folder.name} holds vectors of another text, or of whole sentences: give one of words")
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
                if key not in file:
                    words = np.arange(sentences.starts[number], sentences.starts[number + 1])
                    file.create_dataset(key, data=WordVectors(entry, words, memory=0).array())
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
    if not path.is_file() or not len(sentences):
        raise StoreError(f"{path}: no such file, or no sentence to look up in it: give those that it was made from")
    with one_line(f"{path}: not an HDF5 file", remedy=_AGAIN, kind=StoreError):
        file = h5py.File(path, "r")
    with file:
        names = _index(file, path)
        model, text = f"neurox-{digest_file(path)}", sentences.text_fingerprint
        recipe = Recipe(model, text, pooling="file", compute_dtype="file", stored_dtype="float32")
        n_layers, _, dim = _dataset(path, file, names, sentences[0]).shape
        folder, layers, n_words = recipe.folder(range(n_layers)), tuple(range(n_layers)), sentences.n_words
        store.make_folder(folder)
        with FileLock(folder.with_suffix(".lock")):
            entry = recipe.find(layers)
            if entry is not None and not entry.damaged_files():
                return entry
            datasets = [_dataset(path, file, names, sentence, (n_layers, dim)) for sentence in sentences]
            with one_line(f"{path}: its vectors do not fit into memory", remedy="import fewer", kind=StoreError):
                vectors = np.empty((n_layers, n_words, dim), dtype=np.float32)
            for number, dataset in enumerate(datasets):
                _read(path, sentences[number], dataset, vectors[:, slice(*sentences.starts[number : number + 2])])
            name = store.SHARD.format(0)
            checksum = store.write_shard(folder / name, vectors, layers)
            place = np.stack([np.zeros(n_words), np.arange(n_words)], axis=1).astype(np.int32)
            manifest = Manifest(
                recipe=recipe,
                layers=layers,
                dim=dim,
                n_words=n_words,
                shards=((name, n_words, checksum),),
                index_checksum=store.write_index(folder, place),
                skipped=(),
                model=path.name,
            )
            return Entry(folder, manifest).complete([checksum])


def _read(path: Path, sentence: Sentence, dataset: Any, into: NDArray[np.float32]) -> None:
    """Read the vectors ``[layer, word, dim]`` of a sentence, which must be finite in float32."""
    place = _place(path, sentence)
    # Values too large for float32 become infinite.
    with one_line(f"{place} cannot be read", remedy=_AGAIN, kind=StoreError), np.errstate(over="ignore"):
        into[:] = dataset[:]
    for layer in np.flatnonzero(~np.isfinite(into).all(axis=(1, 2)))[:1].tolist():
        raise StoreError(f"{place} has values in layer {layer} that are not finite in float32; {_AGAIN}")


def _dataset(
    path: Path, file: Any, names: dict[str, str], sentence: Sentence, size: tuple[int, int] | None = None
) -> Any:
    """The vectors ``[layer, word, dim]`` of a sentence, not read yet; ``size`` is the expected number of layers, and
    of dimensions."""
    key, place = names.get(" ".join(sentence.words)), _place(path, sentence)
    if key is None:
        raise StoreError(f"{place} is not in it ({shortened(' '.join(sentence.words[:6]))} …)")
    with one_line(f"{place} cannot be read", remedy=_AGAIN, kind=StoreError):
        dataset = file.get(key)
        shape, kind = tuple(getattr(dataset, "shape", None) or ()), getattr(dataset, "dtype", np.dtype(object))
        if kind.kind == "f" and len(shape) == 3 and shape[1] == len(sentence) and shape[0] and shape[2]:
            is_in_file = math.prod(shape) * kind.itemsize <= _MOST_COMPRESSION * dataset.id.get_storage_size()
            if is_in_file and (size is None or size == (shape[0], shape[2])):
                return dataset
    n_layers, dim = size or ("layer", "dim")
    expected = f"[{n_layers}, {len(sentence)}, {dim}] of floating-point numbers that are in the file"
    raise StoreError(f"{place}: dataset {shortened(key)!r} is {list(shape)} of {kind}, expected {expected}; {_AGAIN}")


def _place(path: Path, sentence: Sentence) -> str:
    return f"{path}: sentence {shortened(sentence.id or ' '.join(sentence.words))}"


def _index(file: Any, path: Path) -> dict[str, str]:
    """The dataset of each sentence; an error where two sentences share one."""
    with one_line(f"{path}: {_INDEX} cannot be read", remedy=_AGAIN, kind=StoreError):
        dataset = file.get(_INDEX)
        text = dataset[0] if getattr(dataset, "shape", None) == (1,) else None
    if not isinstance(text, str | bytes):
        raise StoreError(f"{path}: dataset {_INDEX} should be one text, so it is not a NeuroX-style file; {_AGAIN}")
    what = "a JSON object from sentences to datasets"
    index: dict[str, str] = parse_json(text, where=f"{path}: {_INDEX}", what=what, form=dict[str, str], remedy=_AGAIN)
    owners: dict[str, str] = {}
    for sentence, key in index.items():
        if owners.setdefault(key, sentence) != sentence:
            both = f"{shortened(owners[key])!r} and {shortened(sentence)!r}"
            raise StoreError(f"{path}: {_INDEX} gives {both} the same dataset {shortened(key)!r}; {_AGAIN}")
    return index


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise BertologyError("HDF5 files need h5py: pip install 'bertology[hdf5]'") from error
    return h5py
