"""The settings of a run: one model, from which YAML schema, options, keyword arguments and identities are made.

:class:`Experiment` is all of it: models × corpora × tasks × layers × seeds × controls. A :class:`ProbeRequest` is an
experiment with one model and one corpus, whose settings may be given flat, as keyword arguments. Each setting is
described where it stands; the JSON Schema for editors and the help of the command line are made of these descriptions.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal

import pydantic
from pydantic_core import CoreSchema, core_schema

from bertology import encoders
from bertology._files import canonical_json
from bertology._names import checkpoint_name, layer_number
from bertology._settings import Name, OrName, Settings, Text, Truth, Whole, problem_of
from bertology.corpora import kept_name, kept_table, load_corpus
from bertology.corpora.prompts import names_items
from bertology.encoders.sources import held_dtype
from bertology.errors import BertologyError, NameNotFoundError, cut, quoted
from bertology.measures.intervals import N_RESAMPLES
from bertology.probing import get_probe

RANDOM: Literal["random"] = "random"
"""Fresh weights: an initialisation of a model, and the control of a pretrained one."""
Init = Literal["pretrained", "random", "random_blocks"]
Pool = Literal["mean", "max", "last", "cls"]
Count = Annotated[int, pydantic.Field(strict=True, ge=1)]
AS_READ = ("dtype", "stored_dtype", "pooling", "on_long", "shared_subwords", "max_pieces")
"""Settings of how a model is read, which decide its numbers."""
_OF_FILES = (str, int, float, list, Mapping, type(None))
"""Types that a file can hold; everything else is an object of Python."""
_Share = Annotated[float, pydantic.Field(gt=0, le=1)]
_MOST_SEEDS = 100_000
_RANGE = re.compile(r"(-?\d{1,9})(?:\s*-\s*(-?\d{1,9}))?", re.ASCII)
"""A layer, or the first and the last of several: ``3``, ``-1``, ``0-6``, ``-3--1``."""


def parse_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names in a text with commas, or as they are."""
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(filter(None, map(str.strip, parts)))


def parse_layers(spec: str | int | Sequence[int], n_layers: int) -> tuple[int, ...]:
    """Layers as numbers, ascending: 0 the embeddings, 1…``n_layers`` the blocks.

    Args:
        spec: ``all``; or numbers and ranges with commas, negative ones counted from the last layer (−1); or a number,
            or several.
        n_layers: how many blocks the model has.

    Raises:
        NameNotFoundError: a layer that the model does not have, or a text that names none.
    """
    if isinstance(spec, str) and spec.strip().lower() == "all":
        return tuple(range(n_layers + 1))
    layers, spec = set[int](), str(spec) if isinstance(spec, int) else spec
    for part in [one.strip() for one in spec.split(",")] if isinstance(spec, str) else [*map(str, spec)] or ["none"]:
        ends = _RANGE.fullmatch(part)
        low, high = (layer_number(int(ends[at] or ends[1]), n_layers) for at in (1, 2)) if ends else (-1, -1)
        if not 0 <= low <= high <= n_layers:
            raise NameNotFoundError(
                f"layer {quoted(part)}: the model has layers 0 (embeddings) to {n_layers}; "
                f"write all, numbers or ranges such as 0-{n_layers} or 1,-1"
            )
        layers.update(range(low, high + 1))
    return tuple(sorted(layers))


class Controls(tuple[str, ...]):
    """The controls that are asked for: some by name, or all that the tasks have, among which every name is.

    >>> "majority" in Controls(["all"]), "majority" in Controls(["random"])
    (True, False)
    """

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: pydantic.GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls, handler.generate_schema(tuple[Text, ...]))

    def __contains__(self, name: object) -> bool:
        return self == ("all",) or super().__contains__(name)


ALL_CONTROLS = Controls(["all"])
Given = Literal["nothing", "embeddings", "form"]
"""The knowledge about a label beyond which vectors have usable information."""


