"""The head that says whether one sentence follows another, in models trained with one (Devlin et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bertology.encoders._finite import check_finite
from bertology.encoders._quiet import quiet_loading
from bertology.encoders._source import ModelSource
from bertology.errors import ModelError

IS_NEXT = 0
"""The column of what follows, as BERT was trained; the other is that of what does not."""


@dataclass(frozen=True)
class NextSentenceHead:
    """What a model makes of its first piece: a pooled vector, and of it whether the second sentence follows."""

    name: str
    """What the model is called."""
    modules: nn.ModuleDict
    """The ``pooler`` and the ``classifier``."""

    @torch.inference_mode()
    def log_probs(self, hidden: Tensor, *, layer: int) -> Tensor:
        """``[text, 2]`` natural logarithms: it follows, it does not; from ``[text, piece, dim]`` hidden states.

        Raises:
            SignalError: logits that are not finite.
        """
        logits: Tensor = self.modules["classifier"](self.modules["pooler"](hidden))
        check_finite("next-sentence logits", {layer: logits}, name=self.name, model=self.modules)
        return logits.float().log_softmax(-1)


def load_next_sentence_head(
    source: ModelSource, config: Any, *, init: str, seed: int, dtype: torch.dtype, device: str
) -> NextSentenceHead:
    """The head in a model's weights, or a fresh one where the model's own weights are fresh.

    Raises:
        ModelError: the architecture has none, or the weights do not.
    """
    from transformers import AutoModelForNextSentencePrediction
    from transformers.models.auto.modeling_auto import MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING

    if type(config) not in MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING:
        raise ModelError(
            f"model {source.name}: {config.model_type} models were not trained to tell whether a sentence follows; "
            "choose one like BERT"
        )
    kind: Any = AutoModelForNextSentencePrediction
    if init == "pretrained":
        with quiet_loading():
            model, report = kind.from_pretrained(source.folder, config=config, dtype=dtype, output_loading_info=True)
        lost = sorted(name for name in report["missing_keys"] if "pooler." in name or name.startswith("cls."))
        if lost:
            raise ModelError(
                f"model {source.name}: no next-sentence head in its weights ({lost[0]} is missing); choose a model "
                "that was saved with it"
            )
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = kind.from_config(config, dtype=torch.float32).to(dtype)
    model.eval().to(device)
    modules = nn.ModuleDict({"pooler": model.base_model.pooler, "classifier": model.cls})
    return NextSentenceHead(source.name, modules)
