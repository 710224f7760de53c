"""Similarity of sentences, next to cosines of the encoder's own vectors and scipy's correlations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import load_corpus, probe
from bertology.corpora import Sentence
from bertology.corpora._derived import shared_roles
from bertology.encoders import load_encoder
from bertology.errors import BertologyError, CorpusError
from bertology.measures.sums import rank_correlation_sums
from bertology.pocket import model_folder
from bertology_probes.sentence_similarity import PROBE

PLAIN = PROBE.default
COLUMNS = "text=text,text2=text2,label=score"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pairs of sentences of the pocket world, with random scores, in two splits."""
    folder, dice = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    for split, n in (("train", 120), ("dev", 10), ("test", 40)):
        text = load_corpus("pocket")[split]
        chosen = [text.text(number) for number in range(2 * n)]
        rows = {"text": chosen[::2], "text2": chosen[1::2], "score": dice.integers(0, 6, n) / 2}
        pd.DataFrame(rows).to_csv(folder / f"{split}.tsv", sep="\t", index=False)
    return str(folder)


def sentence_vectors(folder: str, split: str, pool: str = "mean") -> NDArray[Any]:
    """``[layer, text, dim]`` means over words of our encoder, or the states of ``[CLS]`` of Hugging Face's model."""
    text = load_corpus(f"apart:{folder}", columns=COLUMNS)[split]
    if pool == "mean":
        words = np.asarray(load_encoder("pocket", device="cpu").vectors(text).values)
        return np.asarray(np.add.reduceat(words, text.starts[:-1], axis=1) / np.diff(text.starts)[:, None])
    model, tokenizer = (kind.from_pretrained(model_folder()) for kind in (AutoModelForMaskedLM, AutoTokenizer))
    encoded = tokenizer([text.text(number) for number in range(len(text))], return_tensors="pt", padding=True)
    with torch.no_grad():
        hidden = model.eval()(**encoded, output_hidden_states=True).hidden_states
    return np.stack([layer[:, 0].numpy() for layer in hidden])


def cosines(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1))


def by_layer(results: Any, metric: str, **where: str) -> dict[int, float]:
    frame = results.to_pandas()
    frame = frame[(frame["metric"] == metric) & (frame["control"] == "none")]
    return {int(layer): value for layer, value in zip(frame["layer"], frame["value"], strict=True)}


@pytest.mark.parametrize("pool", ["mean", "cls"])
def test_correlations_of_the_encoders_own_vectors(table: str, pool: str) -> None:
    rows = pd.read_csv(f"{table}/test.tsv", sep="\t")
    vectors = sentence_vectors(table, "test", pool)
    one, other = vectors[:, ::2], vectors[:, 1::2]
    options = {"columns": COLUMNS, "controls": "none", "stored_dtype": "float32", "pool": pool}
    results = probe("sentence_similarity", corpus=f"apart:{table}", **options)
    own, mixed = (by_layer(results, name) for name in ("spearman", "spearman first_last"))
    assert set(mixed) == {0, 1, 2, 3, 4}
    assert set(own) == ({1, 2, 3, 4} if pool == "cls" else {0, 1, 2, 3, 4})  # [CLS] is the same in all of layer 0
    for layer in (1, 2, 4):
        assert own[layer] == pytest.approx(spearmanr(cosines(one[layer], other[layer]), rows["score"])[0], abs=2e-3)
        expected = spearmanr(cosines((one[layer] + one[1]) / 2, (other[layer] + other[1]) / 2), rows["score"])[0]
        assert mixed[layer] == pytest.approx(expected, abs=2e-3)


def test_whitening_is_that_of_the_training_sentences(table: str) -> None:
    options = {"columns": COLUMNS, "controls": "none", "stored_dtype": "float32", "layers": [4]}
    whole = probe("sentence_similarity:whitened", corpus=f"apart:{table}", **options)
    few = probe(
        "sentence_similarity:whitened",
        corpus=f"apart:{table}",
        readout={"name": "vectors", "settings": {"dimensions": 8}},
        **options,
    )
    scores = pd.read_csv(f"{table}/test.tsv", sep="\t")["score"]
    train, test = (sentence_vectors(table, split)[4].astype(float) for split in ("train", "test"))
    u, s, _ = np.linalg.svd(np.cov(train.T))
    for results, n in ((whole, train.shape[1]), (few, 8)):
        kept = s[:n] > 1e-6 * s[0]
        kernel = u[:, :n][:, kept] / np.sqrt(s[:n][kept])
        changed = (test - train.mean(axis=0)) @ kernel
        expected = spearmanr(cosines(changed[::2], changed[1::2]), scores)[0]
        assert by_layer(results, "spearman")[4] == pytest.approx(expected, abs=5e-3)


