"""Words that share subwords: each label is learned and scored at a subword of its own, or left out and counted."""

from pathlib import Path

import numpy as np
import pytest

from bertology import Corpus, Encoder, load_corpus
from bertology.corpora import Sentence, Sentences
from bertology.encoders.alignment import SHARED
from bertology.finetuning._items import IGNORED, NONE_OF_ITS_OWN, encode, tuning_task
from bertology.finetuning._run import load_tuned
from tests.finetuning.conftest import Tune
from tests.runner.test_shared_subwords import contracted, n_shared


@pytest.fixture(scope="module")
def french(tiny_corpus: Path) -> Corpus:
    """A treebank with a contraction in every third sentence, a text of train in test, and sentences left out."""
    splits = {
        name: [contracted(one) if number % 3 == 0 else one for number, one in enumerate(sentences)][:30]
        for name, sentences in load_corpus(str(tiny_corpus)).splits.items()
    }
    known = {one.text for one in splits["train"]}
    splits["test"] = [one for one in splits["test"] if one.text not in known] + splits["train"][:1]
    skipped = {"sentences with two roots": ("x:1", "x:9")}
    return Corpus("contracted", {name: Sentences(part) for name, part in splits.items()}, skipped=skipped)


def test_words_that_share_all_subwords_are_left_out_and_counted(
    tune: Tune, encoder: Encoder, french: Corpus, tmp_path: Path
) -> None:
    tuned = tune(corpus=french, task="pos")
    record = tuned.records[1]
    for split, sentences in french.splits.items():
        assert record.n_items[split] == sentences.n_words - n_shared(sentences)
        assert f"{split}: {n_shared(sentences):,} left out ({SHARED})" in record.notes
    test = tuned.predictions()[lambda frame: frame["split"] == "test"]
    assert len(test) == record.n_items["test"]
    evaluated = tuned.evaluate(french)
    assert set(evaluated["n_items"]) == {len(test)}
    assert set(evaluated["n_skipped"]) == {n_shared(french["test"])}
    assert len(load_tuned(tuned.folder(), french["dev"], device="cpu").predictions()) == record.n_items["dev"]


def test_every_label_is_learned_at_a_subword_of_its_own(encoder: Encoder, french: Corpus) -> None:
    task = tuning_task("pos", french)
    inputs = encode(task, task.splits["train"], encoder, max_pieces=None, stride=4)
    assert inputs.items.skipped == {SHARED: n_shared(french["train"])}
    learned = {}
    for row in inputs.rows:
        assert np.count_nonzero(row.label != IGNORED) == len(row.items)
        learned |= {
            item: task.labels[row.label[place]] for item, place in zip(row.items.tolist(), row.places, strict=True)
        }
    assert learned == dict(enumerate(inputs.items.gold))


def test_words_that_begin_in_one_subword_have_places_apart(encoder: Encoder) -> None:
    assert encoder.tokenizer.tokenize("theand") == ["the", "##and"]
    # The first subword is all of the first word and a part of the second, the other one the rest of that and the third.
    words, spans = ("th", "ea", "nd"), ((0, 2), (2, 4), (4, 6))
    one = Sentence("s", "theand", words, spans, {"tag": ("A", "B", "C")})
    assert encoder.tokenize([one]).word_first.tolist() == [1, 1, 2]
    other = Sentence("t", "theand", ("th", "eand"), ((0, 2), (2, 6)), {"tag": ("A", "B")})
    corpus = Corpus("x", {name: Sentences([one, other]) for name in ("train", "dev", "test")})
    task = tuning_task("word_label:tag", corpus)
    inputs = encode(task, task.splits["train"], encoder, max_pieces=None, stride=4)
    assert [row.places.tolist() for row in inputs.rows] == [[1, 2], [1, 2]]
    assert [[task.labels[row.label[place]] for place in row.places] for row in inputs.rows] == [["A", "B"]] * 2
    assert inputs.items.skipped == {NONE_OF_ITS_OWN: 1}


def test_its_tables_have_the_line_on_alignment(tune: Tune, french: Corpus) -> None:
    tuned = tune(corpus=french, task="pos")
    shared = n_shared(french["test"])
    expected = (
        f"words with unknown subwords 0, sharing all subwords with another word {shared} (left out), in sentences "
        "over the length limit 0, texts of test also in train 1, sentences left out 2 (sentences with two roots 2)"
    )
    assert [note.text for note in tuned.shown()[0].notes if note.about == "alignment"] == [expected]
    for written in (tuned.to_markdown(), tuned.to_latex(), (tuned.folder() / "README.md").read_text()):
        assert f"sharing all subwords with another word {shared} (left out)" in written
