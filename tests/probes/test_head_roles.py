from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology.attention import stream_maps
from bertology.attention.probes import ReadText
from bertology.corpora import Corpus, Sentence, Sentences, write_conllu
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.pocket import load_corpus
from bertology.probing import get_probe
from bertology.runner import ProbeRequest, run_probes
from tests.attention.planted import planted_ratios, random_trees

PROBE: Any = get_probe("head_roles")
UP, DOWN = "dependent → head", "head → dependent"
RELATIONS = [f"{relation}: {way}" for relation in ("nsubj", "obj", "amod", "advmod") for way in (UP, DOWN)]


def test_planted_roles_are_named(tiny_bert: Path) -> None:
    encoder, text = load_encoder(str(tiny_bert), device="cpu"), load_corpus()["test"][:80]
    often = Counter(form.casefold() for sentence in text for form in sentence.words)

    def subject(sentence: int, length: int, place: int) -> int | None:
        own = text[sentence]
        is_subject = (own.layers["deprel"][place] or "").startswith("nsubj")
        return (own.heads or ())[place] - 1 if is_subject else None

    def modifier(sentence: int, length: int, place: int) -> int | None:
        pairs = zip(text[sentence].heads or (), text[sentence].layers["deprel"], strict=True)
        return next((word for word, pair in enumerate(pairs) if pair == (place + 1, "advmod")), None)

    def rarest(sentence: int, length: int, place: int) -> int | None:
        words = text[sentence].words
        return min(range(length), key=lambda word: often[words[word].casefold()])

    heads = {
        "previous": lambda s, n, place: max(place - 1, 0),
        "next": lambda s, n, place: min(place + 1, n - 1),
        "subject": subject,
        "modifier": modifier,
        "rarest": rarest,
        "separator": lambda s, n, place: None,
    }
    shares: list[dict[str, float]] = [{} for _ in heads]
    for make in PROBE.statistics(text):
        for found in planted_ratios(encoder, make, text, list(heads.values())):
            assert found.metric == "role_share"
            for name in found.names:
                for own, value in zip(shares, found.of(name)[0].tolist(), strict=True):
                    own[name] = value
    offsets = {
        name: float(ratios.of(name)[0, 0])
        for ratios in PROBE.baseline("offset", ReadText(text), ReadText(text))
        for name in ratios.names
    }
    assert sorted(offsets) == sorted([*RELATIONS, "rarest word"])
    named = dict(zip(heads, (PROBE.named(own, offsets) for own in shares), strict=True))
    assert named["previous"][0] == "positional: previous"
    assert named["next"][0] == "positional: next"
    assert named["subject"] == (f"syntactic: nsubj: {UP}",)
    assert named["modifier"] == (f"syntactic: advmod: {DOWN}",)
    assert named["rarest"] == ("rare words",)
    assert named["separator"] == ()


def test_thresholds() -> None:
    shares, offsets = {"next": 0.92, f"obj: {UP}": 0.56, "rarest word": 0.45}, {f"obj: {UP}": 0.5, "rarest word": 0.1}
    assert PROBE.named(shares, offsets) == ("positional: next",)
    relative = PROBE.with_settings({"relative": True, "positional": 0.95, "rare": 0.4})
    assert relative.named(shares, offsets) == (f"syntactic: obj: {UP}", "rare words")
    assert PROBE.named({}, offsets) == ()


def shares_of(text: Sentences) -> dict[str, Any]:
    arcs = [make.keywords["arcs"] for make in PROBE.statistics(text)]
    return {name: own for own in arcs for name in own.names}


def test_rarest_words(tmp_path: Path) -> None:
    relation = {"layers": {"deprel": ("nsubj", "root", "obj")}, "heads": (2, 0, 2)}
    text = Sentences(
        [
            Sentence.from_words(["Dogs", "see", "foxes"], **relation),  # type: ignore[arg-type]
            Sentence.from_words(["dogs", "see", "cats"], **relation),  # type: ignore[arg-type]
            Sentence.from_words(["Cats"], layers={"deprel": ("root",)}, heads=(0,)),
        ]
    )
    own = shares_of(text)["rarest word"]
    pairs = list(zip(own.asked[own.questions].tolist(), own.answers.tolist(), strict=True))
    # Of the second sentence all words occur twice.
    assert pairs == [(0, 2), (1, 2), (2, 2), *((one, other) for one in (3, 4, 5) for other in (3, 4, 5))]
    more = Sentences([Sentence.from_words(["see", "cats", "dogs"], **relation)] * 3)  # type: ignore[arg-type]
    write_conllu(tmp_path / "more-ud-train.conllu", Sentences([*more, *text[:1]]))
    elsewhere = PROBE.with_settings({"frequencies": str(tmp_path)})
    counted = elsewhere.statistics(text)[-1].keywords["arcs"]
    assert counted.answers.tolist() == [2, 2, 2, 5, 5, 5]
    with pytest.raises(BertologyError, match="nowhere"):
        PROBE.with_settings({"frequencies": str(tmp_path / "nowhere")}).statistics(text)


def test_shuffled_gold_is_no_role() -> None:
    whole, encoder = load_corpus(), load_encoder("pocket", device="cpu")
    text = Sentences(
        replace(one, heads=tuple(heads))
        for one, heads in zip(whole["test"][:250], random_trees(whole["test"][:250], 1), strict=True)
    )
    results = stream_maps(encoder, text, PROBE.statistics(text)).results
    offsets = PROBE.baseline("offset", ReadText(text), ReadText(text))
    named = PROBE.by_head([found for (found,) in results], offsets)
    assert not [role for roles in named.values() for role in roles if role.startswith("syntactic")]
    own = stream_maps(encoder, whole["test"][:250], PROBE.statistics(whole["test"][:250])).results
    truly = PROBE.by_head(
        [found for (found,) in own],
        PROBE.baseline("offset", ReadText(whole["test"][:250]), ReadText(whole["dev"][:250])),
    )
    # The embedded encoder has heads that look at subjects and objects; what they do is no matter of the trees by lot.
    assert {role for roles in truly.values() for role in roles} >= {f"syntactic: obj: {UP}", f"syntactic: nsubj: {UP}"}
    assert set(truly) <= {f"L{layer}H{head}" for layer in range(1, 5) for head in range(1, 5)}


def test_rows(tiny_bert: Path) -> None:
    corpus = Corpus("small", {split: load_corpus()[split][:60] for split in ("dev", "test")})
    rows = run_probes(ProbeRequest(tasks=("head_roles",), model=str(tiny_bert)), corpus=corpus).rows
    groups = {row.group for row in rows if row.head and row.split == "test"}
    assert groups == {"previous", "next", "rarest word", *RELATIONS}
    assert {row.group for row in rows if row.control == "offset"} == groups - {"previous", "next"}
    for row in rows:
        assert row.metric == "role_share"
        assert row.value is not None
        assert np.isfinite(row.value)
