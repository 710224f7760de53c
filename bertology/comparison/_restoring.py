"""Which layers a fine-tuned task depends on: its score with layers put back as they were before fine-tuning."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from torch import Tensor

from bertology._inputs import given_path
from bertology._names import name_not_found
from bertology.corpora import load_corpus
from bertology.encoders import Encoder, ModelSource, model_fingerprint, open_encoder
from bertology.encoders.interventions import Replay
from bertology.encoders.loading import blocks_of
from bertology.encoders.weights import weight_places
from bertology.errors import BertologyError, ModelError
from bertology.finetuning import FineTuned, TunedModel, load_tuned, read_finetuned, read_record
from bertology.landscapes import placed
from bertology.measures import Bootstrap, compare

if TYPE_CHECKING:
    import pandas as pd

Order = Literal["each", "up_to", "from"]
"""Layers that are restored with a layer ℓ: this one alone, 0…ℓ, or ℓ…L."""


@dataclass(frozen=True, eq=False)
class Restored:
    """Scores of a fine-tuned model with layers of its reference; returned by :func:`restored_scores`."""

    reference: str
    model: str
    task: str
    n_layers: int
    n_items: int
    predictions: Mapping[tuple[int, ...], pd.DataFrame]
    """By the layers that were restored (none for the model as it is): ``item_id``, ``cluster_id``, ``gold``, ``pred``
    and ``score``."""
    score: Callable[[pd.DataFrame], Mapping[str, Bootstrap]] = field(repr=False)
    """The metrics of the task, of predictions."""

    @cached_property
    def scores(self) -> Mapping[tuple[int, ...], Mapping[str, Bootstrap]]:
        """By the layers that were restored, scores by metric, the main one first."""
        return {layers: self.score(frame) for layers, frame in self.predictions.items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of the task, the main one first."""
        return tuple(self.scores[()])

    def restored(self, order: Order, layer: int) -> tuple[int, ...]:
        """The layers that are restored with a layer, as a key of :attr:`scores`."""
        return _layers(order, layer, self.n_layers)

    def table(self, metric: str | None = None) -> pd.DataFrame:
        """A row for the model as it is, then for each order and layer.

        Columns are ``order`` (``none``, ``each``, ``up_to``, ``from``), ``layer`` (0 for the embeddings), ``value`` of
        the metric with ``ci_low`` and ``ci_high``, and the paired difference from the model as it is: ``difference``
        (below 0 where restoring costs), ``difference_low``, ``difference_high``, ``p_raw`` and ``p_adj``
        (Benjamini–Hochberg over all sets of layers). Intervals are 95 %, for other items.

        Args:
            metric: one of :attr:`metrics`; the main one when left out.

        Raises:
            NameNotFoundError: the task has no such metric.
        """
        import pandas as pd

        chosen = self.metrics[0] if metric is None else metric
        if chosen not in self.metrics:
            raise name_not_found("metric", chosen, self.metrics)
        keys = list(self.scores)
        columns = [self.scores[key][chosen] for key in keys]
        replicates = np.concatenate([column.replicates for column in columns], axis=1)
        values = [float(column.values[0]) for column in columns]
        pairs = [(place, 0) for place in range(1, len(keys))]
        compared = compare(values, replicates, n_clusters=columns[0].n_clusters, pairs=pairs)
        rows = []
        for order, layer in [("none", None), *((o, ly) for o in get_args(Order) for ly in range(self.n_layers + 1))]:
            place = 0 if layer is None else keys.index(_layers(order, layer, self.n_layers))
            column = columns[place]
            row = {"order": order, "layer": layer, "value": values[place]}
            row |= {"ci_low": float(column.ci_low[0]), "ci_high": float(column.ci_high[0])}
            if place:
                one = compared[place - 1]
                row |= {"difference": one.diff, "difference_low": one.ci_low, "difference_high": one.ci_high}
                row |= {"p_raw": one.p_raw, "p_adj": one.p_adj}
            rows.append(row)
        return pd.DataFrame(rows).astype({"layer": "Int64"})


def restored_scores(
    reference: Any,
    model: FineTuned | str | Path | Encoder,
    corpus: Any,
    *,
    split: str = "dev",
    sentences: int | None = None,
    device: str = "auto",
) -> Restored:
    """The score of a fine-tuned model B on its task with layers put back to those of the reference A it was made from.

    Layers are restored one by one, from below (0…ℓ) and from above (ℓ…L), under B's head, its pooler with it (cf. Hao
    et al. 2019, section 5.1, who restore thirds of BERT; Merchant et al. 2020, section 5). Where restoring a layer
    costs nothing, what fine-tuning changed in it is not needed; note that layers were trained together, so that a layer
    of A among layers of B reads and writes vectors that it was never trained with. Each set of layers takes one pass
    over the items, in which layers below those that are restored, and layers of A alone, are not computed again.

    >>> restored_scores("pocket", "tuned", "sst2/").table()  # doctest: +SKIP

    Args:
        reference: A, as of :func:`bertology.probe`.
        model: B: what :func:`bertology.finetune` returned, its folder, the model folder of one seed, or the encoder of
            one. Of several seeds the first is taken.
        corpus: as of :func:`bertology.load_corpus`, with labels under the same name as those of B's training.
        split: which one is scored.
        sentences: at most so many, the first ones.
        device: to compute on.

    Raises:
        BertologyError: the folder is of no fine-tuned model.
        ModelError: B's encoder was frozen, its blocks share weights, or A is of another shape or vocabulary.
        CorpusError: there is no such split, or it lacks such labels.
    """
    part = load_corpus(corpus)[split]
    tuned = load_tuned(_folder(model), part[:sentences] if sentences is not None else part, device=device)
    encoder = open_encoder(reference, device="cpu")
    variants = _Restoring(tuned, encoder).variants()
    predictions = dict(zip(variants, tuned.predictions_under(list(variants.values())), strict=True))
    return Restored(
        encoder.source.title,
        tuned.encoder.source.title,
        tuned.record.task,
        encoder.n_layers,
        len(tuned.items),
        predictions,
        tuned.scores,
    )


