"""Load a model with a task head, whose weights are trained further: of sentences, of words, or of answers in a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from bertology._names import layer_number
from bertology.encoders._encoder import Encoder
from bertology.encoders._modules import find_blocks
from bertology.encoders.loading.configuration import load_config
from bertology.encoders.loading.description import MemorySource, ModelSource
from bertology.encoders.loading.quiet import one_line, quiet_loading
from bertology.errors import ModelError

HeadKind = Literal["sentence", "words", "answers"]
"""A label or number of a text or a pair, a label of each word, or the first and last piece of an answer."""
_CLASSES = {
    "sentence": "AutoModelForSequenceClassification",
    "words": "AutoModelForTokenClassification",
    "answers": "AutoModelForQuestionAnswering",
}
_ABOVE_BLOCKS = ("pooler", "norm", "final_norm", "final_layer_norm", "emb_layer_norm_after", "ln_f")
"""What architectures call modules of the body that come after its last block."""


@dataclass(frozen=True)
class TunableModel:
    """A transformers model with a task head, in float32 on the processor, all of whose weights can be trained."""

    model: Any
    blocks: list[nn.Module]
    """The blocks of its encoder in the order in which they run."""
    name: str
    drawn: frozenset[str] = frozenset()
    """Modules whose weights are drawn anew: of the head, and a pooler where the model had none."""

    def freeze_to(self, layer: int) -> None:
        """Fix all that layers 0…``layer`` (-1 is the last) depend on: the embeddings and the blocks up to that one.

        What is trained are the blocks above, what comes after the last block, and the head.

        Raises:
            ModelError: the model has no such layer, or its blocks share their weights.
        """
        n_layers = len(self.blocks)
        layer = layer_number(layer, n_layers)
        if not 0 <= layer <= n_layers:
            raise ModelError(f"layer {layer}: model {self.name} has {n_layers}, so frozen layers are 0…{n_layers}")
        if len(set(map(id, self.blocks))) < n_layers:
            raise ModelError(f"model {self.name}: its blocks share their weights; tune all layers, or none")
        body = self.model.base_model
        trained = [*self.blocks[layer:], *(getattr(body, name, None) for name in _ABOVE_BLOCKS)]
        kept = {id(weight) for module in trained if module is not None for weight in module.parameters()}
        for weight in body.parameters():
            weight.requires_grad_(id(weight) in kept)


def load_tunable(
    encoder: Encoder,
    *,
    head: HeadKind,
    labels: Sequence[str] | None = None,
    seed: int | None = 0,
    trust_remote_code: bool = False,
) -> TunableModel:
    """The model of an encoder with a task head, loaded from the files of the encoder, all of whose weights can learn.

    Args:
        encoder: the model as :func:`load_encoder` gave it, which has checked its files.
        head: what is predicted.
        labels: names of the classes; None for a number, and for answers.
        seed: of the weights of a new head, and of a pooler where the model has none; a head that the model has is left
            out. None loads the model with its own head.
        trust_remote_code: run Python code that comes with the model.

    Raises:
        ModelError: there is no such head for the architecture, or in the weights.
    """
    import transformers

    source = encoder.source
    if isinstance(source, MemorySource):
        raise ModelError(f"model {source.name} is in memory alone, as no files hold it: tune a model that was saved")
    if encoder.tokenizer.pad_token_id is None:
        raise ModelError(f"model {source.name}: its tokenizer has no padding, as decoders'; give an encoder")
    config = load_config(source, trust_remote_code)
    kind: Any = getattr(transformers, _CLASSES[head])
    if config.is_encoder_decoder or type(config) not in kind._model_mapping:
        raise ModelError(f"model {source.name}: no head for {head} is known for {config.model_type} models")
    drawn = frozenset[str]()
    if seed is not None:
        _set_outputs(config, head, labels)
        model, drawn = _with_new_head(source, kind, config, seed, trust_remote_code)
    else:
        model = _with_own_head(source, kind, config, trust_remote_code)
    model.requires_grad_(True)
    blocks = find_blocks(model.base_model, n_layers=encoder.n_layers, family=encoder.family)
    return TunableModel(model, blocks, source.name, drawn)


def _set_outputs(config: Any, head: HeadKind, labels: Sequence[str] | None) -> None:
    if head == "answers":
        config.num_labels = 2
        return
    names = list(labels) if labels is not None else ["number"]
    config.id2label, config.label2id = dict(enumerate(names)), {name: number for number, name in enumerate(names)}
    if head == "sentence":
        config.problem_type = "regression" if labels is None else "single_label_classification"


def _with_new_head(
    source: ModelSource, kind: Any, config: Any, seed: int, trust_remote_code: bool
) -> tuple[Any, frozenset[str]]:
    """The model with a head whose weights are drawn anew, and the modules whose weights are."""
    from transformers import AutoModel

    plain: Any = AutoModel
    options = {"dtype": torch.float32, "trust_remote_code": trust_remote_code}
    failed = one_line(f"{source.folder}: the weights do not fit", remedy="check that they belong to its config.json")
    with quiet_loading(), failed, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind.from_config(config, **options)
        body, report = plain.from_pretrained(source.folder, config=config, output_loading_info=True, **options)
        weights = model.base_model.state_dict()
        known = {
            name: value
            for name, value in body.state_dict().items()
            if name in weights and name not in report["missing_keys"]
        }
        model.base_model.load_state_dict(known, strict=False)
    new = weights.keys() - known.keys()
    if lost := sorted(name for name in new if not name.startswith("pooler.")):
        raise ModelError(f"{source.folder}: the weights lack {lost[0]}, which would be random; give a whole model")
    of_head = {name for name, module in model.named_children() if module is not model.base_model}
    with_weights = {name.partition(".")[0] for name, _ in model.named_parameters()}
    return model, frozenset((of_head & with_weights) | {name.partition(".")[0] for name in new})


def _with_own_head(source: ModelSource, kind: Any, config: Any, trust_remote_code: bool) -> Any:
    options = {"dtype": torch.float32, "trust_remote_code": trust_remote_code}
    with quiet_loading():
        model, report = kind.from_pretrained(source.folder, config=config, output_loading_info=True, **options)
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"model {source.name}: no such head in its weights ({missing[0]} is missing); fine-tune it first"
        )
    return model
