"""Gains of compression: pieces read a second, and bytes, also with the int8 arithmetic of PyTorch."""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertology.corpora import Texts
from bertology.encoders import Encoder
from bertology.encoders.batching import padded_inputs, pieces_in_batch, plan_batches
from bertology.errors import ModelError


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
    twin.model = replace(twin.model, body=body, blocks=blocks, with_head=None, classifier=None)
    return twin


def weight_bytes(encoder: Encoder) -> int:
    """Bytes of the weights of an encoder's body, as PyTorch saves them."""
    buffer = io.BytesIO()
    torch.save(encoder.model.body.state_dict(), buffer)
    return buffer.tell()
