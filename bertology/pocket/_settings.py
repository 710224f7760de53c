"""The pretraining recipe, as read from a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bertology.errors import BertologyError

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(gt=0)]


class PretrainSettings(BaseModel):
    """Everything that decides what pretraining makes: the same settings make the same model."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    seed: int = 0
    """Decides the text, the initial weights, the order of examples and what is masked."""

    documents: Count = 5000
    """Documents of pretraining text, of 5 to 9 sentences each."""
    held_out_documents: Count = 300
    """Documents of text that is only evaluated on."""
    vocabulary_size: Count = 1150
    """Pieces that the tokenizer learns; words that must be whole come on top."""

    layers: Count = 4
    """Transformer blocks."""
    width: Count = 128
    """Size of hidden states."""
    heads: Count = 4
    """Attention heads of each block."""
    inner_width: Count = 512
    """Size of the feed-forward layers."""
    max_pieces: Count = 64
    """Longest input, special tokens included."""
    dropout: Share = 0.0
    """Dropout of hidden states and attention."""
    initializer_range: Annotated[float, Field(gt=0)] = 0.06
    """Spread of fresh weights. BERT's 0.02 suits its width of 768; at a width of 128 training stalls with it."""

    steps: Count = 36000
    """Optimisation steps."""
    batch_pieces: Count = 768
    """Pieces in a batch."""
    alone_share: Share = 0.55
    """Share of batches that hold single sentences: a small model learns syntax soonest where there is nothing else."""
    short_share: Share = 0.35
    """Share of batches that hold pairs at half the length; the rest hold pairs at full length."""
    mask_rate: Share = 0.25
    """Share of pieces to predict: 80 % of them masked, 10 % replaced, 10 % left as they are."""
    salience: Annotated[float, Field(gt=0)] = 4.0
    """How much likelier towns, countries, trades and verb forms that agree are to be predicted than other pieces:
    they are where the knowledge is, and a short run sees few of them otherwise."""
    salience_from: Annotated[int, Field(ge=0)] = 4000
    """The step from which that holds."""
    learning_rates: tuple[tuple[Annotated[int, Field(ge=0)], Annotated[float, Field(ge=0)]], ...] = Field(
        default=((0, 0.0), (300, 1.2e-3), (20000, 1.2e-3), (36000, 0.0)),
        min_length=1,
    )
    """Steps and the learning rate there; in between it is interpolated."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """AdamW's decay, of matrices only."""
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of the gradient."""

    checkpoint_every: Count = 1000
    """Steps between states from which a killed run resumes."""
    evaluate_every: Count = 2000
    """Steps between evaluations on held-out text."""
    keep_checkpoints: tuple[int, ...] = ()
    """Steps at which a whole model folder is kept under ``checkpoints/``, to probe across training; 0 is the
    untrained model."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width: {self.width} cannot be split over {self.heads} heads")
        at = [step for step, _ in self.learning_rates]
        if at != sorted(set(at)):
            raise ValueError(f"learning_rates: steps must rise, but are {', '.join(map(str, at))}")
        for step in self.keep_checkpoints:
            if not 0 <= step <= self.steps:
                raise ValueError(f"keep_checkpoints: {step} is beyond the last of {self.steps} steps")
        return self


def load_settings(path: Path, *, changes: Sequence[str] = ()) -> PretrainSettings:
    """Read a recipe.

    Args:
        path: a YAML file.
        changes: ``key=value`` pairs that replace what the file says.

    Raises:
        BertologyError: the file is missing or is no mapping, or a key or value is wrong; the message names the file
            and the key, and the nearest known key.
    """
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BertologyError(f"{path}: no such file; it should be a pretraining recipe in YAML") from None
    except (IsADirectoryError, UnicodeDecodeError) as error:
        raise BertologyError(f"{path}: not a text file ({error}); it should be a pretraining recipe in YAML") from None
    except yaml.YAMLError as error:
        raise BertologyError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if written is None:
        written = {}
    if not isinstance(written, dict):
        raise BertologyError(f"{path}: a recipe is a mapping of keys to values, such as 'steps: 20000'")
    settings = {str(key): _checked(value, str(key), path) for key, value in written.items()}
    for change in changes:
        key, separator, value = change.partition("=")
        if not separator:
            raise BertologyError(f"--set {change}: write key=value, such as steps=20")
        settings[key.strip()] = _checked(yaml.safe_load(value), key.strip(), Path("--set"))
    try:
        return PretrainSettings.model_validate(settings)
    except ValidationError as error:
        raise BertologyError(f"{path}: {_first_problem(error)}") from None


def _checked(value: Any, key: str, source: Path) -> Any:
    """A value with YAML's traps undone: ``no`` is not a number, ``1e-3`` is one."""
    if isinstance(value, bool):
        raise BertologyError(f"{source}: {key}: YAML reads yes, no, on, off as true or false; write a number")
    return value


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, PretrainSettings.model_fields, n=1, cutoff=0.4)
        known = f"did you mean {near[0]}?" if near else f"known are {', '.join(PretrainSettings.model_fields)}"
        return f"unknown key {key!r}: {known}"
    if not key:
        return str(problem["msg"]).removeprefix("Value error, ")
    return f"{key}: {problem['msg'].lower()} (got {problem['input']!r})"
