"""How a model is fine-tuned: published recipes, and which of its layers are trained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bertology._names import name_not_found
from bertology._settings import Place, Text, Truth, Whole, Written, changed, checked, merged, written_at
from bertology.errors import quoted

_LAYERS = re.compile(r"all|none|lora|ia3|frozen:-?[0-9]{1,4}|top:[0-9]{1,4}")
_FEATURES = re.compile(
    r"last|second_to_last|embeddings|sum_last_four|concat_last_four|sum_all|layer:-?[0-9]{1,4}",
)


class FineTuneSettings(BaseModel):
    """What decides a run of fine-tuning besides model, data, task and seed; the defaults are ``devlin-2019``."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

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
    """What the learning rate does afterwards: falls to 0 linearly or by a cosine, or stays."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of weight matrices; biases and norms have none."""
    bias_correction: Truth = False
    """Whether AdamW corrects its first estimates (Kingma & Ba 2015); the code of Devlin et al. does not."""
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    """Greatest norm of the gradient."""
    max_pieces: Annotated[Whole, Field(ge=4)] | None = None
    """Length of an input in pieces; the most that the model takes when left out."""
    stride: Annotated[Whole, Field(ge=0)] = 128
    """Of answers: pieces that two windows of a long text share."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products; weights are float32."""
    layers: Text = "all"
    """What is trained: ``all`` layers; ``frozen:K``, those above layer K (0 is the embeddings, -2 the last but one);
    ``top:K``, the last K blocks; ``none`` but a head on a frozen encoder; ``lora`` or ``ia3``, adapters of peft."""
    features: Text = "last"
    """With ``layers: none``, what the head reads, as in table 7 of Devlin et al. (2019): ``embeddings``,
    ``second_to_last``, ``last``, ``sum_last_four`` and ``sum_all`` (a learned mix of the last four blocks, or of all),
    ``concat_last_four``; or ``layer:K``."""
    head: Literal["linear", "bilstm"] = "linear"
    """With ``layers: none``: a linear layer, or one on two layers of a bidirectional LSTM, as there."""
    lora_rank: Annotated[Whole, Field(ge=1)] = 8
    """Rank of the changes to query and value matrices (Hu et al. 2022)."""
    lora_alpha: Annotated[float, Field(gt=0)] = 16.0
    """They are scaled by this over the rank."""
    positive: Text | None = None
    """Of two labels the one whose F1 is reported; the second in alphabetical order when left out (1 of 0 and 1)."""
    keep_checkpoints: Literal["all", "none"] = "all"
    """Whether the model folders of ``checkpoints/`` stay when a run is finished."""
    checkpoint_every: Annotated[Whole, Field(ge=1)] | None = None
    """Steps between checkpoints, from which a stopped run goes on; one each epoch when left out."""

    @field_validator("layers")
    @classmethod
    def _layers(cls, value: str) -> str:
        if not _LAYERS.fullmatch(value):
            raise ValueError(f"is {quoted(value)}; write all, none, frozen:6, top:2, lora or ia3")
        return value

    @field_validator("features")
    @classmethod
    def _features(cls, value: str) -> str:
        if not _FEATURES.fullmatch(value):
            known = "last, second_to_last, embeddings, sum_last_four, concat_last_four, sum_all or layer:6"
            raise ValueError(f"is {quoted(value)}; write {known}")
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
}
"""Settings by name: BERT's own (Devlin et al. 2019, §A.3); those that made small data sets stable (Mosbach et al. 2021,
§6); ours for heads on a frozen encoder; and those of LoRA (Hu et al. 2022, table 9)."""


def recipe_of(layers: str) -> str:
    """The recipe where none is named: it depends on what is trained."""
    return {"none": "frozen", "lora": "hu-2022", "ia3": "hu-2022"}.get(layers, "devlin-2019")


def settings_of(recipe: str | None, given: Mapping[str, Any], changes: Sequence[str] = ()) -> FineTuneSettings:
    """A recipe with some settings replaced.

    Args:
        recipe: its name; None for that of :func:`recipe_of`.
        given: settings by name.
        changes: further ones, as ``key=value``.

    Raises:
        NameNotFoundError: there is no such recipe.
        BertologyError: a setting is unknown, or not as it should be.
    """
    written = changed(written_at(Place("finetune"), given), changes)
    return checked(FineTuneSettings, with_recipe(written, recipe))


def with_recipe(written: Written, recipe: str | None) -> Written:
    """Settings over those of a recipe; arguments and errors are those of :func:`settings_of`."""
    layers = written.value.get("layers")
    name = recipe if recipe is not None else recipe_of(str(layers.value) if layers is not None else "all")
    if name not in RECIPES:
        raise name_not_found("recipe", name, RECIPES)
    return merged(written, written_at(written.place, RECIPES[name]))
