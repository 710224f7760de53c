"""What an experiment file may say. Every field is documented here; the JSON Schema for editors is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from bertology._names import checkpoint_name, name_not_found, training_name
from bertology._schema import file_schema, or_a_name
from bertology._settings import Place, Text, Truth, Whole, checked, parse_yaml, to_yaml
from bertology.corpora import kept_name, kept_table, load_corpus
from bertology.corpora.prompts import names_items
from bertology.encoders.resolving import held_dtype
from bertology.errors import cut, quoted
from bertology.families.request import CONTROLS, Control, ProbeRequest, ReadoutConfig, parse_controls, sweep
from bertology.measures import N_RESAMPLES

Pool = Literal["mean", "max", "last", "cls"]
_OF_FILES = (str, int, float, list, Mapping, type(None))
"""What a file may hold; everything else is an object of Python."""
Share = Annotated[float, Field(gt=0, le=1)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class _Named(_Settings):
    """Settings that may be written as a bare name."""

    name: Text | None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        if isinstance(given, str) or not isinstance(given, (*_OF_FILES, _Settings)):
            given = {"name": given}
        is_named = isinstance(given, Mapping) and not isinstance(given.get("name"), _OF_FILES)
        return cls._with_name(dict(given)) if is_named else given

    @classmethod
    def _with_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings with a name in place of an object of Python."""
        return settings

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return or_a_name(schema, handler)


