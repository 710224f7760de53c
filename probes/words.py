r"""Labels of words that treebanks and taggers give, read off by a linear readout as in ``pos``.

- ``xpos``: the finer word classes of one treebank, after Liu et al. (2019), *Linguistic Knowledge and Transferability
  of Contextual Representations*, §4, whose parts of speech are Penn Treebank tags.
- ``chunk`` and ``ner``: labels in IOB2, after the same section (chunks of CoNLL 2000, Tjong Kim Sang & Buchholz 2000;
  names of CoNLL 2003). The main metric is micro F1 over the labels other than ``O``, which nearly all words have where
  names are asked about. It scores words, not whole chunks or names.
- ``ccg``: the supertag (``(S\NP)/NP``), after the same section (CCGBank, Hockenmaier & Steedman 2007), of a column
  ``ccg`` of a corpus of one's own. Categories are many and most of them rare, which ``word_label:COLUMN`` refuses; one
  that train lacks is scored as wrong.
- ``deprel``: the relation of a word to its head, read off the word's own vector; the readout does not see which word
  the head is. (Liu et al. 2019 and Tenney et al. 2019 label arcs from both ends, as ``edge_dependencies`` does.)
  Universal relations only, the part before the colon, so that treebanks can be compared.
- ``feats:Number``: the value of a feature (``Sing``, ``Plur``) of every word that has it. Probing morphology word by
  word goes back to Belinkov et al. (2017), *What do Neural Machine Translation Models Learn about Morphology?*;
  features and values are those of Universal Dependencies (Nivre et al. 2020). ``feats:Number:NOUN`` is about nouns
  alone, with a readout, baselines and controls of their own; ``feats:all`` stands for every feature of a corpus, of all
  words and of each part of speech.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bertology.corpora import Sentences, ShardedSentences, key_values
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
    upos: str = ""  # the part of speech whose words are asked about; all words when empty
    subject = "word classes"
    reference = "Belinkov et al. 2017"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")
    fixed_fields = ("upos",)

    @property
    def task(self) -> str:
        """``feats:Number``, or ``feats:Number:NOUN``."""
        return ":".join(filter(None, ["feats", self.feature, self.upos]))

    def stands_for(self, splits: Callable[[], Mapping[str, Sentences]]) -> Mapping[str, str] | None:
        """The features of a corpus for ``feats:all``, each also by part of speech where it is found in several."""
        if self.feature != "all":
            return None
        by_name, found = splits(), dict[str, str]()
        counts = {split: _counted(by_name[split]) for split in ("train", "test")}
        names = sorted(set().union(*counts.values()))
        for name in names:
            whole, _, part = name.partition(":")
            if not part or (not found[f"feats:{whole}"] and sum(one.startswith(f"{whole}:") for one in names) > 1):
                reasons = (_too_few(times.get(name, {}), split) for split, times in counts.items())
                found[f"feats:{name}"] = next(filter(None, reasons), "")
        return found

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has the feature, with its value; of one part of speech where one is named."""
        values = {feats: key_values(feats).get(self.feature) for feats in layer_examples(sentences, "feats").values}
        if not any(values.values()):
            known = sorted({name for feats in values for name in key_values(feats)})
            raise CorpusError(f"no word has the feature {quoted(self.feature)}: the features are {listed(known)}")
        found = mapped_examples(sentences, "feats", values)
        if not self.upos:
            return found
        layer_examples(sentences, "upos")  # an error where there are none
        upos = sentences.layers["upos"]
        tags = np.array([*upos.values, ""], dtype=object)[upos.codes[found.words]]
        if self.upos not in tags:
            known = sorted({*tags.tolist()} - {""})
            raise CorpusError(f"no {self.upos} has the feature {quoted(self.feature)}: it is found in {listed(known)}")
        return replace(found.subset(tags == self.upos, reason=""), skipped=found.skipped)


_FEWEST = 10
"""Least number of times that the second most frequent value of a feature has to occur in train, and in test."""


def _counted(sentences: Sentences) -> dict[str, Counter[str]]:
    """How often each value of a feature occurs, of all words and of each part of speech: ``Number:NOUN``."""
    if isinstance(sentences, ShardedSentences):
        raise CorpusError("task feats:all does not count features in shards: name the features, feats:Number")
    items, upos = layer_examples(sentences, "feats"), sentences.layers.get("upos")
    times = defaultdict[str, Counter[str]](Counter)
    named = [*map(":{}".format, upos.values), ""] if upos else [""]
    tags = map(named.__getitem__, upos.codes[items.words].tolist() if upos else itertools.repeat(0))
    for (code, tag), n in Counter(zip(items.codes.tolist(), tags, strict=False)).items():
        for name, value in key_values(items.values[code]).items():
            for of in {name, f"{name}{tag}"}:
                times[of][value] += n
    return times


def _too_few(values: Mapping[str, int], split: str) -> str:
    """The reason why a feature with such values in a split cannot be asked about; empty where it can."""
    if len(values) < 2:
        return f"in {split} the one value {next(iter(values))}" if values else f"not in {split}"
    second, n = Counter(values).most_common(2)[1]
    times = "once" if n == 1 else f"{n} times"
    return f"in {split} its second value, {second}, {times}; {_FEWEST} are due" if n < _FEWEST else ""


def _feature(argument: str) -> Feature:
    """The probe of ``Number``, or of ``Number:NOUN``."""
    feature, _, upos = argument.partition(":")
    return Feature(feature.strip(), upos.strip().upper())


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
CCG = _word(
    task="ccg",
    layer="ccg",
    subject="syntax",
    question="Which category of combinatory categorial grammar (CCG supertag) does each word have?",
    about="Every word with its ccg label.",
)
DEPREL = DependencyRelations()
_FORMS = ("Number", "Tense", "Number:NOUN", "all")
FEATS = ProbeFamily("UD feature", _FORMS, Feature("Number").question, Feature.reference, _feature)
