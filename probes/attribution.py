"""Attribution: does the word that a method calls important decide the prediction, and is attention an explanation?

The choice is between two words at a mask, and the cause is known: the subject, with which the verb agrees
(``attribution:agreement``), or which a fact is about (``attribution:facts``). Each method gives a score to every word:
integrated gradients, leave-one-out and numbers at random at layer 0; gradient × hidden state in all layers; attention,
‖αf(x)‖ (Kobayashi et al. 2020, mean of the heads), rollout and value zeroing from layer 1 on.
:func:`bertology.causal.attribute` says how each is computed. Groups are methods; numbers without a group are those of
gradient × hidden state.

After Jain & Wallace (2019), *Attention is not Explanation*, whose rank correlation with leave-one-out is
``rank_correlation``, and Wiegreffe & Pinter (2019), *Attention is not not Explanation*, whose objection, that measures
of importance disagree among themselves, is why the other methods stand beside. ``comprehensiveness`` and
``sufficiency`` are those of DeYoung et al. (2020), with words masked where they delete them: a masked text is nothing
new to a masked language model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertology import causal
from bertology.causal import CausalItems, CausalProbe
from bertology.causal.items import fact_pairs
from bertology.causal.probes import cluster_sums, title
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, ProbeFamily, RunningModel

_SHOWN, _BY_DISTANCE = "gradient_times_input", ("integrated_gradients", 0)
_STEPS = 50
_DISTANCES = {"next to the mask": (0, 0), "1 to 3 words away": (1, 3), "further away": (4, 10**6)}


@dataclass(frozen=True)
class Attribution(CausalProbe):
    """Does the word that a method calls important decide the prediction?"""

    of: Literal["agreement", "facts"] = "agreement"
    """Kind of texts."""
    baseline: Literal["mask", "pad"] = "mask"
    """Baseline of integrated gradients: the input that words are replaced by."""
    most_texts: int = 200
    """Largest number of texts, drawn at random."""
    task_form = "attribution:{of}"
    about = "Texts; which of them the model can read is seen when it reads them."
    reference = "Jain & Wallace 2019; Wiegreffe & Pinter 2019; DeYoung et al. 2020"
    metrics = (
        share_metric("top_is_cause", "share of texts in which the word with the highest score is the subject"),
        sum_metric("rank_correlation", "Kendall's τ of word scores with those of leave-one-out, mean over texts"),
        sum_metric("comprehensiveness", "fall of the correct word's probability when the 1 to 3 top words are masked"),
        sum_metric("sufficiency", "fall of probability when only the 1 to 3 top words stay", higher_is_better=False),
        share_metric("cause_by_distance", "share of subjects with top integrated gradients, by distance to the mask"),
        sum_metric("completeness_error", "share of the effect that integrated gradients miss", higher_is_better=False),
    )

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Pairs of texts; words of the first are scored."""
        pairs = causal.agreement_pairs if self.of == "agreement" else fact_pairs
        return CausalItems(tuple(pairs(source, columns=columns)))

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Scores by method and layer, over frames."""
        pairs = model.items.some(self.most_texts).items
        found = causal.attribute(model.encoder, pairs, layers=model.layers, baseline=self.baseline, steps=_STEPS)
        yield GeometryCounts(len(found.found), skipped={"does not fit the model": len(found.excluded)})
        asked = [pairs[one.number] for one in found.found]
        causes = [[place for place, name in enumerate(pair.places) if name == "subject"] for pair in asked]
        clusters = [pair.cluster or str(one.number) for pair, one in zip(asked, found.found, strict=True)]
        faithful = found.faithfulness()
        for key in (key for key in found.methods if key[1] in model.layers):
            method, layer = key
            firsts = [one.ranked(*key)[0] for one in found.found]
            hit = np.array([float(first in cause) for first, cause in zip(firsts, causes, strict=True)])
            names = ("rank_correlation", "comprehensiveness", "sufficiency")
            values = {"top_is_cause": hit, **{name: getattr(faithful[key], name) for name in names}}
            for metric, of_texts in values.items():
                for group in ("", title(method)) if method == _SHOWN else (title(method),):
                    yield cluster_sums(metric, (layer,), of_texts[None], None, clusters, group)
            if key == _BY_DISTANCE:
                places = [pair.places for pair in asked]
                away = np.array([max(abs(one.index("mask") - one.index("subject")) - 1, 0) for one in places])
                for group, (least, most) in {"": (0, 10**6), **_DISTANCES}.items():
                    chosen = (away >= least) & (away <= most)
                    if chosen.any():
                        of_group = np.where(chosen, hit, np.nan)[None]
                        yield cluster_sums("cause_by_distance", (0,), of_group, None, clusters, group)
                errors = np.array([[one.completeness_error for one in found.found]])
                yield cluster_sums("completeness_error", (0,), errors, None, clusters)


PROBE = ProbeFamily.among([Attribution(), Attribution(of="facts")], argument="kind of texts")
