"""Commands on one text: what a model, its tokenizer and probes make of it, layer by layer."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

import bertology
from bertology import encoders
from bertology._files import exists, read_text, write_derived
from bertology._lazy import pd
from bertology._names import aligned, folder_name, layer_label
from bertology._page import is_page, write_page
from bertology.cli._options import Format, bars, command, print_found, save_found, shows_progress, terminal_width
from bertology.encoders.sources import KNOWN_MODELS
from bertology.errors import BertologyError, ClozeError, CorpusError, quoted

if TYPE_CHECKING:
    from bertology.cloze.asking import ClozeReading
    from bertology.corpora import Corpus, Sentences
    from bertology.encoders import Encoder
    from bertology.encoders.alignment import PieceReader
    from bertology.encoders.tokenization import TokenTrace
    from bertology.geometry import Neighbours
    from bertology.results.table import Cell, TableView
    from bertology.results.trees import TreeReading

_MOST_NAMED = 10
"""Candidates left out that are named."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_EFFECTS = ["layer", "place", "effect", "base_score", "source_score", "measure"]
_MOST_LEARNT = 12
"""Pieces of a step that a line names."""
_BETWEEN = " ||| "


@command(
    "how-to/cloze",
    'bertology cloze "The capital of France is {mask}."',
    'bertology cloze "The dogs {mask}." --candidates run,runs --layers 0-4',
    settings="layers model device revision trust_remote_code",
    of={"bertology.corpora._words:sentence_of_text": "language split_at_spaces"},
)
def cloze(
    text: str,
    *,
    top: int = 5,
    candidates: str | None = None,
    form: str = "one_piece",
    surprisal: bool = False,
    generate: int | None = None,
    order: Literal["certain", "left"] = "certain",
    lens: Path | None = None,
    lens_corpus: str = "pocket",
    format: Format = "table",
    **settings: Any,
) -> None:
    """Show what an encoder predicts at a mask, and from which layer on; how surprising words are; or what it writes.

    Every layer is read by the model's own masked-LM head (the logit lens), or through translators fitted to text (the
    tuned lens); the last one is the model's answer.

    Args:
        text: A sentence with one {mask}; [MASK] and <mask> do as well. With --surprisal, a text without a mask.
        top: Number of words shown, the most probable ones of the deepest layer; not with --candidates.
        candidates: Words to show instead of the most probable ones, with commas: capital,city.
        form: Candidates are scored as one_piece, or of any length as original or within_word_l2r.
        surprisal: Show the surprisal of each word in bits: left to right for GPT-2, else masked one by one.
        generate: Write so many subwords, at the mask or the end, by filling masks one after the other.
        order: Of --generate: certain fills the mask first whose best subword is most probable; left goes along.
        lens: Read layers through the tuned lens of this .safetensors file; fitted and written if missing.
        lens_corpus: Corpus whose train split a missing lens is fitted to.
    """
    from bertology.cloze import Prompt, read_cloze
    from bertology.cloze.lens import fit_lens, load_lens
    from bertology.cloze.prompts import check_answer_form
    from bertology.families.request import parse_layers

    model, layers, *of_text = (settings.pop(name) for name in ("model", "layers", "language", "split_at_spaces"))
    is_plain = candidates is None and form == "one_piece" and layers == "all" and lens is None
    if generate is not None:
        if not is_plain or surprisal or any(of_text):
            raise ClozeError("--generate writes text: leave candidates, form, layers, lens, surprisal and language out")
        _print_written(bertology.load_encoder(model, **settings), text, generate, order, format)
        return
    if surprisal:
        if not is_plain or Prompt(text).n_masks:
            raise ClozeError(
                "--surprisal reads all words of a text: leave masks, candidates, form, layers and lens out"
            )
        _print_surprisal(bertology.load_encoder(model, **settings), text, of_text, format)
        return
    if any(of_text):
        raise ClozeError("--language and --split-at-spaces find the words of a text: give them with --surprisal")
    words = tuple(word.strip() for word in (candidates or "").split(",") if word.strip())
    if candidates is not None and not words:
        raise ClozeError("no candidates: give words with commas, such as --candidates capital,city")
    scored = form.replace("-", "_")
    check_answer_form(scored)
    prompt = Prompt(text, words)
    if not prompt.n_masks:
        raise ClozeError(f"no mask in {quoted(text)}: write {{mask}} where a word is left out")
    encoder = bertology.load_encoder(model, **settings)
    chosen = parse_layers(layers, encoder.n_layers)
    if lens is not None:
        if lens.exists():
            fitted = load_lens(lens, encoder)
        else:
            train, progress = bertology.load_corpus(lens_corpus)["train"], bars(quiet=False)("tuned lens")
            fitted = fit_lens(encoder, train, progress=progress)
            fitted.save(lens)
            typer.echo(f"tuned lens in {lens}", err=True)
        encoder = encoder.through(fitted)
    reading = read_cloze(encoder, prompt, layers=chosen, top=top, form=cast(Any, scored))
    notes = _about_model(reading.model)
    if excluded := [f"{one.candidate}: {one.reason}" for one in reading.excluded]:
        n_words, more = len(excluded) + len(reading.words), " …" * (len(excluded) > _MOST_NAMED)
        notes.append(f"left out: {len(excluded)} of {n_words} candidates ({'; '.join(excluded[:_MOST_NAMED])}{more})")
        notes += ["--form within_word_l2r scores candidates of several subwords"] * (scored == "one_piece")
    about = {name: getattr(reading, name) for name in ("text", "model", "form", "lens")}
    about["excluded"] = [{"candidate": one.candidate, "reason": one.reason} for one in reading.excluded]
    print_found(format, _cloze_lines(reading), lambda: _cloze_frame(reading), about, notes=notes)


