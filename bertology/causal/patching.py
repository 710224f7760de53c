"""States of other texts, or of clean ones, put into the forward pass over a text, layer by layer and place by place.

:func:`patch` exchanges states of two texts (interchange intervention), :func:`trace` restores states of a text whose
subject is noised. Both make :class:`Passes` for a decision of the model (``targets.py``) and fill a
:class:`PatchingMap`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from bertology._lazy import figures, pd
from bertology._names import aligned as in_columns
from bertology._names import by_key, check_name, decimals, folder_name, layer_label, signed
from bertology._page import PageAndFigure, full_page, number_cell
from bertology.causal import targets
from bertology.causal.items import Fact, subject_pairs
from bertology.causal.targets import SPECIAL, AlignedPair, Decision, Integers, PatchPair, Target
from bertology.cloze import Prompt, ask
from bertology.encoders import Encoder
from bertology.encoders.interventions import SITES, Change, Intervention, Site, intervening, starting_from
from bertology.errors import ClozeError, ModelError, listed, quoted
from bertology.measures.intervals import intervals_over_clusters
from bertology.measures.sums import Floats

Item = TypeVar("Item")
Direction = Literal["denoise", "noise"]
Source = Literal["pair", "unrelated", "same_value", "mean_difference"]
Method = Literal["exact", "attribution", "both"]
_ALL_PIECES, _SUBJECT = "all", "subject"
_MOST_SHOWN = 200  # pairs whose texts stand on a page
_END_NAMES = ("in the base text, which is patched", "in the source text"), ("with the subject noised", "as it is")
_WHENCE = {
    "pair": "",
    "unrelated": ", states of unrelated texts of its value",
    "same_value": ", states of unrelated texts of the same value",
    "mean_difference": ", moved by the difference of means",
}


@dataclass(frozen=True, eq=False)
class PatchingMap(PageAndFigure):
    """Effects on a prediction of taking one place of one layer from another text; returned by :func:`patch`.

    The effect of a place is the change of the score (difference of the two logits, or log-probability of the one word)
    ÷ the change that the whole other text makes, both summed over pairs: 0 where patching changes nothing, 1 where it
    changes all. A notebook displays the page of :meth:`to_html`; ``.save(path)`` writes it (``.html``) or the figure
    (``.svg``, ``.pdf`` or ``.png``).
    """

    page_title: ClassVar[str] = "Effects of exchanged states"
    page_height: ClassVar[int] = 720

    model: str
    site: str
    direction: str
    source: str
    """Source of states: ``pair``, ``unrelated``, ``same_value``, ``mean_difference``; or ``noise``, of a pass
    over the same text into one whose subject is noised (:func:`trace`)."""
    layers: tuple[int, ...]
    places: tuple[str, ...]
    """Names of places; of the site ``head`` the heads."""
    changes: Floats
    """``[layer, place, pair]`` change of the score; NaN where a pair has no such place."""
    whole: Floats
    """``[pair]`` the change that the whole other text makes."""
    base: Floats
    """``[pair]`` the score in the text that is patched, as it is."""
    pairs: tuple[PatchPair, ...]
    """``[pair]`` the texts and what is predicted of them; of :func:`trace` the fact in both, with its object."""
    targets: tuple[Target, ...]
    """``[pair]`` the target with all its names, those that the model predicts included."""
    clusters: tuple[str, ...]
    """``[pair]`` clusters that are resampled."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the pairs that could not be patched, and why; they are in no array."""
    estimates: Floats | None = None
    """``[layer, place, pair]`` estimates of ``changes`` by attribution patching, where both were asked for."""
    steps: int = 0
    """Steps of the path of the estimates; 0 where there are none."""

    @cached_property
    def effects(self) -> Floats:
        """``[layer, place]`` change of the score divided by that of the whole other text; NaN where that is 0."""
        return self._shares(self.changes)

    @cached_property
    def estimated_effects(self) -> Floats | None:
        """``[layer, place]`` the effects by attribution patching; None where they were not asked for."""
        return None if self.estimates is None else self._shares(self.estimates)

    def _shares(self, changes: Floats) -> Floats:
        changed, whole = np.nansum(changes, axis=2), self._denominators.sum(axis=2)
        return np.asarray(np.divide(changed, whole, out=np.full_like(whole, np.nan), where=whole != 0))

    @property
    def _denominators(self) -> Floats:
        """``[layer, place, pair]`` the whole change of pairs that have the place."""
        return np.where(np.isnan(self.changes), 0.0, self.whole)

    @cached_property
    def right(self) -> Floats:
        """``[layer, place, pair]`` of two words, 1 where the one chosen is that which the source's value calls for; NaN
        where a pair has no such place. Its mean is interchange-intervention accuracy (Geiger et al. 2021, section 3.2).
        """
        wanted = (1 if self.direction == "denoise" else -1) * (-1 if self.source == "same_value" else 1)
        right = (np.sign(self.base + self.changes) == wanted).astype(np.float64)
        return np.where(np.isnan(self.changes), np.nan, right)

    def to_pandas(self) -> "pd.DataFrame":
        """A line for each layer and place: ``layer``, ``place``, ``effect``, ``ci_low``, ``ci_high``, ``n_pairs``.

        Intervals of 95 % are by bootstrap over clusters of pairs; NaN for fewer than two clusters. In every line are
        the scores between which the effects lie, means over pairs: ``base_score`` where the effect is 0,
        ``source_score`` where it is 1, and their ``measure`` in words.
        """
        index = pd.MultiIndex.from_product([self.layers, self.places], names=["layer", "place"])
        (low, high), n_pairs = self._intervals, np.isfinite(self.changes).sum(axis=2)
        columns = {"effect": self.effects, "ci_low": low, "ci_high": high, "n_pairs": n_pairs}
        columns |= {} if self.estimated_effects is None else {"estimate": self.estimated_effects}
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index).reset_index()
        base, source = self._ends
        return frame.assign(base_score=base, source_score=source, measure=self._measure)

    @property
    def _ends(self) -> tuple[float, float]:
        """The scores of effect 0 and of effect 1, means over pairs."""
        return float(self.base.mean()), float((self.base + self.whole).mean())

    @cached_property
    def _intervals(self) -> tuple[Floats, Floats]:
        return intervals_over_clusters(np.nan_to_num(self.changes), self._denominators, self.clusters)

    def __str__(self) -> str:
        rows = zip(self.layers, self.effects.tolist(), strict=True)
        lines = [[str(layer), *(f"{decimals(value):>5}" for value in row)] for layer, row in rows]
        notes = [self.about, self.scores, *filter(None, [self.error])]
        return "\n".join([*in_columns([["layer", *self.places], *lines], right=0), "", *notes])

    @property
    def about(self) -> str:
        """What is exchanged in which model, and the number of pairs."""
        left_out = f", {len(self.excluded)} left out" if self.excluded else ""
        return f"{self.model}, {self._exchange}; pairs: {len(self.pairs)}{left_out}"

    @property
    def error(self) -> str:
        """How far estimates by attribution patching are from the effects; empty where there are not both."""
        if self.estimated_effects is None:
            path = f"mean gradient of {self.steps} steps" if self.steps > 1 else "gradient of the patched text"
            return f"effects are estimates by attribution patching ({path})" if self.steps else ""
        exact, estimate = (one[np.isfinite(self.effects)] for one in (self.effects, self.estimated_effects))
        worst, mean = float(np.abs(estimate - exact).max()), float(np.abs(estimate - exact).mean())
        varies = len(exact) > 1 and exact.std() > 0 and estimate.std() > 0
        along = f", correlation {np.corrcoef(exact, estimate)[0, 1]:.2f}" if varies else ""
        errors = f"mean error of an effect {mean:.2f}, largest {worst:.2f}{along}"
        return f"attribution patching, steps: {self.steps}; {errors}"

    @property
    def scores(self) -> str:
        """The scores between which the effects lie: ``logit of are − logit of is: …``, means over pairs."""
        base, source = map(signed, self._ends)
        zero, one = _END_NAMES[self.source == "noise"]
        return f"{self._measure}: {base} {zero} (effect 0), {source} {one} (effect 1)"

    @property
    def _exchange(self) -> str:
        site = self.site.replace("_", " ")
        if self.source == "noise":
            return f"{site} restored"
        into = "other text into text" if self.direction == "noise" else "text into other text"
        return f"{site}, {into}{_WHENCE[self.source]}"

    @property
    def _measure(self) -> str:
        if self.source == "noise" and self.targets[0].kind == "word":
            return "probability of the object"
        return name_of_score(self.targets)

    def plot(self) -> "figures.ShownFigure":
        """The effects as a heatmap, layers from the bottom up; the figure has ``.save("patching.svg")``."""
        how: Any = {"rows": list(map(str, self.layers)), "columns": self.places, "row_title": "layer"}
        return figures.draw_cells(self.effects, caption=self.about, origin="lower", **how)

    def to_html(self) -> str:
        """A page with the texts and the effects, as a table of shaded cells; it makes no request."""
        reasons = Counter(reason for _, reason in self.excluded).most_common()
        return full_page(
            "causal/assets/patch.html",
            title=f"{self.page_title}: {self.pairs[0].text}",
            styles=["assets/cells.css"],
            scripts=["assets/cells.js"],
            data={"tables": {"texts": self._texts(), "effects": self._cells()}},
            about=f"{folder_name(self.model)}, {self._exchange}",
            scores=self.scores,
            n_pairs=len(self.pairs),
            n_shown=_MOST_SHOWN,
            place="head" if self.site == "head" else "place",
            reasons=reasons,
        )

    def _texts(self) -> dict[str, Any]:
        """The texts as the page's script fills their table: of each pair that of effect 0, then that of effect 1."""
        shown, cells = self.pairs[:_MOST_SHOWN], []
        for pair, target, base, whole in zip(shown, self.targets, self.base, self.whole, strict=False):
            texts, parts = pair.sentences(), []
            for side in (texts, texts[::-1]):  # in parts, each with whether it is a word that differs
                of_text = list[tuple[str, bool]]()
                for one, other in zip(*side, strict=True):
                    ends = [0, *(stop for _, stop in one.spans)]
                    of_text += [(" · ", False)] * bool(of_text)
                    for (start, stop), end, a, b in zip(one.spans, ends, one.words, other.words, strict=False):
                        of_text += [(one.text[end:start], False), (one.text[start:stop], a != b)]
                    of_text.append((one.text[ends[-1] :], False))
                parts.append(of_text)
            words = {"text": " / ".join(dict.fromkeys(filter(None, (target.good, target.bad))))}
            ordered = parts[:: -1 if self.direction == "denoise" else 1]
            for text, score in zip(ordered, (base, base + whole), strict=True):
                cells.append([{"parts": text}, words, {"text": signed(score)}])
        names = [f"effect {end}: {name}" for end, name in enumerate(_END_NAMES[self.source == "noise"])]
        columns = ["text", "words" if self.targets[0].kind == "word" else "target", self._measure]
        return {"corner": "", "columns": columns, "rows": names * len(shown), "cells": cells}

    def _cells(self) -> dict[str, Any]:
        """The effects as the page's script fills their table, the embeddings at the bottom."""
        words = self.pairs[0].words()
        differ = {name for name, a, b in zip(targets.word_names(words), *words, strict=True) if a != b} | {"changed"}
        (low, high), cells = self._intervals, []
        for i, layer in reversed(list(enumerate(map(layer_label, self.layers)))):
            cells.append([number_cell(self.effects[i, j], low[i, j], high[i, j]) for j in range(len(self.places))])
            for j, cell in enumerate(cells[-1]):
                if cell is not None:
                    after = (self.base + self.changes[i, j])[np.isfinite(self.changes[i, j])]
                    says = f"Layer {layer}, {self.places[j]}: effect {cell['text']} {cell['more']}".rstrip()
                    says += f"; {self._measure} {signed(after.mean())}; pairs: {len(after)}"
                    cell |= {"share": self.effects[i, j], "says": says}
        return {
            "corner": "layer",
            "columns": self.places,
            "marked": [number for number, place in enumerate(self.places) if place in differ],
            "rows": [layer_label(layer) for layer in reversed(self.layers)],
            "cells": cells,
        }


