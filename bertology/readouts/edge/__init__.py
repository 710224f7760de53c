"""Edge probes (Tenney et al. 2019): pooled spans of one layer, of a mix of layers, or of all layers side by side."""

from typing import Any

from bertology.readouts._registry import ReadoutKind

_HOME = "bertology.readouts.edge._readouts:Edge"
_ONE = "perceptron on pooled spans of one layer (Tenney et al. 2019a)"
_BELOW = "perceptron on pooled spans of a mix of each layer and all below it (Tenney et al. 2019b)"
_MIX = "perceptron on pooled spans of a mix of all layers (Tenney et al. 2019b)"
_CAT = "perceptron on pooled spans of the first and the last layer side by side (Tenney et al. 2019a)"

_FIRST = {"hidden": 256, "learning_rate": 1e-3, "batch_items": 64, "least_batch": 64, "max_steps": 0}
_FIRST |= {"patience": 3, "cool_down": 0}
_V1: dict[str, Any] = {"fixed": {"version": 1}, "defaults": _FIRST}
EDGE_V1 = ReadoutKind("edge.v1", f"{_HOME}Readout", _ONE, "spans", **_V1)
EDGE_V2 = ReadoutKind("edge.v2", f"{_HOME}Readout", _ONE, "spans")
EDGE_CUMULATIVE_V1 = ReadoutKind("edge_cumulative.v1", f"{_HOME}CumulativeReadout", _BELOW, "spans", "below", **_V1)
EDGE_CUMULATIVE_V2 = ReadoutKind("edge_cumulative.v2", f"{_HOME}CumulativeReadout", _BELOW, "spans", "below")
EDGE_MIX_V1 = ReadoutKind("edge_mix.v1", f"{_HOME}MixReadout", _MIX, "spans", "all", **_V1)
EDGE_MIX_V2 = ReadoutKind("edge_mix.v2", f"{_HOME}MixReadout", _MIX, "spans", "all")
EDGE_CAT_V1 = ReadoutKind("edge_cat.v1", f"{_HOME}CatReadout", _CAT, "spans", "all", **_V1)
EDGE_CAT_V2 = ReadoutKind("edge_cat.v2", f"{_HOME}CatReadout", _CAT, "spans", "all")
