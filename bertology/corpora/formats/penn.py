"""Trees in brackets as of the Penn Treebank (Marcus et al. 1993), and OntoNotes as of the CoNLL-2012 shared task."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from bertology._names import by_key
from bertology.corpora._corpus import Corpus, Format, corpus_at
from bertology.corpora._files import Oddities, first_line, split_of, text_lines, wrong
from bertology.corpora._sentences import Sentence, Target
from bertology.corpora._words import Mention, Span, bracketed, coreference, penn_words
from bertology.errors import CorpusError

_FEWEST_DOCUMENTS = 20
_TOPS = frozenset(["", "TOP", "ROOT"])
_SPACING = "sentences without spacing, words joined by the rules of Penn tokens"


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
    _token = re.compile(r"(?P<blank>\s*)(?:\((?!\s*\))\s*(?P<label>[^\s()]*)|(?P<word>[^\s()]*)\s*\))")
    """A bracket that opens, with its label; or one that closes, with the word before it."""

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
        read = ((str(file), *one) for file in files for one in self._blocks(file, oddities))
        documents = by_key((block if len(files) == 1 else file, sentence) for file, block, sentence in read)
        return _divided(list(documents.values()), path, oddities)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence for each tree of a file."""
        return (sentence for _, sentence in self._blocks(file, oddities))

    def _blocks(self, path: Path, oddities: Oddities) -> Iterator[tuple[int, Sentence]]:
        """The sentences, each with a number of what stands between blank lines: in files of many, the document."""
        text, reach, line, block, number = "".join(text_lines(path)), 0, 1, 0, 0
        opened = list[tuple[str, int, int, int]]()  # label, words and phrases before, line
        words, tags, phrases, n_doubled, is_full = list[str](), list[str](), list[tuple[int, int, str]](), 0, False
        while token := self._token.match(text, reach):
            label, word = token["label"], token["word"]
            line += token[0].count("\n")
            reach = token.end()
            if label is not None:
                if not opened:
                    words, tags, phrases, n_doubled = [], [], [], 0
                    block += max(0, token["blank"].count("\n") - 1)
                opened.append((label, len(words), len(phrases), line))
                is_full = False
                continue
            if not opened or bool(word) == is_full:
                reach = token.start()
                break
            (label, first, n_before, start), is_full = opened.pop(), True
            if word and label != "-NONE-":
                words.append(word)
                tags.append(label)
            elif not word and first < len(words) and (opened or label not in _TOPS):
                phrase = (first, len(words), _category(label))
                if phrase in phrases[n_before:]:
                    n_doubled += 1
                else:
                    phrases.insert(n_before, phrase)
            if opened:
                continue
            number += 1
            where = f"{path.name}:{start}"
            if not words:
                oddities.skip("trees of traces only", where)
                continue
            if n_unlabelled := sum(not label for _, _, label in phrases):
                oddities.note("brackets without a label inside a tree, no phrases", where, times=n_unlabelled)
            if n_doubled:
                oddities.note("phrases over one phrase of the same label, counted once", where, times=n_doubled)
            oddities.note(_SPACING, where)
            plain, spaced = penn_words(words, tags)
            targets = {"constituents": [Target((first, end), label) for first, end, label in phrases if label]}
            name, layers = f"{path.stem}-{number}", {"xpos": tags}
            yield block, Sentence.from_words(plain, id=name, space_after=spaced, layers=layers, targets=targets)
        if opened or text[reach:].strip() or not number:
            rest = text[reach:].lstrip()
            line = text.count("\n", 0, len(text) - len(rest)) + 1 if rest or not opened else opened[0][3]
            found = rest[:40] or "a tree that does not close"
            raise wrong(f"{path}:{line}", found, "trees in brackets, as (S (NP (NN tea)) …)")


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
    splits: dict[str, list[Sentence]] = {"train": [], "dev": [], "test": []}
    for number, unit in enumerate(units):
        splits[{8: "dev", 9: "test"}.get(number % 10, "train")] += unit
    note = f"made here: of ten {what} in a row eight are train, one is dev, one is test"
    return corpus_at(path, splits, oddities, notes={"splits": note})


