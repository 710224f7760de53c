"""SemEval-2010 Task 8."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bertology.corpora import Sentence, Target, load_corpus
from bertology.corpora._files import Oddities
from bertology.corpora.formats.published import SemEval
from bertology.errors import CorpusError

ITEM = '7\t"The <e1>tea cup</e1> isn\'t in the <e2>box</e2>."\nContent-Container(e1,e2)\nComment: none\n\n'


def _read(tmp_path: Path, text: str, oddities: Oddities | None = None) -> list[Sentence]:
    path = tmp_path / "TRAIN_FILE.TXT"
    path.write_text(text, newline="")
    return list(SemEval().read(path, oddities or Oddities()))


def test_an_item(tmp_path):
    (sentence,) = _read(tmp_path, ITEM.replace("\n", "\r\n"))
    assert sentence.text == "The tea cup isn't in the box."
    assert sentence.words == ("The", "tea", "cup", "is", "n't", "in", "the", "box", ".")
    assert sentence.id == "7"
    assert sentence.targets == {"relations": (Target((1, 3), "Content-Container(e1,e2)", (7, 8)),)}
    assert [sentence.text[slice(*span)] for span in sentence.spans] == list(sentence.words)


def test_the_second_nominal_may_come_first_and_comments_may_be_missing(tmp_path):
    (sentence,) = _read(tmp_path, '1\t"<e2> A </e2>  and <e1>b</e1>"\nOther\n')
    assert sentence.text == "A and b"
    assert sentence.targets["relations"] == (Target((2, 3), "Other", (0, 1)),)


def test_a_nominal_that_is_part_of_a_word_is_the_word_and_counted(tmp_path):
    oddities = Oddities()
    (sentence,) = _read(tmp_path, '1\t"A <e1>cup</e1>ful of <e2>tea</e2>"\nOther\n', oddities)
    assert sentence.targets["relations"] == (Target((1, 2), "Other", (3, 4)),)
    assert oddities.notes() == {"nominals that are part of a word, given by the word": "1, first at TRAIN_FILE.TXT:1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7 The <e1>a</e1> <e2>b</e2>\nOther\n", r"TXT:5: '7 The .*' where a number, a tab and a sentence in quotes"),
        ('7\t"<e1>a</e1> b"\nOther\n', r"TXT:5: tags <e1> </e1> where <e1> </e1> <e2> </e2> were due, one of each"),
        ('7\t"a b"\nOther\n', r"TXT:5: no tags where <e1> </e1> <e2> </e2> were due"),
        ('7\t"<e1>a <e2>b</e1> c</e2>"\nOther\n', r"TXT:5: tags <e1> <e2> </e1> </e2> where"),
        ('7\t"</e1>a<e1> <e2>b</e2>"\nOther\n', r"TXT:5: tags </e1> <e1> <e2> </e2> where"),
        ('7\t"a <e1> </e1> <e2>b</e2>"\nOther\n', r"TXT:5: nothing between <e1> and </e1>; mark a nominal"),
        ('7\t"<e1>a</e1> <e2>b</e2>"\n', r"TXT:5: item 7 has no label; give the file that has them"),
        ('7\t"<e1>a</e1> <e2>b</e2>"\nComment:\n', r"TXT:5: item 7 has no label"),
        ('7\t"<e1>a</e1> <e2>b</e2>"\nCause-Effect\n', r"TXT:6: 'Cause-Effect' is no label; write Other or as"),
        ('7\t"<e1>a</e1> <e2>b</e2>"\nOther\n8\t"c"\n', r"TXT:7: .* where a comment or a blank line was due"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        _read(tmp_path, ITEM + text)


def test_an_empty_file(tmp_path):
    with pytest.raises(CorpusError, match="no item in it; give a file of SemEval-2010 Task 8 with labels"):
        _read(tmp_path, "\n")


def test_the_task(real_data):
    folder = real_data("semeval2010_task8")
    corpus = load_corpus(folder)
    assert corpus.name == "semeval2010_task8"
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 8_000, "test": 2_717}
    labels: Counter[str] = Counter()
    for split, name in (("train", "TRAIN_FILE.TXT"), ("test", "TEST_FILE_FULL.TXT")):
        text = (folder / "data" / name).read_text(encoding="utf-8")
        found = [s.targets["relations"][0] for s in corpus[split]]
        stated = re.findall(r"^(Other|\S+\(e\d,e\d\))\s*$", text, re.MULTILINE)
        assert [target.label for target in found] == stated
        text = re.sub(r"^Comment.*$", "", text, flags=re.MULTILINE)
        nominals = zip(re.findall(r"<e1>(.*?)</e1>", text), re.findall(r"<e2>(.*?)</e2>", text), strict=True)
        other = 0
        for sentence, target, (one, two) in zip(corpus[split], found, nominals, strict=True):
            assert target.span2 is not None
            for (start, end), written in ((target.span1, one), (target.span2, two)):
                inside = sentence.text[sentence.spans[start][0] : sentence.spans[end - 1][1]]
                assert written.strip() in inside
                other += inside != written.strip()
        assert other < 10
        labels.update(stated)
    assert len(labels) == 19
