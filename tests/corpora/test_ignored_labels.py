"""Labels −100, which losses of Hugging Face ignore, are left out and counted, whatever they are read from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bertology.corpora import load_corpus
from bertology.corpora.formats.edge_jsonl import EdgeJsonl
from bertology.families.model_corpus import choose_splits
from bertology.families.vectors import TaskData
from bertology.finetuning._items import tuning_task
from bertology.probing import get_probe

REASON = "label −100, which losses ignore"
N = 40
WORDS = [["the", "dog", f"barks{number}"] for number in range(N)]
TAGS: dict[str, list[list[Any]]] = {
    "numbers": [[0, -100, 1 + number % 2] for number in range(N)],
    "strings": [["a", "-100", "bc"[number % 2]] for number in range(N)],
    "entities": [["B-X", "-100", "O"] for _ in range(N)],
}


def in_lists(folder: Path, tags: list[list[Any]]) -> Any:
    return list(zip(WORDS, tags, strict=True))


def in_columns(folder: Path, tags: list[list[Any]]) -> Any:
    for split in ("train", "dev", "test"):
        text = "\n\n".join(
            "\n".join(f"{word}\t{tag}" for word, tag in zip(words, of, strict=True))
            for words, of in zip(WORDS, tags, strict=True)
        )
        (folder / f"{split}.tsv").write_text(text + "\n")
    return folder


READERS: tuple[Callable[[Path, list[list[Any]]], Any], ...] = (in_lists, in_columns)


def skipped_of(data: TaskData) -> int:
    return sum(examples.skipped.get(REASON, 0) for examples in data.items.values())


@pytest.mark.parametrize("kind", TAGS)
@pytest.mark.parametrize("read", READERS)
def test_words_are_left_out_and_counted(
    read: Callable[[Path, list[list[Any]]], Any], kind: str, tmp_path: Path
) -> None:
    source = read(tmp_path, TAGS[kind])
    columns = "form,tags" if read is in_columns else None
    corpus = load_corpus(str(source) if isinstance(source, Path) else source, columns=columns)
    data = TaskData.of(get_probe("word_label:tags"), choose_splits(corpus, train="train", test="test"))
    assert not {"-100", "-100.0"} & set(data.labels)
    assert len(data.labels) == (3 if kind != "entities" else 2)
    assert skipped_of(data) == sum(map(len, corpus.splits.values()))
    tuned = tuning_task("word_label:tags", corpus)
    assert "-100" not in tuned.labels
    assert "-100" not in {label for items in tuned.splits.values() for label in items.gold}
    assert any(REASON in reason for items in tuned.splits.values() for reason in items.skipped)


@pytest.mark.parametrize("ignored", [-100, "-100"])
def test_so_are_sentences(ignored: Any) -> None:
    classes: tuple[Any, Any] = ("good", "bad") if isinstance(ignored, str) else (0, 1)
    labels = [ignored if number % 4 == 0 else classes[number % 2] for number in range(N)]
    frame = pd.DataFrame({"text": [" ".join(words) for words in WORDS], "label": labels})
    corpus = load_corpus(frame)
    data = TaskData.of(get_probe("sentence_label:label"), choose_splits(corpus, train="train", test="test"))
    assert len(data.labels) == 2
    assert skipped_of(data) == N // 4


def test_spans_in_json_lines(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        rows = [
            {
                "text": " ".join(words),
                "targets": [
                    {"span1": [0, 1], "label": "AB"[number % 2]},
                    {"span1": [1, 2], "label": -100 if number % 2 else "-100"},
                ],
            }
            for number, words in enumerate(WORDS)
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = EdgeJsonl("entities").load(tmp_path)
    data = TaskData.of(get_probe("edge_entities"), choose_splits(corpus, train="train", test="test"))
    assert data.labels == ("A", "B")
    assert data.test.skipped == {REASON: N}


def test_numbers_are_not_labels() -> None:
    """Where numbers are regressed, −100 is a number like others."""
    numbers = [-100 if number % 4 == 0 else number for number in range(N)]
    frame = pd.DataFrame({"text": [" ".join(words) for words in WORDS], "score": numbers})
    corpus = load_corpus(frame, columns="text=text,label=score")
    data = TaskData.of(get_probe("sentence_number:score"), choose_splits(corpus, train="train", test="test"))
    assert "-100" in data.labels
    assert not skipped_of(data)
