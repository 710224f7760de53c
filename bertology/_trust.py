"""Code that comes with models: a file only asks for it, and it runs where the command line or the call grants it."""

from __future__ import annotations

from bertology._settings import Written
from bertology.errors import BertologyError

_KEY = "trust_remote_code"


def check_trust(written: Written, *, granted: bool) -> None:
    """Refuse a file that asks to run Python code of a model, unless that is granted.

    Args:
        written: content of the file, with what it includes.
        granted: whether the command line or the call grants it.

    Raises:
        BertologyError: ``trust_remote_code`` is true in the file, and is not granted.
    """
    if granted or not isinstance(written.value, dict | list):
        return
    for key, value in written.value.items() if isinstance(written.value, dict) else enumerate(written.value):
        if key == _KEY and value.value is True:
            raise BertologyError(
                f"{written.place_of((key,))}: asks to run Python code that comes with a model: give "
                "--trust-remote-code (trust_remote_code=True) as well if you trust it, or delete this line"
            )
        check_trust(value, granted=granted)
