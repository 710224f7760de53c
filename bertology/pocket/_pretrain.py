"""Pretraining of Pocket BERT: its recipe and vocabulary, examples, resumable training, evaluation and model card."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertology._files import sweep, write_atomically
from bertology._folder import CARD, own_folder, versions
from bertology._languages_apart import OWN_SPECIALS, read_languages_apart
from bertology._machine import choose_device
from bertology._settings import changed, checked, file_schema, read_yaml
from bertology.errors import BertologyError, cut
from bertology.pocket import _function_words as fw
from bertology.pocket._bilingual import SecondLanguage, bilingual_documents, is_of_second, transliterated
from bertology.pocket._items import AgreementItem, agreement_items, tested_forms
from bertology.pocket._texts import pretraining_documents
from bertology.pocket._words import (
    COUNTRIES,
    MEN,
    PLURAL,
    SINGULAR,
    TOWNS,
    TRADES,
    WOMEN,
    Fact,
    candidates,
    facts,
    lexicon,
)

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining


Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Positive = Annotated[float, Field(strict=True, gt=0, le=1e6)]
Whole = Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(strict=True, gt=0, le=10**9)]
Size = Annotated[int, Field(strict=True, gt=0, le=2**16)]
_WHAT = "a pretraining recipe"


class PretrainSettings(BaseModel):
    """All settings of pretraining, which determine the model."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    seed: Whole = 0
    """Decides the text, the initial weights, the order of examples and what is masked."""

    documents: Annotated[Count, Field(ge=2)] = 5000
    """Documents of pretraining text, of 5 to 9 sentences each; two at least, for a pair that does not follow."""
    held_out_documents: Annotated[Count, Field(ge=2)] = 300
    """Documents of text that is only evaluated on."""
    vocabulary_size: Count = 1150
    """Pieces that the tokenizer learns, of each language; words that must be whole come on top."""
    second_language: SecondLanguage | None = None
    """A second language, in which half of the text is; none where left out."""

    layers: Size = 4
    """Transformer blocks."""
    width: Size = 128
    """Size of hidden states."""
    heads: Size = 4
    """Attention heads of each block."""
    inner_width: Size = 512
    """Size of the feed-forward layers."""
    max_pieces: Annotated[Size, Field(ge=16)] = 64
    """Longest input, special tokens included."""
    dropout: Share = 0.0
    """Dropout of hidden states and attention."""
    initializer_range: Positive = 0.06
    """Spread of fresh weights. BERT's 0.02 suits its width of 768; at a width of 128 training stalls with it."""

    steps: Count = 36000
    """Optimisation steps."""
    batch_pieces: Count = 768
    """Pieces in a batch."""
    alone_share: Share = 0.55
    """Share of batches that hold single sentences: a small model learns syntax soonest where there is nothing else."""
    short_share: Share = 0.35
    """Share of batches that hold pairs at half the length; the rest hold pairs at full length."""
    mask_rate: Share = 0.25
    """Share of pieces to predict: 80 % of them masked, 10 % replaced, 10 % left as they are."""
    random_replacement: bool = True
    """Whether pieces to predict may be replaced by random ones; if not, 90 % of them are masked."""
    salience: Positive = 4.0
    """Factor by which towns, countries, trades and verb forms that agree are to be predicted than other pieces:
    they are where the knowledge is, and a short run sees few of them otherwise."""
    salience_from: Whole = 4000
    """The step from which that holds."""
    learning_rates: tuple[tuple[Whole, Share], ...] = Field(
        default=((0, 0.0), (300, 1.2e-3), (20000, 1.2e-3), (36000, 0.0)), min_length=1
    )
    """Steps and the learning rate there; in between it is interpolated."""
    weight_decay: Share = 0.01
    """AdamW's decay, of matrices only."""
    clip_norm: Positive = 1.0
    """Largest norm of the gradient."""

    checkpoint_every: Count = 1000
    """Steps between states from which a killed run resumes."""
    evaluate_every: Count = 2000
    """Steps between evaluations on held-out text."""
    keep_checkpoints: tuple[Whole, ...] = ()
    """Steps at which a whole model folder is kept under ``checkpoints/``, to probe across training; 0 is the
    untrained model."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width: {self.width} cannot be split over {self.heads} heads")
        at = [step for step, _ in self.learning_rates]
        if at != sorted(set(at)):
            raise ValueError(f"learning_rates: steps must rise, but are {cut(', '.join(map(str, at)))}")
        for step in self.keep_checkpoints:
            if step > self.steps:
                raise ValueError(f"keep_checkpoints: {step} is beyond the last of {self.steps} steps")
        if self.second_language is not None and self.alone_share < 1:
            raise ValueError(
                "alone_share: with a second_language, sentences are read alone (whether a sentence follows another "
                "would be told by its language): give 1.0"
            )
        return self

    def apart(self) -> PretrainSettings:
        """These settings without words of one language in the text of the other."""
        second = self.second_language
        if second is None or not second.switched:
            return self
        return self.model_copy(update={"second_language": second.model_copy(update={"switched": 0.0})})


def load_settings(path: Path, *, changes: Sequence[str] = ()) -> PretrainSettings:
    """Read a recipe.

    Args:
        path: a YAML file.
        changes: ``key=value`` pairs that replace what the file says.

    Raises:
        BertologyError: the file is missing or is no mapping, or a key or value is wrong; names file, line and key.
    """
    written = read_yaml(path, what=_WHAT, example="steps: 20000", command="pretrain")
    return checked(PretrainSettings, changed(written, changes))


def recipe_schema() -> Mapping[str, Any]:
    """JSON Schema of a recipe, with which editors complete and check the file."""
    return file_schema(PretrainSettings, "pretrain", title="pretraining")


def new_model(
    settings: PretrainSettings, vocabulary_size: int, *, second_from: int | None = None
) -> BertForPreTraining:
    """A BERT with random weights, drawn by the seed; ``second_from`` is the first piece of the second language."""
    import torch
    from transformers import BertConfig, BertForPreTraining

    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=settings.inner_width,
        max_position_embeddings=settings.max_pieces,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        initializer_range=settings.initializer_range,
        pad_token_id=0,
    )
    second = settings.second_language
    if second is not None and second_from is not None:
        # Noted in the configuration is what is apart for the second language; its embeddings come last.
        declared = {"first_piece": second_from}
        if not second.shared_specials:
            declared["specials_from"] = config.vocab_size
            config.vocab_size += len(OWN_SPECIALS)
        if not second.shared_positions:
            declared["positions_from"] = config.max_position_embeddings
            config.max_position_embeddings *= 2
        if len(declared) > 1:
            config.second_language = declared
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = BertForPreTraining(config)
    read_languages_apart(model.bert)
    return model


def first_of_second(tokenizer: Tokenizer) -> int | None:
    """The number of the first piece in the letters of the second language, which has the end of the vocabulary."""
    numbers = [number for piece, number in tokenizer.get_vocab().items() if is_of_second(piece)]
    return min(numbers, default=None)


def save_model(model: BertForPreTraining, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a model folder: weights as float16, to be loaded as float32."""
    import torch
    from safetensors.torch import save

    weights = {}
    for name, tensor in model.state_dict().items():
        tied = name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
        if not tied and tensor.is_floating_point():
            weights[name] = tensor.detach().to("cpu", torch.float16).contiguous()
            if not torch.isfinite(weights[name]).all():
                reason = f"a weight of {name} is not finite in float16: lower learning_rates or initializer_range"
                raise BertologyError(f"{folder}: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "model.safetensors", save(weights, metadata={"format": "pt"}))
    config: dict[str, Any] = model.config.to_dict()
    config |= {"architectures": ["BertForPreTraining"], "dtype": "float32", "use_cache": True}
    write_atomically(folder / "config.json", (json.dumps(config, indent=2, sort_keys=True) + "\n").encode())
    positions_from = getattr(model.config, "second_language", {}).get("positions_from")
    save_tokenizer(tokenizer, folder, max_pieces=positions_from or model.config.max_position_embeddings)


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
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
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


@dataclass(frozen=True)
class Evaluation:
    """Held-out figures, all shares of 1."""

    masked_accuracy: float
    """Masked pieces of held-out text predicted exactly."""
    next_sentence_accuracy: float | None
    """Held-out sentence pairs distinguished from random pairs; None where sentences are read alone."""
    agreement_by_attractors: dict[int, float]
    """Agreement items where the right form is preferred, by nouns of the other number between subject and verb."""
    agreement_across_attractors: float
    """The same, over all items with at least one such noun."""
    fact_recall_by_exposure: dict[int, float]
    """Facts whose object is the best piece of the whole vocabulary, by how often the text states them."""
    candidate_recall_by_exposure: dict[int, float]
    """Facts whose object is the best among all that it could be: chance is one in 24 to 28."""
    second_masked_accuracy: float | None = None
    """Masked pieces of held-out text in the second language predicted exactly; None where there is none."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, rounded to four places."""
        return {
            key: {str(k): round(v, 4) for k, v in value.items()} if isinstance(value, dict) else round(value, 4)
            for key, value in asdict(self).items()
            if value is not None
        }

    def __str__(self) -> str:
        def table(shares: dict[int, float]) -> str:
            return " ".join(f"{key}:{share:.0%}" for key, share in shares.items())

        masked = [f"{one:.1%}" for one in (self.masked_accuracy, self.second_masked_accuracy) if one is not None]
        following = self.next_sentence_accuracy
        return (
            f"masked {' and '.join(masked)}, next sentence {'not asked' if following is None else f'{following:.1%}'}, "
            f"agreement by attractors {table(self.agreement_by_attractors)}, "
            f"facts by exposure {table(self.fact_recall_by_exposure)} "
            f"(among candidates {table(self.candidate_recall_by_exposure)})"
        )


def evaluate(
    model: BertForPreTraining,
    tokenizer: Tokenizer,
    *,
    held_out: Sequence[Examples],
    agreement: Sequence[AgreementItem],
    facts: Sequence[Fact],
) -> Evaluation:
    """Evaluate a model on held-out text of each of its languages; its training mode is restored."""
    import torch

    def best(fact: Fact, logits: torch.Tensor) -> tuple[bool, bool]:
        """Whether the object of a fact is the best piece of all, and whether it is the best candidate."""
        names = candidates(fact.relation)
        chosen = names[int(logits[[piece_id(tokenizer, name.lower()) for name in names]].argmax())]
        return int(logits.argmax()) == piece_id(tokenizer, fact.object.lower()), chosen == fact.object

    was_training = model.training
    model.train(False)
    with torch.inference_mode():
        accuracies = [_held_out_accuracy(model, examples) for examples in held_out]
        scored = zip(agreement, _mask_logits(model, tokenizer, [item.text for item in agreement]), strict=True)
        right = [
            bool(logits[piece_id(tokenizer, item.good)] > logits[piece_id(tokenizer, item.bad)])
            for item, logits in scored
        ]
        prompts = [fact.sentence().replace(fact.object, "[MASK]") for fact in facts]
        recalled = [
            best(fact, logits) for fact, logits in zip(facts, _mask_logits(model, tokenizer, prompts), strict=True)
        ]
    model.train(was_training)
    exposures = [fact.n_stated for fact in facts]
    return Evaluation(
        masked_accuracy=accuracies[0][0],
        next_sentence_accuracy=accuracies[0][1],
        agreement_by_attractors=_shares([item.n_attractors for item in agreement], right),
        agreement_across_attractors=_shares([item.n_attractors > 0 for item in agreement], right)[True],
        fact_recall_by_exposure=_shares(exposures, [top for top, _ in recalled]),
        candidate_recall_by_exposure=_shares(exposures, [among for _, among in recalled]),
        second_masked_accuracy=accuracies[1][0] if len(accuracies) > 1 else None,
    )


def _shares(keys: Sequence[int], hits: Sequence[bool]) -> dict[int, float]:
    grouped: dict[int, list[bool]] = defaultdict(list)
    for key, hit in zip(keys, hits, strict=True):
        grouped[key].append(hit)
    return {key: float(np.mean(grouped[key])) for key in sorted(grouped)}


def _held_out_accuracy(model: BertForPreTraining, held_out: Examples) -> tuple[float, float | None]:
    masked, following = [], []
    for step in range(min(_MOST_BATCHES, held_out.settings.held_out_documents)):
        batch = held_out.batch(step)
        output = model(**{name: value for name, value in _tensors(batch, model.device).items() if name in _INPUTS})
        guessed = np.take_along_axis(output.prediction_logits.argmax(-1).cpu().numpy(), batch["masked"], axis=1)
        masked.append((guessed == batch["masked_labels"])[batch["masked_labels"] != IGNORED])
        nexts = output.seq_relationship_logits.argmax(-1).cpu().numpy()
        following.append((nexts == batch["next_labels"])[batch["next_labels"] != IGNORED])
    followed = np.concatenate(following)
    return float(np.concatenate(masked).mean()), float(followed.mean()) if len(followed) else None


def _mask_logits(model: BertForPreTraining, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[torch.Tensor]:
    """The logits ``[piece]`` at the mask of each text."""
    import torch

    for start in range(0, len(texts), 64):
        encoded = [encoding.ids for encoding in tokenizer.encode_batch(list(texts[start : start + 64]))]
        length = max(map(len, encoded))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in encoded], device=model.device)
        logits = model(input_ids=ids, attention_mask=(ids != 0).long()).prediction_logits
        rows, places = torch.where(ids == piece_id(tokenizer, "[MASK]"))
        yield from logits[rows, places].cpu()


