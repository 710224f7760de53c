"""Claims as data: the statement, its measurement, and the rule that was fixed before the data were seen.

A claims file is YAML: ``claims``, a list of :class:`Claim`; and ``roles``, the corpora that stand for ``treebank``,
``facts`` and other roles, by language.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from bertology import _settings
from bertology._names import name_not_found
from bertology._settings import Text
from bertology.encoders import ModelShape
from bertology.errors import BertologyError, NameNotFoundError, quoted
from bertology.families.contract import family_of
from bertology.families.request import RANDOM, CorpusSettings, ReadoutSettings
from bertology.measures.metrics import Metric, metric_form
from bertology.probing import get_probe

DEFAULT = Path(__file__).with_name("claims.yaml")
"""The claims of *A Primer in BERTology*."""
ENCODER = "encoder"
"""The model role of the encoder that is tested."""
PLACE = "{x}"
"""Stands in names of tasks and groups for each of the values of ``over``."""
RuleName = Literal[
    "above", "below", "difference", "equal", "rises", "falls", "exists", "peak", "order", "share", "correlation"
]
_NEED_MARGIN = ("above", "below", "difference", "equal", "exists", "share")
_NEED_AGAINST = ("above", "below", "exists")
_MORE_METRICS = "accuracy", "selectivity", "expected_layer", "center_of_gravity", "kl_from_uniform_bits"
"""Metrics that tasks about labels have besides their own."""
_SHAPE = ModelShape(n_layers=12, dim=768, n_heads=12, family="bert")
"""The size of an encoder by which readout settings are checked: that of BERT-base."""
_Depth = Annotated[float, Field(ge=0, le=1)]


def _listed(given: Any) -> Any:
    """One value as a list of one."""
    return given if isinstance(given, list | tuple) else [given]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, populate_by_name=True)


class Measurement(_Settings):
    """What is measured: a score of a task, at some layers or heads of a model."""

    task: Text | None = None
    """Name of a task, as `bertology tasks` lists it. Left out next to `model` and `metric`: the score of the training
    itself, on the test split of what the model was tuned on."""
    on: Text | None = None
    """Role of the corpus that the task reads, such as `treebank`."""
    readout: ReadoutSettings | None = None
    """Readout configuration; the task's own when left out."""
    metric: Text | None = None
    """Metric of the task; the main one when left out."""
    group: Text | None = None
    """A group of items, such as a relation or paradigm, or items of all groups that fit a pattern with `*`; all items
    when left out."""
    control: Text = "none"
    """`none` for the task itself, `random` for random weights, or a baseline of the task."""
    at: Literal["best", "all", "whole"] | tuple[_Depth, _Depth] = "best"
    """Layers or heads: `best` (whether there is one, with intervals for all at once), `all` of them, `whole` for a
    score of the whole model, or the mean over layers between two relative depths (0 embeddings, 1 last layer)."""
    model: Text = ENCODER
    """Role of the model: `encoder`, or a model trained for the claims."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # settings of readouts are mappings

    def over(self, other: Measurement) -> Measurement:
        """The measurement, with what it leaves out taken from another."""
        return other.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class Rule(_Settings):
    """The rule by which an interval becomes a verdict; ``bertology.primer.rules`` defines each."""

    name: RuleName
    """`above`, `below`: the score against baselines or values; `difference`, `equal`: of `a` and `b`; `rises`, `falls`
    between two depths; `exists`: a head chosen on dev; `peak`: the best layers lie between two depths; `order`: of
    expected layers; `share`: of heads, groups or tasks; `correlation`: of two scores over tasks and layers."""
    measured_by: Measurement = Measurement()
    """What differs from the measurement of the claim."""
    against: Annotated[
        tuple[float | Text, ...],
        BeforeValidator(_listed, json_schema_input_type=float | Text | tuple[float | Text, ...]),
    ] = ()
    """Baselines of the task, `random`, or values; the rule is put to each of them. Of `rises`, `falls` and
    `difference` they are subtracted from the scores."""
    a: Measurement = Measurement()
    """The measurement that is compared with `b`, as far as it differs from that of the claim."""
    b: Measurement = Measurement()
    """The measurement that `a` is compared with, as far as it differs from that of the claim."""
    from_: Annotated[_Depth, Field(alias="from")] = 0.0
    """Relative depth from which layers are looked at."""
    to: _Depth = 1.0
    """Relative depth up to which layers are looked at."""
    over: Annotated[
        Mapping[str, Text | None],
        BeforeValidator(
            lambda one: dict.fromkeys(one) if isinstance(one, list) else one,
            json_schema_input_type=tuple[Text, ...] | Mapping[str, Text | None],
        ),
    ] = {}
    """Values that `{x}` stands for in task, metric, group or role; or a mapping of such values to the roles of the
    corpora that they are measured on."""
    least: _Depth | None = None
    """The share that `share` compares with, or the correlation that `correlation` has to stay below."""
    margin: float | None = None
    """The margin of this rule, if it is not that of the claim."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _is_whole(self) -> Rule:
        lacking = {
            "against": self.name in _NEED_AGAINST and not self.against,
            "over": self.name in ("order", "correlation") and len(self.over) < 2,
            "least": self.name in ("share", "correlation") and self.least is None,
            "a and b": self.name in ("difference", "equal", "correlation") and self.a == self.b,
        }
        for name, is_lacking in lacking.items():
            if is_lacking:
                raise ValueError(f"rule {self.name} needs {name}")
        if self.from_ >= self.to:
            raise ValueError(f"from is {self.from_:g}, which should be below to, {self.to:g}")
        return self

    def measured(self, base: Measurement, value: str) -> Measurement:
        """The measurement of one value of ``over``; as it is where the value is empty."""
        named = {name: getattr(base, name) for name in ("task", "group", "metric", "on", "model")}
        texts = {name: text.replace(PLACE, value) for name, text in named.items() if text}
        return base.model_copy(update=texts if self.over.get(value) is None else {**texts, "on": self.over[value]})


