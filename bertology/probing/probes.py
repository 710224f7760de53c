"""The base classes of probes, and the registry of those that are installed or known to this process."""

import dataclasses
import inspect
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np

from bertology import encoders
from bertology._files import digest
from bertology._names import Registered, Registry, name_not_found
from bertology._settings import checked_settings
from bertology.activations.progress import Progress, silent
from bertology.corpora import Sentences
from bertology.encoders.batching import OnLong
from bertology.errors import BertologyError, NameNotFoundError, quoted
from bertology.measures import Metric, find_metric
from bertology.probing.items import Examples, Splits, layer_examples, target_examples, tree_examples
from bertology.readouts import readout_kind

_KINDS = "a RepresentationProbe, a ClozeProbe, an AttentionProbe, a GateProbe"
_MOST_COMPARED = 80  # characters of an unknown name that are compared with those there are
SplitName = Literal["train", "dev", "test"]  # the role of a split of a corpus, whatever the corpus calls it


Subject = Literal[
    "word classes",
    "syntax",
    "meaning",
    "facts",
    "heads",
    "vectors",
    "languages",
    "models compared",
    "causes",
    "labels of your own",
]
"""Subjects of tasks, in the order in which lists have them."""


class ControlNote(NamedTuple):
    """The description of a control or baseline in tables."""

    name: str
    """Name of the control in requests: ``word_majority``."""
    label: str
    """Display name: ``word majority``."""
    text: str
    """Explanation for the note below the table."""


class Probe(ABC):
    """A question put to an encoder, and how its answers are scored.

    What follows the abstract members has defaults that suit most kinds of probes.
    """

    task_form: ClassVar[str] = ""
    """Name of the task with fields of the probe in braces: ``feats:{feature}``."""

    @property
    def task(self) -> str:
        """The task's name, as its file (and after a colon its argument): ``pos``, ``feats:Number``.

        By default :attr:`task_form` with the values of fields in it.
        """
        return self.task_form.format_map(vars(self))

    version: ClassVar[int] = 1
    """Raised by every change that moves scores."""

    @property
    def question(self) -> str:
        """Research question of the task, in one line; the first line of the docstring of its class by default."""
        return _stated_question(type(self))

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
    @abstractmethod
    def family(self) -> str:
        """Registered name of the task family that computes it; kinds of probes state it as a class attribute."""

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """The splits of the corpus whose text is read; none for a task with items of its own."""
        return ("train", "dev", "test")

    @property
    def splits_needed(self) -> tuple[SplitName, ...]:
        """The splits that the corpus has to have."""
        return self.reads

    @property
    def baselines(self) -> tuple[ControlNote, ...]:
        """Baselines of the probe's own, which read no layer, with what tables show of each."""
        return ()

    @property
    def controls(self) -> tuple[ControlNote, ...]:
        """Controls of the probe's own, computed by layer; that of ``none`` is a note on the task itself."""
        return ()

    @property
    def knows_chance(self) -> bool:
        """Whether the chance level is known by construction: then random weights are run only if they are asked for."""
        return False

    subject: ClassVar[Subject] = "meaning"
    """Subject of the task, by which lists are grouped."""
    fixed_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of a kind of probe that state what is asked and are no settings, besides those that every probe has."""
    needs_reference: ClassVar[bool] = False
    """Whether a model is compared with its reference; models without one are left out."""
    asks_random_weights: ClassVar[bool] = True
    """Whether the model with random weights is a control of the task."""
    most_draws: ClassVar[int | None] = None
    """Maximum number of random initialisations; None for as many as are asked for."""

    def stands_for(self, splits: Callable[[], Mapping[str, Sentences]]) -> Mapping[str, str] | None:
        """The tasks that a name such as ``feats:all`` stands for, those left out with the reason; else None.

        ``splits`` reads the corpus: its sentences by ``train``, ``dev`` and ``test``.
        """
        return None

    @property
    def scores(self) -> tuple[Metric, ...]:
        """Metrics of the task as :class:`Metric` objects, the main one first.

        Raises:
            NameNotFoundError: one of them is not registered.
        """
        return tuple(map(find_metric, self.metrics))

    def with_settings(self, settings: Mapping[str, Any]) -> Self:
        """The same question with other settings.

        Raises:
            NameNotFoundError: there is no such setting.
            FitError: a setting is of another kind than it should be.
        """
        kinds = type(self).__mro__
        what_it_is = {name for kind in kinds for name, member in vars(kind).items() if isinstance(member, property)}
        what_it_is |= {*self.fixed_fields}
        chosen = checked_settings(settings, type(self), owner=f"task {self.task}", fixed=frozenset(what_it_is))
        # That a probe is a dataclass is part of the contract, which types cannot say of an abstract class.
        return dataclasses.replace(self, **chosen) if chosen else self  # type: ignore[type-var]


class RepresentationProbe(Probe):
    """A question put to word vectors: can this label be read off them, and in which layer?

    Subclasses are frozen dataclasses without state. They state what is asked (:meth:`examples`) and how it is scored;
    the core reads the encoder, fits every layer at once, and makes controls, intervals and tables.
    """

    @property
    def family(self) -> str:
        """The family of what its readout predicts: labels, numbers or trees."""
        reads = readout_kind(self.readout).reads
        return reads if reads in ("trees", "numbers") else "labels"

    asked_by = "examples"
    whole_texts: ClassVar[str] = ""
    """The remedy for texts longer than the model takes, where items need their text to be read at once; else empty."""

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

    def split_examples(self, sentences: Sentences, split: str) -> Examples:
        """The items of a split where they depend on what it is used for (``train``, ``dev``, ``test``)."""
        return self.examples(sentences)


@dataclass(frozen=True, eq=False)
class RunningModel:
    """An open model, to be left as it is found, and what a probe measures on it."""

    encoder: "encoders.Encoder"
    sentences: Splits
    """The splits that the probe reads."""
    layers: Sequence[int]
    """The layers that are asked about, those of heads from 1; a statistic may be of fewer."""
    items: Any = None
    """Items of the probe's own; None where it reads splits."""
    on_long: OnLong = "window"
    """Treatment of sentences longer than the model takes, as in :meth:`bertology.Encoder.tokenize`."""
    progress: Progress = silent
    run: Path | None = None
    """Run directory, for what tasks fit once together; None where there is none."""


