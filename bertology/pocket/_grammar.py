"""The grammar: verbal groups, noun phrases and clauses, made at random for one scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from bertology.pocket import _function_words as fw
from bertology.pocket._words import (
    COMPANIES,
    COUNTRIES,
    PLURAL,
    SINGULAR,
    TOWNS,
    Agreement,
    Dice,
    Frame,
    Menu,
    Noun,
    Number,
    Part,
    Phrase,
    Tree,
    Verb,
    Word,
    first_word,
    head,
    phrase,
)
from bertology.pocket._world import Nominal, Scene, people, proper_noun

Form = Literal["finite", "base", "participle", "passive participle", "gerund"]
_UNCONTRACTED = ("am", "may")


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


_Link: TypeAlias = tuple[str, fw.Auxiliary | Word, Form]
"""The relation of one auxiliary of the chain, the auxiliary, and the form that it demands of the next verb."""


def verbal_group(verb: Verb | None, agreement: Agreement, style: Style, *, after_pronoun: bool = False) -> VerbalGroup:
    """The verbal group of a clause; without a verb, of one with a copula and another predicate.

    A short form may be glued to a pronoun that precedes (``after_pronoun``).
    """
    form: Form = style.form
    parts: list[Part] = []
    for relation, lexeme, next_form in _chain(verb, style):
        short = style.contracted and after_pronoun and not parts and not (style.negated or style.inverted)
        role = "AM-MOD" if isinstance(lexeme, Word) else None
        parts.append(Part(relation, _auxiliary_form(lexeme, form, agreement, style, short=short), role))
        form = next_form
    main = () if verb is None else (head(_verb_form(verb, form, agreement, past=style.past)),)
    if style.negated:
        parts[0:1] = _negated(parts[0], contracted=style.contracted)
    n_fronted = (2 if style.negated and style.contracted else 1) if style.inverted else 0
    return VerbalGroup(tuple(parts[:n_fronted]), tuple(parts[n_fronted:]), main)


def _chain(verb: Verb | None, style: Style) -> list[_Link]:
    """The auxiliaries in order: modal, perfect *have*, progressive *be*, passive *be*, copula; *do* where none is."""
    do: _Link = ("aux", fw.DO, "base")
    links: tuple[tuple[object, _Link], ...] = (
        (style.modal, ("aux", style.modal or fw.DO, "base")),
        (style.perfect, ("aux", fw.HAVE, "participle")),
        (style.progressive and verb, ("aux", fw.BE, "gerund")),
        (style.passive, ("aux:pass", fw.BE, "passive participle")),
        (verb is None, ("cop", fw.BE, "base")),
    )
    needs_do = style.form != "gerund" and (style.negated or style.inverted)
    return [link for is_there, link in links if is_there] or [do] * needs_do


def _negated(first: Part, *, contracted: bool) -> list[Part]:
    """The first auxiliary with its negation: *is not*, *isn't*, *can't*."""
    word = first.tree
    if not contracted or not isinstance(word, Word) or word.form in _UNCONTRACTED:
        return [first, Part("advmod", fw.NOT, "AM-NEG")]
    return [first._replace(tree=fw.CONTRACTED_MODALS.get(word.form, word)), Part("advmod", fw.NT, "AM-NEG")]


def _auxiliary_form(
    lexeme: fw.Auxiliary | Word, form: Form, agreement: Agreement, style: Style, *, short: bool
) -> Word:
    if isinstance(lexeme, Word):
        return lexeme
    if form == "finite":
        if style.past:
            return lexeme.past[agreement]
        return lexeme.short[agreement] if short and lexeme.short else lexeme.present[agreement]
    if form == "participle" and lexeme.participle is not None:
        return lexeme.participle
    if form == "gerund":
        return fw.BEING
    return lexeme.base


def _verb_form(verb: Verb, form: Form, agreement: Agreement, *, past: bool) -> Word:
    if form == "finite":
        return verb.past if past else verb.present[agreement]
    return {
        "base": verb.base,
        "participle": verb.participle,
        "passive participle": verb.passive_participle,
        "gerund": verb.gerund,
    }[form]


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


_GENDERS = dict.fromkeys(("man", "boy", "king", "father", "brother", "uncle"), "Masc") | dict.fromkeys(
    ("woman", "girl", "queen", "mother", "sister", "aunt"), "Fem"
)
_PEOPLE = ("person", "role")
_SINGULAR_DETERMINERS = Menu(
    [("the", 46), ("a", 26), ("this", 5), ("that", 8), ("every", 3), ("each", 1), ("no", 2), ("my", 4), ("'s", 9)]
)
_PLURAL_DETERMINERS = Menu(
    [
        *(("the", 42), ("", 14), ("these", 5), ("those", 5), ("some", 6), ("many", 5), ("few", 2), ("all", 2)),
        *(("two", 10), ("no", 2), ("my", 4), ("'s", 9)),
    ]
)
_MASS_DETERMINERS = Menu([("the", 50), ("", 28), ("this", 3), ("that", 5), ("some", 6), ("my", 4), ("'s", 6)])
_SPEAKERS = Menu([(fw.I, 4), (fw.YOU, 3), (fw.WE, 3)])
_OTHERS = Menu([(fw.SHE, 5), (fw.HE, 5), (fw.THEY, 4)])
_LOCATIVE = {
    "place": ("in", "near", "behind", "outside", "inside", "around", "at"),
    "object": ("on", "near", "under", "in", "behind", "beside"),
    "plant": ("near", "behind", "under", "beside"),
    "animal": ("near", "behind", "beside"),
    "person": ("near", "behind", "beside"),
}
_LOCATIVE_KINDS = Menu([("place", 60), ("object", 14), ("plant", 8), ("animal", 7), ("person", 7)])
_CONTENTS = {"food": "stuff", "stuff": "stuff", "person": "part", "animal": "part"}


class Nominals:
    """Makes noun phrases for one scene, with relative clauses that are made of noun phrases in turn."""

    def __init__(self, scene: Scene, relative_clause: Callable[[Nominal, int], Phrase | None]) -> None:
        self.scene = scene
        self.dice = scene.dice
        self._relative_clause = relative_clause

    def subject(self, kinds: Sequence[str], depth: int, *, embedded: bool = False) -> Nominal:
        """A noun phrase in subject position."""
        nominal = self._nominal(kinds, depth, 0.22, lambda pronoun: pronoun.subject, embedded=embedded)
        if depth > 0 and nominal.tree.parts[-1].tree in self.scene.noun_words and self.dice.chance(0.45):
            return self.located(nominal, deep=True)
        return nominal

    def object(
        self, kinds: Sequence[str], depth: int, *, embedded: bool = False, owner: Nominal | None = None
    ) -> Nominal:
        """A noun phrase after a verb or preposition; possessive pronouns take up the ``owner``, a clause's subject."""
        return self._nominal(kinds, depth, 0.12, lambda pronoun: pronoun.object, embedded=embedded, owner=owner)

    def _nominal(
        self,
        kinds: Sequence[str],
        depth: int,
        pronoun_share: float,
        case: Callable[[fw.Pronoun], Word],
        *,
        embedded: bool,
        owner: Nominal | None = None,
    ) -> Nominal:
        dice = self.dice
        kind = kinds[0] if len(kinds) == 1 else dice.one_of(kinds)
        wants_pronoun = kind in ("person", "animal", "object", "food") and dice.chance(
            0.35 if embedded else pronoun_share
        )
        if wants_pronoun and (pronoun := self._pronoun(tuple(kinds), case, embedded=embedded)):
            return self.scene.remember(pronoun)
        if kind == "person" and dice.chance(0.55):
            return self.name()
        if kind == "place" and dice.chance(0.22):
            return self.place_name()
        if dice.chance(0.015) and kind in ("object", "food", "event"):
            word, agreement = dice.one_of(fw.DEMONSTRATIVES)
            return Nominal(phrase("NP", head(word)), agreement, kind)
        if depth > 0 and dice.chance(0.07):
            return self.coordination(kind, depth - 1)
        return self.common(kind, depth, owner=owner)

    def _pronoun(self, kinds: tuple[str, ...], case: Callable[[fw.Pronoun], Word], *, embedded: bool) -> Nominal | None:
        if "person" in kinds and self.dice.chance(0.4):
            chosen = self.dice.choose(_SPEAKERS)
            referent = self.scene.speaker(chosen.agreement)
        elif embedded:
            return self._taken_up(kinds, case)
        else:
            chosen = self.dice.choose(_OTHERS) if "person" in kinds else self.dice.one_of((fw.IT, fw.THEY))
            referent = self.scene.new_referent()
        return _pronominal(case(chosen), chosen.agreement, kinds[0], chosen.gender, referent)

    def _taken_up(self, kinds: tuple[str, ...], case: Callable[[fw.Pronoun], Word]) -> Nominal | None:
        """A pronoun for something mentioned before in the sentence, if there is one without rivals."""
        mention = self.scene.antecedent(kinds)
        if mention is None:
            return None
        gender = mention.gender or self.dice.one_of(("Fem", "Masc"))
        pronoun = fw.third_person_pronoun(mention.agreement.number, gender)
        return _pronominal(case(pronoun), mention.agreement, mention.kind, gender, mention.referent)

    def reflexive(self, subject: Nominal) -> Nominal | None:
        """*herself*, *themselves* … for a clause's subject, where its gender is known."""
        for pronoun in (fw.I, fw.YOU, fw.WE, fw.SHE, fw.HE, fw.IT, fw.THEY):
            plural = pronoun.agreement.number == "Plur"
            if pronoun.agreement == subject.agreement and (plural or pronoun.gender == subject.gender):
                _, agreement, kind, gender, referent, *_ = subject
                return _pronominal(pronoun.reflexive, agreement, kind, gender, referent)
        return None

    def name(self) -> Nominal:
        """Someone's name: *Anna*, *Anna Hill*. Never the same person twice in a sentence."""
        used = {m.tree.parts[0].tree for m in self.scene.mentions}
        person = self.scene.person()
        while proper_noun(person.name) in used:
            person = self.scene.person() if len(used) < 2 else self.dice.one_of(people())
        parts = [head(proper_noun(person.name))]
        if self.dice.chance(0.12):
            parts.append(Part("flat", proper_noun(person.surname)))
        referent = self.scene.new_referent()
        tree = Phrase("NP", tuple(parts), entity="PER", referent=referent)
        return self.scene.remember(Nominal(tree, SINGULAR, "person", person.gender, referent))

    def place_name(self) -> Nominal:
        """A town or country, or a company of a town: *the Norwick Bank*."""
        scene, dice = self.scene, self.dice
        town = scene.town if dice.chance(0.6) else dice.one_of(TOWNS)
        if dice.chance(0.12):
            company = phrase("NP", Part("compound", proper_noun(town)), head(proper_noun(dice.one_of(COMPANIES))))
            tree = phrase("NP", Part("det", fw.DET["the"]), head(company._replace(label=None, entity="ORG")))
            return Nominal(tree, SINGULAR, "place", "Neut")
        country = dice.chance(0.22)
        place = (scene.country if dice.chance(0.6) else dice.one_of(COUNTRIES)) if country else town
        referent = scene.new_referent()
        tree = Phrase("NP", (head(proper_noun(place)),), entity="LOC", referent=referent)
        return Nominal(tree, SINGULAR, "place", "Neut", referent)

    def coordination(self, kind: str, depth: int) -> Nominal:
        """*the dog and the cat*, *Anna, Tom and the cook*."""
        dice = self.dice
        conjuncts = [
            self.name() if kind == "person" and dice.chance(0.5) else self.common(kind, min(depth, 0))
            for _ in range(3 if dice.chance(0.2) else 2)
        ]
        first, *middle, last = (conjunct.tree for conjunct in conjuncts)
        parts = [Part("conj", phrase(None, Part("punct", fw.COMMA), head(tree))) for tree in middle]
        parts.append(Part("conj", phrase(None, Part("cc", fw.AND), head(last))))
        referent = self.scene.new_referent()
        tree = Phrase("NP", (head(first), *parts), referent=referent)
        return self.scene.remember(Nominal(tree, PLURAL, kind, None, referent))

    def common(self, kind: str, depth: int, *, owner: Nominal | None = None, number: Number | None = None) -> Nominal:
        """A phrase around a common noun: determiner, adjectives, noun, prepositional phrase or relative clause."""
        scene, dice = self.scene, self.dice
        noun = scene.noun(kind)
        kind = noun.kind
        plural = noun.plural is not None and (dice.chance(0.48) if number is None else number == "Plur")
        agreement = PLURAL if plural else SINGULAR
        word = noun.plural if noun.plural and plural else noun.singular
        premodifiers = self._premodifiers(kind)
        following = first_word(premodifiers[0].tree) if premodifiers else word
        parts = [*self._determiner(noun, agreement, following, depth, owner), *premodifiers, head(word)]
        gender = _GENDERS.get(noun.lemma) if kind in _PEOPLE else "Neut"
        referent = scene.new_referent()
        bare = Nominal(Phrase("NP", tuple(parts), referent=referent), agreement, kind, gender, referent)
        modified = self._postmodified(bare, depth) if depth > 0 else bare
        return scene.remember(modified)

    def _determiner(
        self, noun: Noun, agreement: Agreement, following: Word, depth: int, owner: Nominal | None
    ) -> list[Part]:
        dice = self.dice
        if noun.plural is None:
            choice = dice.choose(_MASS_DETERMINERS)
        else:
            choice = dice.choose(_SINGULAR_DETERMINERS if agreement == SINGULAR else _PLURAL_DETERMINERS)
        if choice == "":
            return []
        if choice == "a":
            return [Part("det", indefinite_article(following))]
        if choice == "two":
            return [Part("nummod", dice.one_of(fw.NUMERALS))]
        if choice in fw.QUANTIFIERS:
            return [Part("amod", fw.QUANTIFIERS[choice])]
        if choice == "'s" and depth > 0 and dice.chance(0.5):
            return [Part("nmod:poss", self._possessor())]
        if choice in ("'s", "my"):
            return [Part("nmod:poss", self._possessive_pronoun(owner))]
        return [Part("det", fw.DET[choice])]

    def _possessor(self) -> Phrase:
        owner = self.name() if self.dice.chance(0.6) else self.common("person", 0)
        bare_plural = first_word(owner.tree.parts[-1].tree).form.endswith("s") and owner.agreement == PLURAL
        mark = fw.POSSESSIVE_PLURAL if bare_plural else fw.POSSESSIVE
        return phrase("NP", head(owner.tree), Part("case", mark))

    def _possessive_pronoun(self, owner: Nominal | None) -> Phrase:
        if owner and owner.agreement.person == 3 and owner.referent and (owner.gender or owner.agreement == PLURAL):
            pronoun = fw.third_person_pronoun(owner.agreement.number, owner.gender or "")
            return Phrase("NP", (head(pronoun.possessive),), referent=owner.referent)
        speaker = self.dice.choose(_SPEAKERS)
        return Phrase("NP", (head(speaker.possessive),), referent=self.scene.speaker(speaker.agreement))

    def _premodifiers(self, kind: str) -> list[Part]:
        dice, lexicon = self.dice, self.scene.lexicon
        parts = []
        if dice.chance(0.27):
            adjective: Tree = dice.choose(lexicon.adjectives)
            if dice.chance(0.08):
                adjective = phrase("ADJP", Part("advmod", dice.choose(lexicon.adverbs["degree"])), head(adjective))
            parts.append(Part("amod", adjective))
            if dice.chance(0.1):
                parts.append(Part("amod", dice.choose(lexicon.adjectives)))
        if kind in ("object", "place", "event", "tool") and dice.chance(0.06):
            material = dice.choose(lexicon.nouns[dice.one_of(("plant", "object", "animal", "place"))])
            parts.append(Part("compound", material.singular))
        return parts

    def _postmodified(self, bare: Nominal, depth: int) -> Nominal:
        if self.dice.chance(0.17) and (clause := self._relative_clause(bare, depth - 1)):
            return self._extended(bare, Part("acl:relcl", clause), heavy=True)
        return self._extended(bare, Part("nmod", self._modifier(bare.kind))) if self.dice.chance(0.16) else bare

    def _extended(self, bare: Nominal, part: Part, *, heavy: bool = False) -> Nominal:
        """The noun phrase with a modifier after it: both the inner and the whole phrase are constituents."""
        whole = Phrase("NP", (head(bare.tree._replace(referent=0)), part), referent=bare.referent)
        return bare._replace(tree=whole, heavy=heavy)

    def _modifier(self, kind: str) -> Phrase:
        """A prepositional phrase that can only belong to a noun: *of*, *from*, *about*, *with* a part or content."""
        dice = self.dice
        if kind in _CONTENTS and dice.chance(0.55):
            return prepositional("with", self.common(_CONTENTS[kind], 0))
        if kind in ("event", "object") and dice.chance(0.35):
            return prepositional("about", self.common(dice.one_of(("animal", "place", "person")), 0))
        if kind in ("person", "animal", "food", "stuff") or dice.chance(0.3):
            return prepositional("from", self.place_name() if dice.chance(0.4) else self.common("place", 0))
        return prepositional(
            "of", self.name() if dice.chance(0.3) else self.common(dice.one_of(("person", "place")), 0)
        )

    def located(self, bare: Nominal, *, deep: bool = False) -> Nominal:
        """The noun phrase with a place after it that belongs to it: *the man in the park*."""
        return self._extended(bare, Part("nmod", self.location(deep=deep)))

    def location(self, *, deep: bool = False) -> Phrase:
        """A prepositional phrase of place; a deep one may hold another: *near the house behind the mill*."""
        kind = self.dice.choose(_LOCATIVE_KINDS)
        preposition = self.dice.one_of(_LOCATIVE[kind])
        if kind == "place" and self.dice.chance(0.25):
            return prepositional("in", self.place_name())
        place = self.common(kind, 0)
        return prepositional(preposition, self.located(place) if deep and self.dice.chance(0.25) else place)


