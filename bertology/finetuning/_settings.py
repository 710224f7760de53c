"""Settings of fine-tuning: published recipes, trained layers, and files of several runs and tasks."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from bertology import _settings
from bertology._names import check_name
from bertology._settings import Name, OrName, Place, Placed, Settings, Text, Truth, Whole
from bertology.corpora import kept_name, load_corpus
from bertology.encoders import model_name
from bertology.errors import BertologyError, NameNotFoundError, quoted
from bertology.finetuning._items import meaning

_LAYERS = r"all|none|lora|ia3|adapters|lstm|frozen:-?[0-9]{1,4}|top:[0-9]{1,4}"
_FEATURES = r"last|second_to_last|embeddings|sum_last_four|concat_last_four|sum_all|layer:-?[0-9]{1,4}"
_FORMS = {
    "layers": (_LAYERS, "all, none, frozen:6, top:2, lora, ia3, adapters or lstm"),
    "features": (_FEATURES, "last, second_to_last, embeddings, sum_last_four, concat_last_four, sum_all or layer:6"),
}
"""Patterns of texts, and what messages tell to write."""


class FineTuneSettings(Settings):
    """Settings of a fine-tuning besides model, data, task and seed; the defaults are ``devlin-2019``."""

    lr: Annotated[float, Field(gt=0)] = 2e-5
    """Highest learning rate."""
    epochs: Annotated[Whole, Field(ge=1, le=10_000)] = 3
    """Passes over the training items."""
    batch_size: Annotated[Whole, Field(ge=1)] = 32
    """Inputs in one step of the optimizer."""
    accumulate: Annotated[Whole, Field(ge=1)] = 1
    """Parts that a batch is computed in, one after the other, where it does not fit into memory; divides it."""
    warmup: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the steps in which the learning rate rises linearly to ``lr``."""
    schedule: Literal["linear", "constant", "cosine"] = "linear"
    """Learning rate after the warm-up: it falls to 0 linearly or by a cosine, or stays."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of weight matrices; biases and norms have none."""
    bias_correction: Truth = False
    """Whether AdamW corrects its first estimates (Kingma & Ba 2015); the code of Devlin et al. does not."""
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    """Greatest norm of the gradient."""
    max_pieces: Annotated[Whole, Field(ge=4)] | None = None
    """Length of an input in pieces; the most that the model takes when left out."""
    stride: Annotated[Whole, Field(ge=0)] = 128
    """Pieces that two windows of a long text share, for answers."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of matrix products; weights are float32."""
    layers: Text = "all"
    """Layers that are trained: ``all``; ``frozen:K``, those above layer K (0 is the embeddings, -2 the last but one);
    ``top:K``, the last K blocks; ``none`` but a head on a frozen encoder; ``lora`` or ``ia3``, adapters of peft;
    ``adapters``, two bottlenecks in every block, with all norms (Houlsby et al. 2019); ``lstm``, two layers of a
    bidirectional LSTM in the place of the blocks, with the model's embeddings (Tang et al. 2019)."""
    features: Text = "last"
    """Input of the head with ``layers: none``, as in table 7 of Devlin et al. (2019): ``embeddings``,
    ``second_to_last``, ``last``, ``sum_last_four`` and ``sum_all`` (a learned mix of the last four blocks, or of all),
    ``concat_last_four``; or ``layer:K``."""
    head: Literal["linear", "bilstm"] = "linear"
    """The head with ``layers: none``: a linear layer, or one on two layers of a bidirectional LSTM."""
    lora_rank: Annotated[Whole, Field(ge=1)] = 8
    """Rank of the changes to query and value matrices (Hu et al. 2022)."""
    lora_alpha: Annotated[float, Field(gt=0)] = 16.0
    """They are scaled by this over the rank."""
    adapter_size: Annotated[Whole, Field(ge=1)] = 64
    """Inner size of the bottlenecks of ``layers: adapters``."""
    sparsity: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the weights of the blocks' matrices that are held at zero, with ``layers: all``: a lottery ticket (Chen
    et al. 2020). The model is fine-tuned to find the mask, then all other weights and the head go back to what they
    were, and it is fine-tuned again; 0 for none."""
    mask: Literal["magnitude", "random"] = "magnitude"
    """The weights that ``sparsity`` masks: those of smallest magnitude in all matrices after fine-tuning; or random
    ones by the seed, with which winning tickets are compared."""
    mask_rounds: Annotated[Whole, Field(ge=1)] = 1
    """Fine-tunings to find a mask; in each of them the share of masked weights rises by as much (iterative pruning)."""
    gate_penalty: Annotated[float, Field(ge=0)] | None = None
    """Penalty for the expected number of open heads, with ``layers: all``: the model is fine-tuned, and once again with
    a hard concrete gate on each head that is learned with it (Louizos et al. 2018; Voita et al. 2019, §6.1); heads
    whose gates are 0 in the end are closed for good."""
    gate_lr: Annotated[float, Field(gt=0)] = 0.1
    """Highest learning rate of the gates."""
    teacher: Text | None = None
    """Folder of a model that was fine-tuned for the same labels with the same tokenizer, whose logits are learned; or
    one that holds such a ``seed-N`` for each seed. In a file of runs also the id of a run before this one."""
    teacher_weight: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Weight w of the teacher in the loss: w · MSE of the logits + (1 − w) · loss of the labels (Tang et al. 2019)."""
    positive: Text | None = None
    """The one of two labels whose F1 is reported; the second in alphabetical order when left out (1 of 0 and 1)."""
    keep_checkpoints: Literal["all", "none"] = "all"
    """Whether the model folders of ``checkpoints/`` stay when a run is finished."""
    checkpoint_every: Annotated[Whole, Field(ge=1)] | None = None
    """Steps between checkpoints, from which a stopped run goes on; one each epoch when left out."""

    @field_validator("layers", "features")
    @classmethod
    def _form(cls, value: str, info: Any) -> str:
        pattern, known = _FORMS[info.field_name]
        if not re.fullmatch(pattern, value):
            raise ValueError(f"is {quoted(value)}; write {known}")
        return value

    @field_validator("sparsity", "gate_penalty")
    @classmethod
    def _of_all(cls, value: float | None, info: Any) -> float | None:
        if value not in (None, 0) and info.data.get("layers", "all") != "all":
            raise ValueError(f"is {value}, which needs layers all, not {info.data['layers']}")
        if value is not None and info.field_name == "gate_penalty" and info.data.get("sparsity"):
            raise ValueError(f"is {value}, which goes without sparsity: give one of the two")
        return value

    @field_validator("accumulate")
    @classmethod
    def _accumulate(cls, value: int, info: Any) -> int:
        if info.data.get("batch_size", value) % value:
            raise ValueError(f"is {value}, which does not divide batch_size {info.data['batch_size']}")
        return value