def labels_in(probe: Probe, sentences: Sentences) -> tuple[str, ...]:
    """The labels that a probe finds in some sentences; none where it asks for no labels."""
    return probe.examples(sentences).values if isinstance(probe, RepresentationProbe) else ()


@dataclass(frozen=True, kw_only=True)
class AnnotationProbe(RepresentationProbe):
    """A question that an annotation of the corpus answers: a line in a table. None of its fields is a setting."""

    task: str = ""
    question: str = ""
    reference: str = ""
    about: str = ""
    subject: Subject = "meaning"  # type: ignore[misc]
    readout: str = "linear.v1"
    metrics: tuple[str | Metric, ...] = ("accuracy", "macro_f1")
    layer: str = ""  # the layer of annotation, such as `upos` or `srl`
    spans: Literal[0, 1, 2] = 0  # number of spans of an item; 0 for a layer of labels of words
    tree: Literal["", "distances", "depths", "arcs"] = ""
    """The quantity of a sentence's tree that is asked about, instead of a layer."""
    fixed_fields = ("subject", "layer", "spans", "tree")

    def examples(self, sentences: Sentences) -> Examples:
        """Every item that has a label in the layer, or every sentence with its tree."""
        if self.tree:
            return tree_examples(sentences, self.tree)
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
    """Description of the argument."""
    instances: tuple[str, ...]
    """A few arguments to show in listings."""
    question: str
    reference: str
    make: Callable[[str], Probe]
    """The probe of an argument; it is an error if there is none."""
    default: Probe | None = None
    """The probe without an argument; None where there must be one."""

    @property
    def example(self) -> Probe:
        """The probe without an argument, or with the first of those that are shown."""
        return self.default or self.make(self.instances[0])

    @property
    def subject(self) -> Subject:
        """Subject of its probes."""
        return self.example.subject

    @classmethod
    def among(
        cls,
        probes: Sequence[Probe],
        *,
        argument: str,
        default: Probe | None = None,
        question: str = "",
        reference: str = "",
        further: Callable[[str], Probe | None] | None = None,
    ) -> "ProbeFamily":
        """A choice among some probes, by what follows the colon in the names of their tasks, which begin alike.

        Question and reference are those of the default, or of the first probe, when left out. Of any other argument
        ``further`` gives the probe, None if there is none.
        """
        stem = probes[0].task.partition(":")[0]
        by_name = {probe.task.partition(":")[2]: probe for probe in probes}

        def make(name: str) -> Probe:
            known = name.lower().replace("-", "_")
            if known not in by_name:
                if further is not None and (probe := further(name)) is not None:
                    return probe
                hint = f"; or {stem} alone" if default is not None else ""
                if near := get_close_matches(known[:_MOST_COMPARED], by_name, cutoff=0.6):
                    hint += f"; did you mean {' or '.join(near)}?"
                which = "one of" if further is None else f"a {argument}, such as"
                raise NameNotFoundError(f"task {stem}:{name}: it should be {which} {', '.join(by_name)}{hint}")
            return by_name[known]

        first = probes[0] if default is None else default
        return cls(argument, tuple(by_name), question or first.question, reference or first.reference, make, default)


