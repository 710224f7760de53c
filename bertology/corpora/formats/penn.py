"""Trees in brackets as of the Penn Treebank (Marcus et al. 1993), and OntoNotes as of the CoNLL-2012 shared task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from bertology.corpora._corpus import Corpus, Format, corpus_at
from bertology.corpora._files import Oddities, at_least_one, first_line, split_of, text_lines
from bertology.corpora._sentences import Sentence, Target
from bertology.corpora._words import Mention, Span, coreference, penn_words
from bertology.errors import CorpusError, cut, quoted

_FEWEST_DOCUMENTS = 20
_TOPS = frozenset(["", "TOP", "ROOT"])
_SPACING = "sentences without spacing, words joined by the rules of Penn tokens"


@dataclass(slots=True)
class _Bracket:
    n_phrases: int
    n_words: int
    label: str | None = None
    word: str | None = None
    has_children: bool = False


@dataclass(slots=True)
class _Tree:
    """The words, tags and phrases of a tree, as far as it is read."""

    line: int
    opened: list[_Bracket] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    phrases: list[tuple[int, int, str]] = field(default_factory=list)
    """First word, end and category, each before those inside it."""
    n_doubled: int = 0

    def read(self, token: str) -> str:
        """Take a bracket, label or word; returns what is wrong with it, if anything."""
        inner = self.opened[-1] if self.opened else None
        if token == ")" and inner is not None:
            return self._close(self.opened.pop())
        if token == "(" and inner is not None and inner.word is not None:
            return f"a bracket opens after the word {quoted(inner.word)}; close ({cut(inner.label or '')} first"
        if token == "(":
            if inner is not None:
                inner.label, inner.has_children = inner.label or "", True
            self.opened.append(_Bracket(len(self.phrases), len(self.words)))
        elif inner is None:
            outside = f"{quoted(token)} stands outside of any bracket; put trees in brackets"
            return "a bracket closes that was not opened; take it out" if token == ")" else outside
        elif inner.label is None:
            inner.label = token
        elif inner.word is None and not inner.has_children:
            inner.word = token
        else:
            return f"{quoted(token)} stands beside other parts of ({cut(inner.label)}; give it a tag"
        return ""

    def _close(self, node: _Bracket) -> str:
        label = node.label or ""
        if node.word is not None:
            if label != "-NONE-":
                self.words.append(node.word)
                self.tags.append(label)
            return ""
        if not node.has_children:
            return f"a bracket ({cut(label)}) that holds nothing; fill it"
        phrase = (node.n_words, len(self.words), _category(label))
        if node.n_words < len(self.words) and (self.opened or label not in _TOPS):
            if phrase in self.phrases[node.n_phrases :]:
                self.n_doubled += 1
            else:
                self.phrases.insert(node.n_phrases, phrase)
        return ""


class Trees(Format):
    """Bracketed trees, as in the ``.mrg`` files of the Penn Treebank.

    Traces (``-NONE-``) and the phrases that hold nothing else are taken out. Words are written as people write them
    (``-LRB-`` is a bracket again) and spaced by the rules of Penn tokens; their tags are the layer ``xpos``. Targets
    ``constituents`` are all phrases, each before those inside it, labelled without function tags and indices
    (``NP-SBJ-1`` is ``NP``); as in Tenney et al. 2019 tags of single words are no phrases, and phrases over the same
    words all count. A phrase over just one phrase of its own label, as taking out a trace may leave it, is the same
    phrase. The bracket around a whole tree that has no label (or ``TOP``, ``ROOT``) is left out; ``S`` below it is a
    phrase.
    """

    title, suffixes = "trees in brackets", (".mrg", ".ptb")
    _token = re.compile(r"[()]|[^\s()]+")

    def load(self, path: Path) -> Corpus:
        """The corpus in a file of bracketed trees, or in a folder of such files.

        Files whose names state train, dev or test are those splits. Others have no splits of their own: of ten
        documents in a row one is for dev and one for test. A document is a file of a folder, or what stands between
        blank lines in a file put together of many; where these are fewer than twenty, a sentence.
        """
        oddities, files = Oddities(), self.files(path) if path.is_dir() else [path]
        by_split = {split_of(file): file for file in files}
        if None not in by_split and len(by_split) == len(files):
            in_order = [split for split in ("train", "dev", "test") if split in by_split]
            return corpus_at(path, {split: self.read(by_split[split], oddities) for split in in_order}, oddities)
        blocks = [self._blocks(file, oddities) for file in files]
        documents = blocks[0] if len(files) == 1 else [list(chain.from_iterable(file)) for file in blocks]
        return _divided(documents, path, oddities)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence for each tree of a file."""
        return chain.from_iterable(self._blocks(file, oddities))

    def _blocks(self, path: Path, oddities: Oddities) -> list[list[Sentence]]:
        """The sentences between blank lines: in files put together of many, the documents."""
        blocks: dict[int, list[Sentence]] = {}
        empty = f"{path}: no tree in it; give trees in brackets, as in ( (S (NP (NN ..."
        for number, (tree, block) in enumerate(at_least_one(self._trees(path), empty), 1):
            if (sentence := self._sentence(tree, number, path, oddities)) is not None:
                blocks.setdefault(block, []).append(sentence)
        return list(blocks.values())

    def _trees(self, path: Path) -> Iterator[tuple[_Tree, int]]:
        """The trees of a file, each with the number of blank lines between trees before it."""
        tree, blanks = _Tree(0), 0
        for number, line in enumerate(text_lines(path), 1):
            blanks += not tree.opened and line.isspace()
            for token in self._token.findall(line):
                tree = tree if tree.opened else _Tree(number)
                if trouble := tree.read(token):
                    raise CorpusError(f"{path}:{number}: {trouble}")
                if not tree.opened:
                    yield tree, blanks
        if tree.opened:
            raise CorpusError(f"{path}:{tree.line}: the tree that opens here does not close; add the missing bracket")

    def _sentence(self, tree: _Tree, number: int, path: Path, oddities: Oddities) -> Sentence | None:
        where = f"{path.name}:{tree.line}"
        if not tree.words:
            oddities.skip("trees of traces only", where)
            return None
        if n_unlabelled := sum(not label for _, _, label in tree.phrases):
            oddities.note("brackets without a label inside a tree, no phrases", where, times=n_unlabelled)
        if tree.n_doubled:
            oddities.note("phrases over one phrase of the same label, counted once", where, times=tree.n_doubled)
        targets = tuple(Target((start, end), label) for start, end, label in tree.phrases if label)
        oddities.note(_SPACING, where)
        plain, spaced = penn_words(tree.words, tree.tags)
        return Sentence.from_words(
            plain,
            id=f"{path.stem}-{number}",
            space_after=spaced,
            layers={"xpos": tuple(tree.tags)},
            targets={"constituents": targets},
        )


