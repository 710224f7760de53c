"""Models that are trained for claims: pretraining variants, and the encoder fine-tuned or compressed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertology import compression, encoders, finetuning, landscapes, pocket
from bertology._files import temporary_folder
from bertology._folder import MODELS
from bertology._lazy import torch, transformers
from bertology._settings import checked
from bertology.errors import BertologyError
from bertology.families.request import CorpusSettings
from bertology.measures.intervals import Bootstrap
from bertology.measures.sums import Floats
from bertology.primer.claims import ENCODER, Claims, Training

Corpora = Mapping[str, CorpusSettings | None]
_SHARE = "_of_layers"
"""Ends the name of a setting that is a share of the encoder's layers: ``drop_top_of_layers: 0.33``."""
_SOURCE = "{source}"
"""Stands in settings for the folder of the model that a training starts from."""
_TRAININGS = "trainings"
_LANDSCAPE = "landscape-"
"""Begins the name of the folder with the loss around the fine-tuned model of a seed."""
_SPREAD = "sd_"
"""Begins the name of the standard deviation of a score over seeds: ``sd_accuracy``."""


@dataclass(frozen=True)
class Trained:
    """The models of one role."""

    title: str
    """Their name in tables, which they share."""
    models: Mapping[int, Any]
    """The model of each seed: its folder or name, or an encoder made of two."""

    def settings(self, reference: str | None) -> Iterator[dict[str, Any]]:
        """The models as an experiment names them, each compared with the encoder that it comes from."""
        for seed, model in self.models.items():
            about = {"name": model, "id": self.title, "pretraining_seed": seed}
            yield about if reference is None else {**about, "reference": reference}


def roles_needed(claims: Claims) -> list[str]:
    """The roles of models that the claims name, each after the one that it starts from."""
    found: dict[str, None] = {}

    def add(role: str) -> None:
        if role != ENCODER and role not in found:
            add(claims.models[role].of)
            add(claims.models[role].beside or ENCODER)
            found[role] = None

    for claim in claims.claims:
        for rule in claim.rule:
            for one in claim.measurements(rule):
                add(one.model)
    return list(found)


def train(
    claims: Claims, encoder: str, title: str, corpora: Corpora, folder: Path, *, device: str, show: bool
) -> dict[str, Trained]:
    """Train what the claims need of an encoder, or find it in the folder; stopped trainings go on.

    Raises:
        BertologyError: a training cannot be done as the file of claims says.
    """
    made: dict[str, Trained] = {ENCODER: Trained(title, {0: encoder})}
    for role in roles_needed(claims):
        training = claims.models[role]
        is_own = training.pretrain is not None or training.beside is not None
        own_title = role if is_own else f"{title}/{role}"
        where = folder / MODELS / (role if is_own else f"{Path(title).name}-{role}")
        sources = made[training.of].models
        models: Mapping[int, Any]
        try:
            if training.beside is not None:
                others = made[training.beside].models
                pairs = {seed: (one, others[seed]) for seed, one in sources.items()}
                models = {seed: encoders.side_by_side(*pair, name=f"{role}-{seed}") for seed, pair in pairs.items()}
            else:
                models = _made(claims, training, sources, corpora, where, device=device, show=show)
        except BertologyError as error:
            raise type(error)(f"model {role} of the claims: {error}") from error
        made[role] = Trained(own_title, models)
    return made


def _made(
    claims: Claims,
    training: Training,
    sources: Mapping[int, str],
    corpora: Corpora,
    where: Path,
    *,
    device: str,
    show: bool,
) -> dict[int, str]:
    """The model folders of one role by seed."""
    seeds = range(1, (training.seeds or claims.seeds) + 1)
    if training.pretrain is not None:
        for seed in seeds:
            own = _with_source(training.pretrain, sources.get(seed, next(iter(sources.values()))))
            settings = {**claims.recipe, **own, "seed": seed}
            written = {name: value for name, value in settings.items() if value is not None}
            recipe = checked(pocket.PretrainSettings, written, where="recipe")
            made = where / f"seed-{seed}"
            # A folder of other settings is refused where it would be trained.
            if _record_of(made).get("settings") != recipe.model_dump(mode="json"):
                pocket.pretrain(recipe, made, device=device, echo=print if show else lambda _: None)
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
            how = {"out": where, "seeds": [seed], "progress": show, **shared, **own}
            tuned = finetuning.finetune(source, corpus.name, **how)
            found[seed] = str(tuned.folder(seed))
            if training.landscape is not None:
                around, asked = where / f"{_LANDSCAPE}{seed}", checked(landscapes.LandscapeSettings, training.landscape)
                if _record_of(around).get("settings") != asked.model_dump(mode="json"):
                    of_text: dict[str, Any] = {"corpus": corpus.name, "columns": corpus.columns, "device": device}
                    of_text |= {"out": around, "overwrite": True, "progress": show}
                    landscapes.landscape(found[seed], head=found[seed], **of_text, **training.landscape)
        return found
    settings = dict(training.compress or {})
    method = settings.pop("method")
    n_layers = encoders.model_shape(encoders.resolve_model(next(iter(sources.values())))).n_layers
    for name in [name for name in settings if name.endswith(_SHARE)]:
        settings[name.removesuffix(_SHARE)] = max(1, round(settings.pop(name) * n_layers))
    if (role := settings.pop("on", None)) is not None:
        settings["corpus"] = _bound(corpora, role).name
    found = {}
    for seed, source in sources.items():
        out = where / f"seed-{seed}"
        compression.compress(source, method, out=out, device=device, progress=show, **settings)
        found[seed] = str(out)
    return found


