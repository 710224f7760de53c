"""The claims put to encoders: one experiment is planned from them and run, then each rule looks at its scores."""

import functools
import io
import itertools
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from bertology._files import cache_folder, canonical_json, digest, read_json, write_derived
from bertology._lazy import pd, scipy
from bertology._machine import explained
from bertology._names import by_key, short_names
from bertology._page import full_page
from bertology.activations.progress import BarProgress, can_show, silent
from bertology.encoders import model_name
from bertology.errors import ModelError, NameNotFoundError
from bertology.families.request import RANDOM, CorpusSettings, flat_setting, parse_names
from bertology.pocket import EMBEDDED
from bertology.primer.claims import Claims, Measurement, chosen, load_claims, section_title
from bertology.primer.page import Examples, shown_claim
from bertology.primer.plan import QUICK, Plan, bound_corpora, plan_claims
from bertology.primer.rules import CHANCE, VERDICTS, Finding, Outcome, apply, combined, written
from bertology.primer.scores import Curve, NotTestedError, Scores
from bertology.primer.trained import Trained
from bertology.primer.trained import train as train_models
from bertology.results import Results, read_results
from bertology.results.report.comparison import layer_chart
from bertology.results.rows import FALSE_DISCOVERY_RATE, RESULTS, Score
from bertology.results.table import NOTHING, Cell, Note, Table, Tables, score_cell
from bertology.runner import RunOptions, run_experiment
from bertology.runner.plan import resolve_work