def _category(label: str) -> str:
    return re.split(r"[-=|]", label, maxsplit=1)[0] if label[:1] not in "-=|" else label


def _divided(documents: Sequence[Sequence[Sentence]], path: Path, oddities: Oddities) -> Corpus:
    """Train, dev and test of documents that have no splits: of ten in a row the ninth is dev, the tenth test."""
    numbered = enumerate(documents, 1)
    units = [[replace(one, group=one.group or f"document-{n}") for one in document] for n, document in numbered]
    what = "documents"
    if len(documents) < _FEWEST_DOCUMENTS:
        units, what = [[sentence] for sentence in chain.from_iterable(documents)], "sentences"
    if len(units) < 10:
        raise CorpusError(f"{path}: {len(units)} sentences, of which train, dev and test are made; give 10 or more")
    parts = {"train": range(8), "dev": (8,), "test": (9,)}
    splits = {
        split: [one for number, unit in enumerate(units) if number % 10 in places for one in unit]
        for split, places in parts.items()
    }
    note = f"made here: of ten {what} in a row eight are train, one is dev, one is test"
    return corpus_at(path, splits, oddities, notes={"splits": note})


class OntoNotes(Format):
    """Files of the CoNLL-2012 shared task (Pradhan et al. 2012), ``*_conll``.

    Layers are ``xpos``, ``lemma`` and ``ner`` (IOB2); targets ``constituents`` (all phrases but ``TOP``), ``entities``,
    ``srl`` (predicate, argument, role) and ``coref`` (every pair of mentions in a sentence, label ``"1"`` or ``"0"``),
    as far as a file has them. Words are written and spaced as in :class:`Trees`; documents are groups.
    """

    title, described = "CoNLL-2012", "CoNLL-2012 (…_conll)"
    _begin = re.compile(r"#begin document \(?(?P<name>\S+?)\)?;?(?: part (?P<part>\d+))?\s*")
    _end = "#end document"
    _number, _word, _tag, _parse, _lemma, _names, _first_role = 2, 3, 4, 5, 6, 10, 11
    _fewest_columns, _taken_out = 12, "[WORD]"
    _coreference = "coreference"
    _bracket, _mention = re.compile(r"\([^()*\s]+|\*|\)"), re.compile(r"\(\d+\)?|\d+\)")

    def files(self, path: Path) -> list[Path]:
        """The files of CoNLL-2012 in a folder or below it, in order of name."""
        return sorted(one for one in path.rglob("*_conll") if one.is_file()) if path.is_dir() else [path]

    def is_at(self, path: Path) -> bool:
        """Whether a folder has such files, or a file begins as they do."""
        return bool(self.files(path)) if path.is_dir() else self._begin.fullmatch(first_line(path)) is not None

    def load(self, path: Path) -> Corpus:
        """The corpus in one file of CoNLL-2012, or in all those of a folder and below it.

        One file is the split that its name states, else ``test``. In a folder it is that which its name or the first
        folder on the way to it states (``train/…``, ``development/…``). Where none states any, splits are made: of ten
        documents in a row one is for dev and one for test; where documents are fewer than twenty, of ten sentences.
        """
        oddities, files = Oddities(), self.files(path)

        def split(file: Path) -> str | None:
            folders = map(Path, file.relative_to(path).parts[:-1])
            return next((split for split in map(split_of, (file, *folders)) if split), None)

        splits = {file: split(file) if path.is_dir() else split_of(path) or "test" for file in files}
        if not any(splits.values()):
            documents: dict[str, list[Sentence]] = {}
            for file in files:
                for sentence in self.read(file, oddities):
                    documents.setdefault(f"{file} {sentence.group}", []).append(sentence)
            return _divided(list(documents.values()), path, oddities)
        for file in files:
            if splits[file] is None:
                oddities.skip("files whose names speak of no split", str(file))
        of_split = {name: [file for file in files if splits[file] == name] for name in ("train", "dev", "test")}
        read = {name: chain.from_iterable(self.read(one, oddities) for one in some) for name, some in of_split.items()}
        return corpus_at(path, read, oddities)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """The sentences of a file; those of a document are a group."""
        return at_least_one(
            self._read(file, oddities), f"{file}: no sentence in it; give a file of CoNLL-2012 with words"
        )

    def _read(self, path: Path, oddities: Oddities) -> Iterator[Sentence]:
        cells: list[list[str]] = []
        document, part, begun, count, number = "", "", 0, 0, 0
        for number, line in enumerate(text_lines(path), 1):
            is_end = line.startswith(self._end)
            if cells and (is_end or not line.strip()):
                count += 1
                sentence = self._sentence(cells, path, number - len(cells), oddities)
                yield replace(sentence, id=f"{document}{part}-{count}", group=document)
                cells = []
            match = self._begin.fullmatch(line)
            trouble = f"a document begins inside that of line {begun}; end it first" if match and begun else ""
            if match:
                document, part = match["name"], f"/{match['part']}" if match["part"] else ""
                begun, count = begun or number, 0
            elif is_end:
                begun = 0
            elif line.strip():
                cells.append(line.split())
                trouble = self._trouble(cells) if begun else "a line outside of any document; #begin document is due"
            if trouble:
                raise CorpusError(f"{path}:{number}: {trouble}")
        if begun:
            what = f"the document of line {begun} has no #end document; it may be cut short"
            raise CorpusError(f"{path}:{number}: {what}")

    def _trouble(self, rows: Sequence[Sequence[str]]) -> str:
        *before, cells = rows
        if len(cells) < self._fewest_columns:
            return f"{len(cells)} columns where CoNLL-2012 has {self._fewest_columns} or more"
        if before and len(cells) != len(before[0]):
            return f"{len(cells)} columns where the sentence has {len(before[0])}"
        if cells[self._number] != str(len(before)):
            return f"word number {cut(cells[self._number])} where {len(before)} was due; count from 0"
        taken_out = f"the words were taken out ({self._taken_out}); put them in from OntoNotes first"
        return taken_out if cells[self._word] == self._taken_out else ""

    def _sentence(self, rows: list[list[str]], path: Path, first: int, oddities: Oddities) -> Sentence:
        columns = list(zip(*rows, strict=True))

        def error(place: int, message: str) -> CorpusError:
            return CorpusError(f"{path}:{first + place}: {message}")

        def spans(index: int, what: str) -> list[tuple[Span, str]]:
            return self._spans(columns[index], f"column {index % len(columns) + 1} ({what})", error)

        tags, names = columns[self._tag], columns[self._names]
        oddities.note(_SPACING, f"{path.name}:{first}")
        words, spaced = penn_words(columns[self._word], tags)
        entities = [Target(span, label) for span, label in spans(self._names, "name")]
        layers: dict[str, Sequence[str]] = {"xpos": tags, "lemma": columns[self._lemma]}
        if set(names) != {"-"}:
            ner = ["O"] * len(words)
            for (start, end), label in ((entity.span1, entity.label) for entity in entities):
                ner[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
            layers["ner"] = ner
        srl: list[Target] = []
        for roles in (spans(index, "roles") for index in range(self._first_role, len(columns) - 1)):
            predicate = next((span for span, label in roles if label == "V"), None)
            arguments = [Target(predicate, label, span) for span, label in roles if predicate and label != "V"]
            if not arguments:
                kind = "predicates without arguments" if predicate else "columns of roles without a predicate (V"
                oddities.skip(kind, f"{path.name}:{first}")
            srl += arguments
        phrases = ((span, label) for span, label in spans(self._parse, "parse") if label != "TOP")
        targets = {
            "constituents": [Target(span, _category(label)) for span, label in phrases],
            "entities": entities,
            "srl": srl,
            "coref": coreference(Mention(span, name) for span, name in spans(-1, self._coreference)),
        }
        return Sentence.from_words(
            words,
            space_after=spaced,
            layers={name: [None if value == "-" else value for value in values] for name, values in layers.items()},
            targets=targets,
        )

    def _spans(
        self, column: Sequence[str], what: str, error: Callable[[int, str], CorpusError]
    ) -> list[tuple[Span, str]]:
        """The labelled spans of a column of brackets, each before those inside it; ``(GPE)``, ``(NP*``, ``*))``.

        Those of coreference close by name, ``(12|(5``, ``12)``, and may cross.
        """
        spans: list[tuple[Span, str]] = []
        opened: list[int] = []
        by_name = self._coreference in what
        for place, cell in enumerate(column):
            is_none = cell == "-" or (by_name and cell == "_")
            brackets = (self._mention if by_name else self._bracket).findall("" if is_none else cell)
            if not is_none and "".join(brackets) != (cell.replace("|", "") if by_name else cell):
                raise error(place, f"{what} holds {quoted(cell)}, not brackets as in (NP* or *, or (12|(5)")
            for bracket in brackets:
                label = bracket.strip("()")
                if bracket.startswith("("):
                    opened.append(len(spans))
                    spans.append(((place, place), label))
                if bracket.endswith(")"):
                    fitting = (number for number in reversed(opened) if not by_name or spans[number][1] == label)
                    if (number := next(fitting, None)) is None:
                        raise error(place, f"{what}: a bracket closes that was not opened in this sentence")
                    opened.remove(number)
                    spans[number] = ((spans[number][0][0], place + 1), spans[number][1])
        if opened:
            (place, _), label = spans[opened[-1]]
            raise error(place, f"{what}: ({cut(label)} does not close in the sentence")
        return spans
