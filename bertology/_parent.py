"""Worker processes that end with the process they work for, however that ends."""

from __future__ import annotations

import os
import threading
import time

_LOOK_S = 0.25


def end_with_parent(parent: int) -> None:
    """Let this process end within a second of its parent, in the middle of its work.

    Files are written whole or not at all and locks are the system's, so that nothing is left half done.

    Args:
        parent: process id of the parent. If it has ended already, this process ends at once.
    """

    def watch() -> None:
        # The system gives a process another parent when its own has ended.
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()
