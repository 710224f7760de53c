"""A head on a frozen encoder: which layers it reads, how they are mixed, and what is predicted.

That is the feature-based approach of Devlin et al. (2019, section 5.3). The encoder is no part of the module: its
weights are in no state that is saved, and cannot be trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bertology._names import layer_number
from bertology.encoders import Encoder
from bertology.errors import ModelError
from bertology.finetuning._inputs import IGNORED
from bertology.finetuning._items import Kind

_FOUR = 4
_MOST_KEPT = 1 << 30
_INPUTS = "input_ids", "attention_mask", "token_type_ids"


def layers_read(features: str, n_layers: int, *, name: str) -> tuple[int, ...]:
    """The layers of each choice of features; 0 is the embedding output.

    Raises:
        ModelError: the model has fewer layers.
    """
    if features.startswith("layer:"):
        chosen: tuple[int, ...] = (layer_number(int(features.partition(":")[2]), n_layers),)
    else:
        chosen = {
            "embeddings": (0,),
            "second_to_last": (n_layers - 1,),
            "last": (n_layers,),
            "sum_last_four": tuple(range(n_layers - _FOUR + 1, n_layers + 1)),
            "concat_last_four": tuple(range(n_layers - _FOUR + 1, n_layers + 1)),
            "sum_all": tuple(range(1, n_layers + 1)),
        }[features]
    if not 0 <= chosen[-1] <= n_layers or (len(chosen) == _FOUR and chosen[0] < 1):
        raise ModelError(f"features {features}: model {name} has {n_layers} layers; choose another")
    return chosen


class FrozenStates:
    """Hidden states of a frozen encoder, ``[layer, input, piece, dim]``; of inputs that were kept they are read once.

    A head is trained for many epochs on the same inputs, and nothing that it reads changes. What is kept depends on the
    inputs alone, so that a run that goes on after a stop has the same states, bit for bit.
    """

    def __init__(self, encoder: Encoder, layers: Sequence[int]) -> None:
        self._encoder, self._layers = encoder, tuple(layers)
        self._kept: dict[bytes, Tensor] = {}

    def keep(self, n_pieces: int, batches: Iterable[Mapping[str, Tensor]]) -> None:
        """Read the inputs of some batches, unless all of them would take more than 1 GiB.

        Args:
            n_pieces: of all batches, padding left out.
            batches: with ``input_ids``, ``attention_mask`` and maybe ``token_type_ids``, ``[input, piece]``.
        """
        if 4 * n_pieces * len(self._layers) * self._encoder.dim > _MOST_KEPT:
            return
        for batch in batches:
            ids, mask, types = (_on(batch.get(name), self._encoder.device) for name in _INPUTS)
            assert ids is not None
            assert mask is not None
            states = self._read(ids, mask, types)
            for place, (key, length) in enumerate(_keys(ids, mask, types)):
                self._kept[key] = states[:, place, :length].clone()

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """The states of a batch; of padding they are arbitrary."""
        keys = _keys(input_ids, attention_mask, token_type_ids) if self._kept else [(b"", 0)]
        if any(key not in self._kept for key, _ in keys):
            return self._read(input_ids, attention_mask, token_type_ids)
        shape = len(self._layers), *input_ids.shape, self._encoder.dim
        states = torch.zeros(shape, device=input_ids.device)
        for place, (key, length) in enumerate(keys):
            states[:, place, :length] = self._kept[key]
        return states

    def _read(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        states = self._encoder.hidden_states(
            input_ids, attention_mask, layers=self._layers, token_type_ids=token_type_ids
        )
        # Copies: what was computed in inference mode cannot take part in gradients.
        return torch.stack([states[layer] for layer in self._layers]).float().clone()


def _keys(input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> list[tuple[bytes, int]]:
    """Of each input what tells it from others, and its length; padding is on the right."""
    lengths = attention_mask.sum(1).tolist()
    columns = [one.cpu().numpy() for one in (input_ids, token_type_ids) if one is not None]
    return [
        (b"".join(column[place, :length].tobytes() for column in columns), length)
        for place, length in enumerate(lengths)
    ]


def _on(value: Tensor | None, device: str | torch.device) -> Tensor | None:
    return None if value is None else value.to(device)


class Mix(nn.Module):
    """A weighted sum of layers: weights that sum to 1, times one scale (Peters et al. 2018, eq. 1)."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(n_layers))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Tensor:
        """``[layer]`` the weights, which sum to 1."""
        return self.scores.softmax(0)

    def forward(self, states: Tensor) -> Tensor:
        """``[input, piece, dim]`` from ``[layer, input, piece, dim]``."""
        return self.scale * torch.einsum("l,lbpd->bpd", self.weights, states)


class FrozenHead(nn.Module):
    """Hidden states of some layers, a mix of them, maybe an LSTM, and a linear layer.

    Of a text it reads the mean over its pieces; of a pair the means u and v of both texts, |u − v| and u · v by
    dimension (Conneau et al. 2017); of words their first piece; of answers each piece.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        features: str,
        head: str,
        kind: Kind,
        are_pairs: bool,
        n_outputs: int,
        states: FrozenStates | None = None,
    ) -> None:
        super().__init__()
        self.layers = layers_read(features, encoder.n_layers, name=encoder.name)
        self._states = FrozenStates(encoder, self.layers) if states is None else states
        self.kind, self.are_pairs = kind, are_pairs
        self.mix = Mix(len(self.layers)) if features.startswith("sum_") else None
        width = encoder.dim * (len(self.layers) if self.mix is None else 1)
        self.lstm: nn.LSTM | None = None
        if head == "bilstm":
            self.lstm = nn.LSTM(width, encoder.dim, num_layers=2, batch_first=True, bidirectional=True)
            width = 2 * encoder.dim
        self.output = nn.Linear(width * (4 if are_pairs else 1), n_outputs)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segments: Tensor,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """``logits [input, class]``, or by piece, and with labels the ``loss``; inputs are ``[input, piece]``."""
        states = self._states(input_ids, attention_mask, token_type_ids)
        vectors = self.mix(states) if self.mix is not None else states.permute(1, 2, 0, 3).flatten(2)
        if self.lstm is not None:
            lengths = attention_mask.sum(1).cpu()
            packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
            vectors, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1])
        if self.kind in ("tags", "answers"):
            logits = self.output(vectors)
        else:
            logits = self.output(self._pooled(vectors, segments))
        loss = _loss(self.kind, logits, labels, start_positions, end_positions)
        return {"logits": logits} | ({} if loss is None else {"loss": loss})

    def _pooled(self, vectors: Tensor, segments: Tensor) -> Tensor:
        first = _mean(vectors, segments == 0)
        if not self.are_pairs:
            return first
        second = _mean(vectors, segments == 1)
        return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


def _mean(vectors: Tensor, chosen: Tensor) -> Tensor:
    weights = chosen.to(vectors.dtype).unsqueeze(-1)
    return (vectors * weights).sum(1) / weights.sum(1).clamp(min=1)


def _loss(
    kind: Kind, logits: Tensor, labels: Tensor | None, starts: Tensor | None, ends: Tensor | None
) -> Tensor | None:
    if starts is not None and ends is not None:
        return (cross_entropy(logits[..., 0], starts) + cross_entropy(logits[..., 1], ends)) / 2
    if labels is None:
        return None
    if kind == "numbers":
        return mse_loss(logits[..., 0], labels.to(logits.dtype))
    return cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)
