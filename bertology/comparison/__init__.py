"""Comparison of two models: what changed from a reference A to a model B that was fine-tuned or compressed from it.

``_models.py`` compares the models themselves: :func:`weight_changes`, :func:`masked_losses`, :func:`restored_scores`
and :func:`size_and_speed`. ``_results.py`` compares what probes found in them: :func:`head_changes`, :func:`retained`,
and :func:`verdicts` in words. :func:`label_clusters` has a file of its own. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.comparison._label_clusters import label_clusters
    from bertology.comparison._models import (
        Order,
        masked_losses,
        restorable_task,
        restored_scores,
        size_and_speed,
        weight_changes,
    )
    from bertology.comparison._probes import (
        AttentionComparison,
        EncoderComparison,
        EncoderPair,
        LayerPair,
        ReadoutComparison,
        VectorComparison,
    )
    from bertology.comparison._results import head_changes, null_findings, retained, verdicts

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "AttentionComparison",
    "EncoderComparison",
    "EncoderPair",
    "LayerPair",
    "Order",
    "ReadoutComparison",
    "VectorComparison",
    "head_changes",
    "label_clusters",
    "masked_losses",
    "null_findings",
    "restorable_task",
    "restored_scores",
    "retained",
    "size_and_speed",
    "verdicts",
    "weight_changes",
]
