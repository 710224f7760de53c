"""What differs between a model and its reference, by layer: in vectors of the same words, or in the models themselves.

``_vectors.py`` reads stored vectors of both, ``_attention.py`` the attention maps of both, ``_encoders.py`` opens both
models. Statistics are sums over clusters, as those of ``geometry`` and ``heads``, so that cells, rows and intervals are
the same. ``frozen.py`` is a family of its own: what a
readout fitted to one model finds in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bertology._names import name_not_found
from bertology.corpora import Sentences
from bertology.encoders import ModelShape
from bertology.errors import BertologyError, ModelError
from bertology.families.comparison._attention import measure_attention
from bertology.families.comparison._encoders import configured_encoders, measure_encoders
from bertology.families.comparison._vectors import configured_vectors, measure_vectors
from bertology.families.contract import Family, SplitName
from bertology.families.head_sums import head_rows
from bertology.families.layer_sums import layer_tables
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import corpus_columns, fit_columns
from bertology.families.tasks import (
    PIECES_A_WORD,
    CellGrid,
    Cost,
    FitCells,
    FitGroup,
    Job,
    Pair,
    Scoring,
    Signal,
    Tables,
)
from bertology.families.unfitted import named_task, own_readout, own_source
from bertology.families.vectors import vector_identity
from bertology.probing import (
    AttentionComparison,
    ComparisonProbe,
    EncoderComparison,
    Probe,
    ReadoutComparison,
    VectorComparison,
)

_MATCHES = ("depth", "cka")


class _Comparison(Family):
    """What differs between a model and its reference, and in which layer?"""

    most_draws = 1
    """A draw shows what is alike without training."""

    def answers(self, probe: Probe) -> bool:
        return isinstance(probe, ComparisonProbe) and not isinstance(probe, ReadoutComparison)

    def needs_reference(self, probe: Probe) -> bool:
        return True

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        """Vectors of words, where vectors are compared."""
        return ("words",) if isinstance(probe, VectorComparison) else ()

    def splits_read(self, probe: Probe) -> tuple[SplitName, ...]:
        """Those that the probe reads; test for what reads none, whose name the tables show."""
        return _reads(probe) or ("test",)

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        if isinstance(probe, EncoderComparison):
            return own_readout(probe, asked, "encoders.v1", about="the models themselves")
        if isinstance(probe, AttentionComparison):
            return own_readout(probe, asked, "attention.v1", about="attention maps")
        configs = own_readout(probe, asked, "vectors.v1", about="the vectors themselves")
        for config in configs:
            if (match := configured_vectors(probe, config).match) not in _MATCHES:
                raise name_not_found(f"match of task {probe.task}", match, _MATCHES)
        return configs

    def check(self, pair: Pair, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        """The text has what is asked about."""
        for config in configs:
            with named_task(probe):
                if isinstance(probe, VectorComparison):
                    configured_vectors(probe, config).words(_texts(pair, probe))
                elif isinstance(probe, AttentionComparison):
                    _check_heads(pair, probe)
                else:
                    configured_encoders(probe, config).check(_texts(pair, probe))

    def asks_random_weights(self, probe: Probe) -> bool:
        assert isinstance(probe, ComparisonProbe)
        return probe.asks_random_weights

    def task_identity(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return {f"{name}_fingerprint": text.fingerprint for name, text in _texts(pair, probe).items()} | own_source(
            probe
        )

    def grid(self, pair: Pair, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer, or the whole model; where layers are matched by content, cells depend on which are read."""
        layers = pair.layers_of(config)
        if isinstance(probe, EncoderComparison):
            of_layers = () if probe.columns == "model" else layers
            columns = of_layers if probe.columns == "layers" else (*of_layers, None)
            return CellGrid(("none",), 1, columns, of_layers, {"on_long": pair.request.on_long})
        if isinstance(probe, AttentionComparison):
            with_heads = tuple(layer for layer in layers if layer)
            if not with_heads:
                n_layers = pair.shape.n_layers
                problem = "layer 0 is the embeddings, which have no attention heads"
                raise BertologyError(f"task {probe.task}: {problem}: ask for layers 1…{n_layers}")
            return CellGrid(("none",), 1, with_heads, with_heads, {"on_long": pair.request.on_long})
        asked, identity = configured_vectors(probe, config), vector_identity(pair)
        if pair.reference is not None and (asked.compares_layers or asked.match != "depth"):
            identity |= {"layers": list(layers), "reference_layers": list(pair.reference.layers)}
        return CellGrid(("none",), 1, layers, layers, identity)

    def fewest_columns(self, probe: Probe, config: ReadoutConfig | None, *, layers: int, seeds: int) -> int:
        """One where models are compared as a whole; none is certain, as models without a reference are left out."""
        return 0

    def compute_cells(self, cells: FitCells, job: Job) -> None:
        """Of vectors that are stored, or of models that are opened."""
        with named_task(cells.probe):
            if isinstance(cells.probe, VectorComparison):
                measure_vectors(cells, job)
            elif isinstance(cells.probe, AttentionComparison):
                measure_attention(cells, job)
            else:
                measure_encoders(cells, job)

    def task_columns(self, pair: Pair, probe: Probe) -> dict[str, Any]:
        return corpus_columns(pair)

    def fit_columns(self, pair: Pair, cells: FitCells) -> dict[str, Any]:
        """How vectors are pooled, where there are vectors."""
        return {"pooling": pair.request.pooling if isinstance(cells.probe, VectorComparison) else None}

    def main_metric(self, cells: FitCells, control: str) -> str:
        """That of the probe with its settings."""
        return cells.probe.with_settings(cells.config.settings).scores[0].name

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> Tables:
        """Every statistic of every head or layer, then those of the whole model, which are not compared with layers."""
        if isinstance(draws[0].probe, AttentionComparison):
            cells = draws[0]
            by_layer_number = [(layer, cell) for (_, _, layer), cell in cells.cells.items()]
            probe = cells.probe.with_settings(cells.config.settings)
            return Tables.of(tuple(head_rows(by_layer_number, probe, fit_columns(self, cells, scoring), scoring)))
        by_layer = [_with_cells(one, is_layer=True) for one in draws]
        of_model = [_with_cells(one, is_layer=False) for one in draws]
        parts = [layer_tables(self, part, scoring) for part in (by_layer, of_model) if part[0].cells]
        rows = tuple(row for part in parts for row in part.rows)
        return Tables(rows, tuple(row for part in parts for row in part.comparisons))

    def cost(self, pair: Pair, groups: Sequence[FitGroup]) -> Cost:
        """Products of dimensions over all words for each two layers; or a pass over the text for each layer."""
        probe, n_layers, dim = groups[0].probe, len(pair.layers), pair.shape.dim
        n_words = sum(text.n_words for text in _texts(pair, probe).values())
        if isinstance(probe, VectorComparison):
            times = n_layers**2 if probe.compares_layers else 4 * n_layers
            return Cost(2.0 * n_words * dim**2 * times, 4.0 * dim**2 * times)
        return Cost(2 * n_words * n_layers * PIECES_A_WORD * 24 * dim**2 * max(pair.layers, default=0))


