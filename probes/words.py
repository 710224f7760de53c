"""Labels of words that treebanks and taggers give, read off by a linear readout as in ``pos``.

- ``xpos``: the finer word classes of one treebank, after Liu et al. (2019), *Linguistic Knowledge and Transferability
  of Contextual Representations*, §4, whose parts of speech are Penn Treebank tags.
- ``chunk`` and ``ner``: labels in IOB2, after the same section (chunks of CoNLL 2000, Tjong Kim Sang & Buchholz 2000;
  names of CoNLL 2003). The main metric is micro F1 over the labels other than ``O``, which nearly all words have where
  names are asked about. It scores words, not whole chunks or names.
- ``deprel``: the relation of a word to its head, read off the word's own vector; the readout does not see which word
  the head is. (Liu et al. 2019 and Tenney et al. 2019 label arcs from both ends, as ``edge_dependencies`` does.)
  Universal relations only, the part before the colon, so that treebanks can be compared.
- ``feats:Number``: the value of a feature (``Sing``, ``Plur``) of every word that has it. Probing morphology word by
  word goes back to Belinkov et al. (2017), *What do Neural Machine Translation Models Learn about Morphology?*;
  features and values are those of Universal Dependencies (Nivre et al. 2020).
"""

from dataclasses import dataclass, replace
from functools import partial

from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed, quoted
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, layer_examples
from bertology.probing.items import mapped_examples
from bertology.probing.probes import AnnotationProbe

_LIU = "Liu et al. 2019, §4"
_IOB2 = ("micro_f1", "macro_f1", "accuracy")


@dataclass(frozen=True)
class DependencyRelations(RepresentationProbe):
    """In which universal relation does each word stand to its head?"""

    task = "deprel"
    subject = "syntax"
    reference = "Nivre et al. 2020; cf. Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with its universal relation (``nmod:poss`` counts as ``nmod``)."""
        labelled = layer_examples(sentences, "deprel")
        universal = {value: value.partition(":")[0] for value in labelled.values}
        return replace(mapped_examples(sentences, "deprel", universal), skipped=labelled.skipped)


@dataclass(frozen=True)
class Feature(RepresentationProbe):
    """Which value of a UD feature (Number, Tense …) does each word that has it show?"""

    feature: str
    task_form = "feats:{feature}"
    subject = "word classes"
    reference = "Belinkov et al. 2017"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

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


_word = partial(AnnotationProbe, reference=_LIU)
XPOS = _word(
    task="xpos",
    layer="xpos",
    subject="word classes",
    question="Which treebank-specific tag does each word have?",
    about="Every word with its xpos label.",
)
CHUNK = _word(
    task="chunk",
    layer="chunk",
    subject="syntax",
    question="Which part of which kind of chunk is each word?",
    about="Every word with its chunk label.",
    metrics=_IOB2,
)
NER = _word(
    task="ner",
    layer="ner",
    question="Which part of which kind of name is each word?",
    about="Every word with its ner label.",
    metrics=_IOB2,
)
DEPREL = DependencyRelations()
FEATS = ProbeFamily("UD feature", ("Number", "Tense"), Feature("Number").question, Feature.reference, Feature)
