"""Subspaces of hidden states exchanged between two texts: learned for a decision (DAS), next to those of other methods.

:func:`exchange_directions` exchanges a part of what :func:`bertology.causal.patch` exchanges whole.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from bertology._lazy import pd
from bertology._names import check_name
from bertology.causal import targets
from bertology.causal.patching import check_changes, place_states
from bertology.encoders import Encoder
from bertology.encoders.batching import pieces_in_batch
from bertology.errors import ClozeError, ModelError, listed, quoted
from bertology.measures.intervals import intervals_over_clusters
from bertology.measures.metrics import ratio
from bertology.measures.sums import Bools, Floats
from bertology.readouts import ArrayFeatures, EarlyStopping, Targets, fit_erasure, get_readout

_Vectors = tuple[Tensor, Tensor, targets.Integers, Bools]
DirectionMethod = Literal["das", "mean_difference", "linear_probe", "leace", "pca", "random"]
METHODS: tuple[DirectionMethod, ...] = get_args(DirectionMethod)
_HELD_OUT_EVERY = 5  # clusters of a half; those held out end the search, and choose the strength of the probe
# The search: texts of a minibatch, minibatches of a round; parameters begin as standard normal numbers.
_TEXTS, _STEPS, _ROUNDS, _PATIENCE, _LEAST_GAIN, _RATE = 16, 8, 40, 3, 5e-3, 0.2


@dataclass(frozen=True, eq=False)
class Directions:
    """Effects of exchanged subspaces; returned by :func:`exchange_directions`.

    Each pair is two texts: in text 2n, ``text`` of pair n, states are replaced by those of ``other``, in 2n + 1 the
    reverse. Differences of states are read along ``right`` and added along ``left``, which are the same but for LEACE.
    """

    model: str
    methods: tuple[str, ...]
    layers: tuple[int, ...]
    places: tuple[str, ...]
    left: Floats
    """``[method, half, layer, place, dim, k]``, by the half of the clusters that they are fitted to."""
    right: Floats
    """``[method, half, layer, place, k, dim]``"""
    base: Floats
    """``[text]`` ln of p(answer of the source text) ÷ p(answer of this text), nothing exchanged."""
    whole: Floats
    """``[text]`` how far this rises from the text to its source."""
    changes: Floats
    """``[method, layer, place, text]`` how far it rises by the exchange (nats); NaN where a text has no such place."""
    control_changes: Floats | None
    """The same of the answers of the control task; None without it."""
    converged: Bools
    """``[half, layer, place]`` whether the search of ``das`` ended before its last round."""
    clusters: tuple[str, ...]
    """``[text]`` clusters that are resampled."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of pairs that do not fit the model, and why; they are in no array."""

    def sums(self) -> dict[str, tuple[Floats, Floats]]:
        """``[method, layer, place, text]`` numerators and denominators of each measure, 0 where there is no value.

        ``exchange_accuracy`` is the share of texts that take the answer of their source (Geiger et al. 2024, section
        3), ``exchange_effect`` the change ÷ that of the whole source text, ``log_odds_ratio_nats`` the mean change,
        ``selectivity_nats`` the same less that of the control task.
        """
        has, rise = np.isfinite(self.changes), np.nan_to_num(self.changes)
        n = has.astype(np.float64)
        found = {"exchange_accuracy": ((self.base + rise > 0) * n, n)}
        found |= {"exchange_effect": (rise, has * self.whole), "log_odds_ratio_nats": (rise, n)}
        if self.control_changes is not None:
            found["selectivity_nats"] = rise - np.nan_to_num(self.control_changes), n
        return found

    def to_pandas(self) -> "pd.DataFrame":
        """A line for each method, layer and place: ``dims``, ``n_texts``, and the measures of :meth:`sums` with bounds
        (``_low``, ``_high``) of 95 % by bootstrap over clusters."""
        index = pd.MultiIndex.from_product([self.methods, self.layers, self.places], names=["method", "layer", "place"])
        columns = {"dims": self.right.any(5).sum(4).max(1), "n_texts": np.isfinite(self.changes).sum(3)}
        for name, (over, under) in self.sums().items():
            low, high = intervals_over_clusters(over, under, self.clusters)
            columns |= {name: ratio(over.sum(3), under.sum(3)), f"{name}_low": low, f"{name}_high": high}
        return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index).reset_index()


