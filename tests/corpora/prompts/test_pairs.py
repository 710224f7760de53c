"""Minimal pairs of BLiMP and of Marvin & Linzen, and agreement items as Goldberg (2019) asked them."""

import ast
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bertology.corpora.prompts import ClozeItem, LeftOut
from bertology.corpora.prompts.pairs import read_agreement, read_minimal_pairs
from bertology.errors import CorpusError
from bertology.measures import find_metric
from bertology.measures.metrics import Grouped

PAIR = {
    "sentence_good": "Dogs  bark.",
    "sentence_bad": "Dogs barks.",
    "UID": "agreement_1",
    "pairID": "7",
    "linguistics_term": "subject_verb_agreement",
    "field": "morphology",
}


def write(path: Path, *found: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in found), encoding="utf-8")
    return path


def test_twice_the_same_sentence_cannot_be_asked(tmp_path):
    path = write(tmp_path / "a.jsonl", PAIR | {"sentence_bad": "Dogs bark."}, PAIR | {"pairID": 8})
    same, pair = read_minimal_pairs(path)
    assert same == LeftOut("agreement_1-7", "agreement_1", "the two sentences are the same")
    assert pair.id == "agreement_1-8"


def test_tables_of_multiblimp_are_read_as_they_are(tmp_path):
    lines = ["sen\twrong_sen\tphenomenon\tlang\tverb", "Gata come.\tGata comen.\tSV-#\tspa\tcomer"]
    one, both = tmp_path / "one.tsv", tmp_path / "both.tsv"
    one.write_text("\n".join(lines) + "\n", encoding="utf-8")
    both.write_text("\n".join([*lines, "Il dort.\tIl dorment.\tSV-#\tfra\tdormir"]) + "\n", encoding="utf-8")
    (item,) = read_minimal_pairs(one)
    assert (item.group, item.text, item.other) == ("SV-#", "Gata come.", "Gata comen.")
    assert [item.group for item in read_minimal_pairs(both)] == ["spa SV-#", "fra SV-#"]


def test_items_of_negative_polarity_are_two_pairs(tmp_path):
    sentences = ["no dogs that the cat likes ever bark", "the dogs that no cat likes ever bark"]
    item = {
        "case": "npi_across_anim",
        "condition": "past",
        "sentences": [*sentences, "most dogs that the cat likes ever bark"],
    }
    intrusive, other = read_minimal_pairs(write(tmp_path / "npi.jsonl", item))
    assert (intrusive.id, intrusive.group, intrusive.cluster) == ("npi-1", "npi_across_anim (intrusive)", "dog no/the")
    assert (other.id, other.group, other.cluster) == ("npi-1-third", "npi_across_anim (most, many)", "dog most/no")
    assert (intrusive.text, intrusive.other) == tuple(f"{sentence}." for sentence in sentences)
    assert (other.text, other.other.split()[0]) == (intrusive.text, "most")


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"a.jsonl:2: column 'pairID': found True; expected a text or"):
        list(read_minimal_pairs(write(tmp_path / "a.jsonl", PAIR, PAIR | {"pairID": True})))


def test_paradigms(real_data: Callable[[str], Path]) -> None:
    pairs = [pair for pair in read_minimal_pairs(real_data("blimp")) if isinstance(pair, ClozeItem)]
    groups = Counter(pair.group for pair in pairs)
    assert len(groups) == 23
    assert set(groups.values()) == {1_000}
    assert len({pair.id for pair in pairs}) == 23_000
    assert all(pair.cluster == pair.id and pair.text != pair.other for pair in pairs)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("simple_npi_anim", {"simple_npi_anim": 120, "simple_npi_anim (most, many)": 120}),
        ("npi_across_anim", {"npi_across_anim (intrusive)": 4_800, "npi_across_anim (most, many)": 4_800}),
        ("simple_agrmt", {"simple_agrmt": 140}),
        ("obj_rel_across_inanim", {"obj_rel_across_inanim": 11_200}),
    ],
)
def test_cases(real_data: Callable[[str], Path], name: str, expected: dict[str, int]) -> None:
    pairs = list(read_minimal_pairs(real_data("marvin_linzen") / "emnlp2018" / f"{name}.jsonl"))
    assert Counter(pair.group for pair in pairs) == expected
    assert len({pair.id for pair in pairs}) == len(pairs)
    for pair in pairs:
        assert isinstance(pair, ClozeItem)
        assert pair.text != pair.other
        assert ("(most, many)" in pair.group) == (pair.other.split()[0] in ("most", "many"))


