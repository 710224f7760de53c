"""Two models compared by themselves: weights, losses on masked words, restored layers, speed, clusters of labels."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from operator import add
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._files import given_path
from bertology._lazy import pd, scipy, sklearn
from bertology._names import check_name
from bertology.activations.layers import LayerVectors
from bertology.comparison.findings import differences
from bertology.compression import read_compressed, timed_passes
from bertology.corpora import Sentences, Texts, as_sentences, load_corpus
from bertology.encoders import Encoder, ModelSource, model_fingerprint, model_name, open_encoder, resolve_model
from bertology.encoders.alignment import OnLong
from bertology.encoders.interventions import Replay
from bertology.encoders.loading import blocks_of
from bertology.encoders.masked_loss import SHARE, MaskedLoss, masked_lm_loss, words_to_mask
from bertology.encoders.weights import LoadedWeights, StoredWeights, WeightKind, weight_places
from bertology.errors import BertologyError, CorpusError, ModelError
from bertology.finetuning import FineTuned, TunedModel, load_tuned, read_finetuned, read_record
from bertology.landscapes import placed
from bertology.measures import bootstrap_ratio
from bertology.measures.intervals import Bootstrap
from bertology.measures.metrics import correlations, ratio
from bertology.measures.sums import (
    Bools,
    Floats,
    Integers,
    LayerSums,
    by_layer,
    cluster_sums,
    left_out_sums,
    ratio_sums,
)

By = Literal["tensor", "layer", "kind", "layer and kind"]
_ORDER = {kind: place for place, kind in enumerate(get_args(WeightKind))}
_AT_ONCE = 1 << 20  # values that are compared at once in float64
_SUMS = ("n_weights", "n_changed", "squared_a", "squared_b", "product", "squared_difference")
"""Sums over values of A and B from which distances are computed; those of several tensors add up."""


@dataclass(frozen=True, eq=False)
class WeightChanges:
    """The weights of a model B compared with those of a reference A; returned by :func:`weight_changes`."""

    tensors: pd.DataFrame
    """A row for each tensor that both have, in the order of layers, heads last: ``tensor``, its name without the prefix
    of the class that saved it, such as ``encoder.layer.0.output.dense.weight``; its ``kind``, its ``layers``, and sums
    over its values in A and B."""
    only_in_reference: tuple[str, ...]
    only_in_model: tuple[str, ...]

    @property
    def encoder_change(self) -> Mapping[str, float]:
        """``relative_l2``, ``cosine`` and ``changed`` of all tensors that belong to a layer, as of one vector."""
        tensors = self.tensors[self.tensors["layers"].map(bool)]
        return dict(_distances(tensors, np.zeros(len(tensors))).iloc[0])

    def table(self, by: By = "layer") -> pd.DataFrame:
        """A row for each tensor, layer, kind of tensor, or both.

        Columns are those of ``by`` (``tensor``, ``layer``, ``kind``), ``relative_l2`` = ‖B − A‖ / ‖A‖, ``cosine``,
        ``changed`` (the proportion of values that differ) and ``n_weights``. Layer 0 is the embeddings, 1…L the blocks;
        heads have none and are left out by layer. A tensor that serves several layers counts in each.

        Raises:
            NameNotFoundError: ``by`` is none of these.
        """
        check_name("unit of weights", by, get_args(By))
        names = by.split(" and ")
        frame = self.tensors.rename(columns={"layers": "layer"})
        if "layer" in names:
            frame = frame.explode("layer").dropna(subset="layer").astype({"layer": int})
        table = _distances(frame, names).reset_index()
        if "kind" not in names:
            return table
        ranked = table.sort_values(names, kind="stable", key=lambda of: of.map(_ORDER) if of.name == "kind" else of)
        return ranked.reset_index(drop=True)


def _distances(tensors: pd.DataFrame, by: Any) -> pd.DataFrame:
    """Distances of the tensors of each group as of one vector; NaN where one is all 0."""

    def total(values: pd.Series[Any]) -> Any:
        return reduce(add, values.tolist())

    sums = tensors.groupby(by, sort=False)[list(_SUMS)].agg(total)
    length, of_a = (np.sqrt(of.where(of > 0)) for of in (sums["squared_a"] * sums["squared_b"], sums["squared_a"]))
    columns = {"relative_l2": np.sqrt(sums["squared_difference"]) / of_a, "cosine": sums["product"] / length}
    columns |= {"changed": sums["n_changed"] / sums["n_weights"].clip(1), "n_weights": sums["n_weights"]}
    return sums[[]].assign(**columns).assign(cosine=columns["cosine"].clip(upper=1.0))


def weight_changes(reference: Any, model: Any, *, layers: Sequence[tuple[int, int]] | None = None) -> WeightChanges:
    """Differences of the weights of a model B from those of the reference A that it was made from.

    Relative L2 and cosine of each tensor, and pooled over the tensors of a layer or of a kind as of one long vector
    (cf. Radiya-Dixit & Wang 2020, section 3). Tensors are matched by name, read from the files one by one, and compared
    in float64. Heads may differ: what one of the two lacks is listed.

    >>> weight_changes("pocket", "pocket").table("layer")["relative_l2"].max()
    np.float64(0.0)

    Args:
        reference: A, as of :func:`bertology.probe`: ``pocket``, a folder, a hub id, or a transformers model and its
            tokenizer; or an :class:`~bertology.Encoder`, whose weights in memory are compared.
        model: B, likewise.
        layers: layers of B, each with the layer of A that it is compared with, such as those that a student was made
            of; each with that of the same number when left out. Other blocks are not compared.

    Raises:
        ModelError: the models have no tensor in common, or one has different shapes in the two.
    """
    with contextlib.ExitStack() as stack:
        of_a, of_b = (
            LoadedWeights(given.model, given.source.title)
            if isinstance(given, Encoder)
            else stack.enter_context(StoredWeights(resolve_model(model_name(given))))
            for given in (reference, model)
        )
        both: dict[str, str] = {}
        for name, place in of_b.places.items():
            other = name
            if layers is not None and len(place.layers) == 1 and place.layers != (0,):
                # The number of a block, from 0, is the first in a name; what comes after the last block has none.
                number = dict(layers).get(place.layers[0])
                other = "" if number is None else re.sub(r"\.\d+\.", f".{number - 1}.", name, count=1)
            if other in of_a.places:
                both[name] = other
        if not any(of_b.places[name].layers for name in both):
            raise ModelError(
                f"models {of_a.name} and {of_b.name} have no tensor of the encoder in common: give a model and one "
                "that was made from it"
            )
        places = of_b.places
        rows = [
            (name, places[name].kind, places[name].layers, *_compared(name, other, of_a, of_b))
            for name, other in both.items()
        ]
        tensors = pd.DataFrame(rows, columns=["tensor", "kind", "layers", *_SUMS])
        only_in_a = tuple(name for name in of_a.places if name not in both.values())
        return WeightChanges(tensors, only_in_a, tuple(name for name in places if name not in both))


def _compared(
    name: str, other: str, of_a: StoredWeights | LoadedWeights, of_b: StoredWeights | LoadedWeights
) -> tuple[float, ...]:
    """The sums over the values of a tensor of B and another of A, part by part in float64."""
    a, b = of_a.read(other), of_b.read(name)
    if a.shape != b.shape:
        shapes = f"{list(b.shape)}, and {list(a.shape)} in {of_a.name}"
        raise ModelError(f"model {of_b.name}: {name} is {shapes}: give models whose tensors have one shape")
    a, b = a.flatten(), b.flatten()
    sums: tuple[float, ...] = (0, 0, 0.0, 0.0, 0.0, 0.0)
    for start in range(0, len(a), _AT_ONCE):
        one, two = (values[start : start + _AT_ONCE].double().numpy() for values in (a, b))
        squares = float(one @ one), float(two @ two), float(one @ two), float(np.square(two - one).sum())
        parts = len(one), int(np.count_nonzero(one != two)), *squares
        sums = tuple(total + part for total, part in zip(sums, parts, strict=True))
    return sums


@dataclass(frozen=True, eq=False)
class MaskedLosses:
    """Losses of a reference A and a model B on the same masked words; returned by :func:`masked_losses`."""

    losses: tuple[MaskedLoss, MaskedLoss]  # losses of A and of B, by sentence and by masked word
    sentences: Sentences
    n_skipped: int
    """Words that could not be masked in both: a model has no piece for them, or the piece for what it does not know."""

    def table(self, by: str | None = None) -> pd.DataFrame:
        """The mean loss of a masked word in bits, of A, of B, and their paired difference, with 95 % intervals over
        sentences.

        Columns are ``words`` (``all``, then the labels of ``by``, a layer such as ``upos``, most frequent first),
        ``bits_reference``, ``bits_model``, ``difference`` (B − A, above 0 where B predicts worse) with ``ci_low``,
        ``ci_high``, ``p_raw`` and ``p_adj`` (Benjamini–Hochberg over the rows), ``accuracy_reference`` and
        ``accuracy_model`` (the proportion of words all of whose pieces are the most probable ones), and ``n_words``.

        Raises:
            NameNotFoundError: the sentences have no such layer.
        """
        groups, n = self.groups(by), len(self.sentences)
        of_sentence = np.searchsorted(self.sentences.starts, self.losses[0].words, side="right") - 1
        of_words = [getattr(loss, name) for name in ("word_bits", "word_right") for loss in self.losses]
        values = np.stack([*of_words, np.ones(len(of_sentence))])
        sums = np.stack([cluster_sums(values * chosen, of_sentence, n) for chosen in groups.values()])
        # [group, 5, sentence] of sentences in which a word was masked: bits and right words of A and B, and words
        sums = sums[:, :, sums[0, 4] > 0]
        n_of, totals = sums[:, 4], sums.sum(axis=2)
        bits = sums[:, :2].reshape(2 * len(groups), -1)
        scores = bootstrap_ratio(bits, np.repeat(n_of, 2, axis=0), metric="masked_loss_bits")
        pairs = [(2 * place + 1, 2 * place) for place in range(len(groups))]
        compared = differences(scores.values, scores.replicates, pairs, n_clusters=(n_of > 0).sum(axis=1))
        columns = {"words": list(groups), "bits_reference": scores.values[::2], "bits_model": scores.values[1::2]}
        frame = pd.DataFrame(columns).join(compared.drop(columns="n_sentences"))
        frame = frame.rename(columns={"difference_low": "ci_low", "difference_high": "ci_high"})
        for name, row in (("reference", 2), ("model", 3)):
            frame[f"accuracy_{name}"] = totals[:, row] / totals[:, 4]
        return frame.assign(n_words=totals[:, 4].astype(int))

    def groups(self, by: str | None) -> dict[str, Bools]:
        """``[masked word]`` masks by label of ``by``, the most frequent first after ``all``."""
        masked = self.losses[0].words
        groups = {"all": np.ones(len(masked), dtype=bool)}
        if by is None:
            return groups
        check_name("layer of labels of words", by, self.sentences.layers)
        layer = self.sentences.layers[by]
        codes = layer.codes[masked]
        counts = np.bincount(codes[codes >= 0], minlength=len(layer.values))
        for code in np.argsort(-counts, kind="stable").tolist():
            if counts[code]:
                groups[layer.values[code]] = codes == code
        return groups


def masked_losses(
    reference: Any,
    model: Any,
    sentences: Texts,
    *,
    share: float = SHARE,
    seed: int = 0,
    on_long: OnLong = "window",
    device: str = "auto",
) -> MaskedLosses:
    """Masked-word losses of a model B and a reference A on the same masked words of the same sentences.

    Whole words are masked, and the loss of a word is the sum of −log2 of the probabilities of its pieces, so that
    models with different tokenizers are measured on the same words (the number of masks tells a model how many pieces a
    word has). Words are drawn from those that both can read; a word that is unknown to a tokenizer has no loss that
    means anything.

    >>> masked_losses("pocket", "pocket", ["The dogs chased a cat ."], share=0.5).table()["difference"].tolist()
    [0.0]

    Args:
        reference: A, as of :func:`bertology.probe`, with a masked-LM head.
        model: B, likewise.
        sentences: the text.
        share: proportion of the words of a sentence that are masked, at least one word (Devlin et al. 2019, §3.1).
        seed: of the choice of words, which depends on it and on the number of the sentence.
        on_long: treatment of a sentence that is too long for a model, as in :meth:`bertology.Encoder.tokenize`.
        device: to compute on, of a model that is not loaded yet.

    Raises:
        ModelError: a model has no masked-LM head.
        CorpusError: there is no word that both models can read.
    """
    text = as_sentences(sentences)
    encoders = [open_encoder(given, device=device) for given in (reference, model)]
    for encoder in encoders:
        encoder.masked_head  # noqa: B018 - raises where there is none
    read = [encoder.tokenize(text, on_long=on_long) for encoder in encoders]
    readable = np.logical_and(*((pieces.word_window >= 0) & ~pieces.is_unknown for pieces in read))
    words = words_to_mask(text, readable, share=share, seed=seed)
    if not len(words):
        raise CorpusError("there is no word to mask that both models can read: give other sentences")
    of_a, of_b = (masked_lm_loss(encoder, text, on_long=on_long, words=words) for encoder in encoders)
    return MaskedLosses((of_a, of_b), text, int(np.count_nonzero(~readable)))


def size_and_speed(models: Sequence[Any], sentences: Texts, *, repeats: int = 5, device: str = "cpu") -> pd.DataFrame:
    """Size of models, and how fast they read the same text through all layers, on this machine, a row a model.

    Passes of the models take turns, so that other load on the machine slows them down alike; ``repeats`` of them are
    measured, after one that is not. The reference comes first. Weights that are zero cost as much time as others. Heads
    are among the weights, and no part of what is timed.

    >>> size_and_speed(["pocket"], ["The dogs chased a cat ."], repeats=1)["speedup"].tolist()
    [1.0]

    Returns:
        Columns ``model``; ``bytes_on_disk`` of its weights; ``bytes_estimated``, which the weights of a model of
        :func:`bertology.compress` could be stored in; ``parameters`` (tied weights once) and ``nonzero``;
        ``pieces_per_second`` (special tokens counted; the median of the passes) and ``words_per_second``, which models
        with different tokenizers share; and ``speedup``, the median over turns of how many times as fast as the first
        model it is, with ``speedup_low`` and ``speedup_high``.

    Raises:
        ModelError: there is no model, no repeat or no text.
    """
    if not models or repeats < 1:
        raise ModelError("speed is measured of one model or more, in one repeat or more")
    text = as_sentences(sentences)
    encoders = [open_encoder(given, device=device) for given in models]
    n_pieces, seconds = timed_passes(encoders, text, repeats=repeats)
    rates, turns = 1 / np.median(seconds, axis=1), seconds[0] / seconds
    rows = []
    for given, encoder, of_model, rate, turn in zip(models, encoders, n_pieces, rates, turns, strict=True):
        source = resolve_model(model_name(given))
        made = read_compressed(source.folder) if (source.folder / "compress.json").is_file() else None
        with StoredWeights(source) as stored:
            counts = [(values.numel(), int(torch.count_nonzero(values))) for values in map(stored.read, stored.places)]
            n_parameters, n_nonzero = (sum(some) for some in zip(*counts, strict=True))
            rows.append(
                {
                    "model": encoder.source.title,
                    "bytes_on_disk": stored.n_bytes,
                    "bytes_estimated": None if made is None else made.record.bytes_estimated,
                    "parameters": n_parameters,
                    "nonzero": n_nonzero,
                    "pieces_per_second": float(of_model * rate),
                    "words_per_second": float(text.n_words * rate),
                    "speedup": float(np.median(turn)),
                    "speedup_low": float(turn.min()),
                    "speedup_high": float(turn.max()),
                }
            )
    return pd.DataFrame(rows).astype({"bytes_estimated": "Int64"})


Order = Literal["each", "up_to", "from"]  # layers that are restored with a layer ℓ: this one alone, 0…ℓ, or ℓ…L


@dataclass(frozen=True, eq=False)
class Restored:
    """Scores of a fine-tuned model with layers of its reference; returned by :func:`restored_scores`."""

    task: str
    n_layers: int
    predictions: Mapping[tuple[int, ...], pd.DataFrame]
    """Predictions by the layers that were restored (none for the model as it is): ``item_id``, ``cluster_id``,
    ``gold``, ``pred`` and ``score``."""
    score: Callable[[pd.DataFrame], Mapping[str, Bootstrap]] = field(repr=False)
    """The metrics of the task, of predictions."""

    @cached_property
    def scores(self) -> Mapping[tuple[int, ...], Mapping[str, Bootstrap]]:
        """Scores by restored layers and metric, the main metric first."""
        return {layers: self.score(frame) for layers, frame in self.predictions.items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of the task, the main one first."""
        return tuple(self.scores[()])

    def restored(self, order: Order, layer: int) -> tuple[int, ...]:
        """The layers that are restored with a layer, as a key of :attr:`scores`."""
        first, last = (layer if order != "up_to" else 0), (layer if order != "from" else self.n_layers)
        return tuple(range(first, last + 1))

    def table(self, metric: str | None = None) -> pd.DataFrame:
        """A row for the model as it is, then for each order and layer, by one of :attr:`metrics`, or the main one.

        Columns are ``order`` (``none``, ``each``, ``up_to``, ``from``), ``layer`` (0 for the embeddings), ``value`` of
        the metric with ``ci_low`` and ``ci_high``, and the paired difference from the model as it is: ``difference``
        (below 0 where restoring costs), ``difference_low``, ``difference_high``, ``p_raw`` and ``p_adj``
        (Benjamini–Hochberg over all sets of layers). Intervals are 95 %, for other items.

        Raises:
            NameNotFoundError: the task has no such metric.
        """
        chosen = self.metrics[0] if metric is None else metric
        check_name("metric", chosen, self.metrics)
        keys = list(self.scores)
        columns = [self.scores[key][chosen] for key in keys]
        replicates = np.concatenate([column.replicates for column in columns], axis=1)
        bounds = {name: [float(getattr(one, name)[0]) for one in columns] for name in ("ci_low", "ci_high")}
        frame = pd.DataFrame({"value": [float(one.values[0]) for one in columns], **bounds})
        pairs = [(place, 0) for place in range(1, len(keys))]
        compared = differences(frame["value"], replicates, pairs, n_clusters=columns[0].n_clusters)
        compared = compared.drop(columns="n_sentences").set_axis(range(1, len(keys)))
        rows = [("none", None), *((order, layer) for order in get_args(Order) for layer in range(self.n_layers + 1))]
        places = [0 if layer is None else keys.index(self.restored(order, layer)) for order, layer in rows]
        of_rows = frame.join(compared).loc[places].reset_index(drop=True)
        return pd.DataFrame(rows, columns=["order", "layer"]).astype({"layer": "Int64"}).join(of_rows)