def name_of_score(every: Sequence[Target]) -> str:
    """Name of the score of texts with these targets, all of one kind."""
    first, *others = dict.fromkeys(every)
    if not others:
        return first.of(first.good, first.bad)
    what = "word" if first.kind == "word" else "label" if first.kind == "probe" else first.kind
    unlike = replace(first, word=0)
    return unlike.of(f"the first {what}", f"the second {what}") if first.bad else unlike.of("", "")


def place_states(
    encoder: Encoder, aligned: Sequence[AlignedPair], layers: Sequence[int]
) -> Iterator[tuple[int, int, str, Tensor]]:
    """``[layer, piece, dim]`` states of each place of both texts of pairs, with number of the pair, side and name."""
    for batch, rows in targets.batches(encoder, aligned, 1):
        for side in (0, 1):
            states = Decision(encoder, rows).states(targets.ids_of(rows, side), layers=layers)
            stacked = torch.stack([states[layer].float().cpu() for layer in layers])  # [layer, pair, piece, dim]
            for row, number in enumerate(batch):
                for name, pieces in aligned[number].places.items():
                    yield number, side, name, stacked[:, row, torch.from_numpy(pieces)]


class Cell(NamedTuple):
    """A place whose states are exchanged."""

    name: str
    pieces: Integers
    head: int | None = None  # number from 1; all heads when left out


