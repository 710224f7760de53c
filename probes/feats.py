"""Morphological features: which value of Number, Tense, Case … does a word show?

``feats:Number`` asks it of every word that has the feature, with the values of the treebank (``Sing``, ``Plur``); words
without the feature are not asked about. Probing morphology word by word goes back to Belinkov et al. (2017), *What do
Neural Machine Translation Models Learn about Morphology?*; features and values are those of Universal Dependencies.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, layer_examples, mapped_examples

_QUESTION = "Which value of a UD feature (Number, Tense …) does each word that has it show?"
_REFERENCE = "Belinkov et al. 2017"


@dataclass(frozen=True)
class Feature(RepresentationProbe):
    """Which value of one UD feature does each word that has it show?"""

    feature: str
    version = 1
    subject = "word classes"
    question = _QUESTION
    reference = _REFERENCE
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    @property
    def task(self) -> str:
        """``feats:`` and the feature."""
        return f"feats:{self.feature}"

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has the feature, with its value."""
        values = {feats: _features(feats).get(self.feature) for feats in layer_examples(sentences, "feats").values}
        if not any(values.values()):
            known = sorted({name for feats in values for name in _features(feats)})
            raise CorpusError(f"no word has the feature {quoted(self.feature)}: the features are {listed(known)}")
        return mapped_examples(sentences, "feats", values)


def _features(feats: str) -> dict[str, str]:
    """``Number=Sing|Person=3`` as a dictionary."""
    pairs = (pair.partition("=") for pair in feats.split("|"))
    return {name: value for name, _, value in pairs}


PROBE = ProbeFamily(
    argument="UD feature", instances=("Number", "Tense"), question=_QUESTION, reference=_REFERENCE, make=Feature
)