class OntoNotes(Format):
    """Files of the CoNLL-2012 shared task (Pradhan et al. 2012), ``*_conll``.

    Layers are ``xpos``, ``lemma`` and ``ner`` (IOB2); targets ``constituents`` (all phrases but ``TOP``), ``entities``,
    ``srl`` (predicate, argument, role), ``mentions``, each labelled by its entity, and ``coref`` (every pair of
    mentions in a sentence, label ``"1"`` or ``"0"``), as far as a file has them. Words are written and spaced as in
    :class:`Trees`; documents are groups.
    """

    title, described = "CoNLL-2012", "CoNLL-2012 (…_conll)"
    _begin = re.compile(r"#begin document \(?(?P<name>\S+?)\)?;?(?: part (?P<part>\d+))?\s*")
    _end = "#end document"
    _number, _word, _tag, _parse, _lemma, _names, _first_role = 2, 3, 4, 5, 6, 10, 11
    _fewest_columns, _taken_out = 12, "[WORD]"
    _coreference = "coreference"
    _bracket, _mention = re.compile(r"\([^()*\s]+|\*|\)"), re.compile(r"\|?\(\d+\)?|\|?\d+\)")

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
        folders = {file: map(Path, file.relative_to(path).parts[:-1]) for file in files}
        splits = {file: next(filter(None, map(split_of, (file, *folders[file]))), None) for file in files}
        if not path.is_dir():
            splits = {path: split_of(path) or "test"}
        if not any(splits.values()):
            read = ((file, sentence) for file in files for sentence in self.read_all([file], oddities))
            documents = by_key((f"{file} {sentence.group}", sentence) for file, sentence in read)
            return _divided(list(documents.values()), path, oddities)
        for file in (file for file in files if splits[file] is None):
            oddities.skip("files whose names speak of no split", str(file))
        of_split = {name: [file for file in files if splits[file] == name] for name in ("train", "dev", "test")}
        return corpus_at(path, {name: self.read_all(some, oddities) for name, some in of_split.items()}, oddities)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """The sentences of a file; those of a document are a group."""
        rows, document, part, begun, count, number = list[list[str]](), "", "", 0, 0, 0
        for number, line in enumerate(text_lines(file), 1):
            is_end, match, cells, due = line.startswith(self._end), self._begin.fullmatch(line), line.split(), ""
            if rows and (is_end or not cells):
                count += 1
                sentence = self._sentence(rows, file, number - len(rows), oddities)
                yield replace(sentence, id=f"{document}{part}-{count}", group=document)
                rows = []
            if match:
                due = f"{self._end} of the document of line {begun}" if begun else ""
                document, part = match["name"], f"/{match['part']}" if match["part"] else ""
                begun, count = number, 0
            elif is_end:
                begun = 0
            elif cells:
                rows.append(cells)
                if not begun:
                    due = "#begin document"
                elif len(cells) < self._fewest_columns or len(cells) != len(rows[0]):
                    due = f"{max(self._fewest_columns, len(rows[0]))} columns"
                elif cells[self._number] != str(len(rows) - 1):
                    due = f"word number {len(rows) - 1} in column {self._number + 1}"
                elif cells[self._word] == self._taken_out:
                    due = f"words, put in from OntoNotes, not {self._taken_out}"
            if due:
                raise wrong(f"{file}:{number}", line.strip(), due)
        if begun:
            raise wrong(f"{file}:{number}", "the end of the file", f"{self._end} of the document of line {begun}")

    def _sentence(self, rows: list[list[str]], path: Path, first: int, oddities: Oddities) -> Sentence:
        columns, where = list(zip(*rows, strict=True)), f"{path.name}:{first}"

        def spans(index: int, what: str) -> list[tuple[Span, str]]:
            def error(place: int, found: str, due: str) -> CorpusError:
                return wrong(f"{path}:{first + place}: column {index % len(columns) + 1} ({what})", found, due)

            by_name = what == self._coreference  # (12|(5 and 12) may cross; others are (NP* and *))
            cells = ["" if cell == "-" or (by_name and cell == "_") else cell for cell in columns[index]]
            pattern = self._mention if by_name else self._bracket
            return bracketed(cells, pattern, error, name=(lambda label, _: label) if by_name else None)

        tags, names = columns[self._tag], columns[self._names]
        oddities.note(_SPACING, where)
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
                oddities.skip(kind, where)
            srl += arguments
        phrases = ((span, label) for span, label in spans(self._parse, "parse") if label != "TOP")
        targets = {
            "constituents": [Target(span, _category(label)) for span, label in phrases],
            "entities": entities,
            "srl": srl,
            # Entities are numbered anew in each part of a document.
            **coreference([Mention(span, f"{rows[0][1]}/{name}") for span, name in spans(-1, self._coreference)]),
        }
        held = {name: [None if value == "-" else value for value in values] for name, values in layers.items()}
        return Sentence.from_words(words, space_after=spaced, layers=held, targets=targets)
