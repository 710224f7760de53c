"""Files of one word a line with its tags."""

from pathlib import Path

import pytest

from bertology.corpora import Sentences, load_corpus
from bertology.corpora.formats.columns import Columns
from bertology.errors import CorpusError

NO_SPACING = "sentences without spacing, words joined by single spaces"


def read_columns(path: Path, columns: str | None = None) -> Sentences:
    return Columns().load(path, columns=columns)["test"]


@pytest.fixture
def written(tmp_path: Path):
    def write(content: str, name: str = "test.conll") -> Path:
        (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path / name

    return write


def test_conll_2003_in_iob1(written):
    path = written(
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\ncall NN I-NP O\n"
        "Paris NNP B-NP I-LOC\n\n-DOCSTART- -X- O O\n\nBonn NNP I-NP I-LOC\nRome NNP I-NP B-LOC\n"
    )
    corpus = Columns().load(path)
    sentences = corpus["test"]
    assert sentences[0].layers["chunk"] == ("B-NP", "B-VP", "B-NP", "I-NP", "B-NP")
    assert sentences[0].layers["ner"] == ("B-ORG", "O", "B-MISC", "O", "B-LOC")
    assert sentences[1].layers["ner"] == ("B-LOC", "B-LOC")
    assert sentences[1].layers["chunk"] == ("B-NP", "I-NP")
    assert corpus.notes == {
        "-DOCSTART- lines, left out": "2, first at test.conll:1",
        NO_SPACING: "2, first at test.conll:3",
        "chunk tags turned from IOB1 into IOB2": "4, first at test.conll:3",
        "ner tags turned from IOB1 into IOB2": "4, first at test.conll:3",
    }


def test_two_columns_by_tab_with_blank_lines_that_hold_a_tab(written):
    path = written("New York\tB-location\nbound\tO\n\t\n#\tO\nyes\tO\n")
    first, second = read_columns(path)
    assert first.words == ("New York", "bound")
    assert first.layers == {"ner": ("B-location", "O")}
    assert second.words == ("#", "yes")


@pytest.mark.parametrize(
    ("content", "layers"),
    [
        ("runs VERB\nfast ADV\n", {"upos": ("VERB", "ADV")}),
        ("runs VBZ\nfast RB\n", {"xpos": ("VBZ", "RB")}),
        ("runs\tVERB\tVBZ\nfast\tADV\tRB\n", {"upos": ("VERB", "ADV"), "xpos": ("VBZ", "RB")}),
        ("1\truns\tO\n2\tfast\tB-X\n", {"ner": ("O", "B-X")}),
        ("runs O\nfast O\n", {"ner": ("O", "O")}),
        ("runs B-VP\nfast O\n", {"chunk": ("B-VP", "O")}),
    ],
)
def test_columns_are_told_by_their_look(written, content, layers):
    assert read_columns(written(content))[0].layers == layers


def test_columns_as_told(written):
    path = written("a\tx\tO\tB-NP\nb\t_\tB-PER\tI-NP\n")
    (sentence,) = read_columns(path, columns="form,lemma,_,chunk")
    assert sentence.layers == {"lemma": ("x", None), "chunk": ("B-NP", "I-NP")}
    (same,) = load_corpus(path, columns=["form", "lemma", "_", "chunk"])["test"]
    assert same == sentence


def test_universal_ner_has_its_spacing_from_the_text_comment(written):
    path = written(
        "# newdoc id = d\n# sent_id = d-1\n# text = In Rome, yes.\n"
        "1\tIn\tO\t-\t-\n2\tRome\tB-LOC\t-\tann\n3\t,\tO\t-\t-\n4\tyes\tO\t-\t-\n5\t.\tO\t-\t-\n\n"
        "# sent_id = d-2\n# text = other words\n1\tIn\tO\t-\t-\n2\tRome\tB-LOC\t-\tann\n",
        "en_made-ud-dev.iob2",
    )
    corpus = load_corpus(path)
    first, second = corpus["dev"]
    assert first.text == "In Rome, yes."
    assert [first.text[a:b] for a, b in first.spans] == list(first.words)
    assert (first.id, second.id) == ("d-1", "d-2")
    assert first.layers == {"ner": ("O", "B-LOC", "O", "O", "O")}
    assert first.comments[0] == " newdoc id = d"
    assert second.text == "In Rome"
    assert corpus.language == "en"
    assert corpus.notes == {
        "sentences whose words do not spell their `# text`, joined by single spaces": "1, first at "
        "en_made-ud-dev.iob2:12"
    }


def test_all_splits_have_the_layers_of_the_first(tmp_path):
    (tmp_path / "train.txt").write_text("a NN B-NP\nb NN O\n")
    (tmp_path / "test.txt").write_text("a NN O\nb NN O\n")  # by itself it would look like ner
    corpus = load_corpus(tmp_path)
    assert {split: sorted(sentences.layers) for split, sentences in corpus.splits.items()} == {
        "train": ["chunk", "xpos"],
        "test": ["chunk", "xpos"],
    }


FAULTS = {
    "few columns": ("a NN O\n\nb NN\n", r"3: found 'b NN'; expected 3 columns parted"),
    "empty word": ("a\tO\n\tO\n", r"2: found '\\tO'; expected 2 columns"),
    "broken span": ("a B-X\n\nb O\nc I-X\n", "4: ner tag: found 'I-X'; expected B- where a span begins"),
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nb\n", "test.conll: first line: found 'a'; expected a word and its tags, p"),
        ("a fine film\t1\na dull film\t0\n", "test.conll: first line: found 'a fine film 1'"),
        ("1\ta\ta\tX\tX\t_\t0\troot\t_\t_\n", "test.conll: first line: found '1 a a X X _ 0 root _ _'"),
    ],
)
def test_what_is_no_column_file(written, content, message):
    with pytest.raises(CorpusError, match=message):
        read_columns(written(content))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_file_and_line(written, fault):
    content, message = FAULTS[fault]
    with pytest.raises(CorpusError, match=f"test.conll:{message}") as caught:
        read_columns(written(content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("columns", ["xpos,chunk", "form,,chunk", "form,head", "form,xpos", "form,xpos,xpos"])
def test_columns_that_are_told_wrongly(written, columns):
    with pytest.raises(CorpusError, match=f"columns: found '{columns}'; expected form"):
        read_columns(written("a NN O\n"), columns=columns)
