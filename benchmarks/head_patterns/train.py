"""The recipe of both classifiers: from a seed, and real maps to calibrate on, to the files in the package."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.head_patterns.maps import PieceMap, layout_of, stacked
from benchmarks.head_patterns.synthetic import SyntheticMaps, synthetic_maps
from bertology._files import write_atomically
from bertology.attention.patterns import (
    CONFIDENCE,
    FEATURES,
    KINDS,
    PATTERNS,
    RECORD,
    WEIGHTS,
    ClassifierKind,
    PatternNetwork,
    load_classifier,
    pictures,
)
from bertology.errors import FitError

Say = Callable[[str], None]
_TOGETHER = 64


@dataclass(frozen=True)
class PatternRecipe:
    """All that decides what is trained."""

    seed: int = 0
    n_train: int = 3000
    """Maps of each class."""
    n_held_out: int = 400
    """Maps of each class for the figures on synthetic maps."""
    inverse_penalty: float = 1.0
    """``C`` of the logistic regression (scikit-learn)."""
    epochs: int = 16
    batch_size: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    calibration_penalty: float = 3.0
    """On the squares of a class's bias and of the temperature's logarithm, against the summed loss of real maps."""


def train_classifiers(
    maps: Sequence[PieceMap],
    labels: Sequence[str],
    *,
    folder: Path = WEIGHTS,
    recipe: PatternRecipe | None = None,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Fit both classifiers to synthetic maps, calibrate them on real ones, and write their weights and a record.

    All that is random hangs on the recipe's seed; on the same kind of machine and number of threads the same files
    come out.

    Args:
        maps: real maps to calibrate on.
        labels: the class of each.
        folder: where to.
        recipe: the one of the package's classifiers when left out.
        say: told what is being done.

    Returns:
        The record: recipe, temperatures, biases, confidence, accuracy on synthetic maps that nothing was fitted to.

    Raises:
        FitError: the logistic regression does not converge.
    """
    from safetensors.torch import save

    recipe = recipe or PatternRecipe()
    drawn = []
    for number, n in enumerate((recipe.n_train, recipe.n_held_out)):
        say(f"drawing {n} synthetic maps of each class")
        drawn.append(synthetic_maps(n, seed=2 * recipe.seed + number))
    train, held_out = drawn
    say("fitting the logistic regression")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "features.safetensors", save(fit_features(train, recipe)))
    say("training the network")
    network = fit_network(train, recipe, say)
    write_atomically(folder / "cnn.safetensors", save(network))
    record: dict[str, Any] = {
        "patterns": list(PATTERNS),
        "features": list(FEATURES),
        "confidence": CONFIDENCE,
        "temperature": dict.fromkeys(KINDS, 1.0),
        "bias": dict.fromkeys(KINDS, [0.0] * len(PATTERNS)),
        "recipe": asdict(recipe),
        "network_weights": sum(values.numel() for values in network.values()),
    }
    _write(folder, record)
    # Read back as they will be used, so that what is calibrated is what is stored.
    load_classifier.cache_clear()
    record["synthetic_accuracy"] = {kind: _accuracy(kind, folder, held_out) for kind in KINDS}
    record |= _calibration(folder, maps, labels, recipe)
    _write(folder, record)
    load_classifier.cache_clear()
    return record


def _calibration(
    folder: Path, maps: Sequence[PieceMap], labels: Sequence[str], recipe: PatternRecipe
) -> dict[str, Any]:
    logs = {kind: np.log(np.maximum(probabilities(kind, maps, folder=folder), 1e-30)) for kind in KINDS}
    gold = np.array([PATTERNS.index(label) for label in labels])
    found = {kind: calibrated(logs[kind], gold, penalty=recipe.calibration_penalty) for kind in KINDS}
    return {
        "n_calibrated_on": len(gold),
        "temperature": {kind: round(temperature, 4) for kind, (temperature, _) in found.items()},
        "bias": {kind: [round(value, 4) for value in bias] for kind, (_, bias) in found.items()},
    }


