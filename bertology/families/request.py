"""What a person asks for, checked before anything is computed: requests and readout configurations."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from bertology._files import canonical_json
from bertology._names import layer_number, name_not_found
from bertology.errors import BertologyError, NameNotFoundError, quoted


@dataclass(frozen=True)
class ReadoutConfig:
    """A readout with its settings, and what it is fitted to; several of one task make a sweep.

    Raises:
        BertologyError: a setting is out of bounds.
    """

    readout: str | None = None
    """A registered readout; the task's own when left out."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The readout's own settings, where they are not its defaults."""
    fraction: float = 1.0
    """How much of the training sentences to fit on; a smaller share is part of every larger one."""
    codelength: Literal["online", "variational"] | None = None
    """``online``, or of a readout with a posterior ``variational``: measure how short the training labels can be told
    instead of how well test is predicted (Voita & Titov 2020)."""
    erase: str | None = None
    """A task of words: what a linear readout finds of it is taken out of the vectors first (Elazar et al. 2021)."""
    eraser: Literal["leace", "random"] = "leace"
    """``random``: as many directions are taken out, but any."""
    layers: str | None = None
    """Some of the layers that are read, such as ``3`` or ``0-2,-1``; all of them when left out."""
    pool: str = "mean"
    """The vector that a readout of single vectors has of a sentence, or another span of words: their ``mean`` or
    ``max`` (in each dimension), the ``last`` word's; or of whole sentences ``cls``, the hidden state of the special
    token before the text."""

    def __post_init__(self) -> None:
        if self.pool not in POOLS:
            raise name_not_found("pool", self.pool, POOLS)
        if not 0 < self.fraction <= 1:
            raise BertologyError(f"fraction of the training data is {self.fraction}; it should be over 0 and at most 1")

    @property
    def changes(self) -> dict[str, Any]:
        """What differs from the readout's defaults on all of train: part of a cell's identity and of its rows."""
        changes: dict[str, Any] = dict(sorted(self.settings.items()))
        if self.fraction != 1:
            changes["fraction"] = self.fraction
        if self.codelength is not None:
            changes["codelength"] = self.codelength
        if self.erase is not None:
            changes |= {"erase": self.erase, "eraser": self.eraser}
        if self.pool != "mean":
            changes["pool"] = self.pool
        return changes

    @property
    def title(self) -> str:
        """Its name in messages."""
        return " ".join([str(self.readout), *(f"{name}={value}" for name, value in self.changes.items())])

    @property
    def key(self) -> str:
        """Distinguishes the configurations of a task."""
        return canonical_json([self.readout, self.changes]).decode()


def sweep(
    readout: str | None,
    settings: Mapping[str, Any],
    *,
    fractions: Sequence[float] = (1.0,),
    pools: Sequence[str] = ("mean",),
    **more: Any,
) -> tuple[ReadoutConfig, ...]:
    """Every combination of settings that are given as lists, of fractions and of pools.

    Args:
        readout: a registered readout; the task's own when None.
        settings: values, or lists of values to try one after the other.
        fractions: shares of the training data.
        pools: vectors of a span, as :attr:`ReadoutConfig.pool`.
        more: further fields of :class:`ReadoutConfig`, the same for all.
    """
    names = sorted(settings)
    values = [settings[name] if isinstance(settings[name], list | tuple) else [settings[name]] for name in names]
    return tuple(
        ReadoutConfig(readout, dict(zip(names, chosen, strict=True)), fraction, pool=pool, **more)
        for *chosen, fraction, pool in itertools.product(*values, fractions, pools)
    )


POOLS = ("mean", "max", "last", "cls")
Control = Literal[
    "majority", "word_majority", "length", "lexical", "linear_chain", "random", "control_task", "blind", "offset",
    "nearest", "head_match", "rule", "mean", "word_mean", "first", "last", "diagonal",
]  # fmt: skip
CONTROLS: tuple[Control, ...] = get_args(Control)
Init = Literal["pretrained", "random", "random_blocks"]
_MOST_SEEDS = 100_000
_CHOICES: dict[str, tuple[str, ...]] = {
    "pooling": ("mean", "first", "last"),
    "dtype": ("float32", "bfloat16", "float16"),
    "stored_dtype": ("float16", "float32"),
    "on_long": ("window", "error", "skip"),
    "shared_subwords": ("exclude", "include"),
    "init": ("pretrained", "random", "random_blocks"),
}


def parse_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names in a text with commas, or as they are."""
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())


