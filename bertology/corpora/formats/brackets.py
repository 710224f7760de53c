"""Penn-bracketed trees: words, their tags and the phrases over them (Marcus et al. 1993)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, at_least_one, corpus_name, files_in, one_in_ten, split_of, text_lines
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats._words import penn_words
from bertology.errors import CorpusError, cut, quoted

TREE_SUFFIXES = (".mrg", ".ptb")
_PIECE = re.compile(r"[()]|[^\s()]+")
_TRACE = "-NONE-"
_FEWEST_DOCUMENTS = 20
_TOPS = frozenset(["", "TOP", "ROOT"])
SPACING = "sentences without spacing, words joined by the rules of Penn tokens"


@dataclass(slots=True)
class _Node:
    """A bracket as it stands in the file."""

    line: int
    label: str | None = None
    word: str | None = None
    children: list[_Node] = field(default_factory=list)


def read_trees(path: Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a file of bracketed trees, as in the ``.mrg`` files of the Penn Treebank.

    Traces (``-NONE-``) and the phrases that hold nothing else are taken out. Words are written as people write them
    (``-LRB-`` is a bracket again) and spaced by the rules of Penn tokens; their tags are the layer ``xpos``.
    Targets ``constituents`` are all phrases, each before those inside it, labelled without function tags and
    indices (``NP-SBJ-1`` is ``NP``); as in Tenney et al. 2019 tags of single words are no phrases, and phrases over
    the same words all count. A phrase over just one phrase of its own label, as taking out a trace may leave it, is
    the same phrase. The bracket around a whole tree that has no label (or ``TOP``, ``ROOT``) says nothing and is
    left out; ``S`` below it is a phrase.

    Raises:
        CorpusError: brackets do not close, or hold neither a word nor brackets; the message names file and line.
    """
    for block in _blocks(path, oddities or Oddities()):
        yield from block


def _blocks(path: Path, oddities: Oddities) -> list[list[Sentence]]:
    """The sentences of a file by what stands between blank lines: in files put together of many, a document."""
    blocks: list[list[Sentence]] = []
    last = -1
    trees = at_least_one(_trees(path), f"{path}: no tree in it; give trees in brackets, as in ( (S (NP (NN ...")
    for number, (tree, block) in enumerate(trees, 1):
        sentence = _sentence(tree, number, path, oddities)
        if sentence is not None:
            if block != last:
                blocks.append([])
            blocks[-1].append(sentence)
            last = block
    return blocks


def _trees(path: Path) -> Iterator[tuple[_Node, int]]:
    """The trees of a file, each with the number of blank lines between trees before it."""
    open_nodes: list[_Node] = []
    blanks = 0
    for number, line in enumerate(text_lines(path), 1):
        blanks += not open_nodes and line.isspace()
        for piece in _PIECE.findall(line):
            if piece == "(":
                node = _Node(number)
                if open_nodes:
                    _fill(open_nodes[-1], node, path, number)
                open_nodes.append(node)
            elif piece == ")":
                if not open_nodes:
                    raise CorpusError(f"{path}:{number}: a bracket closes that was not opened; take it out")
                node = open_nodes.pop()
                if node.word is None and not node.children:
                    reason = f"a bracket ({cut(node.label or '')}) that holds nothing; fill it"
                    raise CorpusError(f"{path}:{number}: {reason}")
                if not open_nodes:
                    yield node, blanks
            elif not open_nodes:
                reason = f"{quoted(piece)} stands outside of any bracket; put trees in brackets"
                raise CorpusError(f"{path}:{number}: {reason}")
            else:
                _add(open_nodes[-1], piece, path, number)
    if open_nodes:
        first = open_nodes[0].line
        raise CorpusError(f"{path}:{first}: the tree that opens here does not close; add the missing bracket")


def _fill(node: _Node, child: _Node, path: Path, number: int) -> None:
    if node.word is not None:
        reason = f"a bracket opens after the word {quoted(node.word)}; close ({cut(node.label or '')} first"
        raise CorpusError(f"{path}:{number}: {reason}")
    node.label = node.label or ""
    node.children.append(child)


def _add(node: _Node, piece: str, path: Path, number: int) -> None:
    if node.label is None:
        node.label = piece
    elif node.word is None and not node.children:
        node.word = piece
    else:
        reason = f"{quoted(piece)} stands beside other parts of ({cut(node.label)}; give it a tag"
        raise CorpusError(f"{path}:{number}: {reason}")


