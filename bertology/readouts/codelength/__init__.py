"""Codelength of labels given vectors (Voita & Titov 2020): the online and the variational code."""

from bertology.readouts._registry import ReadoutKind

BAYES_V1 = ReadoutKind(
    "bayes.v1",
    "bertology.readouts._bayes:BayesReadout",
    "linear readout or perceptron under Bayesian compression (Louizos et al. 2017)",
    has_posterior=True,
)