class ModelSettings(_Named):
    """An encoder, and how it is read."""

    name: Text
    """`pocket`, a folder in Hugging Face layout, or a hub id."""
    id: Text | None = None
    """What the tables call it; the name when left out, with `-random` or `-random-blocks` for fresh weights."""
    init: Literal["pretrained", "random", "random_blocks"] = "pretrained"
    """`random`: the same architecture with fresh weights; `random_blocks`: fresh blocks over pretrained embeddings."""
    init_seed: Annotated[int, Field(strict=True, ge=0)] = 1
    """Seed of fresh weights. The draws of the control `random` have the seeds 0, 10000, 20000 …"""
    revision: Text | None = None
    """Branch, tag or commit of a hub model."""
    checkpoints: Text | tuple[Annotated[int, Field(strict=True, ge=0)] | Text, ...] | None = None
    """Checkpoints of the model's training, each of which becomes a model of its own: `all`, a list of steps or of
    revisions of a hub model, or a pattern of their names, such as `step*`."""
    step: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Number of updates that the model has had, if it is named as one checkpoint of a training."""
    pretraining_seed: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Which of several trainings that differ in their seed alone; these have the same `id`."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """What the model computes in."""
    stored_dtype: Literal["float16", "float32"] = "float16"
    """What vectors are kept in."""
    pooling: Literal["mean", "first", "last"] = "mean"
    """A word's vector from its pieces'."""
    on_long: Literal["window", "error", "skip"] = "window"
    """What to do with sentences too long for the model."""
    shared_subwords: Literal["exclude", "include"] = "exclude"
    """`exclude`: leave out words that share all their subwords with another word, as *de* and *le* of French *du*."""
    max_pieces: Annotated[int, Field(strict=True, ge=8)] | None = None
    """Read windows of at most so many pieces."""
    trust_remote_code: Truth = False
    """Run code that comes with a hub model."""
    reference: Text | ModelSettings | None = None
    """The model that tasks of comparison compare this one with: the id or name of another model of the list; else a
    model by its name, read as this one is, or by a mapping such as this one."""

    @classmethod
    def _with_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """A model in memory is named by its files, or as an object in this process, which computes in its own type."""
        from bertology.encoders import model_name  # imports torch

        name = model_name(settings["name"])
        dtype = held_dtype(name)
        return {**({} if dtype is None else {"dtype": dtype}), **settings, "name": name}

    @classmethod
    def of(cls, request: ProbeRequest, *, title: str) -> ModelSettings:
        name, reference = training_name(title, pretraining_seed=request.pretraining_seed, step=request.step), None
        if (compared := request.of_reference) is not None:
            by_name = isinstance(request.reference, str)
            reference = compared.model if by_name else cls.of(compared, title=compared.model_id or compared.model)
        shared = {name: getattr(request, name) for name in cls.shared_fields()}
        return cls(name=request.model, id=name, reference=reference, **shared)

    @classmethod
    def shared_fields(cls) -> set[str]:
        """The fields that a request has under the same name."""
        return set(cls.model_fields) - {"name", "id", "reference"}

    @property
    def title(self) -> str:
        """What the tables call it."""
        return checkpoint_name(self.training, pretraining_seed=self.pretraining_seed, step=self.step)

    @property
    def training(self) -> str:
        """The same without seed and step: what the checkpoints of a training, and its seeds, have in common."""
        return self.id or (self.name if self.init == "pretrained" else f"{self.name}-{self.init.replace('_', '-')}")

    @model_validator(mode="after")
    def _checkpoints_of_what(self) -> ModelSettings:
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
    """What the tables call it; the corpus's own name when left out."""
    train_split: Text = "train"
    """Split to fit on."""
    test_split: Text = "test"
    """Split to score on."""
    test_on: Text | None = None
    """Another corpus, by name or path, whose `test_split` is scored instead: how well a probe carries over to it."""
    columns: Text | None = None
    """What the columns of column files hold: `form,xpos,chunk`, with `_` for one to leave out; or which columns of a
    table hold what: `text=sentence,label=label` (in quotes inside of braces), of cloze tasks
    `good=sentence,bad=other,group=phenomenon`. Seen from the files when left out."""
    test_on_columns: Text | None = None
    """The same of the files of `test_on`."""
    annotate: Text | None = None
    """A spaCy pipeline that labels the corpus, then a raw text file; its labels are silver."""
    sentences: Annotated[int, Field(strict=True, ge=2)] | None = None
    """At most so many sentences of each split, the first ones; all when left out."""
    folds: Annotated[int, Field(strict=True, ge=2)] | None = None
    """Cross-validate over so many folds of documents (or groups; else sentences) instead of fitting on one split and
    scoring another: each sentence is scored once, by readouts that were fitted to none of its document."""
    items: Annotated[int, Field(strict=True, ge=1)] | None = None
    """Of what cloze tasks ask, at most so many items of each group, drawn by lot; all when left out."""

    _SHARED: ClassVar = ("train_split", "test_split", "columns", "annotate", "sentences", "folds")

    @classmethod
    def _with_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Data in memory are named by their content."""
        data, columns = settings.pop("name"), settings.pop("columns", None)
        if columns is not None and names_items(columns) and (table := kept_table(data)) is not None:
            return {**settings, "name": table, "columns": columns}
        return {**settings, "name": kept_name(load_corpus(data, columns=columns))}

    @classmethod
    def of(cls, request: ProbeRequest) -> CorpusSettings:
        shared = {name: getattr(request, name) for name in cls._SHARED}
        return cls(name=request.corpus, items=request.max_items, **shared)

    @property
    def title(self) -> str:
        """What tells it from others."""
        return self.id or self.name

    @model_validator(mode="after")
    def _columns_of_what(self) -> CorpusSettings:
        if self.test_on_columns is not None and self.test_on is None:
            raise ValueError("test_on_columns says what the columns of test_on hold, which is left out")
        if self.folds is not None and self.test_on is not None:
            raise ValueError("folds score the corpus itself: leave folds or test_on out")
        return self


class ReadoutSettings(_Named):
    """How a task is read off the vectors; lists make a sweep of every combination."""

    name: Text | None = None
    """A registered readout: `linear`, `mlp.v1`, `edge_mix`; the task's own when left out."""
    settings: Mapping[str, Any] = {}
    """The readout's own settings, such as `hidden: 64`; a list is a sweep over its values."""
    fraction: Share | tuple[Share, ...] = 1.0
    """How much of the training sentences to fit on."""
    codelength: Literal["online", "variational"] | None = None
    """Measure how short the training labels can be told, in bits (Voita & Titov 2020): `online`, or with the readout
    `bayes` `variational`."""
    erase: Text | None = None
    """A task of words: what a linear readout finds of it is first taken out of the vectors (Elazar et al. 2021)."""
    eraser: Literal["leace", "random"] = "leace"
    """`random`: as many directions, but any; what it costs to lose that much of whatever kind."""
    layers: Annotated[int, Field(strict=True)] | Text | tuple[Annotated[int, Field(strict=True)], ...] | None = None
    """Only these of the experiment's layers: `3`, `0-2,-1` or a list; all of them when left out."""
    pool: Pool | tuple[Pool, ...] = "mean"
    """The vector of a sentence or other span of words: `mean` or `max` of its words, its `last` word; of whole
    sentences `cls`, the special token before the text. A list is a sweep."""

    @classmethod
    def of(cls, config: ReadoutConfig) -> ReadoutSettings:
        """One readout configuration with its registered readout."""
        # A list would be a sweep over its values.
        settings = {k: [v] if isinstance(v, list | tuple) else v for k, v in config.settings.items()}
        names = ("fraction", "codelength", "erase", "eraser", "layers", "pool")
        shared = {name: getattr(config, name) for name in names}
        return cls(name=str(config.readout), settings=settings, **shared)

    @property
    def configs(self) -> tuple[ReadoutConfig, ...]:
        """Every combination."""
        fractions = self.fraction if isinstance(self.fraction, tuple) else (self.fraction,)
        layers = self.layers if isinstance(self.layers, tuple) else () if self.layers is None else (self.layers,)
        shared = {name: getattr(self, name) for name in ("codelength", "erase", "eraser")}
        layer_spec = ",".join(map(str, layers)) or None
        pools = self.pool if isinstance(self.pool, tuple) else (self.pool,)
        return sweep(self.name, self.settings, fractions=fractions, pools=pools, layers=layer_spec, **shared)