COLUMNS = (
    "pattern constr_id sent_id correct_number form class type prefix n_attr punct freq len_context len_prefix sent"
)
CONSTRUCTIONS = {
    "simple": (140, 40, 120),
    "in a sentential complement": (1_680, 40, 1_440),
    "short VP coordination": (840, 40, 720),
    "long VP coordination": (400, 50, 400),
    "across a prepositional phrase": (22_400, 67, 19_440),
    "across a subject relative clause": (11_200, 40, 9_600),
    "across an object relative clause": (22_400, 67, 19_680),
    "across an object relative (no that)": (22_400, 67, 19_680),
    "in an object relative clause": (22_400, 40, 15_960),
    "in an object relative (no that)": (22_400, 40, 15_960),
    "simple reflexives": (280, 20, 280),
    "reflexives in a sentential complement": (3_360, 20, 3_360),
    "reflexives across a relative clause": (22_400, 20, 22_400),
}
"""By construction the numbers of items, of clusters, and of the items that Goldberg (2019, Table 3) scores."""


def row(
    form: str = "is", kind: str = "correct", sent: str = '"The "" key "" to x falls . <eos>"', **fields: str
) -> str:
    values = dict.fromkeys(COLUMNS.split(), "0")
    values |= {"pattern": "L", "constr_id": "3", "sent_id": "1", "form": form, "class": kind, "type": "generated"}
    values |= {"n_attr": "1", "len_prefix": "6", "sent": sent, **fields}
    return "\t".join(values.values())


