"""The command line as a person meets it: arguments in; exit status, output and errors out."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bertology.cli import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    out: str
    err: str

    def one_line(self) -> str:
        """The one line on standard error that a person's mistake is answered with; status 2, nothing else printed."""
        assert self.status == 2, self
        assert self.out == ""
        assert self.err.startswith("bertology: "), self.err
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        return self.err.removeprefix("bertology: ").strip()


Command = Callable[..., Outcome]


@pytest.fixture
def bertology(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the installed command's entry in this process, whose environment is restored."""
    for name in ("BERTOLOGY_OFFLINE", "HF_HUB_OFFLINE"):  # as --offline sets them
        monkeypatch.setenv(name, os.environ.get(name, ""))

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["bertology", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, captured.out, captured.err)

    return run


def unless_given(bertology: Command, command: str, plain: Mapping[str, str | Path]) -> Command:
    """A command with options that it has unless told otherwise."""

    def run(*arguments: str | Path) -> Outcome:
        given = [part for option, value in plain.items() if option not in arguments for part in (option, value)]
        return bertology(command, *given, *arguments)

    return run


@pytest.fixture
def probe(bertology: Command, tiny_bert: Path, tiny_corpus: Path) -> Command:
    """``bertology probe`` on the embeddings of the tiny model, without controls, unless told otherwise."""

    plain = {"--model": tiny_bert, "--corpus": tiny_corpus, "--layers": "0", "--controls": "none"}
    return unless_given(bertology, "probe", plain)
