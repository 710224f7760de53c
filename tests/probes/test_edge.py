"""The nine tasks of edge probing: their items, and that what is planted is found and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import probe
from bertology.corpora import Corpus, Sentence, Sentences, Target, load_corpus
from bertology.corpora._derived import coreference_over_sentences
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


GUM = """# newdoc id = one
# global.Entity = eid-etype-head-other
Ann Entity=(e1-person-1-new) saw _ a Entity=(e2-animal-2-new dog Entity=e2) . _
She Entity=(e1-person-1-giv) called _ it Entity=(e2-animal-1-giv) . _
Rain Entity=(e3-event-1-new) fell _ . _
The Entity=(e2-animal-2-giv dog Entity=e2) ran _ . _
# newdoc id = two
Ann Entity=(e1-person-1-new) left _ . _
A Entity=(e2-animal-2-new cat Entity=e2) saw _ Ann Entity=(e1-person-1-giv) . _
"""


def write_gum(path: Path, text: str = GUM) -> Path:
    """The text as CoNLL-U: a sentence a line, of words and MISC in turn."""
    lines = []
    for line in text.splitlines():
        cells = line.split()
        for number, (word, misc) in enumerate(zip(cells[::2], cells[1::2], strict=True), 1) if cells[0] != "#" else ():
            lines.append(f"{number}\t{word}\t_\t_\t_\t_\t{number - 1}\tdep\t_\t{misc}")
        lines.append(line if cells[0] == "#" else "")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_mentions_of_two_sentences_and_others_as_far_apart(tmp_path: Path) -> None:
    path = write_gum(tmp_path / "gum-test.conllu")
    corpus = load_corpus(f"coreference:{path}")
    assert [(one.group, one.text) for one in corpus["test"]] == [
        ("one", "Ann saw a dog . She called it . Rain fell . The dog ran .")
    ]
    found = get_probe("edge_coreference:documents").examples(corpus["test"])
    words = corpus["test"][0].words
    pairs = [tuple(" ".join(words[first:last]) for first, last in item) for item in found.spans.tolist()]
    assert list(zip(pairs, [found.values[code] for code in found.codes], strict=True)) == [
        (("Ann", "She"), "1"),
        (("a dog", "She"), "0"),
        (("a dog", "it"), "1"),
        (("Ann", "it"), "0"),
        (("it", "The dog"), "1"),
        (("She", "The dog"), "0"),
    ]
    assert corpus.skipped == {"antecedents in a sentence without another mention": ("5",)}
    # Of 12 words the last sentence of the first document is a text of its own, of 9 the third one too.
    for most, n_words, n_pairs, apart in ((12, 12, 4, ("4",)), (9, 9, 4, ("4",))):
        shorter = load_corpus(f"coreference:{most}:{path}")
        assert shorter.name == f"coreference:{most}:gum-test"
        assert [len(one) for one in shorter["test"]] == [n_words]
        assert len(get_probe("edge_coreference:documents").examples(shorter["test"])) == n_pairs
        assert shorter.skipped[f"mentions with antecedents in no text of {most} words with them"] == apart
    with pytest.raises(CorpusError, match="coreference:8:gum-test: no two sentences of a document have mentions that"):
        load_corpus(f"coreference:8:{path}")
    with pytest.raises(CorpusError, match="no pairs of mentions of two sentences: give GUM or OntoNotes as coreferenc"):
        get_probe("edge_coreference:documents").examples(load_corpus(path)["test"])
    broken = write_gum(tmp_path / "broken.conllu", GUM.replace("dog Entity=e2) ran", "dog _ ran"))
    with pytest.raises(CorpusError, match=r"broken.conllu:18: found 'e2-animal-2-giv'; expected a bracket that closes"):
        load_corpus(f"coreference:{broken}")


def test_places_in_the_sentence_do_not_tell_who_corefers() -> None:
    """Of entities drawn at random, antecedents and others stand equally often in the middle of three mentions."""
    dice, made = np.random.default_rng(0), []
    for number in range(3000):
        mentions = [Target((place, place + 1), str(entity)) for place, entity in enumerate(dice.integers(0, 3, 3))]
        one = Sentence.from_words(["a", "b", "c"], targets={"mentions": mentions})
        made.append(replace(one, group=f"document {number // 2}"))
    found = coreference_over_sentences(Corpus("random", {"test": Sentences(made)}))["test"]
    targets = [target for _, some in found.targets("coref_documents") for target in some]
    places = {label: [one.span1[0] for one in targets if one.label == label] for label in "01"}
    shares = {label: np.bincount(of, minlength=3) / len(of) for label, of in places.items()}
    assert len(places["0"]) == len(places["1"]) > 1500
    assert np.abs(shares["1"] - shares["0"]).max() < 0.04


def of_documents(words: list[str], *, signal: bool) -> Corpus:
    """Documents of two sentences; mentions of one form corefer, or any do."""
    dice = np.random.default_rng(2)

    def draw(document: str, order: list[str]) -> Sentence:
        entities = order if signal else dice.permutation(order).tolist()
        places = ((0, 1), (2, 3))
        mentions = [Target(place, entity) for place, entity in zip(places, entities, strict=True)]
        text = [order[0], "and", order[1], "."]
        return replace(Sentence.from_words(text, targets={"mentions": mentions}), id=document, group=document)

    splits = {}
    for split, size in (("train", 150), ("dev", 40), ("test", 60)):
        drawn = [(f"{split}-{number}", dice.choice(words, 2, replace=False).tolist()) for number in range(size)]
        splits[split] = Sentences(
            draw(name, order) for name, pair in drawn for order in (pair, dice.permutation(pair).tolist())
        )
    return coreference_over_sentences(Corpus("documents", splits))


def test_coreference_over_sentences_is_found_where_it_is_planted(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    words = sorted({word for one in planted("tag", ("x",), signal=True)["train"] for word in one.words})[:3]
    brief = {**BRIEF, "max_epochs": 40, "patience": 20}
    value = ask("edge_coreference:documents", of_documents(words, signal=True), **brief)["accuracy"].value
    assert value is not None
    assert value > 0.95
    check_chance(ask("edge_coreference:documents", of_documents(words, signal=False), **brief)["accuracy"], 1 / 2)


def test_texts_longer_than_the_model_takes_are_refused_or_left_out(tiny_bert: Path) -> None:
    long = ["and"] * 600
    splits = {}
    for split in ("train", "dev", "test"):
        made = []
        for number in range(6):
            for at in range(2):
                rest = long if at and number == 5 else ["so"]
                mentions = [Target((0, 1), "a"), Target((1, 2), "b")]
                one = Sentence.from_words(
                    ["dogs", "cats", *rest], id=f"{split}-{number}", targets={"mentions": mentions}
                )
                made.append(replace(one, group=f"{split}-{number}"))
        splits[split] = Sentences(made)
    corpus = coreference_over_sentences(Corpus("long", splits), words=1000)
    asked = {"model": tiny_bert, "layers": "0", "controls": "none", "progress": False}
    with pytest.raises(
        BertologyError, match=r"edge_coreference:documents: 605 words of train are in texts longer than"
    ):
        probe("edge_coreference:documents", corpus=corpus, **asked)
    rows = probe("edge_coreference:documents", corpus=corpus, on_long="skip", **asked).rows
    assert {row.n_items for row in rows} == {20}
