"""Which baselines a task has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from bertology.probing import AttentionProbe, ClozeProbe, HeadBaseline, HeadProbe, Probe
from bertology.readouts import readout_kind

Baseline = Literal["majority", "word_majority", "lexical", "linear_chain"] | HeadBaseline
# By what a task's readout reads.
_BASELINES: Mapping[str, tuple[Baseline, ...]] = {
    "words": ("majority", "word_majority"),
    "spans": ("majority", "word_majority", "lexical"),
    "trees": ("linear_chain",),
    "prompts": ("majority",),
}


def baselines_of(probe: Probe, controls: Collection[str]) -> tuple[Baseline, ...]:
    """The baselines that a task has among the ``controls``."""
    if isinstance(probe, ClozeProbe) and probe.asks != "answers":
        # Of two texts neither is the more frequent answer; and where each item has rivals of its own, what is most
        # frequent among the answers is mostly what is never asked as a rival.
        return ()
    if isinstance(probe, HeadProbe):
        return tuple(name for name in probe.baselines if name in controls) if isinstance(probe, AttentionProbe) else ()
    return tuple(name for name in _BASELINES[readout_kind(probe.readout).reads] if name in controls)
