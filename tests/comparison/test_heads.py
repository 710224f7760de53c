"""Statistics of heads beside those of a reference: exactly 0 for a copy, and paired by sentence otherwise."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import ModelComparison, compare
from bertology.comparison.findings import paired_ratios
from bertology.measures import bootstrap_ratio
from bertology.measures import compare as differences
from bertology.results.predictions import read_head_sums


@pytest.fixture(scope="module")
def found(
    tiny_bert: Path, noisy_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> ModelComparison:
    folder = tmp_path_factory.mktemp("heads")
    copy = folder / "copy"
    model = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    # What predicts words is no part of what heads look at; the very same model would be refused.
    with torch.no_grad():
        model.cls.predictions.transform.dense.bias += 1
    model.save_pretrained(copy)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(copy)
    return compare(
        tiny_bert,
        copy,
        noisy_bert,
        tasks="head_statistics",
        corpus=tiny_corpus,
        sentences=40,
        measures="none",
        out=folder / "run",
        progress=False,
    )


def test_a_copy_differs_in_nothing(found: ModelComparison) -> None:
    assert found.heads is not None
    copy = found.heads[found.heads.model == "copy"]
    assert len(copy)
    assert (copy.difference.dropna() == 0).all()
    assert (copy.p_adj == 1).all()
    assert any(line.startswith("head_statistics") and ", copy: 0 of " in line for line in found.findings)


def test_differences_are_those_of_the_scores_with_the_error_of_pairs(found: ModelComparison) -> None:
    assert found.heads is not None
    noisy = found.heads[(found.heads.model == "noisy-bert") & (found.heads.metric == "entropy_nats")]
    assert (noisy.p_adj < 0.05).any()
    scored = {(row.model, row.head): row for row in found.results.rows if row.metric == "entropy_nats" and row.head}
    for line in noisy.to_dict("records"):
        a, b = scored[found.reference, line["head"]], scored["noisy-bert", line["head"]]
        assert (line["reference_value"], line["value"]) == pytest.approx((a.value, b.value))
        residuals = []
        for row in (a, b):
            sums = next(
                one
                for one in read_head_sums(found.folder, row.cell_id)
                if one.metric == "entropy_nats" and one.split == "test"
            )
            place = int(str(row.head).partition("H")[2]) - 1
            over, under = sums.over[place], sums.under[place]
            residuals.append((over - row.value * under) / under.sum())
        # The linear approximation of a difference of two ratios over the same sentences.
        expected = float(np.sqrt(((residuals[1] - residuals[0]) ** 2).sum()))
        reach = (line["difference_high"] - line["difference_low"]) / 2
        assert reach == pytest.approx(2.02 * expected, rel=0.15)


def test_tables_and_page_show_them(found: ModelComparison) -> None:
    assert (found.folder / "heads.csv").read_text().startswith("model,task,corpus,metric,group,layer,head,")
    assert "Heads that change most clearly" in found.page()


def test_differences_of_a_rare_relation_are_as_sure_as_its_few_sentences() -> None:
    n_simulations, n_sentences, n_with = 400, 150, 6
    dice = np.random.default_rng(11)
    under, before, after = np.zeros((3, n_simulations, n_sentences))
    for place in range(n_simulations):
        sentences = dice.choice(n_sentences, n_with, replace=False)
        under[place, sentences] = dice.integers(1, 3, size=n_with)
        # The means of all sentences are 0.5 and 0.7; what is hard in one model is hard in the other.
        shared, own = dice.normal(size=(2, n_with))
        before[place, sentences] = (0.5 + 0.3 * shared) * under[place, sentences]
        after[place, sentences] = (0.7 + 0.3 * shared + 0.2 * own) * under[place, sentences]
    arrays = np.concatenate([before, after]), np.concatenate([under, under])
    values, compared = paired_ratios(*arrays)
    assert (compared["n_sentences"] == n_with).all()
    assert compared["difference"][3] == pytest.approx(values[n_simulations + 3] - values[3])
    holds = (compared["difference_low"] <= 0.2) & (compared["difference_high"] >= 0.2)
    assert 0.93 < holds.mean() < 0.985
    # By the degrees of freedom of all sentences, intervals are too narrow.
    drawn = bootstrap_ratio(*arrays, metric="head", n_resamples=1000)
    pairs = [(n_simulations + place, place) for place in range(n_simulations)]
    of_all = differences(drawn.values, drawn.replicates, n_clusters=n_sentences, pairs=pairs)
    assert np.mean([one.ci_low <= 0.2 <= one.ci_high for one in of_all]) < 0.92
