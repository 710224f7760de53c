"""The page's server: every panel answers with the command's own page, and nothing else can be asked of it."""

import base64
import re
import shlex
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from bertology import BertologyError, load_encoder
from bertology.cli import main
from bertology.explore.panels import PANELS, Loaded, Question
from bertology.explore.worker import Explorer, Job

Ask = Callable[..., dict[str, Any]]
BASE = "/a-token/"
PLAIN = [name for name, panel in PANELS.items() if panel.function or name == "tokenize"]


TIMES = re.compile(r'\{"text":"[0-9.]+"\}(?=\])')
"""Milliseconds that each method of attribution took."""


def written(panel: str) -> str:
    """The page that was just written, but for times."""
    text = Path(f"{panel}.html").read_text(encoding="utf-8")
    Path(f"{panel}.html").unlink()
    return TIMES.sub("", text)


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


@pytest.mark.parametrize("panel", [name for name in PANELS if name != "tree"])
def test_each_panel_shows_what_its_command_and_python_lines_give(
    panel: str, ask: Ask, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in PANELS[panel].examples:
        found = ask(panel=panel, **example)
        page = client.get(BASE + found["view"])
        assert page.status_code == 200
        assert "sandbox allow-scripts" in page.headers["content-security-policy"]
        run(found["command"], monkeypatch)
        if panel in PLAIN:
            assert written(panel) == TIMES.sub("", page.text)
        exec(found["python"], {})  # lines of our own making
        if panel in PLAIN and panel != "tokenize":
            assert written(panel) == TIMES.sub("", page.text)
        saved = client.get(BASE + found["view"] + "?save")
        assert saved.text == page.text
        assert saved.headers["content-disposition"] == f'attachment; filename="{panel}.html"'


def test_a_tree_is_that_of_its_command(
    tiny_bert: Path, tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, corpus, panel = str(tiny_bert), str(tiny_corpus), PANELS["tree"]
    question = Question("tree", "The dogs sleep.", model, corpus=corpus)
    page = panel.page(question, Loaded([model], [corpus]))
    for run_it in (lambda: run(panel.command(question), monkeypatch), lambda: exec(panel.python(question), {})):
        run_it()
        assert base64.b64encode(Path("tree.svg").read_bytes()).decode() in page
        Path("tree.svg").unlink()


def test_the_page_is_one_file_with_a_policy(client: TestClient) -> None:
    page = client.get(BASE)
    assert page.status_code == 200
    assert "default-src 'none'" in page.text
    assert page.headers["content-security-policy"].startswith("frame-ancestors 'none'")
    assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")
    assert "http://" not in page.text.replace("http://www.w3.org/", "")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {}, 404),
        ("/other-token/", {}, 404),
        ("/a-token", {}, 307),
        ("/a-token/view/unknown", {}, 404),
        ("/a-token/view/..%2f..%2fetc%2fpasswd", {}, 404),
        (BASE, {"host": "example.org"}, 403),
        (BASE, {"host": "127.0.0.1:1"}, 403),
        (BASE, {"origin": "http://example.org"}, 403),
        (BASE, {"origin": "null"}, 403),
    ],
)
def test_what_is_not_of_the_page_is_refused(
    client: TestClient, path: str, headers: dict[str, str], status: int
) -> None:
    assert client.get(path, headers=headers, follow_redirects=False).status_code == status


def test_a_question_needs_the_origin_of_the_page(client: TestClient) -> None:
    question = {"panel": "attention", "text": "The dogs sleep.", "model": "pocket"}
    for origin in ("http://example.org", "null", ""):
        assert client.post(BASE + "ask", json=question, headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"panel": "circuit"}, "there is no panel 'circuit'"),
        ({"model": "bert-base-cased"}, "model 'bert-base-cased' is not open"),
        ({"model": "../../etc"}, "model '../../etc' is not open"),
        ({"panel": "tree", "corpus": "/etc/passwd"}, "corpus '/etc/passwd' is not open"),
        ({"text": " "}, "type a sentence"),
        ({"text": "a" * 10_000}, "text: 10,000 characters; give at most 2,000"),
        ({"text": "nul\0"}, "text: it holds the character U+0000"),
        ({"text": ["The"]}, "'text': give a text"),
        ({"panel": ["tree"]}, "'panel': give a text"),
        ({"panel": "patch"}, "the second box is empty"),
        ({"panel": "neighbours"}, "Word: give a word of the text"),
        ({"panel": "neighbours", "word": "cat"}, "word 'cat' is not in the text"),
        ({"panel": "neighbours", "word": "dogs", "k": "-1"}, "Neighbours: give a number from 1 to 100"),
        ({"panel": "neighbours", "word": "dogs", "k": "9" * 99}, "Neighbours: give a number"),
        ({"panel": "cloze"}, "no mask in 'The dogs sleep.'"),
        ({"panel": "cloze", "text": "The {mask}.", "lens": "tuned"}, "there is no tuned lens of pocket"),
        ({"heads": "L9H9"}, "layer 9: the model has 4"),
        ({"weights": "<b>"}, "Weights: '<b>' is none of raw, norm"),
        ({"panel": "attribute"}, "model pocket predicts words"),
        ({"panel": "attribute", "target": "probe=/etc,pos,1"}, ""),
    ],
)
def test_mistakes_are_one_line(ask: Ask, question: dict[str, Any], expected: str) -> None:
    found = ask(**question)
    assert found["error"].startswith(expected)
    assert "\n" not in found["error"]
    assert "Traceback" not in found["error"]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"[" * 50_000, b"\xff", b"1" * 100_000, b'{"text": 1e999}', b'{"text": "\\ud83d"}']
)
def test_what_is_no_question_is_one_line(client: TestClient, content: bytes) -> None:
    reply = client.post(BASE + "ask", content=content)
    assert reply.status_code == 200
    assert list(reply.json()) == ["error"]


