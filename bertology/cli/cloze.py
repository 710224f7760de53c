"""``bertology cloze``: what a masked language model predicts at a mask, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from bertology._names import aligned, folder_name, layer_label
from bertology.cli._options import Format, command, print_found, records, terminal_width

if TYPE_CHECKING:
    import pandas as pd

    from bertology.cloze.asking import ClozeReading
    from bertology.cloze.lens import TunedLens
    from bertology.cloze.prompts import AnswerForm
    from bertology.encoders import Encoder

_BAR_MOST, _BAR_LEAST = 12, 4
_MOST_NAMED = 10
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@command(
    "how-to/cloze",
    'bertology cloze "The capital of France is {mask}."',
    'bertology cloze "The dogs {mask}." --candidates run,runs --layers 0-4',
    settings="layers model language split_at_spaces device revision trust_remote_code",
    model="pocket",
)
def cloze(
    text: str,
    *,
    top: int = 5,
    candidates: str | None = None,
    form: str = "one_piece",
    surprisal: bool = False,
    lens: Path | None = None,
    lens_corpus: str = "pocket",
    format: Format = "table",
    **settings: Any,
) -> None:
    """Show what an encoder predicts at a mask, and from which layer on; or how surprising each word is.

    Every layer is read by the model's own masked-LM head (the logit lens), or through translators fitted to text (the
    tuned lens); the last one is the model's answer.

    Args:
        text: A sentence with one {mask}; [MASK] and <mask> do as well; none with --surprisal.
        top: Number of the deepest layer's top words; not with --candidates.
        candidates: Words to show instead, with commas: capital,city.
        form: Candidates are scored as one_piece, or of any length as original or within_word_l2r.
        surprisal: Show the surprisal of each word in bits: left to right for GPT-2, else masked one by one.
        lens: Read layers through the tuned lens of this .safetensors file; fitted and written if missing.
        lens_corpus: Corpus whose train split a missing lens is fitted to.
    """
    from bertology.cloze import Prompt, read_cloze
    from bertology.cloze.prompts import check_form
    from bertology.encoders import load_encoder
    from bertology.errors import ClozeError, quoted
    from bertology.families.request import parse_layers

    model, layers, *of_text = (settings.pop(name) for name in ("model", "layers", "language", "split_at_spaces"))
    if surprisal:
        is_plain = candidates is None and form == "one_piece" and layers == "all" and lens is None
        if not is_plain or Prompt(text).n_masks:
            raise ClozeError(
                "--surprisal reads all words of a text: leave masks, candidates, form, layers and lens out"
            )
        _print_surprisal(model, settings, text, of_text, format)
        return
    if any(of_text):
        raise ClozeError("--language and --split-at-spaces find the words of a text: give them with --surprisal")
    words = tuple(word.strip() for word in (candidates or "").split(",") if word.strip())
    if candidates is not None and not words:
        raise ClozeError("no candidates: give words with commas, such as --candidates capital,city")
    scored = form.replace("-", "_")
    check_form(scored)
    prompt = Prompt(text, words)
    if not prompt.n_masks:
        raise ClozeError(f"no mask in {quoted(text)}: write {{mask}} where a word is left out")
    encoder = load_encoder(model, **settings)
    chosen = parse_layers(layers, encoder.n_layers)
    if lens is not None:
        encoder = encoder.through(_lens(lens, encoder, lens_corpus))
    reading = read_cloze(encoder, prompt, layers=chosen, top=top, form=cast("AnswerForm", scored))
    print_found(format, lambda: _table(reading), lambda: _frame(reading), lambda: _plain(reading))
    # On standard error, since what is printed may be read by a program.
    for line in [*(_left_out(reading) if format == "csv" else []), *(_toy(reading.model) if format != "table" else [])]:
        typer.echo(line, err=True)


def _lens(path: Path, encoder: Encoder, corpus: str) -> TunedLens:
    """The tuned lens of the file, or one that is fitted now and written to it."""
    from bertology.activations.progress import BarProgress, can_show, silent
    from bertology.cloze.lens import fit_lens, load_lens
    from bertology.corpora import load_corpus

    if path.exists():
        return load_lens(path, encoder)
    progress = BarProgress("tuned lens") if can_show() else silent
    fitted = fit_lens(encoder, load_corpus(corpus)["train"], progress=progress)
    fitted.save(path)
    typer.echo(f"tuned lens in {path}", err=True)
    return fitted


def _table(reading: ClozeReading) -> str:
    """A line a layer: each word's number with a bar, and the layer's most probable entry."""
    plain, n_words = reading.form == "one_piece", len(reading.words)
    numbers = [[f"{100 * math.exp(v):.1f}" if plain else f"{v:.1f}" for v in row] for row in reading.log_probs]
    bar = max(_BAR_LEAST, min(_BAR_MOST, (terminal_width() - 30 - 9 * n_words) // n_words))
    most = math.exp(reading.log_probs.max())
    lines = [["layer", *reading.words, "first"]]
    widest = [max(map(len, column)) for column in zip(*numbers, strict=True)]
    for layer, row, values, first in zip(reading.layers, numbers, reading.log_probs, reading.first, strict=True):
        cells = [
            f"{number:>{wide}} {_bar(math.exp(value) / most if most else 0.0, bar)}"
            for number, wide, value in zip(row, widest, values, strict=True)
        ]
        lines.append([layer_label(layer), *cells, first])
    unit = "probability, %" if plain else f"sum of log-probabilities of a candidate's pieces, nats ({reading.form})"
    notes = [
        f"{unit}; the longest bar is {100 * most:.3g} %" if plain else f"{unit}; bars show its exponential",
        "first: the most probable vocabulary entry of the layer",
        f"{folder_name(reading.model)}, every layer through its masked-LM head (the {reading.lens} lens)",
    ]
    notes += [*_toy(reading.model), *_left_out(reading)]
    return "\n".join([reading.text, "", *aligned(lines), "", *notes]) + "\n"


def _print_surprisal(model: str, settings: Mapping[str, Any], text: str, of_text: Sequence[Any], format: str) -> None:
    """Print a line a word: how surprising it is, with a bar."""
    from bertology.cloze import surprisal
    from bertology.corpora import as_sentence
    from bertology.encoders import load_encoder
    from bertology.errors import ClozeError

    sentence = as_sentence(text, language=of_text[0], split_at_spaces=of_text[1])
    encoder = load_encoder(model, **settings)
    found = surprisal(encoder, sentence)
    if found.excluded:
        raise ClozeError(f"the text is not read: {found.excluded[0].reason}")
    frame = found.to_pandas().drop(columns=["sentence", "text"])

    def table() -> str:
        most = max(bits for bits in found.bits.tolist() if not math.isnan(bits))
        lines = [("word", "bits", "")]
        for word, bits, reason in zip(found.words, found.bits.tolist(), frame["reason"], strict=True):
            lines.append((word, "–", reason) if reason else (word, f"{bits:.1f}", _bar(bits / most, 2 * _BAR_MOST)))
        wide = max(len(bits) for _, bits, _ in lines)
        context = "the words before it" if found.kind == "causal" else "all other words (pseudo-surprisal)"
        total = f"{frame['surprisal_bits'].sum():.1f} bits in {len(lines) - 1} words, each given {context}"
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
    reasons = [f"{excluded.candidate}: {excluded.reason}" for excluded in reading.excluded[:_MOST_NAMED]]
    more = [f"and {n_excluded - _MOST_NAMED} more"] if n_excluded > _MOST_NAMED else []
    hint = " (--form within_word_l2r scores several pieces)" if reading.form == "one_piece" else ""
    total = n_excluded + len(reading.words)
    return [f"{n_excluded} of {total} candidates left out: {'; '.join([*reasons, *more])}{hint}"]


def _toy(model: str) -> list[str]:
    """A note on an embedded model; nothing for other models."""
    from bertology.encoders.sources import known_models

    if "embedded" not in known_models().get(model, ""):
        return []
    return [f"{model} is a toy model trained on sentences about a small invented world: choose another with --model"]


def _scores(reading: ClozeReading) -> list[list[tuple[str, float, int | None]]]:
    """``[layer][word]`` words with their log-probability and rank."""
    log_probs = reading.log_probs.tolist()
    ranks = [[None] * len(reading.words)] * len(log_probs) if reading.ranks is None else reading.ranks.tolist()
    return [list(zip(reading.words, *layer, strict=True)) for layer in zip(log_probs, ranks, strict=True)]


def _frame(reading: ClozeReading) -> pd.DataFrame:
    import pandas as pd

    by_layer = zip(reading.layers, _scores(reading), strict=True)
    rows = [
        (layer, word, f"{value:.6f}", rank, reading.form) for layer, words in by_layer for word, value, rank in words
    ]
    return pd.DataFrame(rows, columns=["layer", "word", "log_prob", "rank", "form"])


def _plain(reading: ClozeReading) -> dict[str, Any]:
    first = zip(reading.layers, reading.first, reading.first_log_probs.tolist(), _scores(reading), strict=True)
    layers = [
        {
            "layer": layer,
            "first": {"word": word, "log_prob": value},
            "words": [{"word": word, "log_prob": value, "rank": rank} for word, value, rank in words],
        }
        for layer, word, value, words in first
    ]
    excluded = [{"candidate": item.candidate, "reason": item.reason} for item in reading.excluded]
    return {"text": reading.text, "model": reading.model, "form": reading.form, "layers": layers, "excluded": excluded}
