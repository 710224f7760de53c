"""Published sets with files of their own: SemEval-2010 Task 8, SentEval, STS, SQuAD, pronouns, Lin et al. (2019)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from bertology._files import is_numeral, opened, read_json
from bertology.corpora._corpus import TEXTS, Corpus, Format, corpus_at
from bertology.corpora._derived import MAIN_AUXILIARY, SUBJECT_NOUN, alternating
from bertology.corpora._files import Oddities, files_in, first_line, line_blocks, split_of, text_lines, wrong
from bertology.corpora._sentences import Sentence, Target
from bertology.corpora._tables import Row, joined, read_table
from bertology.corpora._words import MASK, Span, sentence_of, sentence_of_text, text_words, words_within
from bertology.corpora.sentence_tasks import sentence_target
from bertology.errors import CorpusError, listed, quoted


class SemEval(Format):
    """SemEval-2010 Task 8: relations between two nominals, ``<e1>`` and ``<e2>`` (Hendrickx et al. 2010).

    Each sentence has one target ``relations``: ``span1`` is the nominal in ``<e1>``, ``span2`` that in ``<e2>``, and
    the label the directed relation as the file states it (``Cause-Effect(e1,e2)``, ``Other``). Words are found by
    spaCy's English tokenizer; the span of a nominal inside a word (*<e1>tea</e1>-time*) is the word, which is noted.
    """

    title, suffixes, language = "SemEval-2010 Task 8", (".txt",), "en"
    _lines = (
        (re.compile(r'(\d+)\t"(.*)"\s*'), "a number, a tab and a sentence in quotes"),
        (re.compile(r"Other|[A-Z][A-Za-z]*(-[A-Z][A-Za-z]*)+\((e1,e2|e2,e1)\)"), "Other, or as Cause-Effect(e1,e2)"),
        (re.compile(r"(Comment.*)?"), "a comment or a blank line"),
    )
    _tag = re.compile(r"(</?e[12]>)")
    _tags: Final = ["<e1>", "</e1>", "<e2>", "</e2>"]

    def recognises(self, file: Path) -> bool:
        """Whether the first line is an item of this task."""
        first = first_line(file)
        return first[:1].isdigit() and any(tag in first for tag in self._tags)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence an item."""
        for first, item in line_blocks(file):
            matches = list[re.Match[str]]()
            for place, line in enumerate([*item, *[""] * (3 - len(item))]):
                pattern, due = self._lines[min(place, 2)]
                if (match := pattern.fullmatch(line.strip())) is None:
                    raise wrong(f"{file}:{first + place}", line, due)
                matches.append(match)
            # White space goes outside of tags.
            tagged = re.sub(r"(<e[12]>)\s+", r" \1", re.sub(r"\s+(</e[12]>)", r"\1 ", matches[0][2]))
            texts = self._tag.split(" ".join(tagged.split()))
            names, ends = texts[1::2], list(accumulate(map(len, texts[::2])))
            if names not in (self._tags, self._tags[2:] + self._tags[:2]) or ends[0] == ends[1] or ends[2] == ends[3]:
                due = "a nominal in <e1> and </e1>, one in <e2> and </e2>"
                raise wrong(f"{file}:{first}: tags", " ".join(names), due)
            text, spans = "".join(texts[::2]), list[Span]()
            words = text_words(text, "en")
            for opening in ("<e1>", "<e2>"):
                place = names.index(opening)
                start, end = words_within(words, ends[place], ends[place + 1])
                spans.append((start, end))
                if (words[start][0], words[end - 1][1]) != (ends[place], ends[place + 1]):
                    oddities.note("nominals that are part of a word, given by the word", f"{file.name}:{first}")
            yield sentence_of(text, words, matches[0][1], {"relations": (Target(spans[0], item[1].strip(), spans[1]),)})


