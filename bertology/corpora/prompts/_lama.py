"""LAMA: facts as cloze prompts (Petroni et al. 2019, *Language Models as Knowledge Bases?*, §4.1), and what came of it.

ParaRel puts each fact into several wordings; Kassner & Schütze (2020, *Negated and Misprimed Probes for Pretrained
LMs*) negate prompts and put misleading words before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bertology._inputs import given_path
from bertology.corpora._files import corpus_name
from bertology.corpora.prompts._items import (
    LeftOut,
    blind_prompt_of,
    checked_template,
    columns_of,
    mask_trouble,
    not_items,
    prompt_of,
    records,
    sentences_field,
    text_field,
)
from bertology.errors import CorpusError, cut, quoted

_RELATIONS = "relations.jsonl"
_LAYOUT = "give LAMA's data folder, with relations.jsonl and TREx, Google_RE, Squad or ConceptNet, or one of its files"
_NO_OBJECT, _NO_SUBJECT = "object without a label", "subject without a label"


@dataclass(frozen=True, slots=True)
class LamaRelation:
    """A relation, and how it is put into words."""

    name: str
    """``P19``; in Google-RE ``place_of_birth``."""
    template: str
    label: str = ""
    """Its name for people."""
    type: str = ""
    """``1-1``, ``N-1`` or ``N-M``: how many subjects share an object and how many objects a subject has, if stated."""

    @property
    def group(self) -> str:
        """Type, name and label, as tables show it: ``N-1 P19 place of birth``."""
        return " ".join(part for part in (self.type, self.name, self.label) if part)


# Petroni et al. (2019), §4.1.1: three templates made by hand, which the file of relations does not have.
_GOOGLE_RE = {
    name: LamaRelation(name, template, "(Google-RE)")
    for name, template in (
        ("place_of_birth", "[X] was born in [Y] ."),
        ("date_of_birth", "[X] (born [Y])."),
        ("place_of_death", "[X] died in [Y] ."),
    )
}


@dataclass(frozen=True, slots=True)
class LamaFact:
    """A fact as a prompt whose mask is its object."""

    id: str
    """Relation or set, and line."""
    group: str
    """The relation as tables show it, or the set if it has none."""
    subject: str
    """Empty where the set has none (SQuAD)."""
    answer: str
    """The object, as it is written."""
    text: str
    """The prompt, with ``{mask}`` for the object."""
    blind: str = ""
    """The prompt with ``{mask}`` for the subject, too, if it comes from a template that has the subject first."""
    texts: tuple[str, ...] = ()
    """Prompts of different wording in ParaRel, one for each pattern of the relation, at least two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimedFact(LamaFact):
    """A fact as a prompt, and the same prompt negated or after a misleading word; its group is set and relation."""

    set: str
    """``T-REx``, ``Google-RE``, ``SQuAD``, ``ConceptNet``; else the name of the folder."""
    negated: str
    """The same, negated; empty where the source has none."""
    misprimed: Mapping[str, str]
    """The same after a wrong word and a question mark, by how that was chosen: ``high-ranked``, ``low-ranked``,
    ``random``; empty where the source does not state it."""


F = TypeVar("F", bound=LamaFact)
Found = tuple[tuple[F, ...], tuple[LeftOut, ...]]
"""Facts, and items that cannot be scored."""


def _separated(facts: Iterable[tuple[F, str]]) -> Found[F]:
    """Facts without trouble, and those with a reason why they cannot be scored."""
    read = list(facts)
    unasked = tuple(LeftOut(fact.id, fact.group, trouble) for fact, trouble in read if trouble)
    return tuple(fact for fact, trouble in read if not trouble), unasked


