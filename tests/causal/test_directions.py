"""Exchanged subspaces: against plain hooks and whole states, a planted direction, and labels without a signal."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertology.causal import PatchPair, Target, agreement_pairs, exchange_directions, patch
from bertology.causal.directions import METHODS
from bertology.causal.targets import fitting_pairs
from bertology.encoders import Encoder, load_encoder
from bertology.errors import BertologyError
from bertology.readouts import ArrayFeatures, fit_erasure
from bertology.results.predictions import FitOrigin, FittedProbe

PAIRS = agreement_pairs("pocket", structure="simple", most=40)
CLOSED: Any = [method for method in METHODS if method != "das"]


def measure(found: Any, name: str, method: str, layer: int, place: str) -> np.ndarray:
    """Value and bounds."""
    table = found.to_pandas().set_index(["method", "layer", "place"]).loc[(method, layer, place)]
    return np.array([table[name], table[f"{name}_low"], table[f"{name}_high"]])


def test_all_dimensions_are_the_whole_state(encoder: Encoder) -> None:
    found = exchange_directions(
        encoder, PAIRS, layers=[1, 3], methods=("random", "pca"), dims=encoder.dim, control=False
    )
    whole = [patch(encoder, PAIRS, layers=[1, 3], direction=way) for way in ("noise", "denoise")]  # type: ignore[arg-type]
    for number, place in enumerate(found.places):
        for side, one in enumerate(whole):
            expected = (1 if side else -1) * one.changes[:, one.places.index(place)] / one.whole.std()
            shares = found.changes[:, :, number, side::2] / one.whole.std()
            np.testing.assert_allclose(shares, np.stack([expected] * 2), atol=1e-5)
    total = whole[1].whole.sum() - whole[0].whole.sum()
    effect = (whole[1].changes - whole[0].changes).sum(2)[:, whole[0].places.index("subject")] / total
    table = found.to_pandas().query("method == 'pca' and place == 'subject'")
    np.testing.assert_allclose(table.exchange_effect, effect, atol=1e-5)


def test_subspaces_and_their_exchange_by_hand(encoder: Encoder) -> None:
    """Means, LEACE and principal directions computed from states of transformers, exchanged by a plain hook."""
    found = exchange_directions(encoder, PAIRS, layers=[2], methods=CLOSED, control=False)
    aligned = list(fitting_pairs(encoder, PAIRS, by_word=False)[0].items())
    model = encoder.model.with_head
    assert model is not None
    place = found.places.index("subject")
    states, values = [], []
    for number, one in aligned[1::2]:  # the second half of the clusters, each of which is a pair
        for side in (0, 1):
            with torch.no_grad():
                hidden = model(torch.from_numpy(one.ids[side])[None], output_hidden_states=True).hidden_states[2]
            states.append(hidden[0, one.places["subject"]].double())
            values.append(int(PAIRS[number].values[side] == "singular"))
    vectors, labels = torch.cat(states), np.array(values)
    assert len(vectors) == len(labels)
    mean = vectors[labels == 1].mean(0) - vectors[labels == 0].mean(0)
    differences = vectors[::2] - vectors[1::2]
    erasure = fit_erasure(ArrayFeatures(vectors[None]), labels, 2)
    by_hand = {"mean_difference": mean, "pca": torch.linalg.svd(differences).Vh[0], "leace": erasure.left[0, :, 0]}
    for method, direction in by_hand.items():
        left = torch.from_numpy(found.left[CLOSED.index(method), 1, 0, place, :, 0])
        assert abs(torch.cosine_similarity(left, direction, dim=0)) == pytest.approx(1, abs=1e-5), method
    _, first = aligned[0]
    text, other = (torch.from_numpy(ids)[None] for ids in first.ids)
    good, bad = first.candidates
    with torch.no_grad():
        source = model(other, output_hidden_states=True).hidden_states[2]
        plain = model(text).logits[0, first.mask]
        for number, method in enumerate(CLOSED):
            left, right = (torch.from_numpy(one[number, 1, 0, place]).float() for one in (found.left, found.right))

            def exchange(
                _: Any, args: Any, output: Any, method: str = method, left: Any = left, right: Any = right
            ) -> Any:
                at = first.places["subject"]
                output[:, at] += (source[:, at] - output[:, at]) @ right.T @ left.T
                return output

            handle = model.bert.encoder.layer[1].register_forward_hook(exchange)
            changed = model(text).logits[0, first.mask]
            handle.remove()
            expected = (changed[bad] - changed[good]) - (plain[bad] - plain[good])
            assert found.changes[number, 0, place, 0] == pytest.approx(float(expected), abs=1e-4), method


def test_a_planted_direction_is_found() -> None:
    """A linear read-out of the embeddings: the direction is the difference of its two output vectors.

    Embeddings of the words that differ are random but for that direction, in which they are told apart.
    """
    encoder = load_encoder("pocket", device="cpu")
    pairs = agreement_pairs("pocket", structure="simple")
    aligned = fitting_pairs(encoder, pairs, by_word=False)[0]
    random = torch.Generator().manual_seed(3)
    planted, common = torch.randn(2, encoder.dim, generator=random)
    planted = (planted - planted.mean()) / planted.std() / encoder.dim**0.5
    table: Any = encoder.model.body.get_input_embeddings()  # type: ignore[operator]
    norm: Any = encoder.model.body.embeddings.LayerNorm
    with torch.no_grad():
        norm.weight.fill_(1.0)
        for number, one in aligned.items():
            for side in (0, 1):
                for piece in one.ids[side][one.places["subject"]].tolist():
                    noise = torch.randn(encoder.dim, generator=random) * 0.1
                    sign = 1.0 if pairs[number].values[side] == "plural" else -1.0
                    table.weight[piece] = noise - noise @ planted * planted + sign * planted
    origin = FitOrigin(
        task="pos",
        corpus="",
        train_fingerprint="",
        model="pocket",
        model_fingerprint=encoder.fingerprint,
        layer=0,
        pooling="first",
        readout="linear.v1",
        items="words",
        labels=("singular", "plural"),
    )
    outputs = torch.stack([common - planted / 20, common + planted / 20])
    tensors = {"coefficients": outputs, "intercepts": torch.zeros(2)}
    probe = FittedProbe(origin, tensors)
    pairs = [
        replace(
            pair,
            good="",
            bad="",
            target=Target("probe", *pair.values, word=1 + pair.places.index("subject"), probe=probe),
        )
        for pair in pairs
    ]
    methods: Any = ("das", "mean_difference", "random")
    found = exchange_directions(encoder, pairs, layers=[0], places=["subject"], methods=methods, control=False)
    cosines = np.abs(planted.double().numpy() @ found.left[:, :, 0, 0, :, 0].transpose(0, 2, 1))
    assert cosines[0].min() > 0.95
    assert cosines[2].max() < 0.3
    assert measure(found, "exchange_accuracy", "das", 0, "subject")[0] > 0.95
    assert measure(found, "exchange_accuracy", "random", 0, "subject")[0] < 0.2
    assert found.converged.all()


def test_the_search_is_selective_where_the_number_is(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is in the embedding of the subject, whence no arbitrary words follow; at the last mask all do."""
    monkeypatch.setattr("bertology.causal.directions._TEXTS", 6)
    methods: Any = ("das", "random")
    found = exchange_directions(encoder, PAIRS, layers=[0, 4], places=["subject", "mask"], methods=methods)
    odds, selectivity = (
        [measure(found, name, "das", layer, place)[0] for layer, place in ((0, "subject"), (4, "mask"))]
        for name in ("log_odds_ratio_nats", "selectivity_nats")
    )
    assert min(odds) > 4
    assert selectivity[0] > 0.8 * odds[0]
    assert selectivity[1] < 0.5 * odds[1]
    for layer, place in ((4, "subject"), (0, "mask")):  # nothing is exchanged there, or nothing is read
        assert abs(measure(found, "log_odds_ratio_nats", "das", layer, place)[0]) < 1e-4
    assert np.abs(measure(found, "log_odds_ratio_nats", "random", 0, "subject")).max() < 1


