"""Text cut into subwords in windows, and words found among them, against brute force."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertology.corpora import MultiwordToken, Sentence, Sentences
from bertology.encoders import Encoder, Pieces, load_encoder
from bertology.encoders import alignment as pieces_module
from bertology.encoders.alignment import windows_of
from bertology.errors import CorpusError, ModelError

Encoders = Callable[[str], Encoder]
TOKENIZERS = ("bert", "roberta", "gpt2", "xlm-roberta", "t5", "albert")


def pieces_of(encoder: Encoder, pieces: Pieces, word: int) -> list[str]:
    """The pieces a word is read from, as the vocabulary spells them."""
    window = pieces.window(int(pieces.word_window[word]))
    own = window[pieces.word_first[word] : pieces.word_last[word]]
    return list(encoder.tokenizer.convert_ids_to_tokens(own.tolist()))


def read(encoder: Encoder, sentence: Sentence) -> tuple[Pieces, dict[str, str]]:
    """A sentence's pieces, and each word's pieces joined without the marks of the tokenizers (skipped: absent)."""
    pieces = encoder.tokenize([sentence])
    joined = {}
    for number, form in enumerate(sentence.words):
        if pieces.word_window[number] >= 0:
            own = pieces_of(encoder, pieces, number)
            joined[form] = "|".join(piece.removeprefix("##").strip("▁Ġ") for piece in own)
    return pieces, joined


def test_ids_are_the_tokenizers_own(family: str, encoder: Encoders) -> None:
    own = encoder(family)
    texts = ["Nobody knows why they'd care: it's 3.5 million.", " odd  spacing ", "你好 🙂 naïve", "Straße", "x"]
    sentences = [Sentence.from_words(text.split()) for text in texts]
    pieces = own.tokenize(sentences)
    expected = [own.tokenizer(sentence.text)["input_ids"] for sentence in sentences]
    assert [pieces.window(number).tolist() for number in range(pieces.n_windows)] == expected
    assert pieces.window_sentence.tolist() == [0, 1, 2, 3, 4]
    assert (pieces.window_lengths == [len(ids) for ids in expected]).all()
    assert pieces.n_words == sum(map(len, sentences)) == len(pieces.word_first)


def test_padding_that_someone_asked_for_is_not_kept(encoder: Encoders) -> None:
    """The tokenizer is the model's own, which anyone may call as they like."""
    own = encoder("bert")
    sentences = [Sentence.from_words(["a", "dog", "that", "sees", "the", "cat"]), Sentence.from_words(["x"])]
    before = own.tokenize(sentences).window_starts.tolist()
    own.tokenizer([sentence.text for sentence in sentences], padding=True, truncation=True, max_length=4)
    assert own.tokenize(sentences).window_starts.tolist() == before


def test_words_of_a_multiword_token_share_its_pieces(encoder: Encoders) -> None:
    sentence = Sentence.from_words(["aller", "à", "le", "café"], multiword=[MultiwordToken(1, 2, "au")])
    assert sentence.text == "aller au café"
    pieces = encoder("bert").tokenize([sentence])
    assert pieces.word_first[1] == pieces.word_first[2] < pieces.word_last[1] == pieces.word_last[2]


def test_accents_that_the_tokenizer_strips(encoder: Encoders) -> None:
    """Composed or not, a stripped accent leaves the word its letters; an accent alone leaves nothing."""
    own = encoder("bert")
    words = ["cafe\u0301", "naïve", "\u0301", "nobody"]
    sentence = Sentence("s1", "cafe\u0301 naïve \u0301 nobody", tuple(words), ((0, 5), (6, 11), (12, 13), (14, 20)))
    pieces, joined = read(own, sentence)
    assert joined["cafe\u0301"].replace("|", "") == "cafe"
    assert joined["naïve"].replace("|", "") == "naive"
    assert joined["nobody"].replace("|", "") == "nobody"
    (skipped,) = pieces.skipped
    assert (skipped.word, skipped.sentence_id, skipped.form) == (2, "s1", "\u0301")
    assert skipped.reason == "the tokenizer maps it to nothing"
    assert pieces.word_window.tolist() == [0, 0, -1, 0]