RECIPES: Mapping[str, Mapping[str, Any]] = {
    "devlin-2019": {},
    "mosbach-2021": {"epochs": 20, "bias_correction": True},
    "frozen": {"lr": 1e-3, "epochs": 20, "bias_correction": True},
    "hu-2022": {"lr": 5e-4, "epochs": 20, "batch_size": 16, "warmup": 0.06, "bias_correction": True, "lora_alpha": 8.0},
    "houlsby-2019": {"lr": 3e-4, "epochs": 20},
}
"""Settings by name: BERT's own (Devlin et al. 2019, §A.3); those that made small data sets stable (Mosbach et al. 2021,
§6); ours for heads on a frozen encoder, and for an LSTM; those of LoRA (Hu et al. 2022, table 9); and of bottleneck
adapters (Houlsby et al. 2019, §3.1 and §3.2, the middle one of their learning rates)."""


def recipe_of(layers: str) -> str:
    """The recipe where none is named, by what is trained."""
    own = {"none": "frozen", "lstm": "frozen", "lora": "hu-2022", "ia3": "hu-2022", "adapters": "houlsby-2019"}
    return own.get(layers, "devlin-2019")


def settings_of(recipe: str | None, given: Mapping[str, Any], changes: Sequence[str] = ()) -> FineTuneSettings:
    """A recipe (None for that of :func:`recipe_of`) with some settings replaced, and ``changes`` as ``key=value``."""
    settings = with_recipe(_settings.changed(Placed(given, Place("finetune"), {}), changes), recipe)
    return _settings.checked(FineTuneSettings, settings)


def with_recipe(settings: Placed, recipe: str | None) -> Placed:
    """Settings over those of a recipe, as by :func:`settings_of`."""
    name = recipe if recipe is not None else recipe_of(str(settings.get("layers", "all")))
    check_name("recipe", name, RECIPES)
    return _settings.merged(settings, RECIPES[name])


_WHAT = "a file of fine-tunings"
_INHERITED_WITH = {"corpus": ("columns", "train_split", "test_split"), "model": ("revision", "trust_remote_code")}
"""Keys that a task or run does not inherit if it has a corpus or model of its own."""


class GridTask(OrName):
    """A task, and the data that it is learned from; may be written as a bare name."""

    name: Text
    """``pos``, ``sentence_label:COLUMN`` …, as of :func:`bertology.finetune`."""
    id: Text | None = None
    """Display name; the name of the task when left out."""
    corpus: Text = "pocket"
    """``pocket``, ``ud:en_ewt``, a folder or a file."""
    columns: Text | None = None
    """The content of the columns; inherited only together with the corpus, as are both splits."""
    sentences: Annotated[Whole, Field(ge=1)] | None = None
    """At most so many of each split, the first ones."""
    train_split: Text = "train"
    """Split to learn."""
    test_split: Text = "test"
    """Split to score on besides dev."""

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        try:
            return meaning(name)[0]
        except BertologyError as error:
            raise ValueError(str(error)) from None

    @property
    def title(self) -> str:
        """Name that identifies the task."""
        return self.id or self.name

    @property
    def folder(self) -> str:
        """The name of its folder within that of a run: ``sentence_label-tense``."""
        return re.sub(r"[^\w.-]+", "-", self.title).lstrip(".")


