"""Effects of exchanged states: exact identities, plain hooks, and what the grammar of the pocket world says."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from bertology.causal import PatchPair, patch
from bertology.encoders import Encoder
from bertology.errors import BertologyError, ClozeError, ModelError

PAIR = PatchPair("The guards near the dog [MASK] open.", "The guard near the dog [MASK] open.", "are", "is")


@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_at_the_embeddings_the_word_that_differs_is_all_and_others_are_nothing(
    encoder: Encoder, direction: str
) -> None:
    found = patch(encoder, PAIR, layers=[0], direction=direction)  # type: ignore[arg-type]
    of_place = dict(zip(found.places, found.effects[0].tolist(), strict=True))
    assert of_place.pop("2 guards/guard") == pytest.approx(1, abs=1e-5)
    assert of_place.pop("all") == pytest.approx(1, abs=1e-5)
    assert len(of_place) == 8  # seven other words and the special tokens
    assert all(abs(effect) < 1e-5 for effect in of_place.values())


@pytest.mark.parametrize("site", ["hidden_state", "attention_output", "feed_forward_output", "head", "values"])
def test_a_patch_of_itself_changes_nothing(encoder: Encoder, site: str) -> None:
    same = PatchPair(PAIR.text, PAIR.text, PAIR.good, PAIR.bad)
    found = patch(encoder, same, site=site)  # type: ignore[arg-type]
    assert np.abs(found.changes).max() < 1e-5
    assert found.whole.tolist() == [0]


def _keep(kept: dict[str, torch.Tensor], module: object, args: Any, output: torch.Tensor | None = None) -> None:
    kept["value"] = (args[0] if output is None else output).clone()


def _exchange(
    kept: dict[str, torch.Tensor], place: Any, module: object, args: Any, output: torch.Tensor | None = None
) -> Any:
    """A hook of a module's output at some pieces, or of its input in some dimensions."""
    values = (args[0] if output is None else output).clone()
    if output is None:
        values[:, :, place] = kept["value"][:, :, place]
        return (values,)
    values[:, place] = kept["value"][:, place]
    return values


def test_effects_are_those_of_plain_hooks(encoder: Encoder) -> None:
    """Each cell again with one forward pass of the model of transformers and a hook written here.

    Logits near 10 have a spacing of 1e-6 in float32; the sums of a batch are in another order.
    """
    model, tokenizer = encoder.model.with_head, encoder.tokenizer
    assert model is not None
    texts = [text.replace("[MASK]", tokenizer.mask_token) for text in (PAIR.text, PAIR.other)]
    clean, other = (tokenizer(text, return_tensors="pt") for text in texts)
    words = [tokenizer(f"a {word}", add_special_tokens=False)["input_ids"][-1] for word in (PAIR.good, PAIR.bad)]
    mask = int((clean["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0])
    kept: dict[str, torch.Tensor] = {}

    def score(inputs: dict[str, torch.Tensor]) -> float:
        with torch.no_grad():
            logits = model(**inputs).logits[0, mask]
        return float(logits[words[0]] - logits[words[1]])

    for site in ("hidden_state", "attention_output", "feed_forward_output", "head"):
        found = patch(encoder, PAIR, site=site)  # type: ignore[arg-type]
        for layer in (1, encoder.n_layers):
            block = model.base_model.encoder.layer[layer - 1]
            part = {
                "hidden_state": block,
                "attention_output": block.attention.output.dense,
                "feed_forward_output": block.output.dense,
                "head": block.attention.output.dense,
            }[site]
            dim = encoder.dim // encoder.n_heads
            places = (
                {"H2": slice(dim, 2 * dim)}
                if site == "head"
                else {"2 guards/guard": 2, "6 [MASK]": mask, "all": slice(None)}
            )
            for name, place in places.items():
                register = part.register_forward_pre_hook if site == "head" else part.register_forward_hook
                handle = register(partial(_keep, kept))
                whole = score(clean)
                handle.remove()
                base = score(other)
                handle = register(partial(_exchange, kept, place))
                change = score(other) - base
                handle.remove()
                ours = found.changes[found.layers.index(layer), found.places.index(name), 0]
                assert ours == pytest.approx(change, abs=3e-5), (site, layer, name)
                assert found.whole[0] == pytest.approx(whole - base, abs=3e-5)


def test_pairs_of_different_lengths_are_read_together(encoder: Encoder) -> None:
    more = PatchPair("The cooks [MASK] open.", "The cook [MASK] open.", "are", "is")
    apart = [patch(encoder, pair, by_word=False) for pair in (PAIR, more)]
    both = patch(encoder, [PAIR, more])
    assert both.places == ("other word", "changed", "mask", "special", "all")
    for number, alone in enumerate(apart):
        of_pair = [alone.places.index(name) for name in both.places]
        np.testing.assert_allclose(both.changes[:, :, number], alone.changes[:, of_pair, 0], atol=1e-4)
    table = both.to_pandas()
    assert table.n_pairs.tolist() == [2] * len(table)
    assert (table.ci_low <= table.effect + 1e-9).all()
    assert (table.effect <= table.ci_high + 1e-9).all()


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        (PatchPair("The guards [MASK] open.", "The old guard [MASK] open.", "are", "is"), "5 and 6 words"),
        (PatchPair("The guards are open.", "The guard [MASK] open.", "are", "is"), "0 masks"),
        (PatchPair("The guards [MASK] open.", "The guard [MASK] open.", "are", "isxqz"), "isxqz"),
        (PatchPair("The guards [MASK] open.", "The guard open [MASK].", "are", "is"), "different places"),
        (PatchPair("The guards [MASK].", "The guard [MASK].", "are", "is", places=("subject",)), "1 places"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(encoder: Encoder, pair: PatchPair, problem: str) -> None:
    with pytest.raises(ClozeError, match=problem):
        patch(encoder, pair, by_word=False)
    both = patch(encoder, [PAIR, pair])
    assert [number for number, _ in both.excluded] == [1]


def test_layers_and_sites_that_do_not_exist(encoder: Encoder) -> None:
    with pytest.raises(ModelError, match="layer 9"):
        patch(encoder, PAIR, layers=[9])
    with pytest.raises(ModelError, match="layer 0"):
        patch(encoder, PAIR, site="head", layers=[0])
    with pytest.raises(BertologyError, match="heads"):
        patch(encoder, PAIR, site="heads")  # type: ignore[arg-type]
