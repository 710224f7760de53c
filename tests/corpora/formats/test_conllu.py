"""CoNLL-U in and out."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bertology.corpora import MultiwordToken, Sentence, Sentences, load_corpus, write_conllu
from bertology.corpora._files import Oddities
from bertology.corpora.formats.conllu import read_conllu
from bertology.errors import CorpusError, StoreError

SAMPLE = """\
# newdoc id = d1
# sent_id = fr-1
# text = Il vient du port, "là".
1\tIl\til\tPRON\t_\tGender=Masc|Number=Sing\t2\tnsubj\t_\t_
2\tvient\tvenir\tVERB\t_\tNumber=Sing\t0\troot\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\tCorrectSpaceAfter=No
3\tde\tde\tADP\t_\t_\t5\tcase\t_\tSpaceAfter=No
4\tle\tle\tDET\t_\tDefinite=Def\t5\tdet\t_\t_
5\tport\tport\tNOUN\t_\t_\t2\tobl\t_\tA=1|SpaceAfter=No
6\t,\t,\tPUNCT\t_\t_\t2\tpunct\t_\t_
7\t"\t"\tPUNCT\t_\t_\t8\tpunct\t_\tSpaceAfter=No
8\tlà\tlà\tADV\t_\t_\t2\tadvmod\t_\tSpaceAfter=No
8.1\tvenir\tvenir\tVERB\t_\t_\t_\t_\t2:conj\t_
9\t"\t"\tPUNCT\t_\t_\t8\tpunct\t_\tSpaceAfter=No
10\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

#
# text = _ cannot
1\t_\t_\tSYM\t_\t_\t0\troot\t0:root\t_
2-3\tcannot\t_\t_\t_\tTypo=Yes\t_\t_\t_\tSpaceAfter=No
2\tcan\t_\tAUX\tMD\t_\t1\tdep\t1:dep\t_
3\tnot\tnot\tPART\tRB\t_\t1\tdep\t1:dep\tSpaceAfter=No
3.1\tx\tx\tX\t_\t_\t_\t_\t1:dep\t_
3.2\ty\ty\tX\t_\t_\t_\t_\t1:dep\t_

"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "fr_made-ud-dev.conllu"
    path.write_text(SAMPLE, encoding="utf-8")
    return path


def test_words_spacing_and_multiword_tokens(sample):
    first, second = read_conllu(sample)
    assert first.id == "fr-1"
    assert first.text == 'Il vient du port, "là".'
    assert first.words == ("Il", "vient", "de", "le", "port", ",", '"', "là", '"', ".")
    assert [first.text[a:b] for a, b in first.spans] == ["Il", "vient", "du", "du", "port", ",", '"', "là", '"', "."]
    assert first.multiword == (MultiwordToken(2, 3, "du", misc="CorrectSpaceAfter=No"),)
    assert second.text == "_ cannot"
    assert second.spans == ((0, 1), (2, 5), (5, 8))
    assert second.multiword == (MultiwordToken(1, 2, "cannot", misc="SpaceAfter=No", feats="Typo=Yes"),)


def test_layers_heads_comments_and_empty_nodes(sample):
    first, second = read_conllu(sample)
    assert first.layers["upos"][:3] == ("PRON", "VERB", "ADP")
    assert "xpos" not in first.layers
    assert "deps" not in first.layers
    assert first.layers["misc"][2:6] == ("SpaceAfter=No", None, "A=1|SpaceAfter=No", None)
    assert first.layers["feats"][0] == "Gender=Masc|Number=Sing"
    assert first.heads == (2, 0, 5, 5, 2, 2, 8, 2, 8, 2)
    assert first.comments == (" newdoc id = d1", " sent_id = fr-1", ' text = Il vient du port, "là".')
    assert first.empty_nodes == ("8.1\tvenir\tvenir\tVERB\t_\t_\t_\t_\t2:conj\t_",)
    assert second.layers["xpos"] == (None, "MD", "RB")
    assert second.layers["deps"] == ("0:root", "1:dep", "1:dep")


def test_an_underscore_is_no_value_unless_it_is_the_word(sample):
    _, second = read_conllu(sample)
    assert second.words[0] == "_"
    assert second.layers["lemma"] == ("_", None, "not")


