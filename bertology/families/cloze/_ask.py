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
from bertology._names import folder_name
from bertology.errors import ClozeError, CorpusError
from bertology.families.alignment import text_counts
from bertology.families.cells import Cell, Stopwatch, versions, write_cell
from bertology.families.cloze._lens import TUNED_LENS, kept_lens, lens_corpus
from bertology.families.tasks import BaselineCells, FitCells, Job
from bertology.probing import ClozeItem, ClozeItems, ClozeProbe, LeftOut
from bertology.results import Predictions

if TYPE_CHECKING:
    from bertology.families.cloze._answers import Answers

_CHOICES = frozenset({"choices", "contexts", "sentences", "next_sentence"})


def ask_cells(cells: FitCells, job: Job) -> None:
    """Run the model on the texts of a task and write the cells of a readout configuration."""
    from bertology.families.cloze._answers import Asked

    probe, encoder = cells.probe.with_settings(cells.config.settings), job.get_encoder()
    assert isinstance(probe, ClozeProbe)
    if cells.config.readout == TUNED_LENS:
        encoder = encoder.through(kept_lens(encoder, cells.config, job))
    whole: ClozeItems = job.pair.splits.items[probe.task]
    ranked = any(metric.count_kind in ("answers", "agreement") for metric in probe.scores)
    words = read_vocabulary(probe.vocabulary) if probe.vocabulary else ()
    layers = tuple(layer for layer in cells.layers if layer is not None)
    asked = Asked(encoder, layers, probe.form, ranked=ranked, vocabulary=words)
    aligned = text_counts(encoder, (text for item in whole.items for text in (item.text, item.other) if text))
    for control in dict.fromkeys(control for control, _, _ in cells.cells):
        watch = Stopwatch()
        items = blinded(whole) if control == "blind" else whole
        answers = asked.answers(probe.asks, items, job.progress)
        if all(answers.reason):
            raise ClozeError(f"task {probe.task}: no item can be asked of {encoder.name} ({answers.reason[0]})")
        provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=len(layers))
        for place, layer in enumerate(layers):
            cell = cells.cells[control, 0, layer]
            _write(job.run, cell, items, answers, place, provenance, _params(cells, probe, items, job), aligned)


def blinded(items: ClozeItems) -> ClozeItems:
    """The items whose texts have a version without what decides, in that version."""
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
        _write(run, cell, items, answers, 0, provenance, {}, {})


def by_frequency(items: ClozeItems) -> Answers:
    """Answers as one would guess them who knows how often each is right in a group (of equals the first one)."""
    from bertology.families.cloze._answers import Answers

    counts: dict[str, Counter[str]] = {}
    for item in items.items:
        counts.setdefault(item.group, Counter())[item.answer] += 1
    ranks_of = {
        group: {answer: rank for rank, (answer, _) in enumerate(of_group.most_common(), 1)}
        for group, of_group in counts.items()
    }
    answers = Answers.none(1, items.items)
    for number, item in enumerate(items.items):
        ranks = ranks_of[item.group]
        rank = min(ranks.get(word, len(ranks) + 1) for word in (item.answer, *item.accepted))
        answers.first[0][number] = next(iter(ranks))
        answers.rank[0, number] = rank - sum(ranks.get(word, rank) < rank for word in set(item.ignored))
    return answers


def _params(cells: FitCells, probe: ClozeProbe, items: ClozeItems, job: Job) -> dict[str, Any]:
    params: dict[str, Any] = {"clusters": items.clusters}
    if probe.asks in _CHOICES:
        params["chance"] = chances(items)
    if probe.asks != "next_sentence":
        params["form"] = probe.form or ("original" if probe.asks == "sentences" else "one_piece")
    if cells.config.readout == TUNED_LENS:
        params["lens"] = folder_name(lens_corpus(cells.config, job.pair))
    if cells.config.changes:
        params["settings"] = cells.config.changes
    return params


def read_vocabulary(path: str) -> tuple[str, ...]:
    """The words of a file, one a line."""
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
    aligned: Mapping[str, Any],
) -> None:
    left, every = items.left_out, list[ClozeItem | LeftOut]([*items.items, *items.left_out])
    cluster, clusters = coded([item.cluster if isinstance(item, ClozeItem) else item.id for item in every])
    group, groups = coded([item.group for item in every])
    reasons = [*answers.reason, *(one.reason for one in left)]

    def filled(values: Any, filling: float) -> Any:
        return np.concatenate([values[layer], np.full(len(left), filling, dtype=values.dtype)])

    predictions = Predictions.of_cloze(
        item_ids=[item.id for item in every],
        cluster=cluster,
        cluster_ids=clusters,
        group=group,
        groups=groups,
        gold=[*answers.gold[layer], *[""] * len(left)],
        pred=[*answers.first[layer], *[""] * len(left)],
        score=filled(answers.score, np.nan),
        rival=filled(answers.rival, np.nan),
        rank=filled(answers.rank, 0),
        reason=reasons,
    )
    counts = counts_of(reasons, cluster, group, groups)
    facts = {"n_train": 0, "n_classes": 0, "n_unseen_label": 0, **counts, "params": dict(params), **aligned}
    write_cell(run, cell, predictions, facts=facts, provenance=provenance)


def coded(names: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The place of each name among the distinct ones, and these in order of first appearance."""
    code_of = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array([code_of[name] for name in names], dtype=np.int64), tuple(code_of)


def counts_of(
    reasons: Sequence[str], cluster: NDArray[np.int64], group: NDArray[np.int64], groups: Sequence[str]
) -> dict[str, Any]:
    """How many items of a cell were scored, in all and in each group, and why not the others (``[item]`` or empty)."""
    scored = np.array([not reason for reason in reasons], dtype=bool)

    def counts(inside: NDArray[np.bool_]) -> list[int]:
        """Items scored, the clusters they stand in, and items left out."""
        n_scored = int((scored & inside).sum())
        return [n_scored, len(np.unique(cluster[scored & inside])), int(inside.sum()) - n_scored]

    whole = counts(np.ones(len(reasons), dtype=bool))
    return {
        **dict(zip(("n_items", "n_clusters", "n_skipped"), whole, strict=True)),
        "skip_reasons": dict(Counter(kind_of(reason) for reason in reasons if reason).most_common()),
        "groups": {name: counts(group == code) for code, name in enumerate(groups)},
    }


def kind_of(reason: str) -> str:
    """A reason without what differs from item to item: the word it is about, and its details."""
    if reason[:1] in "'\"" and (end := reason.find(f"{reason[0]} ", 1)) > 0:
        reason = reason[end + 2 :]
    return reason.partition(":")[0]
