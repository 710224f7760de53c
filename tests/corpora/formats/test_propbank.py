"""Universal PropBank, alone and joined to a treebank."""

import re
from pathlib import Path

import pytest

from bertology.corpora import Corpus, Sentence, Sentences, Target, load_corpus
from bertology.corpora._corpus import join_corpora
from bertology.corpora._files import Oddities
from bertology.corpora.formats.conllu import PropBank
from bertology.errors import CorpusError


def _rows(*rows: str, comments: str = "# sent_id = s1\n") -> str:
    """CoNLL-U lines of ``form deprel head`` and what stands in the columns after MISC."""
    lines = []
    for number, row in enumerate(rows, 1):
        form, relation, head, *more = row.split(" ")
        lines.append("\t".join([str(number), form, *"____", head, relation, "_", "_", *more]) + "\n")
    return comments + "".join(lines) + "\n"


HE_WANTS = _rows("He nsubj 2 _ ARG0 ARG0", "wants root 0 want.01 V _", "to mark 4 _ _ _", "go xcomp 2 go.02 ARG1 V")


def _read(tmp_path: Path, text: str, oddities: Oddities | None = None) -> list[Sentence]:
    path = tmp_path / "made-up-dev.conllu"
    path.write_text(text)
    return list(PropBank().read(path, oddities or Oddities()))


def _roles(sentence: Sentence) -> list[tuple[str, str, str]]:
    words = sentence.words
    return [
        (words[t.span1[0]], " ".join(words[slice(*t.span2)]), t.label)
        for t in sentence.targets.get("srl", ())
        if t.span2 is not None and isinstance(t.label, str)
    ]


def test_predicates_and_arguments(tmp_path):
    (sentence,) = _read(tmp_path, HE_WANTS)
    assert _roles(sentence) == [("wants", "He", "ARG0"), ("wants", "to go", "ARG1"), ("go", "He", "ARG0")]
    assert sentence.layers["roleset"] == (None, "want.01", None, "go.02")
    assert sentence.heads == (2, 0, 4, 2)


def test_an_argument_is_a_subtree_without_the_branch_of_the_predicate(tmp_path):
    text = _rows("The det 2 _ _", "man nsubj 6 _ ARG0", "who nsubj 4 _ R-ARG0", "sang acl:relcl 2 sing.01 V")
    text = text.rstrip("\n") + "\n" + "5\tloudly\t_\t_\t_\t_\t4\tadvmod\t_\t_\t_\tARGM-MNR\n6\tleft" + "\t_" * 4
    (sentence,) = _read(tmp_path, text + "\t0\troot\t_\t_\t_\t_\n\n")
    assert _roles(sentence) == [("sang", "The man", "ARG0"), ("sang", "who", "R-ARG0"), ("sang", "loudly", "ARGM-MNR")]


def test_an_argument_in_pieces_is_the_piece_around_its_head(tmp_path):
    oddities = Oddities()
    text = _rows("They nsubj 4 _ ARG1", "are cop 4 be.01 V", "very advmod 4 _ _", "old root 0 _ ARG2", ". punct 4 _ _")
    (sentence,) = _read(tmp_path, text, oddities)
    assert _roles(sentence) == [("are", "They", "ARG1"), ("are", "very old", "ARG2")]
    kind = "arguments not in one piece, given by the piece around their head word"
    assert oddities.notes() == {kind: "1, first at made-up-dev.conllu:3"}


