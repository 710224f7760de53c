"""Cells of cloze tasks: the model runs on the texts, and the answer to every item is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology._inputs import given_path, read_text
from bertology.errors import ClozeError, CorpusError
from bertology.families.cells import Cell, Stopwatch, versions, write_cell
from bertology.families.tasks import BaselineCells, FitCells, Job
from bertology.probing import ClozeItem, ClozeItems, ClozeProbe, LeftOut
from bertology.results import Predictions

if TYPE_CHECKING:
    from bertology.encoders import Encoder
    from bertology.families.cloze._answers import Answers, Asked

_CHOICES = frozenset({"choices", "contexts", "sentences", "next_sentence"})


def ask_cells(cells: FitCells, job: Job) -> None:
    """Run the model on the texts of a task and write the cells of a readout configuration.

    Raises:
        ModelError: the model has no such head.
        ClozeError: no item of the task can be scored with this model.
    """
    probe = probe_of(cells)
    whole: ClozeItems = job.pair.splits.items[probe.task]
    encoder = job.get_encoder()
    asked = _asked(cells, encoder, probe)
    for control in dict.fromkeys(control for control, _, _ in cells.cells):
        watch = Stopwatch()
        items = blinded(whole) if control == "blind" else whole
        answers = asked.answers(probe.asks, items, job.progress)
        if all(answers.reason):
            raise ClozeError(f"task {probe.task}: no item can be asked of {encoder.name} ({answers.reason[0]})")
        n_cells = len(asked.layers)
        provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=n_cells)
        for place, layer in enumerate(asked.layers):
            cell = cells.cells[control, 0, layer]
            _write(job.run, cell, items, answers, place, provenance, _params(cells, probe, items))


def probe_of(cells: FitCells) -> ClozeProbe:
    """The question with the settings of a readout configuration."""
    probe = cells.probe.with_settings(cells.config.settings)
    assert isinstance(probe, ClozeProbe)
    return probe


def blinded(items: ClozeItems) -> ClozeItems:
    """The items whose texts have a version without what decides, in that version.

    Raises:
        CorpusError: none has.
    """
    kept = tuple(replace(item, text=item.blind) for item in items.items if item.blind)
    if not kept:
        raise CorpusError("no item has a text without what decides: leave out the control blind")
    without = (LeftOut(item.id, item.group, "no text without what decides") for item in items.items if not item.blind)
    return replace(items, items=kept, left_out=(*items.left_out, *without))


def write_majority(baselines: BaselineCells, items: ClozeItems, run: Path) -> None:
    """The answers most frequent in each group, whatever the text (the baseline Freq of Petroni et al. 2019)."""
    answers = by_frequency(items)
    for cell in baselines.cells.values():
        provenance = {"versions": versions("numpy"), "wall_s": 0.0}
        _write(run, cell, items, answers, 0, provenance, {})


def by_frequency(items: ClozeItems) -> Answers:
    """Answers as one would guess them who knows how often each is right in a group (of equals the first one)."""
    from bertology.families.cloze._answers import Answers

    order: dict[str, list[str]] = {}
    for group in items.groups:
        counts = Counter(item.answer for item in items.items if item.group == group)
        order[group] = [answer for answer, _ in counts.most_common()]
    place = {group: {answer: number for number, answer in enumerate(answers, 1)} for group, answers in order.items()}
    said = Answers.none(1, items.items)
    for number, item in enumerate(items.items):
        ranks = place[item.group]
        own = min(ranks.get(word, len(ranks) + 1) for word in (item.answer, *item.accepted))
        said.first[0][number] = order[item.group][0]
        said.rank[0, number] = own - sum(ranks.get(word, own) < own for word in set(item.ignored))
    return said


def _asked(cells: FitCells, encoder: Encoder, probe: ClozeProbe) -> Asked:
    from bertology.families.cloze._answers import Asked

    ranked = any(metric.count_kind in ("answers", "agreement") for metric in probe.scores)
    words = read_vocabulary(probe.vocabulary) if probe.vocabulary else ()
    layers = tuple(layer for layer in cells.layers if layer is not None)
    return Asked(encoder, layers, probe.form, ranked=ranked, vocabulary=words)


def _params(cells: FitCells, probe: ClozeProbe, items: ClozeItems) -> dict[str, Any]:
    params: dict[str, Any] = {"clusters": items.clusters}
    if probe.asks in _CHOICES:
        params["chance"] = chances(items)
    if probe.asks != "next_sentence":
        params["form"] = probe.form or ("original" if probe.asks == "sentences" else "one_piece")
    if cells.config.changes:
        params["settings"] = cells.config.changes
    return params


def read_vocabulary(path: str) -> tuple[str, ...]:
    """The words of a file, one a line.

    Raises:
        CorpusError: there is no such file, or no word in it.
    """
    file = given_path(path, error=CorpusError)
    lines = read_text(file, error=CorpusError, missing="it should be a vocabulary, one word a line").splitlines()
    words = tuple(dict.fromkeys(filter(None, map(str.strip, lines))))
    if not words:
        raise CorpusError(f"vocabulary {file}: no word in it; write one a line")
    return words


def chances(items: ClozeItems) -> dict[str, float]:
    """By group, how often a coin, or a die of as many sides as there are words to choose from, would be right."""
    by_group: dict[str, list[float]] = {}
    for item in items.items:
        by_group.setdefault(item.group, []).append(1 / (1 + max(1, len(item.rivals))))
    return {group: round(sum(values) / len(values), 6) for group, values in by_group.items()}


def _write(
    run: Path,
    cell: Cell,
    items: ClozeItems,
    answers: Answers,
    layer: int,
    provenance: Mapping[str, Any],
    params: Mapping[str, Any],
) -> None:
    everything: Sequence[ClozeItem] = items.items
    left = items.left_out
    clusters: dict[str, int] = {}
    groups: dict[str, int] = {}
    names = [item.cluster for item in everything] + [one.id for one in left]
    of_group = [item.group for item in everything] + [one.group for one in left]
    cluster = np.array([clusters.setdefault(name, len(clusters)) for name in names], dtype=np.int64)
    group = np.array([groups.setdefault(name, len(groups)) for name in of_group], dtype=np.int64)
    nothing = [""] * len(left)
    reasons = [*answers.reason, *(one.reason for one in left)]

    def filled(values: Any, filling: float) -> Any:
        return np.concatenate([values[layer], np.full(len(left), filling, dtype=values.dtype)])

    predictions = Predictions.of_cloze(
        item_ids=[item.id for item in everything] + [one.id for one in left],
        cluster=cluster,
        cluster_ids=tuple(clusters),
        group=group,
        groups=tuple(groups),
        gold=[*answers.gold[layer], *nothing],
        pred=[*answers.first[layer], *nothing],
        score=filled(answers.score, np.nan),
        rival=filled(answers.rival, np.nan),
        rank=filled(answers.rank, 0),
        reason=reasons,
    )
    counts = counts_of(reasons, cluster, group, tuple(groups))
    facts = {"n_train": 0, "n_classes": 0, "n_unseen_label": 0, **counts, "params": dict(params)}
    write_cell(run, cell, predictions, facts=facts, provenance=provenance)


def counts_of(
    reasons: Sequence[str], cluster: NDArray[np.int64], group: NDArray[np.int64], groups: Sequence[str]
) -> dict[str, Any]:
    """How many items of a cell were scored, and why the others were not: in all, and in each group.

    Args:
        reasons: ``[item]`` why an item was not scored; empty where it was.
        cluster: ``[item]``
        group: ``[item]`` place in ``groups``.
        groups: names of all groups.
    """
    scored = np.array([not reason for reason in reasons], dtype=bool)
    return {
        "n_items": int(scored.sum()),
        "n_clusters": len(np.unique(cluster[scored])),
        "n_skipped": int((~scored).sum()),
        "skip_reasons": dict(Counter(kind_of(reason) for reason in reasons if reason).most_common()),
        "groups": {name: _counts(scored, cluster, group == code) for code, name in enumerate(groups)},
    }


def _counts(scored: NDArray[np.bool_], cluster: NDArray[np.int64], inside: NDArray[np.bool_]) -> list[int]:
    """Items scored of a group, the clusters they stand in, and items left out."""
    there = scored & inside
    return [int(there.sum()), len(np.unique(cluster[there])), int((~scored & inside).sum())]


def kind_of(reason: str) -> str:
    """A reason without what differs from item to item: the word it is about, and its details."""
    if reason[:1] in "'\"" and (end := reason.find(f"{reason[0]} ", 1)) > 0:
        reason = reason[end + 2 :]
    return reason.partition(":")[0]
