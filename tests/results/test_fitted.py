"""Fitted probes on new text: against what was predicted in the run, scikit-learn and transformers."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoTokenizer

import bertology
from bertology import load_corpus, load_encoder, read_results
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import CorpusError, FitError, ResultsError
from bertology.results import Results
from bertology.results.predictions import FittedProbe, write_probes

TEXTS = ["The dogs chased a cat.", "A boy saw the birds."]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Any:
    made: dict[str, Results] = {}
    cache = str(tmp_path_factory.mktemp("cache"))

    def of(task: str, corpus: Any, readout: Any = None) -> Results:
        key = f"{task} {readout}"
        if key not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("BERTOLOGY_CACHE", cache)
                kept: dict[str, Any] = {"controls": "random", "random_draws": 1, "layers": "0,2"}
                made[key] = bertology.probe(task, model=tiny_bert, corpus=corpus, readout=readout, **kept)
        return made[key]

    return of


def mean_states(folder: Path, text: str, words: Sequence[str], layer: int) -> np.ndarray:
    """The mean of each word's pieces in the hidden states that transformers gives."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    offsets = encoded.pop("offset_mapping")[0].tolist()
    with torch.inference_mode():
        states = model(**encoded, output_hidden_states=True).hidden_states[layer][0].numpy()
    vectors, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        vectors.append(states[[k for k, (a, b) in enumerate(offsets) if start <= a < b <= end]].mean(0))
    return np.stack(vectors)


def test_scikit_learn_predicts_the_same_from_kept_coefficients(ask: Any, tiny_bert: Path, tiny_corpus: Path) -> None:
    fitted = ask("pos", tiny_corpus).fitted("pos", 2)
    found, all_labels = fitted.predict(TEXTS), fitted.predict_proba(TEXTS)
    reference = LogisticRegression()
    reference.classes_ = np.array(fitted.origin.labels)
    reference.coef_, reference.intercept_ = (fitted.tensors[name].numpy() for name in ("coefficients", "intercepts"))
    words = [[*text[:-1].split(), "."] for text in TEXTS]
    vectors = np.concatenate([mean_states(tiny_bert, *both, 2) for both in zip(TEXTS, words, strict=True)])
    stored = vectors.astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(all_labels.to_numpy(), reference.predict_proba(stored), atol=2e-3)
    assert list(found["label"]) == list(reference.predict(stored))
    assert list(found["word"]) == [word for of_text in words for word in of_text]
    np.testing.assert_allclose(found["probability"], all_labels.to_numpy().max(1))


DEEP = {"name": "bayes", "settings": {"steps": 60, "hidden": 8}}
QUICK: dict[str, Any] = {"max_epochs": 3, "hidden": 8, "projection": 6}
PLAIN = {"pooling": "mean", "projection": 0, "classifier": "linear"}


@pytest.mark.parametrize("readout", ["linear", "mlp", DEEP])
def test_it_predicts_what_the_run_predicted(ask: Any, tiny_corpus: Path, readout: str) -> None:
    results = ask("pos", tiny_corpus, readout)
    for layer in (0, 2):
        expected = results.predictions("pos", layer)
        found = results.fitted("pos", layer).predict(list(load_corpus(tiny_corpus)["test"]))
        columns = ["text", "place", "word", "predicted", "probability"]
        pd.testing.assert_frame_equal(found.rename(columns={"label": "predicted"}), expected[columns], atol=1e-3)


