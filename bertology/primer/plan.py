"""What claims need: one experiment over all encoders and trained models, and what cannot be asked, with the reasons."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from bertology._names import by_key, check_name
from bertology.families.request import RANDOM, CorpusSettings, Experiment, ReadoutSettings
from bertology.primer.claims import ENCODER, Claims, Measurement
from bertology.primer.trained import Trained, no_corpus
from bertology.probing import get_probe
from bertology.runner.experiment import experiment_of
from bertology.runner.plan import refusals

QUICK = {"sentences": 200, "items": 40}
"""Most sentences of a split, and items of a group, of a quick run."""
N_RANDOM = 3
"""Random initialisations that stand for random weights."""


@dataclass(frozen=True)
class Plan:
    """What the claims can be asked of, and why not of the rest; everything is named as the rows of a run name it."""

    models: tuple[str, ...]
    """The titles of the encoders."""
    random: tuple[str, ...]
    """Those with random weights."""
    corpora: Mapping[str, str]
    """The title of the corpus of each role."""
    unbound: Mapping[str, str]
    """Roles without a corpus, and why."""
    refused: Sequence[tuple[str, str, str, str]] = ()
    """Model, corpus and task that do not go together, and why."""
    trained: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By encoder the title of each trained model by its role."""
    folders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The folders of trained models by their titles."""

    def title(self, one: Measurement, encoder: str) -> str | None:
        """What the rows call the model of a measurement; None of a model that was not trained."""
        return encoder if one.model == ENCODER else self.trained.get(encoder, {}).get(one.model)

    def reason(self, one: Measurement, encoder: str) -> str | None:
        """Why a measurement cannot be made; None where it can."""
        if (model := self.title(one, encoder)) is None:
            return f"it needs a model that is trained for it ({one.model}): ask for training with --train"
        if one.task is None:
            return None
        role, task = str(one.on), get_probe(one.task).task
        if role in self.unbound:
            return self.unbound[role]
        return {key[:3]: key[3] for key in self.refused}.get((model, self.corpora[role], task))


def bound_corpora(
    claims: Claims, roles: Mapping[str, Any], language: str, *, quick: bool
) -> dict[str, CorpusSettings | None]:
    """The corpus of each role: those of the language, changed by those that are given.

    Raises:
        NameNotFoundError: there is no such language or role.
    """
    check_name("language with corpora for its roles", language, claims.roles)
    bound = dict(claims.roles[language])
    known = {role for of_language in claims.roles.values() for role in of_language}
    for role, given in roles.items():
        check_name("role of a corpus", role, known)
        bound[role] = CorpusSettings.model_validate({"name": given} if isinstance(given, str) else given)
    for role, corpus in bound.items() if quick else ():
        if corpus is not None:
            most = {name: min(n, getattr(corpus, name) or n) for name, n in QUICK.items()}
            bound[role] = corpus.model_copy(update=most)
    return bound


def plan_claims(
    claims: Claims,
    models: Sequence[Mapping[str, Any]],
    bound: Mapping[str, CorpusSettings | None],
    made: Mapping[str, Mapping[str, Trained]],
    **settings: Any,
) -> tuple[Plan, Experiment | None]:
    """The experiment that the claims need, each cell once, and what cannot be asked.

    Args:
        claims: the claims.
        models: the encoders, as an experiment names them, with their ids.
        bound: the corpus of each role.
        made: by encoder the models that were trained, by role.
        settings: further settings of the experiment.
    """
    asked = [one for claim in claims.claims for rule in claim.rule for one in claim.measurements(rule)]
    needed = by_key(((get_probe(one.task).task, str(one.on)), one) for one in asked if one.task is not None)
    corpora, titles, unbound = _corpora([role for _, role in needed], bound)
    trained = {encoder: {role: one.title for role, one in of.items()} for encoder, of in made.items()}
    every = {one.title: one for of in made.values() for role, one in of.items() if role != ENCODER}
    folders = {title: tuple(map(str, one.models.values())) for title, one in every.items()}
    random = tuple(str(one["id"]) for one in models if one.get("init") == RANDOM)
    plan = Plan(tuple(str(one["id"]) for one in models), random, titles, unbound, (), trained, folders)
    tasks = _tasks(needed, plan)
    if not tasks:
        return plan, None
    of_trained = list(models)
    for encoder, of in made.items():
        of_trained += [
            one
            for role, model in of.items()
            for one in model.settings(None if model.title == role else encoder)
            if role != ENCODER and one not in of_trained
        ]
    controls = sorted({one.control for same in needed.values() for one in same} - {"none"})
    plain = {
        "name": "primer",
        "models": of_trained,
        "corpora": [corpus.model_dump() for corpus in corpora],
        "tasks": tasks,
        "controls": controls,
        "random_draws": N_RANDOM,
        "statistics": {"compare_layers": False, "resamples": 1000},
        "outputs": {"tables": ["md"], "plots": []},
        **settings,
    }
    whole = experiment_of(plain, where="primer")
    names = {model.title: str(model.id) for model in whole.models}
    found = ((names[model], corpus, task, why) for (model, corpus, task), why in refusals(whole).items())
    refused = tuple(dict.fromkeys(found))
    places, kept = {key[:3] for key in refused}, []
    for task in whole.tasks:
        crossed = itertools.product(task.models or (), task.corpora or ())
        pairs = [(model, corpus) for model, corpus in crossed if (model, corpus, task.title) not in places]
        # Both are lists of their own: a corpus that one of the models refuses, and others take, is left out for all.
        of_models = tuple(dict.fromkeys(model for model, _ in pairs))
        taken = {corpus: [model for model, of in pairs if of == corpus] for _, corpus in pairs}
        of_corpora = tuple(corpus for corpus, models_of in taken.items() if len(models_of) == len(of_models))
        for corpus in taken.keys() - {*of_corpora}:
            why = f"{corpus} cannot be put to every model of the run: run this one apart"
            refused += tuple((model, corpus, task.title, why) for model in taken[corpus])
        if of_corpora:
            kept.append(task.model_copy(update={"models": of_models, "corpora": of_corpora}))
    plan = Plan(plan.models, random, titles, unbound, refused, trained, folders)
    return plan, whole.model_copy(update={"tasks": tuple(kept)}) if kept else None


def _corpora(
    roles: Sequence[str], bound: Mapping[str, CorpusSettings | None]
) -> tuple[list[CorpusSettings], dict[str, str], dict[str, str]]:
    """The corpora of some roles, each once; their titles by role; and roles without one, with the reason."""
    unbound, first = dict[str, str](), dict[CorpusSettings, str]()
    of_role = {role: bound.get(role) for role in dict.fromkeys(roles)}
    for role, corpus in of_role.items():
        if corpus is None:
            unbound[role] = no_corpus(role)
        else:
            first.setdefault(corpus, role)
    short = {corpus: corpus.id or PurePath(corpus.name).name for corpus in first}
    known = {
        # Tasks name their corpora by id or name, so that no id is the name of another corpus.
        corpus: f"{short[corpus]} ({role})" if list(short.values()).count(short[corpus]) > 1 else short[corpus]
        for corpus, role in first.items()
    }
    corpora = [corpus.model_copy(update={"id": title}) for corpus, title in known.items()]
    titles = {role: known[corpus] for role, corpus in of_role.items() if corpus is not None}
    return corpora, titles, unbound


def _tasks(needed: Mapping[tuple[str, str], Sequence[Measurement]], plan: Plan) -> list[dict[str, Any]]:
    """The tasks of an experiment, each once, with its corpora, models and readouts."""
    by_task: dict[str, dict[str, Any]] = {}
    for (task, role), same in needed.items():
        models = [title for one in same for encoder in plan.models if (title := plan.title(one, encoder)) is not None]
        if role not in plan.corpora or not models:
            continue
        one = by_task.setdefault(task, {"name": task, "corpora": {}, "models": {}, "readout": {}})
        one["corpora"] |= {plan.corpora[role]: None}
        one["models"] |= dict.fromkeys(models)
        for of in same:
            readout = of.readout or ReadoutSettings()
            known = one["readout"].setdefault(readout.model_dump_json(), {**readout.model_dump(), "random": False})
            known["random"] = known["random"] or of.control == RANDOM
    of_names = ("corpora", "models")
    return [
        {**one, "readout": list(one["readout"].values()), **{key: list(one[key]) for key in of_names}}
        for one in by_task.values()
    ]