def restorable_task(reference: ModelSource, model: ModelSource) -> str | None:
    """The task that B was fine-tuned for, where B was made from A and layers of A can be put back into it.

    Args:
        reference: A.
        model: B.

    Returns:
        The name of a task that is scored by accuracy; None where B was not fine-tuned from these weights, with all or
        some of its encoder's layers, for such a task.

    Raises:
        ModelError: a file of A is missing or unreadable.
    """
    try:
        record = read_record(model.folder)
    except BertologyError:
        return None  # No fine-tuned model.
    has_accuracy = any("accuracy" in scores for scores in record.scores.values())
    is_made_of_it = record.model_fingerprint == model_fingerprint(reference)
    return record.task if has_accuracy and is_made_of_it and record.settings.layers != "none" else None


def _folder(model: FineTuned | str | Path | Encoder) -> Path | Encoder:
    """The folder of one fine-tuned model, or its encoder."""
    if isinstance(model, Encoder):
        return model
    if isinstance(model, FineTuned):
        return model.folder()
    path = given_path(model)
    return path if (path / "config.json").is_file() else read_finetuned(path).folder()


def _layers(order: Order, layer: int, n_layers: int) -> tuple[int, ...]:
    first, last = (layer if order != "up_to" else 0), (layer if order != "from" else n_layers)
    return tuple(range(first, last + 1))


class _Restoring:
    """A fine-tuned model in which layers are put back."""

    def __init__(self, tuned: TunedModel, reference: Encoder) -> None:
        encoder, self._model = tuned.encoder, tuned.model
        if tuned.record.settings.layers == "none":
            raise ModelError(f"model {encoder.name}: its encoder was frozen, so that there is no layer to restore")
        _check_alike(reference, encoder)
        self._n_layers = encoder.n_layers
        body = self._model.base_model
        blocks = blocks_of(self._model, encoder.n_layers, encoder.family)
        if len(set(map(id, blocks))) < len(blocks):
            raise ModelError(f"model {encoder.name}: its blocks share their weights, so that none is restored alone")
        self._own = {name: value.data for name, value in self._model.named_parameters()}
        self._by_layer = self._of_reference(reference, body, blocks)
        self._of_b, self._of_a = Replay(body, blocks), Replay(body, blocks)

    def _of_reference(self, reference: Encoder, body: Any, blocks: list[Any]) -> dict[int, dict[str, Tensor]]:
        """By layer, the values of the reference by the names of the fine-tuned model."""
        names = {id(value): name for name, value in self._model.named_parameters()}
        stored = dict(reference.model.body.named_parameters())
        of_body = dict(body.named_parameters())
        found: dict[int, dict[str, Tensor]] = {layer: {} for layer in range(self._n_layers + 1)}
        for name, place in weight_places(body, blocks).items():
            if not place.layers or name not in of_body:
                continue
            own = of_body[name]
            if name not in stored or stored[name].shape != own.shape:
                raise ModelError(
                    f"model {reference.name}: {name} is not of the shape that it has in the fine-tuned model: give the "
                    "model that was fine-tuned"
                )
            found[place.layers[0]][names[id(own)]] = stored[name].data.to(own)
        return found

    def variants(self) -> dict[tuple[int, ...], Callable[[], contextlib.AbstractContextManager[None]]]:
        """By the layers that are restored, contexts in which they are; what is recorded comes before its replays."""
        last = self._n_layers
        whole = tuple(range(last + 1))
        found: dict[tuple[int, ...], Callable[[], contextlib.AbstractContextManager[None]]]
        found = {(): self._of_b.recording, whole: partial(self._restored, whole, self._of_a.recording)}
        for layer in range(last):
            lower = _layers("up_to", layer, last)
            found[lower] = partial(self._restored, lower, partial(self._of_a.from_layer, layer + 1))
        for order in ("each", "from"):
            for layer in range(1, last + 1):
                upper = _layers(order, layer, last)
                found[upper] = partial(self._restored, upper, partial(self._of_b.from_layer, layer))
        return found

    @contextlib.contextmanager
    def _restored(
        self, layers: Collection[int], running: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> Iterator[None]:
        weights = dict(self._own)
        for layer in layers:
            weights |= self._by_layer[layer]
        with placed(self._model, weights), running():
            yield


def _check_alike(reference: Encoder, tuned: Encoder) -> None:
    sizes = [(encoder.family, encoder.n_layers, encoder.dim) for encoder in (reference, tuned)]
    if sizes[0] != sizes[1] or reference.tokenizer.get_vocab() != tuned.tokenizer.get_vocab():
        raise ModelError(
            f"model {reference.name} is of another family, shape or vocabulary than {tuned.name}: give the model that "
            "was fine-tuned"
        )
