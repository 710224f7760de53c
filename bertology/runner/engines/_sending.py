"""Units on their way to other processes: the corpus they read travels apart from them, once."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from bertology._files import digest
from bertology._temporary import temporary_folder
from bertology.corpora import Corpus, Sentences
from bertology.families.model_corpus import ModelCorpus, Splits
from bertology.runner._plan import Plan, Unit

_NOTHING = Sentences()


def loaded(unit: Unit, splits: Splits) -> Unit:
    """A unit whose plan was made :meth:`Transport.light`, with the sentences of the plan."""
    return replace(unit, plan=replace(unit.plan, pair=unit.plan.pair.on(unit.plan.pair.corpus, splits)))


class Transport:
    """What units of many plans read: each corpus made ready to be sent once, however many models read it."""

    def __init__(self) -> None:
        self._packed: dict[tuple[int, ...], tuple[Splits, str]] = {}
        self._light: dict[int, tuple[Plan, Plan]] = {}

    def light(self, plan: Plan) -> Plan:
        """The plan without a sentence in it, to be sent many times; :func:`loaded` makes it whole."""
        # The plan itself is kept, so that no other can come to have its id.
        if id(plan) not in self._light:
            # What has been worked out of a plan stays behind as well, and so do the corpus's other splits.
            splits = Splits(_NOTHING, _NOTHING, _NOTHING, plan.pair.splits.notes)
            pair = _placed(plan.pair.on(Corpus(plan.pair.corpus.name, {}), splits))
            self._light[id(plan)] = plan, replace(plan, pair=pair)
        return self._light[id(plan)][1]

    def name(self, splits: Splits, keep: Callable[[str, bytes], object]) -> str:
        """A name for the content of ``splits``; ``keep`` is given name and content when it is asked for first."""
        key = tuple(id(read) for read in (*splits.by_name.values(), *splits.items.values(), *splits.folds))
        if key not in self._packed:
            content = pickle.dumps(splits, protocol=pickle.HIGHEST_PROTOCOL)
            name = digest([content])
            keep(name, content)
            self._packed[key] = splits, name
        return self._packed[key][1]


def _placed(pair: ModelCorpus) -> ModelCorpus:
    """Models by the absolute paths of their folders."""
    reference = None if pair.reference is None else _placed(pair.reference)
    return replace(pair, source=replace(pair.source, folder=pair.source.folder.absolute()), reference=reference)


Sent = tuple[Unit, Path]
"""A unit as it is sent to a process of this machine, without its sentences, and the file that has them."""


@lru_cache(maxsize=1)
def splits_in(file: Path) -> Splits:
    """What a file of :func:`sending` holds."""
    return unpack(file.read_bytes())


def unpack(content: bytes) -> Splits:
    splits = pickle.loads(content)
    assert isinstance(splits, Splits)
    return splits


@contextlib.contextmanager
def sending(run: Path) -> Iterator[Callable[[Unit], Sent]]:
    """Make units ready for processes of this machine, which can unpack them while in the ``with`` block."""
    transport = Transport()
    with temporary_folder(run, "corpora") as folder:

        def send(unit: Unit) -> Sent:
            name = transport.name(unit.plan.pair.splits, lambda name, content: (folder / name).write_bytes(content))
            return replace(unit, plan=transport.light(unit.plan)), folder / name

        yield send
