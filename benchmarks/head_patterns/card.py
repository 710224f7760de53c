"""The model card of the classifiers: what they are, and what they scored on real maps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.head_patterns.labels import LabelledMap, labelled_part, read_labels, read_second_labels
from benchmarks.head_patterns.maps import PieceMap
from benchmarks.head_patterns.score import PatternScore, agreement, score_classifier
from bertology._files import write_atomically
from bertology.attention.patterns import KINDS, PATTERNS, RECORD, WEIGHTS, ClassifierKind
from bertology.errors import ModelError

CARD: Final = Path(__file__).with_name("README.md")
_TITLES: Final[dict[ClassifierKind, str]] = {"features": "Features", "cnn": "Network"}
_ALL = "all"
_PUBLISHED = 0.86


def write_card(model: Path, corpus: Path) -> Path:
    """Score the classifiers on the labelled maps, and write the card beside them.

    Args:
        model: folder of the MiniLM that was labelled.
        corpus: folder of the English Web Treebank.

    Raises:
        BertologyError: the model or the corpus is not the one that was labelled.
    """
    halves = labelled_part("test", model=str(model), corpus=str(corpus))
    maps = [one for own, _ in halves.values() for one in own]
    labels = [one for _, own in halves.values() for one in own]
    halves[_ALL] = (maps, labels)
    scores = {(kind, half): score_classifier(kind, maps, own) for kind in KINDS for half, (maps, own) in halves.items()}
    record = json.loads((WEIGHTS / RECORD).read_text(encoding="utf-8"))
    write_atomically(CARD, _text(record, scores, _labellers(maps, labels)).encode())
    return CARD


def score_row(kind: ClassifierKind, half: str, score: PatternScore) -> str:
    """One row of the card's first table."""
    low, high = score.interval
    return (
        f"| {_TITLES[kind]} | {half} | {score.n_maps} | {score.macro_f1:.2f} ({low:.2f}–{high:.2f}) | "
        f"{score.accuracy:.2f} | {score.either:.2f} | {score.clear_macro_f1:.2f} ({score.n_clear}) | "
        f"{score.calibration_error:.2f} |"
    )


def read_card_scores(card: Path = CARD) -> dict[tuple[str, str], float]:
    """Macro F1 by classifier and half, as the card has them.

    Raises:
        ModelError: there is no card, or no such table in it.
    """
    titles = {title: kind for kind, title in _TITLES.items()}
    if not card.is_file():
        raise ModelError(f"{card} is missing: take it from the repository again")
    found = {}
    for line in card.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[0] in titles:
            found[titles[cells[0]], cells[1]] = float(cells[3].split()[0])
    if not found:
        raise ModelError(f"{card} has no table of scores: write it anew with the score command")
    return found  # type: ignore[return-value]


