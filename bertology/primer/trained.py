"""Models that are trained for claims: pretraining variants, and the encoder fine-tuned or compressed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertology._folder import MODELS
from bertology._settings import checked
from bertology.errors import BertologyError
from bertology.families.request import CorpusSettings
from bertology.measures.intervals import Bootstrap
from bertology.primer.claims import ENCODER, Claims, Training

_SHARE = "_of_layers"
"""Ends the name of a setting that is a share of the encoder's layers: ``drop_top_of_layers: 0.33``."""
_SOURCE = "{source}"
"""Stands in settings for the folder of the model that a training starts from."""
_SPREAD = "sd_"
"""Begins the name of the standard deviation of a score over seeds: ``sd_accuracy``."""


@dataclass(frozen=True)
class Trained:
    """The models of one role."""

    role: str
    title: str
    """Their name in tables, which they share."""
    folders: Mapping[int, str]
    """The model folder of each seed."""

    def settings(self, reference: str | None) -> Iterator[dict[str, Any]]:
        """The models as an experiment names them, each compared with the encoder that it comes from."""
        for seed, folder in self.folders.items():
            about = {"name": folder, "id": self.title, "pretraining_seed": seed}
            yield about if reference is None else {**about, "reference": reference}


def roles_needed(claims: Claims) -> list[str]:
    """The roles of models that the claims name, each after the one that it starts from."""
    found: dict[str, None] = {}

    def add(role: str) -> None:
        if role != ENCODER and role not in found:
            add(claims.models[role].of)
            found[role] = None

    for claim in claims.claims:
        for rule in claim.rule:
            for one in claim.measurements(rule):
                add(one.model)
    return list(found)


def train(
    claims: Claims,
    encoder: str,
    title: str,
    corpora: Mapping[str, CorpusSettings | None],
    folder: Path,
    *,
    device: str,
    show: bool,
) -> dict[str, Trained]:
    """Train what the claims need of an encoder, or find it in the folder; stopped trainings go on.

    Raises:
        BertologyError: a training cannot be done as the file of claims says.
    """
    made: dict[str, Trained] = {ENCODER: Trained(ENCODER, title, {0: encoder})}
    for role in roles_needed(claims):
        training = claims.models[role]
        is_own = training.pretrain is not None
        own_title = role if is_own else f"{title}/{role}"
        where = folder / MODELS / (role if is_own else f"{Path(title).name}-{role}")
        try:
            folders = _made(claims, training, made[training.of].folders, corpora, where, device=device, show=show)
        except BertologyError as error:
            raise type(error)(f"model {role} of the claims: {error}") from error
        made[role] = Trained(role, own_title, folders)
    return made


def _made(
    claims: Claims,
    training: Training,
    sources: Mapping[int, str],
    corpora: Mapping[str, CorpusSettings | None],
    where: Path,
    *,
    device: str,
    show: bool,
) -> dict[int, str]:
    """The model folders of one role by seed."""
    from bertology.compression import compress
    from bertology.encoders import model_shape, resolve_model
    from bertology.finetuning import finetune
    from bertology.pocket import PretrainSettings, pretrain

    seeds = range(1, (training.seeds or claims.seeds) + 1)
    if training.pretrain is not None:
        for seed in seeds:
            own = _with_source(training.pretrain, sources.get(seed, next(iter(sources.values()))))
            settings = {**claims.recipe, **own, "seed": seed}
            recipe = checked(PretrainSettings, settings, where="recipe")
            record = where / f"seed-{seed}" / "training.json"
            # A folder of other settings is refused where it would be trained.
            if not record.is_file() or json.loads(record.read_text())["settings"] != recipe.model_dump(mode="json"):
                pretrain(recipe, record.parent, device=device, echo=print if show else lambda _: None)
        return {seed: str(where / f"seed-{seed}") for seed in seeds}
    if training.finetune is not None:
        settings = {**training.finetune}
        corpus = _bound(corpora, settings.pop("on", "treebank"))
        shared: dict[str, Any] = {"sentences": corpus.sentences, "columns": corpus.columns, "device": device}
        found = {}
        for seed in seeds:
            # Each training starts from the source of its seed, where there are several.
            source = sources.get(seed, next(iter(sources.values())))
            source = _fresh(source, where / f"fresh-{seed}", seed) if training.fresh else source
            own = _with_source(settings, source)
            tuned = finetune(source, corpus.name, out=where, seeds=[seed], progress=show, **{**shared, **own})
            found[seed] = str(tuned.folder(seed))
        return found
    settings = dict(training.compress or {})
    method = settings.pop("method")
    n_layers = model_shape(resolve_model(next(iter(sources.values())))).n_layers
    for name in [name for name in settings if name.endswith(_SHARE)]:
        settings[name.removesuffix(_SHARE)] = max(1, round(settings.pop(name) * n_layers))
    if (role := settings.pop("on", None)) is not None:
        settings["corpus"] = _bound(corpora, role).name
    found = {}
    for seed, source in sources.items():
        out = where / f"seed-{seed}"
        compress(source, method, out=out, device=device, progress=show, **settings)
        found[seed] = str(out)
    return found


