import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import probe
from bertology.cloze import pseudo_log_likelihood, shared_totals
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.pocket import model_folder

PAIRS = [
    ("The old farmers see the dogs.", "The old dogs see the dogs."),
    ("The farmers who see the dog sleep.", "The dogs sleep."),
    ("The dog sees the baker.", "The dog sees the old baker."),
]


def by_hand(one: str, other: str) -> list[float]:
    """The score of each of two sentences as Nangia et al. (2020) compute it: shared pieces, one mask at a time."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    model = AutoModelForMaskedLM.from_pretrained(model_folder()).eval()
    ids = [tokenizer(text)["input_ids"] for text in (one, other)]
    prefix = next(n for n, (a, b) in enumerate(zip(*ids, strict=False)) if a != b)
    suffix = next(n for n, (a, b) in enumerate(zip(ids[0][::-1], ids[1][::-1], strict=False)) if a != b)
    values = []
    for of_text in ids:
        total = 0.0
        for place in (*range(1, prefix), *range(len(of_text) - suffix, len(of_text) - 1)):
            masked = torch.tensor([of_text])
            masked[0, place] = tokenizer.mask_token_id
            with torch.no_grad():
                total += float(model(masked).logits[0, place].log_softmax(-1)[of_text[place]])
        values.append(total)
    return values


def test_shared_pieces_alone_are_scored() -> None:
    encoder = load_encoder("pocket", device="cpu")
    texts = [text for pair in PAIRS for text in pair]
    found = shared_totals(pseudo_log_likelihood(encoder, texts))[0].reshape(-1, 2)
    for pair, values in zip(PAIRS, found.tolist(), strict=True):
        np.testing.assert_allclose(values, by_hand(*pair), atol=1e-3)
    same = shared_totals(pseudo_log_likelihood(encoder, [texts[0], texts[0], texts[0], ""]))[0]
    assert same[0] == same[1] == pseudo_log_likelihood(encoder, texts[:1]).totals[0, 0]
    assert np.isnan(same[2:]).all()


def test_a_planted_preference_is_found_and_stated_with_its_caution() -> None:
    planted = pd.DataFrame(PAIRS, columns=["good", "bad"]).assign(group=["age", "age", "place"])
    table = probe("stereotypes", corpus=planted, controls="none", layers=[4])
    (score,) = table.to_pandas().query("metric == 'micro_stereotyped_share' and group.isna()")["value"]
    assert score == np.mean([good > bad for good, bad in (by_hand(*pair) for pair in PAIRS)])
    shown = " ".join(str(table).split())
    assert "50 % is no preference, and most pairs of CrowS-Pairs are faulty (Blodgett et al. 2021)" in shown
    assert "stereotypes by group" in shown
    assert "★" not in shown
    with pytest.raises(BertologyError, match="the pocket world has no stereotypes; give crows_pairs, or a table"):
        probe("stereotypes", controls="none")
