"""Importance of attention heads: what does the model lose without each of them?

After Michel et al. (2019), *Are Sixteen Heads Really Better than One?*, asked of the model's own task.
``head_importance`` masks some words of every sentence, always the same ones, and the loss is that of restoring them;
``head_importance:TASK`` takes the task that a model was fine-tuned for (``sentence_label:label``, ``pos``, ``span`` …,
as of ``bertology finetune``), by the head that the model has for it, and gold labels.

- ``importance`` (their equation 2): the expected magnitude of the loss's gradient at a gate on the head, divided by the
  ℓ2 norm of its layer; ``gradient_bits`` is that magnitude undivided.
- ``delta_loss_bits`` and ``delta_accuracy`` (their §3.2): what changes when the head is off, or attends to every piece
  alike (Kovaleva et al. 2019, §4.4); and of whole layers, when all heads are off or all but the most important one
  (their §3.3; it is named by the same sentences, which flatters it a little).
- ``loss_bits`` and ``accuracy`` of the model as more and more heads are off (their §4.2): the least important first,
  the most important first, or at random, and their differences from the whole model. Heads are ranked by ``importance``
  and, as *least missed* and *most missed*, by the loss without each of them; *harmful heads* are those without which
  the loss is lower, beyond chance, and they are off together. With a task, heads are ranked and chosen on dev, and test
  is scored; restoring words, or without dev, half of the sentences rank the heads for the other half.
- ``attention_gradient_bits`` (Clark et al. 2019, §3.3): how much the loss would change with the attention to
  ``[SEP]``, to other special tokens, to punctuation and to everything else; ``attention_effect_bits``: with a gate on
  the attention that there is to them.

``head_importance:one_head`` leaves each layer one head alone, in turn (their §3.3): ``delta_accuracy`` and
``delta_loss_bits`` of every head on dev, and on test those of the layer with the head whose loss on dev is the lowest;
``head_importance:one_head:TASK`` does so by a task.

A head that is not missed alone may be missed together with another that does the same, which is what the curves are
for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from bertology.attention import GateProbe
from bertology.attention.probes import Measured
from bertology.corpora import Sentences
from bertology.errors import NameNotFoundError
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import HeadRatios
from bertology.probing import GeometryCounts, ProbeFamily, RepresentationProbe, get_probe

if TYPE_CHECKING:
    from bertology.activations.progress import Progress
    from bertology.attention.importance import Choice, GatedTask
    from bertology.encoders import Encoder, ModelSource
    from bertology.encoders.alignment import OnLong
    from bertology.finetuning.losses import HeadTask

Way = Literal["off", "uniform"]


def _changes(items: str, without: str, *, unit: str = "bits", is_better: bool = True) -> tuple[Metric, ...]:
    """The change of the mean loss of items and, where it is in bits, of the accuracy."""
    loss = "loss_bits" if unit == "bits" else unit
    changes = (sum_metric(f"delta_{loss}", f"mean loss of {items}, {without}", higher_is_better=is_better),)
    if unit != "bits":
        return changes
    share = f"share of {items} predicted, {without}"
    return (*changes, sum_metric("delta_accuracy", share, higher_is_better=not is_better))


def _metrics(items: str, unit: str = "bits") -> tuple[Metric, ...]:
    """The metrics of importance by a task whose loss is in bits, or in squared errors, without an accuracy."""
    loss, meaning = ("loss_bits", "cross-entropy") if unit == "bits" else (unit, "squared error")
    accuracy = share_metric("accuracy", f"share of {items} predicted with some heads off")
    effect = "mean |gradient| of the loss by a gate on attention to a kind of subword"
    return (
        sum_metric("importance", "mean |gradient| of the loss by the head's gate, divided by its layer's ℓ2 norm"),
        sum_metric(f"gradient_{unit}", "mean |gradient| of the loss by a gate of 1 on the head"),
        *_changes(items, "without minus with the head", unit=unit),
        sum_metric(loss, f"mean {meaning} of {items} with some heads off", higher_is_better=False),
        *([accuracy] if unit == "bits" else []),
        sum_metric(f"attention_gradient_{unit}", "mean |gradient| of the loss by an attention weight"),
        sum_metric(f"attention_effect_{unit}", effect),
    )


def _one_head_metrics(items: str, unit: str = "bits") -> tuple[Metric, ...]:
    """The metrics of layers that keep one head, the main one first."""
    return _changes(items, "with one head in the layer, minus with all", unit=unit, is_better=False)[::-1]


def _of_single(
    task: GatedTask, ways: Sequence[Way], layers: Sequence[int] | None, progress: Progress
) -> tuple[HeadRatios, tuple[HeadRatios, ...]]:
    """The loss without each head of all layers, by which heads are chosen, and all that is asked of single heads."""
    from bertology.attention import importance

    off = importance.single_heads(task, progress=progress)
    others = [way for way in ways if way != "off"]
    more = importance.single_heads(task, ways=others, layers=layers, progress=progress) if others else ()
    return off[0], (*(off if "off" in ways else ()), *more)


def _chosen(by: Choice) -> tuple[str, str]:
    """The note on the heads without which the loss is lower."""
    where = "on the texts that heads are chosen on" if by.is_other else "on half of the texts, for the other half"
    n_heads = by.missed.over[0, ..., 0].size
    sets = []
    for heads in by.harmful:
        names = ", ".join(f"L{layer}H{head}" for layer, head in heads)
        sets.append(f"{len(heads)} of {n_heads}" + f" ({names})" * bool(heads))
    rule = f"without which the loss {where} is lower (95 % interval, Benjamini–Hochberg q < .05)"
    return "harmful heads", f"{' and '.join(sets)} {rule}"


@dataclass(frozen=True)
class HeadImportance(GateProbe):
    """What does the model lose, in restoring masked words, without each of its heads?"""

    task = "head_importance"
    reference = "Michel et al. 2019"
    metrics = _metrics("masked words")
    share: float = 0.15
    """Share of the words of a sentence that are masked."""
    seed: int = 0
    """Seed of the choice of words."""
    ways: tuple[Way, ...] = ("off", "uniform")
    """How single heads are disabled; ``uniform`` in families whose values are projected apart, as BERT's are."""
    order_seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the random orders in which heads are taken out."""

    def measure(
        self, encoder: Encoder, sentences: Sentences, *, layers: Sequence[int], on_long: str, progress: Progress
    ) -> Measured:
        """Gradients and curves of all heads, and what the model loses without those of ``layers``.

        Raises:
            ModelError: the model restores no masked words, or its heads cannot be gated.
        """
        # What computes needs torch, which listing the tasks should not wait for.
        from bertology.attention import importance

        task = importance.MaskedWords(
            encoder, sentences, share=self.share, seed=self.seed, on_long=cast("OnLong", on_long)
        )
        found = importance.head_importance(task, progress=progress)
        missed, single = _of_single(task, self.ways, layers, progress)
        by = importance.Choice(found, missed)
        several = importance.without_heads(task, by, layers=layers, seeds=self.order_seeds, progress=progress)
        ratios = (found, *single, *several, *importance.attention_gradients(task, progress=progress))
        return Measured({"test": ratios}, GeometryCounts(sentences.n_words), [_chosen(by)])


@dataclass(frozen=True)
class OneHead(GateProbe):
    """What does the model lose, in restoring masked words, when one layer keeps its best head alone?"""

    reads = ("dev", "test")
    task = "head_importance:one_head"
    reference = "Michel et al. 2019, §3.3"
    metrics = _one_head_metrics("masked words")
    share: float = 0.15
    """Share of the words of a sentence that are masked."""
    seed: int = 0
    """Seed of the choice of words."""

    def measure(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        layers: Sequence[int],
        on_long: str,
        progress: Progress,
        dev: Sentences | None = None,
    ) -> Mapping[str, Sequence[HeadRatios]]:
        """The head of each of ``layers`` that is kept is chosen on ``dev``; on the sentences themselves without it."""
        from bertology.attention import importance

        how: dict[str, Any] = {"share": self.share, "seed": self.seed, "on_long": on_long}
        texts = (sentences if dev is None else dev, sentences)
        tasks = [importance.MaskedWords(encoder, text, **how) for text in texts]
        of_heads, of_layers = importance.one_head_layers(*tasks, layers=layers, progress=progress)
        return {"dev": of_heads, "test": of_layers}


class _OfTask(GateProbe):
    """Base of the questions about the task that a model has a head for."""

    of: str
    reads = ("dev", "test")
    fixed_fields = ("of",)

    @property
    def unit(self) -> str:
        """The unit of the loss."""
        return "squared_error" if self.of.startswith(("sentence_number", "pair_number")) else "bits"

    def check(
        self, source: ModelSource, texts: Mapping[str, Sentences], *, on_long: str, trust_remote_code: bool
    ) -> None:
        """See :func:`bertology.finetuning.losses.check_task`."""
        from bertology.finetuning.losses import check_task

        check_task(self.of, source, texts, on_long=on_long, trust_remote_code=trust_remote_code)

    def model_identity(self, source: ModelSource) -> Mapping[str, Any]:
        """The record of a fine-tuned model, and a head that is kept apart from its encoder."""
        from bertology.finetuning.losses import head_files

        return head_files(source)

    def _measured(
        self, task: HeadTask, ratios: Mapping[str, Sequence[HeadRatios]], *notes: tuple[str, str]
    ) -> Measured:
        items, n_cut = task.items, task.n_cut
        counts = GeometryCounts(len(items), n_classes=len(task.known.labels), skipped=dict(items.skipped))
        cut = [("texts", f"{n_cut:,} of test were cut at their end")] if n_cut else []
        return Measured(ratios, counts, (*notes, *cut))


@dataclass(frozen=True)
class TaskImportance(_OfTask):
    """What does a fine-tuned model lose, in its task, without each of its heads?"""

    of: str
    """The task, as of :func:`bertology.finetune`."""
    ways: tuple[Way, ...] = ("off", "uniform")
    """How single heads are disabled; ``uniform`` in families whose values are projected apart, as BERT's are."""
    order_seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the random orders in which heads are taken out."""
    task_form = "head_importance:{of}"
    reference = "Michel et al. 2019"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of restoring words; of numbers in squared errors, without accuracies."""
        return _metrics("items", self.unit)

    def measure(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        layers: Sequence[int],
        on_long: str,
        progress: Progress,
        dev: Sentences | None = None,
    ) -> Measured:
        """Gradients of all heads and what the task loses without them, on dev and test; curves on test.

        Heads are ranked and chosen on ``dev``, without it on each half of the texts for the other.

        Raises:
            ModelError: the model has no head for the task, does not know a label, or its heads cannot be gated.
            CorpusError: the texts lack the labels.
        """
        from bertology.attention import importance
        from bertology.finetuning.losses import HeadTask

        task = HeadTask(encoder, self.of, sentences, on_long=on_long)
        by: dict[str, Choice] = {}
        ratios: dict[str, tuple[HeadRatios, ...]] = {}
        for split, one in (("dev", None if dev is None else HeadTask(encoder, self.of, dev)), ("test", task)):
            if one is not None:
                found = importance.head_importance(one, progress=progress)
                missed, single = _of_single(one, self.ways, layers, progress)
                by[split] = importance.Choice(found, missed, is_other=split == "dev")
                ratios[split] = (found, *single, *importance.attention_gradients(one, progress=progress))
        chosen_by = next(iter(by.values()))
        several = importance.without_heads(task, chosen_by, layers=layers, seeds=self.order_seeds, progress=progress)
        ratios["test"] += several
        return self._measured(task, ratios, _chosen(chosen_by))


