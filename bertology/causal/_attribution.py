"""Attribution: which words of a text a choice between two words at its mask rests on, and how faithful the scores are.

:func:`attribute` computes scores by several methods; :class:`Attributions` holds, shows and checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._names import aligned, folder_name, name_not_found
from bertology._page import PageAndFigure, full_page, number_cell
from bertology.attention import attention_rollout
from bertology.attention.maps import check_norms, knows_norms, value_norms
from bertology.causal.items import SPECIAL, AlignedPair, PatchPair, fitting_pairs
from bertology.causal.patching import Target, check_changes, intervening_in
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import Intervention, find_part, starting_from
from bertology.errors import ClozeError, ModelError
from bertology.measures.intervals import intervals_over_clusters

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Key = tuple[str, int]
"""A method and a layer."""
OF_BLOCKS = ("attention", "attention_norms", "rollout", "value_zeroing")
"""Methods whose scores are of the mixing inside a block: from layer 1 on."""
METHODS = ("integrated_gradients", "leave_one_out", "random", "gradient_times_input", *OF_BLOCKS)
"""The first three score the embeddings (layer 0); gradients score the hidden states of each layer."""
_LARGEST_ERROR = 0.05
_SIGNED = ("integrated_gradients", "leave_one_out", "gradient_times_input")
"""Methods whose scores are positive where a word is evidence for the good one, negative where for the bad one."""


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
        layers: layers of hidden states and blocks; when left out the embeddings, since the gradient of the last layer
            is that of the mask alone, and the last block.
        baseline: baseline of integrated gradients, ``mask`` or ``pad``.
        steps: steps of integrated gradients.
        seed: random seed of the control.

    Raises:
        ClozeError: no question fits the model.
        ModelError: no masked-LM head, a layer that the model does not have, or a method that cannot read its family.
        NameNotFoundError: no such method or baseline.
    """
    if methods is None:  # those that do not need to know where the family projects values, where that is not known
        unknown = {"attention_norms"} if not knows_norms(encoder) else set()
        try:
            find_part(encoder.model.blocks[0], encoder.family, "values")
        except ModelError:
            unknown.add("value_zeroing")
        methods = [method for method in METHODS if method not in unknown]
    for what, asked, known in (("method of attribution", methods, METHODS), ("baseline", [baseline], ("mask", "pad"))):
        if wrong := [name for name in asked if name not in known]:
            raise name_not_found(what, wrong[0], known)
    if not questions:
        raise ClozeError("no question: give at least one text")
    chosen = (0, encoder.n_layers) if layers is None else tuple(layers)
    check_changes(encoder, chosen, verb="attribute")
    if "attention_norms" in methods:
        check_norms(encoder)
    layers_of = {"gradient_times_input": (0,) if layers is None else chosen}
    layers_of |= dict.fromkeys(OF_BLOCKS, tuple(layer for layer in chosen if layer))
    alone = [replace(one, other=one.text, places=()) for one in questions]
    (kept, reasons), found = fitting_pairs(encoder, alone, by_word=True), []
    for number, one in kept.items():
        reader = _Reader(encoder, one, baseline, steps, (seed, number))
        scores: dict[Key, Floats] = {}
        for method in (method for method in METHODS if method in methods):
            of_method = reader.scores(method, layers_of.get(method, (0,)))
            scores |= {(method, layer): of_layer for layer, of_layer in of_method.items()}
        found.append(Attributed(number, reader.words, reader.plain, scores, reader.error, one))
    return Attributions(encoder, tuple(questions), tuple(found), tuple(reasons.items()))