def model_card(settings: PretrainSettings, evaluation: Evaluation, *, vocabulary_size: int) -> str:
    """The card of a recipe and the scores of its stored weights, as Markdown."""
    from jinja2 import Environment, StrictUndefined

    templates = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    templates.filters["percent"] = lambda share, digits=0: f"{share:.{digits}%}"
    templates.filters["fill"] = lambda text: fill(" ".join(text.split()), width=120)
    held_out = [
        ("pieces of held-out text, masked as in training, exactly", evaluation.masked_accuracy),
        ("the same of the second language", evaluation.second_masked_accuracy),
        ("next sentence or random sentence", evaluation.next_sentence_accuracy),
    ]
    template = templates.from_string(Path(__file__).with_name("card.md").read_text(encoding="utf-8"))
    values = {**settings.model_dump(), **asdict(evaluation), "second": settings.second_language}
    return template.render(values, held_out=held_out, pieces=vocabulary_size)


Echo = Callable[[str], None]
_HELD_OUT_SEED = 1_000_003
"""Added to the seed for text that is only evaluated on."""
_MOST_BATCHES = 100
"""Batches of held-out text that are evaluated on; of few documents as many as documents."""
_TOKENIZER_DOCUMENTS = 5000
_REPORT_SECONDS = 20.0


