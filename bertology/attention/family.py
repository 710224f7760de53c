"""Attention heads: what is read off attention maps in one pass, and what a model loses without its heads."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bertology import attention
from bertology.attention.probes import AttentionProbe, BestHeadProbe, GateProbe, HeadProbe, Measured, ReadText
from bertology.encoders import ModelShape
from bertology.families import contract, sums
from bertology.families.model_corpus import ModelCorpus, Unreadable
from bertology.families.request import Init, ReadoutConfig, parse_layers
from bertology.measures.sums import HeadRatios
from bertology.probing import GeometryCounts, Probe, RunningModel
from bertology.results.predictions import Stopwatch


class _Heads(sums.SumsFamily[HeadProbe]):
    """Family of probes of attention heads: statistics of their maps, and losses without them."""

    has_settings_in_baselines = True

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        if isinstance(probe, GateProbe):
            return sums.own_readout(probe, asked, "gates.v1", about="what a model loses without its heads")
        return sums.own_readout(probe, asked, "attention.v1", about="attention maps")

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        if isinstance(probe, GateProbe):
            with contract.named_task(probe):
                probe.check(pair)

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> contract.CellGrid:
        """Every layer that has heads; with gates also the whole model, as ever more of its heads are off."""
        asked = pair.layers if config.layers is None else parse_layers(config.layers, pair.shape.n_layers)
        layers = sums.layers_with_heads(pair, asked)
        columns = (*layers, None) if isinstance(probe, GateProbe) else layers
        own: Mapping[str, str] = pair.sharing if isinstance(probe, AttentionProbe) else {}
        own = probe.model_identity(pair.source) if isinstance(probe, GateProbe) else own
        return contract.CellGrid(columns, layers, {"on_long": pair.request.on_long, **own})

    def unreadable(self, pair: ModelCorpus, probe: Probe) -> Unreadable:
        """Words that the model cannot read, and the windows of the others: no head sees across two windows."""
        unreadable, windows = pair.windows
        splits = [name for name in probe.reads if name in windows]
        return {name: unreadable[name] for name in splits}, {name: windows[name] for name in splits}

    def pass_key(self, group: contract.FitGroup) -> Hashable | None:
        """The kind of maps that are read; None where none are."""
        probe = self.configured(group[0].probe, group[0].config)
        return (probe.level, probe.norms, probe.pairs) if isinstance(probe, AttentionProbe) else None

    def compute(
        self, groups: Sequence[contract.FitGroup], job: contract.Resources
    ) -> Iterator[tuple[contract.FitGroup, Exception | None]]:
        """Compute groups that read the same maps in one pass over each split; gates are closed task by task.

        Yields each group when its cells are written, or with what went wrong, which does not stop the others.
        """
        if self.pass_key(groups[0]) is None:
            yield from super().compute(groups, job)
            return
        asked: list[_Question] = []
        for group in groups:
            try:
                probe, splits = self.configured(group[0].probe, group[0].config), job.pair.splits
                assert isinstance(probe, AttentionProbe)
                names = ("dev", "test") if "dev" in probe.reads and len(splits.dev) else ("test",)
                with contract.named_task(probe):
                    makers = {name: probe.statistics(splits.by_name[name]) for name in names}
                asked.append(_Question(group, probe, makers))
            except Exception as error:
                yield group, error
        outcomes = list(contract.one_by_one([asked] if asked else [], lambda some: _read_together(some, job)))
        if len(asked) > 1 and outcomes[0][1] is not None:
            # Which of several questions a failure comes from is not known: each is read alone.
            outcomes = list(contract.one_by_one([[one] for one in asked], lambda some: _read_together(some, job)))
        for some, failure in outcomes:
            yield from ((one.group, failure) for one in some)

    def compute_cells(self, cells: contract.FitCells, job: contract.Resources) -> None:
        """Measure what the model loses without its heads."""
        probe = self.configured(cells.probe, cells.config)
        assert isinstance(probe, GateProbe)
        watch, splits, on_long = Stopwatch(), job.pair.splits, job.pair.request.on_long
        texts = {name: text for name, text in job.pair.texts(probe.reads).items() if len(text) or name == "test"}
        asked = texts, _layers(cells), None, on_long, job.progress
        found = probe.measure(RunningModel(job.get_encoder(), *asked))
        if not isinstance(found, Measured):
            by_split = found if isinstance(found, Mapping) else {"test": found}
            found = Measured(by_split, GeometryCounts(splits.test.n_words))
        params: dict[str, Any] = {"notes": found.notes} if found.notes else {}
        if len(found.ratios) > 1 and any(one.unit == "head" for one in found.ratios["test"]):
            params["chosen_on"] = splits.chosen_on
        sums.write_sums(
            cells,
            job,
            {splits.chosen_on if name == "dev" else name: ratios for name, ratios in found.ratios.items()},
            found.counts,
            n_clusters=len(splits.test),
            provenance=watch.provenance(*sums.PACKAGES, device=job.device, n_cells=len(cells.cells)),
            params=params,
            aligned=job.pair.alignment_counts(leaves_out=False),
        )

    def compute_baselines(self, baselines: contract.FitCells, job: contract.Resources) -> None:
        """Score what needs no head on what the model can read: chosen on dev, scored on test."""
        probe, splits = self.configured(baselines.probe, baselines.config), job.pair.splits
        assert isinstance(probe, BestHeadProbe)
        left_out, texts = baselines.unreadable.get("test", {}), []
        for name in ("test", "dev" if len(splits.dev) else "test"):
            texts.append(ReadText(splits.by_name[name], baselines.windows.get(name)))
        read = np.delete(splits.test.sentence_of_word, list(left_out))
        counts, n_clusters = GeometryCounts(len(read), skipped=Counter(left_out.values())), len(np.unique(read))
        sums.write_baseline_sums(baselines, job, lambda name: probe.baseline(name, *texts), counts, n_clusters, "numpy")

    def rows(self, draws: Sequence[contract.FitCells], scoring: contract.Scoring) -> contract.TaskRows:
        return sums.head_rows(self, draws[0], scoring)

    def baseline_rows(self, baselines: contract.FitCells, scoring: contract.Scoring) -> contract.TaskRows:
        return sums.head_rows(self, baselines, scoring)


class _Question(NamedTuple):
    """The statistics of attention maps that the cells of a task need."""

    group: contract.FitGroup
    probe: AttentionProbe
    makers: "Mapping[str, Sequence[attention.maps.MakeStatistic]]"
    """By split; of dev none where no head is chosen on it."""


def _read_together(asked: Sequence[_Question], job: contract.Resources) -> None:
    """Read the maps of each split in one pass for several questions, and write their cells."""
    watch, splits, first, request = Stopwatch(), job.pair.splits, asked[0].probe, job.pair.request
    passes: dict[str, attention.maps.MapPass] = {}
    for split in ("dev", "test"):
        if any(split in one.makers for one in asked):
            passes[split] = attention.stream_maps(
                job.get_encoder(),
                splits.by_name[split],
                [maker for one in asked for maker in one.makers.get(split, ())],
                layers=sorted({layer for one in asked for layer in _layers(one.group[0])}),
                level=first.level,
                norms=first.norms,
                pairs=first.pairs,
                on_long=request.on_long,
                exclude_shared=request.shared_subwords == "exclude",
                progress=job.progress,
            )
    results, test = {split: iter(read.results) for split, read in passes.items()}, passes["test"]
    n_cells = sum(len(cells.cells) for one in asked for cells in one.group)
    provenance = watch.provenance(*sums.PACKAGES, device=job.device, n_cells=n_cells)
    pairs = {"pairs": test.n_pairs, "pairs_apart": test.n_apart} if first.pairs else {}
    for one in asked:
        ratios: dict[str, list[HeadRatios]] = {}
        for split, makers in one.makers.items():
            of_split = ratios.setdefault(split if split == "test" else splits.chosen_on, [])
            of_split += [ratios for _ in makers for ratios in next(results[split])]
        chosen_on = {"chosen_on": splits.chosen_on} if len(one.makers) > 1 else {}
        sums.write_sums(
            one.group[0],
            job,
            ratios,
            GeometryCounts(test.n_words, skipped=test.skipped),
            n_clusters=test.n_sentences,
            provenance=provenance,
            params={**chosen_on, **pairs},
            aligned=job.pair.alignment_counts(),
        )


def _layers(cells: contract.FitCells) -> tuple[int, ...]:
    return tuple(layer for layer in cells.layers if layer is not None)


FAMILY = _Heads()
