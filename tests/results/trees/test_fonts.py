"""Every letter is drawn by a font that has it, or as a hollow square that a note explains."""

import pytest
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font

from bertology._figures import Fonts
from bertology.results.trees import plot_arcs


def has(family, letter):
    return any(ord(letter) in FT2Font(font.fname).get_charmap() for font in fontManager.ttflist if font.name == family)


def test_plain_words_need_one_font():
    fonts = Fonts.of(["Straße", "naïve", "Ж"])
    assert len(fonts.families) == 1
    assert fonts.missing == ()
    assert fonts.note() == ""


def test_letters_are_found_in_a_font_or_said_to_be_missing():
    letters = "a猫𝔄ᚠ\U0001f600𐎀"
    fonts = Fonts.of([letters])
    for letter in letters:
        assert any(has(family, letter) for family in fonts.families) == (letter not in fonts.missing)


def test_what_no_font_has_is_a_hollow_square():
    # A character set aside for private use, which no text font has.
    fonts = Fonts.of(["a\U0010fffd"])
    assert fonts.missing == ("\U0010fffd",)
    assert fonts.drawable("a\U0010fffd") == "a□"
    assert "no font of this machine has U+10FFFD; install one" in fonts.note()


def test_a_note_stands_in_the_picture(make):
    figure = plot_arcs(make((0, 1), words=("a", "\U0010fffd")))
    texts = [text.get_text() for text in (*figure.texts, *figure.axes[0].texts)]
    assert any("U+10FFFD" in text for text in texts)
    assert "□" in texts


def test_what_has_no_form_is_left_out():
    fonts = Fonts.of(["a\ufe0f\u00ad\tb"])
    assert fonts.missing == ()
    assert fonts.drawable("a\ufe0f\u00ad\tb") == "a b"
    assert fonts.drawable("می\u200cشود") == "می\u200cشود"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["القط", "BERT"], False),
        (["القط", "الأسود", "AI"], True),
        (["שלום"], True),
        (["a", "."], False),
        (["."], False),
    ],
)
def test_most_letters_say_which_way_a_sentence_runs(make, words, expected):
    assert make(tuple(range(len(words))), words=words).is_right_to_left is expected
