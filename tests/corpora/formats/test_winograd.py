"""Hard pronouns of DPR and WSC273."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.corpora import Sentence, load_corpus
from bertology.corpora._files import Oddities
from bertology.corpora.formats.published import Winograd
from bertology.errors import CorpusError

BEE = "The bee landed on the flower because it had pollen.\nit\nThe bee,the flower\nthe flower\n\n"


def _read(tmp_path: Path, text: str, oddities: Oddities | None = None) -> list[Sentence]:
    path = tmp_path / "train.c.txt"
    path.write_text(text)
    return list(Winograd().read(path, oddities or Oddities()))


def _pairs(sentence: Sentence) -> list[tuple[str, str, object]]:
    words = sentence.words
    return [
        (" ".join(words[slice(*t.span1)]), " ".join(words[slice(*t.span2)]), t.label)
        for t in sentence.targets["winograd"]
        if t.span2 is not None
    ]


def test_an_item(tmp_path):
    (sentence,) = _read(tmp_path, BEE)
    assert sentence.text == "The bee landed on the flower because it had pollen."
    assert _pairs(sentence) == [("The bee", "it", "0"), ("the flower", "it", "1")]
    assert sentence.id == "train-1"


def test_a_masked_pronoun_stays_masked_and_is_counted(tmp_path):
    oddities = Oddities()
    text = "I looked through the gap in a wall, through  [MASK] . \n[MASK]\n The gap , The wall \n The gap \n"
    (sentence,) = _read(tmp_path, text, oddities)
    assert sentence.text == "I looked through the gap in a wall, through [MASK]."
    assert sentence.words[-2:] == ("[MASK]", ".")
    assert _pairs(sentence) == [("the gap", "[MASK]", "1"), ("a wall", "[MASK]", "0")]
    assert oddities.notes() == {"pronouns written [MASK] in the file, and so in the text": "1, first at train.c.txt:1"}


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        # the pronoun after both candidates, not that before or that in a candidate
        ("he says Al saw his pupil, so he left\nhe\nAl,his pupil\nAl\n", [("Al", "he", "1"), ("his pupil", "he", "0")]),
        ("Al saw his dog, not his cat\nhis\nAl,his dog\nAl\n", [("Al", "his", "1"), ("his dog", "his", "0")]),
        # whole words, whatever the case
        ("Tin met tina when she ran\nshe\nTina,Tin\nTin\n", [("Tin", "she", "1"), ("tina", "she", "0")]),
        # one candidate inside the words of the other
        ("Sam's dog bit Sam when he sat\nhe\nSam,Sam's dog\nSam\n", [("Sam 's dog", "he", "0"), ("Sam", "he", "1")]),
        # another determiner, none, an owner who is the other candidate
        ("Ann hit her son as he ate\nhe\nAnn,the son\nAnn\n", [("Ann", "he", "1"), ("her son", "he", "0")]),
        ("Ann hit small boys as they ate\nthey\nAnn,the boys\nAnn\n", [("Ann", "they", "1"), ("boys", "they", "0")]),
        ("Ann hit a son as he ate\nhe\nAnn,Ann's son\nAnn\n", [("Ann", "he", "1"), ("a son", "he", "0")]),
        # the pronoun first
        ("When she fell, Ann saw Bea\nshe\nAnn,Bea\nBea\n", [("Ann", "she", "0"), ("Bea", "she", "1")]),
    ],
)
def test_spans_are_found_in_the_text(tmp_path, text, pairs):
    (sentence,) = _read(tmp_path, text)
    assert _pairs(sentence) == pairs


def test_what_is_not_in_the_sentence_is_left_out_and_listed(tmp_path):
    oddities = Oddities()
    text = "Al saw Bo when he ran\nhe\nAl,the juggler\nAl\n\n" + "Al saw Bo when he ran\nshe\nAl,Bo\nAl\n\n" + BEE
    (sentence,) = _read(tmp_path, text, oddities)
    assert sentence.id == "train-3"
    assert oddities.skipped() == {
        "items with a candidate that is not in the sentence": ("train.c.txt:1",),
        "items whose pronoun is not in the sentence": ("train.c.txt:6",),
    }


def test_a_pronoun_more_than_once_is_counted(tmp_path):
    oddities = Oddities()
    (sentence,) = _read(tmp_path, "The hen ate a bug and it liked it.\nit\nThe hen,a bug\nThe hen\n", oddities)
    assert {target.span2 for target in sentence.targets["winograd"]} == {(6, 7)}
    assert list(oddities.notes()) == [
        "sentences with their pronoun more than once, the first after both candidates taken"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Al saw Bo\nhe\nAl,Bo\n", r"train.c.txt:6: an item of 3 lines; it should be the sentence, its pronoun"),
        ("Al saw Bo\nhe\nAl\nAl\n", r"train.c.txt:8: 'Al' where two candidates, parted by a comma, were due"),
        ("Al saw Bo\nhe\nAl,Al\nAl\n", r"train.c.txt:8: 'Al,Al' where two candidates"),
        ("Al saw Bo\nhe\nAl,Bo\nCy\n", r"train.c.txt:9: 'Cy' is neither 'Al' nor 'Bo'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        _read(tmp_path, BEE + text)


def test_an_empty_file(tmp_path):
    with pytest.raises(CorpusError, match=r"no item in it; an item is the sentence"):
        _read(tmp_path, "\n")


def test_a_folder_has_a_split_a_file(tmp_path):
    for name in ("train.c", "test.c.txt", "wsc273.txt"):
        (tmp_path / name).write_text(BEE)
    (tmp_path / "notes.txt").write_text("something else\n")
    corpus = load_corpus(tmp_path)
    assert set(corpus.splits) == {"train", "test", "wsc273"}
    assert list(load_corpus(tmp_path / "wsc273.txt").splits) == ["test"]
    (tmp_path / "test.txt").write_text(BEE)
    with pytest.raises(CorpusError, match=r"test.txt and another file would both be the test split"):
        load_corpus(tmp_path)


def test_of_a_set_without_dev_whole_schemas_are_held_out(tmp_path):
    (tmp_path / "train.c").write_text("\n".join([BEE] * 45))
    corpus = load_corpus(tmp_path)
    assert [sentence.id for sentence in corpus["dev"]] == ["train-19", "train-20", "train-39", "train-40"]
    assert len(corpus["train"]) == 41
    (tmp_path / "dev.c").write_text(BEE)
    corpus = load_corpus(tmp_path)
    assert (len(corpus["train"]), len(corpus["dev"])) == (45, 1)


def test_the_sets_themselves(real_data):
    folder = real_data("winograd_dpr")
    corpus = load_corpus(folder)
    assert corpus.name == "winograd_dpr"
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {
        "train": 1_316 - 130,
        "dev": 130,
        "test": 564,
        "wsc273": 273 - 26,
        "winogender": 240,
    }
    skipped = corpus.skipped["items with a candidate that is not in the sentence"]
    assert len(skipped) == 26
    assert all(place.startswith("wsc273.txt:") for place in skipped)
    # both sentences of a schema have the same candidates and opposite answers
    for one, twin in zip(*[iter(corpus["dev"])] * 2, strict=True):
        assert {c.casefold() for c, _, _ in _pairs(one)} & {c.casefold() for c, _, _ in _pairs(twin)}
    for split, file in (("train", "train.c.txt"), ("test", "test.c.txt")):
        lines = [line.strip() for line in (folder / "data" / file).read_text(encoding="utf-8").splitlines()]
        both = [*corpus[split], *(corpus["dev"] if split == "train" else [])]
        for sentence in both:
            number = int(str(sentence.id).rpartition("-")[2]) - 1
            text, pronoun, candidates, answer = lines[5 * number : 5 * number + 4]
            assert sentence.text == " ".join(text.split())
            found = {one.casefold(): label for one, _, label in _pairs(sentence)}
            right = {
                "".join(name.split()).casefold(): str(int(name.strip() == answer)) for name in candidates.split(",")
            }
            assert {"".join(name.split()): label for name, label in found.items()} == right
            places = {t.span2 for t in sentence.targets["winograd"]}
            assert len(places) == 1
            ((start, end),) = places
            assert " ".join(sentence.words[start:end]).casefold() == pronoun.casefold()
