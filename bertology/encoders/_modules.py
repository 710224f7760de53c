"""The modules of a loaded model: its blocks, copies for other threads, forward passes and checks of signals.

Two forward passes are faster, with the same result up to rounding. *At few places*: a masked-LM head reads few places
of a text, and of the last block a place needs its own query and the hidden states that it attends to; this takes an
eighth off the time of prompts with one mask in a model of six blocks. *Packed weights*: oneDNN, which comes with
PyTorch, packs a float32 weight once into the blocks its kernels read; on AMD processors its products take about three
quarters of the time, and an exact GELU behind a linear map is computed while the result is still in the cache. No other
module uses private operators of PyTorch; ``benchmarks/extraction.py`` shows what these are worth.
"""

import contextlib
import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, Literal, NamedTuple, NoReturn, cast

import torch
from torch import Tensor, nn

from bertology.encoders.interventions import StopForward, find_embeddings, watching
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
        # Its defaults, the contents of its closure, and the globals that it names.
        names = [name for name in value.__code__.co_names if name in value.__globals__]
        cells = [cell for cell in value.__closure__ or () if cell != CellType()]  # but for empty ones
        contents = (cell.cell_contents for cell in cells)
        parts = (value.__defaults__, value.__kwdefaults__, *contents, *(value.__globals__[name] for name in names))

        def make(defaults: Any, keywords: Any, *rest: Any) -> FunctionType:
            put = {id(cell): CellType(new) for cell, new in zip(cells, rest, strict=False)}
            closure = tuple(put.get(id(cell), cell) for cell in value.__closure__ or ())
            held = value.__globals__
            changed = {name: new for name, new in zip(names, rest[len(cells) :], strict=True) if new is not held[name]}
            held = {**held, **changed} if changed else held
            made = FunctionType(value.__code__, held, value.__name__, defaults, closure or None)
            made.__kwdefaults__, made.__module__, made.__qualname__ = keywords, value.__module__, value.__qualname__
            return made

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


_FAMILIAR = {"albert", "bart", "bert", "deberta-v2", "distilbert", "electra", "gpt2", "modernbert", "mpnet", "roberta"}
_FAMILIAR |= {"canine", "t5", "xlm-roberta"}
"""Families whose blocks are known to give the hidden states; those of any other are checked when it is loaded."""


_BY_OUTPUT = {"canine", "flaubert", "funnel", "longformer", "squeezebert", "xlm", "xlnet"}
"""Families whose blocks are no modules of their own, or hand on states in another form than they are returned in."""


