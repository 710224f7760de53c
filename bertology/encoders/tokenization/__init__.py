"""Tokenizers looked at for themselves: how they arrive at their pieces, and how they cut a corpus.

:func:`trace_tokens` (``_traces.py``) follows WordPiece, BPE and Unigram step by step; :func:`tokenizer_scores` and
:func:`morph_scores` (``_measures.py``) count pieces, unknown words and boundaries, :func:`tokenizer_parity` pieces of
translations.
"""

from bertology.encoders.tokenization._measures import (
    MorphScores,
    TokenizerScore,
    morph_scores,
    piece_ranges,
    read_morphs,
    tokenizer_parity,
    tokenizer_scores,
)
from bertology.encoders.tokenization._traces import TokenStep, TokenTrace, WordTrace, trace_tokens

__all__ = [
    "MorphScores",
    "TokenStep",
    "TokenTrace",
    "TokenizerScore",
    "WordTrace",
    "morph_scores",
    "piece_ranges",
    "read_morphs",
    "tokenizer_parity",
    "tokenizer_scores",
    "trace_tokens",
]