RegisteredProbe = Registered[Probe | ProbeFamily]


def _registered_name(component: Probe | ProbeFamily) -> str | None:
    return f"{_stem(component)}.v{component.version}" if isinstance(component, Probe) else None


_EXPECTED = f"{_KINDS} or a ProbeFamily"
_REGISTRY = Registry[Probe | ProbeFamily](
    "probe", "bertology.probes", "pos.v1", Probe | ProbeFamily, _EXPECTED, _registered_name
)
OF_PROCESS: dict[str, Probe] = {}  # probes made known to this process alone, by task


def registered_probes() -> Mapping[str, RegisteredProbe]:
    """All versions of all installed probes by registered name (``pos.v1``), not yet imported."""
    return _REGISTRY.registered()


def get_probe(name: str) -> Probe:
    """The probe called ``name``: ``pos`` (the newest), ``pos.v1`` (that version), ``feats:Number`` (with argument).

    Those that are installed, and those of :func:`register_probe`. ``-`` and ``_`` are the same.

    Raises:
        NameNotFoundError: no such probe; the message names the nearest ones.
        BertologyError: it needs an argument, or takes none.
    """
    before, _, after = name.partition(":")
    plain, argument = before.strip().lower().replace("-", "_"), after.strip()
    newest = _REGISTRY.newest(plain)
    if newest is None:
        for known in OF_PROCESS.values():
            stem, _, own = known.task.partition(":")
            if plain in (stem, f"{stem}.v{known.version}") and argument == own:
                return known
        tasks = {entry.stem for entry in registered_probes().values()} | {*OF_PROCESS}
        raise name_not_found("task", before.strip(), tasks, remedy="`bertology tasks` lists them")
    component = newest.load()
    if isinstance(component, Probe):
        if argument:
            raise BertologyError(f"task {quoted(plain)} takes no argument: write {plain} instead of {name}")
        return component
    probe = component.make(argument) if argument else component.default
    if probe is None:
        examples = " or ".join(f"{plain}:{instance}" for instance in component.instances[:2])
        raise BertologyError(f"task {quoted(plain)} needs a {component.argument} after a colon, such as {examples}")
    newest.check_name(_registered_name(probe))
    return probe


def labels_of_words(
    task: str, sentences: Sentences, *, asked_by: str, remedy: str = ", as those of pos are"
) -> Examples:
    """The labels that another task gives to single words of a split.

    Errors name the task ``asked_by`` that asks for them, and end with ``remedy`` for a task about spans, or with
    several labels a word.
    """
    probe = get_probe(task)
    if not isinstance(probe, RepresentationProbe):
        raise NameNotFoundError(f"{asked_by}:{task}: {quoted(task)} has no labels of words, as pos has")
    examples = probe.examples(sentences)
    if not examples.are_words or examples.is_multi_label:
        problem = f"items of {quoted(task)} are not single words of one label{remedy}"
        raise NameNotFoundError(f"{asked_by}:{task}: {problem}")
    return examples


T = TypeVar("T", bound=Probe | type[Probe])
_TASK = re.compile(r"[a-z][a-z0-9_]*(:\S+)?")


def register_probe(probe: T) -> T:
    """Make a probe known to this process by the name of its task.

    Then :func:`bertology.probe` and experiments made in Python find it like one that is installed. A probe of the same
    name that was registered before is replaced, so that a cell of a notebook can be run again.

    >>> @register_probe
    ... class Capital(RepresentationProbe): ...  # doctest: +SKIP

    Args:
        probe: a class whose fields all have defaults, as a decorator; or an object.

    Returns:
        What was given.

    Raises:
        BertologyError: it is no complete probe, or an installed probe has the name of its task.
    """
    known_probe(probe)
    return probe


