"""Vocabulary and examples of pretraining: pieces learnt from a text, and batches with what is to be predicted."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertology._files import write_atomically
from bertology._languages_apart import FIRST_PIECE
from bertology._lazy import tokenizers
from bertology.errors import BertologyError
from bertology.pocket import _function_words as fw
from bertology.pocket._bilingual import SecondLanguage, is_of_second, transliterated
from bertology.pocket._items import tested_forms
from bertology.pocket._recipe import PretrainSettings
from bertology.pocket._words import PLURAL, SINGULAR, lexicon
from bertology.pocket._world import COUNTRIES, MEN, TOWNS, TRADES, WOMEN

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def whole_words() -> list[str]:
    """Words that are one piece each, so that they fit a single mask: names, places, trades, tested verbs."""
    return _lowered([*WOMEN, *MEN, *TOWNS, *COUNTRIES, *TRADES, *tested_forms()])


def salient_words() -> list[str]:
    """Words whose prediction requires knowledge: objects of facts, and verb forms that agree."""
    verbs = [fw.BE.present, fw.HAVE.present, *(frame.verb.present for frame in lexicon("known").frames.items)]
    return _lowered([*TOWNS, *COUNTRIES, *TRADES, *(forms[a].form for forms in verbs for a in (SINGULAR, PLURAL))])


def _lowered(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(word.lower() for word in words))


_ALPHABET = "abcdefghijklmnopqrstuvwxyz'"


def train_tokenizer(
    sentences: Iterable[str],
    *,
    vocabulary_size: int,
    others: Iterable[str] = (),
    second: SecondLanguage | None = None,
    of_pocket: bool = True,
) -> tokenizers.Tokenizer:
    """A lower-casing WordPiece tokenizer in the manner of BERT, with so many learnt pieces of each language.

    Letters, and words of the pocket world that must be whole, come on top where they were not learnt. The same text
    gives the same vocabulary: the special tokens, and the pieces of each language in alphabetical order. A shifted
    second language has the pieces of the first, one for one.
    """
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece())
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()

    def learned(texts: Iterable[str], alphabet: str) -> set[str]:
        # Words outside the text are spelled letter by letter, so each letter is needed at the start and inside.
        letters = {prefix + letter for letter in alphabet for prefix in ("", _CONTINUES)}
        return learn_pieces(_words(texts, tokenizer), vocabulary_size) | letters

    pieces = sorted(learned(sentences, _ALPHABET).union(whole_words() if of_pocket else ()))
    if second is not None and second.fake:
        pieces += list(map(transliterated, pieces))
    elif second is not None:
        pieces += sorted(learned(others, transliterated(_ALPHABET)).difference(pieces))
    ids = {piece: number for number, piece in enumerate([*SPECIAL_TOKENS, *pieces])}
    tokenizer.model = tokenizers.models.WordPiece(ids, unk_token="[UNK]")
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def _words(texts: Iterable[str], tokenizer: tokenizers.Tokenizer) -> Counter[str]:
    """How often each word occurs in some texts, as a tokenizer with a model of words divides and spells them."""
    counts: Counter[str] = Counter()
    for text in texts:
        spelled = text if tokenizer.normalizer is None else tokenizer.normalizer.normalize_str(text)
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(spelled))
    return counts


def extend(tokenizer: Any, sentences: Iterable[str], size: int) -> None:
    """Put subwords that are learnt from a text after those of a WordPiece tokenizer of transformers, in place.

    Raises:
        BertologyError: it is a tokenizer of another kind.
    """
    backend = tokenizer.backend_tokenizer
    if (kind := type(backend.model).__name__) != "WordPiece":
        raise BertologyError(f"tokenizer: a {kind} tokenizer cannot be extended, as one of WordPiece can; give own")
    vocabulary = tokenizer.get_vocab()
    for piece in sorted(learn_pieces(_words(sentences, backend), size).difference(vocabulary)):
        vocabulary[piece] = len(vocabulary)
    backend.model = tokenizers.models.WordPiece(vocabulary, unk_token=tokenizer.unk_token)


def save_tokenizer(tokenizer: tokenizers.Tokenizer, folder: Path, *, max_pieces: int) -> None:
    """Write the files that ``AutoTokenizer.from_pretrained`` reads: JSON, settings and the plain vocabulary."""
    write_atomically(folder / "tokenizer.json", tokenizer.to_str(pretty=True).encode())
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": max_pieces}
    settings |= {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    write_atomically(folder / "tokenizer_config.json", (json.dumps(settings, indent=2) + "\n").encode())
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    write_atomically(folder / "vocab.txt", "".join(f"{piece}\n" for piece, _ in pieces).encode())


def first_of_second(tokenizer: tokenizers.Tokenizer) -> int | None:
    """The number of the first piece in the letters of the second language, which has the end of the vocabulary."""
    numbers = [number for piece, number in tokenizer.get_vocab().items() if is_of_second(piece)]
    return min(numbers, default=None)


Pair = tuple[str, str]
_CONTINUES = "##"
_FEWEST = 2
"""A pair seen less often is not merged."""


def learn_pieces(counts: Mapping[str, int], size: int) -> set[str]:
    """Merge the most frequent pair of neighbouring pieces until there are ``size`` of them (Sennrich et al. 2016).

    Single characters are counted; pieces that continue a word begin with ``##``.
    """
    spelled = [([word[0], *(_CONTINUES + letter for letter in word[1:])], n) for word, n in sorted(counts.items())]
    pieces = {piece for parts, _ in spelled for piece in parts}
    pairs: Counter[Pair] = Counter()
    words_with: dict[Pair, set[int]] = defaultdict(set)
    for number, (parts, n) in enumerate(spelled):
        for pair in pairwise(parts):
            pairs[pair] += n
            words_with[pair].add(number)
    queue = [(-n, pair) for pair, n in pairs.items()]
    heapify(queue)
    while len(pieces) < size and queue:
        n_pairs, best = heappop(queue)
        if -n_pairs != pairs[best]:
            continue  # counted anew since then
        if pairs[best] < _FEWEST:
            break
        pieces.add(_joined(best))
        changed = set[Pair]()
        for number in words_with.pop(best):
            parts, n = spelled[number]
            for pair in pairwise(parts):
                pairs[pair] -= n
                changed.add(pair)
            merged = list[str]()
            for part in parts:
                if merged and (merged[-1], part) == best:
                    merged[-1] = _joined(best)
                else:
                    merged.append(part)
            parts[:] = merged
            for pair in pairwise(parts):
                pairs[pair] += n
                words_with[pair].add(number)
                changed.add(pair)
        del pairs[best]
        for pair in changed - {best}:
            heappush(queue, (-pairs[pair], pair))
    return pieces


def _joined(pair: Pair) -> str:
    return pair[0] + pair[1].removeprefix(_CONTINUES)


Integers = NDArray[np.int64]
Batch: TypeAlias = dict[str, Integers]
"""One step's examples: ``input_ids``, ``attention_mask`` and ``token_type_ids``, ``[row, piece]``; ``masked``,
``[row, mask]`` places whose output predicts; ``masked_labels``, ``[row, mask]`` what it predicts (what stood there, or
the next or previous piece), or −100; ``next_labels``, ``[row]`` 0 where the second segment follows the first, 1 where
it is from elsewhere or comes before it, −100 without one."""
Segments: TypeAlias = tuple[Integers, Integers | None, int]
"""Places in the text of the pieces of one segment or two, and the label of whether the second follows the first."""
IGNORED = -100
"""The label of what is not predicted."""
IS_NEXT, IS_RANDOM = 0, 1
_LENGTHS = (12, 16, 22)
"""Lengths of rows that hold one sentence alone; longer sentences take half the longest row."""
_LENGTHS_OF_OWN = (*_LENGTHS, 32, 48, 64, 96, 128, 192, 256, 384)
"""The same for a text of one's own; longer sentences take the longest row."""
_MOST_SPANS = 50
"""Most spans that are drawn for a row; those that do not fit in count."""
_SENTENCES_AT_ONCE = 1024


