"""What the page holds equals Hugging Face's maps, bertology's word maps and norms worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from bertology.attention import view
from bertology.attention.viewer import pack
from bertology.encoders import Encoder

from .conftest import SECOND, SENTENCE, maps_of, unpack, values_of


def by_hugging_face(folder: Path, *texts: str) -> tuple[torch.Tensor, list[str]]:
    """``[layer, head, piece, piece]`` and the pieces."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = tokenizer(*texts, return_tensors="pt")
    with torch.inference_mode():
        maps = model(**inputs, output_attentions=True).attentions
    return torch.cat(maps), tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())


@pytest.mark.parametrize("texts", [(SENTENCE,), (SENTENCE, SECOND)])
def test_piece_maps_are_within_a_255th_of_hugging_face(
    encoder: Encoder, tiny_bert: Path, texts: tuple[str, ...]
) -> None:
    html = view(*texts, model=encoder).html
    expected, pieces = by_hugging_face(tiny_bert, *texts)
    labels = values_of(html)["levels"]["piece"]["labels"]
    assert [label for label in labels if label.startswith("[") or label.startswith("##")] == [
        piece for piece in pieces if piece.startswith("[") or piece.startswith("##")
    ]
    assert len(labels) == len(pieces)
    for layer in (1, 2, 3):
        found = maps_of(html, "piece", "raw", layer)
        assert np.abs(found - expected[layer - 1].numpy()).max() <= 1 / 255


def test_packing_keeps_the_largest_of_each_row() -> None:
    generator = np.random.default_rng(3)
    maps = generator.dirichlet(np.full(300, 0.05), size=(2, 300)).astype(np.float32)
    content, covered = pack(maps, kept=7)
    found = unpack(content, 2, 300, 300, kept=7)
    assert ((found > 0).sum(-1) <= 7).all()
    largest = np.sort(maps, axis=-1)[..., -7:]
    np.testing.assert_allclose(np.sort(found, axis=-1)[..., -7:], largest, atol=0.5 / 255 + 1e-6)
    assert found.argmax(-1).tolist() == maps.argmax(-1).tolist()
    assert covered == pytest.approx(float(largest.sum(-1).mean()), abs=1e-5)
    assert pack(maps, kept=7) == (content, covered)


def test_a_family_whose_norms_are_not_known_is_shown_without(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "family", "deberta-v2")
    page = view(SENTENCE, model=encoder)
    assert set(values_of(page.html)["sets"]) == {"word-raw", "piece-raw"}
