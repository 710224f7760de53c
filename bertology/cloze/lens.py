"""The tuned lens: an affine translator for each layer, by which the masked-LM head reads what the layer predicts."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from bertology._files import digest, given_path, write_atomically
from bertology.activations.progress import Progress, silent
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.batching import OnLong
from bertology.encoders.masked_loss import SHARE, MaskedText
from bertology.errors import ClozeError, ModelError
from bertology.measures.sums import Bools, Floats, Integers
from bertology.results.predictions import FITS

_LOGITS_AT_ONCE = 1 << 23
_MOST_PLACES, _BATCH = 20_000, 64  # masked pieces that a lens is fitted to, and those of a step


@dataclass(frozen=True, eq=False)
class TunedLens:
    """A translator h ↦ h + A h + b for each layer but the last, whose states are the model's own answer.

    Belrose et al. (2023), *Eliciting Latent Predictions from Transformers with the Tuned Lens*, section 3.
    """

    fingerprint: str  # fingerprint of the model that it was fitted to
    weights: Tensor  # [layer, dim, dim] from layer 0 to the last but one
    biases: Tensor  # [layer, dim]

    def __call__(self, layer: int, states: Tensor) -> Tensor:
        """Translate ``[place, dim]`` hidden states of a layer."""
        if layer >= len(self.weights):
            return states
        return states + states @ self.weights[layer].to(states).T + self.biases[layer].to(states)

    def save(self, path: str | Path) -> Path:
        """Write it as ``.safetensors``; a :class:`ClozeError` for a name that ends otherwise."""
        path = Path(path)
        if path.suffix != ".safetensors":
            raise ClozeError(f"{path}: a lens is written as .safetensors; end the name so")
        tensors = {"weights": self.weights.contiguous(), "biases": self.biases.contiguous()}
        write_atomically(path, save(tensors, metadata={"fingerprint": self.fingerprint}), remedy="choose another file")
        return path


def load_lens(path: str | Path, encoder: Encoder) -> TunedLens:
    """A lens that :meth:`TunedLens.save` wrote; a :class:`ClozeError` for one that was fitted to another model."""
    path = given_path(path, error=ClozeError)
    try:
        with safe_open(path, "pt") as file:
            fingerprint = (file.metadata() or {}).get("fingerprint", "")
            lens = TunedLens(fingerprint, file.get_tensor("weights"), file.get_tensor("biases"))
    except (OSError, SafetensorError) as error:
        raise ClozeError(f"{path}: not a tuned lens ({error}); fit one anew") from error
    if lens.fingerprint != encoder.fingerprint:
        raise ClozeError(f"{path}: the lens was fitted to another model than {encoder.name}: fit one anew")
    return lens


@Encoder.comes_first
def fit_lens(
    encoder: Encoder,
    sentences: Sentences,
    *,
    steps: int = 400,
    seed: int = 0,
    on_long: OnLong = "window",
    progress: Progress = silent,
) -> TunedLens:
    """Fit the translators of all layers at once, to masked places.

    What is made small is the Kullback–Leibler divergence of what a layer predicts through its translator from what the
    model predicts in the end (Belrose et al. 2023, equation 7), by Adam from translators that change nothing. They are
    drawn back to that by weight decay.

    Args:
        encoder: a masked language model.
        sentences: text; other words than those the lens is measured on. It is read with other words masked until there
            are 20,000 masked pieces, four times at most.
        steps: of Adam, of 64 places each; the learning rate falls from 0.001 to nothing.
        seed: of the words that are masked, and of the order of places.
        on_long: as in :meth:`Encoder.tokenize`.
        progress: counts steps.

    Raises:
        ModelError: no masked-LM head, or one that is not known to read lower layers.
    """
    states, _, _ = _masked_states(encoder, sentences, _MOST_PLACES, seed, on_long, n_maskings=4)
    n_layers, n_places, dim = states.shape[0] - 1, *states.shape[1:]
    if not n_layers:
        raise ModelError(f"model {encoder.name} has no layer below the last: there is nothing to translate")
    with torch.inference_mode(False), torch.enable_grad():
        weights = torch.zeros(n_layers, dim, dim, device=encoder.device, requires_grad=True)
        biases = torch.zeros(n_layers, dim, device=encoder.device, requires_grad=True)
        optimizer = torch.optim.AdamW([weights, biases], lr=1e-3, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
        order = torch.Generator().manual_seed(seed)
        progress.start(steps, unit="steps")
        for _ in range(steps):
            chosen = torch.randint(n_places, (min(_BATCH, n_places),), generator=order)
            some = states[:, chosen].to(encoder.device)
            with torch.no_grad():
                final = _log_probs(encoder, some[-1], encoder.n_layers)
            lower = some[:-1] + torch.einsum("lpd,led->lpe", some[:-1], weights) + biases[:, None]
            loss = sum(_divergence(final, _log_probs(encoder, lower[layer], layer)).mean() for layer in range(n_layers))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[union-attr]
            optimizer.step()
            schedule.step()
            progress.advance(1)
        progress.finish()
    return TunedLens(encoder.fingerprint, weights.detach().cpu(), biases.detach().cpu())


def kept_lens(encoder: Encoder, text: Sentences, run: Path | None, *, on_long: OnLong, progress: Progress) -> TunedLens:
    """The lens of a model, from the run's folder, if there is one, where another task has fitted it already."""
    if run is None:
        return fit_lens(encoder, text, on_long=on_long, progress=progress)
    decides = (encoder.fingerprint, text.text_fingerprint, on_long, encoder.dtype)
    key = digest([part.encode() for part in decides])[:16]
    path = run / FITS / f"lens-{key}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.stem}.lock")):
        if not path.exists():
            fit_lens(encoder, text, on_long=on_long, progress=progress).save(path)
    return load_lens(path, encoder)


