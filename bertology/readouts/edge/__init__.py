"""Edge probes (Tenney et al. 2019): pooled spans of one layer, of a mix of layers, or of all layers side by side."""

from bertology.readouts._registry import ReadoutKind

_HOME = "bertology.readouts.edge._readouts:Edge"
_ONE = "perceptron on pooled spans of one layer (Tenney et al. 2019a)"
_BELOW = "perceptron on pooled spans of a mix of each layer and all below it (Tenney et al. 2019b)"
_MIX = "perceptron on pooled spans of a mix of all layers (Tenney et al. 2019b)"
_CAT = "perceptron on pooled spans of the first and the last layer side by side (Tenney et al. 2019a)"

EDGE_V1 = ReadoutKind("edge.v1", f"{_HOME}Readout", _ONE, "spans")
EDGE_CUMULATIVE_V1 = ReadoutKind("edge_cumulative.v1", f"{_HOME}CumulativeReadout", _BELOW, "spans", "below")
EDGE_MIX_V1 = ReadoutKind("edge_mix.v1", f"{_HOME}MixReadout", _MIX, "spans", "all")
EDGE_CAT_V1 = ReadoutKind("edge_cat.v1", f"{_HOME}CatReadout", _CAT, "spans", "all")
