"""``bertology tasks``, ``readouts``, ``models``, ``corpora``, ``schema`` and ``doctor``: list and check components."""

import contextlib
import inspect
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, get_args

import typer

import bertology
from bertology import encoders
from bertology._files import cache_folder, explained_write_errors
from bertology._lazy import torch
from bertology._machine import bfloat16_is_fast, choose_device, size_in_words
from bertology._names import Registered, check_name
from bertology.cli._options import command
from bertology.encoders.sources import KNOWN_MODELS
from bertology.errors import BertologyError, NameNotFoundError

if TYPE_CHECKING:
    from bertology.probing import Probe

_LEAST = 30
"""Columns of a text, however narrow the terminal is."""
_ALIKE = 0.85
"""Least similarity of a word to the name of a task for it to count as a typing error and not as a search."""
_LEAST_LETTERS = 5
"""Letters that a word to search needs to be the beginning of one that is found."""
_CORPUS = "pocket"
_MOST_LABELS = 40
_BROKEN = "cannot be used"
_CORE = ("torch", "transformers", "tokenizers", "scikit-learn", "pandas", "pyarrow", "matplotlib", "spacy")
_OPTIONAL = {
    "h5py": "reads and writes NeuroX files (pip install 'bertology[hdf5]')",
    "distributed": "runs experiments on a cluster (pip install 'bertology[distributed]')",
    "starlette": "serves bertology explore, with uvicorn (pip install 'bertology[explore]')",
    "peft": "fine-tunes adapters (pip install 'bertology[peft]')",
    "dask-jobqueue": "submits Slurm jobs for it (pip install 'bertology[distributed]')",
}


@command("how-to/own-probe", "bertology tasks morphology", "bertology tasks feats")
def tasks(words: list[str] | None = None) -> None:
    """List the tasks by subject, search them, or explain one: its question, data, scores, controls and readouts.

    Args:
        words: A task to explain, or words to search for; else all are listed.
    """
    from bertology.probing import registered_probes
    from bertology.probing.probes import Subject

    known, name = registered_probes(), " ".join(words or ())
    if name:
        try:
            _show(task_page(name))
            return
        except NameNotFoundError:
            is_typo = get_close_matches(name, [entry.stem for entry in known.values()], n=1, cutoff=_ALIKE)
            known = {} if is_typo else {key: entry for key, entry in known.items() if _is_about(entry, name)}
            if not known:
                raise
    is_short = sys.stdout.isatty()
    by_subject: dict[str, list[tuple[str, str]]] = {subject: [] for subject in (*get_args(Subject), _BROKEN)}
    for label, probe, text in _components(known):
        if probe is None:
            by_subject[_BROKEN].append((f"  {label}", text))
            continue
        about = probe.question if is_short else f"{probe.question} ({probe.reference}; {text})"
        if (instances := getattr(probe, "instances", None)) is not None:
            label += ":…" if getattr(probe, "default", None) is None else "[:…]"
            about += "" if is_short else f"; … is {', '.join(instances)}"
        by_subject[probe.subject].append((f"  {label}", about))
    width = max(len(label) for lines in by_subject.values() for label, _ in lines)
    for subject, lines in by_subject.items():
        if lines:
            typer.echo(f"{subject}:")
            _show(lines, is_cut=True, width=width)
    if is_short:
        typer.echo("\n`bertology tasks NAME` explains one, `bertology tasks WORD` searches")


def _is_about(entry: Registered[Any], words: str) -> bool:
    """Whether all words stand in a task's name, question, subject, reference or description."""
    try:
        probe = entry.load()
    except BertologyError:
        return False
    # Of a file with several tasks, the paragraphs on this one.
    paragraphs = re.split(r"\n(?:- |\n)", str(inspect.getdoc(sys.modules[entry.entry_point.module])))
    own = [paragraph for paragraph in paragraphs if f"``{entry.stem}" in paragraph] or paragraphs
    text = " ".join([entry.stem, probe.subject, probe.question, probe.reference, *own]).lower()
    asked = [rf"\b{re.escape(word)}" + (r"\b" if len(word) < _LEAST_LETTERS else "") for word in words.lower().split()]
    return all(re.search(pattern, text) for pattern in asked)


