"""The modules of a loaded model: its blocks, copies for other threads, forward passes and checks of signals."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from bertology.encoders.interventions import StopForward, watching
from bertology.errors import ModelError, SignalError

_LIBRARIES = {"accelerate", "bertology", "builtins", "collections", "functools", "math", "numpy", "peft", "torch"}
_LIBRARIES |= {"transformers"}


def is_of_library(module: str | None) -> bool:
    """Whether a module, by its name, is of a library that models are made of, and knows no model of a person's own."""
    return module is None or module.partition(".")[0].removeprefix("_") in _LIBRARIES


def _rebind(held: MutableMapping[Any, Any], memo: dict[int, Any]) -> None:
    """Replace the functions among some values, and in dictionaries of hooks among them."""
    for key, value in list(held.items()):
        if isinstance(value, FunctionType | MethodType | partial):
            held[key] = _rebound(value, memo, {})
        elif isinstance(key, str) and key.endswith("_hooks") and isinstance(value, dict):
            _rebind(value, memo)


def _rebound(value: Any, memo: dict[int, Any], done: dict[int, Any]) -> Any:
    """A value that a function may refer to, with copies in the place of modules and tensors that were copied."""
    if isinstance(value, nn.Module | Tensor):
        return memo.get(id(value), value)
    if id(value) in done:
        return done[id(value)]
    done[id(value)] = value  # met again before it is done, as a function that calls itself
    parts: tuple[Any, ...] = ()
    make: Callable[..., Any] = lambda *_: value  # noqa: E731 - the value itself where none of its parts was copied
    if isinstance(value, FunctionType) and not is_of_library(value.__module__):
        names = [name for name in value.__code__.co_names if name in value.__globals__]
        cells = value.__closure__ or ()
        contents = (_content(cell) for cell in cells)
        parts = (value.__defaults__, value.__kwdefaults__, *contents, *(value.__globals__[name] for name in names))
        make = partial(_function, value, names)
    elif isinstance(value, MethodType):
        parts, make = (value.__func__, value.__self__), MethodType
    elif isinstance(value, partial):
        parts, make = (value.func, value.args, value.keywords), lambda f, given, named: partial(f, *given, **named)
    elif type(value) in (tuple, list):
        parts, make = tuple(value), lambda *new: type(value)(new)
    elif type(value) is dict:
        parts, make = tuple(value.values()), lambda *new: dict(zip(value, new, strict=True))
    new = [_rebound(part, memo, done) for part in parts]
    if any(a is not b for a, b in zip(new, parts, strict=True)):
        done[id(value)] = make(*new)
    return done[id(value)]


def _function(old: FunctionType, names: list[str], defaults: Any, keywords: Any, *parts: Any) -> FunctionType:
    """A function like another around other defaults, contents of its closure and globals of some names."""
    cells = old.__closure__ or ()
    contents, globals_ = parts[: len(cells)], parts[len(cells) :]
    closure = tuple(cell if _content(cell) is new else CellType(new) for cell, new in zip(cells, contents, strict=True))
    changed = {name: new for name, new in zip(names, globals_, strict=True) if new is not old.__globals__[name]}
    where = {**old.__globals__, **changed} if changed else old.__globals__
    made = FunctionType(old.__code__, where, old.__name__, defaults, closure or None)
    made.__kwdefaults__, made.__module__, made.__qualname__ = keywords, old.__module__, old.__qualname__
    return made


