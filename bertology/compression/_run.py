"""Compress a model: load it, change it step by step, write its folder; and measure its speed and bytes."""

import dataclasses
import io
import json
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertology._files import explained_write_errors, given_path, sweep, taken, temporary_folder
from bertology._folder import CARD, RecordFile, model_card, versions
from bertology._machine import explained
from bertology._names import folder_name, name_not_found
from bertology._settings import checked_settings
from bertology.activations.progress import BarProgress, can_show, silent
from bertology.compression._methods import METHODS, CompressedModel, Method, Storage
from bertology.corpora import Texts
from bertology.encoders import Encoder, load_encoder, model_fingerprint, model_name, resolve_model
from bertology.encoders.batching import padded_inputs, pieces_in_batch, plan_batches
from bertology.encoders.loading import load_whole
from bertology.errors import BertologyError, ModelError
from bertology.results.table import Note, Table, Tables

CONFIG_KEY = "bertology_compression"
"""The entry of ``config.json`` that holds what was done, so that the fingerprint of the model depends on it."""


@dataclass(frozen=True)
class Record:
    """The file ``compress.json`` of a model folder."""

    format: int
    model: str
    """Name of the model that was compressed."""
    model_fingerprint: str
    steps: list[dict[str, Any]]
    """The steps in their order: ``method``, its settings, and its ``outcome``."""
    n_parameters: int
    """Weights of the model, tied ones once."""
    n_nonzero: int
    """Weights that are not zero."""
    source_parameters: int
    """Weights of the model that was compressed."""
    bytes_on_disk: int
    """Size of the file of weights here: float32, zeros written out."""
    bytes_estimated: int
    """Bytes that the weights could be stored in: those of few bits with their scales, those with zeros as the others
    and a bit each, those of low rank as two factors; what is least of each tensor."""
    storage: dict[str, Storage]
    """Possible storage of each weight, by name, where that is not 32 bits."""
    versions: dict[str, str]


RECORD = RecordFile("compress.json", Record, "the record of a compressed model", "compress the model again", indent=1)


