"""A model and a corpus: the sentences of each split, how the model reads their words, and which vectors are stored."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertology import encoders
from bertology.activations import Entry, Recipe
from bertology.corpora import Corpus, Sentence, Sentences, Shard, ShardedSentences
from bertology.corpora.prompts import with_masks
from bertology.encoders import Encoding, ModelShape, ModelSource, model_fingerprint
from bertology.encoders.batching import NOT_APART, SHARED
from bertology.encoders.sources import MemorySource
from bertology.errors import BertologyError, CorpusError, quoted
from bertology.families.request import Init, ProbeRequest, ReadoutConfig, parse_layers

_HELD_OUT_EVERY = 10
_NUMBERS = re.compile(r"\d+")  # of the length of the sentence, which differs from one to the next
T = TypeVar("T")


@dataclass(frozen=True)
class Splits:
    """The sentences of each split, and the items that tasks bring themselves."""

    train: Sentences = field(default_factory=Sentences)
    dev: Sentences = field(default_factory=Sentences)
    test: Sentences = field(default_factory=Sentences)
    notes: tuple[str, ...] = ()
    items: Mapping[str, Any] = field(default_factory=dict)  # items of tasks that bring their own, by task
    chosen_on: str = "dev"  # the corpus's name of the split that is used to choose
    tested_on: str = "test"  # the corpus's name of the split that is scored
    folds: tuple[Splits, ...] = ()
    """The folds of a cross-validation, in each of which readouts are fitted apart; here all three splits are all of the
    sentences, and so they are in each fold, whose items are limited by ``within``."""
    fold: int | None = None  # the number of the fold; None outside of a cross-validation
    within: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """The sentences of each split that are in the fold."""
    _prepared: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def by_name(self) -> Mapping[str, Sentences]:
        """``train``, ``dev`` and ``test``, whatever the corpus calls them."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def prepared(self, key: Any, make: Callable[[], T]) -> T:
        """The result of ``make``, made once for each key in this process and kept as long as the splits are.

        A :class:`bertology.BertologyError` is kept as well and raised again.
        """
        if key not in self._prepared:
            try:
                self._prepared[key] = make()
            except BertologyError as error:
                self._prepared[key] = error
        made: T = self._prepared[key]
        if isinstance(made, BertologyError):
            raise made
        return made

    @cached_property
    def n_repeated(self) -> int | None:
        """Number of texts of test that are in train as well, of folds in that of the same fold; None where nothing is
        fitted, and so no train is read, or where train is in shards."""
        if not len(self.train) or isinstance(self.train, ShardedSentences):
            return None
        train = list(map(self.train.text, range(len(self.train))))
        test = list(map(self.test.text, range(len(self.test))))
        repeated, every = 0, itertools.repeat(True)
        for fold in self.folds or (self,):
            known = set(itertools.compress(train, fold.within.get("train", every)))
            repeated += sum(map(known.__contains__, itertools.compress(test, fold.within.get("test", every))))
        return repeated

    def __getstate__(self) -> dict[str, Any]:
        # What is made of the sentences is made again where they are sent to.
        return {**self.__dict__, "_prepared": {}}


def choose_folds(corpus: Corpus, n_folds: int, *, train: str, test: str) -> tuple[Corpus, Splits]:
    """The folds of a corpus without splits, or of train, dev and test together, and the corpus as their one split."""
    whole, folds = corpus.in_folds(n_folds, {train, "dev", test})
    ((name, sentences),) = whole.splits.items()
    sizes = [int(within["test"].sum()) for within in folds]
    note = f"{name} of {corpus.name}: {min(sizes):,} to {max(sizes):,} sentences in a fold"
    every = (sentences,) * 3
    parts = (Splits(*every, (note,), tested_on=name, fold=n, within=within) for n, within in enumerate(folds))
    return whole, Splits(*every, (note,), tested_on=name, folds=tuple(parts))


def choose_splits(corpus: Corpus, *, train: str, test: str | None) -> Splits:
    """The splits of ``corpus``; without a dev split every tenth training sentence is held out in its place."""
    for role, name in (("train", train), ("test", test)):
        if name is not None and name not in corpus:
            remedy = f"choose one to {role} on by --{role}-split, or give a corpus that has it"
            raise corpus.split_not_found(name, remedy=remedy)
    if train == test:
        remedy = "choose another by --train-split or --test-split"
        raise CorpusError(f"split {quoted(train)} cannot both train and test: {remedy}")
    tested = Sentences() if test is None else corpus[test]
    if "dev" in corpus and "dev" not in (train, test):
        return Splits(corpus[train], corpus["dev"], tested, (), tested_on=test or "")
    whole = corpus[train]
    held_out = set(range(_HELD_OUT_EVERY - 1, len(whole), _HELD_OUT_EVERY))
    if not held_out:
        n = len(whole)
        raise CorpusError(f"split {quoted(train)} of {corpus.name} has {n} sentences: too few to hold some out")
    kept = Sentences(whole[i] for i in range(len(whole)) if i not in held_out)
    none = "no dev split is left" if "dev" in corpus else "no dev split"
    note = f"{none}: every {_HELD_OUT_EVERY}th sentence of {train} is held out to choose by"
    return Splits(kept, Sentences(whole[i] for i in sorted(held_out)), tested, (note,), tested_on=test or "")


