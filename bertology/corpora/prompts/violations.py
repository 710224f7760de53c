"""Minimal pairs made of a treebank: one word exchanged for a form of its lemma that does not agree, or words moved.

A pair is a sentence as it stands and the same with a violation. Forms are those that the treebank itself attests, and
rules those that hold in it: where two words often differ in a feature, the language does not agree there.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bertology._files import digest
from bertology._names import by_key
from bertology.corpora._corpus import Corpus
from bertology.corpora._sentences import Sentence, key_values
from bertology.corpora.prompts._items import ClozeItem, LeftOut
from bertology.errors import CorpusError

_SHARE = 0.95
"""Least share of word pairs whose values are equal where a treebank agrees."""
_LEAST = 10
"""Least number of such word pairs."""
_NOUNS = ("NOUN", "PROPN")
_SUBJECT = "subject–verb"
_UNUSED = {"Typo", "Foreign", "Abbr", "Style"}
"""Features of words that are no model for others: misspelled, foreign, abbreviated, of a style of their own."""
_FREQUENT, _RARE = 20, 0.002
"""A form that is seen once, or that so small a share of the words of its lemma has, counts as misspelled where the
lemma is seen so often."""
_BESIDE = frozenset("-'’")
"""Signs that join a word with its neighbour, whose form may depend on it."""


class _Word(NamedTuple):
    form: str
    """In lower case."""
    lemma: str
    upos: str
    features: frozenset[tuple[str, str]]

    def value(self, feature: str) -> str:
        """Its value, empty where it has none or several; nouns are of the third person."""
        found = dict(self.features).get(feature, "3" if feature == "Person" and self.upos in _NOUNS else "")
        return "" if "," in found else found

    def with_value(self, feature: str, value: str) -> "_Word":
        return self._replace(features=frozenset({**dict(self.features), feature: value}.items()))


class _Agreement(NamedTuple):
    """A word that should agree with another one in a feature; places of both in the sentence, from 0."""

    rule: str
    target: int
    controller: int
    feature: str

    @property
    def group(self) -> str:
        return f"{self.rule} {self.feature.lower()}"


_Forms = dict[tuple[str, str], dict[str, Counter[frozenset[tuple[str, str]]]]]


class _Treebank:
    """What a treebank attests: forms by lemma and part of speech, with their features, and where it agrees."""

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        self.forms: _Forms = defaultdict(lambda: defaultdict(Counter))
        self.equal: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
        """Numbers of word pairs that have one value of a feature, and two, by group and lemma of the controller; of all
        lemmas under the empty one."""
        for sentence in sentences:
            words = _words(sentence)
            for word in words:
                if not _UNUSED & dict(word.features).keys() and word.form.isalpha():
                    self.forms[word.lemma, word.upos][word.form][word.features] += 1
            for one in _agreements(sentence, words):
                is_equal = words[one.target].value(one.feature) == words[one.controller].value(one.feature)
                for lemma in ("", words[one.controller].lemma):
                    self.equal[one.group, lemma][is_equal] += 1

    def trouble(self, one: _Agreement, controller: _Word) -> str:
        """Why two words are not asked about; empty where the treebank agrees, as do words of the controller's lemma."""
        (equal, of_lemma) = (self.equal[one.group, lemma] for lemma in ("", controller.lemma))
        if equal.total() < _LEAST or equal[True] < _SHARE * equal.total():
            return f"agreement in {equal[True]} of {equal.total()} word pairs"
        if of_lemma[True] < _SHARE * of_lemma.total():
            return "lemma seen without agreement"
        if controller.upos == "PROPN" and one.rule == _SUBJECT and one.feature == "Number":
            return "number of a name"
        return ""

    def violation(self, one: _Agreement, words: Sequence[_Word]) -> tuple[str, str]:
        """The most frequent form of the target that does not agree, empty without one; and why there is none."""
        target, controller = words[one.target], words[one.controller]
        own, known = target.value(one.feature), self.forms.get((target.lemma, target.upos), {})
        of_lemma = self.forms.get((controller.lemma, controller.upos), {})
        # A noun may have one form in both numbers, and both genders in any form.
        seen = set().union(*of_lemma.values()) if one.feature == "Gender" else of_lemma.get(controller.form, ())
        others = {dict(features).get(one.feature, "") for features in seen} - {own}
        found, n = Counter[str](), sum(bundles.total() for bundles in known.values())
        most_misspelled = max(1, int(_RARE * n)) if n >= _FREQUENT else 0
        for form, bundles in known.items():
            may_be_own = any(self._fits(target, dict(features), one.feature, own) for features in bundles)
            if form == target.form or may_be_own or bundles.total() <= most_misspelled:
                continue
            values = {dict(features).get(one.feature, "") for features in bundles} - others - {"", own}
            wanted = {target.with_value(one.feature, value).features for value in values}
            # Its own form may be that of the other value too.
            if wanted & bundles.keys() - known.get(target.form, {}).keys():
                found[form] = bundles.total()
        if not found:
            return "", "no form of a violation"
        return max(found, key=lambda form: (found[form], form)), ""

    @staticmethod
    def _fits(target: _Word, features: dict[str, str], feature: str, own: str) -> bool:
        """Whether a form with such features could stand where the target does."""
        same = (features.get(name, target.value(name)) == target.value(name) for name in ("Person", "Gender", "Case"))
        return own in features.get(feature, own).split(",") and all(same)


