"""Models in memory: models of transformers with their tokenizer, encoders, and PyTorch modules of one's own.

The object itself runs. Where it is what files hold, in every weight, attribute and function, and returns what they
return, it is known by these files, so that results are shared with them, other processes can read it, and a run can be
repeated: the files that it was loaded from, or a copy in the cache folder, named by the hash of its content. Any other
object (with hooks, functions or classes of one's own, adapters, in half precision …) is known in this process alone,
and what runs is a copy of it that was compared with it.
"""

import contextlib
import copy
import itertools
import json
import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from bertology._files import digest
from bertology._languages_apart import read_as_declared
from bertology._lazy import transformers
from bertology.encoders import _modules, sources
from bertology.encoders.encoder import Encoder
from bertology.encoders.heads import has_causal_head, task_head
from bertology.encoders.interventions import find_part, watching
from bertology.encoders.loading import body_of, check_fast, copy_embeddings, load_encoder, load_tokenizer, of_characters
from bertology.errors import BertologyError, ModelError, SignalError

_PAIR = "give the model and its tokenizer, (model, tokenizer)"
_IN_MEMORY = "(in memory)"
_TEXTS = ("The old man saw a small dog near the house.", "She sings.", "1 2 3, and they have not been there: a, e.")
"""Texts that an object reads, and what stands for it."""
_Returned = dict[str, Tensor]  # hidden states and logits ``[piece, …]`` by name, of all texts one after the other


def model_name(model: object, *, name: str | None = None) -> str:
    """Name that loads a model again in this process; for one in memory that equals its saved files, their folder.

    Args:
        model: a name or folder, which is returned as it is; an :class:`Encoder`; a transformers model and its
            tokenizer ``(model, tokenizer)``; or anything that has both, such as a transformers pipeline.
        name: the name of a model in memory in tables; when left out, the name that it was loaded by, and ``(in
            memory)`` where it is no longer what was loaded.

    Raises:
        ModelError: it is no such object, its tokenizer is missing or does not fit, it has no weights, or it does not
            return the same for the same text.
    """
    return str(model) if isinstance(model, str | Path) else _name_of(_source_of(model, name), model)


def model_names(models: Sequence[object], names: Sequence[str | None] | None = None) -> list[str]:
    """:func:`model_name` of several models, where ``names`` call those in memory; those of one name are numbered.

    Raises:
        ModelError: as of :func:`model_name`; or there are not as many names as models, one twice, or one for a model
            that has one.
    """
    called = list(names) if names is not None else [None] * len(models)
    given = [name for name in called if name is not None]
    if len(called) != len(models) or len(set(given)) < len(given):
        remedy = "give one name for each, and None for those of files"
        raise ModelError(f"names: {', '.join(given)} for {len(models)} models; {remedy}")
    found, known = list[str](), dict[str, str]()
    for model, name in zip(models, called, strict=True):
        if isinstance(model, str | Path):
            if name is not None:
                raise ModelError(f"names: model {model} has a name; give None for it, and names for models in memory")
            found.append(str(model))
            continue
        source = _source_of(model, name)
        content = sources.model_fingerprint(source)
        if known.get(source.title, content) != content:
            source = _source_of(model, source.title.replace(_IN_MEMORY, f"(in memory {len(found) + 1})"))
        known[source.title] = content
        found.append(_name_of(source, model))
    return found


def open_encoder(model: Any, **loading: Any) -> Encoder:
    """The encoder of a name, a folder or a model in memory (see :func:`model_name`); an :class:`Encoder` as it is.

    ``loading`` are arguments of :func:`load_encoder`, for a model that is not loaded yet; errors are those of both.
    """
    if isinstance(model, Encoder):
        return model
    return load_encoder(str(model) if isinstance(model, str | Path) else _source_of(model, None), **loading)


def in_memory(model: Any, tokenizer: Any, *, name: str | None = None, adapter: Any = None) -> sources.ModelSource:
    """A model of transformers in memory: the files that hold it, or the object as it is; or a module of one's own.

    A ModelError is raised where model and tokenizer do not fit, or the model has no weights or does not return the same
    for the same text.

    Args:
        model: a ``PreTrainedModel``, with or without a head, on any device, in training mode or not; also one that
            ``torch.compile``, ``DataParallel`` or peft have wrapped.
        tokenizer: the fast tokenizer that belongs to it.
        name: as in :func:`model_name`.
        adapter: of a PyTorch module of one's own, a :class:`ModuleAdapter`: it has no files and is known by ``name``.
    """
    if adapter is not None:
        return _of_module(ModuleBody(model, adapter), tokenizer, name or type(model).__name__)
    return _of_transformers(model, tokenizer, name)


