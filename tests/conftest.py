"""Fixtures shared by all tests: real corpora and a real encoder, tiny ones made here, a cache folder of one's own."""

import gc
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.commands import write_noisy

hypothesis.settings.register_profile("untimed", deadline=None)  # machines differ, and have other work
hypothesis.settings.load_profile("untimed")
# Several processes of tests share the cores: each keeps to one thread.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

_FIRST = (
    *("test_site.py", "test_kills.py", "test_killed.py", "test_toys.py", "test_dask.py", "test_cluster.py"),
    *("test_browser.py", "test_map_browser.py", "test_own_probes.py", "test_pocket_claims.py", "test_directions.py"),
)
_SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no process waits for it at the end.

    What is started once a process of tests (a browser, processes to fork from) stands together, so that one of them
    alone starts it: others take over from the end.
    """
    places = {name: place for place, name in enumerate(_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_collection_finish() -> None:
    """Imported modules hold a million objects: garbage collections that traverse them are a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """The folder or file ``name`` of the real corpora; the test skips, saying what is missing, where it is absent."""
    root = Path(os.environ.get("BERTOLOGY_REAL_DATA", _SHARED / "data"))

    def find(name: str) -> Path:
        if not (root / name).exists():
            pytest.skip(f"real corpus not found: {root / name}; BERTOLOGY_REAL_DATA names the folder")
        return root / name

    return find


@pytest.fixture(scope="session")
def real_model() -> Path:
    """The folder of a real pre-trained encoder; the test skips where it is absent."""
    folder = Path(os.environ.get("BERTOLOGY_REAL_MODEL", _SHARED / "models" / "minilm-mlm"))
    if not folder.exists():
        pytest.skip(f"real encoder not found: {folder}; BERTOLOGY_REAL_MODEL names the folder")
    return folder


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """Every device that results are tested on: the processor, and CUDA where there is one."""
    import torch

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return str(request.param)


@pytest.fixture(scope="session")
def cache_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that do not exist yet; ``mktemp`` reads the names of all folders to find each next one."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_cache(cache_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test keeps its cache to itself, and never asks a hub."""
    folder = next(cache_folders)
    folder.mkdir()
    monkeypatch.setenv("BERTOLOGY_CACHE", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.fixture(scope="session", autouse=True)
def drawn() -> Iterator[Any]:
    """Runs draw no figures, which takes longer than many a run: what they show is tested in ``tests/results``."""
    from bertology.results._results import View

    with pytest.MonkeyPatch.context() as patch:
        real = View.figures
        patch.setattr(View, "figures", lambda view: {})
        yield real


@pytest.fixture
def figures(drawn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of tests that ask for it draw their figures."""
    monkeypatch.setattr("bertology.results._results.View.figures", drawn)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a BERT of 3 layers of 32, its weights random, and a WordPiece tokenizer of the pocket world."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from bertology.pocket import load_corpus
    from bertology.pocket._examples import save_tokenizer, train_tokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    sentences = load_corpus()["train"]
    tokenizer = train_tokenizer((sentences.text(i) for i in range(300)), vocabulary_size=300)
    save_tokenizer(tokenizer, folder, max_pieces=64)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(11)
        BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def noisy_bert(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with :func:`tiny_bert` whose last block has other weights."""
    return write_noisy(tiny_bert, tmp_path_factory.mktemp("models") / "noisy-bert")


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of CoNLL-U files cut from the pocket corpus: 80 sentences of train, 20 of dev, 30 of test."""
    from bertology.corpora import write_conllu
    from bertology.pocket import load_corpus

    folder = tmp_path_factory.mktemp("corpora") / "tiny"
    folder.mkdir()
    for split, size in (("train", 80), ("dev", 20), ("test", 30)):
        write_conllu(folder / f"tiny-ud-{split}.conllu", load_corpus()[split][:size])
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; the test skips, saying what is missing, where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("playwright is not installed: pip install 'bertology[dev]'")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("BERTOLOGY_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as driver:
        path = found or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("Chromium is not found: run `playwright install chromium`, or name it in BERTOLOGY_CHROMIUM")
        # A container's user may not make a sandbox; the pages are our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a window; after the test, nothing may have been said on the console, failed, or been asked of a
    network."""
    noise: list[str] = []
    contexts = []

    def open_page(
        path: Path, *, width: int = 1200, scheme: str = "light", touch: bool = False, fragment: str = "", **options: Any
    ) -> Any:
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, color_scheme=scheme, has_touch=touch, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        address = path.as_uri()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        # What is saved has an address inside the page itself.
        inside = (address, "blob:")
        page.on("request", lambda request: request.url.startswith(inside) or noise.append(request.url))
        page.goto(address + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert noise == []
