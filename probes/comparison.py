"""Differences between a model and its reference, such as before and after fine-tuning, layer by layer.

The reference is that of the model in an experiment (``reference:``), or of ``--reference``.

- ``comparison:vectors``: how alike are the vectors of the same words? Linear centred kernel alignment (Kornblith et al.
  2019), debiased, with the matched layer of the reference and by group with each other one; representational similarity
  (Merchant et al. 2020, §4, by Pearson's r; also of ranks), orthogonal Procrustes distance (Ding et al. 2021), mutual
  nearest neighbours (Huh et al. 2024), each with what words in random order give; the mean cosine of pairs of words
  (Ethayarajh 2019), and, of models of one width, how far words have moved. A high likeness does not mean that the same
  can be read off both, nor does a low one mean that it cannot: CKA follows the few directions of largest variance
  (Davari et al. 2023). ``frozen_probe`` asks what a readout still finds.
- ``comparison:label_clusters``: Zhou & Srikumar (2022), *A Closer Look at How Fine-tuning Changes BERT*: fine-tuning
  moves clusters of labels apart and mostly keeps how they lie to each other. Distances are of centroids, over the
  spread of words around them, and of convex hulls (twice the margin of a linear support-vector machine with C = 10⁶),
  over those of the same words with shuffled labels: in many dimensions any few words are separable. ``layout`` is the
  Pearson correlation of the distances of centroids of all pairs of labels in both models. Hulls have no intervals.
- ``comparison:attention``: the Jensen–Shannon divergence of a head's attention from each word, in bits (Hao et al. 2020
  take its mean over heads and words of a layer), and the cosine of the flattened maps of a sentence (Kovaleva et al.
  2019), at word level. Sentences that a model reads in several windows are left out.
- ``comparison:weights``: ‖B − A‖ / ‖A‖ and the cosine of the weights of a layer as of one long vector, by group of its
  parts (cf. Radiya-Dixit & Wang 2020, *How fine can fine-tuning be?*). Layer 0 is the embeddings; the score of the
  whole model is that of all layers, without heads. Nothing is sampled, so that there are no intervals.
- ``comparison:masked_loss``: the loss on the same masked words, 15 % of those of each sentence (Devlin et al. 2019,
  §3.1), summed over the subwords of a word, so that tokenizers may differ. A few words of many subwords may weigh much:
  the table by group has parts of speech.
- ``comparison:restoring``: the accuracy on the task that the model was fine-tuned for, with a layer of the reference in
  place of its own, with all up to it, and with all from it on, less that of the model as it is (Hao et al. 2019,
  *Visualizing and Understanding the Effectiveness of BERT*, §5.1; Merchant et al. 2020). Its head stays. The corpus has
  to have the labels of that task.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertology import comparison
from bertology.comparison import AttentionComparison, EncoderComparison, EncoderPair, VectorComparison
from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError, ModelError, listed
from bertology.families.request import parse_names
from bertology.geometry import similarity
from bertology.geometry.probes import TextItems
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import Floats, LayerSums, mean_sums, ratio_sums
from bertology.probing import ProbeFamily, Splits
from bertology.probing.items import SplitVectors, SplitWords, sampled_words

_ORDERS: Mapping[Literal["each", "up_to", "from"], str] = {
    "each": "restored_alone",
    "up_to": "restored_up_to",
    "from": "restored_from",
}


@dataclass(frozen=True)
class ComparedVectors(VectorComparison):
    """How alike are a model's vectors and those of its reference, layer by layer?"""

    measures: str = "cka,rsa,rsa_spearman,procrustes,mutual_neighbours"
    """Some of these, and of ``svcca``, ``pwcca``, ``rbf`` and ``neuron_matching``, with commas between."""
    asks_random_weights = True
    task = "comparison:vectors"
    reference = "Kornblith et al. 2019; Merchant et al. 2020"
    reads = ("dev", "test")

    @property
    def compares_layers(self) -> bool:
        """CKA is with every layer of the reference."""
        return "cka" in parse_names(self.measures)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Likeness by every measure, anisotropy of both, and how far words have moved."""
        about = "of model and reference", "words in random order"
        return (
            *similarity.likeness_metrics(parse_names(self.measures), *about, is_distance=True),
            sum_metric("anisotropy", "mean cosine of the vectors of two words, over all pairs of words"),
            sum_metric("anisotropy_reference", "mean cosine of two words' vectors in the reference, over all pairs"),
            sum_metric("anisotropy_change", "anisotropy of the model minus that of the reference"),
            sum_metric("cosine_reference", "mean cosine of a word's vectors in model and reference"),
            sum_metric("moved_reference", "mean ‖x − y‖ / ‖y‖, x a word's vector in the model, y in the reference"),
        )

    def statistics(
        self, model: SplitVectors, reference: SplitVectors, sentences: Splits, *, layers: Sequence[tuple[int, int]]
    ) -> Iterator[LayerSums]:
        """Likenesses on the words of test; layers are matched by those of dev."""
        both = model["test"], reference["test"]
        of_sentence = sentences["test"].sentence_of_word[both[0].words]
        measures = parse_names(self.measures)
        yield from similarity.model_similarity(*both, of_sentence, layers=layers, measures=measures)
        yield from similarity.moves_from_reference(*both, of_sentence, layers=layers)


@dataclass(frozen=True)
class ClustersOfLabels(VectorComparison):
    """Do the clusters of labels lie to each other as in the reference, layer by layer?"""

    labels: str = "upos"
    """The layer of labels of words."""
    most_labels: int = 10
    """Labels, the most frequent ones."""
    per_label: int = 100
    """Words of each label, drawn at random, whose hulls are compared."""
    task = "comparison:label_clusters"
    reference = "Zhou & Srikumar 2022"
    metrics = (
        sum_metric("layout", "Pearson's r of model and reference over distances of two labels' centroids"),
        sum_metric("layout_hulls", "Pearson's r of model and reference over distances of two labels' hulls"),
        sum_metric("centroids_model", "mean distance of two labels' centroids, divided by the spread of words"),
        sum_metric("centroids_reference", "distance of centroids, divided by the spread of words, in the reference"),
        sum_metric("centroids_change", "distance of centroids in the model minus that in the reference"),
        sum_metric("hulls_model", "mean distance of two labels' convex hulls, divided by that of shuffled labels"),
        sum_metric("hulls_reference", "distance of hulls, divided by that of shuffled labels, in the reference"),
        sum_metric("separable_model", "share of pairs of labels that a hyperplane separates in the model"),
        sum_metric("separable_reference", "share of pairs of labels that a hyperplane separates in the reference"),
        sum_metric("separable_shuffled", "share of pairs of shuffled labels that a hyperplane separates in the model"),
    )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """The labelled words of random sentences."""
        found = dict(super().items(sentences, words).words)
        for split, some in found.items() if words is None else ():
            layers = sentences[split].layers
            if self.labels not in layers:
                known = listed(tuple(layers)) if layers else "none"
                raise CorpusError(f"no layer {self.labels} of labels of words in the text; there is {known}")
            found[split] = some[layers[self.labels].codes[some] >= 0]
        return super().items(sentences, found)

    def statistics(
        self, model: SplitVectors, reference: SplitVectors, sentences: Splits, *, layers: Sequence[tuple[int, int]]
    ) -> Iterator[LayerSums]:
        """Divergences on the words of test."""
        text, words = sentences["test"], model["test"].words
        layer = text.layers[self.labels]
        yield from comparison.label_clusters(
            model["test"],
            reference["test"],
            [layer.values[code] for code in layer.codes[words].tolist()],
            text.sentence_of_word[words].astype(np.int64),
            layers=layers,
            most_labels=self.most_labels,
            per_label=self.per_label,
        )


@dataclass(frozen=True)
class ComparedAttention(AttentionComparison):
    """How far is the attention of each head from that of the reference?"""

    task = "comparison:attention"
    reference = "Kovaleva et al. 2019; Hao et al. 2020"
    asks_random_weights = True
    metrics = (
        sum_metric("divergence_bits", "Jensen–Shannon divergence of a word's attention from that in the reference"),
        sum_metric("map_cosine", "mean cosine of a sentence's attention maps in both models", higher_is_better=False),
    )

    def of_sentence(self, model: Floats, reference: Floats) -> Mapping[str, tuple[Floats, float]]:
        """Sums over the words of a sentence, and the cosine of its maps."""
        mean = (model + reference) / 2
        divergence = _entropy(mean) - (_entropy(model) + _entropy(reference)) / 2
        lengths = [np.sqrt(np.einsum("lhwc,lhwc->lh", one, one)) for one in (model, reference)]
        cosine = np.einsum("lhwc,lhwc->lh", model, reference) / (lengths[0] * lengths[1])
        of_words = divergence.sum(axis=-1), float(model.shape[2])
        return {"divergence_bits": of_words, "map_cosine": (cosine, 1.0)}


def _entropy(distributions: Floats) -> Floats:
    """``[layer, head, word]`` in bits."""
    from scipy.special import entr

    return np.asarray(entr(distributions).sum(axis=-1) / np.log(2))


@dataclass(frozen=True)
class ComparedWeights(EncoderComparison):
    """How far are a model's weights from those of its reference, layer by layer?"""

    task = "comparison:weights"
    reference = "cf. Radiya-Dixit & Wang 2020"
    metrics = (
        sum_metric("relative_l2", "‖B − A‖ / ‖A‖ of weights B and the reference's A", higher_is_better=False),
        sum_metric("cosine", "cosine of a layer's weights, as one vector, with those of the reference"),
        sum_metric("changed", "share of weights that differ from the reference's", higher_is_better=False),
    )
    columns: Literal["both"] = "both"
    reads = ()
    about = "There is nothing to read."

    def measure(self, pair: EncoderPair) -> Iterator[LayerSums]:
        """Changes of the tensors of the same name in the layers that are compared."""
        same_depth = pair.model.n_layers == pair.reference.n_layers
        found = comparison.weight_changes(pair.reference, pair.model, layers=None if same_depth else pair.layers)
        asked = {layer for layer, _ in pair.layers}
        by_layer, by_kind = found.table("layer"), found.table("layer and kind")
        for metric in (one.name for one in self.metrics):
            for group, frame in [("", by_layer), *((str(kind), part) for kind, part in by_kind.groupby("kind"))]:
                chosen = frame[frame["layer"].isin(asked) & np.isfinite(frame[metric])]
                if len(chosen):
                    values, numbers = chosen[[metric]].to_numpy(), tuple(map(int, chosen["layer"]))
                    yield ratio_sums(metric, values, None, "blocks", group=group, layers=numbers)
            yield ratio_sums(metric, np.array([found.encoder_change[metric]]), None, "blocks")


