"""The device, and threads that share the work of a fit or of a forward pass, each on its own core.

The alternative to such threads, every tensor operation spread over all cores, makes the cores wait for each other
thousands of times a pass, and for long where something else runs beside them.
"""

from __future__ import annotations

import functools
import platform
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import torch

from bertology.errors import ModelError, quoted

Result = TypeVar("Result")
_BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})


def choose_device(device: str = "auto") -> torch.device:
    """The device to compute on: as named, or for ``"auto"`` a CUDA GPU, else Apple's, else the processor."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ModelError(f"unknown device {quoted(device)}: give auto, cpu, cuda, cuda:0 … or mps") from None
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (chosen.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not available.get(chosen.type, False):
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
        command = ["sysctl", "-n", "hw.optional.arm.FEAT_BF16"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == "1"
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


class Workers:
    """Limit torch to a number of threads in the ``with`` block; to one on an accelerator, which has its own.

    Inside the block, torch computes each operation on the thread that asks for it; if there are more threads than
    ``most``, the greatest number of workers that there is memory for, on an equal share of them. With ``n`` there are
    so many threads, whatever torch may use outside.
    """

    def __init__(self, device: torch.device, *, most: int | None = None, n: int | None = None) -> None:
        self._threads = n or torch.get_num_threads()
        self._before = torch.get_num_threads()
        self.n = min(self._threads, most or self._threads) if device.type == "cpu" else 1
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self.n > 1:
            share = max(1, self._threads // self.n)
            torch.set_num_threads(share)
            self._pool = ThreadPoolExecutor(self.n, initializer=torch.set_num_threads, initargs=(share,))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            torch.set_num_threads(self._before)

    def map(self, job: Callable[[int], Result], n: int) -> list[Result]:
        """``[job(0), …, job(n − 1)]``."""
        return list(map(job, range(n)) if self._pool is None else self._pool.map(job, range(n)))
