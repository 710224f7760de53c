"""Psycholinguistic diagnostics: common sense, who did what to whom, negation, and what moves a prediction.

After Ettinger (2020), *What BERT Is Not: Lessons from a New Suite of Psycholinguistic Diagnostics for Language
Models*: CPRAG-102, ROLE-88 and NEG-136 with her measures (§5), and perturbations of their contexts (§6, §7). As there,
a full stop follows the word that is asked for. Words of NEG-136-SIMP that take different articles (*an insect*, *a
vegetable*) are asked for after their own.

On ``pocket`` the pocket world gives facts and their negations, and verbs whose roles cannot be exchanged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bertology.corpora.prompts import Diagnostics, NegationItem, PragmaticItem, RoleItem, read_diagnostics, with_article
from bertology.errors import BertologyError, CorpusError
from bertology.pocket import fact_prompts, role_prompts
from bertology.probing import ClozeAsks, ClozeItem, ClozeItems, ClozeProbe, LeftOut, ProbeFamily

from ._perturbations import PERTURBATIONS, without_subject_and_object

_QUESTION = "Does it predict what people expect: by common sense, by who did what to whom, under negation?"
_REFERENCE = "Ettinger 2020"
_CHOICE = ("choice_accuracy", "sensitivity", "micro_choice_accuracy")
_CHANGE = ("moved", "probability_lost")
_Found = tuple[list[ClozeItem], list[LeftOut]]


@dataclass(frozen=True)
class _Kind:
    """One of the diagnostics."""

    question: str
    asks: ClozeAsks
    metrics: tuple[str, ...]
    needs: str
    """Which of the sets it is asked of."""
    of_sets: Callable[[Diagnostics], _Found]
    of_pocket: Callable[[], list[ClozeItem]] | None = None


def _cprag(sets: Diagnostics) -> _Found:
    """The expected word against that of its own and that of another category; the last sentence alone is blind."""
    items = [
        ClozeItem(
            f"cprag-{item.id}",
            cluster,
            f"{item.constraint} constraint",
            f"{item.first} {item.second} {{mask}}.",
            item.expected,
            rivals=(item.within_category, item.between_category),
            blind=f"{item.second} {{mask}}.",
        )
        for item, cluster in zip(sets.pragmatic, _sharing_words(sets.pragmatic), strict=True)
    ]
    return items, []


def _sharing_words(items: Sequence[PragmaticItem]) -> list[str]:
    """A cluster for each item: those that ask about one word, directly or by others between them, are one draw.

    In this set what is expected of one item is what is wrong in the next (*chess*, *monopoly*, *football*).
    """
    found: list[tuple[set[str], list[int]]] = []
    for place, item in enumerate(items):
        words, places = {item.expected, item.within_category, item.between_category}, [place]
        for other in [other for other in found if other[0] & words]:
            found.remove(other)
            words, places = words | other[0], other[1] + places
        found.append((words, places))
    cluster = {place: f"cprag-{items[min(places)].id}" for _, places in found for place in places}
    return [cluster[place] for place in range(len(items))]


def _role(sets: Diagnostics) -> _Found:
    """The target where the roles fit it, against the same words with the roles reversed."""
    by_id = {item.id: item for item in sets.roles}
    items, left = [], []
    for item in sets.roles:
        partner = f"{item.pair}-{'a' if item.reversed else 'b'}"
        if partner not in by_id:
            left.append(LeftOut(f"role-{item.id}", "role reversal", "no item with the roles the other way about"))
        elif not item.reversed:
            name, other = f"role-{item.pair}", f"{by_id[partner].context} {{mask}}."
            items.append(ClozeItem(name, name, "role reversal", f"{item.context} {{mask}}.", item.target, other=other))
    return items, left


def _role_words(sets: Diagnostics) -> _Found:
    """What people said most often; of a verb with its particle (*worked for*) the verb, as there is one mask."""
    items = [
        ClozeItem(
            f"role-{item.id}",
            f"role-{item.pair}",
            _order(item),
            f"{item.context} {{mask}}.",
            item.expected[0].split()[0],
            accepted=tuple(dict.fromkeys(word.split()[0] for word in item.expected[1:])),
            blind=f"{without_subject_and_object(item.context)} {{mask}}.",
        )
        for item in sets.roles
    ]
    return items, []


def _order(item: RoleItem) -> str:
    return "roles reversed" if item.reversed else "roles that fit"


def _negation(sets: Diagnostics) -> _Found:
    """What is true against what is false, affirmed and negated. Items about the same words are one cluster."""
    items = []
    for item in sets.negation:
        words = (
            {item.true_if_affirmative} if item.licensed is None else {item.true_if_affirmative, item.true_if_negated}
        )
        cluster = " ".join(sorted(words))
        for polarity, context, right, wrong in (
            ("affirmative", item.affirmative, item.true_if_affirmative, item.true_if_negated),
            ("negated", item.negated, item.true_if_negated, item.true_if_affirmative),
        ):
            name, group = f"{item.id}-{polarity}", f"{polarity} {_condition(item)}"
            text, other = (f"{with_article(context, word)} {{mask}}." for word in (right, wrong))
            items.append(
                ClozeItem(name, cluster, group, text, right, rivals=(wrong,), other=other if other != text else "")
            )
    return items, []


def _condition(item: NegationItem) -> str:
    if item.licensed is None:
        return "simple"
    return f"natural ({'licensed' if item.licensed else 'not licensed'})"


def _pocket_negation() -> list[ClozeItem]:
    """Facts the text states 16 times and more: what is so, and what is not so, against the other."""
    items = []
    for number, prompt in enumerate(fact_prompts(), 1):
        cluster, true, false = f"fact-{number}", prompt.fact.object, prompt.rival
        items.append(ClozeItem(f"{cluster}-affirmative", cluster, "affirmative", prompt.text, true, rivals=(false,)))
        items.append(ClozeItem(f"{cluster}-negated", cluster, "negated", prompt.negated, false, rivals=(true,)))
    return items


def _pocket_role() -> list[ClozeItem]:
    """A verb between those who can do it and what it is done to. Sentences of one verb are one cluster."""
    return [
        ClozeItem(f"role-{number}", prompt.verb, "role reversal", prompt.text, prompt.verb, other=prompt.reversed)
        for number, prompt in enumerate(role_prompts(), 1)
    ]


_KINDS: dict[str, _Kind] = {
    "cprag": _Kind(
        "Does common sense make the expected word more probable than others of its category and of another?",
        "choices", ("choice_accuracy", "sensitivity", "p_at_5", "p_at_1", "micro_choice_accuracy"), "CPRAG-102", _cprag,
    ),
    "role": _Kind(
        "Is a verb more probable where the roles fit it than where they are reversed?",
        "contexts", _CHOICE, "ROLE-88", _role, _pocket_role,
    ),
    "role_words": _Kind(
        "Is the verb that people say after two roles among the first that are predicted?",
        "answers", ("p_at_5", "p_at_1", "mrr"), "ROLE-88", _role_words,
    ),
    "negation": _Kind(
        "Is the word that makes a sentence true more probable, affirmed and negated?",
        "choices", _CHOICE, "NEG-136", _negation, _pocket_negation,
    ),
    **{
        name: _Kind(change.question, "changes", _CHANGE, change.needs, change.of_sets, change.of_pocket)
        for name, change in PERTURBATIONS.items()
    },
}  # fmt: skip
_CLUSTERS = {
    **dict.fromkeys(("cprag", "negation"), "sets of words"),
    **dict.fromkeys(("role", "role_words"), "pairs of contexts"),
}
"""What the clusters of a published set are, where they are not its contexts."""


@dataclass(frozen=True)
class PsycholinguisticDiagnostics(ClozeProbe):
    """Does the model predict what people expect?"""

    kind: str
    version = 1
    subject = "meaning"
    reference = _REFERENCE

    @property
    def task(self) -> str:
        """``diagnostics:cprag``, ``diagnostics:negation`` …."""
        return f"diagnostics:{self.kind}"

    @property
    def asks(self) -> ClozeAsks:
        """What is asked of a text of its kind."""
        return _KINDS[self.kind].asks

    @property
    def question(self) -> str:
        """That of its kind."""
        return _KINDS[self.kind].question

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of its kind."""
        return _KINDS[self.kind].metrics

    def items(self, source: str) -> ClozeItems:
        """The items of the kind. Clusters are what is one draw: the words asked about, two contexts, a verb, a fact."""
        kind = _KINDS[self.kind]
        if source == "pocket":
            if kind.of_pocket is None:
                raise CorpusError(f"the pocket world does not decide it; give {kind.needs}, its file or folder")
            made = tuple(kind.of_pocket())
            return ClozeItems(made, clusters="facts" if made[0].cluster.startswith("fact-") else "verbs")
        sets = read_diagnostics(source, asks=self.asks)
        items, left = kind.of_sets(sets)
        if not items and not left:
            raise CorpusError(f"{' and '.join(sets.files)} there, but {kind.needs} needed; give its file or folder")
        return ClozeItems(tuple(items), tuple(left), clusters=_CLUSTERS.get(self.kind, "contexts"))


def _make(argument: str) -> PsycholinguisticDiagnostics:
    if argument not in _KINDS:
        raise BertologyError(f"task diagnostics:{argument}: it should be one of {', '.join(_KINDS)}")
    return PsycholinguisticDiagnostics(argument)


PROBE = ProbeFamily(
    argument="name of a diagnostic", instances=tuple(_KINDS), question=_QUESTION, reference=_REFERENCE, make=_make
)
