"""Experiment files: what may be in them is :class:`Experiment`; they are read with their includes, then changed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology import _settings
from bertology._files import exists, real_path
from bertology.errors import BertologyError, NameNotFoundError, cut_path, quoted
from bertology.families.contract import check_controls
from bertology.families.request import Experiment, ModelSettings

__all__ = ["Experiment", "ModelSettings", "load_experiment"]

_INCLUDE, _REAL = "include", "real"


def load_experiment(
    path: str | Path, *, real: bool = False, changes: Sequence[str] = (), trust_remote_code: bool = False
) -> Experiment:
    """The experiment that a YAML file describes.

    Args:
        path: the file.
        real: whether the models, corpora, tasks … that it states under ``real`` take the place of its others.
        changes: settings to replace, each as ``key=value``: ``seeds=3``, ``models[0].dtype=bfloat16``.
        trust_remote_code: whether models for which the file asks it may run the Python code that comes with them.

    Raises:
        BertologyError: the file is missing or invalid, or it requires remote code and ``trust_remote_code`` is false;
            the message names file, line and key.
    """
    written = _with_includes(Path(path), ())
    stated = written.pop(_REAL, None)
    if real and not isinstance(stated, Mapping):
        raise BertologyError(f"{path}: it states no other settings under {_REAL}: leave --real out")
    if real:
        named = _settings.merged({"name": f"{written.get('name')}-{_REAL}"}, written)
        written = _settings.merged(stated, named, deep=False)
    written = _settings.changed(written, changes)
    _settings.check_trust(written, granted=trust_remote_code)
    experiment = _settings.checked(Experiment, written, more=[_INCLUDE])
    try:
        check_controls(experiment.controls, (task.name for task in experiment.tasks))
    except NameNotFoundError as error:
        raise NameNotFoundError(f"{written.place_of(('controls',))}: controls: {error}") from None
    return experiment


def experiment_of(settings: Mapping[str, Any], *, where: str) -> Experiment:
    """The experiment of plain settings, as a file has them, checked as those of a file are."""
    return _settings.checked(Experiment, settings, where=where)


def _with_includes(path: Path, above: tuple[Path, ...]) -> _settings.Placed:
    """A file over what it includes: mappings are put together key by key, all else is replaced."""
    written = _settings.read_yaml(path, what="an experiment", example="name: trial", command="run")
    here = real_path(path)
    if here in above:
        circle = " → ".join(map(str, (*above[above.index(here) :], here)))
        raise BertologyError(f"{path}: includes itself ({circle})")
    if not written:
        raise BertologyError(f"{path}: empty; an experiment has name, models, corpora and tasks")
    included = written.pop(_INCLUDE, ())
    for name in reversed(included if isinstance(included, list | tuple) else [included]):
        file = path.parent / name if isinstance(name, str) and name else None
        if file is None or not (exists(file) and file.is_file()):
            problem = f"no file {cut_path(file or quoted(name))}; paths start from the folder of {path.name}"
            raise BertologyError(f"{written.places[_INCLUDE]}: include: {problem}")
        written = _settings.merged(written, _with_includes(file, (*above, here)))
    return written


def experiment_schema() -> Mapping[str, Any]:
    """JSON Schema of an experiment file, by which editors complete and check."""
    include = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Files that this one builds on, by their paths from here; what is written here comes first.",
    }
    about = "Settings that take the place of the file's own with `--real`: models and corpora of a paper."
    schema = _settings.file_schema(
        Experiment, "run", title="experiment", further={"include": include, _REAL: {"$ref": "#", "description": about}}
    )
    # What a file leaves out may stand in a file that it includes.
    schema.pop("required", None)
    return schema
