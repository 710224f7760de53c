"""What does a readout fitted to the reference model still find in the model?

``frozen_probe:pos`` fits the readout of ``pos`` to the train vectors of the reference, layer by layer, and scores it on
the test vectors of the model; beside it the same readout on these vectors with mean and spread of the reference's in
each dimension (``rescaled``), a readout fitted to the model itself, and the first one on the reference, all on the
same items. What the frozen readout loses is the sum of three differences, each with an interval over sentences:

- ``scale_change``, rescaled less frozen: dimensions have moved or stretched. Those that hardly vary in the reference
  weigh most, as readouts standardise what they read: nearly all of the loss in the last layer of a MiniLM after CoLA.
- ``form_change``, refitted less rescaled: the labels are still there in other directions, such as after a rotation.
- ``content_change``, reference less refitted: what the labels rest on has been lost.

Merchant et al. (2020) and Mosbach et al. (2020) refit probes after fine-tuning, which shows the last alone. Both models
have to be of one width. ``comparisons.parquet`` has all differences with p-values.
"""

from dataclasses import dataclass

from bertology.comparison import ReadoutComparison
from bertology.errors import BertologyError
from bertology.measures import Metric
from bertology.probing import ProbeFamily, RepresentationProbe, get_probe


@dataclass(frozen=True)
class FrozenProbe(ReadoutComparison):
    """What does a readout of the reference still find?"""

    asked: RepresentationProbe
    task_form = "frozen_probe:{asked.task}"
    question = "What does a readout fitted to the reference still find in the model's vectors?"
    reference = "cf. Merchant et al. 2020; Mosbach et al. 2020"

    @property
    def of(self) -> RepresentationProbe:
        """The task after the colon: its words or spans, and their labels."""
        return self.asked

    @property
    def metrics(self) -> tuple[str | Metric, ...]:
        """The metrics of the task."""
        return self.of.metrics


def _frozen(name: str) -> FrozenProbe:
    probe = get_probe(name)
    if not isinstance(probe, RepresentationProbe):
        raise BertologyError(f"task frozen_probe:{name}: no readout is fitted for {name}: give a task such as pos")
    return FrozenProbe(probe)


PROBE = ProbeFamily(
    argument="task of words or spans",
    instances=("pos", "deprel", "ner"),
    question=FrozenProbe.question,
    reference=FrozenProbe.reference,
    make=_frozen,
)
