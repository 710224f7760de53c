"""Linear readouts of word vectors: logistic regression and least squares, with their path of L2 penalties."""

from bertology.readouts._registry import ReadoutKind

_LOGISTIC = "bertology.readouts.linear._logistic:LinearReadout"
_RIDGE = "bertology.readouts.linear._affine:RidgeReadout"
_SOFTMAX = "softmax regression, its L2 penalty chosen on dev"
_SQUARES = "least squares on one-hot labels, its L2 penalty chosen on dev"
_AS_GIVEN = " among the strengths given"

LINEAR_V1 = ReadoutKind("linear.v1", _LOGISTIC, _SOFTMAX + _AS_GIVEN, fixed={"extensions": 0})
LINEAR_V2 = ReadoutKind("linear.v2", _LOGISTIC, _SOFTMAX)
RIDGE_V1 = ReadoutKind("ridge.v1", _RIDGE, _SQUARES + _AS_GIVEN, fixed={"extensions": 0})
RIDGE_V2 = ReadoutKind("ridge.v2", _RIDGE, _SQUARES)
