"""Languages: what does an encoder share between them, and in which layer?

Pires, Schlinger & Garrette (2019), *How Multilingual is Multilingual BERT?*, and Libovický, Rosa & Fraser (2019), *How
Language-Neutral is Multilingual BERT?*. They use the test split of a corpus of several languages,
``parallel:en=PATH,de=PATH``, or ``multilingual:…`` where no translations are needed.
What is fitted is fitted to other folds of its sentences.

- ``languages:identity``: does a linear classifier find the language, before and after it is removed?
- ``languages:centroids``: how far apart do languages lie, and do they cluster by family?
- ``languages:retrieval``: is the nearest sentence of another language the translation?
- ``languages:translation``: is the nearest word of another language what a word is translated by?
- ``languages:alignment``: do the vectors of words find gold links of words?
- ``languages:transfer:pos``, or any other task about words: does a readout fitted in one language hold in another? It
  is fitted to train, and its strength chosen on dev.

Each has a baseline of spelling (``lexical``), since an encoder of one language may match names, numbers and cognates.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bertology.activations.layers import LayerVectors
from bertology.corpora import ParallelText
from bertology.errors import CorpusError, NameNotFoundError
from bertology.geometry import GeometryProbe, alignment, languages
from bertology.geometry.probes import TextItems
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import LayerSums, mean_sums
from bertology.probing import ControlNote, GeometryCounts, Probe, ProbeFamily, Splits
from bertology.probing.items import SplitVectors, SplitWords, is_punctuation
from bertology.probing.probes import labels_of_words

_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class _OfSentences(GeometryProbe):
    most_sentences: int = 1000
    """Sentences of each language that are read at most."""
    subject = "languages"
    reference = "Libovický et al. 2019"
    pools = ("mean", "cls")
    _needs_translations = False

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words of the sentences that are read."""
        test, text = sentences["test"], ParallelText.of(sentences["test"])
        if words is None:
            chosen = languages.sampled_sentences(text, self.most_sentences, only_translated=self._needs_translations)
            words = {"test": np.flatnonzero(chosen[test.sentence_of_word])}
        items = languages.LanguageItems.of(text, test.sentence_of_word[words["test"]])
        without = int((text.language < 0).sum())
        skipped = {"sentences whose language is not stated": without} if without else {}
        return TextItems(words, GeometryCounts(len(items), n_classes=len(items.names), skipped=skipped), items)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        cls, test = vectors.get("cls:test"), sentences["test"]
        if cls is None:
            return self._statistics(vectors["test"], items.data)
        kept = np.flatnonzero(np.isin(cls.words, np.unique(test.sentence_of_word[items.words["test"]])))
        read = LayerVectors.of_arrays(np.stack([cls.of(layer)[kept] for layer in cls.layers]), layers=cls.layers)
        return self._statistics(read, languages.LanguageItems.of(ParallelText.of(test), cls.words[kept]))

    @abstractmethod
    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        """Statistics of vectors of sentences or of their words."""


