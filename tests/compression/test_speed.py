"""Speed and size, also with int8 arithmetic."""

from pathlib import Path

import pytest
import torch

from bertology import BertologyError, load_corpus, load_encoder
from bertology.compression import dynamic_int8, pieces_per_second, weight_bytes


def test_int8_arithmetic_is_smaller_and_computes_about_the_same(tiny_bert: Path) -> None:
    full = load_encoder(str(tiny_bert), device="cpu")
    small = dynamic_int8(full)
    ids = torch.arange(5, 25)[None]
    one, other = (encoder.hidden_states(ids, layers=[0, 2])[2] for encoder in (full, small))
    assert 0.98 < float(torch.nn.functional.cosine_similarity(one, other, dim=-1).min()) < 1
    assert weight_bytes(small) < weight_bytes(full)
    assert not small.has_masked_lm_head
    assert full.has_masked_lm_head
    assert pieces_per_second(small, load_corpus("pocket")["dev"][:5], repeats=1) > 0


def test_mistakes_are_one_line(tiny_bert: Path) -> None:
    with pytest.raises(BertologyError, match="processor and float32"):
        dynamic_int8(load_encoder(str(tiny_bert), device="cpu", dtype="bfloat16"))
    with pytest.raises(BertologyError, match="no text"):
        pieces_per_second(load_encoder(str(tiny_bert), device="cpu"), [])
