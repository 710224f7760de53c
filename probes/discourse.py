"""Discourse: marks of words in the column MISC, the place of a sentence in its document, the order of neighbours.

- ``misc:KEY``: the value of a key of CoNLL-U's column MISC at every word that has it, such as ``misc:Discourse`` (the
  relation of the unit that begins there, of GUM; Zeldes 2017, *The GUM Corpus*) or ``misc:Cxn`` (EWT).
  The label is what stands before the first colon: ``elaboration`` of ``Discourse=elaboration:57->56``, where the rest
  numbers units. Values whose label has no letter (``Bridge=173<188``), or that open and close spans (``Entity=(1-x``),
  are no classes and refused; ``misc:Bridge:any`` asks of every word whether it has the key.
- ``sentence_position``: in which fifth of its document does a sentence stand? After the sentence position of Chen et
  al. (2019), *Evaluation Benchmarks and Learning Criteria for Discourse-Aware Sentence Representations*, who ask
  for the place among five neighbours; here a sentence is read alone, and documents have five sentences or more.
- ``sentence_order``: do two neighbouring sentences of a document stand as they did, or exchanged? Their binary sentence
  ordering, of ``sentence_order:TREEBANK``. They encode both sentences apart; here both are one text, in the order asked
  about, so that the model reads each with the other. Half of the pairs are exchanged at random.

An item of the last two is a sentence or a pair; compare with words and bigrams (``lexical``) and random weights.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace

from bertology.corpora import Sentences, key_values
from bertology.errors import CorpusError, listed, quoted
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, sentence_examples, target_examples
from bertology.probing.items import mapped_examples, word_examples
from bertology.probing.probes import SentenceProbe

_ANY = "any"
_PARTS = 5
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Misc(RepresentationProbe):
    """Which value of a key of the column MISC does each word that has it show?"""

    key: str
    task_form = "misc:{key}"
    subject = "labels of your own"
    reference = "keys of the treebank; cf. Zeldes 2017"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has the key, with what stands before the first colon of its value.

        Raises:
            CorpusError: no word has it, or its values are no classes.
        """
        values = {misc: key_values(misc).get(self.key) for misc in self._known(sentences)}
        labels = {misc: value if value is None else value.partition(":")[0] for misc, value in values.items()}
        of_key = f"key {quoted(self.key)} of MISC"
        remedy = f"ask which words have it, misc:{self.key}:{_ANY}"
        for misc, label in labels.items():
            value = values[misc]
            if value is not None and ("(" in value or ")" in value):
                raise CorpusError(f"{of_key} opens and closes spans ({quoted(value)}): {remedy}")
            if label is not None and not _LETTER.search(label):
                problem = f"has {quoted(value)}, whose part before the colon has no letter and is no class"
                raise CorpusError(f"{of_key} {problem}: {remedy}")
        return mapped_examples(sentences, "misc", labels)

    def _known(self, sentences: Sentences) -> tuple[str, ...]:
        """The values of MISC; an error where none has the key."""
        every = sentences.layers["misc"].values if "misc" in sentences.layers else ()
        keys = Counter(key for misc in every for key in key_values(misc))
        if self.key not in keys:
            there = f"the keys are {listed(sorted(keys))}" if keys else "no word has any; give a treebank in CoNLL-U"
            raise CorpusError(f"no word has the key {quoted(self.key)} in MISC: {there}")
        return every


@dataclass(frozen=True)
class HasMisc(Misc):
    """Does a word have a key of the column MISC?"""

    task_form = f"misc:{{key}}:{_ANY}"
    metrics = ("macro_f1", "accuracy")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word, ``yes`` where it has the key and ``no`` where it has not.

        Raises:
            CorpusError: no word has it.
        """
        has_key = [self.key in key_values(misc) for misc in self._known(sentences)]
        codes = sentences.layers["misc"].codes
        return word_examples(sentences, ["yes" if code >= 0 and has_key[code] else "no" for code in codes.tolist()])


@dataclass(frozen=True)
class _InDocuments(SentenceProbe):
    reference = "cf. Chen et al. 2019"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")


class SentencePosition(_InDocuments):
    """In which fifth of its document does a sentence stand?"""

    task = "sentence_position"

    def examples(self, sentences: Sentences) -> Examples:
        """Every sentence of documents of five or more, with the fifth that it stands in, from 1.

        Sentences of shorter documents are counted as skipped, and so are those of the last one of the split: where a
        run reads the first sentences only, it may be cut short, and all its fifths would be wrong.

        Raises:
            CorpusError: no document but the last one is so long.
        """
        labels, skipped = list[str | None](), Counter[str]()
        for numbers, _ in sentences.documents:
            n = len(numbers)
            is_last = numbers.stop == len(sentences)
            if is_last or n < _PARTS:
                labels += [None] * n
                skipped["document that may be cut short" if is_last else "document of fewer than five sentences"] += n
            else:
                labels += [str(_PARTS * place // n + 1) for place in range(n)]
        if not any(labels):
            raise CorpusError("no document has five sentences, the last one apart: give a treebank with # newdoc")
        return replace(sentence_examples(sentences, labels), skipped=dict(skipped))


class SentenceOrder(_InDocuments):
    """Do two neighbouring sentences stand as they did in their document, or exchanged?"""

    task = "sentence_order"

    def examples(self, sentences: Sentences) -> Examples:
        """Every pair of neighbours with ``as written`` or ``exchanged``."""
        if self.task not in sentences.target_layers:
            raise CorpusError("no two sentences have an order: give a treebank with documents as sentence_order:CORPUS")
        return target_examples(sentences, self.task, spans=2)


def _misc(argument: str) -> Misc:
    """The probe of ``Discourse``, or of ``Bridge:any``."""
    key, _, rest = (part.strip() for part in argument.partition(":"))
    if rest not in ("", _ANY):
        raise CorpusError(f"task misc:{argument}: after the key may stand :{_ANY}, whether words have it")
    return HasMisc(key) if rest else Misc(key)


MISC = ProbeFamily("key of MISC", ("Discourse", "Bridge:any"), Misc("").question, Misc.reference, _misc)
POSITION = SentencePosition()
ORDER = SentenceOrder()
