"""The pocket corpus in the cache folder, so that a process need not make it anew."""

import contextlib
import gc
import io
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from bertology._files import cache_folder, digest, write_atomically
from bertology.corpora import Corpus
from bertology.errors import StoreError

_MADE_BY = tuple(Path(__file__).parents[1] / name for name in ("pocket", "corpora"))
_HASHED_BY = Path(__file__).parents[1] / "_files.py"
_OF_ARRAYS = {("numpy", "dtype"), ("numpy._core.numeric", "_frombuffer"), ("numpy.core.numeric", "_frombuffer")}
_CHECKSUM = 32


def kept_corpus(make: Callable[[], Corpus]) -> Corpus:
    """What ``make`` makes, from the cache folder where the same code and libraries have put it before.

    A file that is damaged, holds anything else or was made by other code is made again; where the folder cannot be
    written, none is kept.
    """
    made_by = [path for folder in _MADE_BY for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".toml")]
    made_by.append(_HASHED_BY)
    key = digest([sys.version.encode(), np.__version__.encode(), *(path.read_bytes() for path in made_by)])
    path = cache_folder() / "corpora" / f"pocket-{key}.pickle"
    content = b""
    with contextlib.suppress(OSError):
        content = path.read_bytes()
    if content and digest([content[_CHECKSUM:]]).encode() == content[:_CHECKSUM]:
        with contextlib.suppress(pickle.UnpicklingError):
            return _read(content[_CHECKSUM:])
    corpus = make()
    for split in corpus.splits.values():
        split.fingerprint  # noqa: B018  kept with the sentences
    content = pickle.dumps(replace(corpus, splits=dict(corpus.splits), notes=dict(corpus.notes)), protocol=5)
    with contextlib.suppress(StoreError, OSError):
        write_atomically(path, [digest([content]).encode(), content])
        for other in path.parent.glob("pocket-*.pickle"):
            if other != path:
                other.unlink(missing_ok=True)
    return corpus


def _read(content: bytes) -> Corpus:
    is_on = gc.isenabled()
    gc.disable()  # which would look at every new object several times, and find no garbage
    try:
        return cast(Corpus, _Data(io.BytesIO(content)).load())
    finally:
        if is_on:
            gc.enable()


class _Data(pickle.Unpickler):
    """Reads sentences and arrays, and nothing that could run other code."""

    def find_class(self, module: str, name: str) -> Any:
        """A class of sentences, or what makes an array."""
        if not (module.startswith("bertology.corpora.") or (module, name) in _OF_ARRAYS):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a corpus")
        return super().find_class(module, name)