@dataclass(frozen=True)
class LensMeasures:
    """Distance of the prediction of each layer from the final prediction of the model, by masked piece."""

    sentence: Integers  # [place] the sentence of each piece
    divergence: Floats  # [layer, place] Kullback–Leibler divergence in bits
    bits: Floats  # [layer, place] −log2 of the probability of the piece itself
    agrees: Bools  # [layer, place] whether the first word is that of the last layer

    @property
    def depth(self) -> Integers:
        """``[place]`` prediction depth: the layer from which on the first word is that of the last (section 5.3)."""
        settled = np.logical_and.accumulate(self.agrees[::-1], axis=0)
        return np.asarray(len(self.agrees) - settled.sum(0), dtype=np.int64)


def lens_measures(
    encoder: Encoder,
    sentences: Sentences,
    lens: TunedLens | None = None,
    *,
    most_places: int = 5_000,
    seed: int = 0,
    on_long: OnLong = "window",
) -> LensMeasures:
    """Measure what all layers, 0 the embeddings, predict at masked places, through a lens or, without one, as they are
    (logit lens). At most so many places are measured; the other arguments are those of :func:`fit_lens`."""
    states, gold, sentence = _masked_states(encoder, sentences, most_places, seed, on_long, n_maskings=1)
    reader = encoder if lens is None else encoder.through(lens)
    n_layers, n_places = states.shape[:2]
    divergence, bits = np.empty((n_layers, n_places)), np.empty((n_layers, n_places))
    agrees = np.empty((n_layers, n_places), dtype=bool)
    step = max(1, _LOGITS_AT_ONCE // encoder.masked_head.n_entries)
    with torch.inference_mode():
        for start in range(0, n_places, step):
            part = slice(start, start + step)
            some = states[:, part].to(encoder.device)
            final, right = _log_probs(encoder, some[-1], encoder.n_layers), gold[part].to(encoder.device)
            for layer in range(n_layers):
                logs = _log_probs(reader, some[layer], layer)
                divergence[layer, part] = (_divergence(final, logs) / np.log(2)).double().cpu().numpy()
                bits[layer, part] = (-logs.gather(1, right[:, None])[:, 0] / np.log(2)).double().cpu().numpy()
                agrees[layer, part] = (logs.argmax(1) == final.argmax(1)).cpu().numpy()
    return LensMeasures(sentence, divergence, bits, agrees)


def _masked_states(
    encoder: Encoder, sentences: Sentences, most: int, seed: int, on_long: OnLong, *, n_maskings: int
) -> tuple[Tensor, Tensor, Integers]:
    """``[layer, place, dim]`` states of masked pieces, ``[place]`` what was masked, and ``[place]`` their sentences."""
    layers, n_places = range(encoder.n_layers + 1), 0
    kept: list[tuple[Tensor, Tensor, Integers]] = []
    for masking in range(n_maskings):
        text = MaskedText(encoder, sentences, share=SHARE, seed=seed + masking, on_long=on_long)
        for batch in text.batches():
            if n_places >= most:
                break
            states = encoder.hidden_states(batch.ids, batch.mask, layers=layers)
            positions = batch.positions[batch.distinct]
            rows, columns = positions.to(states[0].device).unbind(1)
            of_batch = torch.stack([states[layer][rows, columns].float() for layer in layers]).cpu()
            windows = batch.windows[positions[:, 0].numpy()]
            kept.append((of_batch, batch.gold[batch.distinct].cpu(), text.pieces.window_sentence[windows]))
            n_places += len(rows)
    vectors, gold, of = zip(*kept, strict=True)
    return torch.cat(vectors, 1)[:, :most].clone(), torch.cat(gold)[:most].long(), np.concatenate(of)[:most].astype(int)


def _log_probs(encoder: Encoder, states: Tensor, layer: int) -> Tensor:
    weight = next(encoder.model.outermost.parameters())
    features = encoder.head_features(states.to(weight.dtype), layer=layer)
    return encoder.masked_head.logits(features).float().log_softmax(1)


def _divergence(final: Tensor, logs: Tensor) -> Tensor:
    """``[place]`` Kullback–Leibler divergence of the layer from the final prediction, in nats."""
    return (final.exp() * (final - logs)).sum(1)
