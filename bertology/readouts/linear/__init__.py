"""Linear readouts of single vectors: of labels, logistic regression and least squares; of numbers, ridge regression."""

from bertology.readouts._registry import ReadoutKind

_HOME = "bertology.readouts.linear."

LINEAR_V1 = ReadoutKind(
    "linear.v1", f"{_HOME}_logistic:LinearReadout", "softmax regression, its L2 penalty chosen on dev"
)
RIDGE_V1 = ReadoutKind(
    "ridge.v1", f"{_HOME}_affine:RidgeReadout", "least squares on one-hot labels, its L2 penalty chosen on dev"
)
RIDGE_REGRESSION_V1 = ReadoutKind(
    "ridge_regression.v1",
    f"{_HOME}_regression:RidgeRegression",
    "least squares on numbers, its L2 penalty chosen on dev",
    reads="numbers",
)
