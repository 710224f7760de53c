from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertology.attention import AttentionProbe, GateProbe, stream_maps
from bertology.attention.probes import ReadText
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.encoders import load_encoder
from bertology.errors import CorpusError
from bertology.families.request import ReadoutConfig
from bertology.measures import bootstrap_ratio
from bertology.pocket import load_corpus
from bertology.probing import get_probe
from bertology.runner import ProbeRequest, run_probes
from tests.attention.planted import planted_ratios, random_trees

UP, DOWN = "dependent → head", "head → dependent"


def probe(name: str) -> AttentionProbe:
    found = get_probe(name)
    assert isinstance(found, AttentionProbe)
    return found


def treebank(*, n: int = 60) -> Sentences:
    return load_corpus()["test"][:n]


def with_heads(sentences: Sentences, heads: list[list[int]]) -> Sentences:
    return Sentences(replace(one, heads=tuple(own)) for one, own in zip(sentences, heads, strict=True))


def one_sentence() -> Sentences:
    plain = Sentence.from_words(
        ["the", "old", "dogs", "saw", "a", "fox", "."],
        layers={
            "upos": ("DET", "ADJ", "NOUN", "VERB", "DET", "NOUN", "PUNCT"),
            "deprel": ("det", "amod", "nsubj:outer", "root", "det", "obj", "punct"),
        },
        heads=(3, 3, 4, 0, 6, 4, 4),
    )
    return Sentences([plain])


def arcs_of(asked: AttentionProbe, sentences: Sentences) -> dict[str, list[tuple[int, int]]]:
    (make,) = asked.statistics(sentences)
    arcs = make.keywords["arcs"]  # type: ignore[attr-defined]
    pairs: dict[str, list[tuple[int, int]]] = {name: [] for name in arcs.names}
    for word, answer, group in zip(arcs.asked[arcs.questions], arcs.answers, arcs.groups[arcs.questions], strict=True):
        pairs[arcs.names[group]].append((word, answer))
    return pairs


def test_arcs_by_relation_without_root_and_punctuation() -> None:
    found = arcs_of(probe("head_syntax").with_settings({"fewest_arcs": 1}), one_sentence())
    assert [name for name in found if name.endswith(UP)] == [
        f"{name}: {UP}" for name in ("all", "det", "amod", "nsubj", "obj")
    ]
    assert found[f"all: {UP}"] == [(0, 2), (1, 2), (2, 3), (4, 5), (5, 3)]
    # Of a head's columns the dependent is asked: which word looks at it most?
    assert found[f"det: {DOWN}"] == found[f"det: {UP}"] == [(0, 2), (4, 5)]
    rows = arcs_of(probe("head_syntax").with_settings({"fewest_arcs": 1, "downward": "row"}), one_sentence())
    assert rows[f"det: {DOWN}"] == [(2, 0), (5, 4)]


def test_planted_heads_stand_out(tiny_bert: Path) -> None:
    encoder, text = load_encoder(str(tiny_bert), device="cpu"), treebank()

    def up(sentence: int, length: int, place: int) -> int | None:
        head = (text[sentence].heads or ())[place]
        return head - 1 if head else None

    def down_to_determiner(sentence: int, length: int, place: int) -> int | None:
        own = text[sentence]
        pairs = zip(own.heads or (), own.layers["deprel"], strict=True)
        found = [word for word, (head, relation) in enumerate(pairs) if head == place + 1 and relation == "det"]
        return found[0] if found else None

    heads = [up, down_to_determiner, lambda s, n, place: max(place - 1, 0), lambda s, n, place: None]
    (make,) = probe("head_syntax").statistics(text)
    (found,) = planted_ratios(encoder, make, text, heads)  # type: ignore[arg-type]
    (offsets,) = probe("head_syntax").baseline("offset", ReadText(text), ReadText(text))
    assert found.names == offsets.names
    for name in found.names:
        if name.endswith(UP):
            assert found.of(name)[0].argmax() == 0
            assert found.of(name)[0, 0] == 1.0
        # What looks at no word says nothing; ties go to the first word.
        assert found.of(name)[0, 3] < 0.5
    assert found.of(f"det: {DOWN}")[0, 1] == 1.0
    assert found.of(f"det: {DOWN}")[0, 1] > offsets.of(f"det: {DOWN}")[0, 0] + 0.1


