"""The machine and its libraries: memory and errors for the lack of it, devices, threads, and silence of libraries.

Importing this module imports no torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import platform
import re
import subprocess
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from logging import CRITICAL
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bertology._files import explained_system_errors
from bertology.errors import BertologyError, ModelError, ShortMemoryError, quoted

if TYPE_CHECKING:
    import torch

_SIGNS = re.compile(
    r"can(?:'t|not) allocate memory|out of memory|bad_alloc|unable to allocate|could not create a primitive", re.I
)
_AMOUNTS = re.compile(r"allocate (\d+) bytes|mmap (\d+) bytes|malloc of size (\d+)|allocate ([\d.]+ [KMGT]iB)")
_UNKNOWN = 4e9  # free memory in bytes where the system does not tell
REMEDY = "give fewer sentences or layers, compute in bfloat16 (--dtype), or run fewer processes (--jobs)"


MEMORY_VARIABLE = "BERTOLOGY_MEMORY"  # environment variable with the memory that a run may use, for all its processes
_VECTORS = 4  # one part of so many of that memory, or of the free memory, holds vectors


def memory_for_vectors() -> int:
    """Bytes of vectors that the fits of a run may keep between passes: a quarter of the memory.

    The memory is what the environment variable ``BERTOLOGY_MEMORY`` names (``4GB``), else what is free.
    """
    from pydantic import ByteSize, TypeAdapter, ValidationError

    given = os.environ.get(MEMORY_VARIABLE)
    try:
        memory = TypeAdapter(ByteSize).validate_python(given) if given else free_memory() or _UNKNOWN
    except ValidationError:
        raise BertologyError(f"memory {quoted(given)} is no size: give one such as 4GB or 500MB") from None
    return int(memory // _VECTORS)


def vectors_at_once(dim: int) -> int:
    """The number of vectors of a width that are computed with together: 4 MB of a layer, which stay in the cache."""
    return max(2048, min(16384, (1 << 20) // max(1, dim)))


def give_back_freed_memory() -> None:
    """Return freed memory to the operating system, where the C library has a call for it (glibc); else do nothing.

    Tensors of ever new shapes leave holes behind, and what a process holds would slowly grow with the corpus.
    """
    # There may be no C library of that name, or another one than glibc.
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def explained_shortage(doing: str, *, needed: int | None = None, remedy: str = REMEDY) -> Iterator[None]:
    """Turn an out-of-memory error of any library into a :class:`ShortMemoryError` on ``doing`` something.

    The message compares the bytes ``needed``, where they are known, with what was free before; otherwise it has how
    much was requested last, where the error has it, and what is left.
    """
    before = None if needed is None else free_memory()
    try:
        yield
    except BertologyError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        known = None if needed is None else (f"about {size_in_words(needed)} needed", before)
        raise ShortMemoryError(shortage(doing, error, remedy=remedy, known=known)) from error


@contextlib.contextmanager
def explained(doing: str, *, remedy: str = REMEDY) -> Iterator[None]:
    """Turn what a whole job lacks, memory or files, into errors of one line."""
    with explained_system_errors(), explained_shortage(doing, remedy=remedy):
        yield


def shortage(
    doing: str, error: BaseException, *, remedy: str = REMEDY, known: tuple[str, int | None] | None = None
) -> str:
    """The message for an out-of-memory error; ``known`` is what was needed, and how many bytes were free before."""
    found = _AMOUNTS.search(str(error))
    amount = next(filter(None, found.groups())) if found else ""
    asked = amount and f"{size_in_words(int(amount)) if amount.isdigit() else amount} asked for at once"
    needed, free = known or (asked, free_memory())
    amounts = filter(None, [needed, "" if free is None else f"{size_in_words(free)} free"])
    return f"{doing}: not enough memory ({', '.join(amounts) or 'none left'}); {remedy}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out. Several libraries raise theirs as errors that have only a message.

    The error of oneDNN, which multiplies matrices for torch, states no reason; memory is the usual one.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    is_torch_error = type(error).__name__ == "OutOfMemoryError"  # torch is not imported for it
    return is_torch_error or (isinstance(error, Exception) and _SIGNS.search(str(error)) is not None)


def size_in_words(n_bytes: float) -> str:
    """Bytes in the largest decimal unit of which there is at least one, to three digits: ``1.06 GB``, ``340 kB``."""
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
    unit, name = next((unit, name) for unit, name in units if n_bytes >= unit or unit == 1)
    amount = n_bytes / unit
    return f"{amount:.0f} {name}" if amount >= 99.5 else f"{amount:.3g} {name}"


def free_memory() -> int | None:
    """Bytes that this process may still have: of the machine's, and under its own limit; None where not known."""
    try:
        _, _, line = Path("/proc/meminfo").read_text(encoding="ascii").partition("MemAvailable:")
        free = int(line.split()[0]) * 1024
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            free = min(free, max(0, limit - pages * resource.getpagesize()))
    except (OSError, ImportError, IndexError, ValueError, MemoryError):  # another system than Linux, or nothing left
        return None
    return free