class SentEval(Format):
    """The ten probing tasks of Conneau et al. (2018): a split, a label and a sentence in each line.

    The name of the file states the task. Each sentence has one target over all of its words, such as
    ``sentence:tense`` in ``past_present.txt``, whose label is that of the file (``PAST``). Spaces separate words.
    """

    title, suffixes, described = "SentEval", (".txt",), "tasks of SentEval (.txt)"
    _splits: Final = {"tr": "train", "va": "dev", "te": "test"}
    _tasks: Final = {
        "sentence_length": "length",
        "word_content": "words",
        "tree_depth": "depth",
        "top_constituents": "top",
        "bigram_shift": "shift",
        "past_present": "tense",
        "subj_number": "subject_number",
        "obj_number": "object_number",
        "odd_man_out": "odd_word",
        "coordination_inversion": "coordination",
    }

    def recognises(self, file: Path) -> bool:
        """Whether the first line has a split, a label and a sentence."""
        split, *values = first_line(file).split("\t")
        return split in self._splits and len(values) == 2

    def load(self, path: Path) -> Corpus:
        """The corpus in one of the files, or in a folder with some of them."""
        splits: dict[str, list[Sentence]] = {split: [] for split in self._splits.values()}
        for file in filter(self.recognises, self.files(path)):
            if file.stem not in self._tasks:
                raise wrong(f"{file}: name of the file", file.stem, f"that of a task, {listed(self._tasks)}")
            target = sentence_target(self._tasks[file.stem])
            for row in read_table(file, has_names=False).rows():
                split, label, text = map(row.text, "123")
                if split not in self._splits:
                    raise row.error("1", "tr, va or te")
                sentence = sentence_of_text(text, split_at_spaces=True, name=f"{file.stem}:{row.number}")
                labelled = replace(sentence, targets={target: (Target((0, len(sentence)), label),)})
                splits[self._splits[split]].append(labelled)
        return corpus_at(path, splits, language="en", reference="Conneau et al. 2018")


class Sts(Format):
    """The STS benchmark (Cer et al. 2017): pairs of sentences with their similarity, 0 to 5 (``sts-dev.csv``).

    A line has genre, file, year, number, score and two sentences, with tabs between and without quotation marks; more
    may follow. A pair is one sentence of two texts, with the target ``similarity`` over both.
    """

    title, suffixes, language, reference = "the STS benchmark", (".csv",), "en", "Cer et al. 2017"
    _score = re.compile(r"[0-5](\.\d+)?")

    def recognises(self, file: Path) -> bool:
        """Whether the first line has a score and two sentences at their places."""
        values = first_line(file).split("\t")
        return len(values) >= 7 and self._score.fullmatch(values[4]) is not None

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence a pair."""
        for number, line in enumerate(text_lines(file), 1):
            values = line.rstrip("\r\n").split("\t")
            if len(values) < 7 or not self._score.fullmatch(values[4]) or not all(map(str.strip, values[5:7])):
                raise wrong(f"{file}:{number}", line.strip(), "seven values with tabs between, as sts-dev.csv has them")
            pair = joined(*(sentence_of_text(text.strip(), language="en") for text in values[5:7]))
            (first, second), name = pair.targets[TEXTS], f"{file.stem}-{number}"
            score = Target(first.span1, values[4], second.span1)
            yield replace(pair, id=name, targets={**pair.targets, "similarity": (score,)})


ANSWERS = "answer"
"""Name of the targets that are answers: ``span1`` is the question, ``span2`` the answer in the text, the label the
answer as it is written. A question without an answer has one target, with an empty label and no ``span2``."""


@dataclass(frozen=True)
class _Answer:
    text: str
    answer_start: int


@dataclass(frozen=True)
class _Question:
    id: str
    question: str
    answers: list[_Answer]
    is_impossible: bool = False


@dataclass(frozen=True)
class _Paragraph:
    context: str
    qas: list[_Question]


@dataclass(frozen=True)
class _Article:
    paragraphs: list[_Paragraph]


@dataclass(frozen=True)
class _File:
    data: list[_Article]


def question_sentence(question: str, text: str, answers: Sequence[tuple[str, int]], *, name: str = "") -> Sentence:
    """A question and the text that it is about as one sentence, with targets ``answer``.

    Args:
        question: the question.
        text: the text that holds the answers.
        answers: each as it is written and the place of its first character in the text; none where the text does not
            answer the question.
        name: identifier of the question.

    Raises:
        CorpusError: question or text has no word, or an answer is not at its place.
    """
    where = f"question {quoted(name)}: "
    asked = sentence_of_text(question, language="en", name=name, where=where)
    about = sentence_of_text(text, language="en", where=where)
    n, targets = len(asked), []
    for answer, start in answers:
        if not answer or text[start : start + len(answer)] != answer or start < 0:
            raise wrong(f"{where}answer at character {start} of the text", answer, "what stands there, counted from 0")
        first, last = words_within(list(about.spans), start, start + len(answer))
        targets.append(Target((0, n), answer, (first + n, last + n)))
    sentence = joined(asked, about)
    return replace(sentence, targets={**sentence.targets, ANSWERS: tuple(targets) or (Target((0, n), ""),)})


class Squad(Format):
    """Questions about a text whose answers are parts of it: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018).

    A sentence is a question followed by its paragraph (:func:`question_sentence`); its id is that of the question.
    """

    title, suffixes, language = "questions in SQuAD's JSON", (".json",), "en"
    described = "SQuAD (.json)"
    reference = "Rajpurkar et al. 2016, 2018"
    _bytes_looked_at = 1 << 16

    def recognises(self, file: Path) -> bool:
        """Whether a file has the keys of SQuAD near its beginning."""
        with opened(file, error=CorpusError) as content:
            head = content.read(self._bytes_looked_at)
        return b'"data"' in head and b'"paragraphs"' in head

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence a question."""
        whole: _File = read_json(file, what="questions of SQuAD", form=_File, remedy="check the file")
        paragraphs = (paragraph for article in whole.data for paragraph in article.paragraphs)
        for paragraph, question in ((one, question) for one in paragraphs for question in one.qas):
            answers = [] if question.is_impossible else [(a.text, a.answer_start) for a in question.answers]
            try:
                yield question_sentence(question.question, paragraph.context, answers, name=question.id)
            except CorpusError as error:
                raise CorpusError(f"{file}: {error}") from None


