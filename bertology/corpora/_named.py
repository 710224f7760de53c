"""Corpora by name or path: what each name means; those that are downloaded are in ``_data.py``."""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from bertology._files import exists, given_path, is_numeral
from bertology._names import check_name, name_not_found
from bertology.corpora import _derived
from bertology.corpora._corpus import Corpus, Format, join_corpora
from bertology.corpora._data import data_is_available, data_sets, fetched, is_data_name, treebanks
from bertology.corpora._files import corpus_name
from bertology.corpora._languages import LanguageParts
from bertology.corpora._shards import Shards
from bertology.corpora._tables import DIGITS, Stated, Tables, corpus_of_data, is_of_table, known_table, no_columns
from bertology.corpora.formats.columns import Columns, Text
from bertology.corpora.formats.conllu import CoNLLU, PropBank
from bertology.corpora.formats.edge_jsonl import EdgeJsonl
from bertology.corpora.formats.penn import OntoNotes, Trees
from bertology.corpora.formats.published import Gap, OpenSesame, SemEval, SentEval, Squad, Sts, Winograd
from bertology.corpora.formats.senses import Senses, Senseval
from bertology.corpora.formats.spacy_docs import DocBins
from bertology.corpora.sentence_tasks import sentence_tasks
from bertology.errors import CorpusError, cut, cut_path

FORMATS: tuple[Format, ...] = (
    *(Shards(), PropBank(), CoNLLU(), DocBins(), Senses(), OpenSesame(), Senseval(), Sts(), Gap(), Tables()),
    *(EdgeJsonl(), Trees(), OntoNotes(), SemEval(), SentEval(), Winograd(), Squad(), Text(), Columns()),
)
"""All formats; a file or folder is of the first that recognises it."""
_IN_MEMORY = re.compile(rf".* #[0-9a-f]{{{DIGITS}}}")
_KEPT: dict[str, Corpus] = {}
"""Corpora in memory that this process knows by name."""


_EMBEDDED = {
    "pocket": "the pocket world: embedded, made by a grammar, its truth known (train, dev, test, unseen); "
    "pocket:20000 has so many training sentences",
    "bilingual": "sentences of the pocket world with translations into a made-up language, trees and word links known "
    "(train, dev, test); bilingual:20000 has so many training pairs, bilingual:joined=3 texts of so many sentences, "
    "bilingual:order=reversed,anchors=0.2 another second language",
    "numbers": "numbers:digits and numbers:words, whole numbers with their values, each a text of its own: 0 to 4,999 "
    "(train, dev, test) and 5,000 to 9,999 (outside); numbers:digits:999 ends at 999, and outside at 1,999",
}
"""Corpora that come with the package, each with a line on it; ``bertology.pocket`` makes those of its world."""
_SIZED = re.compile(r"(coreference:)([1-9][0-9]{0,5}):")  # the beginning of a name with a number of words
_JOIN, _LAYER = "+", "#"
_CHANGES: Final[Mapping[str, Callable[[Corpus], Corpus]]] = {
    "sentence_tasks:": sentence_tasks,
    "pseudowords:": _derived.pseudowords,
    "apart:": _derived.apart,
    "shared_roles:": _derived.shared_roles,
    "concatenated:": _derived.concatenated,
    "word_order:": _derived.word_order,
    "sentence_order:": _derived.sentence_order,
    "coreference:": _derived.coreference_over_sentences,
}
"""Functions, by the beginning of a name, that change the corpus which the rest of the name states."""


def known_corpora(*, language: str | None = None, task: str | None = None) -> Mapping[str, str]:
    """The names that :func:`load_corpus` knows, each with a one-line description.

    Args:
        language: only data in this language, by its ISO 639 code or, of treebanks, its name.
        task: only data that this task can read, by its name without what follows a colon.

    Raises:
        NameNotFoundError: there are no data in that language.
    """
    known = {**data_sets(), **treebanks()}
    if language is not None:
        languages = {text.lower() for one in known.values() for text in (*one.language.split(), one.language_name)}
        check_name("language of data", language.lower(), languages - {""})
    described = {name: one.described for name, one in known.items() if one.serves(language=language, task=task)}
    return described if language or task else _EMBEDDED | described


