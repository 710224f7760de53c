"""Labels of words and spans: read off vectors by a fitted readout, or told as a code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bertology.encoders import ModelShape
from bertology.errors import BertologyError
from bertology.families.item_vectors import are_compared, check_pools
from bertology.families.labels._fit import erased_data, fit, write_baselines
from bertology.families.labels._rows import count, metrics_of, tables, with_accuracy
from bertology.families.request import Init, ReadoutConfig
from bertology.families.scoring import Counts
from bertology.families.task_data import task_data
from bertology.families.tasks import (
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
from bertology.families.vectors import VectorFamily, checked_configs, control_task_notes, training_memory
from bertology.measures import Metric
from bertology.probing import ControlNote, Probe, RepresentationProbe, SentenceProbe, get_probe, is_installed
from bertology.readouts import get_readout, readout_kind
from bertology.results.predictions import Kept

_MAJORITY = ControlNote("majority", "majority", "the label most frequent in training")
_BY_FORM = ControlNote(
    "word_majority",
    "word majority",
    "the label most frequent in training for the same word form, else majority",
)
_LENGTH = ControlNote("length", "length alone", "the label most frequent in training, of texts with as many words")
_LEXICAL = ControlNote(
    "lexical",
    "words alone",
    "a logistic regression on the words and their places: no vector, no context; layer 0 reads subwords, so it knows "
    "more of words new to it",
)
_BASELINES = {
    "words": (_MAJORITY, _BY_FORM),
    "spans": (_MAJORITY, _BY_FORM, _LEXICAL),
    "sentences": (_MAJORITY, _LENGTH, _LEXICAL),
}
_FORMS = {
    "words": "each word form",
    "spans": "each span's wording",
    "sentences": "each text, however often it occurs,",
}
"""By kind of items, what has one label in the control task."""
_READS = ("words", "spans")


class _Labels(VectorFamily):
    """Can a label of a word or span be read off its vectors, and in which layer?"""

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, RepresentationProbe) and readout_kind(probe.readout).reads in _READS

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        assert isinstance(probe, RepresentationProbe)
        configs = checked_configs(probe, asked, about="labels", reads=_READS, width=shape.dim)
        for config in configs:
            if config.codelength == "variational" and not readout_kind(str(config.readout)).has_posterior:
                remedy = "take readout bayes, or online"
                raise BertologyError(f"task {probe.task}: {config.readout} has no variational code: {remedy}")
            if config.pool != "mean" and readout_kind(str(config.readout)).reads == "spans":
                problem = "reads all words of a span: leave pool out, or take readout linear or mlp"
                raise BertologyError(f"task {probe.task}: {config.readout} {problem}")
            if config.pool == "cls" and config.erase is not None:
                problem = "what is erased is found in vectors of words, not in cls: pool mean, max or last"
                raise BertologyError(f"task {probe.task}: {problem}")
        return configs

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """The corpus has the labels, those of tasks that are to be erased, and items that can be pooled."""
        data = task_data(probe, pair.splits)
        check_pools(pair, data, configs)
        for task in dict.fromkeys(config.erase for config in configs if config.erase is not None):
            erased_data(task, pair.splits)

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """What is added to the vectors, or erased from them, decides numbers too."""
        grid = super().grid(pair, probe, config, init)
        identity: dict[str, str | int] = {"pairs": "compared"} if _are_compared(pair, probe) else {}
        if config.erase is not None:
            erased = get_probe(config.erase)
            if not is_installed(erased):
                problem = f"{config.erase} is known to this process alone"
                raise BertologyError(f"task {probe.task}: {problem}; only an installed task can be erased")
            identity["erased_version"] = erased.version
        return replace(grid, identity={**grid.identity, **identity})

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The most frequent label, that of the word's form, and of spans what their words tell."""
        return _BASELINES[_items_of(probe)]

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        return control_task_notes(_FORMS[_items_of(probe)], "a random label")

    def compute_cells(self, cells: FitCells, job: Job) -> None:
        fit(cells, job)

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        """From the labels and words of the training split."""
        write_baselines(baselines, job)

    def main_metric(self, cells: FitCells, control: str) -> str:
        """Of control tasks accuracy, or how short their code is."""
        own = control != "control_task" or cells.config.codelength
        return metrics_of(cells)[0].name if own else "accuracy"

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        return count(run, ids, metrics)

    def task_metrics(self, probe: Probe) -> tuple[Metric, ...]:
        return with_accuracy(probe)

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        return tables(self, draws, scoring)

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        data = task_data(groups[0].probe, pair.splits)
        check_pools(pair, data, [member.config for group in groups for member in group.members])
        size = len(data.train), pair.shape.dim, len(data.labels)
        flops = 0.0
        for member in (member for group in groups for member in group.members):
            flops += len(member.cells) * get_readout(member.readout, **member.config.settings).training_flops(*size)
        return Cost(flops, training_memory(pair, len(data.train)), len(data.test))


def _items_of(probe: Probe) -> str:
    assert isinstance(probe, RepresentationProbe)
    return "sentences" if isinstance(probe, SentenceProbe) else readout_kind(probe.readout).reads


def _are_compared(pair: Pair, probe: Probe) -> bool:
    """Whether items are pairs that are compared; of a task that cannot be computed its cells report why."""
    try:
        return are_compared(task_data(probe, pair.splits))
    except BertologyError:
        return False


FAMILY = _Labels()
