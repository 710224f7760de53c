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
  the most important first, or at random; the *least missed* or the *most missed*, by the loss without each of them; or
  together all *harmful heads*, those without which the loss is lower beyond chance; and their differences from the
  whole model. With a task heads are chosen on dev; else half of the sentences rank the heads for the other half.
- ``attention_gradient_bits`` (Clark et al. 2019, §3.3): how much the loss would change with the attention to
  ``[SEP]``, to other special tokens, to punctuation and to everything else; ``attention_effect_bits``: with a gate on
  the attention that there is to them.

``head_importance:one_head`` leaves each layer one head alone, in turn (their §3.3): ``delta_accuracy`` and
``delta_loss_bits`` of every head on dev, and on test those of the layer with the head whose loss on dev is the lowest;
``head_importance:one_head:TASK`` by a task.

A head that is not missed alone may be missed together with another that does the same, which is what the curves are
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bertology import attention, finetuning
from bertology.attention import GateProbe
from bertology.attention.probes import Measured
from bertology.errors import NameNotFoundError
from bertology.measures import Metric, share_metric, sum_metric
from bertology.probing import ProbeFamily, RepresentationProbe, RunningModel, get_probe

if TYPE_CHECKING:
    from bertology.attention.importance import Choice, GatedTask
    from bertology.encoders import ModelSource
    from bertology.families.model_corpus import ModelCorpus
    from bertology.measures.sums import HeadRatios


def _metrics(items: str, unit: str = "bits") -> tuple[Metric, ...]:
    """The metrics of importance by a task whose loss is in bits, or in squared errors, which has no accuracy."""
    loss, meaning = ("loss_bits", "cross-entropy") if unit == "bits" else (unit, "squared error")
    lower: Any = {"higher_is_better": False}
    metrics = (
        sum_metric("importance", "mean |gradient| of the loss by the head's gate, divided by its layer's ℓ2 norm"),
        sum_metric(f"gradient_{unit}", "mean |gradient| of the loss by a gate of 1 on the head"),
        sum_metric(f"delta_{loss}", f"mean loss of {items}, without minus with the head"),
        sum_metric("delta_accuracy", f"share of {items} predicted, without minus with the head", **lower),
        sum_metric(loss, f"mean {meaning} of {items} with some heads off", **lower),
        share_metric("accuracy", f"share of {items} predicted with some heads off"),
        sum_metric(f"attention_gradient_{unit}", "mean |gradient| of the loss by an attention weight"),
        sum_metric(f"attention_effect_{unit}", "mean |gradient| of the loss by a gate on attention to some subwords"),
    )
    return metrics if unit == "bits" else tuple(one for one in metrics if "accuracy" not in one.name)


def _one_head_metrics(items: str, unit: str = "bits") -> tuple[Metric, ...]:
    """The metrics of layers that keep one head, the main one first."""
    what = "with one head in the layer, minus with all"
    loss = "loss_bits" if unit == "bits" else unit
    delta = sum_metric(f"delta_{loss}", f"mean loss of {items}, {what}", higher_is_better=False)
    return (sum_metric("delta_accuracy", f"share of {items} predicted, {what}"), delta)[unit != "bits" :]


def _chosen(by: Choice) -> tuple[str, str]:
    """The note on the heads without which the loss is lower."""
    where = "on the texts that heads are chosen on" if by.is_other else "on half of the texts, for the other half"
    sets = []
    for _, heads in by.folds:
        names = f" ({', '.join(f'L{layer}H{head}' for layer, head in heads)})" if heads else ""
        sets.append(f"{len(heads)} of {by.missed.over[0, ..., 0].size}{names}")
    rule = f"without which the loss {where} is lower (95 % interval, Benjamini–Hochberg q < .05)"
    return "harmful heads", f"{' and '.join(sets)} {rule}"


@dataclass(frozen=True)
class _OfWords(GateProbe):
    """Base of the questions about restoring masked words."""

    share: float = 0.15
    """Share of the words of a sentence that are masked."""
    seed: int = 0
    """Seed of the choice of words."""

    def scored(self, model: RunningModel, split: str) -> GatedTask:
        """The task on which the model is scored."""
        how: dict[str, Any] = {"share": self.share, "seed": self.seed, "on_long": model.on_long}
        return attention.importance.MaskedWords(model.encoder, model.sentences[split], **how)


