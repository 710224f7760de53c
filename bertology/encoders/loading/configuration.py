"""The configuration of a model, by its class in transformers. Imports no torch of its own."""

from __future__ import annotations

from typing import Any

from bertology.encoders.loading.description import ModelSource
from bertology.encoders.loading.folder import AGAIN, read_config
from bertology.encoders.loading.quiet import one_line
from bertology.errors import ModelError


def load_config(source: ModelSource, trust_remote_code: bool) -> Any:
    """The configuration of a model, by its class in transformers."""
    from transformers import CONFIG_MAPPING, AutoConfig

    path = source.folder / "config.json"
    raw = read_config(source.folder)
    if raw["model_type"] not in CONFIG_MAPPING and not trust_remote_code:
        if "auto_map" not in raw:
            raise ModelError(f"{path}: model_type {raw['model_type']!r} is not known to transformers")
        raise ModelError(
            f"model {source.name} runs Python code of its own: pass --trust-remote-code (trust_remote_code=True) if "
            "you trust it; a file of settings has to ask for it as well (trust_remote_code: true)"
        )
    with one_line(f"{path}: not a usable configuration", remedy=AGAIN):
        config = AutoConfig.from_pretrained(source.folder, trust_remote_code=trust_remote_code)
    if getattr(config, "_attn_implementation", None) not in (None, "eager", "sdpa"):
        config._attn_implementation = None  # such as flash_attention_2: how it was trained, not what it computes
    return config


def claims_masked_lm_head(config: Any) -> bool:
    """Whether a model of a configuration, as :func:`load_config` gives it, was saved with a masked-LM head."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING

    if config.is_encoder_decoder or type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        return False
    if config.model_type == "luke":
        return False  # its head reads entities with the text
    # A model "for pre-training" has the head and another one, except that ELECTRA's is a discriminator.
    endings = ("ForMaskedLM",) if config.model_type == "electra" else ("ForMaskedLM", "ForPreTraining")
    return any(name.endswith(endings) for name in config.architectures or ())