class TaskSettings(_Named):
    """A question put to the vectors."""

    name: Text
    """As `bertology tasks` lists it: `pos`, `feats:Number`."""
    readout: ReadoutSettings | tuple[ReadoutSettings, ...] | None = None
    """Registered readouts instead of the task's own: a name, a mapping, or a list of them."""
    corpora: tuple[Text, ...] | None = None
    """Only these corpora, by id or name; all of the experiment's when left out."""

    @property
    def title(self) -> str:
        """What tells it from others."""
        return self.name.replace("-", "_")

    @property
    def configs(self) -> tuple[ReadoutConfig, ...]:
        chosen = self.readout if isinstance(self.readout, tuple) else (self.readout,)
        return tuple(config for one in chosen if one is not None for config in one.configs)


def _controls(given: Any) -> Any:
    """Controls in a text with commas, as on the command line, as their names; anything else as it is."""
    if not isinstance(given, str) or given in ("all", "none"):
        return given
    names = parse_controls(given)
    for name in names:
        if name not in CONTROLS:
            raise ValueError(str(name_not_found("control", name, ("all", "none", *CONTROLS))))
    return names


def _or_with_commas(schema: dict[str, Any]) -> None:
    """Let editors take a text with commas where they take a list of controls."""
    schema["anyOf"].append({"type": "string", "pattern": rf"^(\s*({'|'.join(CONTROLS)})\s*(,|$))+$"})


class StatisticsSettings(_Settings):
    """How sure the scores are."""

    resamples: Annotated[int, Field(strict=True, ge=100, le=100_000)] = N_RESAMPLES
    """Bootstrap resamples of the test sentences, and of seeds and draws where there are several. Intervals are made of
    what is kept of finished fits, so that another number changes no fit."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Seed of the resampling."""
    compare_layers: Truth = True
    """Compare all pairs of layers of a model on a task and corpus; those are one family, corrected together
    (Benjamini–Hochberg)."""


class OutputSettings(_Settings):
    """What is written beside the tidy tables and predictions."""

    tables: tuple[Literal["md", "csv", "tex"], ...] = ("md", "tex")
    """Formats of the tables for people."""
    plots: tuple[Literal["png", "svg", "pdf"], ...] = ("png", "svg", "pdf")
    """Formats of the plot."""


