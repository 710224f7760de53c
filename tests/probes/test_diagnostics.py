from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bertology import probe
from bertology.cloze import ClozeItem, Prompt, ask
from bertology.encoders import load_encoder
from bertology.errors import BertologyError, CorpusError
from bertology.pocket import model_folder
from bertology_probes.diagnostics import PROBE, ReplacedNames

SETS = {
    "cprag": """item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint
0\tIt rained all day.\tShe took her\tumbrella\tcoat\tdog\tH
1\tIt barked at her.\tShe liked the\tdog\tcat\tcoat\tL
2\tHe was thirsty.\tHe drank some\twater\tmilk\tsoup\tH
""",
    "role": """item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)
6-b\tI forgot which waitress the customer had \ttipped|worked for|worked with\t0.2\tserved\t0.1\t0
6-a\tI forgot which customer the waitress had \tserved\t0.3\tserved\t0.3\t0.3
7-b\tI know who did it\tdone\t0.3\tdone\t0.3\t0.3
""",
    "simple": """item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg
0\tA trout is (a|an)\tA trout is not (a|an)\tfish\ttool
1\tAn ant is (a|an)\tAn ant is not (a|an)\tinsect\tvegetable
""",
    "natural": """item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing
0\tOld computers may be\tOld computers may not be\tslow\tfast\tY
1\tRockets are very\tRockets aren't very\tfast\tslow\tN
""",
}


@pytest.fixture
def sets(tmp_path: Path) -> str:
    """A folder with a few items of each."""
    for name, text in SETS.items():
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    return str(tmp_path)


def _items(kind: str, source: str) -> dict[str, ClozeItem]:
    return {item.id: item for item in PROBE.make(kind).items(source).items}


def test_common_sense(sets):
    items = _items("cprag", sets)
    first = items["cprag-0"]
    assert first.text == "It rained all day. She took her {mask}."
    assert first.blind == "She took her {mask}."
    assert (first.answer, first.rivals, first.group) == ("umbrella", ("coat", "dog"), "high constraint")
    # The first two share words, the third has its own.
    assert [item.cluster for item in items.values()] == ["cprag-0", "cprag-0", "cprag-2"]


def test_roles(sets):
    found = PROBE.make("role").items(sets)
    (item,) = found.items
    assert (item.text, item.other, item.answer) == (
        "I forgot which customer the waitress had {mask}.",
        "I forgot which waitress the customer had {mask}.",
        "served",
    )
    assert [(left.id, left.reason) for left in found.left_out] == [
        ("role-7-b", "no item with the roles the other way about")
    ]


def test_negation_and_its_articles(sets):
    found = PROBE.make("negation").items(sets)
    asked = {item.id: (item.group, item.text, item.answer, item.rivals) for item in found.items}
    assert asked["simple-0-affirmative"] == ("affirmative simple", "A trout is a {mask}.", "fish", ("tool",))
    assert asked["simple-0-negated"] == ("negated simple", "A trout is not a {mask}.", "tool", ("fish",))
    assert asked["natural-0-negated"] == (
        "negated natural (licensed)", "Old computers may not be {mask}.", "fast", ("slow",),
    )  # fmt: skip
    assert asked["natural-1-affirmative"][0] == "affirmative natural (not licensed)"
    assert not found.left_out
    apart = next(item for item in found.items if item.id == "simple-1-affirmative")
    assert (apart.text, apart.other) == ("An ant is an {mask}.", "An ant is a {mask}.")
    assert (apart.answer, apart.rivals) == ("insect", ("vegetable",))
    assert not next(item for item in found.items if item.id == "simple-0-affirmative").other
    assert len({item.cluster for item in found.items if item.id.startswith("natural")}) == 1


