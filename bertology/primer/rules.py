"""Rules: how an estimate with its interval becomes a verdict, never a bare point.

Every rule compares a contrast (a score less a baseline, one score less another, upper less lower layers) with a
threshold that was fixed in advance. Where one interval decides, it is a 95 % interval, so that a true claim is called
*fails*, or a false one *holds*, in at most 2.5 % of samples; where one of several layers or heads is enough, their
intervals cover all of them at once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from bertology._lazy import scipy
from bertology.families.request import RANDOM
from bertology.measures.metrics import correlations, metric_form
from bertology.primer.claims import Claim, Measurement, Rule
from bertology.primer.scores import LEVEL, Curve, Key, NotTestedError
from bertology.results.rows import Score
from bertology.results.table import interval_of, number

Verdict = Literal["holds", "fails", "mixed", "undecided", "not tested"]
VERDICTS: tuple[Verdict, ...] = ("holds", "mixed", "undecided", "fails", "not tested")
GetCurve = Callable[..., Curve]
"""The scores of a measurement; with ``split="dev"`` those by which heads are chosen."""


@dataclass(frozen=True, eq=False)
class Finding:
    """The outcome of one rule for one comparison."""

    about: str
    """The comparison in words: ``above word majority``."""
    verdict: Verdict
    threshold: float
    contrast: Curve
    """The contrast that decides, of one key, with its resamples."""
    low: float
    high: float
    where: str = ""
    """The layer or head that decides."""
    score: Curve | None = None
    """The scores themselves by layer or head, for figures."""
    baseline: Curve | None = None
    detail: str = ""
    """Further words, such as which layers are in the best set."""
    is_sampled: bool = True
    """Whether the interval narrows as clusters become more."""

    @property
    def value(self) -> float:
        """The estimate that decides."""
        return float(self.contrast.values[0])

    @property
    def n_runs(self) -> int:
        """Seeds or random initialisations that were averaged; 1 where there are none."""
        return 1 if self.contrast.by_run is None else len(self.contrast.by_run)

    @property
    def n_needed(self) -> int | None:
        """Clusters that would decide in all, if the estimate stays what it is; None where it is decided.

        Nor is it known of scores over several runs, which vary whatever the number of clusters.
        """
        distance = abs(self.value - self.threshold)
        reach = (self.high - self.low) / 2
        can_grow = self.is_sampled and self.n_runs == 1
        if self.verdict != "undecided" or not can_grow or not distance > 0 or not math.isfinite(reach):
            return None
        return math.ceil(self.contrast.n * (reach / distance) ** 2)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One claim, and what the encoder in hand shows of it."""

    claim: Claim
    model: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    """Why it was not tested."""
    passes_at_random: bool = False
    """Whether the claim holds of the same encoder with random weights, so that it says nothing about training."""

    @property
    def deciding(self) -> Finding | None:
        """The finding that the verdict rests on: the first that shares it, else the first that is undecided."""
        for verdict in (self.verdict, "fails", "undecided"):
            for finding in self.findings:
                if finding.verdict == verdict:
                    return finding
        return self.findings[0] if self.findings else None

    @property
    def text(self) -> str:
        """What was found, in one sentence for each comparison."""
        if self.verdict == "not tested":
            return self.reason
        return "; ".join(map(described, self.findings))


def described(one: Finding) -> str:
    """A finding in words, with its numbers."""
    metric = one.contrast.rows[0].metric
    interval = interval_of(Score(one.value, one.low, one.high), metric)
    parts = [f"{one.about}: {number(one.value, metric=metric)} {interval}", one.where, one.detail]
    if one.n_needed:
        parts.append(f"undecided; about {one.n_needed:,} {one.contrast.rows[0].clusters} in all would decide")
    else:
        parts.append(one.verdict + f" over {one.n_runs} runs" * (one.verdict == "undecided" and one.n_runs > 1))
    return ", ".join(filter(None, parts))


