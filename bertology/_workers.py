"""Threads that share the work of a fit or of a forward pass, each on its own core.

The alternative, every tensor operation spread over all cores, makes the cores wait for each other thousands of times a
pass, and for long where something else runs beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


class Workers:
    """As many threads as torch may use, while in the ``with`` block; one on an accelerator, which has its own.

    Inside the block, torch computes each operation on the thread that asks for it; if there are more threads than
    ``most``, on an equal share of them.

    Args:
        device: where the tensors are.
        most: how many workers there may be at most, where each needs memory of its own.
    """

    def __init__(self, device: torch.device, *, most: int | None = None) -> None:
        self._threads = torch.get_num_threads()
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
            torch.set_num_threads(self._threads)

    def spread(self, chunks: Iterable[tuple[Tensor, Tensor]], jobs: Sequence[Callable[[Tensor, Tensor], None]]) -> None:
        """Give chunks to the jobs in turn; a job gets its next chunk only when it is done with the last.

        Which job gets which chunk depends on nothing but their number, so that sums come out the same every time.
        """
        busy: list[Future[None] | None] = [None] * len(jobs)
        for number, chunk in enumerate(chunks):
            place = number % len(jobs)
            if self._pool is None:
                jobs[place](*chunk)
                continue
            _wait(busy[place])
            busy[place] = self._pool.submit(jobs[place], *chunk)
        for last in busy:
            _wait(last)

    def map(self, job: Callable[[int], Result], n: int) -> list[Result]:
        """``[job(0), …, job(n − 1)]``."""
        return list(map(job, range(n)) if self._pool is None else self._pool.map(job, range(n)))


def _wait(last: Future[None] | None) -> None:
    if last is not None:
        last.result()
