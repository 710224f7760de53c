"""More training sentences of the same world, with the splits that are scored on left as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.corpora import Corpus, load_corpus
from bertology.errors import CorpusError


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load_corpus("pocket:3200")


def test_only_train_grows(larger: Corpus) -> None:
    pocket = load_corpus("pocket")
    assert larger.name == "pocket:3200"
    assert {split: len(found) for split, found in larger.splits.items()} == {
        **{split: len(found) for split, found in pocket.splits.items()},
        "train": 3200,
    }
    assert larger["train"][:3000].fingerprint == pocket["train"].fingerprint
    assert all(larger[split].fingerprint == pocket[split].fingerprint for split in ("dev", "test", "unseen"))


def test_no_sentence_is_in_two_splits(larger: Corpus) -> None:
    texts = {split: {found.text(n) for n in range(len(found))} for split, found in larger.splits.items()}
    assert len(texts["train"]) == 3200
    assert all(texts["train"].isdisjoint(found) for split, found in texts.items() if split != "train")


def test_sentences_are_annotated_as_the_embedded_ones(larger: Corpus) -> None:
    new, old = larger["train"][3000:], larger["train"][:3000]
    assert set(new.layers) == set(old.layers) - {"misc"}
    assert set(new.target_layers) == set(old.target_layers)


def test_it_is_made_once(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_corpus("pocket:3001")
    monkeypatch.setattr("bertology.pocket._texts.sentences_of", None)
    assert load_corpus("pocket:3001").fingerprint == first.fingerprint
    (file,) = (own_cache / "corpora").iterdir()
    assert file.name.startswith("pocket-3001-")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pocket:2999", "pocket:2999: give from 3000"),
        ("pocket:100001", "to 100000 sentences"),
        ("pocket:many", "pocket:many: write how many training sentences, as in pocket:20000"),
    ],
)
def test_sizes_that_cannot_be(name: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        load_corpus(name)
