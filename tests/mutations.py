"""Seeded damage to files and settings, for tests that nothing a person gives ends in a traceback.

A mutant is either accepted or refused in one line; anything else is a defect. Sequences of mutants are the same in
every run, so that a failure names its seed and can be repeated. ``BERTOLOGY_MUTANTS=10`` makes ten times as many.
"""

import copy
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

from bertology.errors import BertologyError

MAX_MESSAGE = 1000
"""Characters of an error message; what is quoted of a file is cut."""


def times(count: int) -> int:
    """So many mutants of a test, or as many times more as the environment asks for."""
    return round(count * float(os.environ.get("BERTOLOGY_MUTANTS", "1")))


_NUMBERS: tuple[Any, ...] = (0, 1, -1, 0.5, 2**31, 2**63, -(2**63), 10**5000, float("nan"), float("inf"), -1e400)
_TEXTS = ("", " ", "\x00", "../../outside", "/dev/zero", "no", "1e-3", "x" * 100_000, "９", "\ud800")
_VALUES: tuple[Any, ...] = (*_NUMBERS, *_TEXTS, None, True, False, [], {}, [[]], [None], {"": None})
"""Values that take the place of others: wrong types, limits of number formats, empty, long, and not encodable."""


def mutated_bytes(content: bytes, *, seed: int, count: int) -> Iterator[bytes]:
    """``count`` damaged copies of a file: bits flipped, parts cut, doubled, swapped, or replaced by hostile bytes."""
    dice = random.Random(seed)
    for _ in range(count):
        mutant = bytearray(content)
        for _ in range(dice.choice((1, 1, 2, 8))):
            _damage(mutant, dice)
        yield bytes(mutant)


def _damage(mutant: bytearray, dice: random.Random) -> None:
    start = dice.randrange(len(mutant) + 1)
    end = min(len(mutant), start + dice.choice((1, 2, 16, 200, len(mutant))))
    match dice.randrange(5):
        case 0 if start < len(mutant):
            mutant[start] ^= 1 << dice.randrange(8)
        case 1:
            del mutant[start:end]
        case 2:
            mutant[start:start] = mutant[start:end]
        case 3:
            del mutant[start:]
        case _:
            hostile = (
                b"\x00",
                b"\xff\xfe",
                b"\t",
                b"\n\n",
                b"\r",
                b"9" * 5000,
                b"-1",
                b"NaN",
                b"\xed\xa0\x80",
                b"[" * 3000,
            )
            mutant[start:end] = dice.choice(hostile)


def mutated_tree(tree: Any, *, seed: int, count: int) -> Iterator[Any]:
    """``count`` damaged copies of nested mappings and lists: one value replaced, one key removed, renamed or added."""
    dice = random.Random(seed)
    for _ in range(count):
        mutant = copy.deepcopy(tree)
        nodes = [node for node in _containers(mutant) if node]
        if not nodes:
            yield dice.choice(_VALUES)
            continue
        node = dice.choice(nodes)
        key = dice.choice(list(node)) if isinstance(node, dict) else dice.randrange(len(node))
        match dice.randrange(8):
            case 0:
                del node[key]
            case 1 if isinstance(node, dict):
                node[f"{key}x"] = node.pop(key)
            case 2 if isinstance(node, list):
                node.append(copy.deepcopy(node[key]))
            case 3:
                mutant = dice.choice(_VALUES)
            case _:
                node[key] = copy.deepcopy(dice.choice(_VALUES))
        yield mutant


def _containers(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict | list):
        yield tree
        for child in tree.values() if isinstance(tree, dict) else tree:
            yield from _containers(child)


def accepted(use: Callable[[], object]) -> bool:
    """Whether ``use`` accepts its input; False where it refuses it in one line. Every other error propagates.

    Raises:
        AssertionError: the refusal takes several lines, quotes too much, or is empty.
    """
    try:
        use()
    except BertologyError as error:
        message = str(error)
        assert message.strip(), "an empty message"
        assert "\n" not in message, f"several lines: {message[:MAX_MESSAGE]!r}"
        assert len(message) <= MAX_MESSAGE, f"{len(message)} characters: {message[:200]!r}"
        return False
    return True
