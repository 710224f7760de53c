"""The vectors of a task's items: of words, of spans whose words are pooled, of whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bertology.corpora import Sentences
from bertology.errors import CorpusError
from bertology.families.cells import Cell
from bertology.families.request import ReadoutConfig
from bertology.families.task_data import TaskData
from bertology.families.tasks import FitCells, Job, Pair
from bertology.probing import Examples, SentenceProbe
from bertology.readouts import readout_kind
from bertology.results import FittedProbe
from bertology.results.fitted import FitOrigin, Items
from bertology.results.predictions import FITS

if TYPE_CHECKING:
    from bertology.readouts import Erasure, KeptFit


def check_pools(pair: Pair, data: TaskData, configs: Sequence[ReadoutConfig]) -> None:
    """Raise unless the items of a task can be pooled as readout configurations have it.

    Raises:
        CorpusError: items are single words, or with ``cls`` not all words of their sentence.
        ModelError: with ``cls``, the model puts no special token before the text.
    """
    for config in configs:
        _check_pool(config, data)
    if any(config.pool == "cls" for config in configs):
        pair.check_cls()


def _check_pool(config: ReadoutConfig, data: TaskData) -> None:
    if config.pool == "mean":
        return
    if all(examples.are_words for examples in data.items.values()):
        raise CorpusError(f"task {data.probe.task}: its items are single words, which are not pooled: leave pool out")
    for split, examples in data.items.items():
        if config.pool == "cls" and not fill_sentences(examples, data.splits.by_name[split]):
            problem = "are not whole sentences, of which alone there is a cls: pool mean, max or last"
            raise CorpusError(f"task {data.probe.task}: items of the {split} split {problem}")


def fill_sentences(examples: Examples, sentences: Sentences) -> bool:
    """Whether each item is all of its sentence, as one span or as two in a row."""
    starts, spans = sentences.starts, examples.spans
    ends = np.stack([starts[:-1], starts[1:]], axis=1)[examples.clusters]  # [item, 2]
    are_in_a_row = (spans[:, 1:, 0] == spans[:, :-1, 1]).all()
    return bool((spans[:, [0, -1], [0, 1]] == ends).all() and are_in_a_row)


def are_compared(data: TaskData) -> bool:
    """Whether the items are pairs of texts, of whose vectors also difference and product are read."""
    return isinstance(data.probe, SentenceProbe) and data.train.n_spans == 2


def readable(cells: FitCells, data: TaskData, job: Job) -> TaskData:
    """The items of a task that a readout can be fitted to; the others are counted as skipped.

    Whatever is pooled, they are those of which every word has a vector, so that scores are on the same items, and that
    are told apart by their subwords.

    Raises:
        CorpusError: they cannot be pooled, or there are none.
    """
    _check_pool(cells.config, data)
    return data.without(job.pair.unreadable, job.pair.joined)


def vectors_of(
    cells: FitCells, data: TaskData, job: Job, split: str, *, memory: int = 0, erasure: Erasure | None = None
) -> Any:
    """The stored vectors of a split's items as the readout reads them: one an item, or of all words in their spans.

    Args:
        cells: the readout configuration.
        data: the items, see :func:`readable`.
        job: what is stored.
        split: ``train``, ``dev`` or ``test``.
        memory: bytes of converted vectors that are kept between passes.
        erasure: what is taken out of the vectors of words.
    """
    from bertology.activations import SpanVectors, WordVectors
    from bertology.readouts import erased, pooled

    examples, layers, pooling = data.items[split], cells.layers_read, cells.config.pool
    if pooling == "cls":
        return WordVectors(job.stored["cls"][split], examples.clusters, layers=layers, memory=memory)
    entry, reads_spans = job.entries[split], readout_kind(cells.readout).reads == "spans"
    if examples.are_words and not reads_spans:
        words = WordVectors(entry, examples.words, layers=layers, memory=memory)
        return words if erasure is None else erased(words, erasure)
    # Where one vector is made of a span, it is what is kept.
    of_words = memory if reads_spans or erasure is not None else 0
    spans: Any = SpanVectors(entry, examples.spans, layers=layers, memory=of_words)
    if erasure is not None:
        spans = erased(spans, erasure)
    # A readout of single vectors takes one of a span, and of two spans one after the other.
    pool = cast(Any, pooling)
    return spans if reads_spans else pooled(spans, pooling=pool, compare=are_compared(data), memory=memory)


def keep_fit(fit: KeptFit | None, cells: FitCells, data: TaskData, job: Job, cell: Cell) -> None:
    """Keep the fit of a cell next to it, so that new text can be put to it; nothing where its readout cannot be."""
    if fit is None:
        return
    pair, request, layer = job.pair, job.pair.request, cast("int | None", cell.identity["layer"])
    read = cast("list[int]", cell.identity.get("mixed_layers") or [layer])
    origin = FitOrigin(
        task=f"{cells.probe.task}.v{cells.probe.version}",
        corpus=pair.corpus.name,
        train_fingerprint=pair.splits.train.fingerprint,
        model=str(pair.source.folder.absolute()) if Path(request.model) == pair.source.folder else request.model,
        revision=pair.source.revision,
        init=cells.weights.init,
        init_seed=cells.weights.seed,
        model_fingerprint=pair.fingerprints[cells.weights],
        layer=layer,
        pooling=request.pooling,
        dtype=request.dtype,
        stored_dtype=request.stored_dtype,
        max_pieces=request.max_pieces,
        readout=cells.readout,
        items=_kind_of(data),
        labels=() if fit.kind == "number" else data.labels[: data.n_train_labels],
        kind=fit.kind,
        layers=tuple(read),
        design=fit.design,
        settings=dict(cells.config.changes),
        are_compared=are_compared(data),
    )
    FittedProbe(origin=origin, tensors=fit.tensors).save(job.run / FITS / cell.id)


def _kind_of(data: TaskData) -> Items:
    """Whether the items are words, whole sentences, halves of sentences, or other spans."""
    if data.train.are_words:
        return "words"
    if not fill_sentences(data.train, data.splits.train):
        return "spans"
    return "pairs" if data.train.n_spans == 2 else "sentences"


def items_param(data: TaskData) -> dict[str, str]:
    """What rows say of items that are no words: of what the control task labels each form at random."""
    kind = _kind_of(data)
    return {} if kind == "words" else {"items": kind}
