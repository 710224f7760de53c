"""Text written by filling masks: each step is what the masked-LM head of transformers says."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM

from bertology import Encoder, load_encoder
from bertology.cloze import write_text
from bertology.encoders import resolve_model
from bertology.errors import ClozeError


@pytest.fixture(scope="module")
def pocket() -> Encoder:
    return load_encoder("pocket")


@pytest.mark.parametrize("order", ["certain", "left"])
def test_each_step_is_the_head_of_transformers(pocket: Encoder, order: Any) -> None:
    tokenizer, text = pocket.tokenizer, "the dogs [MASK] [MASK] [MASK] [MASK] the cat."
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    every = (ids[0] == pocket.mask_id).nonzero()[:, 0].tolist()
    model = AutoModelForMaskedLM.from_pretrained(resolve_model("pocket").folder).eval()
    special = torch.tensor(tokenizer.all_special_ids)
    for step in write_text(pocket, "the dogs {mask} the cat.", n=4, order=order):
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0].float().clone()
        logits[:, special] = -torch.inf
        left = (ids[0] == pocket.mask_id).nonzero()[:, 0]
        best = logits[left].log_softmax(-1).max(-1)
        row = int(best.values.argmax()) if order == "certain" else 0
        assert every.index(int(left[row])) + 1 == step.place
        assert step.probability == pytest.approx(float(best.values[row].exp()), rel=1e-4)
        ids[0, left[row]] = best.indices[row]
        assert step.text == tokenizer.decode(ids[0, 1:-1])
    assert pocket.mask_id not in ids


def test_masks_stand_at_the_end_of_a_text_without_one(pocket: Encoder) -> None:
    steps = list(write_text(pocket, "the dogs", n=3, order="left"))
    assert [step.place for step in steps] == [1, 2, 3]
    assert steps[-1].text.startswith("the dogs ")


@pytest.mark.parametrize(
    ("text", "n", "message"),
    [("a {mask} and [MASK]", 2, "2 masks in"), ("the dogs", 500, "with 500 masks is too long: ")],
)
def test_what_is_not_written(pocket: Encoder, text: str, n: int, message: str) -> None:
    with pytest.raises(ClozeError, match=message):
        list(write_text(pocket, text, n=n))
