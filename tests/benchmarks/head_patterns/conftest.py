"""Maps made by hand, as the tests of the classifiers have them."""

from __future__ import annotations

from tests.attention.patterns.conftest import plant

__all__ = ["plant"]