HOSTILE = [
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "']}//<!--",
    "{{ 7 * 7 }} {% raw %}",
    "-x --out /tmp/x",
    "$(id) `id` ; rm",
    "'; import os",
    "👩‍👩‍👧 🇩🇪 é\u0301",
    "\u202eشكرا\u202c ‏שלום",
    "\u2028\u2029\u200b x",
    "%00%s\\0",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("panel", ["attention", "cloze", "tokenize", "align"])
def test_hostile_text_is_escaped(ask: Ask, client: TestClient, panel: str, text: str) -> None:
    found = ask(panel=panel, text=text + (" {mask}" if panel == "cloze" else ""), second=text)
    if "error" in found:
        assert "\n" not in found["error"]
        return
    page = client.get(BASE + found["view"]).text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert " ".join(text.split()) in " ".join(shlex.split(found["command"]))
    compile(found["python"], "shown", "exec")


def test_a_hundred_at_once_all_get_answers(ask: Ask) -> None:
    texts = [f"The {number} dogs sleep." for number in range(100)]
    with ThreadPoolExecutor(100) as pool:
        found = list(pool.map(lambda text: ask(panel="tokenize", text=text), texts))
    assert all("view" in one for one in found)
    assert [text in one["command"] for text, one in zip(texts, found, strict=True)] == [True] * 100


def test_more_than_can_wait_are_refused(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    go, jobs, ended = threading.Event(), list[Job](), threading.Semaphore(0)
    monkeypatch.setattr(explorer, "_view", lambda _: go.wait() and {})
    question = Question("tokenize", "text", "pocket")
    jobs += [explorer.ask(question, ended.release) for _ in range(128)]
    with pytest.raises(BertologyError, match="128 questions are waiting"):
        jobs += [explorer.ask(question, lambda: None) for _ in range(2)]  # one of all may be computed already
    for job in jobs:
        job.cancel()
    go.set()
    for _ in jobs:  # or they would be in the way of the next test
        assert ended.acquire(timeout=60)


@pytest.mark.parametrize("panel", ["progress", "model"])
def test_what_is_cancelled_ends(explorer: Explorer, monkeypatch: pytest.MonkeyPatch, panel: str) -> None:
    ended, began = threading.Event(), threading.Event()

    def view(_: Question) -> dict[str, str]:
        bar = explorer.loaded.progress("long")
        bar.start(10**9, unit="steps")
        while True:
            began.set()
            if panel == "progress":
                bar.advance(1)
            else:
                load_encoder("pocket").run(["The dogs sleep."])

    monkeypatch.setattr(explorer, "_view", view)
    job = explorer.ask(Question("tree", "text", "pocket"), ended.set)
    assert began.wait(60)
    assert job.status.startswith("long: ")
    job.cancel()
    assert ended.wait(10)
    assert job.error == "stopped"


def test_an_unforeseen_error_is_one_line(
    ask: Ask, explorer: Explorer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def view(_: Question) -> dict[str, str]:
        raise ValueError("secret\npath")

    monkeypatch.setattr(explorer, "_view", view)
    assert ask()["error"] == "this view failed: ValueError; the same command may tell more"
    assert capsys.readouterr().err.startswith("bertology explore: attention: ValueError")


def test_models_stay_loaded_and_pages_are_limited(explorer: Explorer, ask: Ask) -> None:
    assert load_encoder("pocket") is explorer.loaded.models["pocket"]
    assert load_encoder("pocket", dtype="bfloat16") is not explorer.loaded.models["pocket"]
    for number in range(80):
        ask(panel="tokenize", text=f"dogs {number}")
    assert len(explorer.pages) == 64


def test_a_lens_is_one_of_a_model(tmp_path: Path, explorer: Explorer) -> None:
    from bertology.cloze.lens import fit_lens
    from bertology.corpora import as_sentences

    path = tmp_path / "lens.safetensors"
    fit_lens(explorer.loaded.models["pocket"], as_sentences(["The dogs see the farmer."]), steps=1).save(path)
    loaded = Loaded(["pocket"], ["pocket"], [path])
    question = Question("cloze", "The dogs {mask}.", "pocket", settings={"top": 2}, lens=path)
    assert "tuned lens" in PANELS["cloze"].page(question, loaded)
    assert f"--lens {path}" in PANELS["cloze"].command(question)
    exec(PANELS["cloze"].python(question), {})
    with pytest.raises(BertologyError, match=r"lens\.safetensors"):
        Loaded(["bilingual"], ["pocket"], [path])


def test_the_command_needs_the_extra_and_a_free_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mistake(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["bertology", "explore", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line.removeprefix("bertology: ")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert mistake("--port", str(port)).startswith(f"port {port} cannot be used")
    assert mistake("--port", "99999").startswith("port 99999 cannot be used")
    assert mistake("--port", "0", "--model", "no-such-model").startswith("unknown model 'no-such-model'")
    assert mistake("--port", "0", "--model", ",").startswith("explore: name at least one model")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "bertology.explore.server")
    assert mistake() == "bertology explore needs starlette and uvicorn: pip install 'bertology[explore]'"