def _cloze_lines(reading: ClozeReading) -> list[str]:
    """A line a layer: each word's number with a bar, and the layer's most probable entry."""
    import numpy as np

    is_share, shares = reading.form == "one_piece", np.exp(reading.log_probs)
    numbers = 100 * shares if is_share else reading.log_probs
    wide = len(f"{np.abs(numbers).max():.1f}") + (not is_share)
    width = max(4, min(12, (terminal_width() - 30) // len(reading.words) - 9))
    rows = [["layer", *reading.words, "first"]]
    for layer, of_layer, of_bars, first in zip(reading.layers, numbers, shares, reading.first, strict=True):
        both = zip(of_layer, of_bars / (shares.max() or 1.0), strict=True)
        rows.append([layer_label(layer), *(f"{number:>{wide}.1f} {_bar(bar, width)}" for number, bar in both), first])
    what = "probability, %" if is_share else f"log-probability of a candidate, nats ({reading.form})"
    return [
        *(reading.text, "", *aligned(rows), ""),
        f"numbers: {what}; bars: probability, the longest {100 * shares.max():.3g} %",
        "first: the most probable vocabulary entry of the layer",
        f"model: {folder_name(reading.model)}, every layer read by its masked-LM head ({reading.lens} lens)",
    ]


def _cloze_frame(reading: ClozeReading) -> pd.DataFrame:
    by_layer = pd.MultiIndex.from_product([reading.layers, reading.words], names=["layer", "word"])
    ranks = None if reading.ranks is None else reading.ranks.ravel()
    frame = pd.DataFrame({"log_prob": reading.log_probs.ravel().round(6), "rank": ranks}, index=by_layer)
    first = pd.DataFrame({"first": reading.first, "first_log_prob": reading.first_log_probs}, index=reading.layers)
    return frame.assign(form=reading.form).join(first.rename_axis("layer")).reset_index()


def _print_written(encoder: Encoder, text: str, n: int, order: Literal["certain", "left"], format: Format) -> None:
    """Print a line for each mask that is filled."""
    from bertology.cloze.writing import write_text

    steps = list(write_text(encoder, text, n=n, order=order))
    filled = ((str(one.place), one.piece, f"{100 * one.probability:.1f}", one.text) for one in steps)
    rows = [("mask", "subword", "%", "text"), *filled]
    about = {"text": text, "model": encoder.name, "order": order}
    lines = [*aligned(rows), "", f"model: {folder_name(encoder.name)}"]
    print_found(format, lines, lambda: pd.DataFrame(steps), about, notes=_about_model(encoder.name))


def _print_surprisal(encoder: Encoder, text: str, of_text: Sequence[Any], format: str) -> None:
    """Print a line a word: how surprising it is, with a bar."""
    from bertology.cloze import surprisal
    from bertology.corpora import as_sentence

    found = surprisal(encoder, as_sentence(text, language=of_text[0], split_at_spaces=of_text[1]))
    if found.excluded:
        raise ClozeError(f"the text is not read: {found.excluded[0].reason}")
    frame = found.to_pandas().drop(columns=["sentence", "text"])
    bits = frame["surprisal_bits"]
    rows = [("word", "bits", "")]
    for word, value, reason in zip(found.words, bits, frame["reason"], strict=True):
        rows.append((word, "–", reason) if reason else (word, f"{value:5.1f}", _bar(value / bits.max(), 24)))
    context = "the words before it" if found.kind == "causal" else "all other words (pseudo-surprisal)"
    total = f"sum: {bits.sum():.1f} bits in {len(rows) - 1} words, each given {context}"
    about = {"text": found.texts[0], "model": encoder.name, "kind": found.kind}
    lines = [*aligned(rows), "", total, f"model: {folder_name(encoder.name)}"]
    print_found(format, lines, lambda: frame, about, notes=_about_model(encoder.name))


def _bar(share: float, width: int) -> str:
    """A bar of ``width`` characters at most, in eighths of one."""
    whole, eighths = divmod(round(share * width * 8), 8)
    return ("█" * whole + _EIGHTHS[eighths].strip()).ljust(width)


@command(
    "how-to/cloze",
    'bertology answer "Who sleeps?" "The dog sleeps." --model tuned/seed-1',
    'bertology answer "Wer?" "Der Hund schläft." --model tuned/seed-1 --top 1',
    settings="device revision trust_remote_code",
)
def answer(question: str, passage: str, *, model: str, top: int = 5, format: Format = "table", **settings: Any) -> None:
    """Show the most probable answers to a question, as parts of a passage, by a model fine-tuned on questions.

    Args:
        question: The question.
        passage: The text that its answer is a part of.
        model: A folder or a hub id, with a head for answers, as of bertology finetune --task span.
        top: Number of answers shown.
    """
    from bertology.finetuning.answering import answer as answers_of

    found = answers_of(question, passage, model=model, top=top, **settings)
    rows = [("%", "answer"), *((f"{100 * one.probability:.1f}", one.text or "(no answer)") for one in found)]
    about = {"question": question, "passage": passage, "model": model}
    print_found(format, [*aligned(rows), "", f"model: {folder_name(model)}"], lambda: pd.DataFrame(found), about)


def _about_model(model: str) -> list[str]:
    """A note on a model that is embedded, which is a toy; nothing on other models."""
    about = KNOWN_MODELS.get(model, "")
    return [f"{model}: {about}; choose another with --model"] if "embedded" in about else []


@command(
    "how-to/heads",
    'bertology attention "The keys to the cabinet are lost." --out attention.html',
    'bertology attention "The keys are lost." --head L2H1 --query are',
    settings="columns device revision trust_remote_code",
    of={"bertology.attention.viewer:view": "language split_at_spaces second target heads level weights threshold"},
)
def attention(
    texts: list[str] | None = None,
    *,
    model: list[str] | None = None,
    layers: str = "all",
    head: str | None = None,
    query: str | None = None,
    occurrence: int | None = None,
    prediction: str | None = None,
    gold: str | None = None,
    sentence: str | None = None,
    out: Path | None = None,
    open_page: bool = False,
    **settings: Any,
) -> None:
    """Show a sentence's attention maps: all heads, lines between words, one head as a matrix, one word by layer.

    The page is one file that needs no other file and no network. With --head one map is drawn as a figure, and with
    --query the products of one word's query with all keys.

    Args:
        texts: A sentence, or two side by side; omit it with --gold.
        model: pocket (default), a folder, or a hub id; two to see them side by side.
        layers: all, 1-6, or 3,5,-1; from 1.
        head: One head, such as L8H10, as a labelled heatmap.
        query: A word, whose query in the --head is multiplied with the keys of all subwords, by dimension.
        occurrence: Which one of several occurrences of the --query, from 1.
        prediction: What --weights effect is on: label, label=negative, tag=3, answer or word=are,is.
        gold: Treebank with the sentence, whose dependencies are drawn.
        sentence: Id of the sentence in --gold's test split.
        out: The file to write: attention.html; with --head .svg, .pdf or .png.
        open_page: Open it in the browser.
    """
    from bertology.attention import query_key, view
    from bertology.causal import Target
    from bertology.families.request import parse_layers
    from bertology.parsing import sentence_of_corpus

    path = out or Path("attention.html" if head is None else "attention.svg")
    if is_page(path) != (head is None):
        raise typer.BadParameter(f"{path}: a figure (.svg, .pdf or .png) goes with --head L2H1, a page (.html) without")
    if head is not None and (settings["heads"] is not None or settings["threshold"]):
        raise typer.BadParameter("--heads and --threshold are of a page, --head draws one head as a figure")
    given = settings | {"gold": gold, "prediction": prediction, "layers": layers.strip().lower()}
    alone = dict.fromkeys(("gold", "prediction", "target", "heads"))
    plain = {**alone, "layers": "all", "level": "word", "weights": "raw"}
    others = [f"--{name}" for name, value in plain.items() if given[name] != value]
    if query is not None and (head is None or others):
        without = f", without {' and '.join(others)}" if others else ""
        raise typer.BadParameter(f"--query is that of one --head in a text or a pair{without}: --head L2H1 --query are")
    columns = settings.pop("columns")
    loading = {name: settings.pop(name) for name in ("device", "revision", "trust_remote_code")}
    if (gold is None) != (sentence is None):
        raise typer.BadParameter("--gold names a treebank and --sentence the id of its sentence: give both or neither")
    parsed = [] if gold is None else [sentence_of_corpus(str(sentence), gold, columns=columns)]
    if parsed and parsed[0].heads is None:
        raise CorpusError(f"{gold}: sentence {quoted(sentence)} has no dependencies: give it as text, without --gold")
    if bool(texts) == bool(parsed):
        raise typer.BadParameter("give a sentence, or the treebank and id of one with --gold and --sentence")
    names = model or ["pocket"]
    loaded = [bertology.load_encoder(name, **loading) for name in names]
    if query is not None:
        if texts is None or len(loaded) * len(texts) != 1:
            raise typer.BadParameter("--query is that of one text and one --model")
        how = {name: settings[name] for name in ("second", "language", "split_at_spaces")}
        products = query_key(texts[0], query, head=str(head), model=loaded[0], occurrence=occurrence, **how)
        products.plot().save(path)
        typer.echo("\n".join([*aligned(products.rows()), "", f"{path}: {products.head} of {names[0]}"]))
        return
    # None for all layers, so that heads alone can choose them.
    depth = min(encoder.n_layers for encoder in loaded)
    chosen = None if layers.strip().lower() == "all" else parse_layers(layers, depth)
    settings["heads"] = settings["heads"] if head is None else head
    explained = None if prediction is None else Target.parse(prediction)
    page = view(parsed or list(texts or ()), model=loaded, layers=chosen, prediction=explained, **settings)
    if head is None:
        page.save(path)
        by_layer = page.reading.heads
        shown = f"{sum(map(len, by_layer.values()))} heads, {len(by_layer)} layers"
    else:
        page.plot().save(path)
        shown = head.strip().upper()
    typer.echo(f"{path}: {shown} of {' and '.join(names)}")
    if open_page:
        typer.launch(path.resolve().as_uri())


@command(
    "how-to/trees",
    'bertology tree "The dogs near a river see this old farmer."',
    "bertology tree --sentence test-1 --corpus pocket --out tree.svg",
    settings="columns device revision trust_remote_code",
    of={
        "bertology.parsing:ParseRequest": "layer model corpus probe rank pooling",
        "bertology.corpora._words:sentence_of_text": "language split_at_spaces",
    },
)
def tree(
    text: str | None = None,
    *,
    sentence: str | None = None,
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
        sentence: Id of a sentence of the corpus' test split, drawn beside its gold tree.
        picture: What a picture shows.
        out: Picture to write: a .svg, .png or .tex file.
    """
    from bertology.corpora import sentence_of_text
    from bertology.parsing import ParseRequest, parse, sentence_of_request
    from bertology.results.trees import to_conllu, to_displacy, to_svg, to_tikz

    if out is not None and out.suffix not in (".svg", ".png", ".tex"):
        raise typer.BadParameter(f"{out}: name a .svg, .png or .tex file", param_hint="--out")
    of_text = {name: settings.pop(name) for name in ("language", "split_at_spaces")}
    request = ParseRequest(**settings)
    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a sentence, or the id of one with --sentence")
    chosen = sentence_of_request(str(sentence), request) if text is None else sentence_of_text(text, **of_text)
    reading = parse(chosen, request, progress=bars(quiet))
    forms = {"table": _tree_table, "conllu": to_conllu, "tikz": to_tikz}
    if format == "displacy":
        typer.echo(json.dumps(to_displacy(reading), ensure_ascii=False, indent=1))
    else:
        typer.echo(forms[format](reading), nl=False)
    if out is not None:
        ending: Any = out.suffix.removeprefix(".")
        content = to_tikz(reading).encode() if ending == "tex" else to_svg(reading, picture=picture, ending=ending)
        write_derived(out.parent, {out.name: content})
        typer.echo(f"{picture} in {out}", err=True)


def _branches(reading: TreeReading, at: int = 0, before: str = "") -> Iterator[str]:
    """The predicted tree in lines, each word below its head; an empty line at the end; nothing without heads."""
    below = [number for number, head in enumerate(reading.heads or (), 1) if head == at]
    for number in below:
        relation = (reading.relations or {number - 1: None})[number - 1]
        own, further = ("└─ ", "   ") if number == below[-1] else ("├─ ", "│  ")
        yield before + own * bool(at) + reading.words[number - 1] + (f" · {relation}" if relation else "")
        yield from _branches(reading, number, before + further * bool(at))
    if not at and below:
        yield ""


def _tree_table(reading: TreeReading) -> str:
    """The tree, and one line for each word: number, form, head, relation, depth, and the gold values if known."""
    words = reading.words

    def named(heads: Sequence[int]) -> list[str]:
        return ["–" if head < 0 else f"{head} {words[head - 1]}" if head else "0 · root" for head in heads]

    columns: dict[str, Sequence[str]] = {"": [str(number) for number in range(1, len(words) + 1)], "word": words}
    columns["head"] = named(reading.heads or ())
    columns["relation"] = [relation or "" for relation in reading.relations or ()]
    columns["depth"] = [f"{depth:.1f}" for depth in reading.depths or ()]
    columns["gold"] = named(reading.gold or ())
    rows = zip(*([heading, *cells] for heading, cells in columns.items() if cells), strict=True)
    model = f"model: {folder_name(reading.model)}, layer {layer_label(reading.layer)}"
    lines = [*aligned(list(rows)), "", *_branches(reading), model]
    if reading.uuas is not None:
        lines.append(f"gold edges found (UUAS): {100 * reading.uuas:.0f} %")
    if not reading.heads:
        lines.append("edges " + ", ".join(f"{a + 1}–{b + 1}" for a, b in reading.edges))
    return "\n".join(lines) + "\n"


@command(
    "how-to/patching",
    'bertology patch "Dogs [MASK]." --with "Dog [MASK]." --candidates run,runs',
    'bertology patch "Good." --with "Bad." -m tuned/seed-1 --site head',
    settings="model layers dtype device revision trust_remote_code",
    of={
        "bertology._api:patch": "candidates target other_second direction method steps",
        "bertology._api:attribute": "second probe language split_at_spaces",
    },
)
def patch(
    text: str,
    *,
    with_: str,
    site: Literal["hidden_state", "attention_output", "feed_forward_output", "head", "values"] = "hidden_state",
    format: Format = "table",
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Put states of one text into the pass over another, layer by layer and word by word.

    The effect of a word is 0 where exchanging its state does not change the prediction, and 1 where it changes it as
    much as the whole other text does (interchange intervention, activation patching).

    Args:
        with_: A text with the same number of words, some of which differ.
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    is_page(out)  # an ending of neither is refused before anything is computed
    found = bertology.patch(text, with_, site=site, **settings)
    columns = _EFFECTS + ["estimate"] * (found.estimates is not None)
    print_found(format, [str(found)], lambda: found.to_pandas()[columns])
    save_found(found, out, what="effects")


@command(
    "how-to/patching",
    'bertology circuit "Dogs [MASK]." --with "Dog [MASK]." --candidates run,runs',
    'bertology circuit "A good film." --with "A bad film." -m tuned --out ab.svg',
    settings="model dtype device revision trust_remote_code",
    of={
        "bertology._api:patch": "candidates target other_second",
        "bertology._api:attribute": "second probe language split_at_spaces",
        "bertology._api:circuit": "steps rankings",
    },
)
def circuit(text: str, *, with_: str, format: Format = "table", out: Path | None = None, **settings: Any) -> None:
    """Find the edges between heads and feed-forward parts by which a text makes a prediction that another does not.

    Scores are shares of what the whole other text takes away (edge attribution patching); the curve shows how much of
    the prediction the strongest edges make alone (faithfulness).

    Args:
        with_: A text with the same number of words, some of which differ.
        out: Figure of the strongest edges to write: .svg, .pdf or .png.
    """
    if is_page(out):
        raise typer.BadParameter(f"{out}: a circuit is drawn as a figure, .svg, .pdf or .png", param_hint="--out")
    found: Any = bertology.circuit(text, with_, **settings)
    print_found(format, [str(found)], found.to_pandas)
    save_found(found, out, what="circuit")


@command(
    "how-to/patching",
    'bertology attribute "The dogs near the farmer [MASK]." --candidates run,runs',
    "bertology attribute --corpus sst2/ --model tuned/seed-1 --out words.html",
    settings="model dtype device revision trust_remote_code",
    of={
        "bertology._api:attribute": "candidates target second probe corpus columns task split sentences methods layers "
        "baseline unit scores language split_at_spaces",
        "bertology.causal._attribution:attribute": "steps span samples",
    },
)
def attribute(text: str | None = None, *, format: Format = "table", out: Path | None = None, **settings: Any) -> None:
    """Show on which words of a text a prediction rests, by several methods, and how faithful each of them is.

    The prediction is a choice between two words at a mask, or what the model predicts by its own head: the label of a
    text or pair, the tag of a word, an answer, a number, a choice. Of a corpus with labels a table compares the methods
    and --out shows each text.

    No method is the truth: how faithful each is, task attribution tells on texts whose cause is known. attention_norms
    is ‖αf(x)‖ of Kobayashi et al. (2020), mean of the heads, without residual connection and LayerNorm.

    Args:
        text: A text; omit it with --corpus.
        out: Page (.html; of one text all layers where none is named) or figure (.svg, .pdf or .png) to write.
    """
    if settings["layers"] is None and is_page(out) and text is not None:
        settings["layers"] = "all"
    found = bertology.attribute(text, **settings)
    print_found(format, [str(found)], lambda: found.to_pandas().drop(columns="question"))
    save_found(found, out, what="scores")


@command(
    "how-to/geometry",
    'bertology neighbours "We sat on the bank of the river." --word bank',
    'bertology neighbours "The old dog sees." --word "old dog" --out map.html',
    settings="model corpus columns layers sentences pooling dtype device revision trust_remote_code",
    of={
        "bertology._api:neighbours": "language split_at_spaces occurrence split tag sense k",
        "bertology.geometry.neighbours:Neighbours.map": "points others projection",
    },
    corpus=("pocket", "Corpus to search: pocket, ud:en_ewt, a path."),
)
def neighbours(
    text: str | None = None,
    *,
    word: str | None = None,
    span: tuple[int, int] | None = None,
    sentence: str | None = None,
    format: Format = "table",
    out: Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> None:
    """Find the nearest occurrences of a word's occurrence in a corpus, by the cosine of their vectors, in every layer.

    Prints the share of neighbours with the same word form, tag and sense, and each neighbour in its context. A tag or
    sense is known where the sentence is one of the corpus, or stated; else the most frequent one is shown. The vector
    of a phrase is the mean of its words' vectors, and its neighbours are single words of the corpus. With --out also
    writes a page that shows them on a map, to be searched, and needs no network.

    Args:
        text: A sentence with the word; omit it with --sentence.
        word: The word or phrase whose neighbours are found.
        span: Instead of it, the first character of the text and the one after the last, from 0, as --span 3 12.
        sentence: Id of a sentence of the corpus, instead of a text.
        out: Page to write: a map, by layer.
    """
    from bertology.corpora.formats.columns import BY_SPACES

    if (text is None) == (sentence is None):
        raise typer.BadParameter("give a text, or the id of a sentence of the corpus with --sentence")
    of_map = {name: settings.pop(name) for name in ("points", "others", "projection")}
    if out is None and of_map != {"points": None, "others": True, "projection": "pca"}:
        raise typer.BadParameter("--points, --no-others and --projection are of a map: name its page with --out")
    loaded = bertology.load_corpus(settings.pop("corpus"), columns=settings.pop("columns"))
    asked: Any = text
    if sentence is not None:
        from bertology.parsing import sentence_by_id

        asked = sentence_by_id(sentence, loaded, tuple(loaded.splits))
    found = bertology.neighbours(asked, word, span=span, corpus=loaded, progress=shows_progress(quiet), **settings)
    if out is not None:
        page = found.map(**of_map)
        page.save(out)
        typer.echo(f"{out}: {len(page.words):,} words in {len(found.layers)} layers", err=True)
    if loaded.notes.get("annotation") == BY_SPACES and not settings["split_at_spaces"]:
        problem = "has words by white space, with the punctuation that stands at them"
        typer.echo(f"note: {loaded.name} {problem}; --split-at-spaces finds those of the text alike", err=True)
    about = {name: getattr(found, name) for name in ("word", "tag", "sense", "model", "corpus")}
    about |= {"text": found.sentence.text, "span": list(found.span)}
    about |= {"n_words": len(found.text.words), "n_skipped": found.text.n_skipped, "n_shared": found.text.n_shared}
    about["shares"] = found.shares
    print_found(format, _neighbours_lines(found), lambda: found.frame, about)


def _neighbours_lines(found: Neighbours) -> list[str]:
    """The shares by layer, then each layer's neighbours in context."""
    text, (start, end) = found.sentence.text, found.span
    own = {kind: found.own(kind) for kind in found.annotated}
    shares = [["layer", *([f"same word ({found.word})"] if found.n_words == 1 else [])]]
    shares[0] += [f"most frequent {kind}" if one is None else f"same {kind} ({one})" for kind, one in own.items()]
    for line in found.shares.to_dict("records"):
        cells = [layer_label(line["layer"]), *([f"{line['same_word']:.2f}"] if found.n_words == 1 else [])]
        for kind, one in own.items():
            most = f"{line[f'{kind}_share']:.2f} {line[kind] or '–'}"
            cells.append(most if one is None else f"{line[f'same_{kind}']:.2f}")
        shares.append(cells)
    lines = [f"{text[:start]}[{text[start:end]}]{text[end:]}", "", *aligned(shares), ""]
    searched = f"{len(found.text.words):,} words of {found.corpus}, by cosine, exact search"
    lines += [f"shares: of the {found.k} nearest of {searched}", f"model: {folder_name(found.model)}"]
    for n_words, reason in ((found.text.n_shared, "shares all subwords"), (found.text.n_skipped, "no vector")):
        lines += [f"not searched: {n_words:,} words ({reason})"] * bool(n_words)
    for layer in found.layers:
        # A line for each neighbour: cosine, context before, word, context after, tag and sense.
        nearest = found.at(layer)
        longest = max(len(one.word) for one, _ in nearest)
        labels = [[getattr(one, kind) or "–" for kind in own] for one, _ in nearest]
        taken = 12 + longest + sum(2 + max(map(len, column)) for column in zip(*labels, strict=True))
        room, rows = max(14, (terminal_width() - taken) // 2), []
        for (near, cosine), of_one in zip(nearest, labels, strict=True):
            before, after = (" ".join(part.split()) for part in near.context(room))
            rows.append([f"{cosine:6.3f}", before.rjust(room), near.word.center(longest), after.ljust(room), *of_one])
        lines += ["", f"layer {layer_label(layer)}", *aligned(rows)]
    return lines


@command(
    "how-to/patching",
    "bertology dimensions pos --layers 2",
    "bertology dimensions feats:Number --site neurons --ranking probeless",
    settings="model corpus columns layers dtype device revision trust_remote_code",
    of={"bertology.causal.dimension_words:find_dimensions": "ranking k site n_words least most_words"},
    corpus=("pocket", "Corpus with the labels: pocket, ud:en_ewt, a path."),
    layers=("-1", "Layers to show: 4, 1-3 or -1."),
)
def dimensions(task: str, *, format: Format = "table", out: Path | None = None, **settings: Any) -> None:
    """Show which dimensions of a layer tell most of a label, and the words that are high or low in each.

    What a model loses without them is measured by the task dimensions:TASK of bertology probe.

    Args:
        task: A task that gives labels to single words: pos, deprel, feats:Number.
        out: Page to write, with the words in context.
    """
    from bertology.causal.dimension_words import find_dimensions, lines_of
    from bertology.families.request import parse_layers

    if out is not None and not is_page(out):
        raise typer.BadParameter(f"{out}: name a page (.html)", param_hint="--out")
    how = {name: settings.pop(name) for name in ("dtype", "device", "revision", "trust_remote_code")}
    encoder = bertology.load_encoder(settings.pop("model"), **how)
    corpus = bertology.load_corpus(settings.pop("corpus"), columns=settings.pop("columns"))
    chosen = parse_layers(settings.pop("layers"), encoder.n_layers)
    found = find_dimensions(encoder, corpus, task, layers=chosen, **settings)
    if out is not None:
        found.save(out)
        typer.echo(f"words of dimensions in {out}", err=True)
    about = {name: getattr(found, name) for name in ("task", "model", "corpus", "ranking", "site")}
    notes = ["", "numbers: mean z of the words of a label or form, in standard deviations from the mean of all words"]
    notes.append(f"model: {folder_name(found.model)}; ranked on train of {found.corpus} ({found.ranking})")
    print_found(format, aligned(list(lines_of(found))), found.to_pandas, about, notes=notes)


@command(
    "how-to/geometry",
    'bertology align "Oscar has seen it." "Сази пида гилогане."',
    "bertology align --file pairs.txt --format pharaoh",
    settings="model pooling dtype device revision trust_remote_code",
    of={"bertology._api:align": "split_at_spaces layer method distortion language"},
    model=("bilingual", "bilingual, a folder, or a hub id."),
)
def align(
    text: str | None = None,
    translation: str | None = None,
    *,
    file: Path | None = None,
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
        format: What to print; for a file pharaoh: a line of links i-j for each line.
        out: Page (.html) or figure (.svg, .pdf or .png) to write.
    """
    is_shown = is_page(out)  # an ending of neither page nor figure is refused first
    if (file is None) == (text is None) or (text is None) != (translation is None):
        raise typer.BadParameter("give a text and its translation, or --file with a pair in each line")
    if file is not None and out is not None:
        raise typer.BadParameter("it shows one pair: give a text and its translation", param_hint="--out")
    pairs = [(str(text), str(translation))] if file is None else _pairs(file)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    layers = "all" if settings["layer"] is None or is_shown else (settings["layer"],)
    found = bertology.align(firsts, seconds, layers=layers, **settings)

    def frame() -> pd.DataFrame:
        return pd.concat([one.to_pandas().assign(pair=number) for number, one in enumerate(found, 1)])

    is_brief = format == "pharaoh" or file is not None
    lines = [one.pharaoh() for one in found] if is_brief else "\n\n".join(map(str, found)).splitlines()
    words = [{"first": list(one.first.words), "second": list(one.second.words)} for one in found]
    about = {"model": found[0].model, "layer": found[0].layer, "method": found[0].method, "pairs": words}
    print_found(format, lines, frame, about)
    save_found(found[0], out, what="links")


def _pairs(file: Path) -> list[tuple[str, str]]:
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
    "bertology tokenize aaabdaaabac --learn bpe",
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
    learn: Literal["bpe", "wordpiece", "unigram"] | None = None,
    size: int | None = None,
    out: Path | None = None,
    **settings: Any,
) -> None:
    """Show how a tokenizer arrives at its subwords, step by step; how one learns them; or how it cuts a corpus.

    Args:
        text: A text to tokenize; omit it with --corpus or --morphs.
        model: pocket, a folder, or a hub id; several are compared.
        corpus: Measure how this corpus is tokenized; several corpora or languages are measured separately.
        split: The split of the corpus.
        morphs: Compare with the morphs in this CSV: pt1 and rest, or word, then morphs.
        n_best: Number of segmentations shown for Unigram tokenizers.
        learn: Learn pieces from the text, or from the lines of a file, by this method, and show the steps.
        size: Pieces of the largest vocabulary that is learnt; as many as there are when left out.
        out: Write the steps to this HTML page as well.
    """
    from bertology.encoders.loading import load_reader
    from bertology.encoders.tokenization import morph_scores, read_morphs, tokens_page, trace_tokens
    from bertology.results.table import Table, TableView

    if learn is not None or size is not None:
        if learn is None or text is None:
            raise CorpusError("--learn bpe, wordpiece or unigram learns from a text or a file: give both")
        _print_learnt(text, learn, size)
        return
    if text is None and not corpus and morphs is None:
        raise CorpusError("nothing to cut: give a text, --corpus or --morphs")
    if out is not None and not text:
        raise CorpusError("--out writes the steps of a text: give one")
    sources = [encoders.resolve_model(name) for name in model or ["pocket"]]
    readers = {source.title: load_reader(source) for source in sources}
    if text is not None:
        traces = {name: trace_tokens(reader.backend, text, n_best=n_best) for name, reader in readers.items()}
        for name, trace in traces.items():
            typer.echo(_steps(name, trace))
        if out is not None:
            write_page(out, tokens_page(text, traces))
    parts = [part for name in corpus or () for part in _parts(bertology.load_corpus(name, **settings), split)]
    for place, (name, sentences) in enumerate(parts):
        table = _tokenizer_scores(f"{name} {split}", sentences, readers, reference=parts[0] if place else None)
        typer.echo(table.to_text())
    if morphs is not None:
        words = list(read_morphs(morphs))
        scores = [morph_scores(reader, words)._asdict() for reader in readers.values()]
        rows = {name.replace("_", " "): [_measure_cell(of[name]) for of in scores] for name in scores[0]}
        typer.echo(TableView((Table.of("Boundaries of morphs", readers, rows, (), corner="measure"),)).to_text())


@command(
    "how-to/explore",
    "bertology explore --open",
    "bertology explore --model pocket,bert-base-cased --corpus pocket",
)
def explore(
    *,
    model: str = "pocket,bilingual",
    corpus: str = "pocket",
    lens: list[Path] | None = None,
    port: int = 8765,
    open_page: bool = False,
) -> None:
    """Serve a page on this machine on which a sentence is looked at from all sides, by the commands of this panel.

    It shows for each view the command and the lines of Python that give the same. Only this machine can open it, by the
    address that is printed. Ctrl-C ends it.

    Args:
        model: Models that can be chosen there, with commas: pocket, folders, hub ids.
        corpus: Corpora that can be chosen there, with commas.
        lens: Tuned lens of one of the models, a .safetensors file; may be repeated.
        port: Port of 127.0.0.1; 0 for a free one.
        open_page: Open it in the browser.
    """
    try:
        from bertology.explore.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        remedy = "pip install 'bertology[explore]'"
        raise BertologyError(f"bertology explore needs starlette and uvicorn: {remedy}") from None

    def ready(address: str) -> None:
        typer.echo(f"{address}\nCtrl-C ends it")
        sys.stdout.flush()
        if open_page:
            typer.launch(address)

    models, corpora = ([part.strip() for part in names.split(",") if part.strip()] for names in (model, corpus))
    serve(models, corpora, lenses=lens or (), port=port, ready=ready)


def _print_learnt(text: str, kind: Literal["bpe", "wordpiece", "unigram"], size: int | None) -> None:
    """Print how pieces are learnt from a text or the lines of a file, and how its first line is cut on the way."""
    from bertology.encoders.learning import learn_pieces

    lines = read_text(Path(text)).splitlines() if text.strip() and exists(text) else [text]
    steps = learn_pieces([line for line in lines if line.strip()], kind, size=size)
    shown = [[str(step.size), " ".join(step.learnt[-_MOST_LEARNT:]), " ".join(step.pieces)] for step in steps]
    for step, columns in zip(steps, shown, strict=True):
        columns[1] = f"… {columns[1]}" if len(step.learnt) > _MOST_LEARNT else columns[1]
        columns[1] += f" (without {' '.join(step.lost[:_MOST_LEARNT])})" if step.lost else ""
    rows = [["pieces", "learnt", "the text" if len(lines) == 1 else "the first line"], *shown]
    first, second = (max(len(row[place]) for row in rows) for place in (0, 1))
    typer.echo("\n".join(f"{size:>{first}}  {learnt:<{second}}  {cut}".rstrip() for size, learnt, cut in rows))


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
) -> TableView:
    """Measures of a split, a column a tokenizer."""
    from bertology.encoders.tokenization import tokenizer_parity, tokenizer_scores
    from bertology.results.table import Note, Table, TableView

    rows: dict[str, list[Any]] = {}
    for reader in readers.values():
        scores = list(tokenizer_scores(reader, sentences))
        if reference is not None and (parity := tokenizer_parity(reader, sentences, reference[1])) is not None:
            scores.append(parity._replace(measure=f"parity with {reference[0]}"))
        for one in scores:
            cell = _measure_cell(one.value, one.ci_low, one.ci_high)
            rows.setdefault(one.measure.replace("_", " "), []).append(cell)
    notes = Note("text", f"{sentences.n_words:,} words of {name}"), Note("interval", "95 %, bootstrap over sentences")
    return TableView((Table.of(f"Tokenizers on {name}", readers, rows, notes, corner="measure"),))


def _measure_cell(value: float, low: float = math.nan, high: float = math.nan) -> Cell | int:
    """A measure with three decimals and its interval, if it has one; a count as it is."""
    from bertology.results.rows import Score
    from bertology.results.table import formatted_cell

    if isinstance(value, int):
        return value
    return formatted_cell(Score(value) if math.isnan(low) else Score(value, low, high), ".3f")