@dataclass(frozen=True)
class ReturnedStates:
    """Takes the place of the blocks of a family whose hidden states are those that the whole model returns.

    They can be counted; whatever is to be done to one of them is refused with a ModelError.
    """

    family: str
    n_layers: int
    n_decoded: int = 0
    """Number of layers of Funnel's decoder, which has a state of every subword again; 0 for any other family."""

    def __len__(self) -> int:
        return self.n_layers

    def read(self, body: Any, inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """``[layer, batch, piece, dim]`` hidden states that the model returns, but for those that Funnel has pooled.

        Funnel and CANINE read rows that are padded each by itself, as what pads it would be pooled with its last piece.
        """
        mask, how = inputs.get("attention_mask"), {"return_dict": True, "output_hidden_states": True}
        mask, rows = torch.ones_like(inputs["input_ids"]) if mask is None else mask, list[Tensor]()
        if not self.n_decoded and self.family != "canine":
            return self.kept(body, body(**inputs, **how).hidden_states)
        if (inputs["input_ids"][mask == 0] != (body.config.pad_token_id or 0)).any():
            raise ModelError(f"{self.family} models pool hidden words with those that are read: hide no context")
        given = {name: of.expand_as(mask) for name, of in {**inputs, "attention_mask": mask}.items()}
        for row in [slice(None)] if mask.all() else [slice(row, row + 1) for row in range(len(mask))]:
            is_piece = mask[row][0].bool()
            one = self.filled(body.config, {name: of[row, is_piece] for name, of in given.items()})
            states = torch.stack([*self.kept(body, body(**one, **how).hidden_states)])  # [layer, row, piece, dim]
            rows.append(states.new_zeros(*states.shape[:2], len(is_piece), states.shape[-1]))
            rows[-1][:, :, is_piece] = states[:, :, : int(is_piece.sum())]
        return torch.cat(rows, dim=1).unbind()

    def filled(self, config: Any, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs ``[row, piece]`` of rows that are not padded, and after them what a model needs to pool them all.

        Funnel cannot read what is shorter than its pooling. CANINE leaves out the last group of characters, so that of
        a text alone its last four to seven had the state of those before them; it was trained on texts with padding
        after them, of which two groups are enough, as its convolutions reach no further.
        """
        n, lacking = inputs["input_ids"].shape[-1], 0
        if self.n_decoded:
            lacking = max(0, 2 ** (len(config.block_sizes) - 1) + 1 - n)
        elif self.family == "canine":
            rate = config.downsampling_rate
            lacking = min(-n % rate + 2 * rate, config.max_position_embeddings - n)
        given, pad = {"attention_mask": torch.ones_like(inputs["input_ids"]), **inputs}, config.pad_token_id or 0
        fill = {name: pad if name == "input_ids" else 0 for name in given}
        return {name: nn.functional.pad(of, (0, lacking), value=fill[name]) for name, of in given.items()}

    def kept(self, body: Any, returned: Sequence[Tensor]) -> Sequence[Tensor]:
        """The states by layer: of Funnel those of its first block, then those of its decoder.

        Of CANINE they are those of its local block, of its deep blocks, each repeated for the characters that it stands
        for, and of its final block (Clark et al. 2022, section 3).
        """
        if self.family == "canine":
            n = returned[0].shape[1]
            return (*returned[:2], *(body._repeat_molecules(one, n) for one in returned[3:-2]), returned[-1])
        n = self.n_decoded
        return (*returned[: self.n_layers - n + 1], *returned[-n:]) if n else returned

    def __iter__(self) -> NoReturn:
        raise ModelError(f"of {self.family} models hidden states alone are read, not single blocks: give another model")

    def __getitem__(self, block: Any) -> NoReturn:
        iter(self)


@dataclass(frozen=True)
class LoadedModel:
    """The modules of a loaded model."""

    body: nn.Module  # the encoder proper: its forward pass runs every block once
    blocks: list[nn.Module]  # its blocks in the order they run
    with_head: Any | None  # the model with its masked-LM head around the body; ``None`` for a model without one
    with_task: Any | None = None
    """The model with the head of a task around the body: read from the files when it is first asked for."""
    whole: Any | None = None  # the whole model, where it is in memory and has no files to read further heads from

    @property
    def outermost(self) -> nn.Module:
        """The outermost loaded module: the model with its head if one is loaded, else its body."""
        outermost: nn.Module = self.whole or self.with_head or self.with_task or self.body
        return outermost

    @property
    def is_stock(self) -> bool:
        """Whether modules and functions are known to be those of transformers, so that parts can stand for them."""
        return self.whole is None

    def copied(self, *, share: bool) -> "LoadedModel":
        """A deep copy whose modules call each other, and none of the modules that were copied.

        ``copy.deepcopy`` keeps functions as they are: a ``forward`` that was replaced by a function which calls the old
        one would go on calling it in the module that was copied. Functions in attributes and hooks are therefore made
        anew around the copies of what they refer to, by closure, default, ``partial`` or global name. The copies
        ``share`` the tensors, or have tensors of the same values, in evaluation mode and without gradients.
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
        if not share:
            made.outermost.eval().requires_grad_(False)
        return made


def count_embeddings(body: Any, family: str) -> int:
    """How many numbers of pieces a model reads: those of its table of embeddings; of CANINE all code points.

    A ModelError is raised as by :func:`find_embeddings`.
    """
    if family == "canine":
        return sys.maxunicode + 1
    return find_embeddings(body, family).num_embeddings


def find_blocks(body: Any, *, n_layers: int, family: str) -> list[nn.Module]:
    """The blocks in the order in which they run; ALBERT's shared block appears once for every time it runs."""
    count_embeddings(body, family)
    if family in _BY_OUTPUT:
        is_whole = family == "funnel" and hasattr(body, "decoder") and body.config.truncate_seq
        n_decoded = body.config.num_decoder_layers if is_whole else 0
        if family == "funnel" and not n_decoded:
            raise ModelError("funnel models without decoder (num_decoder_layers) or truncate_seq are not supported")
        return cast("list[nn.Module]", ReturnedStates(family, n_layers, n_decoded))
    if family == "albert":
        config, groups = body.config, body.encoder.albert_layer_groups
        per_group = config.num_hidden_layers / config.num_hidden_groups
        return [block for i in range(config.num_hidden_layers) for block in groups[int(i / per_group)].albert_layers]
    lists = [
        (name.count("."), module)
        for name, module in body.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == n_layers
    ]
    outermost = [module for depth, module in lists if depth == min(depth for depth, _ in lists)]
    if len(outermost) != 1:
        found = f"{len(outermost) or 'no'} lists of {n_layers} blocks in a {type(body).__name__}"
        raise ModelError(f"{found}: this architecture is not supported; give an encoder like BERT")
    return list(outermost[0])


def check_unfamiliar(body: Any, blocks: list[nn.Module], *, family: str) -> None:
    """Raise for a family not known to be supported whose states differ from its own output when read by block."""
    if family in _FAMILIAR:
        return
    ids = torch.arange(body.get_input_embeddings().num_embeddings)[-7:][None]
    why = "its hidden states read from blocks are not those that it returns"
    with torch.inference_mode():
        try:
            expected = body(input_ids=ids, output_hidden_states=True, return_dict=True).hidden_states or ()
            read = run_to_layers(body, blocks, {"input_ids": ids}, frozenset(range(len(blocks) + 1)))
            expected = blocks.kept(body, expected) if isinstance(blocks, ReturnedStates) else expected
            if len(expected) == len(read) and all(
                theirs.shape == own.shape and torch.allclose(theirs.float(), own.float(), rtol=1e-3, atol=1e-3)
                for theirs, own in zip(expected, read.values(), strict=True)
            ):
                return
        except (ModelError, TypeError, ValueError, AttributeError, RuntimeError, IndexError, KeyError) as error:
            why = str(error).splitlines()[0][:120]
    raise ModelError(f"{family} models ({type(body).__name__}) are not supported ({why}); give an encoder like BERT")


def run_to_layers(
    body: nn.Module, blocks: list[nn.Module], inputs: dict[str, Any], layers: frozenset[int]
) -> dict[int, Tensor]:
    """Hidden states of ``layers``, running no block beyond the deepest of them.

    Layer ``l`` is the input of block ``l + 1``; the last layer is the output of the model, its final norm included, as
    in ``hidden_states`` of Hugging Face.
    """
    if isinstance(blocks, ReturnedStates):
        returned = blocks.read(body, inputs)
        return {layer: returned[layer] for layer in sorted(layers)}
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
                if dtype != "float32":
                    why = f"its weights are, so a value is too large for {dtype}: compute in float32 (--dtype float32)"
                raise SignalError(f"model {name}: the {what} of {place} are not finite; {damaged_weight(model) or why}")


def damaged_weight(model: nn.Module, *, left_out: str = "\n") -> str | None:
    """A description of the first weight that is not finite, but for those with ``left_out`` in their names."""
    for name, values in model.named_parameters():
        is_finite = values.detach().sum(dtype=torch.float32).isfinite() or values.isfinite().all()
        if left_out not in name and not is_finite:
            return f"its weights hold NaN or infinity ({name}): save or download the model again"
    return None


_MOST_PLACES_A_ROW = 4
_LEAST_PIECES_A_PLACE = 4


class _Parts(NamedTuple):
    """The parts of a block."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    rest: Callable[[Tensor, Tensor], Tensor]
    """Function from the heads' outputs side by side and the block's input, ``[place, dim]`` both, to its output."""


def states_at(
    model: LoadedModel, inputs: dict[str, Any], layers: frozenset[int], positions: Tensor, *, family: str, n_heads: int
) -> dict[int, Tensor]:
    """``[place, dim]`` hidden states of ``layers`` at some places, running no more of the deepest block than needed.

    Where that block cannot be taken apart (:func:`_can_be_narrow`) it is run at all pieces, with the same result up to
    rounding. ``positions [place, 2]`` are row and piece.
    """
    deepest, n_places, ids = max(layers), len(positions), inputs["input_ids"]
    rows, columns = positions.unbind(-1)
    # Few enough for each to have a copy of its row's hidden states, and to gain by it.
    are_few = n_places <= _MOST_PLACES_A_ROW * len(ids) and n_places * _LEAST_PIECES_A_PLACE <= ids.numel()
    if not (are_few and _can_be_narrow(model, deepest, family)):
        states = run_to_layers(model.body, model.blocks, inputs, layers)
        return {layer: state[rows, columns] for layer, state in states.items()}
    states = run_to_layers(model.body, model.blocks, inputs, layers - {deepest} | {deepest - 1})
    at_places = {layer: states[layer][rows, columns] for layer in sorted(layers - {deepest})}
    parts = _PARTS[family](model.blocks[deepest - 1])
    mask = inputs.get("attention_mask")
    return at_places | {deepest: _block_at(parts, states[deepest - 1], mask, positions, n_heads)}


def _can_be_narrow(model: LoadedModel, deepest: int, family: str) -> bool:
    """Whether the deepest block's output at a place is a function of known parts alone.

    Half precision is left to the model itself, since its rounding depends on the order of products.
    """
    if deepest == 0 or family not in _PARTS:
        return False
    config, block = model.body.config, model.blocks[deepest - 1]
    # Attention that looks both ways, and at nothing but hidden states: no decoder, no relative positions.
    is_plain = not getattr(config, "is_decoder", False)
    is_plain &= getattr(config, "position_embedding_type", "absolute") == "absolute"
    if not (is_plain and model.is_stock and type(block).__module__.startswith("transformers.")):
        return False
    # Hooks that change what the block computes, as gates do, or look at it; those of transformers, which stay once they
    # have been used, record outputs for its own forward pass.
    hooks = [*model.body._forward_hooks.values(), *block._forward_hooks.values()]
    for module in block.modules():
        hooks += [*module._forward_pre_hooks.values(), *module._forward_hooks.values()] if module is not block else ()
    if not all(getattr(hook, "__module__", "").startswith("transformers.") for hook in hooks):
        return False
    linears = _PARTS[family](block)[:3]
    return all(type(linear) is nn.Linear and linear.weight.dtype == torch.float32 for linear in linears)


def _block_at(parts: _Parts, hidden: Tensor, mask: Tensor | None, positions: Tensor, n_heads: int) -> Tensor:
    """``[place, dim]`` output of a block at some places, of its input ``hidden [row, piece, dim]``.

    Neither keys nor values are formed: a head's key map is applied to the query and its value map to the weighted mean
    of the hidden states, one product a place instead of one a piece. Biases of keys add the same to all scores of a
    query, so drop out of the softmax; biases of values pass through it unchanged, since weights sum to 1.
    """
    rows, columns = positions.unbind(-1)
    inputs, pieces = hidden[rows, columns], hidden[rows]  # [place, dim], [place, piece, dim]
    queries = parts.query(inputs).unflatten(-1, (n_heads, -1)).transpose(0, 1)  # [head, place, dim / head]
    to_keys = parts.key.weight.reshape(n_heads, -1, inputs.shape[-1])  # [head, dim / head, dim]
    to_values = parts.value.weight.reshape(n_heads, -1, inputs.shape[-1])
    mapped = torch.bmm(queries * queries.shape[-1] ** -0.5, to_keys).transpose(0, 1)  # [place, head, dim]
    scores = torch.bmm(mapped, pieces.transpose(1, 2))  # [place, head, piece]
    if mask is not None:
        scores = scores.masked_fill(mask[rows, None] == 0, torch.finfo(scores.dtype).min)
    means = torch.bmm(scores.softmax(-1), pieces).transpose(0, 1)  # [head, place, dim]
    values = torch.bmm(means, to_values.transpose(1, 2)).transpose(0, 1).flatten(1)
    return parts.rest(values if parts.value.bias is None else values + parts.value.bias, inputs)


def _bert_parts(block: Any) -> _Parts:
    attention = block.attention

    def rest(values: Tensor, inputs: Tensor) -> Any:
        attended = attention.output(values, inputs)
        return block.output(block.intermediate(attended), attended)

    return _Parts(attention.self.query, attention.self.key, attention.self.value, rest)


def _distilbert_parts(block: Any) -> _Parts:
    attention = block.attention

    def rest(values: Tensor, inputs: Tensor) -> Any:
        attended = block.sa_layer_norm(attention.out_lin(values) + inputs)
        return block.output_layer_norm(block.ffn.ff_chunk(attended) + attended)

    return _Parts(attention.q_lin, attention.k_lin, attention.v_lin, rest)


_PARTS: dict[str, Callable[[Any], _Parts]] = {
    **dict.fromkeys(("bert", "camembert", "electra", "roberta", "xlm-roberta"), _bert_parts),
    "distilbert": _distilbert_parts,
}


def pack(body: nn.Module) -> None:
    """Pack the weights of all linear maps in ``body``, which must share no module with another encoder.

    The weights themselves stay as they are; packed copies take as much memory again. Gradients do not pass.
    """
    for module in body.modules():
        dense, activation = getattr(module, "dense", None), getattr(module, "intermediate_act_fn", None)
        is_gelu = isinstance(activation, nn.GELU) and activation.approximate == "none"  # by the error function
        if type(activation).__name__ == "GELUActivation":
            is_gelu = getattr(activation, "act", None) is nn.functional.gelu
        if type(dense) is nn.Linear and is_gelu:
            dense.__dict__["forward"] = _packed(dense, "gelu")
            module.intermediate_act_fn = nn.Identity()
    for module in body.modules():
        if type(module) is nn.Linear and "forward" not in module.__dict__:
            module.__dict__["forward"] = _packed(module, "none")


def _packed(linear: nn.Linear, after: Literal["none", "gelu"]) -> Callable[[Tensor], Tensor]:
    """``linear`` as a function that holds only tensors, so that copies of the module share it."""
    multiply: Any = torch.ops.mkldnn._linear_pointwise
    with torch.inference_mode(mode=False):
        weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().contiguous())
    bias = None if linear.bias is None else linear.bias.detach()
    return lambda values: multiply(values, weight, bias, after, [], "none")
