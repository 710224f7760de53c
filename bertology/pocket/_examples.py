"""Vocabulary and examples of pretraining: pieces learnt from a text, and batches with what is to be predicted."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertology._files import write_atomically
from bertology.pocket import _function_words as fw
from bertology.pocket._bilingual import SecondLanguage, is_of_second, transliterated
from bertology.pocket._items import tested_forms
from bertology.pocket._recipe import PretrainSettings
from bertology.pocket._words import COUNTRIES, MEN, PLURAL, SINGULAR, TOWNS, TRADES, WOMEN, lexicon

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def whole_words() -> list[str]:
    """Words that are one piece each, so that they fit a single mask: names, places, trades, tested verbs."""
    return _lowered([*WOMEN, *MEN, *TOWNS, *COUNTRIES, *TRADES, *tested_forms()])


def salient_words() -> list[str]:
    """Words whose prediction requires knowledge: objects of facts, and verb forms that agree."""
    verbs = [fw.BE.present, fw.HAVE.present, *(frame.verb.present for frame in lexicon("known").frames.items)]
    return _lowered([*TOWNS, *COUNTRIES, *TRADES, *(forms[a].form for forms in verbs for a in (SINGULAR, PLURAL))])


def _lowered(words: Iterable[str]) -> list[str]:
    """The words in lower case, each once."""
    return list(dict.fromkeys(word.lower() for word in words))


_ALPHABET = "abcdefghijklmnopqrstuvwxyz'"


def train_tokenizer(
    sentences: Iterable[str],
    *,
    vocabulary_size: int,
    others: Iterable[str] = (),
    second: SecondLanguage | None = None,
) -> Tokenizer:
    """A lower-casing WordPiece tokenizer in the manner of BERT, with so many learnt pieces of each language.

    Words of the first language that must be whole come on top where they were not learnt. The same text gives the same
    vocabulary: the special tokens, and the pieces of each language in alphabetical order. A shifted second language has
    the pieces of the first, one for one.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()

    def learned(texts: Iterable[str], alphabet: str) -> set[str]:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
        # Words outside the text are spelled letter by letter, so each letter is needed at the start and inside.
        letters = {prefix + letter for letter in alphabet for prefix in ("", "##")}
        return learn_pieces(counts, vocabulary_size) | letters

    pieces = sorted(learned(sentences, _ALPHABET) | set(whole_words()))
    if second is not None and second.fake:
        pieces += list(map(transliterated, pieces))
    elif second is not None:
        pieces += sorted(learned(others, transliterated(_ALPHABET)).difference(pieces))
    ids = {piece: number for number, piece in enumerate([*SPECIAL_TOKENS, *pieces])}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, max_pieces: int) -> None:
    """Write the files that ``AutoTokenizer.from_pretrained`` reads: JSON, settings and the plain vocabulary."""
    write_atomically(folder / "tokenizer.json", tokenizer.to_str(pretty=True).encode())
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": max_pieces}
    settings |= {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    write_atomically(folder / "tokenizer_config.json", (json.dumps(settings, indent=2) + "\n").encode())
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    write_atomically(folder / "vocab.txt", "".join(f"{piece}\n" for piece, _ in pieces).encode())


def first_of_second(tokenizer: Tokenizer) -> int | None:
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
    while len(pieces) < size and pairs:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < _FEWEST:
            break
        pieces.add(_joined(best))
        for number in words_with.pop(best):
            parts, n = spelled[number]
            for pair in pairwise(parts):
                pairs[pair] -= n
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
        del pairs[best]
    return pieces


def _joined(pair: Pair) -> str:
    return pair[0] + pair[1].removeprefix(_CONTINUES)


Integers = NDArray[np.int64]
Batch: TypeAlias = dict[str, Integers]
"""One step's examples: ``input_ids``, ``attention_mask`` and ``token_type_ids``, ``[row, piece]``; ``masked``,
``[row, mask]`` places to predict; ``masked_labels``, ``[row, mask]`` what stood there, or −100; ``next_labels``,
``[row]`` 0 where the second segment follows the first, 1 where it is from elsewhere, −100 without one."""
Segments: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32] | None, int]
"""Pieces of one segment or two, and the label of whether the second follows the first."""
IGNORED = -100
"""The label of what is not predicted."""
IS_NEXT, IS_RANDOM = 0, 1
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_LENGTHS = (12, 16, 22)
"""Lengths of rows that hold one sentence alone; longer sentences take half the longest row."""


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

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.document)


