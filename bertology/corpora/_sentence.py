"""One annotated sentence: natural text, words with their positions in it, and their annotation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import MappingProxyType

IGNORED = frozenset({"-100", "-100.0"})
"""Labels of what is not asked about, as in data prepared for Hugging Face's losses, which ignore −100."""


@dataclass(frozen=True, slots=True)
class Target:
    """A labelled span, or pair of spans, of words (0-based, end exclusive)."""

    span1: tuple[int, int]
    label: str | tuple[str, ...]
    """One label; or all labels of the target, where it may have any number of them."""
    span2: tuple[int, int] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of the target, as a tuple."""
        return (self.label,) if isinstance(self.label, str) else self.label


@dataclass(frozen=True, slots=True)
class MultiwordToken:
    """An orthographic token written as one and analysed as several words (French *du* = *de* + *le*)."""

    first: int
    """Index of its first word, 0-based."""
    last: int
    """Index of its last word, 0-based, inclusive."""
    form: str
    misc: str | None = None
    feats: str | None = None
    """Features of the token as a whole, such as ``Typo=Yes``."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it was written, and its words.

    ``spans[i]`` is the position of word ``i`` in ``text`` (code points, end exclusive). Words of one multiword
    token that do not spell it have the span of the token.
    """

    id: str
    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    layers: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    """Word-level annotation by name (``upos``, ``xpos``, ``lemma``, ``feats``, ``deprel``, ``ner``, ``chunk``,
    ``misc`` …), one value or ``None`` a word."""
    heads: tuple[int, ...] | None = None
    """Head of each word: 0 for the root, otherwise the 1-based index of the head word, as in CoNLL-U."""
    targets: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    """Span-level annotation by name (``constituents``, ``entities``, ``srl``, ``proto_roles``, ``coref``,
    ``winograd``, ``relations`` …)."""
    multiword: tuple[MultiwordToken, ...] = ()
    comments: tuple[str, ...] = ()
    """Comment lines without the leading ``#``, verbatim."""
    empty_nodes: tuple[str, ...] = ()
    """CoNLL-U lines of empty nodes (``8.1``), verbatim."""
    derived: frozenset[str] = frozenset()
    """Names of those ``targets`` that follow by rule from other annotation, as entities do from IOB tags. They add no
    information and are not part of the fingerprint."""
    group: str = ""
    """The document, or other unit, that the sentence is part of; splits and folds that are made never divide it. Empty
    where the sentence stands alone."""

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def from_words(
        cls,
        words: Iterable[str],
        *,
        id: str = "",
        space_after: Sequence[bool] | None = None,
        multiword: Sequence[MultiwordToken] = (),
        layers: Mapping[str, tuple[str | None, ...]] = MappingProxyType({}),
        heads: tuple[int, ...] | None = None,
        targets: Mapping[str, tuple[Target, ...]] = MappingProxyType({}),
        comments: tuple[str, ...] = (),
        empty_nodes: tuple[str, ...] = (),
        derived: frozenset[str] = frozenset(),
        group: str = "",
    ) -> Sentence:
        """Build the natural text from words and their spacing; further arguments are fields of the sentence.

        Args:
            words: the syntactic words, in order.
            id: identifier of the sentence in its corpus.
            space_after: for each word, whether a space follows it (all true when left out). Inside a multiword
                token only the value at its last word counts.
            multiword: tokens written as one; their ``form`` is what the text shows.
        """
        words = tuple(words)
        spaced = [True] * len(words) if space_after is None else list(space_after)
        if len(spaced) != len(words):
            raise ValueError(f"{len(words)} words but {len(spaced)} values of space_after")
        text, spans = _place_multiword(words, spaced, multiword) if multiword else _place(words, spaced)
        more = layers, heads, targets, tuple(multiword), comments, empty_nodes, derived, group
        return cls(id, text, words, tuple(spans), *more)


def _place(tokens: Sequence[str], spaced: Sequence[bool]) -> tuple[str, list[tuple[int, int]]]:
    """The text of ``tokens``, without a space at its end, and the position of each token in it."""
    spans: list[tuple[int, int]] = []
    start = 0
    for token, space in zip(tokens, spaced, strict=True):
        spans.append((start, start + len(token)))
        start += len(token) + bool(space)
    text = "".join(token + " " if space else token for token, space in zip(tokens, spaced, strict=True))
    return text[:-1] if spaced and spaced[-1] else text, spans


def _place_multiword(
    words: Sequence[str], spaced: Sequence[bool], multiword: Sequence[MultiwordToken]
) -> tuple[str, list[tuple[int, int]]]:
    """The text of words of which some are written as one, and the position of each word in it."""
    starts_token = {token.first: token for token in multiword}
    forms: list[str] = []
    members: list[Sequence[str]] = []
    form_spaced: list[bool] = []
    index = 0
    while index < len(words):
        token = starts_token.get(index)
        last = token.last if token else index
        forms.append(token.form if token else words[index])
        members.append(words[index : last + 1])
        form_spaced.append(spaced[last])
        index = last + 1
    text, form_spans = _place(forms, form_spaced)
    parts = zip(forms, members, form_spans, strict=True)
    return text, [span for form, inside, (start, _) in parts for span in _spans_inside(form, inside, start)]


def _spans_inside(form: str, words: Sequence[str], start: int) -> list[tuple[int, int]]:
    """The positions of words in a token that begins at ``start``: their own parts if they spell the token."""
    if "".join(words).casefold() == form.casefold() and sum(map(len, words)) == len(form):
        ends = list(accumulate(map(len, words), initial=start))
        return list(pairwise(ends))
    return [(start, start + len(form))] * len(words)
