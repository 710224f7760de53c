"""Sentences written by hand, and corpora whose labels can be read off word vectors, or cannot."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.families.request import ReadoutConfig
from bertology.results import ResultRow
from bertology.runner import ProbeRequest, run_probes

N_WORDS, SENTENCE_LENGTH = 24, 6
SIZES = {"train": 50, "dev": 15, "test": 40}
# What is planted is found long before edge probes would end: eight rounds of few steps, of which the best is kept.
BRIEF = {"max_epochs": 8, "round_steps": 25, "patience": 8, "watch": "loss"}


def make_sentence(name: str, words: Sequence[str], **layers: Sequence[str | None]) -> Sentence:
    """Words parted by single spaces, with layers of one value a word."""
    ends = np.cumsum([len(word) + 1 for word in words]).tolist()
    spans = tuple((end - 1 - len(word), end - 1) for end, word in zip(ends, words, strict=True))
    labels = {name: tuple(values) for name, values in layers.items()}
    return Sentence(name, " ".join(words), tuple(words), spans, layers=labels)


def vocabulary_of(model: Path, n: int, *, shortest: int = 4) -> list[str]:
    """Words that a model has a piece of their own for."""
    pieces = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    return sorted(piece for piece in pieces if piece.isascii() and piece.isalpha() and len(piece) >= shortest)[:n]


def check_chance(row: ResultRow, chance: float) -> None:
    """The interval of a score holds what guessing comes to."""
    assert row.ci_low is not None
    assert row.ci_high is not None
    assert row.ci_low < chance < row.ci_high


@pytest.fixture
def sentences_of() -> Callable[..., Sentences]:
    """One sentence of the words given, with layers."""
    return lambda words, **layers: Sentences([make_sentence("s1", words.split(), **layers)])


@pytest.fixture(scope="session")
def rotated(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with its hidden dimensions in another order: an orthogonal map of every hidden state."""
    import torch
    from transformers import AutoTokenizer, BertForMaskedLM

    folder = tmp_path_factory.mktemp("models") / "rotated"
    model = BertForMaskedLM.from_pretrained(tiny_bert)
    order = torch.from_numpy(np.random.default_rng(2).permutation(model.config.hidden_size))
    with torch.no_grad():
        for name, weight in model.bert.named_parameters():
            if "embeddings" in name or "LayerNorm" in name or ".self." in name or "intermediate" in name:
                # Read from the hidden state, but for what heads and the inner layer add to themselves.
                reads = weight.ndim == 2 or "embeddings" in name or "LayerNorm" in name
                weight.copy_(weight[..., order] if reads else weight)
            else:
                weight.copy_(weight[order])
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    return folder


@pytest.fixture
def planted(tiny_bert: Path) -> Callable[..., Corpus]:
    """A corpus whose labels follow from the word (``signal=True``), or are drawn anew for every word of the text."""
    words = vocabulary_of(tiny_bert, N_WORDS)

    def make(layer: str, labels: Sequence[str], *, signal: bool) -> Corpus:
        draw = np.random.default_rng(5)
        own_label = {word: labels[place % len(labels)] for place, word in enumerate(words)}
        splits = {}
        for split, size in SIZES.items():
            sentences = []
            for number in range(size):
                chosen = [str(word) for word in draw.choice(words, SENTENCE_LENGTH)]
                drawn = [str(label) for label in draw.choice(labels, SENTENCE_LENGTH)]
                values = [own_label[word] for word in chosen] if signal else drawn
                sentences.append(make_sentence(f"{split}-{number}", chosen, **{layer: values}))
            splits[split] = Sentences(sentences)
        return Corpus("planted", splits)

    return make


@pytest.fixture
def ask(tiny_bert: Path) -> Callable[..., dict[str, ResultRow]]:
    """The scores of a task read off the embeddings, by metric; the readout has settings of its own if any are given."""

    def run(task: str, corpus: Corpus, **settings: Any) -> dict[str, ResultRow]:
        readings = {task: (ReadoutConfig(settings=settings),)}
        request = ProbeRequest(tasks=(task,), model=str(tiny_bert), layers="0", controls=(), configs=readings)
        return {row.metric: row for row in run_probes(request, corpus=corpus).rows}

    return run


SPANS = ((0, 2), (2, 3), (3, 6))
PAIRS = (((0, 1), (2, 4)), ((1, 2), (4, 6)), ((5, 6), (0, 2)))


@pytest.fixture
def planted_spans(planted: Callable[..., Corpus]) -> Callable[..., Corpus]:
    """A corpus of labelled spans, or pairs of them, whose labels follow from a first word, or from nothing."""

    def make(name: str, labels: Sequence[Any], *, signal: bool, pairs: bool) -> Corpus:
        whole = planted("tag", [str(number) for number in range(len(labels))], signal=signal)
        splits = {}
        for split, sentences in whole.splits.items():
            made = []
            for sentence in sentences:
                places = PAIRS if pairs else tuple((span, None) for span in SPANS)
                tags = sentence.layers["tag"]
                found = tuple(Target(one, labels[int(tags[one[0]] or 0)], two) for one, two in places)
                made.append(replace(sentence, layers={}, targets={name: found}))
            splits[split] = Sentences(made)
        return Corpus("planted", splits)

    return make


@pytest.fixture
def check_spans(
    planted_spans: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> Callable[..., dict[str, ResultRow]]:
    """What is planted is found by the main metric, and what is drawn at random is not; the scores on the former."""

    def check(task: str, name: str, labels: Sequence[Any], *, pairs: bool, chance: float) -> dict[str, ResultRow]:
        found = ask(task, planted_spans(name, labels, signal=True, pairs=pairs), **BRIEF)
        lost = ask(task, planted_spans(name, labels, signal=False, pairs=pairs), **BRIEF)
        main = next(row for row in found.values() if row.main_metric)
        assert main.value is not None
        assert main.value > 0.95
        drawn = lost[main.metric]
        assert drawn.ci_low is not None
        assert drawn.ci_low < chance
        return found

    return check