def encode(documents: Iterable[list[str]], tokenizer: Tokenizer) -> EncodedText:
    """Turn text into pieces, without special tokens."""
    texts = list(documents)
    lengths = list(map(len, texts))
    encoded = tokenizer.encode_batch_fast(list(chain.from_iterable(texts)), add_special_tokens=False)
    starts = np.cumsum([0, *(len(encoding.ids) for encoding in encoded)])
    pieces = np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for encoding in encoded])
    return EncodedText(
        pieces, starts, np.repeat(np.arange(len(lengths)), lengths), np.repeat(np.cumsum(lengths), lengths)
    )


def piece_id(tokenizer: Tokenizer, piece: str) -> int:
    """The number of a piece that the vocabulary must hold."""
    number = tokenizer.token_to_id(piece)
    if number is None:
        raise KeyError(f"{piece!r} is no piece of the vocabulary")
    return number


@dataclass(frozen=True)
class Examples:
    """Makes batches of one text."""

    text: EncodedText
    tokenizer: Tokenizer
    settings: PretrainSettings

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
            segments = [self._pair(chance, length) for _ in range(max(1, settings.batch_pieces // length))]
        ids = {name: piece_id(self.tokenizer, f"[{name}]") for name in ("PAD", "CLS", "SEP")}
        input_ids = np.full((len(segments), length), ids["PAD"], dtype=np.int64)
        token_type_ids, lengths = np.zeros_like(input_ids), np.zeros(len(segments), dtype=np.int64)
        for row, (first, second, _) in enumerate(segments):
            pieces = [ids["CLS"], *first, ids["SEP"], *(() if second is None else (*second, ids["SEP"]))]
            lengths[row] = len(pieces)
            input_ids[row, : len(pieces)] = pieces
            token_type_ids[row, len(first) + 2 : len(pieces)] = 1
        attention_mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
        masked, labels = self._mask(chance, step, input_ids, attention_mask)
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "masked": masked,
            "masked_labels": labels,
            "next_labels": np.array([label for _, _, label in segments]),
        }

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """``[vocabulary]`` relative probability that a piece is masked."""
        weights = np.ones(self.tokenizer.get_vocab_size())
        pieces = map(self.tokenizer.token_to_id, salient_words())
        weights[[piece for piece in pieces if piece is not None]] = self.settings.salience
        return weights

    def _alone(self, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of about one length, one in each row, so that hardly any padding is read."""
        lengths = np.diff(self.text.starts)
        size = lengths[chance.integers(self.text.n_sentences)]
        half = self.settings.max_pieces // 2
        bounds = [bound for bound in _LENGTHS if bound < half]
        bound = next((bound for bound in bounds if size <= bound - 2), half)
        shorter = max((other for other in bounds if other < bound), default=2)
        alike = np.flatnonzero((lengths > shorter - 2) & ((lengths <= bound - 2) | (bound == half)))
        second = self.settings.second_language
        if second is not None and chance.random() < second.paired:
            return self._with_translations(alike[alike < self.text.n_sentences // 2], chance)
        chosen = chance.choice(alike, max(1, self.settings.batch_pieces // bound))
        return bound, [(self._pieces(start, start + 1)[: bound - 2], None, IGNORED) for start in chosen]

    def _with_translations(self, firsts: Integers, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of the first language and their translations, in either order, in rows of one length.

        Translations are the second half of the text, in the same order.
        """
        shift = self.text.n_sentences // 2
        chosen = chance.choice(firsts, max(1, self.settings.batch_pieces // self.settings.max_pieces * 2))
        pairs = [(self._pieces(one, one + 1), self._pieces(one + shift, one + shift + 1)) for one in chosen]
        fitting = [pair for pair in pairs if len(pair[0]) + len(pair[1]) <= self.settings.max_pieces - 3]
        length = 3 + max(len(first) + len(other) for first, other in fitting)
        turned = chance.random(len(fitting)) < 0.5
        return length, [
            (*(reversed(pair) if turn else pair), IGNORED) for pair, turn in zip(fitting, turned, strict=True)
        ]

    def _pair(self, chance: np.random.Generator, length: int) -> Segments:
        """Two segments that fill a row, and whether the second follows the first."""
        text, room = self.text, length - 3
        start = self._drawn_back(int(chance.integers(text.n_sentences)), room)
        wanted = chance.integers(room // 4, 3 * room // 4)
        end = start + 1
        while end < text.document_end[start] - 1 and text.starts[end] - text.starts[start] < wanted:
            end += 1
        first = self._pieces(start, end)[room // 4 - room :]  # cut at its beginning, so that what follows still does
        left = room - len(first)
        follows = end < text.document_end[start] and chance.random() < 0.5
        other = end
        if not follows:
            elsewhere = start
            while text.document[elsewhere] == text.document[start]:
                elsewhere = int(chance.integers(text.n_sentences))
            other = self._drawn_back(elsewhere, left)
        second = self._pieces(other, int(text.document_end[other]))[:left]
        return first, second, IS_NEXT if follows else IS_RANDOM

    def _drawn_back(self, start: int, room: int) -> int:
        """An earlier sentence of the same document, if that is needed to fill the room."""
        text = self.text
        end = text.starts[text.document_end[start]]
        while start > 0 and text.document[start - 1] == text.document[start] and end - text.starts[start] < room:
            start -= 1
        return start

    def _pieces(self, first: int, end: int) -> NDArray[np.int32]:
        return self.text.pieces[self.text.starts[first] : self.text.starts[end]]

    def _mask(
        self, chance: np.random.Generator, step: int, input_ids: Integers, attention_mask: Integers
    ) -> tuple[Integers, Integers]:
        """Choose places to predict and disguise them, in place: 80 % [MASK], 10 % any piece, 10 % as they are.

        Without random replacement, 90 % are [MASK].
        """
        special = np.isin(input_ids, [piece_id(self.tokenizer, token) for token in ("[CLS]", "[SEP]", "[PAD]")])
        n_rows, length = input_ids.shape
        mask_rate = self.settings.mask_rate
        n_masks = max(1, round(mask_rate * length))
        # The smallest of exponential times, each at its own rate: a draw without replacement by weight.
        rates = self._weights[input_ids] if step >= self.settings.salience_from else 1.0
        times = -np.log1p(-chance.random(input_ids.shape)) / rates
        masked = np.argsort(np.where(special, np.inf, times), axis=1)[:, :n_masks]
        rows = np.arange(n_rows)[:, None]
        wanted = np.maximum(1, np.round(mask_rate * attention_mask.sum(axis=1, keepdims=True)))
        labels = np.where(np.arange(n_masks) < wanted, input_ids[rows, masked], IGNORED)
        labels = np.where(special[rows, masked], IGNORED, labels)
        disguise = chance.random(masked.shape)
        random_pieces = chance.integers(5, self.tokenizer.get_vocab_size(), masked.shape)
        n_masked = 0.8 if self.settings.random_replacement else 0.9
        shown = np.where(disguise < n_masked, piece_id(self.tokenizer, "[MASK]"), random_pieces)
        input_ids[rows, masked] = np.where((disguise >= 0.9) | (labels == IGNORED), input_ids[rows, masked], shown)
        return masked, labels