@command("how-to/readouts", "bertology readouts", "bertology readouts | grep edge")
def readouts() -> None:
    """List the readouts, each with what it reads."""
    from bertology.readouts import registered_readouts

    found = _components(registered_readouts())
    _show((name, text if kind is None else f"{kind.about} (reads {kind.reads}; {text})") for name, kind, text in found)


def _components(known: Mapping[str, Registered[Any]]) -> Iterator[tuple[str, Any, str]]:
    """Name, component and version of each; of a broken one, which does not hide the others, None and the reason.

    The newest version goes by its name alone.
    """
    newest = {entry.stem: entry.name for entry in sorted(known.values(), key=lambda entry: entry.version)}
    for name, entry in sorted(known.items()):
        try:
            yield entry.stem if newest[entry.stem] == name else name, entry.load(), f"v{entry.version}"
        except BertologyError as error:
            yield name, None, f"cannot be used: {error}"


@command("how-to/own-model", "bertology models", "bertology probe --model bilingual")
def models() -> None:
    """List models by name; any folder in Hugging Face layout and any hub id does as well."""
    _show(KNOWN_MODELS.items())


@command("how-to/data-by-name", "bertology corpora --language fr", "bertology corpora --task ner")
def corpora(*, language: str | None = None, task: str | None = None) -> None:
    """List corpora and sets of items by name; any folder or file of annotated sentences does as well.

    Args:
        language: Only data in this language: its code, such as fr, or of treebanks its name, such as Ancient_Greek.
        task: Only data that this task can read.
    """
    from bertology.corpora import known_corpora
    from bertology.corpora.prompts import MADE
    from bertology.probing import get_probe

    known = known_corpora(language=language and language.replace("_", " "), task=task and _stem(task))
    if not known:
        typer.echo(f"no data by name for task {task}: {get_probe(str(task)).about}", err=True)
    made = [(MADE, "items made by stated rules, for the tasks numeracy and comparisons")]
    _show([*(known.items() if language else _shortened(known)), *(made if _CORPUS in known else ())])


def _stem(task: str) -> str:
    """The registered name of a task without its version and what follows a colon."""
    from bertology.probing import registered_probes

    stem = task.partition(":")[0].strip().lower().replace("-", "_")
    check_name("task", stem, {entry.stem for entry in registered_probes().values()})
    return stem


def _shortened(known: Mapping[str, str]) -> list[tuple[str, str]]:
    """Data with a line each, but all treebanks in one."""
    from bertology.corpora import RELEASE

    others = [(name, text) for name, text in known.items() if not name.startswith("ud:")]
    if n := len(known) - len(others):
        text = f"{n} treebanks of Universal Dependencies {RELEASE}; `bertology corpora --language fr` lists French ones"
        others.append(("ud:CODE", text))
    return others


def _show(lines: Iterable[tuple[str, str]], *, is_cut: bool = False, width: int = 0) -> None:
    """A line each; on a terminal, a text too long for it is continued below itself, or cut where it ``is_cut``."""
    lines = [(name, " ".join(text.split())) for name, text in lines]
    width = max([width, *(len(name) for name, _ in lines)])
    room = max(_LEAST, shutil.get_terminal_size().columns - width - 2)
    for name, text in lines:
        parts = [text]
        if sys.stdout.isatty() and len(text) > room:
            parts = [textwrap.shorten(text, room, placeholder=" …")] if is_cut else textwrap.wrap(text, room)
        for label, part in zip_longest([name], parts, fillvalue=""):
            typer.echo(f"{label:<{width}}  {part}")


