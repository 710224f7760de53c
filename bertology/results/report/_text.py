"""The sentences behind item ids: taken from the corpus itself, if it is at hand and is the one that was scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bertology.corpora import Corpus, Sentences, corpus_at_hand, load_corpus
from bertology.errors import BertologyError
from bertology.results.report._runs import Run


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

    def find(self, item_id: str) -> tuple[str, int, int] | None:
        """The sentence of an item ``sentence:word``, and where in it the word starts and ends (code points)."""
        name, _, word = item_id.rpartition(":")
        if name not in self._numbers or not word.isdecimal():
            return None
        sentence = self.sentences[self._numbers[name]]
        if not 1 <= int(word) <= len(sentence):
            return None
        start, end = sentence.spans[int(word) - 1]
        return sentence.text, start, end


@dataclass(frozen=True)
class SentenceTexts:
    """The splits that were found, and why others were not."""

    splits: Mapping[tuple[str, str], SplitText] = field(default_factory=dict)
    """By fingerprint of the corpus and name of the split."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By fingerprint of the corpus: why its sentences are not shown."""

    def of(self, fingerprint: str, split: str) -> SplitText | None:
        """The words of a split, if they were found."""
        return self.splits.get((fingerprint, split))

    def reason(self, fingerprint: str) -> str:
        """Why sentences of a corpus are not shown."""
        return self.reasons.get(fingerprint, "the corpus was not found")


def find_sentences(runs: Sequence[Run], *, corpora: Sequence[str] = (), with_text: bool = True) -> SentenceTexts:
    """The sentences that the runs were scored on, as far as they are on this machine; nothing is downloaded for them.

    Args:
        runs: that a report is about.
        corpora: names or paths to look in, before those that the runs themselves name.
        with_text: False to find none.

    Raises:
        BertologyError: one of ``corpora`` cannot be read.
    """
    wanted: dict[str, set[str]] = {}
    reasons: dict[str, str] = {}
    for run in runs:
        for table in run.tables:
            wanted.setdefault(table.about.corpus_fingerprint, set()).add(table.about.split)
    if not with_text:
        return SentenceTexts({}, dict.fromkeys(wanted, "the report was made without text"))
    found: dict[tuple[str, str], SplitText] = {}
    for name in corpora:
        _take(load_corpus(name), wanted, found)
    for run in runs:
        for name, fingerprint in sorted(
            {(run.asked_corpus or t.about.corpus, t.about.corpus_fingerprint) for t in run.tables}
        ):
            if any(key[0] == fingerprint for key in found) or fingerprint in reasons:
                continue
            reason = _look_in(name, fingerprint, wanted, found)
            if reason:
                reasons[fingerprint] = reason
    return SentenceTexts(found, reasons)


def _look_in(
    name: str, fingerprint: str, wanted: Mapping[str, set[str]], found: dict[tuple[str, str], SplitText]
) -> str | None:
    """Take what a corpus has; the reason if it has not what is looked for."""
    if not corpus_at_hand(name):
        return f"corpus {name} is not on this machine; name its place with --corpus"
    try:
        corpus = load_corpus(name)
    except BertologyError as error:
        return f"corpus {name} cannot be read ({error})"
    if corpus.fingerprint != fingerprint:
        return f"corpus {name} is not the one that was scored: its content has changed since; name that with --corpus"
    _take(corpus, wanted, found)
    return None


def _take(corpus: Corpus, wanted: Mapping[str, set[str]], found: dict[tuple[str, str], SplitText]) -> None:
    for split in sorted(wanted.get(corpus.fingerprint, ())):
        if split in corpus:
            found[corpus.fingerprint, split] = SplitText(corpus[split])