def restored_scores(
    reference: Any,
    model: FineTuned | str | Path | Encoder,
    corpus: Any,
    *,
    split: str = "dev",
    sentences: int | None = None,
    device: str = "auto",
) -> Restored:
    """The score of a fine-tuned model B on its task with layers put back to those of the reference A it was made from.

    Layers are restored one by one, from below (0…ℓ) and from above (ℓ…L), under B's head, its pooler with it (cf. Hao
    et al. 2019, section 5.1; Merchant et al. 2020, section 5). Layers were trained together, so that a layer of A among
    layers of B reads and writes vectors that it was never trained with. Each set of layers takes one pass over the
    items, in which layers below those that are restored, and layers of A alone, are not computed again.

    >>> restored_scores("pocket", "tuned", "sst2/").table()  # doctest: +SKIP

    Args:
        reference: A, as of :func:`bertology.probe`.
        model: B: what :func:`bertology.finetune` returned, its folder, the model folder of one seed, or the encoder of
            one. Of several seeds the first is taken.
        corpus: as of :func:`bertology.load_corpus`, with labels under the same name as those of B's training.
        split: which one is scored.
        sentences: at most so many, the first ones.
        device: to compute on.

    Raises:
        BertologyError: the folder is of no fine-tuned model.
        ModelError: B's encoder was frozen, its blocks share weights, or A is of another shape or vocabulary.
        CorpusError: there is no such split, or it lacks such labels.
    """
    part = load_corpus(corpus)[split]
    folder: Path | Encoder
    if isinstance(model, Encoder):
        folder = model
    elif isinstance(model, FineTuned):
        folder = model.folder()
    else:
        path = given_path(model)
        folder = path if (path / "config.json").is_file() else read_finetuned(path).folder()
    tuned = load_tuned(folder, part[:sentences] if sentences is not None else part, device=device)
    encoder = open_encoder(reference, device="cpu")
    variants = _restorations(tuned, encoder)
    predictions = dict(zip(variants, tuned.predictions_under(list(variants.values())), strict=True))
    return Restored(tuned.record.task, encoder.n_layers, predictions, tuned.scores)


