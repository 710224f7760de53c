"""Sentences scored: pseudo-log-likelihoods, next sentences, and the surprisal of each word."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from bertology._lazy import pd
from bertology._names import check_name
from bertology.activations.progress import Progress, silent
from bertology.cloze import prompts
from bertology.cloze.asking import Query, Wanted, chosen_layers, from_left, read_places
from bertology.cloze.prompts import AnswerForm, Excluded, Floats, Integers
from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders import Encoder, open_encoder
from bertology.encoders.batching import padded, padded_inputs, pieces_in_batch, plan_batches
from bertology.errors import ClozeError


@dataclass(frozen=True, eq=False)
class SentenceScores:
    """Log-probabilities of sentences by piece, and by layer."""

    sentences: tuple[str, ...]
    layers: tuple[int, ...]
    form: AnswerForm  # part of what a score means; never one_piece
    piece_starts: Integers  # [sentence + 1] where each sentence's pieces begin, and their end; an excluded one has none
    piece_ids: Integers  # [piece] vocabulary numbers, special tokens left out
    pieces: tuple[str, ...]  # [piece] how each is written
    piece_log_probs: Floats  # [layer, piece] natural logarithms
    excluded: tuple[Excluded, ...]  # sentences that cannot be read as they are, with the reason

    def to_pandas(self, by: Literal["sentence", "piece"] = "sentence") -> "pd.DataFrame":
        """A line for each layer and sentence, or each of its pieces.

        Columns are ``sentence`` (its number), ``text``, ``layer``, of pieces ``place`` (from 1) and ``piece``,
        ``log_prob`` in nats (of sentences the sum over pieces, next to their number ``n_pieces``), and ``reason`` where
        a sentence has no score.

        Raises:
            NameNotFoundError: ``by`` is neither.
        """
        frames = []
        for layer, values, totals in zip(self.layers, self.piece_log_probs, self.totals, strict=True):
            if by == "piece":
                columns = self._lines(self.piece_starts) | {"layer": layer, "piece": self.pieces, "log_prob": values}
            else:
                check_name("unit of scores", by, ("sentence", "piece"))
                columns = self._lines(None) | {"layer": layer, "n_pieces": self.n_pieces, "log_prob": totals}
                columns["reason"] = [self._reasons.get(number) for number in range(len(self.sentences))]
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames).sort_values(["sentence", "layer"], kind="stable", ignore_index=True)

    def _lines(self, starts: Integers | None) -> dict[str, Any]:
        """The columns that say which part of which sentence a line is; of whole sentences where there are no starts."""
        if starts is None:
            return {"sentence": np.arange(len(self.sentences)), "text": self.sentences}
        number = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        place = np.arange(len(number)) - starts[number] + 1
        return {"sentence": number, "text": [self.sentences[one] for one in number.tolist()], "place": place}

    @property
    def _reasons(self) -> dict[int, str]:
        return {one.item: one.reason for one in self.excluded}

    @property
    def n_pieces(self) -> Integers:
        """``[sentence]`` number of pieces, special tokens left out."""
        return np.diff(self.piece_starts)

    @property
    def totals(self) -> Floats:
        """``[layer, sentence]`` the pseudo-log-likelihood: the sum over pieces; NaN where a sentence is excluded."""
        sums = np.concatenate([np.zeros((len(self.layers), 1)), np.cumsum(self.piece_log_probs, axis=1)], axis=1)
        totals: Floats = sums[:, self.piece_starts[1:]] - sums[:, self.piece_starts[:-1]]
        totals[:, self.n_pieces == 0] = np.nan
        return totals


class Text(NamedTuple):
    """A text as a model reads it."""

    ids: list[int]  # [piece] vocabulary numbers, special tokens left out; none where there is a reason
    reason: str  # why it has no score; empty if it has one
    words: Sequence[int | None] = ()  # [piece] its word, as the tokenizer splits a text before it cuts pieces
    whole: Sequence[int] = ()  # with special tokens; none where there is a reason


def _texts(encoder: Encoder, texts: Sequence[str], *, n_more: int = 0) -> Iterator[Text]:
    """Texts in pieces, with the reason why one cannot be read as it is; ``n_more`` pieces are to be put into it."""
    # An unknown piece is scored like any other, unless it is also what GPT-2 separates texts by.
    unknown = {encoder.tokenizer.unk_token_id} - {encoder.tokenizer.bos_token_id, encoder.tokenizer.eos_token_id}
    special = frozenset(encoder.tokenizer.all_special_ids) - unknown
    for one in prompts.encode(encoder, texts):
        inside = slice(encoder.n_prefix, len(one.ids) - encoder.n_suffix)
        ids, reason = one.ids[inside], prompts.too_long(encoder, len(one.ids) + n_more)
        if spelt := special.intersection(ids):
            reason = f"it spells a special token, {encoder.tokenizer.convert_ids_to_tokens(min(spelt, key=ids.index))}"
        reason = reason if ids else "the tokenizer maps it to nothing"
        yield Text([], reason) if reason else Text(ids, "", one.word_ids[inside], one.ids)


@Encoder.comes_first
def pseudo_log_likelihood(
    encoder: Encoder,
    sentences: Sequence[str],
    *,
    form: AnswerForm = "original",
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> SentenceScores:
    """The sum over a sentence's pieces of the log-probability of each where it is masked (Salazar et al. 2020, §2).

    Masked copies of all sentences are batched together by length; equal ones near each other, as in minimal pairs, are
    read once.

    Args:
        encoder: a masked language model.
        sentences: natural text.
        form: ``original`` leaves all other pieces in sight; ``within_word_l2r`` masks the later pieces of the same
            word too (Kauf & Ivanova 2023, section 2). Words are what the tokenizer splits a text into before it cuts
            pieces: where it splits at spaces alone (XLM-R), punctuation belongs to the word before it.
            ``appended_masks`` shows the pieces before each one alone, and three masks (Samuel 2024).
        layers: 0 for the embeddings, 1…L for the blocks; the last one when left out.
        progress: counts sentences.

    Returns:
        Log-probabilities by piece and sentence, in nats. Sentences that cannot be read as they are (too long, empty,
        with special tokens in them) are NaN and listed with the reason.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: no sentence, one that is no text, or the form ``one_piece``.
        NameNotFoundError: no such form.
    """
    prompts.check_form(form)
    if form == "one_piece":
        raise ClozeError("sentences are scored as original, within_word_l2r or appended_masks: choose one of them")
    if not sentences:
        raise ClozeError("no sentence: give at least one")
    texts = list(_texts(encoder, sentences, n_more=prompts.more_masks(form)))

    def queries(text: Text) -> Iterator[Query]:
        """The pieces of a sentence, each masked in turn."""
        inside = range(encoder.n_prefix, encoder.n_prefix + len(text.ids))
        return itertools.starmap(Query, prompts.masked_copies(text.whole, inside, text.words, encoder.mask_id, form))

    wanted = Wanted(layers=chosen_layers(encoder, layers))
    progress.start(len(texts), unit="sentences")
    read = read_places(encoder, map(queries, texts), wanted, progress)
    return _scores(encoder, sentences, texts, read.values, layers=wanted.layers, form=form)


def shared_totals(scores: SentenceScores) -> Floats:
    """``[layer, sentence]`` sums over the pieces that each two sentences in a row share (Nangia et al. 2020, §4).

    Shared are the pieces of the longest runs that both have, as ``difflib`` finds them; NaN where one is excluded.
    """
    totals = scores.totals
    for first in range(0, len(scores.sentences), 2):
        begin, middle, end = scores.piece_starts[first : first + 3].tolist()
        one, other = scores.piece_ids[begin:middle].tolist(), scores.piece_ids[middle:end].tolist()
        blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
        for side, start in enumerate((begin, middle)):
            shared = [start + block[side] + place for block in blocks for place in range(block.size)]
            totals[:, first + side] = scores.piece_log_probs[:, shared].sum(1) if one and other else np.nan
    return totals


@Encoder.comes_first
def left_to_right(encoder: Encoder, sentences: Sequence[str]) -> SentenceScores:
    """The log-probability of each piece of a sentence given those before it, by a left-to-right model's last layer.

    The first piece is predicted from the token for the beginning of a text, as in :func:`surprisal`.

    Returns:
        Log-probabilities by piece and sentence, in nats; sentences that cannot be read as they are are NaN and listed
        with the reason.

    Raises:
        ModelError: the model is no left-to-right one, or has no token for the beginning of a text.
    """
    reader, start = from_left(encoder), prompts.text_start(encoder)
    texts = list(_texts(reader, sentences, n_more=len(start) - encoder.n_prefix))
    return _causal(reader, sentences, texts, start, silent)


@Encoder.comes_first
def continuations(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    *,
    form: AnswerForm = "original",
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> SentenceScores:
    """The score of a continuation given its context, which is not scored: ``log P(continuation | context)``.

    A space stands between the two. By a left-to-right model it is the sum of :func:`left_to_right` over the pieces of
    the continuation, by a masked one that of :func:`pseudo_log_likelihood`, whose ``form`` and ``layers`` it has.

    >>> continuations(encoder, [("The keys to the cabinet", "are here."), ("The keys", "is here.")])  # doctest: +SKIP

    Args:
        encoder: a masked or left-to-right language model.
        pairs: of each a context and a continuation.
        form: of a masked model.
        layers: of a masked model.
        progress: counts texts.

    Returns:
        Log-probabilities by piece of the continuations, in nats; ``sentences`` are whole texts. Those that cannot be
        read as they are are NaN and listed with the reason.

    Raises:
        ModelError: as by these two.
        ClozeError: no pair, an empty context or continuation, or a setting that a left-to-right model does not have.
    """
    if not pairs or not all(context.strip() and more.strip() for context, more in pairs):
        raise ClozeError("no pair, or an empty context or continuation: give texts for both")
    texts = [f"{context.rstrip()} {more.strip()}" for context, more in pairs]
    if encoder.causal_head is None:
        whole = pseudo_log_likelihood(encoder, texts, form=form, layers=layers, progress=progress)
    elif form != "original" or layers is not None:
        raise ClozeError("a left-to-right model has its last layer and no form: leave form and layers out")
    else:
        whole = left_to_right(encoder, texts)
    of_text, kept = list[Text](), list[int]()
    for number, (encoding, (context, _)) in enumerate(zip(prompts.encode(encoder, texts), pairs, strict=True)):
        start, stop = whole.piece_starts[number : number + 2].tolist()
        begins, length = encoding.offsets[encoder.n_prefix :][: stop - start], len(context.rstrip())
        own, reason = [place for place, (_, last) in enumerate(begins) if last > length], whole._reasons.get(number, "")
        if own and begins[own[0]][0] < length:
            reason, own = "a piece of its context runs on into it", []
        kept += [start + place for place in own]
        of_text.append(Text(whole.piece_ids[start:stop][own].tolist(), reason))
    return _scores(encoder, texts, of_text, whole.piece_log_probs[:, kept], layers=whole.layers, form=whole.form)


@Encoder.comes_first
def originality(
    encoder: Encoder, sentences: Sequence[str], *, layers: Sequence[int] | None = None, progress: Progress = silent
) -> SentenceScores:
    """The log-probability that each piece of a sentence is the original one, by an ELECTRA discriminator (Clark et al.
    2020, section 2): all pieces in one pass, nothing masked.

    Args:
        encoder: a discriminator.
        sentences: natural text.
        layers: whose states the head is applied to; the last one, for which it was trained, when left out.
        progress: counts sentences.

    Returns:
        Log-probabilities by piece and sentence, in nats; sentences that cannot be read as they are are NaN and listed
        with the reason.

    Raises:
        ModelError: the model has no such head, or not such a layer.
    """
    wanted, texts = chosen_layers(encoder, layers), list(_texts(encoder, sentences))
    inputs, values = [text.whole for text in texts], [np.empty((len(wanted), len(text.ids))) for text in texts]
    progress.start(len(inputs), unit="sentences")
    for here, place, of_batch in _by_head(encoder, encoder.replaced_token_head, inputs, wanted, progress):
        for number, of_text in zip(here.tolist(), of_batch, strict=True):
            values[number][place] = of_text[encoder.n_prefix :][: len(texts[number].ids)]
    log_probs = np.concatenate([np.zeros((len(wanted), 0)), *values], axis=1)
    return _scores(encoder, sentences, texts, log_probs, layers=wanted, form="original")


def _scores(
    encoder: Encoder, sentences: Sequence[str], texts: Sequence[Text], log_probs: Floats, **more: Any
) -> SentenceScores:
    """Scores from the sentences as they were read, and ``[layer, piece]`` values."""
    ids = [entry for text in texts for entry in text.ids]
    return SentenceScores(
        sentences=tuple(sentences),
        piece_starts=np.cumsum([0, *(len(text.ids) for text in texts)]),
        piece_ids=np.array(ids, dtype=np.int64),
        pieces=tuple(prompts.spell_pieces(encoder, ids)),
        piece_log_probs=log_probs,
        excluded=prompts.excluded([text.reason for text in texts]),
        **more,
    )


def _by_head(
    encoder: Encoder,
    head: Any,
    inputs: Sequence[Sequence[int]],
    layers: tuple[int, ...],
    progress: Progress,
    types: Sequence[Sequence[int]] | None = None,
) -> Iterator[tuple[Integers, int, Floats]]:
    """Log-probabilities of a head that reads all pieces of an input, in batches of about the same length: numbers of
    inputs, the place of the layer, and ``[input, …]`` values.

    Empty inputs are left out; ``types`` are the token types of each input.
    """
    kept = np.flatnonzero([len(ids) > 0 for ids in inputs])
    progress.advance(len(inputs) - len(kept))
    lengths = np.array([len(inputs[number]) for number in kept.tolist()], dtype=np.int64)
    for batch in plan_batches(lengths, pieces=pieces_in_batch(encoder.device)) if len(kept) else ():
        here, segments = kept[batch.windows], None
        ids, mask = padded_inputs([inputs[number] for number in here.tolist()], batch, encoder.pad_id)
        if types is not None:
            segments = torch.from_numpy(padded([types[number] for number in here.tolist()], batch.length, 0))
        states = encoder.hidden_states(ids, mask, layers=layers, token_type_ids=segments)
        for place, layer in enumerate(layers):
            yield here, place, head.log_probs(states[layer], layer=layer).double().cpu().numpy()
        progress.advance(len(here))
    progress.finish()


@dataclass(frozen=True, eq=False)
class NextSentenceScores:
    """The probability that the second sentence of each pair follows the first, by layer."""

    layers: tuple[int, ...]
    log_probs: Floats
    """``[layer, pair, 2]`` natural logarithms that the second follows, and that it does not; NaN where a pair is
    excluded."""
    excluded: tuple[Excluded, ...]


@Encoder.comes_first
def next_sentence(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    *,
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> NextSentenceScores:
    """Whether the second sentence of each pair follows the first, by the model's own head (Devlin et al. 2019).

    Args:
        encoder: a model that was trained for next-sentence prediction.
        pairs: natural text.
        layers: whose first piece the head is applied to; the last one, for which it was trained, when left out.
        progress: counts pairs.

    Raises:
        ModelError: the model has no such head, or not such a layer.
        ClozeError: no pair.
    """
    if not pairs:
        raise ClozeError("no pair of sentences: give at least one")
    wanted, encodings = chosen_layers(encoder, layers), list(prompts.encode(encoder, pairs))
    reasons = [prompts.too_long(encoder, len(encoding.ids)) for encoding in encodings]
    inputs = [[] if reason else encoding.ids for encoding, reason in zip(encodings, reasons, strict=True)]
    log_probs = np.full((len(wanted), len(pairs), 2), np.nan)
    progress.start(len(pairs), unit="pairs")
    types = [encoding.type_ids for encoding in encodings]
    for here, place, of_batch in _by_head(encoder, encoder.next_sentence_head, inputs, wanted, progress, types):
        log_probs[place, here] = of_batch
    return NextSentenceScores(wanted, log_probs, prompts.excluded(reasons))


First = Literal["bos", "exclude"]
"""Context of the first piece of a text for a left-to-right model: the model's token for the beginning of a text, or
nothing, so that it has no surprisal."""
_UNSCORED = "nothing comes before it"
_NOT_ITS_OWN = "no piece begins in it"


@dataclass(frozen=True, eq=False)
class Surprisals(SentenceScores):
    """Surprisal of each word of some texts, −log of its probability; its one layer is the last."""

    model: str
    kind: Literal["causal", "pseudo"]
    """``causal``: given what comes before; ``pseudo``: given all other pieces, each masked in turn."""
    word_starts: Integers  # [text + 1] where the words of each text begin, and their end
    words: tuple[str, ...]
    piece_word: Integers  # [piece] the word that each piece counts for

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts as they were read."""
        return self.sentences

    @property
    def piece_nats(self) -> Floats:
        """``[piece]`` surprisal in nats; NaN where it is not known."""
        return np.asarray(-self.piece_log_probs[-1])

    @property
    def nats(self) -> Floats:
        """``[word]`` surprisal in nats, the sum over the word's pieces; NaN where it is not known."""
        n_pieces = np.bincount(self.piece_word, minlength=len(self.words))
        nats = np.bincount(self.piece_word, weights=self.piece_nats, minlength=len(self.words)).astype(np.float64)
        return np.where(n_pieces == 0, np.nan, nats)

    @property
    def bits(self) -> Floats:
        """``[word]`` surprisal in bits."""
        return np.asarray(self.nats / np.log(2))

    def to_pandas(self, by: Literal["word", "piece", "text"] = "word") -> "pd.DataFrame":  # type: ignore[override]
        """A line for each word, piece or text.

        Columns are ``sentence`` (number of the text), ``text``, of words ``place`` (from 1), ``word`` and ``n_pieces``,
        of pieces ``place``, ``piece`` and the ``word`` that it counts for, of texts ``n_words`` and ``n_pieces``;
        ``surprisal_bits`` and ``surprisal_nats``, of texts the sum over what has one; and ``reason`` where there is
        none.

        Raises:
            NameNotFoundError: ``by`` is none of them.
        """
        check_name("unit of surprisal", by, ("word", "piece", "text"))
        starts = {"word": self.word_starts, "piece": self.piece_starts, "text": None}[by]
        columns = self._lines(starts)
        plain: list[str | None] = [None if by == "text" else _UNSCORED] * len(columns["sentence"])
        if by == "text":
            parts = [part[~np.isnan(part)] for part in np.split(self.piece_nats, self.piece_starts[1:-1])]
            nats = np.array([part.sum() if len(part) else np.nan for part in parts])
            columns |= {"n_words": np.diff(self.word_starts), "n_pieces": self.n_pieces}
        elif by == "word":
            nats, n_pieces = self.nats, np.bincount(self.piece_word, minlength=len(self.words))
            columns |= {"word": self.words, "n_pieces": n_pieces}
            plain = [_UNSCORED if n else _NOT_ITS_OWN for n in n_pieces.tolist()]
        else:
            nats = self.piece_nats
            columns |= {"piece": self.pieces, "word": [self.words[word] for word in self.piece_word.tolist()]}
        unknown = zip(columns["sentence"].tolist(), plain, np.isnan(nats).tolist(), strict=True)
        reason = [self._reasons.get(number, why if is_unknown else None) for number, why, is_unknown in unknown]
        return pd.DataFrame({**columns, "surprisal_bits": nats / np.log(2), "surprisal_nats": nats, "reason": reason})