def _source_of(model: object, name: str | None) -> sources.ModelSource:
    if not isinstance(model, Encoder):
        if not (isinstance(model, tuple) and len(model) == 2):
            if not (hasattr(model, "model") and hasattr(model, "tokenizer")):
                raise ModelError(f"model: a {type(model).__name__} is no name, and has no tokenizer; {_PAIR}")
            model = (model.model, model.tokenizer)
        return in_memory(*model, name=name)
    if model.init != "pretrained":
        raise ModelError(
            f"model {model.name}: an encoder with random weights is asked for by the model's name, with init='random'"
        )
    if model.is_gated:
        raise ModelError(f"model {model.name}: its heads are gated; leave gated_heads first")
    body, is_held = model.model.body, isinstance(model.source, sources.MemorySource)
    if isinstance(body, ModuleBody):
        return _of_module(body, model.tokenizer, name or model.name)
    called = name or (model.name if is_held else None)
    return _of_transformers(model.model.outermost, model.tokenizer, called, None if is_held else model.source)


def _name_of(source: sources.ModelSource, model: object) -> str:
    """The name by which :func:`resolve_model` finds a source."""
    is_found = isinstance(source, sources.MemorySource)
    if not is_found and isinstance(model, Encoder) and source.revision is None:
        is_found = (known := _found(source.name)) is not None and known.folder == source.folder
    return source.name if is_found else str(source.folder)


def _found(called: str) -> sources.ModelSource | None:
    """The model of a name, if there is one on this machine."""
    try:
        return sources.resolve_model(called) if called else None
    except BertologyError:
        return None  # moved, deleted or made up: what is in memory counts


def _of_transformers(
    given: Any, tokenizer: Any, name: str | None, own: sources.ModelSource | None = None
) -> sources.ModelSource:
    """The files that hold a model of transformers, or else the model as it is; ``own`` are those of an encoder."""
    from transformers.models.auto import modeling_auto as known

    runs, model = _unwrapped(given, tokenizer := of_characters(tokenizer))
    kind, called = type(model), str(getattr(model, "name_or_path", "") or "")
    plain, where, number = (name or f"{Path(called).name or kind.__name__} {_IN_MEMORY}").partition(" (in memory")
    title = (re.sub(r"[^\w.-]+", "-", plain).strip(".-") or "model") + where + number  # that a folder can have
    size = sources.shape_of(model.config.to_dict(), f"model {title}, its configuration")
    is_encoder = not model.config.is_encoder_decoder
    has_masked = is_encoder and isinstance(model, known.MODEL_FOR_MASKED_LM_MAPPING.get(type(model.config), ()))
    has_task = is_encoder and task_head([kind.__name__]) is not None

    def parts_of(one: Any) -> _modules.LoadedModel:
        blocks = _modules.find_blocks(body_of(one), n_layers=size.n_layers, family=size.family)
        masked, with_task = (one if has_head else None for has_head in (has_masked, has_task))
        return _modules.LoadedModel(body_of(one), blocks, masked, with_task=with_task, whole=one)

    parts = parts_of(model)
    # No signal depends on a pooler under no head, and files that lack it have it drawn anew each time.
    without = {key for key in model.state_dict() if model.base_model is model and key.startswith("pooler.")}
    content, foreign = _described(model, tokenizer, without)

    def returned_by(run: Any, parts: _modules.LoadedModel) -> _Returned:
        return _returned_by(parts.body if model.config.is_encoder_decoder else run, parts, tokenizer, title)

    returned = returned_by(runs, parts)

    def is_in(source: sources.ModelSource) -> bool:
        """Whether files hold the model, tokenizer and heads included."""
        try:
            # Further heads of an encoder are read from its files; those that a model lacks are none of its own.
            if source != own and sources.read_config(source.folder).get("architectures") not in (None, [kind.__name__]):
                return False
            stored, missing = sources.pretrained(kind, source, dtype=torch.float32)
            read_as_declared(body_of(stored))
            if not missing <= without or _described(stored, load_tokenizer(source), without)[0] != content:
                return False
            return _difference(returned, returned_by(stored, parts_of(stored)), close=1e-5) is None
        except (OSError, ValueError, RuntimeError, BertologyError):
            return False  # files that this class cannot be read from are not those of this model

    def write(folder: Path) -> str | None:
        source = sources.ModelSource(title, folder)
        try:
            sources.save_model(model, folder, tokenizer=tokenizer, left_out=without)
        except (ValueError, RuntimeError, TypeError, AttributeError):
            return None  # parts of the model are none that its class makes, and cannot be written
        return sources.model_fingerprint(source) if is_in(source) else None

    is_float32 = all(weight.dtype == torch.float32 for weight in model.parameters())
    if not foreign and runs is model and is_float32 and kind.__module__.startswith("transformers."):
        origin = own or _found(called)
        if name is None and origin and is_in(origin):
            return origin
        if (folder := sources.keep_copy(title, write)) is not None:
            return sources.ModelSource(title, folder)
    held = parts.copied(share=False)
    held.body.config.use_cache = False  # type: ignore[union-attr]
    _modules.check_unfamiliar(held.body, held.blocks, family=size.family)
    source = _held(title, held, tokenizer, size, partial(_redrawn, held, title))
    # What is of no library is described by its name alone: a model with it is equal to no other.
    return _kept(source, runs, returned, content + uuid.uuid4().hex if foreign else content)


