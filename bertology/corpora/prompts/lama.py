"""LAMA: facts as cloze prompts (Petroni et al. 2019, *Language Models as Knowledge Bases?*, §4.1), and what came of it.

ParaRel puts each fact into several wordings; Kassner & Schütze (2020, *Negated and Misprimed Probes for Pretrained
LMs*) negate prompts and put misleading words before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertology._files import given_path
from bertology.corpora._files import corpus_name
from bertology.corpora.prompts._items import (
    LeftOut,
    TableItem,
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

Found = tuple[tuple[TableItem, ...], tuple[LeftOut, ...]]
"""Facts, and items that cannot be scored."""
_RELATIONS = "relations.jsonl"
_LAYOUT = "give LAMA's data folder, with relations.jsonl and TREx, Google_RE, Squad or ConceptNet, or one of its files"
# Petroni et al. (2019), §4.1.1: three templates made by hand, which the file of relations does not have.
_GOOGLE_RE = {
    "place_of_birth": ("[X] was born in [Y] .", "place_of_birth (Google-RE)"),
    "date_of_birth": ("[X] (born [Y]).", "date_of_birth (Google-RE)"),
    "place_of_death": ("[X] died in [Y] .", "place_of_death (Google-RE)"),
}


def _found(facts: Iterable[TableItem | LeftOut]) -> Found:
    read = list(facts)
    left_out = tuple(fact for fact in read if isinstance(fact, LeftOut))
    return tuple(fact for fact in read if isinstance(fact, TableItem)), left_out


def _fact(
    name: str, group: str, subject: str, answer: str, texts: Iterable[str], trouble: str = "", **more: Any
) -> TableItem | LeftOut:
    """A fact with the first of its texts as the prompt, or the reason why it cannot be scored."""
    text, *others = texts
    masks = (mask_trouble(one) for one in (text, *others))
    if trouble := trouble or (next(filter(None, masks), "") if answer else "object without a label"):
        return LeftOut(name, group, trouble)
    return TableItem(name, subject or name, group, text, good=answer, subject=subject, **more)


def read_relations(path: str | Path) -> dict[str, tuple[str, str]]:
    """Template and group of the relations of a ``relations.jsonl`` by name, and those of Google-RE, which it lacks.

    An object has ``relation`` and ``template``; it may have ``label`` and ``type`` (``1-1``, ``N-1`` or ``N-M``: how
    many subjects share an object and how many objects a subject has). A group is ``N-1 P19 place of birth``.
    """
    relations: dict[str, tuple[str, str]] = {}
    for _, where, plain in records(given_path(path, error=CorpusError)):
        name = text_field(plain, "relation", where)
        if not name:
            raise CorpusError(f"{where}: relation is empty; write its name, such as P19")
        if name in relations:
            raise CorpusError(f"{where}: relation {cut(name)} is there twice; keep one of the two lines")
        kind, label = (text_field(plain, field, where) if field in plain else "" for field in ("type", "label"))
        template = checked_template(text_field(plain, "template", where), where)
        relations[name] = template, " ".join(filter(None, (kind, name, label)))
    return _GOOGLE_RE | relations


def read_lama(path: str | Path) -> Found:
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

    def facts() -> Iterator[TableItem | LeftOut]:
        for file in files:
            for fact in _lama_facts(file, relations, stated):
                if owners.setdefault(fact.id, file) != file:
                    raise CorpusError(f"{file}: {fact.id} is in {owners[fact.id]}, too; give one of the two files")
                yield fact

    return _found(facts())


def _files(path: Path, layout: str) -> list[Path]:
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder; {layout}")
    if not path.is_file():
        return sorted(path.rglob("*.jsonl"))
    _check_facts(path)
    return [path]


def _check_facts(path: Path) -> None:
    names = columns_of(path)
    if not {"obj_label", "sub_label"} & set(names):
        raise not_items(path, names, "answers", nor="obj_label of LAMA")


def _lama_facts(
    file: Path, relations: Mapping[str, tuple[str, str]], stated: Path | None
) -> Iterator[TableItem | LeftOut]:
    # LAMA keeps each set in a folder of its name, the file called test.jsonl.
    stem = corpus_name(file)
    of_file = file.resolve().parent.name if stem == "test" else stem
    for number, where, plain in records(file):
        answer, name = text_field(plain, "obj_label", where), _relation_name(plain, stem)
        if name and name not in relations:
            what = f"relation {cut(name)} is not in {stated}; add a line with its template, with [X] and [Y]"
            if stated is None:
                what = f"no {_RELATIONS} beside it tells the template of relation {cut(name)}; put LAMA's there"
            raise CorpusError(f"{where}: {what}")
        if name:
            template, group = relations[name]
            subject = text_field(plain, "sub_label", where)
            lacks, blind = "" if subject else "subject without a label", blind_prompt_of(template)
            texts = [prompt_of(template, subject)]
            yield _fact(f"{name}:{number}", group, subject, answer, texts, lacks, blind=blind)
        else:
            texts = [sentences_field(plain, "masked_sentences", where)]
            subject, predicate = (text_field(plain, f, where) if f in plain else "" for f in ("sub_label", "pred"))
            group = f"{'SQuAD' if of_file == 'Squad' else of_file} {predicate}".strip()
            # SQuAD's file calls every subject by the name of the set.
            yield _fact(f"{of_file}:{number}", group, "" if subject == of_file else subject, answer, texts)


def _relation_name(plain: Mapping[str, Any], stem: str) -> str:
    """The relation whose template is to be used; empty where there is none."""
    name, predicate = plain.get("predicate_id"), plain.get("pred")
    if isinstance(name, str) and name:
        return name
    if isinstance(predicate, str) and predicate.startswith("/"):
        return predicate.rpartition("/")[2]
    # Facts without sentences and without relation, such as those that come with ParaRel, are named by their file.
    return "" if "masked_sentences" in plain else stem


_FACTS, _PATTERNS = "trex_lms_vocab", "pattern_data/graphs_json"
_PARAREL_LAYOUT = f"give ParaRel's data folder, with {_FACTS} and {_PATTERNS}, or a file of {_FACTS}"


def read_pararel(path: str | Path) -> Found:
    """The facts of ParaRel, each in all patterns of its relation, and items that cannot be scored.

    The latter are facts of relations with fewer than two patterns (the paper leaves these relations out, too), with
    empty labels, or with a mask in a subject's name. Wordings are :attr:`TableItem.variants`, by number.

    Args:
        path: its folder, the ``data`` folder in it, that of the facts, or one file of facts.

    Raises:
        CorpusError: the folder is another, a line is broken or lacks a field, or a pattern lacks ``[X]`` or ``[Y]``.
    """
    path = given_path(path, error=CorpusError)
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder; {_PARAREL_LAYOUT}")
    whole = path.resolve()
    folders = [whole, whole / "data", whole.parent] if path.is_dir() else [whole.parent.parent]
    root = next((one for one in folders if (one / _FACTS).is_dir() and (one / _PATTERNS).is_dir()), None)
    if root is None:
        if path.is_file():
            _check_facts(path)
        raise CorpusError(f"{path}: not ParaRel; {_PARAREL_LAYOUT}")
    files = [path] if path.is_file() else sorted((root / _FACTS).glob("*.jsonl"))
    if not files:
        raise CorpusError(f"{root / _FACTS}: no facts in it; {_PARAREL_LAYOUT}")
    return _found(one for file in files for one in _worded_facts(file, root))


def _worded_facts(file: Path, root: Path) -> Iterator[TableItem | LeftOut]:
    relation, patterns = corpus_name(file), _patterns(root / _PATTERNS / file.name)
    few = {0: "relation without a pattern", 1: "relation with a single pattern"}.get(len(patterns), "")
    for number, where, plain in records(file):
        subject, answer = (text_field(plain, field, where) for field in ("sub_label", "obj_label"))
        texts = {str(n): prompt_of(pattern, subject) for n, pattern in enumerate(patterns, 1)}
        lacks, first = few or ("" if subject else "subject without a label"), list(texts.values())[:1] or [""]
        yield _fact(f"{relation}:{number}", relation, subject, answer, first, lacks, variants=texts)


def _patterns(file: Path) -> list[str]:
    if not file.is_file():
        return []  # ParaRel itself has facts of two relations for which nobody wrote patterns.
    lines: dict[str, int] = {}
    for number, where, plain in records(file):
        pattern = checked_template(text_field(plain, "pattern", where), where)
        if pattern in lines:
            raise CorpusError(f"{where}: the pattern of line {lines[pattern]} once more; keep one of the two")
        lines[pattern] = number
    return list(lines)


_PRIMES = {"high_ranked": "high-ranked", "low_ranked": "low-ranked", "random": "random"}
_SETS = {"TREx": "T-REx", "GoogleRE": "Google-RE", "SQUAD": "SQuAD"}
_PRIMED_LAYOUT = (
    "give the data folder of negated and misprimed LAMA, with TREx, GoogleRE, SQUAD or ConceptNet, or a part of it"
)


def read_primed(path: str | Path) -> Found:
    """The facts of negated and misprimed LAMA, in order of file and line, and items that cannot be scored.

    The source has each fact in up to three folders, which differ by the word it is primed with; here it is one fact.
    The negated prompt is ``other``; the prompt after a wrong word and a question mark is a variant, called by how the
    word was chosen (``high-ranked``, ``low-ranked``, ``random``; empty where the source does not state it). ``kind`` is
    the set: ``T-REx``, ``Google-RE``, ``SQuAD``, ``ConceptNet``; else the name of the folder. Groups are set and
    relation. Empty labels and sentences without just one mask cannot be scored.

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
    facts: dict[tuple[str, ...], TableItem] = {}
    left_out: list[LeftOut] = []
    again = "in another way than before; keep one of the two"
    for where, fact in (one for file in files for one in _primed_facts(file)):
        if isinstance(fact, LeftOut):
            left_out.append(fact)
            continue
        one = facts.setdefault((fact.kind, fact.group, fact.text, fact.good), fact)
        if one.other != fact.other:
            raise CorpusError(f"{where}: {quoted(fact.text)} is negated {again}")
        if any(one.variants.get(kind, text) != text for kind, text in fact.variants.items()):
            raise CorpusError(f"{where}: {quoted(fact.text)} is primed {again}")
        variants = {**one.variants, **fact.variants}
        facts[one.kind, one.group, one.text, one.good] = replace(one, variants=variants)
    return tuple(facts.values()), tuple(left_out)


