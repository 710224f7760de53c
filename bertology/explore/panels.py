"""The panels of the page as data: what is asked for, the function that makes the view, and the lines that do the same.

A view is the page that the command of the same name writes. Where a command prints a table or draws a picture, the
page holds these.
"""

import base64
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import yaml

from bertology._figures import figure_bytes
from bertology._names import folder_name, layer_label
from bertology._page import asset, full_page
from bertology.activations.progress import Progress, silent
from bertology.attention import query_key
from bertology.cloze import Prompt, read_cloze
from bertology.cloze.lens import load_lens
from bertology.corpora import load_corpus, sentence_of_text
from bertology.encoders import Encoder
from bertology.encoders.loading import keep_loaded
from bertology.encoders.tokenization import tokens_page, trace_tokens
from bertology.errors import BertologyError, quoted
from bertology.parsing import ParseRequest, TreeParser, tree_parser
from bertology.results.report.comparison import layer_chart
from bertology.results.rows import Score
from bertology.results.table import Note, Table
from bertology.results.trees import to_svg


class Loaded:
    """What is loaded when the page is started, all that it offers: models, corpora, and files of tuned lenses.

    A BertologyError is raised where there is no such model, corpus or lens, or a lens is of none of the models.
    """

    def __init__(self, models: Sequence[str], corpora: Sequence[str], lenses: Sequence[Path] = ()) -> None:
        if not models or not corpora:
            raise BertologyError("explore: name at least one model and one corpus")
        self.models = {name: keep_loaded(name) for name in models}
        self.corpora = {name: load_corpus(name) for name in corpora}
        self.lenses: dict[str, tuple[Path, Encoder]] = {}
        """The file of each model's lens, and the model seen through it."""
        self.progress: Callable[[str], Progress] = lambda _: silent
        """Gives the progress display of a job from its label."""
        self._parsers: dict[tuple[str, str], TreeParser] = {}
        for path, (name, encoder) in product(lenses, self.models.items()):
            try:
                self.lenses[name] = path, encoder.through(load_lens(path, encoder))
            except BertologyError:
                if len(self.models) == 1 or not path.is_file():
                    raise
        if missing := {*lenses} - {path for path, _ in self.lenses.values()}:
            raise BertologyError(f"{missing.pop()}: it is a tuned lens of none of {', '.join(models)}")

    def parser(self, model: str, corpus: str) -> TreeParser:
        """The parser of a model whose probe is fitted on a corpus, the first time it is asked for."""
        if (model, corpus) not in self._parsers:
            request, encoder = ParseRequest(model=model, corpus=corpus), self.models[model]
            self._parsers[model, corpus] = tree_parser(request, encoder=encoder, progress=self.progress)
        return self._parsers[model, corpus]


@dataclass(frozen=True)
class Question:
    """What the browser asks for, checked: texts, names that were given when the server started, and settings."""

    panel: str
    text: str
    model: str
    second: str = ""
    corpus: str = ""
    settings: Mapping[str, str | int] = field(default_factory=dict)
    """Those that are not left out."""
    lens: Path | None = None


@dataclass(frozen=True)
class Setting:
    """One more thing that a panel asks for."""

    name: str
    """As the function and, with dashes, the command name it."""
    label: str
    choices: Sequence[str] = ()
    """A free text where there are none; the first one is what a function takes when it is left out."""
    default: int | None = None
    """The first value of a number."""
    least: int = 1
    most: int = 0
    hint: str = ""
    is_needed: bool = False
    is_of_page: bool = False
    """Whether the page takes it, not the function."""

    def read(self, given: str) -> str | int:
        """The value of what the browser sends; the empty text where it is left out."""
        text = given.strip()
        if self.choices and text and text not in self.choices:
            raise BertologyError(f"{self.label}: {quoted(text)} is none of {', '.join(self.choices)}")
        if self.default is not None:
            text = text or str(self.default)
            if not (text.isascii() and text.isdigit()) or not self.least <= int(text[:9]) <= self.most:
                raise BertologyError(f"{self.label}: give a number from {self.least} to {self.most:,}")
            return int(text)
        if self.is_needed and not text:
            raise BertologyError(f"{self.label}: give {self.hint}")
        return "" if self.choices and text == self.choices[0] else text


