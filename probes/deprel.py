"""Dependency relations: in which grammatical relation does a word stand to its head?

The label of a word's incoming arc, read off the word's own vector without telling the readout which word the head is.
(Liu et al. 2019, §4, and Tenney et al. 2019 label arcs from both ends; that is ``edge_dependencies``.) Universal
relations only: the part before the colon, so that treebanks can be compared.
"""

from dataclasses import dataclass, replace

from bertology.corpora import Sentences
from bertology.probing import Examples, RepresentationProbe, layer_examples, mapped_examples


@dataclass(frozen=True)
class DependencyRelations(RepresentationProbe):
    """In which universal relation does each word stand to its head?"""

    task = "deprel"
    version = 1
    subject = "syntax"
    question = "In which universal relation does each word stand to its head?"
    reference = "Nivre et al. 2020; cf. Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with its universal relation (``nmod:poss`` counts as ``nmod``)."""
        labelled = layer_examples(sentences, "deprel")
        universal = {value: value.partition(":")[0] for value in labelled.values}
        return replace(mapped_examples(sentences, "deprel", universal), skipped=labelled.skipped)


PROBE = DependencyRelations()
