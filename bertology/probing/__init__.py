"""What a probe is, and the probes that are installed."""

from bertology.corpora.prompts import LeftOut
from bertology.probing._causal import CausalItems, CausalProbe
from bertology.probing._cloze import ClozeAsks, ClozeItem, ClozeItems, ClozeProbe, with_ignored
from bertology.probing._comparison import (
    AttentionComparison,
    ComparisonProbe,
    EncoderComparison,
    LayerPair,
    ReadoutComparison,
    VectorComparison,
)
from bertology.probing._contract import (
    AnnotationProbe,
    ControlNote,
    Probe,
    ProbeFamily,
    RepresentationProbe,
    SentenceProbe,
    labels_in,
)
from bertology.probing._examples import (
    Examples,
    layer_examples,
    mapped_examples,
    pair_examples,
    sentence_examples,
    target_examples,
    word_examples,
)
from bertology.probing._geometry import (
    EncodingProbe,
    GeometryBaseline,
    GeometryCounts,
    GeometryProbe,
    Splits,
    SplitVectors,
    SplitWords,
    is_punctuation,
    sampled_sentences,
    sampled_words,
)
from bertology.probing._heads import AttentionProbe, GateProbe, HeadBaseline, HeadProbe, Windows
from bertology.probing._own import is_installed, known_probe, register_probe, settings_of, source_fingerprint
from bertology.probing._registry import get_probe, labels_of_words, registered_probes
from bertology.probing._trees import TreeExamples, scored_words, tree_examples

__all__ = [
    "AnnotationProbe",
    "AttentionComparison",
    "AttentionProbe",
    "CausalItems",
    "CausalProbe",
    "ClozeAsks",
    "ClozeItem",
    "ClozeItems",
    "ClozeProbe",
    "ComparisonProbe",
    "ControlNote",
    "EncoderComparison",
    "EncodingProbe",
    "Examples",
    "GateProbe",
    "GeometryBaseline",
    "GeometryCounts",
    "GeometryProbe",
    "HeadBaseline",
    "HeadProbe",
    "LayerPair",
    "LeftOut",
    "Probe",
    "ProbeFamily",
    "ReadoutComparison",
    "RepresentationProbe",
    "SentenceProbe",
    "SplitVectors",
    "SplitWords",
    "Splits",
    "TreeExamples",
    "VectorComparison",
    "Windows",
    "get_probe",
    "is_installed",
    "is_punctuation",
    "known_probe",
    "labels_in",
    "labels_of_words",
    "layer_examples",
    "mapped_examples",
    "pair_examples",
    "register_probe",
    "registered_probes",
    "sampled_sentences",
    "sampled_words",
    "scored_words",
    "sentence_examples",
    "settings_of",
    "source_fingerprint",
    "target_examples",
    "tree_examples",
    "with_ignored",
    "word_examples",
]
