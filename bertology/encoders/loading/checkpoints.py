"""The checkpoints of one training: folders of a model on this machine, or revisions of a model of the hub."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bertology._names import name_not_found
from bertology.encoders.loading.hub import hub_cache, is_offline
from bertology.encoders.loading.resolve import POCKET
from bertology.errors import ModelError, cut, quoted

Wanted = str | Sequence[int | str]
"""``all``; a pattern of names such as ``step*``; or steps and names."""
_FOLDER = re.compile(r"(?:step|checkpoint)[-_]?\d+")
_AFTER_WORD = re.compile(r"(?:step|checkpoint|ckpt)[-_]?(\d+(?:\.\d+)?)([km]?)(?![a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([km]?)(?![a-z0-9])", re.IGNORECASE)
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_LAYOUT = "a folder has them as checkpoints/step-500 or checkpoint-500, a model of the hub as revisions such as step500"


@dataclass(frozen=True)
class Checkpoint:
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
    if isinstance(wanted, str):
        names = _in_folder(path) if is_folder else _revisions(name)
        chosen = {one: where for one, where in names.items() if wanted == "all" or fnmatchcase(one, wanted)}
        if not chosen:
            which = "" if wanted == "all" else f" like {quoted(wanted)}"
            raise ModelError(f"model {cut(name)}: no checkpoints{which}; {_LAYOUT}")
    elif not is_folder and all(isinstance(one, str) and not one.isdecimal() for one in wanted):
        chosen = {str(one): name for one in wanted}
    else:
        known = _in_folder(path) if is_folder else _revisions(name)
        chosen = dict(_chosen(name, wanted, known))
    found = [Checkpoint(_step_of(one, name), where, None if is_folder else one) for one, where in chosen.items()]
    return _by_step(name, found)


def _chosen(name: str, wanted: Iterable[int | str], known: dict[str, str]) -> Iterator[tuple[str, str]]:
    by_step = {str(_step_of(one, name)): one for one in known}
    for one in map(str, wanted):
        found = one if one in known else by_step.get(one)
        if found is None:
            raise name_not_found(f"checkpoint of model {cut(name)}", one, known, remedy=_LAYOUT)
        yield found, known[found]


def _by_step(name: str, found: Sequence[Checkpoint]) -> tuple[Checkpoint, ...]:
    ordered = sorted(found, key=lambda one: one.step)
    for one, other in itertools.pairwise(ordered):
        if one.step == other.step:
            both = f"{one.revision or one.name} and {other.revision or other.name}"
            remedy = "list those of one training, or name each as a model of its own with step:"
            raise ModelError(f"model {cut(name)}: {both} are both of step {one.step}; {remedy}")
    return tuple(ordered)


def _in_folder(folder: Path) -> dict[str, str]:
    """Paths of checkpoints by the names of their folders."""
    parents = [parent for parent in (folder / "checkpoints", folder) if parent.is_dir()]
    paths = [path for parent in parents for path in sorted(parent.iterdir())]
    return {path.name: str(path) for path in paths if path.is_dir() and _FOLDER.fullmatch(path.name)}


def _revisions(name: str) -> dict[str, str]:
    """The model's id by its branches and tags that have a step in their names."""
    return {one: name for one in _refs(name) if _AFTER_WORD.search(one)}


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
