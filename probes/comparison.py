"""What differs between a model and its reference, such as before and after fine-tuning, layer by layer.

``comparison:vectors`` compares vectors of the same words (``_compared_vectors.py``), ``comparison:label_clusters`` how
labels lie in them, ``comparison:attention`` the attention maps of the same sentences (``_compared_attention.py``),
``comparison:weights`` the weights, ``comparison:masked_loss`` what is predicted of masked words, and
``comparison:restoring`` puts layers of a fine-tuned model back. The reference is that of the model in an experiment
(``reference:``), or of ``--reference``.
"""

from bertology.errors import NameNotFoundError, listed, quoted
from bertology.probing import ComparisonProbe, ProbeFamily

from ._compared_attention import ComparedAttention
from ._compared_losses import ComparedLosses
from ._compared_vectors import ComparedVectors
from ._compared_weights import ComparedWeights
from ._label_clusters import ClustersOfLabels
from ._restored_layers import RestoredLayers

_PROBES: dict[str, ComparisonProbe] = {
    "vectors": ComparedVectors(),
    "attention": ComparedAttention(),
    "label_clusters": ClustersOfLabels(),
    "weights": ComparedWeights(),
    "masked_loss": ComparedLosses(),
    "restoring": RestoredLayers(),
}


def _probe(name: str) -> ComparisonProbe:
    known = name.lower().replace("-", "_")
    if known not in _PROBES:
        raise NameNotFoundError(f"unknown comparison {quoted(name)}: give {listed(tuple(_PROBES))}")
    return _PROBES[known]


PROBE = ProbeFamily(
    argument="what is compared",
    instances=tuple(_PROBES),
    question="What differs between a model and its reference, layer by layer?",
    reference="Kornblith et al. 2019; Merchant et al. 2020",
    make=_probe,
)
