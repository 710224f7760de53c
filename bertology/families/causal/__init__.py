"""What a model predicts once states of a layer are changed, by layer (``bertology.causal`` computes it).

The model runs when cells are computed: nothing is stored. Statistics are sums over clusters, as those of ``geometry``,
so that cells, rows and intervals are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from bertology.corpora import Sentences
from bertology.encoders import ModelShape
from bertology.errors import CorpusError
from bertology.families.alignment import text_counts
from bertology.families.cells import Stopwatch, write_cell
from bertology.families.contract import Family, SplitName
from bertology.families.layer_sums import kept_sums, layer_tables
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import corpus_columns
from bertology.families.tasks import PIECES_A_WORD, CellGrid, Cost, FitCells, FitGroup, Job, Pair, Scoring, Tables
from bertology.families.unfitted import named_task, own_readout, own_source
from bertology.geometry import LayerSums
from bertology.probing import CausalItems, CausalProbe, GeometryCounts, Probe

_WORDS_AN_ITEM = 20
_PASSES = 12
"""Passes over the text that a layer takes, roughly: changes and their controls, each through half of the blocks."""


class _Causal(Family):
    """What does a model no longer predict when states of a layer are changed?"""

    most_draws = 1
    """A model of random weights predicts nothing that it could lose, which one draw shows."""

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, CausalProbe)

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        assert isinstance(probe, CausalProbe)
        return probe.reads

    def items(self, probe: Probe, source: str, *, most: int | None, columns: str | None) -> CausalItems | None:
        assert isinstance(probe, CausalProbe)
        try:
            items = probe.items(source, columns=columns)
        except CorpusError as error:
            raise CorpusError(f"task {probe.task}: {error}") from error
        return None if items is None else items.some(most)

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        return own_readout(probe, asked, "interventions.v1", about="what a model predicts when it is changed")

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """The text has what is asked about."""
        for config in configs:
            with named_task(probe):
                _configured(probe, config).counts(_texts(pair, probe), _items(pair, probe))

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        read = {f"{name}_fingerprint": text.fingerprint for name, text in _texts(pair, probe).items()}
        if (items := _items(pair, probe)) is not None:
            read["items_fingerprint"] = items.fingerprint
        return read | own_source(probe)

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer; what settings name and the probe reads besides decides its numbers too."""
        layers = pair.layers_of(config)
        identity = {"on_long": pair.request.on_long, **_configured(probe, config).sources()}
        return CellGrid(("none",), 1, layers, layers, identity)

    def compute_cells(self, cells: FitCells, job: Job) -> None:
        """Open the model, measure all layers, and write the cells."""
        watch, probe = Stopwatch(), _configured(cells.probe, cells.config)
        texts, items = _texts(job.pair, cells.probe), _items(job.pair, cells.probe)
        with named_task(probe):
            counts = probe.counts(texts, items)
            on_long = job.pair.request.on_long
            measured = probe.measure(job.get_encoder(), texts, items, layers=cells.layers_read, on_long=on_long)
            found: list[LayerSums] = []
            for one in measured:
                if isinstance(one, GeometryCounts):
                    counts = one
                else:
                    found.append(one)
        aligned = (
            job.pair.alignment_counts(leaves_out=False)
            if items is None
            else text_counts(job.get_encoder(), _strings(items))
        )
        provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=len(cells.cells))
        for (_, _, layer), cell in cells.cells.items():
            facts = {
                "n_train": counts.n_train,
                "n_items": counts.n_items,
                "n_clusters": len(texts["test"]) if "test" in texts else counts.n_items,
                "n_classes": counts.n_classes,
                "n_skipped": sum(counts.skipped.values()),
                "skip_reasons": dict(sorted(counts.skipped.items())),
                "n_unseen_label": counts.n_unseen_label,
                "params": {"clusters": "sentences" if texts else "frames"}
                | ({"unit": counts.unit} if counts.unit != "items" else {})
                | ({"settings": cells.config.changes} if cells.config.changes else {}),
                **aligned,
            }
            sums = [kept_sums(one, layer) for one in found if layer in one.layers]
            write_cell(job.run, cell, sums, facts=facts, provenance=provenance, notes=job.pair.splits.notes)

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        items = _items(pair, probe)
        if items is None:
            return corpus_columns(pair)
        return {"corpus_fingerprint": items.fingerprint, "split": "all", "language": pair.corpus.language}

    def main_metric(self, cells: FitCells, control: str) -> str:
        """That of the probe with its settings."""
        return _configured(cells.probe, cells.config).scores[0].name

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        return layer_tables(self, draws, scoring)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """Some passes over the text for each layer."""
        items = _items(pair, groups[0].probe)
        n_words = sum(text.n_words for text in _texts(pair, groups[0].probe).values())
        n_words += 0 if items is None else _WORDS_AN_ITEM * len(items)
        n_cells = sum(len(cells.cells) for group in groups for cells in group.members)
        depth = max(pair.layers, default=0)
        return Cost(2 * n_words * n_cells * _PASSES * PIECES_A_WORD * 12 * pair.shape.dim**2 * depth)


def _configured(probe: Probe, config: ReadoutConfig) -> CausalProbe:
    """The question with the settings of a configuration."""
    chosen = probe.with_settings(config.settings)
    assert isinstance(chosen, CausalProbe)
    return chosen


def _items(pair: Pair, probe: Probe) -> CausalItems | None:
    items: CausalItems | None = pair.splits.items.get(probe.task)
    return items


def _strings(items: CausalItems) -> list[str]:
    """The texts of items of a probe's own: all of their strings that have several words."""
    values = (getattr(item, field.name) for item in items.items for field in fields(item))
    return [value for value in values if isinstance(value, str) and " " in value]


def _texts(pair: Pair, probe: Probe) -> Mapping[str, Sentences]:
    """The splits that a probe reads."""
    assert isinstance(probe, CausalProbe)
    return {name: pair.splits.by_name[name] for name in probe.reads}


FAMILY = _Causal()