def load_corpus(corpus: Any, *, columns: Stated | None = None, name: str | None = None) -> Corpus:
    """A corpus by its name or path, or made of data in memory.

    Names take precedence (write ``./pocket`` for a folder of that name): ``pocket``, ``pocket:20000`` with so many
    training sentences, ``bilingual`` with their translations, or a data set (``blimp``, ``glue:sst2``, one file or
    folder of it as ``coarsewsd20:bank``) or treebank (``ud:en_ewt``, of another release ``ud:en_gum@2.17``), downloaded
    when it is first used. Otherwise a path: a folder with a file for each split, or one file. The format, one of
    :data:`FORMATS`, is recognised by the suffix and the first lines: treebanks, trees in brackets, words with tags,
    tables of texts, published sets of tasks, shards (:func:`make_shards`), or plain text (for extraction only).

    Options that are part of the name:

    - ``sentence_tasks:ud:en_ewt``: sentences with the labels of ten probing tasks (:func:`sentence_tasks`).
    - ``apart:path/to/wic``: each text of a pair as a sentence of its own, read without the other.
    - ``shared_roles:pocket``: pairs of sentences by how many roles they fill alike (:func:`shared_roles`).
    - ``pseudowords:pocket``: two unrelated nouns as two senses of one word (:func:`pseudowords`).
    - ``concatenated:path/to/CoarseWSD-20``: test sentences alone, and followed by others (:func:`concatenated`).
    - ``word_order:ud:en_ewt``: test on what parts order from structure, train on the rest (:func:`word_order`).
    - ``sentence_order:ud:en_ewt``: neighbouring sentences as one text, half exchanged (:func:`sentence_order`).
    - ``coreference:ud:en_gum``, ``coreference:128:ud:en_gum``: texts of up to 256 words, or so many, with pairs of
      mentions of different sentences (:func:`coreference_over_sentences`).
    - ``numbers:digits``, ``numbers:words``: whole numbers with their values (:func:`number_corpus`).
    - ``parallel:en=path/to/one,de=path/to/other``: sentences that translate each other (:func:`parallel_corpus`):
      treebanks with the same ``sent_id``, or texts of one sentence a line (``.txt``, ``.en``). ``fr+en=path/to/both``
      is a file with ``|||`` between, and ``links=path/to/gold`` has word alignments of the first two languages
      (``3-4``, possible ``3p4``). ``multilingual:en=…,fr=…`` has corpora that do not translate each other.
    - ``path/to/spr1#proto_roles``: the name of the targets of edge JSONL, which its files do not state.
    - ``path/to/UP_English-EWT+path/to/ud_english_ewt``: the targets of the first (Universal PropBank, Universal NER …)
      joined by ``sent_id`` to the words and annotation of the second (:func:`join_corpora`).

    Data in memory are a pandas DataFrame; a ``Dataset`` of Hugging Face, whose classes are labels by their names; a
    list of texts, of lists of words, of tuples (text, label), (text, text, label), (words, tags) or (words, label), of
    records, of :class:`Sentence` or of spaCy documents; a dict of columns; or a dict (such as a ``DatasetDict``) with
    any of these, or the path of a table, for each split.

    Of a table, each column under ``label=`` becomes targets of its name, one for a sentence or pair of texts, and each
    under ``tags=`` a layer of its name, one label a word. Words of texts are found by :func:`sentence_of_text`; given
    words stay as they are, with single spaces between them. Without a column of splits, whatever comes as one piece is
    split 8 : 1 : 1 by a hash of its text, or of its group, so that no text and no group is in two splits.

    Args:
        corpus: the name, file or folder; or the data.
        columns: contents of the columns of column files, as ``"form,xpos,chunk"``; or which columns of a table hold
            what, as ``"text=sentence,label=stars+topic"``, with the keys ``text``, ``text2``, ``choice``, ``words``,
            ``label``, ``tags``, ``split``, ``group``, ``id``; and the ``language`` of texts. Inferred when left out.
        name: name of the corpus; that of its files, or *data in memory*, when left out.

    Raises:
        NameNotFoundError: no corpus of that name, or no column.
        CorpusError: there is no such path, or it cannot be read as a corpus.
        StoreError: the cache cannot be written.
    """
    if not isinstance(corpus, str | Path):
        return corpus_of_data(corpus, columns=columns, name=name)
    loaded = _by_name(corpus, columns)
    return replace(loaded, name=name) if name else loaded


def kept_name(corpus: Corpus) -> str:
    """The name by which :func:`load_corpus` finds a corpus in memory again, in this process: what it is called, and the
    beginning of its fingerprint. The embedded corpus, whole, has its own."""
    is_embedded = corpus.name.partition(":")[0] in _EMBEDDED
    if is_embedded and _by_name(corpus.name, None).fingerprint == corpus.fingerprint:
        return corpus.name
    name = f"{corpus.name} #{corpus.fingerprint[:DIGITS]}"
    _KEPT[name] = corpus
    return name


def check_here(name_or_path: str | Path) -> None:
    """Raise :class:`CorpusError` where a name is that of data in memory which this process does not have."""
    if _IN_MEMORY.fullmatch(str(name_or_path)) and not exists(name_or_path):
        raise CorpusError(
            f"corpus {cut(str(name_or_path))}: it was in memory where it was named, and is not here; give it again, as "
            "in rerun(run, out, corpora=[frame]), or run the same on a file of it"
        )


