"""LaTeX that means what the picture shows; a dictionary that displaCy draws."""

import dataclasses
import re
import shutil
import subprocess

import pytest
from spacy import displacy

from bertology.errors import ResultsError
from bertology.results.trees import to_displacy, to_tikz

EDGE = re.compile(r"\\depedge\[(.*)\]\{(\d+)\}\{(\d+)\}\{(.*)\}$", flags=re.MULTILINE)
ROOT = re.compile(r"\\deproot\[(.*)\]\{(\d+)\}\{root\}$", flags=re.MULTILINE)


def edges(tikz, *, below):
    """Head, dependent and style of the edges of one side."""
    found = EDGE.findall(tikz)
    return {
        (int(head), int(dependent)): next(style for style in ("agreed", "missed", "invented") if style in options)
        for options, head, dependent, _ in found
        if ("edge below" in options) == below
    }


def cells(tikz):
    (line,) = re.findall(r"\\begin\{deptext\}.*\n    (.*) \\\\\n", tikz)
    return line.split(r" \& ")


def test_tikz_has_gold_above_and_the_prediction_below(directed):
    tikz = to_tikz(directed)
    gold = {(head, place): "agreed" for place, head in enumerate(directed.gold[:8], start=1) if head}
    assert edges(tikz, below=False) == {**gold, (6, 5): "missed", (8, 7): "missed"}
    predicted = {(head, place): "agreed" for place, head in enumerate(directed.heads[:8], start=1) if head}
    assert edges(tikz, below=True) == {**predicted, (4, 5): "invented", (6, 7): "invented"}
    assert [(int(place), "edge below" in options) for options, place in ROOT.findall(tikz)] == [(6, False), (6, True)]


def test_longer_edges_are_higher_in_tikz(directed):
    heights = {
        (int(head), int(dependent)): float(re.search(r"edge height=([\d.]+)ex", options)[1])
        for options, head, dependent, _ in EDGE.findall(to_tikz(directed))
        if "below" not in options
    }
    assert heights[6, 2] > heights[2, 4] > heights[4, 3]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("AT&T", r"{AT\symbol{38}T}"),
        ("50%", r"{50\%}"),
        ("$x_1^{2}", r"{\$x\_1\textasciicircum{}\{2\}}"),
        ("[", "{[}"),
        ("|", r"{\textbar{}}"),
        ("--", "{-{}-}"),
        ("\\&", r"{\textbackslash{}\symbol{38}}"),
        ("#1", r"{\#1}"),
        ("a\nb", "{a b}"),
        ("", "{}"),
        ("naïve", "naïve"),
    ],
)
def test_words_keep_their_letters_in_latex(make, word, expected):
    assert cells(to_tikz(make((0, 1), words=(word, "b")))) == [expected, "b"]


def test_latex_says_what_it_needs(make):
    assert "T1" in to_tikz(make((0, 1))).splitlines()[0]
    assert "LuaLaTeX" in to_tikz(make((0, 1), words=("猫", "x"))).splitlines()[0]


def test_braces_and_environments_are_closed(make, make_tree):
    reading = make(make_tree(30, 5), noise=1.0, directed=True)
    tikz = to_tikz(reading)
    assert tikz.count("{") == tikz.count("}")
    assert tikz.count(r"\begin") == tikz.count(r"\end") == 2


def test_tikz_compiles(directed, make, tmp_path):
    """Where a LaTeX with the package is installed."""
    if shutil.which("pdflatex") is None or not _has_package():
        pytest.skip("no LaTeX with tikz-dependency found: install texlive-pictures and texlive-latex-extra")
    odd = make((0, 1, 2, 2), words=("AT&T", "[|]", "\\{$x_1%", "--"), directed=True)
    body = "\n\n".join(to_tikz(reading) for reading in (directed, odd, dataclasses.replace(directed, heads=None)))
    page = "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{tikz-dependency}\n"
    (tmp_path / "trees.tex").write_text(f"{page}\\begin{{document}}\n{body}\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "trees.tex"],
        cwd=tmp_path, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    assert (tmp_path / "trees.pdf").stat().st_size > 1000


def _has_package():
    found = [
        subprocess.run(["kpsewhich", name], capture_output=True, check=False)
        for name in ("tikz-dependency.sty", "environ.sty")
    ]
    return all(done.stdout.strip() for done in found)


def test_displacy_draws_the_predicted_tree(directed):
    made = to_displacy(directed)
    assert [word["text"] for word in made["words"]] == list(directed.words)
    assert {(arc["start"], arc["end"]) for arc in made["arcs"]} == set(directed.edges)
    for arc in made["arcs"]:
        dependent = arc["start"] if arc["dir"] == "left" else arc["end"]
        head = arc["end"] if arc["dir"] == "left" else arc["start"]
        assert directed.heads[dependent] == head + 1
        assert arc["label"] == directed.relations[dependent]
    svg = displacy.render(made, style="dep", manual=True)
    assert svg.count("displacy-arrowhead") == 7
    assert all(f">{word}</tspan>" in svg for word in directed.words)


def test_a_tree_that_is_not_there_is_refused(raw):
    with pytest.raises(ResultsError, match="no gold tree"):
        to_displacy(raw, tree="gold")
    with pytest.raises(ResultsError, match="choose gold or predicted"):
        to_displacy(raw, tree="silver")
