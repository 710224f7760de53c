"""One text asked about: states exchanged with another text, and the words that a choice rests on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertology._api import name_of
from bertology._files import explained_system_errors
from bertology._memory import explained_shortage
from bertology.errors import ClozeError
from bertology.families.request import parse_layers, parse_names

if TYPE_CHECKING:
    from bertology.causal import Attributions, PatchingMap
    from bertology.encoders import Encoder
    from bertology.encoders.interventions import Site


@explained_system_errors()
@explained_shortage("this patching")
def patch(
    text: str,
    other: str,
    *,
    candidates: str | Sequence[str],
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    layers: str | Sequence[int] = "all",
    site: Site = "hidden_state",
    direction: Literal["denoise", "noise"] = "denoise",
    language: str | None = None,
    split_at_spaces: bool = False,
    **loading: Any,
) -> PatchingMap:
    """Which states of a text decide between two words at its mask, layer by layer and word by word.

    >>> from bertology import patch
    >>> texts = "The guards near the dog [MASK] open.", "The guard near the dog [MASK] open."
    >>> print(patch(*texts, candidates="are,is"))  # doctest: +SKIP

    The pass over one text goes on with states of the other at one place (interchange intervention). For many pairs,
    with intervals, there is :func:`bertology.causal.patch`.

    Args:
        text: has one mask, ``[MASK]``, ``{mask}`` or ``<mask>``.
        other: as many words, some of which differ.
        candidates: the word that ``text`` calls for at the mask, and the one that ``other`` calls for.
        model: as of :func:`probe`, a masked language model.
        layers: ``all``, ``"0-6"``, ``"3,5,-1"`` or numbers; 0 is the embedding output.
        site: what is exchanged: ``hidden_state``, ``attention_output``, ``feed_forward_output``, ``values``, or
            ``head``, the output of each head at all places.
        direction: ``denoise`` puts states of ``text`` into the pass over ``other``, ``noise`` the other way round.
        language: of the text, by whose rules words are found (:func:`bertology.corpora.sentence_of_text`).
        split_at_spaces: words of the text are what white space parts.
        loading: ``device``, ``dtype``, ``revision``, ``trust_remote_code`` and ``max_pieces``.

    Returns:
        The effects: print as a table, show as a page in a notebook; have ``.to_pandas()``, ``.plot()``
        and ``.save(path)``.

    Raises:
        BertologyError: the texts cannot be aligned, or there is no such model, layer or site.
    """
    from bertology.causal import PatchPair
    from bertology.causal import patch as patch_pairs
    from bertology.encoders import load_encoder, resolve_model

    words = _two(candidates)
    encoder = load_encoder(resolve_model(name_of(model), revision=loading.pop("revision", None)), **loading)
    chosen = parse_layers(layers, encoder.n_layers)
    if site != "hidden_state" and layers == "all":
        chosen = chosen[1:]
    pair = PatchPair(text, other, *words, language=language, split_at_spaces=split_at_spaces)
    return patch_pairs(encoder, pair, site=site, layers=chosen, direction=direction)


@explained_system_errors()
@explained_shortage("this attribution")
def attribute(
    text: str,
    *,
    candidates: str | Sequence[str],
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    methods: str | Sequence[str] | None = None,
    layers: str | Sequence[int] | None = None,
    baseline: Literal["mask", "pad"] = "mask",
    language: str | None = None,
    split_at_spaces: bool = False,
    **loading: Any,
) -> Attributions:
    """Which words of a text does a choice between two words at its mask rest on, by several methods.

    >>> from bertology import attribute
    >>> print(attribute("The guards near the dog [MASK] open.", candidates="are,is"))  # doctest: +SKIP

    For many texts, with how faithful each method is, there is :func:`bertology.causal.attribute`, which says what the
    methods are.

    Args:
        text: has one mask, ``[MASK]``, ``{mask}`` or ``<mask>``.
        candidates: the word that is explained, and the one that it is compared with.
        model: as of :func:`probe`, a masked language model.
        methods: with commas or as names; all that the model's family allows when left out.
        layers: whose hidden states, attention and values are asked about; when left out the embeddings for gradients
            and the last block for attention and values.
        baseline: where integrated gradients start: from words that are all ``mask`` or all ``pad``.
        language: of the text, by whose rules words are found (:func:`bertology.corpora.sentence_of_text`).
        split_at_spaces: words of the text are what white space parts.
        loading: ``device``, ``dtype``, ``revision``, ``trust_remote_code`` and ``max_pieces``.

    Returns:
        The scores: print as a table, show as a page in a notebook; have ``.to_pandas()``, ``.plot()``,
        ``.save(path)`` and ``.faithfulness()``.

    Raises:
        BertologyError: the text or a candidate does not fit the model, or there is no such model, layer or method.
    """
    from bertology.causal import PatchPair
    from bertology.causal import attribute as attribute_questions
    from bertology.encoders import load_encoder, resolve_model

    words = _two(candidates)
    encoder = load_encoder(resolve_model(name_of(model), revision=loading.pop("revision", None)), **loading)
    chosen = None if methods is None else parse_names(methods)
    question = PatchPair(text, text, *words, language=language, split_at_spaces=split_at_spaces)
    of_layers = None if layers is None else parse_layers(layers, encoder.n_layers)
    return attribute_questions(encoder, [question], methods=chosen, layers=of_layers, baseline=baseline)


def _two(candidates: str | Sequence[str]) -> tuple[str, str]:
    words = parse_names(candidates)
    if len(words) != 2:
        raise ClozeError(f"{len(words)} candidates: give two, the word that the text calls for, then the other's")
    return words[0], words[1]
