"""Cloze tasks: what the masked-LM head, or the next-sentence head, answers at every layer; nothing is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertology._files import canonical_json, digest
from bertology.encoders import ModelShape
from bertology.errors import BertologyError, CorpusError
from bertology.families.cloze._ask import ask_cells, read_vocabulary, write_majority
from bertology.families.cloze._lens import LENS_LOGITS, TUNED_LENS, lens_text
from bertology.families.cloze._rows import baseline_tables, tables
from bertology.families.contract import Family, SplitName
from bertology.families.request import Init, ReadoutConfig
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
)
from bertology.families.unfitted import own_readout, own_source
from bertology.probing import ClozeItems, ClozeProbe, ControlNote, Probe

_ORACLE = ControlNote(
    "majority",
    "majority (oracle)",
    "the answer most frequent in each group of this test itself, which no model may look at",
)
_BLIND = ControlNote("blind", "blind", "the same texts without what decides")


class _Cloze(Family):
    """What does a model put where a word is left out, or which of two texts does it find more probable?"""

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, ClozeProbe)

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        return ()

    def items(self, probe: Probe, source: str, *, most: int | None, columns: str | None) -> ClozeItems:
        assert isinstance(probe, ClozeProbe)
        try:
            items = probe.read_items(source, columns=columns)
            items.check(probe.asks)
        except CorpusError as error:
            raise CorpusError(f"task {probe.task}: {error}") from error
        if most is None:
            return items
        as_wholes = any(metric.count_kind == "agreement" for metric in probe.scores)
        return items.some_of_each_group(most, whole_clusters=as_wholes)

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """The model's own head, lower layers as they are or through a tuned lens, with settings of the probe."""
        assert isinstance(probe, ClozeProbe)
        about = "what a model says of texts"
        if probe.asks != "next_sentence":
            configs = own_readout(probe, asked, "masked_lm.v1", TUNED_LENS, about=about)
            for config in configs:
                if "lens_corpus" in config.settings and config.readout != TUNED_LENS:
                    raise BertologyError(f"task {probe.task}: lens_corpus is a setting of the readout {TUNED_LENS}")
            return configs
        configs = own_readout(probe, asked, "next_sentence.v1", about=about)
        for config in configs:
            if config.settings:
                raise BertologyError(f"task {probe.task} has no settings: leave {', '.join(config.settings)} out")
        return configs

    def knows_chance(self, probe: Probe) -> bool:
        """Of a choice among given words, or between two texts."""
        assert isinstance(probe, ClozeProbe)
        return probe.asks in ("choices", "sentences", "next_sentence")

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return {"items_fingerprint": _items_of(pair, probe).fingerprint, **own_source(probe)}

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer; with the texts without what decides, where there are such, on the model that is asked about."""
        layers = pair.layers_of(config)
        with_blind = "blind" in pair.request.controls and init == pair.request.init
        can_be_blind = with_blind and any(item.blind for item in _items_of(pair, probe).items)
        words = config.settings.get("vocabulary")
        identity = {"vocabulary_fingerprint": digest([canonical_json(read_vocabulary(str(words)))])} if words else {}
        if config.readout == TUNED_LENS:
            identity |= {"lens_fingerprint": lens_text(config, pair).text_fingerprint, "on_long": pair.request.on_long}
        return CellGrid(("none", "blind") if can_be_blind else ("none",), 1, layers, layers, identity)

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The most frequent answer, where the answer is a word of the vocabulary.

        Of two texts neither is the more frequent answer; and where each item has distractors of its own, the most
        frequent answer is mostly one that is never a distractor.
        """
        assert isinstance(probe, ClozeProbe)
        return (_ORACLE,) if probe.asks == "answers" else ()

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        return (_BLIND,)

    def compute_cells(self, cells: FitCells, job: Job) -> None:
        ask_cells(cells, job)

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        write_majority(baselines, _items_of(job.pair, baselines.probe), job.run)

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        items = _items_of(pair, probe)
        return {"corpus_fingerprint": items.fingerprint, "split": "all", "language": items.language}

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Scores of all items and of each group."""
        return tables(self, draws, scoring)

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> Tables:
        return baseline_tables(self, baselines, scoring)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """A pass over the texts for each set of weights and control, and the fit of a tuned lens."""
        probe = groups[0].probe
        members = [cells for group in groups for cells in group.members]
        n_passes = len({(cells.weights, control) for cells in members for control, _, _ in cells.cells})
        pieces = _words_read(pair, probe, pieces=PIECES_A_WORD)
        flops = pieces * n_passes * 24 * pair.shape.dim**2 * max(pair.layers, default=0)
        n_lenses = len({cells.weights for cells in members if cells.config.readout == TUNED_LENS})
        flops += n_lenses * LENS_LOGITS * 6 * pair.shape.dim * pair.shape.n_layers
        return Cost(flops, items=len(_items_of(pair, probe)))


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


FAMILY = _Cloze()