def test_shuffled_and_cut_short(sets):
    shuffled = _items("shuffled", sets)
    assert len(shuffled) == 5 * (3 + 3)
    for item in shuffled.values():
        assert item.other != item.text
        assert Counter(item.other.replace(".", "").split()) == Counter(item.text.replace(".", "").split())
        assert item.other.split()[-2:] == item.text.split()[-2:]
    assert shuffled["cprag-0-1"].other.endswith(". She took her {mask}.")
    cut = PROBE.make("truncated").items(sets)
    others = {item.id: item.other for item in cut.items}
    assert others["cprag-0-second"] == "She took her {mask}."
    assert others["cprag-0-end"] == "It rained all day. took her {mask}."
    assert others["role-6-a"] == "which customer the waitress had {mask}."
    assert [left.id for left in cut.left_out] == ["role-7-b"]


def test_a_role_taken_away_and_a_sentence_negated(sets):
    assert _items("no_subject", sets)["role-6-a"].other == "I forgot which customer the other had {mask}."
    assert _items("no_object", sets)["role-6-a"].other == "I forgot which one the waitress had {mask}."
    assert PROBE.make("no_object").items(sets).reasons == {"its form is not 'which … the … had'": 1}
    negated = _items("negated", sets)
    assert (negated["simple-1"].text, negated["simple-1"].other) == ("An ant is an {mask}.", "An ant is not an {mask}.")
    assert [item.group for item in negated.values()] == [
        "simple", "simple", "natural (licensed)", "natural (not licensed)",
    ]  # fmt: skip


def test_what_there_is_not(sets):
    with pytest.raises(BertologyError, match="task diagnostics:reversed: it should be one of cprag, role, "):
        PROBE.make("reversed")
    with pytest.raises(CorpusError, match="NEG-136-SIMP there, but ROLE-88 needed; give its file or folder"):
        PROBE.make("role").items(f"{sets}/simple.tsv")
    for kind in ("cprag", "role_words"):
        with pytest.raises(CorpusError, match=r"the pocket world does not decide it; give [A-Z]+-\d+"):
            PROBE.make(kind).items("pocket")


@pytest.mark.parametrize(
    ("kind", "sizes", "clusters"),
    [
        ("cprag", [18, 16], 10),
        ("role", [44], 44),
        ("role_words", [44, 44], 44),
        ("negation", [18, 18, 8, 8, 8, 8], 18),
        ("shuffled", [170, 440], 78),
        ("truncated", [34, 34, 88], 78),
        ("no_subject", [88], 44),
        ("no_object", [88], 44),
        ("negated", [18, 8, 8], 34),
    ],
)
def test_the_sets(real_data, kind, sizes, clusters):
    found = PROBE.make(kind).items(str(real_data("lm_diagnostics")))
    found.check(PROBE.make(kind).asks)
    assert sorted(Counter(item.group for item in found.items).values()) == sorted(sizes)
    assert len({item.cluster for item in found.items}) == clusters
    assert not found.left_out


@pytest.mark.parametrize(
    ("kind", "groups", "clusters"),
    [
        ("role", {"role reversal": 424}, 106),
        ("negation", {"affirmative": 99, "negated": 99}, 99),
        ("shuffled", {"facts": 495}, 99),
        ("truncated", {"facts": 99}, 99),
        ("no_subject", {"verbs": 424}, 106),
        ("no_object", {"verbs": 424}, 106),
        ("negated", {"facts": 99}, 99),
    ],
)
def test_the_pocket_world(kind, groups, clusters):
    probe = PROBE.make(kind)
    assert probe.task == f"diagnostics:{kind}"
    found = probe.items("pocket")
    assert Counter(item.group for item in found.items) == groups
    assert len({item.cluster for item in found.items}) == clusters
    found.check(probe.asks)
    for item in found.items:
        assert item.text.count("{mask}") == 1
        assert item.other.count("{mask}") == (0 if probe.asks == "choices" else 1)
        assert item.other != item.text


def test_pocket_bert_knows_facts_and_roles_and_passes_over_a_not():
    rows = probe(["diagnostics:negation", "diagnostics:role"], layers=[4], controls=[]).to_pandas()
    rows = rows[rows.metric == "choice_accuracy"]
    known = rows.set_index("group").value
    assert known["affirmative"] > 0.95
    assert known["negated"] < 0.05
    assert rows[rows.task == "diagnostics:role"].value.item() > 0.9


