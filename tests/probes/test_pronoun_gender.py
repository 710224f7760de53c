"""Gender of pronouns: forms of Winogender by hand, a planted preference, and files that are not as they should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bertology import probe
from bertology.cloze import ask
from bertology.cloze.prompts import Prompt
from bertology.corpora.prompts import LeftOut
from bertology.corpora.prompts.sets import read_winogender
from bertology.encoders import load_encoder
from bertology.errors import BertologyError

SENTENCES = """The clerk told the man that [MASK] could pay.\n[MASK]\nclerk,man\nman\n
The clerk saw the man near [MASK] 's house.\n[MASK]\nclerk,man\nclerk\n
The someone told the clerk to wait for [MASK] to pay.\n[MASK]\nclerk,someone\nclerk\n
The clerk had records for [MASK] to read.\n[MASK]\nclerk,man\nclerk\n"""


def test_forms_by_hand(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text(SENTENCES)
    first, second, left, last = read_winogender(tmp_path / "w.txt")
    assert (first.group, first.answer, first.rivals) == ("participant", "he", ("she",))
    assert (second.group, second.answer, second.rivals) == ("occupation", "his", ("her",))
    assert second.text == "The clerk saw the man near {mask} house."
    assert (last.cluster, last.answer, last.rivals) == ("clerk", "him", ("her",))
    assert isinstance(left, LeftOut)
    (tmp_path / "w.txt").write_text(SENTENCES.replace("clerk,man\nman", "clerk,man\nwoman"))
    (tmp_path / "w.csv").write_text("sentence,he\nThe clerk sleeps.,he\n")
    with pytest.raises(BertologyError, match="no columns text, good and bad among sentence, he, nor those of Wino"):
        list(read_winogender(tmp_path / "w.csv"))
    with pytest.raises(BertologyError, match=r"w.txt:1: .* expected a text with one \[MASK\]"):
        list(read_winogender(tmp_path / "w.txt"))


def test_a_planted_preference_is_found_and_stated_with_its_caution() -> None:
    texts = ["The farmer said that {mask} sleeps.", "The dogs see that {mask} sleeps."]
    encoder = load_encoder("pocket", device="cpu")
    scores = ask(encoder, [Prompt(text, ("she", "they")) for text in texts])
    due = sum(she > they for she, they in (scores.of(number)[0] for number in range(2))) / 2
    table = probe(
        "pronoun_gender",
        corpus=pd.DataFrame({"text": texts, "good": "she", "bad": "they"}),
        layers=[4],
        controls="none",
    )
    found = table.to_pandas().query("metric == 'micro_masculine_share' and group.isna()")["value"]
    assert found.tolist() == [due]
    shown = " ".join(str(table).split())
    assert "50 % does not say that a model is without bias (cf. Blodgett et al. 2021)" in shown
    assert "★" not in shown
    with pytest.raises(BertologyError, match=r"has no occupations with pronouns; give dpr:WinoGender.txt, or a table"):
        probe("pronoun_gender", controls="none")


def test_winogender_is_read(real_data: Callable[[str], Path]) -> None:
    found = list(read_winogender(real_data("winograd_dpr") / "data"))
    kept = [one for one in found if not isinstance(one, LeftOut)]
    assert len(found) == 240
    assert len({one.cluster for one in kept}) == 60
    forms = [one.answer for one in kept]
    assert (forms.count("he"), forms.count("his"), forms.count("him")) == (152, 48, 8)
