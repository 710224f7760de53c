"""Questions about what a model computes with, answered by interventions on its forward pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from bertology._files import digest
from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.probing import GeometryCounts, Probe
from bertology.probing.probes import SplitName, Subject

if TYPE_CHECKING:
    from bertology.encoders import Encoder
    from bertology.measures.sums import LayerSums


@dataclass(frozen=True)
class CausalItems:
    """Texts of a probe's own, such as pairs that differ in one word.

    Raises:
        CorpusError: there is none.
    """

    items: tuple[Any, ...]
    """Each a dataclass of strings and tuples of strings, which the fingerprint is made of."""
    language: str | None = None
    """Language of the texts, by whose rules words are found, where items do not state it themselves."""

    def __post_init__(self) -> None:
        if not self.items:
            raise CorpusError("no text to ask about")

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all items."""
        language = [] if self.language is None else [self.language.encode()]
        return digest([*(repr(item).encode() for item in self.items), *language])

    def some(self, most: int | None) -> CausalItems:
        """A random sample of at most ``most`` items, which is the same on every machine."""
        if most is None or most >= len(self.items):
            return self
        names = {repr(item): number for number, item in enumerate(self.items)}
        chosen = sorted(names, key=lambda name: digest([name.encode()]))[:most]
        return replace(self, items=tuple(self.items[number] for number in sorted(names[name] for name in chosen)))


class CausalProbe(Probe):
    """A question put to a running model: what happens to its predictions when states of one layer are changed?

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    A model of random weights predicts nothing that it could lose, which one initialisation shows.
    """

    subject: ClassVar[Subject] = "causes"

    asked_by = "counts"
    family = "causal"
    most_draws = 1

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """The splits that are read; none where the probe has texts of its own."""
        return ()

    def items(self, source: str, *, columns: str | None = None) -> CausalItems | None:
        """Texts of the probe's own, of a corpus or of a table with named columns; None where it reads splits."""
        return None

    def sources(self) -> Mapping[str, str]:
        """Hashes by name of what settings name and the probe reads besides, such as a file of pairs."""
        return {}

    def counts(self, sentences: Mapping[str, Sentences], items: CausalItems | None) -> GeometryCounts:
        """How many items are asked about; a :class:`CorpusError` where the text lacks what is asked about."""
        return GeometryCounts(0 if items is None else len(items))

    @abstractmethod
    def measure(
        self,
        encoder: Encoder,
        sentences: Mapping[str, Sentences],
        items: CausalItems | None,
        *,
        layers: Sequence[int],
        on_long: str,
    ) -> Iterator[LayerSums | GeometryCounts]:
        """The statistics of each layer; and counts in place of those of :meth:`counts`, where the model tells more.

        Args:
            encoder: the model, to be left as it is found.
            sentences: by split, those longer than the model takes to be treated as ``on_long`` says.
            items: what :meth:`items` gave.
            layers: those that are asked about; a statistic may be of fewer.
            on_long: as in :meth:`Encoder.tokenize`.

        Raises:
            ModelError: the model has no masked-LM head, or not what is changed.
            FitError: there is nothing to change.
        """
