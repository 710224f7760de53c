"""Corpora by name or path, treebanks that are downloaded, the cache folder, and splits that are made."""

import random
import re
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import Corpus, Sentence, Sentences, _named, corpus_is_available, known_corpora, load_corpus
from bertology.corpora._derived import number_word
from bertology.errors import CorpusError, NameNotFoundError

LINE = "1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def made_pocket(monkeypatch) -> Corpus:
    """A stand-in for the embedded corpus, so that these tests are about names alone."""
    corpus = Corpus("pocket", {"test": Sentences([Sentence.from_words(["a"])])})
    module = types.ModuleType("bertology.pocket")
    module.corpus_by_name = lambda name: corpus  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bertology.pocket", module)
    return corpus


def test_a_folder_called_as_a_name_is_meant_by_its_path(made_pocket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").mkdir()
    (tmp_path / "pocket" / "test.conllu").write_text(LINE)
    assert load_corpus("pocket") is made_pocket
    corpus = load_corpus("./pocket")
    assert corpus.name == "pocket"
    assert corpus["test"].layers["upos"].values == ("X",)


def test_every_name_has_one_line():
    known = known_corpora()
    assert {"pocket", "bilingual", "numbers", "blimp", "glue:sst2", "ud:en_ewt", "ud:fr_gsd"} <= set(known)
    assert all(line and "\n" not in line for line in known.values())
    assert "(train, dev, test; CC BY-SA 4.0)" in known["ud:en_ewt"]
    assert "(test; " in known["ud:en_pud"]
    assert known["ud:fr_gsd"] == "French GSD of Universal Dependencies"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pockte", r"unknown corpus 'pockte': did you mean pocket\?; or give the path of one"),
        ("ud:en_etw", r"unknown corpus 'ud:en_etw': did you mean ud:en_ewt .*; any other treebank can be given by"),
        (
            "qqqqq",
            r"unknown corpus 'qqqqq': there are \d+, such as bear, bilingual, .*; or give the path of one",
        ),
    ],
)
def test_an_unknown_name_is_answered_by_the_nearest(name, message):
    with pytest.raises(NameNotFoundError, match=message):
        load_corpus(name)


def test_a_path_that_is_not_there_is_answered_by_what_lies_beside_it(tmp_path):
    (tmp_path / "ud_english_ewt").mkdir()
    near = tmp_path / "ud_english_ewt"
    with pytest.raises(CorpusError, match=rf"ud_english_etw: no such file or folder; did you mean {near}\?"):
        load_corpus(tmp_path / "ud_english_etw")
    with pytest.raises(CorpusError, match=rf"dev.conllu: no such file or folder; did you mean {near}\?"):
        load_corpus(str(tmp_path / "ud_englsh_ewt" / "dev.conllu"))
    with pytest.raises(CorpusError, match=r"zzz.conllu: no such file or folder; check the path"):
        load_corpus(str(tmp_path / "zzz.conllu"))


def test_a_folder_without_a_corpus(tmp_path):
    (tmp_path / "README.md").write_text("nothing")
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(
        CorpusError, match=r"no corpus in this folder; it should hold shards with shards.json, CoNLL-U \(.conllu\)"
    ):
        load_corpus(tmp_path)


TREE = "( (S (NN a)))\n"
BEE = "A bee saw a bug as it fell.\nit\nA bee,a bug\na bug\n\n"
RELATION = '1\t"A <e1>cup</e1> of <e2>tea</e2>"\nOther\n\n'
CONLL2012 = "#begin document (d); part 000\nd 0 0 a NN (TOP(NP*)) - - - - * -\n\n#end document\n"
ROLES = "1\ta\t_\tX\t_\t_\t0\troot\t_\t_\tact.01\tV\n2\tb\t_\tX\t_\t_\t1\tobj\t_\t_\t_\tARG1\n\n"
EDGE = '{"text": "a b", "targets": [{"span1": [0, 1], "label": "X"}]}\n'

