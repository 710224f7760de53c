"""CoNLL-U out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bertology._files import write_atomically
from bertology.corpora._sentence import MultiwordToken, Sentence
from bertology.errors import CorpusError, quoted

_STANDARD = ("lemma", "upos", "xpos", "feats")
_KNOWN = {*_STANDARD, "deprel", "deps", "misc"}
_UNSPACED = "SpaceAfter=No"


def write_conllu(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences as CoNLL-U; what :func:`~bertology.corpora.read_conllu` read comes out byte for byte.

    A sentence without ``sent_id`` or ``text`` among its comments gets them; spacing is put into MISC where it is
    not there yet. Layers that CoNLL-U has no column for (``ner``, ``chunk`` …) are written into MISC as
    ``name=value``. Span-level annotation (``Sentence.targets``) has no place in CoNLL-U and is left out.

    Args:
        path: the file; it is whole or absent, never half written.
        sentences: what to write.

    Raises:
        CorpusError: a word is empty or holds a tab or a line break.
        StoreError: the file cannot be written.
    """
    path = Path(path)
    lines: list[str] = []
    for sentence in sentences:
        for line in _lines(sentence):
            if "\n" in line or "\r" in line:
                raise CorpusError(
                    f"{path}: sentence {quoted(sentence.id)} holds a line break in {quoted(line)}; take it out"
                )
            lines.append(line)
        lines.append("")
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode("utf-8"))


def _lines(sentence: Sentence) -> Iterator[str]:
    keys = {comment.partition("=")[0].strip() for comment in sentence.comments}
    if sentence.id and "sent_id" not in keys:
        yield f"# sent_id = {sentence.id}"
    yield from (f"#{comment}" for comment in sentence.comments)
    if "text" not in keys:
        yield f"# text = {sentence.text}"
    tokens = {token.first: token for token in sentence.multiword}
    nodes = _nodes_by_word(sentence)
    yield from nodes.get(0, ())
    covered = -1
    for index in range(len(sentence)):
        if token := tokens.get(index):
            covered = token.last
            yield _token_line(sentence, token)
        yield _word_line(sentence, index, inside=index <= covered)
        yield from nodes.get(index + 1, ())


def _nodes_by_word(sentence: Sentence) -> Mapping[int, list[str]]:
    """The empty nodes that stand after each word, by its number."""
    nodes: dict[int, list[str]] = {}
    for line in sentence.empty_nodes:
        nodes.setdefault(int(line.partition(".")[0]), []).append(line)
    return nodes


def _token_line(sentence: Sentence, token: MultiwordToken) -> str:
    parts = token.misc.split("|") if token.misc else []
    if not _spaced(sentence, token.last) and _UNSPACED not in parts:
        parts.append(_UNSPACED)
    feats = token.feats or "_"
    cells = [f"{token.first + 1}-{token.last + 1}", token.form, *"___", feats, *"___", "|".join(parts) or "_"]
    return _joined(sentence, cells)


def _word_line(sentence: Sentence, index: int, *, inside: bool) -> str:
    """One word; ``inside`` a multiword token its spacing is the token's."""
    layers = sentence.layers
    misc = layers["misc"][index] if "misc" in layers else None
    parts = misc.split("|") if misc else []
    for name in sorted(layers.keys() - _KNOWN):
        if (value := layers[name][index]) is not None:
            parts.append(f"{name}={value}")
    if not inside and not _spaced(sentence, index) and _UNSPACED not in parts:
        parts.append(_UNSPACED)

    def cell(name: str) -> str:
        return (layers[name][index] if name in layers else None) or "_"

    head = "_" if sentence.heads is None else str(sentence.heads[index])
    cells = [str(index + 1), sentence.words[index], *map(cell, _STANDARD), head, cell("deprel"), cell("deps")]
    return _joined(sentence, [*cells, "|".join(parts) or "_"])


def _spaced(sentence: Sentence, index: int) -> bool:
    """Whether white space, or nothing at all, follows a word."""
    end = sentence.spans[index][1]
    return end >= len(sentence.text) or sentence.text[end].isspace()


def _joined(sentence: Sentence, cells: list[str]) -> str:
    for cell in cells:
        if cell == "" or "\t" in cell:
            raise CorpusError(
                f"sentence {quoted(sentence.id)}: {quoted(cell)} cannot stand in a column of CoNLL-U; take it out"
            )
    return "\t".join(cells)