def exchange_directions(
    encoder: Encoder,
    pairs: Sequence[targets.PatchPair],
    *,
    layers: Sequence[int] | None = None,
    places: Sequence[str] | None = None,
    methods: Sequence[DirectionMethod] = METHODS,
    dims: int = 1,
    control: bool = True,
    seed: int = 0,
) -> Directions:
    """Find the directions of a layer and place whose exchange between two texts exchanges their decisions.

    The state h of a text becomes h + R Rᵀ(s − h), s the state of the source, at all subwords of a place; R has ``dims``
    orthonormal columns. It is fitted to one half of the clusters for texts of the other half, both ways, and either
    text of a pair is the source.

    - ``das``: distributed alignment search (Geiger et al. 2024, *Finding Alignments Between Interpretable Causal
      Variables and Distributed Neural Representations*, section 3). R minimises −ln p(answer of the source), of the two
      answers, by Adam on the Q of a QR decomposition; texts of each fifth cluster end the search.
    - ``mean_difference``: of the values of texts; ``linear_probe``: of their coefficients in a logistic regression. Of
      n values these are at most n − 1 directions, whatever ``dims`` is.
    - ``leace``: what least-squares erasure of the value removes comes from the source (Belrose et al. 2023), of as many
      dimensions; no orthogonal projection, as it reads one direction and moves along another.
    - ``pca``: principal directions of the differences of the two texts' states. ``random``: drawn at random.

    The log odds-ratio is that of Arora et al. (2024), *CausalGym*: ln p(own answer) ÷ p(source's answer) without the
    exchange less that with it. In their control task values have arbitrary words as answers (*dog*, *give*), to which
    DAS is fitted anew; selectivity is the log odds-ratio less that of the control task. Here the words are drawn from
    the vocabulary, or from other labels. CausalGym exchanges the last subword of a region, not all, fits DAS to the
    probability in the whole vocabulary, and computes PCA of states.

    Args:
        encoder: a model with a head for the target of the pairs.
        pairs: those that do not fit the model are left out. Without ``values``, answers are the values of the texts.
        layers: from 0, the embeddings; all when left out.
        places: names of places; all that enough texts have when left out.
        methods: some of those above.
        dims: dimensions that are exchanged.
        control: whether to compute the control task, which takes as long again.
        seed: of what is drawn.

    Raises:
        ClozeError: no pair fits the model, one has no second answer or one value alone, or clusters are fewer than 4.
        ModelError: no head for the target, no such layer or place, too many ``dims``, or no answers for the control.
        NameNotFoundError: no such method.
    """
    for method in methods:
        check_name("method of finding directions", method, METHODS)
    chosen = tuple(range(encoder.n_layers + 1)) if layers is None else tuple(layers)
    check_changes(encoder, chosen, verb="exchange directions")
    if not 1 <= dims <= encoder.dim:
        raise ModelError(f"{dims} dimensions: give 1 to {encoder.dim}, the width of model {encoder.name}")
    if not pairs:
        raise ClozeError("no pair: give those of four clusters or more")
    kept, reasons = targets.fitting_pairs(encoder, pairs, by_word=False)
    data = _data(encoder, pairs, kept, chosen)
    if unknown := [place for place in places or () if place not in data.places]:
        raise ModelError(f"place {quoted(unknown[0])}: enough pairs have {listed(data.places)}")
    data = data._replace(places=tuple(places or data.places))
    if control:
        data = _with_control(data, seed)
    n, shape = len(data.clusters), (len(methods), 2 + 2 * control, len(chosen), len(data.places), encoder.dim, dims)
    left, right, every = torch.zeros(shape), torch.zeros(shape).mT.contiguous(), np.ones(shape[1:4], dtype=bool)
    running = every  # nothing has ended where nothing is searched for
    if "das" in methods:
        left[methods.index("das")], running = _searched(data, dims, seed)
        right[methods.index("das")] = left[methods.index("das")].mT
    others = [at for at, method in enumerate(methods) if method != "das"]  # which see no answers, those of the control
    for half, place, vectors in _vectors(data) if others else ():
        for at in others:
            factors = _factors(methods[at], vectors, dims, seed + 2 * place + half)
            left[at, half::2, :, place], right[at, half::2, :, place] = (part.float() for part in factors)
    ends = targets.scores_of_sides(encoder, data.texts)
    changes, other = np.full((len(methods), *shape[2:4], ends.shape[1]), np.nan), [1, 0, 3, 2][: shape[1]]
    for of_method, ours, theirs in zip(changes, left[:, other], right[:, other], strict=True):  # of the other half
        with torch.inference_mode():
            for fits, text, scores in _exchanged(data, np.arange(len(data.texts)), ours, theirs, every):
                encoder.check_finite("scores of the target", {encoder.n_layers: scores})
                of_method[fits[1], fits[2], text] = scores.double().cpu().numpy() - ends[0, text]
    return Directions(
        model=encoder.source.title,
        methods=tuple(methods),
        layers=chosen,
        places=data.places,
        left=left[:, :2].double().numpy(),
        right=right[:, :2].double().numpy(),
        base=ends[0, :n],
        whole=(ends[1] - ends[0])[:n],
        changes=changes[..., :n],
        control_changes=changes[..., n:] if control else None,
        converged=~running[:2],
        clusters=data.clusters,
        excluded=tuple(sorted(reasons.items())),
    )


