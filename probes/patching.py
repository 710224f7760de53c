"""Patching: which states carry what decides between two words at a mask, layer by layer and place by place?

Two texts differ in one place, such as *the keys to the cabinet [MASK]* and *the key to the cabinet [MASK]*. The pass
over one goes on with states of the other at a single place (interchange intervention: Vig et al. 2020; Geiger et al.
2021).
The effect is the change of the difference of the two logits ÷ the change that the whole text makes: 0 where nothing
changes, 1 where all does. The main number is that of the words that differ; groups are places.

- ``patching:agreement``: the number of the subject, in all constructions or in one
  (``patching:agreement:prepositional``).
- ``patching:facts``: the subject of a fact. The value of what decides is the relation with its object, and pairs count
  in which the model knows both facts.
- ``patching:minimal_pairs``: sentences such as *this store* and *this stores*, one grammatical, of all phenomena or of
  one (``patching:minimal_pairs:determiner_noun_agreement_1``). They have no mask. Each word that both share is masked
  in turn, and the one is chosen whose log-probability falls most from the grammatical to the ungrammatical sentence
  when nothing is patched (*this*); its log-probability takes the place of the difference of logits. ``fall_nats`` is
  how far it falls: of random weights it is next to nothing, and effects are shares of that. ``rise_nats`` is by how
  much another shared word rises, of the one that rises most: where it is as large, the model does not prefer what is
  grammatical. Pairs count that differ in one place and in which some word falls. The value of what decides is the
  phenomenon with the word and whether the sentence is grammatical.

Three more sources of states tell what the effect is an effect of:

- an unrelated text of the other value (``unrelated_effect``), with the share of texts in which the word of that value
  is then chosen (``interchange_accuracy``; the high-level model is: these words decide, and they alone);
- an unrelated text of the same value (``same_value_effect``): the null, which should be 0. States of any unrelated text
  would be none: where the subject of a fact comes from a fact of another relation, neither object is called for, which
  takes away the one without bringing the other, and is about half of the effect;
- of agreement, the text itself, moved by the difference of the mean states of both values in other texts
  (``moved_effect``, ``moved_accuracy``): a counterfactual as simple as can be.

Sources are those of ``agreement``, ``lama`` and ``minimal_pairs``. An unrelated text has its words in the same pieces,
and others where the pair differs (none has, where a licensor is always *not*);
pairs without one do not count in the number, and where all are without one there is no number.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bertology import causal
from bertology.causal import CausalItems, CausalProbe
from bertology.causal.items import SensitivePairs, fact_pairs
from bertology.causal.probes import cluster_sums, effect_sums, pair_reason, share_sums
from bertology.cloze import ClozeItem
from bertology.corpora.prompts import split_language
from bertology.errors import ClozeError, CorpusError, listed
from bertology.measures import share_metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, LeftOut, ProbeFamily, RunningModel

from .minimal_pairs import PAIRS as MINIMAL_PAIRS

_FURTHER = {"unrelated": "unrelated_", "same_value": "same_value_", "mean_difference": "moved_"}
_HEADS, _ALL = "head", "all"


@dataclass(frozen=True)
class Patching(CausalProbe):
    """Which states carry what decides about a word at a mask?"""

    of: Literal["agreement", "facts", "minimal_pairs"] = "agreement"
    """Source of the pairs of texts."""
    structure: str = ""
    """The construction, or the phenomenon of minimal pairs; all when left out."""
    site: str = "hidden_state"
    """Exchanged state: ``hidden_state``, ``attention_output``, ``feed_forward_output``, ``values``; or ``head``, by
    which groups are heads, each at all places, and the main number is that of all heads at once."""
    direction: Literal["denoise", "noise"] = "denoise"
    """Into which text of a pair states are put: into the other one, or into the first."""
    most_pairs: int = 300
    """Largest number of pairs, drawn at random."""
    about = "Pairs; which of them the model cannot read is seen when it reads them."
    reference = "Vig et al. 2020; Geiger et al. 2021"
    metrics = (
        sum_metric("effect", "share of the other text's effect that its states of the differing words carry"),
        sum_metric("unrelated_effect", "effect of states from an unrelated text of the other value, such as plural"),
        sum_metric("same_value_effect", "effect of states from an unrelated text of the same value: 0 expected"),
        sum_metric("moved_effect", "effect of moving states by the difference of the means of both values"),
        share_metric("accuracy", "share of texts whose choice is the word that fits the patched states"),
        share_metric("interchange_accuracy", "share of choices that fit states from unrelated texts of either value"),
        share_metric("moved_accuracy", "share of choices that fit states moved by the difference of means"),
        sum_metric("fall_nats", "fall of the masked word's log-probability from correct to wrong sentence"),
        sum_metric("rise_nats", "largest rise of another shared word's log-probability", higher_is_better=False),
    )

    @property
    def task(self) -> str:
        """``patching:agreement`` and ``patching:minimal_pairs``, with a construction or without; ``patching:facts``."""
        structure = self.structure.replace(" ", "_")
        return f"patching:{self.of}" + (f":{structure}" if structure else "")

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Pairs of texts; of minimal pairs the two sentences."""
        if self.of == "facts":
            return CausalItems(tuple(fact_pairs(source, columns=columns)))
        if self.of == "agreement":
            return CausalItems(tuple(causal.agreement_pairs(source, columns=columns, structure=self.structure or None)))
        found = MINIMAL_PAIRS.read_items(source, columns=columns)
        every: tuple[ClozeItem | LeftOut, ...] = (*found.items, *found.left_out)
        some = tuple(one for one in every if not self.structure or _spaced(one.group) == self.structure)
        if not some:
            groups = listed(sorted({one.group.replace(" ", "_") for one in every}))
            raise CorpusError(f"no minimal pair of {self.structure.replace(' ', '_')}: the source has {groups}")
        return CausalItems(some, split_language(columns)[1])

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Effects of each layer, by frame; of the parts of a block from layer 1 on."""
        encoder, items = model.encoder, model.items
        some: tuple[Any, ...] = items.some(self.most_pairs).items
        skipped: Counter[str] = Counter()
        sensitive = _sensitive(model, some, skipped) if self.of == "minimal_pairs" else None
        pairs: Sequence[causal.PatchPair] = some if sensitive is None else sensitive.pairs
        chosen = [layer for layer in model.layers if layer or self.site == "hidden_state"]
        if self.of == "facts":
            pairs, reasons = causal.patching.known_pairs(encoder, items.items, most=self.most_pairs)
            skipped.update(map(pair_reason, reasons))
            if not pairs:  # as of random weights
                yield GeometryCounts(0, skipped=skipped)
                yield cluster_sums("effect", chosen, np.zeros((len(chosen), 1)), np.zeros((1, 1)), [""])
                return
        how: dict[str, Any] = {"site": self.site, "layers": chosen, "direction": self.direction, "by_word": False}
        found = causal.patch(encoder, pairs, **how)
        skipped += Counter(pair_reason(reason) for _, reason in found.excluded)
        yield GeometryCounts(len(found.whole), skipped=+skipped)
        cause = "subject" if sensitive is None else "changed"
        whole = _ALL if self.site == _HEADS else cause
        yield from effect_sums("effect", found, whole)
        left_out = {number for number, _ in found.excluded}
        kept = [number for number in range(len(pairs)) if number not in left_out]
        if sensitive is None:
            yield share_sums("accuracy", [found], whole)
        else:
            for metric, of_pair in (("fall_nats", sensitive.falls), ("rise_nats", sensitive.rises)):
                sums = np.array([[of_pair[number] for number in kept]] * len(chosen))
                yield cluster_sums(metric, found.layers, sums, None, found.clusters)
        if self.site != "hidden_state":
            return
        # States are taken from other texts than the second one of each pair as well.
        read, maps = [pairs[number] for number in kept], dict[str, causal.PatchingMap]()
        for source, prefix in _FURTHER.items():
            if self.of != "agreement" and source == "mean_difference":
                continue
            # Of few pairs, or of many objects and words, it may be that none has another text of its value.
            with suppress(causal.patching.NoOtherTextError):
                maps[source] = causal.patch(encoder, read, **{**how, "source": source})
                yield from effect_sums(f"{prefix}effect", maps[source], cause)
        if moved := maps.pop("mean_difference", None):
            yield share_sums("moved_accuracy", [moved], cause)
        if len(maps) == 2 and self.of != "minimal_pairs":  # of texts of either value
            yield share_sums("interchange_accuracy", list(maps.values()), cause)


def _sensitive(model: RunningModel, items: Sequence[Any], skipped: Counter[str]) -> SensitivePairs:
    """Minimal pairs with the differing word masked; unusable pairs are counted."""
    asked = [one for one in items if isinstance(one, ClozeItem)]
    skipped.update(one.reason for one in items if isinstance(one, LeftOut))
    found = causal.sensitive_pairs(
        model.encoder,
        [(one.text, one.other) for one in asked],
        clusters=[one.cluster for one in asked],
        groups=[one.group for one in asked],
        language=model.items.language,
    )
    skipped.update(reason for _, reason in found.excluded)
    if not found.pairs:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in skipped.most_common())
        raise ClozeError(f"none of {len(items)} minimal pairs can be patched: {reasons}")
    return found


def _spaced(group: str) -> str:
    return group.replace("_", " ").lower()


def _of_structure(argument: str) -> Patching | None:
    of, _, structure = argument.partition(":")
    if of == "agreement":
        return Patching(structure=structure.replace("_", " "))
    return Patching(of="minimal_pairs", structure=_spaced(structure)) if of == "minimal_pairs" else None


PROBE = ProbeFamily.among(
    [Patching(), Patching(of="facts"), Patching(of="minimal_pairs")],
    argument="source of pairs (but for facts a construction may follow)",
    further=_of_structure,
)