def decide(
    contrast: Curve, threshold: float, mode: Literal["any", "every", "all"] = "any"
) -> tuple[Verdict, int, tuple[float, float]]:
    """Whether a contrast lies above a threshold, at one of its keys or at all of them.

    ``any``: holds where one of the intervals, which cover all keys at once, lies above the threshold; fails where every
    interval lies below it. ``every``: holds where every interval lies above it, fails where one that covers all keys at
    once lies below it. ``all``: as ``every``, but mixed where other keys lie above it.

    Returns:
        The verdict, the place of the key that decides, and its interval.
    """
    low, high = contrast.bounds()
    low_at_once, high_at_once = contrast.bounds(at_once=True)
    if mode == "any":
        place = int(np.argmax(low_at_once))
        verdict: Verdict = "holds" if low_at_once[place] > threshold else "undecided"
        if (high < threshold).all():
            verdict, place = "fails", int(np.argmax(high))
        return verdict, place, (float(low_at_once[place]), float(high[place]))
    place = int(np.argmin(low))
    if (low > threshold).all():
        verdict = "holds"
    elif (high_at_once < threshold).any():
        place = int(np.argmin(high_at_once))
        verdict = "mixed" if mode == "all" and (low > threshold).any() else "fails"
    else:
        verdict = "undecided"
    return verdict, place, (float(low[place]), float(high_at_once[place] if verdict != "holds" else high[place]))


def best_layers(curve: Curve, *, higher_is_better: bool = True) -> list[int]:
    """Places of the layers that may be the best one: a 97.5 % confidence set.

    A layer is left out where some other layer is better by more than the largest studentised deviation of its
    differences over the resamples (multiple comparisons with the best; Hsu 1996).
    """
    inside = []
    for place in range(len(curve.keys)):
        others = [other for other in range(len(curve.keys)) if other != place]
        if not others:
            return [place]
        gain = curve.take(others).less(curve.take([place]))
        gain = gain if higher_is_better else gain.combined(-np.eye(len(others)), keys=gain.keys)
        if not (gain.bounds(at_once=True)[0] > 0).any():
            inside.append(place)
    return inside


def apply(claim: Claim, rule: Rule, curve: GetCurve) -> list[Finding]:
    """The findings of one rule of a claim.

    Raises:
        NotTestedError: something that it compares is not there.
    """
    base, margin = rule.measured_by.over(claim.measured_by), claim.margin_of(rule)
    if rule.over and rule.name not in ("order", "share", "correlation", "peak"):
        return [one for value in rule.over for one in _one(rule, rule.measured(base, value), margin, curve, value)]
    return list(_one(rule, base, margin, curve))


def _one(rule: Rule, base: Measurement, margin: float, curve: GetCurve, value: str = "") -> Iterator[Finding]:
    named = f"{value}: " if value else ""
    match rule.name:
        case "above" | "below" | "exists":
            for name in rule.against:
                is_head = rule.name == "exists"
                asked = base, margin, curve, name
                found = _head(*asked, _span(rule)) if is_head else _against(rule, *asked)
                yield replace(found, about=named + found.about)
        case "difference" | "equal":
            a, b = (_best(rule, rule.measured(side.over(base), value), curve) for side in (rule.a, rule.b))
            yield _difference(a, b, margin, named, is_equal=rule.name == "equal")
        case "rises" | "falls":
            yield _trend(rule, base, curve, named)
        case "peak":
            yield _peak(rule, base, curve)
        case "order":
            yield from _order(rule, base, curve)
        case "share":
            yield _share(rule, base, margin, curve)
        case "correlation":
            yield _correlation(rule, base, curve)


def _within(score: Curve, span: tuple[float, float] | None) -> Curve:
    return score if span is None else score.between(*span)


def _reduced(score: Curve, at: object) -> Curve:
    """The mean over a range of depths, where a measurement asks for one."""
    return score.between(*at).mean() if isinstance(at, tuple) else score


def _verdict(*, holds: bool, fails: bool) -> Verdict:
    return "holds" if holds else "fails" if fails else "undecided"


