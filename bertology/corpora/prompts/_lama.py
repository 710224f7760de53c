"""LAMA: facts as cloze prompts (Petroni et al. 2019, *Language Models as Knowledge Bases?*, §4.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertology._inputs import given_path
from bertology.corpora.prompts._items import (
    Unasked,
    blind_prompt_of,
    checked_template,
    json_objects,
    mask_trouble,
    prompt_of,
    sentences_field,
    text_field,
)
from bertology.errors import CorpusError, cut

RELATIONS_FILE = "relations.jsonl"
_LAYOUT = "give LAMA's data folder, with relations.jsonl and TREx, Google_RE, Squad or ConceptNet, or one of its files"


@dataclass(frozen=True, slots=True)
class LamaRelation:
    """A relation, and how it is put into words."""

    name: str
    """``P19``; of Google-RE ``place_of_birth``."""
    template: str
    label: str = ""
    """What people call it."""
    type: str = ""
    """``1-1``, ``N-1`` or ``N-M``: how many subjects share an object and how many objects a subject has, if told."""

    @property
    def group(self) -> str:
        """Type, name and label, as tables show it: ``N-1 P19 place of birth``."""
        return " ".join(part for part in (self.type, self.name, self.label) if part)


# Petroni et al. (2019), §4.1.1: three templates made by hand, which the file of relations does not have.
_GOOGLE_RE = (
    LamaRelation("place_of_birth", "[X] was born in [Y] .", "(Google-RE)"),
    LamaRelation("date_of_birth", "[X] (born [Y]).", "(Google-RE)"),
    LamaRelation("place_of_death", "[X] died in [Y] .", "(Google-RE)"),
)

_WRITTEN = {"Squad": "SQuAD"}


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


def read_relations(path: str | Path) -> Mapping[str, LamaRelation]:
    """The relations of a ``relations.jsonl`` by name, and besides those of Google-RE, which such files lack.

    An object has ``relation`` and ``template``; ``label`` and ``type`` may be there.

    Raises:
        CorpusError: a line is broken, a template lacks ``[X]`` or ``[Y]``, or a relation is there twice.
    """
    path = given_path(path, error=CorpusError)
    found: dict[str, LamaRelation] = {}
    for number, plain in json_objects(path):
        where = f"{path}:{number}"
        name = text_field(plain, "relation", where)
        if not name:
            raise CorpusError(f"{where}: relation is empty; write its name, such as P19")
        if name in found:
            raise CorpusError(f"{where}: relation {cut(name)} is there twice; keep one of the two lines")
        optional = (text_field(plain, field, where) if field in plain else "" for field in ("label", "type"))
        found[name] = LamaRelation(name, checked_template(text_field(plain, "template", where), where), *optional)
    return {relation.name: relation for relation in _GOOGLE_RE} | found


def read_lama(path: str | Path) -> tuple[tuple[LamaFact, ...], tuple[Unasked, ...]]:
    """The facts of LAMA as prompts, in order of file and line.

    Objects that name a relation (``predicate_id`` of T-REx, ``pred`` of Google-RE: ``/people/person/place_of_birth``)
    are put into its template: T-REx's from ``relations.jsonl``, which lies in the folder or at most two above the
    files. Others (SQuAD, ConceptNet) have ``masked_sentences``, which are used as they are, several joined; those
    of Google-RE are not used, as they are not in the paper. A subject with several objects is as many facts.
    Objects are kept as written, years too: which of them are in the vocabulary depends on the model.

    Args:
        path: LAMA's folder, its ``data`` folder, one of the four sets, or one JSONL file.

    Returns:
        The facts, and items that cannot be scored: empty labels, a mask in a subject's name, sentences without exactly
        one mask.

    Raises:
        CorpusError: there is no such file, a line is broken or lacks a field, or a relation is unknown.
    """
    path = given_path(path, error=CorpusError)
    files = _files(path)
    relations_file = _relations_file(path)
    relations = (
        {relation.name: relation for relation in _GOOGLE_RE}
        if relations_file is None
        else read_relations(relations_file)
    )
    facts: list[LamaFact] = []
    unasked: list[Unasked] = []
    owners: dict[str, Path] = {}
    for file in files:
        for fact, trouble in _facts(file, relations, relations_file):
            if owners.setdefault(fact.id, file) != file:
                raise CorpusError(f"{file}: {fact.id} is in {owners[fact.id]}, too; give one of the two files")
            if trouble:
                unasked.append(Unasked(fact.id, fact.group, trouble))
            else:
                facts.append(fact)
    return tuple(facts), tuple(unasked)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder; {_LAYOUT}")
    files = [path] if path.is_file() else sorted(path.rglob("*.jsonl"))
    files = [file for file in files if file.name != RELATIONS_FILE]
    if not files:
        raise CorpusError(f"{path}: no facts in it; {_LAYOUT}")
    return files


def _relations_file(path: Path) -> Path | None:
    """The nearest file of relations: below the folder given, in it, or up to two folders above."""
    path = path.resolve()
    folders = [path / "data", path] if path.is_dir() else []
    folders += [path.parent, path.parent.parent]
    return next((folder / RELATIONS_FILE for folder in folders if (folder / RELATIONS_FILE).is_file()), None)


def _facts(
    file: Path, relations: Mapping[str, LamaRelation], relations_file: Path | None
) -> Iterator[tuple[LamaFact, str]]:
    """The facts of a file, each with the reason why it cannot be scored, if any."""
    for number, plain in json_objects(file):
        where = f"{file}:{number}"
        answer = text_field(plain, "obj_label", where)
        name = _relation_name(plain, file)
        if name:
            relation = relations.get(name)
            if relation is None:
                raise CorpusError(f"{where}: {_unknown(name, relations_file)}")
            subject = text_field(plain, "sub_label", where)
            text, blind = prompt_of(relation.template, subject), blind_prompt_of(relation.template)
            fact = LamaFact(f"{name}:{number}", relation.group, subject, answer, text, blind)
            trouble = "" if subject else "subject without a label"
        else:
            fact = _fact_of_sentences(plain, answer, file, number)
            trouble = ""
        yield fact, trouble or ("" if answer else "object without a label") or mask_trouble(fact.text)


def _fact_of_sentences(plain: Mapping[str, Any], answer: str, file: Path, number: int) -> LamaFact:
    where, name = f"{file}:{number}", _set_name(file)
    text = sentences_field(plain, "masked_sentences", where)
    subject = text_field(plain, "sub_label", where) if "sub_label" in plain else ""
    predicate = text_field(plain, "pred", where) if "pred" in plain else ""
    group = f"{_WRITTEN.get(name, name)} {predicate}".strip()
    # SQuAD's file calls every subject by the name of the set.
    return LamaFact(f"{name}:{number}", group, "" if subject == name else subject, answer, text)


def _relation_name(plain: Mapping[str, Any], file: Path) -> str:
    """The relation whose template is to be used; empty where there is none."""
    name, predicate = plain.get("predicate_id"), plain.get("pred")
    if isinstance(name, str) and name:
        return name
    if isinstance(predicate, str) and predicate.startswith("/"):
        return predicate.rpartition("/")[2]
    # Facts without sentences and without relation, such as those that come with ParaRel, are named by their file.
    return "" if "masked_sentences" in plain else file.name.removesuffix(".jsonl")


def _set_name(file: Path) -> str:
    """LAMA keeps each set in a folder of its name, the file called ``test.jsonl``."""
    stem = file.name.removesuffix(".jsonl")
    return file.resolve().parent.name if stem == "test" else stem


def _unknown(name: str, relations_file: Path | None) -> str:
    if relations_file is None:
        return f"no {RELATIONS_FILE} beside it tells the template of relation {cut(name)}; put LAMA's there"
    return f"relation {cut(name)} is not in {relations_file}; add a line with its template, with [X] and [Y]"


_FACTS, _PATTERNS = "trex_lms_vocab", "pattern_data/graphs_json"
_PARAREL_LAYOUT = f"give ParaRel's data folder, with {_FACTS} and {_PATTERNS}, or a file of {_FACTS}"


@dataclass(frozen=True, slots=True)
class ParaphrasedFact:
    """A fact as several prompts of different wording whose mask is its object."""

    id: str
    """Relation and line."""
    relation: str
    """``P19``."""
    subject: str
    answer: str
    texts: tuple[str, ...]
    """One for each pattern of the relation, at least two; ``{mask}`` stands for the object."""


def read_pararel(path: str | Path) -> tuple[tuple[ParaphrasedFact, ...], tuple[Unasked, ...]]:
    """The facts of ParaRel, each in all patterns of its relation.

    Args:
        path: its folder, the ``data`` folder in it, that of the facts, or one file of facts.

    Returns:
        The facts, and items that cannot be scored: facts of relations with fewer than two patterns (the paper leaves
        these relations out, too), empty labels, a mask in a subject's name.

    Raises:
        CorpusError: the folder is another, a line is broken or lacks a field, or a pattern lacks ``[X]`` or ``[Y]``.
    """
    path = given_path(path, error=CorpusError)
    root = _root(path)
    files = [path] if path.is_file() else sorted((root / _FACTS).glob("*.jsonl"))
    if not files:
        raise CorpusError(f"{root / _FACTS}: no facts in it; {_PARAREL_LAYOUT}")
    facts: list[ParaphrasedFact] = []
    unasked: list[Unasked] = []
    for file in files:
        relation = file.name.removesuffix(".jsonl")
        patterns = _patterns(root / _PATTERNS / file.name)
        for number, plain in json_objects(file):
            where = f"{file}:{number}"
            subject, answer = text_field(plain, "sub_label", where), text_field(plain, "obj_label", where)
            texts = tuple(prompt_of(pattern, subject) for pattern in patterns)
            fact = ParaphrasedFact(f"{relation}:{number}", relation, subject, answer, texts)
            trouble = _trouble(fact)
            if trouble:
                unasked.append(Unasked(fact.id, relation, trouble))
            else:
                facts.append(fact)
    return tuple(facts), tuple(unasked)


def _root(path: Path) -> Path:
    """The folder that holds facts and patterns."""
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder; {_PARAREL_LAYOUT}")
    whole = path.resolve()
    folders = [whole, whole / "data", whole.parent] if path.is_dir() else [whole.parent.parent]
    for folder in folders:
        if (folder / _FACTS).is_dir() and (folder / _PATTERNS).is_dir():
            return folder
    raise CorpusError(f"{path}: not ParaRel; {_PARAREL_LAYOUT}")


def _patterns(file: Path) -> tuple[str, ...]:
    if not file.is_file():
        return ()  # ParaRel itself has facts of two relations for which nobody wrote patterns.
    found: dict[str, int] = {}
    for number, plain in json_objects(file):
        where = f"{file}:{number}"
        pattern = checked_template(text_field(plain, "pattern", where), where)
        if pattern in found:
            raise CorpusError(f"{where}: the pattern of line {found[pattern]} once more; keep one of the two")
        found[pattern] = number
    return tuple(found)


def _trouble(fact: ParaphrasedFact) -> str:
    if len(fact.texts) < 2:
        return "relation without a pattern" if not fact.texts else "relation with a single pattern"
    if not fact.subject:
        return "subject without a label"
    if not fact.answer:
        return "object without a label"
    return mask_trouble(fact.texts[0])
