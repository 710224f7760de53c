"""The sentences of item ids, taken from the corpus if it is on this machine and is the one that was scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from bertology._inputs import is_numeral
from bertology.corpora import Corpus, Sentences, corpus_is_available, load_corpus
from bertology.errors import BertologyError
from bertology.results.report._runs import AskedCorpus, Run
from bertology.results.tables.rows import answers_itself


@dataclass(frozen=True)
class SplitText:
    """Finds the words of one split."""

    sentences: Sentences

    @cached_property
    def _numbers(self) -> dict[str, int]:
        ids = [self.sentences.id(number) for number in range(len(self.sentences))]
        times = Counter(ids)
        names = {name: number for number, name in enumerate(ids) if times[name] == 1}
        # Sentences without a name of their own are filed under their place.
        return names | {f"{name}#{number + 1}": number for number, name in enumerate(ids)}

    def find(self, item_id: str) -> tuple[str, tuple[tuple[int, int], ...]] | None:
        """The sentence of an item ``sentence:words``, and where in it each of its spans stands (code points).

        Words are ``3``, or ``3-5`` for several; ``3-5,7`` are two spans.
        """
        name, _, words = item_id.rpartition(":")
        if name not in self._numbers:
            return None
        sentence = self.sentences[self._numbers[name]]
        spans = []
        for part in words.split(","):
            first, _, last = part.partition("-")
            last = last or first
            if not (is_numeral(first) and is_numeral(last) and 1 <= int(first) <= int(last) <= len(sentence)):
                return None
            spans.append((sentence.spans[int(first) - 1][0], sentence.spans[int(last) - 1][1]))
        return sentence.text, tuple(spans)


@dataclass(frozen=True)
class SentenceTexts:
    """The splits that were found, and why others were not."""

    splits: Mapping[tuple[str, str], SplitText] = field(default_factory=dict)
    """By fingerprint of the corpus and name of the split."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By fingerprint of the corpus: why its sentences are not shown."""
    allowed: bool = True
    """Whether sentences may be shown at all."""

    def of(self, fingerprint: str, split: str) -> SplitText | None:
        """The words of a split, if they were found."""
        return self.splits.get((fingerprint, split))

    def reason(self, fingerprint: str) -> str:
        """Why sentences of a corpus are not shown."""
        return self.reasons.get(fingerprint) or "the corpus was not found"


def find_sentences(
    runs: Sequence[Run], *, corpora: Sequence[str] = (), columns: str | None = None, with_text: bool = True
) -> SentenceTexts:
    """The sentences that the runs were scored on, as far as they are on this machine; nothing is downloaded for them.

    They are looked for in ``corpora``, of which each must be readable, before those that the runs themselves name.
    """
    # Tables whose items are words of a corpus, not prompts.
    asked = [(run, table.about) for run in runs for table in run.tables if not answers_itself(table.about)]
    wanted: dict[str, set[str]] = {}
    for _, about in asked:
        wanted.setdefault(about.corpus_fingerprint, set()).add(about.split)
    if not with_text:
        return SentenceTexts({}, dict.fromkeys(wanted, "the report was made without text"), allowed=False)
    splits: dict[tuple[str, str], SplitText] = {}

    def take(corpus: Corpus) -> None:
        for split in sorted(wanted.get(corpus.fingerprint, ())):
            if split in corpus:
                splits[corpus.fingerprint, split] = SplitText(corpus[split])

    for name in corpora:
        take(load_corpus(name, columns=columns))
    reasons: dict[str, str] = {}
    # Of this call only: files may be others the next time.
    load = cache(_cut)
    # Of each corpus of a run the name that its first table has.
    for (fingerprint, _), (run, about) in {(a.corpus_fingerprint, r.name): (r, a) for r, a in reversed(asked)}.items():
        if any(key[0] == fingerprint for key in splits):
            continue
        tried = [_look_in(named, fingerprint, load) for named in run.asked or (AskedCorpus(about.corpus),)]
        reasons[fingerprint] = "; ".join(reason for reason in tried if isinstance(reason, str))
        for corpus in tried:
            if isinstance(corpus, Corpus):
                take(corpus)
    return SentenceTexts(splits, reasons)


def _look_in(named: AskedCorpus, fingerprint: str, load: Callable[[AskedCorpus], Corpus]) -> Corpus | str:
    """A corpus if it is the one looked for, else the reason why it is not taken."""
    if not corpus_is_available(named.name):
        return f"corpus {named.name} is not on this machine; name its place with --corpus"
    try:
        corpus = load(named)
    except BertologyError as error:
        return f"corpus {named.name} cannot be read ({error})"
    if corpus.fingerprint != fingerprint:
        return f"corpus {named.name} as it is here is not the one that was scored; name that with --corpus"
    return corpus


def _cut(named: AskedCorpus) -> Corpus:
    """A corpus, or the first sentences of each of its splits."""
    corpus = load_corpus(named.name, columns=named.columns)
    if named.sentences is None:
        return corpus
    return replace(corpus, splits={name: split[: named.sentences] for name, split in corpus.splits.items()})
