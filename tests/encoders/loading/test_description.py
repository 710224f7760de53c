"""What a model is: content, never a place or a name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from bertology.encoders import Encoder, ModelSource, load_encoder, model_fingerprint, model_shape
from bertology.errors import ModelError

Tiny = Callable[[str], Path]


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


def test_random_blocks_are_known_by_their_seed_and_what_they_stand_on(folder: Path) -> None:
    seen = [fingerprint(folder), fingerprint(folder, init="random")]
    seen += [fingerprint(folder, init="random_blocks", seed=seed) for seed in (0, 1)]
    weights = load_file(folder / "model.safetensors")
    first = min(weights)
    weights[first] = weights[first] + 1
    save_file(weights, folder / "model.safetensors")
    seen.append(fingerprint(folder, init="random_blocks"))
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


def test_shapes_are_those_of_the_loaded_models(family: str, tiny: Tiny, encoder: Callable[[str], Encoder]) -> None:
    shape = model_shape(ModelSource("any", tiny(family)))
    assert (shape.n_layers, shape.dim, shape.n_heads) == (3, 32, 4)
    loaded = encoder(family)
    assert (loaded.n_layers, loaded.dim, loaded.n_heads) == (3, 32, 4)
    assert shape.family == loaded.family == loaded.model.body.config.model_type  # type: ignore[union-attr]


def test_defaults_of_the_library_fill_in(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 48}')
    shape = model_shape(ModelSource("any", tmp_path))
    assert (shape.n_layers, shape.dim, shape.n_heads) == (12, 48, 12)


def test_models_that_are_not_encoders_of_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(ModelError, match="not an encoder of text"):
        model_shape(ModelSource("any", tmp_path))


def test_nothing_heavy_is_imported(tiny: Tiny) -> None:
    """Names, hashes and shapes cost no import of torch or transformers."""
    code = (
        "import sys\n"
        "from bertology.encoders import known_models, model_fingerprint, model_shape, resolve_model\n"
        f"source = resolve_model({str(tiny('bert'))!r})\n"
        "model_fingerprint(source), model_fingerprint(source, init='random'), model_shape(source), known_models()\n"
        "print([name for name in ('torch', 'transformers', 'pandas', 'spacy') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert run.stdout.strip() == "[]"
