"""Corpora by name or path."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from bertology._names import name_not_found
from bertology.corpora._columns import COLUMN_SUFFIXES, load_columns
from bertology.corpora._conllu import load_conllu
from bertology.corpora._corpus import Corpus
from bertology.corpora._layout import looks_like_columns
from bertology.corpora._raw import load_text
from bertology.corpora._spacy import load_docbin
from bertology.corpora._splits import files_in, split_of
from bertology.corpora._treebanks import TREEBANKS, load_treebank, treebank_is_cached
from bertology.errors import CorpusError

POCKET = "pocket"
_KINDS = (
    "CoNLL-U (.conllu), spaCy (.spacy), or column files (.conll, .iob2, .txt …) with train, dev or test in the name"
)


def known_corpora() -> Mapping[str, str]:
    """The names that :func:`load_corpus` knows, each with one line on what it is."""
    known = {POCKET: "the pocket world: embedded, made by a grammar, its truth known (train, dev, test, unseen)"}
    for name, treebank in TREEBANKS.items():
        known[name] = f"{treebank.description} ({', '.join(treebank.sha256)}; {treebank.licence})"
    return known


def load_corpus(name_or_path: str | Path, *, columns: str | Sequence[str] | None = None) -> Corpus:
    """A corpus by its name or by where it lies.

    A name comes first (write ``./pocket`` for a folder of that name): ``pocket``, or a treebank such as
    ``ud:en_ewt``, downloaded when it is first used. Otherwise a path: a folder with a file a split, or one file.
    What a file is, is told by the end of its name and its first lines: CoNLL-U, ``.spacy``, one word and its tags a
    line, or plain text of one sentence a line (for extraction only).

    Args:
        name_or_path: the name, file or folder.
        columns: what the columns of column files hold, as ``"form,xpos,chunk"``; seen from the file when left out.

    Raises:
        NameNotFoundError: no corpus of that name.
        CorpusError: no such path, or what lies there cannot be read as a corpus.
        StoreError: the cache cannot be written.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and (text == POCKET or text.startswith("ud:")):
        if columns is not None:
            raise CorpusError(f"columns={columns!r} is for column files; leave it out for {text}")
        return _named(text)
    path = Path(name_or_path).expanduser()
    if not path.exists():
        raise _no_such(name_or_path, path)
    if columns is not None:
        return load_columns(path, columns=columns)
    return _in_folder(path) if path.is_dir() else _in_file(path)


def corpus_at_hand(name_or_path: str | Path) -> bool:
    """Whether :func:`load_corpus` would find a corpus on this machine, without downloading anything."""
    text = str(name_or_path)
    if text in TREEBANKS:
        return treebank_is_cached(TREEBANKS[text])
    if text == POCKET:
        return True
    try:
        return Path(name_or_path).expanduser().exists()
    except (OSError, RuntimeError):
        # Too long for a path, or the home of somebody who is not known here.
        return False


def _named(name: str) -> Corpus:
    if name == POCKET:
        from bertology.pocket import load_corpus as load_pocket

        return load_pocket()
    if name not in TREEBANKS:
        raise name_not_found(
            "corpus", name, known_corpora(), remedy="any other treebank can be given by the path of its folder"
        )
    return load_treebank(name, TREEBANKS[name])


def _in_folder(folder: Path) -> Corpus:
    if files_in(folder, [".conllu"]):
        return load_conllu(folder)
    if files_in(folder, [".spacy"]):
        return load_docbin(folder)
    if any(split_of(file) for file in files_in(folder, COLUMN_SUFFIXES)):
        return load_columns(folder)
    raise CorpusError(f"{folder}: no corpus in this folder; it should hold {_KINDS}")


def _in_file(path: Path) -> Corpus:
    suffix = path.suffix.lower()
    if suffix == ".conllu":
        return load_conllu(path)
    if suffix == ".spacy":
        return load_docbin(path)
    if suffix in (".txt", "") and not looks_like_columns(path):
        return load_text(path)
    return load_columns(path)


def _no_such(name_or_path: str | Path, path: Path) -> Exception:
    """The error for a path that is not there: near names beside it, or near names of corpora."""
    # Path drops a leading "./", by which a person says that they mean a path.
    written_as_path = isinstance(name_or_path, Path) or str(name_or_path).startswith(".")
    looks_like_path = written_as_path or len(path.parts) > 1 or path.suffix
    if not looks_like_path:
        return name_not_found("corpus", str(name_or_path), known_corpora(), remedy="or give the path of one")
    missing = path
    while not missing.parent.exists():
        missing = missing.parent
    siblings = sorted(entry.name for entry in missing.parent.iterdir()) if missing.parent.is_dir() else []
    near = difflib.get_close_matches(missing.name, siblings, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(str(missing.parent / name) for name in near)}?" if near else "check the path"
    return CorpusError(f"{path}: no such file or folder; {hint}")
