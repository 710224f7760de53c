"""Dependencies: given a word and its head, which grammatical relation joins them?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1: the readout sees both ends of the arc, the
dependent first, and names the relation as the treebank writes it (``nmod:poss`` is a label of its own). The root has
no head among the words and is not asked about. ``deprel`` asks the same of the dependent alone.
"""

from dataclasses import dataclass

import numpy as np

from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed
from bertology.probing import Examples, RepresentationProbe, pair_examples


@dataclass(frozen=True)
class EdgeDependencies(RepresentationProbe):
    """Which relation joins a word to its head?"""

    task = "edge_dependencies"
    version = 1
    subject = "syntax"
    question = "Which grammatical relation joins a word to its head?"
    reference = "Tenney et al. 2019a, §2.1"
    readout = "edge.v1"
    metrics = ("micro_f1", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has a head, with that head and the relation."""
        relations = sentences.layers.get("deprel")
        if sentences.heads is None or relations is None:
            there = listed(sorted(sentences.layers))
            raise CorpusError(f"no word has a head and a relation to it: the annotation layers are {there}")
        starts = sentences.starts[sentences.sentence_of_word]
        has_arc = (sentences.heads > 0) & (relations.codes >= 0)
        dependents = np.flatnonzero(has_arc)
        heads = (starts + sentences.heads - 1)[dependents]
        labels = [relations.values[code] for code in relations.codes[dependents].tolist()]
        n_without = int(((sentences.heads != 0) & ~has_arc).sum())
        skipped = {"no head or no deprel label": n_without} if n_without else {}
        return pair_examples(sentences, dependents, heads, labels, skipped=skipped)


PROBE = EdgeDependencies()