NAMED = "Anna/B-PER saw/O Tom/B-PER ,/O and/O Anna/B-PER thanked/O him/O|the/O farmers/O like/O Mary/B-PER Ann/I-PER|"
NAMED += "Rose/B-PER sold/O it/O|Will/B-PER !/O|"


def named(folder: Path) -> str:
    path = folder / "some.conll"
    path.write_text(NAMED.replace("/", "\t").replace(" ", "\n").replace("|", "\n\n"))
    return str(path)


def test_names_are_replaced_by_others_of_their_type(tmp_path: Path) -> None:
    items = ReplacedNames().items(named(tmp_path))
    first, rose = items.items
    # Four first names are known; the one name of two words has no other.
    before, after = (text.replace("{mask}", "thanked").split() for text in (first.text, first.other))
    assert before == ["Anna", "saw", "Tom", ",", "and", "Anna", "thanked", "him"]
    new = {old: other for old, other in zip(before, after, strict=True) if old != other}
    assert new.keys() == {"Anna", "Tom"}
    assert set(new.values()) == {"Rose", "Will"}
    assert after == [new.get(word, word) for word in before]
    assert first.group == rose.group == "PER"
    assert rose.text == "Rose {mask} it"
    assert rose.other.split()[0] in {"Anna", "Tom", "Will"}
    assert {(left.id, left.reason) for left in items.left_out} == {
        ("test-2-PER-2", "too few other names of its type"),
        ("test-4-PER-1", "no word to predict"),
    }
    assert ReplacedNames().items(named(tmp_path)).fingerprint == items.fingerprint


def test_names_of_pocket_are_replaced() -> None:
    items = ReplacedNames().items("pocket")
    assert set(items.groups) == {"PER", "LOC", "ORG"}
    assert len(items) > 400
    assert all(len(item.text.split()) == len(item.other.split()) for item in items.items)


SCHEMAS = """Mary helps Lucy but she sleeps.
she
Mary,Lucy
Mary

Tom likes Adam, as he and Tom work.
he
Tom,Adam
Adam

The dog saw Rose and she was sad.
she
The dog,Rose
Rose

"""


def test_two_names_change_places_and_choices_are_compared_by_place(tiny_bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.c.txt"
    path.write_text(SCHEMAS)
    items = ReplacedNames().items(str(path))
    assert items.clusters == "pairs of names"
    women, men = items.items
    assert (women.text, women.other) == ("Mary helps Lucy but {mask} sleeps.", "Lucy helps Mary but {mask} sleeps.")
    assert (men.text, men.other) == (
        "Tom likes Adam, as {mask} and Tom work.",
        "Adam likes Tom, as {mask} and Adam work.",
    )
    assert (women.rivals, women.accepted) == (("Mary", "Lucy"), ("Lucy", "Mary"))
    for model, last in ((tiny_bert, 3), (model_folder(), 4)):
        found = probe("diagnostics:replaced_names", model=model, corpus=str(path), layers=[0, last], controls=[])
        moved = {row.layer: row.value for row in found.rows if row.metric == "moved" and row.group is None}
        # Word vectors without context choose the same name in both texts, which stands in the other place.
        assert moved[0] == 1
        both = [((item.text, item.rivals), (item.other, item.accepted)) for item in items.items]
        prompts = [Prompt(*one) for pair in both for one in pair]
        scores = ask(load_encoder(str(model)), prompts)
        places = [int(scores.of(number)[0].argmax()) for number in range(len(prompts))]
        assert moved[last] == np.mean([one != other for one, other in zip(places[::2], places[1::2], strict=True)])
    assert moved[last] == 0.5  # as the pocket model reads these two
    path.write_text(SCHEMAS.partition("Tom,Adam\nAdam\n\n")[2])
    with pytest.raises(CorpusError, match=r"no sentence has names to replace; give a corpus with entities, or coref"):
        ReplacedNames().items(str(path))
