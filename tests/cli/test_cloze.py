"""``bertology cloze``: a sentence with a mask in, a table by layer out."""

import csv
import inspect
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.encoders.conftest import save_model

Command = Callable[..., Any]
SENTENCE = "The old {mask} sees the dog."


@pytest.fixture
def cloze(bertology: Command, tiny_bert: Path) -> Command:
    """``bertology cloze`` on the tiny model unless told otherwise."""

    def run(*arguments: str | Path) -> Any:
        given = () if "--model" in arguments else ("--model", tiny_bert)
        return bertology("cloze", *given, *arguments)

    return run


def test_a_line_a_layer_with_bars(cloze: Command) -> None:
    found = cloze(SENTENCE, "--top", "3")
    assert found.status == 0
    text, empty, head, *lines = found.out.splitlines()
    assert (text, empty) == ("The old [MASK] sees the dog.", "")
    names = head.split()
    assert (names[0], names[-1], len(names)) == ("layer", "first", 5)
    assert [line.split("  ")[0] for line in lines[:4]] == ["0 · embeddings", "1", "2", "3"]
    assert lines[3].split()[-1] == names[1]
    bars = [line.count("█") for line in lines[:4]]
    assert max(bars) >= 4
    assert "numbers: probability, %; bars: probability, the longest" in lines[5]
    assert "choose another with --model" not in found.out


def test_the_pocket_model_by_default(bertology: Command) -> None:
    found = bertology("cloze", "The dogs [MASK] the cat.", "--candidates", "see,sees", "--format", "json")
    assert found.status == 0, found.err
    reading = json.loads(found.out)
    assert reading["model"] == "pocket"
    assert "choose another with --model" in found.err
    plain = bertology("cloze", "The dogs [MASK] the cat.", "--top", "1", "--layers", "-1").out
    assert "pocket: the embedded default" in plain
    plural, singular = reading["rows"][-2:]
    assert (plural["word"], singular["word"]) == ("see", "sees")
    assert plural["log_prob"] > singular["log_prob"]


def test_candidates_that_are_left_out_are_told(cloze: Command) -> None:
    arguments = (SENTENCE, "--candidates", "the, a,unbelievable,the")
    table = cloze(*arguments)
    assert table.out.splitlines()[2].split() == ["layer", "the", "a", "first"]
    assert "left out: 1 of 3 candidates (unbelievable: not in the vocabulary: " in table.out
    assert "--form within_word_l2r scores candidates of several subwords" in table.out
    rows = cloze(*arguments, "--format", "csv", "--layers", "1,-1")
    assert "left out: 1 of 3 candidates" in rows.err
    read = list(csv.DictReader(io.StringIO(rows.out)))
    assert [(row["layer"], row["word"]) for row in read] == [("1", "the"), ("1", "a"), ("3", "the"), ("3", "a")]
    kept = json.loads(cloze(*arguments, "--format", "json", "--layers", "1,-1").out)
    assert [item["candidate"] for item in kept["excluded"]] == ["unbelievable"]
    for row, word in zip(read, kept["rows"], strict=True):
        assert float(row["log_prob"]) == pytest.approx(word["log_prob"], abs=1e-5)
        assert int(row["rank"]) == word["rank"] >= 1


def test_of_many_candidates_left_out_a_few_are_told(cloze: Command) -> None:
    words = ["the", *(f"unbelievable{number}" for number in range(14))]
    found = cloze(SENTENCE, "--candidates", ",".join(words))
    assert "left out: 14 of 15 candidates (unbelievable0: " in found.out
    assert "unbelievable9: " in found.out
    assert "unbelievable10: " not in found.out


