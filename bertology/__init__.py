"""Where in a BERT-like encoder does a piece of knowledge live, and how sure are we?

>>> from bertology import probe
>>> table = probe("pos")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from bertology.errors import BertologyError

if TYPE_CHECKING:
    from bertology._api import probe
    from bertology.corpora import Corpus, Sentence, load_corpus
    from bertology.encoders import Encoder, load_encoder
    from bertology.results import Results, read_results

__version__ = "0.1.0"

__all__ = [
    "BertologyError",
    "Corpus",
    "Encoder",
    "Results",
    "Sentence",
    "load_corpus",
    "load_encoder",
    "probe",
    "read_results",
]

# Found when first used, so that `import bertology` is instant.
_HOME = {
    "probe": "_api",
    "Corpus": "corpora",
    "Sentence": "corpora",
    "load_corpus": "corpora",
    "Encoder": "encoders",
    "load_encoder": "encoders",
    "Results": "results",
    "read_results": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bertology' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"bertology.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
