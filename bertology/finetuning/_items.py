"""The items of a task with their labels, as inputs of a model, with its predictions, and the scores of these."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from bertology._files import canonical_json
from bertology._names import by_key, name_not_found
from bertology.causal.targets import Integers, PatchPair, TargetKind, answer_sums
from bertology.causal.targets import Target as PredictionTarget
from bertology.corpora import TEXTS, Corpus, Sentence, Sentences, Target
from bertology.encoders import Encoder
from bertology.encoders.alignment import SHARED
from bertology.encoders.heads import HeadKind
from bertology.errors import BertologyError, CorpusError, FitError, ModelError, quoted
from bertology.families.model_corpus import choose_splits
from bertology.families.vectors import fill_sentences
from bertology.measures import Metric, bootstrap, count_labels, count_numbers, find_metric, metrics, over_runs
from bertology.measures.intervals import Bootstrap
from bertology.probing import Probe, RepresentationProbe, get_probe, target_examples
from bertology.probing.items import TreeExamples
from bertology.probing.probes import SentenceProbe
from bertology.results.rows import score_of

Kind = Literal["labels", "numbers", "tags", "answers", "choices"]
"""One label of a text or a pair, one number, a label of each word, a part of a text, or one of several texts."""
PAIR_NUMBER = "pair_number"
_LABEL = "label"
_TAKEN = "is none to fine-tune for: take one label of a word, sentence or pair, a number of the latter, span or choice"


@dataclass(frozen=True, eq=False)
class Items:
    """The items of one split."""

    sentences: Sentences
    table: pd.DataFrame
    """A row for each item: ``item_id``; ``cluster_id``, what is resampled together (the sentence of a word, the text of
    a question, else the item); ``gold``, the label, a number as text, of questions all true answers as a list in JSON,
    of choices the number of the right one, from 1; ``place``, number of the word, for labels of words, else of the
    sentence; of questions the ``answers``."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Number of items that were left out, by reason."""

    def __len__(self) -> int:
        return len(self.table)

    @property
    def fingerprint(self) -> str:
        """Hash of texts and annotation."""
        return self.sentences.fingerprint

    @property
    def place(self) -> Integers:
        """``[item]`` number of the word or sentence."""
        return self.table["place"].to_numpy()

    @property
    def gold(self) -> list[str]:
        """``[item]`` what is true."""
        return list(self.table["gold"])

    def without(self, is_left_out: NDArray[np.bool_], reason: str) -> "Items":
        """The items without those of the mask ``[item]``, which are counted as skipped for a reason."""
        if not (n := int(is_left_out.sum())):
            return self
        skipped = {**self.skipped, reason: self.skipped.get(reason, 0) + n}
        return replace(self, table=self.table[~is_left_out].reset_index(drop=True), skipped=skipped)

    @property
    def are_pairs(self) -> bool:
        """Whether each item is two texts."""
        return bool(len(self)) and len(_parts(self.sentences[int(self.table["cluster_id"][0])])) == 2

    def texts(self) -> tuple[list[str], list[str] | None, list[int]]:
        """``[input]`` the texts that a model reads: each item, or the first text of a pair or question; the second one
        if there is one; and the number of the item, which has one input for each of its choices."""
        parts = [_parts(self.sentences[int(number)]) for number in self.place]
        pairs = [(number, first, second) for number, (first, *rest) in enumerate(parts) for second in rest or [""]]
        firsts, seconds = [first for _, first, _ in pairs], [second for *_, second in pairs]
        return firsts, seconds if any(seconds) else None, [number for number, *_ in pairs]


def _parts(sentence: Sentence) -> list[str]:
    """The texts that a sentence is made of; itself where it is one."""
    starts = [sentence.spans[target.span1[0]][0] for target in sentence.targets.get(TEXTS, ())]
    bounds = [0, *starts[1:], len(sentence.text)]
    return [sentence.text[start:end].rstrip() for start, end in pairwise(bounds)]


def second_start(sentence: Sentence) -> int:
    """The place in a sentence's text where the second of two texts begins."""
    return sentence.spans[sentence.targets[TEXTS][1].span1[0]][0]


