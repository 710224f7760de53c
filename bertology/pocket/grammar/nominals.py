"""Rules for noun phrases: names, pronouns, determiners, modifiers, possessors, coordination."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bertology.pocket.grammar import function_words as fw
from bertology.pocket.grammar.lexicon import COMPANIES, COUNTRIES, PLURAL, SINGULAR, TOWNS, Agreement, Noun, Number
from bertology.pocket.grammar.tree import Menu, Part, Phrase, Tree, Word, first_word, head, phrase
from bertology.pocket.grammar.world import Nominal, Scene, people, proper_noun

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
