"""``Entity=`` in CoNLL-U."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.corpora import Sentence, Target, write_conllu
from bertology.corpora._files import Oddities
from bertology.corpora.formats.conllu import read_conllu
from bertology.errors import CorpusError


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
    assert set(sentence.targets) == {"coref"}


def test_files_without_mentions_stay_as_they_are(tmp_path):
    (sentence,) = _read(tmp_path, _conllu("Ann NamedEntity=Yes", "sang _"))
    assert sentence.targets == {}


def test_what_is_no_span_of_words_is_left_out_and_listed(tmp_path):
    oddities = Oddities()
    text = (
        "1\tAnn\t_\tX\t_\t_\t0\tx\t_\tEntity=(e1[1/2]-person)(e2-thing)\n"
        "1.1\t_\t_\t_\t_\t_\t_\t_\t_\tEntity=(e3-thing)\n"
        "2\tsang\t_\tX\t_\t_\t1\tx\t_\tEntity=(e1[2/2]-person)\n\n"
    )
    (sentence,) = _read(tmp_path, text, oddities)
    assert sentence.targets == {"entities": (Target((0, 1), "thing"),)}
    assert oddities.skipped() == {
        "discontinuous mentions": ("made.conllu:1", "made.conllu:3"),
        "mentions of empty nodes alone": ("made.conllu:2",),
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a Entity=(e1-x", "b _"], r"made.conllu:2: Entity opens \(e1 here, which does not close in the sentence"),
        (["a _", "b Entity=e1)"], r"made.conllu:3: Entity closes e1\), which is not open; open it in this sentence"),
        (["a Entity=(e1-x)e1)"], r"made.conllu:2: Entity closes e1\), which is not open"),
        (["a Entity=e1-x"], r"made.conllu:2: Entity=e1-x is not brackets as in .*; check it from 'e1-x'"),
        (["a Entity=(e1-x)?"], r"made.conllu:2: Entity=\(e1-x\)\? is not brackets as in .*; check it from '\?'"),
    ],
)
def test_brackets_that_do_not_match(tmp_path, rows, message):
    with pytest.raises(CorpusError, match=message):
        _read(tmp_path, _conllu(*rows))