def surprisal(
    model: Any, texts: Texts, *, first: First = "bos", form: AnswerForm = "original", progress: Progress = silent
) -> Surprisals:
    """Surprisal of each word of some texts: −log of its probability (Hale 2001; Levy 2008).

    Of a left-to-right model, such as GPT-2, given the words before it, as minicons gives it (Misra 2022). Of a masked
    one given all other words: its share of the pseudo-log-likelihood (Salazar et al. 2020, section 2). A word's
    surprisal is the sum over its pieces; a piece of two words counts for the first, one of white space alone for the
    word after it, so that the words of a text sum to the whole text.

    >>> surprisal("gpt2", ["The keys to the cabinet is on the table."]).to_pandas()  # doctest: +SKIP

    Args:
        model: an :class:`~bertology.Encoder`, or what :func:`~bertology.load_encoder` loads or makes one of: a name, a
            folder, or a transformers model and its tokenizer ``(model, tokenizer)``.
        texts: a text or several, each a string or a list of words; or sentences of a corpus. Words of texts are found
            by :func:`bertology.corpora.as_sentences`, which knows rules of languages.
        first: of a left-to-right model, what the first piece is predicted from: ``bos``, its token for the beginning
            of a text (``<|endoftext|>`` of GPT-2, after which each text of its training began); or ``exclude``:
            nothing, so that the first word has no surprisal (the default of minicons).
        form: of a masked model, as in :func:`pseudo_log_likelihood`; ``within_word_l2r`` masks the later pieces of the
            same word too.
        progress: counts texts.

    Returns:
        Surprisal by word, piece and text, in nats and bits. Texts that cannot be read as they are (too long, empty,
        with special tokens in them) are NaN and listed with the reason.

    Raises:
        ModelError: a model that is neither, or that has no token for the beginning of a text.
        ClozeError: no text.
        NameNotFoundError: no such way to treat the first piece, no such form.
    """
    check_name("way to treat the first piece", first, ("bos", "exclude"))
    sentences = as_sentences(texts)
    if not len(sentences):
        raise ClozeError("no text: give at least one")
    encoder = open_encoder(model)
    start = prompts.text_start(encoder) if encoder.causal_head is not None and first == "bos" else []
    n_more = max(prompts.more_masks(form), len(start) - encoder.n_prefix)
    read, words_of = read_sentences(encoder, sentences, n_more=n_more)
    written = [sentences.text(number) for number in range(len(sentences))]
    if encoder.causal_head is None:
        scores = pseudo_log_likelihood(encoder, written, form=form, progress=progress)
    else:
        scores = _causal(from_left(encoder), written, read, start, progress)
    return Surprisals(
        **vars(scores),
        model=encoder.name,
        kind="pseudo" if encoder.causal_head is None else "causal",
        word_starts=np.asarray(sentences.starts, dtype=np.int64),
        words=tuple(sentences.word(word) for word in range(int(sentences.starts[-1]))),
        piece_word=np.concatenate([np.zeros(0, dtype=np.int64), *words_of]),
    )


