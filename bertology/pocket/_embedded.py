"""The pocket corpus as a compact file of the package, and corpora with more training sentences."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from bertology._files import cache_folder, digest, write_atomically
from bertology._inputs import is_numeral
from bertology._temporary import sweep
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import CorpusError, cut
from bertology.pocket.bilingual.texts import load_bilingual
from bertology.pocket.grammar.annotation import annotated
from bertology.pocket.grammar.texts import SIZES, corpus_of, sentences_of

_PACKED = Path(__file__).with_name("corpus.json.gz")
_NOTHING = "_"
MOST_SENTENCES = 100_000
"""Most training sentences."""


def corpus_by_name(name: str) -> Corpus:
    """An embedded corpus by its name: ``pocket``, ``pocket:20000``, ``bilingual``, ``bilingual:20000,anchors=0.2``.

    Raises:
        CorpusError: what follows the colon is not what the corpus takes.
    """
    stem, colon, options = name.partition(":")
    if stem == "bilingual":
        return load_bilingual(options)
    if colon and not is_numeral(options):
        raise CorpusError(f"{cut(name)}: write how many training sentences, as in {stem}:20000")
    return load_corpus(int(options)) if colon else load_corpus()


def load_corpus(n_train: int | None = None) -> Corpus:
    """The pocket corpus: ``train``, ``dev``, ``test`` and ``unseen``, which share no sentence.

    It is what :func:`generate_corpus` makes at its default seed, read from a file of the package because that is
    faster. Each sentence of ``unseen`` holds a content word that no other split holds; its ``misc`` layer states for
    each such word whether it occurs in the pretraining text of Pocket BERT (``Novelty=held``) or not (``Novelty=new``).

    Args:
        n_train: number of training sentences, at least as many as are embedded. The embedded ones come first; the
            others are made by the same grammar and kept in the cache. None of them is in another split.

    Raises:
        CorpusError: the file is not in the installed package, or ``n_train`` is too small or too large.
        StoreError: the cache cannot be written.
    """
    base = _loaded()
    return base if n_train is None else _enlarged(base, n_train)


@lru_cache(maxsize=1)
def _loaded() -> Corpus:
    try:
        packed = _PACKED.read_bytes()
    except FileNotFoundError:
        raise CorpusError(f"{_PACKED} is missing: install bertology again") from None
    return corpus_of(unpack(packed))


def _enlarged(base: Corpus, n_train: int) -> Corpus:
    if not SIZES["train"] <= n_train <= MOST_SENTENCES:
        raise CorpusError(
            f"pocket:{n_train}: give from {SIZES['train']} (those that are embedded) to {MOST_SENTENCES} sentences"
        )
    # The sentences depend on the grammar, which the embedded ones identify.
    name = digest([base.fingerprint.encode(), str(n_train).encode()])
    path = cache_folder() / "corpora" / f"pocket-{n_train}-{name}.json.gz"
    if not path.exists():
        sweep(path.parent)
        used = {sentence.text for split, others in base.splits.items() if split != "train" for sentence in others}
        made = Sentences(islice(sentences_of("train", 0, used), n_train))
        write_atomically(path, pack(replace(base, splits={"train": made})), remedy="name another in BERTOLOGY_CACHE")
    train = unpack(path.read_bytes())["train"]
    return replace(base, name=f"pocket:{n_train}", splits={**base.splits, "train": train})


def unpack(packed: bytes) -> dict[str, Sentences]:
    """The splits of a packed corpus."""
    splits = json.loads(gzip.decompress(packed))
    return {
        split: Sentences(_unpacked(row, split, n) for n, row in enumerate(rows, 1)) for split, rows in splits.items()
    }


def pack(corpus: Corpus) -> bytes:
    """The packed form of a generated corpus, to be written anew whenever the grammar or the lexicon changes."""
    rows = {split: [_packed(sentence) for sentence in sentences] for split, sentences in corpus.splits.items()}
    return gzip.compress(json.dumps(rows, separators=(",", ":")).encode(), compresslevel=9, mtime=0)


def _packed(sentence: Sentence) -> list[Any]:
    glued = "".join("01"[end == start] for (_, end), (start, _) in pairwise(sentence.spans))
    layers = {name: " ".join(value or _NOTHING for value in values) for name, values in sentence.layers.items()}
    targets = {
        name: [[*target.span1, target.label, *(target.span2 or ())] for target in spans]
        for name, spans in sentence.targets.items()
        if name not in sentence.derived
    }
    return [" ".join(sentence.words), glued, layers, sentence.heads, targets]


def _unpacked(row: list[Any], split: str, number: int) -> Sentence:
    words, glued, layers, heads, targets = row
    values: dict[str, tuple[str | None, ...]] = {
        name: tuple(None if value == _NOTHING else value for value in written.split())
        for name, written in layers.items()
    }
    stated = {name: tuple(map(_target, rows)) for name, rows in targets.items()}
    is_glued = [mark == "1" for mark in glued]
    return annotated(words.split(), is_glued, values, tuple(heads), stated, id=f"{split}-{number}")


def _target(plain: list[Any]) -> Target:
    return Target((plain[0], plain[1]), plain[2], (plain[3], plain[4]) if len(plain) > 3 else None)