def test_a_sentence_of_nothing_has_no_window(encoder: Encoders) -> None:
    own = encoder("bert")
    sentences = [Sentence.from_words(["\u200d"], id="a"), Sentence.from_words([], id="b"), Sentence.from_words(["x"])]
    pieces = own.tokenize(sentences)
    assert pieces.window_sentence.tolist() == [2]
    assert pieces.word_window.tolist() == [-1, 0]
    assert [word.sentence_id for word in pieces.skipped] == ["a"]
    nothing = own.tokenize([])
    assert (nothing.n_windows, nothing.n_words, len(nothing.ids), nothing.skipped) == (0, 0, 0, ())


def test_half_a_surrogate_pair_names_its_sentence(encoder: Encoders) -> None:
    sentences = [Sentence.from_words(["x"], id="fine"), Sentence.from_words(["a\ud83d"], id="broken")]
    with pytest.raises(CorpusError, match="'broken'"):
        encoder("bert").tokenize(sentences)


def test_chunks_change_nothing(encoder: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    own = encoder("bert")
    words = ["nobody", "\u200d", "knows", "ქ", "well-known", "cafés"]
    sentences = [Sentence.from_words(words[: i % 7] * (1 + i % 3), id=f"s{i}") for i in range(30)]
    whole = own.tokenize(sentences)
    monkeypatch.setattr(pieces_module, "_CHUNK_CHARACTERS", 40)
    parts = own.tokenize(Sentences(sentences))
    assert_same(whole, parts)


def assert_same(one: Pieces, other: Pieces) -> None:
    for name in ("ids", "window_starts", "window_sentence", "word_window", "word_first", "word_last"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert getattr(one, name).dtype == getattr(other, name).dtype
    assert (one.skipped, one.pad_id, one.n_unknown) == (other.skipped, other.pad_id, other.n_unknown)


LONG = ["nobody", "knows", "why", "the", "lazy", "dogs", "care"] * 9


@pytest.mark.parametrize("name", ["bert", "t5", "gpt2", "roberta"])
def test_windows_of_a_long_sentence(name: str, encoder: Encoders, tiny: Callable[[str], Path]) -> None:
    """Each word has the same pieces as when the whole sentence is read at once, inside a window that fits."""
    short = load_encoder(str(tiny(name)), device="cpu", max_pieces=16)
    assert short.max_pieces == 16
    sentences = [Sentence.from_words(["nobody", "knows"]), Sentence.from_words(LONG), Sentence.from_words(["why"])]
    pieces = short.tokenize(sentences)
    assert pieces.n_windows > 5
    assert pieces.window_lengths.max() == 16
    assert pieces.window_sentence.tolist() == sorted(pieces.window_sentence.tolist())
    assert not pieces.skipped
    every = [pieces_of(short, pieces, word) for word in range(pieces.n_words)]
    bare = short.tokenizer.backend_tokenizer.encode(sentences[1].text, add_special_tokens=False).tokens
    kept = [piece for own in every[2:-1] for piece in own]
    assert kept == bare
    for number in range(pieces.n_windows):
        ids = pieces.window(number)
        full = short.tokenizer(sentences[int(pieces.window_sentence[number])].text)["input_ids"]
        n_prefix, n_suffix = short.n_prefix, short.n_suffix
        assert ids[:n_prefix].tolist() == full[:n_prefix]
        assert ids[len(ids) - n_suffix :].tolist() == full[len(full) - n_suffix :]
        assert (pieces.word_first[pieces.word_window == number] >= n_prefix).all()
        assert (pieces.word_last[pieces.word_window == number] <= len(ids) - n_suffix).all()


def test_a_word_longer_than_a_window_is_skipped(tiny: Callable[[str], Path]) -> None:
    own = load_encoder(str(tiny("gpt2")), device="cpu", max_pieces=8)
    pieces = own.tokenize([Sentence.from_words(["why", "🦜" * 4, "x", "🦜" * 2, "care"], id="s")])
    assert pieces.word_window[1] == -1
    (skipped,) = pieces.skipped
    assert skipped.reason == "its 13 pieces are more than a window of 8 holds"
    assert pieces.word_last[3] - pieces.word_first[3] == 7  # with the space before
    assert pieces_of(own, pieces, 4)[0].startswith("Ġc")


def test_long_sentences_can_be_refused_or_skipped(tiny: Callable[[str], Path]) -> None:
    own = load_encoder(str(tiny("bert")), device="cpu", max_pieces=16)
    sentences = [Sentence.from_words(["nobody", "knows"], id="short"), Sentence.from_words(LONG[:40], id="long-1")]
    with pytest.raises(ModelError, match=r"sentence 'long-1' has \d+ pieces, the model takes 14: .*--on-long window"):
        own.tokenize(sentences, on_long="error")
    pieces = own.tokenize(sentences, on_long="skip")
    assert pieces.n_windows == 1
    assert pieces.word_window.tolist() == [0, 0] + [-1] * 40
    assert [word.word for word in pieces.skipped] == list(range(2, 42))
    assert {word.sentence_id for word in pieces.skipped} == {"long-1"}
    assert "the model takes 14" in pieces.skipped[0].reason


def test_limits_of_the_families(encoder: Encoders) -> None:
    """From the tokenizer (RoBERTa's here says 70), the positions, or for T5 the length it was trained with."""
    limits = {name: encoder(name).max_pieces for name in ("bert", "roberta", "xlm-roberta", "mpnet", "gpt2", "bart")}
    assert limits == {"bert": 80, "roberta": 70, "xlm-roberta": 78, "mpnet": 78, "gpt2": 80, "bart": 1024}
    assert encoder("t5").max_pieces == 512


@pytest.mark.parametrize("wrong", [2, 81, 0])
def test_max_pieces_out_of_range(tiny: Callable[[str], Path], wrong: int) -> None:
    with pytest.raises(ModelError, match=f"max_pieces {wrong}: model .* takes 3 to 80"):
        load_encoder(str(tiny("bert")), device="cpu", max_pieces=wrong)


# Letters, marks that combine, reorder or vanish, joiners, emoji, wide characters, white space of several kinds.
ALPHABET = "abZé'-.,1€ßİﬁ½々好다ქ🙂👩𝒳\u0301\u0315\u0300\u0323\u200b\u200d\xad\ufe0f\u2581\xa0\u3000\x07"
words_and_spaces = st.lists(
    st.tuples(st.text(alphabet=ALPHABET, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5
)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(
    derandomize=True,
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sample=words_and_spaces)
def test_alignment_equals_brute_force(
    name: str, encoder: Encoders, overlaps: Callable[..., list[list[int]]], sample: list[tuple[str, bool]]
) -> None:
    """Every word's range is what a search through all pairs of words and pieces finds."""
    own = encoder(name)
    sentence = Sentence.from_words([word for word, _ in sample], space_after=[space for _, space in sample])
    pieces = own.tokenize([sentence])
    expected = overlaps(own.tokenizer, sentence)
    skipped = {word.word for word in pieces.skipped}
    assert skipped == {word for word, own_pieces in enumerate(expected) if not own_pieces}
    for word, found in enumerate(expected):
        if found:
            assert (pieces.word_first[word], pieces.word_last[word]) == (found[0], found[-1] + 1)
            assert pieces.word_window[word] == 0


quick = settings(derandomize=True, max_examples=150, deadline=None, database=None)


def context(start: int, first: int, last: int, capacity: int, n_pieces: int) -> float:
    """Pieces on the poorer side of a word; the sentence's own ends limit nothing; −1 where the word is cut."""
    if first < start or last > start + capacity:
        return -1
    left = np.inf if start == 0 else first - start
    right = np.inf if start + capacity == n_pieces else start + capacity - last
    return float(min(left, right))


@quick
@given(capacity=st.integers(1, 12), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_each_word_gets_its_best_window(capacity: int, lengths: list[int]) -> None:
    ends = np.cumsum(lengths)
    first, last = ends - lengths, ends
    n_pieces = int(ends[-1])
    starts, chosen = windows_of(n_pieces, first, last, capacity=capacity)
    size = min(capacity, n_pieces)
    assert starts.min() == 0
    assert starts.max() + size == n_pieces
    covered = {piece for start in starts.tolist() for piece in range(start, start + size)}
    assert covered == set(range(n_pieces))
    for word, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        if end - begin > capacity:
            assert chosen[word] == -1
            continue
        contexts = [context(int(start), begin, end, size, n_pieces) for start in starts]
        assert contexts[chosen[word]] == max(contexts) >= 0


def test_a_book_of_one_sentence_is_cut_in_no_time() -> None:
    first = np.arange(1_000_000)
    starts, chosen = windows_of(1_000_000, first, first + 1, capacity=510)
    assert len(starts) == 3921
    assert (chosen >= 0).all()
