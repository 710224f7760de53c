"""Where to compute."""

import pytest
import torch

from bertology._machine import bfloat16_is_fast, choose_device, fit_device, processor_flags
from bertology.errors import ModelError

X86 = "processor\t: 0\nflags\t\t: fpu avx2 avx512_bf16 amx_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


def test_flags_of_the_processor() -> None:
    assert processor_flags(X86) == {"fpu", "avx2", "avx512_bf16", "amx_bf16"}
    assert processor_flags(ARM) == {"fp", "asimd", "bf16"}
    assert processor_flags("model name : nothing told\n") == frozenset()


def test_the_processor_is_asked() -> None:
    assert isinstance(bfloat16_is_fast("cpu"), bool)
    assert bfloat16_is_fast("mps") is False


@pytest.mark.parametrize(("capability", "fast"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_gpus_from_compute_capability_8(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], fast: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert bfloat16_is_fast("cuda") is fast


def test_the_best_device_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    with pytest.raises(ModelError, match="device 'cuda' is not there on this machine: use auto or cpu"):
        choose_device("cuda")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert (choose_device(), choose_device("mps")) == (torch.device("cpu"), torch.device("mps"))
    assert (fit_device("mps"), fit_device("cuda:1")) == (torch.device("cpu"), torch.device("cuda:1"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device() == torch.device("cuda")
    assert choose_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ModelError, match="device 'cuda:1' is not there"):
        choose_device("cuda:1")