class Passes:
    """The plain passes over source and base texts of one length, and patched ones that start from the base.

    Blocks below what is patched are computed once.

    Texts are ``[row, piece]``. ``noise`` ``[row, piece, dim]`` is added to the embeddings of the base, which is then
    the source; ``window`` is the number of layers in which what a block computes is exchanged together, around the one
    named.
    """

    def __init__(
        self,
        decision: Decision,
        source: Tensor,
        base: Tensor,
        *,
        site: Site,
        noise: Tensor | None = None,
        window: int = 1,
    ) -> None:
        self._decision, self._encoder, self._site, self._ids = decision, decision.encoder, site, base
        self._window, self._noise = window, noise
        self._of_source: dict[int, Tensor] = {}
        self._of_start = {} if site != "hidden_state" else self._of_source
        kept = self._keeping(self._of_source, site)
        kept += self._keeping(self._of_start, "hidden_state", (0,)) if site != "hidden_state" else []
        with intervening_in(self._encoder, kept):
            self.source_scores = decision.scores(source)
        """``[row]`` scores of the source texts."""

    @cached_property
    def _base(self) -> tuple[dict[int, Tensor], dict[int, Tensor], Tensor]:
        """Hidden states of the base, what the site computes, both by layer, and ``[row]`` scores."""
        states, of_site, start = dict[int, Tensor](), dict[int, Tensor](), self._of_start[0]
        kept = self._keeping(states, "hidden_state")
        kept += self._keeping(of_site, self._site) if self._site != "hidden_state" else []
        noised = nullcontext() if self._noise is None else self._starting(start + self._noise.to(start))
        with noised, intervening_in(self._encoder, kept):
            scores = self._decision.scores(self._ids)
        return states, of_site or states, scores

    @cached_property
    def base_scores(self) -> Tensor:
        """``[row]`` scores of the base texts."""
        return self._base[2]

    def _starting(self, state: Tensor) -> AbstractContextManager[None]:
        """Begin with ``[row, piece, dim]`` embeddings; what is kept or changed inside the context sees these."""
        model = self._encoder.model
        return starting_from(model.body, model.blocks, 0, self._decision.fold(state))

    def _keeping(self, into: dict[int, Tensor], site: Site, layers: Sequence[int] | None = None) -> list[Intervention]:
        def keep(layer: int, values: Tensor) -> Tensor:
            into[layer] = self._decision.unfold(values if site == "hidden_state" else values.clone())
            return values

        return [Intervention(n, partial(keep, n), site) for n in _layers(self._encoder, site, layers)]

    def move(self, shifts: dict[int, Tensor]) -> None:
        """Set the source to the base shifted by ``[row, piece, dim]`` in each layer."""
        states = self._base[0]
        self._of_source = {layer: states[layer] + shift.to(states[layer]) for layer, shift in shifts.items()}

    def changes(self, layer: int, cells: Sequence[tuple[int, Cell]]) -> Tensor:
        """``[cell]`` changes of the score of a row of the base by patching a cell at a layer."""
        encoder, rows = self._encoder, torch.tensor([row for row, _ in cells])
        of_source = next(iter(self._of_source.values()))
        width = of_source.shape[2] // encoder.n_heads
        is_patched = torch.zeros(len(cells), *of_source.shape[1:], dtype=torch.bool)
        for number, (_, cell) in enumerate(cells):
            dims = slice(None) if cell.head is None else slice((cell.head - 1) * width, cell.head * width)
            is_patched[number, torch.from_numpy(cell.pieces), dims] = True
        is_patched = is_patched.to(of_source.device)

        def exchange(layer: int) -> Change:
            fold, source = self._decision.fold, self._of_source[layer][rows]
            return lambda values: torch.where(fold(is_patched), fold(source), values)

        if self._site == "hidden_state":
            begin, exchanged = layer, []
            start = torch.where(is_patched, self._of_source[layer][rows], self._base[0][layer][rows])
        else:
            lowest = layer - (self._window - 1) // 2
            layers = range(max(lowest, 1), min(lowest + self._window, encoder.n_layers + 1))
            begin, exchanged = layers[0] - 1, [Intervention(n, exchange(n), self._site) for n in layers]
            start = self._base[0][begin][rows]
        with intervening_in(encoder, exchanged):
            changed = self._decision.scores(self._ids[rows], rows, resumed=(begin, start))
        return changed - self.base_scores[rows]

    def linear_changes(self, layers: Sequence[int], cells: Sequence[tuple[int, Cell]], *, steps: int) -> Tensor:
        """``[layer, cell]`` first-order estimates of :meth:`changes`: (source − base) · gradient of the score, summed.

        With one step the gradient is that of the base (attribution patching; Nanda 2023, Syed et al. 2024). With more
        it is the mean along the straight path from the embeddings of the base to those of the source, at the middle of
        each step (Hanna et al. 2024, EAP-IG, *inputs*). All layers and cells take as many forward and backward passes.
        """
        slopes = {layer: torch.zeros(()) for layer in layers}
        for share in path_shares(steps):
            begin: AbstractContextManager[None] = nullcontext()
            if share:
                start, end = self._base[0][0], self._of_start[0]
                begin = self._starting(start + share * (end - start))
            with begin:
                of_base, gradients, scores = with_gradients(self._decision, layers, self._ids, site=self._site)
            slopes = {layer: slopes[layer] + gradients[layer] / steps for layer in layers}
        if steps == 1:
            self.base_scores = scores
        else:
            of_base = self._base[1]
        found, n_parts = np.zeros((len(layers), len(cells))), self._encoder.n_heads if self._site == "head" else 1
        for place, layer in enumerate(layers):
            product = ((self._of_source[layer] - of_base[layer]) * slopes[layer]).double().cpu()
            parts = product.reshape(*product.shape[:2], n_parts, -1).sum(-1).numpy()  # [row, piece, head]
            for number, (row, cell) in enumerate(cells):
                heads = slice(None) if cell.head is None else cell.head - 1
                found[place, number] = parts[row, cell.pieces][:, heads].sum()
        return torch.from_numpy(found)


