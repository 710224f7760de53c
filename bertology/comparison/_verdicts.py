"""What a comparison comes to: whether two models are the same, in weights or in what they compute, and in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bertology.results.compared import ComparedTask, PairStatistic, at_null
from bertology.results.rows import Score
from bertology.results.table import interval_of, layers_named, metric_title, number

_SAME_VECTORS = 2e-3
"""Distance between two vectors over the length of one, up to which they are the same as they are stored (float16)."""
_SAME_BITS = 1e-3
"""Difference of two masked losses up to which they are the same but for rounding."""


def verdicts(
    models: Sequence[str],
    tasks: Sequence[ComparedTask],
    statistics: Sequence[PairStatistic],
    sizes: Sequence[Mapping[Any, Any]] = (),
) -> list[str]:
    """For each model what it comes to in words, then its numbers as a whole.

    A model has *identical weights* where none of its encoder's differs and neither do vectors and losses; it computes
    the *same function* where the vectors of its last layer and the loss on masked words are the same though weights
    differ; else it *differs in* what follows. Where its last layer was not read, no verdict is on the whole of it.

    Args:
        models: as tables call them, without the reference; those of which nothing could be measured are left out.
        tasks: that both models were asked.
        statistics: of all pairs of models.
        sizes: as rows of :func:`size_and_speed`, the reference first, then the models in their order.
    """
    found = []
    for place, model in enumerate(models):
        own = [one for one in statistics if one.model == model]
        of_model = [one for one in tasks if model in one.differences]
        if not own and not of_model:
            continue
        found.append(f"{model}: {_verdict(own, of_model, model)}.")
        numbers = [*_losses(own), *_weights(own), *_sizes(sizes, place + 1)]
        if numbers:
            found.append(f"{model} as a whole: {'; '.join(numbers)}.")
    return found


def _of(statistics: Sequence[PairStatistic], measure: str, metric: str) -> list[PairStatistic]:
    return [one for one in statistics if one.task == f"comparison:{measure}" and one.metric == metric]


def _verdict(statistics: Sequence[PairStatistic], tasks: Sequence[ComparedTask], model: str) -> str:
    changed = [one.of_model.value for one in _of(statistics, "weights", "changed") if one.of_model]
    losses = [one.of_model.value for one in _of(statistics, "masked_loss", "change_bits") if one.of_model]
    moved: dict[int, float] = {}
    vectors = _of(statistics, "vectors", "moved_reference")
    for one in vectors:
        moved |= {layer: max(score.value, moved.get(layer, 0.0)) for layer, score in one.by_layer.items()}
    differ = [layer for layer, value in sorted(moved.items()) if value > _SAME_VECTORS]
    same_loss = all(abs(bits) <= _SAME_BITS for bits in losses)
    if changed and not any(changed) and not differ and same_loss:
        return "identical weights"
    if vectors and (last := vectors[0].about.n_layers) in moved and last not in differ and same_loss:
        return "same function" + (", with other weights" if any(changed) else "")
    parts = ["weights"] if any(changed) else []
    parts += [f"vectors of {layers_named(differ)}"] if differ else []
    parts += ["predictions of masked words"] if not same_loss else []
    for task in tasks:
        sure = [layer for layer, one in task.differences[model].items() if one.is_sure]
        parts += [f"{task.task} ({layers_named(sure)})"] if sure else []
    if not parts:
        return "differs in nothing that was measured"
    only = ", though no weight of the encoder does" if changed and not any(changed) else ""
    return f"differs in {', '.join(parts)}{only}"


def _losses(statistics: Sequence[PairStatistic]) -> Iterator[str]:
    """The loss on masked words, and the share of them that is right, on each corpus."""
    changes, several = _of(statistics, "masked_loss", "change_bits"), len({one.corpus for one in statistics}) > 1
    for one in changes:
        of_corpus = [other for other in statistics if other.corpus == one.corpus]

        def value(metric: str, of_corpus: Sequence[PairStatistic] = of_corpus) -> Score | None:
            return next((other.of_model for other in _of(of_corpus, "masked_loss", metric)), None)

        if (change := one.of_model) is None:
            continue
        text = f"masked loss {_signed(change, one.metric)} bits a word{f' on {one.corpus}' if several else ''}"
        before, after = value("reference_bits"), value("masked_loss_bits")
        if before and after:
            text += (
                f" ({number(before.value, metric='reference_bits')} → {number(after.value, metric='masked_loss_bits')})"
            )
        right, was_right = value("accuracy"), value("accuracy_reference")
        if right and was_right:
            text += f", {number(was_right.value)} → {number(right.value)} % of masked words right"
        yield text


def _signed(score: Score, metric: str) -> str:
    sign = "+" if score.value > 0 else ""
    return f"{sign}{number(score.value, metric=metric)} {interval_of(score, metric)}".rstrip()


def _weights(statistics: Sequence[PairStatistic]) -> Iterator[str]:
    for metric, what in (("changed", "of the encoder's weights differ"), ("relative_l2", "of their length apart")):
        for one in _of(statistics, "weights", metric)[:1]:
            if one.of_model is not None:
                yield f"{number(one.of_model.value, metric=metric)} % {what}"


def _sizes(sizes: Sequence[Mapping[Any, Any]], place: int) -> Iterator[str]:
    if place < len(sizes):
        reference, own = sizes[0], sizes[place]
        yield f"{own['bytes_on_disk'] / 1e6:.2f} MB on disk (reference {reference['bytes_on_disk'] / 1e6:.2f})"
        between = f"[{own['speedup_low']:.2f}, {own['speedup_high']:.2f}]"
        yield f"{own['speedup']:.2f} {between} times as fast"


def null_findings(statistics: Sequence[PairStatistic]) -> Iterator[str]:
    """A sentence on each statistic that is at its null in some layers."""
    for one in statistics:
        if layers := at_null(one, statistics):
            where = "every layer" if len(layers) == len(one.by_layer) else layers_named(layers)
            yield (
                f"{metric_title(one.metric)} ({one.task}), {one.model}: in {where} no more alike than words in random "
                "order (its null)."
            )
