"""Comparisons of the models themselves: both are open while something is measured."""

from __future__ import annotations

from bertology.corpora import Sentences
from bertology.families.cells import Stopwatch
from bertology.families.comparison._cells import pairs_by_depth, reference_of, write_sums
from bertology.families.request import ReadoutConfig
from bertology.families.tasks import FitCells, Job
from bertology.probing import EncoderComparison, GeometryCounts, Probe


def configured_encoders(probe: Probe, config: ReadoutConfig) -> EncoderComparison:
    """The question with the settings of a configuration."""
    chosen = probe.with_settings(config.settings)
    assert isinstance(chosen, EncoderComparison)
    return chosen


def measure_encoders(cells: FitCells, job: Job) -> None:
    """Open both models, measure, and write the cells."""
    watch, probe, other = Stopwatch(), configured_encoders(cells.probe, cells.config), reference_of(job)
    texts: dict[str, Sentences] = {name: job.pair.splits.by_name[name] for name in probe.reads}
    pairs = pairs_by_depth(cells.layers_read, job.pair, other.pair)
    model, reference = job.get_encoder(), other.get_encoder()
    on_long = job.pair.request.on_long
    found = list(probe.measure(model, reference, texts, layers=pairs, on_long=on_long, progress=job.progress))
    n_sentences = len(texts["test"]) if "test" in texts else 0
    n_words = texts["test"].n_words if "test" in texts else 0
    write_sums(
        cells,
        job,
        found,
        pairs=pairs,
        counts=GeometryCounts(n_words),
        n_clusters=n_sentences,
        skipped={},
        watch=watch,
        device=job.device,
    )
