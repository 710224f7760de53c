"""Static word vectors as an encoder that has layer 0 alone."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import Corpus, Sentence, compare, load_encoder, probe
from bertology.corpora import Sentences
from bertology.encoders import resolve_model
from bertology.encoders.sources import model_fingerprint
from bertology.encoders.static import read_static_vectors
from bertology.errors import BertologyError, ModelError

LINES: dict[str, list[float]] = {
    "the": [1, 0, 0.5],
    "dog": [0, 1, 0],
    "do": [2, 2, 2],
    "n't": [3, -3, 3],
    "new york": [4, 4, -4],
}
PLAIN = "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in LINES.items())


def written(folder: Path, text: str, name: str = "toy.vec") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "name"), [(PLAIN, "toy.txt"), (f"5 3\n{PLAIN}", "toy.vec"), (PLAIN.replace("\n", " \n"), "toy.vec.gz")]
)
def test_reads_each_form(tmp_path: Path, text: str, name: str) -> None:
    words, vectors = read_static_vectors(written(tmp_path, text, name))
    assert dict(zip(words, vectors.tolist(), strict=True)) == LINES


def test_every_word_of_the_corpus_has_its_vector(tmp_path: Path) -> None:
    encoder = load_encoder(str(written(tmp_path, PLAIN)))
    assert (encoder.n_layers, encoder.dim) == (0, 3)
    sentence = Sentence.from_words(["The", "dog", "do", "n't", "bark"], space_after=[True, True, False, True, False])
    vectors = encoder.vectors([sentence]).to_numpy()[0]
    np.testing.assert_array_equal(vectors, [*(LINES[word] for word in ("the", "dog", "do", "n't")), [0, 0, 0]])
    assert encoder.tokenize([sentence]).is_unknown.tolist() == [False] * 4 + [True]


def test_capitals_count_where_the_file_has_some_and_unknown_words_may_have_a_vector(tmp_path: Path) -> None:
    encoder = load_encoder(str(written(tmp_path, PLAIN + "The 7 7 7\n[UNK] 9 9 9\n")))
    vectors = encoder.vectors([Sentence.from_words(["The", "the", "Dog"])]).to_numpy()[0]
    np.testing.assert_array_equal(vectors, [[7, 7, 7], LINES["the"], [9, 9, 9]])


def test_the_copy_is_that_of_the_content(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    first = model_fingerprint(resolve_model(str(path)))
    assert model_fingerprint(resolve_model(str(path))) == first
    written(tmp_path, PLAIN.replace("0.5", "0.25"))
    assert model_fingerprint(resolve_model(str(path))) != first


def test_a_table_has_one_layer_and_counts_the_words_that_the_file_lacks(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)

    def draw(n: int) -> Sentences:
        words = [dice.permutation(["the", "dog", "do", "cat"]).tolist() for _ in range(n)]
        layer = {"the": "DET", "dog": "NOUN", "do": "VERB", "cat": "NOUN"}
        return Sentences(Sentence.from_words(some, layers={"upos": [layer[one] for one in some]}) for some in words)

    corpus = Corpus("drawn", {"train": draw(40), "dev": draw(20), "test": draw(30)})
    results = probe("pos", model=str(written(tmp_path, PLAIN)), corpus=corpus, controls="random")
    assert {(row.layer, row.n_layers) for row in results.rows if row.model} == {(0, 0)}
    (line,) = results.view().tables[0].lines
    assert line.main is not None
    assert line.main.value == 1
    assert "unknown subwords 30" in " ".join(results.to_markdown().split())


@pytest.mark.parametrize("by_context", [False, True])
def test_every_layer_of_a_model_is_compared_with_them(tmp_path: Path, *, by_context: bool) -> None:
    # Words of one subword each: the position embeddings of layer 0 would show how many subwords stand before a word.
    dice, words = np.random.default_rng(0), ["dog", "cat", "boy", "girl"]

    def draw() -> Sentence:
        chosen = dice.choice(words, 6).tolist()
        labels = [str(one in words[:2]) for one in chosen]
        return Sentence.from_words(chosen, layers={"tag": [None, *labels[:-1]] if by_context else labels})

    splits = {
        name: Sentences(draw() for _ in range(size)) for name, size in (("train", 150), ("dev", 30), ("test", 60))
    }
    vectors = "".join(f"{word} {' '.join(map(str, dice.normal(size=8).round(3)))}\n" for word in words)
    how: dict[str, Any] = {"corpus": Corpus("drawn", splits), "tasks": "word_label:tag", "measures": "none"}
    found = compare(str(written(tmp_path, vectors)), "pocket", out=tmp_path / "run", **how)
    frame = found.to_pandas().set_index("layer")
    assert set(frame.reference_layer) == {0}
    assert frame.index.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(frame.difference, frame.value - frame.reference_value, atol=1e-12)
    apart = frame[frame.p_adj < 0.05]
    if by_context:
        assert set(apart.index) == {1, 2, 3, 4}
        assert (apart.difference_low > 0.1).all()
        assert "higher in layers 1–4, by at most" in str(found)
    else:
        assert apart.empty
        assert (frame.reference_value == 1).all()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a 1 2\nb 1 x\n", ":2: 'b 1 x' where a word and 2 numbers were due"),
        ("a 1 2\nb 1\n", ":2: 'b 1' where a word and 2 numbers were due"),
        ("a 1 nan\n", ":1: 'a 1 nan' where"),
        ("a 1 2\na 3 4\n", ":2: 'a' has a vector in line 1 already"),
        ("[PAD]\n[CLS]\n", ":1: '\\[PAD\\]' where a word and its numbers were due"),
        ("", ": no word vectors"),
        ("3 0\n", ": no word vectors"),
    ],
)
def test_mistakes_are_named_by_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ModelError, match=f"toy.vec{problem}"):
        resolve_model(str(written(tmp_path, text)))


def test_other_files_and_questions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="give the folder it lies in, or word vectors"):
        resolve_model(str(written(tmp_path, PLAIN, "model.bin")))
    path = str(written(tmp_path, PLAIN))
    with pytest.raises(BertologyError, match="no other layer, so give another model"):
        probe("head_statistics", model=path)
    with pytest.raises(ModelError, match="no masked-LM head"):
        probe("agreement", model=path)
