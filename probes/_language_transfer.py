"""Labels of words in several languages: does what tells them in one language tell them in another?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import ParallelText, Sentences
from bertology.errors import CorpusError, NameNotFoundError, quoted
from bertology.geometry import LayerSums, languages
from bertology.measures import majority, share_metric, word_majority
from bertology.probing import (
    ControlNote,
    Examples,
    GeometryBaseline,
    GeometryCounts,
    GeometryProbe,
    RepresentationProbe,
    get_probe,
)

if TYPE_CHECKING:
    from bertology.geometry import LayerVectors

_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Transfer(GeometryProbe):
    """Does a readout fitted in one language hold in another?

    ``languages:transfer:pos`` fits the labels of the task ``pos`` in each language and puts each fit to the others,
    without labels of theirs; so does any task about single words. A label that the language of the fit lacks counts as
    wrong. Baselines: the most frequent label of the language of the fit (``majority``), and the label that a word's
    form has most often there (``word_majority``), which tells how much is spelled alike. Trees and spans of several
    words are fitted in one corpus and tested in another by ``test_on`` of an experiment.
    """

    of: str = "pos"
    """The task whose labels are asked for."""
    most_words: int = 5000
    """Words of each language that are read at most, of train; of dev and test half as many."""
    version = 1
    subject = "languages"
    question = "Does a readout fitted in one language hold in another?"
    reference = "cf. Pires et al. 2019, §3"
    reads = ("train", "dev", "test")
    fits = "a logistic regression in each language"
    baselines = (
        ControlNote("majority", "majority", "the label most frequent in the language that the readout was fitted to"),
        ControlNote(
            "word_majority",
            "word majority",
            "the label most frequent there for the same word form; for a new one, of all words",
        ),
    )
    metrics = (
        share_metric("transfer", "accuracy in a language that the readout was not fitted to"),
        share_metric("transfer_centred", "the same of vectors moved to the mean of the language it was fitted to"),
        share_metric("transfer_standardised", "the same of vectors given its mean and spread in each dimension"),
        share_metric("own", "accuracy in the language that the readout was fitted to"),
    )

    @property
    def task(self) -> str:
        """``languages:transfer:`` and the task."""
        return f"languages:transfer:{self.of}"

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """Words with a label, of sentences drawn at random."""
        return {split: self._asked(sentences[split], self.most_words // (1 + (split != "train"))) for split in _SPLITS}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Words of test, and those of train."""
        items = self._items(sentences, words)
        train, test = items.splits["train"], items.splits["test"]
        unseen = int((~np.isin(test.codes, train.codes)).sum())
        return GeometryCounts(len(test), n_train=len(train), n_classes=items.n_labels, n_unseen_label=unseen)

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """By source and target language."""
        words = {split: vectors[split].words for split in _SPLITS}
        return languages.transfer(vectors, self._items(sentences, words))

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """The most frequent label of the language of the fit, of all words or of the same form."""
        items = self._items(sentences, words)
        train, test = items.splits["train"], items.splits["test"]
        forms = {
            split: _forms(sentences[split], words[split][items.splits[split].places]) for split in ("train", "test")
        }
        known = {form: number for number, form in enumerate(dict.fromkeys(forms["train"]))}
        codes = np.array([known[form] for form in forms["train"]])
        right: dict[int, NDArray[np.float64]] = {}
        for source in items.sources:
            own = train.language == source
            seen = set(codes[own].tolist())
            asked = np.array([number if (number := known.get(form, -1)) in seen else -1 for form in forms["test"]])
            if name == "majority":
                predicted = np.full(len(test), majority(train.codes[own]))
            else:
                predicted = word_majority(codes[own], train.codes[own], asked, n_words=len(known))
            right[source] = np.asarray(predicted == test.codes, dtype=np.float64)[None]
        yield from items.scores("transfer", (None,), right)
        yield from items.own_scores("own", (None,), right)

    def _examples(self, sentences: Sentences) -> Examples:
        probe = get_probe(self.of)
        if not isinstance(probe, RepresentationProbe):
            raise NameNotFoundError(
                f"languages:transfer:{self.of}: {quoted(self.of)} has no labels of words, as pos has"
            )
        examples = probe.examples(sentences)
        if not examples.are_words or examples.is_multi_label:
            raise NameNotFoundError(
                f"languages:transfer:{self.of}: items of {quoted(self.of)} are not single words of one label; fit it "
                "in one corpus and test it in another by test_on of an experiment"
            )
        return examples

    def _asked(self, sentences: Sentences, most: int) -> NDArray[np.int64]:
        """Words with a label of so many sentences, drawn at random, that there are ``most`` of each language."""
        words, text = self._examples(sentences).words, ParallelText.of(sentences)
        of_sentence = np.bincount(sentences.sentence_of_word[words], minlength=len(text.language))
        order = np.random.default_rng(0).permutation(len(of_sentence))
        chosen = np.zeros(len(of_sentence), dtype=bool)
        for language in range(len(text.languages)):
            own = order[text.language[order] == language]
            chosen[own[np.cumsum(of_sentence[own]) <= most]] = True
        return np.unique(words[chosen[sentences.sentence_of_word[words]]])

    def _items(
        self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> languages.TransferItems:
        texts = {split: ParallelText.of(sentences[split]) for split in _SPLITS}
        names = tuple(dict.fromkeys(name for text in texts.values() for name in text.languages))
        examples = {split: self._examples(sentences[split]) for split in _SPLITS}
        number = {
            value: code for code, value in enumerate(dict.fromkeys(v for e in examples.values() for v in e.values))
        }
        splits = {}
        for split, of_split in examples.items():
            kept = np.isin(of_split.words, words[split])
            text, asked = texts[split], of_split.words[kept]
            of_text = np.array([names.index(name) for name in text.languages])
            language = of_text[text.language[sentences[split].sentence_of_word[asked]]]
            codes = np.array([number[value] for value in of_split.values])[of_split.codes[kept]]
            splits[split] = languages.LabelledWords(np.searchsorted(words[split], asked), language, codes)
        of_test = sentences["test"].sentence_of_word[
            examples["test"].words[np.isin(examples["test"].words, words["test"])]
        ]
        units = texts["test"].unit
        units = np.where(units >= 0, units, units.max(initial=-1) + 1 + np.arange(len(units)))
        items = languages.TransferItems(names, len(number), splits, np.unique(units[of_test], return_inverse=True)[1])
        if not items.sources or len(names) < 2 or not len(splits["test"]):
            raise CorpusError(
                f"languages:transfer:{self.of}: {len(items.sources)} languages have train words of two labels; give "
                "multilingual:en=PATH,de=PATH of corpora with train, dev and test"
            )
        return items


def _forms(sentences: Sentences, words: NDArray[np.int64]) -> list[str]:
    return [sentences.word(int(word)).casefold() for word in words]