def known_probe(given: Any) -> Probe:
    """A probe object, or one made of a class without required fields, as :func:`register_probe` makes it known."""
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if isinstance(given, type) and issubclass(given, Probe):
        has_question = given.question is not Probe.question or _stated_question(given)
        if lacking := sorted({*getattr(given, "__abstractmethods__", ()), *([] if has_question else ["question"])}):
            raise BertologyError(f"probe {name} does not define {', '.join(lacking)}: every probe of its kind does")
        try:
            given = given()
        except TypeError as error:
            raise BertologyError(f"probe {name} cannot be made without arguments ({error}): give an object") from error
    if not isinstance(given, Probe):
        raise BertologyError(f"{name} is no probe: give the name of a task, or derive the class from {_KINDS} …")
    if problem := _problem(given):
        raise BertologyError(f"probe {name}: {problem}")
    if is_installed(given):
        return given
    if any(entry.stem == _stem(given) for entry in registered_probes().values()):
        remedy = "give the task another name"
        raise BertologyError(f"probe {name}: a probe called {_stem(given)} is installed already; {remedy}")
    OF_PROCESS[given.task] = given
    return given


def _stated_question(kind: type[Probe]) -> str:
    """The first line of the docstring of a class, or of one that it derives from; empty where none has one of its own.

    What dataclasses write where there is none, and the docstrings of abstract kinds of probes, are no questions.
    """
    for one in kind.__mro__:
        doc = (one.__doc__ or "").strip() if issubclass(one, Probe) and not inspect.isabstract(one) else ""
        if doc and not doc.startswith(f"{one.__name__}("):
            return doc.partition("\n")[0]
    return ""


def _problem(probe: Probe) -> str | None:
    """The mistake in a probe's description of itself; None where there is none."""
    if not isinstance(probe.task, str) or not _TASK.fullmatch(probe.task):
        remedy = "small letters, digits and _, and what follows a colon"
        return f"task is {quoted(probe.task)}; it should be of {remedy}"
    if type(probe.version) is not int or probe.version < 0:
        return f"version is {quoted(probe.version)}; it should be a whole number"
    for field in ("question", "reference", "readout"):
        if not isinstance(getattr(probe, field, ""), str):
            return f"{field} is {quoted(getattr(probe, field))}; it should be a text"
    metrics = probe.metrics
    if not isinstance(metrics, tuple) or not metrics or not all(isinstance(one, str | Metric) for one in metrics):
        return f'metrics is {quoted(metrics)}; it should be a tuple such as ("accuracy",)'
    return None


def _stem(probe: Probe) -> str:
    return probe.task.partition(":")[0]


def is_installed(probe: Probe) -> bool:
    """Whether a probe is one that is installed, whose version is raised by every change that moves scores."""
    if f"{_stem(probe)}.v{probe.version}" not in registered_probes():
        return False
    try:
        installed = get_probe(f"{_stem(probe)}.v{probe.version}:{probe.task.partition(':')[2]}")
    except BertologyError:  # the installed ones take no such argument
        return False
    return type(installed) is type(probe) and settings_of(installed) == settings_of(probe)


def settings_of(probe: Probe) -> str:
    """The values of a probe's fields as text."""
    names = [field.name for field in dataclasses.fields(probe)] if dataclasses.is_dataclass(probe) else vars(probe)
    with np.printoptions(threshold=sys.maxsize):
        return repr([(name, getattr(probe, name)) for name in sorted(names)])


def source_fingerprint(probe: Probe) -> str:
    """Hash of the file, or of the cell of a notebook, that defines a probe's class, and of the values of its fields.

    What that file imports is not part of it. The source of a class typed into a console cannot be read.
    """
    kind = type(probe)
    try:
        path = Path(inspect.getfile(kind))
        source = path.read_text(encoding="utf-8") if path.is_file() else inspect.getsource(kind)
    except (OSError, TypeError) as error:
        remedy = "define it in a file or a notebook"
        raise BertologyError(f"task {probe.task}: the source of {kind.__name__} cannot be read; {remedy}") from error
    return digest([source.encode(), settings_of(probe).encode()])
