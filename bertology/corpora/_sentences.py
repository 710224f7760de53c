"""Sentences: one with its annotation, and many in little memory, text as one string and annotation as codes."""

import copy
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, count, pairwise
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json, digest
from bertology.errors import CorpusError, quoted

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

    def moved(self, by: int) -> "Target":
        """The same target ``by`` words further on."""
        (start, end), other = self.span1, self.span2
        return Target((start + by, end + by), self.label, other and (other[0] + by, other[1] + by))

    def __reduce__(self) -> tuple[type["Target"], tuple[Any, ...]]:
        return Target, (self.span1, self.label, self.span2)  # pickled by fields, 65,000 take three times as long


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
        layers: Mapping[str, Sequence[str | None]] = MappingProxyType({}),
        targets: Mapping[str, Sequence[Target]] = MappingProxyType({}),
        **fields: Any,
    ) -> "Sentence":
        """Build the natural text from words and their spacing; layers without a value, and empty targets, are left out.

        Args:
            words: the syntactic words, in order.
            id: identifier of the sentence in its corpus.
            space_after: for each word, whether a space follows it (all true when left out). Inside a multiword
                token only the value at its last word counts.
            multiword: tokens written as one; their ``form`` is what the text shows.
            **fields: further fields of the sentence.
        """
        words = tuple(words)
        spaced = [True] * len(words) if space_after is None else list(space_after)
        if len(spaced) != len(words):
            raise ValueError(f"{len(words)} words but {len(spaced)} values of space_after")
        forms: Sequence[str] = words
        if multiword:
            covered = {word for token in multiword for word in range(token.first + 1, token.last + 1)}
            written = {token.first: token for token in multiword}
            firsts = [word for word in range(len(words)) if word not in covered]
            forms = [written[word].form if word in written else words[word] for word in firsts]
            spaced = [spaced[written[word].last if word in written else word] for word in firsts]
        spans: list[tuple[int, int]] = []
        start = 0
        for form, space in zip(forms, spaced, strict=True):
            spans.append((start, start + len(form)))
            start += len(form) + bool(space)
        text = "".join(form + " " if space else form for form, space in zip(forms, spaced, strict=True))
        if multiword:
            of_tokens, spans = spans, []
            for word, (start, end) in zip(firsts, of_tokens, strict=True):
                inside = words[word : written[word].last + 1 if word in written else word + 1]
                # Words have parts of their own where they spell the token.
                ends = list(accumulate(map(len, inside), initial=start))
                spells = "".join(inside).casefold() == text[start:end].casefold() and ends[-1] == end
                spans += pairwise(ends) if spells else [(start, end)] * len(inside)
        text = text[:-1] if spaced and spaced[-1] else text
        held = {name: tuple(values) for name, values in layers.items() if values.count(None) < len(values)}
        marked = {name: tuple(some) for name, some in targets.items() if some}
        return cls(id, text, words, tuple(spans), held, targets=marked, multiword=tuple(multiword), **fields)


def part_of(sentence: Sentence, first: int, last: int) -> Sentence:
    """The words from ``first`` up to, not including, ``last`` as a sentence, with annotation layers only."""
    start = sentence.spans[first][0] if first < last else 0
    return Sentence(
        sentence.id,
        sentence.text[start : sentence.spans[last - 1][1]],
        sentence.words[first:last],
        tuple((begin - start, end - start) for begin, end in sentence.spans[first:last]),
        {name: values[first:last] for name, values in sentence.layers.items()},
    )


