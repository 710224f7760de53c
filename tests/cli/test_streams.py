"""Standard streams that are closed, or whose reader has gone."""

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import BertologyError, load_corpus, probe

MAIN = (sys.executable, "-c", "from bertology.cli import main; main()")
PRINTS = ("schema",)


def started(arguments: tuple[str, ...], close: tuple[int, ...], **streams: int) -> subprocess.Popen[bytes]:
    def closed() -> None:
        for number in close:
            os.close(number)

    return subprocess.Popen([*MAIN, *arguments], preexec_fn=closed, **streams)  # type: ignore[call-overload,no-any-return]


def test_a_closed_output_is_one_line() -> None:
    """Refused before anything is computed: what is asked for would be printed to nobody."""
    with started(PRINTS, (1,), stderr=subprocess.PIPE) as process:
        errors = process.communicate()[1].decode()
    assert process.returncode == 2
    assert errors == "bertology: standard output is closed: redirect it to a file, or to /dev/null\n"


def test_other_closed_streams_do_no_harm(tmp_path: Path) -> None:
    """No file that is opened takes the number of standard error."""
    with started(PRINTS, (0, 2), stdout=subprocess.PIPE) as process:
        assert process.communicate()[0].startswith(b"{")
    assert process.returncode == 0
    with started(("no-such-command",), (2,), stdout=subprocess.PIPE) as process:
        assert process.communicate()[0] == b""
    assert process.returncode == 2


def test_a_reader_that_has_gone() -> None:
    read, write = os.pipe()
    os.close(read)
    with started(PRINTS, (), stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        assert process.communicate()[1] == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    "arguments",
    [
        ("cloze", "the \udcff [MASK] barks"),
        ("align", "the \udcff dog", "a dog"),
        ("tokenize", "the \udcff dog"),
        ("patch", "the \udcff [MASK]", "--with", "the [MASK]", "--candidates", "dog,cat"),
    ],
)
def test_an_argument_that_is_no_text(arguments: tuple[str, ...], bertology: Callable) -> None:
    """A byte that is not UTF-8, as the system hands it over."""
    assert "surrogate" in bertology(*arguments).one_line()


@pytest.mark.parametrize(
    ("task", "data"),
    [
        ("sentence_label:label", [(f"a\udcff {n}", "AB"[n % 2]) for n in range(20)]),
        ("word_label:tags", [(["a", f"b{n}"], ["N", "V\udcff"]) for n in range(20)]),
    ],
)
def test_data_that_are_no_text(task: str, data: Any, tiny_bert: Path) -> None:
    with pytest.raises(BertologyError, match="surrogate"):
        probe(task, model=tiny_bert, corpus=data, layers="0", controls="none", progress=False)


@pytest.mark.parametrize(
    "use",
    [
        lambda: load_corpus(itertools.repeat("a b")),
        lambda: load_corpus({"text": itertools.repeat("a b"), "label": itertools.count()}),
        lambda: probe("pos", layers=itertools.count()),
    ],
)
def test_what_has_no_end_is_one_line(
    use: Callable[[], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bertology.corpora._tables._MOST_ROWS", 10_000)
    with pytest.raises(BertologyError, match=r"over 10?0,000 values, or no end of them; give fewer"):
        use()


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_shows_at_once_that_something_is_loading(tmp_path: Path, quiet: bool) -> None:
    """Before libraries and models, which take seconds; the line is left for the next one to be written over it."""
    ours, its = os.openpty()
    asked = ("probe", "--corpus", str(tmp_path / "none"), *(["--quiet"] if quiet else []))
    with started(asked, (), stderr=its, stdout=subprocess.PIPE):
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while more := os.read(ours, 4096):
                shown += more
    os.close(ours)
    assert shown.decode().startswith("loading …\r") != quiet
    assert b"none" in shown
