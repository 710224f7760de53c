from __future__ import annotations

from collections.abc import Callable

from bertology.corpora import Corpus, Sentences
from bertology.probing import get_probe
from bertology.results import ResultRow
from tests.probes.conftest import BRIEF

PROBE = get_probe("edge_pos")
LABELS = ("NOUN", "VERB", "ADJ")


def test_every_word_is_a_span_of_its_own(sentences_of: Callable[..., Sentences]) -> None:
    found = PROBE.examples(sentences_of("dogs bark", upos=["NOUN", "VERB"]))
    assert found.spans.tolist() == [[[0, 1]], [[1, 2]]]
    assert [found.values[code] for code in found.codes] == ["NOUN", "VERB"]


def test_what_is_planted_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    value = ask("edge-pos", planted("upos", LABELS, signal=True), **BRIEF)["micro_f1"].value
    assert value is not None
    assert value > 0.98


def test_labels_drawn_at_random_stay_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("edge_pos", planted("upos", LABELS, signal=False))["micro_f1"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 3 < found.ci_high
