"""What families have in common in which nothing is fitted: a model's own head answers, or its maps and gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bertology.errors import BertologyError, CorpusError, FitError, ModelError, listed
from bertology.families.request import ReadoutConfig
from bertology.probing import Probe, is_installed, source_fingerprint
from bertology.readouts import readout_kind


def own_source(probe: Probe) -> dict[str, Any]:
    """What guards the cells of a probe that is not installed: a hash of its source; nothing for an installed one."""
    return {} if is_installed(probe) else {"source_fingerprint": source_fingerprint(probe)}


def own_readout(
    probe: Probe, asked: Sequence[ReadoutConfig], *readouts: str, about: str, pools: Sequence[str] = ("mean",)
) -> tuple[ReadoutConfig, ...]:
    """Configurations of a task whose readouts are not fitted to labels, with settings of the probe.

    The first of ``readouts`` is taken where none is named.

    Raises:
        NameNotFoundError: there is no readout of the name, or the probe has no such setting.
        BertologyError: another readout is named, or something that only fits have.
    """
    registered = {name: readout for readout in readouts for name in (readout, readout.rpartition(".")[0])}
    chosen = [(config.readout or readouts[0]).strip().lower().replace("-", "_") for config in asked]
    for named in chosen:
        if named not in registered:
            problem = f"is about {about}, which {readout_kind(named).name} cannot read"
            raise BertologyError(f"task {probe.task} {problem}; leave the readout out, or take {' or '.join(readouts)}")
    for config in asked:
        if config.codelength or config.erase or config.fraction != 1 or config.pool not in pools:
            pooled = "nothing to erase or pool" if len(pools) == 1 else f"nothing to erase, and pool is {listed(pools)}"
            consequence = f"there is no share of training data, no codelength, and {pooled}"
            raise BertologyError(f"task {probe.task}: no readout is fitted, so that {consequence}")
    for config in asked:
        probe.with_settings(config.settings)
    return tuple(replace(config, readout=registered[named]) for config, named in zip(asked, chosen, strict=True))


@contextmanager
def named_task(probe: Probe) -> Iterator[None]:
    """Name the task in errors about what its text or its model lacks."""
    try:
        yield
    except (CorpusError, FitError, ModelError) as error:
        raise type(error)(f"task {probe.task}: {error}") from error