def read_relations(path: str | Path) -> Mapping[str, LamaRelation]:
    """The relations of a ``relations.jsonl`` by name, and those of Google-RE, which such files lack.

    An object has ``relation`` and ``template``; it may have ``label`` and ``type``.
    """
    relations: dict[str, LamaRelation] = {}
    for _, where, plain in records(given_path(path, error=CorpusError)):
        name = text_field(plain, "relation", where)
        if not name:
            raise CorpusError(f"{where}: relation is empty; write its name, such as P19")
        if name in relations:
            raise CorpusError(f"{where}: relation {cut(name)} is there twice; keep one of the two lines")
        optional = (text_field(plain, field, where) if field in plain else "" for field in ("label", "type"))
        relations[name] = LamaRelation(name, checked_template(text_field(plain, "template", where), where), *optional)
    return _GOOGLE_RE | relations


def read_lama(path: str | Path) -> Found[LamaFact]:
    """The facts of LAMA as prompts, in order of file and line, and items that cannot be scored.

    Objects that name a relation (``predicate_id`` of T-REx, ``pred`` of Google-RE: ``/people/person/place_of_birth``)
    are put into its template: T-REx's from ``relations.jsonl``, which lies in the folder or at most two above the
    files. Others (SQuAD, ConceptNet) have ``masked_sentences``, which are used as they are, several joined; those
    of Google-RE are not used, as they are not in the paper. A subject with several objects is as many facts.
    Objects are kept as written, years too: which of them are in the vocabulary depends on the model. Empty labels, a
    mask in a subject's name, and sentences without exactly one mask cannot be scored.

    Args:
        path: LAMA's folder, its ``data`` folder, one of the four sets, or one file.

    Raises:
        CorpusError: there is no such file, a line is broken or lacks a field, or a relation is unknown.
    """
    path = given_path(path, error=CorpusError)
    files = [file for file in _files(path, _LAYOUT) if file.name != _RELATIONS]
    if not files:
        raise CorpusError(f"{path}: no facts in it; {_LAYOUT}")
    whole = path.resolve()
    folders = [*([whole / "data", whole] if whole.is_dir() else []), whole.parent, whole.parent.parent]
    stated = next((folder / _RELATIONS for folder in folders if (folder / _RELATIONS).is_file()), None)
    relations = _GOOGLE_RE if stated is None else read_relations(stated)
    owners: dict[str, Path] = {}

    def facts() -> Iterator[tuple[LamaFact, str]]:
        for file in files:
            for fact, trouble in _lama_facts(file, relations, stated):
                if owners.setdefault(fact.id, file) != file:
                    raise CorpusError(f"{file}: {fact.id} is in {owners[fact.id]}, too; give one of the two files")
                yield fact, trouble

    return _separated(facts())


def _files(path: Path, layout: str) -> list[Path]:
    """A file, or the JSONL files of a folder and below it."""
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder; {layout}")
    if not path.is_file():
        return sorted(path.rglob("*.jsonl"))
    _check_facts(path)
    return [path]


def _check_facts(path: Path) -> None:
    """Raise an error about a file that has no facts of LAMA, but may be another table."""
    names = columns_of(path)
    if not {"obj_label", "sub_label"} & set(names):
        raise not_items(path, names, "answers", nor="obj_label of LAMA")


def _lama_facts(
    file: Path, relations: Mapping[str, LamaRelation], stated: Path | None
) -> Iterator[tuple[LamaFact, str]]:
    """The facts of a file, each with the reason why it cannot be scored, if any."""
    for number, where, plain in records(file):
        trouble, answer = "", text_field(plain, "obj_label", where)
        if name := _relation_name(plain, file):
            if (relation := relations.get(name)) is None:
                what = f"relation {cut(name)} is not in {stated}; add a line with its template, with [X] and [Y]"
                if stated is None:
                    what = f"no {_RELATIONS} beside it tells the template of relation {cut(name)}; put LAMA's there"
                raise CorpusError(f"{where}: {what}")
            subject = text_field(plain, "sub_label", where)
            text, blind = prompt_of(relation.template, subject), blind_prompt_of(relation.template)
            fact = LamaFact(f"{name}:{number}", relation.group, subject, answer, text, blind)
            trouble = "" if subject else _NO_SUBJECT
        else:
            # LAMA keeps each set in a folder of its name, the file called test.jsonl.
            stem = corpus_name(file)
            name = file.resolve().parent.name if stem == "test" else stem
            text = sentences_field(plain, "masked_sentences", where)
            subject, predicate = (text_field(plain, f, where) if f in plain else "" for f in ("sub_label", "pred"))
            group = f"{'SQuAD' if name == 'Squad' else name} {predicate}".strip()
            # SQuAD's file calls every subject by the name of the set.
            fact = LamaFact(f"{name}:{number}", group, "" if subject == name else subject, answer, text)
        yield fact, trouble or ("" if answer else _NO_OBJECT) or mask_trouble(fact.text)


