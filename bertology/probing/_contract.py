"""What a probe is: a question put to an encoder's signals. The core does the work."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from bertology._settings import checked_settings
from bertology.corpora import Sentences
from bertology.measures import Metric, find_metric
from bertology.probing._examples import Examples


class ControlNote(NamedTuple):
    """What tables say of a control of a task."""

    name: str
    """Of the control, as one asks for it: ``word_majority``."""
    label: str
    """What it is called: ``word majority``."""
    text: str
    """What it is, for the note below the table."""


class Probe(ABC):
    """A question put to an encoder, and how its answers are scored."""

    @property
    @abstractmethod
    def task(self) -> str:
        """The task's name, as its file (and after a colon its argument): ``pos``, ``feats:Number``."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Raised by every change that moves scores."""

    @property
    @abstractmethod
    def question(self) -> str:
        """One line: what is asked."""

    @property
    @abstractmethod
    def reference(self) -> str:
        """The paper it comes from."""

    @property
    @abstractmethod
    def metrics(self) -> tuple[str | Metric, ...]:
        """Registered metrics by name, or metrics of its own; the main one, by which layers are ranked, first."""

    @property
    def scores(self) -> tuple[Metric, ...]:
        """The metrics themselves, the main one first.

        Raises:
            NameNotFoundError: one of them is not registered.
        """
        return tuple(find_metric(metric) for metric in self.metrics)

    def with_settings(self, settings: Mapping[str, Any]) -> Self:
        """The same question with other settings.

        Raises:
            NameNotFoundError: there is no such setting.
            FitError: a setting is of another kind than it should be.
        """
        what_it_is = (name for kind in type(self).__mro__ for name in getattr(kind, "__abstractmethods__", ()))
        chosen = checked_settings(settings, type(self), owner=f"task {self.task}", fixed=frozenset(what_it_is))
        # That a probe is a dataclass is part of the contract, which types cannot say of an abstract class.
        return dataclasses.replace(self, **chosen) if chosen else self  # type: ignore[type-var]


class RepresentationProbe(Probe):
    """A question put to word vectors: can this label be read off them, and in which layer?

    Subclasses are frozen dataclasses without state. They say what is asked (:meth:`examples`) and how it is scored;
    reading the encoder, fitting every layer at once, controls, intervals and tables are the core's.
    """

    @property
    @abstractmethod
    def readout(self) -> str:
        """Registered name of the readout unless another is asked for: ``linear.v1``."""

    @abstractmethod
    def examples(self, sentences: Sentences) -> Examples:
        """The items of a split.

        Raises:
            CorpusError: the split has no such labels.
        """


def labels_in(probe: Probe, sentences: Sentences) -> tuple[str, ...]:
    """The labels that a probe finds in some sentences; none where it asks for no labels.

    Raises:
        CorpusError: the sentences lack what it asks about.
    """
    return probe.examples(sentences).values if isinstance(probe, RepresentationProbe) else ()


class SentenceProbe(RepresentationProbe):
    """A question put to whole sentences, or to pairs of texts.

    A text rarely comes twice, so that the label that a form has most often in train is no baseline; the lexical one is.
    """


@dataclass(frozen=True)
class ProbeFamily:
    """Probes that differ by an argument after a colon: ``feats:Number``, ``feats:Tense``."""

    argument: str
    """What the argument is, for people."""
    instances: tuple[str, ...]
    """A few arguments to show in listings."""
    question: str
    reference: str
    make: Callable[[str], Probe]
    """The probe of an argument.

    Raises:
        BertologyError: there is no such argument.
    """
    default: Probe | None = None
    """What is asked without an argument; None where there must be one."""
