"""From a request or an experiment to tidy tables; whatever is finished is not computed again."""

from bertology.families.request import (
    CONTROLS,
    ProbeRequest,
    ReadoutConfig,
    parse_controls,
    parse_layers,
    parse_names,
    sweep,
)
from bertology.runner._estimate import estimate
from bertology.runner._merge import merge_runs
from bertology.runner._plan import Plan, make_plan
from bertology.runner._run import RunOptions, RunSummary, run_experiment, run_probes
from bertology.runner._verify import rerun, verify_run
from bertology.runner._work import Shard, Work, fewest_cells, resolve_work
from bertology.runner.engines._cluster import ClusterChoice

__all__ = [
    "CONTROLS",
    "ClusterChoice",
    "Plan",
    "ProbeRequest",
    "ReadoutConfig",
    "RunOptions",
    "RunSummary",
    "Shard",
    "Work",
    "estimate",
    "fewest_cells",
    "make_plan",
    "merge_runs",
    "parse_controls",
    "parse_layers",
    "parse_names",
    "rerun",
    "resolve_work",
    "run_experiment",
    "run_probes",
    "sweep",
    "verify_run",
]
