"""Small corpora with a label, a number or an answer that can be learned, and one way to fine-tune on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import Corpus, Encoder, FineTuned, Sentence, finetune, load_encoder
from bertology.corpora import Sentences, Target
from bertology.pocket import load_corpus

SIZES = {"train": 120, "dev": 40, "test": 40}


def subject_number(sentence: Sentence) -> str | None:
    """The number of the subject of a sentence's root."""
    if sentence.heads is None:
        return None
    root = sentence.heads.index(0) + 1
    for head, relation, feats in zip(sentence.heads, sentence.layers["deprel"], sentence.layers["feats"], strict=True):
        if head == root and relation == "nsubj" and feats and "Number=" in feats:
            return feats.partition("Number=")[2].partition("|")[0]
    return None


def labelled(sentence: Sentence, name: str, label: str) -> Sentence:
    """The sentence with a label of the whole."""
    whole = (Target((0, len(sentence)), label),)
    return Sentence(sentence.id, sentence.text, sentence.words, sentence.spans, sentence.layers, targets={name: whole})


def numbered(sizes: dict[str, int]) -> Corpus:
    """Sentences of the pocket corpus labelled by the number of their subject."""
    splits = {}
    for split, size in sizes.items():
        pairs = ((sentence, subject_number(sentence)) for sentence in load_corpus()[split][: 3 * size])
        known = [labelled(sentence, "number", number) for sentence, number in pairs if number is not None]
        splits[split] = Sentences(known[:size])
    return Corpus("numbers of subjects", splits)


@pytest.fixture(scope="session")
def subjects() -> Corpus:
    """Few sentences with the number of their subject."""
    return numbered(SIZES)


@pytest.fixture(scope="session")
def encoder(tiny_bert: Path) -> Encoder:
    """The tiny BERT."""
    return load_encoder(str(tiny_bert), device="cpu")


Tune = Callable[..., FineTuned]


@pytest.fixture
def tune(tiny_bert: Path, subjects: Corpus, tmp_path: Path) -> Tune:
    """Fine-tunes the tiny model, if not told otherwise on numbers of subjects, for one epoch."""

    def run(**changes: Any) -> FineTuned:
        given = {"model": tiny_bert, "corpus": subjects, "task": "sentence_label:number", "out": tmp_path / "tuned"}
        given |= {"device": "cpu", "progress": False}
        if "recipe" not in changes:
            given |= {"lr": 1e-3, "epochs": 1, "batch_size": 16}
        return finetune(**{**given, **changes})

    return run