def splits_to_read(corpus: Corpus, *, test: str, choose: bool) -> Splits:
    """The splits of ``corpus`` where nothing is fitted: what is scored and, to choose by, dev or else train."""
    if test not in corpus:
        remedy = "choose another by --test-split, or give a corpus that has it"
        raise corpus.split_not_found(test, remedy=remedy)
    if not choose:
        return Splits(test=corpus[test], tested_on=test)
    to_choose = next((name for name in ("dev", "train") if name in corpus and name != test), None)
    if to_choose is None:
        note = f"{corpus.name} has no split to choose heads on: they are chosen on {test}, which flatters them"
        return Splits(test=corpus[test], notes=(note,), tested_on=test)
    notes = () if to_choose == "dev" else (f"no dev split: heads are chosen on {to_choose}",)
    return Splits(Sentences(), corpus[to_choose], corpus[test], notes, chosen_on=to_choose, tested_on=test)


Reasons = Mapping[int, str]  # words of a split that are left out, by number, and why
Windows = Mapping[str, NDArray[np.int64]]  # the window that each word of a split is read from, −1 where there is none
DIVIDED = "spans that divide words sharing all subwords"
"""The reason for leaving out a span of words whose vectors are those of another span."""


@dataclass(frozen=True)
class Alignment:
    """The alignment of the words of a text with the subwords of a model."""

    skipped: Reasons = field(default_factory=dict)  # words without a vector, and why
    joined: frozenset[int] = frozenset()  # words with exactly the subwords of the word before them
    n_unknown: int = 0  # number of words with an unknown subword
    n_long: int = 0  # number of words in sentences longer than the model takes: read in several windows, or skipped

    @classmethod
    def of_pieces(cls, pieces: encoders.Pieces) -> Alignment:
        """The alignment of a text that was tokenised."""
        skipped = {one.word: _NUMBERS.sub("…", one.reason) for one in pieces.skipped}
        return cls(skipped, frozenset(pieces.joined.tolist()), pieces.n_unknown, pieces.n_long)

    @classmethod
    def of_entry(cls, entry: Entry) -> Alignment:
        """The alignment of a text whose vectors are stored."""
        stored = entry.manifest
        skipped = {word: _NUMBERS.sub("…", reason) for word, _, _, reason in stored.skipped}
        return cls(skipped, frozenset(stored.joined), stored.n_unknown, stored.n_long)

    @cached_property
    def shared(self) -> frozenset[int]:
        """Words with exactly the subwords of another word."""
        return self.joined.union(map((-1).__add__, self.joined))

    def left_out(self, shared: str) -> Reasons:
        """Words that are left out under a treatment of words that share all their subwords, and why."""
        return {**self.skipped, **(dict.fromkeys(self.shared, SHARED) if shared == "exclude" else {})}

    @property
    def counts(self) -> dict[str, Any]:
        """The columns of rows that count words of the text."""
        return {"n_unknown": self.n_unknown, "n_shared": len(self.shared), "n_long": self.n_long}


def text_counts(encoder: encoders.Encoder, texts: Iterable[str]) -> dict[str, Any]:
    """The same columns of texts that are no sentences of a corpus: their words are what spaces part."""
    mask = str(encoder.tokenizer.mask_token)
    sentences = [Sentence.from_words(with_masks(text, mask).split()) for text in dict.fromkeys(texts)]
    return Alignment.of_pieces(encoder.tokenize(Sentences(sentences))).counts


PIECES_A_WORD = 1.3  # subwords of a word in running text, roughly
Signal = Literal["words", "cls"] | Encoding
"""Stored vectors of a corpus: of its words, or of the special token before each sentence; or of the words of the test
split in another encoding."""
Unreadable = tuple[Mapping[str, Reasons], Windows]
"""Words of each split that are left out, and the windows in which the others are read, where they matter."""


@dataclass(frozen=True)
class Weights:
    """The weights of a model: pretrained ones, or a draw of random ones."""

    init: Init
    seed: int = 0  # seed of random weights; 0 for pretrained ones


