from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from bertology.activations import Recipe, WordVectors, export_neurox, extract, import_neurox
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder
from bertology.errors import StoreError


def test_a_file_as_peers_read_it(encoder: Encoder, sentences: Sentences, recipe: Recipe, tmp_path: Path) -> None:
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=(0, 1, 2, 3))
    export_neurox(entry, sentences, tmp_path / "out.hdf5")
    array = WordVectors(entry, np.arange(sentences.n_words)).array()
    with h5py.File(tmp_path / "out.hdf5") as file:
        index = json.loads(file["sentence_to_index"][0])
        for number in (0, 17, 59):
            own = array[:, sentences.starts[number] : sentences.starts[number + 1]]
            assert np.array_equal(file[index[" ".join(sentences[number].words)]][:], own)


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


def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path) -> None:
    text = Sentences([Sentence.from_words(["one", "word"], id="s1")])
    with pytest.raises(StoreError, match="no such file"):
        import_neurox(tmp_path / "none.hdf5", text)
    (tmp_path / "bad.hdf5").write_text("no")
    with pytest.raises(StoreError, match="not an HDF5 file"):
        import_neurox(tmp_path / "bad.hdf5", text)
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["x"] = [1]
    with pytest.raises(StoreError, match="no dataset sentence_to_index"):
        import_neurox(tmp_path / "other.hdf5", text)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["0"] = np.zeros((2, 3, 4))
        file["sentence_to_index"] = [json.dumps({"one word": "0"})]
    with pytest.raises(StoreError, match="sentence s1 has 3 vectors and 2 words"):
        import_neurox(tmp_path / "x.hdf5", text)
    other = Sentences([Sentence.from_words(["other"], id="s2")])
    with pytest.raises(StoreError, match="sentence s2 is not in it"):
        import_neurox(tmp_path / "x.hdf5", other)


def test_another_text_is_refused(encoder: Encoder, sentences: Sentences, recipe: Recipe, tmp_path: Path) -> None:
    entry = extract(lambda: encoder, sentences, recipe=recipe, layers=(0,))
    with pytest.raises(StoreError, match="another text"):
        export_neurox(entry, sentences[:3], tmp_path / "out.hdf5")