def _content(cell: CellType) -> Any:
    """The content of a closure cell; the cell itself if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


# Families whose blocks are known to give the hidden states; those of any other are checked when it is loaded.
_FAMILIAR = (
    *("albert", "bart", "bert", "deberta-v2", "distilbert", "electra"),
    *("gpt2", "modernbert", "mpnet", "roberta", "t5", "xlm-roberta"),
)

_ATTENTION = ("eager", "sdpa")


@dataclass(frozen=True)
class LoadedModel:
    """The modules of a loaded model."""

    body: nn.Module
    """The encoder proper: its forward pass runs every block once."""
    blocks: list[nn.Module]
    """Its blocks in the order they run."""
    with_head: Any | None
    """The model with its masked-LM head around the body; ``None`` for a model without one."""
    classifier: Any | None = None
    """The model with its classifier of texts around the body, where it was loaded with one."""
    whole: Any | None = None
    """The whole model, where it is in memory and has no files to read further heads from."""

    @property
    def outermost(self) -> nn.Module:
        """The outermost loaded module: the model with its head or classifier if it has one, else its body."""
        outermost: nn.Module = self.whole or self.with_head or self.classifier or self.body
        return outermost

    @property
    def is_stock(self) -> bool:
        """Whether modules and functions are known to be those of transformers, so that parts can stand for them."""
        return self.whole is None

    def copied(self, *, share: bool) -> LoadedModel:
        """A deep copy whose modules call each other, and none of the modules that were copied.

        ``copy.deepcopy`` keeps functions as they are: a ``forward`` that was replaced by a function which calls the old
        one would go on calling it in the module that was copied. Functions in attributes and hooks are therefore made
        anew around the copies of what they refer to, by closure, default, ``partial`` or global name. The copies
        ``share`` the tensors, or have tensors of the same values.
        """
        memo: dict[int, Any] = {}
        modules = list(self.outermost.modules())
        for module in modules:
            held = [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]
            for tensor in (one for one in held if isinstance(one, Tensor)):
                if share:
                    memo[id(tensor)] = tensor
                elif not tensor.is_leaf:  # such as a pruned weight, which deepcopy refuses
                    memo[id(tensor)] = tensor.detach().clone()
        made = copy.deepcopy(self, memo)
        for module in modules:
            _rebind(vars(memo[id(module)]), memo)
        return made

    @contextlib.contextmanager
    def plain_attention(self, name: str) -> Iterator[None]:
        """The plain ("eager") attention, which gives maps, inside the context; ``name`` of the model for the error."""
        body: Any = self.body
        before = body.config._attn_implementation
        if not (before in _ATTENTION or self.is_stock):
            raise ModelError(f"model {name} computes attention by {before!r}, which gives no maps: set eager or sdpa")
        try:
            body.set_attn_implementation("eager")
        except (ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[0][:120]
            raise ModelError(f"model {name} has no plain attention, so gives no maps ({reason})") from None
        try:
            yield
        finally:
            body.set_attn_implementation(before)


def no_parameters_learn(module: nn.Module) -> None:
    """Evaluation mode, and no gradients for the weights."""
    module.eval()
    for parameter in module.parameters():
        parameter.requires_grad_(False)


def check_embeddings(body: Any, family: str) -> None:
    """Raise for a model that does not read numbers of subwords through a table of embeddings, as CANINE and I-BERT."""
    table = None
    with contextlib.suppress(NotImplementedError):
        table = body.get_input_embeddings()
    if not isinstance(table, nn.Embedding):
        other = f"embeddings of another kind ({type(table).__name__})"
        what = "no table of subword embeddings" if table is None else other
        raise ModelError(f"{family} models have {what}: not supported; give an encoder like BERT")


def find_blocks(body: Any, *, n_layers: int, family: str) -> list[nn.Module]:
    """The blocks in the order in which they run; ALBERT's shared block appears once for every time it runs."""
    check_embeddings(body, family)
    if family == "albert":
        config, groups = body.config, body.encoder.albert_layer_groups
        per_group = config.num_hidden_layers / config.num_hidden_groups
        return [block for i in range(config.num_hidden_layers) for block in groups[int(i / per_group)].albert_layers]
    lists = [
        (name.count("."), name, module)
        for name, module in body.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == n_layers
    ]
    if not lists:
        raise ModelError(f"no list of {n_layers} blocks in a {type(body).__name__}: this architecture is not supported")
    depth = min(lists)[0]
    outermost = [(name, module) for nesting, name, module in lists if nesting == depth]
    if len(outermost) > 1:
        names = ", ".join(name for name, _ in outermost)
        raise ModelError(f"{type(body).__name__} has several lists of {n_layers} blocks ({names}): not supported")
    return list(outermost[0][1])


