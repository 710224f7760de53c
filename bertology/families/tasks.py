"""What task families work on: a model and a corpus, the cells of a task, and what computing and scoring need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Entry, Progress, Recipe
from bertology.attention.arcs import NOT_APART
from bertology.corpora import Corpus, Sentences
from bertology.encoders import Encoding, ModelShape, ModelSource, model_fingerprint
from bertology.encoders.loading.description import MemorySource
from bertology.errors import BertologyError
from bertology.families.alignment import Alignment, Reasons, Windows
from bertology.families.cells import Cell
from bertology.families.request import Init, ProbeRequest, ReadoutConfig, parse_layers
from bertology.families.splits import Splits
from bertology.measures import N_RESAMPLES
from bertology.probing import Probe
from bertology.results import ComparisonRow, ResultRow

if TYPE_CHECKING:
    from bertology.encoders import Encoder, Pieces

PIECES_A_WORD = 1.3
"""Of running text, roughly."""
Signal = Literal["words", "cls"] | Encoding
"""Stored vectors of a corpus: of its words, or of the special token before each sentence; or of the words of the test
split in another encoding."""
Unreadable = tuple[Mapping[str, Reasons], Windows]
"""By split the words that are left out, and the windows in which the others are read, where they matter."""
CellKey = tuple[str, int, int | None]
"""Control, seed and layer; the layer is None for a score that belongs to no single layer."""


@dataclass(frozen=True)
class Weights:
    """The weights of a model: pretrained ones, or a draw of random ones."""

    init: Init
    seed: int = 0
    """Of random weights; 0 for pretrained ones."""


@dataclass(frozen=True)
class Pair:
    """One model and one corpus, resolved: everything but the tasks."""

    request: ProbeRequest
    source: ModelSource
    shape: ModelShape
    corpus: Corpus
    splits: Splits
    layers: tuple[int, ...]
    """The layers that are asked about."""
    fingerprints: Mapping[Weights, str]
    """Of the model, by weights; those of the model that was asked for come first."""
    reference: Pair | None = None
    """The model that this one is compared with, on the same corpus and splits, with its own weights alone."""

    @property
    def inits(self) -> tuple[Init, ...]:
        """The initialisations of the model, in order."""
        return tuple(dict.fromkeys(weights.init for weights in self.fingerprints))

    @property
    def weights(self) -> Weights:
        """Those of the model that was asked for."""
        return next(iter(self.fingerprints))

    def on(self, corpus: Corpus, splits: Splits) -> Pair:
        """The same model, and the one that it is compared with, on other sentences."""
        reference = None if self.reference is None else self.reference.on(corpus, splits)
        return replace(self, corpus=corpus, splits=splits, reference=reference)

    def layers_of(self, config: ReadoutConfig) -> tuple[int, ...]:
        """The layers that a readout configuration reads, which have to be among those that are asked about."""
        if config.layers is None:
            return self.layers
        chosen = parse_layers(config.layers, self.shape.n_layers)
        others = [layer for layer in chosen if layer not in self.layers]
        if others:
            problem = f"is to read layer {others[0]}, which is not among the layers asked about"
            raise BertologyError(f"readout {config.title} {problem}: name it in layers too")
        return chosen

    def recipe(self, weights: Weights, sentences: Sentences, signal: Signal = "words") -> Recipe:
        """What decides the stored vectors of a split."""
        return Recipe(
            model_fingerprint=self.fingerprints[weights],
            text_fingerprint=sentences.text_fingerprint,
            pooling="cls" if signal == "cls" else self.request.pooling,
            compute_dtype=self.request.dtype,
            stored_dtype=self.request.stored_dtype,
            on_long=self.request.on_long,
            max_pieces=self.request.max_pieces,
            encoding=signal if isinstance(signal, Encoding) else None,
        )

    def check_cls(self) -> None:
        """Raise unless the model puts a special token before the text, as its tokenizer shows."""
        self._reader.first_tokens(Sentences())

    def called(self, weights: Weights) -> str:
        """What a progress display calls the model with these weights."""
        if weights.init != "random":
            return self.source.title
        return f"random {self.source.title}" + (f" (seed {weights.seed})" if weights.seed else "")

    @cached_property
    def alignments(self) -> Mapping[str, Alignment]:
        """By split how the model reads its words.

        It is known of what is in the store, else from the tokenizer, without the model's weights. A sentence that
        ``on_long`` forbids is no concern here: it is refused when it is read.
        """
        splits, weights = self.splits.by_name, self.weights  # subwords are the same for all weights
        try:
            entries = {name: self.recipe(weights, text).find(self.layers) for name, text in splits.items()}
            return {
                name: self._aligned(name) if entry is None else Alignment.of_entry(entry)
                for name, entry in entries.items()
            }
        except BertologyError:
            return {}  # The cells that read the model or the text report what is wrong with it.

    def _aligned(self, split: str) -> Alignment:
        """A split as the tokenizer cuts it; made once for all checkpoints of a training."""
        if not self.splits.by_name[split].n_words:
            return Alignment()
        # Configuration and tokenizer files decide the subwords, whatever the weights.
        is_in_files = not isinstance(self.source, MemorySource)
        same = model_fingerprint(self.source, init="random") if is_in_files else next(iter(self.fingerprints.values()))
        key = ("alignment", same, self.request.on_long, self.request.max_pieces, split)
        return self.splits.prepared(key, lambda: Alignment.of_pieces(self._tokenized([split])[split]))

    @cached_property
    def unreadable(self) -> Mapping[str, Reasons]:
        """By split the words that are left out, for splits that have some: those without a vector and, unless
        ``shared_subwords`` includes them, those that share all their subwords with another word."""
        shared = self.request.shared_subwords
        left_out = {name: one.left_out(shared) for name, one in self.alignments.items()}
        return {name: reasons for name, reasons in left_out.items() if reasons}

    @cached_property
    def joined(self) -> Mapping[str, frozenset[int]]:
        """By split the words whose subwords are those of the word before them, where such words are left out."""
        is_excluded = self.request.shared_subwords == "exclude"
        return {name: one.joined for name, one in self.alignments.items() if one.joined and is_excluded}

    def alignment_counts(
        self, split: str = "test", *, leaves_out: bool = True, beside: Pair | None = None
    ) -> dict[str, Any]:
        """Columns of rows that count words of a split by how the model reads them; none where it cannot be known.

        Words that share all their subwords are included whatever is asked for by tasks that have no way to leave them
        out (``leaves_out``). Of a model that is compared with another (``beside``) they are those that share them in
        one of the two, which are left out of both.
        """
        first, other = (one.alignments.get(split) for one in (self, beside or self))
        if first is None or other is None:
            return {}
        treatment = self.request.shared_subwords if leaves_out else "include"
        return {**first.counts, "n_shared": len(first.shared | other.shared), "shared_subwords": treatment}

    @property
    def sharing(self) -> dict[str, str]:
        """The treatment of words that share all their subwords, which decides numbers where there are such words."""
        has_shared = any(one.joined for one in self.alignments.values())
        return {"shared_subwords": self.request.shared_subwords} if has_shared else {}

    @cached_property
    def windows(self) -> Unreadable:
        """What heads are not asked about in dev and test: words that are left out, and the windows of words.

        Only splits that have such words, or sentences that are read in several windows.
        """
        try:
            tokenized = self._tokenized(["dev", "test"])
        except BertologyError:
            return {}, {}  # as above
        unreadable, windows = dict[str, Reasons](), dict[str, NDArray[np.int64]]()
        for name, pieces in tokenized.items():
            left_out = Alignment.of_pieces(pieces).left_out(self.request.shared_subwords)
            if left_out or pieces.n_windows > len(np.unique(pieces.window_sentence)):
                unreadable[name], windows[name] = left_out, pieces.word_window.astype(np.int64)
                windows[name][list(left_out.keys() - {one.word for one in pieces.skipped})] = NOT_APART
        return unreadable, windows

    def _tokenized(self, splits: Sequence[str]) -> dict[str, Pieces]:
        """Splits as pieces of the model, whose weights are not loaded."""
        on_long: Literal["skip", "window"] = "skip" if self.request.on_long == "skip" else "window"
        return {name: self._reader.tokenize(self.splits.by_name[name], on_long=on_long) for name in splits}

    @cached_property
    def _reader(self) -> Any:
        from bertology.encoders import load_reader

        code, most = self.request.trust_remote_code, self.request.max_pieces
        return load_reader(self.source, trust_remote_code=code, max_pieces=most)


@dataclass(frozen=True)
class Read:
    """Stored vectors that cells need: a signal of one model of a pair."""

    weights: Weights
    signal: Signal
    of_reference: bool = False
    """Whether they are of the model that the other one is compared with."""

    def pair(self, pair: Pair) -> Pair:
        """The model that is read, and the corpus."""
        if not self.of_reference:
            return pair
        assert pair.reference is not None
        return pair.reference


def texts_read(splits: Splits, signal: Signal) -> Mapping[str, Sentences]:
    """By name the splits of which a signal is stored; of folds, which share their sentences, one."""
    return {"test": splits.test} if isinstance(signal, Encoding) or splits.folds else splits.by_name


def entries_of_splits(splits: Splits, entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """By split what is stored of it, given that of :func:`texts_read`."""
    return dict.fromkeys(splits.by_name, entries["test"]) if splits.folds else entries


@dataclass(frozen=True)
class CellGrid:
    """The cells of one readout configuration of a task on one set of weights, before they are named."""

    controls: tuple[str, ...]
    """``none`` for the task itself, and the controls that are computed with it."""
    n_seeds: int
    columns: tuple[int | None, ...]
    """What has a score: each layer, or None for a score that belongs to no single layer."""
    layers_read: tuple[int, ...]
    """The layers whose signal is read."""
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What decides the numbers besides task, weights, readout, dtype, control, seed and layer."""
    column_identity: Mapping[int | None, Mapping[str, Any]] = field(default_factory=dict)
    """The same of single columns."""


