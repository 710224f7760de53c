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
    from bertology.finetuning import finetune
    from bertology.pocket import PretrainSettings, pretrain

    seeds = range(1, training.seeds + 1)
    if training.pretrain is not None:
        for seed in seeds:
            settings = {**claims.recipe, **training.pretrain, "seed": seed}
            recipe = checked(PretrainSettings, settings, where="recipe")
            if not (where / f"seed-{seed}" / "training.json").is_file():
                pretrain(recipe, where / f"seed-{seed}", device=device, echo=print if show else lambda _: None)
        return {seed: str(where / f"seed-{seed}") for seed in seeds}
    if training.finetune is not None:
        settings = {**training.finetune}
        corpus = corpora.get(role := settings.pop("on", "treebank"))
        if corpus is None:
            raise BertologyError(f"no corpus is bound to the role {role}")
        shared = {"sentences": corpus.sentences, "columns": corpus.columns, "device": device, "progress": show}
        found = {}
        for seed in seeds:
            # Each training starts from the source of its seed, where there are several.
            source = sources.get(seed, next(iter(sources.values())))
            tuned = finetune(source, corpus.name, out=where, seeds=[seed], **{**shared, **settings})
            found[seed] = str(tuned.folder(seed))
        return found
    settings = dict(training.compress or {})
    method = settings.pop("method")
    found = {}
    for seed, source in sources.items():
        out = where / f"seed-{seed}"
        compress(source, method, out=out, device=device, progress=show, **settings)
        found[seed] = str(out)
    return found


def own_scores(folders: Sequence[str], metric: str, *, n_resamples: int, seed: int) -> list[Bootstrap]:
    """The score of trainings themselves on test, by run: of fine-tuned models with resamples of the items.

    Of pretrained models it is a figure of ``training.json``, and the runs are all that varies.

    Raises:
        BertologyError: the models have no such score.
    """
    from bertology.finetuning import read_finetuned

    first = Path(folders[0])
    if (first / "finetune.json").is_file():
        known = read_finetuned(first.parent)
        runs = known.bootstraps.get("test") or known.bootstraps["dev"]
        if metric not in runs[0]:
            raise BertologyError(f"fine-tuned models have {', '.join(runs[0])}, and no {metric}")
        return [run[metric] for run in runs]
    values = []
    for folder in folders:
        record: Any = json.loads((Path(folder) / "training.json").read_text(encoding="utf-8"))
        for key in metric.split("."):
            record = record[-1] if key == "last" else record.get(key) if isinstance(record, Mapping) else None
        if not isinstance(record, int | float):
            raise BertologyError(f"{folder}/training.json has no figure {metric}")
        values.append(float(record))
    drawn = np.random.default_rng(seed).integers(len(values), size=(n_resamples, len(values)))
    column = np.array(values)[drawn].mean(axis=1, keepdims=True)
    whole = np.array([np.mean(values)])
    parts = np.array(values)[:, None], len(values), 0.95, seed
    return [
        Bootstrap(metric, whole, column.std(axis=0, ddof=1), whole, whole, ("none",), column, *parts, bounds="none")
    ]
