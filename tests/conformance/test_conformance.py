"""Bertology beside other libraries that compute the same, and the page that shows it."""

from pathlib import Path

import numpy as np
import pytest

from tests.conformance.peers import COMPARISONS, largest_difference

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "conformance.md"


@pytest.mark.filterwarnings("ignore")  # of the peers
@pytest.mark.parametrize("key", COMPARISONS)
def test_a_peer_computes_the_same(key: str) -> None:
    one = COMPARISONS[key]
    if not one.is_installed:
        pytest.skip(f"{one.peer} is not installed: pip install 'bertology[test]'")
    found = one.compute()
    assert np.isfinite(np.asarray(found.ours, dtype=np.float64)).all()
    assert largest_difference(found.ours, found.peer) <= one.tolerance
    if found.defaults is not None:
        assert largest_difference(found.ours, found.defaults) > 2 * one.tolerance, "its defaults are the same: say so"


def test_the_page_shows_every_comparison_within_its_tolerance() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    shown = {f"{peer.partition(' ')[0]}: {name.removeprefix('| ')}": rest for name, peer, *rest in rows[2:]}
    assert list(shown) == list(COMPARISONS)
    for key, (_, _, difference, tolerance, *_) in shown.items():
        assert float(tolerance) == COMPARISONS[key].tolerance
        assert float(difference) <= COMPARISONS[key].tolerance
