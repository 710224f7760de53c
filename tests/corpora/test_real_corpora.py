"""Real treebanks and shared-task files, against counts made by other means."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bertology.corpora import Sentence, load_corpus, write_conllu

SENTENCES = {  # as the treebanks themselves publish them
    "ud_english_ewt": {"train": 12_544, "dev": 2_001, "test": 2_077},
    "ud_english_pud": {"test": 1_000},
    "ud_french_sequoia": {"train": 2_231, "dev": 412, "test": 456},
    "ud_german_gsd": {"dev": 799, "test": 977},
    "ud_spanish_gsd": {"dev": 1_400, "test": 427},
}


def _texts(path: Path) -> list[str]:
    """What the ``# text`` comments of a file say, with every run of white space as one space."""
    found = re.findall(r"^# text = (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [" ".join(text.split()) for text in found]


@pytest.mark.parametrize("name", SENTENCES)
def test_a_treebank_is_read_whole(name: str, real_data, tmp_path: Path):
    folder = real_data(name)
    corpus = load_corpus(folder)
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == SENTENCES[name]
    assert corpus.notes == {}
    for split, sentences in corpus.splits.items():
        (path,) = folder.glob(f"*-ud-{split}.conllu")
        content = path.read_bytes()
        assert sentences.n_words == len(re.findall(rb"^\d+\t", content, re.MULTILINE))
        assert [sentences.text(i) for i in range(len(sentences))] == _texts(path)
        if len(sentences) > 10_000:  # the other parts are read in the same way, and sentence by sentence
            continue
        listed = list(sentences)
        assert sum(len(s.multiword) for s in listed) == len(re.findall(rb"^\d+-\d+\t", content, re.MULTILINE))
        assert sum(len(s.empty_nodes) for s in listed) == len(re.findall(rb"^\d+\.\d+\t", content, re.MULTILINE))
        _check_spans(listed)
        write_conllu(tmp_path / "again.conllu", listed)
        assert (tmp_path / "again.conllu").read_bytes() == content


def _check_spans(sentences: list[Sentence]) -> None:
    """Every word stands where its span says, unless it is part of a multiword token it does not spell."""
    for sentence in sentences:
        tokens = {i: token for token in sentence.multiword for i in range(token.first, token.last + 1)}
        for index, (start, end) in enumerate(sentence.spans):
            there = sentence.text[start:end]
            if index in tokens and there != sentence.words[index]:
                assert there == tokens[index].form or there.casefold() == sentence.words[index].casefold()
            else:
                assert there == sentence.words[index]


def test_conll_2000(real_data):
    corpus = load_corpus(real_data("conll2000"))
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 8_936, "test": 2_012}
    assert corpus["train"].n_words == 211_727
    assert corpus["test"].n_words == 47_377
    assert set(corpus["train"].layers) == {"xpos", "chunk"}
    chunks = corpus["train"].layers["chunk"]
    begins = sum(value.startswith("B-") for value in map(chunks.values.__getitem__, chunks.codes))
    assert begins == 106_978  # Tjong Kim Sang & Buchholz 2000, section 4
    assert list(corpus.notes) == ["sentences without spacing, words joined by single spaces"]


def test_universal_ner(real_data):
    corpus = load_corpus(real_data("uner_english_ewt"))
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"dev": 2_001, "test": 2_077}
    spans = {}
    for split, sentences in corpus.splits.items():
        ner = sentences.layers["ner"]
        spans[split] = sum(ner.values[code].startswith("B-") for code in ner.codes)
    assert spans == {"dev": 966, "test": 1_088}
    assert corpus.notes == {}
    sentence = corpus["dev"][0]
    assert sentence.text == (
        "where can I get morcillas in tampa bay , I will like the argentinian type , but I will to try anothers please?"
    )
    treebank = load_corpus(real_data("ud_english_ewt") / "en_ewt-ud-dev.conllu")["dev"]
    assert {s.id for s in corpus["dev"]} == {s.id for s in treebank}


def _glue(path: Path, **options: Any) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE, encoding="utf-8-sig", dtype=str, **options)


@pytest.mark.parametrize(
    ("name", "columns", "texts", "label"),
    [
        ("sst2", None, ["sentence"], "label"),
        ("rte", None, ["sentence1", "sentence2"], "label"),
        ("mrpc", "text=#1 String,text2=#2 String,label=Quality", ["#1 String", "#2 String"], "Quality"),
    ],
)
def test_a_table_of_glue_is_read_whole(name: str, columns: str | None, texts: list[str], label: str, real_data):
    # Training sets are read as the smaller parts are.
    splits = [split for split in ("dev", "test") if (real_data(name) / f"{split}.tsv").is_file()]
    chosen = {split: real_data(name) / f"{split}.tsv" for split in splits}
    corpus = load_corpus(chosen, columns=columns)
    assert list(corpus.splits) == list(chosen)
    for split, sentences in corpus.splits.items():
        frame = _glue(real_data(name) / f"{split}.tsv")
        whole = frame[texts].agg(" ".join, axis=1).map(lambda text: " ".join(text.split()))
        assert [sentences.text(number) for number in range(len(sentences))] == whole.tolist()
        targets = [target for _, (target,) in sentences.targets(label)]
        assert [target.label for target in targets] == frame[label].tolist()
        for sentence, target in list(zip(sentences, targets, strict=True))[:200]:
            ends = [target.span1, *([target.span2] if target.span2 else [])]
            assert [end for _, end in ends] == [*(first for first, _ in ends[1:]), len(sentence)]
            parts = [sentence.text[sentence.spans[first][0] : sentence.spans[last - 1][1]] for first, last in ends]
            assert parts == [" ".join(text.split()) for text in frame.loc[int(sentence.id), texts]]


def test_wnut_17(real_data):
    corpus = load_corpus(real_data("wnut17"))
    assert {split: len(s) for split, s in corpus.splits.items()} == {"train": 3_394, "dev": 1_009, "test": 1_287}
    assert {name for split in corpus.splits.values() for name in split.layers} == {"ner"}
    types = {value.partition("-")[2] for value in corpus["train"].layers["ner"].values} - {""}
    assert types == {"corporation", "creative-work", "group", "location", "person", "product"}