@dataclass(frozen=True, repr=False)
class Compressed(Tables):
    """A compressed model: its folder, and what was done to it."""

    path: Path
    """The model folder."""
    record: Record
    is_found: bool = False
    """Whether the model was there already, and nothing was done."""

    def encoder(self, *, device: str = "auto") -> Encoder:
        """The compressed encoder."""
        return load_encoder(str(self.path), device=device)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps in their order: ``method``, its settings, and its ``outcome``."""
        return self.record.steps

    def shown(self) -> tuple[Table, ...]:
        """The steps with their settings and outcomes, and the size of the model."""
        record, steps = self.record, {}
        for number, step in enumerate(record.steps, 1):
            given = {name: value for name, value in step.items() if name not in ("method", "outcome")}
            steps[f"{number}. {step['method']}"] = [_listed(given), _listed(step["outcome"])]
        sizes = {
            "weights before": [record.source_parameters],
            "weights": [record.n_parameters],
            "weights that are not zero": [record.n_nonzero],
            "bytes on disk, as float32": [record.bytes_on_disk],
            "bytes if stored by bits, zeros and ranks (estimate)": [record.bytes_estimated],
        }
        title, found = f"{record.model}, compressed", Note("found", f"the model was finished in {self.path} already")
        of_steps = Table.of(title, ["settings", "outcome"], steps, [found] if self.is_found else [], corner="Step")
        return of_steps, Table.of(f"Size of {title}", ["number"], sizes, [], corner="Size")

    def summary(self) -> str:
        """The steps and the size of the model as Markdown, with nothing cut."""
        return self.to_markdown()

    def __repr__(self) -> str:
        return f"<Compressed {self.record.model} by {', '.join(step['method'] for step in self.steps)} in {self.path}>"


def _listed(values: Mapping[str, Any]) -> str:
    """Settings or outcomes as one text."""
    short = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in values.items()}
    lists = {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in short.items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in lists.items() if value is not None)


def read_compressed(path: str | Path) -> Compressed:
    """The compressed model in a folder, as :func:`compress` returned it; BertologyError where there is none."""
    folder = given_path(path)
    return Compressed(folder, RECORD.read(folder))


_REMEDY = "choose another folder"
_TRAINING = "training"
"""The folder in the one that is written with the state of training, while it is not finished."""


@explained("this compression")
def compress(
    model: str | Path | Encoder | tuple[Any, Any],
    method: str | Method | Sequence[str | Method],
    *,
    out: str | Path,
    device: str = "auto",
    progress: bool | None = None,
    **settings: Any,
) -> Compressed:
    """Make a smaller or coarser model of an encoder, in a folder that plain transformers loads.

    >>> from bertology import compress
    >>> small = compress("pocket", "magnitude", share=0.6, out="pocket-60")  # doctest: +SKIP

    Methods are ``magnitude`` (the smallest weights become zero), ``heads`` (attention heads are closed), ``neurons``
    (of the feed-forward layers, taken out), ``layers`` (taken out), ``low_rank`` (truncated singular value
    decompositions), ``quantise`` (weights are rounded to 8 or 4 bits, by row), ``distil`` (a student of fewer layers is
    trained on predictions) and ``theseus`` (on standing in for groups of layers); :mod:`bertology.compression` has
    their settings. What was done is an entry of ``config.json``, and so part of the model's fingerprint.

    Args:
        model: as of :func:`bertology.probe`; a model with a classifier keeps it.
        method: a name, a :class:`~bertology.compression.Method`, or several, which are applied in their order.
        out: the model folder to be written; it must not hold anything but the model that is asked for, which is then
            left as it is.
        device: that sentences are read and students are trained on.
        progress: whether to draw bars; by default in a notebook, and if standard error is a terminal.
        settings: of the method; of several named methods a mapping for each, such as ``magnitude={"share": 0.5}``.

    Returns:
        The folder and the record of what was done: has ``.path``, ``.steps``, ``.summary()`` and ``.encoder()``.

    Raises:
        BertologyError: there is no such method or setting, it cannot be applied to the model, or ``out`` is taken.
    """
    methods = _methods(method, settings)
    source = resolve_model(model_name(model))
    folder = given_path(out)
    shown = can_show() if progress is None else progress
    if folder.is_file():
        raise BertologyError(f"{folder} is a file: give a folder to write")
    if folder.is_dir() and {path.name for path in folder.iterdir()} - {_TRAINING}:
        if RECORD.is_in(folder):
            record, asked = RECORD.read(folder), [_plain(one) for one in methods]
            done = [{key: value for key, value in step.items() if key != "outcome"} for step in record.steps]
            if (record.model_fingerprint, done) == (model_fingerprint(source), asked):
                return Compressed(folder, record, is_found=True)
        raise BertologyError(f"{folder} holds something already: choose another folder, or delete it")
    with explained_write_errors(folder, remedy=_REMEDY):
        folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent)
    with temporary_folder(folder.parent, folder.name) as made:
        opened = CompressedModel(
            source,
            load_whole(source),
            work=made,
            state=folder / _TRAINING,
            device=device,
            progress=BarProgress(f"compressing {source.title}") if shown else silent,
            stored_before=RECORD.read(source.folder).storage if RECORD.is_in(source.folder) else {},
        )
        size_before = opened.sizes()[0]
        steps = [{**_plain(one), "outcome": one.apply(opened)} for one in methods]
        record = _write(opened, made / "model", steps, size_before)
        with explained_write_errors(folder, remedy=_REMEDY):
            if (folder / _TRAINING).is_dir():
                shutil.rmtree(folder / _TRAINING)
            (made / "model").rename(folder)
    return Compressed(folder, record)


def _methods(method: str | Method | Sequence[str | Method], settings: Mapping[str, Any]) -> list[Method]:
    given = [method] if isinstance(method, str | Method) else taken(method, "method")
    if not given:
        raise ModelError(f"method: give at least one of {', '.join(METHODS)}")
    given = [one.replace("-", "_") if isinstance(one, str) else one for one in given]
    names = [one for one in given if isinstance(one, str)]
    if len(given) > 1 and (wrong := sorted(set(settings) - set(names))):
        raise ModelError(f"setting {wrong[0]}: with several methods write it with its method's name: magnitude.share")
    if settings and not names:
        raise ModelError(f"setting {min(settings)}: a method that is no name has its settings already")
    own = settings if len(given) > 1 else dict.fromkeys(names, settings)
    methods = []
    for name in given:
        if isinstance(name, Method):
            methods.append(name)
            continue
        if (kind := METHODS.get(name)) is None:
            raise name_not_found("method", name, METHODS)
        checked = checked_settings(own.get(name, {}), kind, owner=f"method {name}")
        fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type]
        missing = [one.name for one in fields if one.default is dataclasses.MISSING and one.name not in checked]
        if missing:
            raise ModelError(f"method {name} needs {' and '.join(missing)}: give it, such as --set {missing[0]}=…")
        methods.append(kind(**checked))
    return methods


def _plain(method: Method) -> dict[str, Any]:
    """A method and its settings in values of JSON; a corpus by the end of its path."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(method)))  # type: ignore[call-overload]
    return {"method": method.name, **{k: folder_name(v) if k == "corpus" else v for k, v in found.items()}}


