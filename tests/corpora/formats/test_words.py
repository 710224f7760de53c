"""Words of raw text and their spacing, and text without annotation."""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy

from bertology.corpora import Sentence, as_sentence, load_corpus, sentence_of_text
from bertology.corpora._words import penn_words, text_words
from bertology.errors import CorpusError, NameNotFoundError


def _text(tokens: str, tags: str = "") -> str:
    written = tokens.split()
    known: list[str | None] = [*tags.split()] if tags else [None] * len(written)
    words, spaced = penn_words(written, known)
    return Sentence.from_words(words, space_after=spaced).text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("He did n't pay .", "He didn't pay."),
        ("`` Yes , '' she said .", '"Yes," she said.'),
        ("the firm 's $ 3 1\\/2 bonds", "the firm's $3 1/2 bonds"),
        ("a -LRB- b -RRB- -LCB- c -RCB- d", "a (b) {c} d"),
        ("5.5 % of it ; more : all", "5.5% of it; more: all"),
        ("is it ? /. /?", "is it?.?"),
        ("AC\\/DC 's 7\\*8", "AC/DC's 7*8"),
    ],
)
def test_penn_tokens_as_people_write_them(tokens, text):
    assert _text(tokens) == text


TEXT = "Dr. Smith's U.K.-based firm (est. 1999) can't sell \u201cwi-fi\u201d for $9.99/mo., see http://a.b/c  !"
UNSPACED = ["今天天气很好", "これは本です", "ภาษาไทย", "ພາສາລາວ", "ភាសាខ្មែរ", "မြန်မာစာ", "see 北京市 now"]
FAMILY, FLAGS, THUMB, KEYCAP = "👩\u200d👩\u200d👧", "🇩🇪🇫🇷", "👍🏽", "1\ufe0f\u20e3"


def words_of(text: str, language: str | None = None) -> list[str]:
    return [text[start:end] for start, end in text_words(text, language)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ich bin im Haus, geht's?", "Ich|bin|im|Haus|,|geht's|?"),
        ("le livre dont l'auteur, aujourd\u2019hui", "le|livre|dont|l'auteur|,|aujourd\u2019hui"),
        ("his id, they don't wed", "his|id|,|they|don't|wed"),
        ("foto's \u00e9t\u00e9 e\u0301te\u0301 3.5 mln", "foto's|\u00e9t\u00e9|e\u0301te\u0301|3.5|mln"),
        ("한국어 텍스트.", "한국어|텍스트|."),
        ("ein 猫 und カタカナ", "ein|猫|und|カタカナ"),
    ],
)
def test_words_of_unicode_need_no_language(text: str, words: str) -> None:
    assert words_of(text) == words.split("|")


@pytest.mark.parametrize("language", [None, "en", "de", "fr"])
def test_emoji_flags_and_accented_letters_are_whole(language: str | None) -> None:
    text = f"so{FAMILY} {FLAGS} ok{THUMB}! {KEYCAP} nai\u0308ve"
    assert words_of(text, language) == ["so", FAMILY, *("🇩🇪", "🇫🇷"), "ok", THUMB, "!", KEYCAP, "nai\u0308ve"]


def test_english_contractions_and_nothing_else() -> None:
    cut = words_of("They'd wed; I'm sure it isn\u2019t the dog's id, we cannot go. Im cant dont HES.", "en")
    expected = "They|'d|wed|;|I|'m|sure|it|is|n\u2019t|the|dog|'s|id|,|we|can|not|go|.|Im|cant|dont|HES|."
    assert cut == expected.split("|")


def test_rules_of_a_language_are_those_of_spacy() -> None:
    for language in ("en", "fr", "it"):
        tokens = spacy.blank(language)(TEXT)
        assert text_words(TEXT, language) == [(t.idx, t.idx + len(t)) for t in tokens if not t.is_space]
    assert words_of("L'été d'Anna", "fr") == ["L'", "été", "d'", "Anna"]
    with pytest.raises(NameNotFoundError, match="unknown language 'qq'"):
        text_words("a", "qq")


