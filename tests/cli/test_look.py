"""``bertology attribute`` and ``patch``: what is printed, drawn and refused; the words of the texts of commands."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import circuit, neighbours, patch
from bertology.attention import view
from bertology.encoders import Encoder, load_encoder

Command = Callable[..., Any]
TEXT = "The guards near the dog [MASK] open."


def test_scores_are_printed_and_drawn(bertology: Command, tmp_path: Path) -> None:
    drawn = tmp_path / "scores.svg"
    done = bertology("attribute", TEXT, "--candidates", "are,is", "--out", drawn)
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["The", "guards", "near", "the", "dog", "[MASK]", "open", "."]
    assert lines[1].startswith("integrated gradients ")
    # From the last layer the gradient reaches nothing but the mask.
    (gradients,) = (line for line in lines if line.startswith("gradient × input"))
    assert "layer 4" not in gradients
    assert sum(abs(float(score.replace("−", "-"))) > 0 for score in gradients.split()[-8:]) > 4
    assert "logit of are − logit of is" in done.out
    assert "integrated gradients miss" in done.out
    assert "guards" in drawn.read_text(encoding="utf-8")


def test_a_page_has_every_layer(bertology: Command, tmp_path: Path) -> None:
    arguments = ("attribute", TEXT, "--candidates", "are,is", "--methods", "attention")
    for layers, shown in (((), [1, 2, 3, 4]), (("--layers", "2"), [2])):
        done = bertology(*arguments, *layers, "--format", "json", "--out", tmp_path / "words.html")
        assert done.status == 0, done.err
        assert sorted({row["layer"] for row in json.loads(done.out)}) == shown
        page = (tmp_path / "words.html").read_text(encoding="utf-8")
        assert [f"attention, layer {layer}" in page for layer in (1, 2, 3, 4)] == [one in shown for one in (1, 2, 3, 4)]
    assert {row["layer"] for row in json.loads(bertology(*arguments, "--format", "json").out)} == {4}


def test_scores_as_data(bertology: Command) -> None:
    given = ("--candidates", "are,is", "--methods", "attention,leave_one_out", "--layers", "1,-1")
    arguments = ("attribute", TEXT, *given)
    rows = json.loads(bertology(*arguments, "--format", "json").out)
    assert {(row["method"], row["layer"]) for row in rows} == {("attention", 1), ("attention", 4), ("leave_one_out", 0)}
    assert bertology(*arguments, "--format", "csv").out.startswith(
        "method,layer,place,word,score\nleave_one_out,0,1,The,"
    )


def test_mistakes_of_attributing(bertology: Command, tmp_path: Path) -> None:
    for arguments, problem in (
        ((TEXT, "--candidates", "are"), "1 candidates: give two"),
        ((TEXT, "--candidates", "are,is", "--out", tmp_path / "scores.txt"), "ends in .html, .svg, .pdf or .png"),
    ):
        assert problem in bertology("attribute", *arguments).one_line()


TEXTS = "The guards near the dog [MASK] open.", "The guard near the dog [MASK] open."


def test_effects_are_printed_and_drawn(bertology: Command, tmp_path: Path) -> None:
    text, other = TEXTS
    drawn = tmp_path / "effects.svg"
    done = bertology("patch", text, "--with", other, "--candidates", "are,is", "--out", drawn)
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("layer  1 The  2 guards/guard")
    assert lines[1].split()[:3] == ["0", "0.00", "1.00"]
    assert "hidden state, text into other text; pairs: 1" in done.out
    found = patch(*TEXTS, candidates="are,is")
    base, source = (f"{score:.2f}".replace("-", "−") for score in (found.base[0], found.base[0] + found.whole[0]))
    both = f"{base} in the base text, which is patched (effect 0), {source} in the source text (effect 1)"
    assert f"logit of are − logit of is: {both}" in done.out
    assert "guards/guard" in drawn.read_text(encoding="utf-8")


def test_a_page_of_effects(bertology: Command, tmp_path: Path) -> None:
    text, other = TEXTS
    page = tmp_path / "map.HTML"
    done = bertology("patch", text, "--with", other, "--candidates", "are,is", "--out", page)
    assert done.status == 0, done.err
    assert done.err == f"effects in {page}\n"
    assert "2 guards/guard" in page.read_text(encoding="utf-8")


def test_effects_as_data(bertology: Command) -> None:
    text, other = TEXTS
    arguments = ("patch", text, "--with", other, "--candidates", "are,is", "--site", "head", "--layers", "1,-1")
    done = bertology(*arguments, "--format", "json")
    assert done.status == 0, done.err
    rows = json.loads(done.out)
    assert {row["layer"] for row in rows} == {1, 4}
    assert {row["place"] for row in rows} == {"H1", "H2", "H3", "H4", "all"}
    found = patch(*TEXTS, candidates=("are", "is"), site="head", layers=[1, 4])
    assert [row["effect"] for row in rows] == pytest.approx(found.effects.ravel().tolist(), abs=1e-6)
    csv = bertology(*arguments, "--format", "csv").out
    assert csv.startswith("layer,place,effect,base_score,source_score,measure\n1,H1,")
    for row in rows:
        assert (row["base_score"], row["source_score"]) == pytest.approx(
            (found.base[0], found.base[0] + found.whole[0]), abs=1e-5
        )
    assert {row["measure"] for row in rows} == {"logit of are − logit of is"}


def test_mistakes_of_patching(bertology: Command, tmp_path: Path) -> None:
    text, other = TEXTS
    pair = (text, "--with", other, "--candidates", "are,is")
    for arguments, problem in (
        ((text, "--with", other, "--candidates", "are"), "1 candidates: give two"),
        ((*pair, "--out", tmp_path / "effects.txt"), "ends in .html, .svg, .pdf or .png"),
    ):
        assert problem in bertology("patch", *arguments).one_line()


def test_a_circuit_is_printed_and_drawn(bertology: Command, tmp_path: Path) -> None:
    text, other = TEXTS
    pair, drawn = (text, "--with", other, "--candidates", "are,is"), tmp_path / "circuit.svg"
    done = bertology("circuit", *pair, "--rankings", "eap", "--out", drawn)
    assert done.status == 0, done.err
    found = circuit(*TEXTS, candidates="are,is", rankings=["eap"])
    assert done.out == f"{found}\n"
    assert "pocket, edges by EAP; pairs: 1\nlogit of are − logit of is: " in done.out
    assert "strongest of 207 edges" in drawn.read_text(encoding="utf-8")
    for more, problem in (
        (("--out", tmp_path / "circuit.html"), "a circuit is drawn as a figure"),
        (("--rankings", "shapley"), "unknown ranking of edges 'shapley'"),
        (("--target", "label"), "candidates are the target word=GOOD,BAD"),
    ):
        assert problem in bertology("circuit", *pair, *more).one_line()


# Words of texts


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["The", "dog's", "guards", "[MASK]", "open", "."]),
        (("--language", "en"), ["The", "dog", "'s", "guards", "[MASK]", "open", "."]),
        (("--split-at-spaces",), ["The", "dog's", "guards", "[MASK]", "open."]),
    ],
)
def test_attribute_and_patch(bertology: Command, options: tuple[str, ...], words: list[str]) -> None:
    text, choice = "The dog's guards [MASK] open.", ("--candidates", "are,is", "--format", "json", *options)
    rows = json.loads(bertology("attribute", text, "--methods", "leave_one_out", *choice).out)
    assert [row["word"] for row in rows] == words
    other = text.replace("guards", "guard")
    rows = json.loads(bertology("patch", text, "--with", other, "--layers", "1", *choice).out)
    places = [row["place"].split(" ", 1)[1] for row in rows if row["place"][0].isdigit()]
    assert places == ["guards/guard" if word == "guards" else word for word in words]


def test_neighbours_and_attention(bertology: Command, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    plain = ("--model", tiny_bert, "--corpus", tiny_corpus, "--word", "dog's")
    assert bertology("neighbours", "the dog's cat", *plain, "--split-at-spaces").status == 0
    # By the rules of English these are two words, which the text spells as one.
    assert bertology("neighbours", "the dog's cat", *plain, "--language", "en").out.startswith("the [dog's] cat")
    assert "dogs" in bertology("neighbours", "the dog's cat", *plain[:-1], "dogs", "--language", "en").one_line()
    page = tmp_path / "view.html"
    assert bertology("attention", "我们 看 狗狗", "--model", tiny_bert, "--out", page, "--split-at-spaces").status == 0
    assert '"狗狗"' in page.read_text(encoding="utf-8")
    line = bertology("attention", "我们看狗狗", "--model", tiny_bert, "--out", page).one_line()
    assert "'我们看狗狗' has no spaces between its words: name the language" in line


def test_lists_of_words_are_texts(tiny_bert: Path, tiny_corpus: Path) -> None:
    encoder: Encoder = load_encoder(str(tiny_bert))
    words = ["we", "don't", "see ."]
    found = neighbours(words, "don't", corpus=str(tiny_corpus), model=encoder, k=1)
    assert found.sentence.words == tuple(words)
    shown = view([words], model=encoder).reading.sentences[0]
    assert shown.words == tuple(words)
    assert [label[2] for label in encoder.vectors([words]).labels["word"]] == words
