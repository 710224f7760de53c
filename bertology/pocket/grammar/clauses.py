"""Rules for clauses: verb phrases, relative clauses, complements, questions, coordination."""

from __future__ import annotations

from collections.abc import Callable

from bertology.pocket.grammar import function_words as fw
from bertology.pocket.grammar.lexicon import PLURAL, SINGULAR, Frame, Number
from bertology.pocket.grammar.nominals import Nominals, prepositional
from bertology.pocket.grammar.tree import Menu, Part, Phrase, Word, head, phrase
from bertology.pocket.grammar.verbs import Style, random_style, verbal_group
from bertology.pocket.grammar.world import Nominal, Scene

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
        """What the verb takes, and whether the phrase is closed to adjuncts because they would be ambiguous."""
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
