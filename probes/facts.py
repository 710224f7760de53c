"""Facts whose answers have any number of subwords: which of a closed set of candidates completes each?

``facts:bear`` is the probe of Wiland, Ploner & Akbik (2024), *BEAR: A Unified Framework for Evaluating Relational
Knowledge in Causal and Masked Language Models*. A mask takes one subword, so that ``lama`` leaves out most answers.
Here each candidate of a relation is put into the template, and the filled-in sentences are ranked by
pseudo-log-likelihood. As in the authors' code, its form is ``within_word_l2r`` (Kauf & Ivanova 2023), no candidate's
length is made up for, and sentences begin with a capital letter.

A relation has three templates, each a group of its own. ``micro_choice_accuracy`` is the authors' score, the share of
facts whose answer is ranked first, here the mean over templates, and that of each template; ``choice_accuracy`` is the
mean over relations and templates. A fact in all its templates is what is resampled. Every candidate of a relation is
the answer of about as many facts, so that chance is one in the number of candidates.

In the pocket world, facts that its training text states are ranked among all towns, countries or trades.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bertology import pocket
from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.cloze.prompts import AnswerForm
from bertology.corpora.prompts.lama import read_bear
from bertology.measures import find_metric
from bertology.measures.metrics import mean_over_groups
from bertology.probing import LeftOut, ProbeFamily

from .lama import pocket_facts

_BY_TEMPLATE = tuple(
    mean_over_groups(
        f"micro_choice_accuracy template {number}",
        f"share of facts whose answer is ranked first in template {number} of their relation",
        of=find_metric("micro_choice_accuracy"),
        which=lambda group, end=f" template {number}": group.endswith(end),  # type: ignore[misc]
    )
    for number in (1, 2, 3)
)


@dataclass(frozen=True)
class Bear(ClozeProbe):
    """Which of all candidates of a relation completes a fact?"""

    form: AnswerForm | None = "within_word_l2r"
    """Scoring of the filled-in sentences: ``within_word_l2r`` or ``original``; see
    :data:`bertology.cloze.prompts.AnswerForm`."""
    task = "facts:bear"
    reference = "Wiland et al. 2024"
    asks = "statements"
    metrics = ("choice_accuracy", "micro_choice_accuracy", *_BY_TEMPLATE)

    def items(self, source: str) -> ClozeItems:
        """Every fact in every template of its relation, with all other candidates as rivals; a fact is a cluster."""
        return ClozeItems.of(_pocket() if source == "pocket" else read_bear(source), clusters="facts")


def _pocket() -> Iterator[ClozeItem | LeftOut]:
    for item, fact in zip(pocket_facts(), pocket.facts(), strict=True):
        rivals = tuple(word for word in pocket.candidates(fact.relation) if word != fact.object)
        for number, text in item.variants.items():
            name, group = f"{item.id}:{number}", f"{item.group} template {number}"
            if fact.n_stated:
                yield ClozeItem(name, item.id, group, text, fact.object, rivals=rivals, subject=fact.subject)
            else:
                yield LeftOut(name, group, "never stated in the training text")


PROBE = ProbeFamily.among([Bear()], argument="set of facts")
