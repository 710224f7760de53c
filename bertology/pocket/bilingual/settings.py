"""What can be chosen about the second pocket language, and about how a model reads it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertology.pocket.bilingual.translation import Order, Translator

MOST_ALIKE = 0.3


class Language(BaseModel):
    """What the second language is like, by the elements of Dufter & Schütze (2020, section 3)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    order: Order = "own"
    """Order of words: ``own`` (objects before verbs, postpositions, nouns before adjectives), the ``same`` as in the
    first language, or that of the first ``reversed``."""
    anchors: Annotated[float, Field(ge=0, le=MOST_ALIKE)] = 0.0
    """Share of the names of people, towns and countries that both languages spell alike."""
    fake: Literal["shift"] | None = None
    """``shift``: the first language again with other pieces, one for one, in place of a language of its own."""

    @property
    def translator(self) -> Translator:
        """What makes its sentences."""
        return Translator(order=self.order, anchors=self.anchors, shifted=self.fake == "shift")

    @property
    def code(self) -> str:
        """Its language code: of those that ISO 639 leaves to private use."""
        return "qfe" if self.fake else "qpo"


class SecondLanguage(Language):
    """The second language of a pretraining text, and how a model reads it."""

    parallel: bool = True
    """Whether the text in the second language is the translation of that in the first, or of other documents."""
    switched: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the words with one word as their translation that pretraining text replaces by it, in both languages."""
    paired: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of batches in which each sentence is read together with its translation, as two segments (*translation
    language modelling*, Conneau & Lample 2019, section 3.3)."""
    shared_specials: bool = True
    """Whether ``[CLS]``, ``[SEP]`` and ``[MASK]`` are the same in both languages."""
    shared_positions: bool = True
    """Whether the embeddings of positions are the same in both languages."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.paired and not self.parallel:
            raise ValueError("paired: only translations can be read together: give parallel true")
        if self.paired and not (self.shared_specials and self.shared_positions):
            raise ValueError("paired: special tokens and positions of two languages in one input must be shared")
        return self
