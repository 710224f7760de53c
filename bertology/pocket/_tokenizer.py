"""Pocket BERT's own WordPiece vocabulary: lower-cased, trained on the pretraining text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertology._files import write_atomically
from bertology.pocket import _words
from bertology.pocket._agreement import tested_forms

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

def whole_words() -> list[str]:
    """Words that are one piece each, so that a single mask can ask for them: names, places, trades, tested verbs."""
    listed = [*_words.WOMEN, *_words.MEN, *_words.TOWNS, *_words.COUNTRIES, *_words.TRADES, *tested_forms()]
    return list(dict.fromkeys(word.lower() for word in listed))


def train_tokenizer(sentences: Iterable[str], *, vocabulary_size: int) -> Tokenizer:
    """A lower-casing WordPiece tokenizer in the manner of BERT.

    Args:
        sentences: text to count pieces in.
        vocabulary_size: pieces to learn; words that must be whole come on top where they were not learnt.

    Returns:
        The tokenizer. The same text gives the same vocabulary, in alphabetical order after the special tokens.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet = list("abcdefghijklmnopqrstuvwxyz'")
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=alphabet,
        min_frequency=2,
        show_progress=False,
    )
    learner.train_from_iterator(sentences, trainer)
    # The learner numbers its pieces in an order that changes from run to run, so they are put in order here; and
    # as a word is spelled with continuation pieces, each letter is needed in that form too.
    learnt = set(learner.get_vocab()) | {f"##{letter}" for letter in alphabet} | set(whole_words())
    return _bert_tokenizer([*SPECIAL_TOKENS, *sorted(learnt - set(SPECIAL_TOKENS))])


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
