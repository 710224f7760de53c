"""Numbers of more digits than Python turns into text, for files that hold such numbers."""

import sys
from collections.abc import Callable
from typing import Any


def dumped(dump: Callable[[Any], str], tree: Any) -> str:
    """``dump(tree)``, whatever the length of the numbers in it; the limit that the tests run under is left as it is."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return dump(tree)
    finally:
        sys.set_int_max_str_digits(limit)