@dataclass(frozen=True)
class EncodedText:
    """Documents as subword ids."""

    pieces: NDArray[np.int32]
    """``[piece]``"""
    starts: Integers
    """``[sentence + 1]`` first piece of each sentence, and the number of pieces."""
    document: Integers
    """``[sentence]`` document that each sentence stands in."""
    document_end: Integers
    """``[sentence]`` one past the last sentence of its document."""
    begins_word: NDArray[np.bool_]
    """``[piece]`` whether a word begins with it."""

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.document)


def encode(
    documents: Iterable[list[str]], tokenizer: tokenizers.Tokenizer, *, longest: int | None = None
) -> EncodedText:
    """Turn text into pieces, without special tokens; sentences of more than ``longest`` pieces are divided."""
    texts = list(documents)
    encoded = tokenizer.encode_batch(list(chain.from_iterable(texts)), add_special_tokens=False)
    sizes = [len(encoding.ids) for encoding in encoded]
    most = longest or max(1, *sizes)
    divided = [[min(most, size - start) for start in range(0, max(size, 1), most)] for size in sizes]
    lengths = np.add.reduceat([*map(len, divided)], np.cumsum([0, *map(len, texts)])[:-1])  # sentences of documents
    pieces = np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for encoding in encoded])
    # Special tokens in the text are in no word: not a number, which differs from any.
    begins = [np.diff(np.asarray(encoding.word_ids, dtype=np.float64), prepend=-1) != 0 for encoding in encoded]
    document, document_end = np.repeat(np.arange(len(lengths)), lengths), np.repeat(np.cumsum(lengths), lengths)
    starts = np.cumsum([0, *chain.from_iterable(divided)])
    return EncodedText(pieces, starts, document, document_end, np.concatenate(begins))


