"""Words that share all their subwords with another word, as *de* and *le* of French *du*, have the same vector."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import Corpus, MultiwordToken, Sentence, Sentences, load_corpus
from bertology.encoders import load_encoder
from bertology.encoders.alignment import SHARED
from bertology.families.model_corpus import DIVIDED, Splits
from bertology.families.vectors import TaskData
from bertology.probing import get_probe
from bertology.runner import ProbeRequest, run_probes
from tests.runner.requests import but

DU = ("le", "chat", "de", "le", "voisin", "dort")
FEW: dict[str, Any] = {"layers": "0,1", "readout": "ridge"}
BASELINES = ("majority", "word_majority")


def contracted(sentence: Sentence) -> Sentence:
    """The sentence with its first two words written as one that does not spell them: *thog* for *the dog*."""
    first, second = sentence.words[:2]
    token = MultiwordToken(0, 1, first[:-1] + second[1:] + "q")
    made = Sentence.from_words(sentence.words, id=sentence.id, multiword=(token,))
    return replace(made, heads=sentence.heads, layers=sentence.layers, targets=sentence.targets)


@pytest.fixture(scope="module")
def french(tiny_corpus: Path) -> Corpus:
    """A treebank with a contraction at the beginning of every third sentence."""
    splits = {
        name: Sentences(contracted(one) if number % 3 == 0 else one for number, one in enumerate(sentences))
        for name, sentences in load_corpus(str(tiny_corpus)).splits.items()
    }
    return Corpus("contracted", splits)


def n_shared(sentences: Sentences) -> int:
    return 2 * sum(1 for sentence in sentences if sentence.multiword)


def test_words_of_a_token_are_joined_and_others_are_not(tiny_bert: Path) -> None:
    du = Sentence.from_words(DU, multiword=(MultiwordToken(2, 3, "du"),))
    dont = Sentence.from_words(["do", "n't", "go"], multiword=(MultiwordToken(0, 1, "don't"),))
    twice = Sentence.from_words(
        ["de", "le", "de", "les"], multiword=(MultiwordToken(0, 1, "du"), MultiwordToken(2, 3, "des"))
    )
    encoder = load_encoder(str(tiny_bert))
    assert encoder.tokenize([du]).joined.tolist() == [3]
    assert encoder.tokenize([du]).shared.tolist() == [2, 3]
    assert encoder.tokenize([dont]).joined.tolist() == []
    assert encoder.tokenize([twice]).joined.tolist() == [1, 3]
    # Words that a sentence has no room for are read nowhere, and share nothing.
    narrow = load_encoder(str(tiny_bert), max_pieces=8)
    assert narrow.tokenize([replace(du, text=du.text)] * 2, on_long="skip").joined.tolist() == []


def test_a_span_is_left_out_if_it_divides_words_that_share_all_subwords() -> None:
    words = ("de", "le", "de", "les", "eaux")
    tokens = (MultiwordToken(0, 1, "du"), MultiwordToken(2, 3, "des"))
    from bertology.corpora import Target

    spans = {(0, 2): "A", (1, 2): "B", (0, 4): "A", (2, 5): "B", (1, 5): "A", (3, 5): "B", (4, 5): "A"}
    targets = {"entities": tuple(Target(span, label) for span, label in spans.items())}
    sentences = Sentences([Sentence.from_words(words, multiword=tokens, targets=targets)])
    data = TaskData.of(get_probe("edge_entities"), Splits(sentences, sentences, sentences, ()))
    joined = frozenset({1, 3})
    fewer = data.without({"test": dict.fromkeys(range(4), SHARED)}, {"test": joined}).test
    assert [tuple(span) for span in fewer.spans[:, 0].tolist()] == [(0, 2), (0, 4), (2, 5), (4, 5)]
    assert fewer.skipped == {DIVIDED: 3}


def test_they_are_left_out_and_counted_or_included(tiny_bert: Path, french: Corpus) -> None:
    request = ProbeRequest(tasks=("pos",), model=str(tiny_bert), corpus="x", controls=BASELINES, **FEW)
    n_words, shared = french["test"].n_words, n_shared(french["test"])
    for setting, n_items in (("exclude", n_words - shared), ("include", n_words)):
        frame = run_probes(but(request, shared_subwords=setting), corpus=french).to_pandas()
        assert set(frame.n_items) == {n_items}
        of_model = frame[frame.layer.notna()]
        assert set(of_model.n_shared) == {shared}
        assert set(of_model.shared_subwords) == {setting}
        assert {frozenset(json.loads(text).items()) for text in frame.skip_reasons} == {
            frozenset({(SHARED, shared)} if setting == "exclude" else ())
        }
        words = frame[frame.control == "none"][["n_unknown", "n_long", "n_repeated"]]
        assert words.notna().all(axis=None)
