"""Corpora whose trees can be read off word vectors, or cannot, and what a probe finds of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertology.corpora import Corpus, Sentence, Sentences
from bertology.families.request import ReadoutConfig
from bertology.results import ResultRow
from bertology.runner import ProbeRequest, run_probes
from tests.probes.conftest import make_sentence

SETTINGS: dict[str, Any] = {"rank": 16, "learning_rate": 0.02, "batch_sentences": 10, "max_epochs": 25}
SIZES = {"train": 120, "dev": 20, "test": 40}
# A tree over seven words: which of them each hangs from, and how.
ABOVE = (-1, 0, 0, 1, 1, 2, 3)
RELATIONS = ("root", "nsubj", "obj", "det", "amod", "case", "advmod")


def vocabulary_of(model: Path, n: int) -> list[str]:
    """Words that a model has a piece of their own for."""
    pieces = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    return sorted(piece for piece in pieces if piece.isascii() and piece.isalpha() and len(piece) > 3)[:n]


def planted_trees(model: Path, *, signal: bool) -> Corpus:
    """The same seven words in any order; what hangs from what follows from the words, or is drawn anew each time."""
    words, draw = vocabulary_of(model, len(ABOVE)), np.random.default_rng(3)
    splits = {}
    for split, size in SIZES.items():
        sentences = []
        for number in range(size):
            order = draw.permutation(len(ABOVE))
            part = draw.permutation(len(ABOVE)) if not signal else np.arange(len(ABOVE))
            sentences.append(_sentence(f"{split}-{number}", [words[place] for place in order], part[order].tolist()))
        splits[split] = Sentences(sentences)
    return Corpus("planted", splits)


def _sentence(name: str, words: list[str], parts: list[int]) -> Sentence:
    """A sentence in which each word plays the part of one of the tree's nodes."""
    heads = tuple(parts.index(ABOVE[part]) + 1 if part else 0 for part in parts)
    plain = make_sentence(name, words, deprel=[RELATIONS[part] for part in parts], upos=["X"] * len(words))
    return replace(plain, heads=heads)


def ask_trees(task: str, model: Path, corpus: Corpus) -> dict[str, ResultRow]:
    """The scores of a task read off the embeddings, by metric."""
    reading = ReadoutConfig("structural", SETTINGS)
    request = ProbeRequest(tasks=(task,), model=str(model), layers="0", controls=(), configs={task: (reading,)})
    return {row.metric: row for row in run_probes(request, corpus=corpus).rows}
