"""Groups of cells about attention heads: one pass over a text for all that is asked of its maps, gates for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.activations import Progress
from bertology.attention import HeadRatios
from bertology.corpora import Sentences
from bertology.errors import BertologyError, CorpusError
from bertology.probing import AttentionProbe, GateProbe, HeadProbe, Probe
from bertology.results import HeadSums
from bertology.runner._cells import write_cell
from bertology.runner._plan import BaselineCells, Group, Plan
from bertology.runner._provenance import Stopwatch, versions
from bertology.runner._reading import Reading
from bertology.runner._task_data import Splits

if TYPE_CHECKING:
    from bertology.encoders import Encoder
    from bertology.runner._prompts import GetEncoder


@dataclass(frozen=True)
class _Read:
    """What was found in one split."""

    ratios: tuple[HeadRatios, ...]
    n_words: int
    n_sentences: int
    skipped: Mapping[str, int]
    pairs: Mapping[str, int]
    """Where sentences were read two at a time: how many pairs there were, and how many were too long for that."""


def asked_of_heads(probe: Probe, reading: Reading) -> HeadProbe:
    """The question with the settings it is asked with.

    Raises:
        NameNotFoundError: there is no such setting.
        FitError: a setting is of another kind than it should be.
    """
    assert isinstance(probe, HeadProbe)
    return probe.with_settings(reading.settings)


def read_heads(
    groups: Sequence[Group], run: Path, *, plan: Plan, get_encoder: GetEncoder, device: str, progress: Progress
) -> None:
    """Read attention heads for some groups of one initialisation of the model, and write their cells into ``run``.

    All that is asked of maps of the same units is asked in one pass over each split.

    Args:
        groups: the cells.
        run: the run's folder.
        plan: what the groups are part of.
        get_encoder: the model under their initialisation.
        device: where it computes.
        progress: told of what is read.

    Raises:
        ModelError: the model gives no maps, or lacks what a probe takes.
        CorpusError: a split has nothing of what is asked about.
    """
    passes: dict[tuple[str, bool, bool], list[tuple[Group, AttentionProbe]]] = {}
    for group in groups:
        probe = asked_of_heads(group.probe, group.reading)
        if isinstance(probe, AttentionProbe):
            passes.setdefault((probe.level, probe.norms, probe.pairs), []).append((group, probe))
    for together in passes.values():
        _read_maps(together, run, plan, get_encoder(), device, progress)
    for group in groups:
        probe = asked_of_heads(group.probe, group.reading)
        if isinstance(probe, GateProbe):
            _close_gates(group, probe, run, plan, get_encoder(), device, progress)


def _read_maps(
    together: Sequence[tuple[Group, AttentionProbe]],
    run: Path,
    plan: Plan,
    encoder: Encoder,
    device: str,
    progress: Progress,
) -> None:
    """One pass over each split for all that is asked of maps of the same units."""
    watch = Stopwatch()
    found: dict[str, list[_Read | None]] = {}
    for split in ("dev", "test"):
        wanted = [split == "test" or probe.chooses for _, probe in together]
        if any(wanted) and len(plan.splits.by_name[split]):
            found[split] = _from_maps(together, wanted, plan.splits.by_name[split], plan, encoder, progress)
    provenance = watch.provenance("torch", "transformers", "numpy", device=device)
    for number, (group, _) in enumerate(together):
        of_group = {split: one for split, reads in found.items() if (one := reads[number]) is not None}
        _write(group, of_group, run, plan, provenance)


def _close_gates(
    group: Group, probe: GateProbe, run: Path, plan: Plan, encoder: Encoder, device: str, progress: Progress
) -> None:
    """What the model loses without its heads."""
    watch, sentences = Stopwatch(), plan.splits.test
    ratios = probe.measure(encoder, sentences, layers=_layers(group), on_long=plan.request.on_long, progress=progress)
    provenance = watch.provenance("torch", "transformers", "numpy", device=device)
    _write(group, {"test": _Read(tuple(ratios), sentences.n_words, len(sentences), {}, {})}, run, plan, provenance)


def write_head_baselines(found: BaselineCells, splits: Splits, run: Path, *, reading: Reading) -> None:
    """Score what needs no head, and write the cells into ``run``.

    Args:
        found: the cells.
        splits: dev is what a baseline is chosen on, test what it is scored on.
        run: the run's folder.
        reading: with the settings of the task.
    """
    probe = asked_of_heads(found.probe, reading)
    assert isinstance(probe, AttentionProbe)
    chosen_on = splits.dev if len(splits.dev) else splits.test
    for control, cell in found.cells.items():
        try:
            ratios = probe.baseline(control, chosen_on=chosen_on, sentences=splits.test)  # type: ignore[arg-type]
        except CorpusError as error:
            raise CorpusError(f"task {probe.task}: {error}") from error
        sums = [one for each in ratios for one in _sums(each, "test", None)]
        facts = _facts(splits.test.n_words, len(splits.test), {}, reading)
        write_cell(run, cell, sums, facts=facts, provenance={"versions": versions("numpy"), "wall_s": 0.0})


def _from_maps(
    together: Sequence[tuple[Group, AttentionProbe]],
    wanted: Sequence[bool],
    sentences: Sentences,
    plan: Plan,
    encoder: Encoder,
    progress: Progress,
) -> list[_Read | None]:
    """What is asked of the maps of one split: by group, in order."""
    from bertology.attention import stream_maps

    makers = [
        list(_statistics(probe, sentences)) if here else [] for (_, probe), here in zip(together, wanted, strict=True)
    ]
    layers = sorted({layer for group, _ in together for layer in _layers(group)})
    first = together[0][1]
    read = stream_maps(
        encoder,
        sentences,
        [maker for own in makers for maker in own],
        layers=layers,
        level=first.level,
        norms=first.norms,
        pairs=first.pairs,
        on_long=plan.request.on_long,  # type: ignore[arg-type]
        progress=progress,
    )
    results = iter(read.results)
    pairs = {"pairs": read.n_pairs, "pairs_apart": read.n_apart} if first.pairs else {}
    facts = read.n_words, read.n_sentences, read.skipped, pairs
    return [
        _Read(tuple(_ratios(probe, own, results)), *facts) if here else None
        for (_, probe), own, here in zip(together, makers, wanted, strict=True)
    ]


def _statistics(probe: AttentionProbe, sentences: Sentences) -> Sequence[Any]:
    try:
        return probe.statistics(sentences)
    except CorpusError as error:
        raise CorpusError(f"task {probe.task}: {error}") from error


def _ratios(probe: AttentionProbe, makers: Sequence[Any], results: Iterator[Any]) -> Iterator[HeadRatios]:
    """The next results of a pass, those of one probe."""
    for _, result in zip(makers, results, strict=False):
        for part in result if isinstance(result, tuple) else (result,):
            if not isinstance(part, HeadRatios):
                raise BertologyError(
                    f"task {probe.task}: a statistic finishes to a {type(part).__name__}; it should be HeadRatios"
                )
            yield part


def _layers(group: Group) -> tuple[int, ...]:
    return tuple(layer for layer in group.layers if layer is not None)


def _write(group: Group, found: Mapping[str, _Read], run: Path, plan: Plan, provenance: Mapping[str, Any]) -> None:
    test = found["test"]
    chosen_on = {"chosen_on": plan.splits.chosen_on} if len(found) > 1 else {}
    facts = _facts(test.n_words, test.n_sentences, test.skipped, group.reading, **chosen_on, **test.pairs)
    for (_, _, layer), cell in group.cells.items():
        sums = [
            one
            for split, read in found.items()
            for each in read.ratios
            for one in _sums(each, split if split == "test" else plan.splits.chosen_on, layer)
        ]
        write_cell(run, cell, sums, facts=facts, provenance=provenance, notes=plan.splits.notes)


def _sums(ratios: HeadRatios, split: str, layer: int | None) -> Iterator[HeadSums]:
    """What of some ratios is kept with a layer; with None what belongs to no layer."""
    if (layer is None) != (ratios.unit == "model") or (layer is not None and layer not in ratios.layers):
        return
    place = 0 if layer is None else ratios.layers.index(layer)
    for number, name in enumerate(ratios.names):
        over = ratios.over[number, place]
        under = ratios.under[number, min(place, ratios.under.shape[1] - 1)]
        over, under = np.broadcast_arrays(over, under)
        used = np.flatnonzero(under.any(axis=0))
        yield HeadSums(
            split=split,
            metric=ratios.metric or name,
            group=name if ratios.metric else "",
            unit=ratios.unit,
            clusters=used,
            over=over[:, used],
            under=under[:, used],
        )


def _facts(
    n_words: int, n_sentences: int, skipped: Mapping[str, int], reading: Reading, **params: Any
) -> dict[str, Any]:
    return {
        "n_train": 0,
        "n_items": n_words,
        "n_clusters": n_sentences,
        "n_classes": 0,
        "n_skipped": sum(skipped.values()),
        "skip_reasons": dict(skipped),
        "n_unseen_label": 0,
        "params": {**({"settings": reading.changes} if reading.changes else {}), **params},
    }
