"""Linear readouts of single vectors: of labels, logistic regression and least squares; of numbers, ridge regression."""

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
RIDGE_REGRESSION_V1 = ReadoutKind(
    "ridge_regression.v1",
    "bertology.readouts.linear._regression:RidgeRegression",
    "least squares on numbers, its L2 penalty chosen on dev",
    reads="numbers",
)
