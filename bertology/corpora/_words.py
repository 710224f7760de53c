"""Words of raw text and the spaces between them, and spans of words: IOB tags, mentions."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import PurePath
from pkgutil import iter_modules
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import spacy
from bertology._names import check_name
from bertology.corpora._files import Oddities, wrong
from bertology.corpora._sentences import IGNORED, Integers, Sentence, Sentences, Target, WordLayer
from bertology.errors import CorpusError, quoted

Span = tuple[int, int]
MASK = "[MASK]"
JOINED = "sentences without spacing, words joined by single spaces"
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
_ESCAPED = {**_BRACKETS, "``": '"', "''": '"', "`": "'"}
_OPENING = frozenset(["``", "`", "-LRB-", "-LCB-", "-LSB-", "(", "[", "{", "$", "#", "US$", "C$", "A$", "HK$"])
_CLOSING = frozenset([",", ".", ";", ":", "?", "!", "%", "''", "-RRB-", "-RCB-", "-RSB-", ")", "]", "}", "n't", "N'T"])
_CLITICS = frozenset(["'s", "'S", "'", "'re", "'ve", "'m", "'ll", "'d"])
MASKS = re.compile(r"\{mask\}|\[MASK\]|<mask>")
"""Spellings of a mask in texts."""
_LETTER = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=SA}]"
_UNSPACED = rf"{_LETTER}\b{_LETTER}"
"""Two letters of scripts without spaces, between which no rule places the end of a word; those of the line
breaking class SA are Thai, Lao, Khmer, Burmese and their kin."""
_SEGMENTED = {"zh": "pip install jieba", "ja": "pip install sudachipy sudachidict_core", "th": "pip install pythainlp"}
"""Languages without spaces between words that spaCy has a tokenizer for, and what that needs."""
_WRITTEN_AS_ONE = frozenset(["cannot", "gonna", "gotta"])


def spacing_in(text: str, words: Sequence[str]) -> list[bool] | None:
    """Whether white space follows each word in ``text``; ``None`` when it does not hold just these words."""
    spaced: list[bool] = []
    place = 0
    for word in words:
        if not text.startswith(word, place):
            return None
        place += len(word)
        gap = len(text[place:]) - len(text[place:].lstrip())
        spaced.append(gap > 0)
        place += gap
    return spaced if place == len(text) else None


def penn_words(tokens: Sequence[str], tags: Sequence[str | None]) -> tuple[list[str], list[bool]]:
    r"""Words as people write them, and whether a space follows each, from the tokens of the Penn Treebank.

    Brackets, slashes and quotation marks are written plainly again (``-LRB-`` as ``(``, ``\/`` as ``/``, two
    backquotes as ``"``). Treebanks do not say where spaces were; the rules here are those that tokenisation undoes:
    none before closing punctuation and clitics (*'s*, *n't*), none after what opens a quotation or bracket or a sum
    of money, none around the hyphens that OntoNotes splits off. ``tags``, the parts of speech as far as known, tell a
    clitic from an opening quotation mark.
    """
    # OntoNotes writes a mark with a slash where it is a token of its own: /., /?
    tokens = [one[1] if len(one) == 2 and one[0] == "/" and not one[1].isalnum() else one for one in tokens]
    spaced = [True] * len(tokens)
    for index, (token, tag) in enumerate(zip(tokens, tags, strict=True)):
        clitic = token in _CLITICS and tag not in ("``", "CD")
        if index and (token in _CLOSING or clitic or tag == "HYPH"):
            spaced[index - 1] = False
        if token in _OPENING or tag == "HYPH":
            spaced[index] = False
    if spaced:
        spaced[-1] = True
    return [_ESCAPED.get(token) or token.replace("\\/", "/").replace("\\*", "*") for token in tokens], spaced


def sentence_of_text(
    text: str, *, language: str | None = None, split_at_spaces: bool = False, name: str = "", where: str = ""
) -> Sentence:
    """A text as a sentence without annotation.

    Words are what stands between the word boundaries of Unicode Standard Annex 29, in whatever language: *don't*,
    *aujourd'hui*, an emoji, a flag and a mark of punctuation are one word each. Where the language is named, spaCy's
    rules for it find them instead; those of English cut *don't* into *do* and *n't*, as treebanks do.

    >>> sentence_of_text("Ich bin im Haus: geht's?").words
    ('Ich', 'bin', 'im', 'Haus', ':', "geht's", '?')
    >>> sentence_of_text("We don't know his id.", language="en").words
    ('We', 'do', "n't", 'know', 'his', 'id', '.')

    Args:
        text: white space around it is left out.
        language: language of the text, such as ``en``, ``fr`` or ``zh``, whose rules find its words.
        split_at_spaces: whether words are separated by spaces instead.
        name: identifier of the sentence.
        where: beginning of error messages.

    Raises:
        CorpusError: there is no word in the text; it is of a script without spaces between words and its language is
            not named; or what finds words of the language is not installed.
        NameNotFoundError: spaCy has no language of that code.
    """
    text = text.strip()
    if split_at_spaces and language is not None:
        raise CorpusError(f"{where}words split at spaces need no language ({quoted(language)}): choose one of both")
    spaced = [match.span() for match in re.finditer(r"\S+", text)]
    if not (words := spaced if split_at_spaces else text_words(text, language, where=where)):
        raise CorpusError(f"{where}there is no word in the sentence: give some text")
    return sentence_of(text, words, name, {})


def text_words(text: str, language: str | None = None, *, where: str = "") -> list[Span]:
    """The position of each word in a text (code points, end exclusive), found as by :func:`sentence_of_text`; a mask is
    one word."""
    import regex  # takes longer to import than names of corpora to list

    flags = regex.V1 | regex.WORD | regex.DOTALL  # \b is a word boundary of Unicode Standard Annex 29
    if language not in _SEGMENTED and (found := regex.search(_UNSPACED, text, flags)):
        run = re.split(r"\s", text[: found.start()])[-1] + re.split(r"\s", text[found.start() :])[0]
        raise CorpusError(
            f"{where}{quoted(run)} has no spaces between its words: name the language (language='zh', 'ja' or 'th'; "
            "--language), give lists of words, or split at spaces (--split-at-spaces)"
        )
    words: list[Span] = []
    start = 0
    for mask in (*MASKS.finditer(text), None):
        part = text[start : len(text) if mask is None else mask.start()]
        if language is None:
            matches = regex.finditer(r".+?\b", part, flags)
            inside = [match.span() for match in matches if not match[0].isspace()]
        else:
            tokens = _tokenizer(language)(part)
            inside = [(token.idx, token.idx + len(token)) for token in tokens if not token.text.isspace()]
        if language is not None and not part.isascii():  # a character of several code points is never cut
            cut_at = {at for match in regex.finditer(r"\X", part) for at in range(match.start() + 1, match.end())}
            found_words, inside = inside, []
            for first, last in found_words:
                joins = first in cut_at and inside and inside[-1][1] == first
                inside.append((inside.pop()[0] if joins else first, last))
        words += ((start + first, start + last) for first, last in inside)
        if mask is not None:
            words.append(mask.span())
            start = mask.end()
    return words


@lru_cache
def _tokenizer(language: str) -> "Callable[[str], spacy.tokens.Doc]":
    """SpaCy's rules for the words of a language."""
    if language != "en":
        names = [module.name for module in iter_modules(spacy.lang.__path__) if module.ispkg]
        check_name("language", language, names)
        config = {"nlp": {"tokenizer": {"segmenter": "jieba"}}} if language == "zh" else {}
        try:
            return cast("Callable[[str], spacy.tokens.Doc]", spacy.blank(language, config=config).tokenizer)
        except ImportError as error:
            needed = _SEGMENTED.get(language) or " ".join(str(error).split())
            what = f"words of language {language!r} are found by a package that is not installed ({needed})"
            raise CorpusError(f"{what}: install it, give lists of words, or split at spaces") from None
    util, rules = spacy.util, spacy.util.get_lang_class("en").Defaults
    # Spellings without an apostrophe are words of their own as well: id, wed, cant, im.
    exceptions = {
        form: parts
        for form, parts in rules.tokenizer_exceptions.items()
        if len(parts) == 1 or not form.isalpha() or form.lower() in _WRITTEN_AS_ONE
    }
    # A vocabulary that learns nothing of its words (shape, case …): that would take longer than to find them.
    tokenizer: Callable[[str], spacy.tokens.Doc] = spacy.tokenizer.Tokenizer(
        spacy.vocab.Vocab(),
        rules=exceptions,
        prefix_search=util.compile_prefix_regex(rules.prefixes or ()).search,
        suffix_search=util.compile_suffix_regex(rules.suffixes or ()).search,
        infix_finditer=util.compile_infix_regex(rules.infixes or ()).finditer,
        token_match=rules.token_match,
        url_match=rules.url_match,
    )
    return tokenizer


def words_within(words: list[Span], start: int, end: int) -> Span:
    """The words that share a character with ``start`` to ``end``, as a span; empty where there is none."""
    inside = [index for index, (first, last) in enumerate(words) if first < end and start < last]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


def sentence_of(text: str, words: list[Span], name: str, targets: Mapping[str, tuple[Target, ...]]) -> Sentence:
    """The sentence of a text and its words."""
    return Sentence(name, text, tuple(text[start:end] for start, end in words), tuple(words), targets=targets)


SPAN_TAG = re.compile(r"O|[BIESLUMW]-\S+")
"""A tag of any scheme: IOB; or those with marks of last words (E, L) and single ones (S, U, W), as BIOES and BILOU."""
_IOB_LAYERS = ("chunk", "ner")
_SINGLE, _OPEN, _WITH_ENDS = ("S", "U", "W"), ("B", "I", "M"), ("E", "L", "S", "U", "W", "M")


def to_iob2(
    layer: WordLayer, starts: Integers, place: Callable[[int], str], name: str = "ner"
) -> tuple[WordLayer, NDArray[np.int64]]:
    """The layer in IOB2, where each span begins with B-.

    A layer that marks last or single words of spans (BIOES, BILOU) has to do so throughout.

    A layer that has B- only where a span follows another of its type is IOB1 (Ramshaw & Marcus 1995), as CoNLL-2003
    is: the I- that begin spans become B-. In any other layer an I- that begins a span (after O, after another type,
    or at a sentence's start) is an error, for it may as well be a lost B- as a lost word.

    No value, and −100, which losses ignore, count as outside; ``starts [sentence + 1]`` is the first word of each
    sentence. Errors give the ``place`` of a word, and the ``name`` of the layer.

    Returns:
        The layer, and the numbers of the words whose tags are others now (none where it was IOB2).
    """

    def error(word: int, due: str) -> CorpusError:
        return wrong(f"{place(word)}: {name} tag", layer.values[layer.codes[word]], due)

    for code, value in enumerate(layer.values):
        if not SPAN_TAG.fullmatch(value) and value not in IGNORED:
            raise error(int(np.argmax(layer.codes == code)), "O, B-TYPE or I-TYPE")
    ends, first_words = has_ends(layer), set(starts.tolist())
    tags = [("O", "") if value in IGNORED else (value[0], value[2:]) for value in layer.values]
    bare, begins, before, is_open = list[int](), False, "", False
    for word, code in enumerate([*layer.codes.tolist(), -1]):
        mark, kind = tags[code] if code >= 0 else ("O", "")
        before = "" if word in first_words else before
        continues = mark not in ("O", "B", *_SINGLE) and kind == before and (is_open or not ends)
        if ends and is_open and not (continues and word not in first_words):
            raise error(word - 1, "the end of a span that is open, as in the rest of the file, BIOES or BILOU")
        if ends and mark not in ("O", "B", *_SINGLE) and not continues:
            raise error(word, "a span before it that it continues, as in the rest of the file, BIOES or BILOU")
        if mark == "I" and kind != before:
            bare.append(word)
        begins = begins or (mark == "B" and kind != before)
        before, is_open = kind, mark in _OPEN
    if ends:
        marks = ["O" if mark == "O" else "B" if mark in ("B", *_SINGLE) else "I" for mark, _ in tags]
        new = [value if mark == "O" else mark + value[1:] for value, mark in zip(layer.values, marks, strict=True)]
        values = tuple(dict.fromkeys(new))
        codes = np.array([*map(values.index, new), -1], dtype=layer.codes.dtype)[layer.codes]
        is_other = np.array([*(value.startswith(_WITH_ENDS) for value in layer.values), False])[layer.codes]
        return WordLayer(codes, values), np.flatnonzero(is_other)
    if bare and begins:
        raise error(bare[0], "B- where a span begins, as in the rest of the file, which is IOB2")
    codes, code_of = layer.codes.copy(), {value: code for code, value in enumerate(layer.values)}
    for word in bare:
        codes[word] = code_of.setdefault(f"B-{layer.values[codes[word]][2:]}", len(code_of))
    return (WordLayer(codes, tuple(code_of)) if bare else layer), np.array(bare, dtype=np.int64)


def has_ends(layer: WordLayer) -> bool:
    """Whether a layer is of a scheme that marks the last or the single words of spans, as BIOES and BILOU do."""
    values = [value for value in layer.values if value not in IGNORED]
    return all(map(SPAN_TAG.fullmatch, values)) and any(value.startswith(_WITH_ENDS) for value in values)


def entities_of(tags: Sequence[str | None]) -> tuple[Target, ...]:
    """The spans that the IOB2 tags of one sentence mark, in order, each labelled by its type; no tag means outside."""
    spans: list[list[int]] = []
    for place, tag in enumerate(tags):
        if tag and tag[0] == "B":
            spans.append([place, place + 1])
        elif tag and tag[0] == "I":
            spans[-1][1] = place + 1
    return tuple(Target((first, last), str(tags[first])[2:]) for first, last in spans)


def with_iob2(sentences: Sentences, place: Callable[[int], str], oddities: Oddities) -> Sentences:
    """The sentences with the layers ``ner`` and ``chunk`` in IOB2, and the ``entities`` that follow from ``ner``.

    So are any other layers of a scheme with ends.

    ``place`` gives where a word stands, as ``file:line``, for errors; notes have the name of the file alone.
    """
    repaired = {}
    for name, layer in sentences.layers.items():
        if name not in _IOB_LAYERS and not has_ends(layer):
            continue
        repaired[name], changed = to_iob2(layer, sentences.starts, place, name)
        if len(changed):
            where = PurePath(place(int(changed[0]))).name
            scheme = "BIOES or BILOU" if has_ends(layer) else "IOB1"
            oddities.note(f"{name} tags turned from {scheme} into IOB2", where, times=len(changed))
    sentences = sentences.with_layers(repaired)
    if (ner := sentences.layers.get("ner")) is None:
        return sentences
    begins = np.array([value.startswith("B") for value in ner.values] + [False])[ner.codes]
    starts, with_some = sentences.starts, np.unique(sentences.sentence_of_word[begins]).tolist()
    found = {number: entities_of(ner.decoded(starts[number], starts[number + 1])) for number in with_some}
    return sentences.with_derived("entities", found)


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of words that refers to an entity."""

    span: Span
    entity: str
    """Identifier shared by all mentions of the entity."""
    type: str = ""


MENTIONS = "mentions"
"""Name of the targets that are mentions, each labelled by its entity: those of one label in a document corefer."""


def coreference(mentions: Sequence[Mention]) -> dict[str, tuple[Target, ...]]:
    """Targets ``mentions``, and ``coref``: every pair in a sentence, the earlier first, ``"1"`` if they corefer or "0".

    Mentions inside one another are pairs too, as in Tenney et al. 2019 (section 3).
    """
    entity_of: dict[Span, set[str]] = {}
    for mention in mentions:
        entity_of.setdefault(mention.span, set()).add(mention.entity)
    pairs = tuple(
        Target(one, "1" if entity_of[one] & entity_of[other] else "0", other)
        for one, other in combinations(sorted(entity_of), 2)
    )
    return {"coref": pairs, MENTIONS: tuple(Target(mention.span, mention.entity) for mention in mentions)}


def bracketed(
    cells: Sequence[str],
    pattern: re.Pattern[str],
    error: Callable[[int, str, str], CorpusError],
    *,
    name: Callable[[str, bool], str] | None = None,
) -> list[tuple[Span, str]]:
    """The labelled spans of a column of brackets, each before those inside it.

    Args:
        cells: ``[word]`` its brackets, each of the ``pattern``.
        pattern: a bracket that opens with its label, one that closes, or one that does both.
        error: makes the error for a place, by what is there and what is due.
        name: what a bracket that closes has in common with the one that it closes, by its label and whether it opens;
            without it a bracket closes the last one that is open.
    """
    spans, opened = list[tuple[Span, str]](), list[int]()
    for place, cell in enumerate(cells):
        brackets = pattern.findall(cell)
        if "".join(brackets) != cell:
            raise error(place, cell, "brackets as in (NP* *), (12|(5) or (e1-person … e1)")
        for bracket in brackets:
            label = bracket.strip("()|")
            if opens := "(" in bracket:
                opened.append(len(spans))
                spans.append(((place, place), label))
            if bracket.endswith(")"):
                alike = (at for at in reversed(opened) if not name or name(spans[at][1], True) == name(label, opens))
                if (at := next(alike, None)) is None:
                    raise error(place, cell, "a bracket that opens before it in this sentence")
                opened.remove(at)
                spans[at] = ((spans[at][0][0], place + 1), spans[at][1])
    if opened:
        (place, _), label = spans[opened[-1]]
        raise error(place, label, "a bracket that closes it in this sentence")
    return spans
