"""Maps made by hand, as the tests of the classifiers have them."""

from tests.attention.patterns.conftest import plant

__all__ = ["plant"]
