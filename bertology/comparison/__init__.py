"""Comparison of two models: what changed from a reference A to a model B that was fine-tuned or compressed from it.

One measure a file: :func:`weight_changes` (``_weights.py``, to be read first), :func:`masked_losses`
(``_masked_loss.py``), :func:`head_changes` (``_heads.py``), :func:`restored_scores` (``_restoring.py``),
:func:`label_clusters` (``_label_clusters.py``), :func:`retained` (``_retained.py``) and :func:`size_and_speed`
(``_size.py``); :func:`verdicts` (``_verdicts.py``) puts them in words. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.comparison._heads import head_changes
    from bertology.comparison._label_clusters import LabelClusters, LabelLayout, label_clusters
    from bertology.comparison._masked_loss import MaskedLosses, masked_losses
    from bertology.comparison._restoring import Order, Restored, restorable_task, restored_scores
    from bertology.comparison._retained import Retained, RetainedLayer, retained
    from bertology.comparison._size import SizeAndSpeed, size_and_speed
    from bertology.comparison._verdicts import null_findings, verdicts
    from bertology.comparison._weights import TensorChange, WeightChanges, weight_changes

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "LabelClusters",
    "LabelLayout",
    "MaskedLosses",
    "Order",
    "Restored",
    "Retained",
    "RetainedLayer",
    "SizeAndSpeed",
    "TensorChange",
    "WeightChanges",
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
