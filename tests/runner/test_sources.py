"""How much of the vectors a fit keeps: what a run takes does not grow with its corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertology import activations
from bertology.families.request import ReadoutConfig
from bertology.runner import ProbeRequest, run_probes


@pytest.mark.parametrize(("task", "kind"), [("pos", "WordVectors"), ("edge_dependencies", "SpanVectors")])
def test_converted_vectors_that_a_fit_keeps_are_bounded(
    task: str, kind: str, tiny_bert: Path, tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTOLOGY_MEMORY", "2GB")
    kept: list[int] = []
    original = getattr(activations, kind)

    def made(*arguments: Any, memory: int = 0, **more: Any) -> Any:
        kept.append(memory)
        return original(*arguments, memory=memory, **more)

    monkeypatch.setattr(activations, kind, made)
    small = {"hidden": 4, "projection": 4, "max_epochs": 1}
    request = ProbeRequest(
        tasks=(task,),
        model=str(tiny_bert),
        corpus=str(tiny_corpus),
        layers="0",
        controls=(),
        configs={"edge_dependencies": (ReadoutConfig("edge", small),)} if task == "edge_dependencies" else {},
    )
    run_probes(request)
    assert max(kept) == 500_000_000  # a quarter of what the run may use
