"""CoNLL-U: what is read, what is written, and every way in which a file can be wrong."""

import gzip
from pathlib import Path

import pytest

from bertology.corpora import MultiwordToken, Sentence, Sentences, Target, load_corpus, write_conllu
from bertology.corpora._files import Oddities
from bertology.corpora.formats.conllu import read_conllu
from bertology.errors import CorpusError

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
    with pytest.raises(CorpusError, match=r"out.conllu: sentence 's1': found .*; expected values that are not em"):
        write_conllu(tmp_path / "out.conllu", [Sentence.from_words([word], id="s1")])
    assert not (tmp_path / "out.conllu").exists()


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


def test_a_treebank_in_pieces(tmp_path):
    for piece in ("b", "a"):
        line = f"1\t{piece}\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
        (tmp_path / f"cs_pdt-ud-train-{piece}.conllu").write_text(line)
    corpus = load_corpus(tmp_path)
    assert [sentence.text for sentence in corpus["train"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("valid.conllu", "dev"),
        ("train-test.conllu", "test"),
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
        with pytest.raises(CorpusError, match=r"dev.conllu.gz: not a complete gzip file \(.*\); pack it again$"):
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


def test_two_columns_of_conllu_plus_have_two_names(tmp_path):
    (tmp_path / "test.conllup").write_text(PLUS.replace("UPOS PARSEME:MWE", "UPOS UPOS"))
    with pytest.raises(CorpusError, match=r"test.conllup:1: global.columns: found 'ID FORM UPOS UPOS'"):
        load_corpus(tmp_path)


GOOD = "1\tgood\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def row(identifier: str = "1", form: str = "a", head: str = "0", misc: str = "_") -> str:
    return f"{identifier}\t{form}\t_\t_\t_\t_\t{head}\tdep\t_\t{misc}\n"


FAULTS = {
    "few columns": ("1\ta\t_\n", "3: found '3 columns'; expected 10, parted by tabs"),
    "empty misc": (row() + row("2", misc=""), "4: found 'nothing in column MISC'; expected _ for no value"),
    "head a numeral of python": (row(head="0_0"), "3: found 'HEAD 0_0'"),
    "order": (row("2"), "3: found 'ID 2'; expected word 1; a"),
    "token past the end": ("1-3\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row("1"), "3: found 'ID 1-3'; expected .* word 1"),
    "node late": (row("1") + row("2.1"), "4: found 'ID 2.1'; expected word 2"),
    "only a node": (row("0.1"), "3: found 'no words'"),
    "cut short": ("# sent_id = 2\n", "3: found 'comments at the end'; expected words after them"),
}


CIRCLES = {
    "own head": (row(head="1"), "1: found .heads in a circle: 1 → 1"),
    "circle behind a token": (
        "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row("1", head="2") + row("2", head="1"),
        "2: found .heads in a circle: 1 → 2 → 1",
    ),
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_a_circle_is_left_out_and_named_where_there_is_nothing_else(tmp_path: Path, circle: str):
    lines, message = CIRCLES[circle]
    path = tmp_path / "bad.conllu"
    path.write_text(GOOD + lines, encoding="utf-8")
    corpus = load_corpus(path)
    assert len(corpus["test"]) == 1
    assert corpus.skipped == {"sentences whose heads form a circle": ("bad.conllu:3",)}
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(CorpusError, match=f"bad.conllu:{message}"):
        load_corpus(path)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_file_and_line(tmp_path: Path, fault: str):
    lines, message = FAULTS[fault]
    path = tmp_path / "bad.conllu"
    path.write_text(GOOD + lines, encoding="utf-8")
    with pytest.raises(CorpusError, match=f"bad.conllu:{message}") as caught:
        list(read_conllu(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "\n\n", "  \n"])
def test_an_empty_file(tmp_path: Path, content: str):
    path = tmp_path / "empty.conllu"
    path.write_text(content)
    with pytest.raises(CorpusError, match=r"empty.conllu: no sentence in it; give a CoNLL-U file with words"):
        load_corpus(path)


def test_files_that_name_no_split(tmp_path: Path):
    for name in ("one.conllu", "two.conllu"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(CorpusError, match=r"no CoNLL-U file there has train, dev or test in its name \(one"):
        load_corpus(tmp_path)


def _conllu(*rows: str, comments: str = "") -> str:
    lines = []
    for number, row in enumerate(rows, 1):
        form, misc = row.split(" ")
        name = form if "." in form else str(number)
        lines.append(f"{name}\t{form}\t_\tX\t_\t_\t{0 if number == 1 else 1}\tx\t_\t{misc}\n")
    return comments + "# sent_id = s\n" + "".join(lines) + "\n"


def _read(tmp_path: Path, text: str, oddities: Oddities | None = None) -> list[Sentence]:
    path = tmp_path / "made.conllu"
    path.write_text(text)
    return list(read_conllu(path, oddities=oddities))


GUM = _conllu(
    "Ann Entity=(e1-person-new-1-coref",
    "Lee Entity=e1)|SpaceAfter=No",
    "and _",
    "her Bridge=x|Entity=(e2-person-new-2-sgl(e1-person-giv-1-ana)",
    "dog Entity=e2)",
)


def test_mentions_and_their_pairs(tmp_path):
    (sentence,) = _read(tmp_path, GUM)
    assert sentence.text == "Ann Leeand her dog"
    assert sentence.targets["entities"] == (
        Target((0, 2), "person"),
        Target((3, 4), "person"),
        Target((3, 5), "person"),
    )
    assert sentence.targets["coref"] == (
        Target((0, 2), "1", (3, 4)),
        Target((0, 2), "0", (3, 5)),
        Target((3, 4), "0", (3, 5)),
    )
    assert sentence.targets["mentions"] == (Target((0, 2), "e1"), Target((3, 5), "e2"), Target((3, 4), "e1"))
    write_conllu(tmp_path / "again.conllu", [sentence])
    (again,) = read_conllu(tmp_path / "again.conllu")
    assert again.targets == sentence.targets


def test_a_header_says_which_field_is_which(tmp_path):
    header = "# global.Entity = entity-GRP-infstat\n"
    text = _conllu("Ann Entity=(person-7-new", "Lee Entity=person-7)", "she Entity=(person-7-giv)", comments=header)
    (sentence,) = _read(tmp_path, text)
    assert sentence.targets["entities"] == (Target((0, 2), "person"), Target((2, 3), "person"))
    assert sentence.targets["coref"] == (Target((0, 2), "1", (2, 3)),)
    header = "# global.Entity = eid-head-other\n"
    (sentence,) = _read(tmp_path, _conllu("Ann Entity=(e1-1-x)", "she Entity=(e1)", comments=header))
    assert set(sentence.targets) == {"coref", "mentions"}


def test_what_is_no_span_of_words_is_left_out_and_listed(tmp_path):
    oddities = Oddities()
    text = (
        "1\tAnn\t_\tX\t_\t_\t0\tx\t_\tEntity=(e1[1/2]-person)(e2-thing)\n"
        "1.1\t_\t_\t_\t_\t_\t_\t_\t_\tEntity=(e3-thing)\n"
        "2\tsang\t_\tX\t_\t_\t1\tx\t_\tEntity=(e1[2/2]-person)\n\n"
    )
    (sentence,) = _read(tmp_path, text, oddities)
    assert sentence.targets == {"entities": (Target((0, 1), "thing"),), "mentions": (Target((0, 1), "e2"),)}
    assert oddities.skipped() == {
        "discontinuous mentions": ("made.conllu:1", "made.conllu:3"),
        "mentions of empty nodes alone": ("made.conllu:2",),
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a Entity=(e1-x", "b _"], "made.conllu:2: found 'e1-x'; expected a bracket that closes "),
        (["a _", "b Entity=e1)"], r"made.conllu:3: found 'e1\)'; expected a bracket that opens b"),
        (["a Entity=e1-x"], r"made.conllu:2: found 'e1-x'; expected brackets as in \(NP\* \*\)"),
    ],
)
def test_brackets_that_do_not_match(tmp_path, rows, message):
    with pytest.raises(CorpusError, match=message):
        _read(tmp_path, _conllu(*rows))
