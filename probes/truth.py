"""Methods against known truth: which explanations name the cause of a decision, and leave alone what is not used?

Whether a method of explanation finds a cause can be tested where the cause is known. Four decisions of the pocket world
have one: the number of the subject (``truth:agreement``, the verb at a mask), the subject of a fact (``truth:facts``),
the tense of the verb (``truth:tense``, a classifier), and a shortcut, a word planted into 90 % of the texts of a label
(``truth:shortcut``, a classifier). In each text stands another property that is as visible, can be decoded, and decides
nothing: the number of a second noun, another person, a word *here* or *there*. ``truth:shortcut:2`` trains the
classifier with another seed.

CausalGym (Arora et al. 2024) and MIB (Mueller et al. 2025) compare methods so for decoders, by causes that are assumed;
decoys such as these words are after Adebayo et al. (2022), *Post hoc explanations may be ineffective for detecting
unknown spurious correlation*. :func:`bertology.causal.truth.method_scores` says how each importance is defined.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertology import causal, encoders, finetuning, pocket
from bertology.causal import CausalItems, CausalProbe
from bertology.causal.probes import cluster_sums
from bertology.errors import CorpusError
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, ProbeFamily, RunningModel

_TRAINED = ("tense", "shortcut")
_NOISE = 0.1
"""Share of the training texts of a shortcut with the other label."""


_N_TEXTS = 200
"""Number of texts that methods are put to, unless ``--max-items`` takes fewer."""


@dataclass(frozen=True)
class Truth(CausalProbe):
    """Which methods name the known cause of a decision, and leave alone what is not used?"""

    of: str = "agreement"
    """The decision: agreement, facts, tense or shortcut."""
    seed: int = 1
    """Seed of the classifier that is trained for tense and shortcut."""
    n_train: int = 1000
    """Number of texts that a classifier is trained on, once."""
    lr: float = 5e-4
    """Highest learning rate of the training."""
    about = "Texts; which of them the model can read is seen when it reads them."
    reference = "Adebayo et al. 2022; cf. Arora et al. 2024, Mueller et al. 2025"
    metrics = (
        sum_metric("unused_share", "importance of the unused property ÷ that of the cause", higher_is_better=False),
        sum_metric(
            "unused_share_strongest",
            "importance of the unused property ÷ that of the cause, in the layer where that of the cause is largest",
            higher_is_better=False,
        ),
        share_metric("cause_first", "share of texts in which the word with the largest absolute score is the cause"),
        share_metric("cause_first_strongest", "the same, in the layer where the importance of the cause is largest"),
        sum_metric("others_share", "mean importance of other words ÷ importance of the cause", higher_is_better=False),
        sum_metric(
            "others_share_strongest",
            "the same, in the layer where the importance of the cause is largest",
            higher_is_better=False,
        ),
        share_metric(
            "decision_accuracy",
            "share of readable texts decided rightly, with and without the cause exchanged",
        ),
    )

    @property
    def task(self) -> str:
        """Name with the decision, and the seed where it is not the first."""
        return f"truth:{self.of}" + f":{self.seed}" * (self.seed != 1)

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Texts of the pocket world with both properties exchanged."""
        if source != "pocket" or columns is not None:
            raise CorpusError(f"{source}: causes are known of the pocket world: leave the corpus out")
        return CausalItems(pocket.truth_items(self.of, _N_TEXTS))

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Scores of all methods, on the texts of which the model, or a classifier trained from it, decides rightly."""
        items: tuple[Any, ...] = model.items.items
        with tempfile.TemporaryDirectory() as folder:
            encoder = self._trained(model.encoder, folder) if self.of in _TRAINED else model.encoder
            right = causal.truth.decided_rightly(encoder, items)
            known = [item for item, yes in zip(items, right, strict=True) if yes]
            skipped = {"words of other numbers of pieces": right.count(None)}
            yield GeometryCounts(len(known), skipped=skipped | {"the model decides otherwise": right.count(False)})
            clusters = [item.cluster for item in items]
            values = np.array([[np.nan if one is None else float(one) for one in right]])  # left out where NaN
            yield cluster_sums("decision_accuracy", model.layers[:1], values, None, clusters)
            yield from causal.truth.method_scores(encoder, known, layers=model.layers)

    def _trained(self, encoder: "encoders.Encoder", folder: str) -> "encoders.Encoder":
        """The model with a head that has learned the labels."""
        chance = np.random.default_rng(self.seed)
        rows = []
        for item in pocket.truth_items(self.of, self.n_train, seed=self.seed):
            is_other = self.of == "shortcut" and chance.random() < _NOISE
            rows.append({"text": item.text, "label": item.bad if is_other else item.good})
        held = len(rows) // 10
        corpus = {"train": rows[held:], "dev": rows[:held]}
        settings: dict[str, Any] = {"lr": self.lr, "epochs": 2, "bias_correction": True}
        settings |= {"seeds": [self.seed], "progress": False, "device": encoder.device}
        tuned = finetuning.finetune(encoder, corpus, task="sentence_label:label", out=folder, **settings)
        return tuned.encoder(self.seed, device=encoder.device)


def _with_seed(name: str) -> Truth | None:
    of, _, seed = name.partition(":")
    return Truth(of, int(seed)) if of in _TRAINED and seed.isdecimal() else None


PROBE = ProbeFamily.among(
    [Truth(of) for of in ("agreement", "facts", *_TRAINED)],
    argument="decision with a known cause (after tense and shortcut a seed may follow, shortcut:2)",
    further=_with_seed,
)
