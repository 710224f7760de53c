"""Texts of the pocket world in two languages: a corpus of annotated pairs, and documents for pretraining."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, islice
from types import MappingProxyType

from pydantic import ValidationError

from bertology._inputs import is_numeral
from bertology.corpora import Corpus, Links, Sentence, Sentences, Target, translations
from bertology.errors import CorpusError, cut, quoted
from bertology.pocket.bilingual.dictionary import leaves, sense_of
from bertology.pocket.bilingual.settings import Language, SecondLanguage
from bertology.pocket.grammar.annotation import Line, read, written
from bertology.pocket.grammar.lexicon import lexicon
from bertology.pocket.grammar.texts import document_trees, lines_of
from bertology.pocket.grammar.tree import Dice, Phrase, Word
from bertology.pocket.grammar.world import Fact

FIRST = "en"
"""Code of the first language."""
SIZES: Mapping[str, int] = MappingProxyType({"train": 3000, "dev": 500, "test": 1000})
"""Pairs in each split."""
_OTHER_SEED = 2_000_003
"""Added to the seed for documents of which the second language alone has a text."""


MOST_PAIRS = 100_000
MOST_JOINED = 10
"""Sentences in a text."""
_AS_IN = "write bilingual:20000, bilingual:joined=3, bilingual:order=reversed,anchors=0.2 or bilingual:fake=shift"


@lru_cache(maxsize=4)
def load_bilingual(options: str = "") -> Corpus:
    """The bilingual corpus by what follows ``bilingual:`` in its name, made when it is first used.

    Args:
        options: separated by commas: a number of training pairs, fields of :class:`Language` as ``key=value``,
            ``joined=3`` for pairs of texts of so many sentences each, and ``only=en`` or ``only=qpo`` for the sentences
            of one language.

    Raises:
        CorpusError: an option is unknown or has a wrong value.
    """
    name = f"bilingual:{options}" if options else "bilingual"
    n_train, fields = SIZES["train"], dict[str, str]()
    for option in filter(None, options.split(",")):
        key, equals, value = option.partition("=")
        if equals:
            fields[key] = value
        elif is_numeral(key) and 1 <= int(key) <= MOST_PAIRS:
            n_train = int(key)
        else:
            raise CorpusError(f"{cut(name)}: {quoted(key)} is no number of pairs from 1 to {MOST_PAIRS}; {_AS_IN}")
    only, joined = fields.pop("only", None), fields.pop("joined", "1")
    if not (is_numeral(joined) and 1 <= int(joined) <= MOST_JOINED):
        raise CorpusError(
            f"{cut(name)}: joined={quoted(joined)} is no number of sentences from 1 to {MOST_JOINED}; {_AS_IN}"
        )
    try:
        second = Language.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise CorpusError(f"{cut(name)}: {first['loc'][0]}: {first['msg']}; {_AS_IN}") from None
    sizes = {**SIZES, "train": n_train}
    corpus = replace(bilingual_corpus(second, sizes=sizes, joined=int(joined)), name=name)
    if only is None:
        return corpus
    if only not in (FIRST, second.code):
        raise CorpusError(f"{cut(name)}: only={quoted(only)} is neither {FIRST} nor {second.code}")
    side = (FIRST, second.code).index(only)
    splits = {split: Sentences(islice(sentences, side, None, 2)) for split, sentences in corpus.splits.items()}
    return replace(corpus, splits=splits, language=only)


def bilingual_corpus(second: Language, *, sizes: Mapping[str, int] = SIZES, seed: int = 0, joined: int = 1) -> Corpus:
    """Sentences of the pocket corpus, each followed by its translation, with links between their words.

    Trees, tags, entities and roles are annotated in both. The layer ``sense`` holds, for each word whose form is
    ambiguous in the first language and for its translation, what it means: ``watch/NOUN`` or ``watch/VERB``.

    Args:
        second: the second language.
        sizes: pairs in each split.
        seed: of the sentences.
        joined: number of successive sentences that make one text. Texts of several sentences have no trees. Words of
            one part of speech are linked by chance in a short sentence more often than in a long text.
    """
    used: set[str] = set()
    splits = {}
    for split, size in sizes.items():
        lines = lines_of(split, seed, used)
        texts = (list(islice(lines, joined)) for _ in range(size))
        splits[split] = Sentences(chain.from_iterable(pair(text, second) for text in texts))
    return Corpus(
        name="bilingual",
        splits=splits,
        language=f"{FIRST}+{second.code}",
        licence="Apache-2.0",
        notes={"source": "made by the grammar in bertology.pocket, translations, links and all"},
    )


def pair(lines: Sequence[tuple[Line, Sentence]], second: Language) -> list[Sentence]:
    """A text of the first language and its translation, marked as such, with their links.

    Args:
        lines: the sentences of the text with the trees that they were read off.
        second: the language of the translation.
    """
    firsts, others, links = zip(*(_translated(line, sentence, second) for line, sentence in lines), strict=True)
    places = list(zip(*map(_starts, (firsts, others)), strict=True))
    moved = (
        frozenset((i + first, j + other) for (first, other), one in zip(places, of_kind, strict=True) for i, j in one)
        for of_kind in zip(*((one.sure, one.possible) for one in links), strict=True)
    )
    both = {FIRST: _in_one(firsts), second.code: _in_one(others)}
    return translations(both, unit=firsts[0].id, links={(FIRST, second.code): Links(*moved)})


def _translated(line: Line, sentence: Sentence, second: Language) -> tuple[Sentence, Sentence, Links]:
    """A sentence of the first language and its translation, both with senses, and their links."""
    made = second.translator(line.tree)
    other = read(line._replace(tree=made.tree), id=sentence.id, english=False)
    senses = _senses(sentence)
    translated: list[str | None] = [None] * len(other)
    for source, place in sorted(made.sure, reverse=True):  # of several words, the first
        translated[place] = senses[source]
    return (
        replace(sentence, layers={**sentence.layers, "sense": senses}),
        replace(other, layers={**other.layers, "sense": tuple(translated)}),
        Links(sure=made.sure, possible=made.possible),
    )


def _in_one(sentences: Sequence[Sentence]) -> Sentence:
    """One text of several sentences, with the annotation of their words and spans, without their trees."""
    if len(sentences) == 1:
        return sentences[0]
    names = dict.fromkeys(chain.from_iterable(sentence.layers for sentence in sentences))
    nothing = (None,)
    layers = {
        name: tuple(chain.from_iterable(one.layers.get(name, nothing * len(one)) for one in sentences))
        for name in names
    }
    spans, targets = [], defaultdict[str, list[Target]](list)
    ends = accumulate((len(sentence.text) + 1 for sentence in sentences), initial=0)
    for sentence, start, word in zip(sentences, ends, _starts(sentences), strict=False):
        spans += [(first + start, last + start) for first, last in sentence.spans]
        for name, of_name in sentence.targets.items():
            targets[name] += [_moved(target, word) for target in of_name]
    return Sentence(
        id=sentences[0].id,
        text=" ".join(sentence.text for sentence in sentences),
        words=tuple(chain.from_iterable(sentence.words for sentence in sentences)),
        spans=tuple(spans),
        layers=layers,
        targets={name: tuple(of_name) for name, of_name in targets.items()},
        derived=frozenset[str]().union(*(sentence.derived for sentence in sentences)),
    )


def _starts(sentences: Sequence[Sentence]) -> list[int]:
    """The place of the first word of each sentence in a text of them."""
    return [*accumulate(map(len, sentences[:-1]), initial=0)]


def _moved(target: Target, by: int) -> Target:
    (start, end), other = target.span1, target.span2
    return Target((start + by, end + by), target.label, other and (other[0] + by, other[1] + by))


def _senses(sentence: Sentence) -> tuple[str | None, ...]:
    rows = zip(sentence.words, sentence.layers["lemma"], sentence.layers["upos"], strict=True)
    ambiguous = ambiguous_forms()
    return tuple(f"{lemma}/{upos}" if upos in ambiguous.get(word.lower(), ()) else None for word, lemma, upos in rows)


@lru_cache(maxsize=1)
def ambiguous_forms() -> Mapping[str, frozenset[str]]:
    """Forms of nouns, verbs, adjectives and adverbs that have several senses, with their parts of speech."""
    words = lexicon("unseen")
    forms: dict[str, set[Word]] = {}
    verbs = {frame.verb for frame in words.frames.items}
    listed = [
        *words.noun_words,
        *(
            form
            for verb in verbs
            for form in (verb.base, verb.past, verb.participle, verb.gerund, *verb.present.values())
        ),
        *words.adjectives.items,
        *(word for adverbs in words.adverbs.values() for word in adverbs.items),
    ]
    for word in listed:
        forms.setdefault(word.form, set()).add(word)
    return {
        form: frozenset(word.upos for word in meant)
        for form, meant in forms.items()
        if len({sense_of(word) for word in meant}) > 1
    }


def bilingual_documents(
    n_documents: int, second: SecondLanguage, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> Iterator[tuple[list[str], list[str]]]:
    """Pretraining text in both languages, document by document; arguments as for :func:`pretraining_documents`.

    The documents of a pair are translations of each other where the languages are ``parallel``, and otherwise have
    nothing in common.
    """
    trees = document_trees(n_documents, seed=seed, stated=stated)
    others = trees if second.parallel else document_trees(n_documents, seed=seed + _OTHER_SEED, stated=stated)
    dice = Dice(f"pocket switched words {seed}")
    for tree in trees:
        other = tree if second.parallel else next(others)
        yield (
            [_switched(sentence, second, dice)[0] for sentence in tree],
            [_switched(sentence, second, dice)[1] for sentence in other],
        )


def _switched(tree: Phrase, second: SecondLanguage, dice: Dice) -> tuple[str, str]:
    """The text of a sentence and that of its translation, each with some words of the other."""
    made = second.translator(tree)
    words, translated = list(leaves(tree)), list(leaves(made.tree))
    if second.switched:
        sources, places = (Counter(link[side] for link in made.sure) for side in (0, 1))
        both = list(words), list(translated)
        for source, place in sorted(made.sure):
            if sources[source] != 1 or places[place] != 1 or words[source].upos == "PUNCT":
                continue
            if dice.chance(second.switched):
                words[source] = both[1][place]._replace(glued=both[0][source].glued)
            if dice.chance(second.switched):
                translated[place] = both[0][source]._replace(glued=both[1][place].glued)
    return written(words), written(translated)