def test_shuffled_answers_are_exchanged_at_chance(encoder: Encoder) -> None:
    shuffled = [
        replace(pair, good=pair.bad, bad=pair.good, values=pair.values[::-1]) if number // 2 % 2 else pair
        for number, pair in enumerate(PAIRS)
    ]
    methods: Any = ("das", "mean_difference")
    found = exchange_directions(encoder, shuffled, layers=[0], places=["subject"], methods=methods, control=False)
    for method in methods:
        _, low, high = measure(found, "exchange_accuracy", method, 0, "subject")
        assert low <= 0.5 <= high


def test_labels_of_a_fine_tuned_model(tiny_bert: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    kind: Any = AutoModelForSequenceClassification
    for n_labels in (3, 4):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            kind.from_pretrained(tiny_bert, num_labels=n_labels).save_pretrained(tmp_path / f"{n_labels}")
        AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / f"{n_labels}")
    target = Target("label", "LABEL_0", "LABEL_1")
    nouns = ("cook", "guard", "farmer", "miller", "judge", "nurse", "teacher", "baker")
    pairs = [PatchPair(f"The {n} walks.", f"A {n} walks.", target=target) for n in nouns]
    with pytest.raises(BertologyError, match="2 values need as many arbitrary answers, and the model has 1 others"):
        exchange_directions(load_encoder(str(tmp_path / "3"), device="cpu"), pairs)
    encoder = load_encoder(str(tmp_path / "4"), device="cpu")
    found = exchange_directions(encoder, pairs, layers=[1], methods=("das", "pca"), dims=encoder.dim)
    whole = patch(encoder, pairs, layers=[1])
    for number, place in enumerate(found.places):
        expected = np.stack([whole.changes[0, whole.places.index(place)]] * 2)
        np.testing.assert_allclose(found.changes[:, 0, number, 1::2], expected, atol=1e-5)
    assert found.control_changes is not None
    assert np.isfinite(found.control_changes).all()


@pytest.mark.parametrize(
    ("pairs", "how", "problem"),
    [
        (PAIRS, {"methods": ("das", "lda")}, "method of finding directions"),
        (PAIRS, {"dims": 0}, "0 dimensions: give 1 to 128"),
        (PAIRS, {"places": ("verb",)}, "place 'verb': enough pairs have before, subject"),
        (PAIRS, {"layers": (9,)}, "layer 9"),
        (PAIRS[:3], {}, "3 clusters of pairs"),
        ([], {}, "no pair"),
        ([replace(pair, bad="") for pair in PAIRS], {}, "it has one answer of target word"),
        ([replace(pair, values=("one", "one")) for pair in PAIRS], {}, "it has one value, one"),
    ],
)
def test_mistakes(encoder: Encoder, pairs: list[PatchPair], how: Any, problem: str) -> None:
    with pytest.raises(BertologyError, match=problem):
        exchange_directions(encoder, pairs, **how)
