"""Groups of cells about attention heads: one pass over a text for all that is asked of its maps, gates for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bertology.attention import HeadRatios
from bertology.errors import BertologyError
from bertology.families.cells import Stopwatch, versions, write_cell
from bertology.families.contract import one_by_one
from bertology.families.head_sums import kept_ratios
from bertology.families.request import ReadoutConfig
from bertology.families.splits import Splits
from bertology.families.tasks import BaselineCells, FitCells, FitGroup, Job
from bertology.families.unfitted import named_task
from bertology.probing import AttentionProbe, GateProbe, HeadProbe

if TYPE_CHECKING:
    from bertology.attention import MakeStatistic

MapsRead = tuple[Literal["word", "piece"], bool, bool]
"""Units of the maps, whether norms are looked at as well, whether sentences are read in pairs."""


@dataclass(frozen=True)
class _Question:
    """What the cells of a task ask of attention maps."""

    group: FitGroup
    probe: AttentionProbe
    makers: Mapping[str, Sequence[MakeStatistic]]
    """By split: of dev nothing where no head is chosen, or there is none."""

    @classmethod
    def of(cls, group: FitGroup, splits: Splits) -> _Question:
        probe = configured(group.members[0])
        assert isinstance(probe, AttentionProbe)
        names = ("dev", "test") if probe.chooses and len(splits.dev) else ("test",)
        with named_task(probe):
            return cls(group, probe, {name: probe.statistics(splits.by_name[name]) for name in names})


@dataclass(frozen=True)
class _Read:
    """What was read in one split."""

    ratios: tuple[HeadRatios, ...]
    n_words: int
    n_sentences: int
    skipped: Mapping[str, int]
    pairs: Mapping[str, int]
    """Where sentences were read two at a time: how many pairs there were, and how many were too long for that."""


def configured(cells: FitCells | BaselineCells) -> HeadProbe:
    """The question with the settings of a readout configuration."""
    probe = cells.probe.with_settings(cells.config.settings)
    assert isinstance(probe, HeadProbe)
    return probe


def maps_read(group: FitGroup) -> MapsRead | None:
    """Which maps a group reads; None if it reads none."""
    probe = configured(group.members[0])
    return (probe.level, probe.norms, probe.pairs) if isinstance(probe, AttentionProbe) else None


def read_maps(groups: Sequence[FitGroup], job: Job) -> Iterator[tuple[FitGroup, Exception | None]]:
    """Compute groups that read the same maps in one pass over each split, and write their cells.

    Yields:
        Each group when its cells are written, or with what went wrong: the model gives no maps (``ModelError``), a
        split has nothing of what is asked about (``CorpusError``). That does not stop the others.
    """
    asked = []
    for group in groups:
        try:
            asked.append(_Question.of(group, job.pair.splits))
        except Exception as error:
            yield group, error
    outcomes: Iterable[tuple[list[_Question], Exception | None]]
    outcomes = every = list(one_by_one([asked] if asked else [], lambda some: _read_together(some, job)))
    if len(asked) > 1 and every[0][1] is not None:
        # Which of several questions a failure comes from is not known: each is read alone.
        outcomes = one_by_one([[one] for one in asked], lambda some: _read_together(some, job))
    for some, failure in outcomes:
        yield from ((one.group, failure) for one in some)


def _read_together(asked: Sequence[_Question], job: Job) -> None:
    """Read the maps of each split in one pass for several questions, and write their cells."""
    watch = Stopwatch()
    splits = [split for split in ("dev", "test") if any(split in one.makers for one in asked)]
    by_split = {split: _from_maps(asked, split, job) for split in splits}
    n_cells = sum(len(one.group.cells) for one in asked)
    provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=n_cells)
    for number, one in enumerate(asked):
        _write(one.group, {split: by_split[split][number] for split in one.makers}, job, provenance)


def close_gates(group: FitGroup, job: Job) -> None:
    """Measure what the model loses without its heads, and write the cells."""
    probe = configured(group.members[0])
    assert isinstance(probe, GateProbe)
    watch, sentences, encoder = Stopwatch(), job.pair.splits.test, job.get_encoder()
    on_long = job.pair.request.on_long
    ratios = probe.measure(encoder, sentences, layers=_layers(group), on_long=on_long, progress=job.progress)
    n_cells = len(group.cells)
    provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=n_cells)
    _write(group, {"test": _Read(tuple(ratios), sentences.n_words, len(sentences), {}, {})}, job, provenance)


def write_baselines(baselines: BaselineCells, job: Job) -> None:
    """Score what needs no head on what the model can read, and write the cells.

    Dev is what a baseline is chosen on, test what it is scored on.
    """
    probe, splits = configured(baselines), job.pair.splits
    assert isinstance(probe, AttentionProbe)
    chosen_on, windows = "dev" if len(splits.dev) else "test", baselines.windows
    skipped = Counter(baselines.unreadable.get("test", {}).values())
    read = np.delete(splits.test.sentence_of_word, list(baselines.unreadable.get("test", {})))
    for control, cell in baselines.cells.items():
        with named_task(probe):
            ratios = probe.baseline(
                control,  # type: ignore[arg-type]
                chosen_on=splits.by_name[chosen_on],
                sentences=splits.test,
                chosen_windows=windows.get(chosen_on),
                windows=windows.get("test"),
            )
        sums = [one for each in ratios for one in kept_ratios(each, "test", None)]
        facts = _facts(len(read), len(np.unique(read)), skipped, baselines.config)
        write_cell(job.run, cell, sums, facts=facts, provenance={"versions": versions("numpy"), "wall_s": 0.0})


def _from_maps(asked: Sequence[_Question], split: str, job: Job) -> list[_Read]:
    """What is read off the maps of one split for each question; nothing for those that ask nothing of it."""
    from bertology.attention import stream_maps

    makers = [one.makers.get(split, ()) for one in asked]
    first = asked[0].probe
    read = stream_maps(
        job.get_encoder(),
        job.pair.splits.by_name[split],
        [maker for own in makers for maker in own],
        layers=sorted({layer for one in asked for layer in _layers(one.group)}),
        level=first.level,
        norms=first.norms,
        pairs=first.pairs,
        on_long=job.pair.request.on_long,
        exclude_shared=job.pair.request.shared_subwords == "exclude",
        progress=job.progress,
    )
    results = iter(read.results)
    pairs = {"pairs": read.n_pairs, "pairs_apart": read.n_apart} if first.pairs else {}
    facts = read.n_words, read.n_sentences, read.skipped, pairs
    return [_Read(tuple(_ratios(one.probe, own, results)), *facts) for one, own in zip(asked, makers, strict=True)]


def _ratios(probe: AttentionProbe, makers: Sequence[Any], results: Iterator[Any]) -> Iterator[HeadRatios]:
    """The next results of a pass, those of one probe."""
    for _, result in zip(makers, results, strict=False):
        for part in result if isinstance(result, tuple) else (result,):
            if not isinstance(part, HeadRatios):
                kind = type(part).__name__
                raise BertologyError(f"task {probe.task}: a statistic finishes to a {kind}; it should be HeadRatios")
            yield part


def _layers(group: FitGroup) -> tuple[int, ...]:
    return tuple(layer for layer in group.members[0].layers if layer is not None)


def _write(group: FitGroup, by_split: Mapping[str, _Read], job: Job, provenance: Mapping[str, Any]) -> None:
    test, splits = by_split["test"], job.pair.splits
    chosen_on = {"chosen_on": splits.chosen_on} if len(by_split) > 1 else {}
    facts = _facts(test.n_words, test.n_sentences, test.skipped, group.members[0].config, **chosen_on, **test.pairs)
    facts |= job.pair.alignment_counts(leaves_out=isinstance(group.probe, AttentionProbe))
    for (_, _, layer), cell in group.members[0].cells.items():
        sums = [
            one
            for split, read in by_split.items()
            for each in read.ratios
            for one in kept_ratios(each, split if split == "test" else splits.chosen_on, layer)
        ]
        write_cell(job.run, cell, sums, facts=facts, provenance=provenance, notes=splits.notes)


def _facts(
    n_words: int, n_sentences: int, skipped: Mapping[str, int], config: ReadoutConfig, **params: Any
) -> dict[str, Any]:
    return {
        "n_train": 0,
        "n_items": n_words,
        "n_clusters": n_sentences,
        "n_classes": 0,
        "n_skipped": sum(skipped.values()),
        "skip_reasons": dict(skipped),
        "n_unseen_label": 0,
        "params": {**({"settings": config.changes} if config.changes else {}), **params},
    }