@dataclass(frozen=True)
class TuningTask:
    """A task with its items of every split."""

    name: str
    version: int
    kind: Kind
    splits: Mapping[str, Items]
    """``train``, ``dev`` and, where it has labels, ``test``."""
    labels: tuple[str, ...]
    """Labels of train in alphabetical order; none of numbers and answers."""
    notes: tuple[str, ...] = ()
    """Notes on how splits were made and which of them have no labels."""
    has_unanswered: bool = False
    """Whether some questions of train have no answer, so that none may be predicted."""
    n_repeated: int = 0
    """Number of texts of test that are in train as well."""
    positive: str | None = None
    """The one of two labels whose F1 is computed; the second when left out."""

    @property
    def head(self) -> HeadKind:
        """The head of transformers that predicts this."""
        return "words" if self.kind == "tags" else self.kind if self.kind in ("answers", "choices") else "sentence"

    @property
    def codes(self) -> dict[str, int]:
        """The number of each label."""
        return {label: code for code, label in enumerate(self.labels)}


def tuning_task(
    task: str, corpus: Corpus, *, train: str = "train", test: str = "test", sentences: int | None = None
) -> TuningTask:
    """The items of a task in a corpus; arguments and errors are those of :func:`bertology.finetune`.

    A corpus without splits is divided 8 : 1 : 1; without a split called dev, every tenth sentence of train is held out
    in its place. Test is left out where it has no labels.
    """
    corpus = corpus.divided() if (train, test) == ("train", "test") and train not in corpus else corpus
    found = choose_splits(corpus, train=train, test=test if test in corpus else None)
    cut = {name: split[:sentences] if sentences else split for name, split in found.by_name.items()}
    name, version, kind, _ = meaning(task)
    splits, notes = {}, [f"splits of {corpus.name}: {corpus.notes['splits']}"] if "splits" in corpus.notes else []
    notes += found.notes
    for split, text in cut.items():
        if split == "test" and not len(text):
            continue
        try:
            splits[split] = items_of(task, text)
        except CorpusError as error:
            if split != "test":
                raise CorpusError(f"task {name}, split {split} of {corpus.name}: {error}") from None
            notes.append(f"test is not scored: {error}")
    labels = tuple(sorted(set(splits["train"].gold))) if kind in ("labels", "tags") else ()
    if kind in ("labels", "tags") and len(labels) < 2:
        raise FitError(f"task {name}: train has the one label {quoted(labels[0])}; give data with two or more")
    train_items = splits["train"].table
    has_unanswered = "answers" in train_items and not train_items["answers"].map(len).all()
    if kind == "choices":
        first, column = splits["train"].sentences[int(splits["train"].place[0])], name.partition(":")[2] or _LABEL
        label, right = quoted(str(first.targets[column][0].label)), splits["train"].gold[0]
        notes.append(f"choices count from 1: that of {first.id}, whose label in {corpus.name} is {label}, is {right}")
    n_repeated = replace(found, train=cut["train"], dev=cut["dev"], test=cut["test"], _prepared={}).n_repeated or 0
    return TuningTask(name, version, kind, splits, labels, tuple(notes), has_unanswered, n_repeated)


def meaning(task: str) -> tuple[str, int, Kind, Probe | None]:
    """Full name, version and kind of a task, and the probe whose items it has, if it has those of one.

    Errors are those of :func:`tuning_task` that need no data.
    """
    stem, _, column = task.strip().partition(":")
    stem = stem.lower().replace("-", "_")
    if stem in ("span", "choice"):
        return f"{stem}:{column}" if column else stem, 1, "answers" if stem == "span" else "choices", None
    if stem == PAIR_NUMBER:
        if not column:
            raise BertologyError("task pair_number needs a column of numbers after a colon: pair_number:score")
        return f"{stem}:{column}", 1, "numbers", None
    probe = get_probe(task)
    kind: Kind = "labels" if isinstance(probe, SentenceProbe) else "tags"
    kind = "numbers" if stem == "sentence_number" else kind
    if not isinstance(probe, RepresentationProbe) or (kind == "tags" and "r2" in probe.metrics):
        raise BertologyError(f"task {probe.task} {_TAKEN}")
    return probe.task, probe.version, kind, probe


