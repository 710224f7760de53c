"""Corpora made of others (pairs taken apart, pseudowords, sentences joined, order against structure) or by rule."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Final

import numpy as np

from bertology._files import digest
from bertology._names import by_key
from bertology.corpora._corpus import SENSE, TEXTS, Corpus
from bertology.corpora._files import Oddities
from bertology.corpora._sentences import Sentence, Sentences, Target, as_one, part_of
from bertology.corpora._words import MENTIONS
from bertology.errors import CorpusError, quoted

MAIN_AUXILIARY, SUBJECT_NOUN = "main_auxiliary", "subject_noun"
"""Names of the targets over auxiliaries and nouns, with the label ``yes`` for the main or the subject one, or ``no``.
"""


def word_order(corpus: Corpus) -> Corpus:
    """A treebank divided by whether linear order and structure agree (``word_order:CORPUS``).

    Every auxiliary (``AUX``) of a sentence is a target ``main_auxiliary``, with the label ``yes`` for the one that
    belongs to the root, of several the first, and ``no`` for others; every noun (``NOUN``) a target ``subject_noun``,
    ``yes`` for the root's subject. Where there is no such word, there are no targets. Sentences of train and dev in
    which the first auxiliary is not the main one, or the first noun not the subject, are moved to test, where
    they alternate with its own: nothing in the rest shows that order and structure may part (Lin, Tan & Frank 2019).

    Raises:
        CorpusError: no sentence has a tree with parts of speech, or there is no train or test.
    """
    name = changed_name("word_order", corpus)
    marked = {name: list(map(_marked, text)) for name, text in corpus.splits.items()}
    if not any(sentence.targets.keys() & _ASKED.keys() for some in marked.values() for sentence in some):
        remedy = "give a treebank with upos, heads and deprel"
        raise CorpusError(f"{name}: no sentence has an auxiliary or a subject noun; {remedy}")
    moved: list[Sentence] = []
    for split in ("train", "dev"):
        kept: list[Sentence] = []
        for sentence in marked.get(split, ()):
            # Order and structure part where the first word of a kind is not the one.
            parts = any(sentence.targets[name][0].label == "no" for name in _ASKED if name in sentence.targets)
            (moved if parts else kept).append(sentence)
        marked |= {split: kept} if split in marked else {}
    marked["test"] = list(alternating(moved, marked["test"]))
    return replace(corpus, name=name, splits={split: Sentences(some) for split, some in marked.items()})


def changed_name(change: str, corpus: Corpus, splits: Sequence[str] = ("train", "test")) -> str:
    """The name of a changed corpus, which must have some splits."""
    for split in splits:
        if split not in corpus:
            raise CorpusError(f"{change}:{corpus.name}: no split {split}; give a corpus with train and test")
    return f"{change}:{corpus.name}"


def alternating(*some: Iterable[Sentence]) -> Iterator[Sentence]:
    """The first of each, the second of each, and so on, until the longest ends."""
    return (one for one in chain.from_iterable(zip_longest(*some)) if one is not None)


_ASKED: Final = {MAIN_AUXILIARY: ("AUX", ("aux", "cop"), True), SUBJECT_NOUN: ("NOUN", ("nsubj",), False)}
"""By name of targets the part of speech, and of the word with the label ``yes`` the relations to the root and whether
it may be the root itself."""


def _marked(sentence: Sentence) -> Sentence:
    tags, relations = sentence.layers.get("upos"), sentence.layers.get("deprel")
    if (heads := sentence.heads) is None or tags is None or relations is None:
        return sentence
    targets = dict(sentence.targets)
    for name, (tag, asked, may_be_root) in _ASKED.items():
        places = [place for place, one in enumerate(tags) if one == tag]
        for place in places:
            is_below = heads[place] > 0 and heads[heads[place] - 1] == 0
            if (is_below and (relations[place] or "").partition(":")[0] in asked) or (may_be_root and not heads[place]):
                targets[name] = tuple(Target((at, at + 1), "yes" if at == place else "no") for at in places)
                break
    return replace(sentence, targets=targets)


SENTENCE_ORDER = "sentence_order"
"""Name of the targets over two neighbouring sentences, with the label ``as written`` or ``exchanged``."""


def sentence_order(corpus: Corpus, *, seed: int = 0) -> Corpus:
    """Neighbouring sentences of a document as one text, half of them exchanged (``sentence_order:CORPUS``).

    The first two sentences of a document are a pair, its next two, and so on. Which pairs are exchanged is drawn at
    random for each split. The targets :data:`SENTENCE_ORDER` have a sentence in each span; other annotation of spans,
    and trees, are left out. After Chen et al. (2019), *Evaluation Benchmarks and Learning Criteria for Discourse-Aware
    Sentence Representations*.

    Raises:
        CorpusError: no split has documents of two sentences.
    """
    splits, name = dict[str, Sentences](), f"sentence_order:{corpus.name}"
    for split, text in corpus.splits.items():
        documents = [numbers for numbers, _ in text.documents] if any(text.groups.values) else []
        starts = [number for numbers in documents for number in numbers[:-1:2]]
        n_exchanged = len(starts) // 2
        are_exchanged = np.random.default_rng(seed).permutation(len(starts)) < n_exchanged
        made = []
        for start, is_exchanged in zip(starts, are_exchanged.tolist(), strict=True):
            places, label = ((start + 1, start), "exchanged") if is_exchanged else ((start, start + 1), "as written")
            one, two = (replace(text[place], targets={}) for place in places)
            spans = (0, len(one)), (len(one), len(one) + len(two))
            targets = {SENTENCE_ORDER: (Target(spans[0], label, spans[1]),)}
            both = replace(as_one([one, two]), id=text.id(start), targets=targets, group=text[start].group)
            made.append(both)
        if made:
            splits[split] = Sentences(made)
    if not splits:
        raise CorpusError(f"{name}: no document of two sentences; give a treebank with # newdoc before each document")
    return replace(corpus, name=name, splits=splits)


COREFERENCE = "coref_documents"
"""Name of the targets over mentions of two sentences of a document, ``1`` if they corefer and ``0`` if not."""
_Mentions = dict[int, dict[tuple[int, int], set[str]]]  # entities by sentence and span, words numbered in the split


def coreference_over_sentences(corpus: Corpus, *, words: int = 256, seed: int = 0) -> Corpus:
    """Mentions of different sentences, read in one text (``coreference:CORPUS``, ``coreference:128:CORPUS``).

    As many sentences of a document as have up to 256 words, or the number stated, are a text, the next ones another.
    The targets :data:`COREFERENCE` are pairs of a mention with its antecedents in the nearest earlier sentence that has
    any. As mentions nearby corefer more often, each comes with a pair that does not corefer: the same mention, and
    another one of the antecedent's sentence, drawn at random.

    Mentions whose antecedents stand in another text, and antecedents in a sentence without another mention, are
    counted as skipped. Texts without pairs, trees and other annotation of spans are left out.

    Raises:
        CorpusError: no split has such a pair.
    """
    name, splits, oddities = f"coreference:{words}:{corpus.name}", dict[str, Sentences](), Oddities()
    for split, text in corpus.splits.items():
        mentions: _Mentions = {}
        for number, target in ((number, target) for number, targets in text.targets(MENTIONS) for target in targets):
            place = target.moved(int(text.starts[number])).span1
            mentions.setdefault(number, {}).setdefault(place, set()).update(target.labels)
        documents, dice = text.documents if any(text.groups.values) else [], np.random.default_rng(seed)
        made = Sentences(one for of, _ in documents for one in _paired(text, of, mentions, words, oddities, dice))
        if len(made):
            splits[split] = made
    if not splits:
        remedy = "give GUM or another corpus with # newdoc and Entity= in MISC, or CoNLL-2012"
        raise CorpusError(f"{name}: no two sentences of a document have mentions that corefer; {remedy}")
    notes, skipped = {**corpus.notes, **oddities.notes()}, {**corpus.skipped, **oddities.skipped()}
    return replace(corpus, name=name, splits=splits, notes=notes, skipped=skipped)


def _paired(
    text: Sentences, document: range, mentions: _Mentions, most: int, oddities: Oddities, dice: np.random.Generator
) -> Iterator[Sentence]:
    """The texts of up to ``most`` words that a document is divided into and that have pairs of mentions."""
    latest: dict[str, int] = {}  # the last sentence so far that mentions each entity
    start = document.start
    while start < document.stop:
        stop, pairs = int(np.searchsorted(text.starts, text.starts[start] + most, side="right")) - 1, list[Target]()
        stop = min(max(stop, start + 1), document.stop)  # one sentence that is longer is a text without pairs
        for number in range(start, stop):
            for mention, entities in mentions.get(number, {}).items():
                before = max((latest[one] for one in entities & latest.keys()), default=-1)
                if 0 <= before < start:
                    oddities.skip(f"mentions with antecedents in no text of {most} words with them", text.id(number))
                there = mentions[before] if before >= start else {}
                # Both at random, so that places in the sentence differ only where those of antecedents do.
                spans = [list(there)[at] for at in dice.permutation(len(there))]
                alike = [one for one in spans if there[one] & entities]
                others = [one for one in spans if not there[one] & entities]
                for first, second in zip(alike, others, strict=False):
                    pairs += [Target(first, "1", mention), Target(second, "0", mention)]
                for _ in alike[len(others) :]:
                    oddities.skip("antecedents in a sentence without another mention", text.id(before))
            latest |= {one: number for of in mentions.get(number, {}).values() for one in of}
        if pairs:
            targets = {COREFERENCE: tuple(pair.moved(-int(text.starts[start])) for pair in pairs)}
            yield replace(as_one(text[start:stop]), targets=targets, derived=frozenset(), group=text[start].group)
        start = stop


_PSEUDOWORDS, _COINS = 8, 2


def apart(corpus: Corpus) -> Corpus:
    """The texts of pairs as sentences of their own, so that none is read with the other (``apart:CORPUS``).

    A sentence of two texts, such as a pair of WiC or a row of a table with ``text2``, becomes two, whose ids end in
    ``/1`` and ``/2``; both have its label, each over its own span. Sentences of one text are left out.

    Raises:
        CorpusError: there is no pair.
    """
    splits = {name: Sentences(half for one in text for half in _halves(one)) for name, text in corpus.splits.items()}
    splits = {name: halves for name, halves in splits.items() if len(halves)}
    if not splits:
        raise CorpusError(f"apart:{corpus.name}: no pair of texts in it; give WiC, or a table with text2=")
    return replace(corpus, name=f"apart:{corpus.name}", splits=splits)


def _halves(sentence: Sentence) -> Iterator[Sentence]:
    texts = sentence.targets.get(TEXTS, ())
    for place, half in enumerate(texts if len(texts) == 2 else ()):
        first, last = half.span1
        targets = {
            name: tuple(Target((one.span1, one.span2)[place], one.label).moved(-first) for one in some if one.span2)
            for name, some in sentence.targets.items()
            if name != TEXTS
        }
        name, group = f"{sentence.id}/{place + 1}", sentence.group or sentence.id
        yield replace(part_of(sentence, first, last), id=name, targets=targets, group=group)


_ROLES: Final = ("root", "nsubj", "obj")


def shared_roles(corpus: Corpus, *, seed: int = 0) -> Corpus:
    """Pairs of sentences of a treebank by how many roles they fill alike (``shared_roles:CORPUS``), read apart.

    The similarity of two sentences, their target ``similarity``, is the number of roles, of predicate (the root),
    subject and object, that have the same lemma in both: *The dog sees a cat* is like *A cat sees dogs* in one. Each
    sentence in turn is paired at random with one that it shares 0, 1, 2 or 3 with; where there is none it has no pair.

    Raises:
        CorpusError: there is no such pair, as where sentences have no trees with lemmas.
    """
    splits, dice = dict[str, Sentences](), np.random.default_rng(seed)
    for split, whole in corpus.splits.items():
        made, number_of = list[Sentence](), dict[str, int]()
        text = [(sentence, fillers) for sentence in whole if any(fillers := _fillers(sentence))]
        filled = np.array([[number_of.setdefault(one, len(number_of)) if one else -1 for one in of] for _, of in text])
        for place, (sentence, _) in enumerate(text):
            shared = ((filled == filled[place]) & (filled[place] >= 0)).sum(axis=1)
            shared[place] = -1
            others = np.flatnonzero(shared == (wanted := place % (len(_ROLES) + 1)))
            for half, at in enumerate((place, int(dice.choice(others))) if len(others) else (), 1):
                one, name = text[at][0], f"{sentence.id}/{half}"
                targets = {"similarity": (Target((0, len(one)), str(wanted)),)}
                made.append(replace(one, id=name, targets=targets, group=sentence.id))
        splits[split] = Sentences(made)
    splits = {split: some for split, some in splits.items() if len(some)}
    if not splits:
        raise CorpusError(f"shared_roles:{corpus.name}: no two sentences to pair; give a treebank with lemmas")
    return replace(corpus, name=f"shared_roles:{corpus.name}", splits=splits)


def _fillers(sentence: Sentence) -> list[str]:
    """The lemma of each role around the root; empty where it has none."""
    relations, lemmas, heads = sentence.layers.get("deprel"), sentence.layers.get("lemma"), sentence.heads
    if relations is None or lemmas is None or heads is None:
        return [""] * len(_ROLES)
    words = zip(relations, lemmas, heads, strict=True)
    main = {relation: lemma for relation, lemma, head in words if head == 0 or heads[head - 1] == 0}
    return [main.get(role) or "" for role in _ROLES]


def pseudowords(corpus: Corpus, *, seed: int = 0) -> Corpus:
    """Nouns as the senses of words that do not exist, and senses drawn by a coin (``pseudowords:CORPUS``).

    Two unrelated nouns are one pseudoword, and its sense is which of them stands there (Gale et al. 1992, Schütze
    1992): ``dog|house:dog``. Of the nouns most frequent in train eight pairs are drawn; two more nouns have two senses
    each that a coin decides for every occurrence, ``tree|coin:heads``, which nothing can tell apart. The text is not
    changed, so that a model reads the nouns themselves: this tests what is done with vectors, and no model.

    Raises:
        CorpusError: it has too few nouns, or no train or test.
    """
    name = changed_name("pseudowords", corpus)
    of_train, of_test = (Counter(chain.from_iterable(map(_nouns, corpus[split]))) for split in ("train", "test"))
    both = sorted((of_train.keys() & of_test.keys()) - {""}, key=lambda noun: (-of_train[noun], noun))
    n_pairs = min(_PSEUDOWORDS, (len(both) - _COINS) // 2)
    if n_pairs < 1:
        due = f"{2 + _COINS} or more in both train and test are due"
        raise CorpusError(f"{name}: {len(both)} nouns (upos NOUN); {due}")
    chosen = np.random.default_rng(seed).permutation(both[: 2 * n_pairs + _COINS]).tolist()
    labels = {noun: f"{noun}|coin" for noun in chosen[2 * n_pairs :]}
    for first, second in zip(chosen[: 2 * n_pairs : 2], chosen[1 : 2 * n_pairs : 2], strict=True):
        labels |= {noun: f"{first}|{second}:{noun}" for noun in (first, second)}

    def labelled(sentence: Sentence) -> Sentence:
        found = []
        for place, noun in ((place, noun) for place, noun in enumerate(_nouns(sentence)) if noun in labels):
            drawn = int(digest([f"{seed} {sentence.id} {sentence.text} {place}".encode()])[:8], 16)
            coin = "" if ":" in labels[noun] else f":{('heads', 'tails')[drawn % 2]}"
            found.append(Target((place, place + 1), labels[noun] + coin))
        return replace(sentence, targets={**sentence.targets, SENSE: tuple(found)}) if found else sentence

    splits = {split: Sentences(map(labelled, text)) for split, text in corpus.splits.items()}
    made = ", ".join(sorted({text.partition(":")[0] for text in labels.values()}))
    return replace(corpus, name=name, splits=splits, notes={**corpus.notes, "pseudowords": made})


def _nouns(sentence: Sentence) -> list[str]:
    """Each word that is a noun; empty for others."""
    tags = sentence.layers.get("upos", (None,) * len(sentence))
    return [word.casefold() if tag == "NOUN" else "" for word, tag in zip(sentence.words, tags, strict=True)]


ADDED = "added"
"""The target of the word in the sentence that follows."""
_JOINT = "and"
_ENDS = frozenset(".!?…")


def concatenated(corpus: Corpus, *, seed: int = 0) -> Corpus:
    """Test sentences alone, and joined by *and* with one of the same word (``concatenated:CORPUS``; Reif et al. 2019).

    Each sentence of the test whose first word with a sense has another sense elsewhere in the test becomes up to three,
    whose ids end in ``/alone``, ``/other`` and ``/same``: as it is, followed by a sentence with another sense of the
    word, and by one with the same sense, where there is any. Sentences that follow are drawn at random; their word has
    the target ``added``. A full stop before *and* is taken out. Train is not changed.

    Raises:
        CorpusError: it has no test, or no word with two senses there.
    """
    name = changed_name("concatenated", corpus, ["test"])
    # Of each sentence its first word that has a sense: the sentence, its span, the word, the sense.
    items: list[tuple[Sentence, tuple[int, int], str, str]] = []
    for number, (target, *_) in corpus["test"].targets(SENSE):
        sentence, (first, last) = corpus["test"][number], target.span1
        if len(target.labels) == 1 and first < last:  # the task of senses reports others
            word, colon, sense = target.labels[0].partition(":")
            if not colon:
                word, sense = " ".join(sentence.words[first:last]).casefold(), word
            named = replace(sentence, id=f"{sentence.id or 'sentence'}#{number + 1}")
            items.append((named, (first, last), word, sense))
    dice, made, by_word = np.random.default_rng(seed), list[Sentence](), by_key((item[2], item) for item in items)
    for sentence, span, word, sense in items:
        senses = dict.fromkeys(of for *_, of in by_word[word])
        others = [item for of in senses if of != sense for item in by_word[word] if item[3] == of]
        if not others:
            continue
        alike = [item for item in by_word[word] if item[3] == sense and item[0].text != sentence.text]
        targets = {SENSE: (Target(span, f"{word}:{sense}"),)}
        base = replace(sentence, targets=targets, multiword=(), comments=(), empty_nodes=())
        made.append(replace(base, id=f"{base.id}/alone"))
        n_kept = len(base) - (base.words[-1] in _ENDS and span[1] < len(base))
        for kind, some in (("other", others), ("same", alike)):
            if some:
                added, (first, last), _, of_added = some[int(dice.integers(len(some)))]
                parts = [part_of(base, 0, n_kept), Sentence.from_words([_JOINT]), replace(added, targets={})]
                target = Target((first + n_kept + 1, last + n_kept + 1), f"{word}:{of_added}")
                both, both_targets = as_one(parts), {**base.targets, ADDED: (target,)}
                layers = {name: both.layers[name] for name in base.layers if name in added.layers}
                made.append(replace(both, id=f"{base.id}/{kind}", layers=layers, targets=both_targets))
    if not made:
        raise CorpusError(f"{name}: no word has two senses in test; give CoarseWSD-20, or pseudowords:CORPUS")
    return replace(corpus, name=name, splits={**corpus.splits, "test": Sentences(made)})


_NUMBER_WORDS, _TENS = (
    words.split()
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen",
        "twenty thirty forty fifty sixty seventy eighty ninety",
    )
)
_WRITTEN: Final[Mapping[str, Callable[[int], str]]] = {"digits": str, "words": lambda value: number_word(value)}
_LARGEST = 4_999
_FEWEST_NUMBERS, _MOST_NUMBERS = 99, 99_999
_PARTS = ("train",) * 7 + ("dev",) + ("test",) * 2


def number_word(value: int) -> str:
    """The English words of a whole number from 0 to 999,999: *two thousand three hundred forty-five*."""
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if value >= unit:
            rest = f" {number_word(value % unit)}" if value % unit else ""
            return f"{number_word(value // unit)} {name}{rest}"
    if value < len(_NUMBER_WORDS):
        return _NUMBER_WORDS[value]
    return f"{_TENS[value // 10 - 2]}-{_NUMBER_WORDS[value % 10]}".removesuffix("-zero")


def number_corpus(name: str) -> Corpus:
    """Whole numbers, each as a text of its own: ``numbers:digits`` (or ``numbers``), ``numbers:words:999``.

    A text is one word, the number in digits or in English words (a word that may hold spaces), with its value in the
    layer ``number``. The numbers from 0 to 4,999, or to the one that is stated last, are divided at random into train
    (70 %), dev (10 %) and test (20 %), and as many that follow are the split ``outside``: 5,000 to 9,999 have as many
    digits as most of those in train, so that a readout that fails there does not fail for another length. After
    Wallace et al. 2019, §3, whose ranges end at 99, 999 and 9,999.

    Raises:
        CorpusError: the name is of another form.
    """
    _, written, *limit = name.split(":") if ":" in name else (name, "digits")
    largest = int(limit[0]) if len(limit) == 1 and limit[0].isdecimal() and len(limit[0]) < 6 else _LARGEST
    if written not in _WRITTEN or limit not in ([], [str(largest)]) or not _FEWEST_NUMBERS <= largest <= _MOST_NUMBERS:
        due = f"numbers:digits or numbers:words, and the largest number, {_FEWEST_NUMBERS} to {_MOST_NUMBERS}"
        raise CorpusError(f"corpus {quoted(name)}: write {due}, such as numbers:digits:999")
    splits: dict[str, list[Sentence]] = {split: [] for split in ("train", "dev", "test", "outside")}
    order = np.random.default_rng(0)
    for first, parts in ((0, _PARTS), (largest + 1, ("outside",))):
        for place, value in enumerate((first + order.permutation(largest + 1)).tolist()):
            word, layers = _WRITTEN[written](value), {"number": [str(value)]}
            splits[parts[place % len(parts)]].append(Sentence.from_words([word], id=str(value), layers=layers))
    made = {split: Sentences(some) for split, some in splits.items()}
    return Corpus(name, made, language="en", reference="cf. Wallace et al. 2019, §3")
