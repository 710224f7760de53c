"""Labels of words whose lemma no training word has: is it morphology that is read, or are words memorised?

``unseen_lemmas:feats:Number`` asks what ``feats:Number`` asks, or any task that gives labels to single words, with one
lemma in four held out: test has the words of these lemmas, train and dev all others. A label that depends on the lemma
alone, such as the gender of nouns, cannot be carried over in this way; one that an ending or the context shows can.
``seen_lemmas:feats:Number`` has the same items of test, but train has their lemmas too: the difference of both is what
knowing the lemma is worth. That lemmas in common make morphology look easier than it is was shown of models of
inflection by Goldman et al. (2022), *(Un)solving Morphological Inflection*.
Which lemmas are held out depends on their spelling alone. Intervals are over sentences, not over lemmas, of which a few
may be most of the items.
"""

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import numpy as np

from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed
from bertology.measures import Metric
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, get_probe
from bertology.probing.probes import labels_of_words

_ONE_IN = 4


@dataclass(frozen=True)
class UnseenLemmas(RepresentationProbe):
    """Can a label be read off words whose lemmas were not in training?"""

    of: str  # the task whose labels are read
    are_unseen: bool = True  # whether train lacks the lemmas of test
    subject = "word classes"
    reference = "cf. Goldman et al. 2022"
    fixed_fields = ("of", "are_unseen")

    @property
    def task(self) -> str:
        """``unseen_lemmas:feats:Number``, or ``seen_lemmas:feats:Number``."""
        return f"{'un' * self.are_unseen}seen_lemmas:{get_probe(self.of).task}"

    @property
    def metrics(self) -> tuple[str | Metric, ...]:
        """Those of the task."""
        return get_probe(self.of).metrics

    @property
    def readout(self) -> str:
        """Its own readout."""
        return str(getattr(get_probe(self.of), "readout", "linear.v1"))

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with a label and a lemma; test has the words of one lemma in four, train those of the others."""
        if "lemma" not in sentences.layers:
            layers = listed(sorted(sentences.layers))
            raise CorpusError(f"no word has a lemma: the annotation layers are {layers}; give a corpus such as CoNLL-U")
        found = labels_of_words(self.of, sentences, asked_by=self.task.partition(":")[0], remedy="")
        return found.subset(sentences.layers["lemma"].codes[found.words] >= 0, reason="no lemma label")

    def split_examples(self, sentences: Sentences, split: str) -> Examples:
        """The items of a split: of test those with a lemma held out, of train and dev the others, or all."""
        found, lemmas = self.examples(sentences), sentences.layers["lemma"]
        is_out = np.array([_is_held_out(lemma) for lemma in lemmas.values])[lemmas.codes[found.words]]
        if split == "test":
            return found.subset(is_out, reason="lemma not held out")
        return found.subset(~is_out, reason="lemma held out") if self.are_unseen else found


def _is_held_out(lemma: str) -> bool:
    return blake2b(lemma.lower().encode("utf-8", "surrogatepass"), person=b"lemmas").digest()[0] % _ONE_IN == 0


_ABOUT = "task with labels of words", ("feats:Number", "pos"), UnseenLemmas("pos").question, UnseenLemmas.reference
UNSEEN, SEEN = (ProbeFamily(*_ABOUT, partial(UnseenLemmas, are_unseen=one)) for one in (True, False))
