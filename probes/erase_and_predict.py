"""Amnesic probing: what can a model no longer predict when a property is erased from the states of one layer?

After Elazar et al. (2021), *Amnesic Probing*. A probe shows that a property can be decoded; whether the model uses it
shows in what it loses. ``erase_and_predict:pos`` erases what a linear readout finds of the labels of the task ``pos``
from the states of all words in one layer, runs the rest of the model, and measures the loss of masked words; so does
any task that gives labels to single words (``deprel``, ``feats:Number``). The property is erased by LEACE, which moves
states least (Belrose et al. 2023), or by iterated null spaces as in the paper (``method: inlp``).

The main number is the loss beyond that of as many random directions: above zero, predictions depended on more than the
number of directions. Beside it stand an erasure of the same labels put to words at random, moves of the same length in
random directions, and two numbers on which everything else rests (Canby et al. 2024): ``completeness``, how much of
what an oracle finds of the property, fitted to other text, is gone, and ``others_kept`` (their selectivity), how much
of other properties is still there.

``erase_and_predict:agreement`` erases the number of the subject of agreement items instead, at single places, at the
subject and the mask, or at all words, and the model chooses between the two forms of the verb (as Lasri et al. 2022
do). Where nothing of it is left, half of the choices are right. Erasures are fitted to other sentences, place by place,
since other words carry the number of the subject too.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology import causal
from bertology.causal import CausalItems, CausalProbe
from bertology.causal.probes import pair_reason
from bertology.errors import CorpusError, quoted
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, ProbeFamily, RunningModel, Splits, get_probe
from bertology.probing.items import sampled_splits
from bertology.probing.probes import labels_of_words

_OTHERS = ("pos", "deprel", "feats:Number")
_ASKED_BY = "erase_and_predict"
_KINDS = ("", "_masked", "_visible")


def _metrics(prefix: str, what: str) -> Iterator[Metric]:
    yield sum_metric(f"{prefix}beyond_random_bits", f"loss of {what}: property erased minus as many random directions")
    yield sum_metric(f"{prefix}loss_increase_bits", f"increase of the loss of {what}, property erased")
    yield sum_metric(f"{prefix}random_increase_bits", f"increase of the loss of {what}, random directions erased")
    yield sum_metric(f"{prefix}shuffled_increase_bits", f"increase of the loss of {what}, shuffled labels erased")
    yield sum_metric(f"{prefix}moved_increase_bits", f"increase of the loss of {what}, states moved as far at random")
    yield sum_metric(f"{prefix}loss_bits", f"mean cross-entropy of {what}, nothing erased", higher_is_better=False)
    yield share_metric(f"{prefix}accuracy_plain", f"share of {what} predicted with nothing erased")
    yield share_metric(f"{prefix}accuracy_erased", f"share of {what} predicted with the property erased")
    yield share_metric(f"{prefix}accuracy_random", f"share of {what} predicted, as many random directions erased")
    yield sum_metric(f"{prefix}divergence_erased_bits", "KL divergence of predictions after erasure from those before")
    yield sum_metric(
        f"{prefix}divergence_random_bits",
        "KL divergence of predictions with as many random directions erased from those before",
    )


def _judgements(kind: str) -> Iterator[Metric]:
    of = f" in {kind[1:]} subwords" if kind else ""
    yield sum_metric(f"completeness{kind}", f"share of the property{of} that a readout fitted anew no longer finds")
    others = f"share of other properties{of} that fresh readouts still find (selectivity)"
    yield sum_metric(f"others_kept{kind}", others)
    yield sum_metric(f"reliability{kind}", "harmonic mean of completeness and other labels kept")
    if kind:
        name = f"directions{kind}_dimensions"
        yield sum_metric(name, "number of dimensions of the state that are erased", higher_is_better=False)


def _of_controls() -> Iterator[Metric]:
    controls = {"random": "as many random directions", "shuffled": "labels at random", "moved": "as far a move"}
    for name, what in controls.items():
        yield share_metric(f"decision_kept_{name}", f"share of labels that stay, {what} in place of the erasure")
        yield sum_metric(f"decision_divergence_bits_{name}", f"KL divergence, {what} in place of the erasure")


@dataclass(frozen=True)
class EraseAndPredict(CausalProbe):
    """What can a model no longer predict when a property is erased from a layer?"""

    of: str = "pos"
    """The task whose labels are erased."""
    method: Literal["leace", "inlp"] = "leace"
    """Method of erasure: least-squares concept erasure (LEACE) or iterative null-space projection (INLP)."""
    oracle: str = "linear"
    """Readout fitted after the erasure to measure what is left; ``mlp`` also finds what is not linear."""
    within: str | None = None
    """The layer of labels within whose values the property is erased, so that these stay apart: ``upos`` for features
    when left out, as the number of nouns lies in another direction than that of verbs, and for other tasks none."""
    others: tuple[str, ...] = ()
    """Tasks whose labels should stay; pos, deprel and feats:Number as far as the text has them, when left out."""
    agreement: str = ""
    """Agreement items on which the model chooses with and without the property: ``pocket``, a file or a folder."""
    by: str = "upos"
    """The layer of labels that groups of masked words are made of, where the text has it."""
    most_words: int = 8_000
    """Maximum number of words of train that erasures are fitted to, in random sentences; half as many of dev and test.
    Their states are held in memory, of BERT-base about 1 GB."""
    task_form = "erase_and_predict:{of}"
    reference = "Elazar et al. 2021a; Belrose et al. 2023a; Canby et al. 2024"
    reads = ("train", "dev", "test")
    metrics = (
        *_metrics("", "masked words"),
        *(metric for kind in _KINDS for metric in _judgements(kind)),
        *_metrics("visible_", "words that are not masked"),
        share_metric("choice_accuracy", "share of agreement items in which the correct form is more probable"),
        share_metric("choice_accuracy_erased", "share of correct choices with the property erased"),
        share_metric("choice_accuracy_random", "share of correct choices, as many random directions erased"),
        share_metric("choice_accuracy_shuffled", "share of correct choices with shuffled labels erased"),
        share_metric("choice_accuracy_moved", "share of correct choices, states moved as far at random"),
        share_metric("decision_kept", "share of the labels of a fine-tuned model that stay as they were"),
        sum_metric("decision_divergence_bits", "KL divergence of its predictions after erasure from those before"),
        *_of_controls(),
    )

    def sources(self) -> Mapping[str, str]:
        """Changes of the agreement items, where there are any."""
        if not self.agreement:
            return {}
        pairs = [(one.text, one.other, one.good, one.bad, one.cluster) for one in self._pairs()]
        return {"agreement_fingerprint": hashlib.sha256(repr(pairs).encode()).hexdigest()}

    def counts(self, sentences: Splits, items: CausalItems | None) -> GeometryCounts:
        """Words with the property; predicted are masked words, whether they have it or not."""
        texts = sampled_splits(sentences, self.most_words)
        found = {split: labels_of_words(self.of, text, asked_by=_ASKED_BY) for split, text in texts.items()}
        train, test = found["train"], found["test"]
        unseen = sum(
            int((test.codes == code).sum()) for code, value in enumerate(test.values) if value not in train.values
        )
        skipped = {"no label of the property": texts["test"].n_words - len(test)}
        return GeometryCounts(len(test), len(train), len(train.values), unseen, skipped)

    def measure(self, model: RunningModel) -> Iterator[LayerSums]:
        """Changes in each layer, by sentence of the sample of test."""
        texts = sampled_splits(model.sentences, self.most_words)
        within = self.within if self.within is not None else "upos" if self.of.startswith("feats:") else ""
        own = _labels(self.of, texts, within=within)
        of_others = [one for one in _OTHERS if one != self.of]
        tasks = self.others or causal.erasing.tasks_with_labels(of_others, texts.values(), asked_by=_ASKED_BY)
        others = {name: _labels(name, texts) for name in tasks}
        groups = {}
        if self.by in texts["test"].layers:
            tags = texts["test"].layers[self.by]
            groups = {value: tags.codes == code for code, value in enumerate(tags.values)}
        yield from causal.erasing.erase_and_predict(
            model.encoder,
            texts,
            own,
            others,
            layers=model.layers,
            method=self.method,
            oracle=self.oracle,
            groups=groups,
            pairs=self._pairs() if self.agreement else (),
            on_long=model.on_long,
        )

    def _pairs(self) -> "list[causal.PatchPair]":
        return causal.agreement_pairs(self.agreement, most=500)


def _labels(task: str, texts: Splits, *, within: str = "") -> "causal.erasing.WordLabels":
    """Labels by word; those that train does not have count as none."""
    labels = causal.erasing.WordLabels.of_task(task, texts, asked_by=_ASKED_BY)
    known: dict[str, int] = {}  # codes of the values of the layer, the same in all splits; 0 for words without
    groups: dict[str, NDArray[np.int64]] = {}
    for split, text in texts.items() if within else ():
        if within not in text.layers:
            problem = f"{split} has no layer {quoted(within)}, within which to erase"
            raise CorpusError(f"{problem}: leave within out, or empty")
        tags = text.layers[within]
        numbers = np.array([*(known.setdefault(value, len(known) + 1) for value in tags.values), 0], dtype=np.int64)
        groups[split] = numbers[tags.codes]
    return replace(labels, within=groups or None)


@dataclass(frozen=True)
class ErasedAgreement(CausalProbe):
    """Can a model choose the verb once the number of the subject is erased from a layer?"""

    most_pairs: int = 300
    """Largest number of pairs of texts, drawn at random."""
    task = "erase_and_predict:agreement"
    about = "Pairs; which of them the model cannot read is seen when it reads them."
    reference = "Elazar et al. 2021a; Lasri et al. 2022"
    metrics = (
        share_metric("accuracy_erased", "share of correct verb forms, number erased", higher_is_better=False),
        share_metric("accuracy_random", "share of correct verb forms, as many random directions erased"),
        share_metric("accuracy_plain", "share of correct verb forms, nothing erased"),
    )

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Pairs of texts that differ in the number of the subject."""
        return CausalItems(tuple(causal.agreement_pairs(source, columns=columns)))

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Accuracies of each layer, by frame; groups are the places that the number is erased from."""
        pairs = model.items.some(self.most_pairs).items
        found = causal.erasing.choose_erased(model.encoder, pairs, layers=model.layers)
        yield GeometryCounts(len(found.clusters), skipped=Counter(pair_reason(reason) for _, reason in found.excluded))
        yield from found.every_sum()


PROBE = ProbeFamily.among(
    [*map(EraseAndPredict, _OTHERS), ErasedAgreement()],
    argument="task whose labels are erased",
    further=lambda name: EraseAndPredict(of=get_probe(name).task),
)