@pytest.mark.parametrize(
    ("task", "readout"),
    [
        ("edge_dependencies", {"name": "edge", "settings": {**QUICK, "pooling": "endpoints", "loss": "sigmoid"}}),
        ("edge_dependencies", {"name": "edge", "settings": PLAIN}),
        ("edge_pos", {"name": "edge_mix", "settings": QUICK}),
    ],
)
def test_edge_probes_predict_what_the_run_predicted(ask: Any, tiny_corpus: Path, task: str, readout: Any) -> None:
    results = ask(task, tiny_corpus, readout)
    every = results.predictions(task)
    layers = [None if layer is pd.NA else int(layer) for layer in every["layer"].unique()]
    assert layers == ([None] if readout["name"] == "edge_mix" else [0, 2])
    sentences = list(load_corpus(tiny_corpus)["test"])
    for layer in layers:
        expected = every[every["layer"].isna()] if layer is None else every[every["layer"] == layer]
        fitted = results.fitted(task, layer)
        places = None
        if fitted.origin.items == "spans":
            places = [list(expected[expected["sentence"] == sentence.id]["place"]) for sentence in sentences]
        found = fitted.predict(sentences, places=places)
        assert list(found["word"]) == list(expected["word"])
        # Vectors are read anew: where two labels are as good, either may be first.
        assert (found["label"].to_numpy() == expected["predicted"].to_numpy()).mean() > 0.98
        np.testing.assert_allclose(found["probability"], expected["probability"], atol=5e-3)
        if readout["settings"].get("loss") != "sigmoid":
            probabilities = fitted.predict_proba(sentences, places=places).to_numpy()
            np.testing.assert_allclose(probabilities.max(1), found["probability"], atol=1e-5)


def test_sets_of_labels(ask: Any) -> None:
    dice = np.random.default_rng(2)

    def draw() -> Sentence:
        words = [str(dice.choice(["the", "dogs", "cats", "birds", "saw"])) for _ in range(6)]
        label = tuple(name for name, word in (("A", "saw"), ("B", "dogs")) if word in words)
        return Sentence.from_words(words, targets={"proto_roles": (Target((0, 3), label, (3, 6)),)})

    sizes = (("train", 60), ("dev", 20), ("test", 20))
    corpus = Corpus("sets", {name: Sentences(draw() for _ in range(size)) for name, size in sizes})
    results = ask("edge_proto_roles", corpus, {"name": "edge", "settings": QUICK})
    fitted, expected = results.fitted("edge_proto_roles", 2), results.predictions("edge_proto_roles", 2)
    found = fitted.predict([(list(s.words[:3]), list(s.words[3:])) for s in corpus["test"]])
    assert fitted.origin.kind == "sets"
    assert set(found["label"]) <= {"", "A", "B", "A|B", "B|A"}
    assert list(found["label"]) == list(expected["predicted"])
    np.testing.assert_allclose(found["probability"], expected["probability"], atol=5e-3)
    assert ((fitted.predict_proba([tuple(TEXTS)]).to_numpy() > 0).sum(1) == 2).all()


def test_numbers_are_predicted_as_in_the_run(ask: Any, tiny_corpus: Path) -> None:
    train = load_corpus(tiny_corpus)["train"]
    columns = {
        "words": [list(sentence.words) for sentence in train],
        "size": [[str(len(word)) for word in sentence.words] for sentence in train],
        "split": ["train"] * 50 + ["dev"] * 10 + ["test"] * (len(train) - 60),
    }
    corpus = load_corpus(pd.DataFrame(columns), columns="words=words,tags=size,split=split")
    results = ask("word_number:size", corpus)
    fitted, expected = results.fitted("word_number:size", 2), results.predictions("word_number:size", 2)
    found = fitted.predict(list(corpus["test"]))
    assert list(found.columns) == ["text", "place", "word", "value"]
    np.testing.assert_allclose(found["value"], expected["predicted"].astype(float), atol=5e-3)
    assert "numbers of words" in repr(fitted)
    with pytest.raises(FitError, match="gives no probabilities"):
        fitted.predict_proba("The dogs saw a cat.")


def test_spans_are_named_as_predictions_name_them(ask: Any, tiny_corpus: Path) -> None:
    results = ask("edge_dependencies", tiny_corpus, "linear")
    expected, sentences = results.predictions("edge_dependencies", 2), load_corpus(tiny_corpus)["test"]
    places = [list(expected[expected["sentence"] == sentence.id]["place"]) for sentence in sentences]
    found = results.fitted("edge_dependencies", 2).predict(list(sentences), places=places)
    assert list(found["label"]) == list(expected["predicted"])
    assert list(found["word"]) == list(expected["word"])
    one = results.fitted("edge_dependencies", 2).predict("The dogs chased a cat.", places=["1,2", "4,5"])
    assert list(one["word"]) == ["The | dogs", "a | cat"]
    for wrong, message in ((None, "give places"), (["1,9"], "not among its words"), (["x"], "write words counted")):
        with pytest.raises(FitError, match=message):
            results.fitted("edge_dependencies", 2).predict("The dogs chased a cat.", places=wrong)