_CARD = """# Classifiers of attention maps

Two classifiers put a map between pieces into one of the classes of Kovaleva et al. (2019, *Revealing the Dark Secrets
of BERT*, section 4.1): `vertical` (attention to few columns, mostly `[CLS]`, `[SEP]` or punctuation), `diagonal`
(previous, next or same piece, or one some pieces away), `vertical+diagonal`, `block` (attention within each sentence of
a pair) and `heterogeneous` (no such structure). Their maps, labels and network are not public; nothing here is of them.

- **Features**: multinomial logistic regression (scikit-learn) on {n_features} measured features, among them shares of
  rows in which a column or a line is seen, how far columns, lines and squares stand out in the logarithm, masses,
  entropies, and attention within sentences over that across.
- **Network**: a small convolutional network ({n_weights:,} weights) on maps resampled to 32 × 32 by area.

A map is put into its likeliest class; if that is less likely than {confidence:g} it is `heterogeneous`. Statistics of
heads use **features** unless they are told otherwise: of texts of up to 32 pieces it takes at most two fifths of the
network's time; of 64 nearly as much, and of 128 twice as much.

## Recipe

`python -m benchmarks.head_patterns train` makes {n_train} synthetic maps of each class (seed {seed}) and fits both,
in some ten minutes on one core. A map is mixed of columns, a line, squares and attention without structure. Which class
it has is drawn by the labelling rule (`labels/README.md`) in numbers: three logistic functions of two features each say
how likely an eye is to see a column, a line, or squares (`_rule.py`).

A third of the labelled real maps ({n_adjust}, the part `adjust`) served for what follows, and nothing of the part
`test`:

- the nine numbers of the three functions are logistic regressions on their labels;
- features, the network's pictures and the variation of the generator were chosen by what cross-validation on them said;
- logits are divided by a temperature, and a bias is added for each class, fitted to them with a penalty of
  {penalty:g} on their squares. How much of a bias, and that classes get no scale of their own, was chosen by five-fold
  cross-validation; real maps are far from as many of each class as synthetic ones.

| classifier | temperature | {patterns} | right of synthetic maps |
|---|---|{dashes}---|
{calibration}

The last column is of maps that nothing was fitted to.

## Scores on real maps

{n_test} maps labelled by eye (`labels/`), to whose labels nothing was adjusted. F1 is the mean over
the classes that occur, with a 95 % interval (bootstrap over maps). *Either* counts a map as right if it got its label
or the second label that its labeller held as defensible; *clear* is F1 on maps without a second label (how many).

| classifier | maps of | n | macro F1 | accuracy | either | clear | ECE |
|---|---|---|---|---|---|---|---|
{rows}

{verdict}

These maps were scored once before, with earlier versions of both classifiers (features {f_before:.2f}, network
{n_before:.2f}), and the tables of confusions of those were known; nothing of what was changed since was decided by it.

{classes}
## Two labellers

{labellers}
## How far probabilities can be trusted

Of maps by the probability of their likeliest class (both models together): how many, their mean probability, and the
share that is right. ECE above is the mean distance of the two, weighted by maps.

{reliability}
## Limits

- Both labellers are vision-language models that looked at pictures, not human annotators. The first also wrote the
  generator, and had seen all maps before. {n_second} of the {n_test} maps have a second label by it.
- Two small models, English, texts of 8 to 128 pieces. Labels are far from even: `block` occurs in one of them alone.
- Probabilities are calibrated on {n_adjust} maps of the two models that are scored, with how often each class occurs in
  them. Other models have other shares of classes.
- `block` needs a pair of sentences with `[SEP]` between them: of single sentences no map is `block`.
"""
_BEFORE = {"features": 0.78, "cnn": 0.73}


def _text(record: dict[str, Any], scores: dict[tuple[ClassifierKind, str], PatternScore], labellers: str) -> str:
    labels = read_labels()
    test = [one for one in labels if one.part == "test"]
    return _CARD.format(
        n_features=len(record["features"]),
        n_weights=record["network_weights"],
        confidence=record["confidence"],
        **{name: record["recipe"][name] for name in ("seed", "n_train")},
        penalty=record["recipe"]["calibration_penalty"],
        patterns=" | ".join(PATTERNS),
        dashes="---|" * len(PATTERNS),
        calibration="\n".join(_calibration(kind, record) for kind in KINDS),
        n_adjust=record["n_calibrated_on"],
        n_test=len(test),
        n_second=sum(bool(one.second) for one in test),
        rows="\n".join(score_row(kind, half, score) for (kind, half), score in scores.items()),
        verdict=_verdict(scores),
        f_before=_BEFORE["features"],
        n_before=_BEFORE["cnn"],
        classes="\n".join(_of_classes(kind, scores[kind, _ALL]) for kind in KINDS),
        labellers=labellers,
        reliability="\n".join(_of_bins(kind, scores[kind, _ALL]) for kind in KINDS),
    )


def _calibration(kind: ClassifierKind, record: dict[str, Any]) -> str:
    biases = " | ".join(f"{bias:+.2f}" for bias in record["bias"][kind])
    right = record["synthetic_accuracy"][kind]
    return f"| {_TITLES[kind]} | {record['temperature'][kind]:.2f} | {biases} | {right:.1%} |"