_RECORD = "primer.json"
"""The file of a run with the claims, and what could not be asked."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, repr=False)
class Primer(Tables):
    """Verdicts on claims for encoders: prints as tables; has ``.to_pandas()``, ``.page()`` and ``.save(folder)``."""

    outcomes: tuple[Outcome, ...]
    models: tuple[str, ...]
    sections: Mapping[str, str]
    results: Results | None
    """All scores behind the verdicts; None where no claim could be tested."""
    folder: Path
    """Run directory."""
    corpora: tuple[CorpusSettings, ...] = ()
    """The corpora that were read."""
    notes: tuple[Note, ...] = ()
    command: str = "bertology primer"
    """The command that repeats it."""

    def of(self, model: str, claim: str) -> Outcome:
        """The outcome of a claim, by its id with or without the version, for a model."""
        for one in self.outcomes:
            if one.model == model and claim in (one.claim.id, one.claim.id.rpartition(".")[0]):
                return one
        raise NameNotFoundError(f"{model} has no claim {claim}: models are {', '.join(self.models)}")

    def shown(self) -> tuple[Table, ...]:
        """A table for each section; of several encoders one matrix of verdicts, and the pairs that differ."""
        return tuple(self._by_section() if len(self.models) == 1 else self._matrix())

    def whole(self) -> tuple[Table, ...]:
        """The tables of every encoder."""
        return tuple(self._by_section())

    def _by_section(self) -> Iterator[Table]:
        headers = ("verdict", "estimate", "threshold", "published", "by layer")
        places = list(itertools.product(self.models, dict.fromkeys(one.claim.section for one in self.outcomes)))
        for place, (model, section) in enumerate(places):
            rows = {}
            for one in self.outcomes:
                if one.model == model and one.claim.section == section:
                    rows[one.claim.statement] = _cells(one)
            title = f"{section_title(section, self.sections)} · {model}"
            notes = self.legend() if place == len(places) - 1 else ()
            yield Table.of(title, headers, rows, notes, corner="Claim", spare=("published", "threshold"))

    def _matrix(self) -> Iterator[Table]:
        rows: dict[str, list[Any]] = {}
        for same in self._by_claim():
            rows[f"{same[0].claim.section} {same[0].claim.statement}"] = [_marked(one) for one in same]
        yield Table.of("verdicts", self.models, rows, self.legend(), corner="Claim")
        for pair, found in self.differences().items():
            rows = {}
            for claim, (one, score, p) in found.items():
                rows[claim] = [score_cell(score, one.contrast.rows[0].metric), f"{p:.3f}" if p >= 0.001 else "< 0.001"]
            text = "of the deciding estimates, on the same items; Benjamini–Hochberg over all claims"
            title = f"claims in which {' and '.join(pair)} differ"
            yield Table.of(title, (" − ".join(pair), "p (adjusted)"), rows, [Note("difference", text)], corner="Claim")

    def _by_claim(self) -> list[list[Outcome]]:
        return list(by_key((one.claim.id, one) for one in self.outcomes).values())

    def legend(self) -> list[Note]:
        """Numbers of verdicts, how many would hold by chance, and what was read."""
        counts = {verdict: sum(one.verdict == verdict for one in self.outcomes) for verdict in VERDICTS}
        tested = sum(counts.values()) - counts["not tested"]
        listed = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
        expected = f"{CHANCE * tested:.1f} of {tested} would hold by chance if none did"
        return [
            Note("claims", f"{listed}; {expected}"),
            Note("verdict", "of the 95 % interval of the estimate against its threshold, which was fixed in advance"),
            *self.notes,
        ]

    def differences(self) -> dict[tuple[str, str], dict[str, tuple[Finding, Score, float]]]:
        """By pair of encoders the claims whose deciding estimates differ: difference and adjusted p-value."""
        found = []
        for same in self._by_claim():
            for a, b in itertools.combinations(same, 2):
                one, other = a.deciding, b.deciding
                if one is None or other is None or one.about != other.about or not one.is_sampled:
                    continue
                gap = one.contrast.less(other.contrast)
                (low,), (high,) = gap.bounds()
                score = Score(float(gap.values[0]), float(low), float(high))
                found.append(((a.model, b.model), f"{a.claim.section} {a.claim.statement}", one, score, gap.p_value))
        kept: dict[tuple[str, str], dict[str, tuple[Finding, Score, float]]] = {}
        p_adj = scipy.stats.false_discovery_control([p for *_, p in found]).tolist() if found else []
        for (models, claim, one, score, _), p in zip(found, p_adj, strict=True):
            if p < FALSE_DISCOVERY_RATE:
                kept.setdefault(models, {})[claim] = one, score, p
        return kept

    def to_pandas(self) -> "pd.DataFrame":
        """A row for each claim and encoder: verdict, estimate, interval, threshold, margin, n and the cells behind it.

        Fractions, not percentages. ``passes_at_random``: holds of random weights as well.
        """
        return pd.DataFrame([_record(one) for one in self.outcomes])

    def page(self) -> str:
        """One HTML page that opens from disk: sections, claims, figures, items, and the commands that repeat them."""
        examples, every = Examples(self.results, self.corpora), self._by_claim()
        by_section = by_key((same[0].claim.section, shown_claim(same, self.command, examples)) for same in every)
        counts = []
        for model in self.models:
            of_model = [one.verdict for one in self.outcomes if one.model == model]
            counts.append((model, [(name, of_model.count(name)) for name in VERDICTS]))
        return full_page(
            "primer/assets/primer.html",
            title=f"bertology primer: {', '.join(self.models)}",
            styles=["results/report/assets/comparison.css", "primer/assets/primer.css"],
            scripts=["primer/assets/primer.js"],
            data={},
            models=self.models,
            sections=[(section_title(name, self.sections), claims) for name, claims in by_section.items()],
            counts=counts,
            notes=self.legend(),
            differing=self.shown()[1:] if len(self.models) > 1 else (),
            chart_of=layer_chart,
        )

    def save(self, folder: str | Path) -> Path:
        """Write ``claims.parquet``, ``primer.html``, ``.md`` and ``.tex`` to a folder, which is returned."""
        folder, out = Path(folder), io.BytesIO()
        self.to_pandas().to_parquet(out, index=False)
        files = {"claims.parquet": out.getvalue(), "primer.html": self.page().encode()}
        files |= {"primer.md": self.to_markdown().encode(), "primer.tex": self.to_latex().encode()}
        write_derived(folder, files, remedy="name another folder")
        return folder

    def __repr__(self) -> str:
        return self.to_markdown()


def _record(one: Outcome) -> dict[str, Any]:
    finding = one.deciding
    known = {
        "claim": one.claim.id,
        "section": one.claim.section,
        "statement": one.claim.statement,
        "model": one.model,
        "verdict": one.verdict,
        "passes_at_random": one.passes_at_random,
        "estimate": finding.value if finding else None,
        "ci_low": finding.low if finding else None,
        "ci_high": finding.high if finding else None,
        "threshold": finding.threshold if finding else None,
        "margin": one.claim.margin.value if one.claim.margin else None,
        "metric": finding.contrast.rows[0].metric if finding else None,
        "n": finding.contrast.n if finding else 0,
        "unit": finding.contrast.rows[0].clusters if finding else None,
        "where": finding.where if finding else None,
        "found": one.text,
    }
    cells = {cell for of in one.findings for part in (of.score, of.contrast) if part is not None for cell in part.cells}
    return {**known, "cells": sorted(cells)}


def _marked(one: Outcome) -> str:
    return f"{one.verdict} (also at random)" if one.passes_at_random else one.verdict


def _cells(one: Outcome) -> list[Any]:
    published = f"{one.claim.published.value} ({one.claim.published.model})" if one.claim.published else NOTHING
    finding = one.deciding
    if finding is None:
        return [one.verdict, Cell(NOTHING), NOTHING, published, NOTHING]
    metric = finding.contrast.rows[0].metric
    threshold = NOTHING if np.isnan(finding.threshold) else written(finding.threshold, metric)
    estimate = score_cell(Score(finding.value, finding.low, finding.high), metric)
    return [_marked(one), estimate, threshold, published, curve_strip(finding.score)]


def curve_strip(curve: Curve | None) -> str:
    """A curve by layer as block characters; a dash where there is none."""
    if curve is None or not curve.is_by_layer:
        return NOTHING
    values = curve.by_layer().values
    low, high = float(values.min()), float(values.max())
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * scale)] for value in values.tolist())


def _judged(claims: Claims, plan: Plan, scores: Scores, encoder: str) -> Iterator[Outcome]:
    """The outcome of each claim for one encoder, from finished scores."""

    @functools.cache
    def curve(one: Measurement, *, split: str | None = None) -> Curve:
        if one.control == RANDOM and encoder in plan.random:  # random weights are their own control
            one = one.model_copy(update={"control": "none"})
        if (reason := plan.reason(one, encoder)) is not None:
            raise NotTestedError(reason)
        return scores.curve(one, str(plan.title(one, encoder)), split=split)

    for claim in claims.claims:
        findings, names, reasons = list[Finding](), list[str](), dict[str, None]()
        for rule in claim.rule:
            try:
                found = apply(claim, rule, curve)
            except NotTestedError as error:
                reasons[str(error)] = None
                continue
            findings += found
            names += [rule.name] * len(found)
        # A claim of several parts is tested as a whole or not at all.
        verdict = "not tested" if reasons else combined(findings, names)
        yield Outcome(claim, encoder, verdict, tuple(findings), "; ".join(reasons))


@explained("these claims")
def primer(
    model: Any = "pocket",
    *,
    sections: str | Sequence[str] = (),
    claims: str | Sequence[str] = (),
    file: str | Path | None = None,
    changes: Sequence[str] = (),
    roles: Mapping[str, Any] | None = None,
    language: str | None = None,
    random: bool = False,
    quick: bool = False,
    train: bool = False,
    out: str | Path | None = None,
    options: RunOptions | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Primer:
    """Put the claims of *A Primer in BERTology* to an encoder: what holds of it, what does not, and how sure that is.

    >>> from bertology.primer import primer
    >>> found = primer("pocket", sections="3.1")  # doctest: +SKIP

    One experiment is planned from the claims and run like any other, so that an interrupted run resumes. A claim whose
    corpus is not bound, or which the encoder cannot be asked, is *not tested*, with the reason.

    Args:
        model: ``pocket``, a folder, a hub id, an encoder or (model, tokenizer); or a list of such.
        sections: sections of the primer, in a sequence or with commas: ``"3.1"``, ``"4"`` for all of section 4.
        claims: ids of claims, with or without their version: ``"syntax-middle"``.
        file: a YAML file of claims in place of those of the primer.
        changes: settings of the file to replace, ``"recipe.steps=100"``.
        roles: corpora by role, such as ``{"treebank": "ud:en_ewt"}``; a name, or settings of a corpus.
        language: whose corpora the other roles have: ``en``; of embedded models ``pocket``.
        random: whether the first model with random weights is tested as a further model; claims that it passes say
            nothing about training.
        quick: at most 200 sentences of a split and 40 items of a group: wider intervals.
        train: whether models are trained for the claims that need them; otherwise these are not tested.
        out: a folder to keep the run in; one in the cache when left out.
        options: how to run it.
        progress: whether to draw bars; by default in a notebook, and if standard error is a terminal.
        settings: of the models (``dtype``, ``pooling``, ``revision`` …), and ``seeds``, ``layers`` and ``device``.

    Raises:
        BertologyError: a model, corpus, claim or section does not exist, or the file of claims is invalid.
    """
    of_file = load_claims(file, changes=changes)
    asked = chosen(of_file, parse_names(sections), parse_names(claims))
    names = [str(model_name(one)) for one in (model if isinstance(model, list) else [model])]
    titles = short_names(names)
    if not names or len(titles) < len(names):
        raise ModelError("primer: give different models, each once" if names else "primer: give a model")
    shared = {key: settings.pop(key) for key in list(settings) if key in ("seeds", "layers", "device", "statistics")}
    models = [{"name": name, "id": titles[name], **settings} for name in names]
    models += [{**models[0], "init": RANDOM, "id": f"{models[0]['id']}-random"}] if random else []
    default = "pocket" if set(names) <= {*EMBEDDED} and "pocket" in of_file.roles else "en"
    language = language or default
    bound = bound_corpora(asked, roles or {}, language, quick=quick)
    show = can_show() if progress is None else progress
    bars = RunOptions(retry_failed=True, progress=BarProgress if show else lambda _: silent)
    key = [names, models, asked.model_dump(mode="json"), {role: of and of.model_dump() for role, of in bound.items()}]
    folder = Path(out) if out is not None else cache_folder() / "runs" / digest([canonical_json(key)])
    made: dict[str, dict[str, Trained]] = {}
    for name in names if train else ():
        device = str(shared.get("device", "auto"))
        made[titles[name]] = train_models(asked, name, titles[name], bound, folder, device=device, show=show)
    plan, experiment = plan_claims(asked, models, bound, made, **shared)
    if experiment is not None:
        work = resolve_work(experiment)
        run_experiment(work.experiment, folder, work=work, options=options or bars)
    command = ["bertology", "primer", "--model", ",".join(names), *["--random"] * random, *["--quick"] * quick]
    command += ["--claims", str(file)] * (file is not None) + ["--train"] * train
    command += ["--language", language] * (language != default)
    replaced = list(changes)
    for role, one in (roles or {}).items():
        if isinstance(one, str):
            command += ["--role", f"{role}={one}"]
        else:
            replaced.append(f"roles.{language}.{role}={json.dumps(one)}")
    command += itertools.chain.from_iterable(("--set", one) for one in replaced)
    for name, value in {**settings, **shared}.items():
        if value != flat_setting(name).get_default():
            command += [f"--{name.replace('_', '-')}", *[str(value)] * (value is not True)]
    record = {
        "plan": asdict(plan),
        "read": [corpus.model_dump() for corpus in experiment.corpora] if experiment else [],
        "quick": quick,
        "command": shlex.join(command),
        "claims": asked.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }
    content = json.dumps(record, indent=1, ensure_ascii=False).encode()
    write_derived(folder, {_RECORD: content}, remedy="name another folder")
    found = read_primer(folder)
    found.save(folder)
    return found


def read_primer(folder: str | Path) -> Primer:
    """The verdicts of a run, from its scores and the claims that are kept with it.

    Raises:
        BertologyError: the folder is not that of a run of the primer.
    """
    folder = Path(folder)
    record = read_json(folder / _RECORD, what="the claims of a run", form=dict[str, Any], remedy="run it again")
    claims, plan = Claims.model_validate(record["claims"]), TypeAdapter(Plan).validate_python(record["plan"])
    read = tuple(CorpusSettings.model_validate(one) for one in record["read"])
    results = read_results(folder) if (folder / RESULTS).is_file() else None
    # Trainings have scores of their own, also where nothing else was run.
    scores = Scores(results or Results(()), folder, plan.corpora, plan.folders)
    outcomes = [one for encoder in plan.models for one in _judged(claims, plan, scores, encoder)]
    at_random = {one.claim.id for one in outcomes if one.model in plan.random and one.verdict == "holds"}
    marked = []
    for one in outcomes:
        is_same = one.verdict == "holds" and one.model not in plan.random and one.claim.id in at_random
        marked.append(replace(one, passes_at_random=is_same))
    of_corpora = by_key((title, role) for role, title in plan.corpora.items())
    notes = [Note("corpora", "; ".join(f"{title}: {', '.join(of)}" for title, of in of_corpora.items()))]
    if record["quick"]:
        limits = f"{QUICK['sentences']} sentences of a split and {QUICK['items']} items of a group"
        notes.append(Note("quick", f"at most {limits}: intervals are wider than those of a whole run"))
    return Primer(tuple(marked), plan.models, claims.sections, results, folder, read, tuple(notes), record["command"])


def changed_verdicts(run: Path, repeated: Path) -> tuple[str, ...]:
    """Judge the scores of a repeated run by the claims of the first one: a line for each claim that came out otherwise.

    Of a run without claims there is none.
    """
    if not (run / _RECORD).is_file():
        return ()
    write_derived(repeated, {_RECORD: (run / _RECORD).read_bytes()}, remedy="name another folder")
    first, again = read_primer(run), read_primer(repeated)
    again.save(repeated)
    lines = []
    for before, after in zip(first.outcomes, again.outcomes, strict=True):
        if (before.verdict, before.text) != (after.verdict, after.text):
            lines.append(f"claim {before.claim.id}, {before.model}: {before.verdict} → {after.verdict} ({after.text})")
    return tuple(lines)