@pytest.mark.parametrize("language", [None, "en"])
@pytest.mark.parametrize("mask", ["[MASK]", "<mask>", "{mask}"])
def test_a_masked_place_is_one_word(mask: str, language: str | None) -> None:
    for text in (f"{mask} ran.", f"he saw {mask}.", f"({mask})", f'"{mask}", he said', f"un{mask}ed"):
        assert words_of(text, language).count(mask) == 1


@pytest.mark.parametrize("text", UNSPACED)
def test_text_without_spaces_between_words_is_refused(text: str) -> None:
    for language in (None, "en", "ko"):
        with pytest.raises(CorpusError, match=r"^x: '.*' has no spaces between its words: name the language \(.*'zh'"):
            sentence_of_text(text, language=language, where="x: ")
    assert sentence_of_text(text, split_at_spaces=True).words == tuple(text.split())
    assert as_sentence(list(text.split())).words == tuple(text.split())


@pytest.mark.parametrize(
    ("language", "package", "text", "word"),
    [
        ("zh", "jieba", "我们去公园", "公园"),
        ("ja", "sudachipy", "今日は天気", "天気"),
        ("th", "pythainlp", "ภาษาไทยง่าย", "ง่าย"),
    ],
)
def test_a_tokenizer_that_is_asked_for(
    language: str, package: str, text: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec(package):
        assert word in words_of(text, language)
    monkeypatch.setitem(sys.modules, package, None)
    from bertology.corpora import _words

    _words._tokenizer.cache_clear()
    with pytest.raises(CorpusError, match=rf"^words of language '{language}' .* not installed \(pip install {package}"):
        text_words(text, language)


def test_no_word_and_two_ways() -> None:
    with pytest.raises(CorpusError, match="there is no word in the sentence"):
        sentence_of_text(" \n")
    with pytest.raises(CorpusError, match="split at spaces need no language"):
        sentence_of_text("a", language="en", split_at_spaces=True)


@pytest.mark.parametrize(("name", "language", "form"), [("ud_german_pud", "de", "im"), ("ud_french_pud", "fr", "dont")])
def test_words_of_a_treebank_that_english_rules_cut(
    name: str, language: str, form: str, real_data: Callable[[str], Path]
) -> None:
    sentences = load_corpus(real_data(name))["test"]
    texts = [sentences.text(number) for number in range(len(sentences))]
    n_written = sum(len(re.findall(rf"\b{form}\b", text)) for text in texts)
    assert n_written > 20
    for rules in (None, language, "en"):
        assert sum(words_of(text, rules).count(form) for text in texts) == n_written


def test_one_sentence_a_line(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("  It  rains , again.\n\nThe end\n", encoding="utf-8")
    corpus = load_corpus(path)
    first, second = corpus["test"]
    assert first.text == "It  rains , again."
    assert first.words == ("It", "rains", ",", "again.")
    assert [first.text[a:b] for a, b in first.spans] == list(first.words)
    assert (first.id, second.id) == ("1", "3")
    assert corpus["test"].layers == {}
    assert "annotation" in corpus.notes


@pytest.mark.parametrize(
    ("content", "is_columns"),
    [
        ("two words\nmore words\n", False),
        ("dog NOUN\nbarks VERB\n", True),
        ("dog x\n\nbarks y\n", True),
        ("dog NN B-NP\nbarks VBZ O\n", True),
    ],
)
def test_a_txt_file_is_columns_only_when_it_looks_so(tmp_path, content, is_columns):
    (tmp_path / "any.txt").write_text(content)
    assert bool(load_corpus(tmp_path / "any.txt")["test"].layers) == is_columns


def test_a_line_that_breaks_a_column_file_does_not_make_it_running_text(tmp_path):
    (tmp_path / "any.txt").write_text("dog NN B-NP\nbarks VBZ O\n\n" * 10 + "cat NN\n")
    with pytest.raises(CorpusError, match=r"any.txt:31: found 'cat NN'; expected 3 columns parted by sp"):
        load_corpus(tmp_path / "any.txt")
