"""Usable information of vectors about labels, in bits, beyond what is given already."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.errors import FitError
from bertology.readouts._base import FittedReadout, Floats, Predictions, Readout, Targets
from bertology.readouts._sources import FeatureSource, joined
from bertology.readouts.codelength import label_log_probs

PARTS = (0.0, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0)
"""Parts of the probability that may be left to what is given, without the vectors."""
_MEMORY = 1 << 30
Sources = Mapping[str, FeatureSource]
"""Vectors of the items of ``train``, ``dev`` and ``test``."""


@dataclass(frozen=True)
class Information:
    """Usable information about the labels of the test items (Xu et al. 2020), item by item (Ethayarajh et al. 2022)."""

    fitted: FittedReadout
    """The readout of the vectors, joined with what is given."""
    predictions: Predictions
    """What it predicts for the test items."""
    bits: Floats
    """``[problem, layer, item]`` log2 of the label's probability given the vectors as well, less that given without
    them; NaN for a label that the training data lack. Its mean is the usable information."""
    given_bits: Floats
    """``[problem, item]`` −log2 of the label's probability without the vectors, whose mean is the entropy that they can
    reduce; NaN as in ``bits``."""
    left_to_given: Floats
    """``[problem, layer]`` the part of the probability that is left to what is given: 1 where vectors are no help."""


def usable_information(
    readout: Readout, sources: Sources, targets: Mapping[str, Targets], *, given: Sources | None = None, **settings: Any
) -> Information:
    """Information that a family of readouts can use: H(label | given) − H(label | given, vectors), in bits.

    Both entropies are cross-entropies of test under fits to train: predictive V-information (Xu et al. 2020, section
    2), or given other vectors conditional V-information (Hewitt et al. 2021, section 3). Without ``given``, what is
    known are the shares of the labels in train. What a readout predicts is mixed with what is predicted without the
    vectors, in the part of ``PARTS`` that has the least entropy on dev: a family has to be able to ignore its input,
    and readouts whose strength is chosen by accuracy are too sure of themselves.

    Args:
        readout: what is fitted to the vectors, and to what is given; it has to give probabilities.
        sources: vectors of the items of ``train``, ``dev`` and ``test``.
        targets: labels by split, −1 for one that train lacks.
        given: vectors of the same items in one layer, in the same order.
        settings: as of :meth:`Readout.fit`.

    Raises:
        FitError: as :meth:`Readout.fit`; items with any number of classes; a readout without probabilities.
    """
    if targets["train"].is_multi_label:
        raise FitError("information is of items of one label each: leave given out for items of several")
    known = _shares(targets)
    if given is not None:
        known = _fit(readout, given, targets, known, settings)[1]
        sources = {split: joined(of_split, given[split], memory=_MEMORY) for split, of_split in sources.items()}
    fitted, log_probs, parts = _fit(readout, sources, targets, known, settings)
    return Information(
        fitted,
        fitted.predict(sources["test"]),
        bits=(log_probs["test"] - known["test"]) / np.log(2),
        given_bits=-known["test"][:, 0] / np.log(2),
        left_to_given=parts,
    )


def _shares(targets: Mapping[str, Targets]) -> dict[str, Floats]:
    """``[problem, 1, item]`` log of the share in train of the labels of dev and test; NaN for those that it lacks."""
    of_classes, found = targets["train"].class_weights(), {}
    shares = of_classes / of_classes.sum(axis=1, keepdims=True)
    for split in ("dev", "test"):
        labels = targets[split].labels
        of_item = np.where(labels < 0, 0, np.take_along_axis(shares, np.maximum(labels, 0), axis=1))
        found[split] = np.log(np.where(of_item > 0, of_item, np.nan))[:, None]
    return found


def _fit(
    readout: Readout,
    sources: Sources,
    targets: Mapping[str, Targets],
    known: Mapping[str, Floats],
    settings: Mapping[str, Any],
) -> tuple[FittedReadout, dict[str, Floats], Floats]:
    """The fit, ``[problem, layer, item]`` log-probabilities of labels of dev and test mixed with those ``known``
    without it, and ``[problem, layer]`` the part of the latter."""
    train, dev = targets["train"], targets["dev"]
    fitted: FittedReadout = readout.fit(sources["train"], train, dev=sources["dev"], dev_targets=dev, **settings)
    found = {}
    for split, of_split in known.items():
        used = np.isfinite(of_split[:, 0])
        by_label = label_log_probs(fitted, sources[split], targets[split], used)
        found[split] = np.where(used[:, None], by_label, np.nan)
    weights = dev.item_weights()[:, None]
    losses = [-np.nansum(weights * _mixed(found["dev"], known["dev"], part), axis=2) for part in PARTS]
    parts = np.array(PARTS)[np.argmin(losses, axis=0)]
    return fitted, {split: _mixed(found[split], known[split], parts[..., None]) for split in known}, parts


def _mixed(log_probs: Floats, known: Floats, part: float | NDArray[np.float64]) -> Floats:
    """Log-probabilities of a mixture, of which ``part`` is what is known without the vectors."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a part of 0 leaves nothing; NaN of a label stays NaN
        return np.asarray(np.logaddexp(np.log1p(-np.asarray(part)) + log_probs, np.log(part) + known))


def form_features(
    forms: Mapping[str, NDArray[np.int64]], labels: NDArray[np.int64], n_classes: int
) -> dict[str, NDArray[np.float32]]:
    """What the written form of an item tells about its label: ``[item, class]`` log-probabilities by split.

    They are the labels of the other training items of the same form, and one item more that has the labels in the
    shares of train. A training item is not counted for itself, or its features would hold its label.

    Args:
        forms: ``[item]`` form by split, in the numbering of train; −1 for one that train lacks.
        labels: ``[item]`` labels of train.
        n_classes: number of classes.
    """
    n_forms = int(forms["train"].max()) + 1
    counts = np.zeros((n_forms + 1, n_classes))  # the last one is of forms that train lacks
    np.add.at(counts, (forms["train"], labels), 1)
    shares = counts.sum(axis=0) / len(labels)
    features = {}
    for split, of_split in forms.items():
        of_item = counts[of_split]
        if split == "train":
            of_item[np.arange(len(labels)), labels] -= 1
        smoothed = (of_item + shares) / (of_item.sum(axis=1, keepdims=True) + 1)
        features[split] = np.log(smoothed).astype(np.float32)
    return features