def _write(opened: CompressedModel, folder: Path, steps: list[dict[str, Any]], size_before: int) -> Record:
    """Write the model folder and check that it computes what the model in memory does."""
    source, config = opened.source, opened.model.config
    fingerprint = model_fingerprint(source)
    plain = []
    for step in steps:
        outcome = {key: value for key, value in step["outcome"].items() if key == "text_fingerprint" and value}
        plain.append({**{key: value for key, value in step.items() if key != "outcome"}, **outcome})
    done = {"source_fingerprint": fingerprint, "steps": plain}
    earlier = getattr(config, CONFIG_KEY, None)
    setattr(config, CONFIG_KEY, {**done, "earlier": earlier} if earlier else done)
    opened.save(folder)
    opened.check_saved(folder)
    n_parameters, n_nonzero, estimated = opened.sizes()
    record = Record(
        format=1,
        model=source.title,
        model_fingerprint=fingerprint,
        steps=steps,
        n_parameters=n_parameters,
        n_nonzero=n_nonzero,
        source_parameters=size_before,
        bytes_on_disk=sum(path.stat().st_size for path in folder.glob("*.safetensors")),
        bytes_estimated=estimated,
        storage=opened.stored(),
        versions=versions("torch", "transformers"),
    )
    body = [
        f"`{record.model}` (fingerprint `{record.model_fingerprint}`), changed by `bertology compress`.",
        "",
        Compressed(folder, record).to_markdown(),
        "Weights are float32 in their usual places, so that plain transformers loads the folder: what is quantised "
        "holds rounded values, what is pruned holds zeros. The last size is an estimate of what a format made for it "
        f"takes. Details are in `{RECORD.name}`.",
    ]
    RECORD.write(folder, record, {CARD: model_card(f"{record.model}, compressed", body)})
    return record


def pieces_per_second(encoder: Encoder, sentences: Texts, *, repeats: int = 3) -> float:
    """Pieces that a model reads in a second through all its layers, special tokens counted and padding not.

    The fastest of some passes over the text, after one that is not measured; tokenisation is not part of it.
    """
    n_pieces, seconds = timed_passes([encoder], sentences, repeats=repeats)
    return float(n_pieces[0] / seconds[0].min())


def timed_passes(
    encoders: Sequence[Encoder], sentences: Texts, *, repeats: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """``[encoder]`` pieces and ``[encoder, repeat]`` seconds that models take to read a text, pass by pass in turns.

    What else the machine does slows the models down alike, so that quotients of one turn can be compared. One pass
    more comes first; tokenisation is not measured. ModelError where there is nothing to read.
    """
    n_pieces, plans = [], []
    for encoder in encoders:
        pieces = encoder.tokenize(sentences)
        if not pieces.n_windows:
            raise ModelError("there is no text to measure speed on: give sentences that the model can read")
        n_pieces.append(int(pieces.window_lengths.sum()))
        plans.append(
            [
                padded_inputs([pieces.window(int(window)) for window in batch.windows], batch, encoder.pad_id)
                for batch in plan_batches(pieces.window_lengths, pieces=pieces_in_batch(encoder.device))
            ]
        )
    seconds = np.empty((len(encoders), repeats + 1))
    for turn in range(repeats + 1):
        for place, (encoder, batches) in enumerate(zip(encoders, plans, strict=True)):
            began = time.perf_counter()
            for ids, mask in batches:
                last = encoder.hidden_states(ids, mask, layers=[encoder.n_layers])[encoder.n_layers]
            last.sum().item()  # an accelerator has finished when there is a result
            seconds[place, turn] = time.perf_counter() - began
    return np.array(n_pieces, dtype=np.int64), seconds[:, 1:]


def dynamic_int8(encoder: Encoder) -> Encoder:
    """A twin of an encoder whose linear layers multiply 8-bit integers, on the processor, to measure speed and size.

    By dynamic quantisation of PyTorch: weights are int8 with one scale a matrix, activations are quantised batch by
    batch, so that hidden states depend on what is read together. For this reason it is not for probing, and cannot be
    written as a model folder; ``compress(…, "quantise")`` shows what rounding of weights costs. It has no masked-LM
    head.

    Raises:
        ModelError: the encoder is not on the processor in float32, or this PyTorch has no such quantisation.
    """
    if encoder.device != "cpu" or encoder.dtype != "float32":
        raise ModelError(f"model {encoder.name}: int8 arithmetic is for the processor and float32; load it with these")
    quantise: Any = getattr(torch.ao.quantization, "quantize_dynamic", None)
    if quantise is None:
        version = torch.__version__
        raise ModelError(f"PyTorch {version} has no quantize_dynamic: use an earlier one to measure int8 speed")
    twin = encoder.twin()
    places = {id(module): name for name, module in encoder.model.body.named_modules()}
    with warnings.catch_warnings():
        # PyTorch announces that it will move to another library, which is none of ours yet.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        body: nn.Module = quantise(encoder.model.body, {nn.Linear}, dtype=torch.qint8)
    blocks = [body.get_submodule(places[id(block)]) for block in encoder.model.blocks]
    twin.model = replace(twin.model, body=body, blocks=blocks, with_head=None, with_task=None)
    return twin


def weight_bytes(encoder: Encoder) -> int:
    """Bytes of the weights of an encoder's body, as PyTorch saves them."""
    buffer = io.BytesIO()
    torch.save(encoder.model.body.state_dict(), buffer)
    return buffer.tell()
