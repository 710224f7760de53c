"""Text that a masked language model writes by filling masks one after the other."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from bertology.activations.progress import silent
from bertology.cloze.asking import Query, Wanted, read_places
from bertology.cloze.prompts import Prompt, encode, spell_pieces, too_long
from bertology.encoders import Encoder
from bertology.errors import ClozeError, quoted

Order = Literal["certain", "left"]


class Filled(NamedTuple):
    """A mask that was filled, and the text from then on."""

    place: int
    """Its place among the masks at the beginning, counted from 1."""
    piece: str
    """The subword that it was filled with."""
    probability: float
    """Its probability, among all entries of the vocabulary that are no special tokens."""
    text: str
    """The text so far, with the masks that are left."""


@Encoder.comes_first
def write_text(encoder: Encoder, text: str, *, n: int, order: Order = "certain") -> Iterator[Filled]:
    """Fill ``n`` masks one after the other, each given all that stands there by then (Wang & Cho 2019; Ghazvininejad et
    al. 2019), with the most probable subword.

    A masked language model predicts each mask as if the others stood open, so that what is written is no sample of a
    distribution over texts. Special tokens are never written.

    Args:
        encoder: a masked language model.
        text: the masks stand where it has one, else at its end.
        n: number of masks.
        order: ``certain``: first the mask whose best subword is the most probable; ``left``: from left to right.

    Yields:
        Each mask when it is filled.

    Raises:
        ClozeError: the text has more than one mask, or is too long with ``n``.
    """
    if (n_masks := Prompt(text).n_masks) > 1:
        raise ClozeError(f"{n_masks} masks in {quoted(text)}: write one, which stands for all that are filled")
    masks = " ".join(["{mask}"] * n)
    prompt = Prompt(masks.join(Prompt(text).segments) if n_masks else f"{text} {masks}".strip())
    (encoding,) = encode(encoder, [prompt.written(encoder.mask_token)])
    ids = np.array(encoding.ids, dtype=np.int64)
    if problem := too_long(encoder, len(ids)):
        raise ClozeError(f"text {quoted(text)} with {n} masks is {problem}; take fewer")
    every = np.flatnonzero(ids == encoder.mask_id)
    plain = np.setdiff1d(np.arange(len(encoder.tokenizer)), encoder.tokenizer.all_special_ids)
    wanted = Wanted(layers=(encoder.n_layers,), top=1, vocabulary=plain)
    while len(left := np.flatnonzero(ids == encoder.mask_id)):
        read = read_places(encoder, [[Query(ids.tolist(), int(piece)) for piece in left]], wanted, silent)
        best = int(read.top_values[0, :, 0].argmax()) if order == "certain" else 0
        ids[left[best]] = entry = int(read.top_ids[0, best, 0])
        shown = encoder.tokenizer.decode([one for one in ids.tolist() if one in plain or one == encoder.mask_id])
        place = int(np.searchsorted(every, left[best])) + 1
        yield Filled(place, spell_pieces(encoder, [entry])[0], float(np.exp(read.top_values[0, best, 0])), shown)
