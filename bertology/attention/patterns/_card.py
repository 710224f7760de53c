"""The model card of the classifiers: what they are, and what they scored on real maps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from bertology._files import write_atomically
from bertology.attention.patterns._classifier import RECORD, WEIGHTS
from bertology.attention.patterns._kinds import KINDS, PATTERNS, ClassifierKind
from bertology.attention.patterns._labels import LabelledMap, labelled_maps, read_labels
from bertology.attention.patterns._maps import PieceMap
from bertology.attention.patterns._score import PatternScore, score_classifier
from bertology.errors import ModelError

CARD: Final = Path(__file__).with_name("README.md")
_TITLES: Final[dict[ClassifierKind, str]] = {"features": "Features", "cnn": "Network"}
_PUBLISHED = 0.86


def write_card(model: Path, corpus: Path) -> Path:
    """Score both classifiers on the labelled maps, and write the card beside them.

    Args:
        model: folder of the MiniLM that was labelled.
        corpus: folder of the English Web Treebank.

    Raises:
        BertologyError: the model or the corpus is not the one that was labelled.
    """
    labels = [one for one in read_labels() if one.part == "test"]
    halves = {
        "MiniLM": _half("m", labels, str(model), str(corpus)),
        "Pocket BERT": _half("p", labels, "pocket", "pocket"),
    }
    both = [part for half in zip(*halves.values(), strict=True) for part in [[*half[0], *half[1]]]]
    halves = {**halves, "both": (both[0], both[1])}
    scores = {(kind, half): score_classifier(kind, maps, own) for kind in KINDS for half, (maps, own) in halves.items()}
    record = json.loads((WEIGHTS / RECORD).read_text(encoding="utf-8"))
    write_atomically(CARD, _text(record, scores).encode())
    return CARD


def _half(initial: str, labels: list[LabelledMap], model: str, corpus: str) -> tuple[list[PieceMap], list[LabelledMap]]:
    from bertology.corpora import load_corpus
    from bertology.encoders import load_encoder

    own = [one for one in labels if one.map.startswith(initial)]
    encoder = load_encoder(model, device="cpu", attention="eager")
    return list(labelled_maps(encoder, load_corpus(corpus)["test"], own)), own


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
        raise ModelError(f"{card} is missing: install bertology again")
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
  rows in which a column or a line is seen, masses, entropies, and attention within sentences over that across.
- **Network**: a small convolutional network ({n_weights:,} weights) on maps resampled to 32 × 32 by area.

A map is put into its likeliest class; if that is less likely than {confidence:g} it is `heterogeneous`. Statistics of
heads use **features** unless they are told otherwise: it takes about a quarter of the network's time.

## Recipe

`python -m bertology.attention.patterns train` makes {n_train} synthetic maps of each class (seed {seed}) and fits both,
in some ten minutes on one core. A map is mixed of columns, a line, squares and attention without structure; which
mixture counts as which class is stated in `_synthetic.py`, in numbers that say what the labelling rule
(`labels/README.md`) says in words. A third of the labelled maps ({n_adjust}) served to adjust these numbers and the
variation of the generator; neither classifier was fitted to any real map. Logits are divided by a temperature fitted on
{n_held_out} held-out synthetic maps of each class (features {t_features:.2f}, network {t_cnn:.2f}). Of synthetic maps
that nothing was fitted to features put {a_features:.1%} into their class, the network {a_cnn:.1%}.

## Scores on real maps

{n_test} maps labelled by eye (`labels/`), to whose labels nothing was adjusted. F1 is the mean over
the classes that occur, with a 95 % interval (bootstrap over maps). *Either* counts a map as right if it got its label
or the second label that its labeller held as defensible; *clear* is F1 on maps without a second label (how many).

| classifier | maps of | n | macro F1 | accuracy | either | clear | ECE |
|---|---|---|---|---|---|---|---|
{rows}

{verdict}

{classes}
## How far probabilities can be trusted

Of maps by the probability of their likeliest class (both models together): how many, their mean probability, and the
share that is right. ECE above is the mean distance of the two, weighted by maps.

{reliability}
## Limits

- One labeller, a vision-language model that looked at pictures and not a human annotator; it also wrote the generator,
  and had seen all maps before. There is no second labeller, so how far labellers agree is not known. {n_second} of the
  {n_test} maps have a second label.
- Two small models, English, texts of 8 to 128 pieces. Labels are far from even: `block` occurs in one of them alone.
- Probabilities are calibrated on synthetic maps, of which there are as many of each class; real ones are not so.
- `block` needs a pair of sentences with `[SEP]` between them: of single sentences no map is `block`.
"""


def _text(record: dict[str, Any], scores: dict[tuple[ClassifierKind, str], PatternScore]) -> str:
    labels = read_labels()
    test = [one for one in labels if one.part == "test"]
    return _CARD.format(
        n_features=len(record["features"]),
        n_weights=record["network_weights"],
        confidence=record["confidence"],
        **{name: record["recipe"][name] for name in ("seed", "n_train", "n_held_out")},
        **{f"t_{kind}": record["temperature"][kind] for kind in KINDS},
        **{f"a_{kind}": record["synthetic_accuracy"][kind] for kind in KINDS},
        n_adjust=len(labels) - len(test),
        n_test=len(test),
        n_second=sum(bool(one.second) for one in test),
        rows="\n".join(score_row(kind, half, score) for (kind, half), score in scores.items()),
        verdict=_verdict(scores),
        classes="\n".join(_of_classes(kind, scores[kind, "both"]) for kind in KINDS),
        reliability="\n".join(_of_bins(kind, scores[kind, "both"]) for kind in KINDS),
    )


def _verdict(scores: dict[tuple[ClassifierKind, str], PatternScore]) -> str:
    best = max(scores[kind, "both"].macro_f1 for kind in KINDS)
    said = "below" if best < _PUBLISHED else "not below"
    lines = [
        f"Kovaleva et al. report F1 {_PUBLISHED} for a network trained and scored on annotated maps of another",
        f"model and other texts. The best figure here, {best:.2f}, is {said} that. Nothing was trained on real maps",
        "here, and many of these lie between two classes, as *either* and *clear* show.",
        "",
    ]
    return "\n".join([*lines, *(_mistakes(kind, scores[kind, "both"]) for kind in KINDS)])


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
