"""Running experiments: plans, engines and run folders; whatever is finished is not computed again.

:mod:`bertology.runner.run` runs an experiment from its settings to its tables and is the file to open first;
:mod:`bertology.runner.plan` finds what its names stand for, :mod:`bertology.runner.engines` computes units.
"""

from bertology.families.request import ProbeRequest
from bertology.runner._verify import merge_runs, rerun, verify_run
from bertology.runner.run import RunOptions, run_experiment, run_probes

__all__ = ["ProbeRequest", "RunOptions", "merge_runs", "rerun", "run_experiment", "run_probes", "verify_run"]
