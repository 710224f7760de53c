"""``bertology tokenize``: how tokenizers arrive at the pieces of a text, and how they cut a corpus."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertology._text import aligned
from bertology.cli.probe import COLUMNS_HELP

if TYPE_CHECKING:
    from bertology.corpora import Corpus, Sentences
    from bertology.encoders.alignment import PieceReader
    from bertology.encoders.tokenization import TokenTrace


def tokenize(
    text: Annotated[str | None, typer.Argument(help="A text to cut; left out with --corpus or --morphs.")] = None,
    *,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="pocket, a folder, or a hub id; several are compared.")
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", "-c", help="Measure how this corpus is cut; of several, or several languages, each."),
    ] = None,
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    split: Annotated[str, typer.Option(help="The split of the corpus.")] = "test",
    morphs: Annotated[
        Path | None,
        typer.Option(help="Compare with the morphs in this CSV: pt1 and rest, or word, then morphs."),
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Ways to cut that are shown of Unigram tokenizers.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Write the steps to this HTML page as well.")] = None,
) -> None:
    """Show how a tokenizer arrives at its pieces, step by step; or measure how it cuts a corpus."""
    from bertology.corpora import load_corpus
    from bertology.encoders import load_reader, resolve_model
    from bertology.encoders.tokenization import trace_tokens
    from bertology.errors import CorpusError

    if text is None and not corpus and morphs is None:
        raise CorpusError("nothing to cut: give a text, --corpus or --morphs")
    if out is not None and not text:
        raise CorpusError("--out writes the steps of a text: give one")
    sources = [resolve_model(name) for name in model or ["pocket"]]
    readers = {source.title: load_reader(source) for source in sources}
    if text is not None:
        traces = {name: trace_tokens(reader.backend, text, n_best=n_best) for name, reader in readers.items()}
        for name, trace in traces.items():
            typer.echo(_steps(name, trace))
        if out is not None:
            _write_page(out, text, traces)
    parts = [part for name in corpus or () for part in _parts(load_corpus(name, columns=columns), split)]
    for place, (name, sentences) in enumerate(parts):
        typer.echo(_table(f"{name} {split}", sentences, readers, reference=parts[0] if place else None))
    if morphs is not None:
        typer.echo(_morph_table(morphs, readers))


def _steps(name: str, trace: TokenTrace) -> str:
    lines = [f"{name} · {trace.kind} · {len(trace.pieces)} pieces", f"  {' '.join(trace.pieces)}", ""]
    for word in trace.words:
        steps = word.steps if len(word.steps) > 2 else word.steps[-1:]
        width = max(len(" ".join(step.pieces)) for step in steps)
        lines += [f"  {word.text} → {' '.join(word.pieces)}"]
        if len(word.steps) > 2:
            lines += [f"    {' '.join(step.pieces):<{width}}  {step.reason}" for step in steps]
    return "\n".join(lines) + "\n"


def _parts(corpus: Corpus, split: str) -> list[tuple[str, Sentences]]:
    """The split of a corpus by its name, or of a corpus of several languages that of each language."""
    from bertology.corpora import ParallelText

    if split not in corpus:
        raise corpus.split_not_found(split)
    sentences = corpus[split]
    if "language" not in sentences.target_layers:
        return [(corpus.name, sentences)]
    text = ParallelText.of(sentences)
    return [(f"{language} of {corpus.name}", text.alone(language)) for language in text.languages]


def _table(
    name: str, sentences: Sentences, readers: dict[str, PieceReader], *, reference: tuple[str, Sentences] | None
) -> str:
    from bertology.encoders.tokenization import tokenizer_parity, tokenizer_scores

    by_model = {model: list(tokenizer_scores(reader, sentences)) for model, reader in readers.items()}
    if reference is not None:
        for model, reader in readers.items():
            if (parity := tokenizer_parity(reader, sentences, reference[1])) is not None:
                by_model[model].append(replace(parity, measure=f"parity with {reference[0]}"))
    rows = [["measure", *by_model]]
    for scores in zip(*by_model.values(), strict=True):
        cells = []
        for score in scores:
            interval = "" if math.isnan(score.ci_low) else f" [{score.ci_low:.3f}, {score.ci_high:.3f}]"
            cells.append(f"{score.value:.3f}{interval}")
        rows.append([scores[0].measure.replace("_", " "), *cells])
    n_words = f"{sentences.n_words:,} words of {name}; [ ] 95 %, bootstrap over sentences"
    return f"{_aligned(rows)}\n\n{n_words}\n"


def _morph_table(path: Path, readers: dict[str, PieceReader]) -> str:
    from bertology.encoders.tokenization import morph_scores, read_morphs

    words = list(read_morphs(path))
    by_model = {name: morph_scores(reader, words) for name, reader in readers.items()}
    fields = ("precision", "recall", "f1", "morph_score", "n_words", "n_whole")
    rows = [["boundaries of morphs", *by_model]]
    for field in fields:
        values = [getattr(scores, field) for scores in by_model.values()]
        cells = [f"{value:,}" if isinstance(value, int) else f"{value:.3f}" for value in values]
        rows.append([{"n_words": "words of two morphs", "n_whole": "… that are one piece"}.get(field, field), *cells])
    return _aligned(rows) + "\n"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    lines = aligned(rows)
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])


def _write_page(path: Path, text: str, traces: dict[str, TokenTrace]) -> None:
    from bertology._page import full_page, write_page

    def shown(pieces: Sequence[str]) -> str:
        return "".join(f'<span class="p">{html.escape(piece)}</span>' for piece in pieces)

    parts = []
    for name, trace in traces.items():
        parts.append(f"<h2>{html.escape(name)} · {trace.kind} · {len(trace.pieces)} pieces</h2>")
        for word in trace.words:
            rows = "".join(f"<tr><td>{html.escape(s.reason)}</td><td>{shown(s.pieces)}</td></tr>" for s in word.steps)
            summary = f"<summary>{html.escape(word.text)} → {shown(word.pieces)}</summary>"
            parts.append(f'<details>{summary}<div class="scroll"><table>{rows}</table></div></details>')
    folder = "cli/assets/tokenize."
    values = {"text": html.escape(text), "body": "".join(parts)}
    page = full_page(f"{folder}html", title=text, styles=[f"{folder}css"], scripts=[], values=values, data=None)
    write_page(path, page)
