"""Gender of pronouns: forms of Winogender by hand, a planted preference, and files that are not as they should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

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


NOUNS = ["farmer", "baker", "king", "dog", "cat", "bird", "boy", "girl", "horse", "teacher", "doctor", "queen"]


def with_shares(kind: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Two sentences about each of twelve nouns with shares that follow from the log-odds, or follow nothing; and the
    log-odds of the second pronoun and the share by noun."""
    texts = [f"The {noun} {rest}" for noun in NOUNS for rest in ("said that {mask} sleeps.", "sees that {mask} sleep.")]
    scores = ask(load_encoder("pocket", device="cpu"), [Prompt(text, ("she", "they")) for text in texts], layers=[4])
    odds = np.diff(scores.values.reshape(len(NOUNS), 2, 2)).mean(axis=(1, 2))
    scaled = {"planted": np.interp(odds, [odds.min(), odds.max()], [5, 95])}
    shares = scaled.get(kind, np.random.default_rng(3).uniform(0, 100, len(NOUNS)))
    table = pd.DataFrame({"text": texts, "good": "she", "bad": "they"})
    return table.assign(group=np.repeat(NOUNS, 2), share_female=np.repeat(shares, 2)), odds, shares


@pytest.mark.parametrize("kind", ["planted", "random"])
def test_log_odds_are_held_against_shares_as_scipy_does(kind: str) -> None:
    table, odds, shares = with_shares(kind)
    found = probe("pronoun_gender", corpus=table, layers=[4], controls="none").to_pandas().query("group.isna()")
    rows = found.set_index("metric")
    due = scipy.stats.pearsonr(odds, shares)
    assert rows["value"]["masculine_log_odds_nats"] == pytest.approx(-odds.mean(), abs=1e-4)
    assert rows["value"]["female_share_correlation"] == pytest.approx(due.statistic, abs=1e-4)
    assert rows["value"]["female_share_p"] == pytest.approx(due.pvalue, abs=1e-4)
    low, high = rows["ci_low"]["female_share_correlation"], rows["ci_high"]["female_share_correlation"]
    assert low > 0.99 if kind == "planted" else low < 0 < high
    assert np.isnan(rows["ci_low"]["female_share_p"])


def test_shares_that_are_lacking_or_wrong(tmp_path: Path) -> None:
    table, odds, shares = with_shares("random")
    table.loc[:1, "share_female"] = np.nan
    results = probe("pronoun_gender", corpus=table, layers=[4], controls="none")
    value = results.to_pandas().query("metric == 'female_share_correlation'")["value"].item()
    assert value == pytest.approx(scipy.stats.pearsonr(odds[1:], shares[1:]).statistic, abs=1e-4)
    assert "22 items in 11 clusters, 2 skipped (no statistics of the occupation 2)" in " ".join(str(results).split())
    for wrong in ("101", "-1", "many", "7"):
        (tmp_path / "t.csv").write_text(
            f"text,good,bad,group,share_female\nA {{mask}} .,he,she,cook,50\n{{mask}} .,he,she,cook,{wrong}\n"
        )
        due = rf"t.csv:3: column 'share_female': found '{wrong}'; expected .*, or NA where"
        with pytest.raises(BertologyError, match=due):
            probe("pronoun_gender", corpus=str(tmp_path / "t.csv"), controls="none")


def test_statistics_next_to_winogender(tmp_path: Path) -> None:
    (tmp_path / "WinoGender.txt").write_text(
        SENTENCES.replace("records", "cups").replace("The clerk had", "A cook had")
    )
    statistics = tmp_path / "occupations-stats.tsv"
    statistics.write_text("occupation\tbergsma_pct_female\tbls_pct_female\nclerk\t1\t72.5\n")
    first, second, *_ = read_winogender(tmp_path)
    assert (first.group, second.group, second.cluster) == ("participant", "clerk, 72.5 % women", "clerk")
    statistics.write_text("occupation\tbls_pct_female\ncook\t10\n")
    assert list(read_winogender(tmp_path))[1] == LeftOut("winogender-6", "clerk", "no statistics of the occupation")
    statistics.write_text("occupation\tbls_pct_female\ncook\t100.5\n")
    with pytest.raises(BertologyError, match=r"occupations-stats.tsv:2: column 'bls_pct_female': found '100.5'"):
        list(read_winogender(tmp_path))
    statistics.write_text("occupation\tpct\ncook\t10\n")
    with pytest.raises(BertologyError, match="no columns occupation and bls_pct_female among occupation, pct"):
        list(read_winogender(tmp_path))


def test_winogender_is_read(real_data: Callable[[str], Path]) -> None:
    found = list(read_winogender(real_data("winograd_dpr") / "data"))
    kept = [one for one in found if not isinstance(one, LeftOut)]
    assert len(found) == 240
    assert len({one.cluster for one in kept}) == 60
    forms = [one.answer for one in kept]
    assert (forms.count("he"), forms.count("his"), forms.count("him")) == (152, 48, 8)
