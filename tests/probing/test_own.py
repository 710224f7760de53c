"""Probes that are given as objects, or made known to this process."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest

import bertology
from bertology.corpora import Sentences
from bertology.errors import BertologyError, NameNotFoundError
from bertology.probing import Examples, RepresentationProbe, get_probe, register_probe, word_examples
from bertology.probing.probes import OF_PROCESS, Probe, is_installed, known_probe


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    with patch.dict(OF_PROCESS, clear=True):
        yield


@dataclass(frozen=True)
class Capital(RepresentationProbe):
    task: Any = "capital"
    version: Any = 1
    readout: Any = "linear.v1"
    metrics: Any = ("accuracy",)
    question = "Is the word capitalised?"
    reference = "nobody, never"

    def examples(self, sentences: Sentences) -> Examples:
        return word_examples(sentences, [str(word[0].isupper()) for one in sentences for word in one.words])


def test_a_class_or_an_object_is_registered_and_given_back() -> None:
    assert bertology.register_probe is register_probe
    assert register_probe(Capital) is Capital
    assert get_probe("capital") == get_probe("Capital.v1") == Capital()
    other = Capital(task="capital:first", version=2)
    assert register_probe(other) is other
    assert get_probe("capital:first") is get_probe("capital.v2:first") is other
    with pytest.raises(NameNotFoundError, match="unknown task 'capitals': did you mean capital or capital:first"):
        get_probe("capitals")


@pytest.mark.parametrize("task", ["pos", "pos:fine", "feats", "feats:Number", "lama:own"])
def test_the_name_of_an_installed_probe_is_taken(task: str) -> None:
    stem = task.partition(":")[0]
    for version in (1, 7):
        with pytest.raises(BertologyError, match=f"a probe called {stem} is installed already; give the task another"):
            register_probe(Capital(task=task, version=version))


def test_installed_probes_are_known_as_such() -> None:
    for name in ("pos", "feats:Number", "lama", "head_roles"):
        installed = get_probe(name)
        assert is_installed(installed)
        assert known_probe(installed) is register_probe(installed) is installed
    assert not OF_PROCESS
    assert not is_installed(Capital())
    # Of another setting its version says nothing.
    assert not is_installed(replace(get_probe("lama"), vocabulary="words.txt"))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Capital(task="Two words"), "probe Capital: task is 'Two words'; it should be of small letters, digits and _"),
        (Capital(version="1"), "probe Capital: version is '1'; it should be a whole number"),
        (Capital(readout=2), "probe Capital: readout is 2; it should be a text"),
        (Capital(metrics="accuracy"), "probe Capital: metrics is 'accuracy'; it should be a tuple such as"),
        ("capital", "str is no probe: give the name of a task, or derive the class from a RepresentationProbe"),
    ],
)
def test_what_is_no_whole_probe_is_refused(given: Any, message: str) -> None:
    with pytest.raises(BertologyError, match=f"^{message}"):
        register_probe(given)


def test_a_class_without_its_parts_is_refused() -> None:
    class Half(RepresentationProbe):
        task = "half"
        version = 1
        question = reference = "?"
        readout = "linear.v1"

    message = "probe Half does not define examples, metrics: every probe of its kind does"
    with pytest.raises(BertologyError, match=f"^{re.escape(message)}$"):
        register_probe(Half)


def test_the_question_is_the_first_line_of_the_docstring_unless_it_is_stated() -> None:
    class Undocumented(Capital):
        question = Probe.question
        __doc__ = None

    assert get_probe("pos").question == type(get_probe("pos")).__doc__
    assert Capital().question == "Is the word capitalised?"
    with pytest.raises(BertologyError, match="probe Undocumented does not define question: every probe of its kind"):
        register_probe(Undocumented)


def test_a_class_with_required_fields_is_given_as_an_object() -> None:
    @dataclass(frozen=True)
    class Longer(Capital):
        than: int = 3

        def __init__(self, than: int) -> None:
            object.__setattr__(self, "than", than)

    with pytest.raises(BertologyError, match=r"^probe Longer cannot be made without arguments .*: give an object$"):
        register_probe(Longer)
    assert register_probe(Longer(4)).than == 4