@dataclass(frozen=True)
class Panel:
    """A view, and how it is had without the page."""

    name: str
    """That of the command, unless ``of_command`` has it."""
    title: str
    about: str
    of_command: str = ""
    file: str = ""
    """The file that the command writes; empty where it prints a table."""
    function: str = ""
    """``module:name`` of the function whose result has the page."""
    lines: str = ""
    """Lines of Python that do the same, a format of the question's fields, where no function has the page."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Arguments of the function that the command gives by itself."""
    second: str = ""
    """Label of the second text, where there is one."""
    second_option: str = ""
    """The option of the command that takes it; it is an argument where there is none."""
    second_name: str = "second"
    """The parameter of the function that takes it."""
    needs_second: bool = False
    has_corpus: bool = False
    settings: tuple[Setting, ...] = ()
    examples: Sequence[Mapping[str, str]] = ()

    def arguments(self, question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments of the function after the text, and of its page."""
        named: dict[str, Any] = {self.second_name: question.second} if question.second else {}
        named |= {"model": question.model, **({"corpus": question.corpus} if self.has_corpus else {}), **self.fixed}
        of_page = {one.name for one in self.settings if one.is_of_page} & question.settings.keys()
        named |= {name: value for name, value in question.settings.items() if name not in of_page}
        return named, {name: question.settings[name] for name in of_page}

    def page(self, question: Question, loaded: Loaded) -> str:
        """The view as a page."""
        if self.name in _OWN:
            return _OWN[self.name](question, loaded)
        named, of_page = self.arguments(question)
        if self.has_corpus:
            named |= {"corpus": loaded.corpora[question.corpus], "progress": loaded.progress}
        found = resolve_name(self.function)(question.text, **named)
        found = found.map(**of_page) if of_page else found
        return str(found.to_html() if hasattr(found, "to_html") else found.html)

    def python(self, question: Question) -> str:
        """Lines of Python that give the same."""
        named, of_page = self.arguments(question)
        if self.lines:
            words = _words(question)
            prompt = _written(question.text, *([words] if words else []))
            parts = {"prompt": prompt, "top": named.get("top"), "lens": ""}
            if question.lens is not None:
                through = f"encoder.through(load_lens({str(question.lens)!r}, encoder))"
                parts["lens"] = f"from bertology.cloze.lens import load_lens\n\nencoder = {through}\n"
            given = {"text": question.text, "corpus": question.corpus, "second": question.second or None, **named}
            return self.lines.format(**{name: repr(value) for name, value in given.items()} | parts).rstrip()
        module, _, name = self.function.partition(":")
        call = f"{name}({_written(question.text, **named)}).save({_written(self.file, **of_page)})"
        return f"from {module} import {name}\n\n{call}"

    def command(self, question: Question) -> str:
        """The command line that gives the same."""
        texts, options = [question.text], [("--model", question.model)]
        if question.second and self.second_option:
            options.append((self.second_option, question.second))
        elif question.second:
            texts.append(question.second)
        options += [("--corpus", question.corpus)] * self.has_corpus
        options += [(f"--{name}", str(value)) for name, value in question.settings.items() if name != "lens"]
        options += [("--lens", str(question.lens))] * (question.lens is not None)
        options += [("--out", self.file)] * bool(self.file)
        # A text that begins with a dash is no option.
        is_plain = not any(text.startswith("-") for text in texts)
        words = ["bertology", self.of_command or self.name, *(texts if is_plain else [])]
        for option, value in options:
            words += [f"{option}={value}"] if value.startswith("-") else [option, value]
        return shlex.join([*words, *([] if is_plain else ["--", *texts])])


def _written(*given: object, **named: object) -> str:
    """Arguments as Python has them."""
    return ", ".join([*map(repr, given), *(f"{name}={value!r}" for name, value in named.items())])


def _table_page(title: str, lead: str, table: Table, *, picture: bytes = b"") -> str:
    """The page of what a command prints or draws."""
    style, here, drawn = "results/report/assets/comparison.css", "explore/assets/view.html", base64.b64encode(picture)
    shown: dict[str, Any] = {"heading": title, "lead": lead, "table": table, "picture": drawn.decode()}
    return full_page(here, title=title, styles=[style], scripts=[], data={}, chart_of=layer_chart, **shown)


def _tokenize(question: Question, loaded: Loaded) -> str:
    encoder = loaded.models[question.model]
    return tokens_page(question.text, {encoder.source.title: trace_tokens(encoder.tokenizer, question.text)})


def _tree(question: Question, loaded: Loaded) -> str:
    found = loaded.parser(question.model, question.corpus)(sentence_of_text(question.text))
    n_words = len(found.words)
    heads = ["–" if head < 0 else f"{head} {found.words[head - 1]}" if head else "root" for head in found.heads or ()]
    depths = [f"{depth:.1f}" for depth in found.depths or ()]
    columns = [found.words, heads or "–" * n_words, [one or "–" for one in found.relations or "–" * n_words], depths]
    rows = dict(zip(map(str, range(1, n_words + 1)), zip(*columns, strict=True), strict=True))
    table = Table.of("Words", ("word", "head", "relation", "depth"), rows, (), corner="")
    lead = f"{folder_name(found.model)}, layer {layer_label(found.layer)}, probe fitted on {question.corpus}"
    return _table_page(question.text, lead, table, picture=to_svg(found))


def _words(question: Question) -> tuple[str, ...]:
    """The candidates, which stand between commas."""
    every = str(question.settings.get("candidates", "")).split(",")
    return tuple(word.strip() for word in every if word.strip())


def _cloze(question: Question, loaded: Loaded) -> str:
    prompt, encoder = Prompt(question.text, _words(question)), loaded.models[question.model]
    if not prompt.n_masks:
        raise BertologyError(f"no mask in {quoted(question.text)}: write {{mask}} where a word is left out")
    encoder = loaded.lenses[question.model][1] if question.lens else encoder
    found = read_cloze(encoder, prompt, top=int(question.settings.get("top", 5)))
    rows = {}
    for layer, shares, first in zip(found.layers, np.exp(found.log_probs), found.first, strict=True):
        rows[layer_label(layer)] = [*(Score(float(share)) for share in shares), first]
    notes = [Note("numbers", "probability, %"), Note("first", "the most probable vocabulary entry of the layer")]
    notes += [Note("left out", f"{one.candidate}: {one.reason}") for one in found.excluded]
    lead = f"{folder_name(found.model)}, every layer read by its masked-LM head ({found.lens} lens)"
    return _table_page(found.text, lead, Table.of("Probability by layer", (*found.words, "first"), rows, notes))


def _query(question: Question, loaded: Loaded) -> str:
    word, head = (str(question.settings[name]) for name in ("query", "head"))
    second = question.second or None
    found = query_key(question.text, word, head=head, model=loaded.models[question.model], second=second)
    columns, *rows = found.rows()
    table = Table.of("Subwords", columns, {str(number): row for number, row in enumerate(rows, 1)}, (), corner="")
    lead = f"{folder_name(found.model)}, head {found.head}: products of the query of {quoted(word)} with all keys"
    return _table_page(question.text, lead, table, picture=figure_bytes(found.plot(), "svg"))


_OWN: Mapping[str, Callable[[Question, Loaded], str]] = {
    "tokenize": _tokenize,
    "tree": _tree,
    "cloze": _cloze,
    "query": _query,
}
"""What makes the page of views that no function has."""


def _panels() -> Iterator[Panel]:
    for name, values in yaml.safe_load(asset("explore/panels.yaml")).items():
        settings = tuple(Setting(one, **known) for one, known in values.pop("settings", {}).items())
        yield Panel(name, **values, settings=settings)


PANELS = {panel.name: panel for panel in _panels()}
"""By name, in the order of the page."""
