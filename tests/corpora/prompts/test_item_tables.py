"""Tables of cloze items: their columns by name for every task, and foreign tables refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import spacy

from bertology.causal import agreement_pairs
from bertology.causal.items import fact_pairs, read_facts, subject_pairs
from bertology.cloze import ClozeProbe
from bertology.corpora import _words
from bertology.corpora.prompts import read_item_table
from bertology.corpora.prompts.pairs import read_agreement, read_minimal_pairs
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe

FOREIGN = pd.DataFrame(
    {
        "satz": ["Die Hunde bellen.", 'Er sagt "nein".'],
        "falsch": ["Die Hunde bellt.", 'Er sagen "nein".'],
        "phenomenon": ["SV-#", "SV-P"],
        "lang": ["deu", "deu"],
    }
)
NAMED = "good=satz,bad=falsch,group=phenomenon"
COLUMNS: dict[str, tuple[str, dict[str, list[Any]]]] = {
    "minimal_pairs": ("good=a,bad=b", {"a": ["Dogs bark."], "b": ["Dogs barks."]}),
    "agreement": ("text=t,good=a,bad=b", {"t": ["Dogs [MASK]."], "a": ["bark"], "b": ["barks"]}),
    "lama": ("text=t,answer=a,subject=s", {"t": ["[X] is in [Y] ."], "a": ["France"], "s": ["Paris"]}),
    "lama:paraphrases": ("text=t,answer=a,cluster=c", {"t": ["Paris <mask>"], "a": ["x"], "c": [1]}),
    "lama:negated": ("text=t,other=o", {"t": ["It is {mask}."], "o": ["It is not {mask}."]}),
    "lama:misprimed": ("text=t,good=a", {"t": ["Rome? It is {mask}."], "a": ["Paris"]}),
    "diagnostics:cprag": ("text=t,good=a,bad=b+c", {"t": ["{mask}"], "a": ["x"], "b": ["y"], "c": ["z"]}),
    "diagnostics:role": ("text=t,other=o,answer=a", {"t": ["a {mask}"], "o": ["b {mask}"], "a": ["x"]}),
    "diagnostics:role_words": ("text=t,answer=a", {"t": ["a {mask}"], "a": ["x"]}),
    "diagnostics:negation": ("text=t,good=a,bad=b", {"t": ["{mask}"], "a": ["x"], "b": [["y", "z"]]}),
    "numeracy:maximum": ("text=t,good=a,bad=b", {"t": ["Of 2 and 3 {mask}."], "a": [3], "b": [2]}),
    "comparisons:size": ("text=t,good=a,bad=b,blind=d", {"t": ["{mask}"], "a": ["x"], "b": ["y"], "d": ["z {mask}"]}),
    "next_sentence": ("text=t,other=o,answer=a", {"t": ["A."], "o": ["B."], "a": ["next"]}),
}
"""Of every cloze task, columns and a row of a table."""


def probe_of(task: str) -> ClozeProbe:
    probe = get_probe(task)
    assert isinstance(probe, ClozeProbe)
    return probe


def written(folder: Path, kind: str, frame: pd.DataFrame) -> Any:
    """The table in a file, or in an object, of some kind."""
    records = frame.to_dict("records")
    path = folder / f"t.{kind}"
    match kind:
        case "csv" | "tsv" | "tsv.gz":
            frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
        case "json":
            path.write_text(json.dumps(records))
        case "jsonl":
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        case "records":
            return records
        case "dict":
            return {str(name): list(column) for name, column in frame.items()}
        case "one split":
            return {"train": DataSet(records)}
        case _:
            return frame
    return path


class DataSet(list[dict[str, Any]]):
    """As ``datasets.Dataset`` looks: rows, column names and features."""

    features: ClassVar[dict[str, Any]] = {"lang": type("Value", (), {"dtype": "string"})()}

    @property
    def column_names(self) -> list[str]:
        return list(self[0])


KINDS = ("csv", "json", "jsonl", "tsv.gz", "frame", "records", "dict", "one split")


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "frame"])
@pytest.mark.parametrize("task", COLUMNS)
def test_a_foreign_table_is_refused_in_one_line(tmp_path: Path, task: str, kind: str) -> None:
    source = written(tmp_path, kind, FOREIGN)
    with pytest.raises(CorpusError) as caught:
        probe_of(task).read_items(source if kind == "frame" else str(source))
    message = str(caught.value)
    assert "\n" not in message
    if task != "next_sentence" or kind != "tsv":  # there it may be words with tags, which have no documents either
        assert "satz, falsch, phenomenon, lang" in message
        assert "--columns" in message


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_are_named_are_read_from_whatever_holds_them(tmp_path: Path, kind: str) -> None:
    items = probe_of("minimal_pairs").read_items(written(tmp_path, kind, FOREIGN), columns=NAMED)
    assert [(item.text, item.other, item.group) for item in items.items] == [
        ("Die Hunde bellen.", "Die Hunde bellt.", "SV-#"),
        ('Er sagt "nein".', 'Er sagen "nein".', "SV-P"),
    ]
    assert len({item.id for item in items.items}) == len({item.cluster for item in items.items}) == 2


@pytest.mark.parametrize("task", COLUMNS)
def test_every_task_has_its_columns(tmp_path: Path, task: str) -> None:
    columns, data = COLUMNS[task]
    probe = probe_of(task)
    items = probe.read_items(pd.DataFrame(data), columns=columns)
    items.check(probe.asks)
    assert len(items) == 1
    # Called as the keys are they need no names.
    keys = dict(part.split("=") for part in columns.split(","))
    if "+" not in columns:
        frame = pd.DataFrame({key.upper(): data[name] for key, name in keys.items()})
        assert probe.read_items(frame).items == items.items
        with pytest.raises(CorpusError, match=r"columns: no \w+= is there; name the columns as in --columns"):
            probe.read_items(frame, columns="group=x")
        with pytest.raises(BertologyError, match=r"unknown key of columns 'label'"):
            probe.read_items(frame, columns="label=x")


def test_items_of_words() -> None:
    columns, data = COLUMNS["diagnostics:cprag"]
    (item,) = probe_of("diagnostics:cprag").read_items(data, columns=columns).items
    assert (item.text, item.answer, item.rivals) == ("{mask}", "x", ("y", "z"))
    columns, data = COLUMNS["lama"]
    several = {**{name: values * 2 for name, values in data.items()}, "a": ["France", "Europe"]}
    first, second = probe_of("lama").read_items(several, columns=columns).items
    assert (first.text, first.cluster, first.ignored) == ("Paris is in {mask} .", "Paris", ("Europe",))
    assert second.ignored == ("France",)
    (number,) = probe_of("numeracy:decode").read_items([("two is {mask}", np.int64(2), 3.0)]).items
    assert (number.answer, number.rivals) == ("2", ("3",))


def test_blimp_without_names_of_paradigms(tmp_path: Path) -> None:
    path = tmp_path / "island.jsonl"
    path.write_text('{"sentence_good": "A b.", "sentence_bad": "A c."}\n')
    (pair,) = read_minimal_pairs(path)
    assert (pair.id, pair.group) == ("island-1", "island")


def test_a_table_without_names_of_columns_is_read_by_number(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    FOREIGN.to_csv(path, sep="\t", index=False, header=False)
    (first, _) = read_minimal_pairs(path, columns="good=1,bad=2,group=3")
    assert (first.text, first.other, first.group) == ("Die Hunde bellen.", "Die Hunde bellt.", "SV-#")
    with pytest.raises(CorpusError, match=r"among Die Hunde bellen., Die Hunde bellt., SV-#, deu"):
        list(read_minimal_pairs(path))


def test_rows_of_other_tables_are_no_items_of_marvin_and_linzen(tmp_path: Path) -> None:
    path, row = tmp_path / "a.tsv", "the dogs bark\tthe dogs barks\tSV\teng"
    path.write_text(f"{row}\n{row}\n")
    with pytest.raises(CorpusError, match="no columns good and bad among"):
        list(read_minimal_pairs(path))
    path.write_text(f"simple_agrmt\tany\tthe dog barks\tthe dog bark\n{row}\n")
    with pytest.raises(CorpusError, match=r"a.tsv:2: ") as caught:
        list(read_minimal_pairs(path))
    assert "\n" not in str(caught.value)


def test_pairs_of_texts_and_facts_of_a_table() -> None:
    frame = pd.DataFrame(
        {"prompt": ["the dog {mask}", "the dogs {mask}"], "is": ["barks", "bark"], "is not": ["bark", "barks"]}
    )
    (pair,) = agreement_pairs(frame, columns="text=prompt,good=is,bad=is not")
    assert (pair.text, pair.other, pair.good, pair.values) == (
        "the dog {mask}", "the dogs {mask}", "barks", ("singular", "plural")
    )  # fmt: skip
    facts = [("[X] is in [Y] .", "Paris", "France"), ("[X] is in [Y] .", "Rome", "Italy")]
    columns = "text=1,subject=2,answer=3"
    assert [fact.text for fact in read_facts(facts, columns=columns)] == ["Paris is in {mask} .", "Rome is in {mask} ."]
    (pair,) = fact_pairs(facts, columns=columns)
    assert (pair.good, pair.bad) == ("France", "Italy")


HOSTILE: list[tuple[str, bytes, str]] = [
    ("header only", b"good,bad\n", r"t.csv: no item in it, only names of columns"),
    ("UTF-16 without its mark", "good,bad\na,b\n".encode("utf-16-le"), r"t.csv:1: byte 0x00 .*is it UTF-16"),
    ("Latin-1", "good,bad\na,b\nä,b\n".encode("latin-1"), r"t.csv:3: byte 0xe4 .* is not UTF-8"),
]


@pytest.mark.parametrize(("content", "message"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_tables_are_refused_by_place(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(BertologyError, match=message) as caught:
        probe_of("minimal_pairs").read_items(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfgood,bad\r\na b,a c\r\n",  # with byte order mark and CRLF
        b"good\tbad\na b\ta c\n",  # tabs, whatever its name
        b"Good,bad,sentence,text\na b,a c,x,\n",
    ],
)
def test_tables_of_other_habits_are_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    (item,) = probe_of("minimal_pairs").read_items(str(path)).items
    assert (item.text, item.other) == ("a b", "a c")


@pytest.mark.parametrize(
    ("frame", "columns", "message"),
    [
        (FOREIGN.assign(satz=["a", np.nan]), NAMED, "data in memory, row 1: column 'satz': found nan; expected a text"),
        (
            FOREIGN,
            "good=satz,bad=falsch,text=lang",
            "unknown key of columns 'text': there is bad, cluster, good, group, id, language",
        ),
        ([("a", "b"), ("a",)], None, "data in memory, row 1: found '1 values'; expected 2, as in row 0"),
        ({"train": FOREIGN, "test": FOREIGN}, NAMED, r"a table was due, not splits \(train, test\); give one"),
        ({"good": ["a"], "bad": [["b", "c"]]}, None, r"data in memory, row 0: column 'bad': found \['b', 'c'\]"),
    ],
)
def test_hostile_data_are_refused_by_place(frame: Any, columns: str | None, message: str) -> None:
    with pytest.raises(BertologyError, match=message) as caught:
        probe_of("minimal_pairs").read_items(frame, columns=columns)
    assert "\n" not in str(caught.value)


def test_a_sentence_in_brackets_is_no_list_of_words() -> None:
    (item,) = probe_of("minimal_pairs").read_items({"good": ["[Dogs bark.]"], "bad": ["[Dogs barks.]"]}).items
    assert (item.text, item.other) == ("[Dogs bark.]", "[Dogs barks.]")


@pytest.mark.parametrize(("text", "found"), [("no mask", "no mask"), ("[MASK] {mask}", r"\{mask\} \{mask\}")])
def test_texts_have_one_mask(text: str, found: str) -> None:
    with pytest.raises(CorpusError, match=rf"row 0: column 't': found '{found}'; expected one mask, \{{mask\}},"):
        probe_of("lama").read_items({"t": [text], "a": ["x"]}, columns="text=t,answer=a")


@pytest.mark.parametrize("source", ["pocket", "made"])
def test_what_is_no_table_has_no_columns(source: str) -> None:
    with pytest.raises(CorpusError, match=f"is for tables; leave it out for {source}"):
        read_item_table(source, "choices", columns="text=a,good=b,bad=c")


PUBLISHED = {
    ("minimal_pairs", "blimp", "data"): (23_000, "1d1a9922a522751e9c80ae3e0d08d450"),
    ("agreement", "bert_syntax", "generated.tab"): (396, "718d84548a123693e02d819e1b0b5a0a"),
    ("lama", "lama", "data"): (20_164, "dda68ce458f7a3e1ea8f962f264979dc"),
    ("lama:negated", "lama_primed_negated", "data"): (10_829, "f884375d166ed4b135fa3bf4f0df80a7"),
    ("diagnostics:cprag", "lm_diagnostics", ""): (34, "5e7de39c66f14afcccf45c39401cf25a"),
    ("diagnostics:role_words", "lm_diagnostics", ""): (88, "2ccbb139b91c9ed53c250d5fe3709523"),
    ("diagnostics:negation", "lm_diagnostics", ""): (68, "4123f664a5f8c633587f131d40e7935a"),
}
"""Number and hash of the items of published sets, as they were when each had a reader of its own."""


@pytest.mark.parametrize(("task", "name", "part"), PUBLISHED)
def test_published_sets_have_the_items_that_they_had(
    real_data: Callable[[str], Path], task: str, name: str, part: str
) -> None:
    items = probe_of(task).read_items(str(real_data(name) / part))
    assert (len(items), items.fingerprint) == PUBLISHED[task, name, part]


def test_goldbergs_table_has_the_items_of_the_json_lines(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    path = real_data("marvin_linzen") / "emnlp2018" / "simple_agrmt.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    cells = ("\t".join([row["case"], row["condition"], *row["sentences"]]) + "\n" for row in rows)
    with gzip.open(tmp_path / "simple_agrmt.tsv.gz", "wt") as file:
        file.writelines(cells)
    for read in (read_minimal_pairs, read_agreement):
        assert list(read(tmp_path / "simple_agrmt.tsv.gz")) == list(read(path))


CHINESE = "我们{mask}公园。"


@pytest.fixture
def by_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of Chinese are its characters, whatever is installed."""
    monkeypatch.setattr(_words, "_tokenizer", lambda language: spacy.blank(language).tokenizer)


def test_the_language_of_texts_reaches_tasks_that_need_words(by_character: None, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text(f"text\tgood\tsubject\n{CHINESE}\t去\t公园\n我们{{mask}}北京。\t到\t北京\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="has no spaces between its words: name the language"):
        fact_pairs(str(facts))
    (pair,) = fact_pairs(str(facts), columns="language=zh")
    assert pair.language == "zh"
    assert pair.places == ("before", "before", "mask", "subject", "subject", "after")
    (alone, _) = subject_pairs(read_facts(str(facts), columns="text=text,good=good,subject=subject,language=zh"))
    assert alone is not None
    assert alone.places == pair.places
    assert alone.words()[0] == ("我", "们", "[MASK]", "公", "园", "。")