def _relation_name(plain: Mapping[str, Any], file: Path) -> str:
    """The relation whose template is to be used; empty where there is none."""
    name, predicate = plain.get("predicate_id"), plain.get("pred")
    if isinstance(name, str) and name:
        return name
    if isinstance(predicate, str) and predicate.startswith("/"):
        return predicate.rpartition("/")[2]
    # Facts without sentences and without relation, such as those that come with ParaRel, are named by their file.
    return "" if "masked_sentences" in plain else corpus_name(file)


_FACTS, _PATTERNS = "trex_lms_vocab", "pattern_data/graphs_json"
_PARAREL_LAYOUT = f"give ParaRel's data folder, with {_FACTS} and {_PATTERNS}, or a file of {_FACTS}"


def read_pararel(path: str | Path) -> Found[LamaFact]:
    """The facts of ParaRel, each in all patterns of its relation, and items that cannot be scored.

    The latter are facts of relations with fewer than two patterns (the paper leaves these relations out, too), with
    empty labels, or with a mask in a subject's name.

    Args:
        path: its folder, the ``data`` folder in it, that of the facts, or one file of facts.

    Raises:
        CorpusError: the folder is another, a line is broken or lacks a field, or a pattern lacks ``[X]`` or ``[Y]``.
    """
    path = given_path(path, error=CorpusError)
    root = _root(path)
    files = [path] if path.is_file() else sorted((root / _FACTS).glob("*.jsonl"))
    if not files:
        raise CorpusError(f"{root / _FACTS}: no facts in it; {_PARAREL_LAYOUT}")
    return _separated(one for file in files for one in _worded_facts(file, root))


def _root(path: Path) -> Path:
    """The folder that holds facts and patterns."""
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder; {_PARAREL_LAYOUT}")
    whole = path.resolve()
    for folder in [whole, whole / "data", whole.parent] if path.is_dir() else [whole.parent.parent]:
        if (folder / _FACTS).is_dir() and (folder / _PATTERNS).is_dir():
            return folder
    if path.is_file():
        _check_facts(path)
    raise CorpusError(f"{path}: not ParaRel; {_PARAREL_LAYOUT}")


def _worded_facts(file: Path, root: Path) -> Iterator[tuple[LamaFact, str]]:
    relation, patterns = corpus_name(file), _patterns(root / _PATTERNS / file.name)
    for number, where, plain in records(file):
        subject, answer = (text_field(plain, field, where) for field in ("sub_label", "obj_label"))
        texts = tuple(prompt_of(pattern, subject) for pattern in patterns)
        fact = LamaFact(f"{relation}:{number}", relation, subject, answer, texts[0] if texts else "", texts=texts)
        few = {0: "relation without a pattern", 1: "relation with a single pattern"}.get(len(texts), "")
        yield fact, few or ("" if subject else _NO_SUBJECT) or (mask_trouble(fact.text) if answer else _NO_OBJECT)


def _patterns(file: Path) -> tuple[str, ...]:
    if not file.is_file():
        return ()  # ParaRel itself has facts of two relations for which nobody wrote patterns.
    lines: dict[str, int] = {}
    for number, where, plain in records(file):
        pattern = checked_template(text_field(plain, "pattern", where), where)
        if pattern in lines:
            raise CorpusError(f"{where}: the pattern of line {lines[pattern]} once more; keep one of the two")
        lines[pattern] = number
    return tuple(lines)