@dataclass(frozen=True)
class ReadoutConfig:
    """One readout with its settings and what it is fitted to: one point of the sweep of :class:`ReadoutSettings`."""

    readout: str | None = None
    """A registered readout; the task's own when left out."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    fraction: float = 1.0
    codelength: Literal["online", "variational"] | None = None
    given: Given | None = None
    erase: str | None = None
    eraser: Literal["leace", "random"] = "leace"
    layers: str | None = None
    pool: str = "mean"
    seeds: int | None = None
    random: bool = True

    @property
    def changes(self) -> dict[str, Any]:
        """The differences from the readout's defaults on all of train: part of a cell's identity and of its rows."""
        named = ("fraction", "codelength", "given", "erase", *(["eraser"] if self.erase else []), "pool")
        stated = {name: getattr(self, name) for name in named}
        default = vars(ReadoutConfig()) | {"eraser": None}
        return dict(sorted(self.settings.items())) | {name: of for name, of in stated.items() if of != default[name]}

    @property
    def of_labels(self) -> str:
        """The settings in use that only readouts of labels have, such as ``codelength``; empty without any."""
        return " and ".join(name for name in ("codelength", "given", "erase") if getattr(self, name) is not None)

    @property
    def title(self) -> str:
        """Its name in messages."""
        return " ".join([str(self.readout), *(f"{name}={value}" for name, value in self.changes.items())])

    @property
    def key(self) -> str:
        """Distinguishes the configurations of a task."""
        return canonical_json([self.readout, self.changes]).decode()


class _Named(OrName):
    """Settings that may be written as a bare name, or name an object of Python."""

    name: Text | None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        if isinstance(given, str) or not isinstance(given, (*_OF_FILES, Settings)):
            given = {"name": given}
        is_named = isinstance(given, Mapping) and not isinstance(given.get("name"), _OF_FILES)
        return cls._with_name(dict(given)) if is_named else given

    @classmethod
    def _with_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings with a name in place of an object of Python."""
        return settings


def _checkpoints(given: Any) -> Any:
    """Checkpoints in a text, as on the command line: steps and names with commas become a list."""
    if not isinstance(given, str) or given == "all" or any(character in given for character in "*?["):
        return given
    return tuple(int(name) if name.isdecimal() else name for name in parse_names(given))


class ModelSettings(_Named):
    """An encoder, and how it is read."""

    name: Text
    """`pocket`, a folder in Hugging Face layout, or a hub id."""
    id: Text | None = None
    """Name in tables; by default the model name, with `-random` or `-random-blocks` for fresh weights."""
    init: Init = "pretrained"
    """`random`: the same architecture with fresh weights; `random_blocks`: fresh blocks over pretrained embeddings,
    which mix words without having learnt how (Proj0 of Hewitt & Manning 2019)."""
    init_seed: Annotated[int, pydantic.Field(strict=True, ge=0)] = 1
    """Seed of a random initialisation. Those of the control `random` have the seeds 0, 10000, 20000 …"""
    revision: Text | None = None
    """Branch, tag or commit of a hub model."""
    checkpoints: Annotated[
        Text | tuple[Annotated[int, pydantic.Field(strict=True, ge=0)] | Text, ...] | None,
        pydantic.BeforeValidator(_checkpoints),
    ] = None
    """Checkpoints of the model's training, each probed as a separate model: `all`, steps or revisions with commas, or a
    pattern of their names, such as `step*`."""
    step: Annotated[int, pydantic.Field(strict=True, ge=0)] | None = None
    """Number of training updates, if the model is one checkpoint of a training."""
    pretraining_seed: Annotated[int, pydantic.Field(strict=True, ge=0)] | None = None
    """Seed of the pretraining, where several trainings with the same `id` differ in it alone."""
    dtype: Literal["float32", "bfloat16", "float16", "tf32"] = "float32"
    """Type that the model computes in: float32, bfloat16, float16, or on a GPU tf32."""
    stored_dtype: Literal["float16", "float32"] = "float16"
    """Type that vectors are stored in: float16 or float32."""
    pooling: Literal["mean", "first", "last"] = "mean"
    """A word's vector from its subwords': mean, first or last."""
    on_long: Literal["window", "error", "skip"] = "window"
    """Sentences too long for the model: window (read in overlapping windows), error or skip."""
    shared_subwords: Literal["exclude", "include"] = "exclude"
    """Words that share all subwords with another word, as *de* and *le* of French *du*: exclude or include."""
    max_pieces: Annotated[int, pydantic.Field(strict=True, ge=8)] | None = None
    """Maximum number of subwords in a window."""
    trust_remote_code: Truth = False
    """Run Python code that comes with a model."""
    reference: "Text | ModelSettings | None" = None
    """The model that comparison tasks compare this one with: the id or name of another model of the list; else a
    model by its name, read as this one is, or by a mapping such as this one."""

    @classmethod
    def _with_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """A model in memory is named by its files, or as an object in this process, which computes in its own type."""
        name = encoders.model_name(settings["name"])
        dtype = held_dtype(name)
        return {**({} if dtype is None else {"dtype": dtype}), **settings, "name": name}

    @property
    def title(self) -> str:
        """Its name in tables."""
        return checkpoint_name(self.training, pretraining_seed=self.pretraining_seed, step=self.step)

    @property
    def training(self) -> str:
        """The name without seed and step, which the checkpoints of a training and its seeds have in common."""
        return self.id or (self.name if self.init == "pretrained" else f"{self.name}-{self.init.replace('_', '-')}")

    @pydantic.model_validator(mode="after")
    def _checkpoints_of_what(self) -> "ModelSettings":
        if self.checkpoints is not None and self.step is not None:
            raise ValueError("checkpoints have their own steps: leave step out")
        if self.checkpoints is not None and self.init == "random":
            raise ValueError("random weights have no checkpoints: leave checkpoints out")
        return self