def test_shuffled_gold_is_not_found() -> None:
    whole, asked = load_corpus(), probe("head_syntax").with_settings({"fewest_arcs": 100})
    encoder = load_encoder("pocket", device="cpu")
    dev, test = (with_heads(whole[split][:250], random_trees(whole[split][:250], 1)) for split in ("dev", "test"))
    (by_dev,) = stream_maps(encoder, dev, asked.with_settings({"fewest_arcs": 1}).statistics(dev)).results[0]
    (found,) = stream_maps(encoder, test, asked.statistics(test)).results[0]
    (offsets,) = asked.baseline("offset", ReadText(test), ReadText(dev))
    assert len(found.names) >= 12
    for number, name in enumerate(found.names):
        best = int(np.argmax(by_dev.of(name)))
        over, under = found.over[number].reshape(-1, found.over.shape[-1])[best], found.under[number, 0, 0]
        low = bootstrap_ratio(over, under, metric=name).ci_low[0]
        assert low <= offsets.intervals(name).ci_high[0], name


def test_a_corpus_without_heads_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    plain = sentences_of("a dog barks", upos=["DET", "NOUN", "VERB"])
    with pytest.raises(
        CorpusError, match="no word has a head and a relation to it: give a treebank; the annotation layers are upos"
    ):
        probe("head_syntax").statistics(plain)
    with pytest.raises(CorpusError, match="no word has a head: give a treebank"):
        probe("head_syntax:trees").statistics(plain)
    with pytest.raises(CorpusError, match="no mention is joined to another in layer 'coref'"):
        probe("head_syntax:coreference").statistics(plain)


def with_mentions() -> Sentences:
    """Ann and the old dog, she and it; her dog is a mention that holds another."""
    words = ["Ann", "saw", "the", "old", "dog", "when", "she", "fed", "her", "dog", "."]
    upos = ("PROPN", "VERB", "DET", "ADJ", "NOUN", "SCONJ", "PRON", "VERB", "PRON", "NOUN", "PUNCT")
    spans = {(0, 1): "ann", (2, 5): "dog", (6, 7): "ann", (8, 9): "ann", (8, 10): "dog"}
    targets = tuple(
        Target(one, "1" if spans[one] == spans[other] else "0", other)
        for place, one in enumerate(spans)
        for other in list(spans)[place + 1 :]
    )
    feats = [None] * len(words)
    for place in (0, 6, 8):
        feats[place] = "Gender=Fem|Number=Sing"
    for place in (4, 9):
        feats[place] = "Gender=Neut|Number=Sing"
    layers = {"upos": upos, "feats": tuple(feats)}
    plain = Sentence.from_words(words, layers=layers, heads=(2, 0, 5, 5, 2, 8, 8, 2, 10, 8, 2))
    return Sentences([replace(plain, targets={"coref": targets})])


