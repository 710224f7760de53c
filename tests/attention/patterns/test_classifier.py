import tomllib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.head_patterns.maps import layout_of, stacked
from benchmarks.head_patterns.synthetic import synthetic_maps
from benchmarks.head_patterns.train import PatternRecipe, calibrated, fit_features
from bertology.attention.patterns import FEATURES, KINDS, PATTERNS, PatternNetwork, load_classifier
from bertology.errors import ModelError

PACKAGE = Path(__file__).resolve().parents[3] / "bertology"


def classes(kind, *maps):
    found = load_classifier(kind).classes(stacked(maps), layout_of(maps))
    return [PATTERNS[number] for number in found[:, 0].tolist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [10, 24, 60])
def test_planted_patterns_are_named(kind, n, plant):
    named = {
        "vertical": "vertical",
        "sep": "vertical",
        "diagonal": "diagonal",
        "next": "diagonal",
        "vertical+diagonal": "vertical+diagonal",
        "block": "block",
    }
    if n == 10:
        # Of squares of four words next to nothing is away from the diagonal.
        del named["block"]
    assert classes(kind, *(plant(pattern, n) for pattern in named)) == list(named.values())


def test_as_scikit_learn_has_it(tmp_path):
    from safetensors.torch import save_file
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    made = synthetic_maps(12, seed=8)
    save_file(fit_features(made, PatternRecipe()), tmp_path / "features.safetensors")
    record = (PACKAGE / "attention/weights/training.json").read_text()
    (tmp_path / "training.json").write_text(record)
    model = load_classifier("features", folder=tmp_path)
    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(made.features, made.labels)
    layout = layout_of(made.maps)
    found = model.probabilities(stacked(made.maps), layout)[:, 0].double().numpy()
    logits = np.log(np.maximum(reference.predict_proba(made.features), 1e-30)) / model.temperature + model.bias
    logits[~layout.is_pair.numpy(), PATTERNS.index("block")] = -np.inf  # squares of two sentences are not had of one
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_calibration_finds_what_was_planted():
    generator = np.random.default_rng(0)
    logs = generator.normal(0, 3, (60_000, 5))
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    bias = np.array([1.0, -0.5, 0.0, -1.0, 0.5])
    true = np.exp(logs / 2 + bias)
    true /= true.sum(1, keepdims=True)
    drawn = (true.cumsum(1) < generator.random(len(true))[:, None]).sum(1).clip(0, 4)
    temperature, found = calibrated(logs, drawn, penalty=1.0)
    assert temperature == pytest.approx(2, rel=0.03)
    np.testing.assert_allclose(found, bias - bias.mean(), atol=0.06)
    # What is calibrated stays as it is, and little is made of little.
    fair = (np.exp(logs).cumsum(1) < generator.random(len(true))[:, None]).sum(1).clip(0, 4)
    temperature, found = calibrated(logs, fair, penalty=1.0)
    assert temperature == pytest.approx(1, rel=0.03)
    np.testing.assert_allclose(found, 0, atol=0.06)
    assert np.abs(calibrated(logs[:5], drawn[:5], penalty=1e6)[1]).max() < 1e-4


def test_what_is_shipped():
    shipped = {path.name for path in (PACKAGE / "attention/weights").iterdir()}
    assert shipped == {"cnn.safetensors", "features.safetensors", "training.json"}
    assert sum(weights.numel() for weights in PatternNetwork().parameters()) < 100_000
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    data = project["tool"]["setuptools"]["package-data"]["bertology"]
    assert "attention/weights/*" in data
    assert len(set(FEATURES)) == len(FEATURES)


def test_weights_that_do_not_fit(tmp_path):
    with pytest.raises(ModelError, match=r"training\.json is missing"):
        load_classifier("features", folder=tmp_path)
    with pytest.raises(ModelError, match="there are features, cnn"):
        load_classifier("forest")  # type: ignore[arg-type]