_Context = Callable[[], contextlib.AbstractContextManager[None]]


def _restorations(tuned: TunedModel, reference: Encoder) -> dict[tuple[int, ...], _Context]:
    """Contexts in which layers of a model are restored, by these layers; recordings come before their replays."""
    encoder, model, last = tuned.encoder, tuned.model, tuned.encoder.n_layers
    if tuned.record.settings.layers == "none":
        raise ModelError(f"model {encoder.name}: its encoder was frozen, so that there is no layer to restore")
    sizes = [(one.family, one.n_layers, one.dim) for one in (reference, encoder)]
    if sizes[0] != sizes[1] or reference.tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
        problem = f"model {reference.name} is of another family, shape or vocabulary than {encoder.name}"
        raise ModelError(f"{problem}: give the model that was fine-tuned")
    body = model.base_model
    blocks = blocks_of(model, last, encoder.family)
    if len(set(map(id, blocks))) < len(blocks):
        raise ModelError(f"model {encoder.name}: its blocks share their weights, so that none is restored alone")
    # Values of the reference by layer, under the names of the fine-tuned model.
    own = {name: value.data for name, value in model.named_parameters()}
    names = {id(value): name for name, value in model.named_parameters()}
    stored, of_body = dict(reference.model.body.named_parameters()), dict(body.named_parameters())
    by_layer: dict[int, dict[str, Tensor]] = {layer: {} for layer in range(last + 1)}
    for name, place in weight_places(body, blocks).items():
        if place.layers and name in of_body:
            if name not in stored or stored[name].shape != of_body[name].shape:
                problem = f"model {reference.name}: {name} is not of the shape that it has in the fine-tuned model"
                raise ModelError(f"{problem}: give the model that was fine-tuned")
            by_layer[place.layers[0]][names[id(of_body[name])]] = stored[name].data.to(of_body[name])

    @contextlib.contextmanager
    def restored(layers: tuple[int, ...], running: _Context) -> Iterator[None]:
        weights = dict(own)
        for layer in layers:
            weights |= by_layer[layer]
        with placed(model, weights), running():
            yield

    of_b, of_a, whole = Replay(body, blocks), Replay(body, blocks), tuple(range(last + 1))
    found: dict[tuple[int, ...], _Context] = {(): of_b.recording, whole: partial(restored, whole, of_a.recording)}
    for layer in range(last):
        lower = tuple(range(layer + 1))
        found[lower] = partial(restored, lower, partial(of_a.from_layer, layer + 1))
    for is_each in (True, False):
        for layer in range(1, last + 1):
            upper = (layer,) if is_each else tuple(range(layer, last + 1))
            found[upper] = partial(restored, upper, partial(of_b.from_layer, layer))
    return found


