"""Sentences divided by whether order and structure agree: of treebanks, and the files of Lin et al. (2019)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertology import Corpus, Sentence, load_corpus
from bertology.corpora import Sentences
from bertology.corpora._derived import word_order
from bertology.errors import CorpusError


def parsed(text: str, upos: str, heads: str, deprel: str) -> Sentence:
    layers = {"upos": tuple(upos.split()), "deprel": tuple(deprel.split())}
    return Sentence.from_words(text.split(), id=text[:9], layers=layers, heads=tuple(map(int, heads.split())))


CAN = parsed("dogs can swim", "NOUN AUX VERB", "3 3 0", "nsubj aux root")
SWUM = parsed("dogs could have swum", "NOUN AUX AUX VERB", "4 4 4 0", "nsubj aux aux root")
RELATIVE = parsed(
    "dogs that can swim are cats", "NOUN PRON AUX VERB AUX NOUN", "6 4 4 1 6 0", "nsubj nsubj aux acl:relcl cop root"
)
COMPOUND = parsed("queen bees swim", "NOUN NOUN VERB", "2 3 0", "compound nsubj root")
NONE = parsed("go", "VERB", "0", "root")


def gold(sentence: Sentence) -> dict[str, str]:
    return {
        name: " ".join(f"{sentence.words[one.span1[0]]}:{one.label}" for one in targets)
        for name, targets in sentence.targets.items()
    }


def test_a_treebank_is_divided() -> None:
    given = {"train": [CAN, RELATIVE, NONE], "dev": [COMPOUND, SWUM], "test": [CAN]}
    corpus = word_order(Corpus("small", {name: Sentences(some) for name, some in given.items()}))
    texts = {name: [sentence.text for sentence in text] for name, text in corpus.splits.items()}
    assert texts["train"] == ["dogs can swim", "go"]
    assert texts["dev"] == ["dogs could have swum"]
    assert texts["test"] == ["dogs that can swim are cats", "dogs can swim", "queen bees swim"]
    assert gold(corpus["train"][1]) == {}
    assert gold(corpus["dev"][0]) == {"main_auxiliary": "could:yes have:no", "subject_noun": "dogs:yes"}
    assert gold(corpus["test"][0]) == {"main_auxiliary": "can:no are:yes", "subject_noun": "dogs:yes cats:no"}
    assert gold(corpus["test"][2]) == {"subject_noun": "queen:no bees:yes"}


def test_a_text_without_trees_is_no_treebank() -> None:
    plain = Sentences([Sentence.from_words(["a", "b"])])
    with pytest.raises(CorpusError, match="word_order:plain: no sentence has an auxiliary or a subject noun; give"):
        word_order(Corpus("plain", {"train": plain, "test": plain}))
    with pytest.raises(CorpusError, match="word_order:plain: no split train"):
        word_order(Corpus("plain", {"test": plain}))


def files(folder: Path, stem: str, **lines: str) -> Path:
    folder.mkdir()
    for split in ("train", "test", "gen"):
        (folder / f"{stem}.{split}").write_text(lines.get(split, "my dog will swim\t2\n" * 12))
    return folder


def test_files_of_open_sesame(tmp_path: Path) -> None:
    both = tmp_path / "both"
    both.mkdir()
    files(both / "data_aux", "aux", train="my dog can swim\t2\n" * 20, gen="my dog that can swim will swim\t5\n")
    files(
        both / "data_sbjn",
        "sbjn",
        train="my bee swims\t1\n" * 10,
        test="my bee swims\t1\n",
        gen="my queen bee swims\t2\n",
    )
    (both / "data_aux" / "aux.gen.pos").write_text("Det N\t1\n")
    corpus = load_corpus(both)
    assert {name: len(text) for name, text in corpus.splits.items()} == {"train": 27, "dev": 3, "test": 15}
    ids = ["aux-test-1", "sbjn-test-1", "aux-gen-1", "sbjn-gen-1", "aux-test-2"]
    assert [sentence.id for sentence in corpus["test"][:5]] == ids
    assert [gold(sentence) for sentence in corpus["test"][:4]] == [
        {"main_auxiliary": "will:yes"},
        {"subject_noun": "bee:yes"},
        {"main_auxiliary": "can:no will:yes"},
        {"subject_noun": "queen:no bee:yes"},
    ]
    assert len(load_corpus(both / "data_sbjn")["train"]) == 9


@pytest.mark.parametrize("line", ["my dog swims", "my dog swims\t3", "my dog swims\tx", "my dog swims\t1\t2"])
def test_bad_lines_of_open_sesame(tmp_path: Path, line: str) -> None:
    folder = files(tmp_path / "aux", "aux", test=f"my dog will swim\t2\n\n{line}\n")
    with pytest.raises(CorpusError, match=r"aux.test:3: .*; expected "):
        load_corpus(folder)


def test_open_sesame_parts_order_and_structure(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """The first 2,000 sentences of each file: only those for generalisation have another auxiliary before."""
    for file in real_data("open_sesame/data_aux").glob("aux.*"):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / file.name).write_text("".join(lines[:2_000]), encoding="utf-8")
    corpus = load_corpus(tmp_path)
    assert {name: len(text) for name, text in corpus.splits.items()} == {"train": 1_800, "dev": 200, "test": 4_000}
    for split, text in corpus.splits.items():
        n_first = sum(targets[0].label == "yes" for _, targets in text.targets("main_auxiliary"))
        assert n_first == (2_000 if split == "test" else len(text))