class CorpusSettings(_Named):
    """A corpus, and which of its sentences are used."""

    name: Text
    """`pocket`, `ud:en_ewt`, or the path of a folder or file."""
    id: Text | None = None
    """Name in tables; by default the corpus's own name."""
    train_split: Text = "train"
    """Split to fit on."""
    test_split: Text = "test"
    """Split to score on."""
    test_on: Text | None = None
    """Another corpus, by name or path, whose `test_split` is scored instead: how well a probe carries over to it."""
    columns: Text | None = None
    """Contents of the columns of column files: `form,xpos,chunk`, with `_` for one to leave out; or which columns of a
    table hold what: `text=sentence,label=label` (in quotes inside of braces), of cloze tasks
    `good=sentence,bad=other,group=phenomenon`. Detected from the files when left out."""
    test_on_columns: Text | None = None
    """The contents of the columns of the files of `test_on`, as in `columns`."""
    annotate: Text | None = None
    """A spaCy pipeline that labels the corpus, then a raw text file; its labels are silver."""
    sentences: Annotated[int, pydantic.Field(strict=True, ge=2)] | None = None
    """Maximum number of sentences of each split; the first ones are used. All when left out."""
    folds: Annotated[int, pydantic.Field(strict=True, ge=2)] | None = None
    """Cross-validate over so many folds of documents (or groups; else sentences) instead of fitting on one split and
    scoring another: each sentence is scored once, by readouts that were fitted to none of its document."""
    items: Count | None = None
    """Maximum number of items of each group of a cloze task, drawn at random; all when left out."""

    @classmethod
    def _with_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Data in memory are named by their content."""
        data, columns = settings.pop("name"), settings.pop("columns", None)
        if columns is not None and names_items(columns) and (table := kept_table(data)) is not None:
            return {**settings, "name": table, "columns": columns}
        return {**settings, "name": kept_name(load_corpus(data, columns=columns))}

    @property
    def title(self) -> str:
        """Distinguishes it from other corpora."""
        return self.id or self.name

    @pydantic.model_validator(mode="after")
    def _columns_of_what(self) -> "CorpusSettings":
        if self.test_on_columns is not None and self.test_on is None:
            raise ValueError("test_on_columns says what the columns of test_on hold, which is left out")
        if self.folds is not None and self.test_on is not None:
            raise ValueError("folds score the corpus itself: leave folds or test_on out")
        return self


class ReadoutSettings(_Named):
    """A readout and what it is fitted to; lists make a sweep of every combination."""

    name: Text | None = None
    """A registered readout: `linear`, `mlp.v1`, `edge_mix`; the task's own when left out."""
    settings: Mapping[str, Any] = {}
    """The readout's own settings, such as `hidden: 64`; a list is a sweep over its values."""
    fraction: _Share | tuple[_Share, ...] = 1.0
    """Share of the training sentences to fit on; smaller samples are subsets of larger ones."""
    codelength: Literal["online", "variational"] | None = None
    """Measure the codelength of the training labels, in bits (Voita & Titov 2020): `online`, or with the readout
    `bayes` `variational`."""
    given: Given | None = None
    """Measure usable information about the labels, in bits (Xu et al. 2020; Hewitt et al. 2021): given `nothing`,
    beyond layer 0 (`embeddings`), or beyond what the written form tells (`form`)."""
    erase: Text | None = None
    """A task on words whose linearly decodable information is first erased from the vectors (Elazar et al. 2021)."""
    eraser: Literal["leace", "random"] = "leace"
    """`leace`: erase the task; `random`: erase as many random directions, as a control for their number."""
    layers: Whole | Text | tuple[Whole, ...] | None = None
    """Only these of the experiment's layers: `3`, `0-2,-1` or a list; all of them when left out."""
    pool: Pool | tuple[Pool, ...] = "mean"
    """The vector of a sentence or other span of words: `mean` or `max` of its words, its `last` word; of whole
    sentences `cls`, the special token before the text. A list is a sweep."""
    seeds: Count | None = None
    """Fits of this readout; as many as those of the experiment when left out."""
    random: Truth = True
    """Whether random weights are a control of this readout, where they are a control of the experiment."""

    @classmethod
    def _with_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """One readout configuration; a list among its settings is a value, not a sweep."""
        if not isinstance(config := settings["name"], ReadoutConfig):
            return settings
        values = {key: [value] if isinstance(value, list | tuple) else value for key, value in config.settings.items()}
        shared = {key: value for key, value in vars(config).items() if key != "readout"}
        return {**settings, **shared, "name": config.readout, "settings": values}

    @property
    def configs(self) -> tuple[ReadoutConfig, ...]:
        """Every combination."""
        names = sorted(self.settings)
        values = [value if isinstance(value := self.settings[name], list | tuple) else [value] for name in names]
        layers = None if self.layers is None else ",".join(map(str, _several(self.layers))) or None
        shared = {name: getattr(self, name) for name in ("codelength", "given", "erase", "eraser", "seeds", "random")}
        return tuple(
            ReadoutConfig(self.name, dict(zip(names, chosen, strict=True)), share, pool=pool, layers=layers, **shared)
            for *chosen, share, pool in itertools.product(*values, _several(self.fraction), _several(self.pool))
        )


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class TaskSettings(_Named):
    """A question put to the vectors."""

    name: Text
    """Name of a task as `bertology tasks` lists it: `pos`, `feats:Number`."""
    readout: ReadoutSettings | tuple[ReadoutSettings, ...] | None = None
    """Registered readouts instead of the task's own: a name, a mapping, or a list of them."""
    corpora: tuple[Text, ...] | None = None
    """Only these corpora, by id or name; all of the experiment's when left out."""
    models: tuple[Text, ...] | None = None
    """Only these models, by id or name; all of the experiment's when left out."""

    @property
    def title(self) -> str:
        """Distinguishes it from other tasks."""
        return self.name.replace("-", "_")

    @property
    def configs(self) -> tuple[ReadoutConfig, ...]:
        """The readout configurations; none where the task's own readout is used."""
        readouts = () if self.readout is None else _several(self.readout)
        return tuple(config for one in readouts for config in one.configs)


