"""Questions put to the masked-LM head, and their items."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from bertology import encoders
from bertology._files import canonical_json, digest
from bertology._names import by_key
from bertology.cloze.prompts import AnswerForm
from bertology.corpora import Sentences, load_corpus
from bertology.corpora.prompts import ClozeItem, LeftOut, read_item_table
from bertology.errors import CorpusError, quoted
from bertology.probing import ControlNote, Probe
from bertology.probing.probes import Subject

ClozeAsks = Literal["answers", "choices", "contexts", "sentences", "statements", "changes", "next_sentence"]
"""The questions put to a text.

- ``answers``: at which place of the vocabulary the answer stands at the mask.
- ``choices``: whether the answer is more probable at the mask than each of the rivals.
- ``contexts``: whether the answer is more probable at the mask of the text than at that of the other one.
- ``sentences``: whether the text is more probable than the other one, as whole sentences.
- ``statements``: whether the text with the answer at its mask is more probable, as a whole sentence, than with each of
  the rivals, which may have any number of subwords.
- ``changes``: what becomes, at the mask of the other text, of the word that is the most probable one in the text; of
  an item with ``rivals`` the most probable of these, in the other text of the words ``accepted``, place by place.
- ``next_sentence``: whether the other text follows the text; the answer is ``next`` or ``other``.
"""


_ORACLE = ControlNote(
    "majority",
    "majority (oracle)",
    "the answer most frequent in each group of this test itself, which no model may look at",
)


@dataclass(frozen=True)
class ClozeItems:
    """All items of a task; a :class:`CorpusError` where there is none, or two have one name."""

    items: tuple[ClozeItem, ...]
    left_out: tuple[LeftOut, ...] = ()
    """Items of the source that cannot be asked, whatever the model."""
    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The words among which answers are ranked, by group (for ``answers``); the model's own vocabulary if none."""
    language: str | None = "en"
    clusters: str = "clusters"
    """Display name of the clusters, in the plural: ``subjects``, ``documents``."""

    @classmethod
    def of(cls, found: Iterable[ClozeItem | LeftOut], **more: Any) -> "ClozeItems":
        """The items, and those that are left out, of both in one; ``more`` are the other fields."""
        every = list(found)
        left = tuple(one for one in every if isinstance(one, LeftOut))
        return cls(tuple(one for one in every if isinstance(one, ClozeItem)), left, **more)

    def __post_init__(self) -> None:
        if not self.items:
            reason = max(self.reasons, key=lambda reason: self.reasons[reason], default=None)
            raise CorpusError(f"no item to ask{f' (of all: {reason})' if reason is not None else ''}")
        for name, times in Counter(item.id for item in self.items).items():
            if times > 1:
                raise CorpusError(f"two items are called {quoted(name)}: give each a name of its own")

    def check(self, asks: ClozeAsks) -> None:
        """Check that every item has the fields that this kind of task needs; a :class:`CorpusError` names one that
        lacks one."""
        for item in self.items:
            if problem := _problem(item, asks):
                raise CorpusError(f"item {quoted(item.id)} {problem}")

    def some_of_each_group(self, n: int, *, whole_clusters: bool = False) -> "ClozeItems":
        """``n`` items of every group at most, drawn at random: the same ones wherever and whenever they are drawn.

        Items made by a grammar come in a rhythm, into which every n-th would fall. Of ``whole_clusters`` as many are
        taken as hold about ``n`` items, and one at least.
        """
        units = [(item.group, item.cluster if whole_clusters else item.id) for item in self.items]
        kept: set[tuple[str, str]] = set()
        for group, of_items in by_key(units).items():
            names = set(of_items)
            wanted = max(1, min(len(names), n * len(names) // len(of_items)))
            kept.update((group, name) for name in sorted(names, key=lambda name: digest([name.encode()]))[:wanted])
        return replace(self, items=tuple(item for item, unit in zip(self.items, units, strict=True) if unit in kept))

    def __len__(self) -> int:
        return len(self.items)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups in the order in which they come."""
        return tuple(dict.fromkeys(item.group for item in self.items))

    @cached_property
    def reasons(self) -> Mapping[str, int]:
        """Numbers of items left out, by reason."""
        return dict(Counter(left.reason for left in self.left_out))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that is asked, and of what could not be."""
        names = [part.name for part in fields(ClozeItem) if part.repr]
        parts = [[getattr(item, name) for name in names] for item in self.items]
        left = [(one.id, one.group, one.reason) for one in self.left_out]
        return digest([canonical_json([parts, dict(self.vocabularies), left])])


def lens_text(name: str) -> Sentences:
    """The train split of a corpus, which a tuned lens is fitted to; a :class:`CorpusError` where there is none."""
    splits = load_corpus(name).splits
    if "train" not in splits:
        raise CorpusError(f"lens_corpus {name}: a lens is fitted to a train split; this corpus has {', '.join(splits)}")
    return splits["train"]


def with_ignored(items: Sequence[ClozeItem]) -> list[ClozeItem]:
    """Items whose text has several answers, each right in an item of its own: the others take no place before it."""
    answers = by_key(dict.fromkeys(((item.group, item.text), item.answer) for item in items))
    others = (tuple(word for word in answers[item.group, item.text] if word != item.answer) for item in items)
    return [replace(item, ignored=ignored) for item, ignored in zip(items, others, strict=True)]


def _problem(item: ClozeItem, asks: ClozeAsks) -> str:
    """The mistake in an item; empty if there is none."""
    if not item.text.strip():
        return "has no text"
    masked = [item.text] if asks in ("answers", "choices", "contexts", "statements", "changes") else []
    if asks in ("contexts", "changes") or (asks == "choices" and item.other):
        masked.append(item.other)
    if any(text.strip() and text.count("{mask}") != 1 for text in masked):
        return "should have one {mask} in each of its texts"
    if asks in ("answers", "choices", "contexts", "statements", "next_sentence") and not item.answer:
        return "has no answer"
    if asks in ("choices", "statements") and not item.rivals:
        return "has no rival to choose from"
    if asks in ("contexts", "sentences", "changes", "next_sentence") and not item.other.strip():
        return "has no other text to compare with"
    if asks == "next_sentence" and item.answer not in ("next", "other"):
        return f"has the answer {quoted(item.answer)}: write next or other"
    return ""


@dataclass(frozen=True, kw_only=True)
class ClozeProbe(Probe):
    """A question put to the head of a masked language model: prompts and answers in, scores by layer out.

    Subclasses are frozen dataclasses without state. They define the items (:meth:`items`) and how they are scored;
    the family runs the model, with every layer through its head, and makes baselines, intervals and tables.
    """

    subject: ClassVar[Subject] = "facts"

    shared_alone: ClassVar[bool] = False
    """Whether of two sentences the pieces alone are scored that both have."""
    asked_by = "items"
    family = "cloze"
    reads = ()
    controls = (ControlNote("blind", "blind", "the same texts without the words that decide the answer"),)

    form: AnswerForm | None = None
    """Scoring of words of several subwords and of sentences; when left out ``one_piece`` for words and ``original`` for
    sentences. See :data:`bertology.cloze.prompts.AnswerForm`."""
    vocabulary: str | None = None
    """A file of words, one a line, among which answers are ranked, such as those that several models share (Petroni et
    al. 2019, section 4.1.2); the model's own vocabulary when left out."""
    lens_corpus: str | None = None
    """The corpus of the readout ``tuned_lens``, whose train split its translators are fitted to; with texts of the
    embedded corpus that one when left out."""

    @property
    @abstractmethod
    def asks(self) -> ClozeAsks:
        """Question that is put to a text."""

    @property
    def baselines(self) -> tuple[ControlNote, ...]:
        """The most frequent answer, where it is a word of the vocabulary and not one of an item's own choices."""
        return (_ORACLE,) if self.asks == "answers" else ()

    @property
    def knows_chance(self) -> bool:
        """Whether the answer is a choice among given words, or between two texts."""
        return self.asks in ("choices", "sentences", "statements", "next_sentence")

    @abstractmethod
    def items(self, source: str) -> ClozeItems:
        """The items of a source, ``pocket`` or the path of a file or folder; a :class:`CorpusError` without any."""

    def regrouped(self, items: ClozeItems, encoder: "encoders.Encoder") -> ClozeItems:
        """The items in groups that depend on what the model itself predicts of them; by default as they are."""
        return items

    def read_items(self, source: Any, *, columns: str | None = None) -> ClozeItems:
        """Items from the rows of a table; from any other source, the items of :meth:`items`.

        For a table, in memory or by its name, ``columns`` maps fields to its columns, as in
        ``"good=sen,bad=wrong_sen,group=phenomenon"``.
        """
        rows = read_item_table(source, self.asks, columns=columns)
        if rows is None:
            return self.items(source)
        made = ClozeItems.of(rows, language=None)
        return replace(made, items=tuple(with_ignored(made.items))) if self.asks == "answers" else made