def _compared_with(base: Measurement, name: float | str, curve: GetCurve) -> tuple[float | Curve, str]:
    """A value, or the scores of a baseline; and its name in words."""
    if isinstance(name, str):
        text = "random weights" if name == RANDOM else name.replace("_", " ")
        return curve(base.model_copy(update={"control": name})), text
    return name, written(name, curve(base).rows[0].metric)


def _against(rule: Rule, base: Measurement, margin: float, curve: GetCurve, name: float | str) -> Finding:
    """``above``: the score exceeds a baseline or value by the margin; ``below``: it stays below it."""
    score, (baseline, text) = curve(base), _compared_with(base, name, curve)
    contrast = _reduced(_within(score.less(baseline), _span(rule)), base.at)
    mode: Literal["any", "every", "all"] = "all" if base.at == "all" else "any"
    threshold = margin
    if rule.name == "above":
        verdict, place, (low, high) = decide(contrast, threshold, mode)
    else:
        opposite, threshold = contrast.combined(-np.eye(len(contrast.keys)), keys=contrast.keys), -margin
        verdict, place, (low, high) = decide(opposite, margin, "every" if mode == "any" else mode)
        low, high = -high, -low
    where, kept = _where(contrast.keys[place], base), baseline if isinstance(baseline, Curve) else None
    about = f"{rule.name} {text}"
    return Finding(about, verdict, threshold, contrast.take([place]), low, high, where, score, kept)


def _span(rule: Rule) -> tuple[float, float] | None:
    """The depths between which layers are looked at; None where all of them are."""
    return None if (rule.from_, rule.to) == (0.0, 1.0) else (rule.from_, rule.to)


def _head(
    base: Measurement, margin: float, curve: GetCurve, name: float | str, span: tuple[float, float] | None = None
) -> Finding:
    """The head that is best on dev, on test; the claim fails only where no head reaches the margin."""
    dev, score = (_within(one, span) for one in (curve(base, split="dev"), curve(base)))
    baseline, text = _compared_with(base, name, curve)
    contrast = score.less(baseline)
    place = score.keys.index(dev.keys[int(np.argmax(dev.values))])
    low, high = contrast.bounds()
    verdict = _verdict(holds=bool(low[place] > margin), fails=bool((high < margin).all()))
    kept = baseline if isinstance(baseline, Curve) else None
    where, interval = f"{score.keys[place]}, chosen on dev", (float(low[place]), float(high[place]))
    return Finding(f"a head above {text}", verdict, margin, contrast.take([place]), *interval, where, score, kept)


def _best(rule: Rule, one: Measurement, curve: GetCurve) -> Curve:
    """One score, less the baselines that are named: at the best layer, or the mean over those that are asked about."""
    score = _less_baselines(rule, one, curve)
    sign = 1 if score.rows[0].higher_is_better else -1
    score = _reduced(score, one.at)
    return score.take([int(np.argmax(sign * score.values))])


def _less_baselines(rule: Rule, one: Measurement, curve: GetCurve) -> Curve:
    score = curve(one)
    for name in rule.against:
        score = score.less(_compared_with(one, name, curve)[0])
    return score


def _difference(a: Curve, b: Curve, margin: float, named: str, *, is_equal: bool) -> Finding:
    """``a`` exceeds ``b`` by the margin, or both are equal within it."""
    contrast = a.less(b)
    (low,), (high,) = contrast.bounds()
    if is_equal:
        verdict = _verdict(holds=low > -margin and high < margin, fails=low > margin or high < -margin)
    else:
        verdict = _verdict(holds=low > margin, fails=high < margin)
    where = " and ".join(dict.fromkeys(_where(side.keys[0], None) for side in (a, b) if side.keys[0] is not None))
    about = f"{named}{'equal within' if is_equal else 'difference above'} {written(margin, a.rows[0].metric)}"
    return Finding(about, verdict, margin, contrast, float(low), float(high), where, a, b)


