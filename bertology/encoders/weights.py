"""The weights of a model, stored or loaded, one tensor at a time, with the layer and part of each."""

import contextlib
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from bertology._lazy import transformers
from bertology._names import by_key
from bertology.encoders import sources
from bertology.encoders._modules import LoadedModel, find_blocks
from bertology.encoders.loading import check_files
from bertology.errors import ModelError

WeightKind = Literal["embeddings", "query", "key", "value", "query_key_value", "output", "feed_forward", "norm", "head"]
"""Part of an encoder: embedding tables; the four projections of attention (``query_key_value`` where a family has one
matrix for three); the feed-forward layers; norms, wherever they are; and the heads, the pooler among them."""

# What architectures call these projections, at the end of a path within a block; the first that fits counts.
_KINDS: tuple[tuple[WeightKind, str], ...] = (
    ("query_key_value", r"(attn\.(Wqkv|c_attn)|attention\.self\.in_proj)"),
    ("query", r".*(att|Att)[\w.]*\.(query(_proj)?|q_lin|q_proj|q|pos_query_proj|pos_q_proj)"),
    ("key", r".*(att|Att)[\w.]*\.(key(_proj)?|k_lin|k_proj|k|pos_key_proj|pos_proj)"),
    ("value", r".*(att|Att)[\w.]*\.(value(_proj)?|v_lin|v_proj|v)"),
    ("output", r"(attention\.output\.dense|.*(att|Att)[\w.]*\.(dense|out_lin|out_proj|o|Wo|c_proj))"),
)
_ABOVE_BLOCKS = re.compile(r"(encoder\.)?(norm|final_norm|final_layer_norm|emb_layer_norm_after|ln_f)\.")
_FLOATS = ("F1", "F3", "F6", "F8", "BF")  # beginnings of the names of floating-point types in safetensors files
_LEGACY = ((".gamma", ".weight"), (".beta", ".bias"))  # endings of the parameters of norms in old checkpoints of BERT


@dataclass(frozen=True)
class WeightPlace:
    """The place of a tensor in a model."""

    layers: tuple[int, ...]  # 0 embeddings, 1…L blocks, of which ALBERT's tensors serve several; empty for the heads
    kind: WeightKind


