"""The executable primer: claims about BERT-like encoders as tests, with a verdict for the encoder in hand.

Start with :mod:`bertology.primer.claims`, what a claim is; :mod:`bertology.primer.rules` turns intervals into verdicts,
:mod:`bertology.primer.run` plans and runs the experiment that the claims need.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.primer.claims import claims_schema as claims_schema
    from bertology.primer.claims import load_claims
    from bertology.primer.run import Primer, primer
    from bertology.primer.run import changed_verdicts as changed_verdicts
    from bertology.primer.run import read_primer as read_primer

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["Primer", "load_claims", "primer"]
