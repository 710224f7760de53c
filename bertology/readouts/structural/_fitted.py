"""Fitted structural probes: their distances and depths, and how they are kept in files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._files import write_atomically
from bertology.errors import FitError, ResultsError
from bertology.readouts._features import Floats, Integers
from bertology.readouts._spans import SpanSource
from bertology.readouts.structural._batches import Asks
from bertology.readouts.structural._training import squared_distances


@dataclass(frozen=True, eq=False)
class FittedStructural:
    """Linear maps as they were after the epoch with the lowest dev loss."""

    readout: str
    """Registered name of what fitted them."""
    asks: Asks
    maps: Tensor
    """``[problem, layer, dim, rank]``"""
    layers: tuple[int, ...]
    """``[layer]`` numbers of the layers they were fitted on."""
    dev_loss: Floats
    """``[problem, layer]`` the lowest dev loss: the mean absolute difference, over sentences."""
    epochs: Integers
    """``[problem, layer]`` number of epochs."""
    converged: NDArray[np.bool_]
    """``[problem, layer]`` whether the dev loss had stopped falling."""

    @property
    def rank(self) -> int:
        """Dimensions that vectors are mapped to."""
        return int(self.maps.shape[3])

    @property
    def dim(self) -> int:
        """How wide the vectors are."""
        return int(self.maps.shape[2])

    @property
    def n_params(self) -> int:
        """Trained parameters of one layer's map for one problem."""
        return self.dim * self.rank

    def read(self, source: SpanSource) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Squared distances or depths of every sentence of ``source``, in the order of its chunks.

        Yields:
            The number of a sentence, and its squared distances ``[problem, layer, word, word]`` or depths
            ``[problem, layer, word]``.

        Raises:
            FitError: the source has other layers or another width than the maps were fitted on.
        """
        if (source.n_layers, source.dim) != (len(self.layers), self.dim):
            raise FitError(
                f"the probe was fitted on {len(self.layers)} layers of width {self.dim}: "
                f"it cannot read {source.n_layers} layers of width {source.dim}"
            )
        n_problems, n_layers = self.maps.shape[:2]
        flat = self.maps.permute(1, 2, 0, 3).flatten(2)  # [layer, dim, problem × rank]
        for chunk in source.chunks():
            mapped = torch.bmm(chunk.words, flat).view(n_layers, -1, n_problems, self.rank).permute(2, 0, 1, 3)
            for item, (start, end) in zip(chunk.items.tolist(), chunk.spans[:, 0].tolist(), strict=True):
                vectors = mapped[:, :, start:end]
                if self.asks == "distances":
                    yield item, squared_distances(vectors).clamp_(min=0).numpy()
                else:
                    yield item, vectors.square().sum(-1).numpy()


_FORMAT = 1


@dataclass(frozen=True)
class ProbeOrigin:
    """What a probe was fitted on, which decides to which vectors it applies."""

    model: str
    model_fingerprint: str
    layer: int
    dim: int
    pooling: str
    task: str
    corpus: str
    train_fingerprint: str
    """Of the sentences it was fitted on."""
    readout: str
    relations: tuple[str, ...] = ()
    """Names of the relations, in the order of the probe's."""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TreeProbe:
    """Linear maps of one layer: of distances, of depths, of relations, or of several of these.

    Raises:
        FitError: a map has another width than the vectors, or that of relations another number of them.
    """

    origin: ProbeOrigin
    distance: Tensor | None = None
    """``[dim, rank]``"""
    depth: Tensor | None = None
    """``[dim, rank]``"""
    relation: Tensor | None = None
    """``[dim + 1, relation]``, the last row what is added."""

    def __post_init__(self) -> None:
        for name, value in self._tensors().items():
            wide = self.origin.dim + (name == "relation")
            if value.ndim != 2 or len(value) != wide:
                raise FitError(f"the map of {name} has shape {list(value.shape)}: give [{wide}, …]")
        names = self.origin.relations
        if self.relation is not None and self.relation.shape[1] != len(names):
            raise FitError(
                f"the map of relation is of {self.relation.shape[1]} relations, of which {len(names)} have names"
            )

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"distance": self.distance, "depth": self.depth, "relation": self.relation}
        return {name: value for name, value in tensors.items() if value is not None}

    def check(self, *, model_fingerprint: str, layer: int, pooling: str) -> None:
        """Raise :class:`FitError` unless vectors of this model, layer and pooling are what the probe was fitted on."""
        origin = self.origin
        if model_fingerprint != origin.model_fingerprint:
            raise FitError(
                f"the probe was fitted on {origin.model}: it cannot read another encoder's vectors; "
                "ask it of that one, or fit one on this"
            )
        if layer != origin.layer:
            raise FitError(f"the probe was fitted on layer {origin.layer}: it cannot read layer {layer}")
        if pooling != origin.pooling:
            raise FitError(
                f"the probe was fitted on the {origin.pooling} of a word's pieces: it cannot read their {pooling}"
            )

    def distances(self, vectors: Tensor) -> NDArray[np.float32] | None:
        """``[word, word]`` squared distances of ``[word, dim]`` vectors; None where the probe has no map for them.

        Raises:
            FitError: vectors of another width.
        """
        mapped = self._mapped(vectors, self.distance)
        return None if mapped is None else np.asarray(squared_distances(mapped).clamp_(min=0).numpy())

    def depths(self, vectors: Tensor) -> NDArray[np.float32] | None:
        """``[word]`` depths of ``[word, dim]`` vectors; None where the probe has no map for them."""
        mapped = self._mapped(vectors, self.depth)
        return None if mapped is None else np.asarray(mapped.square().sum(-1).numpy())

    def relations(self, vectors: Tensor) -> tuple[str, ...] | None:
        """``[word]`` the most probable relation of each word to its head; None where the probe has no map for them."""
        if self.relation is None:
            return None
        self._check_width(vectors)
        scores = vectors.float() @ self.relation[:-1] + self.relation[-1]
        return tuple(self.origin.relations[place] for place in scores.argmax(1).tolist())

    def _mapped(self, vectors: Tensor, by: Tensor | None) -> Tensor | None:
        self._check_width(vectors)
        return None if by is None else vectors.float() @ by

    def _check_width(self, vectors: Tensor) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != self.origin.dim:
            raise FitError(
                f"the probe was fitted on vectors {self.origin.dim} wide: it cannot read {list(vectors.shape)}"
            )

    def save(self, path: Path) -> None:
        """Write ``path.safetensors``, then ``path.json``, which makes the probe whole."""
        from safetensors.torch import save

        tensors = {name: value.float().contiguous() for name, value in self._tensors().items()}
        write_atomically(path.with_name(f"{path.name}.safetensors"), save(tensors))
        content = json.dumps({"format": _FORMAT, **asdict(self.origin)}, indent=1, ensure_ascii=False)
        write_atomically(path.with_name(f"{path.name}.json"), content.encode())

    @classmethod
    def load(cls, path: Path) -> TreeProbe:
        """Read what :meth:`save` wrote.

        Raises:
            ResultsError: a file is missing, broken or of another format.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        about, weights = (path.with_name(f"{path.name}{ending}") for ending in (".json", ".safetensors"))
        try:
            plain = json.loads(about.read_bytes())
            version = plain.pop("format")
            if version != _FORMAT:
                raise ResultsError(f"{about}: a probe of format {version}, this version reads {_FORMAT}; fit it anew")
            origin = ProbeOrigin(**{**plain, "relations": tuple(plain["relations"])})
            return cls(origin, **load_file(weights))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError, FitError) as error:
            raise ResultsError(f"{about}: no whole probe there ({error}); fit it anew") from error