def as_one(sentences: Sequence[Sentence]) -> Sentence:
    """Several sentences as one, spaces between them, with the annotation of their words and spans, without trees."""
    names = dict.fromkeys(chain.from_iterable(sentence.layers for sentence in sentences))
    layers = {
        name: tuple(chain.from_iterable(one.layers.get(name, (None,) * len(one)) for one in sentences))
        for name in names
    }
    spans: list[tuple[int, int]] = []
    targets: dict[str, list[Target]] = {}
    start = word = 0
    for sentence in sentences:
        spans += [(first + start, last + start) for first, last in sentence.spans]
        for name, of_name in sentence.targets.items():
            targets.setdefault(name, []).extend(target.moved(word) for target in of_name)
        start, word = start + len(sentence.text) + 1, word + len(sentence)
    return Sentence(
        id=sentences[0].id,
        text=" ".join(sentence.text for sentence in sentences),
        words=tuple(chain.from_iterable(sentence.words for sentence in sentences)),
        spans=tuple(spans),
        layers=layers,
        targets={name: tuple(of_name) for name, of_name in targets.items()},
        derived=frozenset[str]().union(*(sentence.derived for sentence in sentences)),
    )


Integers = NDArray[np.int64]
Codes = NDArray[np.int32]

_NUMBER_AT_END = re.compile(r"[-._:]?s?\d+$")
_RARE = ("targets", "multiword", "empty_nodes", "derived")
"""Annotation that few sentences have."""


@dataclass(frozen=True, eq=False)
class WordLayer:
    """One annotation layer of the words of many sentences, or of the sentences: ``values[codes[i]]``, −1 for none."""

    packed: NDArray[np.signedinteger[Any]]
    """``[word]`` the codes, in the narrowest integer type."""
    values: tuple[str, ...]
    """Distinct values in order of first appearance."""

    @cached_property
    def codes(self) -> Codes:
        """``[word]`` the codes as int32, made at first use and kept."""
        return self.packed.astype(np.int32, copy=False)

    @cached_property
    def _value_of(self) -> tuple[str | None, ...]:
        """Values by code; −1 counts from the end, where none is."""
        return (*self.values, None)

    def decoded(self, first: int, last: int) -> tuple[str | None, ...]:
        """The values of the words from ``first`` up to, not including, ``last``."""
        return tuple(map(self._value_of.__getitem__, self.packed[first:last].tolist()))


class _Column:
    """An append-only column of repeated values as codes into a vocabulary."""

    def __init__(self) -> None:
        # Codes in order of first appearance, -1 for none.
        self._code_of: defaultdict[str | None, int] = defaultdict(count().__next__, {None: -1})
        self._codes = array("i")

    def extend(self, values: Iterable[str | None], before: int) -> None:
        """Append ``values``, filling up to ``before`` words that earlier sentences left out."""
        if len(self._codes) < before:
            self._codes.extend([-1] * (before - len(self._codes)))
        self._codes.fromlist(list(map(self._code_of.__getitem__, values)))

    def freeze(self, length: int) -> WordLayer:
        """The whole column, filled up to ``length`` words."""
        self.extend((), length)
        _, *values = self._code_of  # the first is None
        packed = np.array(self._codes, dtype=np.min_scalar_type(-max(1, len(values))))
        return WordLayer(packed, tuple(cast("list[str]", values)))