def _check_heads(pair: Pair, probe: Probe) -> None:
    reference = pair.reference
    if reference is not None and reference.shape.n_heads != pair.shape.n_heads:
        heads = f"{pair.source.title} has {pair.shape.n_heads} heads in a layer, {reference.source.title} "
        problem = f"{heads}{reference.shape.n_heads}: heads are compared one with one, which takes the same number"
        raise ModelError(f"task {probe.task}: {problem}")


def _reads(probe: Probe) -> tuple[SplitName, ...]:
    if isinstance(probe, AttentionComparison):
        return ("test",)
    if not isinstance(probe, VectorComparison | EncoderComparison):
        kinds = "derive it from VectorComparison, AttentionComparison or EncoderComparison"
        raise BertologyError(f"task {probe.task}: a {type(probe).__name__} is of no kind that is computed; {kinds}")
    return probe.reads


def _texts(pair: Pair, probe: Probe) -> dict[str, Sentences]:
    """The splits that a probe reads."""
    return {name: pair.splits.by_name[name] for name in _reads(probe)}


def _with_cells(cells: FitCells, *, is_layer: bool) -> FitCells:
    """The cells of layers, or that of the whole model."""
    return replace(cells, cells={key: cell for key, cell in cells.cells.items() if (key[2] is not None) == is_layer})


FAMILY = _Comparison()
