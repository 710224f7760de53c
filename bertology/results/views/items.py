"""What was predicted for single items, as a data frame, with their words where the corpus is at hand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology._names import name_not_found, short_names
from bertology.corpora import Corpus, Sentences, load_corpus
from bertology.errors import ResultsError
from bertology.measures import METRICS
from bertology.results.fitted import BETWEEN_SPANS, spans_of
from bertology.results.tables.controls import is_baseline
from bertology.results.tables.predictions import CLOZE, Predictions
from bertology.results.tables.rows import ATTENTION, ResultRow, is_statistic, param_of, reading_of
from bertology.results.views.frames import scores_by, tally_of, tree_items
from bertology.results.views.layers import own_init

if TYPE_CHECKING:
    import pandas as pd

_ABOUT = ("task", "corpus", "split", "model", "layer", "init", "control", "seed")
_ITEM = ("sentence", "text", "place", "word", "gold", "predicted", "probability")
_MANY_PIECES = 4
_COLUMNS = (*_ABOUT[:4], "readout", *_ABOUT[4:], *_ITEM)


def item_frame(
    every: Sequence[ResultRow],
    rows: Sequence[ResultRow],
    kept: Mapping[str, Predictions],
    corpora: Mapping[str, Corpus],
    *,
    any_init: bool,
) -> pd.DataFrame:
    """:meth:`Results.predictions` of the cells of ``rows``, which are some of ``every``."""
    import pandas as pd

    names, texts = short_names(row.model for row in every), _Texts(corpora)
    parts: list[dict[str, Any]] = []
    for row in _cells(every, rows, any_init=any_init):
        part = _items(row, kept_of(kept, row), texts)
        about = {name: getattr(row, name) for name in _ABOUT} | {"readout": reading_of(row) or None}
        about["model"] = names.get(row.model or "")
        parts.append({name: [value] * len(part["gold"]) for name, value in about.items()} | part)
    if not parts:
        raise ResultsError(
            "no predictions of items: codes, statistics and attention heads keep sums; see .to_pandas() for scores"
        )
    more = list(dict.fromkeys(name for part in parts for name in part if name not in _COLUMNS))
    columns = {
        name: list(itertools.chain.from_iterable(part.get(name, [None] * len(part["gold"])) for part in parts))
        for name in (*_COLUMNS, *more)
    }
    types = {"layer": "Int64", "seed": "Int64", "probability": "float64"}
    return pd.DataFrame(columns).astype(types | {name: "Int64" for name in ("rank", "fold") if name in more})


def _cells(every: Sequence[ResultRow], rows: Sequence[ResultRow], *, any_init: bool) -> list[ResultRow]:
    """A row of each cell that keeps predictions of items, by the metric that the task is ranked by."""
    # The majority among the items that could be asked of a model is a row of that model's own cell.
    of_models = {row.cell_id for row in every if not is_baseline(row)}
    of_sums = {row.task for row in every if row.readout in ATTENTION or is_statistic(row)}
    inits: dict[tuple[str, str | None], str] = {}
    if not any_init:
        for row in every:
            if row.init is not None and (row.task, row.model) not in inits:
                same = [one for one in every if (one.task, one.model) == (row.task, row.model)]
                inits[row.task, row.model] = own_init(same)
    cells: dict[str, ResultRow] = {}
    for row in sorted(rows, key=lambda row: not row.main_metric):
        is_code = "codelength" in param_of(row, "settings", {})
        is_other = row.init is not None and inits.get((row.task, row.model), row.init) != row.init
        is_majority = is_baseline(row) and row.cell_id in of_models
        if row.status == "ok" and not (is_code or is_other or is_majority or row.task in of_sums):
            cells.setdefault(row.cell_id, row)
    order = {row.cell_id: place for place, row in reversed(list(enumerate(rows)))}
    return sorted(cells.values(), key=lambda row: order[row.cell_id])


def _items(row: ResultRow, kept: Predictions, texts: _Texts) -> dict[str, Any]:
    """The columns of one cell that differ between items."""
    tally = tally_of(row.metric)
    kept = tree_items(kept, tally) if tally in ("edges", "arcs", "roots") else kept
    labels = np.array(kept.labels, dtype=object)
    part: dict[str, Any] = {"gold": labels[kept.gold].tolist(), "predicted": labels[kept.pred].tolist()}
    part["probability"] = np.exp(np.asarray(kept.score, dtype=np.float64)).tolist()
    part |= {} if kept.fold is None else {"fold": kept.fold.tolist()}
    if kept.is_cloze:
        more = {name: list(kept.extra[name]) for name in CLOZE if name != "rival"}
        return {**part, **more, "sentence": list(kept.item_ids)}
    places = [item.rpartition(":")[::2] for item in kept.item_ids]
    words = texts.words(row, tuple(places))
    return {**part, "sentence": [name for name, _ in places], "place": [place for _, place in places], **words}


def corpora_with(known: Mapping[str, Corpus], texts: Any, rows: Sequence[ResultRow]) -> dict[str, Corpus]:
    """The corpora that are known by fingerprint, and the one that ``texts`` names, which must be that of rows."""
    if texts is None:
        return dict(known)
    corpus = load_corpus(texts)
    asked = {(row.corpus_fingerprint, row.split) for row in rows}
    read = [found for found in (corpus.as_read(*one) for one in sorted(asked)) if found is not None]
    if not read:
        raise ResultsError(f"texts: {corpus.name} is not what was probed; give the corpus of these results")
    return {**known, **{one.fingerprint: one for one in read}}


def kept_of(kept: Mapping[str, Predictions], row: ResultRow) -> Predictions:
    """The predictions of the cell of a row.

    Raises:
        ResultsError: none are kept.
    """
    if row.cell_id not in kept:
        none = f"no predictions kept of cell {row.cell_id}; run it with --out"
        raise ResultsError(f"task {row.task}, layer {row.layer}: {none}")
    return kept[row.cell_id]


def scores_of_items(
    every: Sequence[ResultRow],
    row: ResultRow,
    kept: Predictions,
    corpora: Mapping[str, Corpus],
    *,
    by: str | Sequence[str],
    metric: str | None,
) -> pd.DataFrame:
    """:meth:`Results.per_group` of the items of the cell of ``row``, which is one of ``every``, grouped ``by``."""
    same = [one for one in every if (one.cell_id, one.control) == (row.cell_id, row.control)]
    ranked = sorted(same, key=lambda one: not one.main_metric)
    known = dict.fromkeys(one.metric for one in ranked if one.metric in METRICS)
    if metric is not None and metric not in known:
        raise name_not_found(f"metric of task {row.task}", metric, known)
    if isinstance(by, str) and by != "pieces":
        raise name_not_found("grouping of words", by, ["pieces"])
    groups = _piece_groups(row, kept, corpora) if isinstance(by, str) else list(map(str, by))
    return scores_by(kept, groups, metric or next(iter(known))).sort_index()


def _piece_groups(row: ResultRow, kept: Predictions, corpora: Mapping[str, Corpus]) -> list[str]:
    """By number of pieces, ``[item]`` the group of each item: of the words of its spans together.

    Raises:
        ResultsError: the corpus is not known here, or its items are no words.
        BertologyError: the tokenizer of the model cannot be loaded.
    """
    from bertology.encoders import load_reader, resolve_model  # imports torch
    from bertology.encoders.tokenization import piece_ranges

    corpus = corpora.get(row.corpus_fingerprint)
    if corpus is None or row.split not in corpus:
        raise ResultsError(f"pieces of {row.corpus} cannot be counted without its text: give it with texts=")
    if row.model is None:
        raise ResultsError(f"{row.control} reads no pieces: choose a layer of a model")
    sentences = corpus[row.split]
    ranges, numbers = piece_ranges(load_reader(resolve_model(row.model)), sentences), _numbers(sentences)
    groups = []
    for item in kept.item_ids:
        name, _, place = item.rpartition(":")
        if name not in numbers or not place:
            raise ResultsError(
                f"task {row.task} asks of whole sentences or prompts, which are not told by their pieces"
            )
        start = int(sentences.starts[numbers[name]])
        words = [word for first, last in spans_of(place) for word in range(start + first, start + last)]
        n = len({piece for word in words for piece in range(*ranges[word].tolist())})
        groups.append(f"{n} piece{'s' * (n > 1)}" if n < _MANY_PIECES else f"{_MANY_PIECES} pieces or more")
    return groups


class _Texts:
    """The texts and words of items, looked up once for all cells that share them."""

    def __init__(self, corpora: Mapping[str, Corpus]) -> None:
        self._corpora = corpora
        self._numbers: dict[tuple[str, str], dict[str, int]] = {}
        self._last: tuple[Any, dict[str, list[str | None]]] = None, {}

    def words(self, row: ResultRow, places: tuple[tuple[str, str], ...]) -> dict[str, list[str | None]]:
        """``text`` and ``word`` of items, by sentence and place; nothing where the corpus is not at hand."""
        corpus, key = self._corpora.get(row.corpus_fingerprint), (row.corpus_fingerprint, row.split)
        if corpus is None or row.split not in corpus:
            return {}
        if self._last[0] != (key, places):
            sentences = corpus[row.split]
            numbers = self._numbers.setdefault(key, _numbers(sentences))
            found = [(numbers.get(name), place) for name, place in places]
            text = [None if number is None else sentences.text(number) for number, _ in found]
            word = [None if number is None else _written(sentences, number, place) for number, place in found]
            self._last = (key, places), {"text": text, "word": word}
        return self._last[1]


def _numbers(sentences: Sentences) -> dict[str, int]:
    """Sentences by the names that predictions have: ids, with ``#`` and their number where several have one."""
    ids = [sentences.id(number) for number in range(len(sentences))]
    times = Counter(ids)
    numbered = {f"{name}#{number + 1}": number for number, name in enumerate(ids)}
    return numbered | {name: number for number, name in enumerate(ids) if name and times[name] == 1}


def _written(sentences: Sentences, number: int, place: str) -> str:
    """What is written in the spans of a place."""
    start, text = int(sentences.starts[number]), sentences.text(number)
    ends = [(sentences.char_spans[start + a][0], sentences.char_spans[start + b - 1][1]) for a, b in spans_of(place)]
    return BETWEEN_SPANS.join(text[begin:end] for begin, end in ends)
