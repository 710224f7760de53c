"""The prediction that is explained: one type for every head of a model, and the forward pass that scores it.

A :class:`Target` names what a prediction is about; a :class:`PatchPair` is one text with its target, or two texts that
are compared. :func:`align_pairs` writes them in the subwords of a model, and finds the label or answer that the model
predicts where none is named. A :class:`Decision` is then the score of some such texts as a function of what the model
reads: a difference of two logits, a log-probability or a number. Gradients pass through it, and states that other
context managers change count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from bertology import encoders
from bertology._lazy import torch
from bertology._names import by_key, check_name
from bertology.cloze import Prompt
from bertology.corpora import Sentence, Sentences, as_sentences
from bertology.corpora.prompts import with_masks
from bertology.encoders.batching import padded, pieces_in_batch
from bertology.errors import BertologyError, ClozeError, CorpusError, ModelError, listed, quoted
from bertology.measures.sums import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from bertology.encoders import Encoder, Pieces
    from bertology.encoders.heads import HeadKind
    from bertology.results.predictions import FittedProbe

Integers = NDArray[np.int64]
TargetKind = Literal["word", "label", "number", "tag", "answer", "choice", "probe"]
_HEADS: dict[TargetKind, HeadKind] = {
    "label": "sentence",
    "number": "sentence",
    "tag": "words",
    "answer": "answers",
    "choice": "choices",
}
_OF_HEAD = {"sentence": "labels of texts", "words": "tags of words", "answers": "answers", "choices": "choices"}
SPECIAL = "special"
"""The place of special tokens, all together."""
MASK_TOKEN = "[MASK]"
_SIDES = (0, 1)


@dataclass(frozen=True)
class Target:
    """What a prediction is about.

    - ``word``: a word at the mask of a text, or a choice between two;
    - ``label``: a label of a text or a pair, ``number``: the number that is predicted of it;
    - ``tag``: a label of a word; ``answer``: a part of the second text; ``choice``: one of several second texts;
    - ``probe``: a label of a word by a fitted probe of one layer.

    The score is the logit of the one named first minus that of the other; of one word or an answer the natural
    logarithm of its probability; of a number the number.
    """

    kind: TargetKind
    good: str = ""
    """The word, label, tag, answer, or number of the choice; that which the model predicts when left out."""
    bad: str = ""
    """That which it is compared with: the other word (none when left out); of labels, tags and choices the one with the
    highest logit of all others when left out."""
    word: int = 0
    """Number of the word that is tagged, from 1."""
    probe: FittedProbe | None = field(default=None, compare=False)
    """The fitted probe of a target ``probe``; see :meth:`bertology.Results.fitted`."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """A target as it is written: ``label``, ``label=negative``, ``label=negative,positive``, ``number``,
        ``tag=3``, ``tag=3:PER``, ``answer``, ``answer=in Paris``, ``choice=2``, ``word=are,is``, ``probe=3:NOUN``.

        Raises:
            BertologyError: it is none of these.
        """
        kind, has_value, rest = (part.strip() for part in text.partition("="))
        check_name("target", kind, get_args(TargetKind))
        word, examples = 0, {"tag": "tag=3 or tag=3:PER", "probe": "probe=3 or probe=3:NOUN"}
        if kind in examples:
            number, _, rest = (part.strip() for part in rest.partition(":"))
            if not number.isdecimal() or int(number) < 1:
                raise BertologyError(f"target {quoted(text)}: name a word by its number, {examples[kind]}")
            word = int(number)
        elif has_value and (not rest or kind == "number"):
            remedy = "leave it out" if kind == "number" else "name one after it"
            raise BertologyError(f"target {quoted(text)}: nothing is chosen by what follows the =: {remedy}")
        names = [rest] if kind == "answer" else [part.strip() for part in rest.split(",")]
        if len(names) > 2 or (kind == "word" and not rest):
            raise BertologyError(f"target {quoted(text)}: {len(names)} are named: give one, or two to compare")
        good, bad = (*names, "")[:2]
        return cls(cast(TargetKind, kind), good, bad, word)

    @classmethod
    def default(cls, encoder: Encoder) -> Target:
        """The target of a model when none is named, by its head: the label, number, answer or choice that it predicts.

        Raises:
            ClozeError: a masked language model, whose words have to be named.
            ModelError: a model of tags, of which one has to be named, or without a head.
        """
        kind = encoder.task_head
        if kind == "words":
            raise ModelError(f"model {encoder.name} predicts tags of words: name a word, such as --target tag=3")
        if kind == "sentence":
            return cls("number" if encoder.task_model.config.num_labels == 1 else "label")
        if kind is not None:
            return cls("answer" if kind == "answers" else "choice")
        encoder.masked_head  # noqa: B018 - raises where there is none
        raise ClozeError(f"model {encoder.name} predicts words: name those for the mask, such as --candidates are,is")

    def check(self, encoder: Encoder) -> None:
        """Raise a :class:`ModelError` where a model has no head for this."""
        if self.kind == "word":
            encoder.masked_head  # noqa: B018 - raises where there is none
        elif self.kind == "probe":
            fitted, what = self.probe, "target probe"
            if fitted is None:
                raise BertologyError(f"{what}: give the fitted probe, as results.fitted('pos', 3) finds it")
            if fitted.origin.items != "words" or "coefficients" not in fitted.tensors or fitted.origin.layer is None:
                raise ModelError(f"{what}: {fitted!r} reads no single words of one layer: give one that does, as pos")
            if fitted.origin.model_fingerprint != encoder.fingerprint:
                raise ModelError(f"{what}: it was fitted on {fitted.origin.model}: give that model, not {encoder.name}")
        else:
            has, needs = encoder.task_head, _HEADS[self.kind]
            if has != needs:
                found = "no head for a task" if has is None else f"a head for {_OF_HEAD[has]}"
                raise ModelError(f"target {self.kind}: model {encoder.name} has {found}, none for {_OF_HEAD[needs]}")
            n_labels = encoder.task_model.config.num_labels
            if needs == "sentence" and (n_labels == 1) != (self.kind == "number"):
                found = "one number" if n_labels == 1 else f"the labels {listed(labels_of(encoder))}"
                raise ModelError(f"target {self.kind}: model {encoder.name} predicts {found} of a text")

    def of(self, good: str, bad: str) -> str:
        """Name of the score, of names that were found where none is given: ``logit of are − logit of is``."""
        where = f" of word {self.word}" if self.word else ""
        if self.kind == "number":
            return "number predicted"
        if self.kind == "answer":
            return f"log-probability of the answer {good}".rstrip()
        what = "choice " if self.kind == "choice" else ""
        if not bad:
            one = f"{what}{good or 'the masked word'}"
            return f"log-probability of {one}" if self.kind == "word" else f"logit of {one}{where}"
        return f"logit of {what}{good} − logit of {what}{bad}{where}"

    def probability(self, score: float) -> float:
        """The probability that a score stands for: of the first, of the two, or of the one; a number stays itself."""
        if self.kind == "number":
            return score
        is_log = self.kind == "answer" or (self.kind == "word" and not self.bad)
        return float(np.exp(score)) if is_log else float(1 / (1 + np.exp(-score)))

    def scored(self, encoder: Encoder, sentences: Sequence[Sentence]) -> tuple[str, Integers, Callable[[], Tensor]]:
        """The name of the score of a text, or of a pair, its subwords, and the score, from which gradients flow; a
        ClozeError where the text does not fit the model, a ModelError where that has no head for the target."""
        first, *seconds = sentences
        pair = PatchPair(first.text, target=self, seconds=tuple(one.text for one in seconds))
        asked = pair if seconds else replace(pair, sentence=first)
        (one,) = fitting_pairs(encoder, [asked], by_word=True)[0].values()
        decision, named = Decision(encoder, [one]), one.target
        return named.of(named.good, named.bad), one.ids[0], lambda: decision(ids_of([one], 0))


@dataclass(frozen=True)
class PatchPair:
    """A text with what is predicted of it, and for patching another one of which something else is predicted.

    The two have the same number of words, such as *The keys to the cabinet [MASK]* and *The key to the cabinet [MASK]*.
    """

    text: str
    """The text that is explained; for a masked word it has one mask, written ``{mask}``, ``[MASK]`` or ``<mask>``."""
    other: str = ""
    """The text that differs; empty where only ``text`` is explained."""
    good: str = ""
    """What ``text`` calls for: a word at the mask, or the ``good`` of a target."""
    bad: str = ""
    """What ``other`` calls for; all pairs that are patched together have one, or none has."""
    cluster: str = ""
    """Pairs of one cluster are resampled together; each pair by itself where it is left out."""
    places: tuple[str, ...] = ()
    """``[word]`` names of words in tables, such as ``subject``; words of one name are patched together. When left
    out: ``changed`` where the texts differ, ``mask``, ``other word``."""
    values: tuple[str, str] = ("", "")
    """Values of ``text`` and ``other`` that decide the prediction, such as ``singular`` and ``plural``."""
    language: str | None = None
    """Language of both texts, by whose rules words are found (:func:`bertology.corpora.sentence_of_text`)."""
    split_at_spaces: bool = False
    """Whether words are separated by white space alone."""
    target: Target = Target("word")
    """What is predicted; ``good`` and ``bad`` of the pair stand for its own where these are empty."""
    seconds: tuple[str, ...] = ()
    """The second text of a pair, the passage of a question, or the choices; their words follow those of ``text``."""
    other_seconds: tuple[str, ...] | None = None
    """Those of ``other``; the same when left out."""
    sentence: Sentence | None = None
    """The text with the words that it has in a corpus, of one text alone."""
    gold: str = ""
    """What is true of the text, if it is known, by which tables of texts are sorted."""

    @property
    def asked(self) -> Target:
        """The target with the names of the pair."""
        of = self.target
        return replace(of, good=of.good or self.good, bad=of.bad or self.bad)

    def parts(self, mask: str = MASK_TOKEN) -> list[tuple[str, ...]]:
        """The texts of either side: the first one, and the second ones."""
        others = self.seconds if self.other_seconds is None else self.other_seconds
        sides = (self.text, *self.seconds), (self.other or self.text, *others)
        if self.target.kind != "word":
            return list(sides)
        return [tuple(with_masks(part, mask) for part in side) for side in sides]

    def sentences(self, mask: str = MASK_TOKEN) -> list[list[Sentence]]:
        """``[side, part]`` the texts with their words."""
        if self.sentence is not None:
            return [[self.sentence]] * 2
        split: dict[str, Any] = {"language": self.language, "split_at_spaces": self.split_at_spaces}
        text, other = self.parts(mask)
        found = [list(as_sentences(list(side), **split)) for side in dict.fromkeys((text, other))]
        return [found[0], found[-1]]

    def words(self) -> list[tuple[str, ...]]:
        """``[side]`` the words of all texts of a side."""
        return [tuple(word for part in side for word in part.words) for side in self.sentences()]


class _Written(NamedTuple):
    """One side of a pair in the subwords of a model."""

    ids: Integers  # [part × piece]
    types: Integers | None
    is_real: Integers | None
    spans: list[Integers]  # [word] subwords of each word
    words: tuple[str, ...]
    offsets: dict[int, tuple[int, int]]  # characters of a subword in the second text, by the subword's place


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """A pair in the subwords of a model; of choices the rows of all choices one after the other."""

    ids: tuple[Integers, Integers]
    """``[piece]`` of the text and of the other text, special tokens included; equally many."""
    target: Target
    """The target, with all names."""
    at: Integers
    """Subwords that the prediction is read at: the mask, that of a tagged word, first and last of an answer."""
    candidates: tuple[int, ...]
    """Vocabulary numbers of the one or two words, or numbers of labels or choices."""
    places: dict[str, Integers]
    """Subwords of each place by name; the special tokens come last."""
    words: tuple[str, ...]
    """``[word]`` words of the text, or both forms where the two differ."""
    spans: tuple[Integers, ...]
    """``[word]`` subwords of each word."""
    types: Integers | None = None
    """``[piece]`` segment of each subword, of two texts."""
    is_real: Integers | None = None
    """``[piece]`` 0 for the padding of shorter choices."""
    n_parts: int = 1
    """Rows of the model's input: the number of choices."""

    @property
    def mask(self) -> int:
        """The subword that the prediction is read at; -1 where it is read of the whole text."""
        return int(self.at[0]) if len(self.at) else -1

    @property
    def layout(self) -> tuple[object, ...]:
        """Equal for pairs that can be read in one batch."""
        own = tuple(None if one is None else one.tobytes() for one in (self.types, self.is_real))
        fits = self.target.probe is None or id(self.target.probe)
        return len(self.ids[0]), self.n_parts, self.target.kind, len(self.candidates), len(self.at), fits, own