def _unwrapped(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """The module of an object that runs, and the model of transformers in it, without ``torch.compile`` and such."""
    runs = model
    while isinstance(model, nn.Module):
        if isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            inside = runs = inner
        elif isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inside = runs = model.module
        elif type(model).__module__.startswith("peft.") and hasattr(model, "get_base_model"):
            inside = model.get_base_model()  # type: ignore[operator]
        else:
            break
        if model._forward_hooks or model._forward_pre_hooks:
            raise ModelError(f"model {type(model).__name__}: hooks of a wrapper; put them on the model that it wraps")
        model = inside
    which = f"model {type(model).__name__}"
    if not isinstance(model, transformers.PreTrainedModel):
        raise ModelError(f"model: a {type(model).__name__} is no model of transformers; {_PAIR}, or use ModuleAdapter")
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ModelError(f"{which}: its weights are on the meta device; load them first")
    _check_tokenizer(which, tokenizer, _modules.count_embeddings(model, str(model.config.model_type)))
    return runs, model


def _check_tokenizer(which: str, tokenizer: Any, n_rows: int) -> None:
    """Raise a ModelError for a tokenizer that is not fast, or has numbers beyond the rows of the embeddings."""
    check_fast(tokenizer, which)
    if (highest := max(tokenizer.get_vocab().values())) >= n_rows:
        reason = f"its numbers go up to {highest:,}, the embeddings have {n_rows:,} rows"
        raise ModelError(f"{which}: the tokenizer does not fit it ({reason}); give the tokenizer of the model")


@dataclass(frozen=True)
class ModuleAdapter:
    """Description of a PyTorch module read as an encoder, whose blocks pass hidden states ``[batch, piece, dim]`` on.

    Layer 0 is what goes into the first block, layer l what goes into block l + 1, and the last layer what ``forward``
    returns, a final norm included.
    """

    blocks: Callable[[Any], Sequence[nn.Module]]
    """The blocks of the module in the order in which they run; the hidden states are the first argument of each."""
    embeddings: Callable[[Any], nn.Embedding]
    """The table of piece embeddings of the module."""
    forward: Callable[[Any, Tensor, Tensor | None], Tensor] = lambda module, ids, mask: module(ids, mask)
    """Function from the module, piece numbers ``[batch, piece]`` and a mask (1 for pieces, 0 for padding; None where
    nothing is padded) to the last hidden states ``[batch, piece, dim]``."""
    n_heads: int = 1
    """Attention heads in each block, for the record: attention maps of such a module cannot be read."""
    max_pieces: int = 512
    """The most pieces that the module reads at once, special tokens included."""
    fresh: Callable[[int], nn.Module] | None = None
    """Function from a seed to a module of the same shape with random weights, for the control ``random``."""


class ModuleBody(nn.Module):
    """A module behind the interface that transformers models have."""

    def __init__(self, module: nn.Module, adapter: ModuleAdapter) -> None:
        super().__init__()
        self.module, self.adapter = module, adapter
        self.config = SimpleNamespace(max_position_embeddings=adapter.max_pieces, _attn_implementation="sdpa")

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of piece embeddings."""
        return self.adapter.embeddings(self.module)

    def set_attn_implementation(self, name: str) -> None:
        """Raises, as no maps of a module of one's own are known."""
        raise NotImplementedError("maps of a module of one's own are not known")

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> SimpleNamespace:
        """The last hidden states."""
        return SimpleNamespace(last_hidden_state=self.adapter.forward(self.module, input_ids, attention_mask))

    def __deepcopy__(self, memo: dict[int, Any]) -> "ModuleBody":
        return ModuleBody(copy.deepcopy(self.module, memo), self.adapter)  # functions of the adapter are shared

    def loaded(self) -> _modules.LoadedModel:
        """The module as the parts of a model."""
        return _modules.LoadedModel(self, list(self.adapter.blocks(self.module)), None, whole=self)


class _SideBySide(nn.Module):
    """Two BERTs of one vocabulary, whose hidden states stand side by side; neither sees those of the other."""

    def __init__(self, bodies: Sequence[Any]) -> None:
        super().__init__()
        self.bodies: Any = nn.ModuleList(bodies)
        weights = torch.cat([one.get_input_embeddings().weight for one in bodies], 1)
        self.table = nn.Embedding(weights.shape[0], weights.shape[1], _weight=weights.detach())
        self.blocks = nn.ModuleList(map(_Beside, zip(*(one.encoder.layer for one in bodies), strict=True)))

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        how = {"attention_mask": mask, "output_hidden_states": True, "use_cache": False}
        read = zip(*(one(ids, **how).hidden_states for one in self.bodies), strict=True)
        *states, last = (torch.cat(of_layer, -1) for of_layer in read)
        for block, of_layer in zip(self.blocks, states, strict=True):
            block(of_layer)
        return last


class _Beside(nn.ModuleList):
    """Two blocks; what goes into both is passed on."""

    def forward(self, states: Tensor) -> Tensor:
        return states


def side_by_side(first: str | Path, second: str | Path, *, name: str | None = None) -> Encoder:
    """An encoder whose vectors are those of two BERTs of one vocabulary and depth, one after the other.

    So a left-to-right model is probed with a right-to-left one beside it (Devlin et al. 2019, table 5), both made by
    ``bertology pretrain``. It has hidden states alone: no attention maps, no masked-LM head.

    Args:
        first: name or folder of a model.
        second: name or folder of the other.
        name: name in tables; made of both when left out.

    Raises:
        ModelError: one of them is no BERT, or they differ in vocabulary or depth.
    """

    def loaded(**options: Any) -> list[Encoder]:
        return [load_encoder(one, device="cpu", **options) for one in (first, second)]

    def joined(encoders: Sequence[Encoder]) -> nn.Module:
        return _SideBySide([one.model.body for one in encoders])

    encoders = loaded()
    for one in encoders:
        if one.family != "bert" or hasattr(one.model.body.config, "second_language"):
            raise ModelError(f"model {one.name}: only BERTs that read one language are put side by side")
    vocabularies, depths = ([one.tokenizer.get_vocab() for one in encoders], {one.n_layers for one in encoders})
    if vocabularies[0] != vocabularies[1] or len(depths) > 1:
        both = " and ".join(one.name for one in encoders)
        raise ModelError(f"models {both}: their vocabulary or depth differs, so that they cannot be put side by side")

    adapter = ModuleAdapter(
        blocks=lambda module: list(module.blocks),
        embeddings=lambda module: module.table,
        n_heads=sum(one.n_heads for one in encoders),
        max_pieces=min(one.max_pieces for one in encoders),
        fresh=lambda seed: joined(loaded(init="random", seed=seed)),
    )
    title = name or " and ".join(one.source.title for one in encoders)
    return Encoder.from_model(joined(encoders), encoders[0].tokenizer, adapter=adapter, name=title)


def _of_module(body: ModuleBody, tokenizer: Any, name: str) -> sources.MemorySource:
    """A module of one's own as a model that is known by ``name`` in this process."""
    adapter, parts = body.adapter, body.loaded()
    _check_tokenizer(f"model {name}", tokenizer, body.get_input_embeddings().num_embeddings)
    size = sources.ModelShape(len(parts.blocks), body.get_input_embeddings().embedding_dim, adapter.n_heads, "module")

    def fresh(init: sources.Init, seed: int) -> _modules.LoadedModel:
        if init != "random" or adapter.fresh is None:
            what = f"no {init.replace('_', ' ')} weights can be drawn without ModuleAdapter(fresh=…)"
            raise ModelError(f"model {name}: {what}; give it, or leave the control random out")
        return ModuleBody(adapter.fresh(seed), adapter).loaded()

    source = _held(name, parts.copied(share=False), tokenizer, size, fresh)
    load_encoder(source, device="cpu")  # checks that the vocabulary fits
    returned = _returned_by(body, parts, tokenizer, name)
    for layer in range(size.n_layers + 1):
        found, expected = returned.get(f"layer {layer}"), [len(returned[f"layer {size.n_layers}"]), size.dim]
        if found is None or list(found.shape) != expected:
            states = "missing, as no block ran" if found is None else f"of shape {list(found.shape)}"
            what = f"the states of layer {layer} are {states}, expected [piece, dim] {expected}"
            raise ModelError(f"model {name}: {what}; check blocks and forward of the ModuleAdapter")
    return _kept(source, body, returned, _described(body.module, tokenizer)[0])


def _held(
    name: str,
    model: _modules.LoadedModel,
    tokenizer: Any,
    size: sources.ModelShape,
    fresh: Callable[..., _modules.LoadedModel],
) -> sources.MemorySource:
    kinds = (weight.dtype for weight in model.outermost.parameters())
    dtype = str(next((kind for kind in kinds if kind.is_floating_point), torch.float32)).removeprefix("torch.")
    read = copy.deepcopy(tokenizer)
    return sources.MemorySource(name, Path(name), size=size, dtype=dtype, model=model, tokenizer=read, fresh=fresh)


def _rows(tokenizer: Any) -> list[Tensor]:
    return [torch.tensor(tokenizer(text, verbose=False)["input_ids"]) for text in _TEXTS]


def _returned_by(run: Any, model: _modules.LoadedModel, tokenizer: Any, name: str) -> _Returned:
    """Hidden states of all layers, and logits, that an object returns for each of a few texts alone."""
    found: dict[str, list[Tensor]] = defaultdict(list)
    body, blocks, n_layers = model.body, cast(Any, model.blocks), len(model.blocks)
    modes = [(module, module.training) for module in run.modules()]
    is_by_output = isinstance(model.blocks, _modules.ReturnedStates)

    def keep(place: str, state: Tensor) -> None:
        # Without what fills a text up that is pooled.
        found[place].append((state[0][: len(ids)] if state[0].ndim > 1 else state).detach().clone())

    def ask_for_states(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, kwargs | {"output_hidden_states": True}

    def keep_last(module: nn.Module, args: Any, output: Any) -> None:
        states = blocks.kept(body, output.hidden_states) if is_by_output else ()
        for layer, state in enumerate(states[:-1]):
            keep(f"layer {layer}", state)
        keep(f"layer {n_layers}", output.last_hidden_state if hasattr(output, "last_hidden_state") else output[0])

    run.eval()
    try:
        with _run(name), torch.no_grad(), contextlib.ExitStack() as stack:
            if is_by_output:
                stack.callback(body.register_forward_pre_hook(ask_for_states, with_kwargs=True).remove)
            else:
                stack.enter_context(
                    watching(body, model.blocks, lambda block, state: keep(f"layer {block - 1}", state))
                )
            stack.callback(body.register_forward_hook(keep_last).remove)
            for ids in _rows(tokenizer):
                batch = ids[None, None] if task_head([type(run).__name__]) == "choices" else ids[None]
                given = {"input_ids": batch.to(next(body.parameters()).device)}
                output = run(**(blocks.filled(body.config, given) if is_by_output else given))
                named = (getattr(output, name, None) for name in ("logits", "prediction_logits"))
                logits = next((one for one in named if one is not None), None)
                if (logits := output[0] if isinstance(output, tuple) else logits) is not None:
                    keep("logits", logits)
            made = {place: torch.cat(parts).cpu() for place, parts in found.items()}
    finally:
        for module, mode in modes:
            module.training = mode
    for place in (place for place, values in made.items() if not values.isfinite().all()):
        raise SignalError(f"model {name}: {place} is not finite; mend the weight, hook or forward that makes it so")
    return made


def _returned_in(encoder: Encoder) -> _Returned:
    """The signals of :func:`_returned_by`, read through an encoder from all texts together."""
    rows, last = _rows(encoder.tokenizer), encoder.n_layers
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=encoder.pad_id)
    mask = (torch.arange(ids.shape[1]) < torch.tensor(list(map(len, rows)))[:, None]).long()
    with _run(encoder.name):
        states = encoder.hidden_states(ids, mask, layers=range(last + 1))
        found = {f"layer {layer}": state[mask.bool()] for layer, state in states.items()}
        if encoder.has_masked_lm_head:
            found["logits"] = encoder.masked_logits(ids, mask.nonzero(), attention_mask=mask)[last]
        elif (kind := encoder.task_head) in ("sentence", "words", "choices"):
            alone = kind == "choices"  # each text as the only one among which is chosen
            given = [one[:, None] if alone else one for one in (ids, mask)]
            logits = encoder.task_output(given[0], attention_mask=given[1]).logits
            found["logits"] = logits[mask.bool()] if kind == "words" else logits
        elif has_causal_head(encoder.model.outermost) and (causal := encoder.causal_head) is not None:
            found["logits"] = causal.logits(causal.features(found[f"layer {last}"]))
    return {name: values.cpu() for name, values in found.items()}


def _run(name: str) -> contextlib.AbstractContextManager[None]:
    return sources.one_line(f"model {name} does not run a few texts", remedy="mend its forward or hooks")


def _difference(theirs: _Returned, ours: _Returned, *, close: float) -> str | None:
    """The first place in which two results differ by more than rounding; None where they are the same."""
    for place, values in ours.items():
        expected = theirs.get(place)
        if expected is None or expected.shape != values.shape:
            return place
        if (expected.float() - values.float()).abs().max() > close * expected.float().abs().max().clamp_min(1e-6):
            return place
    return None


def _kept(source: sources.MemorySource, runs: nn.Module, returned: _Returned, content: str) -> sources.MemorySource:
    """A source whose copy returns what the object ``runs`` returned, found by its name from now on."""
    own, ran, name = set(map(id, runs.modules())), dict[int, nn.Module](), source.name

    def note(module: nn.Module, args: Any) -> None:
        ran[id(module)] = module

    encoder = load_encoder(source, device=str(next(source.model.outermost.parameters()).device))
    with contextlib.ExitStack() as stack:
        stack.callback(torch.nn.modules.module.register_module_forward_pre_hook(note).remove)
        ours = _returned_in(encoder)
    if called := [type(module).__name__ for place, module in ran.items() if place in own]:
        remedy = "let forwards and hooks use the module that they are called with, so that a copy can be made"
        raise ModelError(f"model {name}: a function of it runs a {called[0]} of the object; {remedy}")
    close = 1e-4 if source.dtype in ("float32", "float64") else 3e-2
    if (place := _difference(returned, ours, close=close)) is not None:
        raise ModelError(
            f"model {name}: {place} of a few texts read together is not what the object returns for each alone; give a "
            "model without randomness, state, arithmetic that depends on the batch (dynamic quantisation), or changes "
            "around its encoder"
        )
    # Where parts of blocks do not run that those of its family have, it is of a family that is not known, so that
    # nothing is read from these parts.
    blocks = [] if isinstance(encoder.model.blocks, _modules.ReturnedStates) else encoder.model.blocks
    for block, site in itertools.product(blocks, ("head", "values", "feed_forward_output")):
        try:
            is_changed = id(find_part(block, encoder.family, site)) not in ran
        except ModelError:
            continue  # not known for the family
        except AttributeError:
            is_changed = True  # the block does not have it
        if is_changed:
            source = replace(source, size=replace(source.size, family=f"changed {encoder.family}"))
    signals = [_tensor_content(values) for values in returned.values()]
    source = replace(source, content=digest([content.encode(), repr(signals).encode()]))
    sources.keep_source(source)
    return source


def _redrawn(held: _modules.LoadedModel, name: str, init: sources.Init, seed: int) -> _modules.LoadedModel:
    """A copy of a model of transformers whose weights are drawn as its authors initialise them."""
    made = held.copied(share=False)
    whole: Any = made.outermost
    weights, known = dict(whole.named_parameters()), {name for name, _ in whole.named_buffers()}
    apart = sorted(whole.state_dict().keys() - dict(whole.named_parameters(remove_duplicate=False)).keys() - known)
    apart += [place for place, weight in weights.items() if not weight.is_floating_point()]
    floating = {place: weight for place, weight in weights.items() if weight.is_floating_point()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for weight in floating.values():
            weight.fill_(torch.nan)
        for module in whole.modules():
            vars(module).pop("_is_hf_initialized", None)
        torch.manual_seed(seed)
        whole.initialize_weights()
        for place, weight in floating.items():
            if not weight.isfinite().all():  # of a module that is none of transformers, such as an adapter
                if weight.ndim < 2:
                    apart.append(place)
                else:
                    weight.normal_(0.0, float(getattr(whole.config, "initializer_range", 0.02)))
    if apart:
        remedy = "leave the control random out (controls='majority')"
        raise ModelError(f"model {name}: it is not known how {apart[0]} is drawn at random; {remedy}")
    if init == "random_blocks":
        copy_embeddings(held.outermost, whole)
    return made


_NOT_CONFIG = frozenset({"use_cache", "architectures", "dtype", "torch_dtype"})
_OF_MODELS = ("transformers.", "bertology.")


def _described(model: nn.Module, tokenizer: Any, without: Collection[str] = ()) -> tuple[str, list[str]]:
    """What a module computes with, but for parameters named in ``without``: its parts and their settings as they are
    printed, its configuration, weights and tokenizer. The names of functions and classes in it that are of no library,
    of which nothing but the name is known, are returned as well."""
    foreign: list[str] = []

    def look(value: Any) -> None:
        """Note a function, class or object of no library, and a class of a library one of whose methods is not."""
        if isinstance(value, MethodType | partial):
            look(value.__func__ if isinstance(value, MethodType) else value.func)
            return
        kind = value if isinstance(value, type | FunctionType) else type(value)
        bases = kind.__mro__ if isinstance(kind, type) and issubclass(kind, nn.Module) else ()
        methods = (one for base in bases for one in vars(base).values())
        functions = [kind, *(one for one in methods if isinstance(one, FunctionType))]
        is_named = isinstance(kind, type) or "<" not in kind.__qualname__ or kind.__module__.startswith(_OF_MODELS)
        if not (is_named and all(_modules.is_of_library(one.__module__) for one in functions)):
            foreign.append(f"{kind.__module__}.{kind.__qualname__}")

    hooks = vars(torch.nn.modules.module)
    held = [*hooks["_global_forward_hooks"].values(), *hooks["_global_forward_pre_hooks"].values()]
    for module in model.modules():
        held += [module, *(value for key, value in vars(module).items() if not key.startswith("_") or callable(value))]
        held += [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    for value in held:
        look(value)
    config: Any = getattr(model, "config", None)
    found: list[Any] = [repr(model)]
    if hasattr(config, "to_dict"):
        settings = {key: value for key, value in config.to_dict().items() if key not in _NOT_CONFIG}
        attention = getattr(config, "_attn_implementation", None)
        # Implementations of attention with the same result up to rounding are one.
        found.append(sources.config_content(settings))
        foreign += [] if attention in (None, "eager", "sdpa") else [str(attention)]
    weights = sorted((name, _tensor_content(one)) for name, one in model.state_dict().items() if name not in without)
    # Truncation and padding are set by callers.
    read = json.loads(tokenizer.backend_tokenizer.to_str()) | {"truncation": None, "padding": None}
    found += [weights, foreign, read, dict(tokenizer.special_tokens_map), tokenizer.model_max_length]
    return repr(found), foreign


def _tensor_content(values: Any) -> list[Any]:
    """Type, shape and a hash of the values of a tensor; anything else as it is printed."""
    if not isinstance(values, Tensor):
        return [repr(values)]
    plain = values.detach().cpu()
    if plain.is_quantized:
        return [str(plain.dtype), *_tensor_content(plain.dequantize())]
    flat = plain.contiguous().flatten()
    return [str(plain.dtype), list(plain.shape), digest([flat.view(torch.uint8).numpy().data if len(flat) else b""])]
