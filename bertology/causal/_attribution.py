"""Attribution: which words of a text a prediction rests on, and how faithful the scores are.

:func:`attribute` computes scores by several methods; :class:`Attributions` holds, shows and checks them.
"""

import importlib.util
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from scipy.linalg import block_diag
from torch import Tensor

from bertology._lazy import figures, pd, scipy
from bertology._machine import on_each_core
from bertology._names import aligned, check_name, folder_name
from bertology._page import PageAndFigure, full_page, number_cell
from bertology.attention import attention_rollout
from bertology.attention.maps import check_norms, head_values, knows_norms
from bertology.causal.patching import check_changes, intervening_in, with_gradients
from bertology.causal.targets import SPECIAL, AlignedPair, Decision, PatchPair, Target, fitting_pairs
from bertology.encoders import Encoder
from bertology.encoders.batching import pieces_in_batch
from bertology.encoders.interventions import Intervention, find_part, starting_from
from bertology.encoders.loading import blocks_of
from bertology.errors import BertologyError, ClozeError, ModelError, quoted
from bertology.measures.intervals import intervals_over_clusters
from bertology.measures.sums import Floats, Integers

Key = tuple[str, int]
"""A method and a layer."""
OF_BLOCKS = ("attention", "attention_norms", "rollout", "value_zeroing")
"""Methods whose scores are of the mixing inside a block: from layer 1 on."""
METHODS = ("integrated_gradients", "leave_one_out", "random", "gradient_times_input", *OF_BLOCKS)
"""The first three score the embeddings (layer 0); gradients score the hidden states of each layer."""
MORE_METHODS = ("occlusion", "shapley", "kernel_shap")
"""Methods that mask several words at once, computed where they are named; they score the embeddings."""
_OF_CAPTUM = {"shapley": "ShapleyValueSampling", "kernel_shap": "KernelShap"}
_LARGEST_ERROR = 0.05
_STEPS, _MORE_STEPS, _MOST_MISSED = 20, 100, 0.01
_MOST_PRINTED = 5
_TESTS = ("comprehensiveness", "sufficiency", "rank_correlation", "completeness_error")
SIGNED = ("integrated_gradients", "leave_one_out", "gradient_times_input", *MORE_METHODS)
"""Methods whose scores are positive where a word is evidence for what is explained, negative where against it."""
Unit = Literal["word", "subword"]


