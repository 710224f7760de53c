"""Recipes of pretraining: every setting, the combinations that are refused, and reading a recipe from its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertology._settings import changed, checked, file_schema, read_yaml
from bertology.errors import cut
from bertology.pocket._bilingual import SecondLanguage

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Positive = Annotated[float, Field(strict=True, gt=0, le=1e6)]
Whole = Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(strict=True, gt=0, le=10**9)]
Size = Annotated[int, Field(strict=True, gt=0, le=2**16)]
_WHAT = "a pretraining recipe"


class PretrainSettings(BaseModel):
    """All settings of pretraining, which determine the model."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    seed: Whole = 0
    """Decides the text, the initial weights, the order of examples and what is masked."""

    documents: Annotated[Count, Field(ge=2)] = 5000
    """Documents of pretraining text, of 5 to 9 sentences each; two at least, for a pair that does not follow."""
    held_out_documents: Annotated[Count, Field(ge=2)] = 300
    """Documents of text that is only evaluated on."""
    vocabulary_size: Count = 1150
    """Pieces that the tokenizer learns, of each language; words that must be whole come on top."""
    second_language: SecondLanguage | None = None
    """A second language, in which half of the text is; none where left out."""

    layers: Size = 4
    """Transformer blocks."""
    width: Size = 128
    """Size of hidden states."""
    heads: Size = 4
    """Attention heads of each block."""
    inner_width: Size = 512
    """Size of the feed-forward layers."""
    max_pieces: Annotated[Size, Field(ge=16)] = 64
    """Longest input, special tokens included."""
    dropout: Share = 0.0
    """Dropout of hidden states and attention."""
    initializer_range: Positive = 0.06
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
    random_replacement: bool = True
    """Whether pieces to predict may be replaced by random ones; if not, 90 % of them are masked."""
    salience: Positive = 4.0
    """Factor by which towns, countries, trades and verb forms that agree are to be predicted than other pieces:
    they are where the knowledge is, and a short run sees few of them otherwise."""
    salience_from: Whole = 4000
    """The step from which that holds."""
    learning_rates: tuple[tuple[Whole, Share], ...] = Field(
        default=((0, 0.0), (300, 1.2e-3), (20000, 1.2e-3), (36000, 0.0)), min_length=1
    )
    """Steps and the learning rate there; in between it is interpolated."""
    weight_decay: Share = 0.01
    """AdamW's decay, of matrices only."""
    clip_norm: Positive = 1.0
    """Largest norm of the gradient."""

    checkpoint_every: Count = 1000
    """Steps between states from which a killed run resumes."""
    evaluate_every: Count = 2000
    """Steps between evaluations on held-out text."""
    keep_checkpoints: tuple[Whole, ...] = ()
    """Steps at which a whole model folder is kept under ``checkpoints/``, to probe across training; 0 is the
    untrained model."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width: {self.width} cannot be split over {self.heads} heads")
        at = [step for step, _ in self.learning_rates]
        if at != sorted(set(at)):
            raise ValueError(f"learning_rates: steps must rise, but are {cut(', '.join(map(str, at)))}")
        for step in self.keep_checkpoints:
            if step > self.steps:
                raise ValueError(f"keep_checkpoints: {step} is beyond the last of {self.steps} steps")
        if self.second_language is not None and self.alone_share < 1:
            raise ValueError(
                "alone_share: with a second_language, sentences are read alone (whether a sentence follows another "
                "would be told by its language): give 1.0"
            )
        return self

    def apart(self) -> PretrainSettings:
        """These settings without words of one language in the text of the other."""
        second = self.second_language
        if second is None or not second.switched:
            return self
        return self.model_copy(update={"second_language": second.model_copy(update={"switched": 0.0})})


def load_settings(path: Path, *, changes: Sequence[str] = ()) -> PretrainSettings:
    """Read a recipe.

    Args:
        path: a YAML file.
        changes: ``key=value`` pairs that replace what the file says.

    Raises:
        BertologyError: the file is missing or is no mapping, or a key or value is wrong; names file, line and key.
    """
    written = read_yaml(path, what=_WHAT, example="steps: 20000", command="pretrain")
    return checked(PretrainSettings, changed(written, changes))


def recipe_schema() -> Mapping[str, Any]:
    """JSON Schema of a recipe, with which editors complete and check the file."""
    return file_schema(PretrainSettings, "pretrain", title="pretraining")
