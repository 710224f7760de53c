"""One streaming pass over attention maps: each is shown to every statistic, and none is kept.

:class:`MapText` makes inputs of a text, in windows and pairs, and says what the rows and columns of their maps are.
"""

import contextlib
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology._machine import give_back_freed_memory, on_each_core
from bertology.activations.progress import Progress, silent
from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import SHARED, OnLong, column_weights, row_weights
from bertology.encoders.batching import Batch, padded, padded_inputs, pieces_in_batch, plan_batches
from bertology.encoders.interventions import StopForward, changing, find_part, is_plain_linear, watching
from bertology.encoders.sources import layers_from_end
from bertology.errors import CorpusError, ModelError
from bertology.measures.sums import HeadRatios, Level, Scope

MOST_WORKERS = 16
"""Each holds maps and sums, or the activations of a batch for a backward pass, of its own."""
_BATCHES_BETWEEN = 4  # after so many batches, memory that maps of ever new shapes have left behind is given back
_MAP_VALUES = 1 << 23  # weights of the maps of one layer in a batch; a single window may have more
_WORD, _CLS, _SEP, _OTHER = range(4)
_CUT = -2  # number of a word that a window shows in part, whose pieces are one unit of no word
_UNBOUNDED = 1 << 30
_UNITS_IN_BAND = 64

# Families in which a head's output is α (x W_V + b_V) W_O and nothing else.
_FAMILIES = ("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")

Booleans = NDArray[np.bool_]
Integers = NDArray[np.int64]
Bands = tuple[tuple[slice, slice], ...]
Part = TypeVar("Part")
OnLayer = Callable[[int, Tensor, "HeadValues | None"], None]
"""Called with a layer (from 1), its maps ``[batch, head, piece, piece]`` and, where norms were requested, its values;
else None."""
_RANK = 1e-10  # squared lengths below this part of the largest count as 0, in float64


