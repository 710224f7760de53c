"""The vector of a sentence: what readouts of single vectors are fitted to, what cells are called, what is refused."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import probe
from bertology.activations import read_words
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.families.request import ReadoutConfig
from bertology.results.predictions import read_predictions
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.plan import make_plan
from tests.cell_files import records_in
from tests.runner.conftest import fits_of

TASK = "edge_entities"
"""Its items are labelled spans: here whole sentences."""


@pytest.fixture
def labelled(planted: Callable[..., Corpus]) -> Corpus:
    """Sentences labelled by what their first word is; every fourth has only five words."""
    corpus = planted("tag", ("good", "bad"), signal=True)

    def as_one(number: int, sentence: Sentence) -> Sentence:
        words, label = sentence.words[: 5 + (number % 4 > 0)], str(sentence.layers["tag"][0])
        made = Sentence.from_words(list(words))
        return replace(made, id=sentence.id, targets={"entities": (Target((0, len(words)), label),)})

    splits = {name: Sentences(as_one(*each) for each in enumerate(corpus[name])) for name in corpus.splits}
    return replace(corpus, splits=splits)


def pooled_by_hand(encoder: Any, sentences: Sentences, pool: str) -> np.ndarray:
    """``[layer, sentence, dim]``"""
    if pool == "cls":
        return read_words(encoder, sentences, layers=(1, 2, 3), pooling="cls").numpy()
    words = read_words(encoder, sentences, layers=(1, 2, 3)).numpy()
    of = {"mean": lambda part: part.mean(1), "max": lambda part: part.max(1), "last": lambda part: part[:, -1]}[pool]
    starts = sentences.starts
    return np.stack([of(words[:, a:b]) for a, b in itertools.pairwise(starts.tolist())], axis=1)


@pytest.mark.parametrize("pool", ["max", "cls"])
def test_fits_are_those_of_scikit_learn_on_the_same_vectors(
    asking: Callable[..., ProbeRequest], labelled: Corpus, tiny_bert: Path, tmp_path: Path, pool: str
) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    config = ReadoutConfig("linear", pool=pool)
    run_probes(asking(config, task=TASK, layers="1-3", stored_dtype="float32"), corpus=labelled, out=tmp_path / "run")
    (cells,) = fits_of(make_plan(asking(config, task=TASK, layers="1-3", stored_dtype="float32"), corpus=labelled))
    encoder = load_encoder(str(tiny_bert), device="cpu")
    train, test = (pooled_by_hand(encoder, labelled[split], pool) for split in ("train", "test"))
    gold = [one.targets["entities"][0].label for one in labelled["train"]]
    for place, layer in enumerate((1, 2, 3)):
        cell = cells.cells["none", 0, layer]
        record = records_in(tmp_path / "run")[cell.id]
        strength = re.search(r'"strength": ([0-9.e+-]+)', json.dumps(record).replace('\\"', '"'))
        assert strength is not None
        scaler = StandardScaler().fit(train[place])
        fitted = LogisticRegression(C=float(strength[1]), max_iter=5000, tol=1e-8)
        fitted.fit(scaler.transform(train[place]), gold)
        kept = read_predictions(tmp_path / "run", cell.id)
        found = [kept.labels[code] for code in kept.pred]
        agree = np.mean(np.array(found) == fitted.predict(scaler.transform(test[place])))
        assert agree >= 0.97


@pytest.mark.parametrize("pool", ["max", "cls"])
def test_a_fit_reads_the_same_vector_of_new_text(labelled: Corpus, tiny_bert: Path, tmp_path: Path, pool: str) -> None:
    asked: dict[str, Any] = {"model": tiny_bert, "corpus": labelled, "layers": "2", "controls": "majority"}
    results = probe(TASK, readout="linear", pool=["mean", pool], out=tmp_path / "run", progress=False, **asked)
    texts = [sentence.text for sentence in labelled["test"]]
    with pytest.raises(BertologyError, match=r"2 cells fit; choose one by .* or pool="):
        results.fitted(TASK, 2)
    found = results.fitted(TASK, 2, pool=pool).predict(texts)
    assert found["label"].tolist() == results.predictions(TASK, 2, pool=pool)["predicted"].tolist()
    assert len(results.only(pool=pool).view().tables[0].baselines) == 1