def fit_features(train: SyntheticMaps, recipe: PatternRecipe) -> dict[str, Tensor]:
    """Multinomial logistic regression on standardised features, as arrays.

    Raises:
        FitError: it does not converge.
    """
    from sklearn.linear_model import LogisticRegression

    mean, scale = train.features.mean(0), train.features.std(0)
    scale[scale == 0] = 1
    model = LogisticRegression(C=recipe.inverse_penalty, max_iter=5000)
    model.fit((train.features - mean) / scale, train.labels)
    if int(model.n_iter_.max()) >= 5000:
        raise FitError("the logistic regression did not converge in 5000 steps: raise the penalty (lower C)")
    arrays = {"mean": mean, "scale": scale, "weight": model.coef_, "bias": model.intercept_}
    return {name: torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)) for name, values in arrays.items()}


def fit_network(train: SyntheticMaps, recipe: PatternRecipe, say: Say) -> dict[str, Tensor]:
    """The convolutional network's weights, by AdamW with a learning rate that falls as a cosine to nothing."""
    # Of how likely each class was more is learned than of the one that was drawn.
    shown, labels = as_pictures(train.maps), torch.from_numpy(train.likely).float()
    shuffled = torch.Generator().manual_seed(recipe.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = PatternNetwork()
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, foreach=False
    )
    per_epoch = -(-len(labels) // recipe.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.epochs * per_epoch)
    for epoch in range(recipe.epochs):
        total = 0.0
        order = torch.randperm(len(labels), generator=shuffled)
        for start in range(0, len(order), recipe.batch_size):
            chosen = order[start : start + recipe.batch_size]
            loss = torch.nn.functional.cross_entropy(network(shown[chosen].float()), labels[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * len(chosen)
        say(f"epoch {epoch + 1} of {recipe.epochs}: loss {total / len(labels):.4f}")
    return {name: values.detach().contiguous() for name, values in network.state_dict().items()}


def as_pictures(maps: Sequence[PieceMap]) -> Tensor:
    """``[map, channel, side, side]`` in half precision, for thousands of them."""
    parts = []
    for start in range(0, len(maps), _TOGETHER):
        part = maps[start : start + _TOGETHER]
        parts.append(pictures(stacked(part), layout_of(part))[:, 0].half())
    return torch.cat(parts)


def probabilities(kind: ClassifierKind, maps: Sequence[PieceMap], *, folder: Path = WEIGHTS) -> NDArray[np.float64]:
    """``[map, class]`` by a stored classifier, of maps of any lengths."""
    classifier, parts = load_classifier(kind, folder=folder), []
    for start in range(0, len(maps), _TOGETHER):
        part = maps[start : start + _TOGETHER]
        layout = layout_of(part)
        parts.append(classifier.probabilities(stacked(part), layout)[:, 0].double().numpy())
    return np.concatenate(parts)


def calibrated(
    logs: NDArray[np.float64], gold: NDArray[np.int64], *, penalty: float
) -> tuple[float, tuple[float, ...]]:
    """Temperature and biases that make labels likeliest: vector scaling with one scale (Guo et al. 2017, section 4.2).

    Args:
        logs: ``[map, class]`` logarithms of probabilities.
        gold: ``[map]`` numbers of classes.
        penalty: on half the squares of biases and of the temperature's logarithm, against the summed loss.
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp, softmax

    hot = np.eye(len(PATTERNS))[gold]

    def loss(given: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scale = np.exp(-given[0])
        scaled = logs * scale + given[1:]
        value = logsumexp(scaled, axis=1).sum() - (scaled * hot).sum() + penalty / 2 * (given**2).sum()
        over = softmax(scaled, axis=1) - hot
        return float(value), np.array([-(over * logs).sum() * scale, *over.sum(0)]) + penalty * given

    found = minimize(loss, np.zeros(1 + len(PATTERNS)), jac=True, method="L-BFGS-B").x
    return float(np.exp(found[0])), tuple(found[1:].tolist())


def _accuracy(kind: ClassifierKind, folder: Path, unseen: SyntheticMaps) -> float:
    found = probabilities(kind, unseen.maps, folder=folder).argmax(1)
    return round(float((found == unseen.labels).mean()), 4)


def _write(folder: Path, record: dict[str, Any]) -> None:
    write_atomically(folder / RECORD, (json.dumps(record, indent=2) + "\n").encode())
