"""Commands on one text: what a model, its tokenizer and probes make of it, layer by layer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from bertology._names import aligned, folder_name, layer_label
from bertology.cli._options import (
    Format,
    bars,
    command,
    print_found,
    records,
    save_found,
    shows_progress,
    terminal_width,
)

if TYPE_CHECKING:
    import pandas as pd

    from bertology.cloze.asking import ClozeReading
    from bertology.cloze.lens import TunedLens
    from bertology.cloze.prompts import AnswerForm
    from bertology.corpora import Corpus, Sentence, Sentences
    from bertology.encoders import Encoder
    from bertology.encoders.alignment import PieceReader
    from bertology.encoders.tokenization import TokenTrace
    from bertology.geometry import Neighbours
    from bertology.results.trees import TreeReading

_BAR_MOST, _BAR_LEAST = 12, 4
_MOST_NAMED = 10
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_EFFECTS = ["layer", "place", "effect", "base_score", "source_score", "measure"]
_BETWEEN = " ||| "
_LEAST_CONTEXT = 14
"""Characters of context on each side, at least."""


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
        text: A sentence with one {mask}; [MASK] and <mask> do as well. With --surprisal, a text without a mask.
        top: Number of words shown, the most probable ones of the deepest layer; not with --candidates.
        candidates: Words to show instead of the most probable ones, with commas: capital,city.
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
    print_found(format, lambda: _cloze_table(reading), lambda: _cloze_frame(reading), lambda: _cloze_plain(reading))
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


def _cloze_table(reading: ClozeReading) -> str:
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


def _cloze_scores(reading: ClozeReading) -> list[list[tuple[str, float, int | None]]]:
    """``[layer][word]`` words with their log-probability and rank."""
    log_probs = reading.log_probs.tolist()
    ranks = [[None] * len(reading.words)] * len(log_probs) if reading.ranks is None else reading.ranks.tolist()
    return [list(zip(reading.words, *layer, strict=True)) for layer in zip(log_probs, ranks, strict=True)]


def _cloze_frame(reading: ClozeReading) -> pd.DataFrame:
    import pandas as pd

    by_layer = zip(reading.layers, _cloze_scores(reading), strict=True)
    rows = [
        (layer, word, f"{value:.6f}", rank, reading.form) for layer, words in by_layer for word, value, rank in words
    ]
    return pd.DataFrame(rows, columns=["layer", "word", "log_prob", "rank", "form"])


def _cloze_plain(reading: ClozeReading) -> dict[str, Any]:
    first = zip(reading.layers, reading.first, reading.first_log_probs.tolist(), _cloze_scores(reading), strict=True)
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


@command(
    "how-to/heads",
    'bertology attention "The keys to the cabinet are lost." --out attention.html',
    'bertology attention "The keys are lost." --head L2H1 --out head.svg',
    settings="columns language split_at_spaces device revision trust_remote_code",
)
def attention(
    texts: list[str] | None = None,
    *,
    second: str | None = None,
    target: str | None = None,
    model: list[str] | None = None,
    layers: str = "all",
    heads: str | None = None,
    head: str | None = None,
    level: Literal["word", "piece"] = "word",
    weights: Literal["raw", "norm"] = "raw",
    threshold: float = 0.0,
    gold: str | None = None,
    sentence: str | None = None,
    out: Path | None = None,
    open_page: bool = False,
    **settings: Any,
) -> None:
    """Show a sentence's attention maps: all heads, lines between words, one head as a matrix, one word by layer.

    The page is one file that needs no other file and no network. With --head one map is drawn as a figure.

    Args:
        texts: A sentence, or two side by side; omit it with --gold.
        second: A second sentence, encoded with the first as a pair.
        target: Decoder input for T5 or BART: shows cross-attention to the sentence.
        model: pocket (default), a folder, or a hub id; two to see them side by side.
        layers: all, 1-6, or 3,5,-1; from 1.
        heads: Only these heads, by layer and number: L8H10,L3H2.
        head: One head, such as L8H10, as a labelled heatmap.
        level: Initial view: attention between words, or subwords.
        weights: Initial view: raw weights, or norm-weighted (Kobayashi et al. 2020).
        threshold: Weights below this are hidden at first: 0.1 is 10 %.
        gold: Treebank with the sentence, whose dependencies are drawn.
        sentence: Id of the sentence in --gold's test split.
        out: The file to write: attention.html; with --head .svg, .pdf or .png.
        open_page: Open it in the browser.
    """
    from bertology.attention import view
    from bertology.encoders import load_encoder
    from bertology.families.request import parse_layers

    path = _path(out, head)
    if head is not None and heads is not None:
        raise typer.BadParameter("--head draws one head as a figure, --heads chooses those of a page: give one of them")
    if head is not None and threshold:
        raise typer.BadParameter("--threshold is of a page, --head draws all weights: give one of them")
    columns = settings.pop("columns")
    of_text = {name: settings.pop(name) for name in ("language", "split_at_spaces")}
    parsed = [_of_treebank(gold, sentence, columns)] if gold is not None or sentence is not None else []
    if bool(texts) == bool(parsed):
        raise typer.BadParameter("give a sentence, or the treebank and id of one with --gold and --sentence")
    names = model or ["pocket"]
    encoders = [load_encoder(name, **settings) for name in names]
    # None for all layers, so that heads alone can choose them.
    depth = min(encoder.n_layers for encoder in encoders)
    page = view(
        parsed or list(texts or ()),
        second,
        target=target,
        model=encoders,
        layers=None if layers.strip().lower() == "all" else parse_layers(layers, depth),
        heads=heads if head is None else head,
        level=level,
        weights=weights,
        threshold=threshold,
        **of_text,
    )
    if head is None:
        page.save(path)
        by_layer = page.reading.heads
        counts = (sum(map(len, by_layer.values())), "head"), (len(by_layer), "layer")
        shown = " in ".join(f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in counts)
    else:
        page.plot().save(path)
        shown = head.strip().upper()
    typer.echo(f"{path}: {shown} of {' and '.join(names)}")
    if open_page:
        typer.launch(path.resolve().as_uri())


def _path(out: Path | None, head: str | None) -> Path:
    """The file to write: a page, or a figure of one head."""
    if out is None:
        return Path("attention.html" if head is None else "attention.svg")
    is_figure = out.suffix.lower() in (".svg", ".pdf", ".png")
    if head is None and is_figure:
        raise typer.BadParameter(
            f"{out} is the name of a figure, which is of one head: add --head L2H1, or name a page"
        )
    if head is not None and not is_figure:
        raise typer.BadParameter(f"--head draws a figure, not {out}: name a file that ends in .svg, .pdf or .png")
    return out


def _of_treebank(gold: str | None, name: str | None, columns: str | None) -> Sentence:
    from bertology.errors import CorpusError, quoted
    from bertology.parsing import sentence_of_corpus

    if gold is None or name is None:
        raise typer.BadParameter("--gold names a treebank and --sentence the id of its sentence: give both or neither")
    sentence = sentence_of_corpus(name, gold, columns=columns)
    if sentence.heads is None:
        raise CorpusError(f"{gold}: sentence {quoted(name)} has no dependencies: give it as text, without --gold")
    return sentence


@command(
    "how-to/trees",
    'bertology tree "The keys to the cabinet are lost."',
    "bertology tree --sentence test-1 --corpus pocket --out tree.svg",
    settings="model corpus columns language split_at_spaces pooling device revision trust_remote_code",
    model=(None, "A folder, or a hub id; pocket, or the model of --probe, when left out."),
    corpus=(None, "Treebank to fit the probe on: pocket, or that of --probe, when left out."),
    pooling=(None, "A word's vector from its subwords': mean, first or last; mean, or as --probe has."),
)
def tree(
    text: str | None = None,
    *,
    layer: int | None = None,
    probe: Path | None = None,
    sentence: str | None = None,
    rank: int | None = None,
    picture: Literal["arcs", "depths", "distances"] = "arcs",
    out: Path | None = None,
    format: Literal["table", "conllu", "tikz", "displacy"] = "table",
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Parse a sentence by a structural probe: heads, relations and depths that are linear in one layer.

    The probe is fitted on the treebank the first time, and kept.

    Args:
        text: A sentence; omit it with --sentence.
        layer: 0 is the embeddings; -1 the last layer; the best on dev when left out.
        probe: Use a fitted probe: its file, or the folder of a run.
        sentence: Id of a sentence of the corpus' test split, drawn beside its gold tree.
        rank: Rank of a probe that is fitted now.
        picture: What a picture shows.
        out: Picture to write: a .svg, .png or .tex file.
    """
    from bertology._files import write_derived
    from bertology.corpora import sentence_of_text
    from bertology.parsing import ParseRequest, parse, sentence_of_request
    from bertology.results.trees import to_displacy, to_svg, to_tikz

    if out is not None and out.suffix not in (".svg", ".png", ".tex"):
        raise typer.BadParameter(f"{out}: name a .svg, .png or .tex file", param_hint="--out")
    of_text = {name: settings.pop(name) for name in ("language", "split_at_spaces")}
    request = ParseRequest(layer=layer, probe=probe, rank=rank, **settings)
    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a sentence, or the id of one with --sentence")
    chosen = sentence_of_request(str(sentence), request) if text is None else sentence_of_text(text, **of_text)
    reading = parse(chosen, request, progress=bars(quiet))
    if format == "displacy":
        printed = json.dumps(to_displacy(reading), ensure_ascii=False, indent=1) + "\n"
    else:
        printed = {"table": _tree_table, "conllu": _tree_conllu, "tikz": to_tikz}[format](reading)
    typer.echo(printed, nl=False)
    if out is not None:
        ending: Any = out.suffix.removeprefix(".")
        content = to_tikz(reading).encode() if ending == "tex" else to_svg(reading, picture=picture, ending=ending)
        write_derived(out.parent, {out.name: content})
        typer.echo(f"{picture} in {out}", err=True)


