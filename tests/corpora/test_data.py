"""Data by name: the registry, and downloads from a local server."""

import hashlib
import http.server
import io
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bertology._files import cache_folder
from bertology.corpora import _data, corpus_is_available, data_read, known_corpora, load_corpus
from bertology.corpora._data import DataSet, data_set, data_sets, treebanks
from bertology.errors import CorpusError, NameNotFoundError, StoreError
from bertology.probing import get_probe, registered_probes

FILES = {
    f"xx_up-ud-{split}.conllu": f"1\t{split}\t_\tX\t_\t_\t0\troot\t_\t_\n\n".encode() for split in ("train", "test")
}
TRAIN, TEST = FILES
AT = "/mirror/UD/Made/abc123/"
README = b"...\nLicense: CC BY-NC 4.0\n"


class Mirror:
    """Serves the contents by path; records the paths that are asked for, and with them the ranges."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.breaks_after: int | None = None
        """Bytes of each answer after which the connection is closed."""
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range", "")
                mirror.asked.append(f"{self.path} {asked}".strip())
                content = mirror.content.get(self.path)
                start = int(re.sub(r"\D", "", asked) or 0)
                is_past_end = content is not None and 0 < len(content) <= start
                self.send_response(404 if content is None else 416 if is_past_end else 206 if asked else 200)
                body = b"" if content is None or is_past_end else content[start:]
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: mirror.breaks_after])

            def log_message(self, *_: object) -> None:
                """No log."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mirror"


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    mirror = Mirror()
    thread = threading.Thread(target=mirror.server.serve_forever)
    thread.start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BERTOLOGY_MIRROR", mirror.url + "/")
    mirror.content |= {AT + file: content for file, content in FILES.items()}
    yield mirror
    mirror.server.shutdown()
    thread.join()
    mirror.server.server_close()


def _made(hashes: Mapping[str, str], **more: str) -> DataSet:
    about = {"description": "made up", "language": "xx", "licence": "CC0", "reference": "nobody, never"}
    return DataSet("made", "UD/Made", hashes, **{**about, "revision": "abc123", **more})  # type: ignore[arg-type]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in FILES.items()}
    monkeypatch.setitem(data_sets(), "made", _made(hashes))
    monkeypatch.setattr(_data, "_beginnings", lambda: {"made", "ud"})


def _cached(file: str = TEST) -> Path:
    return cache_folder() / "corpora" / "UD" / "Made" / "abc123" / file