def _with_source(settings: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Settings with the folder of the model that a training starts from, where they name it."""
    return {name: source if value == _SOURCE else value for name, value in settings.items()}


def _bound(corpora: Mapping[str, CorpusSettings | None], role: str) -> CorpusSettings:
    corpus = corpora.get(role)
    if corpus is None:
        raise BertologyError(f"no corpus is bound to the role {role}: give one with --role {role}=CORPUS")
    return corpus


def _fresh(source: str, folder: Path, seed: int) -> str:
    """A model folder with random weights of the architecture of a model, and its tokenizer."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer, set_seed

    from bertology.encoders import resolve_model
    from bertology.encoders.sources import load_config

    if not (folder / "config.json").is_file():
        found = resolve_model(source)
        set_seed(seed)
        model = AutoModelForMaskedLM.from_config(load_config(found, trust_remote_code=False))
        AutoTokenizer.from_pretrained(found.folder).save_pretrained(folder)
        model.save_pretrained(folder)
    return str(folder)


def own_scores(folders: Sequence[str], metric: str, *, n_resamples: int, seed: int) -> list[Bootstrap]:
    """The score of trainings themselves on test, by run: of fine-tuned models with resamples of the items.

    ``sd_accuracy`` is the standard deviation of ``accuracy`` over seeds, ``closed_heads`` the share of heads whose
    learned gates are 0; of pretrained models it is a figure of ``training.json``. Of these the runs are what varies.

    Raises:
        BertologyError: the models have no such score.
    """
    from bertology.finetuning import FineTuned

    first = Path(folders[0])
    if (first / "finetune.json").is_file():
        # The folder may hold further seeds.
        known = FineTuned(first.parent, tuple(int(Path(folder).name.partition("-")[2]) for folder in folders))
        if metric == "closed_heads":
            gates = [list((record.gates or {}).values()) for record in known.records.values()]
            return _of_runs(metric, [float(np.mean(np.equal(of, 0))) for of in gates], n_resamples, seed)
        if metric.startswith(_SPREAD):
            return [_spread(known, metric, n_resamples, seed)]
        runs = known.bootstraps.get("test") or known.bootstraps["dev"]
        if metric not in runs[0]:
            raise BertologyError(f"fine-tuned models have {', '.join(runs[0])}, and no {metric}")
        return [run[metric] for run in runs]
    values = []
    for folder in folders:
        record: Any = json.loads((Path(folder) / "training.json").read_text(encoding="utf-8"))
        for key in metric.split("."):
            is_place = isinstance(record, list) and key.isdecimal() and int(key) < len(record)
            record = record[int(key)] if is_place else record.get(key) if isinstance(record, Mapping) else None
        if not isinstance(record, int | float):
            raise BertologyError(f"{folder}/training.json has no figure {metric}")
        values.append(float(record))
    return _of_runs(metric, values, n_resamples, seed)


def _of_runs(metric: str, values: Sequence[float], n_resamples: int, seed: int) -> list[Bootstrap]:
    """The mean of one figure a run, with the runs as what is resampled."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(n_resamples, len(values)))
    column = np.array(values)[drawn].mean(axis=1, keepdims=True)
    return [_figure(metric, float(np.mean(values)), column, len(values), seed)]


def _spread(known: Any, metric: str, n_resamples: int, seed: int) -> Bootstrap:
    """The standard deviation of a score over seeds, with the seeds as what is resampled."""
    runs = known.bootstraps.get("test") or known.bootstraps["dev"]
    values = np.array([float(run[metric.removeprefix(_SPREAD)].values[0]) for run in runs])
    drawn = values[np.random.default_rng(seed).integers(len(values), size=(n_resamples, len(values)))]
    # A resample of n runs repeats some, so that its deviation is smaller by the root of (n − 1) / n.
    column = drawn.std(axis=1, ddof=1, keepdims=True) * np.sqrt(len(values) / (len(values) - 1))
    return _figure(metric, float(values.std(ddof=1)), column, len(values), seed)


def _figure(metric: str, value: float, column: Any, n: int, seed: int) -> Bootstrap:
    whole = np.array([value])
    spread = column.std(axis=0, ddof=1)
    return Bootstrap(metric, whole, spread, whole, whole, ("none",), column, column[:n], n, 0.95, seed, bounds="none")