def _tree_table(reading: TreeReading) -> str:
    """One line for each word: number, form, head, relation, depth, and the gold values if known."""
    words = reading.words

    def named(head: int) -> str:
        return "–" if head < 0 else f"{head} {words[head - 1]}" if head else "0 · root"

    columns = [["", *map(str, range(1, len(words) + 1))], ["word", *words]]
    if reading.heads:
        columns.append(["head", *map(named, reading.heads)])
    if reading.relations:
        columns.append(["relation", *(relation or "" for relation in reading.relations)])
    if reading.depths:
        columns.append(["depth", *(f"{depth:.1f}" for depth in reading.depths)])
    if reading.gold:
        columns.append(["gold", *map(named, reading.gold)])
    about = f"{folder_name(reading.model)}, layer {reading.layer}{' (embeddings)' if reading.layer == 0 else ''}"
    uuas = "" if reading.uuas is None else f"; {100 * reading.uuas:.0f} % of gold's edges found (UUAS)"
    rows = [*aligned(list(zip(*columns, strict=True))), "", about + uuas]
    if not reading.heads:
        rows.append("edges " + ", ".join(f"{a + 1}–{b + 1}" for a, b in reading.edges))
    return "\n".join(rows) + "\n"


def _tree_conllu(reading: TreeReading) -> str:
    """Columns of CoNLL-U; words in no edge hang from the root's word, as a tree must have them all."""
    from bertology.errors import BertologyError

    if reading.heads is None:
        raise BertologyError("the probe knows no depths, so its tree has no direction: print it as table or tikz")
    root = reading.heads.index(0) + 1
    lines = []
    for place, (word, predicted) in enumerate(zip(reading.words, reading.heads, strict=True), 1):
        head = predicted if predicted >= 0 else root
        named = reading.relations[place - 1] if reading.relations else None
        relation = named or ("punct" if head == root else "dep")
        lines.append("\t".join([str(place), word, *["_"] * 4, str(head), relation, "_", "_"]))
    return "\n".join(lines) + "\n\n"