def _trend(rule: Rule, base: Measurement, curve: GetCurve, named: str) -> Finding:
    """Upper less lower third of the layers between two depths; of a curve less its baseline where one is named."""
    score = _less_baselines(rule, base, curve).by_layer()
    between = score.between(rule.from_, rule.to)
    n = len(between.keys)
    if n < 2:
        raise NotTestedError("one layer alone: nothing can rise or fall")
    size, weights = max(1, round(n / 3)), np.zeros((n, 1))
    weights[:size], weights[-size:] = -1 / size, 1 / size
    contrast = between.combined(weights, keys=[None])
    (low,), (high,) = contrast.bounds()
    is_rising = rule.name == "rises"
    verdict = _verdict(holds=low > 0 if is_rising else high < 0, fails=high < 0 if is_rising else low > 0)
    span = "" if _span(rule) is None else f" between depths {rule.from_:g} and {rule.to:g}"
    about = f"{named}upper less lower third{span}"
    return Finding(about, verdict, 0.0, contrast, float(low), float(high), "", score)


def _peak(rule: Rule, base: Measurement, curve: GetCurve) -> Finding:
    """Every layer of the best set lies between two depths; of several tasks by the mean of ranks."""
    if rule.over:
        score = _mean_rank([curve(rule.measured(base, value)) for value in rule.over])
        higher = False
    else:
        score = curve(base).by_layer()
        higher = score.rows[0].higher_is_better
    best = best_layers(score, higher_is_better=higher)
    inside = [rule.from_ - 1e-9 <= score.depths[place] <= rule.to + 1e-9 for place in best]
    verdict = _verdict(holds=all(inside), fails=not any(inside))
    place = max(best, key=lambda at: score.values[at] if higher else -score.values[at])
    low, high = score.bounds()
    layers = ", ".join(str(score.keys[at]) for at in best)
    about = f"best layers between depths {rule.from_:g} and {rule.to:g}"
    where, detail = f"layer {score.keys[place]}", f"best set: layer{'s' * (len(best) > 1)} {layers}"
    interval = float(low[place]), float(high[place])
    return Finding(about, verdict, math.nan, score.take([place]), *interval, where, score, None, detail)


def _mean_rank(curves: Sequence[Curve]) -> Curve:
    """The mean over tasks of the ranks of layers, 1 the best, with the ranks of each resample."""
    keys = curves[0].keys
    if any(one.keys != keys for one in curves):
        raise NotTestedError("tasks have scores of different layers")
    signs = [-1.0 if one.rows[0].higher_is_better else 1.0 for one in curves]
    values = np.mean([scipy.stats.rankdata(sign * one.values) for one, sign in zip(curves, signs, strict=True)], axis=0)
    drawn = [scipy.stats.rankdata(sign * one.replicates, axis=1) for one, sign in zip(curves, signs, strict=True)]
    n = min(one.n for one in curves)
    rows = tuple(replace(row, metric="mean_rank") for row in curves[0].rows)
    return Curve(keys, values, np.mean(drawn, axis=0), n, curves[0].depths, rows, None, np.zeros(len(keys)))


def _order(rule: Rule, base: Measurement, curve: GetCurve) -> Iterator[Finding]:
    """Each score lies below the next one; one reversed pair is enough for the claim to fail."""
    scores = {value: _best(rule, rule.measured(base, value), curve) for value in rule.over}
    steps = list(pairwise(rule.over))
    for lower, upper in steps:
        contrast = scores[upper].less(scores[lower])
        (low,), (high,) = contrast.bounds()
        (_,), (strict,) = contrast.bounds(n_others=len(steps))
        verdict, sides = _verdict(holds=low > 0, fails=strict < 0), (scores[upper], scores[lower])
        yield Finding(f"{upper} less {lower}", verdict, 0.0, contrast, float(low), float(high), "", *sides)


