"""Neural readouts of word vectors: a perceptron with one hidden layer."""

from bertology.readouts._registry import ReadoutKind

MLP_V1 = ReadoutKind(
    "mlp.v1", "bertology.readouts._mlp:MlpReadout", "perceptron with one hidden layer (Hewitt & Liang 2019)"
)