def intervening_in(encoder: Encoder, interventions: Sequence[Intervention]) -> AbstractContextManager[None]:
    """Changes of what an encoder computes, in passes inside the context."""
    body, blocks = encoder.model.body, encoder.model.blocks
    return intervening(body, blocks, interventions, n_heads=encoder.n_heads, family=encoder.family)


def with_gradients(
    decision: Decision, layers: Sequence[int], *texts: Tensor, site: Site = "hidden_state"
) -> tuple[dict[int, Tensor], dict[int, Tensor], Tensor]:
    """``[row, piece, dim]`` values of a site with the gradients of the score, by layer, and ``[row]`` scores of texts,
    which are given as the decision is called. Gradients are zero above all that the score depends on."""
    kept: dict[int, Tensor] = {}

    def keep(layer: int, values: Tensor) -> Tensor:
        kept[layer] = values if values.requires_grad else values.detach().requires_grad_(True)
        return kept[layer]

    keeping = [Intervention(layer, partial(keep, layer), site) for layer in layers]
    with torch.enable_grad(), intervening_in(decision.encoder, keeping):
        scores = decision(*texts)
        of_layers = [kept[layer] for layer in layers]
        found = torch.autograd.grad(scores.sum(), of_layers, allow_unused=True, materialize_grads=True)
    values = {layer: decision.unfold(kept[layer].detach()) for layer in layers}
    slopes = {layer: decision.unfold(one) for layer, one in zip(layers, found, strict=True)}
    return values, slopes, scores.detach().double().cpu()