def _controls(given: Any) -> Any:
    """Controls as their names: ``none``, or some of them in a text with commas, are a list."""
    if isinstance(given, str):
        return () if given == "none" else parse_names(given.replace("-", "_"))
    return given


def _or_with_commas(schema: dict[str, Any]) -> None:
    """Let editors take ``all``, ``none`` or a text with commas where they take a list of controls."""
    listed = {key: schema.pop(key) for key in ("items", "type")}
    schema["anyOf"] = [{"type": "string", "pattern": r"^(\s*[\w-]+\s*(,|$))+$"}, listed]
    schema["default"] = "all"


class StatisticsSettings(Settings):
    """Settings of intervals and comparisons."""

    resamples: Annotated[int, pydantic.Field(strict=True, ge=100, le=100_000)] = N_RESAMPLES
    """Bootstrap resamples of the test sentences, and of seeds and draws where there are several. Intervals are made of
    what is kept of finished fits, so that another number changes no fit."""
    seed: Annotated[int, pydantic.Field(strict=True, ge=0)] = 0
    """Seed of the resampling."""
    compare_layers: Truth = True
    """Compare all pairs of layers of a model on a task and corpus; their p-values are corrected together
    (Benjamini–Hochberg)."""


class OutputSettings(Settings):
    """The files written next to the tidy tables and predictions."""

    tables: tuple[Literal["md", "csv", "tex"], ...] = ("md", "tex")
    """Formats of the formatted tables."""
    plots: tuple[Literal["png", "svg", "pdf"], ...] = ("png", "svg", "pdf")
    """Formats of the plot."""