def test_intervals_of_a_rank_correlation_are_those_of_the_bootstrap() -> None:
    from bertology.measures import bootstrap_ratio

    dice = np.random.default_rng(3)
    first = dice.normal(size=300)
    second = np.round(first + dice.normal(size=300), 0)
    sums = rank_correlation_sums("spearman", first, second, "pairs")
    assert sums.values[0] == pytest.approx(spearmanr(first, second)[0])
    without = spearmanr(np.delete(first, 7), np.delete(second, 7))[0]
    whole = spearmanr(first, second)[0]
    influence = (sums.over[0] - whole) / 300
    others = [whole - spearmanr(np.delete(first, n), np.delete(second, n))[0] for n in range(300)]
    assert influence[7] == pytest.approx(whole - without - np.mean(others))
    drawn = [dice.integers(0, 300, 300) for _ in range(2000)]
    resampled = [spearmanr(first[some], second[some])[0] for some in drawn]
    interval = bootstrap_ratio(sums.over, sums.under, metric="spearman", bounds="correlation")
    low, high = np.quantile(resampled, [0.025, 0.975])
    assert interval.ci_low[0] == pytest.approx(low, abs=0.015)
    assert interval.ci_high[0] == pytest.approx(high, abs=0.015)


def test_a_similarity_that_words_decide_is_found_and_random_scores_are_not(tmp_path: Path) -> None:
    text, dice = load_corpus("pocket")["test"], np.random.default_rng(1)
    pairs = [(text.text(n), text.text(n + 1)) for n in range(0, 160, 2)]
    pairs += [(one, one) for one, _ in pairs[:40]]
    for name, scores in (("planted", [float(a == b) for a, b in pairs]), ("random", dice.random(len(pairs)))):
        rows = pd.DataFrame(pairs, columns=["text", "text2"]).assign(score=scores)
        (tmp_path / name).mkdir()
        rows.to_csv(tmp_path / name / "test.tsv", sep="\t", index=False)
        results = probe("sentence_similarity", corpus=f"apart:{tmp_path}/{name}", columns=COLUMNS, layers=[4])
        frame = results.to_pandas()
        row = frame[(frame["metric"] == "spearman") & (frame["layer"] == 4) & (frame["init"] == "pretrained")].iloc[0]
        assert row["n_items"] == len(pairs)
        if name == "planted":  # one third of pairs tie at the top
            assert row["ci_low"] > 0.7
            lexical = frame[(frame["control"] == "lexical") & (frame["metric"] == "spearman")].iloc[0]["value"]
            assert lexical > 0.7
        else:
            assert row["ci_low"] < 0 < row["ci_high"]


def test_pairs_of_a_treebank_by_the_roles_that_are_filled_alike() -> None:
    text = load_corpus("shared_roles:pocket")["test"]
    whole = {sentence.text: sentence for sentence in load_corpus("pocket")["test"]}
    assert len(text) > 800

    def roles(sentence: Sentence) -> dict[str | None, str | None]:
        heads = whole[sentence.text].heads or ()
        near = [place for place, head in enumerate(heads) if head == 0 or heads[head - 1] == 0]
        relations, lemmas = (whole[sentence.text].layers[name] for name in ("deprel", "lemma"))
        return {relations[place]: lemmas[place] for place in near}

    for first, second in zip(*[iter(text)] * 2, strict=True):
        one, other = roles(first), roles(second)
        shared = [role for role in ("root", "nsubj", "obj") if one.get(role) and one.get(role) == other.get(role)]
        assert [s.targets["similarity"][0].label for s in (first, second)] == [str(len(shared))] * 2
        assert (first.id[-2:], second.id) == ("/1", f"{first.id[:-2]}/2")
    with pytest.raises(CorpusError, match="give a treebank with lemmas"):
        shared_roles(load_corpus(["One text.", "Another text."]))


def test_what_has_no_pairs_is_refused_in_one_line(table: str, tmp_path: Path) -> None:
    for task in ("sentence_similarity", "sentence_similarity:whitened"):
        with pytest.raises(BertologyError, match=r"task sentence_similarity.*apart:CORPUS"):
            probe(task, corpus="pocket", controls="none")
    with pytest.raises(BertologyError, match=r"no pair of sentences.*apart:CORPUS"):
        probe("sentence_similarity", corpus=table, columns=COLUMNS, controls="none")
    with pytest.raises(CorpusError, match="no label 'x'"):
        PLAIN.with_settings({"column": "x"}).items({"test": load_corpus(f"apart:{table}", columns=COLUMNS)["test"]})
    rows = pd.read_csv(f"{table}/test.tsv", sep="\t").assign(score="high")
    rows.to_csv(tmp_path / "test.tsv", sep="\t", index=False)
    with pytest.raises(CorpusError, match="'high' is no number"):
        PLAIN.items({"test": load_corpus(f"apart:{tmp_path}/test.tsv", columns=COLUMNS)["test"]})


def test_the_sts_benchmark(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    corpus = load_corpus(f"apart:{real_data('stsb')}")
    assert {split: len(text) for split, text in corpus.splits.items()} == {"train": 2 * 5_749, "dev": 2 * 1_500}
    pairs, scores = PLAIN.items({"test": corpus["dev"]}).data
    assert corpus["dev"].text(int(pairs[0, 1])) == "A man wearing a hard hat is dancing."
    assert scores[:3].tolist() == [5.0, 4.75, 5.0]
    (tmp_path / "sts-dev.csv").write_text("a\tb\tc\t1\t5.0\tOne.\tTwo.\na\tb\tc\t1\t6.0\tOne.\tTwo.\n")
    with pytest.raises(CorpusError, match=r"sts-dev\.csv:2: "):
        load_corpus(tmp_path / "sts-dev.csv")
