"""States from other texts than the other one of a pair, and traced facts: against plain hooks and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bertology.causal import PatchPair, agreement_pairs, patch
from bertology.causal.items import fact_pairs, read_facts
from bertology.causal.patching import donors, known_facts, mean_differences, trace
from bertology.causal.targets import AlignedPair, fitting_pairs
from bertology.encoders import Encoder, load_encoder
from bertology.errors import ClozeError, ModelError


@pytest.fixture(scope="module")
def pairs() -> list[PatchPair]:
    return agreement_pairs(structure="simple", most=30)


def test_donors_have_the_value_and_the_places_and_are_other_texts(encoder: Encoder, pairs: list[PatchPair]) -> None:
    aligned, _ = fitting_pairs(encoder, pairs, by_word=False)
    for side in (0, 1):
        found = donors(pairs, aligned, side)
        assert len(found) > 10
        for number, ids in found.items():
            homes = [(n, of) for n, one in aligned.items() for of in (0, 1) if one.ids[of].tobytes() == ids.tobytes()]
            assert all(n != number for n, _ in homes)
            assert {pairs[n].values[of] for n, of in homes} == {pairs[number].values[side]}
            assert len(ids) == len(aligned[number].ids[0])
            places = aligned[number].places["subject"]
            assert (ids[places] != aligned[number].ids[side][places]).any()
            assert (ids == encoder.mask_id).nonzero()[0].tolist() == [aligned[number].mask]


def test_unrelated_states_are_those_of_a_plain_hook(encoder: Encoder, pairs: list[PatchPair]) -> None:
    found = patch(encoder, pairs, layers=[2], source="unrelated")
    aligned, _ = fitting_pairs(encoder, pairs, by_word=False)
    sources = donors(pairs, aligned, 0)
    model = encoder.model.with_head
    assert model is not None
    block = model.bert.encoder.layer[1]
    for place, (number, ids) in enumerate(list(sources.items())[:5]):
        one = aligned[number]
        with torch.inference_mode():
            donor = model(torch.from_numpy(ids)[None], output_hidden_states=True).hidden_states[2]
            base = torch.from_numpy(one.ids[1])[None]

            def exchange(
                module: object, args: object, output: torch.Tensor, one: AlignedPair = one, donor: torch.Tensor = donor
            ) -> torch.Tensor:
                output[:, one.places["subject"]] = donor[:, one.places["subject"]]
                return output

            plain = model(base).logits[0, one.mask]
            handle = block.register_forward_hook(exchange)
            changed = model(base).logits[0, one.mask]
            handle.remove()
        good, bad = one.candidates
        expected = (changed[good] - changed[bad]) - (plain[good] - plain[bad])
        assert found.changes[0, found.places.index("subject"), place] == pytest.approx(float(expected), abs=1e-4)
        assert found.base[place] == pytest.approx(float(plain[good] - plain[bad]), abs=1e-4)


def test_moves_are_differences_of_means_of_the_other_half(encoder: Encoder, pairs: list[PatchPair]) -> None:
    aligned, _ = fitting_pairs(encoder, pairs, by_word=False)
    shifts = mean_differences(encoder, pairs, aligned, 0, [1])
    first, *others = list(aligned)
    means: dict[str, list[np.ndarray]] = {"singular": [], "plural": []}
    for number in [n for place, n in enumerate(others, 1) if place % 2 == 1]:
        one = aligned[number]
        for side in (0, 1):
            states = encoder.hidden_states(torch.from_numpy(one.ids[side])[None], layers=[1])[1][0]
            means[pairs[number].values[side]].append(states[one.places["subject"]].mean(0).numpy())
    expected = np.mean(means["plural"], axis=0) - np.mean(means["singular"], axis=0)
    sign = 1 if pairs[first].values[0] == "plural" else -1
    shift = shifts([first])[1][0, aligned[first].places["subject"][0]].numpy()
    assert shift == pytest.approx(sign * expected, abs=1e-4)


def test_a_state_of_its_own_value_does_not_decide(encoder: Encoder, pairs: list[PatchPair]) -> None:
    other, same = (patch(encoder, pairs, layers=[0], source=source) for source in ("unrelated", "same_value"))  # type: ignore[arg-type]
    of_other, of_same = (one.effects[0, one.places.index("subject")] for one in (other, same))
    assert abs(of_same) < 0.1 < 0.8 < of_other
    assert np.nanmean(other.right[0, other.places.index("subject")]) > 0.8
    assert np.nanmean(same.right[0, same.places.index("subject")]) > 0.8


def test_what_sources_need_is_said(encoder: Encoder) -> None:
    without = [PatchPair("The guards [MASK] open.", "The guard [MASK] open.", "are", "is")] * 2
    with pytest.raises(ClozeError, match="pairs without values"):
        patch(encoder, without, source="unrelated")
    with pytest.raises(ClozeError, match="values of what decides"):
        patch(encoder, without, source="mean_difference")
    with pytest.raises(ModelError, match="moves hidden states"):
        patch(encoder, agreement_pairs(most=5), source="mean_difference", site="values")


def test_facts_pair_subjects_of_one_relation(encoder: Encoder) -> None:
    pairs = fact_pairs()
    facts = {(fact.text, fact.answer): fact for fact in read_facts()}
    for pair in pairs:
        one, other = facts[pair.text, pair.good], facts[pair.other, pair.bad]
        assert one.relation == other.relation
        assert one.answer != other.answer
        assert "subject" in pair.places


def test_all_clean_states_bring_the_fact_back_and_noise_is_the_same_in_any_batch(encoder: Encoder) -> None:
    known = known_facts(encoder, read_facts(), most=12)
    assert len(known.facts) == 12
    whole = trace(encoder, known, layers=[0, 3], n_draws=3)
    for place in ("subject", "all"):
        assert whole.effects[0, whole.places.index(place)] == pytest.approx(1, abs=1e-5)
    assert whole.effects[1, whole.places.index("all")] == pytest.approx(1, abs=1e-5)
    assert whole.effects[0, whole.places.index("mask")] == pytest.approx(0, abs=1e-5)
    assert (whole.whole > 0.3).all()


def test_nothing_known_is_said() -> None:
    model = load_encoder("pocket", init="random")
    known = known_facts(model, read_facts()[:20])
    assert not known.facts
    with pytest.raises(ClozeError, match="knows none of the 20 facts"):
        trace(model, known)
