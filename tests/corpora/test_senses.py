"""Words with senses: CoarseWSD-20, Senseval, WiC, WiC-TSV; texts of pairs apart; pseudowords."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bertology import load_corpus
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.corpora._derived import pseudowords
from bertology.errors import CorpusError

CONTEXT = (
    '<corpus lang="en">\n\n<lexelt item="hard-a">\n\n<instance id="hard-a.1:">\n\n'
    '<answer instance="hard-a.1:" senseid="HARD1"/>\n\n<context>\n\n'
    ' <wf pos="PRP">it</wf> <wf pos="VBZ">\'s</wf> <head> <wf pos="JJ">hard</wf></head> <wf pos="CC">&</wf>\n'
    ' <s snum="2"/> <wf pos="NN">R<D</wf> <wf pos=".">.</wf>\n</context>\n\n</instance>\n</lexelt>\n</corpus>\n'
)


def coarse(folder: Path, *, place: str = "1", gold: str = "0\n1\n") -> Path:
    word = folder / "bank"
    word.mkdir(parents=True)
    (word / "classes_map.txt").write_text('{"0": "bank_bank", "1": "bank_bank_(geography)"}')
    for split in ("train", "test"):
        (word / f"{split}.data.txt").write_text(f"{place}\tthe bank 's money\n2\ton the bank .\n")
        (word / f"{split}.gold.txt").write_text(gold)
    return folder


def wic(folder: Path, *, places: str = "2-1", gold: str = "T") -> Path:
    for split in ("train", "dev", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / f"{split}.data.txt").write_text(f"board\tN\t{places}\tRoom and board .\tHe boards it\n")
        (folder / split / f"{split}.gold.txt").write_text(f"{gold}\n")
    return folder


def spans(sentence: Sentence, layer: str) -> list[tuple[str, ...]]:
    (target,) = sentence.targets[layer]
    both = [target.span1] if target.span2 is None else [target.span1, target.span2]
    return [sentence.words[first:last] for first, last in both]


@pytest.mark.parametrize("inside", ["", "bank"])
def test_coarsewsd(tmp_path: Path, inside: str) -> None:
    corpus = load_corpus(coarse(tmp_path / "set") / inside)
    assert {name: len(text) for name, text in corpus.splits.items()} == {"train": 2, "test": 2}
    first, second = corpus["test"]
    assert first.text == "the bank 's money"
    assert first.targets["sense"] == (Target((1, 2), "bank:bank"),)
    assert second.targets["sense"] == (Target((2, 3), "bank:bank_(geography)"),)


def test_senseval(tmp_path: Path) -> None:
    """What looks like XML and is none, over several lines; split by a hash."""
    file = tmp_path / "hard.pos"
    head, instance = CONTEXT.split("<instance", 1)
    instance = "<instance" + instance.split("</lexelt>")[0]
    file.write_text(head + "".join(instance.replace("it</wf>", f"it{n}</wf>") for n in range(20)) + "</lexelt>")
    corpus = load_corpus(file)
    assert {name: len(text) for name, text in corpus.splits.items()} == {"train": 16, "dev": 2, "test": 2}
    sentence = corpus["test"][0]
    assert sentence.words[1:] == ("'s", "hard", "&", "R<D", ".")
    assert sentence.text.endswith("'s hard & R<D.")
    assert sentence.targets["sense"] == (Target((2, 3), "hard:HARD1"),)
    assert sentence.layers["xpos"][2] == "JJ"


def test_wic_is_a_pair_as_of_tables(tmp_path: Path) -> None:
    corpus = load_corpus(wic(tmp_path))
    (sentence,) = corpus["dev"]
    assert sentence.text == "Room and board . He boards it"
    assert spans(sentence, "label") == [("board",), ("boards",)]
    table = tmp_path / "pairs.csv"
    row = "Room and board .,He boards it,2,1,T\n"
    table.write_text("text,text2,at,at2,label\n" + row.replace("Room", "A") * 5 + row * 5 + row.replace("it", "me") * 5)
    of_table = load_corpus(table, columns="text=text,text2=text2,at=at,at2=at2,label=label")
    rows = [each for text in of_table.splits.values() for each in text]
    (like,) = {(each.targets["label"], each.targets["texts"]) for each in rows if each.text == sentence.text}
    assert like == (sentence.targets["label"], sentence.targets["texts"])


def test_texts_of_pairs_apart(tmp_path: Path) -> None:
    corpus = load_corpus(f"apart:{wic(tmp_path)}")
    first, second = corpus["test"]
    assert [first.id, second.id] == ["test-1/1", "test-1/2"]
    assert [first.text, second.text] == ["Room and board .", "He boards it"]
    assert second.spans == ((0, 2), (3, 9), (10, 12))
    assert [spans(half, "label") for half in (first, second)] == [[("board",)], [("boards",)]]
    with pytest.raises(CorpusError, match="apart:pocket: no pair of texts"):
        load_corpus("apart:pocket")


def test_wic_tsv(tmp_path: Path) -> None:
    folder = tmp_path / "en" / "Training"
    folder.mkdir(parents=True)
    for kind, line in (
        ("examples", "spring\t2\tI like spring ."),
        ("definitions", "the season of growth"),
        ("labels", "T"),
        ("hypernyms", "season\ttime_of_year"),
    ):
        (folder / f"train_{kind}.txt").write_text(f"{line}\n")
    (sentence,) = load_corpus(folder.parent)["train"]
    assert spans(sentence, "label") == [("spring",), ("the", "season", "of", "growth")]
    assert sentence.comments == ("hypernyms = season, time_of_year",)
    (folder / "train_hypernyms.txt").unlink()
    with pytest.raises(CorpusError, match=r"train_hypernyms\.txt: no such file"):
        load_corpus(folder.parent)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: coarse(folder, place="9"), "test.data.txt:1: found '9'; expected the index of a word, 0"),
        (lambda folder: coarse(folder, gold="0\n7\n"), r"test.data.txt:2 \(gold\): found '7'; expected one of 0, 1"),
        (lambda folder: coarse(folder, gold="0\n"), "test.gold.txt: found '1 lines'; expected 2, one for each of tes"),
        (lambda folder: wic(folder, gold="X"), "dev.data.txt:1: label: found 'X'; expected T or F"),
    ],
)
def test_mistakes_are_told_with_file_and_line(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        load_corpus(make(tmp_path / "set"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<head>", "", r"hard.pos:5: found 'instance hard-a\.1:'; expected its word once between "),
        ("<answer", "<no", 'hard.pos:11: found .*; expected <lexelt item="…">, <in'),
        ("</instance>", "", r"hard.pos:5: found 'instance hard-a\.1:'; expected </instance> after it"),
    ],
)
def test_mistakes_in_senseval(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "hard.pos"
    file.write_text(CONTEXT.replace(old, new, 1))
    with pytest.raises(CorpusError, match=message):
        load_corpus(file)


def test_pseudowords_are_their_nouns_and_a_coin() -> None:
    pocket = load_corpus("pocket")
    small = Corpus("small", {name: pocket[name][:400] for name in ("train", "test")})
    made = pseudowords(small)
    assert [each.text for each in made["test"]] == [each.text for each in small["test"]]
    senses: dict[str, Counter[str]] = {}
    for sentence in made["train"]:
        for target in sentence.targets.get("sense", ()):
            word, _, sense = str(target.label).partition(":")
            senses.setdefault(word, Counter())[sense] += 1
            form = sentence.words[target.span1[0]].casefold()
            assert form == sense if "coin" not in word else word == f"{form}|coin"
    assert sum("coin" in word for word in senses) == 2
    assert all(len(of_word) == 2 for of_word in senses.values())
    for word in senses:
        if "coin" in word:
            assert 0.25 < senses[word]["heads"] / senses[word].total() < 0.75
    assert pseudowords(small)["train"].fingerprint == made["train"].fingerprint
    with pytest.raises(CorpusError, match="pseudowords:plain: 0 nouns"):
        pseudowords(Corpus("plain", dict.fromkeys(("train", "test"), Sentences([Sentence.from_words(["a"])]))))


def test_real_sets(real_data: Callable[[str], Path]) -> None:
    """Each word at its place; and as many items as there are."""
    corpus = load_corpus(real_data("coarsewsd20"))
    assert {name: len(text) for name, text in corpus.splits.items()} == {"train": 2931, "test": 1271}
    for sentence in corpus["test"]:
        (target,) = sentence.targets["sense"]
        assert spans(sentence, "sense") == [(str(target.label).partition(":")[0],)]
    assert {name: len(text) for name, text in load_corpus(real_data("wic")).splits.items()} == {
        "train": 5428, "dev": 638, "test": 1400,
    }  # fmt: skip
    senseval = load_corpus(real_data("senseval"))
    counts = Counter(str(target.label) for text in senseval.splits.values() for _, (target,) in text.targets("sense"))
    assert counts["hard:HARD1"] == 3455
    assert counts["interest:interest_6"] == 1252
    assert len(load_corpus(real_data("wic_tsv") / "de")["dev"]) == 425
