r"""Ten probing tasks of sentences: what of its form and structure can be read off a sentence's vector?

Conneau et al. (2018), *What you can cram into a single $&!#\* vector*: surface (``length``, ``words``), syntax
(``depth``, ``top``, ``shift``) and meaning (``tense``, ``subject_number``, ``object_number``, ``odd_word``,
``coordination``). The sentences are those of their files, or are made from a treebank by the rules of
:mod:`bertology.corpora.sentence_tasks`: ``sentence_tasks:pocket``, ``sentence_tasks:path/to/treebank``.

An item is a sentence, its vector the mean of its words' vectors; logistic regression is fitted on train, its
regularisation chosen on dev. What to compare with: the most frequent label, that of sentences with as many words
(``length``), a logistic regression on words and bigrams (``lexical``), and the same encoder with random weights.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.corpora.sentence_tasks import SENTENCE_TASKS
from bertology.errors import CorpusError
from bertology.probing import Examples, ProbeFamily, target_examples
from bertology.probing.probes import SentenceProbe


@dataclass(frozen=True)
class SentenceTask(SentenceProbe):
    """Which length, depth, tense, word order … does each sentence have?"""

    name: str
    task_form = "sentence:{name}"
    subject = "syntax"
    reference = "Conneau et al. 2018"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every sentence that the corpus has a label of the task for."""
        if self.task not in sentences.target_layers:
            remedy = "give a treebank as sentence_tasks:CORPUS, or the files of Conneau et al. 2018"
            raise CorpusError(f"no sentence has a label for this task: {remedy}")
        return target_examples(sentences, self.task, spans=1)


PROBE = ProbeFamily.among([SentenceTask(name) for name in SENTENCE_TASKS], argument="task of sentences")
