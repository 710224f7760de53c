"""What the browser talks to: the page, questions and their answers, on 127.0.0.1 behind a random token.

Nothing that the browser sends names a file: models, corpora and lenses are those named when the server starts.
"""

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertology._page import full_page
from bertology.errors import BertologyError
from bertology.explore.panels import PANELS, Loaded, Question
from bertology.explore.worker import MOST_CHARACTERS, Explorer

HOST = "127.0.0.1"
_MOST_BYTES = 64_000
_MOST_A_MINUTE = 1200
"""Questions: more than a person or a lecture asks."""
_TICK_S = 0.2
"""How often the browser hears what is being done."""
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_OF_PAGE = "frame-ancestors 'none'; form-action 'none'"
_OF_VIEW = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'; form-action 'none'"
"""A view runs its scripts in an origin of its own, wherever it is opened."""


class _Guard:
    """Refuse what does not come from the page itself: another host or origin, or a wrong token."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._refusal(Headers(scope=scope), scope["path"], scope["method"])
        app = self._app if refused is None else PlainTextResponse(*refused)
        await app(scope, receive, answered)

    def _refusal(self, headers: Headers, path: str, method: str) -> tuple[str, int] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return "wrong host", 403
        token = path.removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(token.encode(errors="replace"), self._token):
            return "not found: open the address that bertology explore printed", 404
        if (origin is not None or method != "GET") and origin != f"http://{host}":
            return "wrong origin", 403
        return None


def make_app(explorer: Explorer, token: str, port: int) -> ASGIApp:
    """The application of one explorer: ``token`` is the first part of every path, ``port`` that of the address."""
    asked: deque[float] = deque(maxlen=_MOST_A_MINUTE)
    html = _page(explorer)

    async def page(_: Request) -> Response:
        return HTMLResponse(html, headers={"content-security-policy": _OF_PAGE})

    async def ask(request: Request) -> Response:
        try:
            now = time.monotonic()
            if len(asked) == _MOST_A_MINUTE and now - asked[0] < 60:
                raise BertologyError(f"more than {_MOST_A_MINUTE:,} questions in a minute: wait a little")
            asked.append(now)
            stream = _answered(explorer, explorer.question(await _sent(request)))
        except BertologyError as error:
            return Response(_line(error=" ".join(str(error).split())), media_type="application/x-ndjson")
        return StreamingResponse(stream, media_type="application/x-ndjson")

    async def view(request: Request) -> Response:
        if (kept := explorer.pages.get(request.path_params["name"])) is None:
            return PlainTextResponse("this view is no longer kept: ask again", 404)
        answer, content = kept
        headers = {"content-security-policy": _OF_VIEW}
        if "save" in request.query_params:
            headers["content-disposition"] = f'attachment; filename="{answer["file"]}"'
        return HTMLResponse(content, headers=headers)

    routes = [Route("/", page), Route("/ask", ask, methods=["POST"]), Route("/view/{name}", view)]
    return _Guard(Starlette(routes=[Mount(f"/{token}", routes=routes)]), token, port)


async def _sent(request: Request) -> dict[str, Any]:
    """What the browser sends, an object of JSON."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _MOST_BYTES:
            raise BertologyError(f"more than {_MOST_BYTES:,} bytes: a text has at most {MOST_CHARACTERS:,} characters")
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise BertologyError("a question is an object of JSON")
    return given


async def _answered(explorer: Explorer, question: Question) -> AsyncIterator[bytes]:
    """Lines of JSON: what is being done, again and again, and in the end the answer or an error.

    Where the browser goes away the generator is closed, which stops the computation.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def ended() -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(done.set)

    try:
        job = explorer.ask(question, ended)
    except BertologyError as error:
        yield _line(error=str(error))
        return
    try:
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), _TICK_S)
                break
            yield _line(progress=job.status)
    finally:
        job.cancel()
    yield _line(**(job.answer or {"error": job.error}))


def _line(**values: str) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _page(explorer: Explorer) -> str:
    """The page around the views."""
    panels, loaded = [asdict(panel) for panel in PANELS.values()], explorer.loaded
    data = {"panels": panels, "models": [*loaded.models], "corpora": [*loaded.corpora], "lenses": [*loaded.lenses]}
    here, policy = "explore/assets/explore", "connect-src 'self'; frame-src 'self'"
    parts: dict[str, Any] = {"styles": [f"{here}.css"], "scripts": [f"{here}.js"], "data": data, "policy": policy}
    return full_page(f"{here}.html", title="bertology explore", **parts, most=MOST_CHARACTERS)


def serve(
    models: Sequence[str], corpora: Sequence[str], *, lenses: Sequence[Path], port: int, ready: Callable[[str], None]
) -> None:
    """Serve the page on this machine alone, until the process is interrupted.

    Arguments and errors are those of :class:`Loaded`; ``port`` is 0 for a free one, ``ready`` takes the address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()  # the browser that is opened may come before the server has begun
        except (OSError, OverflowError) as error:
            raise BertologyError(f"port {port} cannot be used ({error}): choose another with --port") from None
        explorer, token = Explorer(Loaded(models, corpora, lenses)), secrets.token_urlsafe(24)
        port = listener.getsockname()[1]
        quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "lifespan": "off", "ws": "none"}
        config = uvicorn.Config(make_app(explorer, token, port), timeout_graceful_shutdown=2, **quiet)
        ready(f"http://{HOST}:{port}/{token}/")
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            explorer.close()