class Sentences(Sequence[Sentence]):
    """An immutable sequence of :class:`Sentence`, held by column.

    Words of all sentences are numbered through: word ``w`` of sentence ``s`` is ``starts[s] + w``. A million words
    with the layers of a treebank take some 80 MB.
    """

    def __init__(self, sentences: Iterable[Sentence] = ()) -> None:
        self._ids, self._texts = list[str](), list[str]()
        # What the sentence holds anyway, its id (0) and text (1), is kept as a number.
        self._comments: list[tuple[str | int, ...]] = []
        self._rare: dict[int, dict[str, Any]] = {}
        forms, groups, columns = _Column(), _Column(), defaultdict[str, _Column](_Column)
        starts, spans, heads, any_heads = array("q", [0]), array("i"), array("i"), False
        for number, sentence in enumerate(sentences):
            before, n = starts[-1], len(sentence.words)
            # A column that is too short or too long would shift the annotation of every later sentence.
            heads_of = [-1] * n if sentence.heads is None else sentence.heads
            if {n, *map(len, (sentence.spans, heads_of, *sentence.layers.values()))} != {n}:
                raise ValueError(f"sentence {sentence.id!r}: {n} words, but spans, heads or a layer of another length")
            self._ids.append(sentence.id)
            self._texts.append(sentence.text)
            held: dict[str, int] = {f" sent_id = {sentence.id}": 0, f" text = {sentence.text}": 1}
            self._comments.append(tuple(held.get(comment, comment) for comment in sentence.comments))
            if rare := {name: value for name in _RARE if (value := getattr(sentence, name))}:
                self._rare[number] = rare
            groups.extend((sentence.group or None,), number)
            for column, values in ((forms, sentence.words), *((columns[k], v) for k, v in sentence.layers.items())):
                column.extend(values, before)
            spans.extend(chain.from_iterable(sentence.spans))
            any_heads = any_heads or sentence.heads is not None
            heads.extend(heads_of)
            starts.append(before + n)
        self.n_words: int = starts[-1]
        """Number of words in all sentences."""
        self.starts: Integers = np.array(starts)
        """``[sentence + 1]`` number of the first word of each sentence, and the number of words."""
        self.char_spans: Codes = np.array(spans).reshape(-1, 2)
        """``[word, 2]`` place of each word in its sentence's text."""
        self.forms: WordLayer = forms.freeze(self.n_words)
        """The word forms themselves."""
        layers = {name: column.freeze(self.n_words) for name, column in columns.items()}
        self.layers: dict[str, WordLayer] = {name: layer for name, layer in layers.items() if layer.values}
        """Word-level annotation by name; a layer without a single value is not there."""
        self.groups: WordLayer = groups.freeze(len(starts) - 1)
        """``[sentence]`` the document or other group of each sentence; no value where it has none."""
        self.heads: Codes | None = np.array(heads) if any_heads else None
        """``[word]`` heads, 1-based inside the sentence, 0 for the root, −1 where a sentence has none."""

    @cached_property
    def sentence_of_word(self) -> Codes:
        """``[word]`` number of the sentence of each word."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> "Sentences": ...
    def __getitem__(self, index: int | slice) -> "Sentence | Sentences":
        if isinstance(index, slice):
            return Sentences(map(self.__getitem__, range(*index.indices(len(self)))))
        number = range(len(self))[index]
        first, last = self.starts[number], self.starts[number + 1]
        name, text = self._ids[number], self._texts[number]
        heads = self.heads[first:last].tolist() if self.heads is not None else None
        decoded = ((layer_name, layer.decoded(first, last)) for layer_name, layer in self.layers.items())
        held = (f" sent_id = {name}", f" text = {text}")
        return Sentence(
            id=name,
            text=text,
            words=cast(tuple[str, ...], self.forms.decoded(first, last)),
            spans=tuple(map(tuple, self.char_spans[first:last].tolist())),
            layers={name: values for name, values in decoded if values.count(None) < len(values)},
            heads=tuple(heads) if heads and heads[0] >= 0 else None,
            comments=tuple(held[one] if isinstance(one, int) else one for one in self._comments[number]),
            group=self.groups.decoded(number, number + 1)[0] or "",
            **self._rare.get(number, {}),
        )

    def with_layers(self, layers: Mapping[str, WordLayer]) -> "Sentences":
        """The same sentences with ``layers`` of all words added, or put in place of those of the same name.

        Raises:
            ValueError: a layer is not as long as there are words.
        """
        for name, layer in layers.items():
            if layer.packed.shape != (self.n_words,):
                raise ValueError(f"layer {name} has {len(layer.packed)} values for {self.n_words} words")
        other = copy.copy(self)
        other.layers = {**self.layers, **layers}
        other.__dict__.pop("fingerprint", None)
        return other

    @property
    def target_layers(self) -> tuple[str, ...]:
        """Names of the span-level annotation, sorted."""
        return tuple(sorted({name for rare in self._rare.values() for name in rare.get("targets", ())}))

    def targets(self, layer: str) -> Iterator[tuple[int, tuple[Target, ...]]]:
        """The number and the targets of each sentence that has span-level annotation of that name."""
        # In order of sentences: targets may have been added to some later.
        for number, rare in sorted(self._rare.items(), key=itemgetter(0)):
            if some := rare.get("targets", {}).get(layer):
                yield number, some

    def with_derived(self, name: str, targets: Mapping[int, tuple[Target, ...]]) -> "Sentences":
        """The same sentences with targets that follow by rule from their annotation; the fingerprint is unchanged.

        Targets are given by number of sentence, and replace those of that name.
        """
        other = copy.copy(self)
        other._rare = dict(self._rare)
        for number, spans in targets.items():
            rare = self._rare.get(number, {})
            more = {"targets": {**rare.get("targets", {}), name: spans}, "derived": {name, *rare.get("derived", ())}}
            other._rare[number] = {**rare, **more, "derived": frozenset(more["derived"])}
        return other

    @cached_property
    def documents(self) -> list[tuple[range, str]]:
        """The numbers of the sentences of each document, and what it is called, empty if it has no name.

        Documents are the groups of sentences; where there is none at all, they follow from what precedes the number in
        the names of sentences (``doc-3-0012``).
        """
        names = [name or "" for name in self.groups.decoded(0, len(self))]
        names = names if any(names) else [_NUMBER_AT_END.sub("", name) for name in self._ids]
        starts = [place for place, name in enumerate(names) if not place or name != names[place - 1]]
        return [(range(start, end), names[start]) for start, end in pairwise([*starts, len(names)])]

    @cached_property
    def document_of_sentence(self) -> Integers:
        """``[sentence]`` number of the document of each: see :attr:`documents`."""
        return np.repeat(np.arange(len(self.documents)), [len(numbers) for numbers, _ in self.documents])

    def text(self, number: int) -> str:
        """The natural text of sentence ``number``."""
        return self._texts[number]

    def id(self, number: int) -> str:
        """The identifier of sentence ``number`` in its corpus."""
        return self._ids[number]

    def word(self, number: int) -> str:
        """The form of word ``number``, counted through the whole sequence."""
        return self.forms.values[int(self.forms.packed[number])]

    @cached_property
    def written(self) -> WordLayer:
        """Each word as the text shows it, :attr:`forms` themselves where no token stands for several words.

        Words that do not spell their multiword token (French *du*, which is *de* and *le*) show all of it.
        """
        numbers = [number for number, rare in self._rare.items() if "multiword" in rare]
        shown = list(self.forms.decoded(0, self.n_words)) if numbers else []
        for number in numbers:
            words = range(*self.starts[number : number + 2].tolist())
            for word, (begin, end) in zip(words, self.char_spans[words.start : words.stop].tolist(), strict=True):
                shown[word] = self._texts[number][begin:end]
        column = _Column()
        column.extend(shown, 0)
        return column.freeze(self.n_words) if shown else self.forms

    @cached_property
    def text_fingerprint(self) -> str:
        """Hash of the input of a model, text and positions of words, independent of annotation."""
        return digest([*_joined(self._texts), self.starts.data, self.char_spans.tobytes()])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of text, identifiers, groups and annotation (comments, empty nodes and derived targets left out).

        Predictions are kept under identifiers of sentences, and some items follow from them.
        """
        parts = list[bytes | memoryview]([self.text_fingerprint.encode()])
        for name, layer in (("form", self.forms), ("group", self.groups), *sorted(self.layers.items())):
            parts += _joined(self._ids) if layer is self.groups else []
            values = "\0".join(layer.values).encode("utf-8", "surrogatepass")
            parts += [name.encode(), layer.packed.astype(np.int32).data, values]
        if self.heads is not None:
            parts.append(self.heads.data)
        targets: dict[int, dict[str, list[Any]]] = {}
        for number, rare in self._rare.items():
            for name in rare.get("targets", {}).keys() - rare.get("derived", ()):
                plain = map(attrgetter("span1", "label", "span2"), rare["targets"][name])
                targets.setdefault(number, {})[name] = list(plain)
        return digest([*parts, canonical_json(targets)])