@dataclass(frozen=True)
class Identity(_OfSentences):
    """Does a linear classifier find the language of a sentence, before and after it is removed?"""

    folds: int = 5
    """Parts for cross-validation, in which translations stay together."""
    task = "languages:identity"
    metrics = (
        share_metric("identity", "share of sentences whose language a linear classifier identifies"),
        share_metric("identity_centred", "identity with each language's mean subtracted", higher_is_better=False),
        share_metric("identity_erased", "identity after erasure (LEACE) of language", higher_is_better=False),
        share_metric("same_language", "share of sentences whose nearest one, no translation, is in their language"),
        share_metric("same_language_centred", "same language, language means subtracted", higher_is_better=False),
        share_metric("same_language_erased", "same language after erasure (LEACE) of language", higher_is_better=False),
    )
    fits = "a linear classifier of language, fitted and scored on different parts of the test split"
    baselines = (ControlNote("majority", "majority", "the most frequent language"),)

    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        return languages.language_identity(read, items, folds=self.folds)

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The most frequent language."""
        right = items.data.language == np.bincount(items.data.language).argmax()
        yield mean_sums("identity", right, items.data.clusters)


@dataclass(frozen=True)
class Centroids(_OfSentences):
    """How far apart do languages lie, and do they cluster by family?"""

    task = "languages:centroids"
    metrics = (
        sum_metric(
            "between_languages",
            "share of the variance of sentence vectors that lies between languages",
            higher_is_better=False,
        ),
        sum_metric("merged_at", "height at which clustering of mean vectors joins two languages / greatest height"),
        sum_metric("family_v_measure", "V-measure (agreement) of clusters of languages with language families"),
    )

    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        return languages.language_centroids(read, items, families=languages.FAMILIES)


@dataclass(frozen=True)
class Retrieval(_OfSentences):
    """Is the nearest sentence of another language the translation?"""

    folds: int = 5
    """Parts into which pairs are divided for the projection."""
    neighbours: int = 10
    """Number of nearest neighbours that CSLS takes the mean over."""
    task = "languages:retrieval"
    metrics = (
        share_metric("retrieval", "share of sentences whose nearest one in the other language translates them (P@1)"),
        share_metric("retrieval_centred", "retrieval with each language's mean vector subtracted"),
        share_metric("retrieval_erased", "retrieval after linear erasure (LEACE) of the language"),
        share_metric("retrieval_projected", "retrieval after an orthogonal map fitted to other sentences"),
        share_metric("retrieval_csls", "retrieval by CSLS: cosine minus the mean cosine to nearest neighbours"),
        share_metric("retrieval_centred_csls", "retrieval by CSLS with each language's mean vector subtracted"),
    )
    fits = "none but an orthogonal map, fitted to other parts of the test split"
    baselines = (
        ControlNote("lexical", "spelling", "the nearest sentence by TF-IDF of two to four characters in a row"),
    )
    _needs_translations = True

    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        return languages.retrieval(read, items, folds=self.folds, neighbours=self.neighbours)

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The nearest sentence by TF-IDF of two to four characters in a row."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        test = sentences["test"]
        numbers = np.unique(test.sentence_of_word[items.words["test"]])
        weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(map(test.text, numbers))
        similar = np.asarray((weights @ weights.T).toarray(), dtype=np.float32)
        return languages.retrieval_of(similar, items.data)


@dataclass(frozen=True)
class Translation(GeometryProbe):
    """Is the nearest word of another language what a word is translated by?

    Words are of one type if they are spelled alike, capitals aside, or with ``by: lemma`` have the same lemma;
    punctuation is left out. Words are tested that have a single link, a sure one, to a word that has no other link.
    """

    by: Literal["form", "lemma"] = "form"
    """Property that words of one type share."""
    folds: int = 5
    """Parts into which sentences are divided; candidates are in other parts than the word."""
    most_words: int = 2000
    """Maximum number of words tested in each language, drawn at random."""
    task = "languages:translation"
    subject = "languages"
    reference = "cf. Dufter & Schütze 2020"
    metrics = (
        share_metric("type", "share of words whose nearest word type in the other language is their translation (P@1)"),
        share_metric("type_raw", "translation of word types without subtraction of each language's mean vector"),
        share_metric("occurrence", "share of words whose nearest word in other sentences is their translation"),
    )
    baselines = (
        ControlNote("lexical", "same spelling", "the word of the other language that is spelled alike"),
        ControlNote("word_majority", "most linked", "what the word is most often linked with in other sentences"),
    )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words of sentences with gold links."""
        test = sentences["test"]
        if (layer := test.forms if self.by == "form" else test.layers.get("lemma")) is None:
            raise CorpusError("words have no lemmas: leave by=lemma out, or give treebanks")
        _, codes = np.unique([value.casefold() for value in layer.values], return_inverse=True)
        types = np.append(codes, -1)[layer.codes]
        types[is_punctuation(test, np.arange(test.n_words))] = -1
        every = alignment.translated_words(test, types)
        if words is not None:
            every = [one.readable(words["test"]) for one in every]
        answerable, dice, asked = [one.answerable(self.folds) for one in every], np.random.default_rng(0), []
        for one in answerable:
            chosen = np.sort(dice.permutation(len(one))[: self.most_words])
            asked.append(replace(one, queries=one.queries.iloc[chosen]))
        n_answerable = sum(map(len, answerable))
        rare, n_types = sum(map(len, every)) - n_answerable, sum(one.candidates["type"].nunique() for one in every)
        skipped = {"words whose translation occurs in no other sentence": rare} if rare else {}
        parts = [part for one in every for part in (one.source, one.candidates["word"])]
        counts = GeometryCounts(n_answerable, n_classes=n_types, skipped=skipped)
        return TextItems({"test": np.unique(np.concatenate(parts))}, counts, asked)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Translations by nearest type and nearest occurrence."""
        return alignment.translation(vectors["test"], items.data, folds=self.folds)

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The same spelling; or the type that the word's own is most often linked with in other sentences."""
        if name == "lexical":
            right = [np.asarray(one.queries["form"] == one.queries["gold"], dtype=np.float64) for one in items.data]
        else:
            right = [alignment.by_dictionary(one, self.folds) for one in items.data]
        return alignment.translation_scores("type", right, items.data)