def write_lines(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def table(folder: Path, *rows: str) -> Path:
    return write_lines(folder, "generated.tab", COLUMNS.replace(" ", "\t"), *rows)


def stimulus(case: str, *sentences: str, condition: str = "sing_MS_MV") -> str:
    return json.dumps({"case": case, "condition": condition, "sentences": sentences})


@pytest.mark.parametrize(
    ("case", "condition", "good", "bad", "expected"),
    [
        (
            "prep_inanim",
            "sing_IS_IV_plur_ES",
            "the television show near the chefs is old",
            "the television show near the chefs are old",
            ("the television show near the chefs {mask} old.", "is", "are", "show are/is",
             "across a prepositional phrase", 1, "the television {mask} near the chefs {mask} old."),
        ),
        (
            "obj_rel_no_comp_within_anim",
            "sing_ES_EV_plur_MS_MV",
            "the pilots the taxi driver likes swim",
            "the pilots the taxi driver like swim",
            ("the pilots the taxi driver {mask} swim.", "likes", "like", "driver like/likes",
             "in an object relative (no that)", 0, "the pilots the taxi {mask} {mask} swim."),
        ),
        (
            "of my own",
            "any",
            "both dogs bark",
            "both dogs barks",
            ("both dogs {mask}.", "bark", "barks", "bark/barks", "of my own", None, ""),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["jsonl", "sentences", "masked"])
def test_the_mask_stands_where_two_sentences_differ(tmp_path, case, condition, good, bad, expected, layout):
    forms = expected[1:3]
    masked = good.replace(f" {forms[0]}", " ***mask***")
    path = {
        "jsonl": lambda: write_lines(tmp_path, "a.jsonl", stimulus(case, good, bad, condition=condition)),
        "sentences": lambda: write_lines(tmp_path, "a.tsv", "\t".join([case, condition, good, bad])),
        "masked": lambda: write_lines(
            tmp_path, "a.tsv", "\t".join([case, condition, f"{masked.removesuffix(' .')} .", *forms])
        ),
    }[layout]()
    if case == "of my own" and layout == "sentences":  # such a table is read by naming its columns
        with pytest.raises(CorpusError, match="no columns text, good and bad among of my own"):
            list(read_agreement(path))
        return
    (pair,) = read_agreement(path)
    assert (pair.id, pair.kind) == ("a-1", "marvin_linzen")
    assert expected == (
        pair.text, pair.answer, *pair.rivals, pair.cluster, pair.group, pair.n_attractors, pair.blind
    )  # fmt: skip


def test_what_is_no_agreement_or_differs_in_more_than_one_word_is_listed(tmp_path):
    path = write_lines(
        tmp_path,
        "a.jsonl",
        stimulus("simple_npi_anim", "no dogs ever bark", "the dogs ever bark", "most dogs ever bark"),
        stimulus("simple_agrmt", "the dog barks", "the dogs bark"),
        "",
        stimulus("simple_agrmt", "the dog barks", "the dog bark loud"),
        stimulus("simple_agrmt", "the dog barks", "the  dog barks"),
    )
    assert list(read_agreement(path)) == [
        LeftOut("a-1", "simple NPI", "negative polarity, which is no agreement"),
        LeftOut("a-2", "simple", "the two sentences differ in more than one word"),
        LeftOut("a-4", "simple", "the two sentences differ in more than one word"),
        LeftOut("a-5", "simple", "the two sentences are the same"),
    ]


def test_two_rows_of_a_table_are_an_item(tmp_path):
    path = table(tmp_path, row(), row("are", "wrong"), row("a", type="original"), row("a", "wrong"))
    pair, same = read_agreement(path)
    text = 'The " key " to x {mask} .'
    more = {"answer": "is", "rivals": ("are",), "kind": "gulordava", "n_attractors": 1}
    assert pair == ClozeItem("L-3-1", "L-3", "nonce L", text, **more)
    assert pair.attractors == "1 attractor"
    assert same == LeftOut("L-3-1", "1 attractor", "the two forms are the same")


def test_natural_sentences_with_their_attractors(tmp_path):
    path = write_lines(
        tmp_path,
        "lgd_dataset.tsv",
        "2\tThe key to the cabinets of men is lost .\tThe key to the cabinets of men ***mask*** lost .\tis\tare",
        "0\tIt is .\tIt ***mask*** .\tis\tis",
    )
    pair, same = read_agreement(path)
    text = "The key to the cabinets of men {mask} lost ."
    more = {"answer": "is", "rivals": ("are",), "kind": "linzen", "n_attractors": 2}
    assert pair == ClozeItem("lgd_dataset-1", "lgd_dataset-1", "", text, **more)
    assert (pair.attractors, pair.group, pair.blind) == ("2 attractors", "", "")
    assert same == LeftOut("lgd_dataset-2", "0 attractors", "the two forms are the same")


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.jsonl", ['{"case": "c", "sentences": ["a", "b"]}'], "a.jsonl:1: column 'condition': found nothing"),
        ("a.jsonl", [stimulus("c", "a b")], r"a.jsonl:1: column 'sentences': found \['a b'\]; expected a list of"),
        ("a.tsv", ["simple_agrmt\tsing\tthe dog barks"], r"a.tsv: no columns text, good and bad among simple_agrmt"),
        ("a.tsv", ["", "1\ta\tb ***mask***\tis"], r"a.tsv:2: found '1 a b \*\*\*mask\*\*\* is'"),
        ("a.tab", ["a\tb"], "a.tab:1: found 'a, b'; expected a column pattern,"),
        ("a.txt", ["a"], r"a.txt: no agreement items there; agreement items are in files of .csv or .parquet or"),
    ],
)
def test_what_is_wrong_with_agreement_items_is_named(tmp_path, name, lines, message):
    with pytest.raises(CorpusError, match=message):
        list(read_agreement(write_lines(tmp_path, name, *lines)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(kind="wrong")], "generated.tab:2: column 'class': found 'wrong'; expected correct: an item"),
        ([row(), row()], "generated.tab:3: column 'class': found 'correct'; expected wrong: an item"),
        ([row()], "generated.tab:2: column 'class': found 'correct'; expected a wrong row"),
        ([row(form="")], "generated.tab:2: column 'form': found nothing; expected a text"),
        (
            [row(len_prefix="8"), row("are", "wrong")],
            r"generated.tab:3: columns n_attr and len_prefix: found \['1', '8'\]; expected two numbers",
        ),
    ],
)
def test_what_is_wrong_in_a_table_is_named(tmp_path, rows, message):
    with pytest.raises(CorpusError, match=message):
        list(read_agreement(table(tmp_path, *rows)))


def test_a_folder_has_files_of_one_kind(tmp_path):
    with pytest.raises(CorpusError, match=r"no such file or folder; agreement items are in files"):
        list(read_agreement(tmp_path / "none"))
    with pytest.raises(CorpusError, match=r"no agreement items there; agreement items are in files of .csv"):
        list(read_agreement(tmp_path))
    (tmp_path / "below").mkdir()
    write_lines(tmp_path / "below", "b.jsonl", stimulus("vp_coord", "the a b and c", "the a b and d"))
    write_lines(tmp_path / "below", "a.jsonl", stimulus("simple_agrmt", "the a b", "the a c"))
    assert [pair.id for pair in read_agreement(tmp_path)] == ["a-1", "b-1"]
    table(tmp_path / "below", row())
    with pytest.raises(CorpusError, match=r"files of several kinds \(a.jsonl, b.jsonl, generated.tab …\); name one of"):
        list(read_agreement(tmp_path))


