"""Structural probes (Hewitt & Manning 2019): a linear map under which squared distances are distances in a tree."""

from collections.abc import Mapping
from typing import Any

from bertology.readouts._registry import ReadoutKind


def _rank_problem(settings: Mapping[str, Any], width: int) -> str | None:
    rank = settings.get("rank")
    is_too_large = isinstance(rank, int) and rank > width
    return f"rank {rank} of vectors that are {width} wide: give 1 to {width}" if is_too_large else None


STRUCTURAL_V1 = ReadoutKind(
    "structural.v1",
    "bertology.readouts.structural._readout:StructuralReadout",
    "linear map whose squared distances are those of trees (Hewitt & Manning 2019)",
    reads="trees",
    fitted_together="rank",
    settings_problem=_rank_problem,
)
