"""The tuned lens: identities, a fit that comes nearer than the logit lens, and files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bertology import load_corpus
from bertology.cloze import Prompt, fit_lens
from bertology.cloze.lens import TunedLens, lens_measures, load_lens
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import ClozeError
from tests.cloze.conftest import distribution

PROMPT = Prompt("The guards near the dog {mask} open.")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("pocket", device="cpu")


@pytest.fixture(scope="module")
def texts() -> dict[str, Sentences]:
    corpus = load_corpus("pocket")
    return {"train": Sentences(list(corpus["train"])[:300]), "test": Sentences(list(corpus["test"])[:60])}


@pytest.fixture(scope="module")
def lens(encoder: Encoder, texts: dict[str, Sentences]) -> TunedLens:
    return fit_lens(encoder, texts["train"], steps=60)


def test_one_that_translates_nothing_is_the_logit_lens(encoder: Encoder) -> None:
    nothing = TunedLens("", torch.zeros(4, encoder.dim, encoder.dim), torch.zeros(4, encoder.dim))
    layers = range(encoder.n_layers + 1)
    plain = distribution(encoder, PROMPT, layers=layers)
    assert np.array_equal(distribution(encoder.through(nothing), PROMPT, layers=layers), plain)


def test_translators_come_before_the_head_and_not_at_the_last_layer(encoder: Encoder, lens: TunedLens) -> None:
    layers = range(encoder.n_layers + 1)
    plain, seen = (distribution(one, PROMPT, layers=layers) for one in (encoder, encoder.through(lens)))
    assert np.array_equal(plain[-1], seen[-1])
    ids = torch.tensor([encoder.tokenizer("The guards near the dog [MASK] open.")["input_ids"]])
    mask = int((ids[0] == encoder.mask_id).nonzero()[0, 0])
    model = encoder.model.with_head
    assert model is not None
    with torch.inference_mode():
        state = model(ids, output_hidden_states=True).hidden_states[2][0, mask]
        translated = state + lens.weights[2] @ state + lens.biases[2]
        expected = model.cls(translated).log_softmax(-1).numpy()
    assert seen[2, 0] == pytest.approx(expected, abs=1e-4)


def test_it_comes_nearer_to_the_answer_on_other_text(
    encoder: Encoder, texts: dict[str, Sentences], lens: TunedLens
) -> None:
    tuned, logit = (lens_measures(encoder, texts["test"], one) for one in (lens, None))
    assert (tuned.divergence[:-1].mean(1) < logit.divergence[:-1].mean(1)).all()
    assert (tuned.agrees[:-1].mean(1) > logit.agrees[:-1].mean(1)).all()
    for found in (tuned, logit):
        assert found.divergence[-1] == pytest.approx(0, abs=1e-5)
        assert found.agrees[-1].all()
        assert (found.divergence >= -1e-5).all()


def test_measures_by_hand(encoder: Encoder, texts: dict[str, Sentences]) -> None:
    found = lens_measures(encoder, texts["test"], most_places=10)
    assert found.bits.shape == (encoder.n_layers + 1, 10)
    for place, depth in enumerate(found.depth.tolist()):
        assert found.agrees[depth:, place].all()
        assert depth == 0 or not found.agrees[depth - 1, place]


def test_it_is_read_as_it_was_written_and_for_its_own_model_alone(
    encoder: Encoder, lens: TunedLens, tmp_path: Path
) -> None:
    path = lens.save(tmp_path / "deep" / "lens.safetensors")
    again = load_lens(path, encoder)
    assert torch.equal(again.weights, lens.weights)
    assert torch.equal(again.biases, lens.biases)
    with pytest.raises(ClozeError, match="another model"):
        load_lens(path, load_encoder("pocket", init="random"))
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(ClozeError, match="not a tuned lens"):
        load_lens(tmp_path / "broken.safetensors", encoder)
    with pytest.raises(ClozeError, match=r"\.safetensors"):
        lens.save(tmp_path / "lens.pt")
