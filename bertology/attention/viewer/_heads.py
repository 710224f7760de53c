"""Which layers and heads a page is to hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bertology.errors import ModelError, NameNotFoundError, quoted

_HEAD = re.compile(r"L([0-9]{1,9})H([0-9]{1,9})", re.IGNORECASE)


def parse_heads(spec: str | Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Heads by name as (layer, head), both from 1.

    Args:
        spec: names such as ``L8H10``, in a sequence or with commas.

    Raises:
        NameNotFoundError: a name that is none of a head, or no name at all.
    """
    names = spec.split(",") if isinstance(spec, str) else list(spec)
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise NameNotFoundError("no heads: name them by layer and head, both from 1, such as L8H10,L3H2")
    found = []
    for name in names:
        match = _HEAD.fullmatch(name)
        if match is None:
            raise NameNotFoundError(f"head {quoted(name)}: write its layer and number, both from 1, such as L8H10")
        found.append((int(match[1]), int(match[2])))
    return tuple(sorted(set(found)))


def choose_heads(
    layers: Sequence[int] | None, heads: Sequence[tuple[int, int]] | None, *, n_layers: int, n_heads: int
) -> Mapping[int, tuple[int, ...]]:
    """The heads of each layer that is shown, in order.

    Args:
        layers: from 1; all of the model, or all that ``heads`` name, when left out.
        heads: (layer, head), both from 1; all of ``layers`` when left out.
        n_layers: how many the model has.
        n_heads: how many each of its layers has.

    Raises:
        ModelError: a layer or head that the model does not have, or a head that is in none of ``layers``.
    """
    for layer, head in heads or ():
        name = f"L{layer}H{head}"
        if not 1 <= layer <= n_layers:
            raise ModelError(f"head {name}: the model has {n_layers} layers, so heads are L1… to L{n_layers}…")
        if not 1 <= head <= n_heads:
            raise ModelError(f"head {name}: each layer has {n_heads} heads, so heads are 1…{n_heads}")
        if layers is not None and layer not in layers:
            raise ModelError(f"head {name}: layer {layer} is not among the layers asked for; add it or leave them out")
    if layers is None:
        layers = sorted({layer for layer, _ in heads}) if heads else range(1, n_layers + 1)
    for layer in layers:
        if not 1 <= layer <= n_layers:
            why = ": the embeddings have no attention" if layer == 0 else ""
            raise ModelError(f"layer {layer}{why}; the model has maps of layers 1…{n_layers}")
    if not layers:
        raise ModelError(f"no layers asked for: the model has maps of layers 1…{n_layers}")
    shown = {}
    for layer in sorted(set(layers)):
        own = range(1, n_heads + 1) if heads is None else sorted({head for of, head in heads if of == layer})
        if own:
            shown[layer] = tuple(own)
    return shown
