"""The main job: a request in, results out; whatever is already there is not computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bertology._files import cache_folder, canonical_json, write_atomically
from bertology._temporary import sweep
from bertology.activations import Entry, Progress, Recipe, silent
from bertology.corpora import Corpus, Sentences
from bertology.probing import ClozeProbe, HeadProbe, RepresentationProbe
from bertology.results import Results
from bertology.runner._assemble import Assembler
from bertology.runner._cells import all_finished
from bertology.runner._draws import Weights
from bertology.runner._fit import fit_group, write_baselines
from bertology.runner._heads import read_heads, write_head_baselines
from bertology.runner._plan import BaselineCells, Group, Plan, make_plan
from bertology.runner._prompts import GetEncoder, ask_group, write_majority
from bertology.runner._readable import recipe_for
from bertology.runner._request import ProbeRequest
from bertology.runner._sources import erased_data
from bertology.runner._task_data import TaskData

if TYPE_CHECKING:
    from bertology.encoders import Encoder

ProgressFor = Callable[[str], Progress]


def run_probes(
    request: ProbeRequest,
    *,
    corpus: Corpus | None = None,
    out: Path | None = None,
    experiment: str = "probe",
    progress: ProgressFor = lambda _: silent,
) -> Results:
    """Compute what a request asks for, or read it where it has been computed.

    Cells are written as they are finished, so that a killed run goes on where it was.

    Args:
        request: what is asked.
        corpus: the corpus itself, instead of the one the request names.
        out: the run's folder; one in the cache, named by the content of the run, when left out.
        experiment: what the rows are filed under.
        progress: gives the progress display of a job from its label.

    Raises:
        BertologyError: something asked for cannot be done.
    """
    plan = make_plan(request, corpus=corpus)
    run = out if out is not None else cache_folder() / "runs" / plan.run_id
    write_atomically(run / "request.json", canonical_json(asdict(request)), remedy=_remedy(out))
    sweep(cache_folder(), run, *run.glob("*"))
    notify = progress("").note
    for note in plan.notes:
        notify(note)
    baselines = [found for found in plan.baselines if not all_finished(run, found.cells.values())]
    groups = [left for group in plan.families if (left := left_of(run, group)) is not None]
    # All that can be wrong with a request is found before anything is computed.
    unfinished = {found.probe.task for found in baselines} | {group.probe.task for group in groups}
    data = {
        probe.task: TaskData.of(probe, plan.splits)
        for probe in plan.probes
        if probe.task in unfinished and isinstance(probe, RepresentationProbe)
    }
    for task in dict.fromkeys(group.reading.erase for group in groups if group.reading.erase is not None):
        erased_data(task, plan.splits)
    device = check_components(groups, device=request.device) if groups else ""
    for found in baselines:
        write_baselines_of(found, plan, run, data=data.get(found.probe.task))
    for weights in plan.fingerprints:
        of_weights = [group for group in groups if group.weights == weights]
        _compute(plan, weights, of_weights, data, run, device, progress)
    results = Assembler(run, experiment).of_plan(plan)
    if out is not None:
        results.save(run)
    return results


def _compute(
    plan: Plan,
    weights: Weights,
    groups: Sequence[Group],
    data: Mapping[str, TaskData],
    run: Path,
    device: str,
    progress: ProgressFor,
) -> None:
    """Compute the groups of one set of weights of the model."""
    get_encoder = opener(plan, weights, device)
    # One reading of the model is for all tasks.
    reads = any(group.probe.task in data for group in groups)
    entries = extract_splits(plan, weights, get_encoder, progress) if reads else {}
    who = called(plan, weights)
    for group in groups:
        label = f"{who}, {group.probe.task}"
        if group.probe.task in data:
            found = data[group.probe.task]
            fit_group(group, found, entries, run, plan=plan, device=device, progress=progress(label))
        elif isinstance(group.probe, ClozeProbe):
            ask_group(group, run, plan=plan, get_encoder=get_encoder, device=device, progress=progress(label))
    heads = [group for group in groups if isinstance(group.probe, HeadProbe)]
    if heads:
        # All that is asked of maps is asked in one pass.
        label = f"{who}, heads"
        display = progress(label)
        for _, error in read_heads(heads, run, plan=plan, get_encoder=get_encoder, device=device, progress=display):
            if error is not None:
                raise error


def write_baselines_of(found: BaselineCells, plan: Plan, run: Path, *, data: TaskData | None) -> None:
    """Compute the baselines of a task, of whatever kind, and write their cells into ``run``.

    Args:
        found: the cells.
        plan: what they are part of.
        run: the run's folder.
        data: the items, of a task that has vectors read.
    """
    if isinstance(found.probe, ClozeProbe):
        write_majority(found, plan.splits.prompts[found.probe.task], run)
    elif isinstance(found.probe, HeadProbe):
        write_head_baselines(found, plan.splits, run, reading=plan.readings_of(found.probe)[0])
    else:
        write_baselines(found, data or TaskData.of(found.probe, plan.splits), run)


def left_of(run: Path, group: Group) -> Group | None:
    """What is left to fit in folder ``run`` of a group and those that are fitted with it; None if nothing is."""
    left = [one for one in group.family if not all_finished(run, one.cells.values())]
    return replace(left[0], others=tuple(left[1:])) if left else None


def _remedy(out: Path | None) -> str:
    return "name another folder in BERTOLOGY_CACHE" if out is None else "name another folder with --out"


def check_components(groups: Iterable[Group], *, device: str) -> str:
    """The device to compute on; raises where it, or a readout, is not there."""
    from bertology._devices import choose_device
    from bertology.readouts import make_readout

    for group in groups:
        for one in group.family:
            if isinstance(one.probe, HeadProbe):
                continue  # its settings were checked when it was planned
            make_readout(one.readout.name, **one.reading.settings)
    return str(choose_device(device))


def called(plan: Plan, weights: Weights) -> str:
    """What a progress display calls the plan's model with these weights."""
    if weights.init != "random":
        return plan.source.title
    return f"random {plan.source.title}" + (f" (seed {weights.seed})" if weights.seed else "")


def recipe_of(plan: Plan, weights: Weights, sentences: Sentences) -> Recipe:
    """What decides the vectors of a split."""
    return recipe_for(plan.request, plan.fingerprints[weights], sentences)


def encoder_of(plan: Plan, weights: Weights, device: str) -> Encoder:
    """The plan's model with these weights, loaded."""
    from bertology.encoders import load_encoder

    request = plan.request
    return load_encoder(
        plan.source,
        init=weights.init,
        seed=weights.seed,
        dtype=request.dtype,
        device=device,
        trust_remote_code=request.trust_remote_code,
        max_pieces=request.max_pieces,
    )


def opener(plan: Plan, weights: Weights, device: str) -> GetEncoder:
    """Gives the plan's model with these weights: loaded once, and only when it is first needed."""
    return cache(lambda: encoder_of(plan, weights, device))


def extract_splits(plan: Plan, weights: Weights, get_encoder: GetEncoder, progress: ProgressFor) -> dict[str, Entry]:
    """The stored vectors of every split from these weights of the plan's model, read where they are not yet."""
    from bertology.activations import extract

    return {
        split: extract(
            get_encoder,
            sentences,
            recipe=recipe_of(plan, weights, sentences),
            layers=plan.layers,
            progress=progress(f"{called(plan, weights)}, {split}"),
        )
        for split, sentences in plan.splits.by_name.items()
    }
