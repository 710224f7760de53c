"""From what a person asks to tidy tables; whatever is finished is not computed again."""

from bertology.runner._plan import make_plan
from bertology.runner._request import CONTROLS, ProbeRequest, parse_controls, parse_layers, parse_names
from bertology.runner._run import run_probes

__all__ = ["CONTROLS", "ProbeRequest", "make_plan", "parse_controls", "parse_layers", "parse_names", "run_probes"]
