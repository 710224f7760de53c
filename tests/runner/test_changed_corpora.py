"""Corpora that differ in names, documents or groups alone: each has predictions under its own names, from one store."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bertology import Corpus, Results, load_corpus, probe
from bertology.activations.store import list_stored
from bertology.corpora import Sentence, Sentences

Change = Callable[[list[Sentence]], list[Sentence]]


def reversed_ids(sentences: list[Sentence]) -> list[Sentence]:
    ids = [sentence.id for sentence in sentences]
    return [replace(sentence, id=name) for sentence, name in zip(sentences, reversed(ids), strict=True)]


def in_documents(sentences: list[Sentence]) -> list[Sentence]:
    return [replace(sentence, group=f"document-{place // 3}") for place, sentence in enumerate(sentences)]


def part_of(change: Change) -> Corpus:
    whole = load_corpus("pocket")
    sizes = {"train": 60, "dev": 20, "test": 40}
    return Corpus("part", {name: Sentences(change(list(whole[name][:size]))) for name, size in sizes.items()})


def ask(model: Path, corpus: Corpus, *, task: str = "pos") -> Results:
    return probe(task, model=model, corpus=corpus, layers="0", controls="majority")


def gold_in(corpus: Corpus, layer: str) -> dict[str, str]:
    """By the name of each word its label."""
    return {
        f"{sentence.id}:{word}": str(label)
        for sentence in corpus["test"]
        for word, label in enumerate(sentence.layers[layer], 1)
        if label is not None
    }


def kept_gold(results: Results, control: str) -> dict[str, str]:
    row = next(row for row in results.rows if row.control == control)
    kept = results.kept[row.cell_id]
    return dict(zip(kept.item_ids, (kept.labels[code] for code in kept.gold), strict=True))


@pytest.mark.parametrize("change", [reversed_ids, in_documents])
def test_predictions_are_kept_under_the_names_of_the_corpus_that_was_asked_about(
    tiny_bert: Path, change: Change
) -> None:
    first, second = part_of(lambda sentences: sentences), part_of(change)
    before, entries = ask(tiny_bert, first), {status.name for status in list_stored()}
    after = ask(tiny_bert, second)
    for control in ("none", "majority"):
        assert kept_gold(before, control) == gold_in(first, "upos")
        assert kept_gold(after, control) == gold_in(second, "upos")
    assert [row.corpus_fingerprint for row in after.rows] == [second.fingerprint] * len(after.rows)
    assert not {row.cell_id for row in before.rows} & {row.cell_id for row in after.rows}
    # the texts are the same: nothing is read again
    assert {status.name for status in list_stored()} == entries
    assert [row.value for row in after.rows] == [row.value for row in before.rows]
