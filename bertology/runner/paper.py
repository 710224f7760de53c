"""The parts of a paper that come from a run: figures, tables, a paragraph of methods, works cited, and its YAML."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bertology._files import write_derived
from bertology._page import asset
from bertology.corpora import data_sets, treebanks
from bertology.families.request import Experiment
from bertology.probing import get_probe
from bertology.readouts import readout_kind, registered_readouts
from bertology.results import Results, read_results
from bertology.results.rows import ASKED, INITS
from bertology.results.table import STAR, Note, Table, latex_escaped
from bertology.runner._folder import RunFolder

COLUMN_INCHES, PAGE_INCHES = 3.03, 6.3
"""Widths of a column and of the text of a page in ACL's style."""
_MOST_FOR_A_COLUMN = 7.0  # inches on a screen; wider figures and tables are set across the page
_MOST_COLUMNS = 5
_SOFTWARE = {
    "transformers": "Wolf et al. 2020",
    "torch": "Paszke et al. 2019",
    "scikit-learn": "Pedregosa et al. 2011",
}
_OF_TREEBANKS, _INTERVALS, _COMPARISONS = "Nivre et al. 2020", "Efron 1987", "Benjamini & Hochberg 1995"


class Work(NamedTuple):
    """A work that is cited."""

    short: str
    """The words by which texts name it: ``Liu et al. 2019``."""
    entry: str
    """Its BibTeX entry."""

    @property
    def key(self) -> str:
        """The key of the entry."""
        return self.entry.partition("{")[2].partition(",")[0]


@cache
def works() -> tuple[Work, ...]:
    """All works that texts of tasks, readouts and statistics name."""
    _, *blocks = asset("assets/works.bib").split("\n% ")
    return tuple(Work(short, entry.strip()) for short, _, entry in (block.partition("\n") for block in blocks))


def works_in(text: str) -> list[Work]:
    """The works that a text names, in the order of their keys."""
    return [work for work in works() if re.search(rf"{re.escape(work.short)}\b", text)]


def cited(text: str) -> str:
    """LaTeX of a text, the works that it names as citations; in brackets of their own where it has none for them."""
    latex = latex_escaped(text)
    for work in works_in(text):
        latex = re.sub(rf"{re.escape(latex_escaped(work.short))}\b", rf"\\citealp{{{work.key}}}", latex)
    return latex


def write_paper(run: str | Path, out: str | Path, *, width: float = COLUMN_INCHES) -> list[Path]:
    """Write what a paper needs of a run into folder ``out``: nothing is computed.

    ``figures/*.pdf`` have the width of a column, wide ones that of a page, letters of about 7 points and embedded
    fonts; ``tables/*.tex`` are booktabs tables with a caption of one sentence. What stands below tables elsewhere is in
    ``methods.tex``, a paragraph on models, data, readouts, intervals, seeds and versions, made of what the tables and
    the run's record say. ``references.bib`` has the works that are cited, ``run.yaml`` repeats the run, and
    ``paper.tex`` shows all of them.

    Args:
        run: a run's folder.
        out: the folder to write into; it is made if absent.
        width: of a column, in inches.

    Returns:
        The files that were written.

    Raises:
        BertologyError: the folder is not a run's, or has no scores.
    """
    run, out = Path(run), Path(out)
    folder, results = RunFolder(run), read_results(run)
    experiment = folder.experiment()
    views: Any = results.overview()
    tables = [table for view in views for table in view.shown()]
    files: dict[str, bytes] = {}
    shown = [*_figures(results, width, files), *_tables(tables, files)]
    of_tasks = [table.table() for view in views for table in getattr(view, "overview", ())]  # of many, not shown
    about = [table for table in (*tables, *(of_tasks if len(tables) == 1 else ())) if table.about]
    record = folder.record()
    parts = [
        _models(results, experiment, record),
        *_corpora(results),
        *_tasks(about),
        _software(results, experiment, record),
    ]
    methods = "\n".join(parts) + "\n"
    files["methods.tex"] = methods.encode()
    entries = [work.entry for work in works() if f"{{{work.key}}}" in " ".join([methods, *shown])]
    files["references.bib"] = ("\n\n".join(entries) + "\n").encode()
    files["run.yaml"] = (run / ASKED).read_bytes()
    files["paper.tex"] = asset("assets/paper.tex").replace("% parts", "\n".join(shown)).encode()
    write_derived(out, files)
    return [out / name for name in files]