@dataclass(frozen=True)
class TaskOneHead(_OfTask):
    """What does a fine-tuned model lose, in its task, when one layer keeps its best head alone?"""

    of: str
    """The task, as of :func:`bertology.finetune`."""
    task_form = "head_importance:one_head:{of}"
    reference = OneHead.reference

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of restoring words; of numbers in squared errors, without accuracies."""
        return _one_head_metrics("items", self.unit)

    def measure(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        layers: Sequence[int],
        on_long: str,
        progress: Progress,
        dev: Sentences | None = None,
    ) -> Measured:
        """The head of each of ``layers`` that is kept is chosen on ``dev``; on the texts themselves without it."""
        from bertology.attention import importance
        from bertology.finetuning.losses import HeadTask

        texts = (sentences if dev is None else dev, sentences)
        tasks = [HeadTask(encoder, self.of, text, on_long=on_long) for text in texts]
        of_heads, of_layers = importance.one_head_layers(*tasks, layers=layers, progress=progress)
        return self._measured(tasks[1], {"dev": of_heads, "test": of_layers})


def _of_task(name: str) -> _OfTask | None:
    """The question about a task of a fine-tuned model, after ``one_head:`` about layers of one head; else None."""
    first, _, rest = name.partition(":")
    is_one = first.strip().lower().replace("-", "_") == "one_head"
    asked = rest if is_one else name
    stem, colon, column = asked.strip().partition(":")
    stem = stem.lower().replace("-", "_")
    if stem not in ("span", "pair_number"):
        try:
            probe = get_probe(asked)
        except NameNotFoundError:
            return None
        if not isinstance(probe, RepresentationProbe):
            return None
        stem, colon, column = probe.task, "", ""
    return (TaskOneHead if is_one else TaskImportance)(stem + colon + column)


PROBE = ProbeFamily.among(
    [OneHead()],
    argument="task that finetune knows (sentence_label:label, pos, span …), or question about heads",
    default=HeadImportance(),
    further=_of_task,
)