@dataclass(frozen=True)
class FitCells:
    """The cells of one readout configuration of a task on one set of weights: all layers, controls and seeds."""

    probe: Probe
    config: ReadoutConfig
    """With the readout's registered name."""
    weights: Weights
    cells: Mapping[CellKey, Cell]
    layers_read: tuple[int, ...]

    @property
    def layers(self) -> tuple[int | None, ...]:
        """What has a score: each layer, or None for a score that belongs to no single layer."""
        return tuple(dict.fromkeys(layer for _, _, layer in self.cells))

    @property
    def readout(self) -> str:
        """Registered name of the readout."""
        return str(self.config.readout)


@dataclass(frozen=True)
class FitGroup:
    """Cells fitted together: readout configurations of one task that share their passes over the data."""

    members: tuple[FitCells, ...]

    @property
    def probe(self) -> Probe:
        """The probe of the task."""
        return self.members[0].probe

    @property
    def weights(self) -> Weights:
        """The weights of the model."""
        return self.members[0].weights

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of all members."""
        return tuple(cell for member in self.members for cell in member.cells.values())

    def without(self, is_finished: Callable[[FitCells], bool]) -> FitGroup | None:
        """The members that are not finished; None if all are."""
        left = tuple(member for member in self.members if not is_finished(member))
        return replace(self, members=left) if left else None


@dataclass(frozen=True)
class BaselineCells:
    """The cells of a task's baselines, which read no signal of the model."""

    probe: Probe
    config: ReadoutConfig
    """The first readout configuration of the task, whose settings a baseline may need."""
    cells: Mapping[str, Cell]
    """By baseline."""
    unreadable: Mapping[str, Reasons] = field(default_factory=dict)
    """By split the words that the model cannot read, which are left out of the baselines as well. Empty where the model
    reads every word: then the cells are those of any model."""
    windows: Windows = field(default_factory=dict, compare=False)
    """By split the windows in which the model reads its words, for baselines that depend on them."""


