"""The bilingual corpus and documents in two languages."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from bertology.corpora import Corpus, ParallelText, Sentence, load_corpus
from bertology.errors import CorpusError
from bertology.pocket import pretraining_documents
from bertology.pocket._bilingual import Language, SecondLanguage, ambiguous_forms, bilingual_corpus, bilingual_documents

SIZES = {"train": 40, "test": 60}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return bilingual_corpus(Language(), sizes=SIZES)


def test_its_sentences_are_those_of_the_pocket_corpus(corpus: Corpus) -> None:
    pocket = load_corpus("pocket")["train"]
    firsts = list(corpus["train"])[::2]
    assert [sentence.text for sentence in firsts] == [pocket.text(number) for number in range(len(firsts))]
    assert corpus.language == "en+qpo"


def test_pairs_and_links_can_be_read_back(corpus: Corpus) -> None:
    text = ParallelText.of(corpus["test"])
    assert text.languages == ("en", "qpo")
    np.testing.assert_array_equal(text.pairs("en", "qpo"), np.arange(120).reshape(-1, 2))
    for (first, second), links in zip(text.pairs("en", "qpo"), text.links("en", "qpo"), strict=True):
        assert links is not None
        one, other = corpus["test"][int(first)], corpus["test"][int(second)]
        assert {j for _, j in links.sure} == set(range(len(other)))
        for i, j in links.sure:
            assert one.layers["upos"][i] == other.layers["upos"][j] or one.layers["deprel"][i] == "compound:prt"


def test_trees_of_both_languages_are_valid_and_the_same_above_linked_words(corpus: Corpus) -> None:
    text = ParallelText.of(corpus["test"])
    for sentence in corpus["test"]:
        assert sentence.heads is not None
        assert sentence.heads.count(0) == 1
        for word in range(1, len(sentence) + 1):
            above = list(islice(_up(sentence.heads, word), len(sentence) + 1))
            assert len(above) <= len(sentence), f"cycle in {sentence.text}"
        assert all(len(values) == len(sentence) for values in sentence.layers.values())
    for (first, second), links in zip(text.pairs("en", "qpo"), text.links("en", "qpo"), strict=True):
        assert links is not None
        one, other = corpus["test"][int(first)], corpus["test"][int(second)]
        assert one.heads is not None
        assert other.heads is not None
        to_first = {j: max(i for i, place in links.sure if place == j) for _, j in links.sure}
        for place, top in enumerate(other.heads):
            source = to_first[place]
            if one.layers["deprel"][source] == "compound:prt":
                source = one.heads[source] - 1  # a verb with its particle
            assert other.layers["deprel"][place] == one.layers["deprel"][source]
            assert bool(top) == bool(one.heads[source])
            if top:
                assert (one.heads[source] - 1, top - 1) in links.sure


def _up(heads: tuple[int, ...], word: int) -> list[int]:
    above = []
    while word and len(above) <= len(heads):
        above.append(word)
        word = heads[word - 1]
    return above


def test_ambiguous_words_have_the_sense_that_they_are_translated_by(corpus: Corpus) -> None:
    assert {"NOUN", "VERB"} <= ambiguous_forms()["watch"]
    assert "cat" not in ambiguous_forms()
    stems: dict[str, set[str | None]] = {}
    for sentence in list(corpus["train"])[1::2]:
        rows = zip(sentence.layers.get("sense", ()), sentence.layers["lemma"], strict=False)
        for sense, stem in rows:
            if sense is not None:
                stems.setdefault(sense, set()).add(stem)
    assert len(stems) > 10
    assert all(len(found) == 1 or sense.endswith("VERB") for sense, found in stems.items())  # with particles or without


def test_it_follows_from_the_seed_and_the_options(corpus: Corpus) -> None:
    assert bilingual_corpus(Language(), sizes=SIZES).fingerprint == corpus.fingerprint
    assert bilingual_corpus(Language(), sizes=SIZES, seed=1).fingerprint != corpus.fingerprint
    for other in (Language(order="reversed"), Language(anchors=0.3), Language(fake="shift")):
        made = bilingual_corpus(other, sizes=SIZES)
        assert made["test"].text(0) == corpus["test"].text(0)
        assert made.fingerprint != corpus.fingerprint


def test_it_has_a_name_with_options() -> None:
    made = load_corpus("bilingual:5,fake=shift")
    assert made.name == "bilingual:5,fake=shift"
    assert made.language == "en+qfe"
    assert {split: len(sentences) for split, sentences in made.splits.items()} == {
        "train": 10, "dev": 1000, "test": 2000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bilingual:many", "'many' is no number of pairs from 1 to 100000"),
        ("bilingual:0", "'0' is no number of pairs"),
        ("bilingual:order=best", "order: Input should be 'same', 'own' or 'reversed'; write bilingual:20000"),
        ("bilingual:anchors=0.4", "anchors: Input should be less than or equal to 0.3"),
        ("bilingual:anchors=nan", "anchors: Input should be"),
        ("bilingual:joined=0", "joined='0' is no number of sentences from 1 to 10; write bilingual:20000"),
        ("bilingual:joined=two", "joined='two' is no number of sentences from 1 to 10"),
        ("bilingual:parallel=true", "parallel: Extra inputs are not permitted"),
    ],
)
def test_wrong_options_are_one_line(name: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        load_corpus(name)
    assert "\n" not in str(caught.value)


def test_documents_are_translations_where_they_are_parallel() -> None:
    pairs = list(bilingual_documents(3, SecondLanguage(fake="shift"), stated=()))
    assert [first for first, _ in pairs] == list(pretraining_documents(3, stated=()))
    apart = list(bilingual_documents(3, SecondLanguage(fake="shift", parallel=False), stated=()))
    assert [first for first, _ in apart] == [first for first, _ in pairs]
    assert {sentence for _, second in pairs for sentence in second}.isdisjoint(
        sentence for _, second in apart for sentence in second
    )
    assert all(len(first) == len(second) for first, second in pairs)


def test_one_language_alone() -> None:
    both, english, other = (load_corpus(f"bilingual:40{only}")["dev"] for only in ("", ",only=en", ",only=qpo"))
    assert [one.text for one in english] == [one.text for one in list(both)[::2]]
    assert [one.text for one in other] == [one.text for one in list(both)[1::2]]
    assert load_corpus("bilingual:40,only=qpo").language == "qpo"
    with pytest.raises(CorpusError, match="only='de' is neither en nor qpo"):
        load_corpus("bilingual:only=de")


@pytest.fixture(scope="module")
def texts() -> Corpus:
    """The first 30 pairs of train of the other, three to a text."""
    return bilingual_corpus(Language(), sizes={"train": 10}, joined=3)


def test_joined_sentences_keep_their_words_and_spans(corpus: Corpus, texts: Corpus) -> None:
    def labelled(one: Sentence) -> list[object]:
        spans = [(target.label, target.span1, target.span2) for target in one.targets.get("srl", ())]
        return [(label, *(span and one.words[slice(*span)] for span in both)) for label, *both in spans]

    for place, one in enumerate(texts["train"]):
        first = place // 2 * 6 + place % 2
        of_it = [corpus["train"][number] for number in range(first, first + 6, 2)]
        assert one.text == " ".join(sentence.text for sentence in of_it)
        assert [one.text[start:end] for start, end in one.spans] == list(one.words)
        for name in ("upos", "lemma", "deprel", "sense"):
            values = [sentence.layers.get(name, (None,) * len(sentence)) for sentence in of_it]
            assert one.layers[name] == sum(values, ())
        assert labelled(one) == [target for sentence in of_it for target in labelled(sentence)]
        assert one.heads is None


def test_joined_sentences_keep_their_links(corpus: Corpus, texts: Corpus) -> None:
    def linked(corpus: Corpus, kind: str) -> list[set[tuple[str, str]]]:
        text, found = ParallelText.of(corpus["train"]), []
        for (first, second), links in zip(text.pairs("en", "qpo"), text.links("en", "qpo"), strict=True):
            one, other = (corpus["train"][int(number)].words for number in (first, second))
            found.append({(one[i], other[j]) for i, j in getattr(links, kind)})
        return found

    for kind in ("sure", "possible"):
        of_sentences = linked(corpus, kind)
        assert linked(texts, kind) == [set.union(*of_sentences[start : start + 3]) for start in range(0, 30, 3)]


def test_joined_texts_have_a_name() -> None:
    made = load_corpus("bilingual:2,joined=2,only=qpo")
    assert {split: len(texts) for split, texts in made.splits.items()} == {"train": 2, "dev": 500, "test": 1000}