def questions_of(task: str, sentences: Sentences, target: PredictionTarget | None = None) -> list[PatchPair]:
    """The items of a task as texts with what is predicted of them, to be explained or patched; arguments and errors are
    those of :func:`tuning_task`.

    The target is what the model predicts of each item, or the one that is given; ``gold`` is what is true.
    """
    kind, items, questions = meaning(task)[2], items_of(task, sentences), []
    asked = PredictionTarget(cast(TargetKind, kind.removesuffix("s"))) if target is None else target
    of = zip(items.table["cluster_id"].tolist(), items.place.tolist(), items.gold, strict=True)
    for cluster, place, gold in of:
        if kind == "tags":
            sentence = sentences[int(cluster)]
            asked = replace(asked, word=int(place - sentences.starts[cluster]) + 1)
            questions.append(PatchPair(sentence.text, target=asked, sentence=sentence, gold=gold, cluster=str(cluster)))
            continue
        first, *rest = _parts(sentences[int(place)])
        gold = (json.loads(gold) or [""])[0] if kind == "answers" else gold
        questions.append(PatchPair(first, target=asked, seconds=tuple(rest), gold=gold, cluster=str(cluster)))
    return questions


def items_of(task: str, sentences: Sentences) -> Items:
    """The items of a task in one split; arguments and errors are those of :func:`tuning_task`."""
    name, _, kind, probe = meaning(task)
    column = task.strip().partition(":")[2]
    if kind == "answers":
        return _answers(sentences, column or "answer")
    if kind == "choices":
        return _choices(sentences, column or _LABEL)
    if isinstance(probe, RepresentationProbe):
        examples = probe.examples(sentences)
    else:
        examples = target_examples(sentences, column, spans=2)
    if kind == "tags":
        whole = bool(examples.are_words)
    else:  # every item is all of a sentence, or both texts of a pair, and has one label
        whole = fill_sentences(examples, sentences) and len(np.unique(examples.clusters)) == len(examples)
    if not whole or examples.is_multi_label or isinstance(examples, TreeExamples):
        raise BertologyError(f"task {name} {_TAKEN}")
    if kind != "numbers":
        examples = examples.without_ignored()
    gold = [examples.values[code] for code in examples.codes.tolist()]
    if kind == "numbers":
        is_number = np.isfinite(pd.to_numeric(pd.Series(gold, dtype=object), errors="coerce"))
        if wrong := [text for text, is_one in zip(gold, is_number, strict=True) if not is_one]:
            raise CorpusError(f"{quoted(wrong[0])} is no number; take sentence_label or pair_label for classes")
    place, clusters = examples.clusters, examples.clusters
    ids = [sentences.id(number) or str(number) for number in clusters.tolist()]
    if kind == "tags":
        place = examples.words
        inside = place - sentences.starts[clusters]
        ids = [f"{sentence}:{word}" for sentence, word in zip(ids, inside.tolist(), strict=True)]
    return Items(sentences, item_table(ids, clusters, gold, place), examples.skipped)


def _answers(sentences: Sentences, column: str) -> Items:
    """Questions with their answers."""
    asked = sentences.targets(column)
    found = [(number, [target for target in targets if target.span2 is not None]) for number, targets in asked]
    if not found:
        raise name_not_found("column of answers", column, sentences.target_layers)
    texts: dict[str, int] = {}
    clusters = [texts.setdefault(_parts(sentences[number])[-1], len(texts)) for number, _ in found]
    ids = [sentences.id(number) or str(number) for number, _ in found]
    gold = [canonical_json([target.label for target in answers]).decode() for _, answers in found]
    table = item_table(ids, clusters, gold, [number for number, _ in found])
    return Items(sentences, table.assign(answers=pd.Series([answers for _, answers in found], dtype=object)))