@dataclass(frozen=True)
class ModelCorpus:
    """One model and one corpus, resolved: everything but the tasks."""

    request: ProbeRequest
    source: ModelSource
    shape: ModelShape
    corpus: Corpus
    splits: Splits
    layers: tuple[int, ...]  # the layers that are asked about
    fingerprints: Mapping[Weights, str]
    """Fingerprints of the model by weights; those of the model that was asked for come first."""
    reference: ModelCorpus | None = None
    """The model that this one is compared with, on the same corpus and splits, with its own weights alone."""

    @property
    def weights(self) -> Weights:
        """The weights of the requested model."""
        return next(iter(self.fingerprints))

    def on(self, corpus: Corpus, splits: Splits) -> ModelCorpus:
        """The same model, and the one that it is compared with, on other sentences."""
        reference = None if self.reference is None else self.reference.on(corpus, splits)
        return replace(self, corpus=corpus, splits=splits, reference=reference)

    def texts(self, names: Iterable[str]) -> dict[str, Sentences]:
        """The sentences of some splits, by ``train``, ``dev`` and ``test``; in a fold those that are in it."""
        whole, within = self.splits.by_name, self.splits.within
        part = {name: Sentences(itertools.compress(whole[name], chosen)) for name, chosen in within.items()}
        return {name: part.get(name, whole[name]) for name in names}

    def pass_flops(self, n_words: float) -> float:
        """Floating-point operations of a forward pass over so many words, up to the deepest layer that is read."""
        return n_words * PIECES_A_WORD * 24 * self.shape.dim**2 * max(self.layers, default=0)

    def layers_of(self, config: ReadoutConfig) -> tuple[int, ...]:
        """The layers that a readout configuration reads, which have to be among those that are asked about."""
        if config.layers is None:
            return self.layers
        chosen = parse_layers(config.layers, self.shape.n_layers)
        others = [layer for layer in chosen if layer not in self.layers]
        if others:
            problem = f"is to read layer {others[0]}, which is not among the layers asked about"
            raise BertologyError(f"readout {config.title} {problem}: name it in layers too")
        return chosen

    def recipe(self, weights: Weights, sentences: Sentences | Shard, signal: Signal = "words") -> Recipe:
        """The recipe of the stored vectors of a split."""
        return Recipe(
            model_fingerprint=self.fingerprints[weights],
            text_fingerprint=sentences.text_fingerprint,
            pooling="cls" if signal == "cls" else self.request.pooling,
            compute_dtype=self.request.dtype,
            stored_dtype=self.request.stored_dtype,
            on_long=self.request.on_long,
            max_pieces=self.request.max_pieces,
            encoding=signal if isinstance(signal, Encoding) else None,
        )

    def check_cls(self) -> None:
        """Raise unless the model puts a special token before the text, as its tokenizer shows."""
        self._reader.first_tokens(Sentences())

    def called(self, weights: Weights) -> str:
        """Display name of the model with these weights."""
        if weights.init != "random":
            return self.source.title
        return f"random {self.source.title}" + (f" (seed {weights.seed})" if weights.seed else "")

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of result rows that describe the corpus and the split tested on."""
        corpus, splits = self.corpus, self.splits
        left_out = dict(zip(corpus.skipped, map(len, corpus.skipped.values()), strict=True))
        return {
            "corpus_fingerprint": corpus.fingerprint,
            "split": splits.tested_on,
            "language": corpus.language,
            "annotation": "silver" if corpus.is_silver else "gold",
            "n_repeated": splits.n_repeated,
            "left_out": json.dumps(left_out, sort_keys=True),
        }

    @property
    def reading_identity(self) -> dict[str, Any]:
        """The settings that decide the vectors, besides model, corpus and dtype."""
        asked = self.request
        return {"pooling": asked.pooling, "stored_dtype": asked.stored_dtype, "on_long": asked.on_long, **self.sharing}

    @cached_property
    def alignments(self) -> Mapping[str, Alignment]:
        """The alignment of the words of each split.

        It is known of what is in the store, else from the tokenizer, without the model's weights. A sentence that
        ``on_long`` forbids is no concern here: it is refused when it is read.
        """
        found = {}
        try:
            for name, text in self.splits.by_name.items():
                if isinstance(text, ShardedSentences):  # each shard has its own
                    continue
                entry = self.recipe(self.weights, text).find(self.layers)  # subwords are the same for all weights
                found[name] = self._aligned(name) if entry is None else Alignment.of_entry(entry)
        except BertologyError:
            return {}  # The cells that read the model or the text report what is wrong with it.
        return found

    def _aligned(self, split: str) -> Alignment:
        """A split as the tokenizer cuts it; made once for all checkpoints of a training."""
        if not self.splits.by_name[split].n_words:
            return Alignment()
        # Configuration and tokenizer files decide the subwords, whatever the weights.
        is_in_files = not isinstance(self.source, MemorySource)
        same = model_fingerprint(self.source, init="random") if is_in_files else next(iter(self.fingerprints.values()))
        key = ("alignment", same, self.request.on_long, self.request.max_pieces, split)
        return self.splits.prepared(key, lambda: Alignment.of_pieces(self._tokenized([split])[split]))

    @cached_property
    def unreadable(self) -> Mapping[str, Reasons]:
        """The words that are left out, by split: those without a vector and, unless
        ``shared_subwords`` includes them, those that share all their subwords with another word."""
        unreadable = dict[str, Reasons]()
        for name, alignment in self.alignments.items():
            if words := alignment.left_out(self.request.shared_subwords):
                unreadable[name] = words
        return unreadable

    @cached_property
    def joined(self) -> Mapping[str, frozenset[int]]:
        """The words of each split whose subwords are those of the word before them, where such words are left out."""
        joined = dict[str, frozenset[int]]()
        for name, alignment in self.alignments.items() if self.request.shared_subwords == "exclude" else ():
            joined |= {name: alignment.joined} if alignment.joined else {}
        return joined

    def alignment_counts(
        self, split: str = "test", *, leaves_out: bool = True, beside: ModelCorpus | None = None
    ) -> dict[str, Any]:
        """Columns of rows that count words of a split by how the model reads them; none where it cannot be known.

        Words that share all their subwords are included whatever is asked for by tasks that have no way to leave them
        out (``leaves_out``). Of a model that is compared with another (``beside``) they are those that share them in
        one of the two, which are left out of both.
        """
        first, other = self.alignments.get(split), (beside or self).alignments.get(split)
        if first is None or other is None:
            return {}
        treatment = self.request.shared_subwords if leaves_out else "include"
        return {**first.counts, "n_shared": len(first.shared | other.shared), "shared_subwords": treatment}

    @property
    def sharing(self) -> dict[str, str]:
        """The treatment of words that share all their subwords, which decides numbers where there are such words."""
        is_unknown = isinstance(self.splits.train, ShardedSentences)
        has_shared = is_unknown or any(map(attrgetter("joined"), self.alignments.values()))
        return {"shared_subwords": self.request.shared_subwords} if has_shared else {}

    @cached_property
    def windows(self) -> Unreadable:
        """The words of dev and test that are left out for attention heads, and the windows of the others.

        Only splits that have such words, or sentences that are read in several windows.
        """
        try:
            tokenized = self._tokenized(["dev", "test"])
        except BertologyError:
            return {}, {}  # as above
        unreadable, windows = dict[str, Reasons](), dict[str, NDArray[np.int64]]()
        for name, pieces in tokenized.items():
            left_out = Alignment.of_pieces(pieces).left_out(self.request.shared_subwords)
            if left_out or pieces.n_windows > len(np.unique(pieces.window_sentence)):
                unreadable[name], windows[name] = left_out, pieces.word_window.astype(np.int64)
                windows[name][list(left_out.keys() - {one.word for one in pieces.skipped})] = NOT_APART
        return unreadable, windows

    def _tokenized(self, splits: Sequence[str]) -> dict[str, encoders.Pieces]:
        """Splits as pieces of the model, whose weights are not loaded."""
        on_long: Literal["skip", "window"] = "skip" if self.request.on_long == "skip" else "window"
        return {name: self._reader.tokenize(self.splits.by_name[name], on_long=on_long) for name in splits}

    @cached_property
    def _reader(self) -> Any:
        from bertology.encoders.loading import load_reader

        code, most = self.request.trust_remote_code, self.request.max_pieces
        return load_reader(self.source, trust_remote_code=code, max_pieces=most)


@dataclass(frozen=True)
class StoredSignal:
    """Stored vectors that cells need: a signal of one model of a pair."""

    weights: Weights
    signal: Signal
    of_reference: bool = False  # whether they are of the model that the other one is compared with

    def texts(self, pair: ModelCorpus) -> tuple[ModelCorpus, dict[str, tuple[Sentences | Shard, Recipe]]]:
        """The model that is read, and by split the text and the recipe of its vectors; of folds, which share their
        sentences, one split, and each shard by itself (``train 0``)."""
        of, splits = pair.reference if self.of_reference and pair.reference is not None else pair, pair.splits
        is_one = isinstance(self.signal, Encoding) or splits.folds
        texts: dict[str, Any] = {"test": splits.test} if is_one else {**splits.by_name}
        if isinstance(texts.get("train"), ShardedSentences):
            texts |= {f"train {place}": shard for place, shard in enumerate(texts.pop("train").shards)}
        return of, {name: (text, of.recipe(self.weights, text, self.signal)) for name, text in texts.items()}

    def n_bytes(self, of: ModelCorpus, text: Sentences | Shard) -> int:
        """Bytes of the vectors of a text under the model that is read."""
        n_vectors = len(text) if self.signal == "cls" else text.n_words
        return n_vectors * int(np.dtype(of.request.stored_dtype).itemsize) * len(of.layers) * of.shape.dim
