"""Models that read in a way that their configuration declares: two languages apart, or from right to left.

Languages apart have special tokens of their own, positions of their own, or both. Of which language a text is follows
from its pieces, which are in two blocks of the vocabulary. So nothing is to be stated where the model is used: its
embeddings exchange special tokens and positions themselves (Dufter & Schütze 2020, section 3, *lang-pos* and
*shift-special*).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn

OWN_SPECIALS = ("[CLS]", "[SEP]", "[MASK]")
"""Special tokens that a language can have of its own; they have the last numbers before the pieces."""
FIRST_PIECE = 5
"""The number of the first piece that is no special token."""


def read_as_declared(body: nn.Module) -> None:
    """Let a BERT read as its configuration declares; models that declare nothing stay as they are.

    Args:
        body: the model without its heads. Its configuration may have ``right_to_left``: each piece attends to itself
            and to those after it. It may have ``second_language``, by which special tokens and positions are exchanged:
            ``first_piece``, the number of the first piece of that language, and the number of the first embedding of
            its own special tokens (``specials_from``) and positions (``positions_from``), where it has any.
    """
    import torch

    if getattr(body.config, "right_to_left", False):
        body.register_forward_pre_hook(_see_the_right, with_kwargs=True)
    declared: dict[str, int] | None = getattr(body.config, "second_language", None)
    if declared is None:
        return
    first_piece, specials, positions = declared["first_piece"], *map(declared.get, ("specials_from", "positions_from"))

    def exchange(module: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        ids: torch.Tensor | None = given.get("input_ids")
        if ids is None:
            return args, given
        # A few pieces of a text may be random ones of the other language.
        is_second = (2 * (ids >= first_piece).sum(1) > (ids >= FIRST_PIECE).sum(1)).unsqueeze(1)  # [row, 1]
        changed = dict(given)
        if positions is not None:
            counted = given.get("position_ids")
            if counted is None:
                counted = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
            changed["position_ids"] = counted + positions * is_second
        if specials is not None:
            first_special = FIRST_PIECE - len(OWN_SPECIALS)
            own = is_second & (ids < FIRST_PIECE) & (ids >= first_special)
            changed["input_ids"] = torch.where(own, ids - first_special + specials, ids)
        return args, changed

    embeddings: Any = body.embeddings
    embeddings.register_forward_pre_hook(exchange, with_kwargs=True)


def _see_the_right(body: Any, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Give the model an attention mask that lets no piece see padding, or those before it."""
    import torch

    ids, mask = args[0] if args else given["input_ids"], given.get("attention_mask")
    seen = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu()[None, None]
    seen = seen if mask is None else seen & (mask[:, None, None, :] == 1)
    hidden = torch.zeros_like(seen, dtype=body.dtype).masked_fill(~seen, torch.finfo(body.dtype).min)
    return args, {**given, "attention_mask": hidden}