def _share(rule: Rule, base: Measurement, margin: float, curve: GetCurve) -> Finding:
    """The share of heads, or of the values of ``over``, whose score exceeds a baseline or 0 by the margin.

    Its interval runs from the share of those that lie above it to that of those that do not lie below it, at a level
    corrected for their number.
    """
    assert rule.least is not None
    name = (rule.against or (0.0,))[0]
    if rule.over:
        found = [_head(rule.measured(base, value), margin, curve, name).contrast for value in rule.over]
        bounds = [one.bounds(n_others=len(found)) for one in found]
        lows, highs = (np.array([float(of[side][0]) for of in bounds]) for side in range(2))
        values, score = np.array([float(one.values[0]) for one in found]), found[0]
    else:
        score = curve(base)
        contrast = score.less(_compared_with(base, name, curve)[0])
        (lows, highs), values = contrast.bounds(at_once=True), contrast.values
    n, above, below = len(values), int((lows > margin).sum()), int((highs < margin).sum())
    share = replace(score.take([0]), values=np.array([np.mean(values > margin)]), keys=(None,))
    low, high = above / n, 1 - below / n
    verdict = _verdict(holds=low > rule.least, fails=high < rule.least)
    about, detail = f"share above {rule.least:.0%}", f"{above} of {n} above the margin, {below} below it"
    return Finding(about, verdict, rule.least, share, low, high, "", score, None, detail, False)


def _correlation(rule: Rule, base: Measurement, curve: GetCurve) -> Finding:
    """Spearman's correlation of two scores over tasks and their layers stays below a value."""
    assert rule.least is not None
    pairs = [tuple(curve(rule.measured(side.over(base), value)) for side in (rule.a, rule.b)) for value in rule.over]
    sides = []
    for side in range(2):
        parts = []
        for pair in pairs:
            keys = [key for key in pair[0].keys if key in pair[1].keys]
            parts.append(pair[side].take([pair[side].keys.index(key) for key in keys]))
        values = np.concatenate([one.values for one in parts])
        sides.append((values, np.concatenate([one.replicates for one in parts], axis=1)))

    ranks = ([scipy.stats.rankdata(side[part], axis=-1) for side in sides] for part in range(2))
    value, drawn = (correlations(*both) for both in ranks)
    first = pairs[0][0].take([0])
    found = replace(first, values=np.atleast_1d(value), replicates=drawn[:, None], keys=(None,), slack=np.zeros(1))
    (low,), (high,) = found.bounds()
    verdict = _verdict(holds=high < rule.least, fails=low > rule.least)
    about, detail = f"rank correlation below {rule.least:g}", f"over {len(sides[0][0])} pairs of task and layer"
    return Finding(about, verdict, rule.least, found, float(low), float(high), "", None, None, detail)


def _where(key: Key, base: Measurement | None) -> str:
    if base is not None and isinstance(base.at, tuple):
        low, high = base.at
        if low == high:
            return "last layer" if low == 1 else f"relative depth {low:g}"
        return f"mean over depths {low:g} to {high:g}"
    return "" if key is None else str(key) if isinstance(key, str) else f"layer {key}"


def written(value: float, metric: str) -> str:
    """A value of a metric as text, fractions in percent."""
    is_fraction = metric_form(metric).is_fraction
    # Minus zero is zero.
    text = f"{(100 * value if is_fraction else value) + 0.0:g}".replace("-", "−")
    return f"{text} %" if is_fraction else text


def combined(findings: Sequence[Finding], rules: Sequence[str]) -> Verdict:
    """The verdict on a claim from its findings: all have to hold; of ``order`` one reversed pair is enough to fail."""
    verdicts = [one.verdict for one in findings]
    if any(rule == "order" and verdict == "fails" for rule, verdict in zip(rules, verdicts, strict=True)):
        return "fails"
    whole: tuple[Verdict, ...] = ("holds", "fails")
    for verdict in whole:
        if all(one == verdict for one in verdicts):
            return verdict
    has_part = "holds" in verdicts or "mixed" in verdicts
    return "mixed" if has_part and ("fails" in verdicts or "mixed" in verdicts) else "undecided"


CHANCE = 1 - LEVEL
"""Largest share of false claims that are called *holds* by chance."""
