"""Words that heads connect: arcs, candidates and trees over words, compared with what each head attends to most.

``questions.py`` holds the questions and the baselines that need no head, ``heads.py`` the statistics of heads that
answer them and a parser made of all heads. Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.attention.arcs.questions import Arcs

if TYPE_CHECKING:
    from bertology.attention.arcs.heads import ArcHits

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["ArcHits", "Arcs"]
