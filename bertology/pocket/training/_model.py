"""The shape of Pocket BERT, its WordPiece vocabulary, and its folder in Hugging Face layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertology._files import write_atomically
from bertology.errors import BertologyError
from bertology.pocket.training._settings import PretrainSettings

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bertology.pocket._items import tested_forms
from bertology.pocket.grammar import function_words as fw
from bertology.pocket.grammar.lexicon import COUNTRIES, MEN, PLURAL, SINGULAR, TOWNS, TRADES, WOMEN, lexicon

if TYPE_CHECKING:
    from tokenizers import Tokenizer

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise


def new_model(settings: PretrainSettings, vocabulary_size: int) -> BertForPreTraining:
    """A BERT with random weights, drawn by the seed."""
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return BertForPreTraining(config)


def save_model(model: BertForPreTraining, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a model folder: weights as float16, to be loaded as float32.

    Raises:
        BertologyError: a weight is not finite, or too large for float16; nothing is written.
    """
    import torch
    from safetensors.torch import save

    weights = {}
    for name, tensor in model.state_dict().items():
        tied = name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
        if not tied and tensor.is_floating_point():
            weights[name] = tensor.detach().to("cpu", torch.float16).contiguous()
            if not torch.isfinite(weights[name]).all():
                raise BertologyError(
                    f"{folder}: a weight of {name} is not finite in float16: lower learning_rates or initializer_range"
                )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "model.safetensors", save(weights, metadata={"format": "pt"}))
    config: dict[str, Any] = model.config.to_dict()
    config |= {"architectures": ["BertForPreTraining"], "dtype": "float32"}
    write_atomically(folder / "config.json", (json.dumps(config, indent=2, sort_keys=True) + "\n").encode())
    save_tokenizer(tokenizer, folder, max_pieces=model.config.max_position_embeddings)


SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def whole_words() -> list[str]:
    """Words that are one piece each, so that they fit a single mask: names, places, trades, tested verbs."""
    listed = [
        *WOMEN,
        *MEN,
        *TOWNS,
        *COUNTRIES,
        *TRADES,
        *tested_forms(),
    ]
    return list(dict.fromkeys(word.lower() for word in listed))


def salient_words() -> list[str]:
    """Words whose prediction requires knowledge: objects of facts, and verb forms that agree."""
    listed = [*TOWNS, *COUNTRIES, *TRADES]
    for be_or_have in (fw.BE, fw.HAVE):
        listed += [be_or_have.present[SINGULAR].form, be_or_have.present[PLURAL].form]
    for frame in lexicon("known").frames.items:
        listed += [frame.verb.present(SINGULAR).form, frame.verb.present(PLURAL).form]
    return list(dict.fromkeys(word.lower() for word in listed))


def train_tokenizer(sentences: Iterable[str], *, vocabulary_size: int) -> Tokenizer:
    """A lower-casing WordPiece tokenizer in the manner of BERT.

    Args:
        sentences: text to count pieces in.
        vocabulary_size: pieces to learn; words that must be whole come on top where they were not learnt.

    Returns:
        The tokenizer. The same text gives the same vocabulary, in alphabetical order after the special tokens.
    """
    from tokenizers import normalizers, pre_tokenizers

    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(sentence)))
    # Words outside the text are spelled letter by letter, so each letter is needed at the start and inside.
    alphabet = {prefix + letter for letter in "abcdefghijklmnopqrstuvwxyz'" for prefix in ("", "##")}
    pieces = learn_pieces(counts, vocabulary_size) | alphabet | set(whole_words())
    return _bert_tokenizer([*SPECIAL_TOKENS, *sorted(pieces)])


def _bert_tokenizer(vocabulary: list[str]) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    ids = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
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
    settings: dict[str, Any] = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "model_max_length": max_pieces,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    write_atomically(folder / "tokenizer_config.json", (json.dumps(settings, indent=2) + "\n").encode())
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    write_atomically(folder / "vocab.txt", "".join(f"{piece}\n" for piece, _ in pieces).encode())


Pair = tuple[str, str]
_CONTINUES = "##"
_FEWEST = 2
"""A pair seen less often is not merged."""


def learn_pieces(counts: Mapping[str, int], size: int) -> set[str]:
    """Merge the most frequent pair of neighbouring pieces until there are ``size`` of them (Sennrich et al. 2016).

    Args:
        counts: how often each word occurs.
        size: pieces wanted, single characters included.

    Returns:
        The pieces; those that continue a word begin with ``##``.
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