class _Data(NamedTuple):
    """Texts of pairs; those of the control task follow, and differ in their answers."""

    encoder: Encoder
    layers: tuple[int, ...]
    places: tuple[str, ...]
    texts: list[targets.AlignedPair]  # with its source as the other text; its first answer is that of the source
    clusters: tuple[str, ...]  # [text] without the control task
    values: targets.Integers  # [text] numbers of values, without the control task
    group: targets.Integers  # [text] half of the clusters, 0 or 1; in the control task 2 or 3
    held_out: Bools  # [text] whether it ends the search, instead of being searched in


def _data(
    encoder: Encoder, pairs: Sequence[targets.PatchPair], kept: dict[int, targets.AlignedPair], layers: tuple[int, ...]
) -> _Data:
    are_given, has_place = all(all(pairs[number].values) for number in kept), defaultdict[str, set[int]](set)
    texts, values, clusters = list[targets.AlignedPair](), list[str](), list[str]()
    for number, one in kept.items():
        values += pairs[number].values if are_given else (one.target.good, one.target.bad)
        if len(one.candidates) != 2 or values[-1] == values[-2]:
            has = f"one value, {values[-1]}" if len(one.candidates) == 2 else f"one answer of target {one.target.kind}"
            raise ClozeError(f"{quoted(pairs[number].text)}: it has {has}: directions are fitted to a choice of two")
        texts += [replace(one, candidates=one.candidates[::-1]), replace(one, ids=one.ids[::-1])]
        clusters += [pairs[number].cluster or f"pair {number}"] * 2
    order = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    if len(order) < 4:
        raise ClozeError(f"{len(order)} clusters of pairs: directions are fitted to some of one half: give 4 or more")
    cluster = np.array([order[name] for name in clusters])
    group, held_out = cluster % 2, cluster // 2 % min(_HELD_OUT_EVERY, len(order) // 2) == 0
    for one, part in zip(texts, (group + 2 * held_out).tolist(), strict=True):
        for name in one.places:
            has_place[name].add(part)
    places = tuple(name for name, parts in has_place.items() if len(parts) == 4)
    codes = np.unique(values, return_inverse=True)[1]
    return _Data(encoder, layers, places, texts, tuple(clusters), codes, group, held_out)


