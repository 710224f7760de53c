"""Predictions of a model whose states in one layer are changed, by layer (computed by ``bertology.causal``).

The model runs when cells are computed: nothing is stored.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

from bertology.causal.probes import CausalItems, CausalProbe
from bertology.families.contract import CellGrid, FitCells, Resources, named_task
from bertology.families.model_corpus import ModelCorpus, text_counts
from bertology.families.request import Init, ReadoutConfig
from bertology.families.sums import PACKAGES, SumsFamily, write_sums
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, Probe, RunningModel
from bertology.results.predictions import Stopwatch


class _Causal(SumsFamily[CausalProbe]):
    """Family of probes that intervene on the states of a layer and measure changes in predictions."""

    readout = "interventions.v1"
    about = "what a model predicts when it is changed"

    def is_cross_validated(self, probe: Probe) -> bool:
        """Tasks that fit something to a text, such as a ranking of dimensions."""
        return "train" in probe.reads

    def items(self, probe: Probe, source: str, *, most: int | None, columns: str | None) -> CausalItems | None:
        assert isinstance(probe, CausalProbe)
        with named_task(probe):
            items = probe.items(source, columns=columns)
        return None if items is None else items.some(most)

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """Check that the text has the annotation that the task needs."""
        for config in configs:
            with named_task(probe):
                self.configured(probe, config).counts(pair.texts(probe.reads), pair.splits.items.get(probe.task))

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer; what settings name and the probe reads besides decides its numbers too."""
        layers = pair.layers_of(config)
        return CellGrid(layers, layers, {"on_long": pair.request.on_long, **self.configured(probe, config).sources()})

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Open the model, and measure all layers."""
        watch, probe = Stopwatch(), self.configured(cells.probe, cells.config)
        texts, items = job.pair.texts(probe.reads), job.pair.splits.items.get(probe.task)
        found = list[LayerSums]()
        with named_task(probe):
            counts = probe.counts(texts, items)
            asked = texts, cells.layers_read, items, job.pair.request.on_long, job.progress, job.run
            for one in probe.measure(RunningModel(job.get_encoder(), *asked)):
                if isinstance(one, GeometryCounts):
                    counts = one
                else:
                    found.append(one)
        if items is None:
            aligned = job.pair.alignment_counts(leaves_out=False)
        else:
            values = (getattr(item, field.name) for item in items.items for field in fields(item))
            written = [value for value in values if isinstance(value, str) and " " in value]
            aligned = text_counts(job.get_encoder(), written)
        unit = {"unit": counts.unit} if counts.unit != "items" else {}
        write_sums(
            cells,
            job,
            found,
            replace(counts, skipped=dict(sorted(counts.skipped.items()))),
            n_clusters=len(texts["test"]) if "test" in texts else counts.n_items,
            provenance=watch.provenance(*PACKAGES, device=job.device, n_cells=len(cells.cells)),
            params={"clusters": "sentences" if texts else "frames", **unit},
            aligned=aligned,
        )


FAMILY = _Causal()
