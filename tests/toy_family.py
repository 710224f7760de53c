"""A task family of another package: one file, an entry point for the family and one for a probe of it.

It asks how long the vectors of words are, which no readout of ours is needed for.
"""

from pathlib import Path

FILE = '''
"""How long are the vectors of words, in every layer?"""

from dataclasses import dataclass

import numpy as np

from bertology.families.sums import SumsFamily
from bertology.measures import sum_metric
from bertology.probing import Probe


@dataclass(frozen=True)
class NormProbe(Probe):
    task = "toy_norms"
    version = 1
    question = "How long are the vectors of words?"
    reference = "nobody"
    metrics = (sum_metric("mean_norm", "Mean norm of vectors over words"),)
    family = "norms"
    reads = ("test",)
    most_draws = 1
    power: float = 1.0


class Norms(SumsFamily):
    def signals(self, probe, configs):
        return ("words",)

    def measure(self, cells, job):
        sentences, vectors = job.pair.splits.test, job.vectors("test", cells.layers_read)
        of_word = sentences.sentence_of_word[vectors.words]
        power = self.configured(cells.probe, cells.config).power

        def per_sentence(values):
            return np.bincount(of_word, values, minlength=len(sentences))

        norms = [np.linalg.norm(vectors.of(layer).astype(float), axis=1) for layer in cells.layers_read]
        total = np.stack([per_sentence(one**power) for one in norms])
        return {"mean_norm": (total, per_sentence(np.ones(len(of_word))))}


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
        "[bertology.families]\nnorms.v1 = their_toy_family:FAMILY\n\n"
        "[bertology.probes]\ntoy_norms.v1 = their_toy_family:PROBE\n"
    )
    return folder
