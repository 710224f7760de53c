"""Pocket BERT's own WordPiece vocabulary: lower-cased, trained on the pretraining text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertology._files import write_atomically
from bertology.pocket import _function_words as fw
from bertology.pocket import _words
from bertology.pocket._agreement import tested_forms
from bertology.pocket._lexicon import PLURAL, SINGULAR, lexicon
from bertology.pocket._pieces import learn_pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def whole_words() -> list[str]:
    """Words that are one piece each, so that a single mask can ask for them: names, places, trades, tested verbs."""
    listed = [*_words.WOMEN, *_words.MEN, *_words.TOWNS, *_words.COUNTRIES, *_words.TRADES, *tested_forms()]
    return list(dict.fromkeys(word.lower() for word in listed))


def salient_words() -> list[str]:
    """Words whose prediction takes knowledge: what facts are about, and verb forms that agree."""
    listed = [*_words.TOWNS, *_words.COUNTRIES, *_words.TRADES]
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