@dataclass(frozen=True)
class Alignment(GeometryProbe):
    """Do the vectors of words find which words translate each other?

    Jalili Sabet et al. (2020), *SimAlign: High Quality Word Alignments without Parallel Training Data using Static and
    Contextualized Embeddings*, of word vectors; ``distortion`` is their κ. Baselines: words that share most pairs of
    characters (``lexical``), and those at the same relative place (``diagonal``).
    """

    distortion: float = 0.0
    """Amount by which similarity falls with the distance of relative places."""
    task = "languages:alignment"
    subject = "languages"
    reference = "Jalili Sabet et al. 2020"
    baselines = (
        ControlNote("lexical", "spelling", "the words that share most pairs of characters, of both (argmax)"),
        ControlNote("diagonal", "diagonal", "the words at the same relative place in both sentences (argmax)"),
    )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Four scores of each method, and F1 of centred vectors."""
        found = []
        for method in alignment.METHODS:
            found += [
                sum_metric(f"{method}_f1", f"F1 of links by {method}: precision of possible, recall of sure links"),
                share_metric(f"{method}_precision", "share of predicted links that are possible gold links"),
                share_metric(f"{method}_recall", "share of sure gold links that are predicted"),
                sum_metric(f"{method}_error", "alignment error rate (AER) of the links", higher_is_better=False),
                sum_metric(f"{method}_centred_f1", "F1 of links with each language's mean vector subtracted"),
            ]
        return tuple(found)

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words of sentences with gold links."""
        test = sentences["test"]
        read = np.arange(test.n_words) if words is None else words["test"]
        pairs = alignment.aligned_pairs(ParallelText.of(test), read)
        found = {"test": read[np.unique(np.concatenate([side for pair in pairs for side in pair.words]))]}
        return TextItems(found, GeometryCounts(sum(len(one.gold.sure) for one in pairs)), pairs)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Scores of every method of alignment."""
        return alignment.alignment_scores(vectors["test"], items.data, distortion=self.distortion)

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Links by spelling or by place."""
        words, by_place = items.words["test"], name == "diagonal"
        return alignment.links_without_vectors(items.data, sentences["test"], words, by_place=by_place)


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
    """The task whose labels are predicted."""
    most_words: int = 5000
    """Words of each language that are read at most, of train; of dev and test half as many."""
    task_form = "languages:transfer:{of}"
    subject = "languages"
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
        share_metric("transfer_centred", "transfer, vectors moved to the mean of the language of the fit"),
        share_metric("transfer_standardised", "transfer, vectors given mean and variance of the language of the fit"),
        share_metric("own", "accuracy in the language that the readout was fitted to"),
    )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """Words with a label, of sentences drawn at random."""
        remedy = "; fit it in one corpus and test it in another by test_on of an experiment"
        labels = {}
        for split in _SPLITS:
            one = labels_of_words(self.of, sentences[split], asked_by="languages:transfer", remedy=remedy)
            labels[split] = one.words, one.codes.astype(np.int64), one.values
        if words is None:
            most = {split: self.most_words // (1 + (split != "train")) for split in _SPLITS}
            words = {
                split: languages.sampled_by_language(sentences[split], labels[split][0], most[split])
                for split in _SPLITS
            }
        items = languages.transfer_items(sentences, labels, words)
        if not items.sources or len(items.names) < 2 or not len(items.splits["test"].codes):
            raise CorpusError(
                f"languages:transfer:{self.of}: {len(items.sources)} languages have train words of two labels; give "
                "multilingual:en=PATH,de=PATH of corpora with train, dev and test"
            )
        train, test = items.splits["train"], items.splits["test"]
        unseen = int((~np.isin(test.codes, train.codes)).sum())
        return TextItems(words, GeometryCounts(len(test.codes), len(train.codes), items.n_labels, unseen), items)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Scores by source and target language."""
        return languages.transfer(vectors, items.data)

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The most frequent label of the language of the fit, of all words or of the same form."""
        return languages.transfer_by_label(items.data, sentences, items.words, by_form=name == "word_majority")


def _further(name: str) -> Probe | None:
    kind, _, of = name.partition(":")
    if kind.lower() == "parity":
        command = "bertology tokenize --corpus parallel:en=PATH,de=PATH"
        raise NameNotFoundError(f"languages:parity reads no layer: {command} shows pieces of each language")
    return Transfer(of or Transfer.of) if kind.lower() == "transfer" else None


PROBE = ProbeFamily.among(
    [Identity(), Centroids(), Retrieval(), Translation(), Alignment(), Transfer()],
    argument="question about languages",
    question="What does an encoder share between languages?",
    further=_further,
)
