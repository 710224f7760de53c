"""The lexical baseline beside layers of the embedded model: at layer 0 a probe has words and places, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import Corpus, load_corpus
from bertology.families.request import ReadoutConfig
from bertology.runner import ProbeRequest, run_probes

BRIEF = {"max_epochs": 9, "round_steps": 1}


def ask(task: str, corpus: Corpus, out: Path, controls: Sequence[str] = ("lexical",), **chosen: Any) -> Any:
    readings = {task: (ReadoutConfig("edge", BRIEF),)}
    request = ProbeRequest(tasks=(task,), layers="0-1", controls=tuple(controls), configs=readings, **chosen)
    return run_probes(request, corpus=corpus, out=out).to_pandas()


@pytest.fixture(scope="module")
def part() -> Corpus:
    """A part of the pocket corpus."""
    whole = load_corpus("pocket")
    sizes = {"train": 450, "dev": 60, "test": 200}
    return Corpus("part", {split: whole[split][:size] for split, size in sizes.items()})


@pytest.mark.parametrize(("task", "context"), [("edge_dependencies", 0.03), ("edge_srl", -0.01)])
def test_layer_0_tells_what_words_and_places_tell(task: str, context: float, part: Corpus, tmp_path: Path) -> None:
    """And layer 1 more, where context is needed: roles of the pocket grammar are nearly all said by word order."""
    frame = ask(task, part, tmp_path)
    main = frame[frame.main_metric]
    (lexical,) = main[main.control == "lexical"].value
    by_layer = main[main.control == "none"].set_index("layer").value
    assert by_layer[0] <= lexical + 0.02
    assert by_layer[1] >= lexical + context
    assert by_layer[1] > by_layer[0]