@command(
    "how-to/patching",
    'bertology patch "Dogs [MASK]." --with "Dog [MASK]." --candidates run,runs',
    'bertology patch "A [MASK]." --with "B [MASK]." --candidates a,b --site head',
    settings="model layers language split_at_spaces dtype device revision trust_remote_code",
    model="pocket",
)
def patch(
    text: str,
    *,
    with_: str,
    candidates: str,
    site: Literal["hidden_state", "attention_output", "feed_forward_output", "head", "values"] = "hidden_state",
    direction: Literal["denoise", "noise"] = "denoise",
    format: Format = "table",
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Put states of one text into the pass over another, layer by layer and word by word.

    The effect of a word is 0 where exchanging its state changes nothing at the mask, and 1 where it changes as much as
    the whole other text does (interchange intervention, activation patching).

    Args:
        text: A text with [MASK] in it.
        with_: A text with the same number of words, some of which differ.
        candidates: The word that fits the text, then the word that fits the other text.
        site: What is exchanged; head: the output of each head at all places.
        direction: Patch states of the text into the pass over the other text (denoise), or the reverse (noise).
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    import bertology
    from bertology._page import is_page

    is_page(out)  # an ending of neither is refused before anything is computed
    found = bertology.patch(text, with_, candidates=candidates, site=site, direction=direction, **settings)
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas()[_EFFECTS])
    save_found(found, out, what="effects")


