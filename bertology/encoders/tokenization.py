"""Tokenizers: how they cut a text into subwords step by step, and how they cut a corpus."""

import csv
import heapq
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertology._files import read_text
from bertology._page import full_page
from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders.alignment import Ids, Integers, PieceReader, numbers_in
from bertology.errors import CorpusError, ModelError, quoted
from bertology.measures import bootstrap_ratio
from bertology.measures.intervals import ratio_intervals

Floats = NDArray[np.float64]
ALPHA = 2.5
"""The order of Rényi's entropy that goes best with translation quality (Zouhar et al. 2023)."""
_UNBOUNDED = 1 << 30
_MARKS = "▁Ġ"
_CONTINUED = "##"


class TokenizerScore(NamedTuple):
    """One measure of a tokenizer on a text, with its 95 % interval over sentences."""

    measure: str
    value: float
    ci_low: float
    ci_high: float


def tokenizer_scores(reader: PieceReader, texts: Texts, *, n_resamples: int = 2000) -> tuple[TokenizerScore, ...]:
    """Measures of a tokenizer on a text whose words are known.

    ``fertility`` is pieces for each word, ``continued_share`` the share of words of two pieces or more (Rust et al.
    2021), ``unknown_share`` that of words with an unknown piece; ``characters_per_piece`` and
    ``single_character_share`` are about pieces of words; ``renyi_efficiency`` is H_α of the pieces' frequencies over
    the logarithm of the size of the vocabulary, α = 2.5 (Zouhar et al. 2023); ``vocabulary_used`` is the share of the
    vocabulary that occurs, which grows with the text and has no interval. A piece that several words share, as those of
    *don't* and French *du* (*de* and *le*) may, is counted once among pieces. Intervals are by the bootstrap over
    sentences. A CorpusError is raised where the text has no word that the tokenizer can read.
    """
    sentences = as_sentences(texts)
    all_ids, ranges = _read(reader, sentences)
    read = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
    if not len(read):
        raise CorpusError("no word of the text can be tokenised: give text with words")
    word, places = numbers_in(*ranges[read].T)
    has_unknown = np.bincount(word, all_ids[places] == reader.unknown_id, minlength=len(read)) > 0
    places, firsts = np.unique(places, return_index=True)
    ids = all_ids[places]
    vocabulary = reader.backend.get_vocab_size(with_added_tokens=True)
    spelled = (reader.backend.id_to_token(number) or "" for number in range(vocabulary))
    lone = [len(one.removeprefix(_CONTINUED).lstrip(_MARKS).removesuffix("</w>")) == 1 for one in spelled]
    _, cluster = np.unique(sentences.sentence_of_word[read], return_inverse=True)
    of_piece, n_clusters = cluster[word[firsts]], int(cluster[-1]) + 1

    def by_sentence(values: Any, clusters: Integers) -> Floats:
        return np.bincount(clusters, np.asarray(values, np.float64), n_clusters).astype(np.float64)

    words, all_pieces = by_sentence(np.ones(len(read)), cluster), by_sentence(np.ones(len(ids)), of_piece)
    # The characters of a word that no word before it has.
    begin, end = sentences.char_spans.T + sentences.sentence_of_word.astype(np.int64) * _UNBOUNDED
    lengths = np.maximum(end - np.maximum(begin, np.append(0, np.maximum.accumulate(end)[:-1])), 0)
    # Rényi efficiency as a mean over sentences: itself, and to first order, by the derivative of Σ p^α by the weight
    # of each piece of the text, what each sentence changes of it.
    _, codes = np.unique(ids, return_inverse=True)
    shares = np.bincount(codes) / len(ids)
    total = (shares**ALPHA).sum()
    of_pieces = ALPHA * (shares[codes] ** (ALPHA - 1) - total) / len(ids)
    changes = by_sentence(of_pieces, of_piece) / (total * (1 - ALPHA) * np.log(vocabulary))
    efficiency = np.log(total) / (1 - ALPHA) / np.log(vocabulary) + n_clusters * (changes - changes.mean())
    ratios = {
        "fertility": (all_pieces, words),
        "continued_share": (by_sentence(ranges[read, 1] - ranges[read, 0] > 1, cluster), words),
        "unknown_share": (by_sentence(has_unknown, cluster), words),
        "characters_per_piece": (by_sentence(lengths[read], cluster), all_pieces),
        "single_character_share": (by_sentence(np.array(lone)[ids], of_piece), all_pieces),
        "renyi_efficiency": (efficiency, np.ones(n_clusters)),
    }
    over, under = (np.stack(part) for part in zip(*ratios.values(), strict=True))
    are_shares = [name.endswith("_share") for name in ratios]
    found = ratio_intervals(over, under, are_shares=are_shares, n_resamples=n_resamples)
    columns = zip(ratios, *(part.tolist() for part in (found.values, found.ci_low, found.ci_high)), strict=True)
    scores = [TokenizerScore(*column) for column in columns]
    return (*scores, TokenizerScore("vocabulary_used", len(shares) / vocabulary, float("nan"), float("nan")))