def agreement_pairs(corpus: Corpus) -> Iterator[ClozeItem | LeftOut]:
    """Sentences of test (of all splits without one), and the same with one word that does not agree.

    - ``subject–verb number`` and ``person``: a finite verb or auxiliary and its subject. The person is exchanged only
      where the subject is singular or a pronoun (*los españoles tenemos* is Spanish).
    - ``adjective–noun gender``, ``number`` and ``case``: an attributive adjective and its noun.

    The form put in has the lemma, part of speech and other features of the one that stands there, and no reading in the
    treebank that would agree. Left out are subjects and nouns that are coordinated, often seen without agreement, or do
    not tell the values apart (*sheep*), names as subjects in the number (*Italy are winning*), words next to a hyphen
    or an apostrophe, and adjectives that could belong to a noun further up.

    Raises:
        CorpusError: words have no features, lemmas, parts of speech or heads.
    """
    _check_layers(corpus, "feats", "lemma", "upos", "deprel")
    treebank = _Treebank(sentence for split in corpus.splits.values() for sentence in split)
    for sentence in _asked(corpus):
        words = _words(sentence)
        for one in _agreements(sentence, words):
            if words[one.target].value(one.feature) != words[one.controller].value(one.feature):
                continue
            name = f"{sentence.id}:{one.target + 1}:{one.feature.lower()}"
            reason = treebank.trouble(one, words[one.controller])
            form = ""
            if not reason and not _stands_apart(sentence, one.target):
                reason = "joined with a neighbour"
            if not reason and _may_belong_elsewhere(sentence, words, one):
                reason = "adjective of another noun"
            if not reason:
                form, reason = treebank.violation(one, words)
            if reason:
                yield LeftOut(name, one.group, reason)
            else:
                form = _capitalised_as(sentence.words[one.target], form)
                other = _with_forms(sentence, {one.target: form})
                yield ClozeItem(name, sentence.id, one.group, sentence.text, other=other, kind="treebank")


def perturbed_pairs(corpus: Corpus) -> Iterator[ClozeItem]:
    """Sentences of test (of all splits without one), and the same in another order or without endings.

    - ``words scrambled``: words change places, marks of punctuation stay.
    - ``word exchanged with its head``: one word and its head change places.
    - ``words as lemmas``: each word is written as its lemma.

    Spaces stay where they are, and words keep their capitals, but for the first word of the sentence. Which words move
    depends on the sentence alone.

    Raises:
        CorpusError: words have no lemmas or heads.
    """
    _check_layers(corpus, "lemma")
    for sentence in _asked(corpus):
        yield from _perturbed(sentence, _words(sentence))


def _asked(corpus: Corpus) -> Iterable[Sentence]:
    return corpus.splits.get("test") or (sentence for split in corpus.splits.values() for sentence in split)


def _check_layers(corpus: Corpus, *needed: str) -> None:
    found = {name for split in corpus.splits.values() for name in split.layers}
    if any(split.heads is not None for split in corpus.splits.values()):
        found.add("heads")
    if missing := [name for name in (*needed, "heads") if name not in found]:
        raise CorpusError(f"{corpus.name}: no {', '.join(missing)}: pairs are made of a treebank, such as CoNLL-U")


def _words(sentence: Sentence) -> list[_Word]:
    empty = (None,) * len(sentence)
    layers = (sentence.layers.get(name, empty) for name in ("lemma", "upos", "feats"))
    return [
        _Word(form.lower(), lemma or "", upos or "", frozenset(key_values(features).items()))
        for form, lemma, upos, features in zip(sentence.words, *layers, strict=True)
    ]


