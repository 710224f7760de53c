"""The embedded model, which all tests of causal interventions read."""

import pytest

from bertology.encoders import Encoder, load_encoder


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return load_encoder("pocket", device="cpu")
