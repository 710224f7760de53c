"""Codelength of labels given vectors (Voita & Titov 2020): online code, variational code, and the readout for it."""

from bertology.readouts._registry import ReadoutKind

BAYES_V1 = ReadoutKind(
    "bayes.v1",
    "bertology.readouts.codelength._bayes:BayesReadout",
    "linear readout or perceptron under Bayesian compression (Louizos et al. 2017)",
    has_posterior=True,
)
