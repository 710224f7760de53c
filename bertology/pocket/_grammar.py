"""The grammar: verbal groups, noun phrases and clauses of one text, whose people, places and things recur in it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from bertology.pocket import _function_words as fw
from bertology.pocket import _words
from bertology.pocket._trees import Number, Part, Phrase, Tree, Word, first_word, head, phrase
from bertology.pocket._words import PLURAL, SINGULAR, Agreement, Dice, Form, Frame, Noun
from bertology.pocket._world import COMPANIES, COUNTRIES, TOWNS, Person, people, proper_noun


class Style(NamedTuple):
    """The tense, aspect, voice and polarity of a clause."""

    past: bool = False
    modal: Word | None = None
    perfect: bool = False
    progressive: bool = False
    passive: bool = False
    negated: bool = False
    inverted: bool = False
    """The first auxiliary stands before the subject, as in questions."""
    form: Form = "finite"
    """The form of the first word of the group."""
    contracted: bool = False
    """*n't* for *not*, and *'s*, *'re*, *'m* after a pronoun."""


class VerbalGroup(NamedTuple):
    """Auxiliaries with their relations, and the main verb (none after a copula)."""

    fronted: tuple[Part, ...]
    auxiliaries: tuple[Part, ...]
    main: tuple[Part, ...]


def verbal_group(
    verb: _words.Verb | None, agreement: Agreement, style: Style, *, after_pronoun: bool = False
) -> VerbalGroup:
    """The verbal group of a clause; if ``verb`` is None, that of a clause with a copula and a non-verbal predicate.

    With ``after_pronoun``, an auxiliary may be contracted with the preceding pronoun.
    """
    # Modal, perfect *have*, progressive *be*, passive *be*, copula: relation, word, and form of the next verb.
    links: list[tuple[object, str, _words.Verb | Word, Form]] = [
        (style.modal, "aux", style.modal or fw.DO, "base"),
        (style.perfect, "aux", fw.HAVE, "participle"),
        (style.progressive and verb, "aux", fw.BE, "gerund"),
        (style.passive, "aux:pass", fw.BE, "passive_participle"),
        (verb is None, "cop", fw.BE, "base"),
    ]
    chain = [link for link in links if link[0]]
    if not chain and style.form != "gerund" and (style.negated or style.inverted):
        chain = [(True, "aux", fw.DO, "base")]
    form, parts = style.form, list[Part]()
    short = style.contracted and after_pronoun and not (style.negated or style.inverted)
    for _, relation, lexeme, next_form in chain:
        if isinstance(lexeme, Word):
            parts.append(Part(relation, lexeme, "AM-MOD"))
        else:
            word = lexeme.inflected(form, agreement, past=style.past, short=short and not parts)
            parts.append(Part(relation, word))
        form = next_form
    if style.negated:
        first = parts[0].tree
        is_short = style.contracted and isinstance(first, Word) and first.form not in ("am", "may")
        if is_short and isinstance(first, Word):
            parts[0] = parts[0]._replace(tree=fw.CONTRACTED_MODALS.get(first.form, first))
        parts.insert(1, Part("advmod", fw.NT if is_short else fw.NOT, "AM-NEG"))
    n_fronted = (2 if style.negated and style.contracted else 1) if style.inverted else 0
    main = () if verb is None else (head(verb.inflected(form, agreement, past=style.past)),)
    return VerbalGroup(tuple(parts[:n_fronted]), tuple(parts[n_fronted:]), main)


def random_style(dice: Dice, *, inverted: bool = False, passive: bool = False) -> Style:
    """A finite style: mostly simple present or past, sometimes modal, perfect, progressive, negated."""
    draw = dice.below(100)
    return Style(
        past=dice.chance(0.25),
        modal=dice.one_of(fw.MODALS) if draw < 14 else None,
        perfect=14 <= draw < 24,
        progressive=24 <= draw < 38 and not passive,
        passive=passive,
        negated=dice.chance(0.12),
        inverted=inverted,
        contracted=dice.chance(0.5),
    )


class Nominal(NamedTuple):
    """A noun phrase with the properties that the rest of the sentence depends on."""

    tree: Phrase
    agreement: Agreement
    kind: str
    gender: str | None = None
    """``Fem``, ``Masc``, ``Neut``, or ``None`` for a person of either gender."""
    referent: int = 0
    pronominal: bool = False
    heavy: bool = False
    """Ends in a clause, so that what follows could be taken as part of it."""


N_THEMES = 6
"""Every theme has its own share of the people and nouns. Texts of one theme have words in common even where they do
not repeat one, as stories from a farm or a harbour do; this distinguishes the next sentence from any."""
_FAITHFUL = 0.85
"""Share of nouns outside the cast that are of the theme."""
_GENDERS = {
    **dict.fromkeys(("man", "boy", "king", "father", "brother", "uncle"), "Masc"),
    **dict.fromkeys(("woman", "girl", "queen", "mother", "sister", "aunt"), "Fem"),
}
_DETERMINERS = {
    "Sing": _words.Menu(
        [("the", 46), ("a", 26), ("this", 5), ("that", 8), ("every", 3), ("each", 1), ("no", 2), ("my", 4), ("'s", 9)]
    ),
    "Plur": _words.Menu(
        [
            *(("the", 42), ("", 14), ("these", 5), ("those", 5), ("some", 6), ("many", 5), ("few", 2), ("all", 2)),
            *(("two", 10), ("no", 2), ("my", 4), ("'s", 9)),
        ]
    ),
    "mass": _words.Menu([("the", 50), ("", 28), ("this", 3), ("that", 5), ("some", 6), ("my", 4), ("'s", 6)]),
}
_SPEAKERS = _words.Menu([(fw.I, 4), (fw.YOU, 3), (fw.WE, 3)])
_OTHERS = _words.Menu([(fw.SHE, 5), (fw.HE, 5), (fw.THEY, 4)])
_LOCATIVE = {
    "place": ("in", "near", "behind", "outside", "inside", "around", "at"),
    "object": ("on", "near", "under", "in", "behind", "beside"),
    "plant": ("near", "behind", "under", "beside"),
    "animal": ("near", "behind", "beside"),
    "person": ("near", "behind", "beside"),
}
_LOCATIVE_KINDS = _words.Menu([("place", 60), ("object", 14), ("plant", 8), ("animal", 7), ("person", 7)])
_CONTENTS = {"food": "stuff", "stuff": "stuff", "person": "part", "animal": "part"}
_CIRCUMSTANCES = ("before", "after", "during", "since", "until", "without")
_DIRECTIONS = ("to", "through", "across", "over", "under")
_ADVERB_ROLES = {"also": "AM-ADV", "just": "AM-ADV", "again": "AM-TMP"}
_PURE_OBJECTS = ("transitive", "intransitive", "prepositional")
Case: TypeAlias = Callable[[fw.Pronoun], Word]


def indefinite_article(following: Word) -> Word:
    """*a* or *an*, by the word that follows."""
    return fw.DET["an" if following.form[0] in "aeiou" else "a"]


def prepositional(preposition: str, nominal: Tree) -> Phrase:
    """A prepositional phrase: in Universal Dependencies its head is the noun, and the preposition marks its case."""
    return phrase("PP", Part("case", fw.PREPOSITIONS[preposition]), head(nominal))


def _pronominal(word: Word, agreement: Agreement, kind: str, gender: str | None, referent: int) -> Nominal:
    return Nominal(_np(word, referent=referent), agreement, kind, gender, referent, pronominal=True)


def _np(*words: Word, entity: str | None = None, referent: int = 0) -> Phrase:
    return Phrase("NP", (head(words[0]), *(Part("flat", word) for word in words[1:])), entity, referent)


def _ended(clause: Phrase, mark: Word = fw.PERIOD) -> Phrase:
    return clause._replace(parts=(*clause.parts, Part("punct", mark)))


def _may_corefer(one: Nominal, other: Nominal) -> bool:
    genders = {one.gender, other.gender}
    agree = one.agreement.number == "Plur" or len(genders) == 1 or (None in genders and "Neut" not in genders)
    return one.agreement == other.agreement and agree


class Scene:
    """The people, places and things that recur in a text, and its sentences, made at random.

    The ``hero`` is a person who must occur; a ``theme`` is numbered from 0, ``None`` for all themes.
    """

    def __init__(
        self, dice: Dice, lexicon: _words.Lexicon, *, hero: Person | None = None, theme: int | None = None
    ) -> None:
        self.dice, self.lexicon, self._theme = dice, lexicon, theme
        self.chance, self.choose, self.one_of, self.below = dice.chance, dice.choose, dice.one_of, dice.below
        cast = people() if theme is None else people()[theme::N_THEMES]
        self._people = [hero or self.one_of(cast), self.one_of(cast)]
        self._town, self._country = self.one_of(TOWNS), self.one_of(COUNTRIES)
        self._nouns = {kind: self._any_noun(kind) for kind in _words.KINDS}
        self._mentions: list[Nominal] = []
        self._referents = 0
        self._speakers: dict[Agreement, int] = {}
        self._kinds: _words.Menu[Callable[[int], Phrase]] = _words.Menu(
            [
                (lambda depth: _ended(self._clause(depth)), 50),
                (lambda depth: _ended(self._passive_clause(depth)), 8),
                (lambda depth: _ended(self._copular_clause(depth)), 13),
                (self._existential, 4),
                (self._with_subordinate, 7),
                (self._coordination, 5),
                (self._polar_question, 6),
                (self._subject_question, 3),
                (self._object_question, 3),
                (self._adverbial_question, 3),
                (self._imperative, 5),
            ]
        )

    def sentence(self, depth: int = 2) -> Phrase:
        """A whole sentence with its final punctuation; coreference is within a sentence."""
        self._mentions.clear()
        self._speakers.clear()
        self._referents = 0
        return self.choose(self._kinds)(depth)

    # Referents and nouns

    def _new(self) -> int:
        """A number for something not mentioned before."""
        self._referents += 1
        return self._referents

    def _speaker(self, agreement: Agreement) -> int:
        """The number of *I*, *you* or *we*, the same throughout a sentence."""
        if agreement not in self._speakers:
            self._speakers[agreement] = self._new()
        return self._speakers[agreement]

    def _remember(self, nominal: Nominal) -> Nominal:
        self._mentions.append(nominal)
        return nominal

    def _noun(self, kind: str) -> Noun:
        """A noun of a kind, often one that recurs in the text; the lemma of a noun is a kind with that noun only."""
        if kind in self._nouns and self.chance(0.5):
            return self._nouns[kind]
        return self._any_noun(kind)

    def _any_noun(self, kind: str) -> Noun:
        menu = self.lexicon.nouns[kind]
        if self._theme is not None and len(menu) >= N_THEMES and self.chance(_FAITHFUL):
            return self.one_of(menu.items[self._theme :: N_THEMES])
        return self.choose(menu)

    # Noun phrases

    def _subject(self, kinds: Sequence[str], depth: int, *, embedded: bool = False) -> Nominal:
        nominal = self._nominal(kinds, depth, 0.22, lambda pronoun: pronoun.subject, embedded=embedded, owner=None)
        if depth > 0 and self._ends_in_noun(nominal) and self.chance(0.45):
            return self._located(nominal, deep=True)
        return nominal

    def _object(
        self, kinds: Sequence[str], depth: int, *, embedded: bool = False, owner: Nominal | None = None
    ) -> Nominal:
        """A noun phrase after a verb or preposition; possessive pronouns take up the ``owner``, a clause's subject."""
        return self._nominal(kinds, depth, 0.12, lambda pronoun: pronoun.object, embedded=embedded, owner=owner)

    def _ends_in_noun(self, nominal: Nominal) -> bool:
        return nominal.tree.parts[-1].tree in self.lexicon.noun_words

    def _nominal(
        self, kinds: Sequence[str], depth: int, share: float, case: Case, *, embedded: bool, owner: Nominal | None
    ) -> Nominal:
        kind = kinds[0] if len(kinds) == 1 else self.one_of(kinds)
        may_be_pronoun = kind in ("person", "animal", "object", "food") and self.chance(0.35 if embedded else share)
        if may_be_pronoun and (pronoun := self._pronoun(tuple(kinds), case, embedded=embedded)):
            return self._remember(pronoun)
        if kind == "person" and self.chance(0.55):
            return self._name()
        if kind == "place" and self.chance(0.22):
            return self._place_name()
        if self.chance(0.015) and kind in ("object", "food", "event"):
            word, agreement = self.one_of(fw.DEMONSTRATIVES)
            return Nominal(_np(word), agreement, kind)
        if depth > 0 and self.chance(0.07):
            return self._conjuncts(kind, depth - 1)
        return self._common(kind, depth, owner=owner)

    def _pronoun(self, kinds: tuple[str, ...], case: Case, *, embedded: bool) -> Nominal | None:
        """A pronoun; in an embedded clause one for something mentioned before, if there is one without rivals."""
        if "person" in kinds and self.chance(0.4):
            chosen = self.choose(_SPEAKERS)
            referent = self._speaker(chosen.agreement)
        elif not embedded:
            chosen = self.choose(_OTHERS) if "person" in kinds else self.one_of((fw.IT, fw.THEY))
            referent = self._new()
        elif (mention := self._antecedent(kinds)) is not None:
            gender = mention.gender or self.one_of(("Fem", "Masc"))
            pronoun = fw.third_person_pronoun(mention.agreement.number, gender)
            return _pronominal(case(pronoun), mention.agreement, mention.kind, gender, mention.referent)
        else:
            return None
        return _pronominal(case(chosen), chosen.agreement, kinds[0], chosen.gender, referent)

    def _antecedent(self, kinds: tuple[str, ...]) -> Nominal | None:
        """A mention of this sentence that a third-person pronoun would refer to unambiguously."""
        for mention in self._mentions:
            is_fit = mention.kind in kinds and mention.referent and mention.agreement.person == 3
            if is_fit and len({one.referent for one in self._mentions if _may_corefer(one, mention)}) == 1:
                return mention
        return None

    def _reflexive(self, subject: Nominal) -> Nominal | None:
        """*herself*, *themselves* … for a clause's subject, where its gender is known."""
        for pronoun in (fw.I, fw.YOU, fw.WE, fw.SHE, fw.HE, fw.IT, fw.THEY):
            plural = pronoun.agreement.number == "Plur"
            if pronoun.agreement == subject.agreement and (plural or pronoun.gender == subject.gender):
                return _pronominal(pronoun.reflexive, *subject[1:5])
        return None

    def _name(self) -> Nominal:
        """Someone's name: *Anna*, *Anna Hill*; mostly of those who recur, never the same person twice in a sentence."""
        used = {mention.tree.parts[0].tree for mention in self._mentions}
        person = self._person()
        while proper_noun(person.name) in used:
            person = self._person() if len(used) < 2 else self.one_of(people())
        names = [person.name, person.surname] if self.chance(0.12) else [person.name]
        referent = self._new()
        tree = _np(*map(proper_noun, names), entity="PER", referent=referent)
        return self._remember(Nominal(tree, SINGULAR, "person", person.gender, referent))

    def _person(self) -> Person:
        return self.one_of(self._people if self.chance(0.85) else people())

    def _place_name(self) -> Nominal:
        """A town or country, or a company of a town: *the Norwick Bank*."""
        town = self._town if self.chance(0.6) else self.one_of(TOWNS)
        if self.chance(0.12):
            name = Part("compound", proper_noun(town)), head(proper_noun(self.one_of(COMPANIES)))
            tree = phrase("NP", Part("det", fw.DET["the"]), head(Phrase(None, name, entity="ORG")))
            return Nominal(tree, SINGULAR, "place", "Neut")
        if self.chance(0.22):
            town = self._country if self.chance(0.6) else self.one_of(COUNTRIES)
        referent = self._new()
        return Nominal(_np(proper_noun(town), entity="LOC", referent=referent), SINGULAR, "place", "Neut", referent)

    def _conjuncts(self, kind: str, depth: int) -> Nominal:
        """*the dog and the cat*, *Anna, Tom and the cook*."""
        first, *middle, last = (
            (self._name() if kind == "person" and self.chance(0.5) else self._common(kind, min(depth, 0))).tree
            for _ in range(3 if self.chance(0.2) else 2)
        )
        parts = [Part("conj", phrase(None, Part("punct", fw.COMMA), head(tree))) for tree in middle]
        parts.append(Part("conj", phrase(None, Part("cc", fw.AND), head(last))))
        referent = self._new()
        tree = Phrase("NP", (head(first), *parts), referent=referent)
        return self._remember(Nominal(tree, PLURAL, kind, None, referent))

    def _common(self, kind: str, depth: int, *, owner: Nominal | None = None, number: Number | None = None) -> Nominal:
        """A phrase around a common noun: determiner, adjectives, noun, prepositional phrase or relative clause."""
        noun = self._noun(kind)
        plural = noun.plural is not None and (self.chance(0.48) if number is None else number == "Plur")
        agreement = PLURAL if plural else SINGULAR
        word = noun.plural if noun.plural and plural else noun.singular
        premodifiers = self._premodifiers(noun.kind)
        following = first_word(premodifiers[0].tree) if premodifiers else word
        parts = [*self._determiner(noun, agreement, following, depth, owner), *premodifiers, head(word)]
        gender = _GENDERS.get(noun.lemma) if noun.kind in ("person", "role") else "Neut"
        referent = self._new()
        bare = Nominal(Phrase("NP", tuple(parts), referent=referent), agreement, noun.kind, gender, referent)
        if depth > 0:
            if self.chance(0.17) and (clause := self._relative_clause(bare, depth - 1)):
                return self._remember(_extended(bare, Part("acl:relcl", clause), heavy=True))
            if self.chance(0.16):
                bare = _extended(bare, Part("nmod", self._modifier(bare.kind)))
        return self._remember(bare)

    def _determiner(
        self, noun: Noun, agreement: Agreement, following: Word, depth: int, owner: Nominal | None
    ) -> list[Part]:
        choice = self.choose(_DETERMINERS["mass" if noun.plural is None else agreement.number])
        if choice == "'s" and depth > 0 and self.chance(0.5):
            return [Part("nmod:poss", self._possessor())]
        if choice in ("'s", "my"):
            return [Part("nmod:poss", self._possessive_pronoun(owner))]
        if choice == "two":
            return [Part("nummod", self.one_of(fw.NUMERALS))]
        if choice in fw.QUANTIFIERS:
            return [Part("amod", fw.QUANTIFIERS[choice])]
        return [Part("det", indefinite_article(following) if choice == "a" else fw.DET[choice])] if choice else []

    def _possessor(self) -> Phrase:
        owner = self._name() if self.chance(0.6) else self._common("person", 0)
        bare_plural = first_word(owner.tree.parts[-1].tree).form.endswith("s") and owner.agreement == PLURAL
        return phrase("NP", head(owner.tree), Part("case", fw.POSSESSIVE_PLURAL if bare_plural else fw.POSSESSIVE))

    def _possessive_pronoun(self, owner: Nominal | None) -> Phrase:
        if owner and owner.agreement.person == 3 and owner.referent and (owner.gender or owner.agreement == PLURAL):
            pronoun = fw.third_person_pronoun(owner.agreement.number, owner.gender or "")
            return _np(pronoun.possessive, referent=owner.referent)
        speaker = self.choose(_SPEAKERS)
        return _np(speaker.possessive, referent=self._speaker(speaker.agreement))

    def _premodifiers(self, kind: str) -> list[Part]:
        parts = []
        if self.chance(0.27):
            adjective: Tree = self.choose(self.lexicon.adjectives)
            if self.chance(0.08):
                adjective = phrase("ADJP", self._degree(), head(adjective))
            parts.append(Part("amod", adjective))
            if self.chance(0.1):
                parts.append(Part("amod", self.choose(self.lexicon.adjectives)))
        if kind in ("object", "place", "event", "tool") and self.chance(0.06):
            material = self.choose(self.lexicon.nouns[self.one_of(("plant", "object", "animal", "place"))])
            parts.append(Part("compound", material.singular))
        return parts

    def _degree(self) -> Part:
        return Part("advmod", self.choose(self.lexicon.adverbs["degree"]))

    def _modifier(self, kind: str) -> Phrase:
        """A prepositional phrase that can only belong to a noun: *of*, *from*, *about*, *with* a part or content."""
        if kind in _CONTENTS and self.chance(0.55):
            return prepositional("with", self._common(_CONTENTS[kind], 0).tree)
        if kind in ("event", "object") and self.chance(0.35):
            return prepositional("about", self._common(self.one_of(("animal", "place", "person")), 0).tree)
        if kind in ("person", "animal", "food", "stuff") or self.chance(0.3):
            place = self._place_name() if self.chance(0.4) else self._common("place", 0)
            return prepositional("from", place.tree)
        owner = self._name() if self.chance(0.3) else self._common(self.one_of(("person", "place")), 0)
        return prepositional("of", owner.tree)

    def _located(self, bare: Nominal, *, deep: bool = False) -> Nominal:
        """The noun phrase with a place after it that belongs to it: *the man in the park*."""
        return _extended(bare, Part("nmod", self._location(deep=deep)))

    def _location(self, *, deep: bool = False) -> Phrase:
        """A prepositional phrase of place; a deep one may hold another: *near the house behind the mill*."""
        kind = self.choose(_LOCATIVE_KINDS)
        preposition = self.one_of(_LOCATIVE[kind])
        if kind == "place" and self.chance(0.25):
            return prepositional("in", self._place_name().tree)
        place = self._common(kind, 0)
        return prepositional(preposition, (self._located(place) if deep and self.chance(0.25) else place).tree)

    # Main clauses

    def _existential(self, depth: int) -> Phrase:
        """Existence: *There is a light in the park*."""
        number: Number = "Plur" if self.chance(0.4) else "Sing"
        kind = self.one_of(("object", "animal", "plant", "tool", "food"))
        nominal = self._common(kind, 0, number=number)
        be = fw.EXISTENTIAL_BE[self.chance(0.4), nominal.agreement.number]
        parts = [Part("expl", _np(fw.EXISTENTIAL)), head(be), Part("nsubj", nominal.tree)]
        return _ended(phrase("S", *parts, Part("obl", self._location())))

    def _with_subordinate(self, depth: int) -> Phrase:
        """A clause under another: *Because the dog ran, the cook laughed*. Either may come first."""
        if self.chance(0.5):
            first = (self._subordinate(depth - 1, embedded=False), Part("punct", fw.COMMA))
            main = self._clause(depth - 1, embedded=True)
            return _ended(main._replace(parts=(*first, *main.parts)))
        main = self._clause(depth - 1)
        return _ended(main._replace(parts=(*main.parts, self._subordinate(depth - 1, embedded=True))))

    def _subordinate(self, depth: int, *, embedded: bool) -> Part:
        conjunction = Part("mark", self.one_of(tuple(fw.SUBORDINATORS.values())))
        return Part("advcl", phrase("SBAR", conjunction, head(self._clause(depth, embedded=embedded))), "AM-ADV")

    def _coordination(self, depth: int) -> Phrase:
        """Two clauses side by side: *The dog ran, but the cat slept*."""
        first, second = self._clause(depth - 1), self._clause(depth - 1, embedded=True)
        conjunction = self.one_of((fw.AND, fw.BUT, fw.AND, fw.OR))
        conjunct = phrase(None, Part("punct", fw.COMMA), Part("cc", conjunction), head(second))
        return _ended(phrase("S", head(first), Part("conj", conjunct)))

    def _polar_question(self, depth: int) -> Phrase:
        """A question for yes or no: *Did the cook see the dog?* or *Is the light old?*."""
        make = self._copular_clause if self.chance(0.3) else self._clause
        return _ended(make(depth, style=random_style(self.dice, inverted=True))._replace(label="SQ"), fw.QUESTION_MARK)

    def _subject_question(self, depth: int) -> Phrase:
        """A question for the subject: *Who saw the dog?* or *Which dogs run?*."""
        frame = self.choose(self.lexicon.frames)
        if "person" in frame.subjects and self.chance(0.6):
            subject = Nominal(phrase("WHNP", head(fw.WHO)), SINGULAR, "person")
        else:
            subject = self._which(self.one_of(frame.subjects))
        verb_phrase, _ = self._verb_phrase(frame, subject, depth, random_style(self.dice)._replace(negated=False))
        return _ended(phrase("SBARQ", Part("nsubj", subject.tree, "A0"), head(verb_phrase)), fw.QUESTION_MARK)

    def _object_question(self, depth: int) -> Phrase:
        """A question for the object: *What did the cook see?* or *Which book did Anna like?*."""
        kind = self.one_of(("object", "food", "person", "animal", "place"))
        frame = self.choose(self.lexicon.frames_by_object[kind])
        pronoun = phrase("WHNP", head(fw.WHO if kind == "person" else fw.WHAT))
        asked = Part("obj", pronoun if self.chance(0.6) else self._which(kind).tree, "A1")
        clause = self._clause_of(frame, depth - 1, random_style(self.dice, inverted=True), gapped=True)
        return _ended(phrase("SBARQ", asked, head(clause._replace(label="SQ"))), fw.QUESTION_MARK)

    def _adverbial_question(self, depth: int) -> Phrase:
        """A question for place, time or reason: *Where does the king sleep?*."""
        word, role = self.one_of(((fw.WHERE, "AM-LOC"), (fw.WHEN, "AM-TMP"), (fw.WHY, "AM-CAU")))
        clause = self._clause(depth - 1, style=random_style(self.dice, inverted=True))._replace(label="SQ")
        asked = Part("advmod", phrase("WHADVP", head(word)), role)
        return _ended(phrase("SBARQ", asked, head(clause)), fw.QUESTION_MARK)

    def _which(self, kind: str) -> Nominal:
        """An interrogative noun phrase: *which dogs*, *what book*."""
        noun = self._noun(kind)
        plural = noun.plural is not None and self.chance(0.4)
        determiner = Part("det", fw.DET["which" if self.chance(0.75) else "what"])
        word = noun.plural if plural and noun.plural else noun.singular
        return Nominal(phrase("WHNP", determiner, head(word)), PLURAL if plural else SINGULAR, kind)

    def _imperative(self, depth: int) -> Phrase:
        """A command: *Watch the light!* or *Don't open the box*."""
        frame = self._frame_for("person", (*_PURE_OBJECTS, "particle", "ditransitive"))
        style = Style(form="base", negated=self.chance(0.2), contracted=True)
        you = Nominal(_np(fw.YOU.subject), fw.YOU.agreement, "person", pronominal=True)
        verb_phrase, _ = self._verb_phrase(frame, you, depth - 1, style)
        return _ended(phrase("S", head(verb_phrase)), fw.EXCLAMATION if self.chance(0.5) else fw.PERIOD)

    # Clauses

    def _clause(self, depth: int, *, style: Style | None = None, embedded: bool = False) -> Phrase:
        """A finite active clause."""
        style = style or random_style(self.dice)
        return self._clause_of(self.choose(self.lexicon.frames), depth, style, embedded=embedded)

    def _clause_of(
        self, frame: Frame, depth: int, style: Style, *, embedded: bool = False, gapped: bool = False
    ) -> Phrase:
        subject = self._subject(frame.subjects, depth, embedded=embedded)
        verb_phrase, fronted = self._verb_phrase(frame, subject, depth, style, embedded=embedded, gapped=gapped)
        opening = []
        if not (embedded or fronted or gapped) and self.chance(0.05):
            opening = [self._adverbial("sentence", "AM-TMP"), Part("punct", fw.COMMA)]
        return phrase("S", *opening, *fronted, Part("nsubj", subject.tree, "A0"), head(verb_phrase))

    def _passive_clause(self, depth: int) -> Phrase:
        kind = self.one_of(("person", "animal", "object", "food", "place"))
        frame = self.choose(self.lexicon.frames_by_object[kind])
        patient = self._subject((kind,), depth)
        group = verbal_group(frame.verb, patient.agreement, random_style(self.dice, passive=True))
        parts = [*group.auxiliaries, *group.main]
        if self.chance(0.6):
            parts.append(Part("obl:agent", prepositional("by", self._object(frame.subjects, depth - 1).tree), "A0"))
        elif not patient.heavy:
            parts.append(Part("obl", self._location(), "AM-LOC"))
        return phrase("S", Part("nsubj:pass", patient.tree, "A1"), head(phrase("VP", *parts)))

    def _copular_clause(self, depth: int, *, style: Style | None = None) -> Phrase:
        kind = self.one_of(("person", "animal", "object", "place", "food", "plant", "tool", "event"))
        subject = self._subject((kind,), depth)
        style = (style or random_style(self.dice))._replace(progressive=False)
        group = verbal_group(None, subject.agreement, style, after_pronoun=subject.pronominal)
        share = self.below(10)
        if share < 3 and subject.kind == "person":
            predicate = self._common("role", 0, number=subject.agreement.number).tree
        elif share < 5:
            predicate = self._location()
        else:
            adjective = head(self.choose(self.lexicon.adjectives))
            predicate = phrase("ADJP", *([self._degree()] if self.chance(0.25) else []), adjective)
        verb_phrase = phrase("VP", *group.auxiliaries, head(predicate))
        return phrase("S", *group.fronted, Part("nsubj", subject.tree), head(verb_phrase))

    def _relative_clause(self, antecedent: Nominal, depth: int) -> Phrase | None:
        """A relative clause on a subject, an object or a place; ``None`` where no verb takes the antecedent."""
        share, kind, words = self.below(100), antecedent.kind, self.lexicon
        if kind == "place" and share < 30:
            place = phrase("WHADVP", head(fw.WHERE_RELATIVE))
            return phrase("RelC", Part("advmod", place), head(self._clause(depth, embedded=True)))
        if share < 65 and len(words.frames_by_subject[kind]):
            # The antecedent is its subject: *the dogs that chase the cat*.
            frame = self.choose(words.frames_by_subject[kind])
            verb_phrase, _ = self._verb_phrase(frame, antecedent, depth, random_style(self.dice), embedded=True)
            subject = phrase("WHNP", head(self._relative_pronoun(kind)))
            return Phrase("RelC", (Part("nsubj", subject), head(verb_phrase)), gap="A0")
        if not len(words.frames_by_object[kind]):
            return None
        # The antecedent is its object: *the dog that the cat saw*. Its subject may hold another: centre embedding.
        frame = self.choose(words.frames_by_object[kind])
        clause = self._clause_of(frame, depth, random_style(self.dice), embedded=True, gapped=True)
        if self.chance(0.25):
            return Phrase("RelC", (head(clause),), gap="A1")
        pronoun = fw.RELATIVE["whom"] if kind == "person" and self.chance(0.15) else self._relative_pronoun(kind)
        return Phrase("RelC", (Part("obj", phrase("WHNP", head(pronoun))), head(clause)), gap="A1")

    def _relative_pronoun(self, kind: str) -> Word:
        return fw.RELATIVE["that" if self.chance(0.55) else "who" if kind in ("person", "role") else "which"]

    # Verb phrases

    def _verb_phrase(
        self, frame: Frame, subject: Nominal, depth: int, style: Style, *, embedded: bool = False, gapped: bool = False
    ) -> tuple[Phrase, tuple[Part, ...]]:
        """A verb with what it takes, and the auxiliary that a question fronts.

        The subject is what it agrees with, and what reflexives and possessives take up; ``gapped`` leaves out a
        direct object that stands elsewhere (relative clause, question).
        """
        group = verbal_group(frame.verb, subject.agreement, style, after_pronoun=subject.pronominal)
        parts = list(group.auxiliaries)
        if self.chance(0.07) and style.form == "finite":
            parts.append(self._adverbial("frequency", "AM-TMP"))
        complements, closed = self._complements(frame, subject, depth, embedded=embedded, gapped=gapped)
        parts += [*group.main, *complements]
        if not closed:
            parts += self._adjuncts(frame, subject, depth)
        is_simple = style == Style(past=style.past, contracted=style.contracted)
        may_go_on = depth > 1 and is_simple and not (closed or gapped or embedded)
        if may_go_on and subject.kind in ("person", "animal") and self.chance(0.1):
            # A second verb phrase with the same subject: *ran and saw the cat*.
            second, _ = self._verb_phrase(self._frame_for(subject.kind, _PURE_OBJECTS), subject, 0, style)
            parts.append(Part("conj", phrase(None, Part("cc", fw.AND), head(second))))
        return phrase("VP", *parts), group.fronted

    def _complements(
        self, frame: Frame, subject: Nominal, depth: int, *, embedded: bool, gapped: bool
    ) -> tuple[list[Part], bool]:
        """Complements of the verb, and whether the phrase is closed to adjuncts because they would be ambiguous."""
        if frame.pattern == "intransitive":
            return [], False
        if frame.pattern == "that":
            clause = self._clause(max(depth - 1, 0), embedded=True)
            marker = [Part("mark", fw.THAT)] if self.chance(0.8) else []
            return [Part("ccomp", phrase("SBAR", *marker, head(clause)), "A1")], True
        if frame.pattern == "to":
            return [Part("xcomp", self._infinitive(subject, depth), "A1")], True
        if gapped:
            return [], False
        nominal = self._object_of(frame, subject, depth, embedded=embedded)
        thing = Part("obj", nominal.tree, "A1")
        if frame.pattern == "transitive":
            return [thing], nominal.heavy
        if frame.pattern == "prepositional":
            role = "AM-DIR" if frame.particle in _DIRECTIONS else "AM-LOC" if "place" in frame.objects else "A1"
            place = Part("obl", prepositional(frame.particle, nominal.tree), role)
            return [place], frame.particle not in _DIRECTIONS
        if frame.pattern == "particle":
            particle = Part("compound:prt", phrase("PRT", head(fw.PARTICLES[frame.particle])))
            return ([thing, particle] if nominal.pronominal or self.chance(0.4) else [particle, thing]), True
        # Either *gave the dog a bone* or *gave a bone to the dog*.
        receiver_last = nominal.pronominal or self.chance(0.5)
        receiver = self._object(("person",), 0).tree
        if receiver_last:
            return [thing, Part("obl", prepositional("to", receiver), "A2")], True
        return [Part("iobj", receiver, "A2"), thing], True

    def _object_of(self, frame: Frame, subject: Nominal, depth: int, *, embedded: bool) -> Nominal:
        is_reflexive = frame.pattern == "transitive" and subject.kind in frame.objects and self.chance(0.05)
        if is_reflexive and (reflexive := self._reflexive(subject)):
            return reflexive
        nominal = self._object(frame.objects, depth - 1, embedded=embedded, owner=subject)
        if frame.stative and self._ends_in_noun(nominal) and self.chance(0.3):
            nominal = self._located(nominal)
        return nominal._replace(heavy=nominal.heavy or frame.stative)

    def _infinitive(self, subject: Nominal, depth: int) -> Phrase:
        frame = self._frame_for(subject.kind if subject.kind in ("person", "animal") else "person", _PURE_OBJECTS)
        complements, closed = self._complements(frame, subject, depth - 1, embedded=True, gapped=False)
        adjuncts = [] if closed else self._adjuncts(frame, subject, 0)
        return phrase("VP", Part("mark", fw.TO), head(frame.verb.base), *complements, *adjuncts)

    def _frame_for(self, subject: str, patterns: tuple[str, ...]) -> Frame:
        while True:
            frame = self.choose(self.lexicon.frames_by_subject[subject])
            if frame.pattern in patterns:
                return frame

    def _adjuncts(self, frame: Frame, subject: Nominal, depth: int) -> list[Part]:
        """Adverbs and prepositional phrases that say how, where and when."""
        parts = []
        if frame.instrumental and self.chance(0.3):
            tool = self._common("tool", 0, owner=subject)
            parts.append(Part("obl", prepositional("with", tool.tree), "AM-MNR"))
        if self.chance(0.12):
            parts.append(self._adverbial("manner", "AM-MNR"))
        elif self.chance(0.1):
            parts.append(self._adverbial("place", "AM-LOC"))
        elif self.chance(0.22) and not frame.stative:
            parts.append(Part("obl", self._location(), "AM-LOC"))
        if self.chance(0.08):
            preposition = self.one_of(_CIRCUMSTANCES)
            circumstance = prepositional(preposition, self._common("event", 0).tree)
            parts.append(Part("obl", circumstance, "AM-MNR" if preposition == "without" else "AM-TMP"))
        elif self.chance(0.04) and depth > 0:
            likeness = self._common(subject.kind, 0, number=subject.agreement.number)
            parts.append(Part("obl", prepositional("like", likeness.tree), "AM-MNR"))
        elif self.chance(0.03):
            parts.append(self._adverbial("sentence", "AM-TMP"))
        return parts

    def _adverbial(self, use: str, role: str) -> Part:
        """An adverb; *today* and *yesterday* are nouns that do an adverb's work."""
        word = self.choose(self.lexicon.adverbs[use])
        role = _ADVERB_ROLES.get(word.form, role)
        if word.upos == "NOUN":
            return Part("obl:unmarked", _np(word), role)
        return Part("advmod", phrase("ADVP", head(word)), role)


def _extended(bare: Nominal, part: Part, *, heavy: bool = False) -> Nominal:
    """The noun phrase with a modifier after it: both the inner and the whole phrase are constituents."""
    whole = Phrase("NP", (head(bare.tree._replace(referent=0)), part), referent=bare.referent)
    return bare._replace(tree=whole, heavy=heavy)
