"""Cloze tasks: what the masked-LM head, or the next-sentence head, answers at every layer; nothing is fitted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bertology._files import canonical_json, digest
from bertology.encoders import ModelShape
from bertology.errors import BertologyError, CorpusError
from bertology.families.cloze._ask import ask_cells, read_vocabulary, write_majority
from bertology.families.cloze._rows import baseline_tables, tables
from bertology.families.contract import Family, SplitName
from bertology.families.readable import Reasons, Windows
from bertology.families.request import Init, ReadoutConfig, own_readout
from bertology.families.tasks import (
    PIECES_A_WORD,
    BaselineCells,
    CellGrid,
    Cost,
    FitCells,
    FitGroup,
    Job,
    Pair,
    Scoring,
    Tables,
    n_draws,
)
from bertology.probing import ClozeItems, ClozeProbe, Probe


class Cloze(Family):
    """What does a model put where a word is left out, or which of two texts does it find more probable?"""

    @property
    def reads_vectors(self) -> bool:
        """The model runs on the texts of the task itself."""
        return False

    def answers(self, probe: Probe) -> bool:
        """Whether it has prompts."""
        return isinstance(probe, ClozeProbe)

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        """None: the task has items of its own."""
        return ()

    def items(self, probe: Probe, source: str, *, most: int | None) -> ClozeItems:
        """The prompts of a source."""
        assert isinstance(probe, ClozeProbe)
        try:
            items = probe.items(source)
            items.check(probe.asks)
        except CorpusError as error:
            raise CorpusError(f"task {probe.task}: {error}") from error
        if most is not None:
            as_wholes = any(metric.count_kind == "agreement" for metric in probe.scores)
            items = items.some_of_each_group(most, whole_clusters=as_wholes)
        return items

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """The model's own head, with settings of the probe."""
        assert isinstance(probe, ClozeProbe)
        configs = own_readout(probe, asked, _head_of(probe), about="what a model says of texts")
        for config in configs:
            if probe.asks == "next_sentence" and config.settings:
                raise BertologyError(f"task {probe.task} has no settings: leave {', '.join(config.settings)} out")
            probe.with_settings(config.settings)
        return configs

    def fitted_together(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[tuple[ReadoutConfig, ...], ...]:
        """Each by itself."""
        return tuple((config,) for config in configs)

    def check_settings(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """They were checked with the configurations."""

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """Items were checked when they were read."""

    def asks_random_weights(self, probe: Probe) -> bool:
        """Always."""
        return True

    def n_draws(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> int:
        """Three where the texts are short for the model."""
        return n_draws(pair, _words_read(pair, probe), is_quick=True)

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        """Fingerprint of the items."""
        return {"items_fingerprint": _items_of(pair, probe).fingerprint}

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer; with the texts without what decides, where there are such, on the model that is asked about."""
        layers = pair.layers_of(config)
        with_blind = "blind" in pair.request.controls and init == pair.request.init
        can_be_blind = with_blind and any(item.blind for item in _items_of(pair, probe).items)
        words = config.settings.get("vocabulary")
        identity = {"vocabulary_fingerprint": digest([canonical_json(read_vocabulary(str(words)))])} if words else {}
        return CellGrid(("none", "blind") if can_be_blind else ("none",), 1, layers, layers, identity)

    def fewest_columns(self, probe: Probe, config: ReadoutConfig | None, *, layers: int, seeds: int) -> int:
        """A score for each layer; nothing is fitted, so that seeds change nothing."""
        return layers

    def baselines(self, probe: Probe, controls: Collection[str]) -> tuple[str, ...]:
        """The most frequent answer, where the answer is a word of the vocabulary.

        Of two texts neither is the more frequent answer; and where each item has distractors of its own, the most
        frequent answer is mostly one that is never a distractor.
        """
        assert isinstance(probe, ClozeProbe)
        return ("majority",) if probe.asks == "answers" and "majority" in controls else ()

    def baseline_identity(self, config: ReadoutConfig) -> dict[str, Any]:
        """Nothing more."""
        return {}

    def unreadable(self, pair: Pair, probe: Probe) -> tuple[Mapping[str, Reasons], Windows]:
        """Nothing: which items a model can be asked is known when it is asked."""
        return {}, {}

    def pass_key(self, group: FitGroup) -> None:
        """Each by itself."""

    def compute(self, groups: Sequence[FitGroup], job: Job) -> Iterator[tuple[FitGroup, Exception | None]]:
        """Ask one task after the other."""
        for group in groups:
            try:
                for cells in group.members:
                    ask_cells(cells, job)
            except Exception as error:
                yield group, error
            else:
                yield group, None

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        """The most frequent answers of each group."""
        write_majority(baselines, _items_of(job.pair, baselines.probe), job.run)

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        """Those of the items."""
        items = _items_of(pair, probe)
        return {"corpus_fingerprint": items.fingerprint, "split": "all", "language": items.language}

    def fit_columns(self, pair: Pair, cells: FitCells) -> dict[str, Any]:
        """Nothing is pooled."""
        return {"pooling": None}

    def main_metric(self, cells: FitCells, control: str) -> str:
        """The first of the task."""
        return cells.probe.scores[0].name

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Scores of all items and of each group."""
        return tables(self, draws, scoring)

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> Tables:
        """The same of the most frequent answers."""
        return baseline_tables(self, baselines, scoring)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """A pass over the texts for each set of weights and control."""
        probe = groups[0].probe
        members = [cells for group in groups for cells in group.members]
        n_passes = len({(cells.weights, control) for cells in members for control, _, _ in cells.cells})
        pieces = _words_read(pair, probe, pieces=PIECES_A_WORD)
        flops = pieces * n_passes * 24 * pair.shape.dim**2 * max(pair.layers, default=0)
        return Cost(flops, items=len(_items_of(pair, probe)))


def _head_of(probe: ClozeProbe) -> str:
    """The column ``readout`` of its rows: the head of the model that answers."""
    return "next_sentence.v1" if probe.asks == "next_sentence" else "masked_lm.v1"


def _items_of(pair: Pair, probe: Probe) -> ClozeItems:
    items: ClozeItems = pair.splits.items[probe.task]
    return items


def _words_read(pair: Pair, probe: Probe, *, pieces: float = 1.0) -> float:
    """How many words a model reads for the items of a task, or pieces if there are so many a word.

    Sentences are read once for each of their pieces.
    """
    assert isinstance(probe, ClozeProbe)
    items = _items_of(pair, probe).items
    lengths = pieces * np.array([float(len(item.text.split()) + len(item.other.split())) for item in items])
    return float((lengths**2 / 2 if probe.asks == "sentences" else lengths).sum())


FAMILY = Cloze()
