"""What a probe is, and the probes that are installed."""

from bertology.probing._cloze import ClozeAsks, ClozeItem, ClozeItems, ClozeProbe, LeftOut
from bertology.probing._contract import Probe, ProbeFamily, RepresentationProbe
from bertology.probing._examples import (
    Examples,
    layer_examples,
    mapped_examples,
    pair_examples,
    target_examples,
    word_examples,
)
from bertology.probing._heads import AttentionProbe, GateProbe, HeadBaseline, HeadProbe, Windows
from bertology.probing._registry import get_probe, registered_probes
from bertology.probing._trees import TreeExamples, scored_words, tree_examples

__all__ = [
    "AttentionProbe",
    "ClozeAsks",
    "ClozeItem",
    "ClozeItems",
    "ClozeProbe",
    "Examples",
    "GateProbe",
    "HeadBaseline",
    "HeadProbe",
    "LeftOut",
    "Probe",
    "ProbeFamily",
    "RepresentationProbe",
    "TreeExamples",
    "Windows",
    "get_probe",
    "layer_examples",
    "mapped_examples",
    "pair_examples",
    "registered_probes",
    "scored_words",
    "target_examples",
    "tree_examples",
    "word_examples",
]