def batches(
    encoder: Encoder, aligned: Sequence[AlignedPair], n_rows: int
) -> Iterator[tuple[list[int], list[AlignedPair]]]:
    """Pairs that can be read together, and their indices, given the number of rows for each pair."""
    for numbers in by_key((one.layout, number) for number, one in enumerate(aligned)).values():
        size = max(1, pieces_in_batch(encoder.device) // (len(aligned[numbers[0]].ids[0]) * max(n_rows, 1)))
        for some in (numbers[start : start + size] for start in range(0, len(numbers), size)):
            yield some, [aligned[number] for number in some]


def ids_of(rows: Sequence[AlignedPair], side: int) -> Tensor:
    """``[row, piece]`` the texts of pairs of one length, or the other texts."""
    return torch.from_numpy(np.stack([one.ids[side] for one in rows]))


class Decision:
    """The score of texts, by row, as a function of their subwords, of embeddings, or of the states of a layer.

    A row of states is ``[piece, dim]``; of several choices all their subwords one after the other.
    """

    def __init__(self, encoder: Encoder, rows: Sequence[AlignedPair], *, is_probability: bool = False) -> None:
        self.encoder, self._first, self._is_probability = encoder, rows[0], is_probability
        self._at = torch.tensor(np.stack([one.at for one in rows]))
        self._candidates = torch.tensor([one.candidates for one in rows], dtype=torch.int64)
        fixed = self._first.types, self._first.is_real
        self._types, self._real = (None if one is None else torch.from_numpy(one) for one in fixed)

    def fold(self, rows: Tensor) -> Tensor:
        """``[row × part, piece, …]`` what the model takes, of ``[row, part × piece, …]``."""
        return rows.reshape(len(rows) * self._first.n_parts, -1, *rows.shape[2:])

    def unfold(self, rows: Tensor) -> Tensor:
        """``[row, part × piece, …]`` of ``[row × part, piece, …]``."""
        return rows.reshape(len(rows) // self._first.n_parts, -1, *rows.shape[2:])

    def inputs(self, ids: Tensor) -> dict[str, Tensor]:
        """Arguments of the model for ``[row, piece]``."""
        given = {"input_ids": ids, "token_type_ids": self._types, "attention_mask": self._real}
        expanded = {name: one.expand(ids.shape) for name, one in given.items() if one is not None}
        return {name: self.fold(one).to(self.encoder.device) for name, one in expanded.items()}

    def output(self, inputs: Mapping[str, Tensor]) -> Any:
        """What the model of transformers returns for :meth:`inputs`, whose choices it takes in an axis of their own."""
        given, n_parts = dict(inputs), self._first.n_parts
        if self._first.target.kind == "choice":
            given = {name: one.reshape(-1, n_parts, one.shape[1]) for name, one in inputs.items()}
        return self.encoder.task_model(**given, return_dict=True)

    def states(self, ids: Tensor, *, layers: Sequence[int]) -> dict[int, Tensor]:
        """``[row, piece, dim]`` hidden states of some layers of ``[row, piece]``."""
        given: dict[str, Any] = self.inputs(ids)
        found = self.encoder.hidden_states(**given, layers=layers)
        return {layer: self.unfold(state) for layer, state in found.items()}

    def scores(self, ids: Tensor, rows: Tensor | None = None, **how: Any) -> Tensor:
        """``[row]`` scores on the processor in double precision, without gradients; arguments as of a call.

        A :class:`SignalError` where they are not finite.
        """
        with torch.inference_mode():
            found = self(ids, rows, **how)
        self.encoder.check_finite("scores of the target", {self.encoder.n_layers: found})
        return found.double().cpu()

    def __call__(
        self,
        ids: Tensor,
        rows: Tensor | None = None,
        *,
        resumed: tuple[int, Tensor] | None = None,
        embeddings: Tensor | None = None,
    ) -> Tensor:
        """``[row]`` scores of ``[row, piece]`` vocabulary numbers, in the present state of the model.

        Args:
            ids: what is read.
            rows: of which of the texts each row is; all in order when left out.
            resumed: a layer and ``[row, piece, dim]`` states with which the forward pass goes on from there.
            embeddings: ``[row, piece, dim]`` put in the place of the subword embeddings.
        """
        encoder, body = self.encoder, self.encoder.model.body
        rows = torch.arange(len(ids)) if rows is None else rows
        with ExitStack() as stack:
            if embeddings is not None:
                table: Any = body.get_input_embeddings()  # type: ignore[operator]
                folded = self.fold(embeddings)
                stack.callback(table.register_forward_hook(lambda *_: folded).remove)
            if resumed is not None:
                layer, state = resumed
                started = encoders.interventions.starting_from(body, encoder.model.blocks, layer, self.fold(state))
                stack.enter_context(started)
            return self._scores(self.inputs(ids), rows)

    def _scores(self, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        kind, candidates = self._first.target.kind, self._candidates[rows].to(self.encoder.device)
        logits = self._logits(inputs, rows)
        if kind == "number":
            return logits[:, 0].float()
        if kind == "answer":
            ends = logits.float().log_softmax(-1)  # [row, 2, piece]
            return ends.gather(2, self._at[rows].to(ends.device)[..., None]).sum((1, 2))
        if kind == "word" and candidates.shape[1] == 1:
            found = logits.float().log_softmax(-1).gather(1, candidates)[:, 0]
            return found.exp() if self._is_probability else found
        if kind == "word":  # their places among the words that are compared in any row
            candidates = torch.unique(candidates, return_inverse=True)[1]
        chosen = logits.float().gather(1, candidates)
        return chosen[:, 0] if chosen.shape[1] == 1 else chosen[:, 0] - chosen[:, 1]

    def logits(self, ids: Tensor) -> Floats:
        """``[row, label]`` logits of the head, without gradients; of answers ``[row, 2, piece]``."""
        with torch.inference_mode():
            found = self._logits(self.inputs(ids), torch.arange(len(ids)))
        self.encoder.check_finite("logits", {self.encoder.n_layers: found})
        return np.asarray(found.double().cpu().numpy())

    def _logits(self, inputs: dict[str, Tensor], rows: Tensor) -> Tensor:
        """``[row, entry]`` what the head gives where the prediction is read; at a mask of the words asked for."""
        encoder, kind, fitted = self.encoder, self._first.target.kind, self._first.target.probe
        body: Any = encoder.model.body
        at, every = self._at[rows].to(encoder.device), torch.arange(len(rows), device=encoder.device)
        if fitted is not None:
            kept: dict[int, Tensor] = {}
            layer = fitted.origin.layer or 0
            keep = encoders.Intervention(layer, partial(kept.setdefault, layer))
            with encoders.interventions.intervening(body, encoder.model.blocks, [keep]):
                body(**inputs, return_dict=True)
            return fitted.logits(kept[layer][every[:, None], at].mean(1))
        if kind == "word":
            last = body(**inputs, return_dict=True).last_hidden_state
            features, is_one = encoder.masked_head.features(last[every, at[:, 0]]), self._candidates.shape[1] == 1
            asked = None if is_one else torch.unique(self._candidates[rows]).to(encoder.device)
            return encoder.masked_head.logits(features, asked)
        output = self.output(inputs)
        logits: Tensor = torch.stack((output.start_logits, output.end_logits), 1) if kind == "answer" else output.logits
        return logits[every, at[:, 0]] if kind == "tag" else logits


def scores_of_sides(encoder: Encoder, aligned: Sequence[AlignedPair]) -> Floats:
    """``[side, pair]`` scores of the texts and of the other texts."""
    found = np.zeros((2, len(aligned)))
    for batch, rows in batches(encoder, aligned, 1):
        found[:, batch] = [Decision(encoder, rows).scores(ids_of(rows, side)).numpy() for side in _SIDES]
    return found


def labels_of(encoder: Encoder) -> list[str]:
    """The labels or tags that a model was fine-tuned for, in the order of their logits."""
    named: Mapping[Any, Any] = encoder.task_model.config.id2label
    return [str(named[number]) for number in sorted(named)]


# Texts in the subwords of a model.


class UnfitError(Exception):
    """The reason why a pair cannot be read or patched."""


def align_pairs(encoder: Encoder, pairs: Sequence[PatchPair], *, by_word: bool) -> list[AlignedPair | str]:
    """Align pairs with the subwords of a model, or give the reason why one cannot be read.

    With ``by_word`` each word is a place of its own, named by its number and form.
    """
    for target in dict.fromkeys(pair.target for pair in pairs):
        target.check(encoder)
    has_mask = encoder.tokenizer.mask_token_id is not None
    sides = [pair.sentences(encoder.mask_token if has_mask else MASK_TOKEN) for pair in pairs]
    distinct = [of_pair[:1] if of_pair[0] is of_pair[1] else of_pair for of_pair in sides]
    texts = Sentences(part for of_pair in distinct for side in of_pair for part in side)
    pieces, found, number = encoder.tokenize(texts), list[AlignedPair | str](), 0
    for pair, of_pair in zip(pairs, distinct, strict=True):
        starts = [number, number + len(of_pair[0])]
        number += sum(map(len, of_pair))
        try:
            written = [
                _written(encoder, pair.target, side, [_alone(texts, pieces, start + n) for n in range(len(side))])
                for start, side in zip(starts, of_pair, strict=False)
            ]
            found.append(_aligned(encoder, pair, written[0], written[-1], by_word))
        except UnfitError as reason:
            found.append(str(reason))
    return _predicted(encoder, pairs, found)


def fitting_pairs(
    encoder: Encoder, pairs: Sequence[PatchPair], *, by_word: bool
) -> tuple[dict[int, AlignedPair], dict[int, str]]:
    """The pairs that fit the model, and the reasons why others do not, both by number; a :class:`ClozeError` where none
    does."""
    aligned = align_pairs(encoder, pairs, by_word=by_word)
    kept = {number: one for number, one in enumerate(aligned) if isinstance(one, AlignedPair)}
    reasons = {number: one for number, one in enumerate(aligned) if isinstance(one, str)}
    if not kept:
        texts = " with ".join(quoted(text) for text in dict.fromkeys((pairs[0].text, pairs[0].other or pairs[0].text)))
        raise ClozeError(f"{texts}: {reasons[0]}")
    return kept, reasons


_Alone = tuple[Integers, list[Integers]]
"""Subwords of a text with special tokens, and the places of those of each word."""


def _alone(texts: Sentences, pieces: Pieces, number: int) -> _Alone:
    words = slice(int(texts.starts[number]), int(texts.starts[number]) + len(texts[number]))
    windows = np.unique(pieces.word_window[words])
    if len(windows) != 1 or windows[0] < 0:
        raise UnfitError("a text is longer than the model takes, or a word has no piece")
    ends = zip(pieces.word_first[words].tolist(), pieces.word_last[words].tolist(), strict=True)
    return pieces.window(int(windows[0])).astype(np.int64), [np.arange(first, last) for first, last in ends]


def _written(encoder: Encoder, target: Target, side: Sequence[Sentence], parts: Sequence[_Alone]) -> _Written:
    """A text, or the first text with each of the others, as the model takes two texts."""
    words = tuple(word for part in side for word in part.words)
    if len(side) == 1:
        return _Written(parts[0][0], None, None, parts[0][1], words, {})
    if target.kind != "choice" and len(side) > 2:
        raise UnfitError(f"{len(side) - 1} second texts: only a choice is among several, give one")
    rows = [encoder.tokenizer.backend_tokenizer.encode(side[0].text, second.text) for second in side[1:]]
    width = max(len(row.ids) for row in rows)
    if width > encoder.max_pieces:
        problem = f"its texts have {width} pieces together, and the model takes {encoder.max_pieces}"
        raise UnfitError(f"{problem}: shorten them")
    lists = [row.ids for row in rows], [row.type_ids for row in rows], [[1] * len(row.ids) for row in rows]
    ids, types, is_real = (padded(of, width, fill) for of, fill in zip(lists, (encoder.pad_id, 0, 0), strict=True))
    spans = [[np.zeros(0, dtype=np.int64) for _ in of_words] for _, of_words in parts]
    offsets: dict[int, tuple[int, int]] = {}
    for number, row in enumerate(rows):
        of_row = np.array([-1 if part is None else part for part in row.sequence_ids])
        for part, which in ((0, 0), (1, 1 + number)):
            alone, of_words = parts[which]
            at = number * width + np.flatnonzero(of_row == part)
            if len(at) != len(alone) - encoder.n_prefix - encoder.n_suffix:
                raise UnfitError("the model's tokenizer cuts a pair of texts otherwise than each text alone")
            for word, span in enumerate(of_words):
                spans[which][word] = np.concatenate([spans[which][word], at[span - encoder.n_prefix]])
        offsets |= {number * width + n: row.offsets[n] for n in np.flatnonzero(of_row == 1).tolist()}
    has_types = "token_type_ids" in encoder.tokenizer.model_input_names
    every = [span for of_part in spans for span in of_part]
    real = None if is_real.all() else is_real.ravel()
    return _Written(ids.ravel(), types.ravel() if has_types else None, real, every, words, offsets)


def _aligned(encoder: Encoder, pair: PatchPair, text: _Written, other: _Written, by_word: bool) -> AlignedPair:
    """A pair whose sides are cut alike, with what its target names."""
    _check_alike(encoder, pair, text, other)
    target, n_parts = pair.asked, max(1, len(pair.seconds)) if pair.target.kind == "choice" else 1
    at, candidates = np.zeros(0, dtype=np.int64), tuple[int, ...]()
    if target.kind == "word":
        masked = [np.flatnonzero(one.ids == encoder.mask_id) for one in (text, other)]
        if not np.array_equal(masked[0], masked[1]) or len(masked[0]) != 1:
            raise UnfitError("the mask stands in different places of the two texts")
        at = masked[0]
        candidates = tuple(entry_of(encoder, word) for word in filter(None, (target.good, target.bad)))
    elif target.kind in ("tag", "probe"):
        span = text.spans[target.word - 1]
        pooling = "first" if target.probe is None else target.probe.origin.pooling
        at = {"first": span[:1], "last": span[-1:]}.get(pooling, span)
    elif target.kind == "answer" and target.good:
        at = _answer_at(text, pair.seconds[0], target.good)
    words = [text.words, other.words]
    names: Sequence[str] = word_names(words) if by_word else pair.places
    if not names:
        is_mask = [target.kind == "word" and bool(np.isin(span, at).any()) for span in text.spans]
        named = zip(is_mask, *words, strict=True)
        names = tuple("mask" if masks else "changed" if a != b else "other word" for masks, a, b in named)
    if len(names) != len(text.words):
        raise UnfitError(f"{len(names)} places are named for {len(text.words)} words: name one for each word")
    places: dict[str, list[int]] = {}
    for name, span in zip(names, text.spans, strict=True):
        places.setdefault(name, []).extend(span.tolist())
    places[SPECIAL] = sorted(set(range(len(text.ids))).difference(*places.values()))
    as_arrays = {name: np.array(some, dtype=np.int64) for name, some in places.items() if some}
    shown = tuple(a if a == b else f"{a}/{b}" for a, b in zip(*words, strict=True))
    of_text = shown, tuple(text.spans), text.types, text.is_real, n_parts
    return AlignedPair((text.ids, other.ids), target, at, candidates, as_arrays, *of_text)


def _check_alike(encoder: Encoder, pair: PatchPair, text: _Written, other: _Written) -> None:
    """Raise where a text does not have what its target needs, or the two sides are not cut alike."""
    kind, n_seconds, n_words = pair.target.kind, len(pair.seconds), len(text.words)
    if kind == "choice" and n_seconds < 2:
        raise UnfitError(f"{n_seconds} choices: give two or more")
    if kind == "answer" and n_seconds != 1:
        raise UnfitError("a question without its passage: give the text that holds the answer as the second one")
    for given in dict.fromkeys((pair.text, pair.other or pair.text)) if kind == "word" else ():
        if (n_masks := Prompt(given).n_masks) != 1:
            problem = f"{quoted(given)} has {n_masks} masks"
            raise UnfitError(f"{problem}: write {encoder.mask_token} once, where a word is left out")
    if len(other.words) != n_words:
        raise UnfitError(f"the texts have {n_words} and {len(other.words)} words: give two of the same number")
    for number, spans in enumerate(zip(text.spans, other.spans, strict=True)):
        if not np.array_equal(spans[0], spans[1]):
            forms = " and ".join(quoted(one.words[number]) for one in (text, other))
            remedy = "states are exchanged piece by piece, so give words of as many"
            raise UnfitError(f"{forms} have {len(spans[0])} and {len(spans[1])} pieces: {remedy}")
    layouts = [(len(one.ids), *(str(part) for part in (one.types, one.is_real))) for one in (text, other)]
    if layouts[0] != layouts[1]:
        raise UnfitError("the texts differ in their pieces: give texts that are cut alike")
    if pair.target.word > n_words:
        named = f"target {kind}={pair.target.word}"
        raise CorpusError(f"{named}: the text has {n_words} words ({listed(text.words)})")


def word_names(words: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """``[word]`` its number and form, or both forms where the two texts differ."""
    forms = zip(*words, strict=True)
    return tuple(f"{n} {a}" if a == b else f"{n} {a}/{b}" for n, (a, b) in enumerate(forms, 1))


def entry_of(encoder: Encoder, word: str) -> int:
    """The vocabulary number of a word that is one subword; :class:`UnfitError` where it has none."""
    before, both = (encoder.tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", f"a {word}"))
    piece = both[len(before) :]
    if both[: len(before)] != before or len(piece) != 1 or piece[0] == encoder.tokenizer.unk_token_id:
        raise UnfitError(f"{quoted(word)} is no single piece of the model's vocabulary: give a word that is")
    return int(piece[0])


def _answer_at(text: _Written, passage: str, answer: str) -> Integers:
    """The first and the last subword of an answer that stands once in the passage."""
    if (count := passage.count(answer)) != 1:
        stands = "does not stand in the passage" if not count else f"stands {count} times in the passage"
        raise UnfitError(f"the answer {quoted(answer)} {stands}: give a part of it that stands there once")
    start = passage.index(answer)
    stop = start + len(answer)
    inside = [place for place, (first, last) in text.offsets.items() if first < last and last > start and first < stop]
    return np.array([min(inside), max(inside)], dtype=np.int64)


# What a model predicts, where no label, tag, answer or choice is named.


def _predicted(
    encoder: Encoder, pairs: Sequence[PatchPair], aligned: list[AlignedPair | str]
) -> list[AlignedPair | str]:
    """Aligned pairs whose targets have all their names: of what is left out that which the model predicts."""
    waiting = dict[int, AlignedPair]()
    for number, one in enumerate(aligned):
        if isinstance(one, str) or one.target.kind in ("word", "number"):
            continue
        is_answer = one.target.kind == "answer"
        if not (len(one.at) if is_answer else one.target.good and one.target.bad):
            waiting[number] = one
        elif not is_answer:
            aligned[number] = _named(encoder, pairs[number], one, ())
    numbers, ones = list(waiting), list(waiting.values())
    for batch, rows in batches(encoder, ones, 2):
        are_alike = all(row.ids[0] is row.ids[1] for row in rows)
        sides = [Decision(encoder, rows).logits(ids_of(rows, side)) for side in _SIDES[: 2 - are_alike]]
        for row, place in enumerate(batch):
            pair, logits = pairs[numbers[place]], [of_side[row] for of_side in sides]
            try:
                named = _best_answer if ones[place].target.kind == "answer" else partial(_named, encoder)
                aligned[numbers[place]] = named(pair, ones[place], logits)
            except UnfitError as reason:
                aligned[numbers[place]] = str(reason)
    return aligned


def _named(encoder: Encoder, pair: PatchPair, one: AlignedPair, logits: Sequence[Floats]) -> AlignedPair:
    """An aligned pair with the names of what is compared, from the logits of both its texts."""
    target = one.target
    if target.probe is not None:
        known = list(target.probe.origin.labels)
    else:
        known = [str(n + 1) for n in range(one.n_parts)] if target.kind == "choice" else labels_of(encoder)
    for name in filter(None, (target.good, target.bad)):
        if name not in known:
            what = "label" if target.kind == "probe" else target.kind
            raise ModelError(f"target {target.kind}: {what} {quoted(name)} is none of {listed(known)}")
    first = known.index(target.good) if target.good else int(logits[0].argmax())
    if target.kind == "label" and encoder.task_model.config.problem_type == "multi_label_classification":
        return replace(one, target=replace(target, good=known[first]), candidates=(first,))
    if target.bad:
        second = known.index(target.bad)
    else:
        are_two = pair.parts()[0] != pair.parts()[1] and not target.good
        second = int(logits[1].argmax()) if are_two else first
        if are_two and second == first:
            problem = f"{known[first]} is predicted of both texts"
            raise UnfitError(f"{problem}: give texts that are predicted apart, or name a target")
        if second == first:
            second = int(np.where(np.arange(len(known)) == first, -np.inf, logits[0]).argmax())
    if first == second:
        raise ModelError(f"target {target.kind}: {quoted(known[first])} is compared with itself: name another")
    return replace(one, target=replace(target, good=known[first], bad=known[second]), candidates=(first, second))


_MOST_ANSWER_PIECES = 30
"""Largest number of subwords in an answer, as in the code of Devlin et al. (2019)."""


def answer_sums(logits: NDArray[Any], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """Sums ``[starts, ends]`` of the two logits ``[place, 2]`` of answers by their first and last subword.

    ``-inf`` where the last comes before the first or the answer has over 30 subwords.
    """
    sums = logits[starts, 0][:, None] + logits[ends, 1][None]
    length = ends[None] - starts[:, None]
    return np.where((length >= 0) & (length < _MOST_ANSWER_PIECES), sums, -np.inf)


def _best_answer(pair: PatchPair, one: AlignedPair, logits: Sequence[Floats]) -> AlignedPair:
    """The pair with the answer of at most 30 subwords whose two logits have the largest sum (Devlin et al. 2019)."""
    n_first = len(pair.sentences()[0][0].words)
    inside = np.unique(np.concatenate(one.spans[n_first:]))
    sums = answer_sums(logits[0].T, inside, inside)
    at = inside[np.array(np.unravel_index(int(sums.argmax()), sums.shape))]
    of_passage = list(zip(one.words, one.spans, strict=True))[n_first:]
    answer = " ".join(word for word, span in of_passage if np.isin(span, np.arange(at[0], at[1] + 1)).any())
    return replace(one, at=at, target=replace(one.target, good=answer))
