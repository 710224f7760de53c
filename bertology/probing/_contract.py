"""What a probe is: a question put to an encoder's signals. The core does the work."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, NamedTuple, Self

from bertology._settings import checked_settings
from bertology.corpora import Sentences
from bertology.errors import NameNotFoundError
from bertology.measures import Metric, find_metric
from bertology.probing._examples import Examples, layer_examples, target_examples

_MOST_COMPARED = 80
"""Characters of an unknown name that are compared with those there are."""


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
    def version(self) -> int:
        """Raised by every change that moves scores."""
        return 1

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

    asked_by: ClassVar[str]
    """The method whose docstring states what the items are; each kind of probe has one."""

    @property
    def about(self) -> str:
        """One line: what the items are; by default the first paragraph on the method :attr:`asked_by`."""
        doc = inspect.getdoc(inspect.getattr_static(type(self), self.asked_by, None)) or ""
        return doc.partition("\n\n")[0].replace("``", "")

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
        kinds = type(self).__mro__
        what_it_is = {name for kind in kinds for name, member in vars(kind).items() if isinstance(member, property)}
        chosen = checked_settings(settings, type(self), owner=f"task {self.task}", fixed=frozenset(what_it_is))
        # That a probe is a dataclass is part of the contract, which types cannot say of an abstract class.
        return dataclasses.replace(self, **chosen) if chosen else self  # type: ignore[type-var]


class RepresentationProbe(Probe):
    """A question put to word vectors: can this label be read off them, and in which layer?

    Subclasses are frozen dataclasses without state. They say what is asked (:meth:`examples`) and how it is scored;
    reading the encoder, fitting every layer at once, controls, intervals and tables are the core's.
    """

    asked_by = "examples"

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


class AnnotationProbe(RepresentationProbe):
    """A question that an annotation of the corpus answers, by the name of its layer."""

    layer: ClassVar[str]
    """The layer of annotation, such as ``upos`` or ``srl``."""
    spans: ClassVar[Literal[0, 1, 2]] = 0
    """Number of spans of an item; 0 for a layer of labels of words."""

    @property
    def readout(self) -> str:
        """The linear readout, unless a task names another."""
        return "linear.v1"

    @property
    def metrics(self) -> tuple[str | Metric, ...]:
        """Accuracy and macro F1, unless a task names others."""
        return ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every item that has a label in the layer."""
        if not self.spans:
            return layer_examples(sentences, self.layer)
        return target_examples(sentences, self.layer, spans=self.spans)


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

    @classmethod
    def among(
        cls,
        probes: Sequence[Probe],
        *,
        argument: str,
        default: Probe | None = None,
        question: str = "",
        reference: str = "",
    ) -> ProbeFamily:
        """A choice among some probes, by what follows the colon in the names of their tasks.

        Args:
            probes: the probes, whose names begin alike.
            argument: as the field of that name.
            default: as the field of that name.
            question: that of the default, or of the first probe, when left out.
            reference: the same.
        """
        stem = probes[0].task.partition(":")[0]
        by_name = {probe.task.partition(":")[2]: probe for probe in probes}

        def make(name: str) -> Probe:
            known = name.lower().replace("-", "_")
            if known not in by_name:
                hint = f"; or {stem} alone" if default is not None else ""
                if near := get_close_matches(known[:_MOST_COMPARED], by_name, cutoff=0.6):
                    hint += f"; did you mean {' or '.join(near)}?"
                raise NameNotFoundError(f"task {stem}:{name}: it should be one of {', '.join(by_name)}{hint}")
            return by_name[known]

        first = probes[0] if default is None else default
        return cls(argument, tuple(by_name), question or first.question, reference or first.reference, make, default)