@pytest.mark.parametrize("n_texts", [1, 2])
def test_whole_texts_and_pairs_have_one_label(ask: Any, tiny_bert: Path, n_texts: int) -> None:
    task = "edge_entities" if n_texts == 1 else "edge_srl"
    fitted = ask(task, texts_with_labels(n_texts), "linear").fitted(task, 2)
    assert fitted.origin.items == ("sentences" if n_texts == 1 else "pairs")
    found = fitted.predict(TEXTS if n_texts == 1 else [tuple(TEXTS)])
    assert list(found["text"]) == (TEXTS if n_texts == 1 else [" ".join(TEXTS)])
    assert list(found.columns) == ["text", "label", "probability"]


def texts_with_labels(n_texts: int) -> Corpus:
    dice, layer = np.random.default_rng(1), "entities" if n_texts == 1 else "srl"

    def draw() -> Sentence:
        words = [str(dice.choice(["the", "dogs", "cats", "birds", "saw"])) for _ in range(6)]
        label = "A" if "saw" in words else "B"
        span1, span2 = ((0, 6), None) if n_texts == 1 else ((0, 3), (3, 6))
        return Sentence.from_words(words, targets={layer: (Target(span1, label, span2),)})

    sizes = (("train", 60), ("dev", 20), ("test", 20))
    return Corpus("texts", {name: Sentences(draw() for _ in range(size)) for name, size in sizes})


def test_it_is_kept_with_a_run_and_its_copies(ask: Any, tiny_corpus: Path, tmp_path: Path) -> None:
    results = ask("pos", tiny_corpus)
    expected = results.fitted("pos", 2).predict(TEXTS)
    again = read_results(results.save(tmp_path / "copy", tables=(), plots=()))
    pd.testing.assert_frame_equal(again.fitted("pos", 2).predict(TEXTS), expected)
    fitted, path = again.fitted("pos", 2), tmp_path / "two.safetensors"
    assert repr(fitted).startswith("<FittedProbe pos.v1 at layer 2 of ")
    write_probes(path, {"one seed": fitted, "another": fitted})  # which share their tensors
    assert FittedProbe.read(path).keys() == {"one seed", "another"}
    with pytest.raises(ResultsError, match=r"its fit was not kept.*out= a new folder"):
        again.fitted("pos", 2, init="random")
    shutil.rmtree(tmp_path / "copy/fits")
    with pytest.raises(ResultsError, match="its fit was not kept"):
        again.fitted("pos", 2)


def test_it_reads_only_the_encoder_it_was_fitted_on(ask: Any, tiny_bert: Path, tiny_corpus: Path) -> None:
    fitted: FittedProbe = ask("pos", tiny_corpus).fitted("pos", 2)
    expected = fitted.predict(TEXTS)
    pd.testing.assert_frame_equal(fitted.predict(TEXTS, model=load_encoder(str(tiny_bert))), expected)
    pd.testing.assert_frame_equal(fitted.predict(TEXTS, model=tiny_bert), expected)
    with pytest.raises(FitError, match="cannot read the vectors of pocket"):
        fitted.predict(TEXTS, model="pocket")
    with pytest.raises(CorpusError, match="expected a text"):
        fitted.predict([""])
    with pytest.raises(FitError, match="leave places out"):
        fitted.predict(TEXTS, places=[["1"], ["1"]])


def test_scores_that_are_no_probabilities_are_not_called_so(ask: Any, tiny_corpus: Path) -> None:
    fitted = ask("pos", tiny_corpus, "ridge").fitted("pos", 2)
    assert fitted.predict(TEXTS)["probability"].isna().all()
    with pytest.raises(FitError, match="gives no probabilities"):
        fitted.predict_proba(TEXTS)
