"""``python -m benchmarks.head_patterns train`` and ``… score``: the recipe of the classifiers, and their card."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.head_patterns.card import write_card
from benchmarks.head_patterns.labels import labelled_part
from benchmarks.head_patterns.train import train_classifiers
from bertology.attention.patterns import WEIGHTS
from bertology.errors import BertologyError

_NAME = "python -m benchmarks.head_patterns"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=_NAME, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="fit to synthetic maps, calibrate on real ones, write weights")
    train.add_argument("--out", type=Path, default=WEIGHTS, help="folder of the weights (default: the package's)")
    score = commands.add_parser("score", help="hold classifiers against labelled real maps, write the model card")
    for command in (train, score):
        command.add_argument("--model", type=Path, required=True, help="folder of the MiniLM that was labelled")
        command.add_argument("--corpus", type=Path, required=True, help="folder of the English Web Treebank (UD)")
    return parser


def main(words: list[str] | None = None) -> int:
    """Run a command; 2 for a mistake in what it was given.

    Args:
        words: of the command line; those of the process when left out.
    """
    given = _arguments().parse_args(words)
    try:
        if given.command == "train":
            halves = labelled_part("adjust", model=str(given.model), corpus=str(given.corpus)).values()
            maps = [one for own, _ in halves for one in own]
            labels = [one.label for _, own in halves for one in own]
            train_classifiers(maps, labels, folder=given.out, say=print)
        else:
            print(write_card(given.model, given.corpus))
    except BertologyError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