def test_antecedents() -> None:
    (make,) = probe("head_syntax:coreference").statistics(with_mentions())
    asked = make.keywords["arcs"]  # type: ignore[attr-defined]
    assert asked.names == ("all", "pronoun", "nominal")
    assert list(zip(asked.asked, asked.groups, strict=True)) == [(6, 0), (6, 1), (8, 0), (8, 1), (9, 0), (9, 2)]
    found = [
        list(zip(asked.answers[first:last].tolist(), asked.is_right[first:last].tolist(), strict=True))
        for first, last in zip(asked.starts, asked.starts[1:], strict=False)
    ]
    assert found[::2] == [
        [(0, True), (4, False)],
        [(0, True), (4, False), (6, True)],
        [(0, False), (4, True), (6, False), (8, False)],
    ]
    nearest, same, rule = (
        probe("head_syntax:coreference").baseline(name, ReadText(with_mentions()), ReadText(with_mentions()))[0]
        for name in ("nearest", "head_match", "rule")
    )
    assert nearest.of("all")[0, 0] == pytest.approx(1 / 3)
    assert same.of("all")[0, 0] == pytest.approx(2 / 3)
    assert same.of("nominal")[0, 0] == 1.0
    assert asked.ranks.tolist() == [*[2, 3] * 2, *[2, 3, 2] * 2, *[3, 1, 3, 3] * 2]
    assert rule.of("all")[0, 0] == 1.0


def test_predicates_and_their_core_arguments() -> None:
    targets = (
        Target((1, 2), "A0", (0, 1)),
        Target((1, 2), "A1", (2, 5)),
        Target((7, 8), "ARG1", (8, 10)),
        Target((1, 2), "AM-TMP", (5, 10)),  # no core argument
        Target((7, 8), "R-A0", (6, 7)),
    )
    text = Sentences([replace(one, targets={"srl": targets}) for one in with_mentions()])
    asked = get_probe("head_syntax:roles").with_settings({"fewest_arcs": 1})
    assert isinstance(asked, AttentionProbe)
    # The head of "the old dog" and of "her dog" is its last word.
    assert arcs_of(asked, text) == {
        "all: predicate → argument": [(1, 0), (1, 4), (7, 9)],
        "all: argument → predicate": [(0, 1), (4, 1), (9, 7)],
        "A0: predicate → argument": [(1, 0)],
        "A0: argument → predicate": [(0, 1)],
        "A1: predicate → argument": [(1, 4), (7, 9)],
        "A1: argument → predicate": [(4, 1), (9, 7)],
    }
    with pytest.raises(CorpusError, match=r"no predicate is joined to its arguments in a layer srl: .* is coref"):
        probe("head_syntax:roles").statistics(with_mentions())


def test_the_parser_is_scored_on_what_it_was_not_fitted_to(tiny_bert: Path) -> None:
    asked = get_probe("head_syntax:parser")
    assert isinstance(asked, GateProbe)
    corpus = Corpus("small", {"test": load_corpus()["test"][:60]})
    reading = ReadoutConfig(settings={"max_epochs": 4, "most_sentences": 40})
    request = ProbeRequest(tasks=(asked.task,), model=str(tiny_bert), configs={asked.task: (reading,)})
    rows = {str(row.group): row for row in run_probes(request, corpus=corpus).rows}
    assert set(rows) == {"attention", "attention and words", "next word"}
    n_words = {row.n_items for row in rows.values()}
    assert len(n_words) == 1
    for row in rows.values():
        assert (row.metric, row.head, row.layer, row.split) == ("attention_uas", None, None, "test")
        assert row.value is not None
        assert 0 < row.value < 0.9
    with pytest.raises(CorpusError, match="no word has a head"):
        run_probes(request, corpus=Corpus("bare", {"test": Sentences([Sentence.from_words(["a", "b", "c"])] * 20)}))


def test_rows(tiny_bert: Path) -> None:
    names = ("head_syntax", "head_syntax:trees", "head_syntax:coreference")
    corpus = Corpus("small", {split: load_corpus()[split][:120] for split in ("dev", "test")})
    rows = run_probes(ProbeRequest(tasks=names, model=str(tiny_bert)), corpus=corpus).rows
    for name in names:
        own = [row for row in rows if row.task == name]
        assert {row.init for row in own if row.head} == {"pretrained", "random"}
        assert {row.control for row in own if row.head is None} == {note.name for note in probe(name).baselines}
        assert {row.split for row in own if row.head} == {"dev", "test"}
        assert {row.metric for row in own} == {probe(name).scores[0].name}
        assert all(0 <= row.value <= 1 for row in own if row.value is not None)