def _agreements(sentence: Sentence, words: Sequence[_Word]) -> Iterator[_Agreement]:
    """Words that should agree by their relation, in features that both have."""
    heads, relations = sentence.heads or (), sentence.layers.get("deprel", ())
    below = by_key((head - 1, place) for place, head in enumerate(heads))
    coordinated = {head - 1 for head, relation in zip(heads, relations, strict=True) if relation == "conj"}
    for place, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        if head == 0 or place in coordinated:
            continue
        if (relation or "").partition(":")[0] == "nsubj" and relation != "nsubj:outer":
            places = [head - 1, *(one for one in below[head - 1] if words[one].upos == "AUX")]
            finite = [one for one in places if ("VerbForm", "Fin") in words[one].features]
            is_named = words[place].upos in _NOUNS or ("PronType", "Prs") in words[place].features
            pairs = [(_SUBJECT, one, place) for one in finite[-1:] if is_named]
        elif relation == "amod" and words[place].upos == "ADJ" and head - 1 not in coordinated:
            pairs = [("adjective–noun", place, head - 1)] if words[head - 1].upos in _NOUNS else []
        else:
            continue
        for rule, target, controller in pairs:
            is_plural_noun = words[controller].upos in _NOUNS and words[controller].value("Number") != "Sing"
            for feature in ("Number", "Person") if rule == _SUBJECT else ("Gender", "Number", "Case"):
                has_both = all(words[one].value(feature) for one in (target, controller))
                if has_both and not (feature == "Person" and is_plural_noun):
                    yield _Agreement(rule, target, controller, feature)


def _may_belong_elsewhere(sentence: Sentence, words: Sequence[_Word], one: _Agreement) -> bool:
    """Whether an adjective after its noun could belong to one before that: *réduction du flux sanguin(e)*."""
    own, heads, place = words[one.target].value(one.feature), sentence.heads or (), one.controller
    while one.rule != _SUBJECT and one.target > one.controller and heads[place] > 0:
        place = heads[place] - 1
        if place < one.controller and words[place].upos in _NOUNS and words[place].value(one.feature) not in ("", own):
            return True
    return False


def _stands_apart(sentence: Sentence, place: int) -> bool:
    """Whether a word is written as itself, with nothing joined to it."""
    (start, end), text = sentence.spans[place], sentence.text
    beside = {text[start - 1 : start], text[end : end + 1]}
    return text[start:end] == sentence.words[place] and text[start:end].isalpha() and not beside & _BESIDE


def _with_forms(sentence: Sentence, forms: Mapping[int, str]) -> str:
    """The text with other forms at some places."""
    parts, last = [], 0
    for place in sorted(forms):
        start, end = sentence.spans[place]
        parts += [sentence.text[last:start], forms[place]]
        last = end
    return "".join([*parts, sentence.text[last:]])


def _capitalised_as(old: str, new: str) -> str:
    """A form with the capitals of the one that stood there."""
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def _perturbed(sentence: Sentence, words: Sequence[_Word]) -> Iterator[ClozeItem]:
    places = [place for place in range(len(words)) if _stands_apart(sentence, place)]
    chance = random.Random(digest([sentence.id.encode(), sentence.text.encode()]))
    shuffled = chance.sample(places, len(places))
    ties = [
        (place, head - 1)
        for place, head in enumerate(sentence.heads or ())
        if head and {place, head - 1} <= {*places} and words[place].form != words[head - 1].form
    ]
    one, other = chance.choice(ties) if ties else (0, 0)
    # A word keeps its capitals, but for the one that the beginning of the sentence gives it.
    own = list(sentence.words)
    if own and not words[0].lemma[:1].isupper():
        own[0] = words[0].form
    made = {
        "words scrambled": {place: own[source] for place, source in zip(places, shuffled, strict=True)},
        "word exchanged with its head": {one: own[other], other: own[one]} if ties else {},
        "words as lemmas": {place: words[place].lemma for place in places if words[place].lemma.isalpha()},
    }
    for group, forms in made.items():
        if 0 in forms:
            forms[0] = _capitalised_as(sentence.words[0][:1], forms[0])
        if (text := _with_forms(sentence, forms)) != sentence.text:
            yield ClozeItem(f"{sentence.id}:{group}", sentence.id, group, sentence.text, other=text, kind="treebank")
