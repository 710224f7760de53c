"""The nine tasks of edge probing: their items, and that what is planted is found and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bertology.corpora import Corpus, Sentences, Target
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow
from tests.probes.conftest import BRIEF, check_chance

SPANS = {
    "edge_constituents": ("constituents", ("NP", "VP", "PP"), 0.5),
    "edge_entities": ("entities", ("PER", "LOC"), 0.6),
}
PAIRS: dict[str, tuple[str, tuple[Any, ...], float]] = {
    "edge_coreference": ("coref", ("0", "1"), 0.6),
    "edge_proto_roles": ("proto_roles", (("awareness", "volition"), ("moved",), ()), 0.6),
    "edge_relations": ("relations", ("Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Other"), 0.5),
    "edge_srl": ("srl", ("A0", "A1", "AM-TMP"), 0.4),
    "edge_winograd": ("winograd", ("0", "1"), 0.55),
    "edge_gap": ("gap", ("0", "1"), 0.55),
}


def with_targets(sentences: Sentences, layer: str, *targets: Target) -> Sentences:
    (sentence,) = sentences
    return Sentences([replace(sentence, targets={layer: targets})])


@pytest.mark.parametrize("task", [*SPANS, *PAIRS])
def test_items_are_the_labelled_spans(task: str, sentences_of: Callable[..., Sentences]) -> None:
    layer, (first, *_, last), _ = (SPANS | PAIRS)[task]
    second = ((0, 3), (4, 6)) if task in PAIRS else (None, None)
    places = ((3, 4), (3, 4)) if task in PAIRS else ((0, 3), (4, 5))
    targets = [Target(*one) for one in zip(places, (first, last), second, strict=True)]
    found = get_probe(task).examples(with_targets(sentences_of("the old dog saw her run"), layer, *targets))
    spans = [[place] if other is None else [place, other] for place, other in zip(places, second, strict=True)]
    assert found.spans.tolist() == [[list(span) for span in item] for item in spans]
    if isinstance(first, tuple):
        assert found.is_multi_label
        assert found.values == first
        assert found.codes.tolist() == [[True, True], [False, False]]
    else:
        assert [found.values[code] for code in found.codes] == [first, last]
    assert found.skipped == {}
    with pytest.raises(CorpusError, match=f"no span has a label in layer '{layer}'"):
        get_probe(task).examples(sentences_of("the dog"))


@pytest.mark.parametrize("task", ["edge_entities", "edge_gap", "edge_proto_roles", "edge_relations"])
def test_what_is_planted_is_found_and_nothing_else(task: str, check_spans: Callable[..., dict[str, ResultRow]]) -> None:
    layer, labels, chance = (SPANS | PAIRS)[task]
    found = check_spans(task, layer, labels, pairs=task in PAIRS, chance=chance)
    main = {"edge_relations": "macro_f1", "edge_gap": "accuracy"}.get(task, "micro_f1")
    assert found[main].main_metric
    if task == "edge_relations":
        assert set(found) == {"macro_f1", "micro_f1", "accuracy"}


def test_references_and_continuations_are_there_when_asked_for(sentences_of: Callable[..., Sentences]) -> None:
    targets = [Target((3, 4), "A0", (0, 3)), Target((3, 4), "R-A0", (4, 6)), Target((3, 4), "C-A1", (5, 6))]
    sentences = with_targets(sentences_of("the old dog saw her run"), "srl", *targets)
    found = get_probe("edge_srl").examples(sentences)
    assert found.spans.tolist() == [[[3, 4], [0, 3]]]
    assert found.skipped == {"label not asked about": 2}
    assert get_probe("edge_srl:all").examples(sentences).values == ("A0", "R-A0", "C-A1")
    assert get_probe("edge_srl:all").task == "edge_srl:all"
    with pytest.raises(BertologyError, match="task edge_srl:some: it should be one of all; or edge_srl alone"):
        get_probe("edge_srl:some")


def test_a_dependent_and_its_head_without_the_root(sentences_of: Callable[..., Sentences]) -> None:
    (sentence,) = sentences_of("her dog saw us", deprel=["nmod:poss", "nsubj", "root", None])
    found = get_probe("edge_dependencies").examples(Sentences([sentence, replace(sentence, heads=(2, 3, 0, 3))]))
    # Of the first sentence no heads are known; the last word of the second has no relation.
    assert found.spans.tolist() == [[[4, 5], [5, 6]], [[5, 6], [6, 7]]]
    assert [found.values[code] for code in found.codes] == ["nmod:poss", "nsubj"]
    assert found.clusters.tolist() == [1, 1]
    assert found.skipped == {"no head or no deprel label": 5}
    with pytest.raises(CorpusError, match="no word has a head and a relation to it: the annotation layers are deprel"):
        get_probe("edge_dependencies").examples(sentences_of("a dog", deprel=["det", "root"]))


@pytest.mark.parametrize(
    ("task", "layer", "labels"),
    [("edge_pos", "upos", ("NOUN", "VERB", "ADJ")), ("edge_dependencies", "deprel", ("nsubj", "obj", "nmod:poss"))],
)
def test_labels_of_words_and_arcs(
    task: str,
    layer: str,
    labels: tuple[str, ...],
    planted: Callable[..., Corpus],
    ask: Callable[..., dict[str, ResultRow]],
) -> None:
    """Every word depends on the next one, its label its own or drawn."""

    def corpus(*, signal: bool) -> Corpus:
        whole = planted(layer, labels, signal=signal)
        splits = {
            name: Sentences(replace(one, heads=(*range(2, len(one) + 1), 0)) for one in sentences)
            for name, sentences in whole.splits.items()
        }
        return Corpus("trees", splits)

    value = ask(task.replace("_", "-"), corpus(signal=True), **BRIEF)["micro_f1"].value
    assert value is not None
    assert value > 0.98
    check_chance(ask(task, corpus(signal=False), **BRIEF)["micro_f1"], 1 / 3)