@pytest.mark.usefixtures("made")
def test_data_are_downloaded_once_and_their_licence_is_shown_once(
    mirror: Mirror, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not corpus_is_available("made")
    corpus = load_corpus("made")
    assert [sentence.text for split in corpus.splits.values() for sentence in split] == ["train", "test"]
    assert (corpus.name, corpus.language, corpus.licence, corpus.reference) == ("made", "xx", "CC0", "nobody, never")
    assert capsys.readouterr().err == "bertology: made: CC0; nobody, never; UD/Made abc123\n"
    assert corpus_is_available("made")
    assert load_corpus("made").fingerprint == corpus.fingerprint
    assert mirror.asked == [AT + TRAIN, AT + TEST]
    assert capsys.readouterr().err == ""
    assert data_read("corpora: [made]") == {"made": dict(data_sets()["made"].files)}
    assert data_read("corpora: [other]") == {}


@pytest.mark.usefixtures("made")
def test_a_part_of_data_is_downloaded_alone(mirror: Mirror) -> None:
    assert list(load_corpus(f"made:{TEST}").splits) == ["test"]
    assert mirror.asked == [AT + TEST]
    with pytest.raises(NameNotFoundError, match=f"unknown part of made 'x-ud-test.conllu': did you mean {TEST}"):
        load_corpus("made:x-ud-test.conllu")


@pytest.mark.usefixtures("made")
def test_a_file_with_another_hash_is_refused_and_one_that_was_changed_is_replaced(mirror: Mirror) -> None:
    mirror.content[AT + TEST] = FILES[TEST] + b"#"
    with pytest.raises(CorpusError, match=rf"{TEST} is not the file that was pinned \(SHA-256 ") as caught:
        load_corpus("made")
    assert "\n" not in str(caught.value)
    assert not _cached().exists()
    mirror.content[AT + TEST] = FILES[TEST]
    assert len(load_corpus("made")["test"]) == 1
    _cached().write_bytes(b"spoilt")
    assert load_corpus("made")["test"].text(0) == "test"
    assert _cached().read_bytes() == FILES[TEST]


@pytest.mark.usefixtures("made")
def test_a_download_that_broke_off_is_resumed(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_data, "_CHUNK", 4)
    mirror.breaks_after = 11
    with pytest.raises(
        CorpusError, match=rf"{TRAIN} cannot be downloaded \(\w+Error\); go online, set BERTOLOGY_MIRROR"
    ):
        load_corpus("made")
    mirror.breaks_after = None
    load_corpus("made")
    assert mirror.asked[:2] == [AT + TRAIN, f"{AT}{TRAIN} bytes=8-"]
    _cached().rename(_cached().with_name(f".{TEST}.part"))  # all of it was there when the process was killed
    load_corpus("made")
    assert mirror.asked[3:] == [f"{AT}{TEST} bytes={len(FILES[TEST])}-", AT + TEST]


@pytest.mark.usefixtures("made")
def test_no_network_offline_and_files_that_moved_are_one_line_each(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: a connection is refused
        refusing = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("BERTOLOGY_MIRROR", refusing)
        with pytest.raises(CorpusError, match=rf"{TRAIN} cannot be downloaded \(ConnectionError\); go online"):
            load_corpus("made")
        monkeypatch.setenv("BERTOLOGY_MIRROR", mirror.url)
        monkeypatch.setenv("BERTOLOGY_OFFLINE", "1")
        with pytest.raises(
            CorpusError, match=f"made: {TRAIN} is not in the cache, and this is offline; go online, set"
        ):
            load_corpus("made")
        monkeypatch.delenv("BERTOLOGY_OFFLINE")
        gone = mirror.content.pop(AT + TEST)
        with pytest.raises(CorpusError, match=rf"{TEST} is not there any more \(404\): set BERTOLOGY_MIRROR, or give"):
            load_corpus("made")
        mirror.content[AT + TEST] = gone
        load_corpus("made")
        monkeypatch.setenv("BERTOLOGY_MIRROR", refusing)
        assert len(load_corpus("made")["train"]) == 1
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="set BERTOLOGY_CACHE to another folder"):
        load_corpus("made")


def test_files_without_a_known_hash_are_pinned_at_first_use(mirror: Mirror, capsys: pytest.CaptureFixture[str]) -> None:
    repository, code = "/mirror/UniversalDependencies/UD_French-GSD/r2.17/", "fr_gsd-ud-test.conllu"
    mirror.content |= {f"{repository}{code}": FILES[TEST], f"{repository}README.md": README}
    corpus = load_corpus("ud:fr_gsd@2.17")
    assert (list(corpus.splits), corpus.licence, corpus.language) == (["test"], "CC BY-NC 4.0", "fr")
    assert "ud:fr_gsd@2.17: CC BY-NC 4.0; French GSD of Universal Dependencies" in capsys.readouterr().err
    assert corpus_is_available("ud:fr_gsd@2.17")
    n_asked, cached = len(mirror.asked), next(cache_folder().rglob(code))
    load_corpus("ud:fr_gsd@2.17")
    assert len(mirror.asked) == n_asked
    cached.unlink()
    mirror.content[f"{repository}{code}"] = FILES[TRAIN]
    with pytest.raises(CorpusError, match=rf"{code} is not the file that was pinned"):
        load_corpus("ud:fr_gsd@2.17")
    with pytest.raises(CorpusError, match=r"UD_French-GSD/r2.99/ is not there \(404\): no such release"):
        load_corpus("ud:fr_gsd@2.99")
    with pytest.raises(NameNotFoundError, match=r"unknown corpus 'ud:fr_gds@2\.17'"):
        load_corpus("ud:fr_gds@2.17")


def test_tables_of_the_hub_are_read_by_their_columns(mirror: Mirror) -> None:
    table = {"premise": ["a b", "c"], "hypothesis": ["d", "e f"], "label": [0, 1], "idx": [0, 1]}
    for split in ("train", "validation_matched"):
        buffer = io.BytesIO()
        pd.DataFrame(table).to_parquet(buffer)
        mirror.content[f"/mirror/nyu-mll/glue/main/mnli/{split}-00000-of-00001.parquet"] = buffer.getvalue()
    corpus = load_corpus("glue:mnli")
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 2, "dev": 2}
    assert set(corpus["dev"][0].targets) >= {"label"}
    assert not corpus_is_available("glue:mlni")