def parse_controls(controls: str | Sequence[str]) -> tuple[str, ...]:
    """Controls by name: ``all``, ``none``, or some of them with commas; ``-`` and ``_`` are the same."""
    names = parse_names(controls)
    special: dict[tuple[str, ...], tuple[str, ...]] = {("all",): CONTROLS, ("none",): ()}
    return special.get(names, tuple(name.replace("-", "_") for name in names))


def parse_checkpoints(text: str | None) -> str | tuple[int | str, ...] | None:
    """Checkpoints as on the command line: ``all``, a pattern such as ``step*``, or steps and names with commas."""
    if text is None or text == "all" or any(character in text for character in "*?["):
        return text
    return tuple(int(name) if name.isdecimal() else name for name in parse_names(text))


_RANGE = re.compile(r"(-?\d{1,9})(?:\s*-\s*(-?\d{1,9}))?", re.ASCII)
"""A layer, or the first and the last of several: ``3``, ``-1``, ``0-6``, ``-3--1``."""
AS_READ = ("dtype", "stored_dtype", "pooling", "on_long", "shared_subwords", "max_pieces")
"""Settings of how a model is read, which decide its numbers."""


@dataclass(frozen=True, kw_only=True)
class ReferenceModel:
    """The model that another one is compared with, and how it is read; the fields are those of a request."""

    model: str
    model_id: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    init: Init = "pretrained"
    init_seed: int = 0
    step: int | None = None
    pretraining_seed: int | None = None
    dtype: str = "float32"
    stored_dtype: str = "float16"
    pooling: str = "mean"
    on_long: str = "window"
    shared_subwords: str = "exclude"
    max_pieces: int | None = None


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """Tasks put to the layers of one model on one corpus.

    Raises:
        BertologyError: a setting is not among its choices.
    """

    tasks: tuple[str, ...] = ("pos",)
    model: str = "pocket"
    corpus: str = "pocket"
    layers: str = "all"
    """``all``, or numbers and ranges with commas: ``0-6``, ``3,5,-1``."""
    seeds: int = 1
    """Seed 0 is the training split as it is; each further seed draws as many of its sentences with replacement."""
    controls: tuple[str, ...] = CONTROLS
    readout: str | tuple[ReadoutConfig, ...] | None = None
    """Registered readouts, with commas, instead of the probe's own; or readout configurations."""
    pool: str | Sequence[str] = "mean"
    """Vectors of sentences and other spans, with commas or in a sequence: ``mean``, ``max``, ``last``, ``cls``."""
    pooling: str = "mean"
    dtype: str = "float32"
    stored_dtype: str = "float16"
    on_long: str = "window"
    shared_subwords: str = "exclude"
    """``exclude``: words that share all their subwords with another word, as those of French *du*, which is *de* and
    *le*, have one vector between them and are left out, counted; ``include``: they are asked about like others."""
    max_pieces: int | None = None
    device: str = "auto"
    train_split: str = "train"
    test_split: str = "test"
    folds: int | None = None
    """Cross-validate over so many folds instead of fitting on one split and scoring another: every sentence of the
    corpus is scored once, by readouts that were fitted to none of its document or group."""
    max_items: int | None = None
    """Of what cloze tasks ask, so many items of each group, drawn by lot; all when left out."""
    sentences: int | None = None
    """At most so many sentences of each split, the first ones; all when left out."""
    columns: str | None = None
    """What the columns of column files hold: ``form,xpos,chunk``, ``_`` for one to leave out; or which columns of a
    table hold what: ``text=sentence,label=label``. Seen from the file when left out."""
    annotate: str | None = None
    """A spaCy pipeline that labels the corpus, then a raw text file; its labels are silver."""
    revision: str | None = None
    trust_remote_code: bool = False
    model_id: str | None = None
    """What the tables call the model; ``model`` when left out."""
    reference: str | ReferenceModel | None = None
    """The model that tasks of comparison compare ``model`` with, such as the one it was fine-tuned from; a name alone
    stands for pretrained weights, read as ``model`` is."""
    init: Init = "pretrained"
    """``random``: ask fresh weights themselves, not as a control beside pretrained ones; ``random_blocks``: pretrained
    embeddings under fresh blocks, which mix words without having learnt how (Proj0 of Hewitt & Manning 2019)."""
    checkpoints: str | tuple[int | str, ...] | None = None
    """Checkpoints of the model's training, each of which is probed as a model of its own: ``all``, steps, names of
    revisions, or a pattern of names such as ``step*`` (:func:`bertology.encoders.resolving.find_checkpoints`)."""
    step: int | None = None
    """Number of updates that the model has had, for the column ``step`` of the rows; known of ``checkpoints``."""
    pretraining_seed: int | None = None
    """Which of several trainings that differ in their seed alone the model is of."""
    init_seed: int = 0
    """Seed of those fresh weights; the draws of the control ``random`` have the seeds 0, 10000, 20000 …"""
    random_draws: int | Literal["auto"] = "auto"
    """Draws of random weights that the control ``random`` is the mean of; ``auto``: one, and none for a choice between
    given answers, whose chance level is known, unless ``controls`` names some, ``random`` among them. Tasks about
    attention heads have at most one."""
    configs: Mapping[str, tuple[ReadoutConfig, ...]] = field(default_factory=dict)
    """By task, its readout configurations, instead of ``readout``."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise name_not_found(name.replace("_", " "), getattr(self, name), choices)
        for pool in parse_names(self.pool) or ("",):
            if pool not in POOLS:
                raise name_not_found("pool", pool, POOLS)
        if self.pool != "mean" and isinstance(self.readout, tuple):
            raise BertologyError(
                "pool is given twice: leave it out next to a readout that is a mapping, or write it there"
            )
        for control in self.controls:
            if control not in CONTROLS:
                raise name_not_found("control", control, CONTROLS)
        if not self.tasks:
            raise BertologyError("no task is asked for; `bertology tasks` lists them")
        for name, least in (("seeds", 1), ("folds", 2), ("max_items", 1), ("sentences", 2), ("max_pieces", 8)):
            if (value := getattr(self, name)) is not None and value < least:
                raise BertologyError(f"{name} is {value}; it should be at least {least}")
        if self.checkpoints is not None and self.step is not None:
            raise BertologyError("checkpoints have their own steps: leave step out")
        if self.checkpoints is not None and self.init == "random":
            raise BertologyError("random weights have no checkpoints: leave checkpoints out")
        if self.seeds > _MOST_SEEDS:
            raise BertologyError(f"seeds is {quoted(self.seeds)}; it should be at most {_MOST_SEEDS:,}")
        if self.random_draws != "auto" and (not isinstance(self.random_draws, int) or self.random_draws < 1):
            raise BertologyError(f"random_draws is {self.random_draws!r}; it should be auto, or a number of at least 1")

    @property
    def n_draws(self) -> int:
        """Draws of random weights."""
        return 1 if self.random_draws == "auto" else self.random_draws

    @property
    def of_reference(self) -> ProbeRequest | None:
        """The same request of the reference model; None where there is none."""
        if self.reference is None:
            return None
        if isinstance(self.reference, ReferenceModel):
            return replace(self, reference=None, checkpoints=None, **asdict(self.reference))
        read = {name: getattr(self, name) for name in ("trust_remote_code", *AS_READ)}
        return replace(self, reference=ReferenceModel(model=self.reference, **read)).of_reference

    def configs_of(self, task: str) -> tuple[ReadoutConfig, ...]:
        """The readout configurations of a task, at least one."""
        if chosen := self.configs.get(task) or (self.readout if isinstance(self.readout, tuple) else None):
            return chosen
        names = parse_names(self.readout) if isinstance(self.readout, str) and self.readout else (None,)
        return tuple(ReadoutConfig(name, pool=pool) for name in names for pool in parse_names(self.pool))


def parse_layers(spec: str | Sequence[int], n_layers: int) -> tuple[int, ...]:
    """Layers as numbers, ascending: 0 the embeddings, 1…``n_layers`` the blocks.

    Args:
        spec: ``all``; or numbers and ranges with commas, negative ones counted from the last layer (−1); or numbers.
        n_layers: how many blocks the model has.

    Raises:
        NameNotFoundError: a layer that the model does not have, or a text that names none.
    """
    if isinstance(spec, str) and spec.strip().lower() == "all":
        return tuple(range(n_layers + 1))
    layers: set[int] = set()
    for part in map(str.strip, spec.split(",")) if isinstance(spec, str) else map(str, spec):
        ends = _RANGE.fullmatch(part)
        if ends is None:
            raise _no_layer(part, n_layers)
        low, high = (layer_number(int(end), n_layers) for end in (ends[1], ends[2] or ends[1]))
        if not 0 <= low <= high <= n_layers:
            raise _no_layer(part, n_layers)
        layers.update(range(low, high + 1))
    if not layers:
        raise _no_layer(str(spec), n_layers)
    return tuple(sorted(layers))


def _no_layer(part: str, n_layers: int) -> NameNotFoundError:
    return NameNotFoundError(
        f"layer {quoted(part)}: the model has layers 0 (embeddings) to {n_layers}; "
        f"write all, numbers or ranges such as 0-{n_layers} or 1,-1"
    )
