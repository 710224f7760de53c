"""Treebanks by name, from a server on this machine."""

from __future__ import annotations

import hashlib
import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertology._files import cache_folder
from bertology.corpora import load_corpus
from bertology.corpora._named import TREEBANKS, Treebank
from bertology.errors import CorpusError, StoreError

FILES = {split: f"1\t{split}\t_\tX\t_\t_\t0\troot\t_\t_\n\n".encode() for split in ("train", "test")}


class Mirror:
    """Serves what is put into ``content`` by path, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.asked: list[str] = []
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.asked.append(self.path)
                found = mirror.content.get(self.path)
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(found or b"")))
                self.end_headers()
                self.wfile.write(found or b"")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mirror"


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    mirror = Mirror()
    thread = threading.Thread(target=mirror.server.serve_forever)
    thread.start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BERTOLOGY_UD_MIRROR", mirror.url + "/")
    for split, content in FILES.items():
        mirror.content[f"/mirror/UD_Made-Up/abc123/xx_up-ud-{split}.conllu"] = content
    yield mirror
    mirror.server.shutdown()
    thread.join()
    mirror.server.server_close()


@pytest.fixture(autouse=True)
def made_treebank(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {split: hashlib.sha256(content).hexdigest() for split, content in FILES.items()}
    treebank = Treebank("UD_Made-Up", "abc123", "xx_up", hashes, "made up", "xx", "CC0", "nobody, never")
    monkeypatch.setitem(TREEBANKS, "ud:xx_up", treebank)


def _cached() -> Path:
    return cache_folder() / "corpora" / "UD_Made-Up" / "abc123" / "xx_up-ud-test.conllu"


def test_a_treebank_is_downloaded_once(mirror: Mirror):
    corpus = load_corpus("ud:xx_up")
    assert [sentence.text for split in corpus.splits.values() for sentence in split] == ["train", "test"]
    assert (corpus.name, corpus.language, corpus.licence, corpus.reference) == (
        "ud:xx_up",
        "xx",
        "CC0",
        "nobody, never",
    )
    assert _cached().read_bytes() == FILES["test"]
    assert len(mirror.asked) == 2
    assert load_corpus("ud:xx_up").fingerprint == corpus.fingerprint
    assert len(mirror.asked) == 2


def test_a_corrupted_download_is_refused_and_not_kept(mirror: Mirror):
    path = "/mirror/UD_Made-Up/abc123/xx_up-ud-test.conllu"
    mirror.content[path] = FILES["test"] + b"#"
    with pytest.raises(CorpusError, match=r"xx_up-ud-test.conllu is not the file that was pinned \(SHA-256 ") as caught:
        load_corpus("ud:xx_up")
    assert "\n" not in str(caught.value)
    assert not _cached().exists()
    mirror.content[path] = FILES["test"]
    assert len(load_corpus("ud:xx_up")["test"]) == 1


def test_a_cached_file_that_was_changed_is_downloaded_again(mirror: Mirror):
    load_corpus("ud:xx_up")
    _cached().write_bytes(b"spoilt")
    assert load_corpus("ud:xx_up")["test"].text(0) == "test"
    assert _cached().read_bytes() == FILES["test"]


def test_a_file_that_is_not_there(mirror: Mirror):
    mirror.content.clear()
    with pytest.raises(CorpusError, match=r"xx_up-ud-train.conllu cannot be downloaded \(HTTP 404\); go online, set"):
        load_corpus("ud:xx_up")


def test_a_refused_connection_names_the_remedy_and_a_cached_copy_needs_none(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: a connection is refused
        monkeypatch.setenv("BERTOLOGY_UD_MIRROR", f"http://127.0.0.1:{taken.getsockname()[1]}")
        message = r"cannot be downloaded \(no connection\); go online, set BERTOLOGY_UD_MIRROR, or give the path"
        with pytest.raises(CorpusError, match=message) as caught:
            load_corpus("ud:xx_up")
        assert "\n" not in str(caught.value)
        monkeypatch.setenv("BERTOLOGY_UD_MIRROR", mirror.url)
        load_corpus("ud:xx_up")
        monkeypatch.setenv("BERTOLOGY_UD_MIRROR", f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert len(load_corpus("ud:xx_up")["train"]) == 1


def test_a_cache_that_cannot_be_written(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="set BERTOLOGY_CACHE to another folder"):
        load_corpus("ud:xx_up")


@pytest.mark.parametrize("name", [name for name in TREEBANKS if name != "ud:xx_up"])
def test_what_is_pinned_is_what_was_read(name: str, real_data):
    """The hashes are those of the files these tests read."""
    folders = {
        "ud:en_ewt": "ud_english_ewt",
        "ud:en_pud": "ud_english_pud",
        "ud:fr_sequoia": "ud_french_sequoia",
        "ud:de_gsd": "ud_german_gsd",
        "ud:es_gsd": "ud_spanish_gsd",
    }
    treebank = TREEBANKS[name]
    folder = real_data(folders[name])
    found = {split: (folder / treebank.file_name(split)) for split in ("train", "dev", "test")}
    hashes = {s: hashlib.sha256(path.read_bytes()).hexdigest() for s, path in found.items() if path.exists()}
    assert dict(treebank.sha256) == hashes
    if (folder / "SOURCE.txt").exists():
        source = (folder / "SOURCE.txt").read_text()
        assert f"commit: {treebank.commit}" in source
        assert f"/{treebank.repository}\n" in source
