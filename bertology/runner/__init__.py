"""Running experiments: plans, engines and run folders; whatever is finished is not computed again."""

from bertology.families.request import ProbeRequest
from bertology.runner._engines import ClusterChoice
from bertology.runner._estimate import estimate
from bertology.runner._plan import Shard, make_plan, reads_sentences, resolve_work
from bertology.runner._run import RunOptions, RunSummary, run_experiment, run_probes
from bertology.runner._verify import merge_runs, rerun, verify_run

__all__ = [
    "ClusterChoice",
    "ProbeRequest",
    "RunOptions",
    "RunSummary",
    "Shard",
    "estimate",
    "make_plan",
    "merge_runs",
    "reads_sentences",
    "rerun",
    "resolve_work",
    "run_experiment",
    "run_probes",
    "verify_run",
]
