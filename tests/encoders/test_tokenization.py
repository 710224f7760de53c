"""Tokenizers followed step by step, and measured on a corpus."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bertology import load_corpus
from bertology.corpora import MultiwordToken, Sentence, Sentences
from bertology.encoders import resolve_model
from bertology.encoders.loading import load_reader
from bertology.encoders.tokenization import (
    morph_scores,
    piece_ranges,
    read_morphs,
    tokenizer_parity,
    tokenizer_scores,
    trace_tokens,
)
from bertology.errors import CorpusError, ModelError

LINES = [sentence.text for sentence in load_corpus("pocket")["train"][:300]]
STRANGE = ["Unhappily, naïve ☃☃ don't — 𝒳 12,000", "  two  spaces ", "北京 watch"]


def trained(kind: str) -> Tokenizer:
    if kind == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    elif kind == "characters":
        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]"], end_of_word_suffix="</w>")
    elif kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"])
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]"])
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


@pytest.mark.parametrize("kind", ["bytes", "characters", "unigram", "wordpiece"])
def test_steps_end_in_the_pieces_of_the_tokenizer(kind: str) -> None:
    tokenizer = trained(kind)
    for text in [*STRANGE, *LINES[:200]]:
        trace = trace_tokens(tokenizer, text)
        assert list(trace.pieces) == tokenizer.encode(text, add_special_tokens=False).tokens
    assert trace.kind in ("BPE", "Unigram", "WordPiece")


def test_merges_that_are_known_by_hand() -> None:
    merges = [("l", "o"), ("lo", "w"), ("e", "r")]
    vocabulary = {piece: number for number, piece in enumerate(["l", "o", "w", "e", "r", "lo", "low", "er"])}
    steps = trace_tokens(Tokenizer(models.BPE(vocabulary, merges)), "lower").words[0].steps
    assert [step.pieces for step in steps] == [
        ("l", "o", "w", "e", "r"),
        ("lo", "w", "e", "r"),
        ("low", "e", "r"),
        ("low", "er"),
    ]
    assert steps[2].reason == "lo + w: merge 2 of 3"


def test_ways_of_unigram_come_with_their_margins() -> None:
    pieces = [("<unk>", 0.0), ("a", -2.0), ("b", -3.0), ("ab", -4.0), ("c", -1.0)]
    steps = trace_tokens(Tokenizer(models.Unigram(pieces, unk_id=0)), "abc", n_best=2).words[0].steps
    assert [step.pieces for step in steps] == [("a", "b", "c"), ("ab", "c")]
    assert steps[0].reason == "number 2: log probability -6.00, 1.00 below the best"


def test_a_word_without_a_beginning_is_unknown() -> None:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "un": 1, "##ha": 2}, unk_token="[UNK]"))
    steps = trace_tokens(tokenizer, "unhax").words[0].steps
    assert steps[-1].pieces == ("[UNK]",)
    assert "no piece begins '##x'" in steps[-1].reason


def test_measures_are_those_counted_by_hand() -> None:
    reader = load_reader(resolve_model("pocket"))
    text = load_corpus("pocket")["test"][:50]
    scores = {score.measure: score for score in tokenizer_scores(reader, text, n_resamples=200)}
    pieces = reader.tokenize(text)
    counts = np.array(pieces.word_last) - np.array(pieces.word_first)
    n_pieces = sum(len(reader.backend.encode(text.text(number), add_special_tokens=False)) for number in range(50))
    assert scores["fertility"].value == pytest.approx(n_pieces / text.n_words)
    assert scores["continued_share"].value == pytest.approx((counts > 1).mean())
    assert scores["fertility"].ci_low < scores["fertility"].value < scores["fertility"].ci_high
    specials = [*reader.prefix, *reader.suffix]
    ids = pieces.ids[~np.isin(pieces.ids, specials)]
    shares = np.unique(ids, return_counts=True)[1] / len(ids)
    entropy = np.log((shares**2.5).sum()) / (1 - 2.5)
    size = reader.backend.get_vocab_size()
    assert scores["renyi_efficiency"].value == pytest.approx(entropy / np.log(size))
    assert scores["vocabulary_used"].value == pytest.approx(len(shares) / size)
    assert scores["unknown_share"].value == 0


def test_boundaries_of_known_morphs() -> None:
    reader = load_reader(resolve_model("pocket"))
    assert reader.backend.encode("barks", add_special_tokens=False).tokens == ["ba", "##r", "##ks"]
    found = morph_scores(reader, [("ba", "rks"), ("bark", "s"), ("dog", "s"), ("dogs", "")])
    assert (found.n_words, found.n_whole) == (3, 1)
    assert found.precision == pytest.approx(1 / 4)
    assert found.recall == pytest.approx(1 / 3)
    assert found.f1 == pytest.approx(2 / 7)
    assert found.morph_score == pytest.approx(1 / 2)
    with pytest.raises(CorpusError, match="two morphs"):
        morph_scores(reader, [("dog",)])


def test_morphs_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text(",full_word,pt1,rest\n0,lighted,light,ed\n", encoding="utf-8")
    assert list(read_morphs(path)) == [("light", "ed")]
    path.write_text("word,a,b,c\nunhappily,un,happi,ly\n", encoding="utf-8")
    assert list(read_morphs(path)) == [("un", "happi", "ly")]
    path.write_text("word,a\nx\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"words.csv:2: 1 fields"):
        list(read_morphs(path))
    path.write_text("a,b\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"words.csv:1: 'a,b'"):
        list(read_morphs(path))
    path.write_bytes(b"word,one,two\nna\xefve,na,ve\n")
    with pytest.raises(CorpusError, match="2: byte 0xef is not UTF-8"):
        list(read_morphs(path))


def test_what_cannot_be_followed_is_refused() -> None:
    with pytest.raises(ModelError, match="no fast implementation"):
        trace_tokens(object(), "a")
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(ModelError, match="of kind WordLevel"):
        trace_tokens(words, "a")


def test_pieces_are_counted_by_word_and_translations_compared_by_their_pieces() -> None:
    reader = load_reader(resolve_model("pocket"))
    text = Sentences(
        [
            Sentence.from_words(["the", "dogs", "unhappily", "sleep"], id="a"),
            Sentence.from_words(["dogs"], id="b"),
            Sentence.from_words(["the", "the"], id="c"),
        ]
    )
    counts = np.diff(piece_ranges(reader, text), axis=1)[:, 0]
    expected = [len(reader.backend.encode(word, add_special_tokens=False).ids) for one in text for word in one.words]
    assert counts.tolist() == expected
    assert max(expected) > 1
    other = Sentences([Sentence.from_words(["dogs", "the"], id="b"), Sentence.from_words(["the"] * 4, id="c")])
    parity = tokenizer_parity(reader, other, text)
    assert parity is not None
    n_dogs, n_the = expected[1], expected[0]
    assert parity.value == pytest.approx((n_dogs + 5 * n_the) / (n_dogs + 2 * n_the))
    assert tokenizer_parity(reader, ["the dogs"], text) is None


def shared_text() -> tuple[Sentences, Sentences]:
    """Words that share pieces: *du* of two words, *don't* in halves; and the same text in words of its own."""
    token = MultiwordToken(1, 2, "dogs")
    spaced = [True, False, True, True, True]
    shared = Sentences(
        [
            Sentence.from_words(["the", "do", "gs", "sleep"], id="a", multiword=[token], space_after=[True] * 4),
            Sentence.from_words(["the", "unhapp", "ily", "sleep", "."], id="b", space_after=spaced),
        ]
    )
    plain = Sentences(Sentence.from_words(shared.text(number).split(), id=shared.id(number)) for number in range(2))
    return shared, plain


def test_a_piece_of_several_words_is_counted_once() -> None:
    reader = load_reader(resolve_model("pocket"))
    shared, plain = shared_text()
    parity = tokenizer_parity(reader, shared, plain)
    assert parity is not None
    assert parity.value == 1
    encoded = [reader.backend.encode(plain.text(number), add_special_tokens=False) for number in range(len(plain))]
    ids = np.concatenate([one.ids for one in encoded])
    shares = np.unique(ids, return_counts=True)[1] / len(ids)
    letters = sum(len(plain.text(number).replace(" ", "")) for number in range(len(plain)))
    singles = sum(end - start == 1 for one in encoded for start, end in one.offsets)
    scores = {one.measure: one.value for one in tokenizer_scores(reader, shared, n_resamples=10)}
    assert scores["fertility"] == pytest.approx(len(ids) / shared.n_words)
    assert scores["characters_per_piece"] == pytest.approx(letters / len(ids))
    assert scores["single_character_share"] == pytest.approx(singles / len(ids))
    size = reader.backend.get_vocab_size()
    assert scores["renyi_efficiency"] == pytest.approx(np.log((shares**2.5).sum()) / -1.5 / np.log(size))
