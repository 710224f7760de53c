"""A task family of another package: one file, an entry point for the family and one for a probe of it.

It asks how long the vectors of words are, which no readout of ours is needed for.
"""

from __future__ import annotations

from pathlib import Path

FILE = '''
"""How long are the vectors of words, in every layer?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bertology.families.cells import write_cell
from bertology.families.contract import Family
from bertology.families.cells import Stopwatch
from bertology.families.rows import cell_rows, corpus_columns, fit_columns
from bertology.families.scoring import Column, records_of
from bertology.families.tasks import CellGrid, Cost, Tables
from bertology.measures import bootstrap_ratio
from bertology.probing import Probe
from bertology.results import Predictions, read_scores


@dataclass(frozen=True)
class Norm:
    name: str = "mean_norm"
    higher_is_better: bool = True


@dataclass(frozen=True)
class NormProbe(Probe):
    task = "toy_norms"
    version = 1
    question = "How long are the vectors of words?"
    reference = "nobody"
    metrics = ()
    power: float = 1.0


class Norms(Family):
    def signals(self, probe, configs):
        return ("words",)

    def answers(self, probe):
        return isinstance(probe, NormProbe)

    def splits_read(self, probe):
        return ("train", "dev", "test")

    def items(self, probe, source, *, most, columns):
        return None

    def configs(self, probe, asked, shape):
        for config in asked:
            probe.with_settings(config.settings)
        return tuple(replace(config, readout="norms.v1") for config in asked)

    def fitted_together(self, probe, configs):
        return tuple((config,) for config in configs)

    def check_settings(self, probe, configs):
        pass

    def check(self, pair, probe, configs):
        pass

    most_draws = 1

    def asks_random_weights(self, probe):
        return True

    def knows_chance(self, probe):
        return False

    def task_identity(self, pair, probe):
        return {"test_fingerprint": pair.splits.test.fingerprint}

    def grid(self, pair, probe, config, init):
        layers = pair.layers_of(config)
        return CellGrid(("none",), 1, layers, layers, {"pooling": pair.request.pooling})

    def fewest_columns(self, probe, config, *, layers, seeds):
        return layers

    def baselines(self, probe):
        return {}

    def controls(self, probe):
        return {}

    def baseline_identity(self, config):
        return {}

    def unreadable(self, pair, probe):
        return {}, {}

    def pass_key(self, group):
        return None

    def compute(self, groups, job):
        for group in groups:
            try:
                for cells in group.members:
                    self._measure(cells, job)
            except Exception as error:
                yield group, error
            else:
                yield group, None

    def _measure(self, cells, job):
        from bertology.activations import WordVectors

        watch, sentences = Stopwatch(), job.pair.splits.test
        power = cells.probe.with_settings(cells.config.settings).power
        vectors = WordVectors(job.entries["test"], np.arange(sentences.n_words), layers=cells.layers_read, memory=0)
        norms = np.empty((vectors.n_layers, vectors.n_items))
        for items, chunk in vectors.chunks():
            norms[:, items.numpy()] = chunk.double().norm(dim=-1).numpy()
        # An item is a sentence: its label the number of its words, its score their norms together.
        names = [str(number) for number in range(len(sentences))]
        lengths, codes = np.unique(np.diff(sentences.starts), return_inverse=True)
        provenance = watch.provenance("torch", "numpy", device=job.device, n_cells=len(cells.cells))
        for place, layer in enumerate(cells.layers):
            score = np.bincount(sentences.sentence_of_word, norms[place] ** power)
            facts = dict.fromkeys(("n_train", "n_classes", "n_skipped", "n_unseen_label"), 0)
            facts |= {"n_items": sentences.n_words, "n_clusters": len(names), "skip_reasons": {}}
            write_cell(
                job.run,
                cells.cells["none", 0, layer],
                Predictions(names, np.arange(len(names)), names, codes, codes, score, tuple(map(str, lengths))),
                facts={**facts, "params": {"settings": cells.config.changes} if cells.config.changes else {}},
                provenance=provenance,
            )

    def compute_baselines(self, baselines, job):
        raise NotImplementedError

    def task_columns(self, pair, probe):
        return corpus_columns(pair)

    def fit_columns(self, pair, cells):
        return {"pooling": pair.request.pooling}

    def main_metric(self, cells, control):
        return "mean_norm"

    def rows(self, draws, scoring):
        cells = draws[0]
        layers, found = cells.layers, tuple(cells.cells["none", 0, layer] for layer in cells.layers)
        sums, counts = read_scores(scoring.run, [cell.id for cell in found])
        ratio = bootstrap_ratio(
            sums, np.asarray(counts, float), metric="mean_norm", n_resamples=scoring.n_resamples, seed=scoring.seed
        )
        column = Column(found, layers, records_of(scoring.run, found), {"mean_norm": ratio})
        shared = fit_columns(self, cells, scoring)
        rows = []
        for place, layer in enumerate(layers):
            about = {**shared, "control": "none", "seed": 0, "layer": layer}
            rows += cell_rows(column, place, about, metrics=(Norm(),))
        return Tables.of(rows)

    def baseline_rows(self, baselines, scoring):
        return Tables(())

    def cost(self, pair, groups):
        return Cost(0.0, items=pair.splits.test.n_words)


FAMILY = Norms()
PROBE = NormProbe()
'''


def install(folder: Path) -> Path:
    """Install the package into a folder, as pip would: its file, and metadata with its entry points."""
    (folder / "their_toy_family.py").write_text(FILE)
    metadata = folder / "their_toy_family-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-toy-family\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        '[bertology.families]\n"norms.v1" = their_toy_family:FAMILY\n\n'
        "[bertology.probes]\ntoy_norms.v1 = their_toy_family:PROBE\n".replace('"', "")
    )
    return folder
