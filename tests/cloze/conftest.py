"""Tiny masked models of several families, as the tests of encoders build them, and a reference that is theirs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertology.cloze import Prompt
from bertology.encoders import Encoder
from tests.encoders.conftest import encoder as encoder
from tests.encoders.conftest import tiny as tiny

# Word pieces, byte-level BPE with and without a prefix of its own, two kinds of SentencePiece.
FAMILIES = ("bert", "distilbert", "electra", "roberta", "modernbert", "albert", "xlm-roberta")


@pytest.fixture(scope="session")
def own(tiny: Callable[[str], Path]) -> Callable[[str], Any]:
    """Hugging Face's own model of a family, its head included, loaded once."""
    loaded: dict[str, Any] = {}

    def load(family: str) -> Any:
        if family not in loaded:
            model = transformers.AutoModelForMaskedLM.from_pretrained(tiny(family), dtype=torch.float32)
            loaded[family] = model.eval()
        return loaded[family]

    return load


@pytest.fixture(scope="session")
def by_hand(own: Callable[[str], Any]) -> Callable[..., list[float]]:
    """Log-probabilities of the pieces of a text between two places, one forward pass each, written out."""

    @torch.no_grad()
    def score(family: str, ids: Sequence[int], first: int, last: int, mask: int, words: Sequence[Any]) -> list[float]:
        """``words`` gives each piece's word to mask the later pieces of, or is empty."""
        found = []
        for piece in range(first, last):
            copy = torch.tensor([list(ids)])
            for other in range(first, last):
                if other == piece or (words and other > piece and words[other] == words[piece]):
                    copy[0, other] = mask
            log_probs = own(family)(copy).logits[0, piece].log_softmax(-1)
            found.append(float(log_probs[ids[piece]]))
        return found

    return score


def distribution(encoder: Encoder, prompt: Prompt, *, layers: Sequence[int] | None = None) -> Any:
    """``[layer, mask, entry]`` log-probabilities at the masks of a prompt, all masked at once, in one pass."""
    ids = torch.tensor([encoder.tokenizer(prompt.written(encoder.mask_token))["input_ids"]])
    masks = [[0, piece] for piece, entry in enumerate(ids[0].tolist()) if entry == encoder.mask_id]
    logits = encoder.masked_logits(ids, torch.tensor(masks), layers=layers)
    return torch.stack([part.float().log_softmax(-1) for part in logits.values()]).cpu().numpy()
