"""What the page of verdicts shows of a claim: how it was measured, figures, examples, and the command for it."""

import contextlib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology.errors import BertologyError
from bertology.families.contract import family_of
from bertology.families.request import CorpusSettings
from bertology.primer.claims import Claim, Rule
from bertology.primer.rules import Outcome, described
from bertology.primer.scores import Curve
from bertology.probing import get_probe
from bertology.results import Results
from bertology.results.rows import Score
from bertology.results.table import Table
from bertology.runner.plan import read_corpus

_N_EXAMPLES = 3
_RULES: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))
"""The rules in words, for the page."""


def shown_claim(same: Sequence[Outcome], command: str, examples: "Examples") -> dict[str, Any]:
    """What the page shows of one claim; ``command`` repeats all claims."""
    claim = same[0].claim
    outcomes = []
    for one in same:
        lines = [described(finding) for finding in one.findings] or [one.reason]
        mark = "; random weights pass it as well: it says nothing about training" if one.passes_at_random else ""
        deciding = one.deciding
        summary = described(deciding) if deciding and one.verdict != "not tested" else one.reason
        outcomes.append({"model": one.model, "verdict": one.verdict, "lines": lines, "mark": mark, "summary": summary})
    return {
        "claim": claim,
        "outcomes": outcomes,
        "charts": list(_charts(same)),
        "rules": list(dict.fromkeys(_rule_in_words(claim, rule) for rule in claim.rule)),
        "examples": [found for one in same if (found := examples.of(one))],
        "command": f"{command} --claim {claim.id.rpartition('.')[0]}",
    }


def _rule_in_words(claim: Claim, rule: Rule) -> str:
    parts: list[str] = [rule.name]
    if rule.against:
        others = (name.replace("_", " ") if isinstance(name, str) else f"{name:g}" for name in rule.against)
        parts.append(f"against {', '.join(others)}")
    if (rule.from_, rule.to) != (0.0, 1.0):
        parts.append(f"between relative depths {rule.from_:g} and {rule.to:g}")
    if rule.least is not None:
        parts.append(f"{rule.least:g}")
    if margin := claim.margin_of(rule):
        parts.append(f"margin {margin:g}")
    return f"{', '.join(parts)}: {_RULES[rule.name]}."


def _charts(same: Sequence[Outcome]) -> Iterator[Table]:
    """A chart for each finding whose scores stand by layer: a line for each model and baseline."""
    known = set[tuple[str, ...]]()
    for number in range(max(len(one.findings) for one in same)):
        lines: dict[str, Curve] = {}
        for one in same:
            finding = one.findings[number] if number < len(one.findings) else None
            name = "" if len(same) == 1 else f"{one.model} "
            score = None if finding is None else finding.score
            if finding is None or score is None or not score.is_by_layer:
                continue
            first = finding.contrast.rows[0]
            lines[f"{name}{'best head of each layer' if first.head else first.task}"] = _best_heads(score)
            if finding.baseline is not None:
                lines[f"{name}{finding.about.partition(' ')[2] or 'comparison'}"] = _best_heads(finding.baseline)
        key = tuple(cell for line in lines.values() for cell in line.cells)
        if lines and key not in known:
            known.add(key)
            yield _chart(lines, is_relative=len({len(line.keys) for line in lines.values() if len(line.keys) > 1}) > 1)


def _best_heads(curve: Curve) -> Curve:
    """The best head of each layer, of a curve of heads; a curve of layers as it is."""
    if not any(isinstance(key, str) for key in curve.keys):
        return curve
    best: dict[int | None, int] = {}
    for place, row in enumerate(curve.rows):
        if row.layer not in best or curve.values[place] > curve.values[best[row.layer]]:
            best[row.layer] = place
    return curve.take(list(best.values()))


