"""The pocket world in two languages: a dictionary, translation of trees by rule, a corpus of pairs, and documents."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, chain, count, islice
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from bertology._files import is_numeral
from bertology._names import by_key
from bertology._settings import Settings
from bertology.corpora import Corpus, Links, Sentence, Sentences, as_one, translations
from bertology.errors import CorpusError, cut, quoted
from bertology.pocket import _function_words as fw
from bertology.pocket._texts import Line, document_trees, lines_of, read, statement, written
from bertology.pocket._trees import HEAD, Part, Phrase, Tree, Word, leaves, mapped
from bertology.pocket._words import Dice, Verb, lexicon
from bertology.pocket._world import COMPANIES, COUNTRIES, SURNAMES, TOWNS, Fact, facts, people, proper_noun

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_OTHER = "абцдефгхияклмнопщрстувшжыз"
_MARKS = {".": ":", ",": ";", "?": "¿", "!": "¡", "'": "’"}
_SCRIPT = str.maketrans({**dict(zip(_LATIN + _LATIN.upper(), _OTHER + _OTHER.upper(), strict=True)), **_MARKS})
_SCRIPT_LETTERS = frozenset(map(str, _SCRIPT.values()))

_CONSONANTS, _VOWELS = "bdgklmprsz", "aiou"
SUFFIXES: Mapping[str, tuple[str, str]] = {
    **{"Plur": ("fe", "Number=Plur"), "Def": ("te", "Definite=Def"), "Acc": ("ne", "Case=Acc")},
    **{"Dat": ("ve", "Case=Dat"), "Gen": ("he", "Case=Gen"), "Pass": ("nef", "Voice=Pass")},
    **{"Perf": ("hef", "Aspect=Perf"), "Prog": ("vet", "Aspect=Prog"), "Inf": ("ten", "VerbForm=Inf")},
    **{"Past": ("fet", "Tense=Past"), "Pres": ("net", "Tense=Pres"), "Agr": ("hen", "Number=Plur")},
}
"""Suffixes by what they mark, in Latin letters, and their features; they have vowels and consonants that stems do not
have."""
_CLOSED = frozenset({"DET", "PRON", "ADP", "SCONJ", "CCONJ", "PART", "AUX"})


class Sense(NamedTuple):
    """A meaning with a translation of its own."""

    lemma: str
    upos: str
    kind: str = ""
    """``Rel``, ``Int``, ``Dem`` …, for words that are pronouns in several ways."""


def transliterated(text: str) -> str:
    """A text in the letters and marks of the second language, letter by letter."""
    return text.translate(_SCRIPT)


def is_of_second(text: str) -> bool:
    """Whether a text has a letter or mark of the second language."""
    return not _SCRIPT_LETTERS.isdisjoint(text)


def sense_of(word: Word, particle: str = "") -> Sense:
    """The sense of a word of the first language, with the particle of a verb if it has one."""
    kind = next((part.partition("=")[2] for part in (word.feats or "").split("|") if part.startswith("PronType=")), "")
    return Sense(f"{word.lemma} {particle}" if particle else word.lemma, word.upos, kind)


@lru_cache(maxsize=1)
def dictionary() -> Mapping[Sense, str]:
    """The stem of each sense but punctuation, in Latin letters; all stems differ."""
    dice, stems, taken = Dice("pocket second language"), {}, set[str]()
    for sense in sorted(set(_all_senses())):
        while True:
            n_syllables = 2 if sense.upos in _CLOSED or dice.chance(0.4) else 3
            stem = "".join(dice.one_of(_CONSONANTS) + dice.one_of(_VOWELS) for _ in range(n_syllables))
            if stem not in taken:
                break
        taken.add(stem)
        stems[sense] = stem
    return stems


@lru_cache(maxsize=8)
def alike(share: float) -> frozenset[str]:
    """Names of people, towns and countries that both languages spell alike: a share of them drawn at random.

    Those of a smaller share are among those of a larger one.
    """
    names = Dice("pocket anchors").shuffled([*(person.name for person in people()), *TOWNS, *COUNTRIES])
    return frozenset(names[: round(share * len(names))])


def _all_senses() -> Iterator[Sense]:
    words = lexicon("unseen")  # with the words that other texts leave out
    for menu in words.nouns.values():
        yield from (sense_of(noun.singular) for noun in menu.items)
    for frame in words.frames.items:
        yield sense_of(frame.verb.base, frame.particle if frame.pattern == "particle" else "")
    for adverbs in (words.adjectives, *words.adverbs.values()):
        yield from map(sense_of, adverbs.items)
    names = [*(person.name for person in people()), *SURNAMES, *TOWNS, *COUNTRIES, *COMPANIES]
    yield from (sense_of(proper_noun(name)) for name in names)
    of_each_relation = {fact.relation: fact for fact in facts()}.values()
    trees = (statement(fact, number).tree for fact in of_each_relation for number in range(len(fact.templates)))
    for word in (*_words_in(vars(fw).values()), *(word for tree in trees for word in leaves(tree))):
        if word.upos != "PUNCT":
            yield sense_of(word)


def _words_in(values: Iterable[Any]) -> Iterator[Word]:
    """All words in nested tuples and mappings."""
    for value in values:
        if isinstance(value, Word):
            yield value
        elif isinstance(value, tuple) and not isinstance(value, Phrase):
            yield from _words_in(value)
        elif isinstance(value, dict | Verb):
            yield from _words_in((value if isinstance(value, dict) else vars(value)).values())


Order = Literal["same", "own", "reversed"]
"""Order of words in the second language: as in the first, its own, or that of the first reversed."""

# What comes before the head (negative) and after it; parts of one rank keep their order.
_BY_RANK = {
    **{-9: "nsubj nsubj:pass", -7: "obl:agent", -6: "iobj", -5: "obl obl:unmarked", -4: "obj", -3: "xcomp"},
    **{-2: "advmod det", -1: "nmod:poss", 1: "cop flat compound", 2: "aux nummod amod", 3: "nmod", 4: "acl:relcl"},
    **{5: "case ccomp", 6: "mark", 7: "advcl", 8: "conj"},
}
_RANKS = {relation: rank for rank, relations in _BY_RANK.items() for relation in relations.split()}
_FIRST, _LAST = -10, 10
_ABSORBED = {"have": "Perf", "be": "Prog"}
_PARTICLES = {"case": "Gen", "mark": "Inf"}
_CASES = {"obj": "Acc", "iobj": "Dat", "nmod:poss": "Gen"}
_VERBAL = frozenset({"Pass", "Perf", "Prog", "Inf", "Past", "Pres", "Agr"})


class Translated(NamedTuple):
    """A sentence of the second language."""

    tree: Phrase
    sure: frozenset[tuple[int, int]]
    """Places of a word and of its translation."""
    possible: frozenset[tuple[int, int]]
    """Places of a grammatical word, and of the word that has a suffix for it."""


class _Marks(NamedTuple):
    """Marks to be expressed at the head word of a phrase."""

    suffixes: frozenset[str] = frozenset()
    sure: tuple[int, ...] = ()
    possible: tuple[int, ...] = ()
    particle: str = ""


@dataclass(frozen=True)
class Translator:
    """Translates trees."""

    order: Order = "own"
    anchors: float = 0.0
    """Share of names and towns spelled alike."""
    shifted: bool = False
    """Every word is that of the first language in the letters of the second, in the same place."""

    def __call__(self, tree: Phrase) -> Translated:
        """The translation of a whole sentence."""
        places = count()
        numbered = mapped(tree, lambda word: word._replace(sure=(next(places),)))
        if self.shifted:
            made = mapped(
                numbered, lambda word: word._replace(form=transliterated(word.form), lemma=transliterated(word.lemma))
            )
        else:
            made = self._phrase(numbered, _Marks())
        words = list(leaves(made))
        sure = frozenset((source, place) for place, word in enumerate(words) for source in word.sure)
        possible = frozenset((source, place) for place, word in enumerate(words) for source in word.possible)
        return Translated(made, sure, possible)

    def _phrase(self, tree: Phrase, marks: _Marks) -> Phrase:
        kept, marks = _absorbed(tree.parts, marks)
        case, own = marks.suffixes & {*_CASES.values()}, {HEAD: marks}
        if any(part.relation == "cop" for part in kept):
            # The copula has the marks of a verb, and the predicate all others.
            verbal, possible = marks.suffixes & _VERBAL, marks.possible
            own["cop"] = _Marks(verbal, possible=possible if verbal else ())
            own[HEAD] = marks._replace(suffixes=marks.suffixes - verbal, possible=() if verbal else possible)
        own |= {relation: _Marks(frozenset({name})) for relation, name in _CASES.items()}
        own |= {"conj": _Marks(case)} if case else {}
        parts = []
        for relation, below, role in kept:
            of_part = own.get(relation, _Marks())
            made = self._word(below, of_part) if isinstance(below, Word) else self._phrase(below, of_part)
            parts.append(Part(relation, made, role))
        if self.order == "own":
            parts = _ordered(parts)
        return tree._replace(parts=tuple(reversed(parts) if self.order == "reversed" else parts))

    def _word(self, word: Word, marks: _Marks) -> Word:
        sure = (*word.sure, *marks.sure)
        if word.upos == "PUNCT":
            mark = transliterated(word.form)
            return word._replace(form=mark, lemma=mark, xpos=mark, sure=sure)
        suffixes = set(marks.suffixes)
        if word.upos == "NOUN" and "Number=Plur" in (word.feats or ""):
            suffixes.add("Plur")
        elif word.upos in ("VERB", "AUX") and not suffixes & {"Past", "Pres"}:  # an auxiliary may have taken tense
            suffixes.update(_finite(word))
        chosen = [(suffix, feature) for name, (suffix, feature) in SUFFIXES.items() if name in suffixes]
        stem, ending = dictionary()[sense_of(word, marks.particle)], "".join(suffix for suffix, _ in chosen)
        if word.lemma in alike(self.anchors):
            lemma = word.lemma
        else:
            lemma = transliterated(stem.capitalize() if word.upos == "PROPN" else stem)
        form, feats = lemma + transliterated(ending), "|".join(sorted(feature for _, feature in chosen)) or None
        return Word(form, lemma, word.upos, word.upos, feats, novelty=word.novelty, sure=sure, possible=marks.possible)


def _absorbed(parts: Sequence[Part], marks: _Marks) -> tuple[list[Part], _Marks]:
    """The parts that have words of their own, and the marks of the head word, with those of all other parts.

    Tense and agreement are those of the first auxiliary that is not kept, which is the finite one.
    """
    kept: list[Part] = []
    for part in parts:
        suffixes = _suffixes_for(part.relation, part.tree)
        if part.relation == "compound:prt":
            word = next(leaves(part.tree))
            marks = marks._replace(particle=word.lemma, sure=(*marks.sure, *word.sure))
        elif suffixes is not None and isinstance(part.tree, Word):
            marks = marks._replace(suffixes=marks.suffixes | suffixes, possible=(*marks.possible, part.tree.sure[0]))
        elif part.relation != "expl" and not (isinstance(part.tree, Word) and part.tree.lemma == "a"):
            kept.append(part)
    return kept, marks


def _suffixes_for(relation: str, tree: Tree) -> frozenset[str] | None:
    """The suffixes of the head word that stand for a grammatical word before it; None of all others."""
    if not isinstance(tree, Word):
        return None
    if tree.upos == "AUX" and tree.xpos != "MD" and relation in ("aux", "aux:pass"):
        name = "Pass" if relation == "aux:pass" else _ABSORBED.get(tree.lemma)
        return frozenset(filter(None, (name, *_finite(tree))))
    if (relation, tree.lemma) == ("det", "the"):
        return frozenset({"Def"})
    return frozenset({_PARTICLES[relation]}) if tree.upos == "PART" and relation in _PARTICLES else None


def _finite(word: Word) -> tuple[str, ...]:
    """Tense of a finite form of the first language, and agreement with a plural in the present."""
    feats = set((word.feats or "").split("|"))
    if "VerbForm=Fin" not in feats or word.xpos == "MD":
        return ()
    if "Tense=Past" in feats:
        return ("Past",)
    return ("Pres", "Agr") if "Number=Plur" in feats else ("Pres",)


def _ordered(parts: Sequence[Part]) -> list[Part]:
    """The parts in the order of the second language; what a comma follows stands first, with its comma."""
    ranks: list[int] = []
    commas = {place for place, part in enumerate(parts[:-1]) if part.relation == "punct"}
    for place, part in enumerate(parts):
        if part.relation == "punct":
            rank = _LAST if place == len(parts) - 1 else ranks[-1] if ranks else _FIRST
        elif part.relation == HEAD:
            rank = 0
        elif part.relation == "cc" or place + 1 in commas:
            rank = _FIRST
        elif isinstance(part.tree, Phrase) and (part.tree.label or "").startswith("WH"):
            rank = _FIRST  # an interrogative or relative phrase
        else:
            rank = _RANKS[part.relation]
        ranks.append(rank)
    return [parts[place] for place in sorted(range(len(parts)), key=ranks.__getitem__)]


MOST_ALIKE = 0.3


class Language(Settings):
    """Properties of the second language, the elements of Dufter & Schütze (2020, section 3)."""

    order: Order = "own"
    """Order of words: ``own`` (objects before verbs, postpositions, nouns before adjectives), the ``same`` as in the
    first language, or that of the first ``reversed``."""
    anchors: Annotated[float, Field(ge=0, le=MOST_ALIKE)] = 0.0
    """Share of the names of people, towns and countries that both languages spell alike."""
    fake: Literal["shift"] | None = None
    """``shift``: the first language again with other pieces, one for one, in place of a language of its own."""

    @property
    def translator(self) -> Translator:
        """The translator that makes its sentences."""
        return Translator(order=self.order, anchors=self.anchors, shifted=self.fake == "shift")

    @property
    def code(self) -> str:
        """Its language code: of those that ISO 639 leaves to private use."""
        return "qfe" if self.fake else "qpo"


class SecondLanguage(Language):
    """The second language of a pretraining text, and how a model reads it."""

    parallel: bool = True
    """Whether the text in the second language is the translation of that in the first, or of other documents."""
    switched: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the words with one word as their translation that pretraining text replaces by it, in both languages."""
    paired: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of batches in which each sentence is read together with its translation, as two segments (*translation
    language modelling*, Conneau & Lample 2019, section 3.3)."""
    shared_specials: bool = True
    """Whether ``[CLS]``, ``[SEP]`` and ``[MASK]`` are the same in both languages."""
    shared_positions: bool = True
    """Whether the embeddings of positions are the same in both languages."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.paired and not self.parallel:
            raise ValueError("paired: only translations can be read together: give parallel true")
        if self.paired and not (self.shared_specials and self.shared_positions):
            raise ValueError("paired: special tokens and positions of two languages in one input must be shared")
        return self


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
        due = f"is no number of sentences from 1 to {MOST_JOINED}; {_AS_IN}"
        raise CorpusError(f"{cut(name)}: joined={quoted(joined)} {due}")
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
    ambiguous in the first language and for its translation, what it means: ``watch/NOUN`` or ``watch/VERB``. So many
    successive sentences as are ``joined`` make one text, without trees: words of one part of speech are linked by
    chance in a short sentence more often than in a long text.
    """
    used: set[str] = set()
    splits = {}
    for split, size in sizes.items():
        lines = lines_of(split, seed, used)
        texts = (list(islice(lines, joined)) for _ in range(size))
        splits[split] = Sentences(chain.from_iterable(pair(text, second) for text in texts))
    notes = {"source": "made by the grammar in bertology.pocket, translations, links and all"}
    return Corpus("bilingual", splits, language=f"{FIRST}+{second.code}", licence="Apache-2.0", notes=notes)


def pair(lines: Sequence[tuple[Line, Sentence]], second: Language) -> list[Sentence]:
    """A text of the first language, with the trees of its sentences, and its translation, with their links."""
    firsts, others, links = zip(*(_translated(line, sentence, second) for line, sentence in lines), strict=True)
    starts = ([*accumulate(map(len, side[:-1]), initial=0)] for side in (firsts, others))
    places = list(zip(*starts, strict=True))
    moved = (
        frozenset((i + first, j + other) for (first, other), one in zip(places, of_kind, strict=True) for i, j in one)
        for of_kind in zip(*((one.sure, one.possible) for one in links), strict=True)
    )
    joined = (side[0] if len(side) == 1 else as_one(side) for side in (firsts, others))
    both = dict(zip((FIRST, second.code), joined, strict=True))
    return translations(both, unit=firsts[0].id, links={(FIRST, second.code): Links(*moved)})


def _translated(line: Line, sentence: Sentence, second: Language) -> tuple[Sentence, Sentence, Links]:
    """A sentence of the first language and its translation, both with senses, and their links."""
    made = second.translator(line.tree)
    other = read(line._replace(tree=made.tree), id=sentence.id, english=False)
    rows = zip(sentence.words, sentence.layers["lemma"], sentence.layers["upos"], strict=True)
    ambiguous = ambiguous_forms()
    senses = tuple(f"{lemma}/{upos}" if upos in ambiguous.get(word.lower(), ()) else None for word, lemma, upos in rows)
    translated: list[str | None] = [None] * len(other)
    for source, place in sorted(made.sure, reverse=True):  # of several words, the first
        translated[place] = senses[source]
    sentence = replace(sentence, layers={**sentence.layers, "sense": senses})
    other = replace(other, layers={**other.layers, "sense": tuple(translated)})
    return sentence, other, Links(sure=made.sure, possible=made.possible)


@lru_cache(maxsize=1)
def ambiguous_forms() -> Mapping[str, frozenset[str]]:
    """Forms of nouns, verbs, adjectives and adverbs that have several senses, with their parts of speech."""
    words = lexicon("unseen")
    others = [words.adjectives.items, *(adverbs.items for adverbs in words.adverbs.values())]
    verbs = (frame.verb for frame in words.frames.items)
    every = chain(words.noun_words, _words_in(verbs), *others)
    return {
        form: frozenset(word.upos for word in meant)
        for form, meant in by_key((word.form, word) for word in every).items()
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
        other = tree if second.parallel else next(others)  # words of each text are exchanged by draws of its own
        firsts = [_switched(sentence, second, dice)[0] for sentence in tree]
        yield firsts, [_switched(sentence, second, dice)[1] for sentence in other]


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