@dataclass(frozen=True)
class Pretrained:
    """The result of a run of pretraining."""

    folder: Path
    """A model folder in Hugging Face layout."""
    evaluation: Evaluation
    """Held-out figures of the weights as stored."""


def pretrain(
    settings: PretrainSettings, out: Path, *, device: str = "auto", threads: int | None = None, echo: Echo = print
) -> Pretrained:
    """Generate the text, learn the vocabulary, train the model, and write its folder.

    A run that was killed resumes from its last checkpoint in ``out/training`` and ends with the same weights as an
    uninterrupted one.

    Args:
        settings: the recipe.
        out: folder for the model.
        device: ``auto`` takes a GPU where there is one.
        threads: processor threads for torch; its own choice when left out.
        echo: called with each line on progress.

    Raises:
        ModelError: there is no such device.
        BertologyError: ``out`` holds the state of a run with other settings, another process writes it, or it cannot
            be written; ``max_pieces`` is too few for what is evaluated; or the loss or a weight is not finite, and
            then no model is written.
    """
    import torch
    from safetensors.torch import load_file

    if threads is not None:
        torch.set_num_threads(threads)
    # Of itself it takes a CUDA GPU or the processor alone: recipes were tried on these.
    device = str(choose_device(device)) if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    with own_folder(out / "training", "trains here", {"settings": settings.model_dump(mode="json")}):
        sweep(out, *(out / "checkpoints").glob("*"))
        tokenizer, examples, held_out = _text(settings, echo)
        # The last figures are of items that no one has looked at while the recipe was made.
        agreement = {last: agreement_items(seed=settings.seed + last * _HELD_OUT_SEED) for last in (False, True)}
        prompts = [
            *(item.text for items in agreement.values() for item in items),
            *(fact.sentence() for fact in facts()),
        ]
        longest = max(len(encoding.ids) for encoding in tokenizer.encode_batch(prompts))
        if longest > settings.max_pieces:
            raise BertologyError(
                f"max_pieces is {settings.max_pieces}, but evaluation has prompts of {longest} pieces: "
                f"give {longest} or more, or a larger vocabulary_size"
            )
        model = new_model(settings, tokenizer.get_vocab_size(), second_from=first_of_second(tokenizer))
        torch.nn.Module.to(model, device)  # its own ``to`` is not typed for device names

        def measured(step: int, *, at_last: bool = False) -> Evaluation:
            evaluation = evaluate(model, tokenizer, held_out=held_out, agreement=agreement[at_last], facts=facts())
            echo(f"step {step}: {evaluation}")
            return evaluation

        _train(settings, model, examples, tokenizer, out, measured, echo)
        save_model(model, tokenizer, out)
        # The figures are those of the weights after their rounding to float16.
        model.load_state_dict(load_file(out / "model.safetensors"), strict=False)
        evaluation = measured(settings.steps, at_last=True)
        card = model_card(settings, evaluation, vocabulary_size=tokenizer.get_vocab_size())
        write_atomically(out / CARD, card.encode())
        made_with = versions("torch", "transformers", "tokenizers")
        record = {
            "settings": settings.model_dump(mode="json"),
            "evaluation": evaluation.to_dict(),
            "device": device,
            "versions": {"bertology": made_with.pop("bertology"), "python": platform.python_version(), **made_with},
        }
        write_atomically(out / "training.json", (json.dumps(record, indent=2) + "\n").encode())
    return Pretrained(out, evaluation)