def test_a_sentence_without_sent_id_is_named_by_its_number(sample):
    assert [sentence.id for sentence in read_conllu(sample)] == ["fr-1", "2"]


def test_writing_what_was_read_gives_the_same_bytes(sample, tmp_path):
    text = SAMPLE.replace("#\n# text", "#\n# sent_id = fr-2\n# text")
    sample.write_text(text, encoding="utf-8")
    write_conllu(tmp_path / "out.conllu", Sentences(read_conllu(sample)))
    assert (tmp_path / "out.conllu").read_text(encoding="utf-8") == text


def test_line_ends_of_windows_a_byte_order_mark_and_a_missing_last_line_end_change_nothing(sample, tmp_path):
    other = tmp_path / "other.conllu"
    other.write_bytes(b"\xef\xbb\xbf" + SAMPLE.rstrip("\n").replace("\n", "\r\n").encode())
    assert list(read_conllu(other)) == list(read_conllu(sample))


def test_sentences_of_other_origin_get_comments_and_spacing(tmp_path):
    sentence = Sentence.from_words(
        ["Do", "n't", "go", "!"],
        id="s1",
        multiword=[MultiwordToken(0, 1, "Don't")],
        space_after=[False, True, False, True],
        layers={"upos": ("AUX", "PART", "VERB", "PUNCT"), "ner": ("O", "O", "B-ACT", None)},
        heads=(3, 3, 0, 3),
    )
    write_conllu(tmp_path / "out.conllu", [sentence])
    assert (tmp_path / "out.conllu").read_text().splitlines() == [
        "# sent_id = s1",
        "# text = Don't go!",
        "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tDo\t_\tAUX\t_\t_\t3\t_\t_\tner=O",
        "2\tn't\t_\tPART\t_\t_\t3\t_\t_\tner=O",
        "3\tgo\t_\tVERB\t_\t_\t0\t_\t_\tner=B-ACT|SpaceAfter=No",
        "4\t!\t_\tPUNCT\t_\t_\t3\t_\t_\t_",
        "",
    ]
    (back,) = read_conllu(tmp_path / "out.conllu")
    assert (back.text, back.spans, back.heads, back.id) == (sentence.text, sentence.spans, sentence.heads, "s1")


@pytest.mark.parametrize("word", ["a\tb", "a\nb", ""])
def test_a_word_that_conllu_cannot_hold_is_refused(tmp_path, word):
    with pytest.raises(CorpusError, match="take it out"):
        write_conllu(tmp_path / "out.conllu", [Sentence.from_words([word], id="s1")])
    assert not (tmp_path / "out.conllu").exists()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another folder"):
        write_conllu(tmp_path / "file" / "out.conllu", [Sentence.from_words(["a"])])


def test_what_is_unusual_is_counted(tmp_path):
    row = "{0}\t{1}\t_\t_\t_\t_\t0\troot\t_\t_\n"
    path = tmp_path / "odd.conllu"
    path.write_text(
        "# sent_id = a\n# text = one  two \n" + row.format(1, "one") + row.format(2, "two") + "\n"
        "# sent_id = a\n# text = onetwo\n" + row.format(1, "one") + row.format(2, "two") + "\n"
    )
    oddities = Oddities()
    assert [sentence.text for sentence in read_conllu(path, oddities=oddities)] == ["one two", "one two"]
    assert oddities.notes() == {
        "sentences with several roots": "2, first at odd.conllu:3",
        "sentences whose words do not spell their `# text`": "1, first at odd.conllu:8",
        "sent_id used twice": "1, first at odd.conllu:8",
    }
    assert load_corpus(path).notes == oddities.notes()


def test_a_file_is_read_as_it_is_asked_for(tmp_path):
    """Sentences before a fault are there before it is met: nothing reads the file whole."""
    path = tmp_path / "long.conllu"
    path.write_text("1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n1\tb\n")
    sentences = read_conllu(path)
    assert next(sentences).words == ("a",)
    with pytest.raises(CorpusError, match=r"long.conllu:3: 2 columns"):
        next(sentences)


def test_a_folder_with_a_file_a_split(sample, tmp_path):
    (tmp_path / "fr_made-ud-train.conllu").write_text(SAMPLE)
    (tmp_path / "LICENSE.txt").write_text("free")
    corpus = load_corpus(tmp_path)
    assert list(corpus.splits) == ["train", "dev"]
    assert corpus.language == "fr"
    assert corpus.annotator is None
    assert [len(split) for split in corpus.splits.values()] == [2, 2]


