from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology.attention import head_statistics
from bertology.corpora import Corpus
from bertology.encoders import load_encoder
from bertology.families.request import ReadoutConfig
from bertology.pocket import load_corpus
from bertology.probing import get_probe
from bertology.runner import ProbeRequest, run_probes

PROBE: Any = get_probe("head_statistics")


@pytest.mark.parametrize("norms", [False, True])
def test_rows_are_the_statistics(tiny_bert: Path, norms: bool) -> None:
    text = load_corpus()["test"][:40]
    encoder = load_encoder(str(tiny_bert), device="cpu")
    table = head_statistics(encoder, text, norms=norms, distances=False).to_pandas().set_index("head")
    request = ProbeRequest(
        tasks=("head_statistics",),
        model=str(tiny_bert),
        controls=(),
        configs={"head_statistics": (ReadoutConfig(settings={"with_norms": norms}),)},
    )
    rows = run_probes(request, corpus=Corpus("small", {"test": text})).rows
    assert {row.metric for row in rows} <= {metric.name for metric in PROBE.scores}
    assert ("norm_share" in {row.metric for row in rows}) == norms
    found = {(row.head, row.group or row.metric): row.value for row in rows if row.value is not None}
    names = [name for name in table.columns if name != "layer" and not name.endswith(("_low", "_high"))]
    assert {name for _, name in found} == set(names)
    for (head, name), value in found.items():
        assert value == pytest.approx(table.loc[head, name], abs=1e-6)


def test_planted_attention_is_seen() -> None:
    """The embedded encoder has a head for the word before and one for the next, as its statistics say."""
    text = load_corpus()["test"][:100]
    table = head_statistics("pocket", text, distances=False)
    for name in ("previous", "next"):
        assert np.nanmax(table.of(name)) > 0.8
