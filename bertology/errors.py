"""The errors a person can cause, each one line that names what is wrong and what would be right."""

from __future__ import annotations


class BertologyError(Exception):
    """Something a person asked for cannot be done as asked.

    The message is one line: what is wrong (file, line, field or layer), then the remedy.
    The command line prints it and exits with status 2.
    """


class NameNotFoundError(BertologyError):
    """A task, model, corpus, split or setting of that name is not known."""


class CorpusError(BertologyError):
    """A corpus cannot be read, or lacks what was asked of it."""


class ModelError(BertologyError):
    """A model or its tokenizer cannot be loaded, or cannot give what was asked of it."""


class SignalError(ModelError):
    """A model gives hidden states, attention maps or logits that are NaN or infinite."""


class ShortMemoryError(BertologyError):
    """What was asked for takes more memory than there is."""


class StoreError(BertologyError):
    """The activation store cannot be read or written."""


class FitError(BertologyError):
    """A readout cannot be fitted to the data it was given."""


class ResultsError(BertologyError):
    """Results cannot be read, written or put side by side."""


class ClozeError(BertologyError):
    """A text with masks, or the answers to it, cannot be put to a masked language model."""