class _Walk:
    """Walks a tree once, left to right, noting words and phrases."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.tags: list[str] = []
        self.phrases: list[tuple[int, int, str]] = []
        self.doubled = 0

    def walk(self, node: _Node, *, top: bool = False) -> None:
        label = node.label or ""
        if node.word is not None:
            if label != _TRACE:
                self.words.append(node.word)
                self.tags.append(label)
            return
        place, start = len(self.phrases), len(self.words)
        for child in node.children:
            self.walk(child)
        end = len(self.words)
        if start == end or (top and label in _TOPS):
            return
        phrase = (start, end, plain_label(label))
        if phrase in self.phrases[place:]:
            self.doubled += 1
        else:
            self.phrases.insert(place, phrase)


def plain_label(label: str) -> str:
    """The category of a phrase, without function tags and indices."""
    return re.split(r"[-=|]", label, maxsplit=1)[0] if label[:1] not in "-=|" else label


def _sentence(tree: _Node, number: int, path: Path, oddities: Oddities) -> Sentence | None:
    walk = _Walk()
    try:
        walk.walk(tree, top=True)
    except RecursionError:
        raise CorpusError(f"{path}:{tree.line}: brackets nested too deeply to be a tree; check them") from None
    where = f"{path.name}:{tree.line}"
    if not walk.words:
        oddities.skip("trees of traces only", where)
        return None
    if unlabelled := sum(not label for _, _, label in walk.phrases):
        oddities.note("brackets without a label inside a tree, no phrases", where, times=unlabelled)
    if walk.doubled:
        oddities.note("phrases over one phrase of the same label, counted once", where, times=walk.doubled)
    oddities.note(SPACING, where)
    words, spaced = penn_words(walk.words, walk.tags)
    targets = tuple(Target((start, end), label) for start, end, label in walk.phrases if label)
    return Sentence.from_words(
        words,
        id=f"{path.stem}-{number}",
        space_after=spaced,
        layers={"xpos": tuple(walk.tags)},
        targets={"constituents": targets} if targets else {},
    )


def load_trees(path: Path) -> Corpus:
    """The corpus in a file of bracketed trees, or in a folder of such files.

    Files whose names speak of train, dev or test are those splits. Others have no splits of their own: of ten
    documents in a row one is for dev and one for test. A document is a file of a folder, or what stands between blank
    lines in a file put together of many; where these are fewer than twenty, a sentence.

    Raises:
        CorpusError: no such file, one that is not as it should be, or too few sentences to make splits of.
    """
    oddities = Oddities()
    files = files_in(path, TREE_SUFFIXES) if path.is_dir() else [path]
    by_split = {split_of(file): file for file in files}
    splits: dict[str, Sentences]
    if None not in by_split and len(by_split) == len(files):
        splits = {
            split: Sentences(read_trees(by_split[split], oddities))
            for split in ("train", "dev", "test")
            if split in by_split
        }
        notes = oddities.notes()
    else:
        blocks = [_blocks(file, oddities) for file in files]
        documents = blocks[0] if len(files) == 1 else [list(chain.from_iterable(file)) for file in blocks]
        splits, note = made_splits(documents, path)
        notes = {"splits": note, **oddities.notes()}
    return Corpus(corpus_name(path), splits, notes=notes, skipped=oddities.skipped())


def made_splits(documents: Sequence[Sequence[Sentence]], path: Path) -> tuple[dict[str, Sentences], str]:
    """Train, dev and test of documents that have no splits, and a note that says how they came about.

    Raises:
        CorpusError: there are fewer than ten sentences.
    """
    numbered = enumerate(documents, 1)
    units = [[replace(one, group=one.group or f"document-{n}") for one in document] for n, document in numbered]
    what = "documents"
    if len(documents) < _FEWEST_DOCUMENTS:
        units, what = [[sentence] for sentence in chain.from_iterable(documents)], "sentences"
    if len(units) < 10:
        raise CorpusError(f"{path}: {len(units)} sentences, of which train, dev and test are made; give 10 or more")
    splits = {
        split: Sentences(sentence for place in places for sentence in units[place])
        for split, places in one_in_ten(len(units)).items()
    }
    return splits, f"made here: of ten {what} in a row eight are train, one is dev, one is test"