class Margin(_Settings):
    """The smallest difference that would matter to a reader, stated in advance."""

    value: float
    """A fraction, not a percentage, where the metric is one."""
    reason: Text
    """Why a smaller difference would not matter."""


class Published(_Settings):
    """A published figure that was read in its source."""

    value: Text
    """The figure with its unit, as it is shown."""
    model: Text
    """The encoder that it is about."""
    source: Text
    """Paper and table, or the file that it was read in."""


class Claim(_Settings):
    """One claim about BERT-like encoders, and how the encoder in hand decides it."""

    id: Text
    """Short and stable, with a version that changes with the rule: `syntax-middle.v1`."""
    section: Text
    """Section of the primer: `4.3`."""
    statement: Text
    """What is claimed, in one plain sentence."""
    sources: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Papers that the claim is attributed to."""
    measured_by: Measurement = Measurement()
    """What its rules measure, unless they say otherwise."""
    rule: Annotated[
        tuple[Rule, ...],
        BeforeValidator(_listed, json_schema_input_type=RuleName | Rule | tuple[RuleName | Rule, ...]),
    ]
    """One rule, or several that have to hold together."""
    margin: Margin | None = None
    """The margin of its rules; of `rises`, `falls`, `peak`, `order` and `correlation` there is none."""
    how: Text
    """How it is measured, in plain words, for a reader who does not know the task."""
    published: Published | None = None
    """A published figure."""
    caveat: Text
    """What the measurement cannot show, in one sentence."""

    @field_validator("id")
    @classmethod
    def _has_version(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,50}\.v[0-9]+", name):
            raise ValueError(f"{quoted(name)} should be small letters, digits and - with a version: syntax-middle.v1")
        return name

    @model_validator(mode="after")
    def _has_margins(self) -> Claim:
        for rule in self.rule:
            if rule.name in _NEED_MARGIN and rule.margin is None and self.margin is None:
                raise ValueError(f"rule {rule.name} has no margin: give one with its reason, or to the rule")
            for one in self.measurements(rule):
                is_own = one.task is None and one.model != ENCODER and one.metric is not None
                if not is_own and (one.task is None or one.on is None):
                    missing = "task" if one.task is None else "on (the role of a corpus)"
                    raise ValueError(f"rule {rule.name} has no {missing} in measured_by")
        return self

    def measurements(self, rule: Rule) -> tuple[Measurement, ...]:
        """All measurements that a rule compares, with controls and values of ``over`` written out."""
        base = rule.measured_by.over(self.measured_by)
        two = rule.name in ("difference", "equal", "correlation")
        found = [rule.a.over(base), rule.b.over(base)] if two else [base]
        names = [name for name in rule.against if isinstance(name, str)]
        found += [one.model_copy(update={"control": name}) for one in found for name in names]
        if rule.over:
            found = [rule.measured(one, value) for value in rule.over for one in found]
        return tuple(dict.fromkeys(found))

    def sides(self, rule: Rule) -> list[tuple[Measurement, Measurement]]:
        """The measurements ``a`` and ``b`` of a rule, for each value of ``over``."""
        base = rule.measured_by.over(self.measured_by)
        a, b = rule.a.over(base), rule.b.over(base)
        return [(rule.measured(a, value), rule.measured(b, value)) for value in rule.over] or [(a, b)]

    def margin_of(self, rule: Rule) -> float:
        """The margin of a rule; 0 of one without."""
        if rule.margin is not None:
            return rule.margin
        return self.margin.value if self.margin is not None and rule.name in _NEED_MARGIN else 0.0


class Training(_Settings):
    """A model that is made for claims: pretrained by a recipe, or the encoder fine-tuned or compressed."""

    of: Text = ENCODER
    """Role of the model that it starts from, which is trained first."""
    pretrain: Mapping[str, Any] | None = None
    """Settings that differ from the recipe of the file, which begins from random weights; null leaves one out."""
    finetune: Mapping[str, Any] | None = None
    """Settings of `bertology finetune`, such as `task`; `on` is the role of its corpus."""
    fresh: _settings.Truth = False
    """Whether fine-tuning starts from random weights of the same architecture."""
    compress: Mapping[str, Any] | None = None
    """Settings of `bertology compress`, such as `method` and `share`."""
    landscape: Mapping[str, Any] | None = None
    """Settings of `bertology landscape`: the loss of the task is measured around each fine-tuned model as well, and its
    mean rise is the metric `sharpness_bits`."""
    beside: Text | None = None
    """Role of a model whose vectors stand beside those of the model that it starts from."""
    seeds: _settings.Count | None = None
    """Number of trainings, if it is not that of the file; compressed models have those of their source."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Training:
        if sum(one is not None for one in (self.pretrain, self.finetune, self.compress, self.beside)) != 1:
            raise ValueError("give one of pretrain, finetune, compress and beside")
        if self.landscape is not None and self.finetune is None:
            raise ValueError("landscape is of fine-tuned models: give finetune, or leave it out")
        return self


