"""Questions about languages, on a corpus of two whose words are known."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from bertology import Corpus, Sentence, probe
from bertology.corpora import Links, Sentences, translations
from bertology.errors import BertologyError, NameNotFoundError
from bertology.probing import get_probe

NOUNS, VERBS = ("dogs", "cats", "birds", "boys"), ("chased", "saw", "heard")


def corpus() -> Corpus:
    """Sentences and themselves as a language with the object before the verb."""
    links = {("en", "xx"): Links(frozenset({(0, 0), (1, 2), (2, 1)}))}
    units = []
    for number, (subject, verb, other) in enumerate((a, v, b) for a, b in permutations(NOUNS, 2) for v in VERBS):
        both = {"en": f"{subject} {verb} {other}", "xx": f"{subject} {other} {verb}"}
        sentences = {language: Sentence.from_words(text.split()) for language, text in both.items()}
        units.append(translations(sentences, unit=str(number), links=links))
    return Corpus("pair", {"test": Sentences(one for unit in units for one in unit)})


def test_layers_of_a_model_are_asked(tiny_bert: Path) -> None:
    tasks = [f"languages:{name}" for name in ("identity", "centroids", "retrieval", "translation", "alignment")]
    results = probe(tasks, model=tiny_bert, corpus=corpus(), layers="0", controls="all").to_pandas()
    main = results[results.main_metric & results.group.isna()]
    main = main[main.init.fillna("pretrained") == "pretrained"]
    scores = {(row.task, row.control): row.value for row in main.itertuples()}
    # The same words in both, which layer 0 with its random places finds, and spelling without fail; who chased whom
    # is not in the spelling of a sentence, so that two sentences are equally near.
    assert scores["languages:alignment", "lexical"] == 1
    assert scores["languages:alignment", "none"] > 0.6
    assert scores["languages:alignment", "diagonal"] == pytest.approx(1 / 3)
    assert scores["languages:translation", "lexical"] == scores["languages:translation", "word_majority"] == 1
    assert scores["languages:translation", "none"] > 0.9
    assert scores["languages:identity", "majority"] == 0.5
    assert scores["languages:retrieval", "lexical"] == pytest.approx(0.5)
    assert scores["languages:retrieval", "none"] > 0.6
    assert (main[main.task == "languages:identity"].n_clusters == 36).all()


def test_what_is_no_question() -> None:
    with pytest.raises(NameNotFoundError, match="there are identity, centroids, retrieval, translation, alignment"):
        get_probe("languages:family")
    with pytest.raises(NameNotFoundError, match="bertology tokenize --corpus parallel:"):
        get_probe("languages:parity")


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ("languages:identity", "no sentence states its language: give parallel:"),
        ("languages:alignment", "no sentence states its language: give parallel:"),
    ],
)
def test_one_language_is_an_error(tiny_bert: Path, task: str, problem: str) -> None:
    plain = Corpus("plain", {"test": Sentences(Sentence.from_words(["the", noun]) for noun in NOUNS)})
    with pytest.raises(BertologyError, match=problem):
        probe(task, model=tiny_bert, corpus=plain, layers="0")
