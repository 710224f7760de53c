"""Negated and misprimed LAMA (Kassner & Schütze 2020, *Negated and Misprimed Probes for Pretrained LMs*)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertology._inputs import given_path
from bertology.corpora.prompts._items import Unasked, json_objects, mask_trouble, sentences_field, text_field
from bertology.errors import CorpusError, quoted

_PRIMES = {"high_ranked": "high-ranked", "low_ranked": "low-ranked", "random": "random"}
_SETS = {"TREx": "T-REx", "GoogleRE": "Google-RE", "SQUAD": "SQuAD"}
_LAYOUT = (
    "give the data folder of negated and misprimed LAMA, with TREx, GoogleRE, SQUAD or ConceptNet, or a part of it"
)


@dataclass(frozen=True, slots=True)
class PrimedFact:
    """A fact as a prompt, and the same prompt negated or after a misleading word."""

    id: str
    """Set, relation, and the line of the first file that has it."""
    set: str
    """``T-REx``, ``Google-RE``, ``SQuAD``, ``ConceptNet``; else the name of the folder."""
    relation: str
    """``P19``, ``place_of_birth``; empty where the whole set is one file of that name."""
    subject: str
    """Empty where the set has none (SQuAD)."""
    answer: str
    text: str
    """The prompt, with ``{mask}`` for the object."""
    negated: str
    """The same, negated; empty where the source has none."""
    misprimed: Mapping[str, str]
    """The same after a wrong word and a question mark, by how that was chosen: ``high-ranked``, ``low-ranked``,
    ``random``; empty where the source does not state it."""

    @property
    def group(self) -> str:
        """Set and relation, as tables show them."""
        return f"{self.set} {self.relation}".strip()


def read_primed(path: str | Path) -> tuple[tuple[PrimedFact, ...], tuple[Unasked, ...]]:
    """The facts of negated and misprimed LAMA, in order of file and line.

    The source has each fact in up to three folders, which differ by the word it is primed with; here it is one fact.

    Args:
        path: its folder, the ``data`` folder in it, any folder below, or one JSONL file.

    Returns:
        The facts, and items that cannot be scored: empty labels, sentences without just one mask.

    Raises:
        CorpusError: there is no such file, a line is broken or lacks a field, or a fact is negated in two ways.
    """
    path = given_path(path, error=CorpusError)
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder; {_LAYOUT}")
    files = [path] if path.is_file() else sorted(path.rglob("*.jsonl"))
    if not files:
        raise CorpusError(f"{path}: no facts in it; {_LAYOUT}")
    if any(file.name == "relations.jsonl" for file in files):
        raise CorpusError(f"{path}: LAMA as it was first, without negated or misprimed sentences; {_LAYOUT}")
    facts: dict[tuple[str, str, str, str], PrimedFact] = {}
    unasked: list[Unasked] = []
    for file in files:
        for where, fact, trouble in _facts(file):
            if trouble:
                unasked.append(Unasked(":".join((fact.id, *fact.misprimed)), fact.group, trouble))
                continue
            key = (fact.set, fact.relation, fact.text, fact.answer)
            facts[key] = _merged(facts[key], fact, where) if key in facts else fact
    return tuple(facts.values()), tuple(unasked)


def _facts(file: Path) -> Iterator[tuple[str, PrimedFact, str]]:
    """The facts of a file with their places, and the reason why each cannot be scored, if any."""
    name, kind = _set_and_kind(file)
    stem = file.name.removesuffix(".jsonl").removesuffix("_random")
    relation = "" if stem.lower() == name.replace("-", "").lower() else stem
    for number, plain in json_objects(file):
        where = f"{file}:{number}"
        subject = text_field(plain, "sub_label", where)
        fact = PrimedFact(
            ":".join(part for part in (name, relation, str(number)) if part),
            name,
            relation,
            "" if subject == stem else subject,  # SQuAD's file calls every subject by its own name
            text_field(plain, "obj_label", where),
            sentences_field(plain, "masked_sentences", where),
            _optional(plain, "masked_negations", where),
            {kind: primed} if (primed := _optional(plain, "masked_misprimed", where)) else {},
        )
        troubles = (mask_trouble(text) for text in (fact.text, fact.negated, *fact.misprimed.values()) if text)
        trouble = "" if fact.answer else "object without a label"
        yield where, fact, trouble or next(filter(None, troubles), "")


def _optional(plain: Mapping[str, Any], field: str, where: str) -> str:
    return sentences_field(plain, field, where) if field in plain else ""


def _set_and_kind(file: Path) -> tuple[str, str]:
    """The set and the choice of primes, which the folders above a file tell."""
    folder = file.resolve().parent
    kind = _PRIMES.get(folder.name, "")
    name = folder.parent.name if kind else folder.name
    return _SETS.get(name, name), kind


def _merged(one: PrimedFact, other: PrimedFact, where: str) -> PrimedFact:
    """One fact of two records that differ by their prime."""
    if one.negated != other.negated:
        raise CorpusError(f"{where}: {quoted(other.text)} is negated in another way than before; keep one of the two")
    doubled = next((kind for kind in other.misprimed if kind in one.misprimed), None)
    if doubled is not None and one.misprimed[doubled] != other.misprimed[doubled]:
        raise CorpusError(f"{where}: {quoted(other.text)} is primed in another way than before; keep one of the two")
    return replace(one, misprimed={**one.misprimed, **other.misprimed})