class _Reader:
    """One text, and passes over it and over versions of it."""

    def __init__(self, encoder: Encoder, one: AlignedPair, baseline: str, steps: int, seed: tuple[int, int]) -> None:
        self._encoder, self._one, self._baseline, self._steps, self._seed = encoder, one, baseline, steps, seed
        self.error = float("nan")
        """Error of completeness of integrated gradients, once they are computed."""
        body: Any = encoder.model.body
        self._look_up: Callable[[Tensor], Tensor] = body.get_input_embeddings()
        self.words = tuple(name.partition(" ")[2] for name in one.places if name != SPECIAL)
        self._pieces = [pieces for name, pieces in one.places.items() if name != SPECIAL]
        self._n_owners = np.bincount(np.concatenate(self._pieces), minlength=len(one.ids[0]))
        self._ids = torch.from_numpy(one.ids[0]).to(encoder.device)
        self._candidates = torch.tensor(one.candidates, device=encoder.device)
        self.plain = float(differences(encoder, one, [one.ids[0]])[0])

    def scores(self, method: str, layers: Sequence[int]) -> dict[int, Floats]:
        """``[word]`` scores by layer."""
        match method:
            case "leave_one_out":
                masked = masked_differences(self._encoder, self._one, dict(enumerate(self._pieces)))
                return {0: self.plain - np.array(list(masked.values()))}
            case "random":
                return {0: np.random.default_rng(self._seed).standard_normal(len(self.words))}
            case "value_zeroing":
                return {layer: self._value_zeroing(layer) for layer in layers}
            case "integrated_gradients":
                of_pieces = {0: self._integrated_gradients()}
            case "gradient_times_input":
                of_pieces = self._gradients(layers)
            case _:
                of_pieces = self._attention(method, layers) if layers else {}
        by_owner = {layer: scores / np.maximum(self._n_owners, 1) for layer, scores in of_pieces.items()}
        return {layer: np.array([one[pieces].sum() for pieces in self._pieces]) for layer, one in by_owner.items()}

    def _integrated_gradients(self) -> Floats:
        encoder, empty = self._encoder, self._ids.clone()
        of_words = torch.from_numpy(np.concatenate(self._pieces)).to(empty.device)
        empty[of_words] = encoder.mask_id if self._baseline == "mask" else encoder.pad_id
        with torch.no_grad():
            full, start = self._look_up(self._ids), self._look_up(empty)
        shares = ((torch.arange(self._steps, device=full.device) + 0.5) / self._steps).to(full.dtype)
        total = torch.zeros_like(full)
        for some in torch.split(shares, max(1, pieces_in_batch(encoder.device) // len(full))):
            between = (start + some[:, None, None] * (full - start)).detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(self._difference_of(between).sum(), between)
            total += gradient.sum(0)
        scores = ((full - start) * total / self._steps).sum(1).double().cpu().numpy()
        with torch.no_grad():
            ends = self._difference_of(torch.stack([full, start])).double()
        whole = float(ends[0] - ends[1])
        self.error = abs(float(scores.sum()) - whole) / abs(whole) if whole else float("nan")
        return np.asarray(scores)

    def _difference_of(self, embeddings: Tensor) -> Tensor:
        """``[row]`` good minus bad, from word embeddings; a gradient passes through."""
        head = self._encoder.masked_head
        last = self._encoder.model.body(inputs_embeds=embeddings, return_dict=True).last_hidden_state
        logits = head.logits(head.features(last[:, self._one.mask]), self._candidates)
        return logits[:, 0] - logits[:, 1]

    def _gradients(self, layers: Sequence[int]) -> dict[int, Floats]:
        kept: dict[int, Tensor] = {}

        def keep(layer: int, state: Tensor) -> Tensor:
            kept[layer] = state if state.requires_grad else state.detach().requires_grad_(True)
            return kept[layer]

        changes = [Intervention(layer, partial(keep, layer)) for layer in layers]
        with torch.enable_grad(), intervening_in(self._encoder, changes):
            embeddings = self._look_up(self._ids[None]).detach().requires_grad_(True)
            difference = self._difference_of(embeddings).sum()
            found = torch.autograd.grad(difference, [kept[layer] for layer in layers])
        products = {layer: (kept[layer] * gradient)[0].sum(1) for layer, gradient in zip(layers, found, strict=True)}
        return {layer: one.detach().double().cpu().numpy() for layer, one in products.items()}

    def _attention(self, method: str, layers: Sequence[int]) -> dict[int, Floats]:
        values: dict[int, Tensor] = {}
        kept = layers if method == "attention_norms" else ()
        keeping = [Intervention(layer, partial(values.setdefault, layer), "values") for layer in kept]
        with intervening_in(self._encoder, keeping):
            maps = self._encoder.attentions(self._ids[None], layers=range(1, max(layers) + 1))
        for layer in kept:
            maps[layer] = maps[layer] * value_norms(values[layer], layer, self._encoder)[:, :, None]
        means = {layer: one[0].double().mean(0).cpu().numpy() for layer, one in maps.items()}
        if method == "rollout":
            rolled = attention_rollout(np.stack([means[layer] for layer in sorted(means)]))
            means = dict(zip(sorted(means), rolled, strict=True))
        return {layer: means[layer][self._one.mask] for layer in layers}

    def _value_zeroing(self, layer: int) -> Floats:
        encoder, mask = self._encoder, self._one.mask
        ids = self._ids.expand(len(self.words), -1)
        zeroed = torch.zeros(ids.shape, dtype=torch.bool, device=ids.device)
        for row, pieces in enumerate(self._pieces):
            zeroed[row, torch.from_numpy(pieces)] = True
        states = encoder.hidden_states(self._ids[None], layers=(layer - 1, layer))
        without = Intervention(layer, lambda values: values.masked_fill(zeroed[..., None], 0), "values")
        start = states[layer - 1].expand(len(self.words), -1, -1)
        body, blocks = encoder.model.body, encoder.model.blocks
        with starting_from(body, blocks, layer - 1, start), intervening_in(encoder, [without]):
            changed = encoder.hidden_states(ids, layers=(layer,))[layer]
        likeness = torch.cosine_similarity(changed[:, mask].double(), states[layer][:, mask].double(), dim=1)
        return np.asarray((1 - likeness).cpu().numpy())


def differences(encoder: Encoder, one: AlignedPair, texts: Sequence[Integers]) -> Floats:
    """``[text]`` the logit of the good word minus that of the bad one, in texts as long as that of the question."""
    size, found = max(1, pieces_in_batch(encoder.device) // len(one.ids[0])), []
    for some in (texts[start : start + size] for start in range(0, len(texts), size)):
        target = Target.of(encoder, [one] * len(some))
        found.append(target.of_texts(torch.from_numpy(np.stack(some))).numpy())
    return np.concatenate(found)


def masked_differences(encoder: Encoder, one: AlignedPair, masked: Mapping[Any, Integers]) -> dict[Any, float]:
    """The difference by key, in the text with some of its subwords masked; equal texts are read once."""
    versions: dict[Any, Integers] = {}
    for key, subwords in masked.items():
        versions[key] = one.ids[0].copy()
        versions[key][subwords] = encoder.mask_id
    distinct = {ids.tobytes(): ids for ids in versions.values()}
    scores = dict(zip(distinct, differences(encoder, one, list(distinct.values())).tolist(), strict=True))
    return {key: scores[ids.tobytes()] for key, ids in versions.items()}


@dataclass(frozen=True, eq=False)
class Attributed:
    """One text and the scores of its words."""

    number: int  # number of the question
    words: tuple[str, ...]
    difference: float  # logit of the good word minus that of the bad one
    scores: dict[Key, Floats]  # [word] by method and layer
    completeness_error: float
    """Error of integrated gradients, as a share of what the text adds to the baseline; NaN where they were left out."""
    aligned: AlignedPair

    @property
    def mask(self) -> int:
        """The word that is masked."""
        places = list(self.aligned.places.values())
        return next(number for number, pieces in enumerate(places) if self.aligned.mask in pieces)

    def subwords(self, words: Sequence[int]) -> Integers:
        """The places of all subwords of some words in the text's input."""
        places = [chosen for name, chosen in self.aligned.places.items() if name != SPECIAL]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(places[word] for word in words)]))

    def ranked(self, method: str, layer: int) -> list[int]:
        """Words but for the mask, the one with the highest score first."""
        order = np.argsort(-self.scores[method, layer], kind="stable").tolist()
        return [word for word in order if word != self.mask]