def piece_id(tokenizer: tokenizers.Tokenizer, piece: str) -> int:
    """The number of a piece that the vocabulary must hold."""
    number = tokenizer.token_to_id(piece)
    if number is None:
        raise KeyError(f"{piece!r} is no piece of the vocabulary")
    return number


@dataclass(frozen=True)
class Examples:
    """Makes batches of one text."""

    text: EncodedText
    tokenizer: tokenizers.Tokenizer
    settings: PretrainSettings
    specials: Mapping[str, int] | None = None
    """Numbers of ``PAD``, ``CLS``, ``SEP`` and ``MASK``; those of BERT's names when left out."""

    def batch(self, step: int) -> Batch:
        """The batch of a step, drawn at random from all the text by seed and step, and so always the same."""
        settings = self.settings
        chance = np.random.default_rng([settings.seed, step])
        kind = chance.random()
        if kind < settings.alone_share:
            length, segments = self._alone(chance)
        else:
            is_short = kind < settings.alone_share + settings.short_share
            length = settings.max_pieces // 2 if is_short else settings.max_pieces
            make = self._run if settings.next_sentence == "none" else self._pair
            segments = [make(chance, length) for _ in range(max(1, settings.batch_pieces // length))]
        batch, places = self._laid_out(segments, length)
        if settings.is_one_sided:
            masked, labels = self._neighbours(batch)
        elif settings.masking == "static":
            masked, labels = self._masks_of_text(batch, places)
        else:
            masked, labels = self._mask(chance, step, batch, places)
        next_labels = np.array([label for _, _, label in segments])
        return {**batch, "masked": masked, "masked_labels": labels, "next_labels": next_labels}

    def _laid_out(self, segments: Sequence[Segments], length: int) -> tuple[Batch, Integers]:
        """Rows of one length that hold some segments, and the place of each piece in the text, −1 for the others."""
        cls, sep, pad = (self._special[name] for name in ("CLS", "SEP", "PAD"))
        input_ids = np.full((len(segments), length), pad, dtype=np.int64)
        places, token_type_ids = np.full_like(input_ids, -1), np.zeros_like(input_ids)
        lengths = np.zeros(len(segments), dtype=np.int64)
        for row, (first, second, _) in enumerate(segments):
            whole = np.concatenate([[-1], first, [-1], *(() if second is None else (second, [-1]))]).astype(np.int64)
            lengths[row] = len(whole)
            places[row, : len(whole)] = whole
            input_ids[row, : len(whole)] = np.where(whole < 0, sep, self.text.pieces[whole])
            token_type_ids[row, len(first) + 2 : len(whole)] = 1
        input_ids[:, 0] = cls
        attention_mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
        return {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}, places

    @cached_property
    def _special(self) -> Mapping[str, int]:
        names = ("PAD", "CLS", "SEP", "MASK")
        return self.specials or {name: piece_id(self.tokenizer, f"[{name}]") for name in names}

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """``[vocabulary]`` relative probability that a piece is masked."""
        weights = np.ones(self.tokenizer.get_vocab_size())
        if self.settings.text is not None:
            return weights
        pieces = map(self.tokenizer.token_to_id, salient_words())
        weights[[piece for piece in pieces if piece is not None]] = self.settings.salience
        return weights

    def _alone(self, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of about one length, one in each row, so that hardly any padding is read."""
        lengths = np.diff(self.text.starts)
        size = lengths[chance.integers(self.text.n_sentences)]
        is_own = self.settings.text is not None
        longest = self.settings.max_pieces if is_own else self.settings.max_pieces // 2
        bounds = [bound for bound in (_LENGTHS_OF_OWN if is_own else _LENGTHS) if bound < longest]
        bound = next((bound for bound in bounds if size <= bound - 2), longest)
        shorter = max((other for other in bounds if other < bound), default=2)
        alike = np.flatnonzero((lengths > shorter - 2) & ((lengths <= bound - 2) | (bound == longest)))
        second = self.settings.second_language
        if second is not None and chance.random() < second.paired:
            return self._with_translations(alike[alike < self.text.n_sentences // 2], chance)
        chosen = chance.choice(alike, max(1, self.settings.batch_pieces // bound))
        return bound, [(self._pieces(start, start + 1)[: bound - 2], None, IGNORED) for start in chosen]

    def _with_translations(self, firsts: Integers, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of the first language and their translations, in either order, in rows of one length."""
        shift = self.text.n_sentences // 2  # translations are the second half of the text, in the same order
        chosen = chance.choice(firsts, max(1, self.settings.batch_pieces // self.settings.max_pieces * 2))
        pairs = [(self._pieces(one, one + 1), self._pieces(one + shift, one + shift + 1)) for one in chosen]
        fitting = [pair for pair in pairs if len(pair[0]) + len(pair[1]) <= self.settings.max_pieces - 3]
        length = 3 + max(len(first) + len(other) for first, other in fitting)
        turned = zip(fitting, chance.random(len(fitting)) < 0.5, strict=True)
        return length, [(*(reversed(pair) if turn else pair), IGNORED) for pair, turn in turned]

    def _pair(self, chance: np.random.Generator, length: int) -> Segments:
        """Two segments that fill a row, and whether the second follows the first."""
        text, room = self.text, length - 3
        in_order = self.settings.next_sentence == "sentence_order"
        start = int(chance.choice(self._followed) if in_order else chance.integers(text.n_sentences))
        start = self._drawn_back(start, room)
        wanted = chance.integers(room // 4, 3 * room // 4)
        end = start + 1
        while end < text.document_end[start] - 1 and text.starts[end] - text.starts[start] < wanted:
            end += 1
        first = self._pieces(start, end)[room // 4 - room :]  # cut at its beginning, so that what follows still does
        left = room - len(first)
        if in_order:
            second = self._pieces(end, int(text.document_end[start]))[:left]
            return (second, first, IS_RANDOM) if chance.random() < 0.5 else (first, second, IS_NEXT)
        follows = end < text.document_end[start] and chance.random() < 0.5
        other = end
        if not follows:
            elsewhere = start
            while text.document[elsewhere] == text.document[start]:
                elsewhere = int(chance.integers(text.n_sentences))
            other = self._drawn_back(elsewhere, left)
        second = self._pieces(other, int(text.document_end[other]))[:left]
        return first, second, IS_NEXT if follows else IS_RANDOM

    @cached_property
    def _followed(self) -> Integers:
        """Numbers of the sentences that another of the same document follows."""
        return np.flatnonzero(np.arange(self.text.n_sentences) + 1 < self.text.document_end)

    def _run(self, chance: np.random.Generator, length: int) -> Segments:
        """Sentences of one document in their order that fill a row, as one segment."""
        start = self._drawn_back(int(chance.integers(self.text.n_sentences)), length - 2)
        return self._pieces(start, int(self.text.document_end[start]))[: length - 2], None, IGNORED

    def _drawn_back(self, start: int, room: int) -> int:
        """An earlier sentence of the same document, if that is needed to fill the room."""
        text = self.text
        end = text.starts[text.document_end[start]]
        while start > 0 and text.document[start - 1] == text.document[start] and end - text.starts[start] < room:
            start -= 1
        return start

    def _pieces(self, first: int, end: int) -> Integers:
        """The places in the text of the pieces of some sentences."""
        return np.arange(self.text.starts[first], self.text.starts[end])

    def _neighbours(self, batch: Batch) -> tuple[Integers, Integers]:
        """All places with a piece on the side that is predicted, and these pieces."""
        ids, is_piece = batch["input_ids"], batch["attention_mask"] == 1
        forward = self.settings.objective == "left_to_right"
        columns = np.arange(ids.shape[1] - 1) + (not forward)
        labels = np.where(is_piece[:, 1:], ids[:, 1:] if forward else ids[:, :-1], IGNORED)
        return np.tile(columns, (len(ids), 1)), labels

    def _masks_of_text(self, batch: Batch, places: Integers) -> tuple[Integers, Integers]:
        """The places to predict that were drawn once for each sentence of the text, disguised in the same way."""
        is_masked, shown = self._drawn
        ids, chosen = batch["input_ids"], (places >= 0) & is_masked[places]
        masked = np.argsort(~chosen, axis=1, kind="stable")[:, : max(1, int(chosen.sum(axis=1).max()))]
        labels = np.where(np.take_along_axis(chosen, masked, 1), np.take_along_axis(ids, masked, 1), IGNORED)
        ids[chosen] = shown[places[chosen]]
        return masked, labels

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.bool_], Integers]:
        """``[piece]`` of the text: whether it is always to be predicted, and what is shown in its place."""
        is_masked, shown = np.zeros(len(self.text.pieces), dtype=bool), self.text.pieces.astype(np.int64)
        chance = np.random.default_rng([self.settings.seed, 0, 0])
        for start in range(0, self.text.n_sentences, _SENTENCES_AT_ONCE):
            sentences = range(start, min(start + _SENTENCES_AT_ONCE, self.text.n_sentences))
            segments: list[Segments] = [(self._pieces(one, one + 1), None, IGNORED) for one in sentences]
            batch, places = self._laid_out(segments, 2 + max(len(pieces) for pieces, _, _ in segments))
            masked, labels = self._mask(chance, self.settings.salience_from, batch, places)
            drawn, disguised = (np.take_along_axis(of, masked, 1) for of in (places, batch["input_ids"]))
            is_masked[drawn[labels != IGNORED]] = True
            shown[drawn[labels != IGNORED]] = disguised[labels != IGNORED]
        return is_masked, shown

    def _mask(
        self, chance: np.random.Generator, step: int, batch: Batch, places: Integers
    ) -> tuple[Integers, Integers]:
        """Choose places to predict and disguise them, in place: 80 % [MASK], 10 % any piece, 10 % as they are.

        Without random replacement, 90 % are [MASK]; for a generator of replaced tokens all are. Pieces of one span are
        disguised alike.
        """
        settings, input_ids = self.settings, batch["input_ids"]
        special = places < 0
        n_rows, length = input_ids.shape
        n_masks = max(1, round(settings.mask_rate * length))
        rates = self._weights[input_ids] if step >= settings.salience_from else np.ones(input_ids.shape)
        wanted = np.maximum(1, np.round(settings.mask_rate * batch["attention_mask"].sum(axis=1, keepdims=True)))
        rows = np.arange(n_rows)[:, None]
        if settings.objective == "spans":
            spans = self._spans(chance, rates, places, wanted[:, 0].astype(int))
            masked = np.argsort(spans == 0, axis=1, kind="stable")[:, : max(1, int((spans > 0).sum(axis=1).max()))]
            labels = np.where(spans[rows, masked] > 0, input_ids[rows, masked], IGNORED)
            disguise = chance.random((n_rows, spans.max() + 1))[rows, spans[rows, masked]]
        else:
            # The smallest of exponential times, each at its own rate: a draw without replacement by weight.
            times = -np.log1p(-chance.random(input_ids.shape)) / rates
            masked = np.argsort(np.where(special, np.inf, times), axis=1)[:, :n_masks]
            labels = np.where(np.arange(n_masks) < wanted, input_ids[rows, masked], IGNORED)
            labels = np.where(special[rows, masked], IGNORED, labels)
            disguise = chance.random(masked.shape)
        random_pieces = chance.integers(FIRST_PIECE, self.tokenizer.get_vocab_size(), masked.shape)
        n_masked, n_changed = (0.8 if settings.random_replacement else 0.9), 0.9
        if settings.objective == "replaced_tokens":
            n_masked = n_changed = 1.0
        shown = np.where(disguise < n_masked, self._special["MASK"], random_pieces)
        stays = (disguise >= n_changed) | (labels == IGNORED)
        input_ids[rows, masked] = np.where(stays, input_ids[rows, masked], shown)
        return masked, labels

    def _spans(
        self, chance: np.random.Generator, rates: NDArray[np.float64], places: Integers, wanted: Integers
    ) -> Integers:
        """``[row, piece]`` the number of the span that a piece is in, from 1, or 0 (Joshi et al. 2020, section 3.1).

        Spans are drawn until the ``wanted [row]`` number of pieces is in some; lengths in words are geometric. A span
        ends early where its segment does, at a word that is in a span already, or with the last word that fits.
        """
        spans = np.zeros_like(places)
        for row, (at, left) in enumerate(zip(places, wanted.tolist(), strict=True)):
            edges = np.append(np.flatnonzero((at < 0) | self.text.begins_word[at]), len(at))
            starts = edges[:-1][at[edges[:-1]] >= 0]
            ends = edges[np.searchsorted(edges, starts, side="right")]
            weights, number = rates[row, starts] / rates[row, starts].sum(), 0
            for _ in range(_MOST_SPANS * (len(starts) > 0)):
                if left <= 0:
                    break
                first = int(chance.choice(len(starts), p=weights))
                n_words = min(int(chance.geometric(self.settings.span_end)), self.settings.longest_span)
                begin = end = int(starts[first])
                for word in range(first, min(first + n_words, len(starts))):
                    # The first word of all may be longer than what is wanted.
                    is_short = ends[word] - begin <= left or (number == 0 and word == first)
                    if starts[word] != end or spans[row, end] or not is_short:
                        break
                    end = int(ends[word])
                number += end > begin
                spans[row, begin:end] = number
                left -= end - begin
        return spans
