"""The sets of Ettinger, documents, and items made by rule."""

import re
from collections import Counter
from pathlib import Path

import pytest

from bertology.corpora.prompts.sets import (
    Document,
    addition_items,
    affordance_items,
    comparison_items,
    decode_items,
    maximum_items,
    number_word,
    read_diagnostics,
    read_documents,
    things,
)
from bertology.errors import CorpusError, NameNotFoundError

CPRAG = "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
ROLE = "item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)\n"
SIMPLE = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"
NATURAL = SIMPLE.replace("\n", "\tlicensing\n")


def _written(folder: Path, text: str, name: str = "any.tsv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_items_of_each_set(tmp_path):
    _written(tmp_path, CPRAG + "0\tIt rained.\tShe took an\tumbrella\tcoat\tdog\tH\r\n", "a/cprag.tsv")
    _written(tmp_path, ROLE + "6-a\twhich man the dog had \tbitten|worked for\t0.5\tbitten\t0.5\t0\n", "b/x.tsv")
    _written(tmp_path, SIMPLE + "3\tAn ant is (a|an)\tAn ant is not (a|an)\tinsect\tbird\n\n", "b/y.tsv")
    _written(tmp_path, NATURAL + "3\tTea is\tTea isn't\tgood\tbad\tN\n", "b/z.tsv")
    _written(tmp_path, "0\tno column names\n", "b/explanations.tsv")
    found = read_diagnostics(tmp_path)
    (cprag,), (role,), (simple,), (natural,) = found.values()
    assert list(found) == ["CPRAG-102", "ROLE-88", "NEG-136-SIMP", "NEG-136-NAT"]
    assert (cprag["item"], cprag["context_s2"], cprag["constraint"]) == ("cprag-0", "She took an", "high")
    assert (role["item"], role["pair"], role["context"]) == ("role-6-a", "role-6", "which man the dog had")
    assert (role["expected"], role["target"]) == ("bitten|worked for", "bitten")
    assert (simple["item"], simple["context_neg"], simple["target_neg"]) == ("simple-3", "An ant is not (a|an)", "bird")
    assert "licensing" not in simple
    assert (natural["item"], natural["licensing"]) == ("natural-3", "not licensed")
    alone = read_diagnostics(tmp_path / "b" / "y.tsv")
    assert [len(rows) for rows in alone.values()] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CPRAG + "0\tA.\tb\tc\td\te\n", "any.tsv:2: found '6 values'; expected 7, one for"),
        (CPRAG + "0\tA.\tb\tc\t\te\tH\n", "any.tsv:2: column 'within_category': found nothing; expected a text"),
        (CPRAG, r"any.tsv: no item in it, only column names"),
        (ROLE + "6-a\ta had\t|\t1\tb\t1\t1\n", r"any.tsv:2: column 'expected': found '\|'; expected words with"),
        ("item\tcontext\n", r"any.tsv: no columns .* among item, context, nor those of CPRAG-102, ROLE-88, .*; name"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        read_diagnostics(_written(tmp_path, text))


def test_two_files_of_one_set_and_no_file(tmp_path):
    for name in ("one.tsv", "two.tsv"):
        _written(tmp_path, SIMPLE + "3\tA is (a|an)\tA is not (a|an)\tb\tc\n", name)
    with pytest.raises(CorpusError, match=r"one.tsv and .*two.tsv both hold NEG-136-SIMP; keep one"):
        read_diagnostics(tmp_path)
    with pytest.raises(CorpusError, match=r"three.tsv: no such file"):
        read_diagnostics(tmp_path / "three.tsv")


def test_the_sets(real_data):
    found = read_diagnostics(real_data("lm_diagnostics"))
    assert [len(rows) for rows in found.values()] == [34, 88, 18, 16]
    assert sum(row["constraint"] == "high" for row in found["CPRAG-102"]) == 18
    assert sum(row["licensing"] == "licensed" for row in found["NEG-136-NAT"]) == 8
    roles = {row["item"]: row for row in found["ROLE-88"]}
    for second in (row for name, row in roles.items() if name.endswith("-b")):
        first = roles[f"{second['pair']}-a"]
        assert first["target"] == second["target"]
        assert {*first["context"].split()} == {*second["context"].split()}


ROW = "1\t{}\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


def _treebank(path: Path, *sentences: tuple[str, str]) -> Path:
    path.write_text("".join(comments + ROW.format(word) for comments, word in sentences), encoding="utf-8")
    return path


def test_documents_told_by_a_comment(tmp_path):
    path = _treebank(
        tmp_path / "x.conllu",
        ("# sent_id = a-1\n", "one"),
        ("# sent_id = a-2\n", "two"),
        ("# newdoc id = story\n# sent_id = a-3\n", "three"),
        ("# newdoc\n# sent_id = a-4\n", "four"),
        ("# newdocument of sorts\n# sent_id = b-5\n", "five"),
    )
    assert read_documents(path) == (
        Document("document-1", ("one", "two")),
        Document("story", ("three",)),
        Document("document-3", ("four", "five")),
    )


def test_documents_told_by_the_names_of_sentences(tmp_path):
    names = ("a.b-0001", "a.b-0002", "c_s1", "c_s2")
    path = _treebank(tmp_path / "x.conllu", *((f"# sent_id = {name}\n", name) for name in names))
    assert [document.id for document in read_documents(path)] == ["a.b", "c"]
    assert [document.sentences for document in read_documents(path)] == [names[:2], names[2:]]


def test_test_comes_before_dev_and_train(tmp_path):
    for split in ("train", "dev", "test"):
        names = [f"{split}{document}-{number}" for document in "ab" for number in (1, 2)]
        _treebank(tmp_path / f"x-{split}.conllu", *((f"# sent_id = {name}\n", name) for name in names))
    assert read_documents(tmp_path)[0].id == "testa"
    (tmp_path / "x-test.conllu").unlink()
    assert read_documents(tmp_path)[0].id == "deva"


def test_a_blank_line_parts_documents_of_text(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("\nIt  rains.\nIt pours.\n\n\nThe end.\nIs near.")
    assert read_documents(path) == (
        Document("book-2", ("It rains.", "It pours.")),
        Document("book-6", ("The end.", "Is near.")),
    )


def test_one_document_is_too_few(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("It rains.\nIt pours.\n\nThe end.\n")
    with pytest.raises(CorpusError, match=r"book.txt: no two documents of several sentences in it; part .* blank line"):
        read_documents(path)
    treebank = _treebank(tmp_path / "x.conllu", ("# sent_id = a-1\n", "one"), ("# sent_id = a-2\n", "two"))
    with pytest.raises(CorpusError, match=r"no two documents of several sentences in it; mark .* # newdoc"):
        read_documents(treebank)
    with pytest.raises(NameNotFoundError):
        read_documents("nowhere")


def test_treebanks(real_data):
    documents = read_documents(real_data("ud_english_ewt"))
    assert (len(documents), sum(len(document.sentences) for document in documents)) == (316, 2_077)
    with pytest.raises(CorpusError, match="no two documents of several sentences"):
        read_documents(real_data("ud_german_gsd"))


def test_digits_of_every_number():
    items = decode_items()
    assert Counter(item.group for item in items) == {"0 to 9": 30, "10 to 19": 30, "20 to 99": 240}
    for item in items:
        assert number_word(int(item.answer)) in item.text.lower()
        assert number_word(int(item.answer)) not in re.findall(r"[a-z-]+", item.blind.lower())
        assert item.blind.count("{mask}") == 2
        assert len({item.answer, *item.rivals}) == 4
        assert {len(rival) for rival in item.rivals} == {len(item.answer)}


def test_largest_and_smallest_of_lists():
    items = maximum_items()
    assert set(Counter(item.group for item in items).values()) == {60}
    places = {2: Counter(), 3: Counter(), 5: Counter()}
    for item in items:
        numbers = [int(number) for number in re.findall(r"\d+", item.text)]
        right = max(numbers) if "largest" in item.group else min(numbers)
        assert (int(item.answer), {int(rival) for rival in item.rivals}) == (right, {*numbers} - {right})
        assert len({*numbers}) == len(numbers)
        assert not re.search(r"\d", item.blind)
        if "largest" in item.group:
            places[len(numbers)][numbers.index(right)] += 1
    assert [sorted(counts.values()) for counts in places.values()] == [[30, 30], [20, 20, 20], [12] * 5]


def test_sums():
    items = addition_items()
    assert Counter(item.group for item in items) == {"0 to 9": 72, "10 to 19": 100, "20 to 99": 100}
    for item in items:
        one, other = map(int, re.findall(r"\d+", item.text))
        assert int(item.answer) == one + other
        assert item.cluster == item.answer
        assert one
        assert other
        assert {abs(int(rival) - one - other) for rival in item.rivals} <= {1, 2, 10}
        assert len({*item.rivals}) == 3
        assert item.group.split(" to ")[1] >= item.answer or len(item.answer) == 1


def test_chance_is_the_seed_s(tmp_path):
    from bertology.corpora.prompts.sets import check_made, drawn_order, shuffled_words

    assert drawn_order("abcdef", "seed") == drawn_order("abcdef", "seed") != drawn_order("abcdef", "other")
    assert sorted(drawn_order("abcdef", "seed")) == list("abcdef")
    assert all(shuffled_words(["a", "b"], str(seed)) == ["b", "a"] for seed in range(20))
    with pytest.raises(ValueError, match="'a a' has no other order"):
        shuffled_words(["a", "a"], "seed")
    check_made("made", pocket="none")
    with pytest.raises(CorpusError, match=r"^none; give made for the corpus"):
        check_made("pocket", pocket="none")
    with pytest.raises(CorpusError, match="read from no file; give made for the corpus"):
        check_made(str(tmp_path), pocket="none")


@pytest.mark.parametrize(("by", "more"), [("size", "larger"), ("weight", "heavier")])
def test_pairs_are_far_apart_and_asked_both_ways(by, more):
    measure = {name: of[by] for name, of in things().items()}
    items = comparison_items(by)
    assert len(items) > 200
    for item in items:
        first, second = item.id.split("-")[:2]
        high, low = max(first, second, key=measure.get), min(first, second, key=measure.get)
        assert measure[high] >= 10 * measure[low]
        assert (item.answer == more) == (high == first)
        assert first in item.text.lower()
        assert second in item.text.lower()
        assert not {first, second} & {*item.blind.lower().replace(".", "").split()}
    assert {*Counter(item.answer for item in items).values()} == {len(items) / 2}
    assert {*Counter(item.cluster for item in items).values()} == {6}


def test_affordances_are_exchanged():
    items = affordance_items()
    assert len(items) == 240
    by_frame = {}
    for item in items:
        by_frame.setdefault(item.cluster, set()).add((item.id.split("-")[0], item.answer, *item.rivals))
    for (one, answer, rival), (other, *exchanged) in by_frame.values():
        assert one != other
        assert exchanged == [rival, answer]
    names = [name for frame in by_frame for name in frame.split()]
    assert len(names) == len({*names}) == 80
    assert {*Counter(item.answer for item in items).values()} == {24}