def _figures(results: Results, width: float, files: dict[str, bytes]) -> Iterator[str]:
    """Draw the figures into ``files``, and give the LaTeX that shows each of them."""
    from bertology._figures import at_width, figure_bytes
    from bertology.results.figures import plot_tables

    figures: dict[str, Any] = {}
    for view in results.overview():
        drawn = dict(view.figures())
        if "layers" in drawn:  # a panel a figure: side by side they are too wide for a column
            del drawn["layers"]
            of_layers: Any = view.tables
            scored = [table for table in of_layers if any(line.main for line in table.lines)]
            figures |= {table.table().latex_label.removeprefix("tab:"): plot_tables((table,)) for table in scored}
        figures |= drawn
    for name, figure in figures.items():
        is_wide = bool(figure.get_size_inches()[0] > _MOST_FOR_A_COLUMN)
        about, titles = figure.get_supxlabel(), [ax.get_title(loc="left") for ax in figure.axes]
        title = "; ".join(dict.fromkeys(map(_titled, filter(None, titles))))
        files[f"figures/{name}.pdf"] = figure_bytes(
            at_width(figure, PAGE_INCHES * width / COLUMN_INCHES if is_wide else width), "pdf"
        )
        caption = cited(". ".join(filter(None, [title, " ".join(about.split())])))
        star, size = "*" * is_wide, r"\textwidth" if is_wide else r"\columnwidth"
        yield (
            f"\\begin{{figure{star}}}[t]\n  \\includegraphics[width={size}]{{figures/{name}.pdf}}\n"
            f"  \\caption{{{caption}}}\n  \\label{{fig:{name}}}\n\\end{{figure{star}}}"
        )


def _tables(tables: Sequence[Table], files: dict[str, bytes]) -> Iterator[str]:
    """Write the tables into ``files``, and give the LaTeX that reads each of them."""
    for table in tables:
        label, number = table.latex_label, 1
        while f"tables/{label[4:]}.tex" in files:
            number += 1
            label = f"{table.latex_label}-{number}"
        latex = replace(table, notes=()).to_latex(label=label, caption=_caption(table))
        if len(table.headers) > _MOST_COLUMNS:
            latex = latex.replace("{table}", "{table*}")
        files[f"tables/{label[4:]}.tex"] = latex.encode()
        yield rf"\input{{tables/{label[4:]}}}"


def _caption(table: Table) -> str:
    """One sentence on what is shown, of which model and data, and what bold means."""
    known = {note.about: note.text for note in table.notes}
    model = known.get("model", "").partition(", ")[0]
    corpus, split = (known.get(name, getattr(table.about, name, "")) for name in ("corpus", "split"))
    data = f"all of {corpus}" if split == "all" else f"the {split} split of {corpus}"
    data = f"{corpus}, {split}" if " " in split else data if corpus and split else corpus
    what = " on ".join(filter(None, [model, data]))
    best = "; bold: statistically tied with the best layer" if any(line.best for line in table.lines) else ""
    return latex_escaped(_titled(table.title) + (f": {what}" if what else "") + best + ".")


def _titled(title: str) -> str:
    """The title of a table or figure in words: ``pos, accuracy (%) by layer`` of ``pos · accuracy by layer, %``."""
    return re.sub(r"^(.*, )?([^,]*?)( by [^,]*)?, %", r"\1\2 (%)\3", title.replace(" · ", ", ", 1))


