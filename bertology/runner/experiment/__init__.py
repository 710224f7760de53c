"""Experiment files: what may be written in them, and how they are read."""

from bertology.runner.experiment._load import load_experiment
from bertology.runner.experiment._settings import Experiment, experiment_schema

__all__ = ["Experiment", "experiment_schema", "load_experiment"]
