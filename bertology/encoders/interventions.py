"""Interventions: context managers that observe, change or skip what an encoder computes in the passes inside them.

- :func:`watching` counts the blocks as they run, and calls a function before each;
- :func:`intervening` replaces values at several sites by functions of them, each an :class:`Intervention`: the hidden
  states of a layer, the output of attention or of the feed-forward part of a block, of one head, or its values;
  :func:`changing` does so for one layer, :func:`gating` multiplies heads (Michel et al. 2019), and
  :meth:`Encoder.run` finds words;
- :func:`starting_from` begins with given hidden states of a layer, :class:`Replay` repeats the outputs of lower blocks.

``body`` is always the module whose forward pass runs all blocks once, ``blocks`` are these in the order in which they
run, where one module may run several times (ALBERT).
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from bertology._names import check_name, layer_number
from bertology.errors import ModelError

Site = Literal["hidden_state", "attention_output", "feed_forward_output", "head", "values", "neurons"]
"""Part of a layer that is observed or changed.

``hidden_state``: its output, of layer 0 the embeddings. ``attention_output`` and ``feed_forward_output``: what these
parts of a block add to the residual stream. ``head``: the output of one head before the output projection of attention.
``values``: the value vectors of all heads side by side, or of one. ``neurons``: the hidden units of the feed-forward
part after their activation function (and gate, where there is one).
"""
SITES: tuple[str, ...] = get_args(Site)

Gates = Mapping[tuple[int, int], "float | Tensor"]
"""Gate by (layer, head), both from 1: one number, or ``[batch]`` one for each row of the batch."""
Change = Callable[[Tensor], Tensor]
"""Function from hidden states ``[batch, piece, dim]`` of one layer to other ones of the same shape and type."""
Words = int | str | Sequence[int | str]
"""Words of texts: numbers from 1, or forms in whatever case, which are all words of that form; one or several."""

# Paths in a block: attention's output projection, its projection to the values, the end of the feed-forward part.
_PARTS: dict[str, tuple[str, str | None, str]] = {
    **dict.fromkeys(
        ("bert", "camembert", "electra", "roberta", "xlm-roberta"),
        ("attention.output.dense", "attention.self.value", "output.dense"),
    ),
    **dict.fromkeys(("bart", "mbart"), ("self_attn.out_proj", "self_attn.v_proj", "fc2")),
    **dict.fromkeys(("mt5", "t5"), ("layer.0.SelfAttention.o", "layer.0.SelfAttention.v", "layer.1.DenseReluDense.wo")),
    "albert": ("attention.dense", "attention.value", "ffn_output"),
    "deberta": ("attention.output.dense", None, "output.dense"),
    "deberta-v2": ("attention.output.dense", "attention.self.value_proj", "output.dense"),
    "distilbert": ("attention.out_lin", "attention.v_lin", "ffn.lin2"),
    "gpt2": ("attn.c_proj", None, "mlp.c_proj"),
    "modernbert": ("attn.Wo", None, "mlp.Wo"),
    "mpnet": ("attention.attn.o", "attention.attn.v", "output.dense"),
}
_PART_OF_SITE = {"head": 0, "attention_output": 0, "values": 1, "feed_forward_output": 2, "neurons": 2}
_OF_INPUT = ("head", "neurons")  # sites that are the input of their module


class StopForward(Exception):  # noqa: N818 - a signal, not an error
    """Ends a forward pass early. Raise it from a hook, and suppress it around the pass."""


@dataclass
class BlockWatch:
    """The number of the block of a model that is running, from 1; 0 before the first."""

    current: int = 0


@contextlib.contextmanager
def watching(
    body: nn.Module, blocks: list[nn.Module], on_block: Callable[[int, Tensor], None] | None = None
) -> Iterator[BlockWatch]:
    """Count the blocks as they run; ``on_block`` is called before each with its number and ``[batch, piece, dim]``."""
    watch = BlockWatch()

    def begin(module: nn.Module, args: Any) -> None:
        watch.current = 0

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        watch.current += 1
        if on_block is not None:
            on_block(watch.current, args[0] if args else kwargs["hidden_states"])

    with contextlib.ExitStack() as stack:
        stack.enter_context(body.register_forward_pre_hook(begin))
        for block in dict.fromkeys(blocks):
            stack.enter_context(block.register_forward_pre_hook(enter, with_kwargs=True))
        yield watch


def find_part(block: nn.Module, family: str, site: str) -> nn.Module:
    """The module of a block whose input (``head``, ``neurons``) or output is a :data:`Site`, where the family is known.

    Of ``head`` and ``values`` these are all heads side by side, head 1 first.
    """
    paths = {known: parts[_PART_OF_SITE[site]] for known, parts in sorted(_PARTS.items())}
    if (path := paths.get(family)) is None:
        known = ", ".join(name for name, path in paths.items() if path)
        raise ModelError(f"site {site}: not known of {family} models, only of {known}")
    return block.get_submodule(path)


def find_embeddings(body: Any, family: str) -> nn.Embedding:
    """The table through which a model reads numbers of subwords; a ModelError where it has none, as I-BERT."""
    table = None
    with contextlib.suppress(NotImplementedError):
        table = body.get_input_embeddings()
    if not isinstance(table, nn.Embedding):
        other = f"embeddings of another kind ({type(table).__name__})"
        what = "no table of subword embeddings" if table is None else other
        raise ModelError(f"{family} models have {what}: not supported; give an encoder like BERT")
    return table


def check_gates(gates: Gates, *, n_layers: int, n_heads: int) -> None:
    """Raise a ModelError for a head that a model does not have, or a gate that is not one number or one a row."""
    for (layer, head), gate in gates.items():
        what = f"head L{layer}H{head}"
        if not (1 <= layer <= n_layers and 1 <= head <= n_heads):
            raise ModelError(f"{what}: the model has {n_layers} layers of {n_heads} heads; both count from 1")
        if isinstance(gate, Tensor) and gate.numel() != 1 and gate.ndim != 1:
            raise ModelError(f"{what}: a gate is one number, or one for each row of a batch, not {tuple(gate.shape)}")


def gating(
    body: nn.Module, blocks: list[nn.Module], gates: Gates, *, n_heads: int, family: str
) -> AbstractContextManager[None]:
    """Multiply the output of each head in ``gates`` by its gate, in every forward pass inside the context."""

    def scaled(layer: int, state: Tensor) -> Tensor:
        if all(gated != layer for gated, _ in gates):
            return state
        values = [torch.as_tensor(gates.get((layer, head), 1.0)).to(state) for head in range(1, n_heads + 1)]
        rows = max(value.numel() for value in values)
        if rows not in (1, len(state)):
            raise ModelError(f"layer {layer}: gates of {rows} rows for a batch of {len(state)}")
        factors = torch.stack([value.reshape(-1).expand(rows) for value in values], dim=1)  # [batch or 1, head]
        heads = torch.unflatten(state, -1, (n_heads, -1))  # [batch, piece, head, dim / head]
        return (heads * factors[:, None, :, None]).flatten(-2)

    # At every layer, so that each pass inside the context runs whole blocks, whatever heads are gated.
    changes = [Intervention(layer, partial(scaled, layer), site="head") for layer in range(1, len(blocks) + 1)]
    return intervening(body, blocks, changes, n_heads=n_heads, family=family)


@dataclass(frozen=True, eq=False)
class Intervention:
    """A change of what a model computes at one site; usual ones are made by class methods, which take ``site`` too."""

    layer: int
    """Number of the layer, from 0 for hidden states, from 1 for other sites."""
    change: Change
    """Function from ``[batch, piece, dim]`` of the site to other values of the same shape and type."""
    site: Site = "hidden_state"
    head: int | None = None
    """Number of the one head that is changed, from 1, for the sites ``head`` and ``values``."""
    words: Words | None = None
    """Words whose pieces are changed: the change is called for each text with ``[1, piece, dim]`` of these pieces. All
    pieces, special ones and padding among them, when left out."""

    @classmethod
    def replacing(cls, layer: int, values: Tensor, **where: Any) -> "Intervention":
        """Put ``values`` in, ``[dim]`` or ``[piece, dim]``; ``dim`` is that of a head where one is named."""
        return cls(layer, lambda state: _fitted(values, state), **where)

    @classmethod
    def adding(cls, layer: int, values: Tensor, **where: Any) -> "Intervention":
        """Add ``values``, ``[dim]`` or ``[piece, dim]``, such as a direction times a strength."""
        return cls(layer, lambda state: state + _fitted(values, state), **where)

    @classmethod
    def projecting(cls, layer: int, matrix: Tensor, **where: Any) -> "Intervention":
        """Multiply each state by a matrix ``[dim, dim]``, such as the projection that takes a direction away."""

        def change(state: Tensor) -> Tensor:
            if list(matrix.shape) != [state.shape[-1]] * 2:
                raise ModelError(f"a matrix of shape {list(matrix.shape)} for states of {state.shape[-1]} dimensions")
            return state @ matrix.to(state).T

        return cls(layer, change, **where)

    @classmethod
    def patching(cls, layer: int, encoder: Any, text: str, *, of: Words | None = None, **where: Any) -> "Intervention":
        """Replace states by those of a forward pass over another text (interchange intervention).

        ``of`` are the words of that text, with as many subwords; the words numbered ``words`` when left out. ``where``
        are ``site``, ``head`` and ``words``. Errors are those of :meth:`Encoder.run`.
        """
        kept: list[Tensor] = []

        def keep(state: Tensor) -> Tensor:
            kept.append(state.clone())
            return state

        encoder.run(text, interventions=[cls(layer, keep, **{**where, **({} if of is None else {"words": of})})])
        return cls.replacing(layer, kept[0][0], **where)

    def at(self, pieces: Sequence[Tensor]) -> "Intervention":
        """The same change restricted to subwords, given by their numbers for each ``[row]`` of a batch."""

        def change(state: Tensor) -> Tensor:
            changed = state.clone()
            for row, of_row in enumerate(pieces):
                if len(of_row):
                    changed[row, of_row] = self._changed(state[row, of_row][None])[0]
            return changed

        return replace(self, change=change, words=None)

    def check(self, *, n_layers: int, n_heads: int | None) -> None:
        """Raise an error for a site, layer or head that the model does not have, or a head where the site has none."""
        check_name("site of an intervention", self.site, SITES)
        lowest = 0 if self.site == "hidden_state" else 1
        if not lowest <= self.layer <= n_layers:
            raise ModelError(f"layer {self.layer}: layers of the site {self.site} are {lowest}…{n_layers}")
        if self.words is not None:
            raise ModelError("words of an intervention are found by Encoder.run: give it to that, or leave words out")
        if self.head is not None and self.site not in ("head", "values"):
            raise ModelError(f"L{self.layer}H{self.head}: {self.site} belongs to no head: leave head out")
        if self.head is not None and n_heads is not None:
            check_gates({(self.layer, self.head): 1.0}, n_layers=n_layers, n_heads=n_heads)

    def _changed(self, state: Tensor) -> Tensor:
        changed = self.change(state)
        if changed.shape != state.shape or changed.dtype != state.dtype:
            made, given = (f"{list(one.shape)} of {one.dtype}" for one in (changed, state))
            raise ModelError(f"a change of hidden states made {made} from {given}: give one that keeps shape and type")
        return changed


def _fitted(values: Tensor, state: Tensor) -> Tensor:
    """``[dim]`` or ``[piece, dim]`` as states ``[batch, piece, dim]``."""
    if values.ndim > 2 or list(values.shape) != list(state.shape[-values.ndim :]):
        what = f"values of shape {list(values.shape)} for states of shape {list(state.shape)}"
        raise ModelError(f"{what}: give [dim], or one for each piece")
    return values.to(state).expand_as(state)


def changing(body: nn.Module, blocks: list[nn.Module], layer: int, change: Change) -> AbstractContextManager[None]:
    """Replace the hidden states of a layer by ``change`` of them, in every forward pass inside the context.

    Layer 0 is the embeddings; the last one (-1) is what the body returns, final norm included. A ModelError is raised
    in a pass if ``change`` does not keep shape and type.
    """
    return intervening(body, blocks, [Intervention(layer, change)])


@contextlib.contextmanager
def intervening(
    body: nn.Module,
    blocks: list[nn.Module],
    interventions: Sequence[Intervention],
    *,
    n_heads: int | None = None,
    family: str = "",
) -> Iterator[None]:
    """Make several changes, in every forward pass inside the context; those of one site one after the other.

    A ModelError is raised where the model has no such site, or it is not known where its family has it, and in a pass
    if a change does not keep shape and type.
    """
    with watching(body, blocks) as watch, contextlib.ExitStack() as stack:
        for one in interventions:
            one = replace(one, layer=layer_number(one.layer, len(blocks)))
            one.check(n_layers=len(blocks), n_heads=n_heads)
            is_state, is_last = one.site == "hidden_state", one.layer == len(blocks)
            # The states of a layer are the input of the next block, which may be a module that runs as several.
            before, after = _hooks(one, watch, one.layer + (is_state and not is_last), n_heads)
            if is_state and is_last:
                stack.callback(body.register_forward_hook(after).remove)
                continue
            modules = dict.fromkeys(blocks) if is_state else [find_part(blocks[one.layer - 1], family, one.site)]
            for module in modules:
                if is_state or one.site in _OF_INPUT:
                    stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
                else:
                    stack.callback(module.register_forward_hook(after).remove)
        yield


def _hooks(
    one: Intervention, watch: BlockWatch, turn: int, n_heads: int | None
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Hooks that change the input and the output of a module while block ``turn`` is running."""

    def changed(values: Tensor) -> Tensor:
        if one.head is None:
            return one._changed(values)
        heads = list(torch.unflatten(values, -1, (n_heads or 1, -1)).unbind(-2))
        heads[one.head - 1] = one._changed(heads[one.head - 1])
        return torch.cat(heads, dim=-1)

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if watch.current != turn:
            return None
        if args:
            return (changed(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": changed(kwargs["hidden_states"])}

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        if watch.current != turn:  # also a body that only hands states to the masked-LM head, and runs no block
            return None
        if isinstance(output, Tensor):
            return changed(output)
        output.last_hidden_state = changed(output.last_hidden_state)
        if getattr(output, "pooler_output", None) is not None:  # computed from the states before they were changed
            pooler: Any = module.pooler
            output.pooler_output = pooler(output.last_hidden_state)
        return output

    return before, after


@contextlib.contextmanager
def forward_replaced(module: nn.Module, forward: Callable[..., Any], *, hooks: bool = True) -> Iterator[None]:
    """Let ``forward`` run in the place of a module's own, inside the context; without its ``hooks`` where so asked."""
    put: dict[str, Any] = {"forward": forward}
    if not hooks:
        put |= {"_forward_hooks": OrderedDict(), "_forward_pre_hooks": OrderedDict()}
    held = vars(module)
    before = {name: held[name] for name in put if name in held}
    held.update(put)
    try:
        yield
    finally:
        for name in put:
            del held[name]
        held.update(before)


def is_plain_linear(module: Any) -> bool:
    """Whether a module multiplies by its weight and adds its bias, and does nothing else."""
    is_linear = type(module) is nn.Linear and "forward" not in vars(module)
    return is_linear and not (module._forward_hooks or module._forward_pre_hooks)


@contextlib.contextmanager
def starting_from(body: nn.Module, blocks: list[nn.Module], layer: int, state: Tensor) -> Iterator[None]:
    """Begin passes inside the context with ``state [batch, piece, dim]`` of a layer: blocks up to it do not compute.

    The model's own forward runs, on an input with as many rows and pieces as ``state``. Not for encoders whose blocks
    return more than hidden states (T5). Layer 0 is the embeddings.
    """
    with _skipping(body, blocks, layer, lambda _, hidden: hidden), changing(body, blocks, layer, lambda _: state):
        yield


class Replay:
    """Outputs of the blocks of an encoder in one pass, for later passes over the same input.

    The model's own forward runs every time, with all that it does between blocks; only blocks whose output could not
    differ do not compute. Not for passes that a backward pass follows. Arguments are those of :func:`watching`.
    """

    def __init__(self, body: nn.Module, blocks: list[nn.Module]) -> None:
        self._body, self._blocks = body, blocks
        self._outputs: dict[int, Any] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Keep the outputs of the blocks in the pass inside the context."""
        self._outputs = {}

        def keep(module: nn.Module, args: Any, output: Any) -> None:
            self._outputs[watch.current] = output

        with watching(self._body, self._blocks) as watch, contextlib.ExitStack() as stack:
            for block in dict.fromkeys(self._blocks):
                # Before hooks of the model's own, which run again on what is repeated.
                stack.callback(block.register_forward_hook(keep, prepend=True).remove)
            yield

    def from_layer(self, layer: int) -> AbstractContextManager[None]:
        """Context in which blocks below ``layer`` (from 1) return recorded outputs, for passes over the same input."""
        return _skipping(self._body, self._blocks, layer - 1, lambda block, _: self._outputs[block])


@contextlib.contextmanager
def _skipping(
    body: nn.Module, blocks: list[nn.Module], n_skipped: int, output: Callable[[int, Tensor], Any]
) -> Iterator[None]:
    """Replace the output of the first blocks by a function of their number and input."""
    with watching(body, blocks) as watch, contextlib.ExitStack() as stack:

        def forward(compute: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if watch.current > n_skipped:
                return compute(*args, **kwargs)
            return output(watch.current, args[0] if args else kwargs["hidden_states"])

        for block in dict.fromkeys(blocks[:n_skipped]):
            stack.enter_context(forward_replaced(block, partial(forward, block.forward)))
        yield