def restorable_task(reference: ModelSource, model: ModelSource) -> str | None:
    """The task, scored by accuracy, that B was fine-tuned for from these weights of A, whose layers can be put back.

    None where B was not, with all or some of its encoder's layers. A ModelError is of a file of A that cannot be read.
    """
    try:
        record = read_record(model.folder)
    except BertologyError:
        return None  # No fine-tuned model.
    has_accuracy = any("accuracy" in scores for scores in record.scores.values())
    is_made_of_it = record.model_fingerprint == model_fingerprint(reference)
    return record.task if has_accuracy and is_made_of_it and record.settings.layers != "none" else None


# Clusters of labels: separable or not, how far apart, and in which layout.

_LEAST = 10  # words of a label, below which it is left out
_BLOCKS = 50  # number of blocks of neighbouring sentences, each of which is left out once
_COST = 1e6  # C of a support-vector machine whose margin is hard, as Zhou & Srikumar have it
_MOST = 0.5
"""Proportion of pairs that have to be separable with shuffled labels for distances to be held against theirs."""
_A, _B = "reference", "model"
_STEPS = 20_000  # iterations of its solver; where it separates nothing after them, nothing separates


def label_clusters(
    model: LayerVectors,
    reference: LayerVectors,
    labels: Sequence[str | None],
    of_sentence: Integers,
    *,
    layers: Sequence[tuple[int, int]] | None = None,
    most_labels: int = 10,
    per_label: int = 100,
    seed: int = 0,
) -> Iterator[LayerSums]:
    """The layout of word labels in a model B and in its reference A (Zhou & Srikumar 2022, section 3).

    Of every pair of labels the distance of centroids, over all words, and the distance of convex hulls, over a sample
    of each label: twice the margin of a linear support-vector machine with C = 10⁶. Words in many dimensions are always
    separable, hence the same with labels shuffled within each pair. Squared distances of centroids are less the
    sampling variance of the centroids, without which rare labels would look far apart.

    Args:
        model: vectors of words in layers of B.
        reference: vectors of the same words in layers of A.
        labels: ``[word]``, None for words that are left out.
        of_sentence: ``[word]`` the sentence of each word, in rising order.
        layers: layers of B, each with one of A; those of the same number when left out.
        most_labels: at most so many labels, the most frequent ones.
        per_label: at most so many words of each in hulls, drawn at random.
        seed: of this sample and of shuffled labels.

    Returns:
        Statistics of layers, means over pairs of labels, of A (``_reference``) and of B (``_model``): ``layout``
        (Pearson correlation between A and B of the distances of centroids) and ``layout_hulls``, ``centroids``
        (distance of centroids over the spread of words around them), ``separable`` (the proportion of pairs that a
        hyperplane separates), ``separable_shuffled`` (of B with shuffled labels: where this is 1, there are too few
        words for the dimensions, and ``separable`` means nothing) and ``hulls`` (distance of hulls over that of
        shuffled labels, left out where most of these cannot be separated). Those of centroids leave out blocks.

    Raises:
        CorpusError: fewer than three labels have ten words each, or the words of the models are not the same.
    """
    model.check_same_words(reference)
    values, codes = np.unique([label or "" for label in labels], return_inverse=True)
    counts = np.bincount(codes)
    order = [code for code in np.argsort(-counts, kind="stable") if values[code] and counts[code] >= _LEAST]
    chosen = order[:most_labels]
    if len(chosen) < 3:
        raise CorpusError(
            f"{len(chosen)} labels have {_LEAST} words or more, and clusters are compared of three or more: give more "
            "sentences, or other labels"
        )
    rank = np.full(len(values), -1, dtype=np.int64)
    rank[chosen] = np.arange(len(chosen))
    words = np.flatnonzero(rank[codes] >= 0)
    drawn = _Drawn(rank[codes][words], np.asarray(of_sentence)[words], per_label, seed)
    both = [(layer, layer) for layer in model.layers] if layers is None else list(layers)
    a = _layout((reference.of(layer)[words] for _, layer in both), drawn)
    b = _layout((model.of(layer)[words] for layer, _ in both), drawn)
    # Statistics [layer, 1 + block] of all words and without each block, and [layer, 1] of samples.
    statistics = {
        "layout": correlations(a["centroids"], b["centroids"]),
        **{f"centroids_{name}": of["centroids"].mean(axis=2) / of["spread"] for of, name in ((b, _B), (a, _A))},
    }
    statistics["centroids_change"] = statistics[f"centroids_{_B}"] - statistics[f"centroids_{_A}"]
    for layout, name in ((a, _A), (b, _B)):
        statistics[f"separable_{name}"] = (layout["hulls"] > 0).mean(axis=1, keepdims=True)
        known = layout["shuffled"] > 0
        ratios = ratio((layout["hulls"] * known).sum(axis=1), layout["shuffled"].sum(axis=1))
        statistics[f"hulls_{name}"] = np.where(known.mean(axis=1) < _MOST, np.nan, ratios)[:, None]
    statistics["separable_shuffled"] = (b["shuffled"] > 0).mean(axis=1, keepdims=True)
    statistics["layout_hulls"] = correlations(a["hulls"], b["hulls"])[:, None]
    found = []
    for name, rows in statistics.items():
        for (layer, _), row in zip(both, rows, strict=True):
            if np.isfinite(row[0]):
                is_sample = len(row) == 1
                one = ratio_sums(name, [row], None, "blocks") if is_sample else left_out_sums(name, row, "blocks")
                found.append((layer, [one]))
    return by_layer(found)