class Experiment(Settings):
    """An experiment: models × corpora × tasks × layers × seeds × controls, resolved into cells before anything runs.

    In Python a model or corpus may also be an object: an encoder, a pair (model, tokenizer), a DataFrame, a
    :class:`~bertology.Corpus`; alone or as ``name`` of a mapping, as in ``Experiment(name="mine", models=[encoder],
    corpora=[{"name": frame, "columns": "text=t"}], tasks=["pos"])``.
    """

    is_request: ClassVar[bool] = False
    """Whether it is about one model and one corpus, which are called as their files are."""

    name: Name
    """Up to 100 letters, digits, `-`, `_` and `.`; the run's folder is called so."""
    models: Annotated[tuple[ModelSettings, ...], pydantic.Field(min_length=1)]
    """Encoders, each a name or a mapping."""
    corpora: Annotated[tuple[CorpusSettings, ...], pydantic.Field(min_length=1)]
    """Corpora, each a name or a mapping. Paths are relative to the working directory."""
    tasks: Annotated[tuple[TaskSettings, ...], pydantic.Field(min_length=1)]
    """Tasks, each a name or a mapping."""
    layers: Text | Whole | tuple[Whole, ...] = "all"
    """`all`; a number; numbers and ranges with commas as text, such as `0-6` or `3,5,-1`; or a list of numbers. 0 is
    the embeddings, -1 the last layer."""
    seeds: Count = 1
    """Fits: one on all of train, further ones on resamples of its sentences."""
    controls: Annotated[
        Controls, pydantic.BeforeValidator(_controls), pydantic.Field(json_schema_extra=_or_with_commas)
    ] = ALL_CONTROLS
    """Controls: `all`, `none`, a list or a text with commas: `majority`, `word_majority`, of spans
    `lexical` (their words without a vector), of sentences `length` (the number of words), of trees
    `linear_chain`, `random` (a pretrained encoder with random weights), `control_task` (Hewitt & Liang 2019); of texts
    `blind` (the deciding words masked); of attention heads `offset` (a word at a fixed distance), of mentions
    `nearest`, `head_match` (the same head word) and `rule` (the nearest that agrees); of numbers `mean` and
    `word_mean`; of word order `first` and `last`; of word alignments `diagonal` (the same relative place)."""
    random_draws: Literal["auto"] | Count = "auto"
    """Number of random initialisations whose mean is the control `random`; `auto`: one, and none for choices between
    given answers, whose chance level is known, unless `controls` names some, `random` among them."""
    statistics: StatisticsSettings = StatisticsSettings()
    """Computation of intervals and comparisons."""
    outputs: OutputSettings = OutputSettings()
    """Files written next to the tidy tables."""
    device: Text = "auto"
    """auto, cpu, cuda, cuda:1 or mps."""

    @pydantic.field_serializer("controls")
    def _all_of_them(self, controls: tuple[str, ...]) -> Any:
        return "all" if controls == ALL_CONTROLS else controls

    @pydantic.field_validator("models", "corpora", "tasks")
    @classmethod
    def _no_name_twice(cls, settings: tuple[Any, ...]) -> tuple[Any, ...]:
        known = set[str]()
        for setting in settings:
            if setting.title in known:
                remedy = "name each once" if isinstance(setting, TaskSettings) else "give each an id of its own"
                raise ValueError(f"two are called {quoted(setting.title)}: {remedy}")
            known.add(setting.title)
        return settings

    @pydantic.model_validator(mode="after")
    def _parts_of_tasks(self) -> "Experiment":
        parts: Any = {"corpora": ("corpus", self.corpora), "models": ("model", self.models)}
        for task, (kind, (what, every)) in itertools.product(self.tasks, parts.items()):
            known = {name for one in every for name in (one.id, one.name) if name}
            for name in getattr(task, kind) or ():
                if name not in known:
                    names = cut(", ".join(sorted(known)))
                    raise ValueError(f"task {cut(task.name)} asks for {what} {quoted(name)}: there is {names}")
        return self

    @property
    def layer_spec(self) -> str:
        """The layers as one text."""
        return ",".join(map(str, _several(self.layers))) or "none"

    @property
    def n_draws(self) -> int:
        """Draws of random weights."""
        return 1 if self.random_draws == "auto" else self.random_draws

    @property
    def runs_control_tasks(self) -> bool:
        """Whether readouts are fitted to control tasks as well."""
        return "control_task" in self.controls

    def settings_of(self, task: str) -> TaskSettings | None:
        """The settings of a task, by its title or registered name."""
        for name in (attrgetter("title"), lambda one: get_probe(one.name).task):
            for one in self.tasks:
                if name(one) == task:
                    return one
        return None

    def configs_of(self, task: str) -> tuple[ReadoutConfig, ...]:
        """The readout configurations of a task, at least one."""
        settings = self.settings_of(task)
        return (settings.configs if settings else ()) or (ReadoutConfig(),)

    def reference_of(self, model: ModelSettings) -> ModelSettings | None:
        """The reference that a model names: another model of the experiment by id or name, else one by itself."""
        name = model.reference
        if name is None:
            return None
        others = [other for other in self.models if other is not model]
        called = [one for one in others if one.title == name] or [one for one in others if one.name == name]
        if isinstance(name, ModelSettings):
            settings = name
        elif name == model.title and model.step is not None:
            settings = model  # one of the checkpoints that are compared with it
        elif name == model.title and not self.is_request:
            remedy = "name another model, or leave it out"
            raise BertologyError(f"model {quoted(model.title)} is its own reference: {remedy}")
        elif len(called) > 1:
            problem = f"reference {quoted(name)} of model {quoted(model.title)}"
            raise BertologyError(f"{problem}: name one of {', '.join(other.title for other in called)} by its id")
        else:
            read = {field: getattr(model, field) for field in ("trust_remote_code", *AS_READ)}
            settings = called[0] if called else ModelSettings(name=name, **read)
        if settings.checkpoints is not None:
            raise BertologyError(f"reference {quoted(settings.title)} has checkpoints: name one of them")
        return settings.model_copy(update={"reference": None})

    def of_one(self, model: ModelSettings, corpus: CorpusSettings, tasks: tuple[TaskSettings, ...]) -> "ProbeRequest":
        """The part of an experiment that one model and one corpus are asked."""
        parts = {"models": (model,), "corpora": (corpus,), "tasks": tasks}
        return ProbeRequest.model_construct(**{**dict(self), **parts})

    def plain(self) -> dict[str, Any]:
        """The content of the file, resolved: defaults written out, nothing included."""
        return self.model_dump(mode="json")


