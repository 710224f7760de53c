import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bertology.cloze import ClozeProbe, pseudo_log_likelihood
from bertology.encoders import load_encoder
from bertology.pocket import agreement_items, model_folder
from bertology.probing import LeftOut, get_probe

PROBE = get_probe("minimal_pairs")
assert isinstance(PROBE, ClozeProbe)


def write(path: Path, *found: object) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in found), encoding="utf-8")
    return str(path)


def blimp(number: int, good: str, bad: str) -> dict[str, str]:
    fields = {"UID": "island", "pairID": str(number), "linguistics_term": "island_effects", "field": "syntax"}
    return fields | {"sentence_good": good, "sentence_bad": bad}


def test_the_pocket_world_with_either_form() -> None:
    found = PROBE.items("pocket")
    found.check(PROBE.asks)
    assert (PROBE.asks, len(found), found.left_out) == ("sentences", 600, ())
    assert found.groups == ("simple", "prepositional", "subject relative", "object relative")
    for item, pair in zip(found.items, agreement_items(), strict=True):
        assert item.text == pair.text.replace("{mask}", pair.answer)
        assert item.other == pair.text.replace("{mask}", pair.rivals[0])
        assert item.text != item.other


def test_pocket_bert_finds_good_sentences_more_probable() -> None:
    items = PROBE.items("pocket").items[:48]
    encoder = load_encoder(str(model_folder()))
    good, bad = (
        pseudo_log_likelihood(encoder, texts).totals[-1]
        for texts in ([item.text for item in items], [item.other for item in items])
    )
    assert (good > bad).mean() > 0.8


def test_violations_are_found_by_a_trained_model_and_not_by_random_weights() -> None:
    found = get_probe("minimal_pairs:from_treebank")
    assert isinstance(found, ClozeProbe)
    items = found.items("pocket").some_of_each_group(30).items
    for init, (least, most) in {"pretrained": (0.85, 1.0), "random": (0.25, 0.75)}.items():
        encoder = load_encoder(str(model_folder()), init=init)
        good, bad = (
            pseudo_log_likelihood(encoder, texts).totals[-1]
            for texts in ([item.text for item in items], [item.other for item in items])
        )
        assert least <= (good > bad).mean() <= most


def test_a_paradigm_without_its_identical_pairs(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", blimp(0, "A b.", "A c."), blimp(1, "A b.", "A b."))
    found = PROBE.items(source)
    (item,) = found.items
    assert (item.id, item.cluster, item.group) == ("island-0", "island-0", "island")
    assert (item.text, item.other, item.answer) == ("A b.", "A c.", "")
    assert found.left_out == (LeftOut("island-1", "island", "the two sentences are the same"),)


def test_sentences_of_marvin_and_linzen_end_in_a_period(tmp_path: Path) -> None:
    stimulus = {"case": "simple_agrmt", "condition": "sing_MS_MV", "sentences": ["the dog barks", "the dog bark ."]}
    (item,) = PROBE.items(write(tmp_path / "a.jsonl", stimulus)).items
    assert (item.text, item.other) == ("the dog barks.", "the dog bark.")
    assert (item.group, item.cluster) == ("simple_agrmt", "dog ./bark/barks")


def test_negative_polarity(real_data: Callable[[str], Path]) -> None:
    found = PROBE.items(str(real_data("marvin_linzen/emnlp2018/npi_across_anim.jsonl")))
    assert Counter(item.group for item in found.items) == {
        "npi_across_anim (intrusive)": 4_800,
        "npi_across_anim (most, many)": 4_800,
    }
    assert len({item.cluster for item in found.items}) == 40
