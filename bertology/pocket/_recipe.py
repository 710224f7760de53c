"""Pocket BERT: its recipe, as read from a YAML file, its shape, its WordPiece vocabulary, and its folder."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bertology._files import write_atomically
from bertology._languages_apart import OWN_SPECIALS, read_languages_apart
from bertology._settings import changed, checked, file_schema, read_file_of
from bertology.errors import BertologyError, cut
from bertology.pocket import _function_words as fw
from bertology.pocket._bilingual import SecondLanguage, is_of_second, transliterated
from bertology.pocket._items import tested_forms
from bertology.pocket._words import COUNTRIES, MEN, PLURAL, SINGULAR, TOWNS, TRADES, WOMEN, lexicon

if TYPE_CHECKING:
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
    """How much likelier towns, countries, trades and verb forms that agree are to be predicted than other pieces:
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
    written = read_file_of("pretrain", path, what=_WHAT, example="steps: 20000")
    return checked(PretrainSettings, changed(written, changes))


def recipe_schema() -> Mapping[str, Any]:
    """JSON Schema of a recipe, by which editors complete and check."""
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
    if settings.second_language is not None and second_from is not None:
        _declare_languages(config, settings.second_language, second_from=second_from)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = BertForPreTraining(config)
    read_languages_apart(model.bert)
    return model


def _declare_languages(config: Any, second: SecondLanguage, *, second_from: int) -> None:
    """Note in a model's configuration what is apart for the second language, and make room for its embeddings."""
    declared = {"first_piece": second_from}
    if not second.shared_specials:
        declared["specials_from"] = config.vocab_size
        config.vocab_size += len(OWN_SPECIALS)
    if not second.shared_positions:
        declared["positions_from"] = config.max_position_embeddings
        config.max_position_embeddings *= 2
    if len(declared) > 1:
        config.second_language = declared


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
    vocabulary: the special tokens, and the pieces of each language in alphabetical order.

    Args:
        sentences: text in the first language.
        vocabulary_size: pieces to learn of each language.
        others: text in the second language, if there is one.
        second: the second language. A shifted one has the pieces of the first, one for one.
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
            parts[:] = _merged(parts, best)
            for pair in pairwise(parts):
                pairs[pair] += n
                words_with[pair].add(number)
        del pairs[best]
    return pieces


def _joined(pair: Pair) -> str:
    return pair[0] + pair[1].removeprefix(_CONTINUES)


def _merged(parts: list[str], pair: Pair) -> list[str]:
    merged: list[str] = []
    for part in parts:
        if merged and (merged[-1], part) == pair:
            merged[-1] = _joined(pair)
        else:
            merged.append(part)
    return merged
