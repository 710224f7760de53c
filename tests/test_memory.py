"""Freed memory goes back to the operating system; want of memory is one line with a remedy; sizes are readable."""

import errno
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bertology import _machine, cli
from bertology.errors import ShortMemoryError


def test_holes_are_given_back() -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("the C library is not glibc: there is nothing to call")
    blocks = [bytearray(100_000) for _ in range(2000)]
    keep = blocks[::100]  # so that the end of the heap cannot simply be cut off
    del blocks
    before = _resident()
    _machine.give_back_freed_memory()
    assert _resident() < before - 50_000_000
    assert len(keep) == 20


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


SHORT: list[tuple[BaseException, str]] = [
    (MemoryError("Unable to allocate 3.20 GiB for an array with shape (7, 8)"), "3.20 GiB asked for at once"),
    (MemoryError("std::bad_alloc"), "free"),
    (MemoryError(), "free"),
    (RuntimeError("std::bad_alloc"), "free"),
    (
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4300000000 bytes."),
        "4.3 GB asked",
    ),
    (RuntimeError("unable to mmap 45501188 bytes from file <x>: Cannot allocate memory (12)"), "45.5 MB asked"),
    (RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB."), "2.50 GiB asked"),
    (RuntimeError("could not create a primitive"), "free"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "free"),
]


@pytest.mark.parametrize(("error", "amount"), SHORT)
def test_want_of_memory_is_known_by_every_librarys_error(error: BaseException, amount: str) -> None:
    with pytest.raises(ShortMemoryError) as refused, _machine.explained_shortage("reading"):
        raise error
    message = str(refused.value)
    assert message.startswith("reading: not enough memory (")
    assert amount in message
    assert "(--dtype)" in message
    assert "(--jobs)" in message
    assert "\n" not in message


LIMITED = """
import resource, sys
from pathlib import Path
from bertology._machine import give_back_freed_memory
from bertology.activations import read_words
from bertology.corpora import Sentence, Sentences
from bertology.encoders import load_encoder
from bertology.errors import BertologyError

small, large = sys.argv[1:]
text = Sentences([Sentence.from_words(["the", "dog"] * 30)])
read_words(load_encoder(small, device="cpu"), text, layers=[1])
own = load_encoder(large, device="cpu")

def limited(spare, use):
    give_back_freed_memory()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, -1))
    try:
        use()
    except BertologyError as error:
        print(type(error).__name__, error)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))

limited(2 << 20, lambda: read_words(own, text, layers=[2]))
limited(20 << 20, lambda: load_encoder(large, device="cpu"))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits a process's address space")
def test_too_little_memory_to_load_and_to_read(tiny_bert: Path, tmp_path: Path) -> None:
    """In a process of its own, under a limit a little above what it uses."""
    from transformers import BertConfig, BertForMaskedLM

    large = tmp_path / "large"
    shutil.copytree(tiny_bert, large)
    config = BertConfig.from_pretrained(tiny_bert, num_hidden_layers=2, intermediate_size=80_000)
    BertForMaskedLM(config).save_pretrained(large)
    found = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tiny_bert), str(large)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    reading, loading = found.stdout.splitlines()
    assert loading.startswith(f"ShortMemoryError loading model {large} in float32: not enough memory (about 83.")
    assert loading.endswith("; compute in bfloat16 (--dtype), run fewer processes (--jobs), or take a smaller model")
    assert reading.startswith("ShortMemoryError a window of ")
    assert "MB asked for at once" in reading
    assert "lower max_pieces (--max-pieces)" in reading


@pytest.mark.parametrize("error", [MemoryError("std::bad_alloc"), RuntimeError("can't allocate memory")])
def test_commands_answer_in_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", full)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith("bertology: this command: not enough memory (")
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (48_700_000, "48.7 MB"),
        (99_990_000, "100 MB"),
        (999_600_000, "1000 MB"),
        (1_061_000_000, "1.06 GB"),
        (860e9, "860 GB"),
        (5e15, "5000 TB"),
    ],
)
def test_sizes(n_bytes: float, words: str) -> None:
    assert _machine.size_in_words(n_bytes) == words
