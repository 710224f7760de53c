"""Where to compute, and whether bfloat16 pays there."""

from __future__ import annotations

import functools
import platform
import subprocess
from pathlib import Path

import torch

from bertology.errors import ModelError, quoted

_BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})


def choose_device(device: str = "auto") -> torch.device:
    """The device to compute on: as asked, or for ``"auto"`` a CUDA GPU, else Apple's, else the processor.

    Raises:
        ModelError: there is no such device on this machine.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ModelError(f"unknown device {quoted(device)}: give auto, cpu, cuda, cuda:0 … or mps") from None
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (chosen.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(chosen.type, False):
        raise ModelError(f"device {quoted(device)} is not there on this machine: use auto or cpu")
    return chosen


def bfloat16_is_fast(device: str | torch.device = "cpu") -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware, so that ``dtype="bfloat16"`` pays.

    True for CUDA GPUs of compute capability 8.0 and up, and for processors with AMX-BF16, AVX512-BF16 or Arm BF16.
    """
    kind = torch.device(device)
    if kind.type == "cuda":
        return torch.cuda.is_available() and torch.cuda.get_device_capability(kind)[0] >= 8
    return kind.type == "cpu" and _processor_has_bfloat16()


@functools.cache
def _processor_has_bfloat16() -> bool:
    if platform.system() == "Darwin":
        answer = subprocess.run(
            ["sysctl", "-n", "hw.optional.arm.FEAT_BF16"], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip() == "1"
    try:
        return bool(processor_flags(Path("/proc/cpuinfo").read_text(encoding="utf-8")) & _BFLOAT16_FLAGS)
    except OSError:
        return False


def processor_flags(cpuinfo: str) -> frozenset[str]:
    """The feature flags in the text of Linux's ``/proc/cpuinfo`` (``flags`` on x86, ``Features`` on Arm)."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
