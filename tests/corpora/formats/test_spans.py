"""IOB1 and IOB2, against definitions by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertology.corpora import Sentence, Sentences, Target
from bertology.corpora._words import entities_of, to_iob2
from bertology.corpora.formats.columns import Columns
from bertology.errors import CorpusError

# spans of a sentence as pieces: (type or None, length); neighbouring pieces are different spans
sentence_pieces = st.lists(st.tuples(st.sampled_from([None, "PER", "LOC"]), st.integers(1, 3)), min_size=1, max_size=6)


def _iob2(pieces) -> list[str]:
    tags: list[str] = []
    for kind, length in pieces:
        tags += ["O"] * length if kind is None else [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
    return tags


def _iob1(pieces) -> list[str]:
    tags: list[str] = []
    before = None
    for kind, length in pieces:
        begin = "B" if kind == before else "I"
        tags += ["O"] * length if kind is None else [f"{begin}-{kind}"] + [f"I-{kind}"] * (length - 1)
        before = kind
    return tags


def _read(tagged: list[list[str]]) -> tuple[list[str], int]:
    held = Sentences(Sentence.from_words(["w"] * len(tags), layers={"ner": tuple(tags)}) for tags in tagged)
    layer, changed = to_iob2(held.layers["ner"], held.starts, str)
    return [layer.values[code] for code in layer.codes], len(changed)


@settings(deadline=None, derandomize=True)
@given(st.lists(sentence_pieces, min_size=1, max_size=5))
def test_iob2_stays_as_it_is(text):
    tagged = [_iob2(pieces) for pieces in text]
    assert _read(tagged) == ([tag for tags in tagged for tag in tags], 0)


@settings(deadline=None, derandomize=True)
@given(st.lists(sentence_pieces, min_size=1, max_size=5))
def test_iob1_becomes_iob2(text):
    wanted = [tag for pieces in text for tag in _iob2(pieces)]
    given_tags = [tag for pieces in text for tag in _iob1(pieces)]
    tags, changed = _read([_iob1(pieces) for pieces in text])
    assert tags == wanted
    assert changed == sum(a != b for a, b in zip(given_tags, wanted, strict=True))


@pytest.mark.parametrize(
    ("tagged", "message"),
    [([["B-PER", "I-LOC"]], "1: ner tag: found 'I-LOC'"), ([["O", "B-PER"], ["I-PER"]], "2: ner tag: found 'I-PER'")],
)
def test_a_span_that_begins_with_i_in_iob2_is_an_error(tagged, message):
    with pytest.raises(CorpusError, match=f"^{message}; expected B- where a span begins"):
        _read(tagged)


@pytest.mark.parametrize("tag", ["PER", "B-", "o"])
def test_a_tag_of_no_such_form_is_an_error(tag):
    with pytest.raises(CorpusError, match=f"^3: ner tag: found '{tag}'; expected O, B-TYPE or I-TYPE"):
        _read([["O", "B-X"], ["O", tag]])


def _with_ends(pieces, last: str, single: str) -> list[str]:
    tags: list[str] = []
    for kind, length in pieces:
        ends = [f"{single}-{kind}"] if length == 1 else [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"{last}-{kind}"]
        tags += ["O"] * length if kind is None else ends
    return tags


@settings(deadline=None, derandomize=True)
@given(st.lists(sentence_pieces, min_size=1, max_size=5), st.sampled_from(["ES", "LU", "EW"]))
def test_schemes_with_ends_become_iob2(text, marks):
    wanted = [tag for pieces in text for tag in _iob2(pieces)]
    given_tags = [tag for pieces in text for tag in _with_ends(pieces, *marks)]
    tags, changed = _read([_with_ends(pieces, *marks) for pieces in text])
    assert tags == wanted
    assert changed == sum(a[0] not in "BIO" for a in given_tags)


def test_words_that_losses_ignore_are_outside_in_schemes_with_ends():
    tags, changed = _read([["B-PER", "E-PER", "-100", "S-LOC"], ["-100.0", "S-PER"]])
    assert tags == ["B-PER", "I-PER", "-100", "B-LOC", "-100.0", "B-PER"]
    assert changed == 3
    with pytest.raises(CorpusError, match="0: ner tag: found 'B-PER'; expected the end of a span that"):
        _read([["B-PER", "-100", "E-PER", "S-LOC"]])


@pytest.mark.parametrize(
    ("tagged", "message"),
    [
        ([["S-X", "I-X"]], "1: ner tag: found 'I-X'; expected a span before it that "),
        ([["B-X", "E-Y"]], "0: ner tag: found 'B-X'; expected the end of a span that"),
    ],
)
def test_spans_without_their_ends_are_errors(tagged, message):
    with pytest.raises(CorpusError, match=f"^{message}"):
        _read(tagged)


def test_layers_of_any_name_are_read_by_their_ends(tmp_path):
    path = tmp_path / "a.bioes"
    path.write_text("a\tB-X\tS-V\nb\tE-X\tO\n\n")
    held = Columns().load(path, columns="form,ner,mine")
    assert held["test"].layers["mine"].values == ("B-V", "O")
    assert held["test"][0].targets["entities"] == (Target((0, 2), "X"),)
    assert held.notes["ner tags turned from BIOES or BILOU into IOB2"] == "1, first at a.bioes:2"
    path.write_text("a\tB-X\nb\tO\nc\tS-X\n\n")
    with pytest.raises(CorpusError, match=r"a.bioes:1: ner tag: found 'B-X'; expected the end of a span that"):
        Columns().load(path)


@settings(deadline=None, derandomize=True)
@given(sentence_pieces)
def test_entities_are_the_pieces_that_tags_were_made_of(pieces):
    wanted, place = [], 0
    for kind, length in pieces:
        if kind is not None:
            wanted.append(Target((place, place + length), kind))
        place += length
    assert entities_of(_iob2(pieces)) == tuple(wanted)


def test_column_files_bring_entities_and_keep_their_fingerprint(tmp_path):
    path = tmp_path / "made.iob2"
    path.write_text("a\tB-X\nb\tI-X\nc\tO\n\nd\tO\n")
    first, second = held = Columns().load(path)["test"]
    assert first.targets == {"entities": (Target((0, 2), "X"),)}
    assert second.targets == {}
    bare = [Sentence.from_words(s.words, id=s.id, layers=s.layers) for s in held]
    assert Sentences(bare).fingerprint == held.fingerprint
