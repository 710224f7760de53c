from collections.abc import Callable

from bertology.corpora import Corpus, Sentences
from bertology.probing import get_probe
from bertology.results import ResultRow
from tests.probes.conftest import check_chance

PROBE = get_probe("pos")
LABELS = ("NOUN", "VERB", "ADJ")


def test_every_word_with_a_tag_is_asked_about(sentences_of: Callable[..., Sentences]) -> None:
    found = PROBE.examples(sentences_of("the dog can can fish", upos=["DET", "NOUN", "AUX", "VERB", None]))
    assert [found.values[code] for code in found.codes] == ["DET", "NOUN", "AUX", "VERB"]
    assert found.words.tolist() == [0, 1, 2, 3]
    assert found.skipped == {"no upos label": 1}


def test_a_planted_tag_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    scores = ask("pos", planted("upos", LABELS, signal=True))
    assert scores["accuracy"].value == scores["macro_f1"].value == 1.0
    assert scores["accuracy"].main_metric
    assert scores["accuracy"].n_items == 240


def test_tags_drawn_at_random_stay_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    check_chance(ask("pos", planted("upos", LABELS, signal=False))["accuracy"], 1 / 3)
