"""``bertology cloze``: what a masked language model expects at a mask, layer by layer."""

from __future__ import annotations

import math
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer

from bertology._names import aligned, folder_name, layer_label
from bertology.cli._options import Format, closing, print_found, records, with_options

if TYPE_CHECKING:
    import pandas as pd

    from bertology.cloze.asking import ClozeReading
    from bertology.cloze.lens import TunedLens
    from bertology.cloze.prompts import AnswerForm
    from bertology.corpora import Sentence
    from bertology.encoders import Encoder

app = typer.Typer(rich_markup_mode=None)
_WIDTH = 100
_BAR_MOST, _BAR_LEAST = 12, 4
_MOST_TOLD = 10
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@app.command(
    epilog=closing(
        "how-to/cloze",
        'bertology cloze "The capital of France is {mask}."',
        'bertology cloze "The dogs {mask}." --candidates run,runs --layers 0-4',
    )
)
@with_options(
    *("layers", "model", "language", "split_at_spaces", "device", "revision", "trust_remote_code"), model="pocket"
)
def cloze(
    text: Annotated[
        str, typer.Argument(help="A sentence with one {mask}; [MASK] and <mask> do as well; none with --surprisal.")
    ],
    *,
    top: Annotated[int, typer.Option(help="Number of the deepest layer's top words; not with --candidates.")] = 5,
    candidates: Annotated[
        str | None, typer.Option("--candidates", help="Words to show instead, with commas: capital,city.")
    ] = None,
    form: Annotated[
        str, typer.Option(help="Candidates are scored as one_piece, or of any length as original or within_word_l2r.")
    ] = "one_piece",
    surprisal: Annotated[
        bool,
        typer.Option(
            "--surprisal",
            help="Show the surprisal of each word in bits: left to right for GPT-2, else masked one by one.",
        ),
    ] = False,
    lens: Annotated[
        Path | None,
        typer.Option(
            help="Read layers through the tuned lens of this .safetensors file; fitted and written if missing."
        ),
    ] = None,
    lens_corpus: Annotated[str, typer.Option(help="Corpus whose train split a missing lens is fitted to.")] = "pocket",
    format: Format = "table",
    **settings: Any,
) -> None:
    """Ask what an encoder expects at a mask, and in which layer it starts to; or how surprising each word is.

    Every layer is read by the model's own masked-LM head (the logit lens), or through translators fitted to text (the
    tuned lens); the last one is the model's answer.
    """
    from bertology.cloze import Prompt, read_cloze
    from bertology.cloze.prompts import check_form
    from bertology.corpora import as_sentence
    from bertology.encoders import load_encoder
    from bertology.errors import ClozeError, quoted
    from bertology.families.request import parse_layers

    model, layers = settings.pop("model"), settings.pop("layers")
    of_text = {name: settings.pop(name) for name in ("language", "split_at_spaces")}
    loaded = partial(load_encoder, model, **settings)
    if surprisal:
        is_plain = candidates is None and form == "one_piece" and layers == "all" and lens is None
        if not is_plain or Prompt(text).n_masks:
            raise ClozeError(
                "--surprisal reads all words of a text: leave masks, candidates, form, layers and lens out"
            )
        sentence = as_sentence(text, **of_text)
        _print_surprisal(loaded(), sentence, format)
        return
    if any(of_text.values()):
        raise ClozeError("--language and --split-at-spaces find the words of a text: give them with --surprisal")
    words = tuple(word.strip() for word in (candidates or "").split(",") if word.strip())
    if candidates is not None and not words:
        raise ClozeError("no candidates: give words with commas, such as --candidates capital,city")
    scored = form.replace("-", "_")
    check_form(scored)
    prompt = Prompt(text, words)
    if not prompt.n_masks:
        raise ClozeError(f"no mask in {quoted(text)}: write {{mask}} where a word is left out")
    encoder = loaded()
    chosen = parse_layers(layers, encoder.n_layers)
    if lens is not None:
        encoder = encoder.through(_lens(lens, encoder, lens_corpus))
    reading = read_cloze(encoder, prompt, layers=chosen, top=top, form=cast("AnswerForm", scored))
    print_found(format, lambda: _table(reading), lambda: _frame(reading), lambda: _plain(reading))
    # On standard error, since what is printed may be read by a program.
    left_out = _left_out(reading) if format == "csv" else []
    for line in [*left_out, *(_toy(reading.model) if format != "table" else [])]:
        typer.echo(line, err=True)


def _lens(path: Path, encoder: Encoder, corpus: str) -> TunedLens:
    """The tuned lens of the file, or one that is fitted now and written to it."""
    from bertology.activations.progress import BarProgress, can_show, silent
    from bertology.cloze.lens import fit_lens, load_lens
    from bertology.corpora import load_corpus

    if path.exists():
        return load_lens(path, encoder)
    fitted = fit_lens(
        encoder, load_corpus(corpus)["train"], progress=BarProgress("tuned lens") if can_show() else silent
    )
    fitted.save(path)
    typer.echo(f"tuned lens in {path}", err=True)
    return fitted


