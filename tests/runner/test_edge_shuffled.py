"""Edge tasks whose labels are shuffled, from corpus to rows: nothing is found, nothing is told shorter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bertology.corpora import Corpus, Sentences, Target
from bertology.families.request import ReadoutConfig
from bertology.pocket import load_corpus
from bertology.runner import ProbeRequest, run_probes

SIZES = {"train": 160, "dev": 50, "test": 120}
ROLES = ("A0", "A1", "A2", "AM-TMP")
SMALL = {"projection": 16, "hidden": 16, "learning_rate": 1e-2, "max_epochs": 3, "round_steps": 30}


def balanced(n: int, labels: tuple[str, ...], draw: np.random.Generator) -> list[str]:
    """As many of each label, in random order."""
    return [labels[place % len(labels)] for place in draw.permutation(n)]


def with_roles(labels_of: Callable[[list[Target]], list[str]]) -> Corpus:
    """Sentences of the pocket world, their commonest roles and nothing else, labelled anew."""
    splits = {}
    for split, size in SIZES.items():
        whole = load_corpus()[split][:size]
        roles = [[role for role in one.targets.get("srl", ()) if role.label in ROLES] for one in whole]
        labels = iter(labels_of([role for found in roles for role in found]))
        made = [tuple(replace(role, label=next(labels)) for role in found) for found in roles]
        splits[split] = Sentences(
            replace(one, targets={"srl": found} if found else {}) for one, found in zip(whole, made, strict=True)
        )
    return Corpus("roles", splits)


@pytest.fixture(scope="module")
def true_roles() -> Corpus:
    """Predicates and arguments with the roles they play."""
    return with_roles(lambda roles: [str(role.label) for role in roles])


@pytest.fixture(scope="module")
def shuffled_roles() -> Corpus:
    """The same pairs, with roles dealt out at random."""
    draw = np.random.default_rng(3)
    return with_roles(lambda roles: balanced(len(roles), ROLES, draw))


@pytest.fixture(scope="module")
def rows_of(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., pd.DataFrame]:
    """The rows of an edge task, read off the embeddings and the first layer."""

    def run(task: str, corpus: Corpus, codelength: str | None = None) -> pd.DataFrame:
        reading = ReadoutConfig("edge", SMALL, codelength=codelength)  # type: ignore[arg-type]
        request = ProbeRequest(
            tasks=(task,), model=str(tiny_bert), layers="0-1", controls=("control_task",), configs={task: (reading,)}
        )
        return run_probes(request, corpus=corpus).to_pandas()

    return run


def of_task(frame: pd.DataFrame, layer: int) -> pd.DataFrame:
    return frame[(frame.layer == layer) & (frame.control == "none")].set_index("metric")


def test_roles_that_are_shuffled_are_not_found(
    rows_of: Callable[..., pd.DataFrame], true_roles: Corpus, shuffled_roles: Corpus
) -> None:
    chance = 1 / len(ROLES)
    true, shuffled = rows_of("edge_srl", true_roles), rows_of("edge_srl", shuffled_roles)
    for layer in (0, 1):
        rows = of_task(shuffled, layer)
        assert rows.n_classes["micro_f1"] == len(ROLES)
        assert rows.ci_low["micro_f1"] < chance < rows.ci_high["micro_f1"]
        assert rows.ci_low["selectivity"] < 0 < rows.ci_high["selectivity"]
        assert abs(rows.value["selectivity"]) < 0.06
        assert of_task(true, layer).ci_low["selectivity"] > 0.06
