"""Comparison of two models: what changed from a reference A to a model B that was fine-tuned or compressed from it.

``models.py`` compares the models themselves: :func:`weight_changes`, :func:`masked_losses`, :func:`restored_scores`,
:func:`size_and_speed` and :func:`label_clusters`. ``findings.py`` compares what probes found in them:
:func:`head_changes`, :func:`retained`, and verdicts in words. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.comparison._probes import (
        AttentionComparison,
        EncoderComparison,
        EncoderPair,
        ReadoutComparison,
        VectorComparison,
    )
    from bertology.comparison.findings import head_changes, retained
    from bertology.comparison.models import (
        label_clusters,
        masked_losses,
        restored_scores,
        size_and_speed,
        weight_changes,
    )

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "AttentionComparison",
    "EncoderComparison",
    "EncoderPair",
    "ReadoutComparison",
    "VectorComparison",
    "head_changes",
    "label_clusters",
    "masked_losses",
    "restored_scores",
    "retained",
    "size_and_speed",
    "weight_changes",
]