def test_every_treebank_has_a_name_a_repository_and_a_language() -> None:
    assert len(treebanks()) == 353
    for name in treebanks():
        found, part = data_set(name)
        assert (found.name, part) == (name, "")
        assert re.fullmatch(r"ud:[a-z]{2,3}_[a-z0-9]+", name)
        assert re.fullmatch(r"UniversalDependencies/UD_[A-Z]\w+-\w+", found.repository)
        assert found.revision == "r2.18" or len(found.revision) == 40
        assert any(file == f"{name[3:]}-ud-test.conllu" for file in found.files)
        assert name[3:].startswith(f"{found.language}_")
        assert treebanks()[name].language_name
    assert set(known_corpora(language="French")) == {name for name in treebanks() if name.startswith("ud:fr_")}
    with pytest.raises(NameNotFoundError, match="unknown language of data 'frnch': did you mean french"):
        known_corpora(language="frnch")


@pytest.mark.parametrize("name", data_sets())
def test_every_entry_of_the_registry_is_whole(name: str) -> None:
    entry = data_sets()[name]
    assert re.fullmatch(r"[\w-]+/[\w.-]+", entry.repository)
    assert re.fullmatch(r"[0-9a-f]{40}|HEAD|main|master", entry.revision)
    assert entry.files
    assert all(re.fullmatch(r"[0-9a-f]{64}|", sha256) for sha256 in entry.files.values())
    assert not any(file.startswith("/") or ".." in file for file in entry.files)
    assert all("\n" not in text and text for text in (entry.description, entry.licence, entry.reference))
    assert all(re.fullmatch("[a-z]{2,3}", language) for language in entry.language.split())
    assert set(entry.renamed) <= set(entry.files)
    assert entry.tasks or name.startswith("ud:")
    assert {*entry.tasks, *_data._OF_TREEBANKS} <= {probe.stem for probe in registered_probes().values()}
    assert entry.url(next(iter(entry.files))).startswith(
        ("https://raw.githubusercontent.com/", "https://huggingface.co/")
    )


HERE = {
    **{"blimp": "blimp/data", "lama": "lama/data", "lama_primed_negated": "lama_primed_negated/data"},
    **{"pararel": "pararel/data", "bear": "bear/BEAR", "lm_diagnostics": "lm_diagnostics/datasets"},
    **{"gulordava": "bert_syntax", "crows_pairs": "crows_pairs", "conll2000": "conll2000", "wnut17": "wnut17"},
    **{"uner:en_ewt": "uner_english_ewt", "up:en_ewt": "up1_srl/UP_English-EWT", "dpr": "winograd_dpr/data"},
    **{"semeval2010_task8": "semeval2010_task8/data", "gap": "gap", "coarsewsd20": "coarsewsd20"},
    **{"wic_tsv:en": "wic_tsv/en", "wic_tsv:de": "wic_tsv/de", "stsb": "stsb", "open_sesame": "open_sesame"},
    **{"hansards": "word_alignments", "ucl_reading": "ucl_reading", "ud:fr_sequoia": "ud_french_sequoia"},
    **{"ud:en_ewt": "ud_english_ewt", "ud:en_pud": "ud_english_pud", "ud:de_gsd": "ud_german_gsd"},
    **{"ud:es_gsd": "ud_spanish_gsd", "ud:de_pud": "ud_german_pud"},
}
"""Folders of the real data by name."""
ITEMS = {
    **{"blimp": "minimal_pairs", "crows_pairs": "minimal_pairs", "lama": "lama", "bear": "facts:bear"},
    **{"lama_primed_negated": "lama:negated", "pararel": "lama:paraphrases", "lm_diagnostics": "diagnostics:role"},
    **{"gulordava": "agreement"},
}
"""Tasks that read items."""


@pytest.mark.parametrize("name", HERE)
def test_what_is_registered_loads_as_published(
    name: str, mirror: Mirror, real_data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are not among the real data are left out."""
    for one in (name, "ud:en_ewt") if name.startswith("up:") else (name,):
        folder, entry = real_data(HERE[one]), data_set(one)[0]
        places = {file: folder / entry.renamed.get(file, file) for file in entry.files}
        files = {file: sha256 for file, sha256 in entry.files.items() if places[file].is_file()}
        if one in data_sets():
            monkeypatch.setitem(data_sets(), one, replace(entry, files=files))
        for file in files:
            mirror.content[entry.url(file).removeprefix(mirror.url.removesuffix("/mirror"))] = places[file].read_bytes()
    if name in ITEMS:
        assert get_probe(ITEMS[name]).read_items(name).items
    else:
        corpus = load_corpus(f"{name}+ud:en_ewt" if name.startswith("up:") else name)
        assert all(len(sentences) for sentences in corpus.splits.values())
    pins = json.loads(next((cache_folder() / "corpora" / "pins").iterdir()).read_text())
    assert all(sha256 is None or len(sha256) == 64 for sha256 in pins.values())
