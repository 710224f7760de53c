"""Sentences in pairs, one grammatical: BLiMP (Warstadt et al. 2020) and Marvin & Linzen (2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertology._inputs import described
from bertology.corpora.prompts._json_lines import json_objects
from bertology.corpora.prompts._marvin_linzen import Stimulus, stimuli, stimulus_of
from bertology.corpora.prompts._reading import files_of, words_field
from bertology.corpora.prompts._unasked import Unasked
from bertology.errors import CorpusError

PairKind = Literal["blimp", "marvin_linzen"]

_SUFFIXES = (".jsonl", ".tsv")


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """Two sentences that differ as little as can be, one of them grammatical."""

    id: str
    kind: PairKind
    """Whose set it is from."""
    group: str
    """BLiMP's paradigm (``UID``), or Marvin & Linzen's case."""
    good: str
    """The grammatical sentence."""
    bad: str
    """The other one."""
    frame: str
    """What pairs have in common that are not independent."""
    term: str = ""
    """BLiMP's phenomenon (``linguistics_term``): *island_effects*."""
    field: str = ""
    """BLiMP's field: *syntax*."""


def read_minimal_pairs(path: str | Path) -> Iterator[MinimalPair | Unasked]:
    """Minimal pairs of a file, or of the files of a folder, in the order in which they come.

    - BLiMP's JSON lines: ``sentence_good``, ``sentence_bad``, ``UID``, ``pairID``, ``linguistics_term``, ``field``.
      Each pair is drawn anew by its grammar: its frame is the pair.
    - Marvin & Linzen's JSON lines (``case``, ``condition``, ``sentences``) or table (case, condition and, last, good
      and bad sentence). Negative polarity items have two ungrammatical sentences, hence two pairs: *most* or *many*
      for the licensor makes a group of its own, ``(most, many)``, and so does, in their relative clauses, the licensor
      where it does not reach the item, ``(intrusive)``. Frames are the subject and the words that differ: the rest of
      each sentence is crossed with these. Sentences stay as they are, lower-case and without a period.

    A pair of twice the same sentence cannot be asked (BLiMP has seven).

    Raises:
        CorpusError: a file or line is not as it should be.
    """
    for file in files_of(path, _SUFFIXES, what="minimal pairs"):
        empty = True
        for pair in _pairs(file):
            empty = False
            same = isinstance(pair, MinimalPair) and pair.good == pair.bad
            yield Unasked(pair.id, pair.group, "the two sentences are the same") if same else pair
        if empty:
            raise CorpusError(f"{file}: no item in it; name a file of minimal pairs")


def _pairs(path: Path) -> Iterator[MinimalPair]:
    if path.suffix.lower() != ".jsonl":
        for stimulus in stimuli(path):
            yield from _of_stimulus(stimulus)
        return
    for number, found in json_objects(path):
        where = f"{path}:{number}"
        if "sentences" in found:
            yield from _of_stimulus(stimulus_of(found, where, f"{path.stem}-{number}"))
        else:
            yield _blimp(found, where)


def _blimp(found: Mapping[str, Any], where: str) -> MinimalPair:
    good, bad, paradigm = (words_field(found, name, where) for name in ("sentence_good", "sentence_bad", "UID"))
    number = found.get("pairID")
    if isinstance(number, bool) or not isinstance(number, str | int):
        raise CorpusError(f"{where}: pairID is {described(number)}; write the pair's number")
    name = f"{paradigm}-{number}"
    term, field = (words_field(found, key, where) for key in ("linguistics_term", "field"))
    return MinimalPair(name, "blimp", paradigm, good, bad, name, term, field)


def _of_stimulus(stimulus: Stimulus) -> Iterator[MinimalPair]:
    good, bad, *further = stimulus.sentences
    construction = stimulus.construction
    intrusive = construction is not None and construction.polarity and construction.between
    group = f"{stimulus.case} (intrusive)" if intrusive else stimulus.case
    yield MinimalPair(stimulus.id, "marvin_linzen", group, good, bad, stimulus.frame())
    for sentence in further:
        name, group = f"{stimulus.id}-third", f"{stimulus.case} (most, many)"
        yield MinimalPair(name, "marvin_linzen", group, good, sentence, stimulus.frame(2))
