"""A corpus in shards: a folder of files with a manifest, whose training sentences are read one file at a time."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, Literal, NoReturn

from pydantic import Field

from bertology._files import digest, read_json, write_atomically
from bertology._names import by_key
from bertology.corpora._corpus import Corpus, Format, corpus_at
from bertology.corpora._files import language_of, split_of
from bertology.corpora._sentences import Sentences
from bertology.errors import CorpusError

MANIFEST = "shards.json"
_AGAIN = "write the manifest again (bertology.corpora.make_shards)"


@dataclass(frozen=True)
class Shard:
    """One file of a corpus in shards, as the manifest describes it; its path once the corpus is loaded."""

    file: Annotated[str, Field(pattern=r"^[^/\\]+$")]
    split: str
    n_sentences: Annotated[int, Field(ge=1)]
    n_words: Annotated[int, Field(ge=1)]
    fingerprint: str  # of the sentences with their annotation
    text_fingerprint: str

    def __len__(self) -> int:
        return self.n_sentences

    def load(self) -> Sentences:
        """The sentences, read from the file; a CorpusError where they differ from the manifest."""
        sentences = _read(Path(self.file))
        if sentences.fingerprint != self.fingerprint:
            counts = f"{len(sentences):,} sentences of {sentences.n_words:,} words"
            raise CorpusError(f"{self.file}: {counts} differ from those in {MANIFEST}; {_AGAIN}")
        return sentences


@dataclass(frozen=True)
class _Manifest:
    format: Literal[1]
    shards: Annotated[tuple[Shard, ...], Field(min_length=1)]


class ShardedSentences(Sentences):
    """Training sentences in shards: their number and fingerprint. Anything else that is read of it is a CorpusError."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self.shards = tuple(shards)
        self.n_words = sum(shard.n_words for shard in self.shards)
        self.fingerprint = digest(shard.fingerprint.encode() for shard in self.shards)

    def __len__(self) -> int:
        return sum(map(len, self.shards))

    def __getitem__(self, index: Any) -> NoReturn:
        self.__getattr__("sentences")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # looked up by copy and pickle
            raise AttributeError(name)
        problem = "train is in shards, on which alone labels of words by readout linear on all of train can be computed"
        raise CorpusError(f"{problem}; for anything else give one file a split")


class Shards(Format):
    """A folder of files with a manifest, made by :func:`make_shards`."""

    title: ClassVar[str] = "shards"
    described: ClassVar[str] = f"shards with {MANIFEST}"

    def is_at(self, path: Path) -> bool:
        """Whether there is a manifest."""
        return (path / MANIFEST).is_file()

    def load(self, path: Path) -> Corpus:
        """The corpus, of which train is :class:`ShardedSentences`; other splits are read at once."""
        manifest = read_json(path / MANIFEST, what="a manifest of shards", form=_Manifest, remedy=_AGAIN)
        shards = {path / shard.file: replace(shard, file=str(path / shard.file)) for shard in manifest.shards}
        if missing := next((file for file in shards if not file.is_file()), None):
            raise CorpusError(f"{missing}: no such file, which {MANIFEST} lists; put it back, or {_AGAIN}")
        by_split = by_key((shard.split, shard) for shard in shards.values())
        train = ShardedSentences(by_split.pop("train", ()))
        loaded = {split: chain.from_iterable(shard.load() for shard in some) for split, some in by_split.items()}
        return corpus_at(path, {"train": train, **loaded}, language=language_of({"": shards}))


def make_shards(folder: str | Path) -> None:
    """Make the files in a folder one corpus, whose training sentences are read one file at a time: write its manifest.

    Names of files state the split (``en-train-0001.conllu``). A CorpusError is raised where a file cannot be read, or
    there is none of train, dev or test.
    """
    path = Path(folder)
    files = [file for file in sorted(path.iterdir()) if file.is_file() and split_of(file)] if path.is_dir() else []
    if lacking := {"train", "dev", "test"} - set(map(split_of, files)):
        due = "give files whose names state train, dev and test, such as en-train-0001.conllu"
        raise CorpusError(f"{path}: no shard of {min(lacking)}; {due}")
    shards = list[Shard]()
    for file in files:
        sentences, split = _read(file), str(split_of(file))
        counts = len(sentences), sentences.n_words
        shards.append(Shard(file.name, split, *counts, sentences.fingerprint, sentences.text_fingerprint))
    manifest = json.dumps(asdict(_Manifest(1, tuple(shards))), indent=1, ensure_ascii=False)
    write_atomically(path / MANIFEST, manifest.encode())


def _read(path: Path) -> Sentences:
    if len(splits := resolve_name("bertology.corpora:load_corpus")(path).splits) != 1:
        raise CorpusError(f"{path}: {len(splits)} splits in one shard; give a file for each")
    sentences: Sentences = next(iter(splits.values()))
    return sentences
