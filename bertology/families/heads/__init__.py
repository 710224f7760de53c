"""Attention heads: what is read off attention maps in one pass, and what a model loses without its heads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from bertology.encoders import ModelShape
from bertology.errors import BertologyError
from bertology.families.contract import Family, SplitName
from bertology.families.head_sums import head_rows
from bertology.families.heads._read import close_gates, maps_read, read_maps, write_baselines
from bertology.families.request import Init, ReadoutConfig, parse_layers
from bertology.families.rows import baseline_columns, corpus_columns, fit_columns
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
    Unreadable,
)
from bertology.families.unfitted import own_readout, own_source
from bertology.probing import AttentionProbe, ControlNote, GateProbe, HeadProbe, Probe


class _Heads(Family):
    """What do attention heads look at, and what does the model lose without them?"""

    most_draws = 1
    """Heads of random weights are no replicates of one another."""

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, HeadProbe)

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        """Test, and dev where heads are chosen."""
        assert isinstance(probe, HeadProbe)
        return ("dev", "test") if probe.chooses else ("test",)

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        if isinstance(probe, GateProbe):
            return own_readout(probe, asked, "gates.v1", about="what a model loses without its heads")
        return own_readout(probe, asked, "attention.v1", about="attention maps")

    def asks_random_weights(self, probe: Probe) -> bool:
        """Of attention maps; what a random model loses without a head means nothing."""
        return not isinstance(probe, GateProbe)

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        names = self.splits_read(probe)
        return {f"{name}_fingerprint": pair.splits.by_name[name].fingerprint for name in names} | own_source(probe)

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer that has heads; with gates also the whole model, as ever more of its heads are off."""
        n_layers = pair.shape.n_layers
        asked = pair.layers if config.layers is None else parse_layers(config.layers, n_layers)
        layers = tuple(layer for layer in asked if layer > 0)
        if not layers:
            raise BertologyError(
                f"layer 0 is the embeddings, which have no attention heads: ask for layers 1…{n_layers}"
            )
        columns = (*layers, None) if isinstance(probe, GateProbe) else layers
        sharing = pair.sharing if isinstance(probe, AttentionProbe) else {}
        return CellGrid(("none",), 1, columns, layers, {"on_long": pair.request.on_long, **sharing})

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """Those of the probe."""
        return probe.baselines if isinstance(probe, AttentionProbe) else ()

    def baseline_identity(self, config: ReadoutConfig) -> dict[str, Any]:
        return {"reading": config.changes} if config.changes else {}

    def unreadable(self, pair: Pair, probe: Probe) -> Unreadable:
        """Words that the model cannot read, and the windows of the others: no head sees across two windows."""
        unreadable, windows = pair.windows
        splits = [name for name in self.splits_read(probe) if name in windows]
        return {name: unreadable[name] for name in splits}, {name: windows[name] for name in splits}

    def pass_key(self, group: FitGroup) -> Hashable | None:
        """Which maps are read: their units, whether norms are needed, whether sentences come in pairs."""
        return maps_read(group)

    def compute(self, groups: Sequence[FitGroup], job: Job) -> Iterator[tuple[FitGroup, Exception | None]]:
        """One pass over each split for everything that reads attention maps; gates are closed task by task."""
        if maps_read(groups[0]) is not None:
            return read_maps(groups, job)
        return super().compute(groups, job)

    def compute_group(self, group: FitGroup, job: Job) -> None:
        close_gates(group, job)

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        write_baselines(baselines, job)

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return corpus_columns(pair)

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Every ratio of every head."""
        cells = draws[0]
        by_layer = [(layer, cell) for (_, _, layer), cell in cells.cells.items()]
        return Tables.of(tuple(head_rows(by_layer, cells.probe, fit_columns(self, cells, scoring), scoring)))

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> Tables:
        shared = baseline_columns(self, baselines, scoring)
        rows = [
            row
            for name, cell in baselines.cells.items()
            for row in head_rows([(None, cell)], baselines.probe, {**shared, "control": name}, scoring)
        ]
        return Tables.of(rows)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """Once over the text for all maps, and once for each head that is closed."""
        splits, probes = pair.splits.by_name, [group.probe for group in groups]
        chooses = any(isinstance(probe, AttentionProbe) and probe.chooses for probe in probes)
        n_words = splits["test"].n_words + (splits["dev"].n_words if chooses else 0)
        is_pass = isinstance(probes[0], AttentionProbe)
        times = 1 if is_pass else len(groups[0].members[0].layers) * pair.shape.n_heads
        return Cost(n_words * times * PIECES_A_WORD * (24 * pair.shape.dim**2) * max(pair.layers, default=0))


FAMILY = _Heads()