KINDS = [
    ("test.mrg", TREE, "constituents"),
    ("test.c.txt", BEE, "winograd"),
    ("TEST_FILE_FULL.TXT", RELATION, "relations"),
    ("test.gold_conll", CONLL2012, "constituents"),
    ("xx_made-up-test.conllu", ROLES, "srl"),
    ("xx_made-ud-test.iob2", "1\ta\tB-X\t-\t-\n\n", "entities"),
    ("xx_made-ud-test.conllu", LINE.replace("_\n\n", "Entity=(e1-thing)\n\n"), "entities"),
]


@pytest.mark.parametrize(("name", "content", "layer"), KINDS)
@pytest.mark.parametrize("lies", ["alone", "in a folder", "in data/"])
def test_files_of_edges_are_told_by_name_and_content(tmp_path, name, content, layer, lies):
    folder = tmp_path / "made"
    inside = folder / "data" if lies == "in data/" else folder
    inside.mkdir(parents=True)
    (inside / name).write_text(content)
    (folder / "README.md").write_text("what it is")
    corpus = load_corpus(inside / name if lies == "alone" else folder)
    assert list(corpus.splits) == ["test"]
    assert set(corpus["test"][0].targets) - {"mentions"} == {layer}
    assert corpus.name == ("made" if lies != "alone" else (inside / name).stem)


def test_edge_jsonl_is_named_with_its_layer(tmp_path):
    (tmp_path / "train.jsonl").write_text(EDGE)
    (tmp_path / "test.jsonl").write_text(EDGE)
    corpus = load_corpus(f"{tmp_path}#proto_roles")
    assert list(corpus.splits) == ["train", "test"]
    assert set(corpus["train"][0].targets) == {"proto_roles"}
    assert set(load_corpus(f"{tmp_path}/test.jsonl#srl")["test"][0].targets) == {"srl"}
    message = f"{tmp_path}: name of the targets: found nothing; expected small letters, as in {tmp_path}#layer"
    with pytest.raises(CorpusError, match=message):
        load_corpus(tmp_path)
    with pytest.raises(CorpusError, match=r"as in .*test.jsonl#layer"):
        load_corpus(tmp_path / "test.jsonl")
    with pytest.raises(CorpusError, match="found 'Proto Roles'; expected small letters"):
        load_corpus(f"{tmp_path}#Proto Roles")
    (tmp_path / "more").mkdir()
    with pytest.raises(CorpusError, match=r"more: no edge JSONL file there \(.jsonl\)"):
        load_corpus(f"{tmp_path}/more#srl")


def test_a_path_with_a_plus_or_a_hash_is_a_path(tmp_path):
    folder = tmp_path / "c+d#e"
    folder.mkdir()
    (folder / "test.conllu").write_text(LINE)
    assert load_corpus(folder).name == "c+d#e"
    assert corpus_is_available(folder)


def test_what_is_at_hand(tmp_path, made_pocket):
    (tmp_path / "test.jsonl").write_text(EDGE)
    assert corpus_is_available(f"{tmp_path}#srl")
    assert corpus_is_available(f"{tmp_path}+{tmp_path}/test.jsonl")
    assert corpus_is_available(f"{tmp_path}+pocket")
    assert not corpus_is_available(f"{tmp_path}+nowhere")
    assert not corpus_is_available("nowhere#srl")
    assert not corpus_is_available("+")
    assert not corpus_is_available("#")