def _choices(sentences: Sentences, column: str) -> Items:
    """Texts with several continuations, one of which is right."""
    texts, gold = dict(sentences.targets(TEXTS)), dict[int, str]()
    for number, (target, *_) in sentences.targets(column):
        choices = [text.span1 for text in texts.get(number, ())[1:]]
        if len(choices) > 1 and target.span2 in choices:
            gold[number] = str(choices.index(target.span2) + 1)
    if not gold:
        raise CorpusError(f"no text has choices, and the right one in column {quoted(column)}: name columns as choice=")
    ids = [sentences.id(number) or str(number) for number in gold]
    return Items(sentences, item_table(ids, [*gold], [*gold.values()], [*gold]))


def item_table(ids: Sequence[str], clusters: ArrayLike, gold: Sequence[str], place: ArrayLike) -> pd.DataFrame:
    numbers = {"cluster_id": np.asarray(clusters, np.int64), "place": np.asarray(place, np.int64)}
    return pd.DataFrame({"item_id": ids, "gold": gold, **numbers})


IGNORED = -100
_N_CHOICES = "n_choices"
NONE_OF_ITS_OWN = "no subword of its own"
"""Why a word is left out whose subwords are all predicted at for other words."""
_SPECIAL = -1
"""Segment of special tokens and padding: the texts are 0 and 1."""


