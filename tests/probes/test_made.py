"""Items made by rule: physical common sense, and numbers."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bertology import Results, load_corpus, load_encoder, probe
from bertology.corpora import Corpus, Sentence, Sentences
from bertology.corpora._derived import number_word
from bertology.encoders.encoder import WindowReader
from bertology.errors import BertologyError, CorpusError
from bertology.readouts.linear import RidgeRegression
from bertology_probes.made import COMPARISONS, NUMERACY


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("size", 240, 40), ("weight", 252, 42), ("affordance", 240, 40)]
)
def test_items_in_which_a_constant_answer_is_right_half_the_time(kind, size, clusters):
    probe = COMPARISONS.make(kind)
    items = probe.items("made")
    assert probe.task == f"comparisons:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    for group in items.groups:
        of_group = [item for item in items.items if item.group == group]
        for word in {item.answer for item in of_group}:
            asked = [item for item in of_group if word in (item.answer, *item.rivals)]
            assert sum(item.answer == word for item in asked) * 2 == len(asked)


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("decode", 300, 100), ("maximum", 360, 180), ("addition", 272, 52)]
)
def test_items_of_numbers(kind, size, clusters):
    probe = NUMERACY.make(kind)
    items = probe.items("made")
    assert probe.task == f"numeracy:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    assert all(item.text.count("{mask}") == 1 and item.blind.endswith("{mask}.") for item in items.items)
    assert not items.left_out


def test_unknown_kinds_and_sources_of_numbers():
    with pytest.raises(BertologyError, match="task numeracy:product: it should be one of decode, maximum, addition"):
        NUMERACY.make("product")
    with pytest.raises(CorpusError, match=r"items are made by rule and read from no file; give made"):
        NUMERACY.make("addition").items("some/file")


def value_of(results: Results, metric: str, **where: Any) -> float:
    (row,) = (
        row
        for row in results.rows
        if row.metric == metric and all(getattr(row, name) == value for name, value in where.items())
    )
    assert row.value is not None
    return row.value


def vectors_and_values(model: Path, name: str, *splits: str) -> tuple[Any, Any]:
    """``[layer, number, dim]`` vectors of layers 0 and 2, and ``[number]`` values, by split."""
    corpus, encoder = load_corpus(name), load_encoder(model)
    vectors, values = {}, {}
    for split in ("train", "dev", *splits):
        values[split] = np.array([int(one.id) for one in corpus[split]])
        vectors[split] = WindowReader(encoder, corpus[split]).read_all([0, 2]).numpy().astype(np.float64)
    return vectors, values


def ridge(vectors: Any, values: Any, split: str, *, strengths: Any) -> Any:
    """``[number]`` values predicted by scikit-learn from vectors ``[number, dim]``, its strength chosen on dev."""
    n = len(values["train"])
    fits = [make_pipeline(StandardScaler(), Ridge(alpha=one * n)) for one in strengths]
    for fit in fits:
        fit.fit(vectors["train"], values["train"])
    return max(fits, key=lambda fit: fit.score(vectors["dev"], values["dev"])).predict(vectors[split])


@pytest.mark.parametrize("split", ["test", "outside"])
def test_values_are_read_as_by_ridge_regression_of_scikit_learn(tiny_bert: Path, split: str) -> None:
    settings: Any = {"controls": ["mean"], "stored_dtype": "float32", "test_split": split}
    found = probe("numeracy:value", model=tiny_bert, corpus="numbers:words:199", layers="0,2", **settings)
    vectors, values = vectors_and_values(tiny_bert, "numbers:words:199", split)
    for place, layer in enumerate((0, 2)):
        (record,) = {row.params_json for row in found.rows if row.layer == layer and row.control == "none"}
        of_layer = {name: some[place] for name, some in vectors.items()}
        predicted = ridge(of_layer, values, split, strengths=json.loads(record)["strengths"])
        rmse = np.sqrt(np.mean((predicted - values[split]) ** 2))
        where = {"layer": layer, "control": "none", "init": "pretrained"}
        assert value_of(found, "rmse", **where) == pytest.approx(rmse, rel=1e-4)
        explained = 1 - rmse**2 / np.var(values[split])
        assert value_of(found, "r2", **where) == pytest.approx(explained, rel=1e-4)
    mean = np.sqrt(np.mean((values[split] - values["train"].mean()) ** 2))
    assert value_of(found, "rmse", control="mean") == pytest.approx(mean, rel=1e-6)


def test_values_of_numbers_need_numbers() -> None:
    with pytest.raises(CorpusError, match="no word has the value of a number: give numbers:digits or numbers:words"):
        NUMERACY.make("value").examples(load_corpus("pocket")["dev"])


def test_errors_of_numbers_cut_unlike_their_successor(tiny_bert: Path) -> None:
    name = "numbers:words:1999"
    found = probe("numeracy:subwords", model=tiny_bert, corpus=name, layers="0,2", controls=[], stored_dtype="float32")
    tokenizer = load_encoder(tiny_bert).tokenizer
    lengths = [len(tokenizer.tokenize(number_word(value))) for value in range(2000)]
    uneven = np.array([one != other for one, other in itertools.pairwise(lengths)])
    share = value_of(found, "uneven_neighbours", layer=2, group=None)
    assert share == pytest.approx(uneven.mean(), abs=1e-12)
    vectors, values = vectors_and_values(tiny_bert, name, "test")
    asked = values["test"] != 1999  # its successor is not in the corpus
    strengths = RidgeRegression().strengths
    for place, layer in enumerate((0, 2)):
        predicted = ridge({split: some[place] for split, some in vectors.items()}, values, "test", strengths=strengths)
        errors = np.abs(predicted - values["test"])
        assert value_of(found, "absolute_error", layer=layer, group=None) == pytest.approx(errors.mean(), rel=1e-4)
        errors, is_uneven, ranges = errors[asked], uneven[values["test"][asked]], values["test"][asked] // 100
        (group,) = {row.group for row in found.rows if row.group and row.group.startswith("another")}
        of_group = value_of(found, "absolute_error", layer=layer, group=group)
        assert of_group == pytest.approx(errors[is_uneven].mean(), rel=1e-4)
        assert {row.n_items for row in found.rows if row.group == group} == {is_uneven.sum()}
        # The coefficient of a regression of errors on being uneven, with a constant for each hundred.
        design = np.column_stack([is_uneven, np.eye(20)[ranges]])
        coefficient = np.linalg.lstsq(design, errors, rcond=None)[0][0]
        assert value_of(found, "additional_error", layer=layer, group=None) == pytest.approx(coefficient, rel=1e-3)


def test_a_tokenizer_that_cuts_all_numbers_alike() -> None:
    # Digits are unknown to the pocket world, one subword a number.
    found = probe("numeracy:subwords", corpus="numbers:digits:199", layers="1", controls=[])
    assert value_of(found, "uneven_neighbours") == 0
    assert not [row for row in found.rows if row.metric == "additional_error"]


def test_subwords_of_numbers_need_whole_neighbouring_numbers(tiny_bert: Path) -> None:
    def corpus(numbers: list[str]) -> Corpus:
        some = Sentences(Sentence.from_words([one], layers={"number": [one]}) for one in numbers)
        return Corpus("some", {"train": some, "dev": some, "test": some})

    with pytest.raises(CorpusError, match=r"layer number: found '1.5'; give whole numbers"):
        NUMERACY.make("subwords").items(corpus(["1", "1.5"]).splits)
    settings: Any = {"model": tiny_bert, "layers": "1", "controls": []}
    with pytest.raises(BertologyError, match="no number of the corpus has its successor there"):
        probe("numeracy:subwords", corpus=corpus(["1", "3", "5"]), **settings)