_TWO = """A second labeller, also a vision-language model, put the same maps into classes by the same rule and pictures.
It saw neither the first one's labels nor any classifier, and the sheets in another order (`labels/second.csv`).
Nothing was chosen or fitted by its labels.

Of the {n} maps of the part `test` it gave {same:.0%} the first one's label (Cohen's kappa {kappa:.2f}); {either:.1%}
agree if second labels of either count. Held against the first as a classifier is, it has macro F1 {macro_f1:.2f}: what
another labeller reaches. Rows are labels of the first, columns of the second:

{table}

Macro F1 (and accuracy) of the classifiers against each labeller, and on the {n_same} maps that got the same label of
both. A class with a handful of maps counts in F1 as much as any other, and both labellers together have few of `block`
and `heterogeneous`.

| classifier | first | second | same label |
|---|---|---|---|
{rows}
"""


def _labellers(maps: list[PieceMap], labels: list[LabelledMap]) -> str:
    other = read_second_labels(labels)
    same = [number for number, (a, b) in enumerate(zip(labels, other, strict=True)) if a.label == b.label]
    rows = []
    for kind in KINDS:
        alike = ([maps[i] for i in same], [labels[i] for i in same])
        scores = [score_classifier(kind, *held) for held in ((maps, labels), (maps, other), alike)]
        cells = " | ".join(f"{score.macro_f1:.2f} ({score.accuracy:.2f})" for score in scores)
        rows.append(f"| {_TITLES[kind]} | {cells} |")
    lines = [f"| label | {' | '.join(PATTERNS)} |", "|---" * (len(PATTERNS) + 1) + "|"]
    found = agreement(labels, other)
    for name, counts in zip(PATTERNS, found.confusion.tolist(), strict=True):
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    return _TWO.format(
        n=len(labels),
        same=found.same,
        kappa=found.kappa,
        either=found.either,
        macro_f1=found.macro_f1,
        table="\n".join(lines),
        n_same=len(same),
        rows="\n".join(rows),
    )


def _verdict(scores: dict[tuple[ClassifierKind, str], PatternScore]) -> str:
    best = max(scores[kind, _ALL].macro_f1 for kind in KINDS)
    said = "below" if best < _PUBLISHED else "not below"
    lines = [
        f"Kovaleva et al. report F1 {_PUBLISHED} for a network trained and scored on annotated maps of another",
        f"model and other texts. The best figure here, {best:.2f}, is {said} that. Classifiers were fitted to",
        "synthetic maps here, but for calibration and the rule in numbers; many real maps lie between two classes, as",
        "*either* and *clear* show.",
        "",
    ]
    return "\n".join([*lines, *(_mistakes(kind, scores[kind, _ALL]) for kind in KINDS)])


def _mistakes(kind: ClassifierKind, score: PatternScore) -> str:
    wrong = score.confusion - np.diag(np.diag(score.confusion))
    left, both = PATTERNS.index("heterogeneous"), PATTERNS.index("vertical+diagonal")
    parts = [PATTERNS.index("vertical"), PATTERNS.index("diagonal")]
    n_left = int(wrong[left].sum() + wrong[:, left].sum())
    n_both = int(wrong[both, parts].sum() + wrong[parts, both].sum())
    n_second = round((score.either - score.accuracy) * score.n_maps)
    return (
        f"- {_TITLES[kind]}: {wrong.sum()} maps are wrong, {n_left} of them between a class and `heterogeneous`,\n"
        f"  {n_both} between `vertical+diagonal` and one of its parts; {n_second} were given their second label."
    )


def _of_classes(kind: ClassifierKind, score: PatternScore) -> str:
    lines = [f"**{_TITLES[kind]}**, both models: rows are labels, columns what was found.", ""]
    lines += [f"| label | {' | '.join(PATTERNS)} | precision | recall | F1 |", "|---" * (len(PATTERNS) + 4) + "|"]
    for number, (name, (precision, recall, f1, _)) in enumerate(score.of_classes().items()):
        counts = " | ".join(str(n) for n in score.confusion[number].tolist())
        lines.append(f"| {name} | {counts} | {precision:.2f} | {recall:.2f} | {f1:.2f} |")
    return "\n".join([*lines, ""])


def _of_bins(kind: ClassifierKind, score: PatternScore) -> str:
    lines = [f"| {_TITLES[kind].lower()}: probability | maps | mean | right |", "|---|---|---|---|"]
    for low, high, n, mean, right in score.reliability:
        lines.append(f"| {low:.1f}–{high:.1f} | {n} | {mean:.2f} | {right:.2f} |")
    return "\n".join([*lines, ""])
