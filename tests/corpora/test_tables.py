"""Data in memory and tables on disk as corpora."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertology.corpora import Corpus, Sentences, Target, as_sentences, load_corpus, sentence_of_text
from bertology.errors import CorpusError, NameNotFoundError

N = 40
TEXTS = [f"The dogs don't chase cat {number}." for number in range(N)]
LABELS = ["good" if number % 3 else "bad" for number in range(N)]
FRAME = pd.DataFrame({"text": TEXTS, "label": LABELS})


def labels(sentences: Sentences, column: str = "label") -> list[Any]:
    """The label of each sentence, or of its pair, None where it has none."""
    of = {number: target.label for number, (target,) in sentences.targets(column)}
    return [of.get(number) for number in range(len(sentences))]


def test_a_text_with_a_label_is_a_sentence_with_a_target_of_all_its_words():
    corpus = load_corpus(FRAME)
    assert corpus.name == "data in memory"
    assert {split: len(part) for split, part in corpus.splits.items()} == {"train": 32, "dev": 4, "test": 4}
    assert corpus.notes["splits"] == "made by a hash of text, 8 : 1 : 1 (train 32, dev 4, test 4)"
    for sentences in corpus.splits.values():
        for sentence, label in zip(sentences, labels(sentences), strict=True):
            expected = sentence_of_text(TEXTS[int(sentence.id)])
            assert (sentence.text, sentence.words, sentence.spans) == (expected.text, expected.words, expected.spans)
            assert label == LABELS[int(sentence.id)]
            assert sentence.targets["label"] == (Target((0, len(sentence)), label),)


def test_a_pair_is_one_sentence_with_two_spans():
    rows = [("He  sleeps.", f"She sleeps {number}.", "yes" if number % 2 else "no") for number in range(N)]
    sentence = load_corpus(rows)["train"][0]
    assert sentence.text == f"He sleeps. She sleeps {sentence.id}."
    assert sentence.words == ("He", "sleeps", ".", "She", "sleeps", sentence.id, ".")
    assert tuple(sentence.text[start:end] for start, end in sentence.spans) == sentence.words
    (target,) = sentence.targets["label"]
    assert (target.span1, target.span2) == ((0, 3), (3, 7))


def test_a_language_is_that_of_all_texts():
    frame = FRAME.assign(text2="Geht's gut?")
    spec = "text=text,label=label"
    corpus = load_corpus(frame, columns="text=text,text2=text2,label=label,language=en")
    assert corpus.language == "en"
    assert corpus["dev"][0].words[2:4] == ("do", "n't")
    assert corpus["dev"][0].words[-4:-2] == ("Geht", "'s")
    assert load_corpus(frame, columns=spec).language is None
    frame.loc[7, "text"] = "今天天气很好。"
    with pytest.raises(
        CorpusError, match=r"^data in memory, row 7: '今天天气很好。' has no spaces between its words: name"
    ):
        load_corpus(frame, columns=spec)
    spaced = load_corpus(
        frame.assign(text=[f"今天 天气 很 好 {number}" for number in range(N)]), columns="words=text,label=label"
    )
    assert spaced["dev"][0].words[:4] == ("今天", "天气", "很", "好")
    with pytest.raises(CorpusError, match="columns: language= is that of texts, and no text= is there; leave it out"):
        load_corpus(frame, columns="words=text,language=en")
    with pytest.raises(NameNotFoundError, match="unknown language 'english'"):
        load_corpus(frame, columns="text=text,language=english")


def test_words_stay_as_they_are_and_their_labels_are_layers():
    frame = pd.DataFrame(
        {
            "tokens": [["New York", "isn't", str(i)] for i in range(N)],
            "upos": [["PROPN", None, "NUM"]] * N,
            "mine": [[1, 2, 3]] * N,
        }
    )
    corpus = load_corpus(frame, columns="words=tokens,tags=upos+mine")
    sentence = corpus["dev"][0]
    assert sentence.text == f"New York isn't {sentence.id}"
    assert sentence.layers == {"upos": ("PROPN", None, "NUM"), "mine": ("1", "2", "3")}
    assert load_corpus([(list(words), list(tags)) for words, tags in zip(frame["tokens"], frame["upos"], strict=True)])[
        "dev"
    ].layers["tags"].values == ("PROPN", "NUM")


def test_the_same_words_are_found_by_spaces_at_a_place():
    rows = [
        {"a": "Don't bank on it.", "b": f"The river-bank {number}.", "i": 1, "j": "0-1", "same": number % 2 == 0}
        for number in range(N)
    ]
    spec = "text=a,text2=b,at=i,at2=j,label=same"
    sentence = load_corpus(rows, columns=spec)["train"][0]
    assert sentence.words[:3] == ("Don't", "bank", "on")
    (target,) = sentence.targets["same"]
    assert sentence.words[slice(*target.span1)] == ("bank",)
    assert sentence.words[slice(*target.span2)] == ("The", "river", "-", "bank")
    assert target.label in ("True", "False")
    rows[3]["i"] = 4
    with pytest.raises(CorpusError, match="data in memory, row 3: column 'i': found 4; expected the number of"):
        load_corpus(rows, columns=spec)


SPANS = {
    "text": "The  old river\nbank, 7.",
    "first": 5,
    "last": 19,
    "phrase": "Old river bank",
    "at": "1-3",
    "label": "PLACE",
}


@pytest.mark.parametrize("place", ["start=first,end=last", "phrase=phrase", "at=at"])
def test_rows_that_label_parts_of_the_same_text_are_one_sentence(place: str) -> None:
    other = {**SPANS, "first": 21, "last": 22, "phrase": 7, "at": 4, "label": "NUMBER"}
    rows = [SPANS, {**SPANS, "text": "The old river bank"}, other, {**other, "label": None}, SPANS]
    rows = [{**one, "at": "1-2" if place == "at=at" and one is SPANS else one["at"]} for one in rows]
    rows[1] = {**rows[1], "first": 4, "last": 18}
    corpus = load_corpus({"test": rows}, columns=f"text=text,label=label,{place}")
    first, second, again = corpus["test"]
    found = {target.label: first.text[first.spans[target.span1[0]][0] :] for target in first.targets["label"]}
    assert found == {"PLACE": "old river bank, 7.", "NUMBER": "7."}
    assert [second.words[slice(*target.span1)] for target in second.targets["label"]] == [("old", "river", "bank")]
    assert (again.text, again.targets["label"]) == (first.text, first.targets["label"][:1])
    named = load_corpus(
        {"test": [{**one, "id": i} for i, one in enumerate(rows)]}, columns=f"text=text,label=label,id=id,{place}"
    )
    assert len(named["test"]) == len(rows)


WORDS = [["The", "dog", f"sees {number}"] for number in range(N)]
RICH = pd.DataFrame(
    {
        "text": TEXTS,
        "other": ['Say "no", or\tgo.', 'He said ""stop""', '" Begin', "x;y"] * 10,
        "words": WORDS,
        "tags": [["DET", None, "VERB"]] * N,
        "label": [None if number % 7 == 3 else LABELS[number] for number in range(N)],
        "number": [number / 3 for number in range(N)],
        "part": ["training", "validation", "test", "train"] * 10,
    }
)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "columns",
    [
        "text=text,label=label+number,split=part",
        "text=text,text2=other,label=label",
        "words=words,tags=tags",
        "words=words,label=label,group=part",
    ],
)
def test_a_table_on_disk_is_the_same_corpus(tmp_path, suffix, columns):
    frame = RICH.assign(other=[text.replace("\t", " ") for text in RICH["other"]]) if suffix == "tsv" else RICH
    path = tmp_path / f"mine.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix.startswith("json"):
        records = frame.astype(object).where(frame.notna(), None).to_dict("records")
        lines = "".join(json.dumps(record) + "\n" for record in records)
        path.write_text(lines if suffix == "jsonl" else json.dumps(records, indent=1))
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    on_disk = load_corpus(path, columns=columns)
    in_memory = load_corpus(frame, columns=columns)
    assert on_disk.name == "mine"
    assert on_disk.fingerprint == in_memory.fingerprint
    assert {split: len(part) for split, part in on_disk.splits.items()} == {
        split: len(part) for split, part in in_memory.splits.items()
    }


class FakeDataset:
    """What a data set of Hugging Face offers: names of columns, features, and rows one by one."""

    def __init__(self, frame: pd.DataFrame, features: dict[str, Any] | None = None) -> None:
        self.column_names = list(frame.columns)
        self.features = features or {}
        self._rows = frame.to_dict("records")

    def __iter__(self):
        return iter(self._rows)


class FakeClassLabel:
    names = ("negative", "positive")


class FakeSequence:
    def __init__(self, feature):
        self.feature = feature


def test_classes_of_a_data_set_have_their_names():
    frame = pd.DataFrame(
        {"tokens": WORDS, "ner_tags": [[0, 1, -1]] * N, "label": [number % 3 - 1 for number in range(N)]}
    )
    features = {"ner_tags": FakeSequence(FakeClassLabel()), "label": FakeClassLabel()}
    corpus = load_corpus({"train": FakeDataset(frame, features), "validation": FakeDataset(frame, features)})
    assert set(corpus.splits) == {"train", "dev"}
    assert corpus["dev"].layers["ner_tags"].decoded(0, 3) == ("negative", "positive", None)
    assert labels(corpus["dev"])[:3] == [None, "negative", "positive"]
    assert corpus.notes["rows without a label in label"] == "28, first at data in memory, train, row 0"


def test_parquet_of_a_data_set_has_names_of_classes(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": TEXTS, "label": [number % 2 for number in range(N)]})
    info = {"info": {"features": {"label": {"names": ["negative", "positive"], "_type": "ClassLabel"}}}}
    table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    pyarrow.parquet.write_table(table, tmp_path / "dev.parquet")
    assert set(labels(load_corpus(tmp_path / "dev.parquet")["dev"])) == {"negative", "positive"}


def test_no_group_and_no_text_is_in_two_splits():
    documents = [f"d{number // 4}" for number in range(N)]
    corpus = load_corpus(FRAME.assign(document=documents), columns="text=text,label=label,group=document")
    of = [{documents[int(s.id)] for s in part} for part in corpus.splits.values()]
    assert not set.intersection(of[0], of[1]) | set.intersection(of[0], of[2]) | set.intersection(of[1], of[2])
    assert corpus.notes["splits"] == "made by a hash of document, 8 : 1 : 1 (train 32, dev 4, test 4)"
    doubled = load_corpus(pd.concat([FRAME, FRAME]))
    assert not {s.text for s in doubled["train"]} & {s.text for s in doubled["test"]}


def test_a_corpus_of_splits_by_path_and_in_memory(tmp_path):
    (tmp_path / "a.tsv").write_text("x\t1\t\tHe sleeps.\nx\t0\t*\tHim sleeps.\n")
    paths = {"train": tmp_path / "a.tsv", "val": str(tmp_path / "a.tsv")}
    corpus = load_corpus(paths, columns="text=4,label=2")
    assert set(corpus.splits) == {"train", "dev"}
    assert labels(corpus["dev"], "2") == ["1", "0"]
    (tmp_path / "folder").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "folder" / f"{split}.tsv").write_text("x\t1\t\tHe sleeps.\nx\t0\t*\tHim sleeps.\n")
    assert load_corpus(tmp_path / "folder", columns="text=4,label=2").fingerprint == corpus.fingerprint


def test_tables_are_recognised_among_other_formats(tmp_path):
    (tmp_path / "test.tsv").write_text('sentence\tlabel\n" Begin, he said .\t1\nIt ends . \t0\n')
    corpus = load_corpus(tmp_path / "test.tsv")
    assert [sentence.text for sentence in corpus["test"]] == ['" Begin, he said .', "It ends ."]
    assert corpus.notes["columns"] == "text=sentence,label=label, by their names"
    (tmp_path / "test.tsv").write_text("dog\tNOUN\nsleeps\tVERB\n")
    assert load_corpus(tmp_path / "test.tsv")["test"].layers["upos"].values == ("NOUN", "VERB")


COLA = "gj04\t1\t\tThe boy sings.\nr-67\t0\t?*\tThe boy sing.\n"


def test_cola_of_glue_has_names_of_columns_without_a_row_of_them(tmp_path):
    (tmp_path / "train.tsv").write_text(COLA)
    (tmp_path / "dev.tsv").write_text(COLA[: COLA.index("\n") + 1])
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\tThe girl sings.\n")
    corpus = load_corpus(tmp_path)
    assert {split: labels(part) for split, part in corpus.splits.items()} == {"train": ["1", "0"], "dev": ["1"]}
    assert corpus["train"][1].text == "The boy sing."
    assert corpus.notes["files without labels, left out"] == "test.tsv"
    with pytest.raises(NameNotFoundError, match=r"'test': there is dev, train; test.tsv has no labels"):
        corpus["test"]
    by_number = load_corpus(tmp_path / "train.tsv", columns="text=4,label=2")
    assert labels(by_number["train"], "2") == ["1", "0"]


PLACED = "text=text,start=first,end=last,label=label"
FAULTS: list[tuple[Any, str | None, str]] = [
    (FRAME, "text=text,label=labl", "unknown column of data in memory 'labl': did you mean label"),
    (FRAME, "text=text,text=label", "columns: found 'text=label'; expected key=column, each key"),
    (
        FRAME,
        "label=label",
        r"columns: no text= or words= is there; name the columns as in --columns text=COLUMN,label=COLU",
    ),
    (FRAME, "text=text,at2=label", "columns: no text2= is there; name the columns as in --columns text=COLUMN,label="),
    (
        FRAME[["text"]].rename(columns={"text": "a;b"}),
        "text=a",
        "unknown column .* row was read as one column",
    ),
    (FRAME.assign(text=["", *TEXTS[1:]]), None, "data in memory, row 0: column 'text': found nothing; expected a text"),
    (FRAME.assign(text=[*TEXTS[:-1], 3]), None, "data in memory, row 39: column 'text': found 3; expected a text"),
    (FRAME.assign(label=[{}] * N), None, r"data in memory, row 0: column 'label': found \{\}"),
    (FRAME.assign(g=1), "text=text,label=label,group=g", "data in memory: found '1 values of g'"),
    (pd.DataFrame([["a", "b"]], columns=["text", "text"]), None, "two columns are called 'text'"),
    ([["a", ""]] * N, None, r"data in memory, row 0: column 'words': found \['a', ''\]; expected a list of"),
    ([*TEXTS, ("a", "b")], None, r"data in memory, row 40: found \('a', 'b'\); expected text, as in row 0"),
    (3, None, "data in memory: found 'int'; expected a DataFrame, a"),
    ({"text": ["a"], "label": ["x", "y"]}, None, "data in memory: found 'text 1, label 2'"),
    ([SPANS | {"last": 16}], PLACED, "row 0: span 4 15 is 'old river b', which cuts a word .*: span 4 18 has whole"),
    ([SPANS | {"last": 25}], PLACED, "row 0: span 4 25 is outside of the text, or empty: it has 22 characters"),
    ([SPANS | {"first": -1}], PLACED, "row 0: span -1 18 is outside of the text"),
    ([SPANS | {"first": "x"}], PLACED, "row 0: column 'first': found 'x'; expected the number of a character"),
    ([SPANS | {"phrase": "bark"}], "text=text,phrase=phrase,label=label", "row 0: word 'bark' is not in the text"),
    ([SPANS], "text=text,start=first,label=label", "columns: no end= is there"),
    ([SPANS], "text=text,start=first,end=last", "columns: start= is the place of a label, and no label= is there"),
    ([SPANS], f"{PLACED},at=at", "columns: the place of a label is at=, phrase=, or start= and end=: name it by one"),
    (
        [SPANS],
        "words=text,phrase=phrase,label=label",
        "phrase= is a place in text= alone: leave words= out, or take at=",
    ),
    (FRAME.assign(split=["train", *[""] * (N - 1)]), None, "data in memory, row 1: column 'split': found nothing"),
]


@pytest.mark.parametrize(("data", "columns", "message"), FAULTS, ids=range(len(FAULTS)))
def test_what_is_wrong_is_named_in_one_line(data, columns, message):
    with pytest.raises((CorpusError, NameNotFoundError), match=message) as caught:
        load_corpus(data, columns=columns)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,label\nHe sleeps.,1\nHe\n", "a.csv:3: found '1 values'; expected 2, one for"),
        ("a.csv", 'text,label\n"He "x" sleeps.",1\n', "a.csv:2: not CSV"),
        ("a.csv", "text,label\n\n,1\n", "a.csv:3: column 'text': found nothing; expected a text"),
        ("a.csv", "text,text\na,b\n", "a.csv:1: two columns are called 'text'"),
        ("a.csv", "", "a.csv: the file is empty"),
        ("a.csv", "text,label\n", "a: no row in it"),
        ("a.jsonl", '{"text": "He sleeps."}\n{"text": \n', "a.jsonl:2: not JSON"),
        ("a.json", '[{"text": "a"}, 3]', "a.json, row 1: found 3; expected an object of JSON"),
        ("a.json", '[{"text": "a"},]', r"a.json: not JSON \(trailing comma at line 1 column 16\)"),
        ("a.parquet", "none", "a.parquet: not a Parquet file"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(CorpusError, match=message) as caught:
        load_corpus(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_numbers_are_labels_by_their_repr():
    frame = FRAME.assign(n=range(N), x=[0.1 * number for number in range(N)], gaps=[1.0, np.nan] * 20)
    frame["small"] = frame["n"].astype("Int64").mask(frame["n"] > 30)
    part = load_corpus(frame, columns="text=text,label=n+x+gaps+small")["train"]
    rows = [int(sentence.id) for sentence in part]
    assert labels(part, "n") == [str(row) for row in rows]
    assert labels(part, "x") == [repr(0.1 * row) for row in rows]
    assert labels(part, "gaps") == ["1.0" if row % 2 == 0 else None for row in rows]
    assert labels(part, "small") == [None if row > 30 else str(row) for row in rows]


def test_whatever_is_text_becomes_sentences():
    expected = Sentences([sentence_of_text("He isn't.", name="0"), sentence_of_text("No.", name="1")])
    assert list(as_sentences(["He isn't.", "No."])) == list(expected)
    assert list(as_sentences("He isn't.")) == [expected[0]]
    assert as_sentences(expected) is expected
    assert list(as_sentences(expected[0])) == [expected[0]]
    assert [sentence.words for sentence in as_sentences([["a", "b c"]])] == [("a", "b c")]
    assert [sentence.words for sentence in as_sentences([("a", "b")])] == [("a", "b")]
    assert as_sentences(["He isn't."], language="en")[0].words == ("He", "is", "n't", ".")
    assert as_sentences(["He isn't."], split_at_spaces=True)[0].words == ("He", "isn't.")
    with pytest.raises(CorpusError, match=r"data in memory, row 1: found \('a text', 'good'\); expected a text alone"):
        as_sentences([("b", "x"), ("a text", "good")])
    assert not len(as_sentences([]))
    with pytest.raises(CorpusError, match=r"c has splits, test; give one of them"):
        as_sentences(Corpus("c", {"test": expected}))  # type: ignore[arg-type]


def test_two_files_of_one_split_are_one_if_they_are_identical(tmp_path: Path) -> None:
    row = "sentence\tlabel\n"
    for name, text in (("train", "a b\t1\n"), ("dev", "c d\t0\n"), ("val", "c d\t0\n")):
        (tmp_path / f"{name}.tsv").write_text(row + text)
    corpus = load_corpus(tmp_path)
    assert {name: len(split) for name, split in corpus.splits.items()} == {"train": 1, "dev": 1}
    (tmp_path / "val.tsv").write_text(row + "e f\t1\n")
    message = (
        r"dev\.tsv and val\.tsv would both be the dev split, and differ; give a folder with one .*, or in Python a"
    )
    with pytest.raises(CorpusError, match=message) as error:
        load_corpus(tmp_path)
    assert "\n" not in str(error.value)
    chosen = load_corpus({name: str(tmp_path / f"{name}.tsv") for name in ("train", "val")})
    assert chosen["dev"].text(0) == "e f"


def test_iob_tags_become_entities_as_in_column_files(tmp_path):
    words, tags = ["Ann", "Lee", "met", "Bob"], ["I-PER", "I-PER", "O", "I-PER"]
    (tmp_path / "names.conll").write_text("\n".join(f"{word}\t{tag}" for word, tag in zip(words, tags, strict=True)))
    column_file = load_corpus(tmp_path / "names.conll", columns="form,ner")["test"]
    frame = pd.DataFrame({"words": [words], "ner": [tags], "part": ["test"]})
    made = load_corpus(frame, columns="words=words,tags=ner,split=part")["test"]
    assert made[0].layers["ner"] == column_file[0].layers["ner"] == ("B-PER", "I-PER", "O", "B-PER")
    assert made[0].targets == column_file[0].targets
    frame["ner"] = [["X-PER", *tags[1:]]]
    with pytest.raises(
        CorpusError, match="data in memory, row 0: ner tag: found 'X-PER'; expected O, B-TYPE or I-TYPE"
    ):
        load_corpus(frame, columns="words=words,tags=ner,split=part")


def test_documents_are_not_parted():
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    docs = [nlp(f"The dog number {number} sleeps. It dreams.") for number in range(12)]
    for doc in docs:
        for token in doc:
            token.tag_ = "X"
    corpus = load_corpus(docs)
    assert {split: len(part) for split, part in corpus.splits.items()} == {"train": 16, "dev": 4, "test": 4}
    assert corpus.notes["splits"].startswith("made by a hash of document")
    assert corpus.notes["annotator"].startswith("not stated")


def test_given_words_take_the_spacing_of_their_text():
    words = [["He", "isn't", str(number), "."] for number in range(N)]
    frame = pd.DataFrame({"text": [f"He isn't {number}." for number in range(N)], "words": words})
    sentence = load_corpus(frame.assign(tags=[list("abcd")] * N))["test"][0]
    assert sentence.text == f"He isn't {sentence.words[2]}."
    assert sentence.layers == {"tags": tuple("abcd")}