@dataclass(frozen=True)
class Job:
    """What computing needs, besides the cells."""

    run: Path
    """The run's folder."""
    pair: Pair
    device: str
    progress: Progress
    get_encoder: Callable[[], Encoder]
    """The model with the weights of the groups, loaded when it is first needed."""
    stored: Mapping[Signal, Mapping[str, Entry]] = field(default_factory=dict)
    """By signal and split the stored vectors that the family reads."""
    memory: int = 0
    """Bytes of vectors that the fits of the job may keep between passes over them."""
    n_threads: int = 1
    """That layers may be computed on side by side, where what is computed does not depend on it."""
    reference: Job | None = None
    """The same of the reference model, for families that compare with it: its ``pair``, ``stored`` and
    ``get_encoder``, which leaves the first model open."""

    @property
    def entries(self) -> Mapping[str, Entry]:
        """By split the stored vectors of words."""
        return self.stored["words"]


@dataclass(frozen=True)
class Cost:
    """What computing some cells will take; rough."""

    flops: float
    """Floating-point operations."""
    memory: float = 0.0
    """Bytes that vectors take while a fit runs."""
    items: int = 0
    """Items of which a cell keeps predictions."""


@dataclass(frozen=True)
class Scoring:
    """What finished cells are scored by, besides their family."""

    run: Path
    """The run's folder."""
    pair: Pair
    experiment: str
    """The column ``experiment`` of the rows."""
    n_resamples: int = N_RESAMPLES
    """Of the bootstrap over sentences."""
    seed: int = 0
    """Of the resampling."""
    compare_layers: bool = True


@dataclass(frozen=True)
class Tables:
    """Rows of one part of a run."""

    rows: tuple[ResultRow, ...]
    comparisons: tuple[ComparisonRow, ...] = ()

    @classmethod
    def of(cls, rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRow] = ()) -> Tables:
        """All rows of some cells; the time of a cell is shared among its rows."""
        times = Counter(row.cell_id for row in rows)
        shared = (replace(row, wall_s=None if row.wall_s is None else row.wall_s / times[row.cell_id]) for row in rows)
        return cls(tuple(shared), tuple(comparisons))


_APART = 10_000


def control_seeds(n_draws: int) -> tuple[int, ...]:
    """The seeds of the draws of the control ``random``: 0, then far from those that people give their own models."""
    return tuple(range(0, n_draws * _APART, _APART))
