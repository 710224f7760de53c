import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from bertology.explore.panels import Loaded
from bertology.explore.server import make_app
from bertology.explore.worker import Explorer

TOKEN, PORT = "a-token", 8765
HOST = f"http://127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    explorer = Explorer(Loaded(["pocket", "bilingual"], ["pocket"]))
    yield explorer
    explorer.close()


@pytest.fixture
def client(explorer: Explorer) -> TestClient:
    return TestClient(make_app(explorer, TOKEN, PORT), base_url=HOST, headers={"origin": HOST})


@pytest.fixture
def ask(client: TestClient) -> Callable[..., dict[str, Any]]:
    """Puts a question, of ``pocket`` unless told otherwise; the last line of the answer."""

    def ask(**question: Any) -> dict[str, Any]:
        given = {"panel": "attention", "text": "The dogs sleep.", "model": "pocket", "corpus": "pocket", **question}
        reply = client.post(f"/{TOKEN}/ask", json=given)
        assert reply.status_code == 200
        last: dict[str, Any] = [json.loads(line) for line in reply.text.splitlines()][-1]
        return last

    return ask
