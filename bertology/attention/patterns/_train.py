"""The recipe of both classifiers: from a seed to the files in the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._files import write_atomically
from bertology.attention.patterns._classifier import RECORD, WEIGHTS, load_classifier
from bertology.attention.patterns._features import FEATURES
from bertology.attention.patterns._kinds import CONFIDENCE, KINDS, PATTERNS, ClassifierKind
from bertology.attention.patterns._layout import Layout
from bertology.attention.patterns._maps import PieceMap, stacked
from bertology.attention.patterns._picture import PatternNetwork, pictures
from bertology.attention.patterns._synthetic import SyntheticMaps, synthetic_maps
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
    """Maps of each class for calibration, and as many more for the figures on synthetic maps."""
    inverse_penalty: float = 1.0
    """``C`` of the logistic regression (scikit-learn)."""
    epochs: int = 16
    batch_size: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2


def train_classifiers(
    folder: Path = WEIGHTS, *, recipe: PatternRecipe | None = None, say: Say = lambda _: None
) -> dict[str, Any]:
    """Make synthetic maps, fit both classifiers, calibrate them, and write their weights and a record.

    All that is random hangs on the recipe's seed; on the same kind of machine and number of threads the same files
    come out.

    Args:
        folder: where to.
        recipe: the one of the package's classifiers when left out.
        say: told what is being done.

    Returns:
        The record: recipe, temperatures, confidence, accuracy on synthetic maps that nothing was fitted to.

    Raises:
        FitError: the logistic regression does not converge.
    """
    from safetensors.torch import save

    recipe = recipe or PatternRecipe()
    drawn = []
    for number, n in enumerate((recipe.n_train, recipe.n_held_out, recipe.n_held_out)):
        say(f"drawing {n} synthetic maps of each class")
        drawn.append(synthetic_maps(n, seed=3 * recipe.seed + number))
    train, held_out, unseen = drawn
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
        "recipe": asdict(recipe),
        "network_weights": sum(values.numel() for values in network.values()),
    }
    _write(folder, record)
    # Read back as they will be used, so that what is calibrated is what is stored.
    load_classifier.cache_clear()
    record["temperature"] = {kind: _temperature(kind, folder, held_out) for kind in KINDS}
    record["synthetic_accuracy"] = {kind: _accuracy(kind, folder, unseen) for kind in KINDS}
    _write(folder, record)
    load_classifier.cache_clear()
    return record


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
    shown, labels = as_pictures(train.maps), torch.from_numpy(train.labels)
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


def as_pictures(maps: tuple[PieceMap, ...]) -> Tensor:
    """``[map, channel, side, side]`` in half precision, for thousands of them."""
    parts = []
    for start in range(0, len(maps), _TOGETHER):
        part = maps[start : start + _TOGETHER]
        parts.append(pictures(stacked(part), Layout.of_texts([each.kinds for each in part]))[:, 0].half())
    return torch.cat(parts)


def probabilities(kind: ClassifierKind, maps: tuple[PieceMap, ...], *, folder: Path = WEIGHTS) -> NDArray[np.float64]:
    """``[map, class]`` by a stored classifier, of maps of any lengths."""
    classifier, parts = load_classifier(kind, folder=folder), []
    for start in range(0, len(maps), _TOGETHER):
        part = maps[start : start + _TOGETHER]
        layout = Layout.of_texts([each.kinds for each in part])
        parts.append(classifier.probabilities(stacked(part), layout)[:, 0].double().numpy())
    return np.concatenate(parts)


def _temperature(kind: ClassifierKind, folder: Path, held_out: SyntheticMaps) -> float:
    """What makes held-out labels likeliest when logits are divided by it (Guo et al. 2017, section 4.2)."""
    from scipy.optimize import minimize_scalar

    logs = np.log(np.maximum(probabilities(kind, held_out.maps, folder=folder), 1e-30))
    rows = np.arange(len(logs))

    def loss(log_temperature: float) -> float:
        scaled = logs / np.exp(log_temperature)
        top = scaled.max(1, keepdims=True)
        normal = top[:, 0] + np.log(np.exp(scaled - top).sum(1))
        return float((normal - scaled[rows, held_out.labels]).mean())

    return round(float(np.exp(minimize_scalar(loss, bounds=(-2.0, 3.0), method="bounded").x)), 4)


def _accuracy(kind: ClassifierKind, folder: Path, unseen: SyntheticMaps) -> float:
    found = probabilities(kind, unseen.maps, folder=folder).argmax(1)
    return round(float((found == unseen.labels).mean()), 4)


def _write(folder: Path, record: dict[str, Any]) -> None:
    write_atomically(folder / RECORD, (json.dumps(record, indent=2) + "\n").encode())