@command("how-to/experiments", "bertology schema > run.json", "bertology schema finetune > finetune.json")
def schema(command: Literal["run", "finetune", "landscape", "pretrain", "primer"] = "run") -> None:
    """Print the JSON Schema of the YAML files of a command, by which editors complete and check them.

    Args:
        command: The command that reads the files.
    """
    from bertology.finetuning import grid_schema
    from bertology.landscapes import landscape_schema
    from bertology.pocket import recipe_schema
    from bertology.primer import claims_schema
    from bertology.runner.experiment import experiment_schema

    made = {"run": experiment_schema, "finetune": grid_schema, "landscape": landscape_schema, "pretrain": recipe_schema}
    made["primer"] = claims_schema
    typer.echo(json.dumps(made[command](), indent=2, ensure_ascii=False))


@command("how-to/gpu", "bertology doctor", "bertology doctor | grep FAIL")
def doctor() -> None:
    """Check what works on this machine; exit status 1 if the main job does not."""
    failed = False
    names = "versions", "optional", "compute", "cache", "tasks", "readouts", "model pocket", "corpus pocket", "hub"
    for name in (*names, "spaCy pipelines"):
        try:
            typer.echo(f"ok    {name}: {_checked(name)}")
        except (BertologyError, ImportError, PackageNotFoundError, OSError) as error:
            failed = True
            typer.echo(f"FAIL  {name}: {error}")
    raise typer.Exit(1 if failed else 0)


def _checked(what: str) -> str:
    """State of one thing that the instrument needs; an error where it does not work."""
    if what == "versions":
        return ", ".join(f"{name} {version(name)}" for name in ("bertology", *_CORE))
    if what == "optional":
        found = []
        for name, use in _OPTIONAL.items():
            try:
                found.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                found.append(f"no {name}, which {use}")
        return ", ".join(found)
    if what == "compute":
        device, threads = choose_device("auto"), f"{torch.get_num_threads()} threads of {os.cpu_count()} processors"
        speed = "fast" if bfloat16_is_fast(device) else "slow here, stay with float32"
        return f"device {device}, {threads}; bfloat16 is {speed}"
    if what == "cache":
        folder = cache_folder()
        with explained_write_errors(folder, remedy="name another folder in BERTOLOGY_CACHE"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".doctor").write_bytes(b"")
            (folder / ".doctor").unlink()
        return f"{folder}, {size_in_words(shutil.disk_usage(folder).free)} free"
    if what in ("tasks", "readouts"):
        from bertology.probing import registered_probes
        from bertology.readouts import registered_readouts

        components: Mapping[str, Registered[Any]] = registered_probes() if what == "tasks" else registered_readouts()
        for component in components.values():
            component.load()
        return ", ".join(sorted(components))
    if what == "model pocket":
        source = encoders.resolve_model("pocket")
        shape, fingerprint = encoders.model_shape(source), encoders.model_fingerprint(source)[:12]
        return f"{shape.n_layers} layers of {shape.dim}, {shape.n_heads} heads, fingerprint {fingerprint}"
    if what == "corpus pocket":
        splits = bertology.load_corpus("pocket").splits
        return ", ".join(f"{name} {len(sentences):,} sentences" for name, sentences in splits.items())
    if what == "hub":
        from huggingface_hub.constants import HF_HUB_CACHE

        offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
        use = "offline by HF_HUB_OFFLINE" if offline else "used for a model not in its cache"
        return f"{use}, cache {HF_HUB_CACHE}"
    from spacy.util import get_installed_models

    return ", ".join(get_installed_models()) or "none (needed only to label raw text: python -m spacy download …)"


