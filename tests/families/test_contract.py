"""A family is found by the name that a probe states, and a new one takes little code."""

import ast
from pathlib import Path

import numpy as np
import pytest

from bertology.errors import NameNotFoundError
from bertology.families.contract import family_of
from bertology.families.sums import kept_sums
from bertology.measures.sums import LayerSums
from bertology.probing import Probe, get_probe, registered_probes
from tests import toy_family


@pytest.mark.parametrize(
    ("task", "family", "module"),
    [
        ("pos", "labels", "families.labels"),
        ("structural_depth", "trees", "families.trees"),
        ("lama", "cloze", "cloze.family"),
        ("head_roles", "heads", "attention.family"),
        ("tracing", "causal", "causal.family"),
    ],
)
def test_a_probe_names_its_family(task: str, family: str, module: str) -> None:
    probe = get_probe(task)
    assert probe.family == family
    assert type(family_of(probe)).__module__ == f"bertology.{module}"


def test_a_family_that_is_not_installed_is_named_with_its_task() -> None:
    class Elsewhere(type(get_probe("pos"))):  # type: ignore[misc]
        family = "label"

    with pytest.raises(NameNotFoundError, match=r"^task pos: unknown family 'label': did you mean labels"):
        family_of(Elsewhere())


def test_all_installed_probes_have_one() -> None:
    loaded = [entry.load() for entry in registered_probes().values()]
    assert all(family_of(probe) for probe in loaded if isinstance(probe, Probe))


def test_the_toy_is_small_and_imports_three_modules() -> None:
    file = Path(toy_family.__file__)
    assert len(file.read_text(encoding="utf-8").splitlines()) < 80
    imported = [node.module for node in ast.walk(ast.parse(toy_family.FILE)) if isinstance(node, ast.ImportFrom)]
    assert len([name for name in imported if name and name.startswith("bertology")]) <= 3


def test_a_cluster_whose_denominator_is_zero_still_counts_above() -> None:
    sums = LayerSums("completeness", (0,), np.array([[2.0, 1.0, 0.0]]), np.array([[4.0, 0.0, 0.0]]), "sentences")
    (kept,) = kept_sums(sums, 0)
    assert kept.clusters.tolist() == [0, 1]
    assert kept.over.sum() / kept.under.sum() == sums.values[0] == 3 / 4