def piece_ranges(reader: PieceReader, texts: Texts) -> Integers:
    """``[word, 2]`` the first piece of each word of some texts and the end of its pieces, counted through all texts:
    equal where a word cannot be read, overlapping where words share pieces."""
    return _read(reader, as_sentences(texts))[1]


def tokenizer_parity(
    reader: PieceReader, texts: Texts, reference: Texts, *, n_resamples: int = 2000
) -> TokenizerScore | None:
    """Pieces of a text over pieces of its translation, ``reference`` (the *premium* of Petrov et al. 2023).

    Sentences are translations of one another if they have the same id, as those of parallel treebanks; others are left
    out. The parity is 1 where the same is said in as many pieces, with an interval by the bootstrap over pairs; None
    where no sentence of one text has an id of the other.
    """
    lengths = []
    for one in (as_sentences(texts), as_sentences(reference)):
        word, places = numbers_in(*piece_ranges(reader, one).T)
        _, firsts = np.unique(places, return_index=True)
        of_sentence = np.bincount(one.sentence_of_word[word[firsts]], minlength=len(one))
        lengths.append({one.id(number): n for number, n in enumerate(of_sentence.tolist()) if one.id(number) and n})
    shared = [name for name in lengths[0] if name in lengths[1]]
    if not shared:
        return None
    over, under = (np.array([[of_text[name] for name in shared]]) for of_text in lengths)
    found = bootstrap_ratio(over, under, metric="parity", n_resamples=n_resamples)
    return TokenizerScore("parity", float(found.values[0]), float(found.ci_low[0]), float(found.ci_high[0]))


def _read(reader: PieceReader, sentences: Sentences) -> tuple[Ids, Integers]:
    """``[piece]`` numbers in the vocabulary, and :func:`piece_ranges`: each sentence is read whole, however long."""
    pieces = replace(reader, max_pieces=_UNBOUNDED).tokenize(sentences)
    ranges = np.stack([pieces.word_first, pieces.word_last], axis=1).astype(np.int64)
    return pieces.ids, ranges + pieces.window_starts[pieces.word_window][:, None]


class MorphScores(NamedTuple):
    """Agreement of the boundaries of pieces with those of morphs."""

    precision: float  # share of boundaries between pieces that are boundaries of morphs
    recall: float  # share of boundaries of morphs that are boundaries between pieces
    f1: float
    morph_score: float
    """Share of words that are cut at all which are cut at the boundary of their morphs (Arnett & Bergen 2024)."""
    n_words: int
    n_whole: int  # words that are one piece


def morph_scores(reader: PieceReader, words: Iterable[Sequence[str]]) -> MorphScores:
    """Boundaries of pieces against gold morphs, which make up each word: ``("light", "ed")``.

    Words of one piece have no boundary: they count for recall, and are left out of ``morph_score`` as by its authors. A
    CorpusError is raised where there is no word of two morphs or more.
    """
    counts = np.zeros(6)  # words, words of one piece, boundaries of morphs and of pieces, shared ones, words with one
    for morphs in words:
        parts = [part for part in morphs if part]
        if len(parts) < 2:
            continue
        gold = set(np.cumsum([len(part) for part in parts[:-1]]).tolist())
        word = "".join(parts)
        encoded = reader.backend.encode(word, add_special_tokens=False)
        # A boundary is where one piece ends and the next begins; marks of words stand for no character.
        cut = {start for start, end in encoded.offsets if 0 < start < len(word) and end > start}
        counts += 1, not cut, len(gold), len(cut), len(gold & cut), bool(gold & cut)
    n_words, n_whole, n_gold, n_cut, shared, hits = counts.tolist()
    if not n_words:
        raise CorpusError("no word of two morphs or more: give words with their morphs")
    precision = shared / n_cut if n_cut else float("nan")
    score = hits / (n_words - n_whole) if n_words > n_whole else float("nan")
    f1 = 2 * shared / (n_gold + n_cut)
    return MorphScores(precision, shared / n_gold, f1, score, int(n_words), int(n_whole))