def _parts(name_or_path: str | Path) -> tuple[str, str, str]:
    """The kind of a name, and its parts: of ``change`` its beginning and a corpus, of ``joined`` two corpora, of
    ``layer`` a path and a name, of ``name`` and ``path`` the whole."""
    text, is_path = str(name_or_path), exists(name_or_path)
    if (sized := _SIZED.match(text)) and not is_path:
        return "change", sized[0], text[sized.end() :]
    if change := next((one for one in _CHANGES if text.startswith(one) and not is_path), None):
        return "change", change, text.removeprefix(change)
    (left, plus, right), (bare, mark, layer) = text.partition(_JOIN), text.rpartition(_LAYER)
    if plus and not is_path:
        return "joined", left, right
    if isinstance(name_or_path, str) and (text.partition(":")[0] in _EMBEDDED or is_data_name(text)):
        return "name", text, ""
    return ("layer", bare, layer) if mark and bare and not is_path else ("path", text, "")


def _by_name(name_or_path: str | Path, columns: Stated | None, *, joined: bool = False) -> Corpus:
    text, (kind, left, right) = str(name_or_path), _parts(name_or_path)
    kept, table = _KEPT.get(text), known_table(text)
    if table is not None:
        return corpus_of_data(table, columns=columns, name=None)
    if kept is None:
        check_here(name_or_path)
        if (languages := LanguageParts.of(name_or_path)) is not None:
            return languages.load(lambda one: _by_name(one, columns))
    if columns is not None and (kept is not None or not (kind in ("change", "path") or is_data_name(text))):
        raise no_columns(columns, text)
    if kept is not None:
        return kept
    if kind == "change":
        changed = _by_name(right, columns)
        if sized := _SIZED.match(left):
            return _derived.coreference_over_sentences(changed, words=int(sized[2]))
        return _CHANGES[left](changed)
    if kind == "joined":
        if not left or not right or _JOIN in right:
            raise CorpusError(f"{cut_path(text)}: + joins two corpora; write path/to/annotation+path/to/treebank")
        return join_corpora(_by_name(left, None, joined=True), _by_name(right, None))
    if kind == "name" and is_data_name(text):
        data, place = fetched(text)
        read = place if data.reads == "{}" else data.reads.replace("{}", str(place))
        corpus = _by_name(read, columns or data.columns)
        language = corpus.language if " " in data.language else data.language
        return replace(
            corpus, name=text, language=language, licence=data.stated_licence, reference=data.reference or None
        )
    if kind == "name":
        are_numbers = text.partition(":")[0] == "numbers"
        load: Callable[[str], Corpus] = (
            _derived.number_corpus if are_numbers else resolve_name("bertology.pocket:corpus_by_name")
        )
        return load(text)
    path = given_path(left if kind == "layer" else name_or_path, error=CorpusError)
    if not path.exists():
        raise _no_such(name_or_path, path)
    if kind == "layer":
        return EdgeJsonl(right).load(path)
    if columns is not None:
        return (Tables if is_of_table(columns) else Columns)().load(path, columns=columns)
    inside = [one for one in path.iterdir() if one.is_dir() and not one.name.startswith(".")] if path.is_dir() else []
    # SemEval and DPR are distributed in a folder data/.
    for place in (path, *(inside if len(inside) == 1 else ())):
        if (found := next((one for one in FORMATS if one.is_at(place)), None)) is not None:
            corpus = found.load(place, joined=joined) if isinstance(found, PropBank) else found.load(place)
            return corpus if place == path else replace(corpus, name=corpus_name(path))
    formats = (one for one in FORMATS if not isinstance(one, Text))
    kinds = dict.fromkeys(one.described or f"{one.title} ({', '.join(one.suffixes)})" for one in formats)
    raise CorpusError(f"{path}: no corpus in this folder; it should hold {', '.join(kinds)}")


def corpus_is_available(name_or_path: str | Path) -> bool:
    """Whether :func:`load_corpus` would find a corpus on this machine, without downloading anything."""
    if (languages := LanguageParts.of(name_or_path)) is not None:
        return all(map(corpus_is_available, languages.corpora.values()))
    kind, left, right = _parts(name_or_path)
    if kind in ("change", "joined"):
        return all(part and corpus_is_available(part) for part in ((left, right) if kind == "joined" else (right,)))
    if kind != "name":
        return exists(left)
    if is_data_name(left):
        return data_is_available(left)
    stem, _, options = left.partition(":")
    return stem in _EMBEDDED and (stem != "pocket" or left == stem or is_numeral(options))


def _no_such(name_or_path: str | Path, path: Path) -> Exception:
    """The error for a missing path, with similar names in its folder or similar names of corpora."""
    # Path drops a leading "./", which marks a path as opposed to a name.
    written_as_path = isinstance(name_or_path, Path) or str(name_or_path).startswith(".")
    if not written_as_path and len(path.parts) == 1 and not path.suffix:
        known = [name for name in known_corpora() if not name.startswith("ud:")]
        return name_not_found("corpus", str(name_or_path), known, remedy="or give the path of one")
    missing = path
    while not missing.parent.exists():
        missing = missing.parent
    siblings = [entry.name for entry in missing.parent.iterdir()] if missing.parent.is_dir() else []
    near = difflib.get_close_matches(missing.name, sorted(siblings), n=1, cutoff=0.5)
    hint = f"did you mean {missing.parent / near[0]}?" if near else "check the path"
    return CorpusError(f"{path}: no such file or folder; {hint}")
