"""The readout ``tuned_lens``: the masked-LM head reads lower layers through translators that are fitted to a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from filelock import FileLock

from bertology._files import digest
from bertology.corpora import Sentences, load_corpus
from bertology.errors import BertologyError, CorpusError
from bertology.families.request import ReadoutConfig
from bertology.families.tasks import Job, Pair
from bertology.results.predictions import FITS

if TYPE_CHECKING:
    from bertology.cloze.lens import TunedLens
    from bertology.encoders import Encoder, OnLong

TUNED_LENS = "tuned_lens.v1"
LENS_LOGITS = 400 * 64 * 30_000
"""Logits of a layer that a fit computes, roughly: 400 steps of 64 masked pieces."""


def lens_corpus(config: ReadoutConfig, pair: Pair) -> str:
    """The corpus whose train split the translators are fitted to.

    Raises:
        BertologyError: none is named, and the texts are not those of the embedded corpus.
    """
    if name := config.settings.get("lens_corpus"):
        return str(name)
    if pair.request.corpus != "pocket":
        example = "{name: tuned_lens, settings: {lens_corpus: CORPUS}}"
        raise BertologyError(f"readout {TUNED_LENS}: name the corpus that its translators are fitted to: {example}")
    return "pocket"


def lens_text(config: ReadoutConfig, pair: Pair) -> Sentences:
    """The text that the translators are fitted to.

    Raises:
        BertologyError: there is no such corpus, or it has no train split.
    """
    name = lens_corpus(config, pair)
    splits = load_corpus(name).splits
    if "train" not in splits:
        raise CorpusError(f"lens_corpus {name}: a lens is fitted to a train split; this corpus has {', '.join(splits)}")
    return splits["train"]


def kept_lens(encoder: Encoder, config: ReadoutConfig, job: Job) -> TunedLens:
    """The lens of a model, from the run's folder where another task has fitted it already."""
    from bertology.cloze import fit_lens, load_lens

    text, on_long = lens_text(config, job.pair), cast("OnLong", job.pair.request.on_long)
    decides = (encoder.fingerprint, text.text_fingerprint, on_long, job.pair.request.dtype)
    key = digest([part.encode() for part in decides])[:16]
    path = job.run / FITS / f"lens-{key}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.stem}.lock")):
        if not path.exists():
            fit_lens(encoder, text, on_long=on_long, progress=job.progress).save(path)
    return load_lens(path, encoder)
