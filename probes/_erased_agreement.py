"""Agreement without the number of the subject: can a model still choose the verb once its states do not show it?

The number of the subject is erased from the states of one layer, at single places, at the subject and the mask, or at
all words, and the model chooses between the two forms of the verb (amnesic probing, Elazar et al. 2021, of the very
property that decides, as Lasri et al. 2022 do for number). Where nothing of it is left, half of the choices are right.
Erasures are fitted to other sentences, place by place, since other words carry the number of the subject too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bertology.corpora import Sentences
from bertology.measures import share_metric
from bertology.probing import CausalItems, CausalProbe, GeometryCounts

from ._patching_sums import cluster_sums, pair_reason

if TYPE_CHECKING:
    from bertology.encoders import Encoder
    from bertology.geometry import LayerSums


@dataclass(frozen=True)
class ErasedAgreement(CausalProbe):
    """Does a model use the number of the subject, and where?"""

    most_pairs: int = 300
    """So many pairs of texts at most, drawn at random."""
    task = "erase_and_predict:agreement"
    version = 1
    question = "Can a model choose the verb once the number of the subject is erased from a layer?"
    reference = "Elazar et al. 2021; Lasri et al. 2022"
    reads = ()
    metrics = (
        share_metric("accuracy_erased", "share of right choices, the subject's number erased", higher_is_better=False),
        share_metric("accuracy_random", "the same without as many random directions"),
        share_metric("accuracy_plain", "the same with nothing erased"),
    )

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Pairs of texts that differ in the number of the subject."""
        from bertology.causal import agreement_pairs

        return CausalItems(tuple(agreement_pairs(source, columns=columns)))

    def counts(self, sentences: Mapping[str, Sentences], items: CausalItems | None) -> GeometryCounts:
        """Pairs; which of them the model cannot read is seen when it reads them."""
        assert items is not None
        return GeometryCounts(len(items.some(self.most_pairs)))

    def measure(
        self,
        encoder: Encoder,
        sentences: Mapping[str, Sentences],
        items: CausalItems | None,
        *,
        layers: Sequence[int],
        on_long: str,
    ) -> Iterator[LayerSums | GeometryCounts]:
        """Of each layer, by frame; groups are the places that the number is erased from."""
        from bertology.causal import choose_erased

        assert items is not None
        pairs = items.some(self.most_pairs).items
        found = choose_erased(encoder, pairs, layers=layers)
        n_pairs = len(found.clusters)
        yield GeometryCounts(n_pairs, skipped=Counter(pair_reason(reason) for _, reason in found.excluded))
        for name, right in found.right.items():
            for number, place in enumerate(found.places):
                has_place = np.isfinite(right[:, number])
                parts = np.where(has_place, right[:, number], 0.0), 2.0 * has_place
                for group in ("", place) if number == len(found.places) - 1 else (place,):
                    yield cluster_sums(f"accuracy_{name}", found.layers, *parts, found.clusters, group)
        plain = np.broadcast_to(found.plain, (len(found.layers), n_pairs)).copy()
        yield cluster_sums("accuracy_plain", found.layers, plain, np.full_like(plain, 2.0), found.clusters, "")
