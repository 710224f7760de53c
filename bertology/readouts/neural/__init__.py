"""Neural readouts of word vectors, trained by gradient descent: perceptrons and bilinear maps."""

from bertology.readouts._registry import ReadoutKind

_PERCEPTRONS = "bertology.readouts.neural._perceptrons"

MLP_V1 = ReadoutKind("mlp.v1", f"{_PERCEPTRONS}:MlpReadout", "perceptron with one hidden layer (Hewitt & Liang 2019)")
LOWRANK_V1 = ReadoutKind(
    "lowrank.v1", f"{_PERCEPTRONS}:LowRankReadout", "softmax over a matrix of low rank (Hewitt & Liang 2019)"
)