def read_morphs(path: Path) -> Iterator[tuple[str, ...]]:
    """The words of a CSV or TSV file with their morphs, as those of MorphScore.

    A header names the columns: ``pt1`` and ``rest``, or else every column after one called ``word`` or ``full_word``; a
    CorpusError is raised where there are none.
    """
    lines = read_text(path, error=CorpusError).splitlines()
    rows = csv.reader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    header = [name.strip().lower() for name in next(rows, [])]
    after = [place + 1 for place, name in enumerate(header) if name in ("word", "full_word")]
    columns = [place for place, name in enumerate(header) if name in ("pt1", "rest")]
    if len(columns) != 2 and not after:
        raise CorpusError(f"{path}:1: {quoted(','.join(header))}, expected a header with pt1 and rest, or with word")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise CorpusError(f"{path}:{number}: {len(row)} fields, expected {len(header)} as in the header")
        kept = [row[place] for place in columns] if len(columns) == 2 else row[after[0] :]
        yield tuple(part.strip() for part in kept)


_UNKNOWN_PENALTY = 10.0
"""Distance of the logarithm of an unknown character's probability below that of the least probable subword: the
constant of SentencePiece."""


class TokenStep(NamedTuple):
    """One step: the pieces after it, and what was done."""

    pieces: tuple[str, ...]
    reason: str