def _corpora(given: Any) -> Any:
    """Roles with the names of corpora as their settings."""
    return {role: {"name": one} if isinstance(one, str) else one for role, one in given.items()}


Roles = Annotated[Mapping[str, CorpusSettings | None], BeforeValidator(_corpora)]


class Claims(_Settings):
    """A file of claims, and the corpora that they are tested on."""

    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]
    """The claims, in the order in which they are shown."""
    sections: Mapping[str, Text] = {}
    """Titles of the sections."""
    roles: Mapping[str, Roles] = {}
    """By language, or `pocket` for the embedded world: the corpus of each role; null where there is none."""
    models: Mapping[str, Training] = {}
    """Models that are trained for the claims, by the role that measurements name."""
    seeds: _settings.Count = 3
    """Number of trainings of each model, which are the runs that intervals cover."""
    recipe: Mapping[str, Any] = {}
    """The pretraining recipe whose variants `models` name, as `bertology pretrain` reads it."""

    @field_validator("claims")
    @classmethod
    def _no_id_twice(cls, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
        known = set[str]()
        for claim in claims:
            if claim.id in known:
                raise ValueError(f"two claims are called {quoted(claim.id)}: give each an id of its own")
            known.add(claim.id)
        return claims


def load_claims(path: str | Path | None = None, *, changes: Sequence[str] = ()) -> Claims:
    """Read and check a file of claims; those of the primer when left out.

    A file without ``roles`` has those of the primer.

    Args:
        path: the file.
        changes: settings to replace, each as ``key=value``: ``recipe.steps=100``.

    Raises:
        BertologyError: the file is missing or invalid: an unknown key, task, metric, control or role, or a rule without
            its margin; the message names file, line, claim and field.
    """
    about: dict[str, Any] = {"what": "a file of claims", "example": "claims: [...]", "command": "primer"}
    written = _settings.read_yaml(DEFAULT if path is None else Path(path), **about)
    if path is not None and "roles" not in written:
        own = _settings.read_yaml(DEFAULT, **about)
        written = _settings.merged(written, {name: own[name] for name in ("roles", "sections") if name in own})
    written = _settings.changed(written, changes)
    try:
        claims = _settings.checked(Claims, written)
    except BertologyError as error:
        raise BertologyError(_with_ids(str(error), written.get("claims"))) from None
    known = {role for roles in claims.roles.values() for role in roles}
    for number, claim in enumerate(claims.claims):
        for rule in claim.rule:
            try:
                metrics = dict[Measurement, Metric | None]()
                for one in claim.measurements(rule):
                    _check_name("model", "role of a model", one.model, (ENCODER, *claims.models))
                    metrics[one] = None if one.task is None else _check(one, known)
                for a, b in claim.sides(rule) if rule.name in ("difference", "equal") else ():
                    _check_kinds(rule.name, metrics[a], metrics[b])
            except BertologyError as error:
                place = written.place_of(("claims", number))
                raise BertologyError(f"{place}: claim {claim.id}: {error}") from None
    return claims


def _with_ids(message: str, written: Any) -> str:
    """A message with the ids of claims in place of their numbers."""

    def name(number: str) -> str:
        try:
            return f"claim {written[int(number)]['id']}"
        except (LookupError, TypeError):
            return f"claims[{number}]"

    message = re.sub(r"'claims\[(\d+)\]\.([^']+)'", lambda found: f"'{found[2]}' of {name(found[1])}", message)
    message = re.sub(r"claims\[(\d+)\]\.", lambda found: f"{name(found[1])}: ", message)
    return re.sub(r"claims\[(\d+)\]", lambda found: name(found[1]), message)


def _check_name(place: str, kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise NameNotFoundError(f"{place}: {name_not_found(kind, name, known)}")


def _check_kinds(rule: str, a: Metric | None, b: Metric | None) -> None:
    """Raise if one metric is a share or counts of something, and the other one a change or in another unit."""
    if a is None or b is None:
        return
    kinds = [(metric_form(one.name).unit, one.bounds) for one in (a, b)]
    if kinds[0] != kinds[1]:
        what = f"{a.name} ({a.description}) and {b.name} ({b.description}) are not scores of one kind"
        raise BertologyError(f"rule {rule}: {what}, so that their difference means nothing: compare two that are")


def _check(one: Measurement, roles: set[str]) -> Metric | None:
    """Raise what is wrong with the names in a measurement; returns its metric, if that is one of the task's own."""
    assert one.task is not None
    assert one.on is not None
    _check_name("on", "role of a corpus", one.on, roles)
    try:
        probe = get_probe(one.task)
    except BertologyError as error:
        raise NameNotFoundError(f"task: {error}") from None
    family = family_of(probe)
    if one.readout is not None:
        try:
            config, *_ = family.configs(probe, one.readout.configs[:1], _SHAPE)
            family.check_settings(probe, (config,))
            probe = family.configured(probe, config)
        except BertologyError as error:
            raise NameNotFoundError(f"readout: {error}") from None
    metrics = {metric.name for metric in probe.scores} | {*_MORE_METRICS}
    if one.metric is not None:
        _check_name("metric", f"metric of {probe.task}", one.metric, metrics)
    notes = {note.name for note in (*family.baselines(probe), *family.controls(probe))}
    controls = {"none", RANDOM, "control_task", *notes}
    _check_name("against or control", f"baseline of {probe.task}", one.control, controls)
    return next((metric for metric in probe.scores if one.metric in (None, metric.name)), None)


def chosen(claims: Claims, sections: Sequence[str], ids: Sequence[str]) -> Claims:
    """The claims of some sections (``4`` is all of section 4) or with some ids, with or without their version.

    Raises:
        NameNotFoundError: there is no such section or claim.
    """
    known_sections = {claim.section for claim in claims.claims}
    for name in sections:
        if not any(own == name or own.startswith(f"{name}.") for own in known_sections):
            raise name_not_found("section of the primer", name, known_sections)
    known = {claim.id.rpartition(".")[0]: claim.id for claim in claims.claims}
    for name in ids:
        if name not in known and name not in known.values():
            raise name_not_found("claim", name, known)
    kept = []
    for claim in claims.claims:
        is_in = any(claim.section == name or claim.section.startswith(f"{name}.") for name in sections)
        if is_in or {claim.id, claim.id.rpartition(".")[0]} & {*ids} or not (sections or ids):
            kept.append(claim)
    return claims.model_copy(update={"claims": tuple(kept)})


def section_title(name: str, sections: Mapping[str, str]) -> str:
    """A section with its number and title; of one without a number the title alone."""
    title = sections.get(name, "")
    return title if title and not name[:1].isdigit() else f"{name} {title}".strip()


def claims_schema() -> Mapping[str, Any]:
    """JSON Schema of a file of claims, by which editors complete and check."""
    return _settings.file_schema(Claims, "primer", title="claims")
