"""Challenge sets: on which groups of texts are the decisions of a fine-tuned model right?

After McCoy et al. (2019), *Right for the Wrong Reasons: Diagnosing Syntactic Heuristics in Natural Language Inference*
(HANS): pairs that a model which takes words in common for entailment gets right where one entails the other, and wrong
where it does not. Accuracy is of all items, by label, by heuristic, by heuristic × label and by subcase; a model that
gives one label to all pairs of a heuristic is right on one label alone, which is why the two stand next to each other.
Any labelled set of texts or pairs will do. Its columns ``heuristic``, ``subcase`` and ``template`` are read among the
labels where they are there; texts of one template are resampled together.

A decision is the most probable label of the model's own head, which then stands for a label of the set; McCoy et al.
do so too, and report that adding up the probabilities of *neutral* and *contradiction* makes little difference. It
stands for the label of the same name or, where the set has none, for that of a preset: by ``hans`` *entailment* for
itself, and *neutral*, *contradiction* and *not_entailment* for *non-entailment*. Scores stand under the last layer,
which heads read.
"""

from dataclasses import dataclass

from bertology.finetuning.challenge import ChallengeProbe
from bertology.probing import ProbeFamily

_OTHERS = dict.fromkeys(("neutral", "contradiction", "not-entailment", "non-entailment"), "non-entailment")


@dataclass(frozen=True)
class Challenge(ChallengeProbe):
    """Which groups of a challenge set does a fine-tuned model label correctly?"""

    reference = "McCoy et al. 2019a"
    presets = {"own": {}, "hans": {"entailment": "entailment", **_OTHERS}}  # noqa: RUF012


PROBE = ProbeFamily(
    "column of labels", ("label", "COLUMN"), Challenge().question, Challenge.reference, Challenge, Challenge()
)
