"""Models compared with a reference in one call: tasks, vectors, attention, weights and losses, by layer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from bertology._api import names_of
from bertology._files import cache_folder, canonical_json, digest, write_derived
from bertology._machine import explained
from bertology._names import name_not_found, short_names
from bertology.activations.progress import BarProgress, can_show, silent
from bertology.comparison.findings import head_changes, null_findings, retained, verdicts
from bertology.comparison.models import restorable_task, size_and_speed
from bertology.corpora import kept_name, load_corpus
from bertology.errors import CorpusError, ModelError, NameNotFoundError
from bertology.families.models import compare_models
from bertology.families.request import CorpusSettings, parse_names
from bertology.probing import get_probe
from bertology.results import Results, read_results
from bertology.results.compared import Compared, compared_frame, compared_tasks, pair_statistics
from bertology.results.report.comparison import findings, head_findings, render_comparison
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import Experiment, experiment_of
from bertology.runner.plan import resolve_work

if TYPE_CHECKING:
    import pandas as pd

    from bertology.encoders import ModelSource

FROZEN = "frozen_probe"
"""The measure that puts the readout of a task, fitted on the reference, to the model."""
_SIZES = "size_and_speed"
_TIMED = 60
"""Sentences that speed is measured on."""
MEASURES = (FROZEN, "vectors", "attention", "weights", "masked_loss", "restoring", "label_clusters", _SIZES)
"""Measures besides the tasks: tasks ``comparison:…``, ``frozen_probe:TASK``, and sizes."""


@dataclass(frozen=True)
class ModelComparison:
    """The differences between models and their reference; returned by :func:`bertology.compare`."""

    reference: str
    """The name of the reference in the tables."""
    models: tuple[str, ...]
    """The names of the other models in the tables."""
    results: Results
    """All scores, with the comparisons of models."""
    folder: Path
    """Run directory."""
    failures: tuple[str, ...]
    """Measures that failed, a line each."""
    left_out: tuple[str, ...] = field(default=())
    """Measures that these models do not have in common, a line each, where none was named."""
    sizes: pd.DataFrame | None = None
    """Sizes and speeds of all models (:func:`bertology.comparison.size_and_speed`); None if not asked for."""
    retained: pd.DataFrame | None = None
    """The share of the reference's score beyond a floor, by model, task and layer, as
    :func:`bertology.comparison.retained` has it; None without a control that makes a floor."""
    heads: pd.DataFrame | None = None
    """The statistics of attention heads by model, as :func:`bertology.comparison.head_changes` has them; None without a
    task of heads."""

    @cached_property
    def _changes(self) -> tuple[Compared, ...]:
        """The tasks of all models beside the reference, and the statistics of pairs of models."""
        rows = self.results.rows
        return (*compared_tasks(rows, self.results.comparisons, reference=self.reference), *pair_statistics(rows))

    def to_pandas(self) -> pd.DataFrame:
        """A row for each layer of each task next to the reference, and for each statistic of a pair of models.

        Columns are ``task``, ``corpus``, ``metric``, ``reference``, ``model``, ``layer``, ``head``, ``value``,
        ``ci_low``, ``ci_high``, ``reference_layer``; of tasks ``reference_value``, ``difference``, ``difference_low``,
        ``difference_high`` and ``p_adj`` (Benjamini–Hochberg); of likenesses ``at_null``, whether they are no more than
        those of words in random order. Fractions, not percentages.
        """
        return compared_frame(self._changes)

    @property
    def findings(self) -> tuple[str, ...]:
        """The changes: for each model a verdict and its numbers as a whole, then each task and each statistic."""
        sizes = () if self.sizes is None else self.sizes.to_dict("records")
        of_heads = () if self.heads is None else head_findings(self.heads)
        whole = verdicts(self.models, self._changes, sizes)
        return (*whole, *findings(self._changes), *null_findings(self._changes), *of_heads)

    @property
    def _frames(self) -> dict[str, pd.DataFrame]:
        frames = {"sizes": self.sizes, "retained": self.retained, "heads": self.heads}
        return {name: frame for name, frame in frames.items() if frame is not None}

    def page(self) -> str:
        """One HTML page with charts and tables, which needs no network."""
        return render_comparison(
            self.results,
            self._changes,
            reference=self.reference,
            words=self.findings,
            failures=(*self.failures, *self.left_out),
            frames=self._frames,
        )

    def save(self, folder: str | Path) -> Path:
        """Write ``comparison.html`` and ``comparison.csv`` to a folder, which is returned.

        There are ``sizes.csv``, ``retained.csv`` and ``heads.csv`` as well, where these were measured.

        Raises:
            StoreError: a file cannot be written.
        """
        folder, frames = Path(folder), {"comparison": self.to_pandas(), **self._frames}
        tables = {f"{n}.csv": frame.to_csv(index=False, lineterminator="\n").encode() for n, frame in frames.items()}
        write_derived(folder, {**tables, "comparison.html": self.page().encode()}, remedy="name another folder")
        return folder

    def __str__(self) -> str:
        return "\n".join(self.findings)

    def _repr_html_(self) -> str:
        from bertology._page import framed

        return framed(self.page(), title=f"Comparison with {self.reference}", height=640)


@explained("this comparison")
def compare(
    reference: Any,
    *models: Any,
    tasks: str | Sequence[str] = "pos",
    corpus: Any = "pocket",
    measures: str | Sequence[str] = "auto",
    layers: str | Sequence[int] = "all",
    controls: str | Sequence[str] = "none",
    out: str | Path | None = None,
    progress: bool | None = None,
    names: Sequence[str | None] | None = None,
    options: RunOptions | None = None,
    **settings: Any,
) -> ModelComparison:
    """Compare models with a reference, layer by layer: what fine-tuning, compression or further training changed.

    >>> from bertology import compare
    >>> found = compare("pocket", "tuned/seed-1", tasks="pos,deprel")  # doctest: +SKIP

    Every task is put to all models, with paired differences on the same items; a task's readout that was fitted on the
    reference is put to the vectors of the model as well (``frozen_probe``), which tells a change of form (it fails,
    while a new readout holds) from a change of content (both fall). Vectors, attention, weights and the loss on the
    same masked words are compared by layer.

    Args:
        reference: ``pocket``, a folder, a hub id, an :class:`~bertology.Encoder`, or a transformers model with its
            tokenizer, ``(model, tokenizer)``: what the others are compared with.
        models: one or more others.
        tasks: names, in a sequence or with commas; ``bertology tasks`` lists them.
        corpus: as in :func:`bertology.probe`; several in a tuple, such as one of the domain that a model was trained on
            and one of another. Settings of a corpus are those of all.
        measures: ``auto``, those that the models have in common; names with commas of ``frozen_probe``, ``vectors``,
            ``attention``, ``weights``, ``masked_loss``, ``restoring``, ``label_clusters``, ``size_and_speed``; or
            ``none``. Retained knowledge is added where a control makes a floor.
        layers: ``all``, ``"0-6"`` or numbers; 0 is the embedding output.
        controls: as in :func:`bertology.probe`; none by default.
        out: a folder to keep the run in, with ``comparison.html`` and ``comparison.csv``; one in the cache when left
            out. What is finished there is not computed again.
        progress: whether to draw bars; by default in a notebook, and if standard error is a terminal.
        names: what tables call models in memory, the reference's first, None for those of files.
        options: how to run it.
        settings: ``seeds``, ``sentences``, ``columns``, ``test_split``, ``train_split``, ``device``, ``dtype``,
            ``pooling`` and further settings of a model in an experiment file.

    Raises:
        BertologyError: a model, task, corpus or measure does not exist, or two models are the same.
    """
    import pandas as pd

    if not models:
        raise ModelError("compare: give a model besides the reference")
    show = can_show() if progress is None else progress
    asked_tasks = [get_probe(task).task for task in parse_names(tasks)]
    found_by = names_of([reference, *models], names)
    doubled = next((name for name in found_by if found_by.count(name) > 1), None)
    if doubled is not None:
        raise ModelError(f"compare: model {doubled} is given twice; give each model once")
    titles = {name: short_names(found_by)[name] for name in found_by}
    chosen, left_out = _measures(measures, asked_tasks, found_by)
    asked = list(asked_tasks)
    for measure in chosen:
        if measure not in (FROZEN, _SIZES):
            asked.append(f"comparison:{measure}")
        for task in asked_tasks if measure == FROZEN else ():
            with contextlib.suppress(NameNotFoundError):  # a readout put to another model is one of labels of words
                asked.append(get_probe(f"{FROZEN}:{task}").task)
    experiment = _experiment(titles, asked, corpus, {"layers": layers, "controls": controls, **settings})
    work = resolve_work(experiment)
    folder = Path(out) if out is not None else cache_folder() / "runs" / digest([canonical_json(experiment.plain())])
    bars = RunOptions(engine="threads", retry_failed=True, progress=BarProgress if show else lambda _: silent)
    summary = run_experiment(work.experiment, folder, work=work, options=options or bars)
    first, *others = titles.values()
    results = compare_models(read_results(folder), reference=first)
    sizes = kept = None
    if _SIZES in chosen:
        # Those of before where nothing was computed, so that a repeated command prints the same.
        with contextlib.suppress(OSError, ValueError):  # missing or damaged: measured again
            sizes = None if summary.n_computed else pd.read_csv(folder / "sizes.csv")
        if sizes is None:
            sizes = size_and_speed(found_by, work.plans[0].pair.splits.test[:_TIMED], repeats=3)
    if any(row.control in ("majority", "word_majority") or row.init == "random" for row in results.rows):
        of_reference = results.only(model=first)
        of_models = {model: retained(of_reference, results.only(model=model)) for model in others}
        kept = pd.concat([of.table().assign(model=model) for model, of in of_models.items()], ignore_index=True)
    heads = head_changes(results, folder, reference=first, models=others)
    tables = sizes, kept, heads if len(heads) else None
    found = ModelComparison(first, tuple(others), results, folder, summary.failures, left_out, *tables)
    found.save(folder)
    return found


def _experiment(titles: dict[str, str], tasks: Sequence[str], corpus: Any, settings: dict[str, Any]) -> Experiment:
    """The experiment that computes everything: the reference first, each other model with its reference."""
    of_corpus = {key: settings.pop(key) for key in list(settings) if key in CorpusSettings.model_fields}
    shared = {key: settings.pop(key) for key in list(settings) if key in Experiment.model_fields}
    for key in ("layers", "controls"):
        shared[key] = shared[key] if isinstance(shared[key], str) else list(shared[key])
    columns, corpora = of_corpus.pop("columns", None), list[dict[str, Any]]()
    for one in corpus if isinstance(corpus, tuple) else (corpus,):
        if isinstance(one, str | Path):
            corpora.append({"name": str(one), **of_corpus, **({} if columns is None else {"columns": columns})})
        else:
            corpora.append({"name": kept_name(load_corpus(one, columns=columns)), **of_corpus})
    if not corpora:
        raise CorpusError("compare: give a corpus")
    short, last = short_names(one["name"] for one in corpora), [PurePath(one["name"]).name for one in corpora]
    for one, name in zip(corpora, last, strict=True):  # folders of one name by as much of paths as tells them apart
        one |= {"id": short[one["name"]]} if last.count(name) > 1 else {}
    (name, first), *others = titles.items()
    models: list[dict[str, Any]] = [{"name": name, "id": first, **settings}]
    models += [{"name": name, "id": title, "reference": first, **settings} for name, title in others]
    asked: list[Any] = list(tasks)
    if len(corpora) > 1 and "comparison:weights" in asked:  # it reads no text, and is computed once
        one = {"name": "comparison:weights", "corpora": [corpora[0].get("id", corpora[0]["name"])]}
        asked[asked.index("comparison:weights")] = one
    outputs: dict[str, Any] = {"plots": []}
    plain = {"name": "comparison", "models": models, "corpora": corpora, "tasks": asked, "outputs": outputs, **shared}
    return experiment_of(plain, where="compare")


def _measures(
    asked: str | Sequence[str], tasks: Sequence[str], models: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Measures that are asked for, and what is left out and why where none was named."""
    names = parse_names(asked)
    if names == ("none",):
        return (), ()
    if names == ("auto",):
        lacks = _lacking(models, tasks)
        left_out = tuple(f"{name}: {reason}" for name, reason in lacks.items())
        return tuple(name for name in MEASURES if name not in lacks), left_out
    for name in names:
        if name not in MEASURES:
            raise name_not_found("measure", name, ("auto", "none", *MEASURES))
    return names, ()


