"""Linear readouts of word vectors: logistic regression, least squares and a bilinear map of low rank."""

from bertology.readouts._registry import ReadoutKind

_LOGISTIC = "softmax regression with an L2 path, chosen on dev"
_LEAST_SQUARES = "least squares on one-hot labels with an L2 path, chosen on dev"

LINEAR_V1 = ReadoutKind(
    "linear.v1", "bertology.readouts._linear:LinearReadout", f"{_LOGISTIC}; no extended path", fixed={"extensions": 0}
)
LINEAR_V2 = ReadoutKind("linear.v2", "bertology.readouts._linear:LinearReadout", _LOGISTIC)
RIDGE_V1 = ReadoutKind(
    "ridge.v1", "bertology.readouts._ridge:RidgeReadout", f"{_LEAST_SQUARES}; no extended path", fixed={"extensions": 0}
)
RIDGE_V2 = ReadoutKind("ridge.v2", "bertology.readouts._ridge:RidgeReadout", _LEAST_SQUARES)
LOWRANK_V1 = ReadoutKind(
    "lowrank.v1",
    "bertology.readouts._lowrank:LowRankReadout",
    "softmax over a matrix of low rank (Hewitt & Liang 2019)",
)