def _primed_facts(file: Path) -> Iterator[tuple[str, TableItem | LeftOut]]:
    folder = file.resolve().parent  # the folders above a file name the choice of primes, and the set
    kind = _PRIMES.get(folder.name, "")
    name = folder.parent.name if kind else folder.name
    name = _SETS.get(name, name)
    stem = corpus_name(file).removesuffix("_random")
    relation = "" if stem.lower() == name.replace("-", "").lower() else stem
    for number, where, plain in records(file):
        subject, answer = (text_field(plain, field, where) for field in ("sub_label", "obj_label"))
        text = sentences_field(plain, "masked_sentences", where)
        negated, primed = (
            sentences_field(plain, field, where) if field in plain else ""
            for field in ("masked_negations", "masked_misprimed")
        )
        texts, variants = [text, *filter(None, (negated, primed))], {kind: primed} if primed else {}
        subject = "" if subject == stem else subject  # SQuAD's file calls every subject by its own name
        item = ":".join(part for part in (name, relation, str(number)) if part)
        group = f"{name} {relation}".strip()
        fact = _fact(item, group, subject, answer, texts, kind=name, other=negated, variants=variants)
        if isinstance(fact, LeftOut):
            fact = replace(fact, id=":".join((item, *variants)))
        yield where, fact
