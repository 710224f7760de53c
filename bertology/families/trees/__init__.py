"""Trees of whole sentences: structural probes, and the trees that their distances and depths make."""

from __future__ import annotations

from collections.abc import Sequence

from bertology.encoders import ModelShape
from bertology.errors import BertologyError
from bertology.families.request import ReadoutConfig
from bertology.families.rows import scored_tables
from bertology.families.scoring import Counts, score_fits
from bertology.families.task_data import task_data
from bertology.families.tasks import (
    BaselineCells,
    Cost,
    FitCells,
    FitGroup,
    Job,
    Pair,
    Scoring,
    Tables,
)
from bertology.families.trees._fit import fit_trees, write_chains
from bertology.families.vectors import VectorFamily, checked_configs, training_memory
from bertology.measures import Metric
from bertology.measures.metrics import count_trees
from bertology.probing import ControlNote, Probe, RepresentationProbe
from bertology.readouts import readout_kind
from bertology.results.predictions import Kept, read_labels, read_scores

# Passes over the data that a fit takes, roughly, and the rank unless another is asked for.
_EPOCHS, _RANK = 30, 64
_CHAIN = ControlNote("linear_chain", "linear chain", "each word joined to the one before it, punctuation passed over")


class _Trees(VectorFamily):
    """Is the tree of a sentence in the geometry of its words' vectors, and in which layer?"""

    has_control_task = False

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, RepresentationProbe) and readout_kind(probe.readout).reads == "trees"

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Any readout of trees, of a rank that the model's vectors have; no codelength, nothing erased."""
        assert isinstance(probe, RepresentationProbe)
        configs = checked_configs(probe, asked, about="trees", reads=("trees",), width=shape.dim)
        for config in configs:
            if config.codelength is not None or config.erase is not None or config.pool != "mean":
                problem = "trees have no codelength here, nothing is erased before them, and no words are pooled"
                raise BertologyError(f"task {probe.task}: {problem}")
        return configs

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        task_data(probe, pair.splits)

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        return (_CHAIN,)

    def compute_group(self, group: FitGroup, job: Job) -> None:
        fit_trees(group, job)

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        write_chains(baselines, job)

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        """Edges, depths or arcs that gold and predicted trees share."""
        kept = read_labels(run, ids)
        agreement, _ = read_scores(run, ids)
        return count_trees(kept.gold, kept.pred, kept.labels, agreement, count_kind=metrics[0].count_kind)

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        metrics = draws[0].probe.scores
        columns = [score_fits(one, scoring, count=self.count, metrics={"none": metrics}) for one in draws]
        return scored_tables(self, draws, columns, scoring, metrics=metrics)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """Epochs over the training words, by rank."""
        data = task_data(groups[0].probe, pair.splits)
        spans = data.train.spans[:, 0]
        n_words = int((spans[:, 1] - spans[:, 0]).sum())
        flops = sum(
            4.0 * _EPOCHS * n_words * pair.shape.dim * int(cells.config.settings.get("rank", _RANK)) * len(cells.cells)
            for group in groups
            for cells in group.members
        )
        return Cost(flops, training_memory(pair, len(data.train)), len(data.test))


FAMILY = _Trees()