_RENAMED = {
    ("models", "name"): "model",
    ("models", "id"): "model_id",
    ("corpora", "name"): "corpus",
    ("corpora", "id"): "corpus_id",
    ("corpora", "items"): "max_items",
}
_PLACES = {
    **{name: ("", name) for name in Experiment.model_fields if name not in ("models", "corpora", "tasks")},
    **{
        _RENAMED.get((part, name), name): (part, name)
        for part, settings in (("corpora", CorpusSettings), ("models", ModelSettings))
        for name in settings.model_fields
    },
}
"""The part of an experiment that each flat setting is of, and its name there."""


def flat_setting(name: str) -> Any:
    """The field of pydantic that describes a setting of :class:`ProbeRequest`."""
    part, own_name = _PLACES[name]
    settings = ModelSettings if part == "models" else CorpusSettings if part == "corpora" else Experiment
    return settings.model_fields[own_name]


class ProbeRequest(Experiment):
    """An experiment with one model and one corpus, whose settings may be given flat.

    >>> asked = ProbeRequest(tasks="pos,ner", model="pocket", pooling="first", sentences=100)
    >>> asked.models[0].pooling, asked.pooling, asked.corpora[0].sentences
    ('first', 'first', 100)

    Args:
        settings: those of :class:`ModelSettings`, :class:`CorpusSettings` and :class:`Experiment` by their names; but
            ``model``, ``corpus``, ``model_id`` and ``max_items`` for the name of the model and of the corpus, the name
            of the model in tables, and ``items``. Besides them ``tasks``, names in a sequence or with commas;
            ``readout``, names with commas or what a file has under ``readout`` of a task; ``pool``, the vectors of
            spans, with commas; ``configs``, by task what it is read by instead of ``readout``.

    Raises:
        BertologyError: a setting is not among its choices or out of bounds.
        TypeError: there is no such setting.
    """

    is_request: ClassVar[bool] = True

    def __init__(self, **settings: Any) -> None:
        rest: dict[str, Any] = {"tasks": ("pos",), "name": "probe", "model": "pocket", "corpus": "pocket", **settings}
        tasks, configs = parse_names(rest.pop("tasks")), dict(rest.pop("configs", {}))
        pool, readout = rest.pop("pool", None), rest.pop("readout", None)
        pools = parse_names("mean" if pool is None else pool)
        if isinstance(seeds := rest.get("seeds"), int) and seeds > _MOST_SEEDS:
            raise BertologyError(f"seeds is {quoted(seeds)}; it should be at most {_MOST_SEEDS:,}")
        if not tasks:
            raise BertologyError("no task is asked for; `bertology tasks` lists them")
        if isinstance(readout, str):
            readout = [{"name": name, "pool": pools} for name in parse_names(readout)]
        elif readout is None:
            readout = None if pools == ("mean",) else {"pool": pools}
        elif pool not in (None, "mean"):
            problem = "pool is given twice: leave it out next to a readout that is a mapping, or write it there"
            raise BertologyError(problem)
        parts: dict[str, dict[str, Any]] = {"": {}, "models": {}, "corpora": {}}
        for name, value in rest.items():
            if name not in _PLACES:
                raise TypeError(f"there is no setting {name!r}; known are {', '.join(sorted(_PLACES))}")
            part, own_name = _PLACES[name]
            parts[part][own_name] = value
        asked = []
        for task in dict.fromkeys(tasks):
            asked.append({"name": task, "readout": configs.get(task, readout)})
        nested = {**parts[""], "models": [parts["models"]], "corpora": [parts["corpora"]], "tasks": asked}
        try:
            super().__init__(**nested)
        except pydantic.ValidationError as error:
            path, message = problem_of(error.errors(), nested, Experiment)
            part, *below = [str(key) for key in path if not isinstance(key, int)] or [""]
            key = "" if part in parts else part
            if below:
                key = below[-1] if part == "tasks" else _RENAMED.get((part, below[0]), below[0])
            raise BertologyError(f"{key}: {message}" if key else message) from None

    def __getattr__(self, name: str) -> Any:
        """A setting of the model or of the corpus."""
        part, own_name = _PLACES.get(name, ("", ""))
        return getattr(getattr(self, part)[0], own_name) if part else super().__getattr__(name)  # type: ignore[misc]