Result = TypeVar("Result")
_BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})


def choose_device(device: str = "auto") -> torch.device:
    """The device to compute on: as named, or for ``"auto"`` a CUDA GPU, else the processor.

    Apple's GPU (``mps``) has no float64, in which statistics are summed: it is used where it is named.
    """
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
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


VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"  # environment variable with the GPUs that a process sees


def visible_gpus() -> list[str]:
    """The CUDA GPUs that this process sees, by number or by identifier, as ``CUDA_VISIBLE_DEVICES`` names them."""
    import torch

    numbers = list(map(str, range(torch.cuda.device_count())))
    return (os.environ.get(VISIBLE_GPUS) or ",".join(numbers)).split(",")[: len(numbers)]


def fit_device(device: str | torch.device) -> torch.device:
    """Where readouts of a model on ``device`` are fitted: there, or on the processor if it has no float64."""
    import torch

    found = torch.device(device)
    return torch.device("cpu") if found.type == "mps" else found


def bfloat16_is_fast(device: str | torch.device = "cpu") -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware, so that ``dtype="bfloat16"`` pays.

    True for CUDA GPUs of compute capability 8.0 and up, and for processors with AMX-BF16, AVX512-BF16 or Arm BF16.
    """
    import torch

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
        import torch

        self._before, self._limit = torch.get_num_threads(), torch.set_num_threads
        self._threads = n or self._before
        self.n = min(self._threads, most or self._threads) if device.type == "cpu" else 1
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        share = max(1, self._threads // self.n)
        self._limit(share)
        if self.n > 1:
            self._pool = ThreadPoolExecutor(self.n, initializer=self._limit, initargs=(share,))
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._limit(self._before)

    def map(self, job: Callable[[int], Result], n: int) -> list[Result]:
        """``[job(0), …, job(n − 1)]``."""
        return list(map(job, range(n)) if self._pool is None else self._pool.map(job, range(n)))


def on_each_core(encoder: Any, work: Callable[[Any, slice], Result], *, most: int) -> list[Result]:
    """Run ``work`` on each core, with the encoder or a twin of it and with every n-th batch of n cores."""
    import torch

    with Workers(torch.device(encoder.device), most=most) as workers:
        readers = [encoder, *(encoder.twin() for _ in range(workers.n - 1))]
        return workers.map(lambda number: work(readers[number], slice(number, None, workers.n)), workers.n)


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence progress bars, warnings and log lines of the model libraries inside the block.

    What matters (missing weights, a vocabulary that does not fit) is checked and raised by the caller.
    """
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        # Before the import below, which may warn as well (in a notebook, of missing widgets).
        warnings.simplefilter("ignore")
        from transformers.utils import logging as library

        logging: Any = library
        stack.callback(logging.set_verbosity, logging.get_verbosity())
        logging.set_verbosity(CRITICAL)
        if logging.is_progress_bar_enabled():
            stack.callback(logging.enable_progress_bar)
            logging.disable_progress_bar()
        stack.enter_context(quiet_download())
        yield


@contextlib.contextmanager
def quiet_download() -> Iterator[None]:
    """Silence the hub's progress bars inside the block."""
    import huggingface_hub.utils as hub_utils

    hub: Any = hub_utils
    with contextlib.ExitStack() as stack:
        if not hub.are_progress_bars_disabled():
            stack.callback(hub.enable_progress_bars)
            hub.disable_progress_bars()
        yield