class _Drawn:
    """The choices that both models and all layers share: labels, blocks of sentences, and samples."""

    def __init__(self, codes: Integers, of_sentence: Integers, per_label: int, seed: int) -> None:
        self.n_labels = int(codes.max()) + 1
        sentences, place = np.unique(of_sentence, return_inverse=True)
        self.n_blocks = min(_BLOCKS, len(sentences))
        self.cells = place * self.n_blocks // len(sentences) * self.n_labels + codes
        """``[word]`` numbers of its block and label."""
        self.pairs = list(itertools.combinations(range(self.n_labels), 2))
        chance = np.random.default_rng(seed)
        places = [np.flatnonzero(codes == label) for label in range(self.n_labels)]
        parts = [np.sort(chance.permutation(of)[:per_label]) for of in places]
        self.sample = np.concatenate(parts)
        self.of_sample = np.repeat(np.arange(self.n_labels), [len(part) for part in parts])
        self.orders = [chance.permutation(len(parts[one]) + len(parts[other])) for one, other in self.pairs]


def _layout(layers: Iterator[NDArray[np.float32]], drawn: _Drawn) -> dict[str, Floats]:
    """By layer ``centroids`` ``[…, 1 + block, pair]`` and ``spread``; ``[…, pair]`` ``hulls``, and ``shuffled``."""
    found: dict[str, list[Any]] = defaultdict(list)
    for vectors in layers:
        centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
        for name, values in zip(("centroids", "spread"), _centroids(centred, drawn), strict=True):
            found[name].append(values)
        products, hulls = centred[drawn.sample] @ centred[drawn.sample].T, []
        for (one, other), order in zip(drawn.pairs, drawn.orders, strict=True):
            # The words of the first label come first, as the sample is by label.
            words = np.flatnonzero((drawn.of_sample == one) | (drawn.of_sample == other))
            of_pair, labels = products[np.ix_(words, words)], (drawn.of_sample[words] == other).astype(int)
            hulls.append((hull_distance(of_pair, labels), hull_distance(of_pair, labels[order])))
        for name, distances in zip(("hulls", "shuffled"), zip(*hulls, strict=True), strict=True):
            found[name].append(distances)
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}


