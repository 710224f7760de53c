"""Resolution of a model's name to its files: embedded models, folders, hub ids, adapters, checkpoints. No torch."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bertology._files import cache_folder, canonical_json, digest, digest_file, explained_write_errors
from bertology._names import name_not_found
from bertology._temporary import sweep, temporary_folder
from bertology.encoders.sources import (
    AGAIN,
    NO_VOCABULARY,
    TOKENIZER_FILES,
    WAIT_SECONDS,
    ModelSource,
    claims_masked_lm_head,
    download,
    hub_cache,
    is_offline,
    load_config,
    model_fingerprint,
    one_line,
    pretrained,
    quiet_loading,
    read_model_json,
    reason_of,
    save_model,
    weight_files,
)
from bertology.errors import BertologyError, ModelError, NameNotFoundError, cut, quoted

MODELS = "models"
"""Folder of the copies in the cache folder: ``<fingerprint>/<title>``."""
_FINGERPRINT = frozenset("0123456789abcdef")
_OTHER_CACHE = "name another folder in BERTOLOGY_CACHE"


class ModelCopy(NamedTuple):
    """The files of a model that a person had in memory, or of one with its adapters merged into it."""

    folder: Path
    """The name by which runs find the model."""
    n_bytes: int
    last_read: float
    """Time when it was last written or read, in seconds since the epoch."""

    @property
    def name(self) -> str:
        """The folder under the cache folder."""
        return f"{MODELS}/{self.folder.parent.name}"

    def describe(self) -> str:
        """A description in one line."""
        return f"{self.folder.name}: a copy of a model in memory, or of one with adapters, by which runs find it"


def model_copies() -> list[ModelCopy]:
    """The copies there are, in the order of their names; what else lies there is left out."""
    parent, found = cache_folder() / MODELS, []
    with explained_write_errors(parent, verb="read", remedy=_OTHER_CACHE):
        for folder in sorted(parent.glob("*/*")):
            is_own = set(folder.parent.name) <= _FINGERPRINT and (folder / "config.json").is_file()
            if is_own and not folder.is_symlink() and not folder.parent.is_symlink():
                stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
                read = max(max(stat.st_atime, stat.st_mtime) for stat in stats)
                found.append(ModelCopy(folder, sum(stat.st_size for stat in stats), read))
    return found


def keep_copy(title: str, write: Callable[[Path], str | None]) -> Path | None:
    """Keep a model's folder in the cache folder, under its fingerprint.

    Args:
        title: the name of the folder.
        write: writes the folder, and returns the fingerprint; None where it is not to be kept.
    """
    parent = cache_folder() / MODELS
    with explained_write_errors(parent, remedy=_OTHER_CACHE):
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        with temporary_folder(parent, title) as made:
            fingerprint = write(made / title)
            if fingerprint is None:
                return None
            folder = parent / fingerprint / title
            folder.parent.mkdir(exist_ok=True)
            if not folder.is_dir():
                (made / title).rename(folder)
    return folder


def prune_copies(*, older_than_days: float = 0.0, dry_run: bool = False) -> list[ModelCopy]:
    """Delete copies that were not read for so many days; return those that were deleted, or would be."""
    latest = time.time() - older_than_days * 86400
    gone = [copy for copy in model_copies() if copy.last_read <= latest]
    for copy in gone if not dry_run else ():
        with explained_write_errors(copy.folder, verb="delete", remedy=_OTHER_CACHE):
            shutil.rmtree(copy.folder.parent)
    return gone


ADAPTER = "adapter_config.json"
"""The file by which a folder is one of adapters."""
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_CLASSES = {
    "SEQ_CLS": "SequenceClassification",
    "TOKEN_CLS": "TokenClassification",
    "QUESTION_ANS": "QuestionAnswering",
}
_HEADS = ("classifier", "score", "qa_outputs")


def _unwrapped(folder: Path) -> Path:
    """The folder of the model itself: of adapters of peft a copy in the cache with them merged into the weights, of
    sentence-transformers the sub-folder of the transformer."""
    if (folder / ADAPTER).is_file():
        return _merged(folder)
    path = folder / "modules.json"
    if not path.is_file():
        return folder
    modules = read_model_json(path)
    first = modules[0] if isinstance(modules, list) and modules else None
    name = first.get("path") if isinstance(first, dict) else None
    if not isinstance(name, str) or Path(name).name != name:
        raise ModelError(f"{path}: its first module should have the name of a folder in this one as its path; {AGAIN}")
    return folder / name


def _merged(folder: Path) -> Path:
    """The copy in the cache of an adapter's model with the adapter merged into it, made where there is none."""
    settings = read_model_json(folder / ADAPTER)
    weights = next((folder / name for name in ADAPTER_WEIGHTS if (folder / name).is_file()), None)
    if not isinstance(settings, dict) or weights is None:
        raise ModelError(f"{folder}: an adapter is {ADAPTER} and {ADAPTER_WEIGHTS[0]}; {AGAIN}")
    try:
        whole = weight_files(folder)[0].name
    except ModelError:
        whole = ""
    if whole:
        raise ModelError(f"{folder}: holds an adapter and a whole model ({whole}); put one of them elsewhere")
    name, revision = settings.get("base_model_name_or_path"), settings.get("revision")
    where = f"{folder / ADAPTER}: base_model_name_or_path"
    if not isinstance(name, str) or not isinstance(revision, str | None):
        raise ModelError(f"{where} should name the model that the adapter belongs to; write it there")
    if (Path(name).expanduser() / ADAPTER).is_file():
        raise ModelError(f"{where}: {name} is an adapter itself; write the model that both belong to")
    try:
        base = resolve_model(name, revision=None if Path(name).expanduser().is_dir() else revision)
    except BertologyError as error:
        raise ModelError(f"{where}: {error}") from None
    known = digest([model_fingerprint(base).encode(), canonical_json(settings), digest_file(weights).encode()])
    title = folder.resolve().name
    copy = cache_folder() / MODELS / known / title
    if not copy.is_dir():
        keep_copy(title, lambda path: _merge(folder, settings, base, path, known))
    return copy


