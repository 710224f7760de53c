import json

import pytest

from benchmarks.head_patterns.__main__ import main
from benchmarks.head_patterns.train import PatternRecipe, train_classifiers
from bertology.attention.patterns import PATTERNS, load_classifier

TINY = PatternRecipe(n_train=6, n_held_out=3, epochs=2, batch_size=8)


@pytest.fixture(autouse=True)
def _no_stale_classifier():
    yield
    load_classifier.cache_clear()


def test_the_recipe_makes_the_same_files_again(tmp_path, plant):
    said: list[str] = []
    labels = ("vertical", "diagonal", "vertical+diagonal", "block")
    maps = [plant(label, n) for label in labels for n in (15, 20)]
    given = [label for label in labels for _ in range(2)]
    first = train_classifiers(maps, given, folder=tmp_path / "one", recipe=TINY, say=said.append)
    train_classifiers(maps, given, folder=tmp_path / "other", recipe=TINY)
    for name in ("features.safetensors", "cnn.safetensors", "training.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    record = json.loads((tmp_path / "one/training.json").read_text())
    assert record == first
    assert record["patterns"] == list(PATTERNS)
    assert record["recipe"]["n_train"] == 6
    assert record["n_calibrated_on"] == 8
    # Nothing was heterogeneous.
    assert all(record["bias"][kind][4] < 0 for kind in ("features", "cnn"))
    assert said[-1].startswith("epoch 2 of 2: loss")
    assert load_classifier("cnn", folder=tmp_path / "one").temperature == record["temperature"]["cnn"]


def test_commands(tmp_path, capsys):
    missing = str(tmp_path / "nothing")
    for command in ("score", "train"):
        assert main([command, "--model", missing, "--corpus", missing]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    with pytest.raises(SystemExit, match="2"):
        main(["measure"])
    capsys.readouterr()