class Experiment(_Settings):
    """An experiment: models × corpora × tasks × layers × seeds × controls, resolved into cells before anything runs.

    In Python a model or corpus may also be an object: an encoder, a pair (model, tokenizer), a DataFrame, a
    :class:`~bertology.Corpus`; alone or as ``name`` of a mapping, as in ``Experiment(name="mine", models=[encoder],
    corpora=[{"name": frame, "columns": "text=t"}], tasks=["pos"])``.
    """

    name: Annotated[str, Field(strict=True, pattern=r"^[\w][\w.-]*$", max_length=100)]
    """Up to 100 letters, digits, `-`, `_` and `.`; the run's folder is called so."""
    models: Annotated[tuple[ModelSettings, ...], Field(min_length=1)]
    """The encoders: a name each, or a mapping."""
    corpora: Annotated[tuple[CorpusSettings, ...], Field(min_length=1)]
    """The corpora: a name each, or a mapping. Paths start from the folder that the command is given in."""
    tasks: Annotated[tuple[TaskSettings, ...], Field(min_length=1)]
    """The questions: a name each, or a mapping."""
    layers: Text | Whole | tuple[Whole, ...] = "all"
    """`all`; a number; numbers and ranges with commas as text, such as `0-6` or `3,5,-1`; or a list of numbers. 0 is
    the embeddings, -1 the last layer."""
    seeds: Annotated[int, Field(strict=True, ge=1)] = 1
    """Fits: one on all of train, further ones on resamples of its sentences."""
    controls: Annotated[
        Literal["all", "none"] | tuple[Control, ...],
        BeforeValidator(_controls),
        Field(json_schema_extra=_or_with_commas),
    ] = "all"
    """What scores stand beside, a list or a text with commas: `majority`, `word_majority`, of spans `lexical` (their
    words without a vector), of sentences `length` (the number of words alone), of trees `linear_chain`, `random` (a
    pretrained encoder with random weights), `control_task`; of texts `blind` (without what decides); of attention heads
    `offset` (the word at a fixed place), and of mentions `nearest`, `head_match` (the same word) and `rule`; of numbers
    `mean` and `word_mean`; of word order `first` and `last`; of word alignments `diagonal` (the same place)."""
    random_draws: Literal["auto"] | Annotated[int, Field(strict=True, ge=1)] = "auto"
    """Draws of random weights that the control `random` is the mean of; `auto`: one, and none for choices between
    given answers, whose chance level is known, unless `controls` names `random`."""
    statistics: StatisticsSettings = StatisticsSettings()
    """How intervals and comparisons are made."""
    outputs: OutputSettings = OutputSettings()
    """What is written beside the tidy tables."""
    device: Text = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1` or `mps`."""

    @field_validator("models", "corpora", "tasks")
    @classmethod
    def _no_name_twice(cls, settings: tuple[Any, ...]) -> tuple[Any, ...]:
        titles = [setting.title for setting in settings]
        doubled = next((title for title in titles if titles.count(title) > 1), None)
        if doubled is not None:
            remedy = "name each once" if isinstance(settings[0], TaskSettings) else "give each an id of its own"
            raise ValueError(f"two are called {quoted(doubled)}: {remedy}")
        return settings

    @model_validator(mode="after")
    def _corpora_of_tasks(self) -> Experiment:
        known = {name for corpus in self.corpora for name in (corpus.id, corpus.name) if name}
        for task in self.tasks:
            for name in task.corpora or ():
                if name not in known:
                    names = cut(", ".join(sorted(known)))
                    raise ValueError(f"task {cut(task.name)} asks for corpus {quoted(name)}: there is {names}")
        return self

    @property
    def chosen_controls(self) -> tuple[str, ...]:
        if isinstance(self.controls, str):
            return CONTROLS if self.controls == "all" else ()
        return self.controls

    @property
    def layer_spec(self) -> str:
        return ",".join(map(str, self.layers)) if isinstance(self.layers, tuple) else str(self.layers)

    @staticmethod
    def readout_configs(given: Any) -> tuple[ReadoutConfig, ...]:
        """What a file may say under ``readout`` of a task, a mapping or a list of them, as readout configurations.

        >>> [config.pool for config in Experiment.readout_configs({"name": "linear", "pool": ["mean", "cls"]})]
        ['mean', 'cls']
        """
        written = parse_yaml(to_yaml({"name": "task", "readout": given}), Place("readout"))
        return checked(TaskSettings, written, known=lambda _: list(ReadoutSettings.model_fields)).configs

    def plain(self) -> dict[str, Any]:
        """What the file says, resolved: defaults written out, nothing included."""
        return self.model_dump(mode="json")


def experiment_schema() -> Mapping[str, Any]:
    """JSON Schema of an experiment file, by which editors complete and check."""
    include = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Files that this one builds on, by their paths from here; what is written here comes first.",
    }
    schema = file_schema(Experiment, "run", title="experiment", further={"include": include})
    # What a file leaves out may stand in a file that it includes.
    schema.pop("required", None)
    return schema
