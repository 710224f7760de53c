"""Experiments: one file that says what is asked of which models, and a run of it that costs nothing to repeat."""

from bertology.runner.experiment._cluster import ClusterChoice
from bertology.runner.experiment._estimate import Estimate, estimate
from bertology.runner.experiment._load import load_experiment
from bertology.runner.experiment._merge import merge_runs
from bertology.runner.experiment._run import RunOptions, RunSummary, run_experiment
from bertology.runner.experiment._settings import Experiment, experiment_schema
from bertology.runner.experiment._verify import Repetition, rerun, verify_run
from bertology.runner.experiment._work import Shard, Work, fewest_cells, resolve_work

__all__ = [
    "ClusterChoice",
    "Estimate",
    "Experiment",
    "Repetition",
    "RunOptions",
    "RunSummary",
    "Shard",
    "Work",
    "estimate",
    "experiment_schema",
    "fewest_cells",
    "load_experiment",
    "merge_runs",
    "rerun",
    "resolve_work",
    "run_experiment",
    "verify_run",
]
