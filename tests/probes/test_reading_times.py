"""Reading times: surprisal by layer, what it adds to a regression, and tables of times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, cross_val_predict

from bertology import Results, probe
from bertology.cloze.reading import held_out, word_surprisal
from bertology.corpora import Sentence, Sentences
from bertology.corpora.prompts.reading import read_reading_times
from bertology.encoders import Encoder, load_encoder
from bertology.errors import BertologyError, FitError
from bertology.probing import get_probe

WORDS = ["the", "old", "dogs", "farmers", "see", "chased", "a", "cat", "bakers", "who", "sleep", "near", "river"]
LENS = {"name": "interventions", "settings": {"lens_corpus": "pocket"}}
READ = {"layers": "0,4", "controls": "none"}


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("pocket", device="cpu")


def bits_by_hand(encoder: Encoder, words: list[str], context: str) -> list[float]:
    """Surprisal of words, one copy of the text for each subword."""
    tokenizer, mask = encoder.tokenizer, encoder.mask_id
    cut = [
        tokenizer(("" if not at else " ") + word, add_special_tokens=False)["input_ids"]
        for at, word in enumerate(words)
    ]
    ids, bits = [one for of_word in cut for one in of_word], []
    start, end = (tokenizer("")["input_ids"][slice(*part)] for part in ((0, 1), (1, None)))
    place = 0
    for of_word in cut:
        total, last = 0.0, place + len(of_word)
        for entry in of_word:
            rest = {"left": [mask] * (len(ids) - place - 1), "cut": []}
            rest["whole"] = [mask] * (last - place - 1) + ids[last:]
            text = torch.tensor([[*start, *ids[:place], mask, *rest[context], *end]])
            with torch.no_grad():
                logits = encoder.model.outermost(text).logits[0, len(start) + place].double()
            total -= float(logits.log_softmax(-1)[entry]) / np.log(2)
            place += 1
        bits.append(total)
    return bits


@pytest.mark.parametrize("context", ["left", "cut", "whole"])
def test_surprisal_by_hand(encoder: Encoder, context: Any) -> None:
    texts = ["The old farmers chased a cat", "Dogs unbelievably see the bakers"]
    found, reasons = word_surprisal(
        encoder, Sentences(Sentence.from_words(one.split()) for one in texts), layers=[4], context=context
    )
    due = [bits for one in texts for bits in bits_by_hand(encoder, one.split(), context)]
    np.testing.assert_allclose(found[0], due, atol=1e-3)
    assert not reasons


def test_regression_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(3)
    predictors, groups = random.normal(size=(120, 3)), np.repeat(np.arange(30), 4)
    values = predictors @ [1.0, -2.0, 0.5] + random.normal(size=120)
    error, log = held_out(predictors, values, groups, n_folds=5, what="x")
    how = {"cv": GroupKFold(5), "groups": groups}
    due = cross_val_predict(LinearRegression(), predictors, values, **how)
    np.testing.assert_allclose(error, (values - due) ** 2, atol=1e-12)
    train, test = next(GroupKFold(5).split(predictors, values, groups))
    design = np.column_stack([np.ones(len(train)), predictors[train]])
    weights, squared, _, _ = np.linalg.lstsq(design, values[train])
    normal = norm(weights[0] + predictors[test] @ weights[1:], np.sqrt(squared[0] / len(train)))
    np.testing.assert_allclose(log[test], normal.logpdf(values[test]), atol=1e-10)


def test_refuses_what_no_regression_can_part() -> None:
    random = np.random.default_rng(3)
    predictors, groups = random.normal(size=(40, 2)), np.repeat(np.arange(10), 4)
    values = random.normal(size=40)
    for wrong in (predictors * [1, 0], predictors[:, [0, 0]]):
        with pytest.raises(FitError, match="x: a predictor is constant, or follows from the others"):
            held_out(wrong, values, groups, n_folds=5, what="x")
    with pytest.raises(FitError, match="the values follow from the predictors without error"):
        held_out(predictors, predictors.sum(1), groups, n_folds=5, what="x")
    with pytest.raises(FitError, match="10 sentences with usable words for 11 folds"):
        held_out(predictors, values, groups, n_folds=11, what="x")


def made(encoder: Encoder, time: Callable[[float, float], float]) -> pd.DataFrame:
    """Times of 60 texts from the surprisal in the last layer of a word and of the one before it."""
    random = np.random.default_rng(1)
    texts = list(dict.fromkeys(" ".join(random.choice(WORDS, 8)) for _ in range(60)))
    bits, _ = word_surprisal(encoder, Sentences(Sentence.from_words(one.split()) for one in texts), layers=[4])
    rows, before = [], 0.0
    for number, text in enumerate(texts):
        for at, word in enumerate(text.split()):
            own = float(bits[0, 8 * number + at])
            more = {"frequency": WORDS.index(word) % 5, "self_paced": time(own, before) + random.normal(0, 5)}
            rows.append({"text": text, "at": at, "word": word, **more})
            before = own
    return pd.DataFrame(rows)


def value(results: Results, metric: str, layer: int = 4) -> Any:
    return results.to_pandas().query("metric == @metric and layer == @layer").iloc[0]


def test_what_is_planted_is_found_and_nothing_else(encoder: Encoder) -> None:
    planted = probe("reading_times", corpus=made(encoder, lambda own, before: 200 + 4 * own + 3 * before), **READ)
    for metric in ("delta_r2", "delta_log_likelihood_nats"):
        assert value(planted, metric).ci_low > value(planted, metric, 0).ci_high
    explained = value(planted, "delta_r2").value + value(planted, "baseline_r2").value
    assert 0.5 < explained < 1
    assert value(planted, "delta_r2").n_clusters == 60
    shown = " ".join(str(planted).split())
    assert "360 words in 60 sentences, 120 skipped" in shown
    random = probe("reading_times", corpus=made(encoder, lambda own, before: 200), **READ)
    assert value(random, "delta_r2").ci_low <= 0.01
    assert value(random, "delta_r2").value < 0.01


def test_sums_are_those_of_the_regressions(encoder: Encoder) -> None:
    table = made(encoder, lambda own, before: 200 + own)
    results = probe("reading_times", corpus=table, layers=[4], controls="none")
    bits, _ = word_surprisal(
        encoder, Sentences(Sentence.from_words(t.split()) for t in table.text.unique()), layers=[4]
    )
    table = table.assign(bits=bits[0], length=table.word.str.len())
    before = table.groupby("text", sort=False)[["bits", "length", "frequency"]].shift(1).add_prefix("before_")
    table = table.join(before)[table["at"].between(1, 6)]
    covariates, group = ["length", "frequency", "before_length", "before_frequency"], pd.factorize(table.text)[0]
    error = {}
    for name, columns in (("base", covariates), ("full", [*covariates, "bits", "before_bits"])):
        how = {"cv": GroupKFold(10), "groups": group}
        predicted = cross_val_predict(LinearRegression(), table[columns].to_numpy(), table.self_paced.to_numpy(), **how)
        error[name] = ((table.self_paced - predicted) ** 2).sum()
    total = ((table.self_paced - table.self_paced.mean()) ** 2).sum()
    assert value(results, "delta_r2").value == pytest.approx((error["base"] - error["full"]) / total, rel=1e-5)
    assert value(results, "word_surprisal_bits").value == pytest.approx(table.bits.mean(), rel=1e-5)


def test_what_is_planted_in_the_pocket_world_is_found() -> None:
    found = value(probe("reading_times", layers=[4], controls="none"), "delta_r2")
    assert 0 < found.ci_low < found.value < 0.05


def test_what_is_left_out_is_counted(encoder: Encoder) -> None:
    table = made(encoder, lambda own, before: 200).astype({"frequency": object, "self_paced": object})
    table.loc[2, "self_paced"], table.loc[11, "frequency"] = "NA", None
    words = table.text[32].split()
    table.loc[32:39, "text"], table.loc[35, "word"] = " ".join([*words[:3], "ꙮ", *words[4:]]), "ꙮ"
    table = table.drop(index=[19])
    shown = " ".join(str(probe("reading_times", corpus=table, layers=[4], controls="none")).split())
    assert "353 words in 60 sentences, 126 skipped" in shown
    for reason in (
        "unknown to the tokenizer 2",
        "no time 1",
        "or the one before 2",
        "with punctuation after it 60",
        "is not in the table 61",
    ):
        assert reason in shown


@pytest.mark.parametrize(
    ("column", "cell", "problem"),
    [
        ("self_paced", "fast", "row 3: column 'self_paced': found 'fast'; expected a number, or NA"),
        ("at", 99, "row 3: column 'at': found 99; expected the number of a word from 0, at most 7"),
        ("at", 0, "expected"),
        ("frequency", float("inf"), "expected a number, or NA"),
        ("word", "zebra", "the word 3 of the text, counted from 0"),
    ],
)
def test_bad_cells(encoder: Encoder, column: str, cell: Any, problem: str) -> None:
    table = made(encoder, lambda own, before: 200).astype({column: object})
    table.loc[3, column] = cell
    with pytest.raises(BertologyError, match=problem):
        read_reading_times(table, "self_paced")


def test_tables_are_refused_in_one_line(encoder: Encoder, tmp_path: Path) -> None:
    table = made(encoder, lambda own, before: 200)
    with pytest.raises(BertologyError, match="no columns text, at, frequency and n400"):
        probe("reading_times:n400", corpus=table, **READ)
    with pytest.raises(BertologyError, match="each word of a text once"):
        read_reading_times(pd.concat([table, table[:1]]), "self_paced")
    with pytest.raises(BertologyError, match="made up, self-paced ones alone"):
        probe("reading_times:go_past", **READ)
    with pytest.raises(BertologyError, match="it should be one of self_paced, first_fixation"):
        get_probe("reading_times:speed")
    table.rename(columns={"self_paced": "RT", "at": "number"}).to_csv(tmp_path / "times.csv", index=False)
    columns = "text=text,at=number,frequency=frequency,self_paced=RT"
    assert len(read_reading_times(tmp_path / "times.csv", "self_paced", columns=columns)) == 60
    with pytest.raises(BertologyError, match=r"times.csv: no columns text, at, frequency and self_paced among"):
        read_reading_times(tmp_path / "times.csv", "self_paced")
    table.to_csv(tmp_path / "times.csv", index=False)
    assert len(read_reading_times(tmp_path, "self_paced")) == 60
    with pytest.raises(BertologyError, match="no such file"):
        read_reading_times(tmp_path / "others.csv", "self_paced")


def test_a_lens_reads_lower_layers_alone(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertology.cloze.lens._MOST_PLACES", 500)
    fits: list[Any] = []
    fit = __import__("bertology.cloze.lens", fromlist=["fit_lens"]).fit_lens
    monkeypatch.setattr("bertology.cloze.lens.fit_lens", lambda *a, **how: fits.append(1) or fit(*a, steps=20, **how))
    table = made(encoder, lambda own, before: 200 + own)
    plain = probe("reading_times", corpus=table, **READ)
    tuned = probe("reading_times", corpus=table, readout=LENS, **READ)
    assert value(plain, "word_surprisal_bits").value == value(tuned, "word_surprisal_bits").value
    assert value(plain, "word_surprisal_bits", 0).value != value(tuned, "word_surprisal_bits", 0).value
    assert fits == [1]