def _text(settings: PretrainSettings, echo: Echo) -> tuple[Tokenizer, Examples, list[Examples]]:
    """The tokenizer, examples to train on, and for each language examples to evaluate on."""
    echo(f"writing {settings.documents} documents" + " in two languages" * (settings.second_language is not None))
    text = _documents(settings, settings.documents)
    # Words of the other language among those of one are no part of its vocabulary, nor of what is evaluated.
    apart = settings.apart()
    known = text if apart == settings else _documents(apart, min(settings.documents, _TOKENIZER_DOCUMENTS))
    firsts, *others = (chain.from_iterable(documents[:_TOKENIZER_DOCUMENTS]) for documents in known)
    tokenizer = train_tokenizer(
        firsts,
        vocabulary_size=settings.vocabulary_size,
        others=chain.from_iterable(others),
        second=settings.second_language,
    )
    held_out = _documents(apart, settings.held_out_documents, seed=_HELD_OUT_SEED, stated=())
    encoded = encode(chain.from_iterable(text), tokenizer)
    echo(f"{encoded.n_sentences} sentences, {len(encoded.pieces)} pieces, {tokenizer.get_vocab_size()} known")
    examples = [Examples(encode(documents, tokenizer), tokenizer, settings) for documents in held_out]
    return tokenizer, Examples(encoded, tokenizer, settings), examples


