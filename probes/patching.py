"""Patching: which states carry what decides between two words at a mask, layer by layer and place by place?

Two texts differ in one place, such as *the keys to the cabinet [MASK]* and *the key to the cabinet [MASK]*. The pass
over one goes on with states of the other at a single place (interchange intervention: Vig et al. 2020; Geiger et al.
2021).
The effect is the change of the difference of the two logits ÷ the change that the whole text makes: 0 where nothing
changes, 1 where all does. The main number is that of the subject; groups are places.

Three more sources of states tell what the effect is an effect of:

- an unrelated text whose subject has the other value (``unrelated_effect``), with the share of texts in which the word
  of that value is then chosen (``interchange_accuracy``; the high-level model is: the subject decides, and it alone);
- an unrelated text whose subject has the same value (``same_value_effect``): the null, which should be 0;
- the text itself, moved by the difference of the mean states of both values in other texts (``moved_effect``,
  ``moved_accuracy``): a counterfactual as simple as can be.

``patching:agreement`` asks about the number of the subject, in all constructions or in one
(``patching:agreement:prepositional``), ``patching:facts`` about subjects of facts, of which those count that the model
knows in both texts. They read the source that ``agreement`` and ``lama`` read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from bertology.corpora import Sentences
from bertology.errors import NameNotFoundError, quoted
from bertology.measures import Metric, sum_metric
from bertology.probing import CausalItems, CausalProbe, GeometryCounts, ProbeFamily

from ._patching_sums import effect_sums, pair_reason, share_sums

if TYPE_CHECKING:
    from bertology.causal import PatchingMap
    from bertology.encoders import Encoder
    from bertology.geometry import LayerSums

_QUESTION = "Which states carry what decides between two words at a mask?"
_REFERENCE = "Vig et al. 2020; Geiger et al. 2021"
_SOURCES = {"pair": "", "unrelated": "unrelated_", "same_value": "same_value_", "mean_difference": "moved_"}
_CAUSE, _HEADS, _ALL = "subject", "head", "all"


def _metrics() -> Iterator[Metric]:
    yield sum_metric("effect", "share of what the whole text changes that states of the subject carry")
    yield sum_metric("unrelated_effect", "the same, with states of an unrelated text of the other value")
    yield sum_metric("same_value_effect", "the same, with states of an unrelated text of the same value")
    yield sum_metric("moved_effect", "the same, with states moved by the difference of means")
    yield sum_metric("accuracy", "share of texts in which the word is chosen that the subject's new state calls for")
    yield sum_metric("interchange_accuracy", "the same, with states of unrelated texts of either value")
    yield sum_metric("moved_accuracy", "the same, with states moved by the difference of means")


@dataclass(frozen=True)
class Patching(CausalProbe):
    """Which states carry what decides?"""

    of: Literal["agreement", "facts"] = "agreement"
    """What the pairs of texts are made of."""
    structure: str = ""
    """Of agreement the construction; all when left out."""
    site: str = "hidden_state"
    """What is exchanged: ``hidden_state``, ``attention_output``, ``feed_forward_output``, ``values``; or ``head``, by
    which groups are heads, each at all places, and the main number is that of all heads at once."""
    direction: Literal["denoise", "noise"] = "denoise"
    """Into which text of a pair states are put: into the other one, or into the first."""
    most_pairs: int = 300
    """So many pairs at most, drawn at random."""
    version = 1
    question = _QUESTION
    reference = _REFERENCE
    reads = ()
    metrics = tuple(_metrics())

    @property
    def task(self) -> str:
        """``patching:agreement``, with a construction or without, or ``patching:facts``."""
        structure = self.structure.replace(" ", "_")
        return f"patching:{self.of}" + (f":{structure}" if structure else "")

    def items(self, source: str) -> CausalItems:
        """Pairs of texts."""
        from bertology.causal import agreement_pairs, fact_pairs

        if self.of == "facts":
            return CausalItems(tuple(fact_pairs(source)))
        return CausalItems(tuple(agreement_pairs(source, structure=self.structure or None)))

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
        """Of each layer, by frame; of what blocks compute from layer 1 on."""
        from bertology.causal import patch

        assert items is not None
        pairs = items.some(self.most_pairs).items
        # Of facts a value is an object, which few share; what blocks compute is not moved.
        has_values = self.of == "agreement" and self.site == "hidden_state"
        maps: dict[str, PatchingMap] = {}
        for source, prefix in (_SOURCES if has_values else {"pair": ""}).items():
            maps[source] = found = patch(
                encoder,
                pairs,
                site=cast("Literal['hidden_state']", self.site),
                layers=[layer for layer in layers if layer or self.site == "hidden_state"],
                direction=self.direction,
                by_word=False,
                source=cast("Literal['pair']", source),
            )
            known = found.is_known if self.of == "facts" else np.ones(len(found.whole), dtype=bool)
            if source == "pair":
                skipped = Counter(pair_reason(reason) for _, reason in found.excluded)
                skipped["the model does not know both facts"] = int((~known).sum())
                yield GeometryCounts(int(known.sum()), skipped=+skipped)
            whole = _ALL if self.site == _HEADS else _CAUSE
            yield from effect_sums(f"{prefix}effect", found, whole, known)
            if source in ("pair", "mean_difference"):
                yield share_sums(f"{prefix}accuracy", [found], whole, known)
        if has_values:
            yield share_sums("interchange_accuracy", [maps["unrelated"], maps["same_value"]], _CAUSE)


def _make(argument: str) -> Patching:
    of, _, structure = argument.partition(":")
    if of == "facts" and not structure:
        return Patching(of="facts")
    if of == "agreement":
        return Patching(structure=structure.replace("_", " "))
    raise NameNotFoundError(
        f"task patching:{argument}: {quoted(argument)} is not asked about: write patching:agreement, a construction "
        "after it, or patching:facts"
    )


PROBE = ProbeFamily(
    argument="what pairs are made of",
    instances=("agreement", "facts"),
    question=_QUESTION,
    reference=_REFERENCE,
    make=_make,
)
