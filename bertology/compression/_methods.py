"""Methods that change weights one by one or matrix by matrix, and what every method is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from bertology.compression._model import CompressedModel, Storage
from bertology.errors import ModelError, quoted


class Method(ABC):
    """A way to compress a model; its fields are its settings.

    In every method that has a ``share``, this is the share of something that is taken away: 0 changes nothing.
    """

    name: ClassVar[str]

    @abstractmethod
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """Change a model in memory; returns what was done, in values of JSON.

        Raises:
            BertologyError: it cannot be done to this model.
        """


def check_share(share: float, *, method: str) -> None:
    """Raise a ModelError for a share outside 0…1."""
    if not 0 <= share <= 1:
        raise ModelError(f"{method}: share is {quoted(share)}; give a number from 0 (nothing is taken away) to 1")


@dataclass(frozen=True)
class Magnitude(Method):
    """Set the weights of smallest magnitude to zero (Han et al. 2015; of BERT, Gordon et al. 2020).

    Weights are those of the linear layers; biases and norms stay as they are. Exactly the nearest whole number to
    ``share`` × weights is zero afterwards, those that were zero before among them; of equal magnitudes the first ones.
    """

    name = "magnitude"

    share: float
    """Of the weights, set to zero."""
    scope: Literal["global", "tensor"] = "global"
    """Whether magnitudes are compared across all matrices, or each matrix loses the same share."""
    embeddings: bool = False
    """Whether embedding tables are pruned as well, and with them the projection onto the vocabulary, tied or not."""

    def __post_init__(self) -> None:
        check_share(self.share, method=self.name)

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        matrices = list(compressed.matrices(embeddings=self.embeddings).values())
        groups = [matrices] if self.scope == "global" else [[matrix] for matrix in matrices]
        n_zero = sum(zero_smallest(group, self.share) for group in groups)
        if n_zero:
            compressed.no_longer_factors(matrices)
        return {"zero_weights": n_zero, "of_weights": sum(matrix.numel() for matrix in matrices)}


def zero_smallest(tensors: Sequence[Tensor], share: float) -> int:
    """Set a share of all values, those of smallest magnitude, to zero in place; returns their number."""
    magnitudes = torch.cat([tensor.detach().abs().flatten() for tensor in tensors])
    n_zero = round(share * len(magnitudes))
    if not n_zero:
        return 0
    threshold = magnitudes.kthvalue(n_zero).values
    chosen = magnitudes < threshold
    equal = (magnitudes == threshold).nonzero()[:, 0]
    chosen[equal[: n_zero - int(chosen.sum())]] = True
    for tensor, part in zip(tensors, torch.split(chosen, [tensor.numel() for tensor in tensors]), strict=True):
        tensor.masked_fill_(part.view_as(tensor), 0.0)
    return n_zero


@dataclass(frozen=True)
class LowRank(Method):
    """Replace each linear layer's matrix by the nearest one of lower rank: its truncated singular value decomposition.

    The matrix keeps its shape, so that plain transformers loads it; the size estimate is that of the two factors.
    """

    name = "low_rank"

    share: float
    """Of the singular values of each matrix, the smallest, that are set to zero; one at least stays."""
    embeddings: bool = False
    """Whether embedding tables, and the projection onto the vocabulary, are replaced as well."""

    def __post_init__(self) -> None:
        check_share(self.share, method=self.name)

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        lost = total = 0.0
        matrices = compressed.matrices(embeddings=self.embeddings)
        for matrix in matrices.values():
            full = min(matrix.shape)
            rank = max(1, full - round(self.share * full))
            if rank < full:
                left, values, right = torch.linalg.svd(matrix, full_matrices=False)
                matrix.copy_((left[:, :rank] * values[:rank]) @ right[:rank])
                compressed.storage[id(matrix)] = Storage(rank=rank)
                lost += float(values[rank:].square().sum())
                total += float(values.square().sum())
        return {"matrices": len(matrices), "lost_energy": lost / total if total else 0.0}


@dataclass(frozen=True)
class Quantise(Method):
    """Round each weight to one of 2^bits − 1 values, symmetric around 0, as integer inference would store it.

    With s = max|row| / (2^(bits−1) − 1), 127 or 7 for 8 or 4 bits, a weight w becomes round(w / s) · s: a scale for
    each output of a linear layer and each row of an embedding table. Weights stay float32, so that this shows what is
    lost and not how fast it gets; activations are not quantised. With 16 bits no weight moves by more than
    max|row| / 65,534, and what the rounding of float32 adds (max|row| · 2^−22).
    """

    name = "quantise"

    bits: Literal[4, 8, 16] = 8
    """Of a weight."""
    embeddings: bool = True
    """Whether embedding tables, and the projection onto the vocabulary, are quantised as well."""

    @torch.no_grad()
    def apply(self, compressed: CompressedModel) -> dict[str, Any]:
        """See :meth:`Method.apply`."""
        squared = total = 0.0
        matrices = compressed.matrices(embeddings=self.embeddings)
        for matrix in matrices.values():
            rounded = quantised(matrix, self.bits)
            squared += float((rounded - matrix).square().sum())
            total += float(matrix.square().sum())
            matrix.copy_(rounded)
            compressed.storage[id(matrix)] = Storage(self.bits)
        return {"matrices": len(matrices), "relative_error": math.sqrt(squared / total) if total else 0.0}


def quantised(matrix: Tensor, bits: int) -> Tensor:
    """``[row, column]`` values rounded to multiples of a scale of their row, symmetric around 0."""
    most = 2 ** (bits - 1) - 1
    scale = matrix.abs().amax(1, keepdim=True) / most
    scale = torch.where(scale == 0, 1.0, scale)  # a row of zeros
    return (matrix / scale).round().clamp(-most, most) * scale