@dataclass(frozen=True, eq=False)
class Row:
    """One input of the model."""

    ids: NDArray[np.int64]
    """``[piece]``"""
    types: NDArray[np.int64] | None
    """``[piece]`` token types, of models that have them."""
    segments: NDArray[np.int64]
    """``[piece]`` 0 in the first text, 1 in the second, −1 for special tokens."""
    items: NDArray[np.int64]
    """``[target]`` items that are predicted of this input."""
    places: NDArray[np.int64]
    """``[target]`` of labels of words, the piece that each is predicted at."""
    label: Any
    """Class, number, ``[piece]`` classes with −100 for none, first and last piece of the answer, or place of the right
    choice."""
    offsets: NDArray[np.int64] | None = None
    """``[piece, 2]`` of questions, the place of each piece in its text."""
    choices: "tuple[Row, ...]" = ()
    """The text with each of its choices, the first of which is this row; empty where nothing is chosen from."""

    def __len__(self) -> int:
        return max((len(one.ids) for one in self.choices), default=len(self.ids))

    @property
    def key(self) -> bytes:
        """Identifies what the model reads."""
        return self.ids.tobytes() + (b"" if self.types is None else self.types.tobytes())

    @property
    def n_labels(self) -> int:
        """Number of labels that a mean loss is over."""
        return int(np.count_nonzero(self.label != IGNORED)) if isinstance(self.label, np.ndarray) else 1

    @property
    def is_learnable(self) -> bool:
        """Whether there is something to learn: of train all labels are known, of words some window may have none."""
        return not np.all(np.asarray(self.label) == IGNORED)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of one split."""

    rows: list[Row]
    items: Items
    """The items that are predicted, without words that have no subword of their own."""
    n_cut: int = 0
    """Texts of which only the beginning is read."""

    def batches(self, size: int) -> Iterator[list[Row]]:
        """Rows of about one length, at most ``size`` together."""
        ordered = sorted(self.rows, key=len)
        return (ordered[start : start + size] for start in range(0, len(ordered), size))


def encode(task: TuningTask, items: Items, encoder: Encoder, *, max_pieces: int | None, stride: int) -> Inputs:
    """The inputs of the items of a split.

    Texts and pairs, a text with each of its choices among them, are cut at their end where they are longer than the
    model takes, the longer text of a pair first; sentences whose words are labelled and texts with answers are read in
    overlapping windows. A word is predicted at its first subword that no word before it is predicted at; words without
    one, or that share all subwords as *de* and *le* of French *du*, are left out and counted.
    """
    most = encoder.max_pieces if max_pieces is None else max_pieces
    if most > encoder.max_pieces:
        raise ModelError(f"max_pieces {most}: model {encoder.name} takes at most {encoder.max_pieces}")
    if task.kind == "tags":
        return _tagged(task, items, encoder, most)
    firsts, seconds, numbers = items.texts()
    tokenizer, how = encoder.tokenizer, dict[str, Any](truncation=True, max_length=most)
    if task.kind == "answers":
        longest = max(len(ids) for ids in tokenizer(firsts, add_special_tokens=False)["input_ids"])
        room = most - longest - tokenizer.num_special_tokens_to_add(pair=True)
        if room <= stride:
            left = f"a question of {longest} pieces leaves {max(0, room)} of {most} for the text"
            raise ModelError(f"{left}, fewer than a stride of {stride}: set stride lower or max_pieces higher")
        how |= {"truncation": "only_second", "stride": stride}
        how |= {"return_overflowing_tokens": True, "return_offsets_mapping": True}
    try:
        encoded = tokenizer(firsts, seconds, **how)
    finally:
        tokenizer.backend_tokenizer.no_truncation()  # which would be saved with it
    numbers = encoded["overflow_to_sample_mapping"] if task.kind == "answers" else numbers
    codes, gold, rows, nothing = task.codes, items.gold, [], np.zeros(0, dtype=np.int64)
    for one, number in zip(encoded.encodings, numbers, strict=True):
        segments = np.array([_SPECIAL if part is None else part for part in one.sequence_ids], dtype=np.int64)
        types = np.array(one.type_ids, dtype=np.int64) if "token_type_ids" in encoded else None
        row = Row(np.array(one.ids, dtype=np.int64), types, segments, np.array([number]), nothing, None)
        if task.kind == "answers":
            row = replace(row, offsets=np.array(one.offsets, dtype=np.int64))
            label: Any = _answer_in(row, items, number)
        elif task.kind == "choices":
            label = int(gold[number]) - 1
        else:
            label = float(gold[number]) if task.kind == "numbers" else codes.get(gold[number], IGNORED)
        rows.append(replace(row, label=label))
    cut = {number for number, one in zip(numbers, encoded.encodings, strict=True) if one.overflowing}
    if task.kind == "choices":
        by_item = by_key((int(row.items[0]), row) for row in rows)
        rows = [replace(row, choices=(row, *others)) for row, *others in by_item.values()]
    return Inputs(rows, items, 0 if task.kind == "answers" else len(cut))


def _answer_in(row: Row, items: Items, item: int) -> tuple[int, int]:
    """First and last piece of the first answer in a window; those of the first special token where it has none."""
    answers: list[Target] = items.table["answers"][item]
    if not answers:
        return 0, 0
    answer, sentence = answers[0], items.sentences[int(items.place[item])]
    assert answer.span2 is not None
    assert row.offsets is not None
    before = sentence.spans[answer.span2[0]][0]
    # The answer as it is written may begin within its first word.
    start = sentence.text.index(str(answer.label), before) - second_start(sentence)
    end = start + len(str(answer.label))
    of_text = np.flatnonzero(row.segments == 1)
    starts, ends = row.offsets[of_text, 0], row.offsets[of_text, 1]
    if not len(of_text) or starts[0] > start or ends[-1] < end:
        return 0, 0
    inside = of_text[(starts < end) & (ends > start)]
    return int(inside[0]), int(inside[-1])


def _tagged(task: TuningTask, items: Items, encoder: Encoder, most: int) -> Inputs:
    pieces = encoder.tokenize(items.sentences, max_pieces=most)
    items = items.without(np.isin(items.place, pieces.shared), SHARED)
    # the first subword of each word, counted in its window, that is no word's before; −1 for a word without one
    words = items.place
    own, taken = pieces.word_first[words].astype(np.int64), set()
    ranges = zip(pieces.word_window[words].tolist(), pieces.word_last[words].tolist(), strict=True)
    for item, (window, end) in enumerate(ranges):
        if window >= 0:
            free = (place for place in range(own[item], end) if (window, place) not in taken)
            own[item] = next(free, -1)
            taken.add((window, own[item]))
    items, own = items.without(own < 0, NONE_OF_ITS_OWN), own[own >= 0]
    codes, gold = task.codes, items.gold
    windows = pieces.word_window[items.place]
    order = np.argsort(windows, kind="stable")
    read = order[windows[order] >= 0]
    bounds = np.searchsorted(windows[read], np.arange(pieces.n_windows + 1))
    has_types = "token_type_ids" in encoder.tokenizer.model_input_names
    rows = []
    for window in range(pieces.n_windows):
        here = read[bounds[window] : bounds[window + 1]]
        if not len(here):
            continue
        ids = pieces.window(window).astype(np.int64)
        places = own[here]
        label = np.full(len(ids), IGNORED, dtype=np.int64)
        label[places] = [codes.get(gold[item], IGNORED) for item in here.tolist()]
        segments = np.zeros(len(ids), dtype=np.int64)
        segments[: encoder.n_prefix] = _SPECIAL
        segments[len(ids) - encoder.n_suffix :] = _SPECIAL
        rows.append(Row(ids, np.zeros_like(ids) if has_types else None, segments, here, places, label))
    return Inputs(rows, items)


class Collator:
    """Makes one batch of rows, padded to the longest; with ``states``, those that a head on a frozen encoder takes."""

    def __init__(self, task: TuningTask, *, pad_id: int, states: Callable[..., Tensor] | None) -> None:
        self._kind, self._pad_id, self._states = task.kind, pad_id, states

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """The arguments of the model, labels included."""
        batch = self.inputs(rows)
        if self._states is not None:
            states = self._states(rows, batch)
            batch = {"states": states, "attention_mask": batch["attention_mask"]}
            batch["segments"] = _padded([row.segments for row in rows], _SPECIAL)
        if self._kind == "tags":
            batch["labels"] = _padded([row.label for row in rows], IGNORED)
        elif self._kind == "answers":
            starts, ends = zip(*(row.label for row in rows), strict=True)
            batch |= {"start_positions": torch.tensor(starts), "end_positions": torch.tensor(ends)}
        else:
            batch["labels"] = torch.tensor([row.label for row in rows])
        return batch

    def inputs(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """The arguments of the encoder; ``[input, choice, piece]`` of choices, and how many each input has."""
        numbers, inputs = [len(row.choices) for row in rows], list(rows)
        if self._kind == "choices":  # of fewer choices the last is repeated: see output_of
            inputs = [row.choices[min(place, len(row.choices) - 1)] for row in rows for place in range(max(numbers))]
        batch = {"input_ids": _padded([row.ids for row in inputs], self._pad_id)}
        batch["attention_mask"] = _padded([np.ones_like(row.ids) for row in inputs], 0)
        types = [row.types for row in inputs if row.types is not None]
        batch |= {"token_type_ids": _padded(types, 0)} if types else {}
        if self._kind != "choices":
            return batch
        by_item = {name: value.reshape(len(rows), -1, value.shape[-1]) for name, value in batch.items()}
        return {**by_item, _N_CHOICES: torch.tensor(numbers)}


def _padded(values: Sequence[NDArray[np.int64]], fill: int) -> Tensor:
    return pad_sequence([torch.from_numpy(row) for row in values], batch_first=True, padding_value=fill)


def output_of(model: Any, batch: Mapping[str, Tensor]) -> Any:
    """The output of a model for a batch; of choices, those that an input does not have are no part of its loss."""
    inputs = {name: value for name, value in batch.items() if name != _N_CHOICES}
    output = model(**inputs)
    if _N_CHOICES in batch:
        places = torch.arange(output["logits"].shape[1], device=output["logits"].device)
        output["logits"] = output["logits"].masked_fill(places >= batch[_N_CHOICES][:, None], -math.inf)
        if "labels" in batch:
            output["loss"] = cross_entropy(output["logits"], batch["labels"])
    return output


_BATCH = 64
_BEST = 20
"""First and last places of an answer that are tried with each other."""
_LABELS = "labels", "start_positions", "end_positions"
Variant = Callable[[], AbstractContextManager[Any]]
"""A function that makes a context inside which a model is changed for one pass."""


def predictions(
    model: Any, task: TuningTask, inputs: Inputs, collator: Collator, variants: Sequence[Variant] = (nullcontext,)
) -> list[pd.DataFrame]:
    """One table for each variant of a model, with one row for each item: what is true and what is predicted.

    Columns are ``item_id``, ``cluster_id``, ``gold``, ``pred`` and ``score``: the natural logarithm of the probability
    of the predicted label, the number, or of answers the sum of their logits, less those of no answer where some
    training questions have none. An item that the model cannot read has an empty prediction, which is wrong, and no
    score. Each batch is read by all variants, in their order, before the next.
    """
    items, found = inputs.items, [dict[int, tuple[str, float]]() for _ in variants]
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    with torch.inference_mode():
        for rows in inputs.batches(_BATCH):
            batch = {name: value.to(device) for name, value in collator(rows).items() if name not in _LABELS}
            for of_variant, variant in zip(found, variants, strict=True):
                with variant():
                    output = output_of(model, batch)
                for item, text, score in read_output(task, items, rows, output):
                    if item not in of_variant or score > of_variant[item][1]:
                        of_variant[item] = text, score
    model.train(was_training)
    tables = []
    for of_variant in found:
        predicted = [of_variant.get(item, ("", np.nan)) for item in range(len(items))]
        given = items.table[["item_id", "cluster_id", "gold"]]
        tables.append(given.assign(pred=[text for text, _ in predicted], score=[score for _, score in predicted]))
    return tables


def read_output(task: TuningTask, items: Items, rows: list[Row], output: Any) -> Iterator[tuple[int, str, float]]:
    """Item, prediction and score of each prediction in the output of a model for some inputs."""
    if task.kind == "answers":
        ends = [output[f"{end}_logits"] for end in ("start", "end") if "logits" not in output]
        logits = torch.stack(ends, -1) if ends else output["logits"]
        for row, values in zip(rows, logits.float().cpu().numpy(), strict=True):
            yield _answer(items, row, values, may_be_empty=task.has_unanswered)
        return
    values = output["logits"].float().cpu()
    if task.kind == "numbers":
        for row, number in zip(rows, values[:, 0].tolist(), strict=True):
            yield int(row.items[0]), repr(number), number
        return
    scores = values.log_softmax(-1)
    best, codes = scores.max(-1)
    for place, row in enumerate(rows):
        where = (place, torch.from_numpy(row.places)) if task.kind == "tags" else (place, None)
        chosen = codes[where].flatten().tolist(), best[where].flatten().tolist()
        for item, code, score in zip(row.items.tolist(), *chosen, strict=True):
            yield item, task.labels[code] if task.labels else str(code + 1), score


def _answer(items: Items, row: Row, logits: NDArray[np.float32], *, may_be_empty: bool) -> tuple[int, str, float]:
    """The best answer in a window, empty if no answer is better; and its score."""
    item = int(row.items[0])
    assert row.offsets is not None
    inside = np.flatnonzero(row.segments == 1)
    starts, ends = (inside[np.argsort(-logits[inside, side])[:_BEST]] for side in (0, 1))
    sums = answer_sums(logits, starts, ends)
    if not np.isfinite(sums).any():
        return item, "", -np.inf
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    score = float(sums[first, last]) - may_be_empty * float(logits[0].sum())
    sentence = items.sentences[int(items.place[item])]
    text = sentence.text[second_start(sentence) :]
    answer = text[row.offsets[starts[first], 0] : row.offsets[ends[last], 1]]
    return item, "" if may_be_empty and score < 0 else answer, score


_IOB = ("B-", "I-")
Counted = tuple[NDArray[Any], tuple[str, ...], list[Metric]]
"""Counts ``[1, cluster, label, kind]``, names of the labels, and metrics of these counts."""


def counted(predictions: pd.DataFrame, task: TuningTask) -> list[Counted]:
    """Counts of predictions (columns ``cluster_id``, ``gold`` and ``pred``), and the metrics computed from them."""
    kind, labels = task.kind, task.labels
    clusters, cluster = np.unique(predictions["cluster_id"].to_numpy(), return_inverse=True)
    n_clusters = len(clusters)
    gold, pred = predictions["gold"].tolist(), predictions["pred"].tolist()
    if kind == "numbers":
        true, guessed = ([math.nan if text == "" else float(text) for text in texts] for texts in (gold, pred))
        ranked = count_numbers(true, [guessed], cluster, n_clusters=n_clusters)
        linear = metrics.count_correlation(true, guessed, cluster, n_clusters=n_clusters)
        return [(linear, (), [metrics.PEARSON]), (ranked, (), [find_metric("spearman"), find_metric("r2")])]
    if kind == "answers":
        truth = [json.loads(answers) for answers in gold]
        matches = metrics.count_answers(truth, pred, cluster, n_clusters=n_clusters)
        return [(matches, (), [metrics.EXACT_MATCH, metrics.ANSWER_F1])]
    names = (*labels, *sorted({*gold, *pred} - {*labels}))
    code = {name: number for number, name in enumerate(names)}
    codes = [np.array([code[label] for label in side]) for side in (gold, pred)]
    counts = count_labels(codes[0], codes[1][None], cluster, n_labels=len(names), n_clusters=n_clusters)
    asked = [find_metric("accuracy"), find_metric("macro_f1")]
    if kind == "choices":
        return [(counts, names, asked[:1])]
    if kind == "labels":
        asked.append(find_metric("matthews"))
        if len(labels) == 2:
            asked.append(metrics.binary_f1(task.positive or labels[1]))
        return [(counts, names, asked)]
    if not any(label.startswith(_IOB) for label in labels):
        return [(counts, names, asked)]
    entities, types = metrics.count_entities(gold, pred, cluster, n_clusters=n_clusters)
    return [(entities, types, [metrics.ENTITY_F1]), (counts, names, [*asked, find_metric("micro_f1")])]


def scores(predictions: pd.DataFrame, task: TuningTask) -> dict[str, Bootstrap]:
    """All metrics of some predictions, the main one first, with 95 % intervals over clusters of items."""
    found: dict[str, Bootstrap] = {}
    for counts, names, asked in counted(predictions, task):
        found |= bootstrap(counts, asked, labels=names)
    return found


def values(predictions: pd.DataFrame, task: TuningTask) -> dict[str, float]:
    """All metrics of some predictions, without intervals."""
    return {
        metric.name: float(metric(counts.sum(axis=1)[0], names))
        for counts, names, asked in counted(predictions, task)
        for metric in asked
    }


def majority(predictions: pd.DataFrame, train: Sequence[str], task: TuningTask) -> dict[str, float]:
    """Scores of one prediction for every item: the most frequent label of train, of numbers their mean; no answers."""
    if task.kind == "answers":
        return {}
    mean = task.kind == "numbers"
    constant = repr(float(np.mean([float(text) for text in train]))) if mean else Counter(train).most_common(1)[0][0]
    found = values(predictions.assign(pred=constant), task)
    return {metric: value for metric, value in found.items() if math.isfinite(value)}


def collapsed(predictions: pd.DataFrame, kind: Kind) -> str | None:
    """The one label, or choice, that is predicted for all items, where these have several; None where there is none."""
    n_gold, n_pred = (predictions[side].nunique() for side in ("gold", "pred"))
    is_one = kind in ("labels", "tags", "choices") and n_pred == 1 and n_gold > 1
    return str(predictions["pred"].iloc[0]) if is_one else None


def score_rows(runs: Sequence[Bootstrap]) -> dict[str, Any]:
    """The mean of a metric over runs with its interval for other runs and items, as fields of a row."""
    by_run = np.array([run.values[0] for run in runs])
    spread = float(by_run.std(ddof=1)) if len(runs) > 1 else math.nan
    whole = over_runs(runs)
    return {**score_of(whole, 0), "seed_sd": spread, "n_seeds": len(runs), "n_clusters": whole.n_clusters}
