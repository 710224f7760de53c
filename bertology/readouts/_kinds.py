"""What each readout reads, known without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bertology._names import name_not_found


@dataclass(frozen=True)
class ReadoutKind:
    """What a readout takes and what comes out of it."""

    name: str
    """Registered name, with its version."""
    reads: Literal["words", "spans", "trees", "prompts", "maps", "gates"] = "words"
    """Whether it takes one vector an item, the vectors of all words in an item's spans, those of whole sentences whose
    trees it is to find; texts, which the model's own head answers; attention maps; or what closing gates does."""
    columns: Literal["layer", "below", "all"] = "layer"
    """What a score is of: a layer alone, a layer and all below it, or all layers together and so none of them."""
    has_posterior: bool = False
    """Whether it knows how sure it is of its weights, which a variational code needs."""


_KINDS: Mapping[str, ReadoutKind] = {
    kind.name: kind
    for kind in (
        ReadoutKind("linear.v1"),
        ReadoutKind("linear.v2"),
        ReadoutKind("lowrank.v1"),
        ReadoutKind("mlp.v1"),
        ReadoutKind("ridge.v1"),
        ReadoutKind("ridge.v2"),
        ReadoutKind("bayes.v1", has_posterior=True),
        *(ReadoutKind(f"edge.v{version}", reads="spans") for version in (1, 2)),
        *(ReadoutKind(f"edge_cumulative.v{version}", reads="spans", columns="below") for version in (1, 2)),
        *(ReadoutKind(f"edge_mix.v{version}", reads="spans", columns="all") for version in (1, 2)),
        *(ReadoutKind(f"edge_cat.v{version}", reads="spans", columns="all") for version in (1, 2)),
        ReadoutKind("structural.v1", reads="trees"),
        ReadoutKind("masked_lm.v1", reads="prompts"),
        ReadoutKind("next_sentence.v1", reads="prompts"),
        ReadoutKind("attention.v1", reads="maps"),
        ReadoutKind("gates.v1", reads="gates"),
    )
}


def known_readouts() -> tuple[str, ...]:
    """The registered names, each with its version."""
    return tuple(sorted(_KINDS))


def readout_kind(name: str) -> ReadoutKind:
    """What the readout of that name is.

    Args:
        name: ``linear.v2``, or ``linear`` for its newest version; ``-`` and ``_`` are the same.

    Raises:
        NameNotFoundError: no readout has that name.
    """
    plain = name.strip().lower().replace("-", "_")
    versions = [known for known in _KINDS if known.rpartition(".v")[0] == plain]
    full_name = max(versions, key=lambda known: int(known.rpartition(".v")[2])) if versions else plain
    if full_name not in _KINDS:
        raise name_not_found("readout", name, _KINDS)
    return _KINDS[full_name]
