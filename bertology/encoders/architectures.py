"""Architectures that transformers lacks, in folders like its own: bottleneck adapters, LSTMs, static word vectors.

An entry of ``config.json`` names the adapters that a model has besides, and their weights stand in the file of weights;
plain transformers leaves them out when it reads such a folder. The encoder of LSTMs is registered as an architecture of
transformers when this module is imported, and is known in such a process alone.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

from bertology.encoders import static
from bertology.encoders._modules import find_blocks
from bertology.encoders.interventions import find_part
from bertology.errors import ModelError

ADAPTER_SIZE = "bertology_adapter_size"
"""The entry of ``config.json`` of a model with bottleneck adapters: their inner size."""
_MARK = ".bottleneck."
_INIT_SD = 1e-2


def add_adapters(model: Any, size: int) -> None:
    """Put two bottleneck adapters h + U · GELU(D · h) into every block of a model of transformers, in place (Houlsby et
    al. 2019, figure 2), and note their size in its configuration.

    They follow the output of attention and that of the feed-forward part, before it is added to what came in. Weights
    are drawn by the global generator from a normal distribution of standard deviation 0.01, cut at two of these, and
    biases are 0, so that adapters are nearly the identity at first (section 3.6). ModelError in families whose blocks
    are not known.
    """
    config = model.config
    blocks = find_blocks(model.base_model, n_layers=config.num_hidden_layers, family=config.model_type)
    for block in dict.fromkeys(blocks):
        for site in ("attention_output", "feed_forward_output"):
            linear = find_part(block, config.model_type, site)
            if not isinstance(linear, nn.Linear):
                raise ModelError(f"adapters: the blocks of {config.model_type} models have no linear layers: tune all")
            down, up = nn.Linear(linear.out_features, size), nn.Linear(size, linear.out_features)
            for part in (down, up):
                nn.init.trunc_normal_(part.weight, std=_INIT_SD, a=-2 * _INIT_SD, b=2 * _INIT_SD)
                nn.init.zeros_(part.bias)
            linear.bottleneck = nn.Sequential(down, nn.GELU(), up).to(linear.weight.dtype)
            linear.register_forward_hook(partial(_adapted, linear.bottleneck))
    setattr(config, ADAPTER_SIZE, size)


def _adapted(bottleneck: nn.Module, layer: nn.Module, args: Any, hidden: Tensor) -> Tensor:
    adapted: Tensor = hidden + bottleneck(hidden)
    return adapted


def load_adapters(model: Any, files: Iterable[Path]) -> set[str]:
    """Copy the adapters' weights from safetensors files, of a model with any head; returns the names that they lack."""
    prefix = f"{model.base_model_prefix}."
    wanted = {name.removeprefix(prefix): name for name in model.state_dict() if _MARK in name}
    found = dict[str, Tensor]()
    for path in (path for path in files if path.suffix == ".safetensors"):
        with safe_open(path, "pt") as weights:
            bare = {name.removeprefix(prefix): name for name in weights.keys()}  # noqa: SIM118 - no mapping
            found |= {wanted[name]: weights.get_tensor(bare[name]) for name in wanted.keys() & bare.keys()}
    model.load_state_dict(found, strict=False)
    return set(wanted.values()) - found.keys()


class LstmConfig(transformers.PreTrainedConfig):  # type: ignore[misc]
    """Configuration of an encoder of bidirectional LSTMs: ``vocab_size``, ``hidden_size`` and ``num_hidden_layers``."""

    model_type = "bertology_lstm"


class LstmLayer(nn.Module):
    """A bidirectional LSTM whose directions have half of the dimensions each."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """``[batch, piece, dim]`` from the same, of which each row has so many pieces."""
        packed = pack_padded_sequence(hidden, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=hidden.shape[1])
        return states


class _Lstm(transformers.PreTrainedModel):  # type: ignore[misc]
    config_class = LstmConfig
    base_model_prefix = "lstm"

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.LSTM | nn.Embedding):
            module.reset_parameters()


class LstmModel(_Lstm):
    """Subword embeddings and layers of bidirectional LSTMs; padding stands to the right."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(LstmLayer(config.hidden_size) for _ in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The table of subword embeddings."""
        return self.embeddings

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_hidden_states: bool = False, **_: Any
    ) -> Any:
        """Hidden states ``[batch, piece, dim]`` of the last layer, and of all layers from the embeddings on."""
        states = [self.embeddings(input_ids)]
        lengths = (torch.ones_like(input_ids) if attention_mask is None else attention_mask).sum(1)
        for layer in self.layers:
            states.append(layer(states[-1], lengths))
        return BaseModelOutput(states[-1], tuple(states) if output_hidden_states else None)


class _LstmClassifier(_Lstm):
    of_texts: bool

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        dim, output = config.hidden_size, nn.Linear(config.hidden_size, config.num_labels)
        self.lstm = LstmModel(config)
        self.classifier = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), output) if self.of_texts else output
        self.post_init()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """``logits [batch, piece, label]``, of texts ``[batch, label]``; with labels (−100 for none) the ``loss``."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states = self.lstm(input_ids, mask).last_hidden_state
        if self.of_texts:
            half, rows = states.shape[-1] // 2, torch.arange(len(states))
            states = torch.cat([states[rows, mask.sum(1) - 1, :half], states[:, 0, half:]], dim=-1)
        logits, loss = self.classifier(states), None
        if labels is not None:
            loss = self.loss_function(labels=labels, logits=logits, pooled_logits=logits, config=self.config, **kwargs)
        return SequenceClassifierOutput(loss, logits)


class LstmForTokenClassification(_LstmClassifier):
    """A linear layer of labels on the states of each piece."""

    of_texts = False


class LstmForSequenceClassification(_LstmClassifier):
    """The last states of both directions, a layer with ReLU, and one of labels (Tang et al. 2019, section 3.1.2)."""

    of_texts = True


class StaticConfig(LstmConfig):
    """Configuration of static word vectors: an encoder that has embeddings and no layer above them."""

    model_type = static.FAMILY


class StaticModel(LstmModel):
    """Static word vectors."""

    config_class = StaticConfig


transformers.AutoConfig.register(StaticConfig.model_type, StaticConfig)
transformers.AutoModel.register(StaticConfig, StaticModel)
transformers.AutoConfig.register(LstmConfig.model_type, LstmConfig)
transformers.AutoModel.register(LstmConfig, LstmModel)
transformers.AutoModelForSequenceClassification.register(LstmConfig, LstmForSequenceClassification)
transformers.AutoModelForTokenClassification.register(LstmConfig, LstmForTokenClassification)