def path_shares(steps: int) -> list[float]:
    """Points of the path from a text (0) to the other (1): the text itself, or the middle of each of several steps."""
    if steps < 1:
        raise ClozeError(f"{steps} steps: give one or more")
    return [0.0] if steps == 1 else [(step + 0.5) / steps for step in range(steps)]


def checked_pairs(pairs: PatchPair | Sequence[PatchPair]) -> list[PatchPair]:
    """One or several pairs as a list; a :class:`ClozeError` where there is none, or their scores are of two kinds."""
    asked = [pairs] if isinstance(pairs, PatchPair) else list(pairs)
    if not asked:
        raise ClozeError("no pair: give at least one")
    if len({(pair.target.kind, bool(pair.asked.bad)) for pair in asked}) > 1:
        raise ClozeError("pairs with one word and with two: give all of them a second word (bad), or none")
    return asked


@Encoder.comes_first
def patch(
    encoder: Encoder,
    pairs: PatchPair | Sequence[PatchPair],
    *,
    site: Site = "hidden_state",
    layers: Sequence[int] | None = None,
    direction: Direction = "denoise",
    by_word: bool | None = None,
    source: Source = "pair",
    method: Method = "exact",
    steps: int = 1,
) -> PatchingMap:
    """Find the states that decide about a prediction: layer × place, or layer × head.

    For each layer and place the pass over one text goes on with other states at that place alone (Vig et al. 2020;
    Geiger et al. 2021; Meng et al. 2022, section 2). Blocks below the layer are computed once. Attribution patching
    estimates the effect of all of them to first order, by one backward pass.

    Args:
        encoder: a model with a head for the target of the pairs.
        pairs: one or several; of several, those that do not fit the model are left out and listed.
        site: what is exchanged; with ``head`` the output of each head at all pieces, so that places are heads.
        layers: all when left out: from 0 for hidden states, else from 1.
        direction: ``denoise`` puts states of ``text`` into the pass over ``other``, ``noise`` the other way round.
        by_word: each word is a place of its own; that is so of one pair when left out.
        source: where states come from. ``pair``: the other text of the pair. ``unrelated``: a text of another cluster
            that has the same value of what decides, such as a plural subject, its places where this one has them, and
            other words there.
            ``same_value``: such a text with the value of the text that is patched, so that nothing should change.
            ``mean_difference``: the text itself, moved by the difference of the mean states of texts of either value,
            of a half of the clusters that it is not in; of hidden states alone.
        method: ``exact``; ``attribution``, the estimate alone (:meth:`Passes.linear_changes`); or ``both``, the exact
            effects with the estimates next to them.
        steps: of the path along which the gradient of the estimate is averaged; 1 takes that of the patched text.

    Raises:
        ClozeError: no pair fits the model, or pairs do not have the values that ``source`` needs.
        ModelError: no head for the target, a layer that the model does not have, or a site that is not known of its
            family.
        NameNotFoundError: no such site, direction or source.
    """
    asked = checked_pairs(pairs)
    check_name("site of an intervention", site, SITES)
    check_name("direction of patching", direction, get_args(Direction))
    check_name("source of states", source, get_args(Source))
    check_name("method of patching", method, get_args(Method))
    if source == "mean_difference" and site != "hidden_state":
        raise ModelError(f"source {source}: it moves hidden states: leave the site out, or take another source")
    path_shares(steps)  # refuses fewer than one
    chosen = _layers(encoder, site, layers)
    check_changes(encoder, chosen, site, verb="patch")
    kept, reasons = targets.fitting_pairs(encoder, asked, by_word=len(asked) == 1 if by_word is None else by_word)
    from_, into = (0, 1) if direction == "denoise" else (1, 0)
    sources = {number: one.ids[from_] for number, one in kept.items()}
    if source in ("unrelated", "same_value"):
        sources = donors(asked, kept, from_ if source == "unrelated" else into)
        without = "no other pair with its words in the same places has the same value"
        reasons |= {number: without for number in kept if number not in sources}
        kept = {number: kept[number] for number in sources}
    shifts = mean_differences(encoder, asked, kept, from_, chosen) if source == "mean_difference" else None
    numbers, ones = list(kept), list(kept.values())

    def start(batch: Sequence[int]) -> tuple[Passes, Tensor]:
        some = [ones[place] for place in batch]
        decision = Decision(encoder, some)
        of_source = torch.from_numpy(np.stack([sources[numbers[place]] for place in batch]))
        passes = Passes(decision, of_source, targets.ids_of(some, into), site=site)
        if shifts is not None:
            passes.move(shifts([numbers[place] for place in batch]))
        return passes, passes.source_scores if source == "pair" else decision.scores(targets.ids_of(some, from_))

    cells = [_cells(one, encoder.n_heads if site == "head" else 0) for one in ones]
    return PatchingMap(
        model=encoder.source.title,
        site=site,
        direction=direction,
        source=source,
        pairs=tuple(asked[number] for number in kept),
        targets=tuple(one.target for one in ones),
        steps=0 if method == "exact" else steps,
        clusters=tuple(asked[number].cluster or f"pair {number}" for number in kept),
        excluded=tuple(sorted(reasons.items())),
        **_measured(encoder, ones, cells, chosen, start, last=(SPECIAL, _ALL_PIECES), method=method, steps=steps),
    )


