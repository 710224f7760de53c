"""Names, folders, the hub, checkpoints, shapes and fingerprints."""

import hashlib
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch
from safetensors.numpy import load_file, save_file

from bertology.encoders import ModelSource, load_encoder, model_fingerprint, model_shape, resolve_model
from bertology.encoders import sources as resolve
from bertology.encoders.sources import find_checkpoints
from bertology.errors import BertologyError, ModelError, NameNotFoundError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Tiny = Callable[[str], Path]


def test_a_folder(tiny: Tiny) -> None:
    assert resolve_model(str(tiny("bert"))) == ModelSource(str(tiny("bert")), tiny("bert"), None)
    with pytest.raises(ModelError, match="no revisions"):
        resolve_model(str(tiny("bert")), revision="main")


def test_the_embedded_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bertology.pocket.model_folder", lambda name: tmp_path / name)
    for name in ("pocket", "bilingual", "bilingual-apart"):
        assert resolve_model(name) == ModelSource(name, tmp_path / name, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("poket", "unknown model 'poket': did you mean pocket"),
        ("bert-base-uncasd", "did you mean bert-base-uncased"),
        ("./no/such/model", "no model folder ./no/such/model"),
        ("what is this", "unknown model 'what is this'"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(NameNotFoundError, match=message) as caught:
        resolve_model(name)
    assert "\n" not in str(caught.value)


def test_a_file_is_not_a_folder(tiny: Tiny) -> None:
    with pytest.raises(ModelError, match="give the folder it lies in"):
        resolve_model(str(tiny("bert") / "config.json"))


def test_offline_and_not_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(ModelError, match=r"cannot get model org/name at v1 .*HF_HUB_OFFLINE is set"):
        resolve_model("org/name", revision="v1")
    with pytest.raises(ModelError, match="cannot get model roberta-base"):
        resolve_model("roberta-base")


def test_offline_from_a_cache(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--tests--tiny-bert"
    shutil.copytree(tiny("bert"), repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    source = resolve_model("tests/tiny-bert")
    assert source == ModelSource("tests/tiny-bert", repository / "snapshots" / COMMIT, COMMIT)
    assert resolve_model("tests/tiny-bert", revision=COMMIT) == source
    encoder = load_encoder("tests/tiny-bert", device="cpu")
    assert encoder.name == "tests/tiny-bert"
    with pytest.raises(ModelError, match="cannot get model tests/tiny-bert at v2"):
        resolve_model("tests/tiny-bert", revision="v2")


class Hub:
    """As much of the hub's interface as a download needs, serving folders by repository id."""

    def __init__(self) -> None:
        self.repositories: dict[str, Path] = {}
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None:
                """Stay silent."""

            def do_GET(self) -> None:
                hub.answer(self, body=True)

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler, *, body: bool) -> None:
        path = unquote(urlsplit(handler.path).path)
        self.asked.append(path)
        for name, folder in self.repositories.items():
            if path in (f"/api/models/{name}", f"/api/models/{name}/revision/main"):
                files = [{"rfilename": file.name} for file in sorted(folder.iterdir())]
                return send(handler, json.dumps({"id": name, "sha": COMMIT, "siblings": files}).encode(), body=body)
            if path.startswith(f"/api/models/{name}/revision/"):
                return send(handler, b"{}", status=404, body=body, **{"X-Error-Code": "RevisionNotFound"})
            if path.startswith(f"/api/models/{name}/tree/"):
                tree = [
                    {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": digest(file)}
                    for file in sorted(folder.iterdir())
                ]
                return send(handler, json.dumps(tree).encode(), body=body)
            if path.startswith(f"/{name}/resolve/"):
                file = folder / path.rsplit("/", 1)[1]
                headers = {"ETag": f'"{digest(file)}"', "X-Repo-Commit": COMMIT}
                return send(handler, file.read_bytes(), body=body, **headers)
        return send(handler, b"{}", status=404, body=body, **{"X-Error-Code": "RepoNotFound"})


def digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


def send(
    handler: BaseHTTPRequestHandler, content: bytes, *, status: int = 200, body: bool = True, **headers: str
) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    if body:
        handler.wfile.write(content)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub of one's own, and an empty cache."""
    served = Hub()
    thread = threading.Thread(target=served.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", served.address)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield served
    served.server.shutdown()
    served.server.server_close()
    thread.join()


def test_download_and_then_offline(hub: Hub, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(tiny("bert"), tmp_path / "served")
    (folder / "model.onnx").write_bytes(b"not asked for")
    (folder / "pytorch_model.bin").write_bytes(b"not asked for")
    hub.repositories["tests/tiny"] = folder
    source = resolve_model("tests/tiny")
    assert source.revision == COMMIT
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {file.name for file in source.folder.iterdir()} == wanted
    assert (source.folder / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert resolve_model("tests/tiny") == source


def test_pickled_weights_only_where_there_are_no_others(hub: Hub, tiny: Tiny, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny("bert"), tmp_path / "served")
    weights = load_encoder(str(folder), device="cpu").model.with_head.state_dict()  # type: ignore[union-attr]
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    hub.repositories["tests/pickled"] = folder
    source = resolve_model("tests/pickled")
    assert (source.folder / "pytorch_model.bin").is_file()
    ids = torch.tensor([[6, 7, 8]])
    ours = load_encoder(source, device="cpu").hidden_states(ids, layers=[3])[3]
    theirs = load_encoder(str(tiny("bert")), device="cpu").hidden_states(ids, layers=[3])[3]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_what_the_hub_does_not_have(hub: Hub, tiny: Tiny) -> None:
    hub.repositories["tests/tiny"] = tiny("bert")
    with pytest.raises(NameNotFoundError, match=r"unknown model 'tests/other'.*the hub has none of that name"):
        resolve_model("tests/other")
    with pytest.raises(ModelError, match="model tests/tiny has no revision 'v9'"):
        resolve_model("tests/tiny", revision="v9")


def test_a_hub_that_is_gone_leaves_the_cache(hub: Hub, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["tests/tiny"] = tiny("bert")
    source = resolve_model("tests/tiny")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
    assert resolve_model("tests/tiny") == source
    with pytest.raises(ModelError, match=r"cannot get model tests/other from http://127.0.0.1.*check the connection"):
        resolve_model("tests/other")


def test_a_silent_hub_does_not_hold_one_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "WAIT_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ModelError, match="cannot get model gpt2"):
            resolve_model("gpt2")


def folders(root: Path, *names: str) -> str:
    for name in names:
        (root / name).mkdir(parents=True)
    return str(root)


def test_sub_folders_with_a_step_by_their_number(tmp_path: Path) -> None:
    name = folders(tmp_path, "checkpoints/step-001000", "checkpoints/step-000500", "checkpoint-20", "logs", "step-x")
    assert [(one.step, Path(one.name).name) for one in find_checkpoints(name)] == [
        *((20, "checkpoint-20"), (500, "step-000500"), (1000, "step-001000"))
    ]
    assert [one.step for one in find_checkpoints(name, [1000, "checkpoint-20"])] == [20, 1000]
    assert [one.step for one in find_checkpoints(name, "step-*")] == [500, 1000]


def test_mistakes_are_named(tmp_path: Path) -> None:
    name = folders(tmp_path / "a", "checkpoints/step-500", "checkpoint-7")
    with pytest.raises(BertologyError, match=r"unknown checkpoint of model .*600.*there is checkpoint-7, step-500"):
        find_checkpoints(name, [600])
    with pytest.raises(BertologyError, match="no checkpoints; a folder has them as checkpoints/step-500"):
        find_checkpoints(folders(tmp_path, "empty/logs").rstrip("/") + "/empty")
    folders(tmp_path / "a", "checkpoint-500")
    with pytest.raises(BertologyError, match="are both of step 500"):
        find_checkpoints(name)
    with pytest.raises(BertologyError, match="model pocket: no checkpoints; a folder has them"):
        find_checkpoints("pocket")
    with pytest.raises(BertologyError, match="'final' has no step in its name"):
        find_checkpoints("org/name", ["final"])


def test_revisions_listed_or_found_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = tmp_path / "models--org--small" / "refs"
    refs.mkdir(parents=True)
    for name in ("main", "step1000", "step250", "step_20k-tokens4B", "ext300"):
        (refs / name).write_text("c0ffee")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = find_checkpoints("org/small", "all")
    assert [(one.step, one.name, one.revision) for one in found] == [
        *((250, "org/small", "step250"), (1000, "org/small", "step1000"), (20_000, "org/small", "step_20k-tokens4B"))
    ]
    assert [one.step for one in find_checkpoints("org/small", "step?*0")] == [250, 1000]
    assert [one.revision for one in find_checkpoints("org/small", [1000])] == ["step1000"]
    # Names in a list need no list of the hub's.
    assert [(one.step, one.revision) for one in find_checkpoints("org/other", ["ext300"])] == [(300, "ext300")]


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    return shutil.copytree(tiny("bert"), tmp_path / "somewhere else")


def fingerprint(folder: Path, **options: object) -> str:
    return model_fingerprint(ModelSource("any", folder), **options)  # type: ignore[arg-type]


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=1))


def test_places_and_names_do_not_enter(tiny: Tiny, folder: Path) -> None:
    expected = fingerprint(tiny("bert"))
    assert len(expected) == 32
    assert fingerprint(folder) == expected
    edit(folder / "config.json", _name_or_path="elsewhere", transformers_version="4.0.0")
    edit(folder / "tokenizer_config.json", name_or_path="elsewhere")
    (folder / "README.md").write_text("about it")
    assert fingerprint(folder) == expected
    assert load_encoder(str(folder), device="cpu").fingerprint == expected


def test_each_file_enters(folder: Path) -> None:
    seen = [fingerprint(folder)]
    edit(folder / "config.json", layer_norm_eps=1e-5)
    seen.append(fingerprint(folder))
    edit(folder / "tokenizer_config.json", do_lower_case=False)
    seen.append(fingerprint(folder))
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    seen.append(fingerprint(folder))
    weights = load_file(folder / "model.safetensors")
    first = min(weights)
    weights[first] = weights[first] + 1
    save_file(weights, folder / "model.safetensors")
    seen.append(fingerprint(folder))
    assert len(set(seen)) == len(seen)


def test_random_weights_are_known_by_their_seed(folder: Path) -> None:
    pretrained, random = fingerprint(folder), fingerprint(folder, init="random")
    assert len({pretrained, random, fingerprint(folder, init="random", seed=1)}) == 3
    assert fingerprint(folder, seed=1) == pretrained
    (folder / "model.safetensors").write_bytes(b"anything")
    assert fingerprint(folder, init="random") == random
    (folder / "model.safetensors").unlink()
    assert fingerprint(folder, init="random") == random
    with pytest.raises(ModelError, match="no weights"):
        fingerprint(folder)


def test_code_of_the_model_enters(folder: Path) -> None:
    (folder / "own.py").write_text("x = 1")
    plain = fingerprint(folder)
    edit(folder / "config.json", auto_map={"AutoModel": "own.Model"})
    with_code = fingerprint(folder)
    (folder / "own.py").write_text("x = 2")
    assert len({plain, with_code, fingerprint(folder)}) == 3


def test_defaults_of_the_library_fill_in(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 48}')
    shape = model_shape(ModelSource("any", tmp_path))
    assert (shape.n_layers, shape.dim, shape.n_heads) == (12, 48, 12)


def test_models_that_are_not_encoders_of_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(ModelError, match="not an encoder of text"):
        model_shape(ModelSource("any", tmp_path))