def _with_source(settings: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Settings with the folder of the model that a training starts from, where they name it."""
    return {name: source if value == _SOURCE else value for name, value in settings.items()}


def _bound(corpora: Corpora, role: str) -> CorpusSettings:
    corpus = corpora.get(role)
    if corpus is None:
        raise BertologyError(no_corpus(role))
    return corpus


def no_corpus(role: str) -> str:
    """Why nothing is measured or trained on the corpus of a role."""
    return f"no corpus is bound to the role {role}: give one with --role {role}=CORPUS"


def _fresh(source: str, folder: Path, seed: int) -> str:
    """A model folder with random weights of the architecture of a model, and its tokenizer."""
    if not folder.is_dir():
        found = encoders.resolve_model(source)
        config = encoders.sources.load_config(found, trust_remote_code=False)
        model = encoders.sources.drawn(transformers.AutoModelForMaskedLM, config, seed, torch.float32)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(folder.parent, folder.name) as made:
            encoders.sources.save_model(model, made, tokenizer=found.folder)
            made.rename(folder)
    return str(folder)


def own_scores(folders: Sequence[str], metric: str, *, n_resamples: int, seed: int) -> tuple[list[Bootstrap], str]:
    """The score of trainings themselves on test, by run, and what was resampled: of fine-tuned models sentences.

    ``sd_accuracy`` is the standard deviation of ``accuracy`` over seeds, ``closed_heads`` the share of heads whose
    learned gates are 0, ``sharpness_bits`` the mean rise of the loss around the model; of pretrained models it is a
    figure of ``training.json``. Of these the runs are what varies.

    Raises:
        BertologyError: the models have no such score.
    """
    first = Path(folders[0])
    if (first / "finetune.json").is_file():
        # The folder may hold further seeds.
        seeds = tuple(int(Path(folder).name.partition("-")[2]) for folder in folders)
        known = finetuning.FineTuned(first.parent, seeds)
        if metric == "sharpness_bits":
            around = [first.parent / f"{_LANDSCAPE}{one}" for one in known.seeds]
            if any(_record_of(one).get("unit", "bits") != "bits" for one in around):
                raise BertologyError(f"the loss of this task is in squared error, and has no {metric}")
            found = [_figure_of(one, "sharpness.0.value") for one in around]
            return [of_runs(metric, np.array([found]).T, n_resamples, seed)], _TRAININGS
        if metric == "closed_heads":
            gates = [list((record.gates or {}).values()) for record in known.records.values()]
            shares = np.array([[np.mean(np.equal(of, 0))] for of in gates])
            return [of_runs(metric, shares, n_resamples, seed)], _TRAININGS
        runs, name = known.bootstraps.get("test") or known.bootstraps["dev"], metric.removeprefix(_SPREAD)
        if name not in runs[0]:
            raise BertologyError(f"fine-tuned models have {', '.join(runs[0])}, and no {name}")
        if metric == name:
            return [run[metric] for run in runs], "sentences"
        if len(runs) < 2:
            raise BertologyError(f"one training alone has no {metric}: ask for two seeds or more")
        values = np.array([run[name].values for run in runs])
        return [of_runs(metric, values, n_resamples, seed, spread=True)], _TRAININGS
    figures = [_figure_of(Path(folder), metric) for folder in folders]
    return [of_runs(metric, np.array([figures]).T, n_resamples, seed)], _TRAININGS


def _record_of(folder: Path) -> dict[str, Any]:
    """The record of a pretrained model or of a landscape; empty where there is none."""
    path = folder / ("landscape.json" if folder.name.startswith(_LANDSCAPE) else "training.json")
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _figure_of(folder: Path, name: str) -> float:
    """A figure in such a record, by its keys: ``held_out.1.bits``."""
    figure: Any = _record_of(folder)
    for key in name.split("."):
        is_place = isinstance(figure, list) and key.isdecimal() and int(key) < len(figure)
        figure = figure[int(key)] if is_place else figure.get(key) if isinstance(figure, Mapping) else None
    if not isinstance(figure, int | float):
        raise BertologyError(f"the record in {folder} has no figure {name}")
    return float(figure)


def of_runs(metric: str, values: Floats, n_resamples: int, seed: int, *, spread: bool = False) -> Bootstrap:
    """The mean, or standard deviation, of ``[run, column]`` figures over runs, with the runs as what is resampled."""
    n = len(values)
    drawn = values[np.random.default_rng(seed).integers(n, size=(n_resamples, n))]
    whole, replicates = values.mean(axis=0), drawn.mean(axis=1)
    if spread:
        # A resample of n runs repeats some, so that its deviation is smaller by the root of (n − 1) / n.
        whole, replicates = values.std(axis=0, ddof=1), drawn.std(axis=1, ddof=1) * np.sqrt(n / (n - 1))
    parts = whole, replicates.std(axis=0, ddof=1), whole, whole, ("none",) * len(whole)
    return Bootstrap(metric, *parts, replicates, replicates[:n], n, 0.95, seed, bounds="none")
