import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bertology.activations import Entry, Recipe, WordVectors, export_neurox, extract, import_neurox
from bertology.activations.store import list_stored
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder
from bertology.errors import BertologyError, StoreError
from tests.mutations import accepted, mutated_bytes


def test_round_trip(encoder: Encoder, sentences: Sentences, recipe: Recipe, tmp_path: Path) -> None:
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 1, 2, 3))
    export_neurox(entry, sentences, tmp_path / "out.hdf5")
    back = import_neurox(tmp_path / "out.hdf5", sentences)
    words = np.arange(sentences.n_words)
    assert back.manifest.layers == (0, 1, 2, 3)
    assert np.array_equal(WordVectors(back, words).array(), WordVectors(entry, words).array())
    assert import_neurox(tmp_path / "out.hdf5", sentences).folder == back.folder


def test_a_file_written_by_hand_comes_in(tmp_path: Path) -> None:
    text = Sentences([Sentence.from_words(["one", "word"]), Sentence.from_words(["more"])])
    values = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["0"], file["1"] = values[:, :2], values[:, 2:]
        file["sentence_to_index"] = [json.dumps({"one word": "0", "more": "1"})]
    entry = import_neurox(tmp_path / "x.hdf5", text)
    assert np.array_equal(WordVectors(entry, np.arange(3)).array(), values)


TEXT = Sentences([Sentence.from_words(["one", "word"], id="s1"), Sentence.from_words(["more"], id="s2")])
VALUES = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
INDEX = {"one word": "0", "more": "1"}


def neurox_file(path: Path, index: object = INDEX, **datasets: object) -> Path:
    """A sound file of two sentences, but for the datasets given."""
    with h5py.File(path, "w") as file:
        for name, value in {"0": VALUES[:, :2], "1": VALUES[:, 2:], **datasets}.items():
            if value is not None:
                file[name] = value
        if index is not None:
            file["sentence_to_index"] = index if not isinstance(index, dict) else [json.dumps(index)]
    return path


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ({"1": np.full((2, 1, 4), np.nan)}, "sentence s2 has values in layer 0 that are not finite in float32"),
        ({"0": np.full((2, 2, 4), 1e300)}, "sentence s1 has values in layer 0 that are not finite"),
        (
            {"1": VALUES[:1, 2:]},
            r"sentence s2: dataset '1' is \[1, 1, 4\] of float32, expected \[2, 1, 4\]",
        ),
        ({"0": VALUES[:0, :2]}, r"sentence s1: dataset '0' is \[0, 2, 4\] of float32, expected \[layer, 2, dim\]"),
        ({"0": VALUES[0, :2]}, r"sentence s1: dataset '0' is \[2, 4\]"),
        ({"0": np.float32(1)}, r"sentence s1: dataset '0' is \[\]"),
        ({"0": VALUES[:, :1]}, r"sentence s1: dataset '0' is \[2, 1, 4\]"),
        ({"0": VALUES[:, :2].astype(int)}, "of int64, expected .* of floating-point numbers"),
        ({"0": ["text"]}, "of object, expected .* of floating-point numbers"),
        ({"0": None}, r"sentence s1: dataset '0' is \[\]"),
        ({"0": None, "0/below": VALUES}, "sentence s1: dataset '0'"),
        ({"index": None}, "sentence_to_index should be one text"),
        ({"index": [3]}, "sentence_to_index should be one text"),
        ({"index": ["[" * 3000]}, "recursion limit exceeded"),
        ({"index": [json.dumps(["one word"])]}, "Input should be an object"),
        ({"index": {"one word": 0, "more": 1}}, r"\(one word: Input should be a valid string\); write the file anew"),
        ({"index": {"one word": "0"}}, r"sentence s2 is not in it \(more …\)"),
        ({"index": {"one word": "0", "more": "0"}}, "gives 'one word' and 'more' the same dataset '0'"),
        ({"index": {"one word": "", "more": "1"}}, "sentence s1"),
    ],
)
def test_what_is_no_vector_of_the_text_is_refused(datasets: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = neurox_file(tmp_path / "x.hdf5", **datasets)
    with pytest.raises(BertologyError, match=message) as refused:
        import_neurox(path, TEXT)
    assert "\n" not in str(refused.value)
    assert list_stored() == [] or not any(status.entry for status in list_stored())


def test_an_array_that_the_file_does_not_hold_is_not_made(tmp_path: Path) -> None:
    path = neurox_file(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as file:
        del file["1"]
        file.create_dataset("1", shape=(2, 1, 1 << 40), dtype="f4", chunks=(1, 1, 1024))
    with pytest.raises(StoreError, match=r"sentence s2: dataset .* of floating-point numbers that are in the file"):
        import_neurox(path, TEXT)


def test_a_text_without_sentences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no sentence to look up"):
        import_neurox(neurox_file(tmp_path / "x.hdf5"), Sentences([]))


def test_damaged_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    content = neurox_file(tmp_path / "whole.hdf5").read_bytes()
    n_accepted = 0
    for number, mutant in enumerate(mutated_bytes(content, seed=0, count=60)):
        path = tmp_path / f"{number}.hdf5"
        path.write_bytes(mutant)
        found: list[Entry] = []
        if accepted(lambda path=path, found=found: found.append(import_neurox(path, TEXT))):
            n_accepted += 1
            array = WordVectors(found[0], np.arange(3)).array()
            assert array.shape[1] == 3
            assert np.isfinite(array).all()
    assert 0 < n_accepted < 60


def test_another_text_is_refused(encoder: Encoder, sentences: Sentences, recipe: Recipe, tmp_path: Path) -> None:
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=(0,))
    with pytest.raises(StoreError, match="another text"):
        export_neurox(entry, sentences[:3], tmp_path / "out.hdf5")
