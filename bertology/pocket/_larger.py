"""More training sentences of the pocket world than are embedded, for what takes more than those to be learnt."""

from __future__ import annotations

import itertools
from dataclasses import replace

from bertology._files import cache_folder, digest, write_atomically
from bertology._temporary import sweep
from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError
from bertology.pocket._corpus import SIZES, sentences_of
from bertology.pocket._packed import load_corpus, pack, unpack

MOST_SENTENCES = 100_000
"""Of train."""


def load_larger_corpus(n_train: int) -> Corpus:
    """The pocket corpus with ``n_train`` training sentences; dev, test and unseen are those of the embedded one.

    The embedded sentences are the first ones; the others are made by the same grammar, and kept in the cache. None of
    them is in another split.

    Args:
        n_train: how many.

    Raises:
        CorpusError: fewer than are embedded, or more than the grammar is asked for.
        StoreError: the cache cannot be written.
    """
    base = load_corpus()
    if not SIZES["train"] <= n_train <= MOST_SENTENCES:
        raise CorpusError(
            f"pocket:{n_train}: give from {SIZES['train']} (those that are embedded) to {MOST_SENTENCES} sentences"
        )
    # What is made depends on the grammar, whose trace the embedded sentences are.
    name = digest([base.fingerprint.encode(), str(n_train).encode()])
    path = cache_folder() / "corpora" / f"pocket-{n_train}-{name}.json.gz"
    if not path.exists():
        sweep(path.parent)
        others = [sentences for split, sentences in base.splits.items() if split != "train"]
        used = {sentences.text(place) for sentences in others for place in range(len(sentences))}
        made = Sentences(itertools.islice(sentences_of("train", 0, used), n_train))
        write_atomically(path, pack(replace(base, splits={"train": made})), remedy="name another in BERTOLOGY_CACHE")
    train = unpack(path.read_bytes())["train"]
    return replace(base, name=f"pocket:{n_train}", splits={**base.splits, "train": train})