@Encoder.comes_first
def attribute(
    encoder: Encoder,
    questions: Sequence[PatchPair],
    *,
    methods: Sequence[str] | Literal["all"] | None = None,
    layers: Sequence[int] | None = None,
    baseline: str = "mask",
    steps: int | None = None,
    span: int = 3,
    samples: int = 25,
    unit: Unit = "word",
    scores: Mapping[str, Sequence[Sequence[float]]] | None = None,
    seed: int = 0,
) -> "Attributions":
    """Scores of words for a prediction: of a choice at a mask the difference of two logits (Yin & Neubig 2022), of a
    label its logit minus that of another one; see :class:`Target`.

    - ``integrated_gradients`` of word embeddings, from a text whose words are all masks or padding (Sundararajan et al.
      2017); positions and special tokens are the same in both. What it misses of the difference between the two texts
      is its error of completeness.
    - ``leave_one_out``: the score, minus that with the word masked; ``occlusion``: the same of each ``span`` of words
      in a row, mean of the spans that the word is in (Zeiler & Fergus 2014).
    - ``shapley``: mean of what masking the word changes in random orders of all words; ``kernel_shap``: the weighted
      least-squares estimate of the same values (Lundberg & Lee 2017); both by captum.
    - ``gradient_times_input``: gradient × hidden state of the layer, summed over dimensions (Shrikumar et al. 2017).
    - ``attention``: weights from the subword that the prediction is read at to the word, mean of the heads;
      ``attention_norms``: ‖αf(x)‖, the weight × the norm of the word's value after the head's part of the output
      projection, mean of the heads (Kobayashi et al. 2020, section 3; not their norm of the sum over heads, nor the
      norms with residual connection and LayerNorm of Kobayashi et al. 2021); ``rollout``: weights through all layers
      below (Abnar & Zuidema 2020). A masked word is read at the mask; of labels and answers the subwords of the last
      layer are weighted by the norm of the gradient of the score there: ``[CLS]`` alone where a pooler reads it.
    - ``value_zeroing``: cosine distance by which the state of that subword moves when the word's values are zero in a
      layer (Mohebbi et al. 2023, section 4).
    - ``random``: numbers drawn at random, as a control.

    Scores of subwords are summed to words; that of a subword that several words share, as those of *cannot*, is divided
    equally among them, so that the scores of the words sum to those of the text. Leaving one out and value zeroing
    change all subwords of a word together, so that words that share all of them have the same score. Of attention
    weights and of distances more is more important; other scores are positive where a word speaks for the prediction.

    Args:
        encoder: a model with a head for the target of the questions.
        questions: texts with what is predicted of them; ``other`` is not read.
        methods: which ones, or ``all``; when left out those that the model's family allows, but for occlusion and
            Shapley values, which take longest.
        layers: layers of hidden states and blocks; when left out the embeddings, since the gradient of the last layer
            is that of the subword that is read alone, and the last block.
        baseline: input that words are replaced by, ``mask`` or ``pad``.
        steps: steps of integrated gradients; when left out 20, and 100 for a text where these miss more than 1 % of
            what the words add.
        span: words in a row that are masked together by occlusion.
        samples: random orders of Shapley values; ``kernel_shap`` takes as many forward passes.
        unit: what is scored, words or subwords.
        scores: scores of others by name, for each question those of its words, to be tested with these.
        seed: random seed of the control, and of the samples.

    Raises:
        ClozeError: no question fits the model.
        ModelError: no head for the target, a layer that the model does not have, or a method that cannot read its
            family.
        NameNotFoundError: no such method or baseline.
    """
    if methods is None:  # those that do not need to know where the family projects values, where that is not known
        unknown = {"attention_norms"} if not knows_norms(encoder) else set()
        try:
            find_part(encoder.model.blocks[0], encoder.family, "values")
        except ModelError:
            unknown.add("value_zeroing")
        methods = [method for method in METHODS if method not in unknown]
    every = (*METHODS, *MORE_METHODS)
    methods = every if methods == "all" else methods
    for method in methods:
        check_name("method of attribution", method, every)
    check_name("baseline", baseline, ("mask", "pad"))
    check_name("unit", unit, get_args(Unit))
    if not questions:
        raise ClozeError("no question: give at least one text")
    if min(steps or 1, span, samples) < 1 or steps == 0:
        raise ClozeError(f"{steps} steps, a span of {span} words and {samples} samples: give one or more of each")
    probed = [one.target.probe.origin.layer or 0 for one in questions if one.target.probe is not None]
    deepest = min(probed, default=encoder.n_layers)
    chosen = (0, deepest) if layers is None else tuple(layers)
    if probed and max(chosen, default=0) > deepest:
        raise ModelError(f"layer {max(chosen)}: the probe reads layer {deepest}, which no layer above it affects")
    check_changes(encoder, chosen, verb="attribute")
    if "attention_norms" in methods:
        check_norms(encoder)
    layers_of = {"gradient_times_input": (0,) if layers is None else chosen}
    layers_of |= dict.fromkeys(OF_BLOCKS, tuple(layer for layer in chosen if layer))
    alone = [replace(one, other="", other_seconds=None, places=()) for one in questions]
    kept, reasons = fitting_pairs(encoder, alone, by_word=True)
    if unit == "subword":
        kept = {number: _in_subwords(encoder, one) for number, one in kept.items()}
    given = _checked_scores(scores or {}, kept, len(questions), every)
    settings: dict[str, Any] = {"baseline": baseline, "steps": steps, "span": span, "samples": samples}
    in_order = [method for method in every if method in methods]

    def work(reader: Encoder, part: slice) -> "list[Attributed]":
        found = []
        for number, one in list(kept.items())[part]:
            of_text = _Reader(reader, one, seed=(seed, number), **settings)
            for method in in_order:
                of_text.add(method, layers_of.get(method, (0,)))
            of_text.found.scores.update({(name, 0): of_name[number] for name, of_name in given.items()})
            found.append(of_text.found)
        return found

    parts = on_each_core(encoder, work, most=min(_MOST_WORKERS, len(kept)))
    found = sorted((one for part in parts for one in part), key=lambda one: one.number)
    return Attributions(encoder, tuple(questions), tuple(found), tuple(reasons.items()), tuple(given), baseline)