class WordTrace(NamedTuple):
    """A stretch of text that the tokenizer cuts by itself, mostly a word, normalised and marked, and how it cuts it."""

    text: str
    steps: tuple[TokenStep, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces in the end."""
        return self.steps[-1].pieces


class TokenTrace(NamedTuple):
    """The pieces of a text and how they were arrived at."""

    kind: str  # ``WordPiece``, ``BPE`` or ``Unigram``
    words: tuple[WordTrace, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces of the text, without special tokens."""
        return tuple(itertools.chain.from_iterable(word.pieces for word in self.words))


def tokens_page(text: str, traces: Mapping[str, TokenTrace]) -> str:
    """A page with the steps of one tokenizer or several, by name; it makes no request."""
    here = "encoders/assets/tokenize"
    return full_page(
        f"{here}.html", title=text, styles=[f"{here}.css"], scripts=[], data=None, text=text, traces=traces
    )


def trace_tokens(tokenizer: Any, text: str, *, n_best: int = 3) -> TokenTrace:
    """The steps by which a tokenizer cuts a text; special tokens inside it are cut like any text.

    WordPiece takes the longest piece of its vocabulary that the rest of a word begins with, again and again; if none
    fits, the whole word is unknown (Devlin et al. 2019). BPE begins with characters or bytes and merges the pair that
    was merged first in training (Sennrich et al. 2016). Unigram takes the most probable of all ways to cut (Kudo 2018),
    and the ``n_best`` are shown. The tokenizer is one of transformers or a ``tokenizers.Tokenizer``; a ModelError is
    raised for one that has no fast implementation, or is of another kind.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        raise ModelError(f"{type(tokenizer).__name__} has no fast implementation, whose rules could be followed")
    model = json.loads(backend.to_str())["model"]
    kind: str = model["type"]
    steps: Callable[[str], Iterator[TokenStep]]
    if kind == "WordPiece":
        steps = partial(_word_piece, model)
    elif kind == "BPE":
        pairs = (tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"])
        steps = partial(_bpe, model, {pair: number for number, pair in enumerate(pairs, 1)})
    elif kind == "Unigram":
        scores = dict(model["vocab"])
        steps = partial(_unigram, model, scores, max(map(len, scores)), min(scores.values()) - _UNKNOWN_PENALTY, n_best)
    else:
        raise ModelError(f"a tokenizer of kind {kind} cannot be followed: WordPiece, BPE, Unigram can")
    normalised = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    cut = backend.pre_tokenizer
    parts = [normalised] if cut is None else [part for part, _ in cut.pre_tokenize_str(normalised)]
    return TokenTrace(kind, tuple(WordTrace(part, tuple(steps(part))) for part in parts if part))


def _word_piece(model: Mapping[str, Any], word: str) -> Iterator[TokenStep]:
    unknown, most = (model["unk_token"],), model["max_input_chars_per_word"]
    found: list[str] = []
    rest, n = word, len(word)
    yield TokenStep((word,), "the word")
    while rest and n <= most:
        mark = model["continuing_subword_prefix"] if found else ""
        end = next((end for end in range(len(rest), 0, -1) if mark + rest[:end] in model["vocab"]), 0)
        if not end:
            yield TokenStep(unknown, f"no piece begins {quoted(mark + rest)}: the whole word is unknown")
            return
        found.append(mark + rest[:end])
        rest = rest[end:]
        left = [model["continuing_subword_prefix"] + rest] if rest else []
        yield TokenStep((*found, *left), f"{found[-1]} is the longest piece that the rest begins with")
    if n > most:
        yield TokenStep(unknown, f"longer than {most} characters: unknown")


def _bpe(model: Mapping[str, Any], rank: Mapping[tuple[str, ...], int], word: str) -> Iterator[TokenStep]:
    if model.get("ignore_merges") and word in model["vocab"]:
        yield TokenStep((word,), "the word is in the vocabulary")
        return
    prefix = model.get("continuing_subword_prefix") or ""
    letters = [letter if place == 0 else prefix + letter for place, letter in enumerate(word)]
    letters[-1] += model.get("end_of_word_suffix") or ""
    unknown = [model["unk_token"]] if model.get("unk_token") else []
    pieces: list[str] = []
    for letter in letters:
        pieces += [letter] if letter in model["vocab"] else _as_bytes(letter, model, model["vocab"]) or unknown
    yield TokenStep(tuple(pieces), "characters" if len("".join(pieces)) == len(word) else "characters and bytes")
    while found := [(rank[pair], place) for place, pair in enumerate(itertools.pairwise(pieces)) if pair in rank]:
        number, place = min(found)
        left, right = pieces[place : place + 2]
        pieces[place : place + 2] = [left + right.removeprefix(prefix)]
        yield TokenStep(tuple(pieces), f"{left} + {right}: merge {number:,} of {len(rank):,}")


def _as_bytes(text: str, model: Mapping[str, Any], vocabulary: Collection[str]) -> list[str]:
    """The pieces of the bytes of an unknown text; none where the vocabulary does not have them."""
    as_bytes = [f"<0x{byte:02X}>" for byte in text.encode()]
    return as_bytes if model.get("byte_fallback") and all(piece in vocabulary for piece in as_bytes) else []


def _unigram(
    model: Mapping[str, Any], scores: Mapping[str, float], longest: int, of_unknown: float, n_best: int, word: str
) -> Iterator[TokenStep]:
    """The best ways to cut a word, best last."""
    unknown = model["vocab"][model["unk_id"]][0] if model.get("unk_id") is not None else None
    ways: list[list[tuple[float, tuple[str, ...]]]] = [[(0.0, ())]]  # to each place of the word
    for end in range(1, len(word) + 1):
        found: list[tuple[float, tuple[str, ...]]] = []
        for start in range(max(0, end - longest), end):
            piece = word[start:end]
            is_known = piece in scores and piece != unknown
            if is_known or end - start == 1:
                score = scores[piece] if is_known else of_unknown
                found += [(before + score, (*pieces, piece)) for before, pieces in ways[start]]
        ways.append(heapq.nlargest(n_best, found, key=lambda way: way[0]))
    best = ways[-1]
    for number, (score, pieces) in reversed(list(enumerate(best, 1))):
        shown: list[str] = []
        for is_known, run in itertools.groupby(pieces, key=scores.__contains__):
            # Unknown characters are given as bytes, or a run of them as one piece.
            parts = list(run)
            shown += parts if is_known else _as_bytes("".join(parts), model, scores) or ["".join(parts)]
        margin = "" if number == 1 else f", {best[0][0] - score:.2f} below the best"
        what = "the most probable way to cut" if number == 1 else f"number {number}"
        yield TokenStep(tuple(shown), f"{what}: log probability {score:.2f}{margin}")
