"""Model folders with a model inside: adapters of peft, merged into their model, and old sentence-transformers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertology._files import cache_folder, canonical_json, digest, digest_file, explained_write_errors
from bertology._temporary import sweep, temporary_folder
from bertology.encoders.loading.copies import MODELS
from bertology.encoders.loading.description import ModelSource, model_fingerprint
from bertology.encoders.loading.folder import AGAIN, read_model_json, tokenizer_files, weight_files
from bertology.encoders.loading.quiet import one_line, quiet_loading
from bertology.errors import BertologyError, ModelError

ADAPTER = "adapter_config.json"
"""The file by which a folder is one of adapters."""
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_MODULES = "modules.json"
_CLASSES = {
    "SEQ_CLS": "SequenceClassification",
    "TOKEN_CLS": "TokenClassification",
    "QUESTION_ANS": "QuestionAnswering",
}
_HEADS = ("classifier", "score", "qa_outputs")
Resolve = Callable[[str, str | None], ModelSource]
"""From a name and a revision to a model."""


def unwrapped(folder: Path, resolve: Resolve) -> Path:
    """The folder of the model itself: of adapters of peft a copy in the cache with them merged into the weights.

    Args:
        folder: as a person named it.
        resolve: finds the model that adapters belong to.

    Raises:
        ModelError: the folder is of no whole adapter, or its model is not there.
    """
    if (folder / ADAPTER).is_file():
        return _merged(folder, resolve)
    if (folder / _MODULES).is_file():
        return folder / _first_module(folder / _MODULES)
    return folder


def _first_module(path: Path) -> str:
    """The sub-folder of the transformer in a folder of sentence-transformers; empty where it is the folder itself."""
    modules = read_model_json(path)
    first = modules[0] if isinstance(modules, list) and modules else None
    name = first.get("path") if isinstance(first, dict) else None
    if not isinstance(name, str) or Path(name).name != name:
        raise ModelError(f"{path}: its first module should have the name of a folder in this one as its path; {AGAIN}")
    return name


def _merged(folder: Path, resolve: Resolve) -> Path:
    """The copy in the cache of an adapter's model with the adapter merged into it, made where there is none."""
    settings, weights = _read_adapter(folder)
    name, revision = settings.get("base_model_name_or_path"), settings.get("revision")
    where = f"{folder / ADAPTER}: base_model_name_or_path"
    if not isinstance(name, str) or not isinstance(revision, str | None):
        raise ModelError(f"{where} should name the model that the adapter belongs to; write it there")
    if (Path(name).expanduser() / ADAPTER).is_file():
        raise ModelError(f"{where}: {name} is an adapter itself; write the model that both belong to")
    try:
        base = resolve(name, revision)
    except BertologyError as error:
        raise ModelError(f"{where}: {error}") from None
    known = digest([model_fingerprint(base).encode(), canonical_json(settings), digest_file(weights).encode()])
    parent, title = cache_folder() / MODELS, folder.resolve().name
    copy = parent / known / title
    if copy.is_dir():
        return copy
    with explained_write_errors(parent, remedy="name another folder in BERTOLOGY_CACHE"):
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        with temporary_folder(parent, title) as made:
            _merge(folder, settings, base, made / title)
            copy.parent.mkdir(exist_ok=True)
            if not copy.is_dir():
                (made / title).rename(copy)
    return copy


def _read_adapter(folder: Path) -> tuple[dict[str, Any], Path]:
    """The settings of an adapter and the file of its weights."""
    settings = read_model_json(folder / ADAPTER)
    weights = next((folder / name for name in ADAPTER_WEIGHTS if (folder / name).is_file()), None)
    if not isinstance(settings, dict) or weights is None:
        raise ModelError(f"{folder}: an adapter is {ADAPTER} and {ADAPTER_WEIGHTS[0]}; {AGAIN}")
    try:
        whole = weight_files(folder)
    except ModelError:
        return settings, weights
    raise ModelError(f"{folder}: holds an adapter and a whole model ({whole[0].name}); put one of them elsewhere")


def _merge(folder: Path, settings: dict[str, Any], base: ModelSource, out: Path) -> None:
    """Write the model of an adapter with the adapter merged into its weights."""
    from bertology.encoders.loading.saving import save_model

    if importlib.util.find_spec("peft") is None:
        raise ModelError(f"{folder}: adapters need peft: pip install 'bertology[peft]'")
    with quiet_loading():
        import peft
    with quiet_loading(), one_line(f"{folder}: the adapter cannot be merged into {base.name}", remedy=AGAIN):
        config: Any = peft.PeftConfig.from_pretrained(str(folder))
        if config.is_prompt_learning:
            raise ModelError(f"{folder}: {config.peft_type.value} gives no weights that can be merged into a model")
        given = peft.utils.load_peft_weights(str(folder), device="cpu")
        model, absent = _base_model(base, settings, given)
        adapted: Any = peft.PeftModel.from_pretrained(model, str(folder))
        needed = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False).keys()
        if other := sorted(needed ^ given.keys()):
            fault = "its weights lack" if other[0] in needed else f"{base.name} has no place for"
            raise ModelError(f"{folder}: {fault} {other[0]}; name the model that the adapter was made for")
        merged = merge_adapters(adapted)
    saved = {name.removeprefix("base_model.model.") for name in given}
    try:
        tokenizer = tokenizer_files(folder)[0].parent
    except ModelError:
        tokenizer = base.folder
    # What neither the model nor the adapter has would be random, and is left out.
    save_model(merged, out, tokenizer=tokenizer, left_out=absent - saved)


def merge_adapters(adapted: Any) -> Any:
    """The model of transformers in one of peft, with its adapters merged into its weights."""
    from peft.utils import ModulesToSaveWrapper

    # Unwrapped first: peft unwraps nothing but linear layers of them in a model with IA³.
    wrappers = {path: one for path, one in adapted.named_modules() if isinstance(one, ModulesToSaveWrapper)}
    for path, wrapper in wrappers.items():
        parent, _, name = path.rpartition(".")
        setattr(adapted.get_submodule(parent), name, wrapper.modules_to_save[wrapper.active_adapters[0]])
    return adapted.merge_and_unload()


def _base_model(base: ModelSource, settings: dict[str, Any], given: dict[str, Any]) -> tuple[Any, frozenset[str]]:
    """The model that an adapter was made for, of the class that it needs, and the weights that its files lack."""
    import torch
    import transformers

    from bertology.encoders.loading.configuration import claims_masked_lm_head, load_config

    library: Any = transformers
    config, kind = load_config(base, False), _CLASSES.get(str(settings.get("task_type")))
    mapping = settings.get("auto_mapping")
    own = mapping.get("base_model_class") if isinstance(mapping, dict) else None
    if kind is not None:
        loader = getattr(library, f"AutoModelFor{kind}")
        sizes = [len(value) for name, value in given.items() if value.ndim > 1 and set(name.split(".")) & {*_HEADS}]
        if sizes:
            config.num_labels = sizes[-1]
    elif isinstance(own, str) and hasattr(getattr(library, own, None), "from_pretrained"):
        loader = getattr(library, own)
    else:
        loader = library.AutoModelForMaskedLM if claims_masked_lm_head(config) else library.AutoModel
    model, report = loader.from_pretrained(base.folder, config=config, dtype=torch.float32, output_loading_info=True)
    return model, frozenset(report["missing_keys"])
