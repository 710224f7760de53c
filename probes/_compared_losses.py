"""The masked-LM loss of a model and of its reference on the same masked words: what has it forgotten to predict?

Whole words are masked, 15 % of those of each sentence (Devlin et al. 2019, §3.1), and the loss of a word is the sum
over its pieces, so that models with different tokenizers are compared on the same words. Both need a masked-LM head. A
few words of many pieces, such as rules of dashes and addresses, may weigh much: the table by group has parts of speech.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from bertology import comparison
from bertology.corpora import Sentences
from bertology.geometry import LayerSums
from bertology.measures import share_metric, sum_metric
from bertology.probing import EncoderComparison, LayerPair

from ._text_sample import words_of_sentences

if TYPE_CHECKING:
    from bertology.activations import Progress
    from bertology.encoders import Encoder, OnLong


@dataclass(frozen=True)
class ComparedLosses(EncoderComparison):
    """How many bits more does a masked word cost?"""

    by: str = "upos"
    """The layer of labels of words that groups are made of, where the text has it."""
    share: float = 0.15
    """Of the words of a sentence that are masked, at least one."""
    most_words: int = 10_000
    """Words of running text that are read at most: random sentences of a larger text."""
    task = "comparison:masked_loss"
    version = 1
    question = "How well does a model predict masked words, beside its reference?"
    reference = "Devlin et al. 2019"
    metrics = (
        sum_metric("change_bits", "bits of a masked word more than in the reference", higher_is_better=False),
        sum_metric("masked_loss_bits", "bits of a masked word", higher_is_better=False),
        sum_metric("reference_bits", "the same of the reference", higher_is_better=False),
        share_metric("accuracy", "share of masked words whose pieces are all predicted"),
        share_metric("accuracy_reference", "the same of the reference"),
    )
    columns: Literal["model"] = "model"
    reads = ("test",)

    def check(self, sentences: Mapping[str, Sentences]) -> None:
        """Any text will do."""

    def measure(
        self,
        model: Encoder,
        reference: Encoder,
        sentences: Mapping[str, Sentences],
        *,
        layers: Sequence[LayerPair],
        on_long: str,
        progress: Progress,
    ) -> Iterator[LayerSums]:
        """Of the whole model, by sentence, and by label."""
        text = sentences["test"]
        numbers = np.unique(text.sentence_of_word[words_of_sentences(text, self.most_words)])
        read = Sentences(text[number] for number in numbers.tolist())
        found = comparison.masked_losses(reference, model, read, share=self.share, on_long=cast("OnLong", on_long))
        of_a, of_b = found.losses
        of_sentence = numbers[read.sentence_of_word[of_a.words]]
        values = {
            "change_bits": of_b.word_bits - of_a.word_bits,
            "masked_loss_bits": of_b.word_bits,
            "reference_bits": of_a.word_bits,
            "accuracy": of_b.word_right,
            "accuracy_reference": of_a.word_right,
        }
        for group, chosen in found.groups(self.by if self.by in read.layers else None).items():
            under = np.bincount(of_sentence[chosen], minlength=len(text))[None].astype(np.float64)
            for metric, of_word in values.items():
                over = np.bincount(of_sentence[chosen], weights=of_word[chosen], minlength=len(text))[None]
                name = "" if group == "all" else group
                yield LayerSums(metric, (None,), over.astype(np.float64), under, "sentences", name)