@dataclass(frozen=True, eq=False)
class Units:
    """The rows and columns of a batch's maps: words, or pieces, and special tokens where they stand in the text.

    All tensors are ``[sentence, unit]``. A sentence that is read in windows has several rows, one a window.
    """

    sentences: Integers  # [sentence] number of each in the text that is read
    windows: Integers  # [sentence] number of the window that shows it
    lengths: Integers  # [sentence] number of units, without padding
    word: Tensor  # number of the word through all sentences; −1 for special tokens, padding and pieces of no word
    position: Tensor
    """Place in the sentence, in words; at piece level in the window, in pieces. Differences are offsets."""
    form: Tensor  # code of the word's form, the same for forms that differ in case alone; −1 where there is no word
    is_word: Tensor  # words, or pieces of words
    is_cls: Tensor  # the special tokens that open a text: [CLS], <s>
    is_sep: Tensor  # the special tokens that close a text: [SEP], </s>
    is_punctuation: Tensor  # words of nothing but punctuation (all characters of Unicode category P)
    counts: Tensor
    """Units whose rows are counted: all but padding, words that are left out, and, in windows, words that are read from
    another window."""
    left_out: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Words that are not asked about, as they share all their subwords with another word; the first of such words is a
    unit nonetheless, so that what is attended to is in the map once."""

    @cached_property
    def word_rows(self) -> Tensor:
        """Words, or pieces of words, whose rows are counted."""
        return self.is_word & self.counts

    _made: dict[Any, Any] = field(default_factory=dict, repr=False)

    def once(self, name: Hashable, make: "Callable[[Units], Part]") -> Part:
        """What a statistic makes of the units, by its name: made once for all layers of a batch."""
        if name not in self._made:
            self._made[name] = make(self)
        made: Part = self._made[name]
        return made

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True, eq=False)
class Inputs:
    """A batch of windows as the model takes it, and how pieces become units."""

    ids: Tensor  # [sentence, piece]
    mask: Tensor | None  # [sentence, piece] None where nothing is padded
    types: Tensor | None  # [sentence, piece] token types; None where all are 0
    member: Tensor | None  # [sentence, unit, piece] 1 where a piece belongs to a unit; None at piece level
    units: Units
    bands: Bands
    """Runs of units, and the pieces that belong to any of them: in long texts ``member`` is nothing but a band of ones,
    and a product with all of it would take longer than the model does."""

    def merged(self, maps: Tensor) -> Tensor:
        """Maps between pieces ``[sentence, head, piece, piece]`` as maps between units."""
        maps = maps.float()
        if self.member is None:
            return maps
        n_heads, n_pieces = maps.shape[1:3]
        flat, turned, shares = maps.flatten(1, 2), self.columns.transpose(1, 2), self._shares[:, None]
        columns = [torch.bmm(flat[..., pieces], turned[:, pieces, units]) for units, pieces in self.bands]
        # A single band, as short texts have, is not copied.
        joined = columns[0] if len(columns) == 1 else torch.cat(columns, -1)
        to_units = joined.view(len(maps), n_heads, n_pieces, -1)
        rows = [shares[:, :, units, pieces] @ to_units[:, :, pieces] for units, pieces in self.bands]
        return rows[0] if len(rows) == 1 else torch.cat(rows, 2)

    @cached_property
    def row_shares(self) -> Tensor:
        """``[sentence, piece]`` how much the row of a piece counts in a sum over the words whose rows count."""
        rows = self.units.word_rows.float()
        return rows if self.member is None else torch.einsum("su,sup->sp", rows, self._shares)

    @cached_property
    def own_cells(self) -> tuple[Tensor, Tensor, Tensor]:
        """``[sentence, cell]`` row and column of the cells that lie within a word whose row counts, and how much each
        adds to what that word keeps; 0 where a sentence has fewer such cells than another."""
        rows = self.units.word_rows.float()
        if self.member is None:
            within = torch.diag_embed(rows)
        else:
            within = (rows[:, :, None] * self._shares).transpose(1, 2) @ self.columns  # [sentence, piece, piece]
        n_cells = int((within > 0).flatten(1).sum(1).max())
        weights, cells = within.flatten(1).topk(n_cells, dim=1)
        return cells // within.shape[-1], cells % within.shape[-1], weights

    @cached_property
    def _shares(self) -> Tensor:
        """``[sentence, unit, piece]`` weight of each piece in the row of its unit."""
        assert self.member is not None, "pieces are units of their own"
        return row_weights(self.member)

    @cached_property
    def columns(self) -> Tensor:
        """``[sentence, unit, piece]`` share of each piece in the column of a unit."""
        assert self.member is not None, "pieces are units of their own"
        return column_weights(self.member)


def _special(kind: int, first: int, last: int) -> Integers:
    """``[unit, 5]`` the rows of special tokens: the word, −1; whether the row counts; the kind; first piece and end."""
    places = np.arange(first, last)
    return np.stack([np.full(len(places), -1), places >= 0, np.full(len(places), kind), places, places + 1], axis=1)


class MapText:
    """A text cut into windows, ready to be read for its maps; the arguments are those of :func:`stream_maps`.

    A pair goes by the window of its first sentence.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        level: Level,
        on_long: OnLong,
        pairs: bool = False,
        exclude_shared: bool = False,
    ) -> None:
        self._encoder, self._sentences, self._level = encoder, sentences, level
        self.pieces = encoder.tokenize(sentences, on_long=on_long)
        nothing = np.zeros(0, dtype=np.int64)
        self._joined, self.left_out = (self.pieces.joined, self.pieces.shared) if exclude_shared else (nothing, nothing)
        window = self.pieces.word_window.copy()
        window[self._joined] = -1
        self._words = np.argsort(window, kind="stable")
        self._starts = np.searchsorted(window[self._words], np.arange(self.pieces.n_windows + 1))
        self.windows = np.flatnonzero(np.diff(self._starts))
        """Windows that some word is read from; of pairs the first one."""
        if not len(self.windows):
            raise CorpusError("no word to read: every sentence is empty or was skipped")
        self.n_sentences = len(np.unique(self.pieces.window_sentence[self.windows]))
        """Number of sentences of which some word is read."""
        self.lengths = self.pieces.window_lengths.copy()
        """``[window]`` number of pieces; of the first windows of pairs that of the pair."""
        self._second: dict[int, int] = {}  # by the window of a first sentence that of the second
        self.n_apart = 0
        """Number of pairs that were too long, so that each sentence is read alone."""
        if pairs:
            self._pair_up()
        folded: dict[str, int] = {}
        codes = [folded.setdefault(form.casefold(), len(folded)) for form in sentences.forms.values]
        self._forms = np.array(codes, dtype=np.int64)[sentences.forms.codes]  # [word]
        self._is_punctuation = np.array(
            [bool(form) and all(unicodedata.category(letter).startswith("P") for letter in form) for form in folded]
        )
        # First and last pieces of the words of each sentence in several windows, as if one window held them all: as a
        # column a word is wanted in more windows than the one that it is read from.
        self._whole: dict[int, tuple[Integers, Integers]] = {}
        n_windows = np.bincount(self.pieces.window_sentence, minlength=len(sentences))
        for number in np.flatnonzero(n_windows > 1).tolist():
            whole = encoder.tokenize([sentences[number]], max_pieces=_UNBOUNDED)
            self._whole[number] = whole.word_first.astype(np.int64), whole.word_last.astype(np.int64)

    @property
    def n_pairs(self) -> int:
        """Number of windows that hold two sentences."""
        return len(self._second)

    def _pair_up(self) -> None:
        """Pair neighbours, so that no sentence is read twice. Where one of two has no window that is read, the other is
        read alone; where they are too long, both are."""
        encoder = self._encoder
        encoding: Any = encoder.tokenizer("a", "a").encodings[0]
        of_sentence = encoding.sequence_ids
        end, start = len(of_sentence) - of_sentence[::-1].index(0), of_sentence.index(1)
        if end == start:
            problem = "puts no separator between two sentences, so takes no pairs"
            raise ModelError(f"model {encoder.name} {problem}: read sentences one by one (setting texts: sentences)")
        # What stands between two sentences, and the token types of the first sentence with what opens it, of what
        # stands between, and of the second with what closes it.
        types = (encoding.type_ids[0], encoding.type_ids[end], encoding.type_ids[-1])
        self._middle = np.array(encoding.ids[end:start], dtype=np.int64)
        self._segments = types if max(types) < encoder.n_segments else (0, 0, 0)
        more = len(self._middle) - encoder.n_prefix - encoder.n_suffix
        n_sentences, of_window = len(self._sentences), self.pieces.window_sentence[self.windows]
        window, n_windows = np.full(n_sentences, -1), np.bincount(of_window, minlength=n_sentences)
        window[of_window] = self.windows
        couples = np.arange(n_sentences // 2 * 2).reshape(-1, 2)  # [pair, 2]
        couples = couples[(n_windows[couples] > 0).all(1)]
        together = self.lengths[window[couples]].sum(1) + more <= encoder.max_pieces
        fits = (n_windows[couples] == 1).all(1) & together
        firsts, seconds = window[couples[fits]].T
        self._second, self.n_apart = dict(zip(firsts.tolist(), seconds.tolist(), strict=True)), int((~fits).sum())
        self.lengths[firsts] += self.lengths[seconds] + more
        self.windows = np.setdiff1d(self.windows, seconds)

    def batches(self) -> Iterator[Batch]:
        """Windows of like length together, fewer of them where maps are large."""
        for batch in plan_batches(self.lengths[self.windows], pieces=pieces_in_batch(self._encoder.device)):
            most = max(1, _MAP_VALUES // (self._encoder.n_heads * batch.length**2))
            for start in range(0, len(batch.windows), most):
                chosen = batch.windows[start : start + most]
                yield Batch(self.windows[chosen], batch.length, batch.is_padded)

    def inputs(self, batch: Batch) -> Inputs:
        """The inputs of the model, and how their pieces become units."""
        every_ids, every_types, every_row = zip(*map(self._window, batch.windows.tolist()), strict=True)
        ids, mask = padded_inputs(list(every_ids), batch, self.pieces.pad_id)
        types = padded(every_types, batch.length, 0)
        words, counts, kinds, first, last = ([rows[:, at] for rows in every_row] for at in range(5))
        n_units = np.array([len(row) for row in words])
        by_word = self._level == "word"
        width = int(n_units.max()) if by_word else batch.length
        word, kind = np.maximum(padded(words, width, -1), -1), padded(kinds, width, _OTHER)
        pieces, member, bands = np.arange(batch.length), None, list[tuple[slice, slice]]()
        position = np.tile(pieces, (len(words), 1))
        if by_word:
            is_member = pieces >= padded(first, width, 0)[:, :, None]
            is_member &= pieces < padded(last, width, 0)[:, :, None]
            member, needed = self._tensor(is_member).float(), np.asarray(is_member.any(axis=0))  # [unit, piece]
            for start in range(0, width, _UNITS_IN_BAND):
                shown = np.flatnonzero(needed[start : start + _UNITS_IN_BAND].any(0))
                bands.append((slice(start, start + _UNITS_IN_BAND), slice(int(shown[0]), int(shown[-1]) + 1)))
            # Of a pair, places go on through the second sentence.
            begins = self._sentences.starts[self.pieces.window_sentence[batch.windows]][:, None]
            position = np.where(word < 0, 0, word - begins)
        is_word = kind == _WORD
        form = np.where(is_word, self._forms[np.maximum(word, 0)], -1)
        units = Units(
            sentences=self.pieces.window_sentence[batch.windows].astype(np.int64),
            windows=np.asarray(batch.windows),
            lengths=n_units,
            word=self._tensor(word),
            position=self._tensor(position),
            form=self._tensor(form),
            is_word=self._tensor(is_word),
            is_cls=self._tensor(kind == _CLS),
            is_sep=self._tensor(kind == _SEP),
            is_punctuation=self._tensor(is_word & self._is_punctuation[np.maximum(form, 0)]),
            counts=self._tensor(padded(counts, width, 0) > 0),
            left_out=self.left_out,
        )
        return Inputs(ids, mask, torch.from_numpy(types) if types.any() else None, member, units, tuple(bands))

    def _window(self, number: int) -> tuple[Integers, Integers, Integers]:
        """``[piece]`` vocabulary numbers and token types of the input that begins with a window, the window alone or a
        pair, and the rows of its units as of :func:`_special`."""
        ids, rows = self._alone(number)
        types = np.zeros(len(ids), dtype=np.int64)
        if number in self._second:
            n_prefix, n_suffix = self._encoder.n_prefix, self._encoder.n_suffix
            (of_second, second), start, middle = self._alone(self._second[number]), len(ids) - n_suffix, self._middle
            shift = start + len(middle) - n_prefix
            between, moved = _special(_SEP, start, start + len(middle)), np.array([0, 0, 0, shift, shift])
            rows = np.concatenate([rows[: len(rows) - n_suffix], between, second[n_prefix:] + moved])
            lengths = start, len(middle), len(of_second) - n_prefix
            ids = np.concatenate([ids[:start], middle, of_second[n_prefix:]])
            types = np.repeat(self._segments, lengths)
        if self._level == "word":
            return ids, types, rows
        by_piece = _special(_OTHER, 0, len(ids))
        by_piece[:, 1] = 0
        # Where two words share a piece, it belongs to the first of them.
        for *unit, first, last in rows[::-1].tolist():
            by_piece[first:last, :3] = unit
        return ids, types, by_piece

    def _alone(self, number: int) -> tuple[Integers, Integers]:
        """``[piece]`` vocabulary numbers of a window, and the rows of its units."""
        pieces, words = self.pieces, self._words[self._starts[number] : self._starts[number + 1]]
        ids, sentence = pieces.window(number).astype(np.int64), int(pieces.window_sentence[number])
        first, last = pieces.word_first[words].astype(np.int64), pieces.word_last[words].astype(np.int64)
        is_read = np.ones(len(words), dtype=bool)
        low, high = self._encoder.n_prefix, len(ids) - self._encoder.n_suffix
        if sentence in self._whole:
            begins = int(self._sentences.starts[sentence])
            shift = self._whole[sentence][0][words[0] - begins] - first[0]
            first, last = (ends - shift for ends in self._whole[sentence])
            is_unit = ~np.isin(np.arange(len(first)) + begins, self._joined)
            shown = np.flatnonzero((last > low) & (first < high) & (last > first) & is_unit)
            words, is_read = shown + begins, pieces.word_window[shown + begins] == number
            words = np.where((first[shown] >= low) & (last[shown] <= high), words, _CUT)
            first, last = np.maximum(first[shown], low), np.minimum(last[shown], high)
        is_read &= ~np.isin(words, self.left_out)
        rows = np.stack([words, is_read, np.where(words == _CUT, _OTHER, _WORD), first, last], axis=1)
        return ids, np.concatenate([_special(_CLS, 0, low), rows, _special(_SEP, high, len(ids))])

    def _tensor(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._encoder.device)


@dataclass(frozen=True, eq=False)
class HeadValues:
    """The values of one layer, and what its heads make of them: f(x) = (x W_V + b_V) W_O, with the rows of W_O that are
    the head's own (Kobayashi et al. 2020, eq. 5)."""

    values: Tensor  # [sentence, head, piece, value] x W_V + b_V
    gram: Tensor  # [head, value, value] W_O W_Oᵀ

    @cached_property
    def lengths(self) -> Tensor:
        """``[sentence, head, piece]`` ‖f(x)‖. Attention weighs f(x) by α, which is one number: ‖α f(x)‖ = α ‖f(x)‖."""
        # Of the squared length v W Wᵀ v the middle is the same for all pieces.
        squared = (torch.einsum("bhpv,hvw->bhpw", self.values, self.gram) * self.values).sum(-1)
        return squared.clamp_min(0).sqrt()

    def effective(self, maps: Tensor, mask: Tensor | None) -> Tensor:
        """``[sentence, head, piece, piece]`` effective attention: the maps without what no f(x) depends on (Brunner et
        al. 2020, section 3.2).

        The outputs of a head are the map times the matrix of f(x), of which there are no more independent ones than
        values have dimensions. Of each row the part in the left null space of that matrix is taken away, which changes
        no output; a text that is shorter than values have dimensions has no such part. ``mask [sentence, piece]`` is 0
        where there is padding.
        """
        spread, basis = torch.linalg.eigh(self.gram.double())
        outputs = self.values.double() @ (basis * spread.clamp_min(0).sqrt()[:, None])
        if mask is not None:
            outputs = outputs * mask[:, None, :, None]
        # The projection on the span of the columns, by the smaller of the two matrices of products.
        is_long = outputs.shape[2] > outputs.shape[3]
        squares, axes = torch.linalg.eigh(outputs.mT @ outputs if is_long else outputs @ outputs.mT)
        kept = squares > _RANK * squares[..., -1:]
        scale = torch.where(kept, squares.clamp_min(torch.finfo(squares.dtype).tiny).rsqrt() if is_long else 1.0, 0.0)
        span = (outputs @ axes if is_long else axes) * scale[..., None, :]
        effective: Tensor = maps.double() @ span @ span.mT
        return effective.float()


@dataclass(frozen=True, eq=False)
class MapNorms:
    """‖αf(x)‖ of one layer for a few texts, computed only as far as a statistic needs it.

    Norms are merged to words as maps are: what is added *to* a word is averaged over its pieces, what comes *from* a
    word is summed.
    """

    maps: Tensor  # [sentence, head, piece, piece] α as the model gives it
    values: HeadValues
    inputs: Inputs  # the inputs of the batch, which state how pieces become units

    @cached_property
    def effective(self) -> Tensor:
        """``[sentence, head, piece, piece]`` effective attention, whose weights may be below 0."""
        return self.values.effective(self.maps, self.inputs.mask)

    @property
    def effective_squares(self) -> tuple[Tensor, Tensor]:
        """``[sentence, head]`` squared weights of effective attention, and of attention, in rows that count."""
        shares = self.inputs.row_shares[:, None]  # [sentence, 1, piece]
        of_rows = (maps.float().square().sum(-1) for maps in (self.effective, self.maps))
        effective, raw = (torch.where(shares > 0, rows * shares, 0).sum(-1) for rows in of_rows)
        return effective, raw

    @cached_property
    def between(self) -> Tensor:
        """``[sentence, head, unit, unit]`` to (rows) each unit from (columns) each unit."""
        return self.inputs.merged(self.maps.float() * self.values.lengths[:, :, None])

    @cached_property
    def given(self) -> Tensor:
        """``[sentence, head, unit]`` what each unit adds to all words whose rows count, summed: the maps are read once,
        and no second table of their size is made."""
        weights = self.inputs.row_shares[:, None, None]  # [sentence, 1, 1, piece]
        by_piece = (weights @ self.maps.float()).squeeze(2) * self.values.lengths
        return by_piece if self.inputs.member is None else by_piece @ self.inputs.columns.transpose(1, 2)

    @cached_property
    def kept(self) -> Tensor:
        """``[sentence, head]`` sum of ‖αf(x)‖ from words that count to themselves."""
        rows, columns, weights = self.inputs.own_cells
        n_pieces = self.maps.shape[-1]
        cells = (rows * n_pieces + columns)[:, None].expand(-1, self.maps.shape[1], -1)
        lengths = self.values.lengths.gather(2, columns[:, None].expand_as(cells))
        weighed = self.maps.flatten(2).gather(2, cells).float() * lengths
        return torch.einsum("shc,sc->sh", weighed, weights)


@dataclass(frozen=True, eq=False)
class MapBatch:
    """The attention maps of one layer for a few texts. Valid while ``update`` runs: keep sums, not maps."""

    layer: int  # number of the layer, from 1
    maps: Tensor
    """``[sentence, head, unit, unit]`` float32, from (rows) each unit to (columns) each unit; 0 in columns of
    padding. At word level attention *to* a word is summed and *from* a word averaged over its pieces (Clark et al.
    2019, section 4.1), and that to a piece which words share divided equally, so that rows sum to 1."""
    norms: MapNorms | None
    """‖αf(x)‖, the length of what each unit adds to another through a head (Kobayashi et al. 2020); None unless
    norms were requested."""
    units: Units  # the same object for all layers of a batch

    @cached_property
    def most_attended(self) -> tuple[Tensor, Tensor]:
        """``[sentence, head, unit]`` of each row the largest weight to a word, and the place of that word, the first of
        equals. Special tokens do not compete."""
        # Far below 0, so that adding is enough: to choose by a mask takes several times as long.
        penalty = torch.where(self.units.is_word, 0.0, -2.0).to(self.maps)
        largest, places = torch.max(self.maps + penalty[:, None, None], dim=-1)
        return largest, places


class HeadStatistic(ABC):
    """Sums over attention maps, made batch by batch.

    A statistic begins empty, for a :class:`Scope`. :func:`stream_maps` is given what makes it, a class or a
    ``functools.partial`` of one: each thread fills one of its own, and they are merged at the end.
    """

    @abstractmethod
    def update(self, batch: MapBatch) -> None:
        """Add the maps of one layer of a batch; its layers come one after another, in ascending order."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the sums of another thread."""

    @abstractmethod
    def finish(self) -> Any:
        """The result, frozen."""


MakeStatistic = Callable[[Scope], HeadStatistic]


class BatchSums(NamedTuple):
    """Numerators and denominators of some ratios, summed over the rows of each sentence in one layer of a batch."""

    names: tuple[str, ...]
    over: Tensor  # [sentence, head, name] numerators
    under: Tensor  # [sentence, head, name] denominators, or [sentence, name] those that all heads and layers share
    metric: str = ""  # the metric, where the names are groups that it is measured on
    unit: Literal["head", "layer"] = "head"


class SumsStatistic(HeadStatistic):
    """A statistic that is ratios of sums by cluster of sentences, and keeps nothing else; subclasses write ``sums``."""

    level: Level | None = None
    """Units of the maps that it is a statistic of; any when None."""

    def __init__(self, scope: Scope) -> None:
        if self.level not in (None, scope.level):
            kind = f"{type(self).__name__} is a statistic of maps between {self.level}s"
            raise ModelError(f"{kind}: read them at level {self.level!r}")
        self._scope = scope
        self._totals: list[HeadRatios] = []

    @abstractmethod
    def sums(self, batch: MapBatch) -> Iterable[BatchSums]:
        """The sums of one layer of a batch: of every batch the same ratios in the same order."""

    def update(self, batch: MapBatch) -> None:
        """Add the sums of one layer of a batch."""
        place, clusters = self._scope.layers.index(batch.layer), self._scope.clusters(batch.units.sentences)
        # A cluster may stand in a batch more than once, which plain indexed addition would count once.
        order = np.argsort(clusters, kind="stable")
        distinct, starts = np.unique(clusters[order], return_index=True)
        for number, part in enumerate(self.sums(batch)):
            is_shared = part.under.ndim == 2
            if number == len(self._totals):
                # Clusters first, so that what is added to one stands together.
                shape = self._scope.n_clusters, len(self._scope.layers), part.over.shape[1], len(part.names)
                parts = np.zeros(shape), np.zeros((shape[0], 1, 1, shape[3]) if is_shared else shape)
                above, below = (sums.transpose(3, 1, 2, 0) for sums in parts)
                ratios = HeadRatios(part.names, self._scope.layers, above, below, part.metric, part.unit)
                self._totals.append(ratios)
            totals = self._totals[number]
            over, under = (sums.transpose(3, 1, 2, 0) for sums in (totals.over, totals.under))
            added = [(over[:, place], part.over)]
            if not is_shared or place == 0:
                added.append((under[:, 0, 0] if is_shared else under[:, place], part.under))
            for sums, values in added:
                sums[distinct] += np.add.reduceat(values.cpu().double().numpy()[order], starts, axis=0)

    def merge(self, other: Self) -> None:
        """Add the sums of another thread."""
        for totals, more in zip(self._totals, other._totals, strict=False):  # a thread may have read no batch
            np.add(totals.over, more.over, out=totals.over)
            np.add(totals.under, more.under, out=totals.under)

    def finish(self) -> tuple[HeadRatios, ...]:
        """The ratios, one object for each of the sums."""
        return tuple(self._totals)


def row_sums(rows: Tensor, counted: Tensor) -> Tensor:
    """``[sentence, head]`` of values ``[sentence, head, unit]``, summed over the counted rows ``[sentence, unit]``."""
    # What stands in rows of padding is not defined, so it is put aside and not multiplied by zero.
    return torch.where(counted[:, None], rows, 0).sum(-1)


@dataclass(frozen=True, eq=False)
class MapPass:
    """The result of a pass over the attention maps of a text."""

    results: tuple[Any, ...]  # the value of each statistic's finish, in the order in which statistics were given
    scope: Scope
    n_sentences: int  # number of sentences of which some word was read
    n_words: int  # number of words that were read
    n_windows: int
    """Number of inputs of the model: more than sentences where some were read in several windows, fewer where they were
    read in pairs."""
    n_pairs: int  # number of inputs that were pairs of sentences
    n_apart: int  # number of pairs that were too long for the model, so that each sentence was read alone
    n_skipped: int  # number of words that were not read
    skipped: dict[str, int]  # number of words that were not read, by reason; numbers in reasons are left out


def stream_maps(
    encoder: Encoder,
    sentences: Texts,
    statistics: Sequence[MakeStatistic],
    *,
    layers: Sequence[int] | None = None,
    level: Level = "word",
    norms: bool = False,
    pairs: bool = False,
    on_long: OnLong = "window",
    exclude_shared: bool = False,
    progress: Progress = silent,
) -> MapPass:
    """Read sentences once and show the attention maps of each layer to every statistic.

    The maps of one layer of one batch are in memory at a time, in each thread; statistics keep sums. Results are the
    same every time; with another number of threads sums are added in another order, which changes them by rounding
    alone (relative differences of 1e-12).

    Args:
        encoder: whose maps are read. Inside ``encoder.gated_heads`` one thread reads, with the gates.
        sentences: the text: sentences, or plain texts, each of which is one.
        statistics: what makes each statistic: a subclass of :class:`HeadStatistic`, or a partial of one.
        layers: from 1; all when left out. Nothing beyond the deepest is computed.
        level: units of the maps: words (with ``[CLS]`` and ``[SEP]`` as units of their own) or pieces.
        norms: also give values, for ‖αf(x)‖ and effective attention, of models built as BERT is.
        pairs: read the first sentence with the second, the third with the fourth, and so on, as the pair that the model
            takes: no text is read twice, a last one that is left over is read alone, and so are two that are too long
            for the model together. Sums are those of the first sentence's cluster.
        on_long: what to do with a sentence longer than the model takes: read it in overlapping windows, the row of
            each word from the one where it has most context, its columns the words which that window shows whole;
            raise; or skip it.
        exclude_shared: leave out words that share all their subwords with another word, as *de* and *le* of French
            *du*: such words are one unit of the maps, which is attended to and not asked about.
        progress: counts the pieces that are read.

    Raises:
        ModelError: the model gives no maps, or not the norms or layers asked for, or takes no pairs, or a sentence is
            too long and ``on_long`` is ``"error"``.
        CorpusError: there is no word to read.
    """
    sentences = as_sentences(sentences)
    chosen = checked_layers(encoder.n_layers, layers)
    if norms:
        check_norms(encoder)
    text = MapText(encoder, sentences, level=level, on_long=on_long, pairs=pairs, exclude_shared=exclude_shared)
    scope = Scope(len(sentences), chosen, encoder.n_heads, level)
    batches = list(text.batches())

    def show(
        filled: Sequence[HeadStatistic], inputs: Inputs, layer: int, maps: Tensor, values: HeadValues | None
    ) -> None:
        of_norms = None if values is None else MapNorms(maps, values, inputs)
        shown = MapBatch(layer, inputs.merged(maps), of_norms, inputs.units)
        for statistic in filled:
            statistic.update(shown)

    def read(reader: Encoder, part: slice) -> list[HeadStatistic]:
        filled = [make(scope) for make in statistics]
        with reading_maps(reader, scope.layers, norms=norms) as run:
            for number, batch in enumerate(batches[part], start=1):
                inputs = text.inputs(batch)
                run(inputs.ids, inputs.mask, partial(show, filled, inputs), types=inputs.types)
                if not number % _BATCHES_BETWEEN:
                    give_back_freed_memory()
                progress.advance(int(inputs.ids.numel() if inputs.mask is None else inputs.mask.sum()))
        return filled

    progress.start(int(text.lengths[text.windows].sum()), unit="pieces")
    fast, most = (encoder, 1) if encoder.is_gated else (encoder.fast_twin(), MOST_WORKERS)
    filled, *others = on_each_core(fast, read, most=most)
    progress.finish()
    for other in others:
        for statistic, more in zip(filled, other, strict=True):
            statistic.merge(more)
    # Reasons are counted, so that what differs from sentence to sentence, its length, is taken out of them.
    skipped = Counter(re.sub(r"\d+", "…", word.reason) for word in text.pieces.skipped)
    skipped += Counter({SHARED: len(text.left_out)})
    return MapPass(
        results=tuple(statistic.finish() for statistic in filled),
        scope=scope,
        n_sentences=text.n_sentences,
        n_words=sentences.n_words - skipped.total(),
        n_windows=len(text.windows),
        n_pairs=text.n_pairs,
        n_apart=text.n_apart,
        n_skipped=skipped.total(),
        skipped=dict(skipped),
    )


def checked_layers(n_layers: int, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Layers of heads in ascending order, each once, negative ones counted from the last; all when left out."""
    chosen = layers_from_end("all" if layers is None else layers, lowest=1, n_layers=n_layers)
    return tuple(sorted(set(chosen)))


@contextlib.contextmanager
def reading_maps(encoder: Encoder, layers: Sequence[int], *, norms: bool) -> Iterator[Callable[..., None]]:
    """A function ``run(ids, mask, on_layer, types=None)`` for one forward pass as far as the deepest of the layers.

    Maps go to ``on_layer`` layer by layer: each is taken where its attention module returns it, so that one layer's are
    in memory at a time. Token types are all 0 when left out.
    """
    body, device, deepest = encoder.model.body, encoder.device, max(layers)
    on_layer: OnLayer = lambda *_: None  # noqa: E731
    values: Tensor | None = None

    def keep_values(module: nn.Module, args: Any, output: Tensor) -> None:
        nonlocal values
        values = output

    def take(layer: int, output: tuple[Any, ...], place: int) -> tuple[Any, ...]:
        maps, of_heads = output[place], None
        if layer in layers:
            encoder.check_finite("attention maps", {layer: maps}, by_head=True)
            if norms and values is None:
                problem = f"layer {layer} ran without projecting values: not supported"
                raise ModelError(f"model {encoder.name}: {problem}")
            if values is not None:
                of_heads = head_values(values, layer, encoder)
            on_layer(layer, maps, of_heads)
        if layer == deepest:
            raise StopForward
        return (*output[:place], None, *output[place + 1 :])

    with taking_maps(encoder, take) as taken, contextlib.ExitStack() as stack:
        for block in dict.fromkeys(encoder.model.blocks) if norms else ():
            stack.callback(find_part(block, encoder.family, "values").register_forward_hook(keep_values).remove)

        def run(ids: Tensor, mask: Tensor | None, shown: OnLayer, *, types: Tensor | None = None) -> None:
            nonlocal on_layer
            on_layer = shown
            taken.clear()
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
            on_device = {name: value.to(device) for name, value in inputs.items() if value is not None}
            with torch.inference_mode(), contextlib.suppress(StopForward):
                body(**on_device, return_dict=True, output_attentions=True)
            if not taken.issuperset(layers):
                raise ModelError(f"model {encoder.name}: {type(body).__name__} gives no attention maps")

        yield run


@contextlib.contextmanager
def taking_maps(encoder: Encoder, take: Callable[[int, tuple[Any, ...], int], Any]) -> Iterator[set[int]]:
    """Call ``take`` in each block where a module returns maps, with the block's number, the output and their place in
    it; what it returns, unless None, replaces the output. Yields the blocks whose maps have been taken in a pass."""
    taken: set[int] = set()

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        if watch.current in taken or not isinstance(output, tuple):
            return None
        # The last that fits: a bias of positions may have their shape.
        for place, part in reversed(list(enumerate(output))):
            if isinstance(part, Tensor) and part.ndim == 4 and part.shape[1] == encoder.n_heads:
                if part.shape[2] != part.shape[3]:
                    return None
                taken.add(watch.current)
                return take(watch.current, output, place)
        return None

    body, blocks = encoder.model.body, encoder.model.blocks
    with encoder.plain_attention(), watching(body, blocks) as watch, contextlib.ExitStack() as stack:
        for block in dict.fromkeys(blocks):
            for module in block.modules():
                # Before the hooks by which transformers gathers them: it then finds nothing to gather.
                stack.callback(module.register_forward_hook(hook, prepend=True).remove)
        yield taken


def maps_with_gradients(
    encoder: Encoder, score: Callable[[], Tensor]
) -> tuple[float, dict[int, Tensor], dict[int, Tensor | None]]:
    """The sum of the scores of a pass, its maps ``[row, head, piece, piece]`` by layer, and the gradients of the sum by
    them, None where it does not depend on a layer's. A ModelError where the model gives no maps."""
    maps: dict[int, Tensor] = {}

    def ask_for_maps(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "output_attentions": True}

    def keep(layer: int, output: tuple[Any, ...], place: int) -> None:
        maps[layer] = output[place]

    body, blocks = encoder.model.body, encoder.model.blocks
    with (
        body.register_forward_pre_hook(ask_for_maps, with_kwargs=True),
        torch.enable_grad(),
        changing(body, blocks, 0, lambda state: state.detach().requires_grad_()),
        taking_maps(encoder, keep),
    ):
        found = score().sum()
        if not maps:
            raise ModelError(f"model {encoder.name}: {type(body).__name__} gives no attention maps")
        slopes = torch.autograd.grad(found, list(maps.values()), allow_unused=True)
    values = {layer: one.detach() for layer, one in maps.items()}
    return float(found.detach()), values, dict(zip(maps, slopes, strict=True))


def knows_norms(encoder: Encoder) -> bool:
    """Whether it is known how a model transforms values: by its family, unless these parts of it were changed."""
    if encoder.family not in _FAMILIES or encoder.model.is_stock:
        return encoder.family in _FAMILIES
    return all(is_plain_linear(find_part(block, encoder.family, "head")) for block in encoder.model.blocks)


def check_norms(encoder: Encoder) -> None:
    """Raise a ``ModelError`` where it is not known how the family transforms values."""
    if not knows_norms(encoder):
        raise ModelError(
            f"model {encoder.name}: norms of transformed values are known for {', '.join(_FAMILIES)}, "
            f"not for {encoder.family if encoder.family not in _FAMILIES else 'changed projections'}: take raw weights"
        )


def head_values(values: Tensor, layer: int, encoder: Encoder) -> HeadValues:
    """The heads' values from ``[batch, piece, dim]`` output of a block's value projection.

    A :class:`SignalError` is raised where lengths of transformed values are not finite.
    """
    n_heads = encoder.n_heads
    by_head = values.float().view(*values.shape[:2], n_heads, -1).transpose(1, 2)
    projection: Any = find_part(encoder.model.blocks[layer - 1], encoder.family, "head")
    weight: Tensor = projection.weight.float().view(-1, n_heads, by_head.shape[-1])  # [dim, head, value]
    of_heads = HeadValues(by_head, torch.einsum("dhv,dhw->hvw", weight, weight))
    encoder.check_finite("norms of transformed values", {layer: of_heads.lengths}, by_head=True)
    return of_heads