def _models(results: Results, experiment: Experiment, record: Mapping[str, Any]) -> str:
    """What was read: each model with its weights, revision and fingerprint, and how its vectors were made."""
    models = []
    for model in experiment.models:
        rows = [row for row in results.rows if row.model == model.title and row.n_layers is not None]
        fingerprint = record["content"].get("models", {}).get(model.name, "")
        about = [f"{rows[0].n_layers} layers"] if rows else []
        about += [INITS[model.init]] if INITS[model.init] else []
        about += [f"revision {model.revision}"] if model.revision else []
        about += [f"weights {fingerprint[:12]}"] if fingerprint and model.init == "pretrained" else []
        has_vectors = any(row.pooling for row in rows)  # attention heads and masked words have none that are stored
        about += [f"vectors of words the {model.pooling} of their subwords'"] * has_vectors
        about += [f"computed in {model.dtype}" + f", vectors stored in {model.stored_dtype}" * has_vectors]
        models.append(f"{_emph(model.title)} ({latex_escaped(', '.join(about))})")
    return f"What {' and '.join(models)} encode{'s' * (len(models) == 1)} was read by bertology {record['bertology']}."


def _corpora(results: Results) -> Iterator[str]:
    """The works that corpora known by name come from."""
    known = {**data_sets(), **treebanks()}
    for name in dict.fromkeys(row.corpus for row in results.rows):
        reference = known[name].reference or _OF_TREEBANKS if name in known else ""
        if reference:
            works_of_it = [rf"\citet{{{work.key}}}" for work in works_in(reference)]
            yield f"Corpus {_emph(name)} is that of {' and '.join(works_of_it) or latex_escaped(reference)}."


def _tasks(tables: Sequence[Table]) -> Iterator[str]:
    """What was asked of which data, a sentence a task; then what is said alike of all of them: in the tables' words."""
    texts, of_tasks = defaultdict[str, set[str]](set), defaultdict[str, dict[Note, None]](dict)
    for table in tables:
        for note in table.notes:
            if note.about != "model":  # which has a sentence of its own
                texts[note.about].add(note.text)
                of_tasks[table.task][note] = None
    alike = {note: None for notes in of_tasks.values() for note in notes if len(texts[note.about]) == 1}
    for task, notes in of_tasks.items():
        probe = get_probe(task)
        question = cited(probe.question[:1].lower() + probe.question[1:])
        told = [f"{_emph(task)} asks: {question} ({cited(probe.reference)})"]
        yield "; ".join([*told, *(_told(note) for note in notes if note not in alike)]) + "."
    told = list(map(_told, alike))
    kinds = {f"{table.row.readout}.{table.row.readout_version}" for table in tables} & registered_readouts().keys()
    told += [f"readout {latex_escaped(name)}: {cited(readout_kind(name).about)}" for name in sorted(kinds)]
    if told:
        yield f"Throughout, {'; '.join(told)}."


def _told(note: Note) -> str:
    return f"{latex_escaped('best layers' if note.about == STAR else note.about)}: {cited(note.text)}"


def _software(results: Results, experiment: Experiment, record: Mapping[str, Any]) -> str:
    """Seeds, statistics, versions and devices."""
    is_fitted = any(row.n_train and row.layer is not None for row in results.rows)
    seeds = f"each fit was made with {experiment.seeds} seed{'s' * (experiment.seeds != 1)}" if is_fitted else ""
    is_bca = any("bca" in (row.ci_method or "") for row in results.rows)
    by = [_INTERVALS] * is_bca + [_COMPARISONS] * bool(results.comparisons)
    statistics = " and ".join(rf"\citet{{{work.key}}}" for work in works() if work.short in by)
    versions = []
    for name, version in record.get("versions", {}).items():
        cites = [rf" \citep{{{work.key}}}" for work in works() if work.short == _SOFTWARE.get(name)]
        versions += [f"{latex_escaped(f'{name} {version}')}{''.join(cites)}"] if name != "bertology" else []
    devices = sorted({str(session["device"]) for session in record["sessions"] if session.get("device")})
    software = f"Versions: {', '.join(versions)}; on {', '.join(devices)}."
    names = " and ".join(["intervals"] * is_bca + ["sets of best layers"] * bool(results.comparisons))
    told = "; ".join(filter(None, [seeds, f"{names} follow {statistics}" if by else ""]))
    return f"{told[:1].upper()}{told[1:]}. {software}" if told else software


def _emph(text: str) -> str:
    return rf"\emph{{{latex_escaped(text)}}}"
