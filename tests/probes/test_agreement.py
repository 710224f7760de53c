import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertology.cloze import ClozeItem, ClozeProbe, Prompt, ask
from bertology.encoders import load_encoder
from bertology.errors import CorpusError
from bertology.pocket import agreement_items, model_folder
from bertology.probing import LeftOut, get_probe


def probe(name: str = "agreement") -> ClozeProbe:
    found = get_probe(name)
    assert isinstance(found, ClozeProbe)
    return found


def test_the_pocket_world_by_attractors_and_by_structure() -> None:
    found = probe().items("pocket")
    found.check(probe().asks)
    assert (probe().asks, len(found), found.left_out) == ("choices", 600, ())
    assert found.groups == ("0 attractors", "1 attractor", "2 attractors", "3 attractors")
    assert Counter(item.group for item in found.items).total() == 600
    structures = probe("agreement:structure").items("pocket").groups
    assert structures == ("simple", "prepositional", "subject relative", "object relative")
    pairs = agreement_items()
    for item, pair in zip(found.items, pairs, strict=True):
        assert (item.text, item.answer, item.rivals) == (pair.text, pair.answer, pair.rivals)
        assert item.cluster == item.id
        assert item.group.startswith(str(pair.n_attractors))


def test_blind_texts_of_the_pocket_world_are_the_same_for_both_numbers() -> None:
    """What is left does not tell the subject's number: of the words that are masked, all differ by it, and no other."""
    masked: dict[bool, set[str]] = {True: set(), False: set()}
    for item, pair in zip(probe().items("pocket").items, agreement_items(), strict=True):
        words, blind = item.text.split(), item.blind.split()
        hidden = [word for word, left in zip(words, blind, strict=True) if word != left]
        assert len(hidden) == (2 if pair.group == "subject relative" else 1)
        assert blind[len(blind) - 1 - blind[::-1].index("{mask}")] == words[words.index("{mask}")]
        assert blind.count("{mask}") == len(hidden) + 1
        masked[not pair.answer.endswith("s")].update(hidden)
    assert not masked[True] & masked[False]
    assert not any(word in ("near", "behind", "that", "who", "{mask}") for words in masked.values() for word in words)


def right(folder: Path, items: list[ClozeItem], *, blind: bool = False) -> float:
    """The share of items in which an encoder finds the good form more probable."""
    prompts = [Prompt(item.blind if blind else item.text, (item.answer, *item.rivals), at=-1) for item in items]
    values = ask(load_encoder(str(folder)), prompts).values[-1].reshape(-1, 2)
    assert not np.isnan(values).any()
    return float((values[:, 0] > values[:, 1]).mean())


def test_pocket_bert_knows_it_and_only_by_the_subject() -> None:
    items = [item for item in probe().items("pocket").items if item.group == "0 attractors"]
    assert right(model_folder(), items) > 0.9
    # Of 75 items, chance stays within three standard errors of one half.
    assert abs(right(model_folder(), items, blind=True) - 0.5) < 3 * 0.5 / 75**0.5


def test_constructions_and_what_is_left_out(tmp_path: Path) -> None:
    rows = [
        ("sent_comp", "sing_MS_MV_plur_BS", ["the men said the dog barks", "the men said the dog bark"]),
        ("prep_anim", "sing_MS_MV_plur_ES", ["the dog near the men barks", "the dog near the men bark"]),
        ("simple_npi_anim", "past", ["no dogs ever bark", "the dogs ever bark", "most dogs ever bark"]),
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"case": c, "condition": d, "sentences": s}) + "\n" for c, d, s in rows))
    found = probe().items(str(path))
    assert found.groups == ("in a sentential complement", "across a prepositional phrase")
    assert found.left_out == (LeftOut("a-3", "simple NPI", "negative polarity, which is no agreement"),)
    one, other = found.items
    assert (one.text, one.answer, one.rivals) == ("the men said the dog {mask}.", "barks", ("bark",))
    assert one.cluster == other.cluster == "dog bark/barks"
    assert other.blind == "the {mask} near the men {mask}."
    assert probe("agreement:structure").items(str(path)).groups == found.groups
    assert probe("agreement:attractors").items(str(path)).groups == ("0 attractors", "1 attractor")


def test_natural_sentences_have_no_structure(tmp_path: Path) -> None:
    path = tmp_path / "lgd_dataset.tsv"
    path.write_text("1\tThe key is .\tThe key ***mask*** .\tis\tare\n")
    (item,) = probe().items(str(path)).items
    assert (item.group, item.text, item.answer, item.rivals) == ("1 attractor", "The key {mask} .", "is", ("are",))
    with pytest.raises(CorpusError, match=r"no item to ask \(of all: the source tells no structure\)"):
        probe("agreement:structure").items(str(path))


def test_nonce_sentences(real_data: Callable[[str], Path]) -> None:
    source = str(real_data("bert_syntax"))
    found = probe().items(source)
    assert Counter(item.group for item in found.items) == {"0 attractors": 320, "1 attractor": 66, "2 attractors": 10}
    assert found.reasons == {"is and are, which Goldberg (2019) leaves out of this set": 14}
    assert len({item.cluster for item in found.items}) == 41
    assert not any(item.blind for item in found.items)
    by_structure = Counter(item.group for item in probe("agreement:structure").items(source).items)
    assert by_structure == {
        "nonce L__NOUN_VERB_VERB": 225,
        "nonce R__VERB_NOUN_CCONJ_VERB": 144,
        "original R__VERB_NOUN_CCONJ_VERB": 16,
        "original L__NOUN_VERB_VERB": 11,
    }