def _centroids(vectors: Floats, drawn: _Drawn) -> tuple[Floats, Floats]:
    """``[1 + block, pair]`` distances of centroids and ``[1 + block]`` spreads: of all, then without each block."""
    n_words, n_labels, n_cells = len(vectors), drawn.n_labels, drawn.n_blocks * drawn.n_labels
    is_in = scipy.sparse.csr_array((np.ones(n_words), (drawn.cells, np.arange(n_words))), shape=(n_cells, n_words))
    total, square, size = (
        np.concatenate([part.sum(axis=0)[None], part.sum(axis=0) - part])
        for of in (vectors, np.square(vectors).sum(axis=1), np.ones(n_words))
        for part in [np.asarray(is_in @ of).reshape(drawn.n_blocks, n_labels, *of.shape[1:])]
    )
    means = total / size[..., None]
    within = square - np.square(total).sum(axis=2) / size
    variance = within / (size - 1) / size  # of a centroid
    one, other = np.array(drawn.pairs).T
    squared = np.square(means[:, one] - means[:, other]).sum(axis=2) - variance[:, one] - variance[:, other]
    spread = np.sqrt(within.sum(axis=1) / (size.sum(axis=1) - n_labels))
    return np.sqrt(np.maximum(squared, 0)), spread


def hull_distance(products: Floats, labels: Integers) -> float:
    """The distance of the convex hulls of two labels ``[word]``, from inner products ``[word, word]``."""
    with warnings.catch_warnings():
        # Where nothing separates the labels, the solver cannot converge, which is the answer.
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        fitted = sklearn.svm.SVC(kernel="precomputed", C=_COST, max_iter=_STEPS).fit(products, labels)
    if (fitted.predict(products) != labels).any():
        return 0.0
    weights, support = fitted.dual_coef_[0], fitted.support_
    return float(2 / np.sqrt(weights @ products[np.ix_(support, support)] @ weights))
