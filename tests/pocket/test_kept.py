"""The pocket corpus is read from the cache folder as it was made, and made again where the file is not what it was."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from bertology._files import digest
from bertology.corpora import Corpus
from bertology.pocket._texts import generate_corpus, kept_corpus


class Unwanted:
    """What a pickle can do: call any function when it is read."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return pytest.fail, ("code of a file was run",)


def small() -> Corpus:
    return generate_corpus(sizes={"train": 40, "unseen": 20})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "cache"))
    kept_corpus(small)
    (path,) = (tmp_path / "cache" / "corpora").iterdir()
    return path


def test_what_is_read_is_what_was_made(file: Path) -> None:
    made, found = small(), kept_corpus(lambda: pytest.fail("made again"))
    assert (found.name, found.language, dict(found.notes)) == (made.name, made.language, dict(made.notes))
    for split, sentences in made.splits.items():
        assert list(found[split]) == list(sentences)
        assert found[split].text_fingerprint == sentences.text_fingerprint


@pytest.mark.parametrize("kind", ["cut", "changed", "code"])
def test_a_file_that_is_not_what_it_was_is_made_again(file: Path, kind: str) -> None:
    whole = file.read_bytes()
    unwanted = pickle.dumps(Unwanted())
    contents = {"cut": whole[:-9], "changed": whole[:-9] + b"x" * 9, "code": digest([unwanted]).encode() + unwanted}
    file.write_bytes(contents[kind])
    assert list(kept_corpus(small)["train"]) == list(small()["train"])
    assert file.read_bytes() == whole


def test_other_code_makes_another_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version", "another")
    kept_corpus(small)
    (now,) = file.parent.iterdir()
    assert now != file


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "file" / "cache"))
    assert len(kept_corpus(small)["train"]) == 40