def _with_control(data: _Data, seed: int) -> _Data:
    """The texts followed by those of the control task, in which each value has an arbitrary answer."""
    kind, n_values, encoder = data.texts[0].target.kind, int(data.values.max()) + 1, data.encoder
    used, found = {entry for one in data.texts for entry in one.candidates}, list[int]()
    size = (
        len(encoder.tokenizer) if kind == "word" else len(targets.labels_of(encoder)) if kind in ("label", "tag") else 0
    )
    drawn = iter(np.random.default_rng(seed).permutation(size).tolist())
    while len(found) < n_values:
        if (entry := next(drawn, None)) is None:
            problem = f"{n_values} values need as many arbitrary answers, and the model has {len(found)} others"
            raise ModelError(f"control task: {problem}: leave it out (control=False)")
        word = encoder.tokenizer.decode([entry]).strip() if kind == "word" else ""
        with suppress(targets.UnfitError):  # entries that no word is written with
            if entry not in used and (kind != "word" or (word.isalpha() and targets.entry_of(encoder, word) == entry)):
                found.append(entry)
    both = np.array(found)[data.values[np.arange(len(data.values))[:, None] ^ [1, 0]]].tolist()
    texts = [replace(one, candidates=tuple(answers)) for one, answers in zip(data.texts, both, strict=True)]
    group, held_out = np.concatenate([data.group, data.group + 2]), np.tile(data.held_out, 2)
    return data._replace(texts=data.texts + texts, group=group, held_out=held_out)


def _vectors(data: _Data) -> Iterator[tuple[int, int, _Vectors]]:
    """Half and place; then ``[layer, item, dim]`` states and differences from those of the source, the value of each
    and whether it is held out."""
    found: dict[tuple[int, int, str], tuple[list[int], list[Tensor]]] = {}
    for number, side, name, states in place_states(data.encoder, data.texts[: len(data.values)], data.layers):
        texts, vectors = found.setdefault((int(data.group[number]), side, name), ([], []))
        texts += [number] * states.shape[1]
        vectors.append(states.double())
    for half, (place, name) in ((half, one) for half in (0, 1) for one in enumerate(data.places)):
        texts, states = found[half, 0, name][0], torch.cat(found[half, 0, name][1], 1)
        sources = torch.cat(found[half, 1, name][1], 1)
        yield half, place, (states, sources - states, data.values[texts], data.held_out[texts])


def _factors(method: str, vectors: _Vectors, dims: int, seed: int) -> list[Tensor]:
    """``[layer, dim, k]`` and ``[layer, k, dim]`` factors of the subspace of a method; 0 where it has fewer."""
    states, differences, values, held_out = vectors
    source, n_values, present = ArrayFeatures(states), int(values.max()) + 1, np.unique(values)
    if method == "leace":
        erasure = fit_erasure(source, values, n_values)
        both = [erasure.left.mT, erasure.right]
    elif method == "random":
        drawn = torch.randn(len(states), source.dim, dims, generator=torch.Generator().manual_seed(seed))
        both = [torch.linalg.qr(drawn).Q.mT] * 2
    elif method == "pca":
        both = [torch.linalg.eigh(differences.mT @ differences).eigenvectors.flip(2).mT] * 2
    else:
        of_values = torch.stack([states[:, torch.from_numpy(values == value)].mean(1) for value in present], 1)
        if method == "linear_probe":
            train, dev = (Targets(np.where(kind, values, -1)[None], n_values) for kind in (~held_out, held_out))
            fitted = get_readout("linear").fit(source, train, dev=source, dev_targets=dev)
            of_values = fitted.model.coefficients[0, :, 0, torch.from_numpy(present)].double()
        centred = of_values - of_values.mean(1, keepdim=True)
        both = [torch.linalg.svd(centred, full_matrices=False).Vh[:, : len(present) - 1]] * 2
    left, right = (pad(part[:, :dims], (0, 0, 0, max(0, dims - part.shape[1]))) for part in both)
    return [left.mT, right]


