"""Single dimensions: how much of a task is in a few of them, and what does a model lose without these?

After Antverg & Belinkov (2022), *On the Pitfalls of Analyzing Individual Neurons in Language Models*, who keep apart
what can be decoded from a dimension and what a model uses. ``dimensions:pos`` ranks the dimensions of hidden states of
words (``site: neurons`` the neurons of the feed-forward part) for the labels of the task ``pos``; so does any task that
gives labels to single words. Rankings (``ranking``) are by the weights of a linear readout (``linear``, Dalvi et al.
2019), by differences of class means (``probeless``, Antverg & Belinkov), or by a greedy choice for Gaussian classes
(``gaussian``, Torroba Hennigen et al. 2020). All are made on train.

The main number is the accuracy on test of a linear readout of the best ``k`` dimensions alone. Beside it stand as many
dimensions from the end of the ranking, and at random; a readout of all dimensions, as it is and with the best ``k``
at their mean; and what other tasks lose with these. In the running model
the best ``k`` are ablated (their mean) in all words, which raises the loss of masked words, or shifted in masked words
towards another label, of which words are then predicted.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertology import causal
from bertology.causal import CausalItems, CausalProbe
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, ProbeFamily, RunningModel, Splits, get_probe
from bertology.probing.items import sampled_splits
from bertology.probing.probes import labels_of_words

_ASKED_BY = "dimensions"
_OTHERS = ("pos", "deprel", "feats:Number")


@dataclass(frozen=True)
class Dimensions(CausalProbe):
    """How much of a task do a few dimensions hold, and what does a model lose without them?"""

    of: str = "pos"
    """The task whose labels dimensions are ranked by."""
    ranking: Literal["linear", "probeless", "gaussian"] = "linear"
    """Weights of a linear readout, differences of class means, or a greedy choice for Gaussian classes."""
    k: int = 10
    """Number of dimensions."""
    site: Literal["hidden_state", "neurons"] = "hidden_state"
    """What is ranked: dimensions of hidden states, or neurons of the feed-forward part of a block."""
    others: tuple[str, ...] = ()
    """Tasks whose best dimensions are compared; pos, deprel and feats:Number as far as the text has them, when left
    out; the task itself counts as none."""
    predict: bool = True
    """Whether masked words are predicted with dimensions ablated and shifted; false for models without a masked-LM
    head."""
    towards: str = ""
    """Label that masked words are shifted to; the most frequent one when left out."""
    strength: float = 8.0
    """Factor of the shift, by the difference of the means of two labels; the authors take up to 8, less for dimensions
    of lower rank."""
    most_words: int = 8_000
    """Maximum number of words of train that dimensions are ranked by, in random sentences; half as many of dev and
    test. Their states are held in memory, of BERT-base about 650 MB."""
    task_form = "dimensions:{of}"
    reference = "Antverg & Belinkov 2022; Dalvi et al. 2019; Torroba Hennigen et al. 2020"
    reads = ("train", "dev", "test")
    metrics = (
        share_metric("accuracy", "share of words whose label a linear readout of the best k dimensions finds"),
        share_metric("accuracy_beyond_random", "accuracy of the best k dimensions less that of k random ones"),
        share_metric("random_dimensions_accuracy", "accuracy of linear readouts of k random dimensions"),
        share_metric("last_dimensions_accuracy", "accuracy of a linear readout of the last k of the ranking"),
        share_metric("all_dimensions_accuracy", "accuracy of a linear readout of all dimensions"),
        share_metric("readout_ablated_accuracy", "accuracy of that of all dimensions, with the best k at their mean"),
        share_metric("readout_random_ablated_accuracy", "accuracy of it with k random dimensions at their mean"),
        share_metric("majority_accuracy", "share of words with the label most frequent in train"),
        sum_metric("loss_beyond_random_dimensions_bits", "loss of masked words, best k ablated minus k random ones"),
        sum_metric("loss_increase_ablated_bits", "increase of the loss of masked words, best k at their mean"),
        sum_metric("loss_increase_random_ablated_bits", "increase of the loss of masked words, k random at their mean"),
        sum_metric("loss_increase_last_ablated_bits", "increase of the loss of masked words, last k at their mean"),
        sum_metric("loss_bits", "mean cross-entropy of masked words, nothing changed", higher_is_better=False),
        share_metric("shifted_share", "share of masked words predicted as of another label, best k shifted to it"),
        share_metric("random_shifted_share", "share of them so predicted with k random dimensions shifted as far"),
        share_metric("unshifted_share", "share of them so predicted with nothing changed"),
        sum_metric("shared_by_halves", "share of the best k that both halves of train have among theirs"),
        sum_metric("shared_by_halves_p", "p-value: probability that two random sets share as many or more"),
        sum_metric("shared_with_below", "share of the best k that the layer below has among its own"),
        sum_metric("shared_with_below_p", "p-value of what is shared with the layer below"),
        sum_metric("shared_with_task", "share of the best k that another task, the group, has among its own"),
        sum_metric("shared_with_task_p", "p-value of what is shared with another task"),
        sum_metric("shared_chance", "share that two random sets of k dimensions have in common on average"),
    )

    def counts(self, sentences: Splits, items: CausalItems | None) -> GeometryCounts:
        """Words with a label; one that train does not have is left out."""
        texts = sampled_splits(sentences, self.most_words)
        train, examples = (labels_of_words(self.of, texts[split], asked_by=_ASKED_BY) for split in ("train", "test"))
        n_known = int(np.isin(np.array(examples.values, dtype=object)[examples.codes], train.values).sum())
        n_without = texts["test"].n_words - len(examples)
        skipped = {"no label": n_without, "a label that train does not have": len(examples) - n_known}
        return GeometryCounts(n_known, len(train), len(train.values), 0, +Counter(skipped))

    def measure(self, model: RunningModel) -> Iterator[LayerSums]:
        """Statistics of each layer, by sentence of the sample of test."""
        texts = sampled_splits(model.sentences, self.most_words)
        others = tuple(one for one in self.others or _OTHERS if one != self.of)
        if not self.others:
            others = causal.erasing.tasks_with_labels(others, texts.values(), asked_by=_ASKED_BY)
        labels = [causal.erasing.WordLabels.of_task(name, texts, asked_by=_ASKED_BY) for name in (self.of, *others)]
        yield from causal.dimensions.measure_dimensions(
            model.encoder,
            texts,
            labels[0],
            dict(zip(others, labels[1:], strict=True)),
            layers=model.layers,
            ranking=self.ranking,
            k=self.k,
            site=self.site,
            towards=self.towards,
            strength=self.strength,
            changes_model=self.predict,
            on_long=model.on_long,
        )


PROBE = ProbeFamily.among(
    [*map(Dimensions, _OTHERS)],
    argument="task whose labels dimensions are ranked by",
    further=lambda name: Dimensions(of=get_probe(name).task),
)
"""``dimensions:pos``, ``dimensions:feats:Number`` and so on."""
