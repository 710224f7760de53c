"""Languages: what does an encoder share between them, and in which layer?

Pires, Schlinger & Garrette (2019), *How Multilingual is Multilingual BERT?*, and Libovický, Rosa & Fraser (2019), *How
Language-Neutral is Multilingual BERT?*. All ask the test split of a corpus of several languages,
``parallel:en=PATH,de=PATH``, or ``multilingual:…`` where no translations are needed.
What is fitted is fitted to other folds of its sentences.

- ``languages:identity``: does a linear classifier find the language, before and after it is removed?
- ``languages:centroids``: how far apart do languages lie, and do they cluster by family?
- ``languages:retrieval``: is the nearest sentence of another language the translation?
- ``languages:translation``: is the nearest word of another language what a word is translated by?
- ``languages:alignment``: do the vectors of words find gold links of words?

Each has a baseline of spelling (``lexical``), since an encoder of one language may match names, numbers and cognates.
"""

from bertology.errors import NameNotFoundError, listed, quoted
from bertology.probing import Probe, ProbeFamily

from ._language_sentences import Centroids, Identity, Retrieval
from ._language_words import Alignment, Translation

_KINDS = (Identity(), Centroids(), Retrieval(), Translation(), Alignment())


def _probe(name: str) -> Probe:
    known = {kind.task.partition(":")[2]: kind for kind in _KINDS}
    if name.lower() == "parity":
        command = "bertology tokenize --corpus parallel:en=PATH,de=PATH"
        raise NameNotFoundError(f"languages:parity reads no layer: {command} shows pieces of each language")
    if name.lower() not in known:
        raise NameNotFoundError(f"unknown question about languages {quoted(name)}: there are {listed(known)}")
    return known[name.lower()]


PROBE = ProbeFamily(
    argument="question about languages",
    instances=tuple(kind.task.partition(":")[2] for kind in _KINDS),
    question="What does an encoder share between languages?",
    reference="Libovický et al. 2019",
    make=_probe,
)