def check_changes(encoder: Encoder, layers: Sequence[int], site: Site = "hidden_state", *, verb: str) -> None:
    """Raise a :class:`ModelError` where the predictions of a model cannot be changed in these layers."""
    if encoder.is_gated:
        raise ModelError(f"heads are gated: {verb} outside of gated_heads")
    for layer in layers:
        Intervention(layer, lambda state: state, site).check(n_layers=encoder.n_layers, n_heads=encoder.n_heads)


def _layers(encoder: Encoder, site: Site, layers: Sequence[int] | None) -> tuple[int, ...]:
    """The chosen layers: all when left out, from 1 for outputs inside blocks."""
    return tuple(range(site != "hidden_state", encoder.n_layers + 1)) if layers is None else tuple(layers)


def _cells(pair: AlignedPair, n_heads: int) -> list[Cell]:
    """Places of a pair, or heads at all pieces, and all of them."""
    every = np.arange(len(pair.ids[0]))
    heads = [Cell(f"H{head}", every, head) for head in range(1, n_heads + 1)]
    return [*(heads or [Cell(name, pieces) for name, pieces in pair.places.items()]), Cell(_ALL_PIECES, every)]


def _measured(
    encoder: Encoder,
    ones: Sequence[AlignedPair],
    cells: Sequence[Sequence[Cell]],
    layers: Sequence[int],
    start: Callable[[Sequence[int]], tuple[Passes, Tensor]],
    *,
    last: Sequence[str],
    n_draws: int = 1,
    method: Method = "exact",
    steps: int = 1,
) -> dict[str, Any]:
    """Places, changes with their estimates, whole changes and base scores of a :class:`PatchingMap`, from ``[pair]``
    cells.

    ``start`` makes for numbers of pairs the passes, with ``n_draws`` rows for each, whose mean is taken, and the scores
    of the source. The places ``last`` come last.
    """
    every = dict.fromkeys(cell.name for of_pair in cells for cell in of_pair)
    names = tuple([name for name in every if name not in last] + [name for name in last if name in every])
    changes, estimates = np.full((2, len(layers), len(names), len(ones)), np.nan)
    whole, base = np.zeros((2, len(ones)))

    def means(scores: Tensor) -> Floats:
        return np.asarray(scores.reshape(-1, n_draws).mean(1).numpy())

    for batch, _ in targets.batches(encoder, ones, 1 if method == "attribution" else n_draws * len(names)):
        passes, of_source = start(batch)
        of_batch = [(place, cell) for place, number in enumerate(batch) for cell in cells[number]]
        rows = [(place * n_draws + draw, cell) for place, cell in of_batch for draw in range(n_draws)]
        into = tuple(np.array([(names.index(cell.name), batch[place]) for place, cell in of_batch]).T)
        estimated = passes.linear_changes(layers, rows, steps=steps) if method != "exact" else None
        base[batch], whole[batch] = means(passes.base_scores), means(of_source - passes.base_scores)
        for at, layer in enumerate(layers):
            if method != "attribution":
                changes[at][into] = means(passes.changes(layer, rows))
            if estimated is not None:
                estimates[at][into] = means(estimated[at])
    found = {"layers": tuple(layers), "places": names, "whole": whole, "base": base}
    first, second = (estimates, None) if method == "attribution" else (changes, estimates if method == "both" else None)
    return found | {"changes": first, "estimates": second}


class NoOtherTextError(ClozeError):
    """No pair has a text of another cluster with the value that is wanted."""