class StoredWeights:
    """The tensors of floating point in a model's files; a context manager.

    Names are those of the encoder without the prefix of the class that saved it (``encoder.layer.0.…``), so that the
    same weights have the same name with every head; tied weights are there once. Files are mapped, not loaded. A
    ModelError is raised where the model has no files, or they cannot be read.
    """

    def __init__(self, source: sources.ModelSource) -> None:
        check_files(source, "pretrained")
        self.name, self.source = source.title, source
        self.n_bytes = sum(path.stat().st_size for path in sources.weight_files(source.folder))
        """Total size of the files of weights."""
        self._stack, shape = contextlib.ExitStack(), sources.model_shape(source)
        with (
            sources.quiet_loading(),
            sources.one_line(f"{source.folder}: no model can be made of its config.json", remedy=sources.AGAIN),
        ):
            config = sources.load_config(source, False)
            if config.is_encoder_decoder:
                raise ModelError(f"model {source.name} is an encoder-decoder ({shape.family}): give an encoder")
            kind: Any = getattr(transformers, (config.architectures or [""])[0], None)
            if not hasattr(kind, "_from_config"):
                kind = transformers.MODEL_MAPPING[type(config)]
            with torch.device("meta"):
                model = kind._from_config(config)
                sources.add_own_parts(model)
        body, tied = model.base_model, frozenset(getattr(model, "all_tied_weights_keys", None) or {})
        own = {name for name, _ in body.named_parameters(remove_duplicate=False)}
        self._readers: dict[str, Callable[[], Tensor]] = {}
        for stored, read in self._stored().items():
            plain = stored.removeprefix(f"{model.base_model_prefix}.")
            for old, new in _LEGACY:
                if plain.endswith(old) and plain not in own:
                    plain = plain.removesuffix(old) + new
            if stored not in tied:
                # A head may have a tensor of the name that the encoder has under the prefix: it keeps its own.
                self._readers[plain if plain in own else stored] = read
        known = weight_places(body, find_blocks(body, n_layers=shape.n_layers, family=shape.family))
        places = [(name, known.get(name, WeightPlace((), "head"))) for name in self._readers]
        places.sort(key=lambda place: place[1].layers or (shape.n_layers + 1,))
        self.places: Mapping[str, WeightPlace] = dict(places)
        """Tensors by name, in the order of layers, the heads last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._readers.clear()
        self._stack.close()

    def read(self, name: str) -> Tensor:
        """The values of a tensor, as they are stored."""
        return self._readers[name]()

    def _stored(self) -> dict[str, Callable[[], Tensor]]:
        """Functions that read the tensors of floating point, by stored name."""
        from safetensors import safe_open

        found: dict[str, Callable[[], Tensor]] = {}
        for path in sources.weight_files(self.source.folder):
            with sources.one_line(f"{path}: the weights cannot be read", remedy=sources.AGAIN):
                if path.suffix == ".safetensors":
                    opened: Any = self._stack.enter_context(safe_open(path, framework="pt"))
                    names = [one for one in opened.keys() if opened.get_slice(one).get_dtype()[:2] in _FLOATS]  # noqa: SIM118
                    found |= {name: partial(opened.get_tensor, name) for name in names}
                else:
                    # Files of torch before 1.6 cannot be mapped.
                    is_mapped = zipfile.is_zipfile(path)
                    loaded: dict[str, Tensor] = torch.load(path, "cpu", mmap=is_mapped, weights_only=True)
                    found |= {name: one.detach for name, one in loaded.items() if one.is_floating_point()}
        return found


class LoadedWeights:
    """The tensors of ``encoder.model``, of heads the one of masked pieces at most, by the names in StoredWeights."""

    def __init__(self, model: LoadedModel, name: str) -> None:
        if not model.is_stock:
            raise ModelError(
                f"model {name} was changed in memory, so that its weights cannot be read: save it and give the folder"
            )
        self.name, body = name, {id(value): place for place, value in model.body.named_parameters()}
        self._values = {body.get(id(value), place): value for place, value in model.outermost.named_parameters()}
        known = weight_places(model.body, model.blocks)
        places = {place: known.get(place, WeightPlace((), "head")) for place in self._values}
        self.places: Mapping[str, WeightPlace] = places

    def read(self, name: str) -> Tensor:
        """The values of a tensor, on the processor."""
        return self._values[name].detach().cpu()


def weight_places(body: nn.Module, blocks: Sequence[nn.Module]) -> dict[str, WeightPlace]:
    """The place of each parameter of an encoder ``body``, by its name in it; a pooler is a head."""
    layers = by_key((id(block), layer) for layer, block in enumerate(blocks, 1))
    prefixes = {f"{path}.": layers[id(module)] for path, module in body.named_modules() if id(module) in layers}
    found = {}
    for name, _ in body.named_parameters(remove_duplicate=False):
        path = name.rpartition(".")[0]
        prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), None)
        if name.startswith("pooler."):
            place = WeightPlace((), "head")
        elif prefix is not None:
            place = WeightPlace(tuple(prefixes[prefix]), _kind(path.removeprefix(prefix)))
        elif _ABOVE_BLOCKS.match(name):
            place = WeightPlace((len(blocks),), _kind(path))
        else:
            place = WeightPlace((0,), "norm" if _kind(path) == "norm" else "embeddings")
        found[name] = place
    return found


def _kind(path: str) -> WeightKind:
    """The kind of a module by its path within a block; what is neither attention nor norm is feed-forward."""
    if re.fullmatch(r"(layer_?norm|norm\d?|ln_\w|.*_layer_norm|.*_norm)", path.rpartition(".")[2], re.IGNORECASE):
        return "norm"
    return next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, path)), "feed_forward")
