"""Psycholinguistic diagnostics: common sense, who did what to whom, negation, and what moves a prediction.

After Ettinger (2020), *What BERT Is Not: Lessons from a New Suite of Psycholinguistic Diagnostics for Language
Models*: CPRAG-102, ROLE-88 and NEG-136 with her measures (§5), and changes of their contexts (§6, §7): words are
shuffled (five times a context rather than once, so that the mean hangs less on chance), the context is cut short, a
role is taken out, a sentence is negated. NEG-136 is not shuffled or cut short: of *A robin is a* too little is left. As
there, a full stop follows the word that is asked for. Words of NEG-136-SIMP that take different articles (*an insect*,
*a vegetable*) are asked for after their own.

``replaced_names`` exchanges names for others of their type (Balasubramanian et al. 2020, *What's in a Name? Are BERT
Named Entity Representations just as Good for any other Name?*), where a corpus has names: see :class:`ReplacedNames`.

On ``pocket`` the pocket world gives facts and their negations, and verbs whose roles cannot be exchanged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from bertology import pocket
from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.cloze.probes import ClozeAsks
from bertology.corpora import Sentence, load_corpus
from bertology.corpora.prompts.sets import Diagnostics, drawn_order, read_diagnostics, shuffled_words, with_article
from bertology.errors import CorpusError
from bertology.probing import LeftOut, ProbeFamily

_CHOICE = ("choice_accuracy", "sensitivity", "micro_choice_accuracy")
_CHANGE = ("moved", "probability_lost")
_SHUFFLES = 5
_KEPT = 2
"""Words before the mask that are left of a context that is cut short."""
_ROLES = re.compile(r"(?P<head>.*?)(?P<clause>\bwhich (?P<object>.+) the (?P<subject>.+) had)$")
_CPRAG, _ROLE = "CPRAG-102", "ROLE-88"
_CANDIDATES = ("expected", "within_category", "between_category")
_Found = Iterable[ClozeItem | LeftOut]


def _cprag(sets: Diagnostics) -> _Found:
    """The expected word against that of its own and that of another category; the last sentence alone is blind.

    Items that ask about one word, directly or by others between them, are one draw, and so a cluster: in this set what
    is expected of one item is what is wrong in the next (*chess*, *monopoly*, *football*).
    """
    found: list[tuple[set[str], list[int]]] = []
    for place, row in enumerate(sets[_CPRAG]):
        words, places = {row[name] for name in _CANDIDATES}, [place]
        for other in [other for other in found if other[0] & words]:
            found.remove(other)
            words, places = words | other[0], other[1] + places
        found.append((words, places))
    cluster = {place: sets[_CPRAG][min(places)]["item"] for _, places in found for place in places}
    for place, row in enumerate(sets[_CPRAG]):
        answer, *rivals = (row[name] for name in _CANDIDATES)
        blind, group = f"{row['context_s2']} {{mask}}.", f"{row['constraint']} constraint"
        text = f"{row['context_s1']} {blind}"
        yield ClozeItem(row["item"], cluster[place], group, text, answer, rivals=tuple(rivals), blind=blind)


def _role(sets: Diagnostics) -> _Found:
    """The target where the roles fit it, against the same words with the roles reversed."""
    contexts = {row["item"]: f"{row['context']} {{mask}}." for row in sets[_ROLE]}
    for row in sets[_ROLE]:
        name, pair, is_reversed = row["item"], row["pair"], row["item"].endswith("-b")
        if (other := contexts.get(f"{pair}-{'a' if is_reversed else 'b'}")) is None:
            yield LeftOut(name, "role reversal", "no item with the roles the other way about")
        elif not is_reversed:
            yield ClozeItem(pair, pair, "role reversal", contexts[name], row["target"], other=other)


def _role_words(sets: Diagnostics) -> _Found:
    """Words that people said most often; for a verb with its particle (*worked for*) the verb, as there is one mask."""
    for row in sets[_ROLE]:
        first, *others = (word.split()[0] for word in row["expected"].split("|"))
        group = "roles reversed" if row["item"].endswith("-b") else "roles that fit"
        blind = _ROLES.sub(r"\g<head>which one the other had", row["context"])
        text, blind = (f"{context} {{mask}}." for context in (row["context"], blind))
        accepted = tuple(dict.fromkeys(others))
        yield ClozeItem(row["item"], row["pair"], group, text, first, accepted=accepted, blind=blind)


def _conditions(sets: Diagnostics) -> Iterator[tuple[Mapping[str, str], str]]:
    """The items of NEG-136, the simple ones first, and the condition of each."""
    for row in (*sets["NEG-136-SIMP"], *sets["NEG-136-NAT"]):
        yield row, f"natural ({row['licensing']})" if "licensing" in row else "simple"


def _negation(sets: Diagnostics) -> _Found:
    """True against false completions, affirmed and negated. Items about the same words are one cluster."""
    for row, condition in _conditions(sets):
        true, false = row["target_aff"], row["target_neg"]
        cluster = true if condition == "simple" else " ".join(sorted({true, false}))
        for polarity, context, right, wrong in (
            ("affirmative", row["context_aff"], true, false),
            ("negated", row["context_neg"], false, true),
        ):
            text, other = (f"{with_article(context, word)} {{mask}}." for word in (right, wrong))
            name, group, apart = f"{row['item']}-{polarity}", f"{polarity} {condition}", other if other != text else ""
            yield ClozeItem(name, cluster, group, text, right, rivals=(wrong,), other=apart)


def _pocket_negation() -> _Found:
    """Facts the text states 16 times and more: what is so, and what is not so, against the other."""
    for item in pocket.fact_prompts():
        yield replace(item, id=f"{item.id}-affirmative", group="affirmative", other="")
        yield ClozeItem(f"{item.id}-negated", item.id, "negated", item.other, item.rivals[0], rivals=(item.answer,))


# Changes of a context.


def _change(name: str, cluster: str, group: str, context: str, other: str) -> ClozeItem:
    return ClozeItem(name, cluster, group, f"{context} {{mask}}.", other=f"{other} {{mask}}.")


def _shuffled(sets: Diagnostics) -> _Found:
    """The words of the first sentence, or of all the context but its last word."""
    for row in sets[_CPRAG]:
        name, first, second = row["item"], row["context_s1"], row["context_s2"]
        for turn in range(_SHUFFLES):
            words = shuffled_words(first.removesuffix(".").split(), f"{name} {turn}")
            yield _change(f"{name}-{turn}", name, _CPRAG, f"{first} {second}", f"{' '.join(words)}. {second}")
    for row in sets[_ROLE]:
        for name in (f"{row['item']}-{turn}" for turn in range(_SHUFFLES)):
            yield _change(name, row["pair"], _ROLE, row["context"], _order_changed(row["context"], name))


def _order_changed(context: str, seed: str) -> str:
    *words, last = context.split()
    return " ".join([*shuffled_words(words, seed), last])


def _truncated(sets: Diagnostics) -> _Found:
    """Without the first sentence, or with two words of the second; without the clause that asks *which*."""
    for row in sets[_CPRAG]:
        name, first, second = row["item"], row["context_s1"], row["context_s2"]
        end, context = " ".join(second.split()[-_KEPT:]), f"{first} {second}"
        yield _change(f"{name}-second", name, f"{_CPRAG}, last sentence alone", context, second)
        yield _change(f"{name}-end", name, f"{_CPRAG}, its last two words", context, f"{first} {end}")
    yield from _with_roles(r"\g<clause>", f"{_ROLE}, last clause alone", sets)


def _with_roles(changed: str, group: str, sets: Diagnostics) -> _Found:
    """Variants of every context of ROLE-88 that has the form of its roles, which are written as ``changed`` says."""
    for row in sets[_ROLE]:
        match = _ROLES.match(row["context"])
        other = match.expand(changed) if match else ""
        if not other or (group == _ROLE and other == row["context"]):
            yield LeftOut(row["item"], group, "its form is not 'which … the … had'")
        else:
            yield _change(row["item"], row["pair"], group, row["context"], other)


def _negated(sets: Diagnostics) -> _Found:
    for row, condition in _conditions(sets):
        texts = (with_article(row[name], row["target_aff"]) for name in ("context_aff", "context_neg"))
        yield _change(row["item"], row["item"], condition, *texts)


def _pocket_changed(change: str) -> _Found:
    """Facts in another order of words, cut short or negated; sentences of verbs without one of their roles."""
    is_of_verbs = change in ("no_subject", "no_object")
    for item in pocket.role_prompts() if is_of_verbs else pocket.fact_prompts():
        context, _, rest = item.text.partition(" {mask}")
        others = {item.id: item.variants.get(change, item.other)}
        if change == "shuffled":
            orders = (_order_changed(context, f"{context} {turn}") for turn in range(_SHUFFLES))
            others = {f"{item.id}-{turn}": f"{order} {{mask}}{rest}" for turn, order in enumerate(orders)}
        elif change == "truncated":
            others = {f"{item.id}-0": f"{' '.join(context.split()[-_KEPT:])} {{mask}}{rest}"}
        for name, other in others.items():
            yield ClozeItem(name, item.cluster, "verbs" if is_of_verbs else "facts", item.text, other=other)


@dataclass(frozen=True)
class PsycholinguisticDiagnostics(ClozeProbe):
    """Does the model predict what people expect?"""

    task: str = ""
    question: str = ""
    asks: ClozeAsks = "choices"
    metrics: tuple[str, ...] = _CHOICE
    needs: str = _CPRAG
    """Name of the set that the question is about."""
    of_sets: Callable[[Diagnostics], _Found] = _cprag
    of_pocket: Callable[[], _Found] | None = None
    clusters: str = "contexts"
    """Name of the clusters of a published set."""
    subject = "meaning"
    reference = "Ettinger 2020"
    fixed_fields = ("needs", "of_sets", "of_pocket", "clusters")

    def items(self, source: str) -> ClozeItems:
        """The items of the kind. Clusters are what is one draw: the words asked about, two contexts, a verb, a fact."""
        if source == "pocket":
            if self.of_pocket is None:
                raise CorpusError(f"the pocket world does not decide it; give {self.needs}, its file or folder")
            made = ClozeItems.of(self.of_pocket())
            return replace(made, clusters="facts" if made.items[0].cluster.startswith("fact-") else "verbs")
        sets = read_diagnostics(source, asks=self.asks)
        found = list(self.of_sets(sets))
        if not found:
            there = " and ".join(name for name, rows in sets.items() if rows)
            raise CorpusError(f"{there} there, but {self.needs} needed; give its file or folder")
        return ClozeItems.of(found, clusters=self.clusters)


_KINDS = (
    PsycholinguisticDiagnostics(
        "diagnostics:cprag",
        "Does common sense make the expected word more probable than others of its category and of another?",
        "choices", ("choice_accuracy", "sensitivity", "p_at_5", "p_at_1", "micro_choice_accuracy"), _CPRAG, _cprag,
        clusters="sets of words",
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:role",
        "Is a verb more probable where the roles fit it than where they are reversed?",
        "contexts", _CHOICE, _ROLE, _role, pocket.role_prompts, clusters="pairs of contexts",
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:role_words",
        "Is the verb that people say after two roles among the first that are predicted?",
        "answers", ("p_at_5", "p_at_1", "mrr"), _ROLE, _role_words, clusters="pairs of contexts",
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:negation",
        "Is the word that makes a sentence true more probable, affirmed and negated?",
        "choices", _CHOICE, "NEG-136", _negation, _pocket_negation, clusters="sets of words",
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:shuffled",
        "How far does a prediction move when the words before it are shuffled?",
        "changes", _CHANGE, f"{_CPRAG} or {_ROLE}", _shuffled, partial(_pocket_changed, "shuffled"),
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:truncated",
        "How far does a prediction move when only the end of its context is left?",
        "changes", _CHANGE, f"{_CPRAG} or {_ROLE}", _truncated, partial(_pocket_changed, "truncated"),
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:no_subject",
        "How far does the predicted verb move when nothing is said of who does it?",
        "changes", _CHANGE, _ROLE,
        partial(_with_roles, r"\g<head>which \g<object> the other had", _ROLE), partial(_pocket_changed, "no_subject"),
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:no_object",
        "How far does the predicted verb move when nothing is said of what it is done to?",
        "changes", _CHANGE, _ROLE,
        partial(_with_roles, r"\g<head>which one the \g<subject> had", _ROLE), partial(_pocket_changed, "no_object"),
    ),
    PsycholinguisticDiagnostics(
        "diagnostics:negated",
        "How far does a prediction move when its sentence is negated?",
        "changes", _CHANGE, "NEG-136", _negated, partial(_pocket_changed, "negated"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class ReplacedNames(ClozeProbe):
    """How often does a prediction change when names are exchanged for others of their type?"""

    task = "diagnostics:replaced_names"
    asks = "changes"
    subject = "meaning"
    reference = "Balasubramanian et al. 2020"
    metrics = _CHANGE

    def items(self, source: str) -> ClozeItems:
        """Sentences of a corpus with names, of which all of one type are replaced; a word that is no name is predicted.

        Names are entities that begin with a capital; a type is their label and number of words, and new names are drawn
        from those of the corpus. The mask is drawn from nouns, verbs, adjectives and adverbs, or without parts of
        speech from words of four small letters and more. Where a corpus has no entities but coreference items, such as
        DPR, those whose candidates are two capitalised words are taken: these change places, which keeps their gender,
        the mask is the pronoun, and the prediction is the place whose name is the more probable one there.
        """
        corpus = load_corpus(source)
        split = next((name for name in ("test", "dev") if name in corpus), next(iter(corpus.splits)))
        pools: dict[_Type, dict[str, None]] = {}
        for kind, (_, _, name) in (one for text in corpus.splits.values() for some in text for one in _names(some)):
            if name[:1].isupper():
                pools.setdefault(kind, {})[name] = None
        numbered = [(sentence, f"{split}-{number}") for number, sentence in enumerate(corpus[split], 1)]
        if pools:
            found = [one for sentence, name in numbered for one in _replaced(sentence, name, pools)]
        else:
            found = [one for sentence, name in numbered for one in _exchanged(sentence, name)]
        if not found:
            remedy = "give a corpus with entities, or coreference items between names"
            raise CorpusError(f"{source}, split {split}: no sentence has names to replace; {remedy}")
        return ClozeItems.of(found, clusters="sentences" if pools else "pairs of names", language=corpus.language)


_Type = tuple[str, int]
_Part = tuple[int, int, str]
"""First character and end of a part of a text, and what stands there, or is to stand there."""
_MASK, _CONTENT = "{mask}", ("NOUN", "VERB", "ADJ", "ADV")


def _names(sentence: Sentence) -> Iterator[tuple[_Type, _Part]]:
    """The type and the place of each entity of a sentence."""
    for target in sentence.targets.get("entities", ()):
        first, last = target.span1
        start, end = sentence.spans[first][0], sentence.spans[last - 1][1]
        yield (target.labels[0], last - first), (start, end, sentence.text[start:end])


def _replaced(sentence: Sentence, name: str, pools: Mapping[_Type, Mapping[str, None]]) -> _Found:
    """An item for each type of names of a sentence."""
    names, tags = list(_names(sentence)), sentence.layers.get("upos")
    inside = [part for _, part in names]
    words = [
        (*span, _MASK)
        for place, (span, word) in enumerate(zip(sentence.spans, sentence.words, strict=True))
        if (tags[place] in _CONTENT if tags else re.fullmatch("[a-z]{4,}", word))
        and not _overlap((*inside, (*span, _MASK)))
    ]
    for kind in dict.fromkeys(kind for kind, part in names if part[2] in pools.get(kind, ())):
        item = f"{name}-{kind[0]}-{kind[1]}"
        parts = [part for of, part in names if of == kind and part[2] in pools[kind]]
        old = dict.fromkeys(form for *_, form in parts)
        new = dict(zip(old, drawn_order([form for form in pools[kind] if form not in old], item), strict=False))
        if not words or len(new) < len(old):
            problem = "names inside each other" if _overlap(inside) else "no word to predict"
            yield LeftOut(item, kind[0], "too few other names of its type" if words else problem)
            continue
        mask = drawn_order(words, item)[0]
        other = _written(sentence, mask, *((start, end, new[form]) for start, end, form in parts))
        yield ClozeItem(item, name, kind[0], _written(sentence, mask), other=other)


def _overlap(parts: Iterable[_Part]) -> bool:
    return any(one[1] > other[0] for one, other in pairwise(sorted(parts)))


def _exchanged(sentence: Sentence, name: str) -> _Found:
    """An item for two names that a pronoun may mean; those of one pair of names, as both of a schema, are a cluster."""
    targets = sentence.targets.get("winograd", ())
    if len(targets) != 2 or any(one.span1[1] - one.span1[0] > 1 for one in targets):
        return
    first, second = (sentence.words[one.span1[0]] for one in targets)
    if targets[0].span2 is not None and first[0].isupper() and second[0].isupper() and first != second:
        start, end = targets[0].span2
        mask, other = (sentence.spans[start][0], sentence.spans[end - 1][1], _MASK), {first: second, second: first}
        places = zip(sentence.spans, sentence.words, strict=True)
        parts = ((*span, other[word]) for span, word in places if word in other)
        texts = _written(sentence, mask), _written(sentence, mask, *parts)
        cluster, names = " ".join(sorted(other)), (first, second)
        item = ClozeItem(f"{name}-pronoun", cluster, "coreference", texts[0], other=texts[1])
        yield replace(item, rivals=names, accepted=names[::-1])


def _written(sentence: Sentence, *parts: _Part) -> str:
    """The text of a sentence with some parts replaced."""
    text = sentence.text
    for start, end, form in sorted(parts, reverse=True):
        text = text[:start] + form + text[end:]
    return text


PROBE = ProbeFamily.among(
    [*_KINDS, ReplacedNames()],
    argument="name of a diagnostic",
    question="Does it predict what people expect: by common sense, by who did what to whom, under negation?",
)