def task_page(name: str) -> list[tuple[str, str]]:
    """Lines of a heading and a text.

    Args:
        name: of a task; of one that needs an argument, such as ``feats``, the first of its examples is explained.

    Raises:
        NameNotFoundError: there is no such task; the message names the nearest ones.
    """
    from bertology.corpora import known_corpora
    from bertology.probing import ProbeFamily, get_probe, registered_probes

    stem = name.partition(":")[0].strip().lower().replace("-", "_")
    versions = [entry for entry in registered_probes().values() if stem in (entry.stem, entry.name)]
    newest = max(versions, key=lambda entry: entry.version, default=None)
    family = newest.load() if newest else None
    after_colon = ""
    if isinstance(family, ProbeFamily):
        after_colon = f"after a colon: {family.argument}, such as {', '.join(family.instances)}"
        if family.default is None and ":" not in name:
            # COLUMN stands for a name that only a person knows.
            name += f":{next((one for one in family.instances if not one.isupper()), family.instances[0])}"
    probe = get_probe(name)
    controls, lack, labels = _on_pocket(probe)
    splits = ", ".join(probe.splits_needed)
    models = " --model B --reference A" if probe.needs_reference else ""
    lines = [
        ("task", f"{probe.task}, version {probe.version}"),
        ("", after_colon),
        ("question", probe.question),
        ("about", probe.about),
        ("corpus", f"splits {splits}" if splits else "a source of texts, which has no splits"),
        ("", f"not {_CORPUS}: {lack}" if lack else f"{_CORPUS} has what it takes"),
        ("labels", f"{labels} (in {_CORPUS})" if labels else ""),
        *(("" if place else "scores", f"{one.name}: {one.description}") for place, one in enumerate(probe.scores)),
        ("controls", ", ".join(controls)),
        ("readouts", ", ".join(_readouts(probe))),
        ("paper", probe.reference),
        ("data", ", ".join(dict(_shortened(known_corpora(task=_stem(probe.task)))))),
        ("example", f"bertology probe --task {probe.task}{models} --corpus {'PATH' if lack else _CORPUS}"),
    ]
    return [(heading, text) for heading, text in lines if text]


def _on_pocket(probe: "Probe") -> tuple[list[str], str, str]:
    """The controls; what the embedded corpus lacks for the task, or nothing; and the labels that it has."""
    from bertology.families.contract import family_of
    from bertology.families.request import RANDOM, Controls, ProbeRequest
    from bertology.probing import get_probe
    from bertology.probing.probes import labels_in
    from bertology.runner.plan import make_plan

    if stands := probe.stands_for(lambda: bertology.load_corpus(_CORPUS).splits):
        tasks = [task for task, left_out in stands.items() if not left_out]
        return *_on_pocket(get_probe(tasks[0]))[:2], f"those of {', '.join(tasks)}"
    family = family_of(probe)
    controls = [note.name for note in family.baselines(probe)] + [RANDOM] * probe.asks_random_weights
    chosen = [*controls, *(note.name for note in family.controls(probe))]
    lack, labels = "", tuple[str, ...]()
    try:
        of_words = [name for name in chosen if name != RANDOM]
        plan = make_plan(ProbeRequest(tasks=probe.task, corpus=_CORPUS, controls=of_words))
        configs = plan.configs_of(probe)
        without = replace(plan.pair, request=plan.pair.request.model_copy(update={"controls": Controls()}))
        always, asked = (family.cells(pair, probe, configs[0], "pretrained").controls for pair in (without, plan.pair))
        controls += [name for name in asked if name not in always]
        family.check(plan.pair, probe, configs)
    except BertologyError as error:
        lack = str(error).removeprefix(f"task {probe.task}").lstrip(":, ")
    else:
        labels = tuple(sorted(labels_in(probe, plan.pair.splits.test)))
    shown = f"{len(labels)}: {', '.join(labels)}" if len(labels) <= _MOST_LABELS else ""
    return controls, lack, shown if labels else ""


def _readouts(probe: "Probe") -> list[str]:
    """The readouts that the task can be read by, its own first."""
    from bertology.families.contract import family_of
    from bertology.families.request import ReadoutConfig
    from bertology.readouts import registered_readouts

    family, shape = family_of(probe), encoders.model_shape(encoders.resolve_model(_CORPUS))
    own = str(family.configs(probe, [ReadoutConfig()], shape)[0].readout).partition(".")[0]
    others = []
    for name in sorted({entry.stem for entry in registered_readouts().values()} - {own}):
        with contextlib.suppress(BertologyError):
            family.configs(probe, [ReadoutConfig(name)], shape)
            others.append(name)
    return [f"{own} (its own)", *others]
