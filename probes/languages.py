"""Languages: what does an encoder share between them, and in which layer?

Pires, Schlinger & Garrette (2019), *How Multilingual is Multilingual BERT?*, and Libovický, Rosa & Fraser (2019), *How
Language-Neutral is Multilingual BERT?*. They ask the test split of a corpus of several languages,
``parallel:en=PATH,de=PATH``, or ``multilingual:…`` where no translations are needed.
What is fitted is fitted to other folds of its sentences.

- ``languages:identity``: does a linear classifier find the language, before and after it is removed?
- ``languages:centroids``: how far apart do languages lie, and do they cluster by family?
- ``languages:retrieval``: is the nearest sentence of another language the translation?
- ``languages:translation``: is the nearest word of another language what a word is translated by?
- ``languages:alignment``: do the vectors of words find gold links of words?
- ``languages:transfer:pos``, or any other task about words: does a readout fitted in one language hold in another? It
  is fitted to train, and its strength chosen on dev.

Each has a baseline of spelling (``lexical``), since an encoder of one language may match names, numbers and cognates.
"""

from bertology.errors import NameNotFoundError, listed, quoted
from bertology.probing import Probe, ProbeFamily

from ._language_sentences import Centroids, Identity, Retrieval
from ._language_transfer import Transfer
from ._language_words import Alignment, Translation

_KINDS = (Identity(), Centroids(), Retrieval(), Translation(), Alignment())


def _probe(name: str) -> Probe:
    known = {kind.task.partition(":")[2]: kind for kind in _KINDS}
    if name.lower() == "parity":
        command = "bertology tokenize --corpus parallel:en=PATH,de=PATH"
        raise NameNotFoundError(f"languages:parity reads no layer: {command} shows pieces of each language")
    kind, colon, of = name.partition(":")
    if kind.lower() == "transfer":
        return Transfer(of) if colon else Transfer()
    if name.lower() not in known:
        there_are = listed([*known, "transfer:pos"])
        raise NameNotFoundError(f"unknown question about languages {quoted(name)}: there are {there_are}")
    return known[name.lower()]


PROBE = ProbeFamily(
    argument="question about languages",
    instances=(*(kind.task.partition(":")[2] for kind in _KINDS), "transfer:pos"),
    question="What does an encoder share between languages?",
    reference="Libovický et al. 2019",
    make=_probe,
)
