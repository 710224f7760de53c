"""Readouts by name, and what they are given."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertology.errors import FitError, NameNotFoundError
from bertology.readouts import ArrayFeatures, LinearReadout, Targets, get_readout, make_readout, registered_readouts
from bertology.readouts._neural import MlpReadout
from bertology.readouts.linear import RidgeReadout


@pytest.mark.parametrize("kind", [LinearReadout, MlpReadout, RidgeReadout])
def test_names_and_settings_round_trip(kind: type[LinearReadout | MlpReadout | RidgeReadout]) -> None:
    readout = kind()
    assert readout.name in registered_readouts()
    settings = json.loads(json.dumps(asdict(readout)))
    again = get_readout(readout.name, **settings)
    assert type(again) is kind
    assert json.dumps(asdict(again)) == json.dumps(asdict(readout))


def test_short_name_is_the_newest() -> None:
    assert get_readout("linear").name == "linear.v1"
    assert get_readout("ridge").name == "ridge.v1"
    assert asdict(get_readout("mlp", hidden=32))["hidden"] == 32


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(NameNotFoundError, match=r"unknown readout 'liner': did you mean linear\.v"):
        get_readout("liner")
    with pytest.raises(NameNotFoundError, match=r"unknown readout 'linear\.v9'"):
        get_readout("linear.v9")
    with pytest.raises(NameNotFoundError, match=r"unknown setting of readout linear\.v1 'strength': did you mean"):
        get_readout("linear", strength=1.0)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("linear", {"strengths": 1.0}, "setting strengths of readout linear.v1 is 1.0: input should be a valid array"),
        ("mlp", {"hidden": "8"}, "setting hidden of readout mlp.v1 is '8': input should be a valid integer"),
        ("mlp", {"hidden": True}, "setting hidden of readout mlp.v1 is True: input should be a valid integer"),
        ("mlp", {"learning_rate": None}, "setting learning_rate of readout mlp.v1 is None: input should be a valid"),
        ("edge", {"pooling": "maen"}, "setting pooling of readout edge.v1 is 'maen': input should be 'attention'"),
    ],
)
def test_settings_of_another_kind_are_refused(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(FitError) as raised:
        get_readout(name, **settings)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("linear", "strengths", ()),
        ("linear", "strengths", (0.0, 1.0)),
        ("linear", "extensions", -1),
        ("ridge", "strengths", (-1.0,)),
        ("ridge_regression", "strengths", ()),
        ("mlp", "hidden", 0),
        ("mlp", "learning_rate", -1.0),
        ("lowrank", "rank", 0),
        ("bayes", "hidden", -1),
        ("bayes", "steps", 0),
        ("edge", "hidden", 0),
        ("edge", "max_steps", -1),
        ("edge", "dropout", 1.0),
        ("edge_mix", "temperature", 0.0),
        ("structural", "rank", 0),
        ("structural", "learning_rate", float("inf")),
        ("structural", "slow_down", 1.5),
    ],
)
def test_settings_out_of_bounds_are_refused(name: str, setting: str, value: Any) -> None:
    message = f"setting {setting} of readout {name}.v1 is .*: "
    with pytest.raises(FitError, match=message):
        make_readout(name, **{setting: value})
    with pytest.raises(FitError, match=message):
        replace(make_readout(name), **{setting: value})


def test_array_features() -> None:
    values = torch.randn(2, 10, 3, dtype=torch.float64)
    source = ArrayFeatures(values, layers=(4, 9), chunk_items=4)
    assert (source.n_layers, source.n_items, source.dim, tuple(source.layers)) == (2, 10, 3, (4, 9))
    chunks = list(source.chunks())
    assert [len(items) for items, _ in chunks] == [4, 4, 2]
    assert torch.equal(torch.cat([items for items, _ in chunks]), torch.arange(10))
    assert torch.equal(torch.cat([vectors for _, vectors in chunks], dim=1), values.float())


def test_arrays_that_cannot_be_written_are_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2, 10, 3)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", values)
    for dtype in (np.float16, np.float32):
        np.save(tmp_path / "vectors.npy", values.astype(dtype))
        source = ArrayFeatures(np.load(tmp_path / "vectors.npy", mmap_mode="r"), chunk_items=4)
        found = torch.cat([vectors for _, vectors in source.chunks()], dim=1)
        np.testing.assert_array_equal(found.numpy(), values.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("values", [np.zeros((2, 3)), np.zeros((2, 3, 4), dtype=np.int64)])
def test_features_of_another_shape_are_refused(values: np.ndarray) -> None:
    with pytest.raises(FitError, match=r"give floats \[layer, item, dim\]"):
        ArrayFeatures(values)


def test_layer_numbers_must_match() -> None:
    with pytest.raises(FitError, match="3 layer numbers for 2 layers"):
        ArrayFeatures(np.zeros((2, 3, 4)), layers=(1, 2, 3))


@pytest.mark.parametrize(
    ("labels", "weights", "message"),
    [
        (np.zeros(3, dtype=np.int64), None, r"labels have shape \[3\]"),
        (np.zeros((1, 3)), None, "of float64: give integers"),
        (np.array([[0, 4]]), None, "labels run from 0 to 4: give -1 to 3"),
        (np.array([[-2, 1]]), None, "labels run from -2 to 1"),
        (np.array([[0, 1]]), np.ones((1, 3)), r"weights have shape \[1, 3\]: give \[1, 2\]"),
        (np.array([[0, 1]]), np.array([[1.0, -1.0]]), "negative or not finite"),
        (np.array([[0, 1]]), np.array([[1.0, np.nan]]), "negative or not finite"),
    ],
)
def test_targets_out_of_bounds_are_refused(labels: np.ndarray, weights: np.ndarray | None, message: str) -> None:
    with pytest.raises(FitError, match=message):
        Targets(labels, 4, weights)
