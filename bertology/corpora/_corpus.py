"""A corpus: named splits of annotated sentences, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bertology._files import digest
from bertology._names import name_not_found
from bertology.corpora._sentences import Sentences


@dataclass(frozen=True)
class Corpus:
    """Splits of one corpus. A split is a :class:`Sentences`; usual names are ``train``, ``dev`` and ``test``."""

    name: str
    splits: Mapping[str, Sentences]
    language: str | None = None
    """ISO 639 code where known."""
    licence: str | None = None
    annotator: str | None = None
    """Name and version of the pipeline that made the labels, or ``None`` when they are gold. Results from
    such labels are marked *silver*."""
    reference: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    """What was unusual in its files, how often, and where."""
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What was left out of it by kind, each with its place (``file:line`` or a sentence's id)."""

    @property
    def is_silver(self) -> bool:
        """Whether the labels were made by a program."""
        return self.annotator is not None

    def __getitem__(self, split: str) -> Sentences:
        """The sentences of ``split``.

        Raises:
            NameNotFoundError: there is no such split.
        """
        if split not in self.splits:
            raise name_not_found(f"split of corpus {self.name}", split, self.splits)
        return self.splits[split]

    def __contains__(self, split: str) -> bool:
        return split in self.splits

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content of all splits; the name does not enter."""
        return digest(part.encode() for name in sorted(self.splits) for part in (name, self[name].fingerprint))
