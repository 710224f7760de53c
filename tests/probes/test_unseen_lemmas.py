"""Labels of words whose lemmas are held out of training."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertology.corpora import Corpus, Sentences
from bertology.errors import BertologyError, CorpusError
from bertology.probing import RepresentationProbe, get_probe
from bertology.results import ResultRow
from tests.probes.conftest import SIZES, check_chance, make_sentence, vocabulary_of


@pytest.fixture
def corpus(tiny_bert: Path) -> Callable[[str, int], Corpus]:
    """Nouns, but for the first kind with or without -s, whose number follows from lemma, ending, or nothing."""
    lemmas = vocabulary_of(tiny_bert, 40, shortest=3)

    def make(kind: str, seed: int) -> Corpus:
        dice = np.random.default_rng(seed)
        of_lemma = dict(zip(lemmas, dice.permutation([0, 1] * 20).tolist(), strict=True))
        splits = {}
        for split, size in SIZES.items():
            sentences = []
            for number in range(2 * size):
                chosen, plural = dice.choice(lemmas, 6).tolist(), dice.integers(0, 2, 6).tolist()
                labels = {"lemma": [of_lemma[word] for word in chosen], "ending": plural}
                number_of = labels.get(kind, dice.integers(0, 2, 6).tolist())
                feats = [f"Number={'Plur' if one else 'Sing'}" for one in number_of]
                words = [word + "s" * (one and kind != "lemma") for word, one in zip(chosen, plural, strict=True)]
                sentences.append(make_sentence(f"{split}-{number}", words, lemma=chosen, feats=feats))
            splits[split] = Sentences(sentences)
        return Corpus(kind, splits)

    return make


def test_no_lemma_of_test_is_in_train(corpus: Callable[[str, int], Corpus]) -> None:
    splits, lemmas = corpus("ending", 0).splits, dict[str, set[str]]()
    probe, seen = (get_probe(f"{name}:feats:Number") for name in ("unseen_lemmas", "seen_lemmas"))
    assert isinstance(probe, RepresentationProbe) and isinstance(seen, RepresentationProbe)  # noqa: PT018
    for split, sentences in splits.items():
        items, layer = probe.split_examples(sentences, split), sentences.layers["lemma"]
        lemmas[split] = {layer.values[code] for code in layer.codes[items.words].tolist()}
        assert len(items) + sum(items.skipped.values()) == sentences.n_words
    assert not lemmas["test"] & (lemmas["train"] | lemmas["dev"])
    assert len(lemmas["test"] | lemmas["train"]) == 40
    of_test = seen.split_examples(splits["test"], "test")
    assert of_test.words.tolist() == probe.split_examples(splits["test"], "test").words.tolist()
    assert len(seen.split_examples(splits["train"], "train")) == splits["train"].n_words


def test_what_depends_on_the_lemma_is_not_carried_over(
    corpus: Callable[[str, int], Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    unseen = []
    for seed in range(3):
        planted = corpus("lemma", seed)
        for task in ("feats:Number", "seen_lemmas:feats:Number"):
            assert ask(task, planted)["accuracy"].value == pytest.approx(1, abs=0.05)
        unseen.append(ask("unseen_lemmas:feats:Number", planted)["accuracy"].value or 0)
    # Ten lemmas or so are held out, each of which is right or wrong as a whole.
    assert np.mean(unseen) == pytest.approx(0.5, abs=0.15)


def test_what_the_ending_shows_is_carried_over_and_nothing_else(
    corpus: Callable[[str, int], Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    row = ask("unseen_lemmas:feats:Number", corpus("ending", 0))["accuracy"]
    assert (row.value or 0) > 0.9
    assert json.loads(row.skip_reasons) == {"lemma not held out": 6 * 2 * SIZES["test"] - row.n_items}
    check_chance(ask("unseen_lemmas:feats:Number", corpus("nothing", 0))["accuracy"], 0.5)


def test_what_cannot_be_asked(sentences_of: Callable[..., Sentences], corpus: Callable[[str, int], Corpus]) -> None:
    probe = get_probe("unseen_lemmas:pos")
    assert isinstance(probe, RepresentationProbe)
    with pytest.raises(CorpusError, match="no word has a lemma: the annotation layers are upos"):
        probe.examples(sentences_of("a dog", upos=["DET", "NOUN"]))
    with pytest.raises(BertologyError, match="needs a task with labels of words after a colon"):
        get_probe("unseen_lemmas")
