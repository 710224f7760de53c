"""Attribution: which words of a text does a choice between two words at its mask rest on, by several methods?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._names import name_not_found
from bertology.attention import attention_rollout, check_norms, knows_norms, value_norms
from bertology.causal._attributed import Attributed, Attributions
from bertology.causal._masked_words import differences
from bertology.causal._pairs import SPECIAL, AlignedPair, PatchPair, align_pairs, refused
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import Intervention, intervening, starting_from, value_projection
from bertology.errors import ClozeError, ModelError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]
OF_INPUTS = ("integrated_gradients", "leave_one_out", "random")
"""Methods whose scores are of the embeddings: layer 0."""
OF_STATES = ("gradient_times_input",)
"""Methods whose scores are of the hidden states of each layer, that of the embeddings too."""
OF_BLOCKS = ("attention", "attention_norms", "rollout", "value_zeroing")
"""Methods whose scores are of what a block mixes: from layer 1 on."""
METHODS = (*OF_INPUTS, *OF_STATES, *OF_BLOCKS)


def attribute(
    encoder: Encoder,
    questions: Sequence[PatchPair],
    *,
    methods: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    baseline: str = "mask",
    steps: int = 50,
    seed: int = 0,
) -> Attributions:
    """Scores of words for the difference of two logits at the mask, good minus bad (Yin & Neubig 2022).

    - ``integrated_gradients`` of word embeddings, from a text whose words are all masks or padding (Sundararajan et al.
      2017); positions and special tokens are the same in both. What it misses of the difference between the two texts
      is its error of completeness.
    - ``leave_one_out``: the difference, minus that with the word masked.
    - ``gradient_times_input``: gradient × hidden state of the layer, summed over dimensions (Shrikumar et al. 2017).
    - ``attention``: weights from the mask to the word, mean of the heads; ``attention_norms``: ‖αf(x)‖, the weight ×
      the norm of the word's value after the head's part of the output projection, mean of the heads (Kobayashi et al.
      2020, section 3; not their norm of the sum over heads, nor the norms with residual connection and LayerNorm of
      Kobayashi et al. 2021); ``rollout``: weights through all layers below (Abnar & Zuidema 2020).
    - ``value_zeroing``: cosine distance by which the mask's state moves when the word's values are zero in a layer
      (Mohebbi et al. 2023, section 4).
    - ``random``: numbers drawn at random, as a control.

    Scores of subwords are summed to words; that of a subword that several words share, as those of *cannot*, is divided
    equally among them, so that the scores of the words sum to those of the text. Leaving one out and value zeroing
    change all subwords of a word together, so that words that share all of them have the same score. Of attention
    weights and of distances more is more important; other scores are positive where a word speaks for the good one.

    Args:
        encoder: a masked language model.
        questions: texts with their two words; ``other`` is not read.
        methods: which ones; all that the model's family allows when left out.
        layers: of hidden states and blocks; when left out the embeddings, since the gradient of the last layer is that
            of the mask alone, and the last block.
        baseline: of integrated gradients, ``mask`` or ``pad``.
        steps: of integrated gradients.
        seed: of the control.

    Raises:
        ClozeError: no question fits the model.
        ModelError: no masked-LM head, a layer that the model does not have, or a method that cannot read its family.
        NameNotFoundError: no such method or baseline.
    """
    if methods is None:
        methods = [method for method in METHODS if method not in _needs_values(encoder)]
    for method in methods:
        if method not in METHODS:
            raise name_not_found("method of attribution", method, METHODS)
    if baseline not in ("mask", "pad"):
        raise name_not_found("baseline", baseline, ("mask", "pad"))
    if not questions:
        raise ClozeError("no question: give at least one text")
    if encoder.is_gated:
        raise ModelError("heads are gated: attribute outside of gated_heads")
    encoder.masked_head  # noqa: B018 - raises where there is none
    if "attention_norms" in methods:
        check_norms(encoder)
    chosen = (0, encoder.n_layers) if layers is None else tuple(layers)
    for layer in chosen:
        Intervention(layer, lambda states: states).check(n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    of_states = (0,) if layers is None else chosen
    alone = [replace(one, other=one.text, places=()) for one in questions]
    aligned = align_pairs(encoder, alone, by_word=True)
    excluded = tuple((number, one) for number, one in enumerate(aligned) if isinstance(one, str))
    if len(excluded) == len(questions):
        raise refused(questions[0], excluded[0][1])
    found = []
    for number, one in enumerate(aligned):
        if isinstance(one, AlignedPair):
            reader = _Reader(encoder, one)
            scores: dict[tuple[str, int], Floats] = {}
            error = float("nan")
            if "integrated_gradients" in methods:
                scores["integrated_gradients", 0], error = reader.integrated_gradients(baseline, steps)
            if "leave_one_out" in methods:
                scores["leave_one_out", 0] = reader.leave_one_out()
            if "random" in methods:
                scores["random", 0] = np.random.default_rng((seed, number)).standard_normal(reader.n_words)
            if "gradient_times_input" in methods:
                scores |= {("gradient_times_input", layer): one for layer, one in reader.gradients(of_states).items()}
            blocks = [layer for layer in chosen if layer]
            for method in (method for method in OF_BLOCKS if method in methods and blocks):
                scores |= {(method, layer): of_layer for layer, of_layer in reader.of_blocks(method, blocks).items()}
            found.append(Attributed(number, reader.words, reader.plain, scores, error, one))
    return Attributions(encoder, tuple(questions), tuple(found), excluded)


def _needs_values(encoder: Encoder) -> tuple[str, ...]:
    """Methods that need to know where the family projects values, where that is not known."""
    unknown = []
    try:
        value_projection(encoder.model.blocks[0], encoder.family)
    except ModelError:
        unknown.append("value_zeroing")
    return (*unknown, *(() if knows_norms(encoder) else ("attention_norms",)))


class _Reader:
    """One text, and passes over it and over versions of it."""

    def __init__(self, encoder: Encoder, one: AlignedPair) -> None:
        self._encoder, self._one = encoder, one
        names = [name for name in one.places if name != SPECIAL]
        self.words = tuple(name.partition(" ")[2] for name in names)
        self._pieces = [one.places[name] for name in names]
        self.n_words = len(names)
        self._n_owners = np.bincount(np.concatenate(self._pieces), minlength=len(one.ids[0]))
        self._ids = torch.from_numpy(one.ids[0]).to(encoder.device)
        self._candidates = torch.tensor(one.candidates, device=encoder.device)
        self.plain = float(self.differences([one.ids[0]])[0])

    def differences(self, texts: Sequence[NDArray[np.int64]]) -> Floats:
        """``[text]`` good minus bad, of versions of the text."""
        return differences(self._encoder, self._one, texts)

    def leave_one_out(self) -> Floats:
        """``[word]`` scores."""
        texts = []
        for pieces in self._pieces:
            ids = self._one.ids[0].copy()
            ids[pieces] = self._encoder.mask_id
            texts.append(ids)
        return self.plain - self.differences(texts)

    def integrated_gradients(self, baseline: str, steps: int) -> tuple[Floats, float]:
        """``[word]`` scores, and the error of completeness as a share."""
        encoder = self._encoder
        empty = self._ids.clone()
        of_words = torch.from_numpy(np.concatenate(self._pieces)).to(empty.device)
        empty[of_words] = encoder.mask_id if baseline == "mask" else encoder.pad_id
        look_up = _embeddings_of(encoder)
        with torch.no_grad():
            full, start = look_up(self._ids), look_up(empty)
        shares = ((torch.arange(steps, device=full.device) + 0.5) / steps).to(full.dtype)
        total = torch.zeros_like(full)
        size = max(1, pieces_in_batch(encoder.device) // len(full))
        for some in torch.split(shares, size):
            between = (start + some[:, None, None] * (full - start)).detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(self._difference_of(between).sum(), between)
            total += gradient.sum(0)
        scores = ((full - start) * total / steps).sum(1).double().cpu().numpy()
        with torch.no_grad():
            ends = self._difference_of(torch.stack([full, start])).double()
        whole = float(ends[0] - ends[1])
        error = abs(float(scores.sum()) - whole) / abs(whole) if whole else float("nan")
        return self._by_word(scores), error

    def _difference_of(self, embeddings: Tensor) -> Tensor:
        """``[row]`` good minus bad, from word embeddings; a gradient passes through."""
        head = self._encoder.masked_head
        last = self._encoder.model.body(inputs_embeds=embeddings, return_dict=True).last_hidden_state
        logits = head.logits(head.features(last[:, self._one.mask]), self._candidates)
        return logits[:, 0] - logits[:, 1]

    def gradients(self, layers: Sequence[int]) -> dict[int, Floats]:
        """``[word]`` by layer: gradient × hidden state."""
        encoder = self._encoder
        look_up = _embeddings_of(encoder)
        kept: dict[int, Tensor] = {}

        def keep(layer: int) -> Callable[[Tensor], Tensor]:
            def change(state: Tensor) -> Tensor:
                kept[layer] = state if state.requires_grad else state.detach().requires_grad_(True)
                return kept[layer]

            return change

        with torch.enable_grad(), self._intervening([Intervention(layer, keep(layer)) for layer in layers]):
            embeddings = look_up(self._ids[None]).detach().requires_grad_(True)
            difference = self._difference_of(embeddings).sum()
            found = torch.autograd.grad(difference, [kept[layer] for layer in layers])
        products = zip(layers, found, strict=True)
        return {layer: self._by_word(_product(kept[layer], gradient)) for layer, gradient in products}

    def of_blocks(self, method: str, layers: Sequence[int]) -> dict[int, Floats]:
        """``[word]`` by layer, of what blocks mix."""
        if method == "value_zeroing":
            return {layer: self._value_zeroing(layer) for layer in layers}
        values: dict[int, Tensor] = {}

        def keep(layer: int) -> Callable[[Tensor], Tensor]:
            return lambda of_layer: values.setdefault(layer, of_layer)

        kept = layers if method == "attention_norms" else ()
        with self._intervening([Intervention(layer, keep(layer), "values") for layer in kept]):
            maps = self._encoder.attentions(self._ids[None], layers=range(1, max(layers) + 1))
        for layer in kept:
            maps[layer] = maps[layer] * value_norms(values[layer], layer, self._encoder)[:, :, None]
        means = {layer: one[0].double().mean(0).cpu().numpy() for layer, one in maps.items()}
        if method == "rollout":
            rolled = attention_rollout(np.stack([means[layer] for layer in sorted(means)]))
            means = dict(zip(sorted(means), rolled, strict=True))
        return {layer: self._by_word(means[layer][self._one.mask]) for layer in layers}

    def _value_zeroing(self, layer: int) -> Floats:
        encoder, mask = self._encoder, self._one.mask
        ids = self._ids.expand(self.n_words, -1)
        zeroed = torch.zeros(ids.shape, dtype=torch.bool, device=ids.device)
        for row, pieces in enumerate(self._pieces):
            zeroed[row, torch.from_numpy(pieces)] = True
        states = encoder.hidden_states(self._ids[None], layers=(layer - 1, layer))
        without = Intervention(layer, lambda values: values.masked_fill(zeroed[..., None], 0), "values")
        start = states[layer - 1].expand(self.n_words, -1, -1)
        body, blocks = encoder.model.body, encoder.model.blocks
        with starting_from(body, blocks, layer - 1, start), self._intervening([without]):
            changed = encoder.hidden_states(ids, layers=(layer,))[layer]
        likeness = torch.cosine_similarity(changed[:, mask].double(), states[layer][:, mask].double(), dim=1)
        return np.asarray((1 - likeness).cpu().numpy())

    def _intervening(self, interventions: Sequence[Intervention]) -> Any:
        encoder = self._encoder
        body, blocks = encoder.model.body, encoder.model.blocks
        return intervening(body, blocks, interventions, n_heads=encoder.n_heads, family=encoder.family)

    def _by_word(self, of_pieces: Floats) -> Floats:
        return np.array([(of_pieces[pieces] / self._n_owners[pieces]).sum() for pieces in self._pieces])


def _embeddings_of(encoder: Encoder) -> Any:
    body: Any = encoder.model.body
    return body.get_input_embeddings()


def _product(state: Tensor, gradient: Tensor) -> Floats:
    return np.asarray((state * gradient)[0].sum(1).detach().double().cpu().numpy())