class Faithfulness(NamedTuple):
    """Faithfulness ``[text]`` of the scores of one method to the model.

    Comprehensiveness is how much of the probability of the good word, of the two, is lost when the highest words are
    masked: mean of the first one, two and three (DeYoung et al. 2020, section 4.2; masked instead of deleted).
    Sufficiency is how much of it is lost when all others are masked; less is better. The rank correlation is Kendall's
    τ with leave-one-out; NaN where one of them is constant.
    """

    comprehensiveness: Floats
    sufficiency: Floats
    rank_correlation: Floats


@dataclass(frozen=True, eq=False)
class Attributions(PageAndFigure):
    """Scores of the words of texts; returned by :func:`attribute`.

    A notebook displays the page of :meth:`to_html`; ``.save(path)`` writes it (``.html``) or the figure (``.svg``,
    ``.pdf`` or ``.png``).
    """

    page_title: ClassVar[str] = "Words that a choice rests on"
    page_height: ClassVar[int] = 720

    encoder: Encoder
    questions: tuple[PatchPair, ...]
    found: tuple[Attributed, ...]
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the questions that do not fit the model, and the reasons."""

    @property
    def methods(self) -> tuple[Key, ...]:
        """Keys of the scores: each method with its layer."""
        return tuple(self.found[0].scores)

    def faithfulness(self, *, most: int = 3) -> dict[Key, Faithfulness]:
        """Faithfulness by method and layer, from texts with words masked, as the model knows them from training.

        All values are NaN for a text that is but a mask.

        Args:
            most: number of the highest words that are masked or kept at most.
        """
        from scipy.stats import kendalltau

        steps, parts = range(1, most + 1), dict[Key, list[tuple[float, ...]]]()
        for one in self.found:
            words = [word for word in range(len(one.words)) if word != one.mask]
            masked: dict[Any, Integers] = {("alone", word): one.subwords([word]) for word in words}
            for key, k in product(self.methods, steps[: len(words)]):
                order = one.ranked(*key)
                masked[key, k, "without"] = highest = one.subwords(order[:k])
                # A subword that is shared with a word that is kept is kept.
                masked[key, k, "only"] = np.setdiff1d(one.subwords(order[k:]), highest)
            scores = masked_differences(self.encoder, one.aligned, masked) if words else {}
            left_out = [one.difference - scores["alone", word] for word in words]
            whole, shares = _probability(one.difference), {key: _probability(value) for key, value in scores.items()}
            for key in self.methods:
                lost = [[whole - shares[key, k, kind] for k in steps[: len(words)]] for kind in ("without", "only")]
                tau = kendalltau(one.scores[key][words], left_out).statistic if len(words) > 1 else np.nan
                means = (float(np.mean(of_kind)) if words else np.nan for of_kind in lost)
                parts.setdefault(key, []).append((*means, float(tau)))
        return {key: Faithfulness(*np.array(of_key).T) for key, of_key in parts.items()}

    def to_pandas(self) -> pd.DataFrame:
        """A line for each text, method, layer and word: ``question``, ``method``, ``layer``, ``place``, ``word``,
        ``score``."""
        import pandas as pd

        rows = [
            {"question": one.number, "method": method, "layer": layer, "place": place, "word": word, "score": score}
            for one in self.found
            for (method, layer), scores in one.scores.items()
            for place, (word, score) in enumerate(zip(one.words, scores.tolist(), strict=True), 1)
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        tables = []
        for one in self.found:
            rows = [(_title(*key), *(f"{score:>6.3f}" for score in scores)) for key, scores in one.scores.items()]
            tables.append("\n".join([*aligned([("", *one.words), *rows], right=1), "", *self.notes(one)]))
        return "\n\n".join(tables)

    def notes(self, one: Attributed) -> list[str]:
        """Notes that explain the numbers of a text, a line each."""
        question = self.questions[one.number]
        notes = [
            f"{self.encoder.source.title}: logit of {question.good} − logit of {question.bad} = {one.difference:.2f}",
            "scores of one method are of one kind: compare words within a line, not lines",
        ]
        if np.isfinite(one.completeness_error):
            missed = f"integrated gradients miss {100 * one.completeness_error:.1f} %"
            notes.append(
                f"{missed} of what the text adds to the baseline"
                + (": take more steps" if one.completeness_error > _LARGEST_ERROR else "")
            )
        return notes

    def plot(self) -> ShownFigure:
        """Words by methods in the first text, each method scaled to its largest score; has ``.save("words.svg")``."""
        from bertology._figures import draw_cells

        one = self.found[0]
        shares = np.stack([scores / (np.abs(scores).max() or 1) for scores in one.scores.values()])
        caption = f"{self.notes(one)[0]}; each method in shares of its largest score"
        return draw_cells(shares, rows=[_title(*key) for key in one.scores], columns=one.words, caption=caption)

    def to_html(self) -> str:
        """A page with the words of each text, shaded by the scores of a method that is chosen; it makes no request.

        How faithful the methods are is measured for it, see :meth:`faithfulness`.
        """
        folder, model, n_texts = "causal/assets/attribute.", self.encoder.source.title, len(self.found)
        texts = []
        for one in self.found:
            question, (difference, _, *completeness) = self.questions[one.number], self.notes(one)
            texts.append(
                {
                    "words": one.words,
                    "mask": one.mask,
                    "good": question.good,
                    "bad": question.bad,
                    "difference": difference.removeprefix(f"{model}: "),
                    "completeness": "".join(completeness),
                    "scores": [scores.tolist() for scores in one.scores.values()],
                }
            )
        methods = [
            {"name": name, "layer": layer, "title": _title(name, layer), "isSigned": name in _SIGNED}
            for name, layer in self.methods
        ]
        return full_page(
            f"{folder}html",
            title=f"{self.page_title}: {' '.join(self.found[0].words)}",
            styles=["assets/cells.css", f"{folder}css"],
            scripts=["assets/cells.js", f"{folder}js"],
            values={
                "model": escape(folder_name(model)),
                "n_texts": "" if n_texts == 1 else f"Means over {n_texts} texts, in brackets 95 % intervals.",
            },
            data={"methods": methods, "texts": texts, "tables": {"faithfulness": self._faithfulness_table}},
        )

    @cached_property
    def _faithfulness_table(self) -> dict[str, Any]:
        """Means over texts with intervals, as the page's script fills its table."""
        values = np.array(list(self.faithfulness().values()))  # [method, measure, text]
        has_value, sums = np.isfinite(values).astype(np.float64), np.nan_to_num(values)
        clusters = [self.questions[one.number].cluster or f"text {one.number}" for one in self.found]
        means = np.full(values.shape[:2], np.nan)
        np.divide(sums.sum(axis=2), has_value.sum(axis=2), out=means, where=has_value.any(axis=2))
        numbers = np.stack([means, *intervals_over_clusters(sums, has_value, clusters)], axis=2).tolist()
        return {
            "corner": "method",
            "columns": ["comprehensiveness", "sufficiency", "rank correlation"],
            "rows": [_title(*key) for key in self.methods],
            "cells": [[number_cell(*cell) for cell in of_method] for of_method in numbers],
        }


def _probability(difference: float) -> float:
    """Probability of the good word among the two."""
    return float(1 / (1 + np.exp(-difference)))


def _title(method: str, layer: int) -> str:
    name = method.replace("_", " ").replace(" times ", " × ")
    return f"{name}, layer {layer}" if layer or method.startswith("gradient") else name
