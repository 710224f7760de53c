"""Reading times: what does a word's surprisal add to predicting how long people read it?

Words that are improbable after what precedes them are read more slowly (Hale 2001; Levy 2008), and how well a model's
surprisal predicts that is a measure of the model as one of human reading (Goodkind & Bicknell 2018; Wilcox et al.
2020). Two linear regressions predict the measure of each word: one from length and log frequency of the word and of the
one before it, whose difficulty spills over; the other from their surprisal as well. Both predict words of sentences
that they were not fitted to, in ten folds. ``delta_r2`` is the share of the variance of times that surprisal explains
beyond, and the other main number the log-likelihood per word that it adds. Both are below 0 where it adds nothing, as
what is fitted to noise predicts worse. Intervals resample sentences, for the folds as they are.

People have not read what follows a word: by default a masked model sees masks in its place (``context=left``), so its
surprisal is of left context, as that of left-to-right models. It was not trained on texts that end in masks only.
``context=cut`` ends the text there, which the model takes for the end of a sentence; ``context=whole`` shows the words
after it, which no reader has seen. Lower layers are read by the head of the last one as they are (logit lens) or, with
``lens_corpus``, through a tuned lens (Belrose et al. 2023). Left-to-right models are scored at their last layer.

The table of de Varda, Marelli & Amenta (2023) has means over people of 1,726 words: variance between people is not in
it, so that shares of variance are larger than in studies of single readings. Times of the pocket world are made up,
from each word's surprisal after the one before it.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology import cloze
from bertology.causal import CausalItems, CausalProbe
from bertology.cloze.probes import lens_text
from bertology.cloze.prompts import Context, Floats
from bertology.corpora import Sentence, Sentences, load_corpus
from bertology.corpora.prompts.reading import READING_MEASURES, ReadText, ReadWord, read_reading_times
from bertology.errors import CorpusError, FitError, ModelError
from bertology.measures import sum_metric
from bertology.measures.sums import Integers, LayerSums, cluster_sums, mean_sums, ratio_sums
from bertology.probing import ControlNote, GeometryCounts, ProbeFamily, RunningModel


@dataclass(frozen=True)
class ReadingTimes(CausalProbe):
    """How much does a word's surprisal add to predicting its reading time?"""

    of: str = "self_paced"
    """The measure."""
    context: Context = "left"
    """What a masked model has in sight after a subword that is scored: ``left`` masks, ``cut`` the end of the text,
    ``whole`` all words."""
    lens_corpus: str | None = None
    """The corpus whose train split a tuned lens is fitted to; when left out lower layers are read as they are."""
    with_punctuation: bool = False
    """Whether the last word of a text and words with punctuation are predicted too."""
    n_folds: int = 10
    """Number of folds of sentences."""
    subject = "meaning"
    fixed_fields = ("of",)
    about = "Words with all values that follow another one."
    reference = "Wilcox et al. 2020; de Varda et al. 2023"
    controls = (ControlNote("none", "readout", "the model's own head, then linear regressions in folds of sentences"),)
    metrics = (
        sum_metric("delta_r2", "share of held-out words' variance that surprisal explains beyond length and frequency"),
        sum_metric("delta_log_likelihood_nats", "log-likelihood per held-out word that surprisal adds"),
        sum_metric("baseline_r2", "share of held-out words' variance that length and log frequency explain"),
        sum_metric("word_surprisal_bits", "mean surprisal of a word", higher_is_better=False),
    )

    @property
    def task(self) -> str:
        """Name with the measure."""
        return f"reading_times:{self.of}"

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Texts with the words that were read."""
        if source != "pocket":
            return CausalItems(read_reading_times(source, self.of, columns=columns))
        if self.of != "self_paced" or columns is not None:
            raise CorpusError(
                "times of the pocket world are made up, self-paced ones alone; give ucl_reading or a table"
            )
        return CausalItems(_made_up())

    def sources(self) -> Mapping[str, str]:
        """The text of the lens."""
        return {"lens_fingerprint": lens_text(self.lens_corpus).text_fingerprint} if self.lens_corpus else {}

    def counts(self, sentences: Mapping[str, Sentences], items: CausalItems | None) -> GeometryCounts:
        """Words, until the model reads them."""
        assert items is not None
        return GeometryCounts(sum(len(one.words) for one in items.items))

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """What the surprisal of each layer adds, by sentence."""
        encoder, layers, texts = model.encoder, tuple(model.layers), model.items.items
        if encoder.causal_head is not None and (self.lens_corpus or self.context != "left"):
            raise ModelError(f"model {encoder.name} reads left to right: leave lens_corpus and context out")
        if self.lens_corpus and layers != (encoder.n_layers,):
            how: Any = {"on_long": model.on_long, "progress": model.progress}
            encoder = encoder.through(cloze.lens.kept_lens(encoder, lens_text(self.lens_corpus), model.run, **how))
        sentences = Sentences(Sentence.from_words(one.text.split()) for one in texts)
        read: Any = {"layers": layers, "context": self.context, "progress": model.progress}
        bits, reasons = cloze.reading.word_surprisal(encoder, sentences, **read)
        words, skipped = _usable(texts, sentences, reasons, with_punctuation=self.with_punctuation)
        yield GeometryCounts(len(words.values), skipped=skipped, unit="words")
        yield from self._statistics(words, bits, layers)

    def _statistics(self, words: "_Words", bits: Floats, layers: tuple[int, ...]) -> Iterator[LayerSums]:
        how: Any = {"groups": words.sentence, "n_folds": self.n_folds}
        base_error, base_log = cloze.reading.held_out(
            words.covariates, words.values, what="length and log frequency", **how
        )
        removed, added = np.empty((2, len(layers), len(words.values)))
        for place, layer in enumerate(layers):
            of_layer = bits[place][words.pair]
            if not np.isfinite(of_layer).all():
                raise ModelError(f"layer {layer}: the surprisal of some word is not a number; leave the layer out")
            what = f"layer {layer}: surprisal with length and log frequency"
            error, log = cloze.reading.held_out(np.hstack([words.covariates, of_layer]), words.values, what=what, **how)
            removed[place], added[place] = base_error - error, log - base_log
        deviation = (words.values - words.values.mean()) ** 2
        total = cluster_sums(deviation, words.sentence)
        explained = np.broadcast_to(deviation - base_error, removed.shape)
        for metric, values in (("delta_r2", removed), ("baseline_r2", explained)):
            yield ratio_sums(metric, cluster_sums(values, words.sentence), total, layers=layers)
        yield mean_sums("delta_log_likelihood_nats", added, words.sentence, layers=layers)
        yield mean_sums("word_surprisal_bits", bits[:, words.pair[:, 0]], words.sentence, layers=layers)


@dataclass(frozen=True, eq=False)
class _Words:
    """The words that are predicted."""

    values: Floats  # [word]
    covariates: Floats  # [word, 4] length and log frequency of the word, and of the one before it
    pair: Integers  # [word, 2] number in all texts of the word, and of the one before it
    sentence: Integers  # [word] from 0


def _usable(
    texts: tuple[ReadText, ...], sentences: Sentences, reasons: Mapping[int, str], *, with_punctuation: bool
) -> tuple[_Words, dict[str, int]]:
    """The words of texts that have all values, and counts of the others by reason."""
    skipped, rows = Counter[str](), list[tuple[float, ...]]()
    for number, (start, one) in enumerate(zip(sentences.starts.tolist(), texts, strict=False)):
        written, by_place = one.text.split(), {word.place: word for word in one.words}
        for word in one.words:
            at, is_last = start + word.place, word.place == len(written) - 1
            before = by_place.get(word.place - 1, ReadWord(0, np.nan, np.nan, np.nan))
            values = [word.length, word.frequency, before.length, before.frequency]
            if word.place - 1 not in by_place:
                why = "the word before it is not in the table"
            elif np.isnan(word.time):
                why = "no time"
            elif np.isnan(values).any():
                why = "no length or frequency, of the word or the one before"
            elif not with_punctuation and (is_last or not written[word.place][-1].isalnum()):
                why = "the last word of a text, or one with punctuation after it"
            else:
                why = reasons.get(at, reasons.get(at - 1, "")).partition(":")[0]
            if why:
                skipped[why] += 1
            else:
                rows.append((word.time, *values, at, at - 1, number))
    if not rows:
        raise FitError(f"no word can be predicted (of all: {skipped.most_common(1)[0][0]})")
    table = np.array(rows)
    sentence = np.unique(table[:, 7], return_inverse=True)[1]
    return _Words(table[:, 0], table[:, 1:5], table[:, 5:7].astype(np.int64), sentence), dict(skipped)


def _made_up() -> tuple[ReadText, ...]:
    """Times of 200 texts of the pocket world, which grow with the length of words and with their surprisal after the
    word before them, by counts of train; frequency is counted there too."""
    corpus, random = load_corpus("pocket"), np.random.default_rng(1)
    texts = dict.fromkeys(" ".join(corpus["test"].text(number).split()) for number in range(len(corpus["test"])))
    train = [corpus["train"].text(number).split() for number in range(len(corpus["train"]))]
    single = Counter(word for words in train for word in words)
    double = Counter(pair for words in train for pair in itertools.pairwise(words))
    made = []
    for text in list(texts)[:200]:
        words = []
        for place, (before, word) in enumerate(itertools.pairwise(["", *text.split()])):
            # One is added to every count, so that no word is impossible.
            surprisal = np.log2((single[before] + len(single)) / (double[before, word] + 1))
            time = 250 + 5 * len(word) + 20 * surprisal + random.normal(0, 30)
            words.append(ReadWord(place, time, len(word), float(np.log10(single[word] + 1))))
        made.append(ReadText(text, tuple(words)))
    return tuple(made)


PROBE = ProbeFamily.among([ReadingTimes(of) for of in READING_MEASURES], argument="measure", default=ReadingTimes())