def donors(
    pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair], side: int, *, seed: int = 0
) -> dict[int, Integers]:
    """The pieces of a text of another cluster, by number of each pair that has one: as long, each place in the same
    pieces, with the value of the pair's text (``side`` 0) or of its other one.

    Where the texts of the pair differ it has other words than the text of that value: with the same words there would
    be nothing to find out. A :class:`NoOtherTextError` where there is none for any pair.
    """
    if not all(all(pairs[number].values) for number in aligned):
        raise ClozeError("pairs without values of what decides, such as singular and plural: give each its values")
    layouts: dict[int, object] = {}
    for number, one in aligned.items():
        places = tuple((name, tuple(pieces.tolist())) for name, pieces in one.places.items())
        layouts[number] = len(one.ids[0]), one.mask, places
    sides = [(number, of) for number in aligned for of in (0, 1)]
    by_layout = by_key(((layouts[number], pairs[number].values[of]), (number, of)) for number, of in sides)
    random, chosen = np.random.default_rng(seed), {}
    for number, one in aligned.items():
        differ, own = one.ids[0] != one.ids[1], pairs[number].cluster or number
        of_others = [
            aligned[donor].ids[of]
            for donor, of in by_layout[layouts[number], pairs[number].values[side]]
            if (pairs[donor].cluster or donor) != own and (aligned[donor].ids[of] != one.ids[side])[differ].any()
        ]
        if of_others:
            chosen[number] = of_others[int(random.integers(len(of_others)))]
    if aligned and not chosen:
        raise NoOtherTextError("no pair has a text of another cluster with its words in the same places and its value")
    return chosen


def values_and_halves(
    pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair]
) -> tuple[list[str], dict[int, int]]:
    """The two values that pairs have of what decides, and by number of the pair the half of the clusters, 0 or 1, that
    it is in: fits to the texts of one half are applied to the other."""
    values = sorted({value for number in aligned for value in pairs[number].values})
    if len(values) != 2 or not all(values):
        raise ClozeError(f"{len(values)} values of what decides ({listed(values)}): there should be two")
    cluster = {number: pairs[number].cluster or number for number in aligned}
    half = {name: place % 2 for place, name in enumerate(dict.fromkeys(cluster.values()))}
    if len(half) < 2:
        raise ClozeError("all pairs are of one cluster: what changes a text is fitted to those of other clusters")
    return values, {number: half[name] for number, name in cluster.items()}


def mean_differences(
    encoder: Encoder, pairs: Sequence[PatchPair], aligned: Mapping[int, AlignedPair], source: int, layers: Sequence[int]
) -> Callable[[Sequence[int]], dict[int, Tensor]]:
    """A function that gives, for numbers of pairs, ``[pair, piece, dim]`` by layer how far the texts are moved.

    Each place is moved by the difference between its mean states in texts of the two values, of the half of the
    clusters that the pair is not in. All texts are read once.
    """
    (values, half), numbers = values_and_halves(pairs, aligned), list(aligned)
    sums: dict[tuple[int, str, int], Tensor] = {}  # by half, place and value
    counts: dict[tuple[int, str, int], int] = defaultdict(int)
    for at, side, name, states in place_states(encoder, list(aligned.values()), layers):
        key = half[numbers[at]], name, values.index(pairs[numbers[at]].values[side])
        sums[key] = sums.get(key, 0) + states.double().mean(1)
        counts[key] += 1

    def shifts(asked: Sequence[int]) -> dict[int, Tensor]:
        n_pieces = len(aligned[asked[0]].ids[source])
        moved = torch.zeros(len(layers), len(asked), n_pieces, encoder.dim, dtype=torch.float64)
        for row, number in enumerate(asked):
            sign = 1.0 if pairs[number].values[source] == values[1] else -1.0
            for name, pieces in aligned[number].places.items():
                low, high = ((1 - half[number], name, value) for value in (0, 1))
                if low in sums and high in sums:
                    move = sums[high] / counts[high] - sums[low] / counts[low]
                    moved[:, row, torch.from_numpy(pieces)] = (sign * move)[:, None]
        return dict(zip(layers, moved, strict=True))

    return shifts


class KnownFacts(NamedTuple):
    """Facts that a model completes with the right word, and where their pieces are."""

    facts: tuple[Fact, ...]
    aligned: tuple[AlignedPair, ...]
    n_asked: int  # facts that were asked until as many were known as are wanted
    n_known: int  # how many of these the model knows


def known_facts(encoder: Encoder, facts: Sequence[Fact], *, most: int = 300, seed: int = 0) -> KnownFacts:
    """Up to ``most`` facts, in random order, whose object is ranked first at the mask, with their aligned subwords.

    There may be none, for instance with random weights.
    """
    found: list[tuple[Fact, AlignedPair]] = []
    n_asked = n_known = 0
    for some in _in_random_order(facts, 4 * most, seed):
        scores = ask(encoder, [Prompt(fact.text, (fact.answer,)) for fact in some], ranks=True)
        assert scores.ranks is not None
        is_first = (scores.ranks[-1] == 1).tolist()  # 0 where a fact is not scored
        every = zip(some, subject_pairs(some), is_first, strict=True)
        known = [(one, pair) for one, pair, yes in every if yes and pair]
        aligned = targets.align_pairs(encoder, [pair for _, pair in known], by_word=False)
        found += [(one, at) for (one, _), at in zip(known, aligned, strict=True) if isinstance(at, AlignedPair)]
        n_known, n_asked = n_known + len(known), n_asked + len(some)
        if len(found) >= most:
            break
    found = found[:most]
    return KnownFacts(tuple(fact for fact, _ in found), tuple(one for _, one in found), n_asked, n_known)