class GridRun(FineTuneSettings):
    """A model and the settings with which it is trained for every task."""

    id: Name
    """Name in tables and folders."""
    model: Text = "pocket"
    """``pocket``, a folder, or a hub id."""
    revision: Text | None = None
    """Branch, tag or commit of a hub model; inherited only together with the model, as is the next."""
    trust_remote_code: Truth = False
    """Run code that comes with a hub model."""
    recipe: Literal["devlin-2019", "mosbach-2021", "frozen", "hu-2022", "houlsby-2019"] | None = None
    """Published recipe, whose settings hold where no others are given; chosen by ``layers`` when left out."""


_KINDS: dict[str, type[Settings]] = {"tasks": GridTask, "runs": GridRun}
_COMMON = {part: [name for name in kind.model_fields if name not in ("name", "id")] for part, kind in _KINDS.items()}
"""Keys that may be common to all tasks, or to all runs."""


class FineTuneGrid(Settings):
    """Every run on every task, once for each seed."""

    name: Name
    """The folder of the results is called so, ``runs/NAME``."""
    tasks: Annotated[tuple[GridTask, ...], Field(min_length=1)]
    """Names, or mappings."""
    runs: Annotated[tuple[GridRun, ...], Field(min_length=1)]
    """Mappings with an ``id``; the others are compared with the first."""
    seeds: Annotated[Whole, Field(ge=1, le=1000)] | tuple[Annotated[Whole, Field(ge=0)], ...] = 1
    """Their number, or their names."""

    @field_validator("tasks", "runs")
    @classmethod
    def _no_name_twice(cls, given: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [one.folder if isinstance(one, GridTask) else one.id for one in given]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise ValueError(f"two are called {quoted(doubled)}: give each an id of its own")
        return given

    def plain(self) -> dict[str, Any]:
        """The file that means the same, with everything inherited written out."""
        plain = self.model_dump(mode="json", exclude_unset=True)
        return {"command": "finetune", **plain, "runs": [{"id": run["id"], **run} for run in plain["runs"]]}


def grid_schema() -> Mapping[str, Any]:
    """JSON Schema of a file of fine-tunings, by which editors complete and check."""
    common: dict[str, Any] = {}
    for part, kind in _KINDS.items():
        schema = kind.model_json_schema()
        properties = schema.get("anyOf", [{}, schema])[1]["properties"]
        common |= {key: properties[key] for key in properties if key in _COMMON[part]}
    return _settings.file_schema(FineTuneGrid, "finetune", title="fine-tunings", further=common)


def load_grid(
    given: str | Path | Mapping[str, Any], *, changes: Sequence[str] = (), trust_remote_code: bool = False
) -> FineTuneGrid:
    """The fine-tunings that a YAML file, or a mapping like one, describes; arguments are those of ``finetune_grid``."""
    if isinstance(given, Mapping):
        settings = _settings.parse_yaml(_settings.to_yaml(_with_names(given)), Place("finetune_grid"))
    else:
        settings = _settings.read_yaml(Path(given), what=_WHAT, example="name: trial", command="finetune")
    settings = _settings.changed(settings, changes)
    _settings.check_trust(settings, granted=trust_remote_code or isinstance(given, Mapping))
    for part, keys in _COMMON.items():
        common = Placed({key: settings.pop(key) for key in keys if key in settings}, settings.place, settings.places)
        if isinstance(settings.get(part), list):
            places = [settings.place_of((part, number)) for number in range(len(settings[part]))]
            settings[part] = [_with_common(*one, common, part) for one in zip(settings[part], places, strict=True)]

    return _settings.checked(FineTuneGrid, settings, more=[*_COMMON["tasks"], *_COMMON["runs"]])


def _with_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Plain settings: data and models in memory are replaced by names under which they are found again."""
    plain = dict(given)
    for part in ("tasks", "runs"):
        if isinstance(plain.get(part), list | tuple):
            plain[part] = [_with_names(one) if isinstance(one, Mapping) else one for one in plain[part]]
    if not isinstance(plain.get("corpus", ""), str):
        plain["corpus"] = kept_name(load_corpus(plain["corpus"], columns=plain.pop("columns", None)))
    if not isinstance(plain.get("model", ""), str):
        plain["model"] = model_name(plain["model"])
    return plain


def _with_common(one: Any, place: Place, common: Placed, part: str) -> Any:
    """A task or run over what is common, and a run over its recipe."""
    if isinstance(one, str) and part == "tasks":
        one = Placed({"name": one}, place, {"name": place})
    if not isinstance(one, Placed):
        return one
    left_out = {key for owner, keys in _INHERITED_WITH.items() if owner in one for key in keys}
    kept = {key: value for key, value in common.items() if key not in left_out}
    whole = _settings.merged(one, Placed(kept, common.place, {key: common.place_of((key,)) for key in kept}))
    if part == "tasks":
        return whole
    recipe = whole.get("recipe")
    try:
        return with_recipe(whole, recipe if isinstance(recipe, str) else None)
    except NameNotFoundError as error:
        raise BertologyError(f"{whole.place_of(('recipe',))}: {error}") from None