@dataclass(frozen=True)
class ComparedLosses(EncoderComparison):
    """How well does a model predict masked words, beside its reference?"""

    by: str = "upos"
    """The layer of labels of words that groups are made of, where the text has it."""
    share: float = 0.15
    """Share of the words of a sentence that are masked, at least one word."""
    most_words: int = 10_000
    """Words of running text that are read at most: random sentences of a larger text."""
    task = "comparison:masked_loss"
    reference = "Devlin et al. 2019"
    metrics = (
        sum_metric("change_bits", "cross-entropy of a masked word minus the reference's", higher_is_better=False),
        sum_metric("masked_loss_bits", "cross-entropy of a masked word, mean over words", higher_is_better=False),
        sum_metric("reference_bits", "cross-entropy of a masked word in the reference", higher_is_better=False),
        share_metric("accuracy", "share of masked words whose subwords are all predicted"),
        share_metric("accuracy_reference", "share of masked words that the reference predicts"),
    )
    columns: Literal["model"] = "model"
    about = "Any text will do."

    def measure(self, pair: EncoderPair) -> Iterator[LayerSums]:
        """Losses of the whole model, by sentence and by label."""
        text = pair.sentences["test"]
        numbers = np.unique(text.sentence_of_word[sampled_words(text, self.most_words)])
        read = Sentences(text[number] for number in numbers.tolist())
        found = comparison.masked_losses(pair.reference, pair.model, read, share=self.share, on_long=pair.on_long)
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
            for metric, of_word in values.items():
                name, of_chosen = "" if group == "all" else group, np.asarray(of_word[chosen], dtype=np.float64)
                yield mean_sums(metric, of_chosen, of_sentence[chosen], n_clusters=len(text), group=name)