def test_the_format_that_contributing_shows_is_read(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (source,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "(Format)" in block)
    names: dict[str, Any] = {}
    exec(source, names)
    monkeypatch.setattr(_named, "FORMATS", (names["Slashed"](), *_named.FORMATS))
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text("The/DT dog/NN\n\nIt/PRP barks/VBZ\n")
    corpus = load_corpus(tmp_path)
    assert list(corpus.splits) == ["train", "test"]
    assert corpus["test"][1].words == ("It", "barks")
    assert corpus["test"].layers["xpos"].values == ("DT", "NN", "PRP", "VBZ")
    (tmp_path / "test.txt").write_text("The/DT\ndog\n")
    with pytest.raises(CorpusError, match=r"test.txt:2: 'dog' where word/TAG was due"):
        load_corpus(tmp_path / "test.txt")
    (tmp_path / "test.txt").write_text("running text\n")
    assert load_corpus(tmp_path / "test.txt")["test"].layers == {}


def texts(n: int, *, document: int = 0) -> list[Sentence]:
    """Sentences of different texts, so many in each document."""
    return [
        Sentence.from_words(
            ["dog", str(number)],
            id=str(number),
            layers={"upos": ("NOUN", "NUM")},
            group=f"d{number // document}" if document else "",
        )
        for number in range(n)
    ]


def parts(sentences: list[Sentence]) -> dict[str, set[str]]:
    corpus = Corpus("made", {"test": Sentences(sentences)}).divided()
    return {split: {sentence.text for sentence in part} for split, part in corpus.splits.items()}


@pytest.mark.parametrize("document", [0, 5])
def test_every_sentence_is_in_one_split_whatever_the_order(document: int) -> None:
    made = texts(200, document=document)
    found = parts(made)
    assert {split: len(part) for split, part in found.items()} == {"train": 160, "dev": 20, "test": 20}
    assert set.union(*found.values()) == {sentence.text for sentence in made}
    shuffled = random.Random(1).sample(made, len(made))
    assert parts(shuffled) == found
    assert parts([replace(sentence, id="") for sentence in made]) == found


def test_documents_are_whole_and_texts_in_one_split() -> None:
    corpus = Corpus("made", {"test": Sentences(texts(60, document=4))}).divided()
    groups = [{sentence.group for sentence in part} for part in corpus.splits.values()]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 15
    assert corpus.notes["splits"] == "made by a hash of document, 8 : 1 : 1 (train 44, dev 8, test 8)"
    doubled = parts(texts(30) * 2)
    assert sum(map(len, doubled.values())) == 30


CONLLU = "# newdoc id = d{0}\n1\tdog\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbarks{0}\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
COLUMNS = "-DOCSTART-\tO\n\ndog\tNOUN\nbarks{0}\tVERB\n\n"


@pytest.mark.parametrize(("name", "lines"), [("mine.conllu", CONLLU), ("mine.conll", COLUMNS)])
def test_documents_of_files_are_groups(tmp_path: Path, name: str, lines: str) -> None:
    (tmp_path / name).write_text("".join(lines.format(number) for number in range(30)))
    whole = load_corpus(tmp_path / name)
    assert set(whole.splits) == {"test"}  # what is not fitted reads all of it
    assert len({sentence.group for sentence in whole["test"]}) == 30
    assert {split: len(part) for split, part in whole.divided().splits.items()} == {"train": 24, "dev": 3, "test": 3}
    assert "hash of document" in whole.divided().notes["splits"]


@pytest.mark.parametrize(
    ("name", "largest", "text"),
    [("numbers", 4999, "1234"), ("numbers:words:999", 999, "one thousand two hundred thirty-four")],
)
def test_numbers_and_their_values(name: str, largest: int, text: str) -> None:
    corpus = load_corpus(name)
    n = largest + 1
    assert [len(corpus[split]) for split in ("train", "dev", "test", "outside")] == [n * 7 // 10, n // 10, n // 5, n]
    values = {split: [int(one.layers["number"][0] or "") for one in some] for split, some in corpus.splits.items()}
    assert sorted(values["train"] + values["dev"] + values["test"]) == list(range(largest + 1))
    assert sorted(values["outside"]) == list(range(largest + 1, 2 * largest + 2))
    (one,) = (one for some in corpus.splits.values() for one in some if one.id == "1234")
    assert one.words == (text,)
    assert one.text == text


@pytest.mark.parametrize("name", ["numbers:roman", "numbers:digits:98", "numbers:digits:099", "numbers:digits:999:1"])
def test_numbers_of_another_form_are_refused(name: str) -> None:
    with pytest.raises(CorpusError, match=f"corpus '{name}': write numbers:digits or numbers:words, and the largest"):
        load_corpus(name)


def test_number_words() -> None:
    words = {0: "zero", 13: "thirteen", 40: "forty", 99: "ninety-nine", 110: "one hundred ten"}
    words |= {
        1005: "one thousand five",
        20_000: "twenty thousand",
        217_208: "two hundred seventeen thousand two hundred eight",
    }
    assert {value: number_word(value) for value in words} == words