def _pronominal(word: Word, agreement: Agreement, kind: str, gender: str | None, referent: int) -> Nominal:
    tree = Phrase("NP", (head(word),), referent=referent)
    return Nominal(tree, agreement, kind, gender, referent, pronominal=True)


def indefinite_article(following: Word) -> Word:
    """*a* or *an*, by the word that follows."""
    return fw.DET["an" if following.form[0] in "aeiou" else "a"]


def prepositional(preposition: str, nominal: Nominal) -> Phrase:
    """A prepositional phrase: in Universal Dependencies its head is the noun, and the preposition marks its case."""
    return phrase("PP", Part("case", fw.PREPOSITIONS[preposition]), head(nominal.tree))


_CIRCUMSTANCES = ("before", "after", "during", "since", "until", "without")
_DIRECTIONS = ("to", "through", "across", "over", "under")
_ADVERB_ROLES = {"also": "AM-ADV", "just": "AM-ADV", "again": "AM-TMP"}
_PURE_OBJECTS = ("transitive", "intransitive", "prepositional")


class Clauses:
    """Makes clauses for one scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.dice = scene.dice
        self.lexicon = scene.lexicon
        self.nominals = Nominals(scene, self.relative_clause)
        kinds: list[tuple[Callable[[int], Phrase], float]] = [
            (lambda depth: _ended(self.clause(depth), fw.PERIOD), 50),
            (lambda depth: _ended(self._passive_clause(depth), fw.PERIOD), 8),
            (lambda depth: _ended(self._copular_clause(depth), fw.PERIOD), 13),
            (self._existential, 4),
            (self._with_subordinate, 7),
            (self._coordination, 5),
            (self._polar_question, 6),
            (self._subject_question, 3),
            (self._object_question, 3),
            (self._adverbial_question, 3),
            (self._imperative, 5),
        ]
        self._kinds = Menu(kinds)

    def sentence(self, depth: int = 2) -> Phrase:
        """A whole sentence with its final punctuation."""
        self.scene.begin_sentence()
        return self.dice.choose(self._kinds)(depth)

    # Main clauses

    def _existential(self, depth: int) -> Phrase:
        """Existence: *There is a light in the park*."""
        number: Number = "Plur" if self.dice.chance(0.4) else "Sing"
        kind = self.dice.one_of(("object", "animal", "plant", "tool", "food"))
        nominal = self.nominals.common(kind, 0, number=number)
        be = fw.EXISTENTIAL_BE[self.dice.chance(0.4), nominal.agreement.number]
        parts = [Part("expl", phrase("NP", head(fw.EXISTENTIAL))), head(be), Part("nsubj", nominal.tree)]
        return _ended(phrase("S", *parts, Part("obl", self.nominals.location())), fw.PERIOD)

    def _with_subordinate(self, depth: int) -> Phrase:
        """A clause under another: *Because the dog ran, the cook laughed*. Either may come first."""
        if self.dice.chance(0.5):
            subordinate = self._subordinate(depth - 1, embedded=False)
            main = self.clause(depth - 1, embedded=True)
            parts = (Part("advcl", subordinate, "AM-ADV"), Part("punct", fw.COMMA), *main.parts)
            return _ended(main._replace(parts=parts), fw.PERIOD)
        main = self.clause(depth - 1)
        subordinate = self._subordinate(depth - 1, embedded=True)
        return _ended(main._replace(parts=(*main.parts, Part("advcl", subordinate, "AM-ADV"))), fw.PERIOD)

    def _coordination(self, depth: int) -> Phrase:
        """Two clauses side by side: *The dog ran, but the cat slept*."""
        first, second = self.clause(depth - 1), self.clause(depth - 1, embedded=True)
        conjunction = self.dice.one_of((fw.AND, fw.BUT, fw.AND, fw.OR))
        conjunct = phrase(None, Part("punct", fw.COMMA), Part("cc", conjunction), head(second))
        return _ended(phrase("S", head(first), Part("conj", conjunct)), fw.PERIOD)

    def _polar_question(self, depth: int) -> Phrase:
        """A question for yes or no: *Did the cook see the dog?* or *Is the light old?*."""
        make = self._copular_clause if self.dice.chance(0.3) else self.clause
        return _ended(make(depth, style=random_style(self.dice, inverted=True))._replace(label="SQ"), fw.QUESTION_MARK)

    def _subject_question(self, depth: int) -> Phrase:
        """A question for the subject: *Who saw the dog?* or *Which dogs run?*."""
        frame = self.dice.choose(self.lexicon.frames)
        if "person" in frame.subjects and self.dice.chance(0.6):
            subject = Nominal(phrase("WHNP", head(fw.WHO)), SINGULAR, "person")
        else:
            subject = self._which(self.dice.one_of(frame.subjects))
        verb_phrase, _ = self.verb_phrase(frame, subject, depth, random_style(self.dice)._replace(negated=False))
        return _ended(phrase("SBARQ", Part("nsubj", subject.tree, "A0"), head(verb_phrase)), fw.QUESTION_MARK)

    def _object_question(self, depth: int) -> Phrase:
        """A question for the object: *What did the cook see?* or *Which book did Anna like?*."""
        kind = self.dice.one_of(("object", "food", "person", "animal", "place"))
        frame = self.dice.choose(self.lexicon.frames_by_object[kind])
        if self.dice.chance(0.6):
            asked = phrase("WHNP", head(fw.WHO if kind == "person" else fw.WHAT))
        else:
            asked = self._which(kind).tree
        clause = self._clause_of(frame, depth - 1, random_style(self.dice, inverted=True), omit_object=True)
        return _ended(phrase("SBARQ", Part("obj", asked, "A1"), head(clause._replace(label="SQ"))), fw.QUESTION_MARK)

    def _adverbial_question(self, depth: int) -> Phrase:
        """A question for place, time or reason: *Where does the king sleep?*."""
        word, role = self.dice.one_of(((fw.WHERE, "AM-LOC"), (fw.WHEN, "AM-TMP"), (fw.WHY, "AM-CAU")))
        clause = self.clause(depth - 1, style=random_style(self.dice, inverted=True))._replace(label="SQ")
        asked = phrase("WHADVP", head(word))
        return _ended(phrase("SBARQ", Part("advmod", asked, role), head(clause)), fw.QUESTION_MARK)

    def _imperative(self, depth: int) -> Phrase:
        """A command: *Watch the light!* or *Don't open the box*."""
        frame = self._frame_for("person", (*_PURE_OBJECTS, "particle", "ditransitive"))
        negated = self.dice.chance(0.2)
        style = Style(form="base", negated=negated, contracted=True)
        you = Nominal(phrase("NP", head(fw.YOU.subject)), fw.YOU.agreement, "person", pronominal=True)
        verb_phrase, _ = self.verb_phrase(frame, you, depth - 1, style)
        return _ended(phrase("S", head(verb_phrase)), fw.EXCLAMATION if self.dice.chance(0.5) else fw.PERIOD)

    # Clauses

    def clause(self, depth: int, *, style: Style | None = None, embedded: bool = False) -> Phrase:
        """A finite active clause."""
        style = style or random_style(self.dice)
        return self._clause_of(self.dice.choose(self.lexicon.frames), depth, style, embedded=embedded)

    def _clause_of(
        self, frame: Frame, depth: int, style: Style, *, embedded: bool = False, omit_object: bool = False
    ) -> Phrase:
        subject = self.nominals.subject(frame.subjects, depth, embedded=embedded)
        verb_phrase, fronted = self.verb_phrase(
            frame, subject, depth, style, embedded=embedded, omit_object=omit_object
        )
        opening = []
        if not (embedded or fronted or omit_object) and self.dice.chance(0.05):
            opening = [self._adverbial("sentence", "AM-TMP"), Part("punct", fw.COMMA)]
        return phrase("S", *opening, *fronted, Part("nsubj", subject.tree, "A0"), head(verb_phrase))

    def _passive_clause(self, depth: int) -> Phrase:
        kind = self.dice.one_of(("person", "animal", "object", "food", "place"))
        frame = self.dice.choose(self.lexicon.frames_by_object[kind])
        patient = self.nominals.subject((kind,), depth)
        group = verbal_group(frame.verb, patient.agreement, random_style(self.dice, passive=True))
        parts = [*group.auxiliaries, *group.main]
        if self.dice.chance(0.6):
            agent = self.nominals.object(frame.subjects, depth - 1)
            parts.append(Part("obl:agent", prepositional("by", agent), "A0"))
        elif not patient.heavy:
            parts.append(Part("obl", self.nominals.location(), "AM-LOC"))
        return phrase("S", Part("nsubj:pass", patient.tree, "A1"), head(phrase("VP", *parts)))

    def _copular_clause(self, depth: int, *, style: Style | None = None) -> Phrase:
        dice = self.dice
        kind = dice.one_of(("person", "animal", "object", "place", "food", "plant", "tool", "event"))
        subject = self.nominals.subject((kind,), depth)
        style = (style or random_style(dice))._replace(progressive=False)
        group = verbal_group(None, subject.agreement, style, after_pronoun=subject.pronominal)
        verb_phrase = phrase("VP", *group.auxiliaries, head(self._predicate(subject)))
        return phrase("S", *group.fronted, Part("nsubj", subject.tree), head(verb_phrase))

    def _predicate(self, subject: Nominal) -> Phrase:
        dice = self.dice
        share = dice.below(10)
        if share < 3 and subject.kind == "person":
            return self.nominals.common("role", 0, number=subject.agreement.number).tree
        if share < 5:
            return self.nominals.location()
        adjective = head(dice.choose(self.lexicon.adjectives))
        degree = [Part("advmod", dice.choose(self.lexicon.adverbs["degree"]))] if dice.chance(0.25) else []
        return phrase("ADJP", *degree, adjective)

    def _subordinate(self, depth: int, *, embedded: bool) -> Phrase:
        conjunction = self.dice.one_of(tuple(fw.SUBORDINATORS.values()))
        return phrase("SBAR", Part("mark", conjunction), head(self.clause(depth, embedded=embedded)))

    def relative_clause(self, antecedent: Nominal, depth: int) -> Phrase | None:
        """A relative clause on a subject, an object or a place; ``None`` where no verb takes the antecedent."""
        share = self.dice.below(100)
        if antecedent.kind == "place" and share < 30:
            place = phrase("WHADVP", head(fw.WHERE_RELATIVE))
            return phrase("RelC", Part("advmod", place), head(self.clause(depth, embedded=True)))
        if share < 65 and len(self.lexicon.frames_by_subject[antecedent.kind]):
            return self._subject_relative(antecedent, depth)
        if len(self.lexicon.frames_by_object[antecedent.kind]):
            return self._object_relative(antecedent, depth)
        return None

    def _subject_relative(self, antecedent: Nominal, depth: int) -> Phrase:
        """The antecedent is its subject: *the dogs that chase the cat*."""
        frame = self.dice.choose(self.lexicon.frames_by_subject[antecedent.kind])
        verb_phrase, _ = self.verb_phrase(frame, antecedent, depth, random_style(self.dice), embedded=True)
        subject = phrase("WHNP", head(self._relative_pronoun(antecedent.kind)))
        return Phrase("RelC", (Part("nsubj", subject), head(verb_phrase)), gap="A0")

    def _object_relative(self, antecedent: Nominal, depth: int) -> Phrase:
        """The antecedent is its object: *the dog that the cat saw*. Its subject may hold another: centre embedding."""
        frame = self.dice.choose(self.lexicon.frames_by_object[antecedent.kind])
        clause = self._clause_of(frame, depth, random_style(self.dice), embedded=True, omit_object=True)
        if self.dice.chance(0.25):
            return Phrase("RelC", (head(clause),), gap="A1")
        pronoun = fw.RELATIVE["whom"] if antecedent.kind == "person" and self.dice.chance(0.15) else None
        marker = phrase("WHNP", head(pronoun or self._relative_pronoun(antecedent.kind)))
        return Phrase("RelC", (Part("obj", marker), head(clause)), gap="A1")

    def _relative_pronoun(self, kind: str) -> Word:
        if self.dice.chance(0.55):
            return fw.RELATIVE["that"]
        return fw.RELATIVE["who" if kind in ("person", "role") else "which"]

    def _which(self, kind: str) -> Nominal:
        """An interrogative noun phrase: *which dogs*, *what book*."""
        noun = self.scene.noun(kind)
        plural = noun.plural is not None and self.dice.chance(0.4)
        word = noun.plural if plural and noun.plural else noun.singular
        determiner = fw.DET["which" if self.dice.chance(0.75) else "what"]
        tree = phrase("WHNP", Part("det", determiner), head(word))
        return Nominal(tree, PLURAL if plural else SINGULAR, kind)

    # Verb phrases

    def verb_phrase(
        self,
        frame: Frame,
        subject: Nominal,
        depth: int,
        style: Style,
        *,
        embedded: bool = False,
        omit_object: bool = False,
    ) -> tuple[Phrase, tuple[Part, ...]]:
        """A verb with what it takes, and the auxiliary that a question fronts.

        The subject is what it agrees with, and what reflexives and possessives take up; ``omit_object`` leaves out a
        direct object that stands elsewhere (relative clause, question).
        """
        group = verbal_group(frame.verb, subject.agreement, style, after_pronoun=subject.pronominal)
        parts = list(group.auxiliaries)
        if self.dice.chance(0.07) and style.form == "finite":
            parts.append(self._adverbial("frequency", "AM-TMP"))
        complements, closed = self._complements(frame, subject, depth, embedded=embedded, omit_object=omit_object)
        parts += [*group.main, *complements]
        if not closed:
            parts += self._adjuncts(frame, subject, depth)
        is_simple = style == Style(past=style.past, contracted=style.contracted)
        if depth > 1 and is_simple and not (closed or omit_object or embedded):
            parts += self._conjoined(subject, style)
        return phrase("VP", *parts), group.fronted

    def _complements(
        self, frame: Frame, subject: Nominal, depth: int, *, embedded: bool, omit_object: bool
    ) -> tuple[list[Part], bool]:
        """Complements of the verb, and whether the phrase is closed to adjuncts because they would be ambiguous."""
        if frame.pattern == "intransitive":
            return [], False
        if frame.pattern == "that":
            clause = self.clause(max(depth - 1, 0), embedded=True)
            marker = [Part("mark", fw.THAT)] if self.dice.chance(0.8) else []
            return [Part("ccomp", phrase("SBAR", *marker, head(clause)), "A1")], True
        if frame.pattern == "to":
            return [Part("xcomp", self._infinitive(subject, depth), "A1")], True
        if omit_object:
            return [], False
        nominal = self._object(frame, subject, depth, embedded=embedded)
        if frame.pattern == "transitive":
            return [Part("obj", nominal.tree, "A1")], nominal.heavy
        if frame.pattern == "prepositional":
            role = "AM-DIR" if frame.particle in _DIRECTIONS else "AM-LOC" if "place" in frame.objects else "A1"
            return [Part("obl", prepositional(frame.particle, nominal), role)], frame.particle not in _DIRECTIONS
        if frame.pattern == "particle":
            particle = Part("compound:prt", phrase("PRT", head(fw.PARTICLES[frame.particle])))
            thing = Part("obj", nominal.tree, "A1")
            return ([thing, particle] if nominal.pronominal or self.dice.chance(0.4) else [particle, thing]), True
        return self._two_objects(nominal, depth), True

    def _object(self, frame: Frame, subject: Nominal, depth: int, *, embedded: bool) -> Nominal:
        is_reflexive = frame.pattern == "transitive" and subject.kind in frame.objects and self.dice.chance(0.05)
        if is_reflexive and (reflexive := self.nominals.reflexive(subject)):
            return reflexive
        nominal = self.nominals.object(frame.objects, depth - 1, embedded=embedded, owner=subject)
        if frame.stative and nominal.tree.parts[-1].tree in self.scene.noun_words and self.dice.chance(0.3):
            return self.nominals.located(nominal)._replace(heavy=True)
        return nominal._replace(heavy=nominal.heavy or frame.stative)

    def _two_objects(self, thing: Nominal, depth: int) -> list[Part]:
        """Either *gave the dog a bone* or *gave a bone to the dog*."""
        receiver_last = thing.pronominal or self.dice.chance(0.5)
        receiver = self.nominals.object(("person",), 0)
        if receiver_last:
            return [Part("obj", thing.tree, "A1"), Part("obl", prepositional("to", receiver), "A2")]
        return [Part("iobj", receiver.tree, "A2"), Part("obj", thing.tree, "A1")]

    def _infinitive(self, subject: Nominal, depth: int) -> Phrase:
        frame = self._frame_for(subject.kind if subject.kind in ("person", "animal") else "person", _PURE_OBJECTS)
        complements, closed = self._complements(frame, subject, depth - 1, embedded=True, omit_object=False)
        adjuncts = [] if closed else self._adjuncts(frame, subject, 0)
        return phrase("VP", Part("mark", fw.TO), head(frame.verb.base), *complements, *adjuncts)

    def _frame_for(self, subject: str, patterns: tuple[str, ...]) -> Frame:
        while True:
            frame = self.dice.choose(self.lexicon.frames_by_subject[subject])
            if frame.pattern in patterns:
                return frame

    def _conjoined(self, subject: Nominal, style: Style) -> list[Part]:
        """A second verb phrase with the same subject: *ran and saw the cat*."""
        if subject.kind not in ("person", "animal") or not self.dice.chance(0.1):
            return []
        frame = self._frame_for(subject.kind, _PURE_OBJECTS)
        second, _ = self.verb_phrase(frame, subject, 0, style)
        return [Part("conj", phrase(None, Part("cc", fw.AND), head(second)))]

    def _adjuncts(self, frame: Frame, subject: Nominal, depth: int) -> list[Part]:
        """Adverbs and prepositional phrases that say how, where and when."""
        dice, nominals = self.dice, self.nominals
        parts = []
        if frame.instrumental and dice.chance(0.3):
            tool = nominals.common("tool", 0, owner=subject)
            parts.append(Part("obl", prepositional("with", tool), "AM-MNR"))
        if dice.chance(0.12):
            parts.append(self._adverbial("manner", "AM-MNR"))
        elif dice.chance(0.1):
            parts.append(self._adverbial("place", "AM-LOC"))
        elif dice.chance(0.22) and not frame.stative:
            parts.append(Part("obl", nominals.location(), "AM-LOC"))
        if dice.chance(0.08):
            preposition = dice.one_of(_CIRCUMSTANCES)
            circumstance = prepositional(preposition, nominals.common("event", 0))
            parts.append(Part("obl", circumstance, "AM-MNR" if preposition == "without" else "AM-TMP"))
        elif dice.chance(0.04) and depth > 0:
            likeness = prepositional("like", nominals.common(subject.kind, 0, number=subject.agreement.number))
            parts.append(Part("obl", likeness, "AM-MNR"))
        elif dice.chance(0.03):
            parts.append(self._adverbial("sentence", "AM-TMP"))
        return parts

    def _adverbial(self, use: str, role: str) -> Part:
        """An adverb; *today* and *yesterday* are nouns that do an adverb's work."""
        word = self.dice.choose(self.lexicon.adverbs[use])
        role = _ADVERB_ROLES.get(word.form, role)
        if word.upos == "NOUN":
            return Part("obl:unmarked", phrase("NP", head(word)), role)
        return Part("advmod", phrase("ADVP", head(word)), role)


def _ended(clause: Phrase, mark: Word) -> Phrase:
    return clause._replace(parts=(*clause.parts, Part("punct", mark)))
