"""What names stand for: probes, models, corpora, and the items that a corpus has for a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bertology._inputs import exists, given_path
from bertology._names import name_not_found
from bertology.corpora import Corpus, Sentences, annotate_text, known_table, load_corpus, no_columns
from bertology.encoders import ModelShape, ModelSource, model_fingerprint, model_shape, resolve_model
from bertology.errors import BertologyError, CorpusError, quoted
from bertology.families.contract import family_of
from bertology.families.model_corpus import Splits, TaskItems, choose_folds, choose_splits, splits_to_read
from bertology.families.request import Init, ProbeRequest
from bertology.measures import METRICS
from bertology.probing import Probe, get_probe

T = TypeVar("T")


class Finder:
    """Finds what names stand for, each once however often it is asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}

    def _once(self, key: tuple[object, ...], find: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = find()
        known: T = self._known[key]
        return known

    def probe(self, task: str) -> Probe:
        """The probe of a task: :func:`bertology.probing.get_probe`."""
        return self._once(("probe", task), lambda: get_probe(task))

    def model(self, name: str, revision: str | None) -> tuple[ModelSource, ModelShape]:
        """A model's files, and its shape."""
        source = self._once(("source", name, revision), lambda: resolve_model(name, revision=revision))
        return source, self._once(("shape", name, revision), lambda: model_shape(source))

    def fingerprint(self, source: ModelSource, init: Init, seed: int) -> str:
        """Of a model's content: :func:`bertology.encoders.model_fingerprint`."""
        key = ("fingerprint", source.folder, init, seed)
        return self._once(key, lambda: model_fingerprint(source, init=init, seed=seed))

    def probes(self, tasks: Sequence[str]) -> tuple[Probe, ...]:
        """The probes of several tasks, which may be asked for once each, with metrics that there are."""
        probes = tuple(self.probe(task) for task in dict.fromkeys(tasks))
        names = [probe.task for probe in probes]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled:
            raise BertologyError(f"task {quoted(doubled)} is asked for twice: name each once")
        for probe in probes:
            for metric in probe.metrics:
                if isinstance(metric, str) and metric not in METRICS:
                    raise name_not_found(f"metric of task {probe.task}", metric, METRICS)
        return probes

    def corpus(self, request: ProbeRequest, probes: Sequence[Probe]) -> Corpus:
        """The corpus that probes read, cut as asked; where all of them have items of their own, only its name."""

        def find() -> Corpus:
            if not is_read:
                return prompts_corpus(request.corpus)
            whole = find_corpus(request.corpus, annotate=request.annotate, columns=request.columns)
            return first_sentences(whole, request.sentences)

        is_read = bool(splits_read(probes))
        key = (request.corpus, request.annotate, request.columns, request.sentences, is_read)
        return self._once(("corpus", *key), find)

    def cut(self, corpus: Corpus, most: int | None) -> Corpus:
        """The first sentences of a corpus: :func:`first_sentences`."""
        # The corpus is kept as well, so that no other can come to have its id.
        return self._once(("cut", id(corpus), most), lambda: (corpus, first_sentences(corpus, most)))[1]

    def splits(self, corpus: Corpus, probes: Sequence[Probe], request: ProbeRequest) -> tuple[Corpus, Splits]:
        """A corpus as probes read it, the splits that they read, and the items that they bring themselves.

        For folds it is one split; where some probe is fitted, a corpus without splits is divided, unless one is named.
        """

        def find() -> tuple[Corpus, Corpus, Splits]:
            needed, train, test = splits_read(probes), request.train_split, request.test_split
            read = corpus
            if request.folds is not None:
                check_folds(probes, request)
                read, splits = choose_folds(corpus, request.folds, train=train, test=test)
            elif "train" in needed:
                read = corpus.divided() if (train, test) == ("train", "test") else corpus
                splits = choose_splits(read, train=train, test=test)
            elif needed:
                splits = splits_to_read(corpus, test=test, choose="dev" in needed)
            else:
                splits = Splits(_NO_SENTENCES, _NO_SENTENCES, _NO_SENTENCES, ())
            items = {probe.task: self._items(probe, request) for probe in probes}
            own = {task: some for task, some in items.items() if some is not None}
            # The corpus is kept as well, so that no other can come to have its id.
            return corpus, read, replace(splits, items=own)

        chosen = request.train_split, request.test_split, request.max_items, request.folds, request.columns
        return self._once(("splits", id(corpus), *chosen, *(probe.task for probe in probes)), find)[1:]

    def _items(self, probe: Probe, request: ProbeRequest) -> TaskItems | None:
        source, most, columns = request.corpus, request.max_items, request.columns
        find = partial(family_of(probe).items, probe, source, most=most, columns=columns)
        return self._once(("items", probe.task, source, most, columns), find)


def check_folds(probes: Sequence[Probe], request: ProbeRequest) -> None:
    """Raise unless every task can be cross-validated: readouts are fitted to it, and no code is measured."""
    for probe in probes:
        if not family_of(probe).is_cross_validated:
            problem = "nothing is fitted to its labels, so it has no folds"
            raise BertologyError(f"task {probe.task}: {problem}: leave folds out, or ask it apart")
        if any(config.codelength is not None for config in request.configs_of(probe.task)):
            problem = "a codelength is of the training split, and has no folds"
            raise BertologyError(f"task {probe.task}: {problem}: leave folds or codelength out")


def splits_read(probes: Sequence[Probe]) -> frozenset[str]:
    """The splits of a corpus that some of the probes read."""
    return frozenset(split for probe in probes for split in probe.splits_needed)


def reads_sentences(tasks: Sequence[str]) -> bool:
    """Whether some task reads the sentences of a corpus; the others have items of their own."""
    return bool(splits_read([get_probe(task) for task in tasks]))


_NO_SENTENCES = Sentences()


def prompts_corpus(name: str) -> Corpus:
    """A source of texts for cloze probes, which find in it what they ask: only what it is called."""
    if known_table(name) is not None:
        return Corpus(name.rpartition(" #")[0], {})
    return Corpus(given_path(name).resolve().name if exists(name) else name, {})


def first_sentences(corpus: Corpus, most: int | None) -> Corpus:
    """A corpus with at most so many sentences of each split, the first ones; all of them where ``most`` is None."""
    if most is None:
        return corpus
    return replace(corpus, splits={name: sentences[:most] for name, sentences in corpus.splits.items()})


def find_corpus(name: str, *, annotate: str | None = None, columns: str | None = None) -> Corpus:
    """A corpus by name or path, ``columns`` those of column files; ``annotate`` names a pipeline that labels a text."""
    if not annotate:
        return load_corpus(name, columns=columns)
    if columns is not None:
        raise no_columns(columns, name)
    path = given_path(name, error=CorpusError)
    if not path.is_file():
        raise CorpusError(f"--annotate labels a raw text file: there is no file {path}")
    return annotate_text(path, annotate)
