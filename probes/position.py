"""Position and segment: what do they do to the vector of a word whose sentence stays the same?

Mickus et al. (2020), *What do you mean, BERT? Assessing BERT as a Distributional Semantics Model*: vectors of the first
and of the second segment of an input differ, though nothing in a word's meaning does. Their segments differ in context
and position too. Here the same sentence is encoded again with one thing changed: all positions shifted (``shift``), or
those of the text alone, with ``[CLS]`` at position 0 (``shift_text``); the token types of the other segment
(``segment``); or after a neutral sentence, as the second of a pair (``after``), which changes position, segment and
context. ``after_hidden`` hides the neutral sentence from attention, so that position and segment alone change. What
``shift`` changes more than ``shift_text`` is due to ``[CLS]``, which is always at position 0 in training.

By layer: how far a word moves, its cosine with the vector it had, the share of its nearest word types that change, and
whether occurrences of a word in one encoding lie closer together than in two, with a permutation test. For scale, the
distance of a word in one sentence to the same word in another is given. The effect of a shift is 0 for a model without
absolute positions (T5, DeBERTa, ModernBERT), that of a segment for one without segments (RoBERTa).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bertology import encoders
from bertology.errors import BertologyError
from bertology.geometry import GeometryProbe
from bertology.geometry.position import encoding_effects
from bertology.geometry.probes import TextItems
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import Splits
from bertology.probing.items import SplitVectors

_CHANGES = ("shift", "shift_text", "segment", "after", "after_hidden")


@dataclass(frozen=True)
class Position(GeometryProbe):
    """What do a word's position and segment do to its vector?"""

    changes: str = "shift,shift_text,segment,after"
    """Some of ``shift``, ``shift_text``, ``segment``, ``after`` and ``after_hidden``, with commas between; the first
    gives the main score."""
    shift: int = 16
    """Number that ``shift`` and ``shift_text`` add to positions."""
    neutral: str = "This is a sentence."
    """The first sentence of ``after``."""
    most_words: int = 20_000
    """Words of running text that are read at most: random sentences of a larger text."""
    task = "position"
    reference = "Mickus et al. 2020"

    @property
    def encodings(self) -> "Mapping[str, encoders.Encoding]":
        """One for each change."""
        every = {
            "shift": encoders.Encoding(shift=self.shift),
            "shift_text": encoders.Encoding(shift=self.shift, is_opened_at_0=True),
            "segment": encoders.Encoding(other_segment=True),
            "after": encoders.Encoding(after=self.neutral),
            "after_hidden": encoders.Encoding(after=self.neutral, is_hidden=True),
        }
        return {name: every[name] for name in self._names}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of each change, and of a word in two sentences."""
        return (
            *(metric for name in self._names for metric in _metrics(name)),
            sum_metric("moved_other_sentence", "mean ‖x − y‖ / ‖y‖ of a word's vectors x and y in two sentences"),
            sum_metric("cosine_other_sentence", "mean cosine of a word's vectors in two sentences"),
        )

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Effects of every change."""
        plain, text = vectors["test"], sentences["test"]
        changed = {name: vectors[name] for name in self._names}
        types, of_sentence = text.forms.codes[plain.words], text.sentence_of_word[plain.words]
        return encoding_effects(plain, changed, types, of_sentence)

    @property
    def _names(self) -> list[str]:
        names = self.changes.replace(" ", "").split(",")
        for name in names:
            if name not in _CHANGES:
                raise BertologyError(f"task position: changes has {name!r}; it should be some of {', '.join(_CHANGES)}")
        if self.shift < 1 or not self.neutral.strip():
            raise BertologyError("task position: shift should be at least 1, and neutral a sentence")
        return names


def _metrics(change: str) -> tuple[Metric, ...]:
    return (
        sum_metric(f"moved_{change}", "mean ‖x − y‖ / ‖y‖, y the vector without the change", higher_is_better=False),
        sum_metric(f"cosine_{change}", "mean cosine with the vector without the change"),
        share_metric(
            f"neighbours_changed_{change}", "share of the ten nearest word types that change", higher_is_better=False
        ),
        sum_metric(
            f"across_within_{change}",
            "distance of a word's occurrences with and without the change minus that within one",
            higher_is_better=False,
        ),
        sum_metric(f"across_within_p_{change}", "p-value: share of permutations with as large a difference"),
    )


PROBE = Position()
