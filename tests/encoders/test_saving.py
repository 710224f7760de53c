"""Model folders written, and adapters merged into their models."""

import contextlib
import errno
import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from bertology import compress
from bertology._files import explained_system_errors, explained_write_errors, system_error
from bertology.activations.store import list_stored
from bertology.encoders import in_memory, load_encoder, model_fingerprint, resolve_model
from bertology.encoders.sources import quiet_loading, save_model
from bertology.errors import BertologyError, ModelError, StoreError


@contextlib.contextmanager
def short_files(most: int) -> Iterator[None]:
    """No file may be longer, as on a disk that is full: the system refuses the rest of it (Python ignores SIGXFSZ)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refused(use: Callable[[], object]) -> str:
    with short_files(100_000), pytest.raises(StoreError) as caught:
        use()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_library_reports_the_system_in_its_own_way(tiny_bert: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_bert)
    message = refused(lambda: save_model(model, tmp_path / "model", tokenizer=tokenizer))
    assert message.startswith(f"cannot write {tmp_path / 'model'} (File too large)")

    def saved_by_torch() -> None:
        with explained_write_errors(tmp_path / "state.pt"):
            torch.save(model.state_dict(), tmp_path / "state.pt")

    assert "state.pt" in refused(saved_by_torch)

    def tokens() -> None:
        with explained_write_errors(tmp_path / "tokenizer"), short_files(100):
            tokenizer.save_pretrained(tmp_path / "tokenizer")

    assert "tokenizer" in refused(tokens)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errno.ENOSPC),
        (Exception("Error while serializing: I/O error: No space left on device (os error 28)"), errno.ENOSPC),
        (RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 576 vs 470"), errno.EIO),
        (ModelError("a model of that name (os error 28)"), None),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
    ],
)
def test_what_is_an_error_of_the_system(error: Exception, code: int | None) -> None:
    found = system_error(error)
    assert (None if found is None else found.errno) == code


IDS = torch.tensor([[6, 9, 12, 30, 8]])
MASK = torch.ones_like(IDS)


def adapted(base: Path, folder: Path, *, kind: Any = AutoModelForMaskedLM, config: Any = None) -> Any:
    """A folder of adapters that change the model much, and the model itself."""
    config = config or peft.LoraConfig(r=4, lora_alpha=64, target_modules=["query", "value"])
    with quiet_loading():
        model = peft.get_peft_model(kind.from_pretrained(base), config)
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.copy_(torch.randn_like(weight) * 0.3)
    model.save_pretrained(folder)
    return model.eval()


@pytest.fixture
def base(tiny: Callable[[str], Path]) -> Path:
    return tiny("bert")


def test_adapters_are_merged_into_their_model(base: Path, tmp_path: Path) -> None:
    model = adapted(base, tmp_path / "adapter")
    encoder = load_encoder(str(tmp_path / "adapter"), device="cpu")
    with torch.no_grad():
        expected = model(IDS, attention_mask=MASK, output_hidden_states=True)
    states = encoder.hidden_states(IDS, MASK, layers=[0, 3])
    torch.testing.assert_close(states[3], expected.hidden_states[3], rtol=1e-5, atol=1e-5)
    places = torch.tensor([[0, 2]])
    torch.testing.assert_close(
        encoder.masked_logits(IDS, places, attention_mask=MASK)[3][0], expected.logits[0, 2], rtol=1e-4, atol=1e-4
    )
    plain = load_encoder(str(base), device="cpu").hidden_states(IDS, MASK, layers=[3])[3]
    assert (states[3] - plain).abs().max() > 0.01
    # A second time nothing is merged; another adapter is another model.
    once = [copy.folder for copy in list_stored(models=True)]
    first = resolve_model(str(tmp_path / "adapter"))
    assert [copy.folder for copy in list_stored(models=True)] == once
    assert first.name == str(tmp_path / "adapter")
    weights = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    save_file({name: 2 * value for name, value in weights.items()}, tmp_path / "adapter" / "adapter_model.safetensors")
    assert model_fingerprint(resolve_model(str(tmp_path / "adapter"))) != model_fingerprint(first)


def test_a_head_that_is_kept_with_adapters(base: Path, tmp_path: Path) -> None:
    """Three labels, which the settings of adapters do not state."""
    kind: Any = AutoModelForSequenceClassification
    config = peft.LoraConfig(task_type="SEQ_CLS", modules_to_save=["pooler"])
    three = kind.from_pretrained(base, num_labels=3)
    three.save_pretrained(tmp_path / "three")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "three")
    model = adapted(tmp_path / "three", tmp_path / "adapter", kind=kind, config=config)
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(base)  # which has no such head
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    encoder = load_encoder(str(tmp_path / "adapter"), device="cpu")
    with torch.no_grad():
        expected = model(IDS, attention_mask=MASK).logits
    torch.testing.assert_close(encoder.task_output(IDS, attention_mask=MASK).logits, expected, rtol=1e-4, atol=1e-5)


def test_a_tokenizer_beside_adapters_is_theirs(base: Path, tmp_path: Path) -> None:
    adapted(base, tmp_path / "adapter")
    own = AutoTokenizer.from_pretrained(base, model_max_length=20)
    own.save_pretrained(tmp_path / "adapter")
    assert load_encoder(str(tmp_path / "adapter"), device="cpu").max_pieces == 20


def damage(folder: Path, kind: str) -> None:
    settings_file, weights_file = folder / "adapter_config.json", folder / "adapter_model.safetensors"
    settings, weights = json.loads(settings_file.read_text()), load_file(weights_file)
    match kind:
        case "no weights":
            weights_file.unlink()
        case "no JSON":
            settings_file.write_text("{")
        case "base gone":
            settings["base_model_name_or_path"] = str(folder / "gone")
        case "itself":
            settings["base_model_name_or_path"] = str(folder)
        case "prompts":
            peft.PromptTuningConfig(num_virtual_tokens=3, task_type="SEQ_CLS").save_pretrained(folder)
            settings = json.loads(settings_file.read_text()) | {
                "base_model_name_or_path": settings["base_model_name_or_path"]
            }
        case "lacks":
            save_file(dict(list(weights.items())[1:]), weights_file)
        case "too many":
            save_file({**weights, "base_model.model.bert.more.lora_A.weight": torch.ones(2, 2)}, weights_file)
        case "whole model as well":
            save_file(weights, folder / "model.safetensors")
    if kind != "no JSON":
        settings_file.write_text(json.dumps(settings))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no weights", "an adapter is adapter_config.json and adapter_model.safetensors"),
        ("no JSON", "not readable as JSON"),
        ("base gone", "base_model_name_or_path: no model folder"),
        ("itself", "is an adapter itself"),
        ("prompts", "PROMPT_TUNING gives no weights that can be merged"),
        ("lacks", "its weights lack base_model.model.bert.encoder.layer.0"),
        ("too many", "has no place for base_model.model.bert.more"),
        ("whole model as well", "holds an adapter and a whole model"),
    ],
)
def test_damaged_adapters_are_one_line(kind: str, message: str, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    adapted(base, folder)
    damage(folder, kind)
    with pytest.raises(ModelError, match=message) as caught:
        resolve_model(str(folder))
    assert "\n" not in str(caught.value)
    assert not list_stored(models=True)


def test_an_old_folder_of_sentence_transformers(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sbert"
    shutil.copytree(base, folder / "0_Transformer")
    (folder / "1_Pooling").mkdir()
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config.json").write_text('{"__version__": "0.2.5"}')
    source = resolve_model(str(folder))
    assert (source.title, source.folder) == ("sbert", folder / "0_Transformer")
    assert model_fingerprint(source) == model_fingerprint(resolve_model(str(base)))
    load_encoder(source, device="cpu")
    for wrong in ([], {}, [{"path": "../elsewhere"}], [{"path": "/etc"}], [{"path": 3}], ["x"]):
        (folder / "modules.json").write_text(json.dumps(wrong))
        with pytest.raises(ModelError, match=r"modules\.json: expected a"):
            resolve_model(str(folder))
    # Newer ones keep the transformer in the folder itself.
    (base_copy := tmp_path / "new").mkdir()
    shutil.copytree(base, base_copy, dirs_exist_ok=True)
    (base_copy / "modules.json").write_text(json.dumps([{**modules[0], "path": ""}]))
    assert resolve_model(str(base_copy)).folder == base_copy


def test_half_of_a_surrogate_pair_is_one_line() -> None:
    with pytest.raises(BertologyError, match=r"a .ud800 b': half of a surrogate pair in it"), explained_system_errors():
        "a \ud800 b".encode()
    with pytest.raises(UnicodeEncodeError), explained_system_errors():
        "é".encode("ascii")


def test_compressing_and_copies_of_models_on_a_full_disk(tiny_bert: Path, own_cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"

    def compressed() -> Any:
        return compress(tiny_bert, "magnitude", share=0.5, out=out, device="cpu", progress=False)

    refused(compressed)
    assert not out.exists()
    assert not list(tmp_path.glob(".*"))
    done = compressed()
    assert not done.is_found
    model: Any = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight.zero_()
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    with contextlib.suppress(StoreError), short_files(100_000):
        in_memory(model, tokenizer)  # where it is copied at all
    assert not [path for path in own_cache.rglob("*.tmp") if os.path.lexists(path)]
