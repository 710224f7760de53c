"""Keys of MISC, places of sentences in documents and their order: by hand, planted, and with nothing to find."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertology.corpora import Corpus, Sentence, Sentences, load_corpus
from bertology.corpora._derived import sentence_order
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow
from tests.probes.conftest import check_chance

GUM = """# newdoc id = one
# sent_id = one-1
1\tIf\t_\tSCONJ\t_\t_\t2\tmark\t_\tDiscourse=adversative-antithesis:57->56:2:lex|Entity=(1-person
2\tasked\t_\tVERB\t_\t_\t0\troot\t_\tEntity=1)|SpaceAfter=No
3\t,\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_
4\tgo\t_\tVERB\t_\t_\t2\tdep\t_\tDiscourse=joint:58->57|Bridge=173<188|Head

# sent_id = one-2
1\tWell\t_\tINTJ\t_\t_\t0\troot\t_\tBridge=2<1

"""


def labels(task: str, sentences: Sentences) -> list[str]:
    found = get_probe(task).examples(sentences)
    return [found.values[code] for code in found.codes.tolist()]


def test_keys_of_misc_and_what_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "gum.conllu").write_text(GUM)
    (text,) = load_corpus(tmp_path / "gum.conllu").splits.values()
    assert labels("misc:Discourse", text) == ["adversative-antithesis", "joint"]
    assert labels("misc:Bridge:any", text) == ["no", "no", "no", "yes", "yes"]
    assert labels("misc:Head", text) == ["Head"]
    for task, message in (
        (
            "misc:Entity",
            r"key 'Entity' of MISC opens and closes spans \('\(1-person'\): ask which words have it, misc:Ent",
        ),
        (
            "misc:Bridge",
            r"'Bridge' of MISC has '173<188', whose part before the colon has no letter .* misc:Bridge:any",
        ),
        ("misc:Bridg", "no word has the key 'Bridg' in MISC: the keys are Bridge, Discourse, Entity, Head, SpaceAfter"),
    ):
        with pytest.raises(CorpusError, match=message):
            get_probe(task).examples(text)
    with pytest.raises(CorpusError, match="no word has any; give a treebank in CoNLL-U"):
        get_probe("misc:Discourse").examples(Sentences([Sentence.from_words(["one"])]))
    with pytest.raises(BertologyError, match="misc:Bridge:all: after the key may stand :any"):
        get_probe("misc:Bridge:all")
    with pytest.raises(BertologyError, match="needs a key of MISC after a colon, such as misc:Discourse"):
        get_probe("misc")


def document(name: str, *texts: str) -> list[Sentence]:
    return [
        replace(Sentence.from_words(text.split()), id=f"{name}-{number}", group=name)
        for number, text in enumerate(texts)
    ]


def test_fifths_of_documents_and_what_is_left_out() -> None:
    text = [*document("a", *"tuvwxyz"), *document("b", *"xyz"), *document("c", *"tuvwxyz")]
    assert labels("sentence_position", Sentences(text)) == ["1", "1", "2", "3", "3", "4", "5"]
    skipped = get_probe("sentence_position").examples(Sentences(text)).skipped
    assert skipped == {"document of fewer than five sentences": 3, "document that may be cut short": 7}
    with pytest.raises(CorpusError, match="no document has five sentences, the last one apart: give a treebank with"):
        get_probe("sentence_position").examples(Sentences(text[7:]))


def test_pairs_of_neighbours_half_of_them_exchanged() -> None:
    text = Sentences([*document("a", "a b", "c", "d", "e", "f"), *document("b", "g h", "i"), *document("c", "j")])
    order = sentence_order(Corpus("some", {"test": text}))["test"]
    written = {"a b c", "d e", "g h i"}
    assert [one.id for one in order] == ["a-0", "a-2", "b-0"]
    found = labels("sentence_order", order)
    assert sorted(found) == ["as written", "as written", "exchanged"]
    assert [one.text in written for one in order] == [label == "as written" for label in found]
    spans = get_probe("sentence_order").examples(order).spans
    assert spans[:, 0, 1].tolist() == spans[:, 1, 0].tolist()
    with pytest.raises(CorpusError, match="sentence_order:pocket: no document of two sentences; give a treebank with"):
        load_corpus("sentence_order:pocket")
    with pytest.raises(CorpusError, match="give a treebank with documents as sentence_order:CORPUS"):
        get_probe("sentence_order").examples(text)


@pytest.mark.parametrize("task", ["sentence_position", "sentence_order", "misc:Mark"])
def test_what_is_planted_is_found_and_nothing_else(
    task: str, planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    """Sentences in order of the label of their first word, or of words at random, in documents of five or two."""

    def corpus(*, signal: bool) -> Corpus:
        dice, splits = np.random.default_rng(1), {}
        whole = planted("misc", ("Mark=a:1->2", "Mark=b:2->3"), signal=signal)
        if task == "misc:Mark":
            return whole
        n = 5 if task == "sentence_position" else 2
        words = sorted({word for one in whole["train"] for word in one.words})
        for split, size in (("train", 80), ("dev", 30), ("test", 60)):
            texts = [
                " ".join(dice.choice(words[place * 4 : place * 4 + 4] if signal else words, 6))
                for _ in range(size)
                for place in range(n)
            ]
            groups = [document(f"{split}{first}", *texts[first : first + n]) for first in range(0, len(texts), n)]
            splits[split] = Sentences(one for group in groups for one in group)
        made = Corpus("documents", splits)
        return made if task == "sentence_position" else sentence_order(made)

    chance = 0.2 if task == "sentence_position" else 0.5
    value = ask(task, corpus(signal=True))["accuracy"].value
    assert value is not None
    assert value > 0.95
    check_chance(ask(task, corpus(signal=False))["accuracy"], chance)
