"""Semantic roles: given a predicate and an argument, which role does it play?

After Tenney et al. (2019a), *What do you learn from context?*, §2.1: the predicate first, then the span of the
argument, and a PropBank role (``A0``, ``AM-TMP`` …). Roles of relative pronouns and of continued arguments (``R-A0``,
``C-A1``) say how a sentence is built rather than who did what: they are left out, unless ``edge_srl:all`` asks for
them too.
"""

from dataclasses import dataclass

from bertology.corpora import Sentences
from bertology.errors import BertologyError
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, target_examples

_QUESTION = "Which semantic role does an argument play for its predicate?"
_REFERENCE = "Tenney et al. 2019a, §2.1"


@dataclass(frozen=True)
class EdgeSemanticRoles(RepresentationProbe):
    """Which semantic role does an argument play?"""

    with_references: bool = False
    """Whether roles that begin with R- and C- are asked about."""
    version = 1
    question = _QUESTION
    reference = _REFERENCE
    readout = "edge.v1"
    metrics = ("micro_f1", "macro_f1")

    @property
    def task(self) -> str:
        """``edge_srl``, or ``edge_srl:all``."""
        return "edge_srl:all" if self.with_references else "edge_srl"

    def examples(self, sentences: Sentences) -> Examples:
        """Every predicate and argument with its role."""
        return target_examples(sentences, "srl", spans=2, label=lambda role: role if self._is_asked(role) else None)

    def _is_asked(self, role: str) -> bool:
        return self.with_references or not role.upper().startswith(("R-", "C-"))


def _make(argument: str) -> EdgeSemanticRoles:
    if argument != "all":
        raise BertologyError(f"task edge_srl:{argument}: write edge_srl, or edge_srl:all for R- and C- roles as well")
    return EdgeSemanticRoles(with_references=True)


PROBE = ProbeFamily(
    argument="choice of roles",
    instances=("all",),
    question=_QUESTION,
    reference=_REFERENCE,
    make=_make,
    default=EdgeSemanticRoles(),
)
