"""Published sets: SemEval-2010 Task 8, SentEval, SQuAD, hard pronouns."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import Sentence, Target, load_corpus, question_sentence
from bertology.corpora._files import Oddities
from bertology.corpora.formats.published import SemEval, Winograd
from bertology.errors import BertologyError, CorpusError

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
        ("7 The <e1>a</e1> <e2>b</e2>\nOther\n", "TRAIN_FILE.TXT:5: found '7 The <e1>a</e1> <e2>b</e2>'"),
        ('7\t"a <e1> </e1> <e2>b</e2>"\nOther\n', "TRAIN_FILE.TXT:5: tags: found '<e1> </e1> <e2> </e2>'"),
        ('7\t"<e1>a</e1> <e2>b</e2>"\nCause-Effect\n', "TRAIN_FILE.TXT:6: found 'Cause-Effect'"),
        (
            '7\t"<e1>a</e1> <e2>b</e2>"\nOther\n8\t"c"\n',
            r"""TRAIN_FILE.TXT:7: found '8\\t"c"'; expected a comment or a blank line""",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        _read(tmp_path, ITEM + text)


def test_the_task(real_data):
    folder = real_data("semeval2010_task8")
    corpus = load_corpus(folder)
    assert corpus.name == "semeval2010_task8"
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 8_000, "test": 2_717}
    text = (folder / "data" / "TEST_FILE_FULL.TXT").read_text(encoding="utf-8")
    found = [sentence.targets["relations"][0] for sentence in corpus["test"]]
    stated = re.findall(r"^(Other|\S+\(e\d,e\d\))\s*$", text, re.MULTILINE)
    assert [target.label for target in found] == stated
    assert len({target.label for _, (target,) in corpus["train"].targets("relations")}) == 19
    text = re.sub(r"^Comment.*$", "", text, flags=re.MULTILINE)
    nominals = zip(re.findall(r"<e1>(.*?)</e1>", text), re.findall(r"<e2>(.*?)</e2>", text), strict=True)
    other = 0
    for sentence, target, both in zip(corpus["test"], found, nominals, strict=True):
        for (start, end), written in zip((target.span1, target.span2 or (0, 0)), both, strict=True):
            inside = sentence.text[sentence.spans[start][0] : sentence.spans[end - 1][1]]
            assert written.strip() in inside
            other += inside != written.strip()
    assert other < 10


TENSE = "tr\tPAST\tHe did n't say .\nva\tPRES\tHe says so .\nte\tPAST\tShe said `` no '' .\n"
SHIFT = "tr\tI\tHe not did .\nte\tO\tHe did .\n"


def test_every_line_is_a_sentence_with_the_label_of_its_task(tmp_path: Path) -> None:
    (tmp_path / "past_present.txt").write_text(TENSE, encoding="utf-8")
    (tmp_path / "bigram_shift.txt").write_text(SHIFT, encoding="utf-8")
    corpus = load_corpus(tmp_path)
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 2, "dev": 1, "test": 2}
    swapped, said = corpus["train"]
    assert swapped.targets == {"sentence:shift": (Target((0, 4), "I"),)}
    assert said.targets == {"sentence:tense": (Target((0, 5), "PAST"),)}
    assert (said.text, said.words) == ("He did n't say .", ("He", "did", "n't", "say", "."))
    assert load_corpus(tmp_path / "past_present.txt")["test"][0].id == "past_present:3"


def test_mistakes_are_said_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "past_present.txt"
    path.write_text(TENSE + "te\tPAST\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"past_present.txt:4: found '2 values'; expected 3, one for each column"):
        load_corpus(path)
    other = tmp_path / "other.txt"
    other.write_text(TENSE, encoding="utf-8")
    with pytest.raises(CorpusError, match=r"other.txt: name of the file: found 'other'; expected that of a task"):
        load_corpus(other)


CONTEXT = "Ada Lovelace (1815–1852) wrote notes.\nShe lived in  London."


def article(*questions: dict[str, Any]) -> str:
    return json.dumps(
        {"version": "v2.0", "data": [{"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": questions}]}]}
    )


def question(number: int, *answers: str, impossible: bool = False) -> dict[str, Any]:
    places = [{"text": answer, "answer_start": CONTEXT.index(answer)} for answer in answers]
    return {"id": f"q{number}", "question": "Where did she live?", "answers": places, "is_impossible": impossible}


def test_questions_and_answers_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "train-v2.0.json").write_text(article(question(1, "London", "in  London")), encoding="utf-8")
    (tmp_path / "dev-v2.0.json").write_text(article(question(2, impossible=True)), encoding="utf-8")
    corpus = load_corpus(tmp_path)
    [sentence] = corpus["train"]
    assert sentence.id == "q1"
    assert [target.label for target in sentence.targets["answer"]] == ["London", "in  London"]
    words = [sentence.words[slice(*(target.span2 or ()))] for target in sentence.targets["answer"]]
    assert words == [("London",), ("in", "London")]
    assert sentence.words[slice(*sentence.targets["answer"][0].span1)] == ("Where", "did", "she", "live", "?")
    [unanswered] = corpus["dev"][0].targets["answer"]
    assert (unanswered.label, unanswered.span2) == ("", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            article(question(1, "London") | {"answers": [{"text": "Paris", "answer_start": 3}]}),
            "train.json: question 'q1': answer at character 3 of the text: found 'Paris'; expected what stands",
        ),
        (article({"id": "q1", "question": "Where?"}), r"qas\.0\.answers"),
    ],
)
def test_a_file_that_is_not_as_it_should_be(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "train.json").write_text(content, encoding="utf-8")
    with pytest.raises(BertologyError, match=message):
        load_corpus(tmp_path)


def test_a_question_in_memory() -> None:
    sentence = question_sentence("Who?", "Ada wrote.", [("Ada", 0)])
    assert sentence.text == "Who? Ada wrote."


BEE = "The bee landed on the flower because it had pollen.\nit\nThe bee,the flower\nthe flower\n\n"


def _read_pronouns(tmp_path: Path, text: str, oddities: Oddities | None = None) -> list[Sentence]:
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


def test_an_item_of_hard_pronouns(tmp_path):
    (sentence,) = _read_pronouns(tmp_path, BEE)
    assert sentence.text == "The bee landed on the flower because it had pollen."
    assert _pairs(sentence) == [("The bee", "it", "0"), ("the flower", "it", "1")]
    assert sentence.id == "train-1"


def test_a_masked_pronoun_stays_masked_and_is_counted(tmp_path):
    oddities = Oddities()
    text = "I looked through the gap in a wall, through  [MASK] . \n[MASK]\n The gap , The wall \n The gap \n"
    (sentence,) = _read_pronouns(tmp_path, text, oddities)
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
    (sentence,) = _read_pronouns(tmp_path, text)
    assert _pairs(sentence) == pairs


def test_what_is_not_in_the_sentence_is_left_out_and_listed(tmp_path):
    oddities = Oddities()
    text = "Al saw Bo when he ran\nhe\nAl,the juggler\nAl\n\n" + "Al saw Bo when he ran\nshe\nAl,Bo\nAl\n\n" + BEE
    (sentence,) = _read_pronouns(tmp_path, text, oddities)
    assert sentence.id == "train-3"
    assert oddities.skipped() == {
        "items with a candidate that is not in the sentence": ("train.c.txt:1",),
        "items whose pronoun is not in the sentence": ("train.c.txt:6",),
    }


def test_a_pronoun_more_than_once_is_counted(tmp_path):
    oddities = Oddities()
    (sentence,) = _read_pronouns(tmp_path, "The hen ate a bug and it liked it.\nit\nThe hen,a bug\nThe hen\n", oddities)
    assert {target.span2 for target in sentence.targets["winograd"]} == {(6, 7)}
    assert list(oddities.notes()) == [
        "sentences with their pronoun more than once, the first after both candidates taken"
    ]


@pytest.mark.parametrize("text", ["Al saw Bo\nhe\nAl,Bo\n", "Al saw Bo\nhe\nAl,Bo\nCy\n"])
def test_what_is_wrong_with_hard_pronouns_is_named(tmp_path, text):
    found = " / ".join(text.split("\n")).removesuffix(" / ")
    with pytest.raises(CorpusError, match=f"train.c.txt:6: found '{found}'; expected the sentence, its pron"):
        _read_pronouns(tmp_path, BEE + text)


def test_a_folder_has_a_split_a_file(tmp_path):
    for name in ("train.c", "test.c.txt", "wsc273.txt"):
        (tmp_path / name).write_text(BEE)
    (tmp_path / "notes.txt").write_text("something else\n")
    corpus = load_corpus(tmp_path)
    assert set(corpus.splits) == {"train", "test", "wsc273"}
    assert list(load_corpus(tmp_path / "wsc273.txt").splits) == ["test"]
    (tmp_path / "test.txt").write_text(BEE)
    with pytest.raises(
        CorpusError, match=r"test_a_folder_has_a_split_a_fi0: found 'test\.txt'; expected one file of the split "
    ):
        load_corpus(tmp_path)


def test_of_a_set_without_dev_whole_schemas_are_held_out(tmp_path):
    (tmp_path / "train.c").write_text("\n".join([BEE] * 45))
    corpus = load_corpus(tmp_path)
    assert [sentence.id for sentence in corpus["dev"]] == ["train-19", "train-20", "train-39", "train-40"]
    assert len(corpus["train"]) == 41
    (tmp_path / "dev.c").write_text(BEE)
    corpus = load_corpus(tmp_path)
    assert (len(corpus["train"]), len(corpus["dev"])) == (45, 1)


GAP = """ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL
development-1\tAnn met Bo Li. She left.\tShe\t15\tAnn\t0\tTRUE\tBo Li\t8\tFALSE\thttp://x
"""


def test_gap_is_read_with_its_offsets(tmp_path: Path) -> None:
    (tmp_path / "gap-development.tsv").write_text(GAP)
    (tmp_path / "gap-validation.tsv").write_text(GAP.replace("TRUE", "FALSE"))
    corpus = load_corpus(tmp_path)
    (sentence,) = corpus["train"]
    found = [(sentence.words[slice(*one.span1)], one.label, one.span2) for one in sentence.targets["gap"]]
    assert found == [(("Ann",), "1", (5, 6)), (("Bo", "Li"), "0", (5, 6))]
    assert [one.label for one in corpus["dev"][0].targets["gap"]] == ["0", "0"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "\t15\t",
            "\t14\t",
            "gap-test.tsv:2: column 'Pronoun-offset': found '14'; expected the character, from 0, that 'She'",
        ),
        ("\t8\t", "\tx\t", "column 'B-offset': found 'x'; expected the character, from 0, that 'Bo Li' begins at"),
        ("FALSE", "MAYBE", "column 'B-coref': found 'MAYBE'; expected TRUE or FALSE"),
    ],
)
def test_what_is_wrong_with_gap_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "gap-test.tsv").write_text(GAP.replace(old, new))
    with pytest.raises(CorpusError, match=message):
        load_corpus(tmp_path)
    (tmp_path / "gap-test.tsv").rename(tmp_path / "gap-more.tsv")
    with pytest.raises(CorpusError, match=r"found 'gap-more.tsv'; expected gap-development"):
        load_corpus(tmp_path)


def test_gap_itself(real_data):
    corpus = load_corpus(real_data("gap"))
    assert {split: len(text) for split, text in corpus.splits.items()} == {"train": 2000, "dev": 454, "test": 2000}
    assert all(len(targets) == 2 for text in corpus.splits.values() for _, targets in text.targets("gap"))


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
    lines = [line.strip() for line in (folder / "data" / "test.c.txt").read_text(encoding="utf-8").splitlines()]
    for sentence in corpus["test"]:
        number = int(str(sentence.id).rpartition("-")[2]) - 1
        text, pronoun, candidates, answer = lines[5 * number : 5 * number + 4]
        assert sentence.text == " ".join(text.split())
        found = {"".join(one.split()).casefold(): label for one, _, label in _pairs(sentence)}
        right = {"".join(name.split()).casefold(): str(int(name.strip() == answer)) for name in candidates.split(",")}
        assert found == right
        assert {place.casefold() for _, place, _ in _pairs(sentence)} == {pronoun.casefold()}