def check_unfamiliar(body: Any, blocks: list[nn.Module], *, family: str) -> None:
    """Raise for a family not known to be supported whose states differ from its own output when read by block."""
    if family in _FAMILIAR:
        return
    remedy = f"{family} models ({type(body).__name__}) are not supported"
    ids = torch.arange(body.get_input_embeddings().num_embeddings)[-7:][None]
    with torch.inference_mode():
        try:
            expected = body(input_ids=ids, output_hidden_states=True, return_dict=True).hidden_states
            read = run_to_layers(body, blocks, {"input_ids": ids}, frozenset(range(len(blocks) + 1)))
        except (TypeError, ValueError, AttributeError, RuntimeError, IndexError, KeyError) as error:
            raise ModelError(f"a trial reading failed ({str(error).splitlines()[0][:120]}): {remedy}") from None
    if expected is None or len(expected) != len(read):
        raise ModelError(f"the model does not tell its hidden states by layer: {remedy}")
    for layer, state in read.items():
        output = expected[layer]
        if output.shape != state.shape or not torch.allclose(output.float(), state.float(), rtol=1e-3, atol=1e-3):
            raise ModelError(f"layer {layer} read from its block is not what the model says it is: {remedy}")


def run_to_layers(
    body: nn.Module, blocks: list[nn.Module], inputs: dict[str, Any], layers: frozenset[int]
) -> dict[int, Tensor]:
    """Hidden states of ``layers``, running no block beyond the deepest of them.

    Layer ``l`` is the input of block ``l + 1``; the last layer is the output of the model, its final norm included, as
    in ``hidden_states`` of Hugging Face.
    """
    states: dict[int, Tensor] = {}
    deepest = max(layers)

    def keep(block: int, state: Tensor) -> None:
        if block - 1 in layers:
            states[block - 1] = state
        if block - 1 == deepest:
            raise StopForward

    with watching(body, blocks, keep), contextlib.suppress(StopForward):
        output = body(**inputs, return_dict=True)
        states[len(blocks)] = output.last_hidden_state
    missing = layers - states.keys()
    if missing:
        raise ModelError(f"{type(body).__name__} ran without passing layers {sorted(missing)}: not supported")
    return {layer: states[layer] for layer in sorted(layers)}


def check_finite(
    what: str, signals: Mapping[int, Tensor], *, name: str, model: nn.Module, by_head: bool = False
) -> None:
    """Raise a SignalError where a signal holds NaN or infinity, from which later steps would compute scores.

    It names the first such layer and, ``by_head`` of ``[batch, head, …]`` signals, its first head, and the cause.
    """
    with torch.no_grad():
        # A sum is NaN or infinite where one of the values is, so that a finite signal costs one reduction.
        sums = torch.stack([signal.sum(dtype=torch.float32) for signal in signals.values()])
        if bool(sums.isfinite().all()):
            return
        for layer, signal in signals.items():
            damaged = ~signal.isfinite()
            if bool(damaged.any()):
                place = f"layer {layer}"
                if by_head:
                    place = f"L{layer}H{int(damaged.transpose(0, 1).flatten(1).any(1).nonzero()[0]) + 1}"
                dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
                why = "its weights are, but too large: save or download the model again"
                if (weight := damaged_weight(model)) is not None:
                    why = refused_weight(weight)
                elif dtype != "float32":
                    remedy = "compute in float32 (--dtype float32)"
                    why = f"its weights are, so a value is too large for {dtype}: {remedy}"
                raise SignalError(f"model {name}: the {what} of {place} are not finite; {why}")


def refused_weight(weight: str) -> str:
    """The message for a model with a weight that is not finite."""
    return f"its weights hold NaN or infinity ({weight}): save or download the model again"


def damaged_weight(model: nn.Module, *, left_out: str | None = None) -> str | None:
    """The first weight that is not finite, but for those with ``left_out`` in their names."""
    for name, values in model.named_parameters():
        is_checked = left_out is None or left_out not in name
        if is_checked and not values.detach().sum(dtype=torch.float32).isfinite() and not values.isfinite().all():
            return name
    return None