class Winograd(Format):
    """Hard pronouns: Definite Pronoun Resolution (Rahman & Ng 2012) and Winograd schemas (Levesque et al. 2012).

    An item is four lines and a blank one: the sentence, its pronoun, two candidates separated by a comma, and the right
    one. Each sentence has two targets ``winograd``, labelled ``"1"`` where the pronoun (``span2``) means the candidate
    (``span1``), else ``"0"``. The pronoun may be written ``[MASK]``, as in a release of the 273 schemas that does not
    state which it was; it stays so in the text. Files state no places. A candidate is the first stretch of words that
    spells it, whatever the case; where none does, it may differ by its determiner (*the gap* for *a gap*, *Anne's
    daughter* for *her daughter*). A pronoun that occurs more than once is the first after both candidates. Items whose
    candidates or pronoun are nowhere are left out, counted and listed.
    """

    title, suffixes, described = "hard pronouns", (".txt", ".c"), "pronouns of DPR and WSC273 (.txt, .c)"
    _determiners: Final = frozenset(
        ["the", "a", "an", "my", "your", "his", "her", "its", "our", "their", "this", "that", "these", "those", "some"]
    )
    _dev_every = 10
    _gap = re.compile(r"\[MASK\] (?=[.,;:!?'])")
    _lines = "the sentence, its pronoun, two candidates parted by a comma, and the one that is right"

    def recognises(self, file: Path) -> bool:
        """Whether the first lines are an item: a sentence, a word of it, two names, one of these again."""
        lines = [line.strip() for line, _ in zip(text_lines(file), range(4), strict=False)]
        if len(lines) < 4 or not all(lines):
            return False
        text, pronoun, written, answer = lines
        names = [name.strip() for name in written.split(",")]
        return pronoun in text and answer in names and len(names) == 2

    def load(self, path: Path) -> Corpus:
        """The corpus in a folder of such files (``train.c``, ``test.c``), or in one file.

        A file whose name states no split is a split of that name in a folder (``wsc273``), so that one may train on
        one set and test on another; alone it is ``test``. Without dev every tenth schema of train is dev, with both its
        sentences: they hardly differ and have opposite answers, so that one of them held out alone would be answered by
        its twin, and wrongly.
        """
        oddities, splits = Oddities(), dict[str, list[Sentence]]()
        files = list(filter(self.recognises, self.files(path)))
        for file in files:
            split = split_of(file) or ("test" if len(files) == 1 else file.name.partition(".")[0].lower())
            if split in splits:
                raise wrong(path, file.name, f"one file of the split {split}; keep one of them")
            splits[split] = list(self.read(file, oddities))
        if "train" in splits and "dev" not in splits:
            # A schema is two neighbouring items of the file.
            of = {one.id: (int(one.id.rpartition("-")[2]) - 1) // 2 % self._dev_every for one in splits["train"]}
            splits["dev"] = [one for one in splits["train"] if of[one.id] == self._dev_every - 1]
            splits["train"] = [one for one in splits["train"] if of[one.id] != self._dev_every - 1]
        return corpus_at(path, splits, oddities, language="en")

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence an item."""
        for count, (first, item) in enumerate(line_blocks(file), 1):
            lines = [" ".join(line.split()) for line in item]
            text, pronoun, written, answer = lines if len(lines) == 4 else [""] * 4
            candidates = [candidate.strip() for candidate in written.split(",")]
            if len(candidates) != 2 or len({*candidates, ""}) != 3 or answer not in candidates:
                raise wrong(f"{file}:{first}", " / ".join(item), self._lines)
            where = f"{file.name}:{first}"
            if (sentence := self._sentence(text, pronoun, candidates, answer, where, oddities)) is not None:
                yield replace(sentence, id=f"{file.name.partition('.')[0]}-{count}")

    def _sentence(
        self, text: str, pronoun: str, candidates: list[str], answer: str, where: str, oddities: Oddities
    ) -> Sentence | None:
        text, spans = self._gap.sub(MASK, text), dict[str, Span]()

        def places(phrase: str) -> list[Span]:
            pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)"
            return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]

        def free(found: list[Span]) -> list[Span]:
            """The places that overlap no candidate."""
            return [one for one in found if not any(one[0] < end and start < one[1] for start, end in spans.values())]

        for candidate in sorted(candidates, key=len, reverse=True):  # the longer one may hold the other
            found, owner = places(candidate), f"{candidates[candidate == candidates[0]]}'s"
            determiner, _, rest = candidate.partition(" ")
            if not found and rest and determiner.lower() in {*self._determiners, owner.lower()}:
                # With another determiner, or none: *Anne's daughter* for *a daughter*, *her daughter*.
                for start, end in places(rest):
                    before = re.search(r"(\w+) $", text[:start])
                    is_determiner = before is not None and before[1].lower() in self._determiners
                    found.append((before.start() if before and is_determiner else start, end))
            if not (found := free(found)):
                oddities.skip("items with a candidate that is not in the sentence", where)
                return None
            spans[candidate] = found[0]
        found = free(
            places(pronoun) if pronoun != MASK else [match.span() for match in re.finditer(re.escape(MASK), text)][:1]
        )
        after = [span for span in found if span[0] >= max(end for _, end in spans.values())]
        if not found:
            oddities.skip("items whose pronoun is not in the sentence", where)
            return None
        if pronoun == MASK:
            oddities.note(f"pronouns written {MASK} in the file, and so in the text", where)
        if len(found) > 1:
            oddities.note("sentences with their pronoun more than once, the first after both candidates taken", where)
        words = text_words(text, "en")
        place, labels = words_within(words, *(after or found)[0]), {one: str(int(one == answer)) for one in candidates}
        targets = [Target(words_within(words, *spans[one]), labels[one], place) for one in candidates]
        return sentence_of(text, words, "", {"winograd": tuple(sorted(targets, key=lambda target: target.span1))})


class Gap(Format):
    """GAP (Webster et al. 2018): texts of Wikipedia with an ambiguous pronoun and two names, read with their offsets.

    Each text of several sentences is one sentence of the corpus, with two targets ``gap``, labelled ``"1"`` where the
    pronoun (``span2``) means the name (``span1``), else ``"0"``; it may mean neither. The development set, which is as
    large as the test set, is ``train``, and the validation set ``dev``.
    """

    title, suffixes, language = "GAP", (".tsv",), "en"
    described = "GAP (gap-development.tsv …)"
    reference = "Webster et al. 2018"
    _columns: Final = (
        *("ID", "Text", "Pronoun", "Pronoun-offset"),
        *("A", "A-offset", "A-coref", "B", "B-offset", "B-coref"),
    )
    _splits: Final = {"development": "train", "train": "train", "validation": "dev", "dev": "dev", "test": "test"}
    _labels: Final = {"TRUE": "1", "FALSE": "0"}

    def recognises(self, file: Path) -> bool:
        """Whether the first line has the names of its columns."""
        return tuple(first_line(file).rstrip("\r\n").split("\t")[: len(self._columns)]) == self._columns

    def load(self, path: Path) -> Corpus:
        """The corpus in a folder of the three files, or in one of them."""
        oddities, splits = Oddities(), dict[str, list[Sentence]]()
        for file in filter(self.recognises, self.files(path)):
            split = self._splits.get(file.stem.rpartition("-")[2].lower())
            if split is None or split in splits:
                raise wrong(path, file.name, "gap-development.tsv, gap-validation.tsv and gap-test.tsv, each once")
            splits[split] = list(self.read(file, oddities))
        return corpus_at(path, splits, oddities, language="en", reference=self.reference)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence a text."""
        for row in read_table(file).rows():
            text = str(row.values["Text"])  # white space at its beginning counts
            words = text_words(text, "en")

            def span(name: str, row: Row = row, text: str = text, words: list[Span] = words) -> Span:
                phrase, start = row.string(name), row.string(f"{name}-offset")
                if not is_numeral(start) or not phrase or not text.startswith(phrase, int(start)):
                    raise row.error(f"{name}-offset", f"the character, from 0, that {quoted(phrase)} begins at")
                return words_within(words, int(start), int(start) + len(phrase))

            pronoun, targets = span("Pronoun"), list[Target]()
            for name in ("A", "B"):
                if (label := self._labels.get(row.string(f"{name}-coref").upper())) is None:
                    raise row.error(f"{name}-coref", "TRUE or FALSE")
                targets.append(Target(span(name), label, pronoun))
            yield sentence_of(text, words, row.string("ID"), {"gap": tuple(targets)})


class OpenSesame(Format):
    """Generated sentences of Lin, Tan & Frank (2019), with the main auxiliary or the subject noun of each.

    Every auxiliary of a sentence of ``aux.*`` is a target ``main_auxiliary``, every noun of one of ``sbjn.*`` a target
    ``subject_noun``, with the label ``yes`` for the one that is asked for and ``no`` for others. ``train`` and ``dev``
    come from the file ``train``, of which one sentence in ten is for dev. In ``test`` the sentences of the files
    ``test``, where the first auxiliary or noun is the one, and ``gen``, where it is not, alternate. Sentences of two
    questions alternate as well, so that any part from the beginning has some of all. Files ``.pos`` are not read: those
    of the subject noun do not belong to its sentences.
    """

    title, suffixes = "Lin et al. 2019", (".train", ".test", ".gen")
    described = "sentences of Lin et al. 2019 (aux.train …)"
    _targets: Final = {"aux": MAIN_AUXILIARY, "sbjn": SUBJECT_NOUN}
    _dev_every = 10
    _modifiers: Final = frozenset({"queen", "worker", "house", "race", "german"})
    """First words of the compounds in sentences for generalisation, which their training files lack: *queen bee*."""

    def files(self, path: Path) -> list[Path]:
        """The files of a folder, or of the folders in it, by their names: ``aux.train``, ``sbjn.gen``."""
        files = files_in(path, self.suffixes, below=True) if path.is_dir() else []
        return [file for file in files if file.stem in self._targets]

    def load(self, path: Path) -> Corpus:
        """The corpus in a folder with the files of one of their questions, or of both."""
        read = {file.name: list(self._lines(file)) for file in self.files(path)}
        stems = sorted({name.partition(".")[0] for name in read})
        if lacking := {f"{stem}{suffix}" for stem in stems for suffix in self.suffixes} - read.keys():
            raise CorpusError(f"{path}: no {listed(sorted(lacking))}; give the folder with all three files")
        # All words that are the answer somewhere are the auxiliaries, or the nouns, of the grammar.
        answers = {stem: {words[place] for _, words, place in read[f"{stem}.train"]} for stem in stems}

        def marked(name: str) -> Iterator[Sentence]:
            stem, _, split = name.partition(".")
            known = answers[stem] | self._modifiers
            for number, words, place in read[name]:
                others = (at for at, word in enumerate(words) if word in known or at == place)
                targets = tuple(Target((at, at + 1), "yes" if at == place else "no") for at in others)
                yield Sentence.from_words(words, id=f"{stem}-{split}-{number}", targets={self._targets[stem]: targets})

        train, last = [list(marked(f"{stem}.train")) for stem in stems], self._dev_every - 1
        splits = {
            "train": alternating(*([one for n, one in enumerate(some) if n % (last + 1) != last] for some in train)),
            "dev": alternating(*(some[last :: last + 1] for some in train)),
            "test": alternating(*(marked(f"{stem}{suffix}") for suffix in (".test", ".gen") for stem in stems)),
        }
        return corpus_at(path, splits, language="en", reference="Lin et al. 2019")

    def _lines(self, file: Path) -> Iterator[tuple[int, list[str], int]]:
        for row in read_table(file, has_names=False).rows():
            words, place = row.text("1").split(), row.text("2") if "2" in row.values else ""
            if not is_numeral(place) or int(place) >= len(words):
                raise row.error("2", f"the place of a word of the sentence, 0 to {len(words) - 1}")
            yield row.number, words, int(place)
