"""The pocket corpus as a compact file: what the grammar generates, ready in a fraction of the time."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import CorpusError
from bertology.pocket._corpus import corpus_of
from bertology.pocket._derived import derived

_PACKED = Path(__file__).with_name("corpus.json.gz")
_NOTHING = "_"


def load_corpus() -> Corpus:
    """The pocket corpus: ``train``, ``dev``, ``test`` and ``unseen``, which share no sentence.

    Each sentence of ``unseen`` holds a content word that no other split holds; its ``misc`` layer says of each such
    word whether Pocket BERT met it in pretraining (``Novelty=held``) or never (``Novelty=new``).

    Returns:
        What :func:`generate_corpus` makes at its default seed, read from a file of the package because that is
        faster.

    Raises:
        CorpusError: the file is not in the installed package.
    """
    return _loaded()


@lru_cache(maxsize=1)
def _loaded() -> Corpus:
    try:
        packed = _PACKED.read_bytes()
    except FileNotFoundError:
        raise CorpusError(f"{_PACKED} is missing: install bertology again") from None
    return corpus_of(unpack(packed))


def unpack(packed: bytes) -> dict[str, Sentences]:
    """The splits of a packed corpus."""
    splits = json.loads(gzip.decompress(packed))
    return {
        split: Sentences(_unpacked(row, split, n) for n, row in enumerate(rows, 1)) for split, rows in splits.items()
    }


def pack(corpus: Corpus) -> bytes:
    """The packed form of a generated corpus."""
    rows = {split: [_packed(sentence) for sentence in sentences] for split, sentences in corpus.splits.items()}
    return gzip.compress(json.dumps(rows, separators=(",", ":")).encode(), compresslevel=9, mtime=0)


def write_packed_corpus(corpus: Corpus) -> Path:
    """Renew the file in the package; to be done whenever the grammar or the lexicon changes."""
    from bertology._files import write_atomically

    write_atomically(_PACKED, pack(corpus))
    return _PACKED


def _packed(sentence: Sentence) -> list[Any]:
    starts = [start for start, _ in sentence.spans[1:]]
    ends = [end for _, end in sentence.spans]
    glued = "".join("01"[start == end] for start, end in zip(starts, ends[:-1], strict=True))
    layers = {name: " ".join(value or _NOTHING for value in values) for name, values in sentence.layers.items()}
    targets = {
        name: [[*target.span1, target.label, *(target.span2 or ())] for target in found]
        for name, found in sentence.targets.items()
        if name not in sentence.derived
    }
    return [" ".join(sentence.words), glued, layers, sentence.heads, targets]


def _unpacked(row: list[Any], split: str, number: int) -> Sentence:
    words, glued, layers, heads, targets = row
    values = {name: _values(written) for name, written in layers.items()}
    stated = {name: tuple(map(_target, found)) for name, found in targets.items()}
    following = derived(stated, values["lemma"], values["upos"])
    return Sentence.from_words(
        words.split(),
        id=f"{split}-{number}",
        space_after=[mark == "0" for mark in glued] + [False],
        layers=values,
        heads=tuple(heads),
        targets={**stated, **following},
        derived=frozenset(following),
    )


def _values(written: str) -> tuple[str | None, ...]:
    values = written.split()
    return tuple(None if value == _NOTHING else value for value in values) if _NOTHING in values else tuple(values)


def _target(plain: list[Any]) -> Target:
    return Target((plain[0], plain[1]), plain[2], (plain[3], plain[4]) if len(plain) > 3 else None)
