"""Static word vectors (GloVe, word2vec, fastText) as an encoder that has the embedding layer alone."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers

from bertology import _files
from bertology.errors import ModelError, quoted

FAMILY = "bertology_static"
"""The ``model_type`` of such encoders. They look up whole words, as the corpus has them, and cut no text."""
SUFFIXES = (".txt", ".vec", ".txt.gz", ".vec.gz")
UNKNOWN = "[UNK]"
"""Stands for the words that a file lacks. Its vector is zero, unless the file has one of that name."""


def read_static_vectors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The words of a text file and their vectors, ``[word, dim]``: a word and its numbers a line, parted by spaces.

    word2vec's and fastText's files begin with a line of two numbers, GloVe's do not. A word may have spaces in it, as
    some of GloVe's do. A ModelError names the line that is not of this form, has other dimensions than the first, a
    number that is not finite, or a word that is there already.
    """
    first_at, vectors, dim = dict[str, int](), list[NDArray[np.float32]](), 0
    for number, line in _lines(path):
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            dim = int(fields[1])
            continue
        dim = dim or len(fields) - 1
        word, numbers = " ".join(fields[:-dim]), fields[-dim:]
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            vector = np.full(1, np.nan)
        if dim < 1 or not word or len(vector) != dim or not np.isfinite(vector).all():
            wanted = f"a word and {dim} numbers" if dim > 0 else "a word and its numbers"
            raise ModelError(f"{path}:{number}: {quoted(line[:60].rstrip())} where {wanted} were due, parted by spaces")
        if (before := first_at.setdefault(word, number)) != number:
            raise ModelError(
                f"{path}:{number}: {quoted(word)} has a vector in line {before} already; delete one of them"
            )
        vectors.append(vector)
    if not vectors:
        raise ModelError(f"{path}: no word vectors; give a text file of GloVe, word2vec or fastText")
    return list(first_at), np.stack(vectors)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            yield from enumerate(file, 1)
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise ModelError(f"{path}: not a text file in UTF-8 ({error}); give word vectors in text format") from None


def write_static_model(path: Path, folder: Path) -> None:
    """Write a file of word vectors as a model folder: configuration, tokenizer and weights.

    Where no word of the file has a capital letter, words are looked up in lower case.
    """
    words, vectors = read_static_vectors(path)
    if UNKNOWN not in words:
        words, vectors = [*words, UNKNOWN], np.append(vectors, np.zeros_like(vectors[:1]), axis=0)
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token=UNKNOWN))
    if all(word == word.lower() for word in words if word != UNKNOWN):
        tokenizer.normalizer = normalizers.Lowercase()
    config = {"model_type": FAMILY, "vocab_size": len(words), "hidden_size": vectors.shape[1]}
    config |= {"num_hidden_layers": 0, "num_attention_heads": 1}
    with _files.explained_write_errors(folder):
        folder.mkdir(parents=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        named = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": UNKNOWN, "pad_token": UNKNOWN}
        (folder / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        save_file({"embeddings.weight": vectors}, folder / "model.safetensors", {"format": "pt"})
