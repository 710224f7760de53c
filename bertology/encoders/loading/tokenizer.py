"""Load a tokenizer, check it against its model, and find the properties that alignment depends on."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from torch import nn

from bertology.encoders._modules import check_embeddings
from bertology.encoders.alignment.pieces import Ids, PieceReader
from bertology.encoders.loading.description import ModelSource
from bertology.encoders.loading.quiet import one_line
from bertology.errors import ModelError

_BOUNDARY = "▁"
_PLAIN_WORDS = ("the", "and", "a", "e", "1", ".", "的")
_SANE_LENGTH = 1_000_000
_DEFAULT_LENGTH = 512
"""Window of models with relative positions and no stated limit (T5), whose training used this length."""


def load_tokenizer(source: ModelSource, *, trust_remote_code: bool = False) -> Any:
    """The model's tokenizer, set never to truncate or pad; it must be a fast one, which gives character offsets."""
    from transformers import AutoTokenizer

    with one_line(f"{source.folder}: its tokenizer cannot be loaded", remedy="save it again"):
        tokenizer = AutoTokenizer.from_pretrained(source.folder, trust_remote_code=trust_remote_code)
    if not tokenizer.is_fast:
        raise ModelError(
            f"{source.folder}: {type(tokenizer).__name__} gives no character offsets; add a tokenizer.json "
            "(convert it to a fast tokenizer)"
        )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def piece_reader(source: ModelSource, tokenizer: Any, body: nn.Module, *, max_pieces: int | None) -> PieceReader:
    """The :class:`PieceReader` of a tokenizer and its model, after checking that they belong together."""
    backend = tokenizer.backend_tokenizer
    check_embeddings(body, str(getattr(body.config, "model_type", "such")))
    with one_line(f"{source.folder}: its tokenizer cannot be used", remedy="save it again"):
        _check_vocabulary(source, tokenizer, body)
        prefix, suffix = _special_tokens(source, backend, tokenizer)
    limit = _length_limit(source, tokenizer, body)
    lowest = len(prefix) + len(suffix) + 1
    if limit < lowest:
        raise ModelError(
            f"{source.folder}: its windows hold {limit} pieces, special tokens included (model_max_length in "
            "tokenizer_config.json, max_position_embeddings in config.json); save its files again"
        )
    if max_pieces is not None and not lowest <= max_pieces <= limit:
        raise ModelError(f"max_pieces {max_pieces}: model {source.name} takes {lowest} to {limit}")
    steps = f"{backend.normalizer!r} {backend.pre_tokenizer!r}"
    has_marks = _BOUNDARY in steps or "Metaspace" in steps
    return PieceReader(
        backend=backend,
        prefix=np.array(prefix, dtype=np.int32),
        suffix=np.array(suffix, dtype=np.int32),
        marker_ids=_ids_made_of(_BOUNDARY if has_marks else "", backend),
        unknown_id=_unknown_id(tokenizer),
        pad_id=int(tokenizer.pad_token_id or 0),
        max_pieces=limit if max_pieces is None else max_pieces,
    )


def _check_vocabulary(source: ModelSource, tokenizer: Any, body: Any) -> None:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    rows = int(body.get_input_embeddings().num_embeddings)
    highest = max(vocabulary.values(), default=-1)
    encodings = tokenizer.backend_tokenizer.encode_batch(_plain_words(tokenizer), add_special_tokens=False)
    trouble = ""
    if highest >= rows:
        reason = f"its numbers go up to {highest}, the embeddings have {rows} rows"
        trouble = f"the vocabulary does not fit the weights ({reason})"
    elif len(vocabulary) < rows // 2:
        trouble = f"the vocabulary does not fit the weights ({len(vocabulary)} pieces for {rows} embeddings)"
    elif all(set(encoding.ids) <= {_unknown_id(tokenizer)} for encoding in encodings):
        trouble = f"its tokenizer reads every plain word as {tokenizer.unk_token}, so the vocabulary is not the model's"
    if trouble:
        raise ModelError(f"{source.folder}: {trouble}; give the tokenizer that belongs to the weights")


def _plain_words(tokenizer: Any) -> list[str]:
    """Some words, and a few entries of the vocabulary that look like words, for models of any script."""
    special = set(tokenizer.all_special_tokens)
    entries = (entry for entry in tokenizer.get_vocab() if entry.isalpha() and entry not in special)
    return [*_PLAIN_WORDS, *heapq.nsmallest(8, entries)]


def _unknown_id(tokenizer: Any) -> int | None:
    """The unknown piece; ``None`` where any text can be spelled (byte-level vocabularies)."""
    model = tokenizer.backend_tokenizer.model
    token = getattr(model, "unk_token", None)
    if token is not None:
        number = tokenizer.backend_tokenizer.token_to_id(token)
        return None if number is None else int(number)
    if type(model).__name__ == "Unigram" and tokenizer.unk_token_id is not None:
        return int(tokenizer.unk_token_id)
    return None


def _special_tokens(source: ModelSource, backend: Any, tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens put before and after a text."""
    for word in _plain_words(tokenizer):
        bare = backend.encode(word, add_special_tokens=False).ids
        whole = backend.encode(word).ids
        for start in range(len(whole) - len(bare) + 1):
            if bare and whole[start : start + len(bare)] == bare:
                return whole[:start], whole[start + len(bare) :]
    raise ModelError(f"{source.folder}: its tokenizer maps every plain word to nothing; save the model's own tokenizer")


def _ids_made_of(characters: str, backend: Any) -> Ids:
    """Pieces that are spelled by these characters alone."""
    pieces = backend.get_vocab().items() if characters else ()
    return np.array(sorted(number for piece, number in pieces if piece and not piece.strip(characters)), dtype=np.int32)


def _length_limit(source: ModelSource, tokenizer: Any, body: Any) -> int:
    """Pieces in the longest input that the tokenizer and the positions of the model allow."""
    stated = tokenizer.model_max_length
    if not isinstance(stated, int | float) or isinstance(stated, bool) or not stated >= 1:
        raise ModelError(
            f"{source.folder / 'tokenizer_config.json'}: model_max_length is {str(stated)[:60]!r}, which should be a "
            "number of pieces; save the tokenizer again"
        )
    limits = [int(stated)] if stated < _SANE_LENGTH else []
    positions = (getattr(body.config, name, None) for name in ("max_position_embeddings", "n_positions"))
    limits += (value for value in positions if isinstance(value, int) and value > 0)
    for name, module in body.named_modules():
        # RoBERTa and its kin count positions from the padding number on.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min(limits, default=_DEFAULT_LENGTH)