@pytest.mark.parametrize("form", ["within-word-l2r", "original"])
def test_candidates_of_several_pieces(cloze: Command, form: str) -> None:
    found = cloze(SENTENCE, "--candidates", "the,unbelievable", "--form", form)
    assert found.out.splitlines()[2].split() == ["layer", "the", "unbelievable", "first"]
    assert f"nats ({form.replace('-', '_')})" in found.out
    assert "left out: " not in found.out
    assert ",,original," in cloze(SENTENCE, "--candidates", "the", "--form", "original", "--format", "csv").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["The old man sees the dog."], "no mask in 'The old man sees the dog.': write {mask} where a word is left"),
        ([SENTENCE, "--candidates", ""], "no candidates: give words with commas"),
        ([], "Missing argument 'text'"),
    ],
)
def test_mistakes(cloze: Command, arguments: list[str], message: str) -> None:
    assert message in cloze(*arguments).one_line()


def test_surprisal_by_word(cloze: Command, tmp_path: Path) -> None:
    from bertology.cloze import surprisal

    folder = save_model(tmp_path / "gpt2", "gpt2")
    expected = surprisal(str(folder), "The quick fox jumps.").to_pandas()
    of = ("The quick fox jumps.", "--surprisal", "--model", folder)
    head, *lines = cloze(*of).out.splitlines()
    assert head.split() == ["word", "bits"]
    for line, row in zip(lines, expected.itertuples(), strict=False):
        assert line.split()[:2] == [row.word, f"{row.surprisal_bits:.1f}"]
    total = f"sum: {expected.surprisal_bits.sum():.1f} bits in 5 words, each given the words before it"
    assert lines[-2:] == [total, "model: gpt2"]
    as_csv = list(csv.DictReader(io.StringIO(cloze(*of, "--format", "csv").out)))
    assert [one["word"] for one in as_csv] == ["The", "quick", "fox", "jumps", "."]
    assert float(as_csv[1]["surprisal_bits"]) == pytest.approx(expected.surprisal_bits[1], abs=1e-4)
    as_json = json.loads(cloze(*of, "--format", "json").out)
    assert as_json["kind"] == "causal"
    assert as_json["rows"][2]["surprisal_nats"] == pytest.approx(expected.surprisal_nats[2], abs=1e-4)
    assert "each given all other words (pseudo-surprisal)" in cloze("The dog sees.", "--surprisal").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["L'enfant", "dort", "."]),
        (("--language", "fr"), ["L'", "enfant", "dort", "."]),
        (("--split-at-spaces",), ["L'enfant", "dort."]),
    ],
)
def test_surprisal_of_the_words_of_a_language(cloze: Command, options: tuple[str, ...], words: list[str]) -> None:
    found = cloze("L'enfant dort.", "--surprisal", "--format", "csv", *options)
    assert [row["word"] for row in csv.DictReader(io.StringIO(found.out))] == words
    if options:
        message = "--language and --split-at-spaces find the words of a text: give them with --surprisal"
        assert message in cloze("The {mask} sees.", *options).one_line()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["The {mask} sees."], "--surprisal reads all words of a text: leave masks"),
        (["The dog sees.", "--layers", "1"], "--surprisal reads all words of a text: leave masks"),
        (["dog " * 70], "the text is not read: too long"),
    ],
)
def test_mistakes_with_surprisal(cloze: Command, arguments: list[str], message: str) -> None:
    assert cloze(*arguments, "--surprisal").one_line().startswith(message)


def test_a_tuned_lens_is_fitted_once_and_read_again(bertology: Command, tmp_path: Path, monkeypatch: Any) -> None:
    from bertology.cloze import lens as _lens

    # A few steps do to see what is written.
    fit = inspect.unwrap(_lens.fit_lens)
    monkeypatch.setattr(fit, "__kwdefaults__", {**fit.__kwdefaults__, "steps": 3})
    file = tmp_path / "lens.safetensors"
    arguments = ("cloze", "The dogs [MASK] the cat.", "--candidates", "see,sees", "--lens", file)
    first, again = bertology(*arguments), bertology(*arguments)
    assert first.status == again.status == 0, first.err + again.err
    assert f"tuned lens in {file}" in first.err
    assert "tuned lens in" not in again.err
    assert first.out == again.out
    assert "(tuned lens)" in first.out
    assert "(logit lens)" in bertology(*arguments[:-2]).out
    file.write_bytes(b"nothing")
    broken = bertology(*arguments)
    assert broken.status == 2
    assert "not a tuned lens" in broken.err