def known_pairs(
    encoder: Encoder, pairs: Sequence[PatchPair], *, most: int = 300, seed: int = 0
) -> tuple[list[PatchPair], list[str]]:
    """At most so many pairs, in random order, in both texts of which a model prefers the right one of the two words;
    and why each of the others that were asked is left out. No more are asked than are needed."""
    kept: list[PatchPair] = []
    reasons: list[str] = []
    for some in _in_random_order(pairs, 4 * most, seed):
        aligned = targets.align_pairs(encoder, some, by_word=False)
        reasons += [one for one in aligned if isinstance(one, str)]
        fitting = [(pair, one) for pair, one in zip(some, aligned, strict=True) if isinstance(one, AlignedPair)]
        for batch, rows in targets.batches(encoder, [one for _, one in fitting], 2):
            differences = [Decision(encoder, rows).scores(targets.ids_of(rows, side)) for side in (0, 1)]
            is_known = ((differences[0] > 0) & (differences[1] < 0)).tolist()
            kept += [fitting[place][0] for place, known in zip(batch, is_known, strict=True) if known]
            reasons += ["the model does not know both facts"] * is_known.count(False)
        if len(kept) >= most:
            break
    return kept[:most], reasons


def _in_random_order(items: Sequence[Item], n: int, seed: int) -> Iterator[list[Item]]:
    """All items in random order, ``n`` at a time."""
    order = np.random.default_rng(seed).permutation(len(items)).tolist()
    return ([items[number] for number in order[start : start + n]] for start in range(0, len(order), n))


def trace(
    encoder: Encoder,
    known: KnownFacts | Sequence[PatchPair],
    *,
    site: Site = "hidden_state",
    layers: Sequence[int] | None = None,
    window: int = 1,
    n_draws: int = 10,
    n_deviations: float = 3.0,
    seed: int = 0,
) -> PatchingMap:
    """Measure how much of a prediction a state of the clean pass restores in a pass whose subject is noised.

    Meng et al. (2022), *Locating and Editing Factual Associations in GPT*, section 2.1, put to encoders. Noise is
    normal; here it is added to what leaves the embeddings (layer 0), in the paper to word vectors, and its deviation is
    three times that of the components of the subjects' embeddings. What comes back is given as a share of what noise
    takes away, with probabilities of the answer summed over facts.

    Of other predictions than facts, ``known`` are texts with their target, whose words of the place ``subject`` are
    noised; the score is then that of the target.

    Of what blocks compute, a ``window`` of layers is restored together, around the one named. Effects are by layer and
    place, the subject's pieces told apart; clusters are subjects.
    """
    if isinstance(known, KnownFacts):
        if not known.facts:
            raise ClozeError(f"the model knows none of the {known.n_asked} facts: their object is never its first word")
        pairs, aligned = [fact.as_pair() for fact in known.facts], list(known.aligned)
    else:
        kept, _ = targets.fitting_pairs(encoder, known, by_word=False)
        pairs, aligned = [known[number] for number in kept], list(kept.values())
        if without := [pair for pair, one in zip(pairs, aligned, strict=True) if _SUBJECT not in one.places]:
            problem = f"no place is called {_SUBJECT}, which is noised"
            raise ClozeError(f"{quoted(without[0].text)}: {problem}: name its words")
    cells, embeddings = list[list[Cell]](), place_states(encoder, aligned, (0,))
    values = [states.flatten() for _, side, name, states in embeddings if (side, name) == (0, _SUBJECT)]
    deviation = n_deviations * float(torch.cat(values).std())
    for one in aligned:
        cells.append([])
        for cell in _cells(one, 0):
            if cell.name == _SUBJECT:  # its subwords by position, and all together
                first, between, end = cell.pieces[:-1][:1], cell.pieces[1:-1], cell.pieces[-1:]
                parts = {"first piece of subject": first, "pieces between": between, "last piece of subject": end}
                cells[-1] += [Cell(part, chosen) for part, chosen in parts.items() if len(chosen)]
            cells[-1].append(cell)

    def start(batch: Sequence[int]) -> tuple[Passes, Tensor]:
        some = [aligned[number] for number in batch for _ in range(n_draws)]
        ids, decision = targets.ids_of(some, 0), Decision(encoder, some, is_probability=True)
        # At the subject, zero elsewhere; the same whatever the batch.
        noise = np.zeros((len(batch), n_draws, ids.shape[1], encoder.dim), dtype=np.float32)
        for row, number in enumerate(batch):
            pieces, random = aligned[number].places[_SUBJECT], np.random.default_rng((seed, number))
            noise[row][:, pieces] = deviation * random.standard_normal((n_draws, len(pieces), encoder.dim))
        noises = torch.from_numpy(noise).flatten(0, 1)
        passes = Passes(decision, ids, ids, site=site, noise=noises, window=window)
        return passes, passes.source_scores

    return PatchingMap(
        model=encoder.source.title,
        site=site,
        direction="denoise",
        source="noise",
        pairs=tuple(pairs),
        targets=tuple(one.target for one in aligned),
        clusters=tuple(pair.cluster or f"pair {number}" for number, pair in enumerate(pairs)),
        excluded=(),
        **_measured(
            encoder, aligned, cells, _layers(encoder, site, layers), start,
            last=(_SUBJECT, SPECIAL, _ALL_PIECES), n_draws=n_draws,
        ),
    )  # fmt: skip