_MOST_WORKERS = 8


def _checked_scores(
    scores: Mapping[str, Sequence[Sequence[float]]], kept: Mapping[int, AlignedPair], n: int, methods: Sequence[str]
) -> dict[str, dict[int, Floats]]:
    """Scores of others by name and number of the question."""
    found: dict[str, dict[int, Floats]] = {}
    for name, of_texts in scores.items():
        if name in methods:
            raise ClozeError(f"scores {quoted(name)}: a method is called so: give them another name")
        if len(of_texts) != n:
            problem = f"those of {len(of_texts)} texts for {n}"
            raise ClozeError(f"scores {quoted(name)}: {problem}: give a list for each text")
        found[name] = {}
        for number, one in kept.items():
            values = np.asarray(of_texts[number], dtype=np.float64)
            if values.shape != (len(one.words),) or not np.isfinite(values).all():
                shape = f"{values.size} numbers for the {len(one.words)} words of {quoted(' '.join(one.words))}"
                raise ClozeError(f"scores {quoted(name)}: {shape}: give a finite number for each of them")
            found[name][number] = values
    return found


def _in_subwords(encoder: Encoder, one: AlignedPair) -> AlignedPair:
    """The same text with each subword as a word of its own; of choices it is a row in each that has it."""
    width, spans = len(one.ids[0]) // one.n_parts, dict[tuple[int, ...], None]()
    for span in one.spans:
        by_row = span.reshape(len(np.unique(span // width)), -1)
        spans |= dict.fromkeys(map(tuple, by_row.T.tolist()))
    arrays = [np.array(span, dtype=np.int64) for span in spans]
    forms = encoder.tokenizer.convert_ids_to_tokens([int(one.ids[0][span[0]]) for span in arrays])
    return replace(one, words=tuple(forms), spans=tuple(arrays))


class _Reader:
    """One text, and forward passes over it and over versions of it."""

    def __init__(
        self,
        encoder: Encoder,
        one: AlignedPair,
        *,
        baseline: str,
        steps: int | None,
        span: int,
        samples: int,
        seed: tuple[int, int],
    ) -> None:
        self._encoder, self._one, self._seed = encoder, one, seed
        self._steps, self._span, self._samples = steps, span, samples
        self._decision = Decision(encoder, [one])
        body: Any = encoder.model.body
        blocks_of(body, encoder.n_layers, encoder.family)  # refuses a model without a table of embeddings
        self._look_up: Callable[[Tensor], Tensor] = body.get_input_embeddings()
        self._pieces = list(one.spans)
        self._n_owners = np.bincount(np.concatenate(self._pieces), minlength=len(one.ids[0]))
        self._ids = torch.from_numpy(one.ids[0]).to(encoder.device)
        self._empty, self._empty_id = self._ids.clone(), empty_id(encoder, baseline)
        self._empty[torch.from_numpy(np.concatenate(self._pieces))] = self._empty_id
        every = [one.ids[0], self._empty.cpu().numpy()]
        self._plain, self._of_empty = map(float, scores_of(encoder, one, every))
        special = one.places.get(SPECIAL, np.zeros(0, dtype=np.int64))
        self._special = special if one.is_real is None else special[one.is_real[special] > 0]  # without padding
        names = tuple(encoder.tokenizer.convert_ids_to_tokens(one.ids[0][self._special].tolist()))
        self.found = Attributed(seed[1], one.words, self._plain, {}, one, {}, names, {}, {})

    def add(self, method: str, layers: Sequence[int]) -> None:
        """Compute the scores of a method in some layers, with their time and error of completeness."""
        started = time.perf_counter()
        match method:
            case "leave_one_out":
                found = {0: self._leave_out({(word,): [word] for word in range(len(self._pieces))})}
            case "occlusion":
                found = {0: self._occlusion()}
            case "shapley" | "kernel_shap":
                found = {0: self._sampled(method)}
            case "random":
                found = {0: np.random.default_rng(self._seed).standard_normal(len(self._pieces))}
            case "value_zeroing":
                found = {layer: self._value_zeroing(layer) for layer in layers}
            case "integrated_gradients":
                found = self._of_words(method, {0: self._integrated_gradients()})
            case "gradient_times_input":
                states, slopes, _ = with_gradients(self._decision, layers, *self._rows(1))
                of_pieces = {n: (states[n] * slope)[0].sum(1).double().cpu().numpy() for n, slope in slopes.items()}
                found = self._of_words(method, of_pieces)
            case _:
                found = self._of_words(method, self._attention(method, layers) if layers else {})
        self.found.seconds[method] = time.perf_counter() - started
        gain = self._plain - self._of_empty
        for layer, values in found.items():
            self.found.scores[method, layer] = values
            if method in SIGNED:
                missed = abs(float(values.sum()) - gain)
                self.found.errors[method, layer] = missed / abs(gain) if gain else float("nan")

    def _of_words(self, method: str, of_pieces: Mapping[int, Floats]) -> dict[int, Floats]:
        """``[word]`` scores by layer, of those ``[piece]``; those of special tokens are kept apart."""
        found = {}
        for layer, scores in of_pieces.items():
            self.found.special[method, layer] = scores[self._special]
            by_owner = scores / np.maximum(self._n_owners, 1)
            found[layer] = np.array([by_owner[pieces].sum() for pieces in self._pieces])
        return found

    def _leave_out(self, sets: Mapping[Any, Sequence[int]]) -> Floats:
        """``[set]`` the score, minus that with the words of a set masked."""
        masked = {key: np.concatenate([self._pieces[word] for word in words]) for key, words in sets.items()}
        scores = masked_scores(self._encoder, self._one, masked, self._empty_id)
        return self._plain - np.array(list(scores.values()))

    def _occlusion(self) -> Floats:
        n_words = len(self._pieces)
        starts = range(max(1, n_words - self._span + 1))
        spans = {start: list(range(start, min(start + self._span, n_words))) for start in starts}
        lost, is_in = self._leave_out(spans), np.zeros((len(spans), n_words))
        for start, words in spans.items():
            is_in[start, words] = 1
        return np.asarray(np.average(np.broadcast_to(lost[:, None], is_in.shape), axis=0, weights=is_in))

    def _sampled(self, method: str) -> Floats:
        """Shapley values of words that are there or masked, by a sampler of captum."""
        if importlib.util.find_spec("captum") is None:
            raise BertologyError(f"{method} needs captum: pip install 'bertology[explain]'")
        library: Any = importlib.import_module("captum.attr")
        empty, n_words = self._empty_id, len(self._pieces)
        if n_words == 1:  # all of what the text adds is the word's
            return np.array([self._plain - self._of_empty])

        def score(is_there: Tensor) -> Tensor:
            texts = []
            for row in is_there.bool().tolist():
                left_out = [pieces for pieces, there in zip(self._pieces, row, strict=True) if not there]
                texts.append(self._one.ids[0].copy())
                texts[-1][np.concatenate([np.zeros(0, dtype=np.int64), *left_out])] = empty
            return torch.from_numpy(scores_of(self._encoder, self._one, texts))

        how: dict[str, Any] = {"n_samples": self._samples, "perturbations_per_eval": 64}
        if method == "kernel_shap":
            how["n_samples"] = self._samples * n_words
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(int(np.random.SeedSequence(self._seed).generate_state(1)[0]))
            sampler = getattr(library, _OF_CAPTUM[method])(score)
            found = sampler.attribute(torch.ones(1, n_words), baselines=torch.zeros(1, n_words), **how)
        return np.asarray(found[0].double().numpy())

    def _integrated_gradients(self) -> Floats:
        found, gain = self._along_path(self._steps or _STEPS), self._plain - self._of_empty
        is_enough = self._steps is not None or abs(found.sum() - gain) <= _MOST_MISSED * abs(gain)
        return found if is_enough else self._along_path(_MORE_STEPS)

    def _along_path(self, steps: int) -> Floats:
        """``[piece]`` integrated gradients, by the middle of each step from the text whose words are all masked."""
        with torch.no_grad():
            full, start = self._look_up(self._ids), self._look_up(self._empty)
        shares = ((torch.arange(steps, device=full.device) + 0.5) / steps).to(full.dtype)
        total = torch.zeros_like(full)
        for some in torch.split(shares, max(1, pieces_in_batch(self._encoder.device) // len(full))):
            between = (start + some[:, None, None] * (full - start)).detach().requires_grad_(True)
            with torch.enable_grad():
                scores = self._decision(*self._rows(len(some)), embeddings=between)
                (gradient,) = torch.autograd.grad(scores.sum(), between)
            total += gradient.sum(0)
        return np.asarray(((full - start) * total / steps).sum(1).double().cpu().numpy())

    def _rows(self, n: int) -> tuple[Tensor, Tensor]:
        """The text in ``n`` rows, and of which text they are."""
        return self._ids.expand(n, -1), torch.zeros(n, dtype=torch.int64)

    @cached_property
    def _read_at(self) -> Floats:
        """``[piece]`` weights, which sum to 1, of the subwords that the prediction is read at."""
        weights, of = np.zeros(len(self._ids)), self._one.target
        if of.kind in ("word", "probe"):
            weights[self._one.at] = 1
        else:
            _, slopes, _ = with_gradients(self._decision, [self._encoder.n_layers], *self._rows(1))
            weights = slopes[self._encoder.n_layers][0].norm(dim=1).double().cpu().numpy()
        return np.asarray(weights / (weights.sum() or 1))

    def _attention(self, method: str, layers: Sequence[int]) -> dict[int, Floats]:
        values: dict[int, Tensor] = {}
        kept = layers if method == "attention_norms" else ()
        keeping = [Intervention(layer, partial(values.setdefault, layer), "values") for layer in kept]
        inputs: dict[str, Any] = self._decision.inputs(self._ids[None])
        with intervening_in(self._encoder, keeping):
            maps = self._encoder.attentions(**inputs, layers=range(1, max(layers) + 1))
        for layer in kept:
            maps[layer] = maps[layer] * head_values(values[layer], layer, self._encoder).lengths[:, :, None]
        # A choice has a map of its own; from one to another there is no attention.
        means = {n: block_diag(*one.double().mean(1).cpu().numpy()) for n, one in maps.items()}
        if method == "rollout":
            rolled = attention_rollout(np.stack([means[layer] for layer in sorted(means)]))
            means = dict(zip(sorted(means), rolled, strict=True))
        return {layer: self._read_at @ means[layer] for layer in layers}

    def _value_zeroing(self, layer: int) -> Floats:
        encoder, decision, n_words = self._encoder, self._decision, len(self._pieces)
        ids = self._rows(n_words)[0]
        zeroed = torch.zeros(ids.shape, dtype=torch.bool, device=ids.device)
        for row, pieces in enumerate(self._pieces):
            zeroed[row, torch.from_numpy(pieces)] = True
        states = decision.states(self._ids[None], layers=(layer - 1, layer))
        zeroed = decision.fold(zeroed[..., None])
        without = Intervention(layer, lambda values: values.masked_fill(zeroed, 0), "values")
        start = decision.fold(states[layer - 1].expand(n_words, -1, -1))
        body, blocks = encoder.model.body, encoder.model.blocks
        with starting_from(body, blocks, layer - 1, start), intervening_in(encoder, [without]):
            changed = decision.states(ids, layers=(layer,))[layer]
        likeness = torch.cosine_similarity(changed.double(), states[layer].double(), dim=2).cpu().numpy()
        return np.asarray((1 - likeness) @ self._read_at)


def empty_id(encoder: Encoder, baseline: str) -> int:
    """Vocabulary number of what words are replaced by: the mask, or padding where so asked or where there is none."""
    has_mask = encoder.tokenizer.mask_token_id is not None
    return encoder.mask_id if baseline == "mask" and has_mask else encoder.pad_id


def scores_of(encoder: Encoder, one: AlignedPair, texts: Sequence[Integers]) -> Floats:
    """``[text]`` scores of texts as long as that of the question."""
    size, found = max(1, pieces_in_batch(encoder.device) // len(one.ids[0])), []
    decision = Decision(encoder, [one])
    for some in (texts[start : start + size] for start in range(0, len(texts), size)):
        rows = torch.zeros(len(some), dtype=torch.int64)
        found.append(decision.scores(torch.from_numpy(np.stack(some)), rows).numpy())
    return np.concatenate(found)


def masked_scores(encoder: Encoder, one: AlignedPair, masked: Mapping[Any, Integers], empty: int) -> dict[Any, float]:
    """The score by key, of the text with some of its subwords replaced; equal texts are read once."""
    versions: dict[Any, Integers] = {}
    for key, subwords in masked.items():
        versions[key] = one.ids[0].copy()
        versions[key][subwords] = empty
    distinct = {ids.tobytes(): ids for ids in versions.values()}
    scores = dict(zip(distinct, scores_of(encoder, one, list(distinct.values())).tolist(), strict=True))
    return {key: scores[ids.tobytes()] for key, ids in versions.items()}


@dataclass(frozen=True, eq=False)
class Attributed:
    """One text and the scores of its words."""

    number: int  # number of the question
    words: tuple[str, ...]
    difference: float  # the score of the target
    scores: dict[Key, Floats]  # [word] by method and layer
    aligned: AlignedPair
    special: dict[Key, Floats]  # [special token] by method and layer, of methods that score them
    special_tokens: tuple[str, ...]
    errors: dict[Key, float]
    """Error of completeness of the methods whose scores have a sign: how far their sum is from what the text adds to
    one whose words are all masked, as a share of that; NaN where it adds nothing."""
    seconds: dict[str, float]
    """Time that each method took."""

    @property
    def completeness_error(self) -> float:
        """The error of integrated gradients; NaN where they were left out."""
        return self.errors.get(("integrated_gradients", 0), float("nan"))

    @property
    def target(self) -> Target:
        """The target with all its names."""
        return self.aligned.target

    @property
    def mask(self) -> int:
        """The word that is masked; -1 where no word is."""
        if self.target.kind != "word":
            return -1
        return next(number for number, pieces in enumerate(self.aligned.spans) if self.aligned.mask in pieces)

    def subwords(self, words: Sequence[int]) -> Integers:
        """The places of all subwords of some words in the text's input."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(self.aligned.spans[word] for word in words)]))

    def ranked(self, method: str, layer: int) -> list[int]:
        """Words but for the mask, the one with the highest score first."""
        order = np.argsort(-self.scores[method, layer], kind="stable").tolist()
        return [word for word in order if word != self.mask]


class Faithfulness(NamedTuple):
    """Faithfulness ``[text]`` of the scores of one method to the model.

    Comprehensiveness is how much of the probability of the target (of the two that are compared) is lost when the
    highest words are masked: mean of the first one, two and three (DeYoung et al. 2020, section 4.2; masked instead of
    deleted). Sufficiency is how much of it is lost when all others are masked; less is better. Of a predicted number
    both are of the number itself. The rank correlation is Kendall's τ with leave-one-out; NaN where one of them is
    constant.
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

    page_title: ClassVar[str] = "Words that a prediction rests on"
    page_height: ClassVar[int] = 720

    encoder: Encoder
    questions: tuple[PatchPair, ...]
    found: tuple[Attributed, ...]
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the questions that do not fit the model, and the reasons."""
    given: tuple[str, ...] = ()
    """Names of scores that were given."""
    baseline: str = "mask"
    """What words are replaced by."""

    @property
    def methods(self) -> tuple[Key, ...]:
        """Keys of the scores: each method with its layer."""
        return tuple(self.found[0].scores)

    @property
    def _unit(self) -> str:
        return "words" if self.found[0].target.kind in ("tag", "probe") else "texts"

    def faithfulness(self, *, most: int = 3) -> dict[Key, Faithfulness]:
        """Faithfulness by method and layer, from texts with words masked, as the model knows them from training.

        All values are NaN for a text that is but a mask.

        Args:
            most: number of the highest words that are masked or kept at most.
        """
        steps, parts = range(1, most + 1), dict[Key, list[tuple[float, ...]]]()
        for one in self.found:
            words = [word for word in range(len(one.words)) if word != one.mask]
            masked: dict[Any, Integers] = {("alone", word): one.subwords([word]) for word in words}
            for key, k in product(self.methods, steps[: len(words)]):
                order = one.ranked(*key)
                masked[key, k, "without"] = highest = one.subwords(order[:k])
                # A subword that is shared with a word that is kept is kept.
                masked[key, k, "only"] = np.setdiff1d(one.subwords(order[k:]), highest)
            empty, probability = empty_id(self.encoder, self.baseline), one.target.probability
            scores = masked_scores(self.encoder, one.aligned, masked, empty) if words else {}
            left_out = [one.difference - scores["alone", word] for word in words]
            whole, shares = probability(one.difference), {key: probability(value) for key, value in scores.items()}
            for key in self.methods:
                lost = [[whole - shares[key, k, kind] for k in steps[: len(words)]] for kind in ("without", "only")]
                tau = scipy.stats.kendalltau(one.scores[key][words], left_out).statistic if len(words) > 1 else np.nan
                means = (float(np.mean(of_kind)) if words else np.nan for of_kind in lost)
                parts.setdefault(key, []).append((*means, float(tau)))
        return {key: Faithfulness(*np.array(of_key).T) for key, of_key in parts.items()}

    def summary(self) -> "pd.DataFrame":
        """A line for each method and layer, means over texts with 95 % intervals over clusters of texts.

        ``comprehensiveness``, ``sufficiency`` and ``rank_correlation`` (:class:`Faithfulness`), ``completeness_error``
        (NaN of methods without sign), each with ``…_low`` and ``…_high``; and the mean ``seconds`` of a text, of all
        layers of the method together (NaN of scores that were given).
        """
        rows = []
        for key, found in zip(self.methods, self._means.tolist(), strict=True):
            row: dict[str, Any] = {"method": key[0], "layer": key[1]}
            for name, (mean, low, high) in zip(_TESTS, found, strict=True):
                row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"seconds": float(np.mean([one.seconds.get(key[0], np.nan) for one in self.found]))})
        return pd.DataFrame(rows)

    def to_pandas(self) -> "pd.DataFrame":
        """A line for each text, method, layer and word: ``question``, ``method``, ``layer``, ``place``, ``word``,
        ``score``. Special tokens, of methods that score them, follow the words of a text with place 0."""
        rows = []
        for one in self.found:
            for (method, layer), scores in one.scores.items():
                special = zip(one.special_tokens, one.special.get((method, layer), np.zeros(0)).tolist(), strict=False)
                of_words = enumerate(zip(one.words, scores.tolist(), strict=True), 1)
                fixed = {"question": one.number, "method": method, "layer": layer}
                for place, (word, score) in [*of_words, *((0, each) for each in special)]:
                    rows.append({**fixed, "place": place, "word": word, "score": score})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        if len(self.found) > _MOST_PRINTED:
            return self._summary_lines()
        tables = []
        for one in self.found:
            rows = [(_title(*key), *(f"{score:>6.3f}" for score in scores)) for key, scores in one.scores.items()]
            tables.append("\n".join([*aligned([("", *one.words), *rows], right=1), "", *self.notes(one)]))
        return "\n\n".join(tables)

    def _summary_lines(self) -> str:
        rows = [["method", *(name.replace("_", " ") for name in _TESTS), "ms a text"]]
        for key, found, seconds in zip(self.methods, self._means.tolist(), self.summary()["seconds"], strict=True):
            cells = [f"{mean:.2f} [{low:.2f}, {high:.2f}]" if np.isfinite(mean) else "–" for mean, low, high in found]
            rows.append([_title(*key), *cells, f"{1000 * seconds:.1f}" if np.isfinite(seconds) else "–"])
        left_out = f", {len(self.excluded)} left out ({self.excluded[0][1]})" if self.excluded else ""
        about = f"{self.encoder.source.title}; {self._unit}: {len(self.found)}{left_out}; [ ] 95 %, over texts"
        return "\n".join([*aligned(rows, right=1), "", about, "the scores of words: --out words.html or --format csv"])

    def notes(self, one: Attributed) -> list[str]:
        """Notes that explain the numbers of a text, a line each."""
        name = one.target.of(one.target.good, one.target.bad)
        decided = f"{self.encoder.source.title}: {name} = {one.difference:.2f}"
        notes = [decided, "scores of one method are of one kind: compare words within a line, not lines"]
        if np.isfinite(one.completeness_error):
            missed = f"integrated gradients miss {100 * one.completeness_error:.1f} %"
            remedy = ": take more steps" if one.completeness_error > _LARGEST_ERROR else ""
            notes.append(f"{missed} of what the text adds to the baseline{remedy}")
        if one.target.kind != "word" and (apart := [key for key in one.special if key[0] not in SIGNED[:1]]):
            values = zip(one.special_tokens, one.special[apart[0]].tolist(), strict=True)
            shown = ", ".join(f"{token} {score:.3f}" for token, score in values).replace("-", "−")
            notes.append(f"special tokens, apart from the words: {shown} ({_title(*apart[0])})")
        return notes

    def plot(self) -> "figures.ShownFigure":
        """Words by methods in the first text, each method scaled to its largest score; has ``.save("words.svg")``."""
        one = self.found[0]
        shares = np.stack([scores / (np.abs(scores).max() or 1) for scores in one.scores.values()])
        caption = f"{self.notes(one)[0]}; each method in shares of its largest score"
        return figures.draw_cells(shares, rows=[_title(*key) for key in one.scores], columns=one.words, caption=caption)

    def to_html(self) -> str:
        """A page with the words of each text, shaded by the scores of a method that is chosen; it makes no request.

        Texts can be sorted by error, where their gold label is known, or by score, and filtered by label. How faithful
        the methods are is measured for it, see :meth:`faithfulness`.
        """
        folder, model, n_texts = "causal/assets/attribute.", self.encoder.source.title, len(self.found)
        texts = []
        for one in self.found:
            (difference, _, *notes), target = self.notes(one), one.target
            texts.append(
                {
                    "words": one.words,
                    "mask": one.mask,
                    "kind": target.kind,
                    "good": target.good,
                    "bad": target.bad,
                    "gold": self.questions[one.number].gold,
                    "score": one.difference,
                    "difference": difference.removeprefix(f"{model}: "),
                    "completeness": "".join(note for note in notes if note.startswith("integrated")),
                    "special": "".join(note for note in notes if note.startswith("special")),
                    "scores": [scores.tolist() for scores in one.scores.values()],
                }
            )
        methods = [
            {"name": name, "layer": layer, "title": _title(name, layer), "isSigned": name in (*SIGNED, *self.given)}
            for name, layer in self.methods
        ]
        # Means over texts with intervals, as the page's script fills its table.
        cells = [[number_cell(*cell) for cell in of_method] for of_method in self._means.tolist()]
        for row, seconds in zip(cells, self.summary()["seconds"], strict=True):
            row.append({"text": f"{1000 * seconds:.1f}"} if np.isfinite(seconds) else None)
        columns, rows = [*(name.replace("_", " ") for name in _TESTS), "ms a text"], [one["title"] for one in methods]
        table = {"corner": "method", "columns": columns, "rows": rows, "cells": cells}
        return full_page(
            f"{folder}html",
            title=f"{self.page_title}: {' '.join(self.found[0].words)}",
            styles=["assets/cells.css", f"{folder}css"],
            scripts=["assets/cells.js", f"{folder}js"],
            values={
                "model": escape(folder_name(model)),
                "n_texts": "" if n_texts == 1 else f"Means over {n_texts} {self._unit}, in brackets 95 % intervals.",
            },
            data={"methods": methods, "texts": texts, "tables": {"faithfulness": table}},
        )

    @cached_property
    def _means(self) -> Floats:
        """``[method, test, 3]`` means of :data:`_TESTS` over texts, with lower and upper ends."""
        faithful = self.faithfulness()
        errors = {key: np.array([one.errors.get(key, np.nan) for one in self.found]) for key in self.methods}
        values = np.array([[*faithful[key], errors[key]] for key in self.methods])  # [method, test, text]
        has_value, sums = np.isfinite(values).astype(np.float64), np.nan_to_num(values)
        clusters = [self.questions[one.number].cluster or f"text {one.number}" for one in self.found]
        means = np.full(values.shape[:2], np.nan)
        np.divide(sums.sum(axis=2), has_value.sum(axis=2), out=means, where=has_value.any(axis=2))
        return np.stack([means, *intervals_over_clusters(sums, has_value, clusters)], axis=2)


def _title(method: str, layer: int) -> str:
    name = method.replace("_", " ").replace(" times ", " × ")
    return f"{name}, layer {layer}" if layer or method.startswith("gradient") else name