def _table(reading: ClozeReading) -> str:
    """A line a layer: each word's number with a bar, and what the layer itself puts first."""
    plain = reading.form == "one_piece"
    width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
    numbers = [[f"{100 * math.exp(v):.1f}" if plain else f"{v:.1f}" for v in row] for row in reading.log_probs]
    n_words = len(reading.words)
    bar = max(_BAR_LEAST, min(_BAR_MOST, (width - 30 - 9 * n_words) // n_words))
    most = math.exp(reading.log_probs.max())
    lines = [["layer", *reading.words, "first"]]
    widest = [max(map(len, column)) for column in zip(*numbers, strict=True)]
    for place, layer in enumerate(reading.layers):
        cells = [
            f"{number:>{wide}} {_bar(math.exp(value) / most if most else 0.0, bar)}"
            for number, wide, value in zip(numbers[place], widest, reading.log_probs[place], strict=True)
        ]
        lines.append([layer_label(layer), *cells, reading.first[place]])
    unit = "probability, %" if plain else f"sum of log-probabilities of a candidate's pieces, nats ({reading.form})"
    notes = [f"{unit}; the longest bar is {100 * most:.3g} %" if plain else f"{unit}; bars show its exponential",
             "first: the most probable vocabulary entry of the layer",
             f"{folder_name(reading.model)}, every layer through its masked-LM head (the {reading.lens} lens)",
             *_toy(reading.model), *_left_out(reading)]  # fmt: skip
    return "\n".join([reading.text, "", *aligned(lines), "", *notes]) + "\n"


def _print_surprisal(encoder: Encoder, text: Sentence, format: str) -> None:
    from bertology.cloze import surprisal
    from bertology.errors import ClozeError

    found = surprisal(encoder, text)
    if found.excluded:
        raise ClozeError(f"the text is not read: {found.excluded[0].reason}")
    frame = found.to_pandas().drop(columns=["sentence", "text"])

    def table() -> str:
        """A line a word: how surprising it is, with a bar."""
        most = max(found.bits[~np.isnan(found.bits)])
        lines = [("word", "bits", "")]
        for word, bits, reason in zip(found.words, found.bits.tolist(), frame["reason"], strict=True):
            lines.append((word, "–", reason) if reason else (word, f"{bits:.1f}", _bar(bits / most, 2 * _BAR_MOST)))
        wide = max(len(bits) for _, bits, _ in lines)
        given = "the words before it" if found.kind == "causal" else "all other words (pseudo-surprisal)"
        total = f"{frame['surprisal_bits'].sum():.1f} bits in {len(lines) - 1} words, each given {given}"
        rows = aligned([(word, bits.rjust(wide), bar) for word, bits, bar in lines])
        return "\n".join([*rows, "", total, folder_name(encoder.name), *_toy(encoder.name)]) + "\n"

    about = {"text": found.texts[0], "model": encoder.name, "kind": found.kind}
    print_found(format, table, lambda: frame, lambda: {**about, "words": records(frame)})


def _bar(share: float, width: int) -> str:
    """A bar of ``width`` characters at most, in eighths of one."""
    whole, eighths = divmod(round(share * width * 8), 8)
    return ("█" * whole + _EIGHTHS[eighths].strip()).ljust(width)


def _left_out(reading: ClozeReading) -> list[str]:
    if not (n_excluded := len(reading.excluded)):
        return []
    reasons = [f"{excluded.candidate}: {excluded.reason}" for excluded in reading.excluded[:_MOST_TOLD]]
    more = [f"and {n_excluded - _MOST_TOLD} more"] if n_excluded > _MOST_TOLD else []
    hint = " (--form within_word_l2r scores several pieces)" if reading.form == "one_piece" else ""
    total = n_excluded + len(reading.words)
    return [f"{n_excluded} of {total} candidates left out: {'; '.join([*reasons, *more])}{hint}"]


def _toy(model: str) -> list[str]:
    """A note on an embedded model; nothing for other models."""
    from bertology.encoders.sources import known_models

    if "embedded" not in known_models().get(model, ""):
        return []
    return [f"{model} is a toy model trained on sentences about a small invented world: choose another with --model"]


def _frame(reading: ClozeReading) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (layer, word, f"{log_prob:.6f}", rank, reading.form)
        for layer, words in zip(reading.layers, _scores(reading), strict=True)
        for word, log_prob, rank in words
    ]
    return pd.DataFrame(rows, columns=["layer", "word", "log_prob", "rank", "form"])


def _scores(reading: ClozeReading) -> list[list[tuple[str, float, int | None]]]:
    """Each word with its log-probability and rank, by layer."""
    log_probs = reading.log_probs.tolist()
    ranks = [[None] * len(reading.words)] * len(log_probs) if reading.ranks is None else reading.ranks.tolist()
    return [list(zip(reading.words, *layer, strict=True)) for layer in zip(log_probs, ranks, strict=True)]


def _plain(reading: ClozeReading) -> dict[str, Any]:
    layers = [
        {
            "layer": layer,
            "first": {"word": reading.first[place], "log_prob": float(reading.first_log_probs[place])},
            "words": [{"word": word, "log_prob": log_prob, "rank": rank} for word, log_prob, rank in words],
        }
        for place, (layer, words) in enumerate(zip(reading.layers, _scores(reading), strict=True))
    ]
    excluded = [{"candidate": item.candidate, "reason": item.reason} for item in reading.excluded]
    return {"text": reading.text, "model": reading.model, "form": reading.form, "layers": layers, "excluded": excluded}