def _merge(folder: Path, settings: dict[str, Any], base: ModelSource, out: Path, known: str) -> str:
    """Write the model of an adapter with the adapter merged into its weights, ``known`` by a fingerprint."""
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
    own = [name for name in TOKENIZER_FILES if name not in NO_VOCABULARY and (folder / name).is_file()]
    saved = {name.removeprefix("base_model.model.") for name in given}
    # What neither the model nor the adapter has would be random, and is left out.
    save_model(merged, out, tokenizer=folder if own else base.folder, left_out=absent - saved)
    return known


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
    return pretrained(loader, base, config=config, dtype=torch.float32)


Wanted = str | Sequence[int | str]
"""``all``; a pattern of names such as ``step*``; or steps and names."""
_FOLDER = re.compile(r"(?:step|checkpoint)[-_]?\d+")
_AFTER_WORD = re.compile(r"(?:step|checkpoint|ckpt)[-_]?(\d+(?:\.\d+)?)([km]?)(?![a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([km]?)(?![a-z0-9])", re.IGNORECASE)
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_LAYOUT = "a folder has them as checkpoints/step-500 or checkpoint-500, a model of the hub as revisions such as step500"


class Checkpoint(NamedTuple):
    """One checkpoint of a training, as :func:`bertology.encoders.resolve_model` finds it."""

    step: int
    """Number of updates that its weights have had."""
    name: str
    """A folder, or a hub id."""
    revision: str | None = None
    """The branch or tag of a hub id."""


