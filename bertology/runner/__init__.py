"""From what a person asks to tidy tables; whatever is finished is not computed again."""

from bertology.runner._plan import make_plan
from bertology.runner._request import CONTROLS, ProbeRequest, parse_layers
from bertology.runner._run import run_probes

__all__ = ["CONTROLS", "ProbeRequest", "make_plan", "parse_layers", "run_probes"]
