"""The page in a browser, from a server of its own."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from bertology.explore.panels import PANELS
from bertology.explore.server import make_app
from bertology.explore.worker import Explorer


@pytest.fixture
def address(explorer: Explorer) -> Iterator[str]:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # the browser may come before the thread has begun
        port = listener.getsockname()[1]
        config = uvicorn.Config(make_app(explorer, "a-token", port), log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}/a-token/"
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page at phone width in the dark, which may say nothing on the console and ask nothing of others."""
    noise: list[str] = []
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark", accept_downloads=True)
    page = context.new_page()
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("dialog", lambda dialog: noise.append(dialog.message) or dialog.dismiss())
    page.on("request", lambda request: request.url.startswith((address, "blob:")) or noise.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert noise == []


def answered(page: Any) -> str:
    page.locator("#stop").wait_for(state="hidden", timeout=60_000)
    return str(page.locator("#status").text_content())


def test_panels_show_views_and_the_link_holds_all(page: Any, address: str) -> None:
    for name in PANELS:
        if name == "tree":  # whose probe takes a minute to fit
            continue
        page.locator(f"#panel-{name}").focus()
        page.keyboard.press("Space")
        page.locator("#examples button").first.click()
        assert answered(page).endswith(" s")
        frame = page.frame_locator("#view iframe")
        frame.locator("main").wait_for()
        assert page.locator("#command").text_content().startswith(f"bertology {PANELS[name].of_command or name} ")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    with page.expect_download() as saved:
        page.locator("#save").click()
    assert saved.value.suggested_filename == "align.html"
    link, command = page.url, page.locator("#command").text_content()
    page.goto("about:blank")
    page.goto(link)
    assert answered(page).endswith(" s")
    assert page.locator("#command").text_content() == command


def test_typing_asks_and_mistakes_are_shown_in_a_line(page: Any) -> None:
    page.locator("#text").fill("</textarea><img src=x onerror=alert(1)> sleeps.")
    page.locator("#found").wait_for()
    assert answered(page).endswith(" s")
    page.locator("#panel-cloze").check(force=True)
    page.wait_for_selector("#status.error")
    assert answered(page).startswith("no mask in")
    assert page.locator("#found").is_hidden()
    page.locator("#text").fill("The dogs {mask}.")
    page.keyboard.press("Enter")
    page.locator("#found").wait_for()


def test_a_view_can_be_stopped(page: Any, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def view(_: object) -> dict[str, str]:
        bar = explorer.loaded.progress("long")
        bar.start(10**9, unit="steps")
        try:
            while True:
                bar.advance(1)
        finally:
            ended.set()

    monkeypatch.setattr(explorer, "_view", view)
    page.locator("#text").fill("The dogs sleep.")
    page.keyboard.press("Enter")
    page.get_by_text("long: ").wait_for()
    page.locator("#stop").click()
    assert answered(page) == "Stopped."
    assert ended.wait(10)