def _joined(strings: Iterable[str]) -> list[bytes | memoryview]:
    """Strings as UTF-8 and where each ends, as parts of a hash."""
    encoded = [value.encode("utf-8", "surrogatepass") for value in strings]
    return [b"".join(encoded), np.cumsum([0, *map(len, encoded)]).data]


def key_values(written: str | None) -> dict[str, str]:
    """Features or marks as ``Number=Sing|Person=3`` by their names; one without a value has its own name as value."""
    parts = (part.partition("=") for part in (written or "").split("|"))
    return {name: value if sign else name for name, sign, value in parts if name}


def words_at(
    sentence: Sentence, word: str | None = None, *, span: tuple[int, int] | None = None, occurrence: int | None = None
) -> range:
    """The places, from 0, of the words that a word, a phrase or a span of characters of a sentence stands for.

    A phrase is words in a row as the text spells them, whatever the case and the amount of white space; a span begins
    and ends with whole words, its characters counted from 0, end exclusive.

    Raises:
        CorpusError: neither word nor span are given, or both; the phrase does not occur or occurs several times; the
            span is outside of the text, or cuts a word.
    """
    if (word is None) == (span is None):
        raise CorpusError("give a word or phrase, or the span of its characters: one of them")
    if word is not None:
        places = [range(at, at + 1) for at, form in enumerate(sentence.words) if form.lower() == word.strip().lower()]
        return _occurrence(places or _places_of_phrase(sentence, word), sentence, word, occurrence)
    first, last = span or (0, 0)
    shown = f"span {first} {last}"
    if occurrence is not None:
        raise CorpusError(f"{shown} with occurrence {occurrence}: a span is one place; leave the occurrence out")
    if not 0 <= first < last <= len(sentence.text):
        due = f"it has {len(sentence.text)} characters, counted from 0, end exclusive"
        raise CorpusError(f"{shown} is outside of the text, or empty: {due}")
    begin = next((at for at, (start, _) in enumerate(sentence.spans) if start == first), None)
    end = next((at + 1 for at, (_, stop) in reversed([*enumerate(sentence.spans)]) if stop == last), None)
    if begin is None or end is None or begin >= end:
        inside = [one for one in sentence.spans if one[0] < last and first < one[1]]
        remedy = f"span {inside[0][0]} {inside[-1][1]} has whole words" if inside else "there is no word in it"
        raise CorpusError(
            f"{shown} is {quoted(sentence.text[first:last])}, which cuts a word or ends in a space: {remedy}"
        )
    return range(begin, end)


