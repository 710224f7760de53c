"""Cross-attention of encoder-decoders equals what transformers gives when it is trained on the target."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from bertology.attention import view
from bertology.encoders import Encoder
from bertology.errors import BertologyError, ModelError

from .conftest import maps_of, page_of

SOURCE, TARGET = "The quick brown fox jumps over lazy dogs.", "Überraschung! Äpfel kosten 20 €."
Families = Callable[..., Encoder]


def by_hugging_face(folder: Path) -> tuple[Any, list[str], list[str]]:
    """What the model gives for the target as labels, and the pieces of the source and of the labels."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    # Of T5 the configuration in the file has none, as those of old checkpoints, and it is the padding.
    model.config.decoder_start_token_id = getattr(model.config, "decoder_start_token_id", None) or 0
    if model.config.model_type == "bart":
        model.config.decoder_start_token_id = 2
    source, labels = (tokenizer(text, return_tensors="pt").input_ids for text in (SOURCE, TARGET))
    with torch.inference_mode():
        output = model(input_ids=source, labels=labels, output_attentions=True)
    return output, *(tokenizer.convert_ids_to_tokens(ids[0].tolist()) for ids in (source, labels))


@pytest.mark.parametrize(("family", "start"), [("t5", "<pad>"), ("bart", "</s>")])
def test_maps_are_those_of_transformers(of_family: Families, family: str, start: str) -> None:
    encoder = of_family(family)
    expected, source, labels = by_hugging_face(encoder.source.folder)
    found = encoder.attention(SOURCE, target=TARGET, level="piece")
    np.testing.assert_allclose(found.to_numpy(), torch.cat(expected.cross_attentions).numpy(), atol=1e-6)
    assert found.shape == (2, encoder.n_heads if family == "t5" else 2, len(labels), len(source))
    assert found.labels["from"][0] == start
    page = view(SOURCE, target=TARGET, model=encoder, level="piece")
    assert [reading.kind for reading in page.panels[0]] == ["cross", "decoder", "encoder"]
    for kind, maps in (
        ("cross", expected.cross_attentions),
        ("decoder", expected.decoder_attentions),
        ("encoder", expected.encoder_attentions),
    ):
        for layer, one in enumerate(maps, start=1):
            packed = maps_of(page.html, "piece", "raw", layer, kind=kind)
            assert np.abs(packed - one[0].numpy()).max() <= 1 / 255
    assert page_of(page.html)["panels"][0]["texts"] == [SOURCE, TARGET]


def test_between_words_by_loops(of_family: Families) -> None:
    """From a word the mean of its pieces' rows, to a word the sum of its pieces' columns."""
    encoder = of_family("t5")
    cross = view(SOURCE, target=TARGET, model=encoder).reading
    words, pieces = cross.maps(2), cross.maps(2, level="piece")
    rows, columns = cross.units("word"), cross.columns("word")
    spans, of_columns = (unit.member.bool().numpy() for unit in (rows, columns))
    assert (spans.sum(1) > 1).any()
    assert rows.labels[1] == "Überraschung"
    assert columns.labels[-1] == "</s>"
    for i, inside in enumerate(spans):
        for j, column in enumerate(of_columns):
            expected = pieces[:, inside][:, :, column].sum(-1).mean(-1)
            np.testing.assert_allclose(words[:, i, j], expected, atol=1e-6)
    # White space belongs to no word.
    assert (words.sum(-1) < 1 + 1e-5).all()


def test_what_has_no_decoder_is_refused(of_family: Families, encoder: Encoder) -> None:
    with pytest.raises(ModelError, match=r"a bert model has no decoder .* such as T5 or BART"):
        view(SOURCE, target=TARGET, model=encoder)
    with pytest.raises(ModelError, match="no decoder"):
        encoder.attention(SOURCE, target=TARGET)
    t5 = of_family("t5")
    with pytest.raises(ModelError, match="leave the second out"):
        t5.attention(SOURCE, "It sleeps.", target=TARGET)
    with pytest.raises(ModelError, match="norms of transformed values are known for"):
        view(SOURCE, target=TARGET, model=t5, weights="norm")
    with pytest.raises(BertologyError, match="no word in the sentence"):
        view(SOURCE, target=" ", model=t5)