@dataclass(frozen=True)
class RestoredLayers(EncoderComparison):
    """What does a fine-tuned task lose with layers as they were before?"""

    task = "comparison:restoring"
    reference = "Hao et al. 2019"
    metrics = (
        sum_metric("restored_alone", "change of accuracy with the reference's weights in this layer alone"),
        sum_metric("restored_up_to", "change of accuracy with the reference's weights in layers up to this one"),
        sum_metric("restored_from", "change of accuracy with the reference's weights from this layer on"),
        share_metric("accuracy", "share of items whose label the fine-tuned model predicts"),
        share_metric("accuracy_reference", "accuracy with the reference's weights in all layers"),
    )
    columns: Literal["both"] = "both"
    about = "The labels are known when the model is open."

    def measure(self, pair: EncoderPair) -> Iterator[LayerSums]:
        """Separability in every layer, and the accuracies of both models."""
        test, layers = pair.sentences["test"], pair.layers
        corpus = Corpus("test", {"test": test})
        found = comparison.restored_scores(pair.reference, pair.model, corpus, split="test")
        if "accuracy" not in found.metrics:
            problem = f"model {pair.model.name} was fine-tuned for {found.task}"
            raise ModelError(f"{problem}: restoring is scored by labels alone")
        clusters, n = found.predictions[()]["cluster_id"].to_numpy(), len(test)
        right: dict[tuple[int, ...], Floats] = {
            restored: np.asarray(frame["gold"] == frame["pred"], dtype=np.float64)
            for restored, frame in found.predictions.items()
        }
        for order, name in _ORDERS.items():
            changed = [right[found.restored(order, layer)] - right[()] for layer, _ in layers]
            own = tuple(layer for layer, _ in layers)
            yield mean_sums(name, np.array(changed, dtype=np.float64), clusters, n_clusters=n, layers=own)
        yield mean_sums("accuracy", right[()], clusters, n_clusters=n)
        yield mean_sums("accuracy_reference", right[found.restored("from", 0)], clusters, n_clusters=n)


PROBE = ProbeFamily.among(
    [ComparedVectors(), ComparedAttention(), ClustersOfLabels(), ComparedWeights(), ComparedLosses(), RestoredLayers()],
    argument="quantity to compare",
    question="What differs between a model and its reference, layer by layer?",
)
