"""Model folders that cannot be written: one line, whatever library reports the fault of the disk, and resumable."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import compress, finetune
from bertology._files import explained_system_errors, explained_write_errors, system_error
from bertology.encoders import in_memory, save_model
from bertology.errors import BertologyError, ModelError, StoreError


@contextlib.contextmanager
def short_files(most: int) -> Iterator[None]:
    """No file may be longer, as on a disk that is full: the system refuses the rest of it (Python ignores SIGXFSZ)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refused(use: Callable[[], object]) -> str:
    with short_files(100_000), pytest.raises(StoreError) as caught:
        use()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_library_reports_the_system_in_its_own_way(tiny_bert: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_bert)
    message = refused(lambda: save_model(model, tmp_path / "model", tokenizer=tokenizer))
    assert message.startswith(f"cannot write {tmp_path / 'model'} (File too large)")

    def saved_by_torch() -> None:
        with explained_write_errors(tmp_path / "state.pt"):
            torch.save(model.state_dict(), tmp_path / "state.pt")

    assert "state.pt" in refused(saved_by_torch)

    def tokens() -> None:
        with explained_write_errors(tmp_path / "tokenizer"), short_files(100):
            tokenizer.save_pretrained(tmp_path / "tokenizer")

    assert "tokenizer" in refused(tokens)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errno.ENOSPC),
        (Exception("Error while serializing: I/O error: No space left on device (os error 28)"), errno.ENOSPC),
        (RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 576 vs 470"), errno.EIO),
        (ModelError("a model of that name (os error 28)"), None),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
    ],
)
def test_what_is_an_error_of_the_system(error: Exception, code: int | None) -> None:
    found = system_error(error)
    assert (None if found is None else found.errno) == code


def test_half_of_a_surrogate_pair_is_one_line() -> None:
    with pytest.raises(BertologyError, match=r"a .ud800 b': half of a surrogate pair in it"), explained_system_errors():
        "a \ud800 b".encode()
    with pytest.raises(UnicodeEncodeError), explained_system_errors():
        "é".encode("ascii")


def test_fine_tuning_goes_on_where_the_disk_was_full(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    def tuned(out: str) -> Any:
        settings: dict[str, Any] = {"epochs": 2, "lr": 1e-3, "batch_size": 16, "keep_checkpoints": "none"}
        return finetune(
            tiny_bert, tiny_corpus, task="pos", out=tmp_path / out, device="cpu", threads=1, progress=False, **settings
        )

    refused(lambda: tuned("full"))
    folder = tmp_path / "full" / "seed-1"
    assert not (folder / "finetune.json").exists()
    assert not (folder / "model.safetensors").exists()
    again, whole = tuned("full"), tuned("whole")
    assert (again.folder() / "model.safetensors").read_bytes() == (whole.folder() / "model.safetensors").read_bytes()
    assert not [path for path in folder.rglob("*") if path.suffix == ".tmp"]


def test_compressing_and_copies_of_models_on_a_full_disk(tiny_bert: Path, own_cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"

    def compressed() -> Any:
        return compress(tiny_bert, "magnitude", share=0.5, out=out, device="cpu", progress=False)

    refused(compressed)
    assert not out.exists()
    assert not list(tmp_path.glob(".*"))
    done = compressed()
    assert not done.is_found
    model: Any = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight.zero_()
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    with contextlib.suppress(StoreError), short_files(100_000):
        in_memory(model, tokenizer)  # where it is copied at all
    assert not [path for path in own_cache.rglob("*.tmp") if os.path.lexists(path)]


def test_what_is_compressed_already_is_left(tiny_bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    settings: dict[str, Any] = {"out": out, "device": "cpu", "progress": False}
    first = compress(tiny_bert, "magnitude", share=0.5, **settings)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    again = compress(tiny_bert, "magnitude", share=0.5, **settings)
    assert again.is_found
    assert again.record == first.record
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    assert "nothing to do: the model is finished in" in again.summary()
    for method, other in (("magnitude", {"share": 0.4}), ("quantise", {"bits": 8})):
        with pytest.raises(BertologyError, match="holds something already"):
            compress(tiny_bert, method, **other, **settings)
    with pytest.raises(BertologyError, match="holds something already"):
        compress("pocket", "magnitude", share=0.5, **settings)