def _exchanged(
    data: _Data, numbers: targets.Integers, left: Tensor, right: Tensor, which: Bools
) -> Iterator[tuple[tuple[Tensor, ...], targets.Integers, Tensor]]:
    """Subspaces as indices, texts in whose states they are exchanged, and the scores of these, ln p(answer of the
    source) ÷ p(own answer). Of subspaces ``[group, layer, place, …]`` those are exchanged that ``which`` says."""
    left, right = (part.to(data.encoder.device) for part in (left, right))
    allowed = torch.from_numpy(which)
    for batch, rows in targets.batches(data.encoder, [data.texts[number] for number in numbers], 1):
        decision, ids = targets.Decision(data.encoder, rows), targets.ids_of(rows, 0)
        states = [decision.states(targets.ids_of(rows, side), layers=data.layers) for side in (0, 1)]
        is_at = torch.zeros(len(rows), len(data.places), ids.shape[1], 1, dtype=torch.bool)
        for row, place in np.ndindex(is_at.shape[:2]):
            is_at[row, place, rows[row].places.get(data.places[place], [])] = True
        row_of, place_of = is_at.flatten(2).any(2).nonzero().T
        group_of = torch.from_numpy(data.group[numbers[batch]])[row_of]
        size = max(1, pieces_in_batch(data.encoder.device) // ids.shape[1])
        for at, layer in enumerate(data.layers):
            cells = torch.stack([group_of, place_of, row_of])[:, allowed[group_of, at, place_of]]
            for start in range(0, cells.shape[1], size):
                group, place, row = cells[:, start : start + size]
                base, source = (of_side[layer][row] for of_side in states)
                moved = (source - base) @ right[group, at, place].mT.to(base) @ left[group, at, place].mT.to(base)
                state = base + moved * is_at[row, place].to(base)
                fits = group, torch.full_like(group, at), place
                yield fits, numbers[batch][row.numpy()], decision(ids[row], row, resumed=(layer, state))


def _searched(data: _Data, dims: int, seed: int) -> tuple[Tensor, Bools]:
    """Distributed alignment search: ``[group, layer, place, dim, k]`` subspaces, and whether the search of each went on
    after the last round. Each is a fit of its own, all in the same minibatches."""
    shape, random = (len(np.unique(data.group)), len(data.layers), len(data.places)), np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(*shape, data.encoder.dim, dims, generator=generator, requires_grad=True)
    best, optimizer = torch.linalg.qr(weights.detach()).Q, torch.optim.Adam([weights], lr=_RATE)
    stopping = EarlyStopping(shape, _PATIENCE, least_gain=_LEAST_GAIN, floor=-np.inf)
    train, held_out = np.flatnonzero(~data.held_out), np.flatnonzero(data.held_out)
    for number in range(1, _ROUNDS + 1):
        moves = torch.zeros(shape, dtype=torch.bool)
        for _ in range(_STEPS):
            bases = torch.linalg.qr(weights).Q
            leaf, gradient = bases.detach().requires_grad_(), torch.zeros_like(bases)
            texts = random.permutation(train)[: _TEXTS * shape[0] // 2]
            for _, _, scores in _exchanged(data, texts, leaf, leaf.mT, stopping.running):
                if scores.requires_grad:  # nothing above the layer of a probe matters
                    gradient += torch.autograd.grad(softplus(-scores).sum(), leaf)[0]
            moves |= gradient.flatten(3).any(3)
            optimizer.zero_grad()
            bases.backward(gradient)
            optimizer.step()
        stopping.running &= moves.numpy()  # an exchange that changes no score is not searched for
        bases, sums = torch.linalg.qr(weights.detach()).Q, torch.zeros(2, *shape, dtype=torch.float64)
        with torch.no_grad():
            for fits, _, scores in _exchanged(data, held_out, bases, bases.mT, stopping.running):
                sums[0].index_put_(fits, -softplus(-scores).double().cpu(), accumulate=True)
                sums[1].index_put_(fits, torch.ones(len(scores), dtype=torch.float64), accumulate=True)
        better = torch.from_numpy(stopping.judge(number, (sums[0] / sums[1].clamp(min=1)).numpy()))
        best[better] = bases[better]
        if not stopping.running.any():
            break
    return best, stopping.running
