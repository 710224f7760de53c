"""ParaRel: facts of T-REx in many wordings (Elazar et al. 2021, *Measuring and Improving Consistency …*, §3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bertology._inputs import given_path
from bertology.corpora.prompts._json_lines import json_objects, mask_trouble, text_field
from bertology.corpora.prompts._templates import checked_template, prompt_of
from bertology.corpora.prompts._unasked import Unasked
from bertology.errors import CorpusError

_FACTS, _PATTERNS = "trex_lms_vocab", "pattern_data/graphs_json"
_LAYOUT = f"give ParaRel's data folder, with {_FACTS} and {_PATTERNS}, or a file of {_FACTS}"


@dataclass(frozen=True, slots=True)
class ParaphrasedFact:
    """A fact, and prompts that ask for its object in different words."""

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
        The facts, and what cannot be asked: facts of relations with fewer than two patterns (nothing to be consistent
        with; the paper leaves these relations out, too), empty labels, a mask in a subject's name.

    Raises:
        CorpusError: the folder is another, a line is broken or lacks a field, or a pattern lacks ``[X]`` or ``[Y]``.
    """
    path = given_path(path, error=CorpusError)
    root = _root(path)
    files = [path] if path.is_file() else sorted((root / _FACTS).glob("*.jsonl"))
    if not files:
        raise CorpusError(f"{root / _FACTS}: no facts in it; {_LAYOUT}")
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
        raise CorpusError(f"{path}: no such file or folder; {_LAYOUT}")
    whole = path.resolve()
    folders = [whole, whole / "data", whole.parent] if path.is_dir() else [whole.parent.parent]
    for folder in folders:
        if (folder / _FACTS).is_dir() and (folder / _PATTERNS).is_dir():
            return folder
    raise CorpusError(f"{path}: not ParaRel; {_LAYOUT}")


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
