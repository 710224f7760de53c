"""Errors that users can cause, each a line that states what is wrong and the remedy.

What a message quotes of a file or command line goes through :func:`quoted`, :func:`cut` or :func:`listed`, so that it
stays one line of a readable length.
"""

from collections.abc import Iterable

_MOST_QUOTED = 80
_MOST_OF_A_PATH = 300
_MOST_LISTED, _MOST_OF_A_NAME = 20, 40


class BertologyError(Exception):
    """A request cannot be carried out as given.

    The message is one line: what is wrong (file, line, field or layer), then the remedy.
    The command line prints it and exits with status 2.
    """


class NameNotFoundError(BertologyError):
    """A task, model, corpus, split or setting of that name is not known."""


class CorpusError(BertologyError):
    """A corpus cannot be read, or lacks the annotation that is needed."""


class ModelError(BertologyError):
    """A model or its tokenizer cannot be loaded, or lacks a capability that is needed."""


class SignalError(ModelError):
    """A model gives hidden states, attention maps or logits that are NaN or infinite."""


class ShortMemoryError(BertologyError):
    """There is not enough memory."""


class StoreError(BertologyError):
    """The activation store cannot be read or written."""


class FitError(BertologyError):
    """A readout cannot be fitted to the data it was given."""


class ResultsError(BertologyError):
    """Results cannot be read, written or compared."""


class ClozeError(BertologyError):
    """A text with masks, or its answers, are no valid input of a masked language model."""


def quoted(value: object) -> str:
    """A value of a file or command line for a message: its ``repr``, of a long text the first 80 characters."""
    if isinstance(value, int) and abs(value) >= 10**_MOST_QUOTED:
        return "a number of over 80 digits"  # of one with over 4300 there is no repr
    if not isinstance(value, str):
        return cut(repr(value))
    whole = len(value) <= _MOST_QUOTED
    return repr(value) if whole else f"{value[:_MOST_QUOTED] + '…'!r} ({len(value):,} characters)"


def cut(text: str, *, most: int = _MOST_QUOTED) -> str:
    """The first characters of a text that a message gives without quotes, line breaks and the like written out."""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= most else f"{text[:most]}…"


def cut_path(path: object) -> str:
    """A path for a message: whole, unless it is longer than people's paths are."""
    return cut(str(path), most=_MOST_OF_A_PATH)


def listed(names: Iterable[object]) -> str:
    """Names with commas, of many the first 20, of a long one the first 40 characters; ``none`` where there is none."""
    texts = [str(name) for name in names]
    more = [f"and {len(texts) - _MOST_LISTED:,} more"] if len(texts) > _MOST_LISTED else []
    return ", ".join([*(cut(text, most=_MOST_OF_A_NAME) for text in texts[:_MOST_LISTED]), *more]) or "none"
