"""What a model says of items, where spelling and place decide which entry a word is."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bertology.activations.progress import silent
from bertology.cloze import ClozeItem, ClozeItems, Prompt, ask
from bertology.cloze.family import Asked
from bertology.cloze.prompts import vocabulary_ids
from bertology.encoders import Encoder, load_encoder
from tests.cloze.conftest import encoder as encoder
from tests.cloze.conftest import tiny as tiny

TEXT = "The {mask} sees the king ."


def item(number: int, text: str = TEXT, answer: str = "dog", **more: object) -> ClozeItem:
    return replace(ClozeItem(f"i{number}", f"c{number}", "g", text, answer), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["roberta", "modernbert", "bert"])
def test_words_of_a_vocabulary_are_the_entries_they_are_at_their_place(
    encoder: Callable[[str], Encoder], family: str
) -> None:
    ours = encoder(family)
    texts = ("it is the {mask} of it", "{mask} of it", "she said ({mask})")
    words = ("day", "fox", "over", "lazy")
    items = tuple(item(number, text, "day") for number, text in enumerate(texts))
    asked = ClozeItems(items, vocabularies={"g": words})
    found = Asked(ours, (ours.n_layers,)).answers("answers", asked, silent)
    for number, text in enumerate(texts):
        before = text.partition("{mask}")[0]
        entries = vocabulary_ids(ours, words, before=before)
        if not len(entries):
            assert found.reason[number] == "no word of the vocabulary is a single piece there"
            continue
        own = ask(ours, [Prompt(text, ("day",))], ranks=True, vocabulary=entries.tolist())
        if not own.excluded:
            assert not found.reason[number]
            assert found.rank[0, number] == own.ranks_of(0)[0, 0]
            assert found.score[0, number] == pytest.approx(own.of(0)[0, 0], abs=1e-6)


def test_other_right_answers_take_one_place_each_however_often_they_are_named() -> None:
    ours = load_encoder("pocket")
    asking = Asked(ours, (ours.n_layers,))
    best = ask(ours, [Prompt(TEXT)], top=6).top_ids[0, 0]
    first, second, third, _, fifth, _ = ours.tokenizer.convert_ids_to_tokens(best.tolist())
    ignored = [(), (first,), (first, first), (first, first.upper()), (first, second, third), (fifth,)]
    items = tuple(item(n, answer=fifth, ignored=words) for n, words in enumerate(ignored))
    found = asking.answers("answers", ClozeItems(items), silent)
    assert found.rank[0].tolist() == [5, 4, 4, 4, 2, 5]
    accepted = ClozeItems((item(0, answer=fifth, accepted=(second,)), item(1, answer=fifth, accepted=("zzqq",))))
    assert asking.answers("answers", accepted, silent).rank[0].tolist() == [2, 5]


def test_rivals_may_stand_in_a_text_of_their_own() -> None:
    ours = load_encoder("pocket")
    asking = Asked(ours, (0, ours.n_layers))
    other = "The {mask} see the king ."
    found = asking.answers("choices", ClozeItems((item(0, rivals=("king", "cat"), other=other),)), silent)
    right = ask(ours, [Prompt(TEXT, ("dog",))], layers=(0, ours.n_layers)).values[:, 0]
    wrong = ask(ours, [Prompt(other, ("king", "cat"))], layers=(0, ours.n_layers)).values
    np.testing.assert_allclose(found.score[:, 0], right, rtol=1e-5)
    np.testing.assert_allclose(found.rival[:, 0], wrong.max(axis=1), rtol=1e-5)
