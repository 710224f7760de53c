"""One task explained: what it asks and of what, its scores, controls and readouts, its paper and an example."""

from __future__ import annotations

import contextlib

from bertology.encoders import model_shape, resolve_model
from bertology.errors import BertologyError
from bertology.families.contract import family_of
from bertology.families.request import CONTROLS, ReadoutConfig
from bertology.probing import Probe, ProbeFamily, get_probe, labels_in, registered_probes
from bertology.readouts import registered_readouts
from bertology.runner import ProbeRequest, make_plan

_CORPUS = "pocket"
_MOST_LABELS = 40


def task_page(name: str) -> list[tuple[str, str]]:
    """Lines of a heading and a text.

    Args:
        name: of a task; of one that needs an argument, such as ``feats``, the first of its examples is explained.

    Raises:
        NameNotFoundError: there is no such task; the message names the nearest ones.
    """
    several = _several(name)
    probe = get_probe(_with_argument(name, several))
    controls, lack, labels = _on_pocket(probe)
    splits = ", ".join(probe.splits_needed)
    models = " --model B --reference A" if probe.needs_reference else ""
    lines = [
        ("task", f"{probe.task}, version {probe.version}"),
        ("", "" if several is None else f"after a colon: {several.argument}, such as {', '.join(several.instances)}"),
        ("question", probe.question),
        ("about", probe.about),
        ("corpus", f"splits {splits}" if splits else "a source of texts, which has no splits"),
        ("", f"not {_CORPUS}: {lack}" if lack else f"{_CORPUS} has what it takes"),
        ("labels", f"{labels} (in {_CORPUS})" if labels else ""),
        *(("" if place else "scores", f"{one.name}: {one.description}") for place, one in enumerate(probe.scores)),
        ("controls", ", ".join(controls)),
        ("readouts", ", ".join(_readouts(probe))),
        ("paper", probe.reference),
        ("example", f"bertology probe --task {probe.task}{models} --corpus {'PATH' if lack else _CORPUS}"),
    ]
    return [(heading, text) for heading, text in lines if text]


def _several(name: str) -> ProbeFamily | None:
    """The tasks among which a name chooses by an argument, if it is of that kind."""
    stem = name.partition(":")[0].strip().lower().replace("-", "_")
    versions = [entry for entry in registered_probes().values() if stem in (entry.stem, entry.name)]
    newest = max(versions, key=lambda entry: entry.version, default=None)
    known = None if newest is None else newest.load()
    return known if isinstance(known, ProbeFamily) else None


def _with_argument(name: str, several: ProbeFamily | None) -> str:
    if several is None or several.default is not None or ":" in name:
        return name
    # COLUMN stands for a name that only a person knows.
    return f"{name}:{next((one for one in several.instances if not one.isupper()), several.instances[0])}"


def _on_pocket(probe: Probe) -> tuple[list[str], str, str]:
    """The controls; what the embedded corpus lacks of what is asked about, or nothing; and the labels that it has."""
    family = family_of(probe)
    controls = {
        *(note.name for note in family.baselines(probe)),
        *(["random"] if probe.asks_random_weights else []),
    }
    chosen, lack, labels = tuple(name for name in CONTROLS if name != "random"), "", tuple[str, ...]()
    try:
        plan = make_plan(ProbeRequest(tasks=(probe.task,), corpus=_CORPUS, controls=chosen))
        configs = plan.configs_of(probe)
        controls.update(family.cells(plan.pair, probe, configs[0], "pretrained").controls)
        family.check(plan.pair, probe, configs)
    except BertologyError as error:
        lack = str(error).removeprefix(f"task {probe.task}").lstrip(":, ")
    else:
        labels = tuple(sorted(labels_in(probe, plan.pair.splits.test)))
    shown = f"{len(labels)}: {', '.join(labels)}" if len(labels) <= _MOST_LABELS else ""
    return [name for name in CONTROLS if name in controls], lack, shown if labels else ""


def _readouts(probe: Probe) -> list[str]:
    """The readouts that the task can be read by, its own first."""
    family, shape = family_of(probe), model_shape(resolve_model(_CORPUS))
    own = str(family.configs(probe, [ReadoutConfig()], shape)[0].readout).partition(".")[0]
    others = []
    for name in sorted({entry.stem for entry in registered_readouts().values()} - {own}):
        with contextlib.suppress(BertologyError):
            family.configs(probe, [ReadoutConfig(name)], shape)
            others.append(name)
    return [f"{own} (its own)", *others]
