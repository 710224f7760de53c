"""Structural probes in files: read again they say the same, and of what they were not fitted on they say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bertology.errors import FitError, ResultsError
from bertology.measures import tree_depths
from bertology.readouts import ProbeOrigin, StructuralReadout, TreeProbe
from tests.readouts.trees import DIM, fit, planted

ORIGIN = ProbeOrigin(
    model="tiny",
    model_fingerprint="f" * 64,
    layer=2,
    dim=DIM,
    pooling="mean",
    task="structural_parse.v1",
    corpus="planted",
    train_fingerprint="0" * 64,
    readout="structural.v1",
    relations=("nsubj", "obj", "Ünïcode"),
    settings={"rank": 5},
)


@pytest.fixture
def probe() -> TreeProbe:
    random = torch.Generator().manual_seed(0)
    shapes = {"distance": (DIM, 5), "depth": (DIM, 3), "relation": (DIM + 1, 3)}
    return TreeProbe(ORIGIN, **{name: torch.randn(*shape, generator=random) for name, shape in shapes.items()})


@pytest.fixture
def vectors() -> torch.Tensor:
    return torch.randn(6, DIM, generator=torch.Generator().manual_seed(1))


def test_what_is_read_again_says_the_same(probe: TreeProbe, vectors: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "some" / "probe.v2"
    probe.save(path)
    assert sorted(file.name for file in path.parent.iterdir()) == ["probe.v2.json", "probe.v2.safetensors"]
    again = TreeProbe.load(path)
    assert again.origin == ORIGIN
    for name in ("distances", "depths", "relations"):
        np.testing.assert_array_equal(getattr(again, name)(vectors), getattr(probe, name)(vectors))


def test_what_it_says_by_hand(probe: TreeProbe, vectors: torch.Tensor) -> None:
    assert probe.distance is not None
    assert probe.depth is not None
    assert probe.relation is not None
    by, of_depth, of_relation = (value.double().numpy() for value in (probe.distance, probe.depth, probe.relation))
    plain = vectors.double().numpy()
    expected = [[((one @ by - other @ by) ** 2).sum() for other in plain] for one in plain]
    np.testing.assert_allclose(probe.distances(vectors), expected, atol=1e-3, rtol=1e-4)
    np.testing.assert_allclose(probe.depths(vectors), [((one @ of_depth) ** 2).sum() for one in plain], rtol=1e-4)
    scores = plain @ of_relation[:-1] + of_relation[-1]
    assert probe.relations(vectors) == tuple(ORIGIN.relations[place] for place in scores.argmax(1))
    assert probe.distances(vectors.half()) is not None


@pytest.mark.parametrize("kept", ["distance", "depth"])
def test_a_probe_of_one_kind(probe: TreeProbe, vectors: torch.Tensor, kept: str, tmp_path: Path) -> None:
    one = TreeProbe(ORIGIN, **{kept: getattr(probe, kept)})
    one.save(tmp_path / "one")
    found = TreeProbe.load(tmp_path / "one")
    assert (found.distances(vectors) is None) == (kept == "depth")
    assert (found.depths(vectors) is None) == (kept == "distance")
    assert found.relations(vectors) is None


def test_a_fitted_map_says_in_a_file_what_it_said_before(tmp_path: Path) -> None:
    train, dev, test = (planted(n, seed) for n, seed in ((80, 1), (20, 2), (20, 3)))
    fitted = fit(StructuralReadout(rank=6, learning_rate=1e-2, max_epochs=3), train, dev, "depths")
    TreeProbe(ORIGIN, depth=fitted.maps[0, 2]).save(tmp_path / "depth")
    kept = TreeProbe.load(tmp_path / "depth")
    spans = test.spans
    for item, found in fitted.read(test.source):
        words = torch.from_numpy(test.words[2, slice(*spans[item])])
        np.testing.assert_allclose(kept.depths(words), found[0, 2], atol=1e-5, rtol=1e-5)
        assert len(found[0, 2]) == len(tree_depths(test.heads[item]))


# Asked of something else


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"model_fingerprint": "e" * 64}, "fitted on tiny: it cannot read another encoder's vectors"),
        ({"layer": 3}, "fitted on layer 2: it cannot read layer 3"),
        ({"pooling": "first"}, "fitted on the mean of a word's pieces: it cannot read their first"),
    ],
)
def test_another_encoder_layer_or_pooling(probe: TreeProbe, other: dict[str, object], message: str) -> None:
    own = {"model_fingerprint": "f" * 64, "layer": 2, "pooling": "mean"}
    probe.check(**own)  # type: ignore[arg-type]
    with pytest.raises(FitError, match=message) as caught:
        probe.check(**{**own, **other})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_another_width(probe: TreeProbe, vectors: torch.Tensor) -> None:
    for ask in (probe.distances, probe.depths, probe.relations):
        for wrong in (vectors[:, 1:], vectors[0]):
            with pytest.raises(FitError, match=r"vectors 16 wide: it cannot read \["):
                ask(wrong)
    with pytest.raises(FitError, match=r"the map of depth has shape \[16, 3\]: give \[15, …\]"):
        TreeProbe(replace(ORIGIN, dim=15), depth=probe.depth)
    with pytest.raises(FitError, match=r"the map of relation has shape \[16, 3\]: give \[17, …\]"):
        TreeProbe(ORIGIN, relation=torch.zeros(16, 3))


# Files that are broken


def test_files_that_are_missing_or_broken(probe: TreeProbe, tmp_path: Path) -> None:
    path, about, weights = (tmp_path / name for name in ("p", "p.json", "p.safetensors"))

    def refused(message: str) -> None:
        with pytest.raises(ResultsError, match=message) as caught:
            TreeProbe.load(path)
        assert "\n" not in str(caught.value)
        assert str(about) in str(caught.value)
        probe.save(path)
        TreeProbe.load(path)

    refused("no whole probe there")
    about.unlink()
    refused("no whole probe there")
    weights.unlink()
    refused("no whole probe there")
    about.write_bytes(about.read_bytes()[:50])
    refused("no whole probe there")
    weights.write_bytes(weights.read_bytes()[:-10])
    refused("no whole probe there")
    about.write_text("[]")
    refused("no whole probe there")
    plain = json.loads(about.read_text())
    about.write_text(json.dumps({**plain, "format": 99}))
    refused(r"a probe of format 99, this version reads \d+; fit it anew")
    for name in ("layer", "relations", "format"):
        about.write_text(json.dumps({key: value for key, value in plain.items() if key != name}))
        refused("no whole probe there")
    about.write_text(json.dumps({**plain, "relations": None}))
    refused("no whole probe there")
    save_file({**load_file(weights), "more": torch.zeros(2, 2)}, weights)
    refused("no whole probe there")


def test_a_file_of_another_width_says_so(probe: TreeProbe, tmp_path: Path) -> None:
    probe.save(tmp_path / "p")
    about = tmp_path / "p.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "dim": 12}))
    with pytest.raises(ResultsError, match=r"p\.json: no whole probe there \(the map of distance has shape"):
        TreeProbe.load(tmp_path / "p")


def test_a_file_with_fewer_names_than_relations_says_so(probe: TreeProbe, tmp_path: Path) -> None:
    with pytest.raises(FitError, match="is of 3 relations, of which 2 have names"):
        TreeProbe(replace(ORIGIN, relations=("nsubj", "obj")), relation=probe.relation)
