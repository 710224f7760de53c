"""Models that run as they are in memory: a copy of the object, hooks and all, that is compared with the object."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from bertology._files import digest
from bertology.encoders._copying import copied
from bertology.encoders._encoder import Encoder
from bertology.encoders._heads import has_causal_head
from bertology.encoders._modules import LoadedModel, no_parameters_learn
from bertology.encoders.alignment.pieces import PieceReader
from bertology.encoders.interventions import (
    feed_forward_projection,
    head_projection,
    value_projection,
    watching,
)
from bertology.encoders.loading.description import Init, MemorySource, ModelShape, version_of
from bertology.encoders.loading.tokenizer import piece_reader
from bertology.errors import BertologyError, ModelError, SignalError

TEXTS = ("The old man saw a small dog near the house.", "She sings.", "1 2 3, and they have not been there: a, e.")
"""Read by an object and by what stands for it."""
_CLOSE = {"float32": 1e-4, "float64": 1e-4}
_CLOSE_IN_HALF_PRECISION = 3e-2
Returned = dict[str, Tensor]
"""Hidden states and logits ``[piece, …]`` by name, of all texts one after the other."""


@dataclass(frozen=True)
class HeldSource(MemorySource):
    """A model in memory: it has no files, and is found by its name in the process that holds it."""

    held: LoadedModel = field(kw_only=True, repr=False, compare=False)
    """A copy of the object, as it was when it was given."""
    tokenizer: Any = field(kw_only=True, repr=False, compare=False)
    size: ModelShape = field(kw_only=True)
    content: str = field(default="", kw_only=True)
    """Identity of the model, by which results are kept."""
    fresh: Callable[[Init, int], LoadedModel] = field(kw_only=True, repr=False, compare=False)
    """From an initialisation and a seed to the same modules with random weights; raises where there are none."""

    @property
    def dtype(self) -> str:
        """The type of its weights, in which it computes."""
        kinds = (weight.dtype for weight in self.held.outermost.parameters())
        return str(next((kind for kind in kinds if kind.is_floating_point), torch.float32)).removeprefix("torch.")

    @property
    def has_masked_lm_head(self) -> bool:
        """Whether it predicts masked words."""
        return self.held.with_head is not None

    def shape(self) -> ModelShape:
        """The size of the encoder."""
        return self.size

    def fingerprint(self, init: Init, seed: int) -> str:
        """Hash of what decides the hidden states."""
        if init == "pretrained":
            return self.content
        self.fresh(init, seed)
        libraries = [version_of(name) for name in ("torch", "transformers")]
        return digest([self.content.encode(), init.encode(), str(seed).encode(), *libraries])

    def reader(self, max_pieces: int | None) -> PieceReader:
        """The tokenizer, ready to align words to pieces."""
        return piece_reader(self, self.tokenizer, self.held.body, max_pieces=max_pieces)

    def encoder(self, *, init: Init, seed: int, dtype: str | None, device: str, max_pieces: int | None) -> Encoder:
        """An encoder around a copy of the modules, in evaluation mode."""
        if dtype not in (None, self.dtype):
            raise ModelError(
                f"model {self.name} is held in memory in {self.dtype}: ask for dtype {self.dtype!r}, or change the "
                f"object itself (model.to(torch.{dtype}))"
            )
        own = str(next(self.held.outermost.parameters()).device)
        if init != "pretrained":
            model = self.fresh(init, seed)
        else:
            model = copied(
                self.held, list(self.held.outermost.modules()), share=torch.device(device) == torch.device(own)
            )
        model.outermost.to(device)
        no_parameters_learn(model.outermost)
        facts: dict[str, Any] = {"init": init, "seed": seed, "dtype": self.dtype, "eager": False}
        return Encoder(self, self.size, model, tokenizer=self.tokenizer, reader=self.reader(max_pieces), **facts)


def snapshot(model: LoadedModel) -> LoadedModel:
    """A copy of a model in evaluation mode, with weights of its own."""
    made = copied(model, list(model.outermost.modules()), share=False)
    no_parameters_learn(made.outermost)
    return made


def own_tokenizer(tokenizer: Any) -> Any:
    """A copy of a tokenizer that never truncates or pads."""
    import copy

    made = copy.deepcopy(tokenizer)
    made.backend_tokenizer.no_truncation()
    made.backend_tokenizer.no_padding()
    return made


def returned_by(run: Any, model: LoadedModel, tokenizer: Any, *, name: str) -> Returned:
    """What an object returns for each of a few texts alone, in evaluation mode: all layers, and logits.

    Args:
        run: the object, or what is around it.
        model: its parts.
        tokenizer: the tokenizer.
        name: what it is called in errors.

    Raises:
        ModelError: it does not run.
        SignalError: what it returns is not finite.
    """
    found: dict[str, list[Tensor]] = {}
    body, n_layers = model.body, len(model.blocks)

    def keep(layer: int, state: Any) -> None:
        found.setdefault(f"layer {layer}", []).append(state[0].detach().clone())

    def keep_last(module: nn.Module, args: Any, output: Any) -> None:
        keep(n_layers, output.last_hidden_state if hasattr(output, "last_hidden_state") else output[0])

    with _as_in_use(run), _explained(name), torch.no_grad(), contextlib.ExitStack() as stack:
        stack.enter_context(watching(body, model.blocks, lambda block, state: keep(block - 1, state)))
        stack.callback(body.register_forward_hook(keep_last).remove)
        for ids in _ids_of(tokenizer):
            output = run(input_ids=ids.to(next(body.parameters()).device))
            named = (getattr(output, name, None) for name in ("logits", "prediction_logits"))
            logits = output[0] if isinstance(output, tuple) else next((one for one in named if one is not None), None)
            if logits is not None:
                found.setdefault("logits", []).append(logits[0].detach().clone())
    made = {
        place: torch.cat([part if part.ndim > 1 else part[None] for part in parts]).cpu()
        for place, parts in found.items()
    }
    wrong = next((place for place, values in made.items() if not values.isfinite().all()), None)
    if wrong is not None:
        raise SignalError(f"model {name}: {wrong} is not finite; mend the weight, hook or forward that makes it so")
    return made


def returned_in(encoder: Encoder) -> Returned:
    """The same, read through an encoder, from all texts together."""
    rows = _ids_of(encoder.tokenizer)
    ids = nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True, padding_value=encoder.pad_id)
    lengths = torch.tensor([row.shape[1] for row in rows])
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    places, n_layers = mask.nonzero(), encoder.n_layers
    with _explained(encoder.name):
        states = encoder.hidden_states(ids, mask, layers=range(n_layers + 1))
        found = {f"layer {layer}": state[mask.bool()] for layer, state in states.items()}
        if encoder.has_masked_lm_head:
            found["logits"] = encoder.masked_logits(ids, places, attention_mask=mask)[n_layers]
        elif encoder.model.classifier is not None:
            found["logits"] = encoder.class_logits(ids, mask)
        elif has_causal_head(encoder.model.outermost) and (causal := encoder.causal_head) is not None:
            found["logits"] = causal.head.logits(causal.head.features(found[f"layer {n_layers}"]))
    return {name: values.cpu() for name, values in found.items()}


def difference(theirs: Returned, ours: Returned, *, dtype: str) -> str | None:
    """The first place in which two results differ by more than rounding; None where they are the same."""
    close = _CLOSE.get(dtype, _CLOSE_IN_HALF_PRECISION)
    for place, values in ours.items():
        expected = theirs.get(place)
        if expected is None or expected.shape != values.shape:
            return place
        moved = (expected.float() - values.float()).abs().max()
        if moved > close * expected.float().abs().max().clamp_min(1e-6):
            return place
    return None


def checked(source: HeldSource, theirs: Returned, modules: Sequence[nn.Module]) -> HeldSource:
    """Compare a copy of an object with what the object returned.

    Returns:
        The source; where parts of blocks do not run that those of its family have, of a family that is not known, so
        that nothing is read from these parts.

    Raises:
        ModelError: they differ, or the copy runs modules of the object, which are ``modules``.
    """
    own, ran = set(map(id, modules)), dict[int, nn.Module]()

    def note(module: nn.Module, args: Any) -> None:
        ran[id(module)] = module

    device = next(source.held.outermost.parameters()).device
    encoder = source.encoder(init="pretrained", seed=0, dtype=None, device=str(device), max_pieces=None)
    handle = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        ours = returned_in(encoder)
    finally:
        handle.remove()
    if called := [type(module).__name__ for place, module in ran.items() if place in own]:
        raise ModelError(
            f"model {source.name}: a function of it runs a {called[0]} of the object, so that no copy can be made; let "
            "forwards and hooks use the module that they are called with"
        )
    if (place := difference(theirs, ours, dtype=source.dtype)) is not None:
        raise ModelError(
            f"model {source.name}: {place} of a few texts read together is not what the object returns for each alone; "
            "give a model without randomness, state, arithmetic that depends on the batch (dynamic quantisation), or "
            "changes around its encoder"
        )
    parts = [part for block in encoder.model.blocks for part in _known_parts(block, encoder.family)]
    if all(part is not None and id(part) in ran for part in parts):
        return source
    return replace(source, size=replace(source.size, family=f"changed {source.size.family}"))


def redrawn(
    held: LoadedModel, name: str, init: Init, seed: int, copy_embeddings: Callable[[Any, Any], None]
) -> LoadedModel:
    """A copy of a model of transformers whose weights are drawn as its authors initialise them.

    Raises:
        ModelError: it has weights of which it is not known how they are drawn.
    """
    made = snapshot(held)
    whole: Any = made.outermost
    weights, known = dict(whole.named_parameters()), {name for name, _ in whole.named_buffers()}
    apart = sorted(whole.state_dict().keys() - dict(whole.named_parameters(remove_duplicate=False)).keys() - known)
    apart += [place for place, weight in weights.items() if not weight.is_floating_point()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for weight in weights.values():
            if weight.is_floating_point():
                weight.fill_(torch.nan)
        for module in whole.modules():
            vars(module).pop("_is_hf_initialized", None)
        torch.manual_seed(seed)
        whole.initialize_weights()
        for place, weight in weights.items():
            if weight.is_floating_point() and not weight.isfinite().all():
                # Of a module that is none of transformers, such as an adapter.
                if weight.ndim < 2:
                    apart.append(place)
                else:
                    weight.normal_(0.0, float(getattr(whole.config, "initializer_range", 0.02)))
    if apart:
        raise ModelError(
            f"model {name}: it is not known how {apart[0]} is drawn at random; leave the control random out "
            "(controls='majority')"
        )
    if init == "random_blocks":
        copy_embeddings(held.outermost, whole)
    return made


def _known_parts(block: nn.Module, family: str) -> Iterator[nn.Module | None]:
    """The parts of a block that are known for its family; None for one that the block does not have."""
    for find in (head_projection, value_projection, feed_forward_projection):
        with contextlib.suppress(ModelError):  # not known for the family
            try:
                part = find(block, family)
            except AttributeError:
                part = None
            yield part


def _ids_of(tokenizer: Any) -> list[Tensor]:
    return [torch.tensor([tokenizer(text, verbose=False)["input_ids"]]) for text in TEXTS]


@contextlib.contextmanager
def _as_in_use(run: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the context, then the mode of before, module by module."""
    modes = [(module, module.training) for module in run.modules()]
    run.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Whatever modules, hooks and forwards of a person's own raise, in one line."""
    try:
        yield
    except BertologyError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__
        raise ModelError(f"model {name} does not run a few texts ({reason}); mend its forward or hooks") from error
