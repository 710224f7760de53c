"""Probes: the questions that can be asked, and the registry of those that are installed.

``probes.py`` has the base classes and the registry, ``items.py`` the items of probes of vectors and samples of a text.
"""

from bertology.corpora.prompts import LeftOut
from bertology.probing.items import (
    Examples,
    GeometryCounts,
    Splits,
    layer_examples,
    pair_examples,
    sentence_examples,
    target_examples,
    tree_examples,
    word_examples,
)
from bertology.probing.probes import (
    ControlNote,
    Probe,
    ProbeFamily,
    RepresentationProbe,
    RunningModel,
    get_probe,
    register_probe,
    registered_probes,
)

__all__ = [
    "ControlNote",
    "Examples",
    "GeometryCounts",
    "LeftOut",
    "Probe",
    "ProbeFamily",
    "RepresentationProbe",
    "RunningModel",
    "Splits",
    "get_probe",
    "layer_examples",
    "pair_examples",
    "register_probe",
    "registered_probes",
    "sentence_examples",
    "target_examples",
    "tree_examples",
    "word_examples",
]