def find_checkpoints(name: str, wanted: Wanted = "all") -> tuple[Checkpoint, ...]:
    """The checkpoints of a training, by step.

    Of a folder they are its sub-folders ``checkpoints/step-N``, ``checkpoints/checkpoint-N``, ``step-N`` and
    ``checkpoint-N``, in Hugging Face layout; the finished model in the folder itself is not among them. Of a hub id
    they are the branches and tags with a step in their names, as the hub lists them or, offline, as its cache has them.

    Args:
        name: a folder or a hub id.
        wanted: ``"all"``; a pattern of names, ``"step*"``; or a list of steps (500) and names (``"step500"``). Names of
            revisions need no list of the hub's.

    Raises:
        ModelError: there are none, one of those wanted is missing, or two have the same step.
    """
    path = Path(name).expanduser()
    is_folder = path.is_dir()
    if name == POCKET and not is_folder:
        remedy = "train one by `bertology pretrain … --set keep_checkpoints=[0,500]`"
        raise ModelError(f"model {POCKET} has no checkpoints: {remedy}, and name its folder")
    if is_folder:
        paths = [one for parent in (path / "checkpoints", path) for one in sorted(parent.glob("*"))]
        known = {one.name: str(one) for one in paths if one.is_dir() and _FOLDER.fullmatch(one.name)}
    elif isinstance(wanted, str) or any(str(one).isdecimal() for one in wanted):
        known = {one: name for one in _refs(name) if _AFTER_WORD.search(one)}
    else:
        known = {str(one): name for one in wanted}
    if isinstance(wanted, str):
        chosen = [one for one in known if wanted == "all" or fnmatchcase(one, wanted)]
        if not chosen:
            which = "" if wanted == "all" else f" like {quoted(wanted)}"
            raise ModelError(f"model {cut(name)}: no checkpoints{which}; {_LAYOUT}")
    else:
        by_step = {str(_step_of(one, name)): one for one in known}
        chosen = [one if one in known else by_step.get(one, "") for one in map(str, wanted)]
        if "" in chosen:
            unknown = str(wanted[chosen.index("")])
            raise name_not_found(f"checkpoint of model {cut(name)}", unknown, known, remedy=_LAYOUT)
    found = [Checkpoint(_step_of(one, name), known[one], None if is_folder else one) for one in dict.fromkeys(chosen)]
    found.sort(key=lambda one: one.step)
    for one, other in itertools.pairwise(found):
        if one.step == other.step:
            both = f"{one.revision or one.name} and {other.revision or other.name}"
            remedy = "list those of one training, or name each as a model of its own with step:"
            raise ModelError(f"model {cut(name)}: {both} are both of step {one.step}; {remedy}")
    return tuple(found)