@dataclass(frozen=True)
class HeadImportance(_OfWords):
    """What does the model lose, in restoring masked words, without each of its heads?"""

    task: str = "head_importance"
    metrics: tuple[Metric, ...] = _metrics("masked words")
    ways: tuple[Literal["off", "uniform"], ...] = ("off", "uniform")
    """How single heads are disabled; ``uniform`` in families whose values are projected apart, as BERT's are."""
    order_seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the random orders in which heads are taken out."""
    reference = "Michel et al. 2019"

    def measure(self, model: RunningModel) -> Measured:
        """Gradients and curves of all heads, and what the model loses without those of the layers.

        Raises:
            ModelError: the model has no head for the task, or its heads cannot be gated.
        """
        importance, layers, progress = attention.importance, model.layers, model.progress
        ratios: dict[str, tuple[HeadRatios, ...]] = {}
        by: list[Choice] = []
        for split in sorted(model.sentences):  # dev first
            task = self.scored(model, split)
            found = importance.head_importance(task, progress=progress)
            single = importance.single_heads(task, progress=progress)
            by.append(importance.Choice(found, single[0], is_other=split == "dev"))
            single = single if "off" in self.ways else ()
            if others := [way for way in self.ways if way != "off"]:
                single += importance.single_heads(task, ways=others, layers=layers, progress=progress)
            ratios[split] = (found, *single, *importance.attention_gradients(task, progress=progress))
        ratios["test"] += importance.without_heads(
            task, by[0], layers=layers, seeds=self.order_seeds, progress=progress
        )
        return Measured(ratios, task.counts, (_chosen(by[0]), *task.notes))


@dataclass(frozen=True)
class OneHead(_OfWords):
    """What does the model lose, in restoring masked words, when one layer keeps its best head alone?"""

    task: str = "head_importance:one_head"
    metrics: tuple[Metric, ...] = _one_head_metrics("masked words")
    reads = ("dev", "test")
    reference = "Michel et al. 2019, §3.3"

    def measure(self, model: RunningModel) -> Measured:
        """The head of each layer that is kept is chosen on dev; on test itself without it."""
        tasks = [self.scored(model, split) for split in (min(model.sentences), "test")]  # chosen on dev if there is one
        how: dict[str, Any] = {"layers": model.layers, "progress": model.progress}
        of_heads, of_layers = attention.importance.one_head_layers(*tasks, **how)
        return Measured({"dev": of_heads, "test": of_layers}, tasks[1].counts, tasks[1].notes)


class _OfTask(GateProbe):
    """Base of the same questions about the task that a model has a head for, named after the others."""

    prefix: str
    reads = ("dev", "test")
    fixed_fields = ("share", "seed")  # of masked words

    def check(self, pair: ModelCorpus) -> None:
        """See :func:`bertology.finetuning.check_task`."""
        how: dict[str, Any] = {name: getattr(pair.request, name) for name in ("on_long", "trust_remote_code")}
        finetuning.check_task(self.task.removeprefix(self.prefix), pair.source, pair.texts(self.reads), **how)

    def model_identity(self, source: ModelSource) -> Mapping[str, str]:
        """The record of a fine-tuned model, and a head that is kept apart from its encoder."""
        return finetuning.head_files(source)

    def scored(self, model: RunningModel, split: str) -> GatedTask:
        """The task of the model."""
        task = self.task.removeprefix(self.prefix)
        return finetuning.HeadTask(model.encoder, task, model.sentences[split], on_long=model.on_long)


class TaskImportance(_OfTask, HeadImportance):
    """What does a fine-tuned model lose, in its task, without each of its heads?"""

    prefix = "head_importance:"


class TaskOneHead(_OfTask, OneHead):
    """What does a fine-tuned model lose, in its task, when one layer keeps its best head alone?"""

    prefix = "head_importance:one_head:"


def _of_task(name: str) -> TaskImportance | TaskOneHead | None:
    """The question about a task of a fine-tuned model, after ``one_head:`` about layers of one head; else None."""
    first, _, rest = name.partition(":")
    is_one = first.strip().lower().replace("-", "_") == "one_head"
    stem, colon, column = (rest if is_one else name).strip().partition(":")
    stem = stem.lower().replace("-", "_")
    unit = "squared_error" if stem in ("sentence_number", "pair_number") else "bits"
    if stem not in ("span", "pair_number"):  # which are no probes
        try:
            probe = get_probe(stem + colon + column)
        except NameNotFoundError:
            return None
        if not isinstance(probe, RepresentationProbe):
            return None
        stem, colon, column = probe.task.partition(":")
    kind, metrics = (TaskOneHead, _one_head_metrics) if is_one else (TaskImportance, _metrics)
    return kind(task=kind.prefix + stem + colon + column, metrics=metrics("items", unit))


PROBE = ProbeFamily.among(
    [OneHead()],
    argument="task that finetune knows (sentence_label:label, pos, span …), or question about heads",
    default=HeadImportance(),
    further=_of_task,
)