@command(
    "how-to/patching",
    'bertology attribute "The dogs near the farmer [MASK]." --candidates run,runs',
    'bertology attribute "Dogs [MASK]." --candidates run,runs --out words.html',
    settings="model language split_at_spaces dtype device revision trust_remote_code",
    model="pocket",
)
def attribute(
    text: str,
    *,
    candidates: str,
    methods: str | None = None,
    layers: str | None = None,
    baseline: Literal["mask", "pad"] = "mask",
    format: Format = "table",
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Show on which words of a text a choice between two words at its mask rests, by several methods.

    No method is the truth: how faithful each is, task attribution tells on texts whose cause is known. attention_norms
    is ‖αf(x)‖ of Kobayashi et al. (2020), mean of the heads, without residual connection and LayerNorm.

    Args:
        text: A text with [MASK] in it.
        candidates: The word to explain, then the word to compare it with.
        methods: With commas: integrated_gradients,leave_one_out,…; all that the model allows if left out.
        layers: Layers of states and attention: all, 0-6, 3,5,-1. Default: embeddings and last block, in a page all.
        baseline: What replaces words in the baseline of integrated gradients.
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    import bertology
    from bertology._page import is_page

    layers = "all" if layers is None and is_page(out) else layers
    found = bertology.attribute(
        text, candidates=candidates, methods=methods, layers=layers, baseline=baseline, **settings
    )
    print_found(format, lambda: f"{found}\n", lambda: found.to_pandas().drop(columns="question"))
    save_found(found, out, what="scores")


@command(
    "how-to/geometry",
    'bertology neighbours "We sat on the bank of the river." --word bank',
    'bertology neighbours "The dog sees." --word dog --layers 2 --out map.html',
    settings="model corpus columns layers sentences pooling language split_at_spaces dtype device revision "
    "trust_remote_code",
    model="pocket",
    corpus=("pocket", "Corpus to search: pocket, ud:en_ewt, a path."),
)
def neighbours(
    text: str | None = None,
    *,
    word: str,
    occurrence: int | None = None,
    split: str = "all",
    sentence: str | None = None,
    tag: str | None = None,
    sense: str | None = None,
    k: int = 10,
    format: Format = "table",
    out: Path | None = None,
    points: int | None = None,
    others: bool = True,
    projection: Literal["pca", "tsne"] = "pca",
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Find the nearest occurrences of a word's occurrence in a corpus, by the cosine of their vectors, in every layer.

    Prints the share of neighbours with the same word form, tag and sense, and each neighbour in its context. A tag or
    sense is known where the sentence is one of the corpus, or stated; else the most frequent one is shown. With --out
    also writes a page that shows them on a map, to be searched, and needs no network.

    Args:
        text: A sentence with the word; omit it with --sentence.
        word: The word whose neighbours are found.
        occurrence: Number of the occurrence, from 1, if the word occurs several times.
        split: Splits that are searched, with commas, or all.
        sentence: Id of a sentence of the corpus, instead of a text.
        tag: The word's own tag, to compare neighbours with.
        sense: The word's own sense, to compare neighbours with.
        k: Neighbours in each layer.
        out: Page to write: a map, by layer.
        points: Maximum number of words on the map: up to 50,000, with t-SNE 5,000.
        others: Draw a sample of other words too on the map.
        projection: Projection of the map: principal components, or t-SNE for few words.
    """
    import bertology
    from bertology.corpora import load_corpus
    from bertology.corpora.formats.columns import BY_SPACES

    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a text, or the id of a sentence of the corpus with --sentence")
    if out is None and (points is not None or not others or projection != "pca"):
        raise typer.BadParameter("--points, --no-others and --projection are of a map: name its page with --out")
    loaded = load_corpus(settings.pop("corpus"), columns=settings.pop("columns"))
    asked: Any = text
    if sentence is not None:
        from bertology.parsing import sentence_by_id

        asked = sentence_by_id(sentence, loaded, tuple(loaded.splits))
    found = bertology.neighbours(
        asked,
        word,
        occurrence=occurrence,
        corpus=loaded,
        k=k,
        split=split,
        tag=tag,
        sense=sense,
        progress=shows_progress(quiet),
        **settings,
    )
    if out is not None:
        page = found.map(points=points, others=others, projection=projection)
        page.save(out)
        typer.echo(f"{out}: {len(page.words):,} words in {len(found.layers)} layers", err=True)
    if loaded.notes.get("annotation") == BY_SPACES and not settings["split_at_spaces"]:
        problem = "has words by white space, with the punctuation that stands at them"
        typer.echo(f"note: {loaded.name} {problem}; --split-at-spaces finds those of the text alike", err=True)
    print_found(format, lambda: _neighbours_table(found), lambda: found.frame, lambda: _neighbours_plain(found))


def _neighbours_table(found: Neighbours) -> str:
    """The shares by layer, then each layer's neighbours in context."""
    text, (start, end) = found.sentence.text, found.sentence.spans[found.place]
    own = {kind: found.own(kind) for kind in found.annotated}
    shares = [["layer", f"same word ({found.word})"]]
    shares[0] += [f"most frequent {kind}" if one is None else f"same {kind} ({one})" for kind, one in own.items()]
    for line in found.shares.to_dict("records"):
        cells = [layer_label(line["layer"]), f"{line['same_word']:.2f}"]
        for kind, one in own.items():
            most = f"{line[f'{kind}_share']:.2f} {line[kind] or '–'}"
            cells.append(most if one is None else f"{line[f'same_{kind}']:.2f}")
        shares.append(cells)
    notes = [
        f"share of the {found.k} nearest of {len(found.text.words):,} words of {found.corpus}, by cosine, exact search",
        folder_name(found.model),
    ]
    if found.text.n_shared:
        notes.append(f"{found.text.n_shared:,} words share all subwords with another word and were not searched")
    if found.text.n_skipped:
        notes.append(f"{found.text.n_skipped:,} words have no vector and were not searched")
    lines = [f"{text[:start]}[{text[start:end]}]{text[end:]}", "", *aligned(shares), "", *notes]
    for layer in found.layers:
        # A line for each neighbour: cosine, context before, word, context after, tag and sense.
        nearest = found.at(layer)
        labels = [[getattr(one, kind) or "–" for kind in own] for one, _ in nearest]
        longest = max(len(one.word) for one, _ in nearest)
        taken = 12 + longest + sum(2 + max(map(len, column)) for column in zip(*labels, strict=True))
        room = max(_LEAST_CONTEXT, (terminal_width() - taken) // 2)
        rows = []
        for (near, cosine), of_one in zip(nearest, labels, strict=True):
            before, after = (" ".join(part.split()) for part in near.context(room))
            rows.append([f"{cosine:6.3f}", before.rjust(room), near.word.center(longest), after.ljust(room), *of_one])
        lines += ["", f"layer {layer_label(layer)}", *aligned(rows)]
    return "\n".join(lines) + "\n"


def _neighbours_plain(found: Neighbours) -> dict[str, Any]:
    by_layer: dict[int, list[dict[str, Any]]] = {}
    for one in records(found.frame):
        by_layer.setdefault(one.pop("layer"), []).append(one)
    plain: dict[str, Any] = {
        "text": found.sentence.text,
        "word": found.word,
        "span": list(found.sentence.spans[found.place]),
    }
    plain |= {name: getattr(found, name) for name in ("tag", "sense", "model", "corpus")}
    plain |= {"n_words": len(found.text.words), "n_skipped": found.text.n_skipped, "n_shared": found.text.n_shared}
    return plain | {"layers": [{**line, "neighbours": by_layer[line["layer"]]} for line in records(found.shares)]}


@command(
    "how-to/geometry",
    'bertology align "Oscar has seen it." "Сази пида гилогане."',
    "bertology align --file pairs.txt --format pharaoh",
    settings="model pooling split_at_spaces dtype device revision trust_remote_code",
    model=("bilingual", "bilingual, a folder, or a hub id."),
)
def align(
    text: str | None = None,
    translation: str | None = None,
    *,
    file: Path | None = None,
    layer: int | None = None,
    method: Literal["argmax", "itermax", "match"] = "argmax",
    distortion: float = 0.0,
    language: str | None = None,
    format: Literal["table", "pharaoh", "csv", "json"] = "table",
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Link the words of a text with those of its translation, by the similarity of their vectors at one layer.

    As SimAlign does (Jalili Sabet et al. 2020). The page shows every layer. How often links are right is measured by
    the task languages:alignment, on text with gold links.

    Args:
        text: A text; omit it with --file.
        translation: Its translation.
        file: Align the lines of this file instead: TEXT ||| TRANSLATION.
        layer: 0 is the embeddings, -1 the last. Default: two thirds of the depth.
        method: Alignment method of SimAlign.
        distortion: Penalty on similarity for distance in relative position, from 0 to 1.
        language: Languages of text and translation, such as en,de, whose rules split words.
        format: What to print; for a file pharaoh: a line of links i-j for each line.
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    import bertology
    from bertology._page import is_page

    is_shown = is_page(out)  # an ending of neither page nor figure is refused first
    if (file is None) == (text is None) or (text is None) != (translation is None):
        raise typer.BadParameter("give a text and its translation, or --file with a pair in each line")
    if file is not None and out is not None:
        raise typer.BadParameter("it shows one pair: give a text and its translation", param_hint="--out")
    pairs = [(str(text), str(translation))] if file is None else _pairs(file)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    layers = "all" if layer is None or is_shown else (layer,)
    found = bertology.align(
        firsts, seconds, layers=layers, layer=layer, method=method, distortion=distortion, language=language, **settings
    )

    def frame() -> Any:
        import pandas as pd

        return pd.concat([one.to_pandas().assign(pair=number) for number, one in enumerate(found, 1)])

    def table() -> str:
        if format == "pharaoh" or file is not None:
            return "".join(f"{one.pharaoh()}\n" for one in found)
        return "\n\n".join(map(str, found)) + "\n"

    def plain() -> list[dict[str, Any]]:
        about = "model", "layer", "method"
        return [
            {"first": list(one.first.words), "second": list(one.second.words)}
            | {name: getattr(one, name) for name in about}
            | {"links": one.links()}
            for one in found
        ]

    print_found(format, table, frame, plain)
    save_found(found[0], out, what="links")


def _pairs(file: Path) -> list[tuple[str, str]]:
    from bertology._files import read_text
    from bertology.errors import CorpusError

    pairs = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        first, bar, second = line.partition(_BETWEEN.strip())
        if not (first.strip() and bar and second.strip()):
            raise CorpusError(f"{file}, line {number}: write a text and its translation, TEXT{_BETWEEN}TRANSLATION")
        pairs.append((first.strip(), second.strip()))
    if not pairs:
        raise CorpusError(f"{file}: no line in it; write a text and its translation in each, TEXT{_BETWEEN}TRANSLATION")
    return pairs


@command(
    "how-to/tokenizers",
    'bertology tokenize "unbelievably" --model pocket',
    "bertology tokenize --corpus pocket --model pocket --model bilingual",
    settings="columns",
)
def tokenize(
    text: str | None = None,
    *,
    model: list[str] | None = None,
    corpus: list[str] | None = None,
    split: str = "test",
    morphs: Path | None = None,
    n_best: int = 3,
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Show how a tokenizer arrives at its subwords, step by step; or measure how it cuts a corpus.

    Args:
        text: A text to tokenize; omit it with --corpus or --morphs.
        model: pocket, a folder, or a hub id; several are compared.
        corpus: Measure how this corpus is tokenized; several corpora or languages are measured separately.
        split: The split of the corpus.
        morphs: Compare with the morphs in this CSV: pt1 and rest, or word, then morphs.
        n_best: Number of segmentations shown for Unigram tokenizers.
        out: Write the steps to this HTML page as well.
    """
    from bertology.corpora import load_corpus
    from bertology.encoders import resolve_model
    from bertology.encoders.loading import load_reader
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
            from bertology._page import full_page, write_page

            styles, template = ["cli/assets/tokenize.css"], "cli/assets/tokenize.html"
            page = full_page(template, title=text, styles=styles, scripts=[], data=None, text=text, traces=traces)
            write_page(out, page)
    parts = [part for name in corpus or () for part in _parts(load_corpus(name, **settings), split)]
    for place, (name, sentences) in enumerate(parts):
        typer.echo(_tokenizer_scores(f"{name} {split}", sentences, readers, reference=parts[0] if place else None))
    if morphs is not None:
        typer.echo(_morph_scores(morphs, readers))


def _steps(name: str, trace: TokenTrace) -> str:
    lines = [f"{name} · {trace.kind} · {len(trace.pieces)} pieces", f"  {' '.join(trace.pieces)}", ""]
    for word in trace.words:
        lines += [f"  {word.text} → {' '.join(word.pieces)}"]
        if len(word.steps) > 2:
            width = max(len(" ".join(step.pieces)) for step in word.steps)
            lines += [f"    {' '.join(step.pieces):<{width}}  {step.reason}" for step in word.steps]
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


def _tokenizer_scores(
    name: str, sentences: Sentences, readers: Mapping[str, PieceReader], *, reference: tuple[str, Sentences] | None
) -> str:
    """Measures of a split, a column a tokenizer."""
    from bertology.encoders.tokenization import tokenizer_parity, tokenizer_scores

    by_model = {model: list(tokenizer_scores(reader, sentences)) for model, reader in readers.items()}
    if reference is not None:
        for model, reader in readers.items():
            if (parity := tokenizer_parity(reader, sentences, reference[1])) is not None:
                by_model[model].append(parity._replace(measure=f"parity with {reference[0]}"))
    rows = [["measure", *by_model]]
    for scores in zip(*by_model.values(), strict=True):
        intervals = ("" if math.isnan(one.ci_low) else f" [{one.ci_low:.3f}, {one.ci_high:.3f}]" for one in scores)
        cells = [f"{one.value:.3f}{interval}" for one, interval in zip(scores, intervals, strict=True)]
        rows.append([scores[0].measure.replace("_", " "), *cells])
    n_words = f"{sentences.n_words:,} words of {name}; [ ] 95 %, bootstrap over sentences"
    return f"{_ruled(rows)}\n\n{n_words}\n"


def _morph_scores(path: Path, readers: Mapping[str, PieceReader]) -> str:
    from bertology.encoders.tokenization import morph_scores, read_morphs

    words = list(read_morphs(path))
    by_model = {name: morph_scores(reader, words) for name, reader in readers.items()}
    titles = {name: name for name in ("precision", "recall", "f1", "morph_score")}
    titles |= {"n_words": "words of two morphs", "n_whole": "… that are one piece"}
    rows = [["boundaries of morphs", *by_model]]
    for field, title in titles.items():
        values = [getattr(scores, field) for scores in by_model.values()]
        rows.append([title, *(f"{value:,}" if isinstance(value, int) else f"{value:.3f}" for value in values)])
    return _ruled(rows) + "\n"


def _ruled(rows: Sequence[Sequence[str]]) -> str:
    lines = aligned(rows)
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])
