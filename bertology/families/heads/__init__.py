"""Attention heads: what is read off attention maps in one pass, and what a model loses without its heads."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from bertology.encoders import ModelShape
from bertology.errors import BertologyError
from bertology.families.contract import Family, SplitName
from bertology.families.heads._read import close_gates, maps_read, read_maps, write_baselines
from bertology.families.heads._rows import head_rows
from bertology.families.readable import Reasons, Windows
from bertology.families.request import Init, ReadoutConfig, own_readout, parse_layers
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
)
from bertology.probing import AttentionProbe, GateProbe, HeadProbe, Probe


class Heads(Family):
    """What do attention heads look at, and what does the model lose without them?"""

    @property
    def reads_vectors(self) -> bool:
        """Attention maps are never stored."""
        return False

    def answers(self, probe: Probe) -> bool:
        """Whether it is about attention heads."""
        return isinstance(probe, HeadProbe)

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        """Test, and dev where heads are chosen."""
        assert isinstance(probe, HeadProbe)
        return ("dev", "test") if probe.chooses else ("test",)

    def items(self, probe: Probe, source: str, *, most: int | None) -> None:
        """None: what is read are the sentences of the corpus."""

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Settings of the probe."""
        if isinstance(probe, GateProbe):
            configs = own_readout(probe, asked, "gates.v1", about="what a model loses without its heads")
        else:
            configs = own_readout(probe, asked, "attention.v1", about="attention maps")
        for config in configs:
            probe.with_settings(config.settings)
        return configs

    def fitted_together(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[tuple[ReadoutConfig, ...], ...]:
        """Each by itself; what reads the same maps shares its pass (:meth:`pass_key`)."""
        return tuple((config,) for config in configs)

    def check_settings(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """They were checked with the configurations."""

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """What the text lacks is found for each split when it is read."""

    def asks_random_weights(self, probe: Probe) -> bool:
        """Of attention maps; what a random model loses without a head means nothing."""
        return not isinstance(probe, GateProbe)

    def n_draws(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> int:
        """One: heads of random weights are no replicates of one another."""
        return 1

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        """Fingerprints of the splits that are read."""
        names = self.splits_read(probe)
        return {f"{name}_fingerprint": pair.splits.by_name[name].fingerprint for name in names}

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer that has heads; with gates also the whole model, as ever more of its heads are off."""
        shape = pair.shape
        asked = pair.layers if config.layers is None else parse_layers(config.layers, shape.n_layers)
        layers = tuple(layer for layer in asked if layer > 0)
        if not layers:
            raise BertologyError(
                f"layer 0 is the embeddings, which have no attention heads: ask for layers 1…{shape.n_layers}"
            )
        columns = (*layers, None) if isinstance(probe, GateProbe) else layers
        return CellGrid(("none",), 1, columns, layers, {"on_long": pair.request.on_long})

    def fewest_columns(self, probe: Probe, config: ReadoutConfig | None, *, layers: int, seeds: int) -> int:
        """A score for each layer; nothing is fitted, so that seeds change nothing."""
        return layers

    def baselines(self, probe: Probe, controls: Collection[str]) -> tuple[str, ...]:
        """Those that the probe names."""
        return tuple(name for name in probe.baselines if name in controls) if isinstance(probe, AttentionProbe) else ()

    def baseline_identity(self, config: ReadoutConfig) -> dict[str, Any]:
        """The settings of the probe."""
        return {"reading": config.changes} if config.changes else {}

    def unreadable(self, pair: Pair, probe: Probe) -> tuple[Mapping[str, Reasons], Windows]:
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
            yield from read_maps(groups, job)
            return
        for group in groups:
            try:
                close_gates(group, job)
            except Exception as error:
                yield group, error
            else:
                yield group, None

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        """What can be had without a head."""
        write_baselines(baselines, job)

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        """Those of the corpus."""
        return corpus_columns(pair)

    def fit_columns(self, pair: Pair, cells: FitCells) -> dict[str, Any]:
        """Nothing is pooled."""
        return {"pooling": None}

    def main_metric(self, cells: FitCells, control: str) -> str:
        """The first of the task."""
        return cells.probe.scores[0].name

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Every ratio of every head."""
        cells = draws[0]
        shared = fit_columns(self, cells, scoring)
        by_layer = [(layer, cell) for (_, _, layer), cell in cells.cells.items()]
        return Tables.of(tuple(head_rows(by_layer, cells.probe, {**shared}, scoring)))

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> Tables:
        """The same ratios without a head."""
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
        block = 24 * pair.shape.dim**2
        return Cost(n_words * times * PIECES_A_WORD * block * max(pair.layers, default=0))


FAMILY = Heads()