_PRIMES = {"high_ranked": "high-ranked", "low_ranked": "low-ranked", "random": "random"}
_SETS = {"TREx": "T-REx", "GoogleRE": "Google-RE", "SQUAD": "SQuAD"}
_PRIMED_LAYOUT = (
    "give the data folder of negated and misprimed LAMA, with TREx, GoogleRE, SQUAD or ConceptNet, or a part of it"
)


def read_primed(path: str | Path) -> Found[PrimedFact]:
    """The facts of negated and misprimed LAMA, in order of file and line, and items that cannot be scored.

    The source has each fact in up to three folders, which differ by the word it is primed with; here it is one fact.
    Empty labels and sentences without just one mask cannot be scored.

    Args:
        path: its folder, the ``data`` folder in it, any folder below, or one JSONL file.

    Raises:
        CorpusError: there is no such file, a line is broken or lacks a field, or a fact is negated in two ways.
    """
    path = given_path(path, error=CorpusError)
    files = _files(path, _PRIMED_LAYOUT)
    if not files:
        raise CorpusError(f"{path}: no facts in it; {_PRIMED_LAYOUT}")
    if any(file.name == _RELATIONS for file in files):
        raise CorpusError(f"{path}: LAMA as it was first, without negated or misprimed sentences; {_PRIMED_LAYOUT}")
    facts: dict[tuple[str, ...], PrimedFact] = {}
    unasked: list[LeftOut] = []
    for where, fact, trouble in (one for file in files for one in _primed_facts(file)):
        if trouble:
            unasked.append(LeftOut(":".join((fact.id, *fact.misprimed)), fact.group, trouble))
            continue
        key = (fact.set, fact.group, fact.text, fact.answer)
        facts[key] = _merged(facts[key], fact, where) if key in facts else fact
    return tuple(facts.values()), tuple(unasked)


def _primed_facts(file: Path) -> Iterator[tuple[str, PrimedFact, str]]:
    """The facts of a file with their places, and the reason why each cannot be scored, if any."""
    folder = file.resolve().parent  # the folders above a file name the choice of primes, and the set
    kind = _PRIMES.get(folder.name, "")
    name = folder.parent.name if kind else folder.name
    name = _SETS.get(name, name)
    stem = corpus_name(file).removesuffix("_random")
    relation = "" if stem.lower() == name.replace("-", "").lower() else stem
    for number, where, plain in records(file):
        subject, answer = (text_field(plain, field, where) for field in ("sub_label", "obj_label"))
        text = sentences_field(plain, "masked_sentences", where)
        negated, misprimed = (
            sentences_field(plain, field, where) if field in plain else ""
            for field in ("masked_negations", "masked_misprimed")
        )
        fact = PrimedFact(
            ":".join(part for part in (name, relation, str(number)) if part),
            f"{name} {relation}".strip(),
            "" if subject == stem else subject,  # SQuAD's file calls every subject by its own name
            answer,
            text,
            set=name,
            negated=negated,
            misprimed={kind: misprimed} if misprimed else {},
        )
        troubles = (mask_trouble(text) for text in (fact.text, fact.negated, *fact.misprimed.values()) if text)
        yield where, fact, next(filter(None, troubles), "") if answer else _NO_OBJECT


def _merged(one: PrimedFact, other: PrimedFact, where: str) -> PrimedFact:
    """One fact of two records that differ by their prime."""
    again = "in another way than before; keep one of the two"
    if one.negated != other.negated:
        raise CorpusError(f"{where}: {quoted(other.text)} is negated {again}")
    for kind, text in other.misprimed.items():
        if one.misprimed.get(kind, text) != text:
            raise CorpusError(f"{where}: {quoted(other.text)} is primed {again}")
    return replace(one, misprimed={**one.misprimed, **other.misprimed})
