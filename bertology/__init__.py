"""Where in a BERT-like encoder does a piece of knowledge live, and how sure are we?

>>> from bertology import probe
>>> table = probe("pos")  # doctest: +SKIP
"""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from bertology._lazy import PROVIDED, lazy_attributes
from bertology.errors import BertologyError

if TYPE_CHECKING:
    from bertology._api import align, attribute, circuit, neighbours, patch, probe
    from bertology._compare import ModelComparison, compare
    from bertology.compression import Compressed, compress
    from bertology.corpora import Corpus, Sentence, load_corpus
    from bertology.encoders import Encoder, load_encoder, resolve_model
    from bertology.families.models import compare_models
    from bertology.finetuning import FineTuned, FineTunedGrid, finetune, finetune_grid
    from bertology.landscapes import Landscape, landscape
    from bertology.probing import register_probe
    from bertology.results import Results, read_results

__getattr__, __dir__ = lazy_attributes(__name__)


def _provided(target: str) -> Callable[..., Any]:
    """A function by the names of its module and its own, which is imported when it is called."""
    return lambda *given, **settings: resolve_name(target)(*given, **settings)


def _from_model(*given: Any, **settings: Any) -> Any:
    from bertology.encoders import in_memory, load_encoder

    return load_encoder(in_memory(*given, **settings))


PROVIDED["attention"] = _provided("bertology.attention.viewer:labelled_attention")
PROVIDED["plot"] = _provided("bertology.results.figures:plot_head")
PROVIDED["from_model"] = _from_model

__version__ = "0.1.0"

__all__ = [
    "BertologyError",
    "Compressed",
    "Corpus",
    "Encoder",
    "FineTuned",
    "FineTunedGrid",
    "Landscape",
    "ModelComparison",
    "Results",
    "Sentence",
    "align",
    "attribute",
    "circuit",
    "compare",
    "compare_models",
    "compress",
    "finetune",
    "finetune_grid",
    "landscape",
    "load_corpus",
    "load_encoder",
    "neighbours",
    "patch",
    "probe",
    "read_results",
    "register_probe",
    "resolve_model",
]