def test_what_is_not_annotated_is_counted(tmp_path):
    oddities = Oddities()
    bare = _rows("It nsubj 2 _ _", "rains root 0 rain.01 V", comments="# sent_id = s2\n")
    skipped = "# propbank = no-up\n# sent_id = s3\n1\tGreen" + "\t_" * 4 + "\t0\troot\t_\t_\t\t\n\n"
    without = _rows("Hi root 0 _ ", comments="# sent_id = s4\n")  # no predicate, and a tab at the line's end
    sentences = _read(tmp_path, HE_WANTS + bare + skipped + without, oddities)
    assert [len(sentence.targets) for sentence in sentences] == [1, 0, 0, 0]
    assert oddities.notes() == {
        "predicates without arguments": "1: made-up-dev.conllu:9",
        "sentences without PropBank annotation": "1: s3",
    }
    assert oddities.skipped() == {
        "predicates without arguments": ("made-up-dev.conllu:9",),
        "sentences without PropBank annotation": ("s3",),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_rows("a root 0 a.01 V _"), "made-up-dev.conllu:2: found '2 columns of roles'; expected one for each"),
        (_rows("a root 0 a.01 V", "b obj 1 _"), "made-up-dev.conllu:3: found '11 columns'"),
        (_rows("a root _ a.01 V", "b obj _ _ ARG1"), "made-up-dev.conllu:2: found 'roles without heads'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        _read(tmp_path, text)


def _treebank(tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    folder.mkdir()
    line = "{}\t{}\t_\tX\t_\t_\t{}\t{}\t_\t{}\n"
    want = line.format(1, "He", 2, "nsubj", "_") + line.format(2, "wants", 0, "root", "_")
    want += line.format(3, "to", 4, "mark", "_") + line.format(4, "go", 2, "xcomp", "SpaceAfter=No")
    other = "# sent_id = s8\n" + line.format(1, "Other", 0, "root", "_")
    (folder / "xx_made-ud-dev.conllu").write_text(f"# sent_id = s1\n{want}\n{other}\n")
    (folder / "xx_made-ud-train.conllu").write_text(f"# sent_id = s9\n{want}\n")
    return folder


def test_words_come_from_the_treebank(tmp_path):
    bank = _treebank(tmp_path)
    roles = tmp_path / "roles"
    roles.mkdir()
    wordless = re.sub(r"^(\d+)\t\w+\t", r"\1\t_\t", HE_WANTS, flags=re.MULTILINE)
    lost = HE_WANTS.replace("s1", "s7")
    (roles / "xx_made-up-dev.conllu").write_text(wordless + lost + HE_WANTS.replace("s1", "s8"))
    corpus = load_corpus(f"{roles}+{bank}")
    assert corpus.name == "roles+bank"
    assert corpus.language == "xx"
    assert list(corpus.splits) == ["dev"]
    (sentence,) = corpus["dev"]
    assert sentence.text == "He wants to go"
    assert sentence.layers["upos"] == ("X",) * 4
    assert sentence.layers["roleset"] == (None, "want.01", None, "go.02")
    assert _roles(sentence) == [("wants", "He", "ARG0"), ("wants", "to go", "ARG1"), ("go", "He", "ARG0")]
    assert corpus.skipped == {
        "sentences that bank does not have": ("s7",),
        "sentences that have other words in bank": ("s8",),
    }
    assert corpus.notes["sentences that bank does not have"] == "1: s7"
    (roles / "xx_made-up-dev.conllu").write_text(wordless)
    with pytest.raises(CorpusError, match=r"its words are all _; name the treebank that has them: .*roles\+path/to"):
        load_corpus(roles)


def test_what_was_left_out_of_either_is_told_of_the_joined(tmp_path):
    roles = tmp_path / "xx_made-up-dev.conllu"
    none = HE_WANTS.replace("# sent_id = s1\n", "# propbank = no-up\n# sent_id = s8\n")
    roles.write_text(HE_WANTS + none)
    corpus = load_corpus(f"{roles}+{_treebank(tmp_path)}")
    # By names that its notes have as well.
    assert corpus.skipped["xx_made-up-dev: sentences without PropBank annotation"] == ("s8",)
    assert set(corpus.skipped) <= set(corpus.notes)


def test_corpora_with_no_sentence_in_common_are_an_error(tmp_path):
    bank = _treebank(tmp_path)
    other = tmp_path / "other.conllu"
    other.write_text(HE_WANTS.replace("s1", "s0"))
    with pytest.raises(CorpusError, match=r"other\+bank: found 'none'; expected sentences of the first"):
        load_corpus(f"{other}+{bank}")


@pytest.mark.parametrize("name", ["+bank", "bank+", "a+b+c"])
def test_a_join_of_anything_but_two(name):
    with pytest.raises(CorpusError, match=r"\+ joins two corpora; write path/to/annotation\+path/to/treebank"):
        load_corpus(name)


def test_derived_targets_stay_derived_when_joined():
    def corpus(name: str, **more: object) -> Corpus:
        return Corpus(name, {"test": Sentences([Sentence.from_words(["a", "b"], id="s", **more)])})  # type: ignore[arg-type]

    tagged = corpus("ner", layers={"ner": ("B-X", "O")}, targets={"entities": (Target((0, 1), "X"),)})
    by_rule = Corpus("ner", {"test": tagged["test"].with_derived("entities", {0: (Target((0, 1), "X"),)})})
    bank = corpus("bank", layers={"upos": ("X", "Y")})
    joined = join_corpora(by_rule, bank)["test"][0]
    assert joined.derived == {"entities"}
    assert joined.layers == {"ner": ("B-X", "O"), "upos": ("X", "Y")}
    assert join_corpora(tagged, bank)["test"][0].derived == frozenset()


@pytest.fixture(scope="module")
def english_web(real_data, tmp_path_factory) -> Corpus:
    """The treebank without its train split, which is large and which nothing here is joined to."""
    folder = tmp_path_factory.mktemp("banks") / "ud_english_ewt"
    folder.mkdir()
    for split in ("dev", "test"):
        name = f"en_ewt-ud-{split}.conllu"
        (folder / name).symlink_to(real_data("ud_english_ewt") / name)
    return load_corpus(folder)


def test_propbank_on_the_english_web_treebank(real_data, english_web):
    folder = real_data("up1_srl") / "UP_English-EWT"
    corpus = load_corpus(folder)
    for split, predicates in (("dev", 4_977), ("test", 4_799)):
        lines = (folder / f"en_ewt-up-{split}.conllu").read_text(encoding="utf-8").splitlines()
        cells = [line.split("\t") for line in lines if re.match(r"\d+\t", line)]
        roles = [role for row in cells for role in row[11:] if role not in ("", "_", "V")]
        assert sum(len(s.targets.get("srl", ())) for s in corpus[split]) == len(roles)
        rolesets = corpus[split].layers["roleset"].codes
        assert (rolesets >= 0).sum() == sum(row[10] not in ("", "_") for row in cells) == predicates
    assert len(corpus.skipped["sentences without PropBank annotation"]) == 28 + 15  # as its README counts them
    joined = join_corpora(corpus, english_web)
    assert {split: len(sentences) for split, sentences in joined.splits.items()} == {"dev": 1_995, "test": 2_073}
    assert joined.skipped["sentences that ud_english_ewt does not have"] == ("email-enronsent26_02-0029",)
    assert len(joined.skipped["sentences that have other words in ud_english_ewt"]) == 10
    sentence = joined["dev"][1]
    assert sentence.text.startswith("President Bush on Tuesday nominated two individuals to replace")
    assert _roles(sentence)[:3] == [
        ("nominated", "President Bush", "ARG0"),
        ("nominated", "on Tuesday", "ARGM-TMP"),
        ("nominated", "two individuals", "ARG1"),
    ]


def test_entities_on_the_english_web_treebank(real_data, english_web):
    joined = join_corpora(load_corpus(real_data("uner_english_ewt")), english_web)
    found = {split: sum(len(s.targets.get("entities", ())) for s in held) for split, held in joined.splits.items()}
    assert found == {"dev": 966, "test": 1_084}  # four of the 1,088 stand in sentences spelled otherwise there
    assert len(joined.skipped["sentences that have other words in ud_english_ewt"]) == 6
    assert {"upos", "deprel", "ner"} <= set(joined["test"].layers)
