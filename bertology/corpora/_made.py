"""Corpora made from others: pairs of texts taken apart, and pseudowords, whose senses are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bertology._files import digest
from bertology.corpora._corpus import Corpus
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._tables import TEXTS
from bertology.corpora.formats.senses import SENSE
from bertology.errors import CorpusError

_PSEUDOWORDS, _COINS = 8, 2


def apart(corpus: Corpus) -> Corpus:
    """The texts of pairs as sentences of their own, so that none is read with the other (``apart:CORPUS``).

    A sentence of two texts, such as a pair of WiC or a row of a table with ``text2``, becomes two, whose ids end in
    ``/1`` and ``/2``; both have its label, each over its own span. Sentences of one text are left out.

    Raises:
        CorpusError: there is no pair.
    """
    parts = {name: [half for sentence in text for half in _halves(sentence)] for name, text in corpus.splits.items()}
    splits = {name: Sentences(halves) for name, halves in parts.items() if halves}
    if not splits:
        raise CorpusError(f"apart:{corpus.name}: no pair of texts in it; give WiC, or a table with text2=")
    return replace(corpus, name=f"apart:{corpus.name}", splits=splits)


def _halves(sentence: Sentence) -> Iterator[Sentence]:
    for place, half in enumerate(sentence.targets.get(TEXTS, ())):
        first, last = half.span1
        start = sentence.spans[first][0] if first < last else 0
        targets = {
            name: tuple(
                Target((span[0] - first, span[1] - first), target.label)
                for target in of_name
                if target.span2 is not None
                for span in [(target.span1, target.span2)[place]]
            )
            for name, of_name in sentence.targets.items()
            if name != TEXTS
        }
        yield Sentence(
            f"{sentence.id}/{place + 1}",
            sentence.text[start : sentence.spans[last - 1][1]],
            sentence.words[first:last],
            tuple((begin - start, end - start) for begin, end in sentence.spans[first:last]),
            {name: values[first:last] for name, values in sentence.layers.items()},
            targets=targets,
            group=sentence.group or sentence.id,
        )


def pseudowords(corpus: Corpus, *, seed: int = 0) -> Corpus:
    """Nouns as the senses of words that do not exist, and senses drawn by a coin (``pseudowords:CORPUS``).

    Two unrelated nouns are one pseudoword, and its sense is which of them stands there (Gale et al. 1992, Schütze
    1992): ``dog|house:dog``. Of the nouns most frequent in train eight pairs are drawn; two more nouns have two senses
    each that a coin decides for every occurrence, ``tree|coin:heads``, which nothing can tell apart. The text is not
    changed, so that a model reads the nouns themselves: this tests what is done with vectors, and no model.

    Args:
        corpus: with parts of speech.
        seed: of what is drawn.

    Raises:
        CorpusError: it has too few nouns, or no train or test.
    """
    for split in ("train", "test"):
        if split not in corpus:
            raise CorpusError(f"pseudowords:{corpus.name}: no split {split}; give a corpus with train and test")
    labels = _drawn(corpus, seed)

    def label(noun: str, sentence: Sentence, place: int) -> str:
        if ":" in labels[noun]:
            return labels[noun]
        drawn = int(digest([f"{seed} {sentence.id} {sentence.text} {place}".encode()])[:8], 16)
        return f"{labels[noun]}:{('heads', 'tails')[drawn % 2]}"

    def labelled(sentence: Sentence) -> Sentence:
        nouns = ((place, noun) for place, noun in enumerate(_nouns(sentence)) if noun in labels)
        found = tuple(Target((place, place + 1), label(str(noun), sentence, place)) for place, noun in nouns)
        return replace(sentence, targets={**sentence.targets, SENSE: found}) if found else sentence

    splits = {name: Sentences(map(labelled, text)) for name, text in corpus.splits.items()}
    made = ", ".join(sorted({text.partition(":")[0] for text in labels.values()}))
    return replace(
        corpus, name=f"pseudowords:{corpus.name}", splits=splits, notes={**corpus.notes, "pseudowords": made}
    )


def _drawn(corpus: Corpus, seed: int) -> dict[str, str]:
    """By noun its label, that of a coin without what the coin decides."""
    counts = {
        split: Counter(noun for sentence in corpus[split] for noun in _nouns(sentence) if noun)
        for split in ("train", "test")
    }
    of_train = counts["train"]
    both = sorted(of_train.keys() & counts["test"].keys(), key=lambda noun: (-of_train[noun], noun))
    n_pairs = min(_PSEUDOWORDS, (len(both) - _COINS) // 2)
    if n_pairs < 1:
        due = f"{2 + _COINS} or more in both train and test are due"
        raise CorpusError(f"pseudowords:{corpus.name}: {len(both)} nouns (upos NOUN); {due}")
    chosen = np.random.default_rng(seed).permutation(both[: 2 * n_pairs + _COINS]).tolist()
    labels = {noun: f"{noun}|coin" for noun in chosen[2 * n_pairs :]}
    for first, second in zip(chosen[: 2 * n_pairs : 2], chosen[1 : 2 * n_pairs : 2], strict=True):
        labels |= {noun: f"{first}|{second}:{noun}" for noun in (first, second)}
    return labels


def _nouns(sentence: Sentence) -> list[str | None]:
    tags = sentence.layers.get("upos", (None,) * len(sentence))
    return [word.casefold() if tag == "NOUN" else None for word, tag in zip(sentence.words, tags, strict=True)]