def _lacking(models: Sequence[str], tasks: Sequence[str]) -> dict[str, str]:
    """The reason why models cannot be compared, by measure, as far as their files show."""
    from transformers import CONFIG_MAPPING

    from bertology.encoders import model_shape, resolve_model
    from bertology.encoders.sources import MemorySource, claims_masked_lm_head, load_config

    def predicts_masked_words(source: ModelSource) -> bool:
        """Never by a model of files that runs code of its own."""
        if isinstance(source, MemorySource):
            return source.has_masked_lm_head
        is_known = model_shape(source).family in CONFIG_MAPPING
        return is_known and claims_masked_lm_head(load_config(source, trust_remote_code=False))

    sources = [resolve_model(name) for name in models]
    shapes = [model_shape(source) for source in sources]
    lacks = {}
    for measure, *names in ((FROZEN, "dim"), ("attention", "n_layers", "n_heads"), ("weights", "n_layers", "dim")):
        if len(found := {tuple(getattr(shape, name) for name in names) for shape in shapes}) > 1:
            lacks[measure] = f"models differ in {' and '.join(names)}: {sorted(found)}"
    if not all(map(predicts_masked_words, sources)):
        lacks["masked_loss"] = "not every model has a masked-LM head"
    if held := [source.title for source in sources if isinstance(source, MemorySource)]:
        lacks |= dict.fromkeys(("weights", _SIZES), f"{held[0]} is in memory alone, as no files hold it")
    if "weights" in lacks or not {restorable_task(sources[0], source) for source in sources[1:]} <= set(tasks):
        lacks["restoring"] = "the models are not fine-tuned from the reference for one of the tasks"
    return lacks