def _refs(name: str) -> list[str]:
    from huggingface_hub import HfApi, constants

    if not is_offline():
        try:
            refs = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None).list_repo_refs(name)
            return [ref.name for ref in (*refs.branches, *refs.tags)]
        except Exception as error:
            # Errors of the connection and of the hub itself, and names that are no hub ids: each becomes one line.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
            remedy = "list its revisions by name, or give a folder"
            raise ModelError(f"cannot list the revisions of model {cut(name)} ({reason}): {remedy}") from None
    folder = Path(hub_cache() or constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "refs"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _step_of(name: str, model: str) -> int:
    """The step in a checkpoint's name: the number after ``step`` or ``checkpoint``, else the last; 20k is 20,000."""
    numbers = _AFTER_WORD.findall(name) or _NUMBER.findall(name)
    if not numbers:
        raise ModelError(
            f"model {cut(model)}: revision {quoted(name)} has no step in its name; name it as a model of its own with "
            "revision: and step:"
        )
    value, unit = numbers[-1]
    return round(float(value) * _TIMES[unit.lower()])


POCKET = "pocket"
_EMBEDDED = (POCKET, "bilingual", "bilingual-apart")

_KNOWN = MappingProxyType(
    {
        POCKET: "the embedded default: a small BERT trained on the pocket world",
        "bilingual": "embedded: a small BERT that reads both languages of the pocket world in one space",
        "bilingual-apart": "embedded: its control, which reads both languages apart",
        "bert-base-uncased": "BERT, 12 layers, English, lower case",
        "bert-base-cased": "BERT, 12 layers, English",
        "bert-large-uncased": "BERT, 24 layers, English, lower case",
        "bert-base-multilingual-cased": "mBERT, 12 layers, 104 languages",
        "roberta-base": "RoBERTa, 12 layers, English",
        "xlm-roberta-base": "XLM-R, 12 layers, 100 languages",
        "distilbert-base-uncased": "DistilBERT, 6 layers, English, lower case",
        "albert-base-v2": "ALBERT, 12 layers that share weights, English, lower case",
        "google/electra-base-discriminator": "ELECTRA, 12 layers, English, lower case; no masked-LM head",
        "microsoft/deberta-v3-base": "DeBERTa-v3, 12 layers, English",
        "microsoft/mpnet-base": "MPNet, 12 layers, English, lower case",
        "answerdotai/ModernBERT-base": "ModernBERT, 22 layers, English, 8,192 pieces",
        "google-t5/t5-small": "T5, the encoder's 6 layers, English; hidden states and attention only",
        "facebook/bart-base": "BART, the encoder's 6 layers, English; hidden states and attention only",
        "gpt2": "GPT-2, 12 layers, English, left to right; hidden states, attention and surprisal",
    }
)
_KEPT: dict[str, ModelSource] = {}
_IN_MEMORY = re.compile(r"[\w.-]+(/[\w.-]+)?( \(in memory( \d+)?\))?", re.ASCII)
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LIST = "`bertology models` lists some"
_DESCRIPTION = ("config.json", ADAPTER, *TOKENIZER_FILES, "*.py")
_SAFE = ("model.safetensors", ADAPTER_WEIGHTS[0], "model.safetensors.index.json", "model-*.safetensors")
_PICKLED = ("pytorch_model.bin", ADAPTER_WEIGHTS[1], "pytorch_model.bin.index.json", "pytorch_model-*.bin")


def known_models() -> Mapping[str, str]:
    """Some names of models, each with one line; any other hub id or folder can be given as well."""
    return _KNOWN


def resolve_model(name: str, *, revision: str | None = None) -> ModelSource:
    """Find the files of a model, or download them from the hub.

    Args:
        name: an embedded model (``pocket``), a folder in Hugging Face layout, or a hub id (``bert-base-uncased``,
            ``org/name``).
        revision: branch, tag or commit of a hub id.

    Raises:
        NameNotFoundError: there is no such model; the message names the nearest known ones.
        ModelError: the folder is not that of a model, or the hub cannot be reached and the model is not in its cache.
    """
    if (kept := _KEPT.get(name)) is not None:
        return kept
    path = Path(name).expanduser()
    if name in _EMBEDDED or path.is_dir():
        if revision is not None:
            raise ModelError(
                f"model {name} has no revisions ({quoted(revision)} was asked for): only models of the hub do"
            )
        # By name, so that no model but the embedded ones needs that package.
        if name in _EMBEDDED:
            return ModelSource(name, import_module("bertology.pocket").model_folder(name))
        return ModelSource(name, _unwrapped(path))
    if path.is_file():
        raise ModelError(f"{name} is a file: give the folder it lies in")
    if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1:
        raise NameNotFoundError(f"no model folder {name}: check the path; {_LIST}")
    if not _HUB_ID.fullmatch(name):
        raise name_not_found("model", name, _KNOWN, remedy=_LIST)
    folder = _fetch(name, revision)
    return ModelSource(name, _unwrapped(folder), folder.name if folder.parent.name == "snapshots" else None)


def keep_source(source: ModelSource) -> None:
    """Let :func:`resolve_model` find a model in memory by its name, which must be no other's, in this process."""
    if source.name in _EMBEDDED or not _IN_MEMORY.fullmatch(source.name) or Path(source.name).is_dir():
        raise ModelError(f"a model in memory cannot be called {quoted(source.name)}: give letters, digits, - and _")
    _KEPT[source.name] = source


def held_dtype(name: str) -> str | None:
    """The type in which a model computes that is known by this name in memory; None for models of files."""
    return getattr(_KEPT.get(name), "dtype", None)


def _fetch(name: str, revision: str | None) -> Path:
    """The folder of the files of a hub model: weights in safetensors, pickled ones where there are no others."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    reason = "the hub has none of that name that you may read"
    try:
        offline = is_offline() or not _answers(name, revision)
        folder = download(name, revision, (*_DESCRIPTION, *_SAFE), offline=offline)
        if not any(folder.glob("*.safetensors")):
            folder = download(name, revision, (*_DESCRIPTION, *_PICKLED), offline=offline)
        return folder
    except GatedRepoError:
        raise ModelError(f"model {name} is gated: accept its terms on the hub and log in (`hf auth login`)") from None
    except RevisionNotFoundError:
        raise ModelError(f"model {name} has no revision {revision!r}: check the branch, tag or commit") from None
    except Exception as error:
        # Errors of the connection, of files and of the hub itself: each becomes one line.
        if not isinstance(error, RepositoryNotFoundError):
            why, reason = reason_of(error), f"the hub cannot be asked for others ({reason_of(error)})"
            if name in _KNOWN or "/" in name:
                at, place = f" at {revision}" if revision else "", os.environ.get("HF_ENDPOINT") or "the hub"
                remedy = "check the connection, or give a folder"
                raise ModelError(f"cannot get model {name}{at} from {place} ({why}): {remedy}") from None
        raise name_not_found("model", name, _KNOWN, remedy=f"{reason}; {_LIST}") from None


def _answers(name: str, revision: str | None) -> bool:
    """Whether the hub answers in time; false where it does not but the cache has the model.

    Tried first because the download itself would wait for a silent hub without end.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None).model_info(name, revision=revision, timeout=WAIT_SECONDS)
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise
    except Exception:
        # No answer, or an error of the hub: the cache will do; without it, this is the error to report.
        cached = (try_to_load_from_cache(name, file, hub_cache(), revision) for file in ("config.json", ADAPTER))
        if not any(isinstance(path, str) for path in cached):
            raise
        return False
    return True
