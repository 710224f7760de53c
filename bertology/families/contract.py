"""What a task family is: how one kind of question is planned, computed, scored and estimated.

A family is one object, registered under a name in the entry-point group ``bertology.families``. Planning, engines,
resuming and tables are the same for all of them (:mod:`bertology.runner`) and know no family by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from bertology._registry import Registered, Registry
from bertology.encoders import ModelShape
from bertology.errors import BertologyError
from bertology.families.request import CONTROLS, Init, ReadoutConfig
from bertology.families.splits import TaskItems
from bertology.families.tasks import (
    BaselineCells,
    CellGrid,
    Cost,
    FitCells,
    FitGroup,
    Job,
    Pair,
    Scoring,
    Signal,
    Tables,
    Unreadable,
)
from bertology.probing import ControlNote, Probe

SplitName = Literal["train", "dev", "test"]
T = TypeVar("T")


class Family(ABC):
    """How one kind of question is answered, for every probe of that kind.

    A family has no state. Methods that are not abstract do what suits most kinds. What a probe or a corpus lacks is
    raised as a :class:`bertology.BertologyError` by the method that finds it, in one line that names the task.
    """

    is_cross_validated: ClassVar[bool] = False
    """Whether the task can be fitted in folds: what is fitted depends on the items of train and dev alone, and what is
    kept of a cell are predictions of single items."""

    # Which questions, and what they need.

    @abstractmethod
    def answers(self, probe: Probe) -> bool:
        """Whether the probe is of this kind; it is of exactly one family's."""

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """The stored vectors that readout configurations of a task read, extracted before anything is computed.

        None, unless a family says otherwise: the model runs when cells are computed.
        """
        return ()

    def needs_reference(self, probe: Probe) -> bool:
        """Whether the task compares a model with its reference: ``Pair.reference`` and ``Job.reference`` are there.

        Models without a reference are left out of such a task.
        """
        return False

    def reference_signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """The stored vectors of the reference model that the task reads: the same as of the model itself."""
        return self.signals(probe, configs) if self.needs_reference(probe) else ()

    @abstractmethod
    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        """The splits of the corpus that the task needs; none for a task with items of its own."""

    def items(self, probe: Probe, source: str, *, most: int | None, columns: str | None) -> TaskItems | None:
        """Items of the probe's own, which are not sentences of a corpus; None where there are none.

        Args:
            probe: the question.
            source: name or path of where they come from.
            most: at most so many items of each group.
            columns: which columns of a table hold what.
        """
        return None

    @abstractmethod
    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """The readout configurations that are asked for, each with its registered readout and checked.

        Raises:
            BertologyError: one does not fit the task or the model.
        """

    def fitted_together(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[tuple[ReadoutConfig, ...], ...]:
        """The configurations in their order, those in one place that share their passes over the data.

        Configurations may come as they are written in an experiment, unchecked.
        """
        return tuple((config,) for config in configs)

    def check_settings(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:  # noqa: B027
        """Raise what is wrong with settings, as far as :meth:`configs` does not find it without torch."""

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:  # noqa: B027
        """Raise what would keep the task from being computed, as far as it can be known without the model's weights."""

    # Which cells there are.

    def asks_random_weights(self, probe: Probe) -> bool:
        """Whether random weights are a control of the task."""
        return True

    most_draws: ClassVar[int | None] = None
    """The most draws of random weights that a task takes; as many as are asked for where there is no limit."""

    def knows_chance(self, probe: Probe) -> bool:
        """Whether the chance level is known by construction: then random weights are run only if they are asked for."""
        return False

    @abstractmethod
    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        """What decides the numbers of a task and of its baselines, besides its name and version: data fingerprints."""

    @abstractmethod
    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """The cells of a readout configuration on weights of one initialisation."""

    def fewest_columns(self, probe: Probe, config: ReadoutConfig | None, *, layers: int, seeds: int) -> int:
        """The fewest cells of a readout configuration (None: the task's own), before any model or corpus is known."""
        return layers

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The baselines that a task has, which read no layer, and what tables say of each."""
        return ()

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        """The same of controls that are computed by layer; of ``none``, the task itself, a note on its readout."""
        return ()

    def baseline_identity(self, config: ReadoutConfig) -> dict[str, Any]:
        """What decides the numbers of baselines besides :meth:`task_identity`, given the first configuration."""
        return {}

    def unreadable(self, pair: Pair, probe: Probe) -> Unreadable:
        """What the model cannot read of the splits of a task, and so its baselines are not scored on."""
        return {}, {}

    # How they are computed.

    def pass_key(self, group: FitGroup) -> Hashable | None:
        """What groups on the same weights have in common that are computed in one pass; None: each by itself."""
        return None

    def compute(self, groups: Sequence[FitGroup], job: Job) -> Iterator[tuple[FitGroup, Exception | None]]:
        """Compute groups of one :meth:`pass_key` and write their cells, each as it is finished.

        Yields:
            Each group when its cells are written, or with what went wrong, which does not stop the others.
        """
        return one_by_one(groups, lambda group: self.compute_group(group, job))

    def compute_group(self, group: FitGroup, job: Job) -> None:
        """Compute one group and write its cells, where :meth:`compute` takes one after the other."""
        for cells in group.members:
            self.compute_cells(cells, job)

    def compute_cells(self, cells: FitCells, job: Job) -> None:
        """Compute and write the cells of one configuration, where nothing in its group is computed with it."""
        lacking = "compute_cells, compute_group or compute, of which its family has none"
        raise BertologyError(f"task {cells.probe.task} needs {lacking}")

    def compute_baselines(self, baselines: BaselineCells, job: Job) -> None:
        """Compute baselines and write their cells."""
        raise BertologyError(f"task {baselines.probe.task} has no baselines")

    # How they become rows.

    @abstractmethod
    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        """Columns of all rows of a task: ``corpus_fingerprint``, ``split``, ``language``, ``annotation``."""

    def fit_columns(self, pair: Pair, cells: FitCells) -> dict[str, Any]:
        """Further columns of the rows of a readout configuration, such as ``pooling``."""
        return {"pooling": None}

    def main_metric(self, cells: FitCells, control: str) -> str:
        """The metric by which cells of a control are named where they could not be computed."""
        return cells.probe.scores[0].name

    @abstractmethod
    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """The rows and comparisons of a readout configuration, on each draw of its weights."""

    def baseline_rows(self, baselines: BaselineCells, scoring: Scoring) -> Tables:
        """The rows of baselines."""
        return Tables(())

    # What they will cost.

    @abstractmethod
    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """What computing groups of one :meth:`pass_key` takes, but for the extraction of vectors.

        Raises:
            BertologyError: they cannot be computed, as :meth:`check` finds.
        """


def one_by_one(groups: Sequence[T], compute: Callable[[T], None]) -> Iterator[tuple[T, Exception | None]]:
    """Compute one after the other: each of them, and what went wrong with it, if anything."""
    for group in groups:
        try:
            compute(group)
        except Exception as error:
            yield group, error
        else:
            yield group, None


def _checked(entry: Registered[Family], component: Any) -> Family:
    if not isinstance(component, Family):
        raise entry.wrong_type(component, "a Family")
    return component


_REGISTRY = Registry[Family]("family", "bertology.families", "labels.v1", _checked)


def family_of(probe: Probe) -> Family:
    """The family that answers a probe, of all that are installed.

    Raises:
        BertologyError: no family does, or several do.
    """
    families = {name: entry.load() for name, entry in _REGISTRY.registered().items()}
    answering = {name: family for name, family in families.items() if family.answers(probe)}
    if len(answering) != 1:
        which = f"several do: {', '.join(answering)}" if answering else "none does"
        raise BertologyError(f"task {probe.task}: one family should answer a {type(probe).__name__}, {which}")
    return next(iter(answering.values()))


def runs_random_weights(
    family: Family, probe: Probe, controls: Collection[str], random_draws: int | Literal["auto"]
) -> bool:
    """Whether random weights are run as a control of a task.

    Args:
        family: of the task.
        probe: the task.
        controls: the controls of the run. All of them are the default, which asks for none in particular.
        random_draws: draws of random weights; a number asks for them.
    """
    if "random" not in controls or not family.asks_random_weights(probe):
        return False
    return not family.knows_chance(probe) or random_draws != "auto" or set(controls) != set(CONTROLS)
