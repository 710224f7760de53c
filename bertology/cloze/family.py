"""Cloze tasks: what the masked-LM head, or the next-sentence head, answers at every layer; nothing is fitted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bertology import cloze, encoders
from bertology._files import canonical_json, digest, given_path, read_text
from bertology._names import by_key, folder_name
from bertology.activations.progress import Progress
from bertology.cloze import Prompt, ask, next_sentence, pseudo_log_likelihood
from bertology.cloze.probes import ClozeAsks, ClozeItems, ClozeProbe, lens_text
from bertology.cloze.prompts import AnswerForm, Excluded, Floats, anchor_of, spell_pieces, vocabulary_ids
from bertology.corpora import Sentences
from bertology.corpora.prompts import ClozeItem
from bertology.encoders import ModelShape
from bertology.encoders.batching import OnLong
from bertology.errors import BertologyError, ClozeError, CorpusError
from bertology.families import contract, rows
from bertology.families.contract import CellGrid, Counts, Family, FitCells, Problem, Resources, Scoring, TaskRows
from bertology.families.model_corpus import ModelCorpus, text_counts
from bertology.families.request import Init, ReadoutConfig
from bertology.families.sums import own_readout
from bertology.measures import Metric, bootstrap
from bertology.measures.intervals import Bootstrap
from bertology.measures.metrics import METRICS, CountKind
from bertology.probing import LeftOut, Probe
from bertology.probing.items import coded
from bertology.results import Predictions, ResultRow, predictions
from bertology.results.cells import Cell, CellRecord


class _Cloze(Family):
    """What does a model put where a word is left out, or which of two texts does it find more probable?"""

    keeps_items = True

    def items(self, probe: Probe, source: str, *, most: int | None, columns: str | None) -> ClozeItems:
        assert isinstance(probe, ClozeProbe)
        with contract.named_task(probe):
            items = probe.read_items(source, columns=columns)
            items.check(probe.asks)
        if most is None:
            return items
        # Wordings of a fact are compared with each other: those of the same facts are taken in each group.
        is_worded = any(metric.count_kind == "agreement" for metric in probe.scores)
        as_wholes = is_worded or probe.asks == "statements"
        return items.some_of_each_group(most, whole_clusters=as_wholes)

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """The model's own head, lower layers as they are or through a tuned lens, with settings of the probe."""
        assert isinstance(probe, ClozeProbe)
        is_pair = probe.asks == "next_sentence"
        others = _OTHER_HEADS if probe.asks in _OF_SENTENCES else (_LEFT_TO_RIGHT,) if probe.asks == "answers" else ()
        readouts = ("next_sentence.v1",) if is_pair else ("masked_lm.v1", _TUNED_LENS, *others)
        configs = own_readout(probe, asked, *readouts, about="what a model says of texts")
        for config in configs:
            if is_pair and config.settings:
                raise BertologyError(f"task {probe.task} has no settings: leave {', '.join(config.settings)} out")
            if "lens_corpus" in config.settings and config.readout != _TUNED_LENS:
                raise BertologyError(f"task {probe.task}: lens_corpus is a setting of the readout {_TUNED_LENS}")
            if config.readout in _OTHER_HEADS and config.settings.keys() - {"vocabulary"}:
                problem = "has no settings but a vocabulary: leave them out"
                raise BertologyError(f"task {probe.task}: the readout {config.readout} {problem}")
        return configs

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer, from left to right the last one; with the texts without what decides, where there are such, on
        the model that is asked about."""
        layers, is_left = pair.layers_of(config), config.readout == _LEFT_TO_RIGHT
        if is_left and layers[-1] != pair.shape.n_layers:
            raise BertologyError(f"task {probe.task}: {_LEFT_TO_RIGHT} reads the last layer alone: give --layers -1")
        layers = layers[-1:] if is_left else layers
        with_blind = "blind" in pair.request.controls and init == pair.request.init
        # The words that decide are masks in the blind text, which a left-to-right model cannot read.
        can_be_blind = with_blind and not is_left and any(item.blind for item in pair.splits.items[probe.task].items)
        words = config.settings.get("vocabulary")
        identity = {"vocabulary_fingerprint": digest([canonical_json(read_vocabulary(str(words)))])} if words else {}
        if config.readout == _TUNED_LENS:
            _, text = _lens_text(config, pair)
            identity |= {"lens_fingerprint": text.text_fingerprint, "on_long": pair.request.on_long}
        return CellGrid(layers, layers, identity, ("none", "blind") if can_be_blind else ("none",))

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Run the model on the texts of a task."""
        probe, encoder = self.configured(cells.probe, cells.config), job.get_encoder()
        assert isinstance(probe, ClozeProbe)
        lens = {}
        if cells.config.readout == _TUNED_LENS:
            name, text = _lens_text(cells.config, job.pair)
            on_long = cast(OnLong, job.pair.request.on_long)
            fitted = cloze.lens.kept_lens(encoder, text, job.run, on_long=on_long, progress=job.progress)
            encoder, lens = encoder.through(fitted), {"lens": folder_name(name)}
        whole = probe.regrouped(job.pair.splits.items[probe.task], encoder)
        layers = tuple(layer for layer in cells.layers if layer is not None)
        ranked = any(metric.count_kind in ("answers", "agreement") for metric in probe.scores)
        words = read_vocabulary(probe.vocabulary) if probe.vocabulary else ()
        by_other = cells.config.readout if cells.config.readout in _OTHER_HEADS else None
        how: Any = {"vocabulary": words, "other_head": by_other, "shared_alone": probe.shared_alone}
        asked = Asked(encoder, layers, probe.form, ranked=ranked, **how)
        aligned = text_counts(encoder, (text for item in whole.items for text in (item.text, item.other) if text))
        file = predictions.CellFiles(job.run)
        for problem in cells.problems:
            watch, items = predictions.Stopwatch(), whole
            if problem.control == "blind":  # the items whose texts have a version without what decides, in it
                reason = "no text without what decides"
                without = tuple(LeftOut(item.id, item.group, reason) for item in whole.items if not item.blind)
                kept = tuple(replace(item, text=item.blind) for item in whole.items if item.blind)
                items = replace(whole, items=kept, left_out=(*whole.left_out, *without))
            answers = asked.answers(probe.asks, items, job.progress)
            if all(answers.reason):
                raise ClozeError(f"task {probe.task}: no item can be asked of {encoder.name} ({answers.reason[0]})")
            params: dict[str, Any] = {"clusters": items.clusters}
            if probe.knows_chance or probe.asks == "contexts":
                by_group = by_key((item.group, 1 / (1 + max(1, len(item.rivals)))) for item in items.items)
                chances = {group: round(sum(values) / len(values), 6) for group, values in by_group.items()}
                params["chance"] = chances  # the mean probability of a correct random choice
            if probe.asks != "next_sentence" and not by_other:
                is_whole = probe.asks in _OF_SENTENCES
                params["form"] = probe.form or ("original" if is_whole else "one_piece")
            params |= lens
            if cells.config.changes:
                params["settings"] = cells.config.changes
            provenance = watch.provenance("torch", "transformers", "numpy", device=job.device, n_cells=len(layers))
            for place, cell in enumerate(cells.cells_of(problem)):
                _add(file, cell, items, answers, place, provenance, {"params": params, **aligned})
        file.write()

    def compute_baselines(self, baselines: FitCells, job: Resources) -> None:
        """The answers most frequent in each group, whatever the text (the baseline Freq of Petroni et al. 2019)."""
        items = job.pair.splits.items[baselines.probe.task]
        answers = _by_frequency(items)
        provenance = {"versions": predictions.versions("numpy"), "wall_s": 0.0}
        with predictions.CellFiles(job.run) as file:
            for cell in baselines.cells.values():
                _add(file, cell, items, answers, 0, provenance, {})

    def columns(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig | None = None) -> dict[str, Any]:
        """The columns of the items, which have a language of their own."""
        return {**super().columns(pair, probe, config), "language": pair.splits.items[probe.task].language}

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> TaskRows:
        """Scores of all items, of groups of relations or constructions, and of each group."""
        probe, first, request = draws[0].probe, draws[0], scoring.pair.request
        assert isinstance(probe, ClozeProbe)
        columns = [_columns(one, probe, scoring) for one in draws]
        has_majority = first.weights.init == request.init and "majority" in request.controls and probe.baselines

        def more(control: str, by_control: rows.ByControl, _: Sequence[Mapping[str, Any]]) -> Sequence[ResultRow]:
            """The baseline ``majority`` on the items that the layers are scored on, in rows of the first cell; none
            where all items were scored, since the baseline of all items is the same."""
            if control != list(by_control)[-1] or not has_majority:
                return ()
            cell, items = first.cells["none", 0, first.layers[0]], scoring.pair.splits.items[probe.task]
            outcomes = predictions.read_outcomes(scoring.run, [cell.id])
            by_name = {item.id: item for item in items.items}
            if len(outcomes.item_ids) == len(by_name):
                return ()
            answers = _by_frequency(replace(items, items=tuple(by_name[name] for name in outcomes.item_ids)))
            (record,) = rows.records_of(scoring.run, (cell,))
            params = {"settings": first.config.changes} if first.config.changes else {}
            record = replace(record, facts={**record.facts, "params": params})
            outcomes = replace(outcomes, rank=answers.rank)
            column = _scored(outcomes, (record,), (cell,), (None,), probe, scoring, only="answers")
            shared = rows.task_columns(self, replace(first, is_baseline=True), scoring)
            where = {**shared, "model": scoring.pair.source.name, "control": "majority"}
            return rows.cell_rows(column, 0, where, metrics=probe.scores)

        # What a change of the text moves is neither good nor bad: no layer is the best at it.
        is_ranked = probe.asks != "changes"
        return rows.scored_rows(self, draws, columns, scoring, metrics=probe.scores, more=more, is_ranked=is_ranked)

    def count(self, run: predictions.Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        """Counts of the outcomes of items, by group."""
        outcomes = predictions.read_outcomes(run, ids)
        return outcomes.counts(metrics[0].count_kind), outcomes.groups

    def baseline_rows(self, baselines: FitCells, scoring: Scoring) -> TaskRows:
        """The rows of the most frequent answers."""
        probe, columns = baselines.probe, dict[Problem, rows.Column]()
        assert isinstance(probe, ClozeProbe)
        for problem in baselines.problems:
            cells = baselines.cells_of(problem)
            outcomes = predictions.read_outcomes(scoring.run, [cells[0].id])
            records = rows.records_of(scoring.run, cells)
            columns[problem] = _scored(outcomes, records, cells, (None,), probe, scoring, only="answers")
        return rows.scored_baselines(self, baselines, columns, scoring, metrics=probe.scores)


def _by_frequency(items: ClozeItems) -> "Answers":
    """Answers as one would guess them who knows how often each is right in a group (of equals the first one)."""
    ranks_of = {
        group: {answer: rank for rank, (answer, _) in enumerate(Counter(of_group).most_common(), 1)}
        for group, of_group in by_key((item.group, item.answer) for item in items.items).items()
    }
    answers = Answers.none(1, items.items)
    for number, item in enumerate(items.items):
        ranks = ranks_of[item.group]
        rank = min(ranks.get(word, len(ranks) + 1) for word in (item.answer, *item.accepted))
        answers.first[0, number] = next(iter(ranks))
        answers.rank[0, number] = rank - sum(ranks.get(word, rank) < rank for word in set(item.ignored))
    return answers


def read_vocabulary(path: str) -> tuple[str, ...]:
    """The words of a file, one a line."""
    file = given_path(path, error=CorpusError)
    lines = read_text(file, error=CorpusError, missing="it should be a vocabulary, one word a line").splitlines()
    words = tuple(dict.fromkeys(filter(None, map(str.strip, lines))))
    if not words:
        raise CorpusError(f"vocabulary {file}: no word in it; write one a line")
    return words


def _add(
    file: predictions.CellFiles,
    cell: Cell,
    items: ClozeItems,
    answers: "Answers",
    layer: int,
    provenance: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> None:
    left, pad = items.left_out, partial(np.pad, pad_width=(0, len(items.left_out)))
    every: list[ClozeItem | LeftOut] = [*items.items, *left]
    cluster, clusters = coded([item.cluster if isinstance(item, ClozeItem) else item.id for item in every])
    group, groups = coded([item.group for item in every])
    reasons = [*answers.reason, *(one.reason for one in left)]
    made = Predictions.of_cloze(
        [item.id for item in every],
        cluster,
        clusters,
        group=[item.group for item in every],
        gold=[*answers.gold[layer], *[""] * len(left)],
        pred=[*answers.first[layer], *[""] * len(left)],
        score=pad(answers.score[layer], constant_values=np.nan),
        rival=pad(answers.rival[layer], constant_values=np.nan),
        rank=pad(answers.rank[layer]),
        reason=reasons,
    )
    counts = _counts_of(reasons, cluster, group, groups)
    fixed = {"n_train": 0, "n_classes": 0, "n_unseen_label": 0, "params": {}}
    file.add(cell, made, facts={**fixed, **counts, **facts}, provenance=provenance)


def _counts_of(
    reasons: Sequence[str], cluster: NDArray[np.int64], group: NDArray[np.int64], groups: Sequence[str]
) -> dict[str, Any]:
    """Counts of scored items in all and in each group, and the ``[item]`` reasons of the others (empty: scored)."""
    scored = np.array([not reason for reason in reasons], dtype=bool)
    counts = []  # of all, then of each group: items scored, the clusters they stand in, and items left out
    for inside in (np.ones(len(reasons), dtype=bool), *(group == code for code in range(len(groups)))):
        n_scored = int((scored & inside).sum())
        counts.append([n_scored, len(np.unique(cluster[scored & inside])), int(inside.sum()) - n_scored])
    kinds = Counter(kind_of(reason) for reason in reasons if reason)
    return {
        **dict(zip(("n_items", "n_clusters", "n_skipped"), counts[0], strict=True)),
        "skip_reasons": dict(kinds.most_common()),
        "groups": dict(zip(groups, counts[1:], strict=True)),
    }


def kind_of(reason: str) -> str:
    """A reason without what differs from item to item: the word it is about, and its details."""
    if reason[:1] in "'\"" and (end := reason.find(f"{reason[0]} ", 1)) > 0:
        reason = reason[end + 2 :]
    return reason.partition(":")[0]


# Items whose scores are reduced before more are read: what is kept of an item is a few numbers a layer.
_AT_ONCE = 8192


@dataclass(eq=False)
class Answers:
    """The answers of a model to some items, in their order."""

    score: Floats  # [layer, item] natural log probability of the correct answer; NaN where an item was not scored
    rival: Floats  # [layer, item] the same of the distractor that it is compared with; NaN where there is none
    rank: NDArray[np.int64]  # [layer, item] rank of the correct answer; 0 where it has none
    first: NDArray[np.object_]
    """``[layer, item]`` the answer that the model ranks first, or chooses; empty where an item was not scored."""
    gold: NDArray[np.object_]
    """``[layer, item]`` the correct answer; for changes the word that each layer ranks first in the original text."""
    reason: list[str]  # [item] the reason why it was not scored; empty where it was

    @classmethod
    def none(cls, n_layers: int, items: Sequence[ClozeItem]) -> "Answers":
        """The empty answers of items that are not scored yet."""
        score, rival = np.full((2, n_layers, len(items)), np.nan)
        rank, first = np.zeros(score.shape, dtype=np.int64), np.full(score.shape, "", dtype=object)
        return cls(score, rival, rank, first, first + _strings([item.answer for item in items]), [""] * len(items))

    def choose(self, place: int, item: ClozeItem, right: Floats, wrong: Floats) -> None:
        """The choice between an item's answer, ``right [layer]``, and its distractors, ``wrong [layer, rival]``."""
        highest, best = wrong.max(axis=1), _strings(item.rivals)[wrong.argmax(axis=1)]
        self.score[:, place], self.rival[:, place] = right, highest
        self.first[:, place] = np.where(right > highest, item.answer, best)

    def choose_texts(self, items: Sequence[ClozeItem], score: Floats, rival: Floats) -> None:
        """The choices between the two texts of each item, by values ``[layer, item]``, whatever goes into them."""
        texts, others = (_strings([getattr(item, name) for item in items]) for name in ("text", "other"))
        self.score[:], self.rival[:], self.gold[:] = score, rival, texts
        self.first[:] = np.where(score > rival, texts, others)


_Left = Sequence[tuple[int, Excluded]]
"""The reasons why some items are not scored, with the place of the item; of several reasons the first counts."""


@dataclass(frozen=True)
class Asked:
    """The settings with which items are put to a model."""

    encoder: "encoders.Encoder"
    layers: tuple[int, ...]
    form: AnswerForm | None = None
    """Scoring of words of several subwords and of sentences; None for the default of the question."""
    ranked: bool = False
    """Whether the place of an answer among all words is wanted where there are rivals to choose from."""
    vocabulary: tuple[str, ...] = ()  # words among which answers have their places
    other_head: str | None = None  # readout that scores sentences in the place of the masked-LM head
    shared_alone: bool = False  # whether of two sentences the pieces alone are scored that both have

    def answers(self, asks: ClozeAsks, items: ClozeItems, progress: Progress) -> Answers:
        """The answers to all items, computed for a bounded number of them at a time.

        Raises:
            ModelError: the model has no such head, or not such a layer.
            ClozeError: an answer cannot be scored as asked.
        """
        # Settings that would change nothing are refused.
        if self.vocabulary and (asks not in ("answers", "choices") or self.form not in (None, "one_piece")):
            raise ClozeError("a vocabulary is for answers and choices of one piece: leave it out here")
        if self.form is not None and asks == "changes":
            raise ClozeError("what a change moves has no form: leave it out")
        if asks == "answers" and self.form not in (None, "one_piece"):
            raise ClozeError(f"answers scored as {self.form} are no entries of a vocabulary: leave the form out")
        answers = Answers.none(len(self.layers), items.items)
        # Asked together are items whose answers have a place among the same words; where there are such words, what
        # stands before the mask decides which entries they are.
        by_words: dict[tuple[str, str, bool], list[int]] = {}
        for place, item in enumerate(items.items):
            group = item.group if item.group in items.vocabularies else ""
            before = anchor_of(_before(item)) if group or self.vocabulary else ""
            by_words.setdefault((group, before, asks == "changes" and bool(item.rivals)), []).append(place)
        progress.start(len(items), unit="items")
        for (group, *_), of_words in by_words.items():
            words = items.vocabularies.get(group, self.vocabulary)
            n_texts = 1 + max(len(items.items[place].rivals) for place in of_words) if asks == "statements" else 1
            step = max(1, _AT_ONCE // n_texts)
            for some in (of_words[start : start + step] for start in range(0, len(of_words), step)):
                asked = [items.items[place] for place in some]
                of_some = Answers.none(len(self.layers), asked)
                excluded = self._answer(asks, asked, words, of_some)
                for name in ("score", "rival", "rank", "first", "gold"):
                    getattr(answers, name)[:, some] = getattr(of_some, name)
                for place, one in excluded:
                    word = "" if one.candidate is None else f"{one.candidate!r} "
                    answers.reason[some[place]] = answers.reason[some[place]] or f"{word}{one.reason}"
                progress.advance(len(some))
        progress.finish()
        left = np.array([bool(reason) for reason in answers.reason], dtype=bool)
        answers.score[:, left], answers.rival[:, left], answers.rank[:, left] = np.nan, np.nan, 0
        answers.first[:, left] = ""
        for place in np.flatnonzero(np.isnan(answers.score).any(axis=0)).tolist():
            answers.reason[place] = answers.reason[place] or "the model's score is not a number"
        return answers

    def _answer(self, asks: ClozeAsks, items: Sequence[ClozeItem], words: tuple[str, ...], found: Answers) -> _Left:
        """Put the answers to some items into ``found``."""
        entries = None
        # Answers of several pieces have no place in a vocabulary.
        if words and asks in ("answers", "choices") and self.form in (None, "one_piece"):
            entries = vocabulary_ids(self.encoder, words, before=_before(items[0])).tolist()
            if not entries:
                reason = Excluded(0, None, "no word of the vocabulary is a single piece there")
                return [(place, reason) for place in range(len(items))]
        if asks == "answers":
            return self._rank(items, entries, found)
        if asks in ("choices", "contexts"):
            return self._choose(items, entries, found, of_texts=asks == "contexts")
        if asks == "statements":
            return self._state(items, found)
        if asks == "changes":
            return self._rechoose(items, found) if items[0].rivals else self._change(items, found)
        if asks == "next_sentence":
            following = next_sentence(self.encoder, [(item.text, item.other) for item in items], layers=self.layers)
            right, places = np.array([item.answer != "next" for item in items], dtype=np.int64), np.arange(len(items))
            found.score, found.rival = (following.log_probs[:, places, which] for which in (right, 1 - right))
            follows = following.log_probs[..., 0] > following.log_probs[..., 1]
            found.first = np.where(follows, "next", "other").astype(object)
            return [(one.item, one) for one in following.excluded]
        texts = [text for item in items for text in (item.text, item.other)]
        scores = self._likelihood(texts)
        totals = cloze.shared_totals(scores) if self.shared_alone else scores.totals
        found.choose_texts(items, totals[:, 0::2], totals[:, 1::2])
        return [(one.item // 2, one) for one in scores.excluded]

    def _likelihood(self, texts: Sequence[str]) -> "cloze.SentenceScores":
        if self.other_head == _LEFT_TO_RIGHT:
            return cloze.left_to_right(self.encoder, texts)
        if self.other_head == _REPLACED_TOKENS:
            return cloze.originality(self.encoder, texts, layers=self.layers)
        return pseudo_log_likelihood(self.encoder, texts, layers=self.layers, form=self.form or "original")

    def _rank(self, items: Sequence[ClozeItem], entries: Sequence[int] | None, found: Answers) -> _Left:
        """The place of each answer, or of the best of those that are as right."""
        prompts = [Prompt(item.text, (item.answer, *item.accepted, *item.ignored), at=-1) for item in items]
        how: Any = {"ranks": True, "top": 1, "left_alone": self.other_head == _LEFT_TO_RIGHT}
        scores = ask(self.encoder, prompts, layers=self.layers, vocabulary=entries, **how)
        for place, item in enumerate(items):
            n, values, ranks = 1 + len(item.accepted), scores.of(place), scores.ranks_of(place)
            # An item is lost only if none of its answers can be scored.
            if np.isnan(values[:, :n]).all():
                continue
            best = np.where(ranks[:, :n] > 0, ranks[:, :n], np.iinfo(np.int64).max).min(axis=1)
            for layer, limit in enumerate(best.tolist()):
                # Several spellings may be one entry.
                above = {one for one in ranks[layer, n:].tolist() if 0 < one < limit}
                found.rank[layer, place] = limit - len(above)
            found.score[:, place] = np.nanmax(values[:, :n], axis=1)
        found.first = self._spelled(scores.top_ids[:, scores.mask_starts[1:] - 1, 0])
        return [(one.item, one) for one in scores.excluded if np.isnan(found.score[:, one.item]).all()]

    def _choose(
        self, items: Sequence[ClozeItem], entries: Sequence[int] | None, found: Answers, *, of_texts: bool
    ) -> _Left:
        """Correct answers and their distractors at one mask, or answers at the masks of two texts."""
        prompts = []
        for item in items:
            others = (item.answer,) if of_texts else item.rivals
            prompts += [Prompt(item.text, (item.answer,), at=-1), Prompt(item.other or item.text, others, at=-1)]
        form = self.form or "one_piece"
        ranks = self.ranked and form == "one_piece" and not of_texts
        scores = ask(self.encoder, prompts, layers=self.layers, form=form, ranks=ranks, vocabulary=entries)
        starts = scores.candidate_starts
        right = scores.values[:, starts[:-1:2]]
        if of_texts:
            found.choose_texts(items, right, scores.values[:, starts[1:-1:2]])
        else:
            for place, item in enumerate(items):
                found.choose(place, item, right[:, place], scores.of(2 * place + 1))
        if scores.ranks is not None:
            found.rank = scores.ranks[:, starts[:-1:2]]
        return [(one.item // 2, one) for one in scores.excluded]

    def _state(self, items: Sequence[ClozeItem], found: Answers) -> _Left:
        """The place of each correct answer among its candidates, by the probability of the whole sentences."""
        owners = [place for place, item in enumerate(items) for _ in (item.answer, *item.rivals)]
        filled = (Prompt(item.text).written(word) for item in items for word in (item.answer, *item.rivals))
        texts = [text[:1].upper() + text[1:] for text in filled]
        scores = self._likelihood(texts)
        for place, (start, item) in enumerate(zip(np.unique(owners, return_index=True)[1], items, strict=True)):
            right, wrong = np.split(scores.totals[:, start : start + 1 + len(item.rivals)], [1], axis=1)
            found.choose(place, item, right[:, 0], wrong)
            found.rank[:, place] = 1 + (wrong > right).sum(axis=1)
        return [(owners[one.item], one) for one in scores.excluded]

    def _change(self, items: Sequence[ClozeItem], found: Answers) -> _Left:
        """Ranks and values, in another text, of the word that each layer ranks first."""
        before = ask(self.encoder, [Prompt(item.text) for item in items], layers=self.layers, top=1)
        ids = before.top_ids[:, before.mask_starts[1:] - 1, 0]
        found.rival, found.gold = before.top_values[:, before.mask_starts[1:] - 1, 0], self._spelled(ids)
        kept = np.flatnonzero((ids >= 0).all(axis=0)).tolist()
        excluded = [(one.item, one) for one in before.excluded]
        if not kept:
            return excluded
        wanted = [tuple(dict.fromkeys(ids[:, place].tolist())) for place in kept]
        prompts = [Prompt(items[place].other, entries, at=-1) for place, entries in zip(kept, wanted, strict=True)]
        after = ask(self.encoder, prompts, layers=self.layers, ranks=True, top=1)
        found.first[:, kept] = self._spelled(after.top_ids[:, after.mask_starts[1:] - 1, 0])
        for number, (place, entries) in enumerate(zip(kept, wanted, strict=True)):
            chosen = range(len(self.layers)), [entries.index(entry) for entry in ids[:, place].tolist()]
            found.score[:, place], found.rank[:, place] = after.of(number)[chosen], after.ranks_of(number)[chosen]
        return excluded + [(kept[one.item], one) for one in after.excluded]

    def _rechoose(self, items: Sequence[ClozeItem], found: Answers) -> _Left:
        """Which of the words ``rivals`` each layer chooses, and what becomes of it among those of another text."""
        texts = [both for item in items for both in ((item.text, item.rivals), (item.other, item.accepted))]
        scores = ask(self.encoder, [Prompt(text, words, at=-1) for text, words in texts], layers=self.layers)
        for place, item in enumerate(items):
            before, after = scores.of(2 * place), scores.of(2 * place + 1)
            chosen = np.arange(len(self.layers)), before.argmax(axis=1)
            found.score[:, place], found.rival[:, place] = after[chosen], before[chosen]
            found.rank[:, place] = 1 + (after > after[chosen][:, None]).sum(axis=1)
            found.gold[:, place] = _strings(item.rivals)[chosen[1]]
            found.first[:, place] = _strings(item.accepted)[after.argmax(axis=1)]
        return [(one.item // 2, one) for one in scores.excluded]

    def _spelled(self, ids: NDArray[np.int64]) -> NDArray[np.object_]:
        """``[layer, item]`` entries as text; empty for none."""
        distinct, places = np.unique(ids, return_inverse=True)
        known = iter(spell_pieces(self.encoder, [entry for entry in distinct.tolist() if entry >= 0]))
        names = _strings([next(known) if entry >= 0 else "" for entry in distinct.tolist()])
        return names[places.reshape(ids.shape)]


def _strings(values: Sequence[str]) -> NDArray[np.object_]:
    return np.array([*values, None], dtype=object)[:-1]


def _before(item: ClozeItem) -> str:
    """The text before the mask that is asked about."""
    return Prompt(item.text).segments[-2]


_TUNED_LENS = "tuned_lens.v1"
_OTHER_HEADS = _LEFT_TO_RIGHT, _REPLACED_TOKENS = "left_to_right.v1", "replaced_tokens.v1"
"""Readouts by heads of other models than masked ones, of sentences and, from left to right, of answers."""
_OF_SENTENCES = ("sentences", "statements")
"""Questions that whole sentences are scored for."""


def _lens_text(config: ReadoutConfig, pair: ModelCorpus) -> tuple[str, Sentences]:
    """Name and sentences of the train split that the translators are fitted to: of the corpus in the settings, or of
    the embedded corpus for embedded texts."""
    name = str(config.settings.get("lens_corpus") or pair.request.corpus)
    if name != "pocket" and not config.settings.get("lens_corpus"):
        example = "{name: tuned_lens, settings: {lens_corpus: CORPUS}}"
        raise BertologyError(f"readout {_TUNED_LENS}: name the corpus that its translators are fitted to: {example}")
    return name, lens_text(name)


def _columns(cells: FitCells, probe: ClozeProbe, scoring: Scoring) -> rows.Columns:
    """Columns by control and seed: controls are scored on none but the items that the layers are scored on."""
    columns: dict[Problem, rows.Column] = {}
    run, scored_items = scoring.run, None
    for problem in cells.problems:
        of_problem = cells.cells_of(problem)
        records = rows.records_of(run, of_problem)
        outcomes = predictions.read_outcomes(run, [cell.id for cell in of_problem], among=scored_items)
        if scored_items is None:
            scored_items = outcomes.item_ids
        elif len(outcomes.item_ids) < records[0].facts["n_items"]:
            # Counts of the items that are scored in the cell of the task itself too.
            task_cell = cells.cells["none", problem.seed, cells.layers[0]]
            kept, others = (predictions.read_predictions(run, one.id) for one in (of_problem[0], task_cell))
            left_out = dict(zip(others.item_ids, others.extra["reason"], strict=True))
            reasons = [why or left_out[item] for item, why in zip(kept.item_ids, kept.extra["reason"], strict=True)]
            counts = _counts_of(reasons, np.asarray(kept.cluster, dtype=np.int64), *coded(kept.extra["group"]))
            records = tuple(replace(record, facts={**record.facts, **counts}) for record in records)
        columns[problem] = _scored(outcomes, records, of_problem, cells.layers, probe, scoring)
    return columns


def _scored(
    outcomes: predictions.ClozeOutcomes,
    records: tuple[CellRecord, ...],
    cells: tuple[Cell, ...],
    layers: tuple[int | None, ...],
    probe: ClozeProbe,
    scoring: Scoring,
    *,
    only: CountKind | None = None,
) -> rows.Column:
    """Scores by all metrics of the probe over all groups and in each, or ``only`` by those of one kind of count."""
    scores: dict[str, Bootstrap] = {}
    by_group: dict[tuple[str, str], Bootstrap] = {}
    names = outcomes.groups
    for kind in dict.fromkeys(metric.count_kind for metric in probe.scores if only in (None, metric.count_kind)):
        metrics, counts = [metric for metric in probe.scores if metric.count_kind == kind], outcomes.counts(kind)

        def resampled(
            metrics: Sequence[Metric], groups: Sequence[int] | None = None, counts: Floats = counts
        ) -> dict[str, Bootstrap]:
            """Scores over some groups; only their clusters are drawn: their number decides how sure a score is."""
            if groups is not None:
                counts = counts[:, outcomes.clusters_of(*groups)][:, :, groups]
            labels = names if groups is None else [names[group] for group in groups]
            if not counts.shape[1]:
                return {}
            return bootstrap(counts, metrics, labels=labels, n_resamples=scoring.n_resamples, seed=scoring.seed)

        scores |= resampled([metric for metric in metrics if metric.which is None])
        for metric in metrics:
            if metric.which is not None:
                scores |= resampled([metric], [n for n, group in enumerate(names) if metric.which(group)])
        # Metrics over all items, or over some groups, would repeat themselves in a single group.
        alone = [metric for metric in metrics if metric.name in METRICS and not metric.name.startswith("micro_")]
        for number, group in enumerate(names if len(names) > 1 else ()):
            by_group |= {(name, group): score for name, score in resampled(alone, [number]).items()}
    ordered = {metric.name: scores[metric.name] for metric in probe.scores if metric.name in scores}
    return rows.Column(cells, layers, records, ordered, by_group)


FAMILY = _Cloze()