def test_a_treebank_in_pieces(tmp_path):
    for piece in ("b", "a"):
        line = f"1\t{piece}\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
        (tmp_path / f"cs_pdt-ud-train-{piece}.conllu").write_text(line)
    corpus = load_corpus(tmp_path)
    assert [sentence.text for sentence in corpus["train"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("en_ewt-ud-train.conllu", "train"),
        ("my.dev.conllu", "dev"),
        ("valid.conllu", "dev"),
        ("latest.conllu", "test"),
        ("train-test.conllu", "test"),
        ("anything.conllu", "test"),
    ],
)
def test_one_file_is_the_split_its_name_speaks_of(tmp_path, name, split):
    (tmp_path / name).write_text(SAMPLE)
    assert list(load_corpus(tmp_path / name).splits) == [split]
    assert list(load_corpus(tmp_path).splits) == [split]


def test_a_circle_of_heads_leaves_its_sentence_out(tmp_path):
    row = "{0}\t{1}\t_\tX\t_\t_\t{2}\tdep\t_\t_\n"
    whole = row.format(1, "a", 2) + row.format(2, "b", 0) + "\n"
    path = tmp_path / "odd.conllu"
    path.write_text(f"# newdoc id = d\n{whole}{row.format(1, 'c', 2)}{row.format(2, 'd', 1)}\n{whole}")
    corpus = load_corpus(path)
    assert [(sentence.id, sentence.text, sentence.group) for sentence in corpus["test"]] == [
        ("1", "a b", "d"),
        ("3", "a b", "d"),
    ]
    assert corpus.skipped == {"sentences whose heads form a circle": ("odd.conllu:5",)}


def test_a_packed_file_is_the_file(sample, tmp_path):
    (tmp_path / "en_x-ud-dev.conllu").write_bytes(sample.read_bytes())
    packed = tmp_path / "packed" / "en_x-ud-dev.conllu.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(sample.read_bytes()))
    plain = load_corpus(tmp_path / "en_x-ud-dev.conllu")
    for path in (packed, packed.parent):
        corpus = load_corpus(path)
        assert (corpus.fingerprint, corpus.language, list(corpus.splits)) == (plain.fingerprint, "en", ["dev"])
    assert load_corpus(packed).name == plain.name
    for content in (packed.read_bytes()[:-20], b"text", packed.read_bytes()[:40] + b"zzzz"):
        packed.write_bytes(content)
        with pytest.raises(CorpusError, match=r"dev.conllu.gz: not a whole gzip file \(.*\); pack it again$"):
            load_corpus(packed)


PLUS = """# global.columns = ID FORM UPOS PARSEME:MWE
# sent_id = a
1-2\tdu\t_\t*
1\tde\tADP\t*
2\tle\tDET\t1:VID

1\tgo\tVERB\t_

"""


def test_columns_of_conllu_plus_are_those_of_its_first_line(tmp_path):
    path = tmp_path / "test.conllup"
    path.write_text(PLUS)
    one, other = load_corpus(tmp_path)["test"]
    assert (one.id, one.text, one.words, one.heads) == ("a", "du", ("de", "le"), None)
    assert one.layers == {"upos": ("ADP", "DET"), "parseme:mwe": (None, "1:VID")}
    assert other.layers == {"upos": ("VERB",)}
    write_conllu(tmp_path / "again.conllu", [one, other])
    assert next(read_conllu(tmp_path / "again.conllu")).words == one.words


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("go\tVERB", "go", r"test.conllup:7: 3 columns where global.columns names 4, parted by tabs"),
        ("ID FORM", "ID", r"test.conllup:1: global.columns lacks ID or FORM"),
        ("UPOS PARSEME:MWE", "UPOS UPOS", r"test.conllup:1: global.columns names UPOS twice"),
    ],
)
def test_what_is_wrong_with_conllu_plus(tmp_path, old, new, message):
    (tmp_path / "test.conllup").write_text(PLUS.replace(old, new))
    with pytest.raises(CorpusError, match=message):
        load_corpus(tmp_path)
