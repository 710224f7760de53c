"""Settings of a landscape, and the file that holds them together with the models and the text."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from bertology._settings import Name, Settings, Text, Whole, changed, checked, file_schema, read_yaml

_WHAT = "a file of a landscape"
MOST_MODELS = 3


class LandscapeSettings(Settings):
    """Settings of a landscape besides models and text."""

    sentences: Annotated[Whole, Field(ge=1)] = 200
    """At most so many of the split, the first ones."""
    points: Annotated[Whole, Field(ge=3)] | None = None
    """On each axis, at least 3; 21 on a line and 13 in a plane when left out."""
    extent: tuple[float, float] | None = None
    """Least and greatest step on each axis; 0…1 between two models, −1…1 in random directions and −0.5…1.5 in the plane
    of three models when left out."""
    radius: Annotated[float, Field(gt=0)] = 0.1
    """Radius of sharpness: rows of weight matrices move by this share of their length."""
    directions: Annotated[Whole, Field(ge=0)] = 10
    """Random directions for sharpness, for each model, 2 or more; 0 leaves it out."""
    iterations: Annotated[Whole, Field(ge=0)] = 50
    """Most products with the Hessian for its top and least eigenvalue, of each model (Lanczos method); 0: neither."""
    tolerance: Annotated[float, Field(gt=0)] = 0.01
    """Relative residual at which the Lanczos method stops."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.15
    """Proportion of words that are masked."""
    seed: Annotated[Whole, Field(ge=0)] = 0
    """Decides masks and random directions."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision that everything is computed in."""

    @field_validator("extent")
    @classmethod
    def _extent(cls, extent: tuple[float, float] | None) -> tuple[float, float] | None:
        low, high = extent or (0.0, 1.0)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"{low:g}…{high:g} is none: give a lower and a higher number")
        return extent

    @field_validator("directions")
    @classmethod
    def _directions(cls, directions: int) -> int:
        if directions == 1:
            raise ValueError("is 1: give 0, or 2 or more")
        return directions


class LandscapeFile(LandscapeSettings):
    """A landscape written down: models, text and settings."""

    name: Name
    """The folder of the results is called so, ``runs/NAME``."""
    models: Annotated[tuple[Text, ...], Field(min_length=1, max_length=MOST_MODELS)]
    """One to three of one shape."""
    corpus: Text = "pocket"
    """`pocket`, `ud:en_ewt`, a folder or a file."""
    columns: Text | None = None
    """Content of the columns of column files, or of a table."""
    split: Text = "dev"
    """Split whose sentences the loss is over."""
    head: Text | None = None
    """Folder of a fine-tuned model: the loss is that of its task, not of masked words."""
    trajectory: Text | tuple[Text, ...] = ()
    """Checkpoints, or folders with `checkpoint-N` in them, that are projected onto the line or plane."""

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of :func:`bertology.landscape`: all but name and models."""
        return {key: getattr(self, key) for key in type(self).model_fields if key not in ("name", "models")}


def landscape_schema() -> Mapping[str, Any]:
    """JSON Schema of a file of a landscape, by which editors complete and check."""
    return file_schema(LandscapeFile, "landscape", title="landscape")


def load_landscape(path: str | Path, *, changes: Sequence[str] = ()) -> LandscapeFile:
    """The landscape that a YAML file describes, for ``landscape(*found.models, **found.options)``.

    The ``changes`` are keys to replace, as texts: ``"points=5"``, ``"models[1]=tuned/seed-2"``.

    Raises:
        BertologyError: no such file, or something in it is not as it should be; names file, line and key.
    """
    written = read_yaml(Path(path), what=_WHAT, example="name: trial", command="landscape")
    return checked(LandscapeFile, changed(written, changes))
