"""Edge probing: one span of a sentence, or two, are given; which label do they have?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1: nine tasks that one readout of spans is put to, so
that their profiles by layer can be compared. Where the spans begin and end is given.

- ``edge_pos``: the question of ``pos``, with its universal labels where the paper has those of the Penn Treebank.
- ``edge_constituents``: the category of a phrase (``NP``, ``SBAR`` …), without grammatical functions.
- ``edge_entities``: the kind of a name.
- ``edge_dependencies``: a dependent, its head, and the relation as the treebank writes it (``nmod:poss`` is a label of
  its own). The root has no head among the words and is not asked about.
- ``edge_srl``: a predicate, an argument and a PropBank role (``A0``, ``AM-TMP`` …). Roles of relative pronouns and of
  continued arguments (``R-A0``, ``C-A1``) state how a sentence is built rather than who did what: only ``edge_srl:all``
  has them.
- ``edge_proto_roles`` (Reisinger et al. 2015, *Semantic Proto-Roles*): each property (awareness, volition …) of an
  argument holds or not, so that an item may have any number of labels. The score counts each yes that is right.
- ``edge_coreference``: all pairs of mentions of a sentence, ``1`` if they corefer and ``0`` if not. Most do not, so
  the main metric is F1 of ``1`` alone, as in the paper.
- ``edge_coreference:documents``: mentions in different sentences of a document, which the model reads at once, of
  ``coreference:CORPUS`` (GUM, OntoNotes): each with an antecedent, ``1``, and with another mention of the antecedent's
  sentence, ``0``. So accuracy, the main metric, stays at 50 % where nothing is known. Words in common are left in.
- ``edge_relations``: SemEval-2010 Task 8 (Hendrickx et al. 2010), nine directed relations and ``Other``. The main
  metric is the official one: F1 of each relation, both directions together but right only with the right one,
  ``Other`` left out, mean over relations.
- ``edge_winograd``: the definite pronouns of Rahman & Ng (2012), *Resolving Complex Cases of Definite Pronouns*. Each
  candidate is an item with its pronoun, ``1`` if it is the one meant. Half of the items are ``1``, so the main metric
  is accuracy, which stays at 50 % where nothing is known.
- ``edge_gap``: GAP (Webster et al. 2018), a pronoun and two names around it in a text of several sentences, which the
  model reads at once. Each name is an item with the pronoun, ``1`` if it is the one meant; of one text in ten it is
  neither. The main metric is accuracy, next to F1 of ``1`` as in the paper, which ``1`` throughout brings to 62 %.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed
from bertology.measures.metrics import grouped_macro_f1, micro_f1
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, pair_examples, target_examples
from bertology.probing.probes import AnnotationProbe

_TENNEY, _F1 = "Tenney et al. 2019a, §2.1", ("micro_f1", "macro_f1")
_UNRELATED = ("Other", "none")


@dataclass(frozen=True)
class EdgeDependencies(RepresentationProbe):
    """Which grammatical relation joins a word to its head?"""

    task = "edge_dependencies"
    subject = "syntax"
    reference = _TENNEY
    readout = "edge.v1"
    metrics = _F1

    def examples(self, sentences: Sentences) -> Examples:
        """Every word that has a head, with that head and the relation."""
        relations = sentences.layers.get("deprel")
        if sentences.heads is None or relations is None:
            there = listed(sorted(sentences.layers))
            raise CorpusError(f"no word has a head and a relation to it: the annotation layers are {there}")
        has_arc = (sentences.heads > 0) & (relations.codes >= 0)
        dependents = np.flatnonzero(has_arc)
        heads = (sentences.starts[sentences.sentence_of_word] + sentences.heads - 1)[dependents]
        labels = [relations.values[code] for code in relations.codes[dependents].tolist()]
        n_without = int(((sentences.heads != 0) & ~has_arc).sum())
        skipped = {"no head or no deprel label": n_without} if n_without else {}
        return pair_examples(sentences, dependents, heads, labels, skipped=skipped)


@dataclass(frozen=True)
class EdgeSemanticRoles(RepresentationProbe):
    """Which semantic role does an argument play for its predicate?"""

    with_references: bool = False
    """Whether roles that begin with R- and C- are asked about."""
    reference = _TENNEY
    readout = "edge.v1"
    metrics = _F1

    @property
    def task(self) -> str:
        """``edge_srl``, or ``edge_srl:all``."""
        return "edge_srl:all" if self.with_references else "edge_srl"

    def examples(self, sentences: Sentences) -> Examples:
        """Every predicate and argument with its role."""
        return target_examples(sentences, "srl", spans=2, label=lambda role: role if self._is_asked(role) else None)

    def _is_asked(self, role: str) -> bool:
        return self.with_references or not role.upper().startswith(("R-", "C-"))


@dataclass(frozen=True, kw_only=True)
class _WholeTexts(AnnotationProbe):
    whole_texts = "give shorter ones, such as coreference:64:CORPUS of up to 64 words"

    def examples(self, sentences: Sentences) -> Examples:
        """Every pair of mentions."""
        if self.layer not in sentences.target_layers:
            raise CorpusError("no pairs of mentions of two sentences: give GUM or OntoNotes as coreference:CORPUS")
        return super().examples(sentences)


def _relation(label: str) -> str | None:
    """The relation without its direction; None where there is none."""
    return None if label in _UNRELATED else label.partition("(")[0]


_edge = partial(AnnotationProbe, reference=_TENNEY, readout="edge.v1", spans=2, metrics=_F1)
POS = _edge(
    task="edge_pos",
    layer="upos",
    spans=0,
    subject="word classes",
    question="As an edge probe: which universal part of speech does each word have?",
    about="Every word with its upos label.",
)
CONSTITUENTS = _edge(
    task="edge_constituents",
    layer="constituents",
    spans=1,
    subject="syntax",
    question="Which category does each phrase have?",
    about="Every phrase with its category.",
)
ENTITIES = _edge(
    task="edge_entities",
    layer="entities",
    spans=1,
    question="Of what kind is the thing that a name names?",
    about="Every name with its kind.",
)
DEPENDENCIES = EdgeDependencies()
PROTO_ROLES = _edge(
    task="edge_proto_roles",
    layer="proto_roles",
    question="Which properties (volition, awareness …) hold of an argument of a predicate?",
    about="Every predicate and argument with all properties that hold.",
    reference=f"{_TENNEY}; Reisinger et al. 2015",
)
COREFERENCE = _edge(
    task="edge_coreference",
    layer="coref",
    question="Do two mentions in a sentence mean the same?",
    about="Every pair of mentions with 1 or 0.",
    metrics=(micro_f1(without=("0",)), "accuracy"),
)
COREFERENCE_OVER_SENTENCES = _WholeTexts(
    task="edge_coreference:documents",
    layer="coref_documents",
    spans=2,
    readout="edge.v1",
    question="Do two mentions in different sentences of a document mean the same?",
    about="Every mention with an antecedent, 1, and with another mention of the antecedent's sentence, 0.",
    reference="cf. Tenney et al. 2019a, §2.1",
    metrics=("accuracy", micro_f1(without=("0",))),
)
WINOGRAD = _edge(
    task="edge_winograd",
    layer="winograd",
    question="Does a pronoun mean this candidate, where only sense can tell?",
    about="Every candidate and its pronoun with 1 or 0.",
    reference=f"{_TENNEY}; Rahman & Ng 2012",
    metrics=("accuracy", "macro_f1"),
)
GAP = _edge(
    task="edge_gap",
    layer="gap",
    question="Does a pronoun mean this name, in a text of several sentences?",
    about="Every name and the pronoun with 1 or 0.",
    reference="Webster et al. 2018, §3",
    metrics=("accuracy", micro_f1(without=("0",))),
)
RELATIONS = _edge(
    task="edge_relations",
    layer="relations",
    question="How are two things that a sentence names related?",
    about="Every pair of nominals with its relation.",
    reference=f"{_TENNEY}; Hendrickx et al. 2010",
    metrics=(
        grouped_macro_f1(
            "macro_f1", "mean F1 over relations, both directions of one together, Other left out", group=_relation
        ),
        micro_f1(without=_UNRELATED),
    ),
)
SRL = ProbeFamily.among(
    [EdgeSemanticRoles(with_references=True)], argument="choice of roles", default=EdgeSemanticRoles()
)
COREFERENCES = ProbeFamily.among([COREFERENCE_OVER_SENTENCES], argument="choice of pairs", default=COREFERENCE)