def _places_of_phrase(sentence: Sentence, phrase: str) -> list[range]:
    """All places of words in a row that spell a phrase."""
    pattern = re.compile(r"\s+".join(map(re.escape, phrase.split())) or r"(?!)", re.IGNORECASE)
    found, last_of = list[range](), {stop: at + 1 for at, (_, stop) in enumerate(sentence.spans)}
    first_of = {start: at for at, (start, _) in reversed([*enumerate(sentence.spans)])}
    for start, first in sorted(first_of.items()):
        match = pattern.match(sentence.text, start)
        if match and (last := last_of.get(match.end(), 0)) > first:
            found.append(range(first, last))
    return found


def _occurrence(places: Sequence[range], sentence: Sentence, word: str, occurrence: int | None) -> range:
    """The only place of a word or phrase, or the one that is chosen."""
    what = "phrase" if len(word.split()) > 1 else "word"
    if not places:
        near = f"its words are {quoted(' '.join(sentence.words))}"
        raise CorpusError(f"{what} {quoted(word)} is not in the text; {near}")
    if occurrence is None and len(places) > 1:
        raise CorpusError(
            f"{what} {quoted(word)} stands {len(places)} times in the text: choose one with --occurrence 1 to "
            f"{len(places)} (occurrence=… in Python), or by its characters"
        )
    if occurrence is not None and not 1 <= occurrence <= len(places):
        times = f"{len(places)} time{'s' * (len(places) > 1)}"
        raise CorpusError(f"occurrence {occurrence} of {quoted(word)}: it stands {times} in the text, from 1")
    return places[(occurrence or 1) - 1]