def read_sentences(encoder: Encoder, sentences: Sentences, *, n_more: int = 0) -> tuple[list[Text], list[Integers]]:
    """Sentences in pieces, as of :func:`_texts`, and the word of each piece, numbered through all of them."""
    texts = list(_texts(encoder, [sentences.text(number) for number in range(len(sentences))], n_more=n_more))
    cut, words_of = encoder.tokenize(sentences, on_long="window"), list[Integers]()
    for text, (start, stop) in zip(texts, itertools.pairwise(sentences.starts.tolist()), strict=True):
        firsts, lasts = (
            ends[start:stop].astype(np.int64) - encoder.n_prefix for ends in (cut.word_first, cut.word_last)
        )
        owner = np.zeros(len(text.ids), dtype=np.int64)
        for word in np.flatnonzero(lasts > firsts)[::-1]:  # of words that share a piece the first
            owner[firsts[word] : lasts[word]] = word
        words_of.append(owner + start)
    return texts, words_of


def _causal(
    reader: Encoder, sentences: Sequence[str], texts: Sequence[Text], start: Sequence[int], progress: Progress
) -> SentenceScores:
    """Scores of sentences, each piece given those before it and ``start``; without a start the first has none."""

    def queries(text: Text) -> Iterator[Query]:
        whole = [*start, *text.ids]
        for place in range(len(start), len(whole)):
            yield Query(whole, place - 1, whole[place]) if place else Query(whole, place)

    wanted = Wanted(layers=(reader.n_layers,))
    progress.start(len(texts), unit="texts")
    read = read_places(reader, map(queries, texts), wanted, progress)
    return _scores(reader, sentences, texts, read.values, layers=wanted.layers, form="original")
