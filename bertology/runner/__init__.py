"""From what a person asks to tidy tables; whatever is finished is not computed again."""

from bertology.runner._parse import ParseRequest, parse, read_tree, sentence_of_corpus, sentence_of_text
from bertology.runner._plan import make_plan
from bertology.runner._reading import Reading, sweep
from bertology.runner._request import CONTROLS, ProbeRequest, parse_controls, parse_layers, parse_names
from bertology.runner._run import run_probes

__all__ = [
    "CONTROLS",
    "ParseRequest",
    "ProbeRequest",
    "Reading",
    "make_plan",
    "parse",
    "parse_controls",
    "parse_layers",
    "parse_names",
    "read_tree",
    "run_probes",
    "sentence_of_corpus",
    "sentence_of_text",
    "sweep",
]