def _documents(
    settings: PretrainSettings, n_documents: int, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> list[list[list[str]]]:
    """Documents of each language, as lists of sentences; ``seed`` is added to that of the settings."""
    second, seed = settings.second_language, settings.seed + seed
    if second is None:
        return [list(pretraining_documents(n_documents, seed=seed, stated=stated))]
    pairs = bilingual_documents(n_documents, second, seed=seed, stated=stated)
    return [list(documents) for documents in zip(*pairs, strict=True)]


def _tensors(batch: Batch, device: Any = None) -> dict[str, torch.Tensor]:
    import torch

    return {name: torch.from_numpy(values).to(device) for name, values in batch.items()}


def pretraining_loss(model: BertForPreTraining, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy of the masked pieces plus that of the next sentence (Devlin et al. 2019, section 3.1).

    Only masked places go through the projection onto the vocabulary.
    """
    from torch.nn.functional import cross_entropy

    hidden = model.bert(**{name: batch[name] for name in _INPUTS})
    places = batch["masked"].unsqueeze(-1).expand(-1, -1, hidden.last_hidden_state.shape[-1])
    masked, following = model.cls(hidden.last_hidden_state.gather(1, places), hidden.pooler_output)
    loss = cross_entropy(masked.flatten(0, 1), batch["masked_labels"].flatten())
    if (batch["next_labels"] >= 0).any():
        loss = loss + cross_entropy(following, batch["next_labels"])
    return loss


def _train(
    settings: PretrainSettings,
    model: BertForPreTraining,
    examples: Examples,
    tokenizer: Tokenizer,
    out: Path,
    measured: Callable[[int], Evaluation],
    echo: Echo,
) -> None:
    import torch

    from bertology._training import train, weight_groups

    steps, rates = zip(*settings.learning_rates, strict=True)
    losses: list[float] = []
    first = step_now = 0
    begun = reported = time.monotonic()

    def keep(step: int) -> None:
        if step in settings.keep_checkpoints:
            save_model(model, tokenizer, out / "checkpoints" / f"step-{step:06d}")

    def began(step: int, n_steps: int) -> None:
        nonlocal first, step_now
        first = step_now = step
        if step:
            echo(f"going on from step {step}")
        keep(step)

    def loss(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if settings.dropout:
            torch.manual_seed(settings.seed + step_now)  # so that a resumed run drops the same units
        return pretraining_loss(model, batch)

    def stepped(step: int, loss: float) -> None:
        nonlocal reported, step_now
        step_now = step
        losses.append(loss)
        keep(step)
        if step % settings.evaluate_every == 0 and step < settings.steps:
            measured(step)
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            rate = (step - first) / (reported - begun)
            left, mean = (settings.steps - step) / rate / 60, sum(losses) / len(losses)
            echo(f"step {step}/{settings.steps}, loss {mean:.3f}, {rate:.1f} steps/s, {left:.0f} min left")
            losses.clear()

    train(
        model,
        range(settings.steps),
        lambda steps: _tensors(examples.batch(steps[0])),
        torch.optim.AdamW(weight_groups(model, settings.weight_decay), betas=(0.9, 0.98), fused=True),
        folder=out / "training",
        device=model.device,
        clip_norm=settings.clip_norm,
        checkpoint_every=settings.checkpoint_every,
        remedy="lower learning_rates, clip_norm or initializer_range",
        loss=loss,
        rate=lambda step: float(np.interp(step + 1, steps, rates)),
        began=began,
        stepped=stepped,
        max_steps=settings.steps,
        save_total_limit=1,
    )
