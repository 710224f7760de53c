"""What a masked language model says of the items of a cloze probe, layer by layer, whatever is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Progress
from bertology.cloze import AnswerForm, Prompt, ask, next_sentence, pseudo_log_likelihood
from bertology.cloze.prompts import Excluded, anchor_of, spell_pieces, vocabulary_ids
from bertology.errors import ClozeError
from bertology.probing import ClozeAsks, ClozeItem, ClozeItems

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]

# Items whose scores are reduced before more are read: what is kept of an item is a few numbers a layer.
_AT_ONCE = 8192


@dataclass(eq=False)
class Answers:
    """What was said of items, in their order."""

    score: Floats
    """``[layer, item]`` natural logarithm of the probability of what is right; NaN where an item was not scored."""
    rival: Floats
    """``[layer, item]`` that of what it is compared with; NaN where there is none."""
    rank: NDArray[np.int64]
    """``[layer, item]`` place of what is right; 0 where it has none."""
    first: list[list[str]]
    """``[layer][item]`` what the model puts first, or chooses; empty where an item was not scored."""
    gold: list[list[str]]
    """``[layer][item]`` what is right; of changes that is what each layer puts first in the text as it was."""
    reason: list[str]
    """``[item]`` why it was not scored; empty where it was."""

    @classmethod
    def none(cls, n_layers: int, items: Sequence[ClozeItem]) -> Answers:
        """Of items before they are asked."""
        shape = n_layers, len(items)
        return cls(
            np.full(shape, np.nan),
            np.full(shape, np.nan),
            np.zeros(shape, dtype=np.int64),
            [[""] * len(items) for _ in range(n_layers)],
            [[item.answer for item in items] for _ in range(n_layers)],
            [""] * len(items),
        )

    def put(self, places: Sequence[int], other: Answers) -> None:
        """Take over the answers to some of the items."""
        self.score[:, places], self.rival[:, places], self.rank[:, places] = other.score, other.rival, other.rank
        rows = zip((*self.first, *self.gold, self.reason), (*other.first, *other.gold, other.reason), strict=True)
        for row, values in rows:
            for place, value in zip(places, values, strict=True):
                row[place] = value

    def leave_out(self, excluded: Sequence[Excluded], item_of: Sequence[int]) -> None:
        """Note why items were not scored: the first reason of each."""
        for one in excluded:
            item = item_of[one.item]
            word = "" if one.candidate is None else f"{one.candidate!r} "
            self.reason[item] = self.reason[item] or f"{word}{one.reason}"
        left = np.array([bool(reason) for reason in self.reason], dtype=bool)
        self.score[:, left], self.rival[:, left], self.rank[:, left] = np.nan, np.nan, 0
        for first in self.first:
            for item in np.flatnonzero(left).tolist():
                first[item] = ""


@dataclass(frozen=True)
class Asked:
    """How items are put to a model."""

    encoder: Encoder
    layers: tuple[int, ...]
    form: AnswerForm | None = None
    """How words of several pieces and sentences are scored; None for the form that the question has by default."""
    ranked: bool = False
    """Whether the place of an answer among all words is wanted where there are rivals to choose from."""
    vocabulary: tuple[str, ...] = ()
    """Words among which answers have their places."""

    def answers(self, asks: ClozeAsks, items: ClozeItems, progress: Progress) -> Answers:
        """What the model says of all items, a bounded number of them at a time.

        Raises:
            ModelError: the model has no such head, or not such a layer.
            ClozeError: an answer cannot be scored as asked.
        """
        # Settings that would change nothing are refused.
        if self.vocabulary and (asks not in ("answers", "choices") or self.form not in (None, "one_piece")):
            raise ClozeError("a vocabulary is for answers and choices of one piece: leave it out here")
        if self.form is not None and asks == "changes":
            raise ClozeError("what a change moves has no form: leave it out")
        answers = Answers.none(len(self.layers), items.items)
        progress.start(len(items), unit="items")
        for places, words in self._portions(items):
            some = [items.items[place] for place in places]
            answers.put(places, _HOW[asks](self, some, words))
            progress.advance(len(some))
        progress.finish()
        for place in np.flatnonzero(np.isnan(answers.score).any(axis=0)).tolist():
            answers.reason[place] = answers.reason[place] or "the model's score is not a number"
        return answers

    def _portions(self, items: ClozeItems) -> Sequence[tuple[list[int], tuple[str, ...]]]:
        """Places of items that are asked together, and the words among which their answers have a place.

        Where there are such words, what stands before the mask decides which entries they are.
        """
        by_words: dict[tuple[str, str], list[int]] = {}
        for place, item in enumerate(items.items):
            group = item.group if item.group in items.vocabularies else ""
            limited = bool(group or self.vocabulary)
            by_words.setdefault((group, anchor_of(_before(item)) if limited else ""), []).append(place)
        return [
            (places[start : start + _AT_ONCE], items.vocabularies.get(group, self.vocabulary))
            for (group, _), places in by_words.items()
            for start in range(0, len(places), _AT_ONCE)
        ]


def _ranked(asked: Asked, items: Sequence[ClozeItem], words: tuple[str, ...]) -> Answers:
    """The place of each answer, or of the best of those that are as right."""
    if asked.form not in (None, "one_piece"):
        raise ClozeError(f"answers scored as {asked.form} have no place in a vocabulary: leave the form out")
    entries = _entries(asked.encoder, words, _before(items[0]))
    if entries is not None and not entries:
        return _without_vocabulary(asked, items)
    prompts = [Prompt(item.text, (item.answer, *item.accepted, *item.ignored), at=-1) for item in items]
    scores = ask(asked.encoder, prompts, layers=asked.layers, ranks=True, top=1, vocabulary=entries)
    answers = Answers.none(len(asked.layers), items)
    lost = []
    for place, item in enumerate(items):
        n = 1 + len(item.accepted)
        values, ranks = scores.of(place), scores.ranks_of(place)
        # An item is lost only if none of its answers can be scored.
        if np.isnan(values[:, :n]).all():
            lost += [one for one in scores.excluded if one.item == place]
            continue
        best = np.where(ranks[:, :n] > 0, ranks[:, :n], np.iinfo(np.int64).max).min(axis=1)
        for layer in range(len(asked.layers)):
            # Several spellings may be one entry.
            above = {int(rank) for rank in ranks[layer, n:] if 0 < rank < best[layer]}
            answers.rank[layer, place] = best[layer] - len(above)
        answers.score[:, place] = np.nanmax(values[:, :n], axis=1)
    last = scores.mask_starts[1:] - 1
    answers.first = _spelled(asked.encoder, scores.top_ids[:, last, 0])
    answers.leave_out(lost, range(len(items)))
    return answers


def _chosen(asked: Asked, items: Sequence[ClozeItem], words: tuple[str, ...]) -> Answers:
    """Answers beside their rivals at one mask."""
    prompts: list[Prompt] = []
    item_of: list[int] = []
    for place, item in enumerate(items):
        if item.other:
            prompts += [Prompt(item.text, (item.answer,), at=-1), Prompt(item.other, item.rivals, at=-1)]
        else:
            prompts.append(Prompt(item.text, (item.answer, *item.rivals), at=-1))
        item_of += [place] * (2 if item.other else 1)
    # The prompts with the answer, and with its rivals, of each item.
    own = np.searchsorted(item_of, range(len(items))).tolist()
    against = (np.searchsorted(item_of, range(len(items)), side="right") - 1).tolist()
    form = asked.form or "one_piece"
    ranks = asked.ranked and form == "one_piece"
    entries = _entries(asked.encoder, words, _before(items[0])) if form == "one_piece" else None
    if entries is not None and not entries:
        return _without_vocabulary(asked, items)
    scores = ask(asked.encoder, prompts, layers=asked.layers, form=form, ranks=ranks, vocabulary=entries)
    answers = Answers.none(len(asked.layers), items)
    for place, item in enumerate(items):
        right = scores.of(own[place])[:, 0]
        wrong = scores.of(against[place])[:, -len(item.rivals) :]
        answers.score[:, place], answers.rival[:, place] = right, wrong.max(axis=1)
        if ranks:
            answers.rank[:, place] = scores.ranks_of(own[place])[:, 0]
        for layer, best in enumerate(wrong.argmax(axis=1).tolist()):
            chosen = item.answer if right[layer] > wrong[layer, best] else item.rivals[best]
            answers.first[layer][place] = chosen
    answers.leave_out(scores.excluded, item_of)
    return answers


def _in_context(asked: Asked, items: Sequence[ClozeItem], words: tuple[str, ...]) -> Answers:
    """One answer at the masks of two texts."""
    prompts = [Prompt(text, (item.answer,), at=-1) for item in items for text in (item.text, item.other)]
    form = asked.form or "one_piece"
    scores = ask(asked.encoder, prompts, layers=asked.layers, form=form)
    return _of_pairs(asked, items, scores.values, scores.excluded)


def _sentences(asked: Asked, items: Sequence[ClozeItem], words: tuple[str, ...]) -> Answers:
    """Whole sentences beside each other, by pseudo-log-likelihood."""
    texts = [text for item in items for text in (item.text, item.other)]
    form = asked.form or "original"
    scores = pseudo_log_likelihood(asked.encoder, texts, layers=asked.layers, form=form)
    return _of_pairs(asked, items, scores.totals, scores.excluded)


def _of_pairs(asked: Asked, items: Sequence[ClozeItem], values: Floats, excluded: Sequence[Excluded]) -> Answers:
    """From ``[layer, 2 · item]`` values, those of what is right first."""
    answers = Answers.none(len(asked.layers), items)
    answers.score, answers.rival = values[:, 0::2].copy(), values[:, 1::2].copy()
    # What is chosen is one of two texts, whatever goes into them.
    answers.gold = [[item.text for item in items] for _ in asked.layers]
    for layer, better in enumerate((answers.score > answers.rival).tolist()):
        answers.first[layer] = [(item.text if right else item.other) for item, right in zip(items, better, strict=True)]
    answers.leave_out(excluded, [place for place in range(len(items)) for _ in range(2)])
    return answers


def _changed(asked: Asked, items: Sequence[ClozeItem], words: tuple[str, ...]) -> Answers:
    """What becomes of the word that each layer puts first, in another text."""
    before = ask(asked.encoder, [Prompt(item.text) for item in items], layers=asked.layers, top=1)
    ids = before.top_ids[:, before.mask_starts[1:] - 1, 0]
    kept = np.flatnonzero((ids >= 0).all(axis=0)).tolist()
    wanted = [tuple(dict.fromkeys(ids[:, place].tolist())) for place in kept]
    answers = Answers.none(len(asked.layers), items)
    if kept:
        prompts = [Prompt(items[place].other, entries, at=-1) for place, entries in zip(kept, wanted, strict=True)]
        after = ask(asked.encoder, prompts, layers=asked.layers, ranks=True, top=1)
        last = after.mask_starts[1:] - 1
        first = _spelled(asked.encoder, after.top_ids[:, last, 0])
        for number, (place, entries) in enumerate(zip(kept, wanted, strict=True)):
            for layer in range(len(asked.layers)):
                entry = entries.index(int(ids[layer, place]))
                answers.score[layer, place] = after.of(number)[layer, entry]
                answers.rank[layer, place] = after.ranks_of(number)[layer, entry]
                answers.first[layer][place] = first[layer][number]
        answers.leave_out(after.excluded, kept)
    answers.rival = before.top_values[:, before.mask_starts[1:] - 1, 0].copy()
    answers.gold = _spelled(asked.encoder, ids)
    answers.leave_out(before.excluded, range(len(items)))
    return answers


def _following(asked: Asked, items: Sequence[ClozeItem], words: tuple[str, ...]) -> Answers:
    """Whether one sentence follows another."""
    scores = next_sentence(asked.encoder, [(item.text, item.other) for item in items], layers=asked.layers)
    answers = Answers.none(len(asked.layers), items)
    right = np.array([item.answer != "next" for item in items], dtype=np.int64)
    places = np.arange(len(items))
    answers.score, answers.rival = scores.log_probs[:, places, right], scores.log_probs[:, places, 1 - right]
    for layer, better in enumerate((scores.log_probs[..., 0] > scores.log_probs[..., 1]).tolist()):
        answers.first[layer] = ["next" if follows else "other" for follows in better]
    answers.leave_out(scores.excluded, range(len(items)))
    return answers


_HOW: Mapping[ClozeAsks, Callable[[Asked, Sequence[ClozeItem], tuple[str, ...]], Answers]] = {
    "answers": _ranked,
    "choices": _chosen,
    "contexts": _in_context,
    "sentences": _sentences,
    "changes": _changed,
    "next_sentence": _following,
}


def _without_vocabulary(asked: Asked, items: Sequence[ClozeItem]) -> Answers:
    """Nothing, where no word of a vocabulary is an entry at the place of the mask."""
    answers = Answers.none(len(asked.layers), items)
    answers.reason = ["no word of the vocabulary is a single piece there"] * len(items)
    return answers


def _before(item: ClozeItem) -> str:
    """What stands before the mask that is asked about."""
    return Prompt(item.text).segments[-2]


def _entries(encoder: Encoder, words: tuple[str, ...], before: str) -> Sequence[int] | None:
    """The entries of a vocabulary given in words; words of several pieces have no place in any."""
    if not words:
        return None
    entries: list[int] = vocabulary_ids(encoder, words, before=before)[0].tolist()
    return entries


def _spelled(encoder: Encoder, ids: NDArray[np.int64]) -> list[list[str]]:
    """``[layer][item]`` entries as text; empty for none."""
    distinct = [entry for entry in np.unique(ids).tolist() if entry >= 0]
    name = dict(zip(distinct, spell_pieces(encoder, distinct), strict=True))
    return [[name.get(entry, "") for entry in row] for row in ids.tolist()]
