"""Sentences: places of words in the natural text, many sentences in little memory, and notes on irregularities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.corpora import Corpus, MultiwordToken, Sentence, Sentences, Target, WordLayer
from bertology.errors import NameNotFoundError

words = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=12)


@settings(deadline=None, derandomize=True)
@given(words=words, data=st.data())
def test_spans_slice_the_words_out_of_the_text(words, data):
    spaced = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    sentence = Sentence.from_words(words, space_after=spaced)
    assert [sentence.text[first:last] for first, last in sentence.spans] == words
    between = [sentence.text[a[1] : b[0]] for a, b in zip(sentence.spans, sentence.spans[1:], strict=False)]
    assert between == [" " if space else "" for space in spaced[:-1]]
    assert sentence.spans[-1][1] == len(sentence.text)


@settings(deadline=None, derandomize=True)
@given(words=words, data=st.data())
def test_words_of_a_multiword_token_share_what_they_do_not_spell(words, data):
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    form = data.draw(st.one_of(st.just("".join(words[first : last + 1])), st.text(min_size=1, max_size=8)))
    sentence = Sentence.from_words(words, multiword=[MultiwordToken(first, last, form)])
    place = 0
    for index, (start, end) in enumerate(sentence.spans):
        if first <= index <= last:
            assert sentence.text[start:end] in (form, form[place : place + len(words[index])])
            place += len(words[index])
        else:
            assert sentence.text[start:end] == words[index]
    assert sentence.text[sentence.spans[first][0] : sentence.spans[last][1]] == form
    assert " ".join([*words[:first], form, *words[last + 1 :]]) == sentence.text


def test_spacing_of_another_length_than_the_words_is_refused():
    with pytest.raises(ValueError, match="2 words but 1 values of space_after"):
        Sentence.from_words(["a", "b"], space_after=[True])


_tag = st.one_of(st.none(), st.sampled_from(["NOUN", "VERB", "ADJ"]))
_comment = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=8)


@st.composite
def made_sentences(draw: st.DrawFn) -> Sentence:
    words = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5))
    n = len(words)
    layers = {}
    for name in draw(st.sets(st.sampled_from(["upos", "xpos", "misc"]))):
        values = tuple(draw(st.lists(_tag, min_size=n, max_size=n)))
        if any(values):
            layers[name] = values
    heads = draw(st.one_of(st.none(), st.lists(st.integers(0, n), min_size=n, max_size=n).map(tuple)))
    targets = draw(st.sampled_from([{}, {"entities": (Target((0, 1), "PER"),)}]))
    return Sentence.from_words(
        words,
        id=draw(st.text(max_size=4)),
        space_after=draw(st.lists(st.booleans(), min_size=n, max_size=n)),
        multiword=draw(st.sampled_from([(), (MultiwordToken(0, n - 1, "".join(words), "x=y"),)])),
        layers=layers,
        heads=heads,
        targets=targets,
        comments=tuple(draw(st.lists(_comment, max_size=3))),
        empty_nodes=draw(st.sampled_from([(), ("0.1\ta",)])),
        group=draw(st.text(max_size=2)),
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(made_sentences(), max_size=6))
def test_what_goes_in_comes_out(made):
    held = Sentences(iter(made))
    assert list(held) == made
    assert held.n_words == sum(map(len, made))
    assert [held.text(i) for i in range(len(held))] == [sentence.text for sentence in made]
    assert [held.id(i) for i in range(len(held))] == [sentence.id for sentence in made]
    assert [held.word(i) for i in range(held.n_words)] == [word for sentence in made for word in sentence.words]
    assert held.sentence_of_word.tolist() == [i for i, sentence in enumerate(made) for _ in sentence.words]
    assert list(held[1:]) == made[1:]
    assert Sentences(held).fingerprint == held.fingerprint


def _two() -> list[Sentence]:
    return [
        Sentence.from_words(["Light", "fell"], id="a", layers={"upos": ("NOUN", "VERB")}, heads=(2, 0)),
        Sentence.from_words(["Run", "!"], id="b", layers={"upos": ("VERB", "PUNCT"), "misc": ("x=1", None)}),
    ]


@pytest.mark.parametrize("n_values", [127, 128, 129, 32_767, 32_769, 40_000])
def test_a_layer_of_many_values_keeps_them_apart(n_values):
    """Codes take as many bytes as they need, whenever the need shows."""
    values = [f"v{i}" for i in range(n_values)]
    half = n_values // 2
    held = Sentences(
        Sentence.from_words(["w"] * len(part), layers={"tag": tuple(part)}) for part in (values[:half], values[half:])
    )
    layer = held.layers["tag"]
    assert layer.codes.tolist() == list(range(n_values))
    assert layer.codes.dtype == np.int32
    assert layer.decoded(0, n_values) == tuple(values)
    rebuilt = held.with_layers({"tag": WordLayer(layer.codes.astype(np.int64), layer.values)})
    assert rebuilt.fingerprint == held.fingerprint


def test_comments_stay_as_they_are_whatever_they_say():
    comments = (" sent_id = a", " text = Hi", " text = Ho", "\0i", "\0t", "\0\0", "", " sent_id = a ")
    sentence = Sentence.from_words(["Hi"], id="a", comments=comments)
    assert Sentences([sentence])[0].comments == comments


@pytest.mark.parametrize("wrong", [{"layers": {"upos": ("NOUN",)}}, {"heads": (0,)}])
def test_a_column_of_another_length_is_refused(wrong):
    with pytest.raises(ValueError, match="2 words, but spans, heads or a layer of another length"):
        Sentences([Sentence.from_words(["a", "b"], id="s", **wrong)])


def test_the_fingerprint_is_of_text_names_groups_and_annotation():
    plain = Sentences(_two())
    first, second = _two()
    assert Sentences([replace(first, comments=("c",)), second]).fingerprint == plain.fingerprint
    # predictions are kept under names of sentences; any layer can be asked about, MISC as well
    changed = [
        [replace(first, id="b"), replace(second, id="a")],
        [replace(first, id="ab"), replace(second, id="")],
        [replace(first, group="d"), second],
        [replace(first, group="d"), replace(second, group="d")],
        [first, replace(second, layers={**second.layers, "misc": ("y", "z")})],
        [first, replace(second, layers={**second.layers, "deps": ("0:root", None)})],
    ]
    held = list(map(Sentences, changed))
    assert len({plain.fingerprint, *(one.fingerprint for one in held)}) == 7
    # vectors do not depend on any of it
    assert {one.text_fingerprint for one in held} == {plain.text_fingerprint}
    assert [[sentence.group for sentence in one] for one in held[2:4]] == [["d", ""], ["d", "d"]]
    other_tag = Sentence.from_words(first.words, id="a", layers={"upos": ("VERB", "VERB")}, heads=first.heads)
    other_head = Sentence.from_words(first.words, id="a", layers=first.layers, heads=(0, 1))
    other_spacing = Sentence.from_words(first.words, layers=first.layers, heads=first.heads, space_after=[False, True])
    prints = {Sentences([one, second]).fingerprint for one in (first, other_tag, other_head, other_spacing)}
    assert len(prints) == 4
    texts = {Sentences([one, second]).text_fingerprint for one in (first, other_tag, other_head, other_spacing)}
    assert len(texts) == 2
    # the same characters and words, cut into sentences elsewhere
    assert Sentences([Sentence.from_words(["a"]), Sentence.from_words(["b"])]).text_fingerprint != (
        Sentences([Sentence.from_words(["a", "b"], space_after=[False, True])]).text_fingerprint
    )


def test_layers_can_be_added_and_replaced():
    held = Sentences(_two())
    before = held.fingerprint
    layer = WordLayer(np.array([0, -1, 0, 1], dtype=np.int32), ("B-LOC", "O"))
    more = held.with_layers({"ner": layer})
    assert more[0].layers["ner"] == ("B-LOC", None)
    assert more.fingerprint != before
    assert "ner" not in held.layers
    assert held.fingerprint == before
    with pytest.raises(ValueError, match="3 values for 4 words"):
        held.with_layers({"ner": WordLayer(np.zeros(3, dtype=np.int32), ("O",))})


def test_an_unknown_split_is_answered_by_the_nearest():
    corpus = Corpus("made", {"train": Sentences(_two()), "test": Sentences(_two())})
    assert "train" in corpus
    assert len(corpus["test"]) == 2
    with pytest.raises(NameNotFoundError, match=r"split of corpus made 'tset': did you mean test\?"):
        corpus["tset"]


def test_documents_are_groups_or_told_by_names() -> None:
    def documents(*about: tuple[str, str]) -> list[int]:
        sentences = (Sentence.from_words(["a"], id=name, group=group) for name, group in about)
        return Sentences(sentences).document_of_sentence.tolist()

    assert documents(("a1", ""), ("a2", "x"), ("b1", "x"), ("b2", "y"), ("b3", "x")) == [0, 1, 1, 2, 3]
    assert documents(("web-1-01", ""), ("web-1-02", ""), ("web-2-01", "")) == [0, 0, 1]