def _chart(lines: dict[str, Curve], *, is_relative: bool) -> Table:
    """A table by layer, or by relative depth of encoders with unequal numbers of layers, which the template draws."""
    rows: dict[int, list[Score | None]] = {}
    for place, line in enumerate(lines.values()):
        low, high = line.bounds()
        places = zip(line.depths, line.rows, strict=True)
        keys = [round(100 * depth) if is_relative else row.layer for depth, row in places]
        scores = [Score(*map(float, one)) for one in zip(line.values, low, high, strict=True)]
        for key, score in zip(keys, scores, strict=True):
            if key is not None and math.isfinite(key):  # a baseline has no layer
                rows.setdefault(int(key), [None] * len(lines))[place] = score
    for place, line in enumerate(lines.values()):
        if len(line.keys) == 1:  # a baseline of no layer is a level line
            for row in rows.values():
                row[place] = Score(float(line.values[0]))
    metric = next(iter(lines.values())).rows[0].metric
    corner = "Relative depth, %" if is_relative else "Layer"
    ordered = {str(key): rows[key] for key in sorted(rows)}
    return Table.of(metric, list(lines), ordered, (), metric=metric, corner=corner)


class Examples:
    """Items that a claim's scores are right and wrong on, with their texts where the corpora can be read."""

    def __init__(self, results: Results | None, corpora: Sequence[CorpusSettings]) -> None:
        self._results, self._texts = results, dict[str, Any]()
        self._settings = {one.title: one for one in corpora}

    def of(self, one: Outcome) -> dict[str, Any] | None:
        """Right and wrong items of the finding that decides; None of statistics, which have none."""
        finding, results = one.deciding, self._results
        if finding is None or results is None or finding.score is None:
            return None
        row = next((row for row in finding.contrast.rows if row.layer is not None), finding.score.rows[-1])
        if row.head or row.cell_id not in results.kept:
            return None
        chosen = {"task": row.task, "corpus": row.corpus, "layer": row.layer, "model": row.model, "init": row.init}
        with contextlib.suppress(BertologyError, KeyError):
            texts = self._corpus(row.corpus) if get_probe(row.task).splits_needed else None
            frame = results.only(**chosen).predictions(texts=texts)
            if row.group:
                frame = frame[frame["group"] == row.group]
            frame = frame.assign(right=frame["gold"] == frame["predicted"])
            prompts = self._prompts(row.task, row.corpus)
            parts = {}
            for is_right, name in ((True, "right"), (False, "wrong")):
                some = frame[frame["right"] == is_right].drop_duplicates("sentence").head(_N_EXAMPLES)
                parts[name] = [self._example(of, prompts) for of in some.to_dict("records")]
            layer = "" if row.layer is None else f" at layer {row.layer}"
            title = f"{row.task}{layer}, {one.model}"
            return {"title": title, **parts} if any(parts.values()) else None
        return None

    def _example(self, of: Mapping[Any, Any], prompts: dict[str, str]) -> dict[str, str]:
        text = of.get("text") if isinstance(of.get("text"), str) else prompts.get(str(of["sentence"]), "")
        word = of.get("word") if isinstance(of.get("word"), str) else ""
        shown = {"text": text or of["sentence"], "word": word, "gold": of["gold"], "predicted": of["predicted"]}
        return {name: str(value) for name, value in shown.items()}

    def _corpus(self, title: str) -> Any:
        if title not in self._texts:
            self._texts[title] = None
            with contextlib.suppress(BertologyError):
                found = read_corpus(self._settings[title])
                self._texts[title] = found if found.splits else None
        return self._texts[title]

    def _prompts(self, task: str, title: str) -> dict[str, str]:
        """The text of each item that a task brings itself, by its id."""
        key = f"{task} {title}"
        if key not in self._texts:
            probe, settings = get_probe(task), self._settings[title]
            found = family_of(probe).items(probe, settings.name, most=settings.items, columns=settings.columns)
            items = () if found is None else found.items
            self._texts[key] = {item.id: item.text.replace("{mask}", "[MASK]") for item in items}
        return dict(self._texts[key])