def test_marvin_and_linzen_as_goldberg_counts_them(real_data: Callable[[str], Path]) -> None:
    found = list(read_agreement(real_data("marvin_linzen")))
    assert Counter(pair.reason for pair in found if isinstance(pair, LeftOut)) == {
        "negative polarity, which is no agreement": 120 + 144 + 4_800 + 5_760
    }
    pairs = [pair for pair in found if isinstance(pair, ClozeItem)]
    items, scored, frames = Counter[str](), Counter[str](), dict[str, set[str]]()
    for pair in pairs:
        # His stimuli have nine of the ten inanimate subjects (no television shows), and swims and admires, which are
        # not in the vocabulary of BERT, are not scored.
        scored[pair.group] += not (
            {pair.answer, *pair.rivals} & {"swims", "admires"} or pair.text.startswith("the televis")
        )
        items[pair.group] += 1
        frames.setdefault(pair.group, set()).add(pair.cluster)
        assert pair.text.endswith(".")
        assert (pair.text.count("{mask}"), pair.blind.count("{mask}") in (2, 3)) == (1, True)
    found_numbers = {name: (items[name], len(frames[name]), scored[name]) for name in frames}
    assert {name: of[:2] for name, of in found_numbers.items()} == {name: of[:2] for name, of in CONSTRUCTIONS.items()}
    for name in list(CONSTRUCTIONS)[:11]:
        assert found_numbers[name] == CONSTRUCTIONS[name]
    assert Counter(pair.n_attractors for pair in pairs) == {0: 152_300 - 50_400, 1: 50_400}
    assert len(set().union(*frames.values())) == 167


@dataclass(frozen=True)
class Golden:
    """A line of Goldberg's results: forms, logits (NaN where skipped), attractors and text where scored."""

    forms: tuple[str, str]
    logits: tuple[float, float] = (math.nan, math.nan)
    n_attractors: int | None = None
    text: str = ""
    copula: bool = False


def golden(path: Path) -> list[Golden]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(("True", "False")):
            right, attractors, good, score, bad, rival, text = line.split("\t")
            assert (right == "True") == (float(score) > float(rival))
            plain = ast.literal_eval(text).decode("utf-8").replace("***mask***", "{mask}")
            found.append(Golden((good, bad), (float(score), float(rival)), int(attractors), plain))
        elif line == "skipping is/are":
            found.append(Golden(("is", "are"), copula=True))
        elif line.startswith("skipping"):
            found.append(Golden((line.split()[1], line.split()[2])))
    return found


@pytest.mark.parametrize(("model", "right"), [("base", 319), ("large", 305)])
def test_logits_of_goldberg_give_his_scores(real_data: Callable[[str], Path], model: str, right: int) -> None:
    folder = real_data("bert_syntax")
    pairs = [pair for pair in read_agreement(folder) if isinstance(pair, ClozeItem)]
    results = golden(folder / "results" / f"gulordava_results_{model}.txt")
    assert len(pairs) == len(results) == 410
    for pair, result in zip(pairs, results, strict=True):
        assert (
            {pair.answer, *pair.rivals} == set(result.forms)
            if result.copula
            else (pair.answer, *pair.rivals) == result.forms
        )
        if result.text:
            assert (pair.text.lower(), pair.n_attractors) == (result.text, result.n_attractors)
    logits = np.array([result.logits for result in results]).T
    assert np.isnan(logits).sum(axis=1).tolist() == [27, 27]
    frames = sorted({pair.cluster for pair in pairs})
    items = Grouped(
        np.array([frames.index(pair.cluster) for pair in pairs]),
        np.array([pair.n_attractors for pair in pairs]),
        len(frames),
        3,
    )
    counts = items.count_choices(logits[:1], logits[1:])
    assert len(frames) == 41
    assert counts.sum(axis=(1, 2))[0, :3].tolist() == [383, right, 383]
    assert find_metric("micro_choice_accuracy")(counts.sum(axis=1)).tolist() == [pytest.approx(right / 383)]
