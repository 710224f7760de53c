"""LAMA: facts as cloze prompts (Petroni et al. 2019, *Language Models as Knowledge Bases?*, §4.1), and what came of it.

ParaRel puts each fact into several wordings; Kassner & Schütze (2020, *Negated and Misprimed Probes for Pretrained
LMs*) negate prompts and put misleading words before them. BEAR (Wiland et al. 2024) has facts of its own, with the
candidates among which each answer is ranked.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertology._files import given_path, read_json
from bertology.corpora._data import data_path
from bertology.corpora._files import corpus_name, wrong
from bertology.corpora._tables import names_of_columns, read_table
from bertology.corpora.prompts import _items
from bertology.corpora.prompts._items import ClozeItem, LeftOut, checked_template, mask_trouble, prompt_of, sentences_in
from bertology.errors import CorpusError, cut

Found = tuple[tuple[ClozeItem, ...], tuple[LeftOut, ...]]
"""Facts, and items that cannot be scored."""
_RELATIONS = "relations.jsonl"
_LAYOUT = "give LAMA's data folder, with relations.jsonl and TREx, Google_RE, Squad or ConceptNet, or one of its files"
# Petroni et al. (2019), §4.1.1: three templates made by hand, which the file of relations does not have.
_GOOGLE_RE = {
    "place_of_birth": ("[X] was born in [Y] .", "place_of_birth (Google-RE)"),
    "date_of_birth": ("[X] (born [Y]).", "date_of_birth (Google-RE)"),
    "place_of_death": ("[X] died in [Y] .", "place_of_death (Google-RE)"),
}
_FACTS, _PATTERNS = "trex_lms_vocab", "pattern_data/graphs_json"
_PARAREL_LAYOUT = f"give ParaRel's data folder, with {_FACTS} and {_PATTERNS}, or a file of {_FACTS}"
_PRIMES = {"high_ranked": "high-ranked", "low_ranked": "low-ranked", "random": "random"}
_SETS = {"TREx": "T-REx", "GoogleRE": "Google-RE", "SQUAD": "SQuAD"}
_BEAR = "metadata_relations.json"
_BEAR_LAYOUT = f"give BEAR's folder, with {_BEAR} and P36.jsonl …, or one file of a relation in it"
_PRIMED_LAYOUT = (
    "give the data folder of negated and misprimed LAMA, with TREx, GoogleRE, SQUAD or ConceptNet, or a part of it"
)


def _files(source: str | Path, layout: str) -> tuple[Path, list[Path]]:
    """The path as it is given, and the files of facts there; ``layout`` is the remedy where there is none."""
    path = data_path(source)
    if path.is_file():
        if not {"obj_label", "sub_label"} & set(names := names_of_columns(path)):
            raise _items.ITEM_FORMS["answers"].unknown(path, names, nor="obj_label of LAMA")
        return path, [path]
    files = sorted(path.rglob("*.jsonl"))
    if all(file.name == _RELATIONS for file in files):
        raise CorpusError(f"{path}: {'no facts in it' if path.exists() else 'no such file or folder'}; {layout}")
    return path, files


def _fact(
    name: str, group: str, subject: str, answer: str, texts: Iterable[str], trouble: str = "", **more: Any
) -> ClozeItem | LeftOut:
    """A fact with the first of its texts as the prompt, or the reason why it cannot be scored."""
    text, *others = texts
    masks = (mask_trouble(one) for one in (text, *others))
    if trouble := trouble or (next(filter(None, masks), "") if answer else "object without a label"):
        return LeftOut(name, group, trouble)
    return ClozeItem(name, subject or name, group, text, answer=answer, subject=subject, **more)


def _apart(facts: Iterable[ClozeItem | LeftOut]) -> Found:
    read = list(facts)
    left_out = tuple(fact for fact in read if isinstance(fact, LeftOut))
    return tuple(fact for fact in read if isinstance(fact, ClozeItem)), left_out


def read_relations(path: str | Path) -> dict[str, tuple[str, str]]:
    """Template and group of the relations of a ``relations.jsonl`` by name, and those of Google-RE, which it lacks.

    An object has ``relation`` and ``template``; it may have ``label`` and ``type`` (``1-1``, ``N-1`` or ``N-M``: how
    many subjects share an object and how many objects a subject has). A group is ``N-1 P19 place of birth``.
    """
    relations: dict[str, tuple[str, str]] = {}
    for row in read_table(given_path(path, error=CorpusError)).rows():
        name = row.string("relation")
        if not name or name in relations:
            raise row.error("relation", "a name of its own")
        kind, label = (row.string(column, default="") for column in ("type", "label"))
        template = checked_template(row.string("template"), row.where)
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
    path, files = _files(path, _LAYOUT)
    whole, owners, facts = path.resolve(), dict[str, Path](), list[ClozeItem | LeftOut]()
    folders = [*([whole / "data", whole] if whole.is_dir() else []), whole.parent, whole.parent.parent]
    stated = next((folder / _RELATIONS for folder in folders if (folder / _RELATIONS).is_file()), None)
    relations = _GOOGLE_RE if stated is None else read_relations(stated)
    for file in files:
        for fact in _lama_facts(file, relations, stated) if file.name != _RELATIONS else ():
            if owners.setdefault(fact.id, file) != file:
                raise CorpusError(f"{file}: {fact.id} is in {owners[fact.id]}, too; give one of the two files")
            facts.append(fact)
    return _apart(facts)


def _lama_facts(
    file: Path, relations: Mapping[str, tuple[str, str]], stated: Path | None
) -> Iterator[ClozeItem | LeftOut]:
    # LAMA keeps each set in a folder of its name, the file called test.jsonl.
    stem = corpus_name(file)
    of_file = file.resolve().parent.name if stem == "test" else stem
    for row in read_table(file).rows():
        answer, subject = row.string("obj_label"), row.string("sub_label", default="")
        name, predicate = (row.values.get(column) for column in ("predicate_id", "pred"))
        if not isinstance(name, str) or not name:
            # Facts without sentences and relation, such as those that come with ParaRel, are named by their file.
            name = stem if row.values.get("masked_sentences") is None else ""
            name = predicate.rpartition("/")[2] if isinstance(predicate, str) and predicate.startswith("/") else name
        if name and name not in relations:
            due = f"a line with its template, with [X] and [Y], in {stated or _RELATIONS + ' of LAMA beside the file'}"
            raise CorpusError(f"{row.where}: relation {cut(name)} has no template; expected {due}")
        if name:
            (template, group), lacks = relations[name], "" if subject else "subject without a label"
            texts = [prompt_of(template, subject)]
            yield _fact(f"{name}:{row.number}", group, subject, answer, texts, lacks, blind=prompt_of(template))
        else:
            texts = [sentences_in(row, "masked_sentences")]
            group = f"{'SQuAD' if of_file == 'Squad' else of_file} {row.string('pred', default='')}".strip()
            # SQuAD's file calls every subject by the name of the set.
            yield _fact(f"{of_file}:{row.number}", group, "" if subject == of_file else subject, answer, texts)


def read_pararel(path: str | Path) -> Found:
    """The facts of ParaRel, each in all patterns of its relation, and items that cannot be scored.

    The latter are facts of relations with fewer than two patterns (the paper leaves these relations out, too), with
    empty labels, or with a mask in a subject's name. Wordings are :attr:`ClozeItem.variants`, by number.

    Args:
        path: its folder, the ``data`` folder in it, that of the facts, or one file of facts.

    Raises:
        CorpusError: the folder is another, a line is broken or lacks a field, or a pattern lacks ``[X]`` or ``[Y]``.
    """
    path, files = _files(path, _PARAREL_LAYOUT)
    whole = path.resolve()
    folders = [whole, whole / "data", whole.parent] if path.is_dir() else [whole.parent.parent]
    root = next((one for one in folders if (one / _FACTS).is_dir() and (one / _PATTERNS).is_dir()), None)
    if path.is_dir():
        files = sorted((root / _FACTS).glob("*.jsonl")) if root else []
    if root is None or not files:
        raise CorpusError(f"{path}: {'no facts in it' if root else 'not ParaRel'}; {_PARAREL_LAYOUT}")
    return _apart(one for file in files for one in _worded_facts(file, root / _PATTERNS / file.name))


def _worded_facts(file: Path, of_patterns: Path) -> Iterator[ClozeItem | LeftOut]:
    relation, lines = corpus_name(file), dict[str, int]()
    # ParaRel itself has facts of two relations for which nobody wrote patterns.
    for row in read_table(of_patterns).rows() if of_patterns.is_file() else ():
        pattern = checked_template(row.string("pattern"), row.where)
        if lines.setdefault(pattern, row.number) != row.number:
            raise row.error("pattern", f"another pattern than that of line {lines[pattern]}; keep one of the two")
    few = {0: "relation without a pattern", 1: "relation with a single pattern"}.get(len(lines), "")
    for row in read_table(file).rows():
        subject, answer = map(row.string, ("sub_label", "obj_label"))
        texts = {str(n): prompt_of(pattern, subject) for n, pattern in enumerate(lines, 1)}
        lacks, first = few or ("" if subject else "subject without a label"), list(texts.values())[:1] or [""]
        yield _fact(f"{relation}:{row.number}", relation, subject, answer, first, lacks, variants=texts)


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
    path, files = _files(path, _PRIMED_LAYOUT)
    if any(file.name == _RELATIONS for file in files):
        raise CorpusError(f"{path}: the original LAMA, without negated or misprimed sentences; {_PRIMED_LAYOUT}")
    facts: dict[tuple[str, ...], ClozeItem] = {}
    left_out: list[LeftOut] = []
    for where, fact in (one for file in files for one in _primed_facts(file)):
        if isinstance(fact, LeftOut):
            left_out.append(fact)
            continue
        key = fact.kind, fact.group, fact.text, fact.answer
        one = facts.setdefault(key, fact)
        if one.other != fact.other or any(one.variants.get(kind, text) != text for kind, text in fact.variants.items()):
            raise wrong(where, fact.text, "the same fact negated and primed as before; keep one of the two")
        facts[key] = replace(one, variants={**one.variants, **fact.variants})
    return tuple(facts.values()), tuple(left_out)


def read_bear(path: str | Path) -> tuple[ClozeItem, ...]:
    """The facts of BEAR (Wiland, Ploner & Akbik 2024), each in all templates of its relation.

    Relations are files ``P36.jsonl`` whose lines have ``sub_label`` and ``answer_idx``, the place of the answer among
    ``answer_space_labels`` of the relation in ``metadata_relations.json`` next to them, which also has its
    ``templates``. Groups are relation and template, ``P36 template 1``; rivals are all other candidates.

    Args:
        path: its folder, the folder ``BEAR`` in it, or one file of a relation.

    Raises:
        CorpusError: there is no such file, a line or the metadata lack a field, or an answer is not a candidate.
    """
    path = data_path(path)
    folder = next((one for one in (path, path / "BEAR", path.parent) if (one / _BEAR).is_file()), None)
    files = [path] if path.is_file() else sorted(folder.glob("P*.jsonl")) if folder else []
    if folder is None or not files:
        raise CorpusError(f"{path}: {'no facts in it' if folder else f'no {_BEAR}'}; {_BEAR_LAYOUT}")
    what, stated = "the relations of BEAR", folder / _BEAR
    relations = read_json(stated, what=what, form=dict[str, _ClosedRelation], remedy=_BEAR_LAYOUT)
    for file in files:
        if corpus_name(file) not in relations:
            raise wrong(stated, corpus_name(file), "a relation that it has templates and candidates of")
    return tuple(fact for file in files for fact in _closed_facts(file, relations[corpus_name(file)]))


@dataclass(frozen=True)
class _ClosedRelation:
    templates: list[str]
    answer_space_labels: list[str]


def _closed_facts(file: Path, stated: _ClosedRelation) -> Iterator[ClozeItem]:
    relation, labels = corpus_name(file), stated.answer_space_labels
    templates = [checked_template(template, f"{file.with_name(_BEAR)}: {relation}") for template in stated.templates]
    for row in read_table(file).rows():
        subject, place, name = row.text("sub_label"), row.values.get("answer_idx"), f"{relation}:{row.number}"
        if type(place) is not int or not 0 <= place < len(labels):
            raise row.error("answer_idx", f"the place of the answer among {len(labels)} candidates, from 0")
        answer, rivals = labels[place], tuple(dict.fromkeys(one for one in labels if one != labels[place]))
        for number, template in enumerate(templates, 1):
            group, text = f"{relation} template {number}", prompt_of(template, subject)
            yield ClozeItem(f"{name}:{number}", name, group, text, answer, rivals=rivals, subject=subject)


def _primed_facts(file: Path) -> Iterator[tuple[str, ClozeItem | LeftOut]]:
    folder = file.resolve().parent  # the folders above a file name the choice of primes, and the set
    kind = _PRIMES.get(folder.name, "")
    name = folder.parent.name if kind else folder.name
    name, stem = _SETS.get(name, name), corpus_name(file).removesuffix("_random")
    relation = "" if stem.lower() == name.replace("-", "").lower() else stem
    for row in read_table(file).rows():
        subject, answer = map(row.string, ("sub_label", "obj_label"))
        subject = "" if subject == stem else subject  # SQuAD's file calls every subject by its own name
        negated, primed = (
            "" if row.values.get(column) is None else sentences_in(row, column)
            for column in ("masked_negations", "masked_misprimed")
        )
        texts = [sentences_in(row, "masked_sentences"), *filter(None, (negated, primed))]
        variants, group = {kind: primed} if primed else {}, f"{name} {relation}".strip()
        item = ":".join(part for part in (name, relation, str(row.number)) if part)
        fact = _fact(item, group, subject, answer, texts, kind=name, other=negated, variants=variants)
        yield row.where, replace(fact, id=":".join((item, *variants))) if isinstance(fact, LeftOut) else fact
