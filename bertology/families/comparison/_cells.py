"""Cells of comparisons: which layers are compared, and what is kept of their statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertology.families.cells import Stopwatch, write_cell
from bertology.families.layer_sums import kept_sums
from bertology.families.tasks import FitCells, Job, Pair
from bertology.geometry import LayerSums
from bertology.probing import GeometryCounts, LayerPair, VectorComparison
from bertology.results.predictions import HeadSums
from bertology.results.rows import counterpart


def reference_of(job: Job) -> Job:
    """What of the reference is read."""
    assert job.reference is not None
    return job.reference


def pairs_by_depth(layers: Sequence[int], pair: Pair, reference: Pair) -> tuple[LayerPair, ...]:
    """Each layer with that of the same number, or where depths differ of the same relative depth."""
    depths = pair.shape.n_layers, reference.shape.n_layers
    return tuple((layer, counterpart(layer, *depths)) for layer in layers)


def reference_params(reference: Pair) -> dict[str, Any]:
    """What rows say of the reference, among their parameters."""
    return {
        "reference": reference.source.name,
        "reference_fingerprint": reference.fingerprints[reference.weights],
    }


def write_sums(
    cells: FitCells,
    job: Job,
    found: Sequence[LayerSums] | Callable[[int | None], Sequence[HeadSums]],
    *,
    pairs: Sequence[LayerPair],
    counts: GeometryCounts,
    n_clusters: int,
    skipped: Mapping[str, int],
    watch: Stopwatch,
    device: str,
) -> None:
    """Write the cells of a configuration with the statistics of their layers, and what they are compared with."""
    reference, places = reference_of(job).pair, dict(pairs)
    every = Counter(counts.skipped) + Counter(skipped)
    provenance = watch.provenance("torch", "transformers", "numpy", device=device, n_cells=len(cells.cells))
    for (_, _, layer), cell in cells.cells.items():
        params = {**reference_params(reference), "clusters": "sentences"}
        if layer is not None:
            params["reference_layer"] = places[layer]
        if cells.config.changes:
            params["settings"] = cells.config.changes
        facts = {
            "n_train": counts.n_train,
            "n_items": counts.n_items,
            "n_clusters": n_clusters,
            "n_classes": counts.n_classes,
            "n_skipped": every.total(),
            "skip_reasons": dict(sorted(every.items())),
            "n_unseen_label": counts.n_unseen_label,
            "params": params,
            **job.pair.alignment_counts(leaves_out=isinstance(cells.probe, VectorComparison), beside=reference),
        }
        sums = found(layer) if callable(found) else [kept_sums(one, layer) for one in found if layer in one.layers]
        write_cell(job.run, cell, sums, facts=facts, provenance=provenance, notes=job.pair.splits.notes)
