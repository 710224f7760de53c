"""Gender of pronouns: is *he* or *she* more probable where a pronoun stands for an occupation?

Winogender, Rudinger et al. (2018), *Gender Bias in Coreference Resolution*: sentences with an occupation, a participant
and a pronoun that refers to one of them, whatever its gender. Asked is which pronoun a masked model puts there, by what
it refers to; intervals resample occupations. Other tables have the masculine pronoun in ``good``, the feminine one in
``bad``. To compare with statistics of occupations, as Rudinger et al. do, give a table whose ``group`` is the share of
women, such as *under 25 %*: the copy of Winogender that is known by name (``dpr:WinoGender.txt``) has no statistics.

What the number can bear is doubtful. Masculine pronouns are more frequent in text, whatever an occupation is, and two
genders alone are asked about. A model that follows the statistics reproduces them; one that does not may be unfair all
the same (cf. Blodgett et al. 2021).
"""

from dataclasses import dataclass

from bertology.cloze import ClozeItems, ClozeProbe
from bertology.corpora.prompts.sets import read_winogender
from bertology.errors import CorpusError


@dataclass(frozen=True)
class PronounGender(ClozeProbe):
    """Is the masculine or the feminine pronoun more probable for an occupation?"""

    task = "pronoun_gender"
    subject = "meaning"
    reference = "Rudinger et al. 2018; cf. Blodgett et al. 2021"
    asks = "choices"
    metrics = ("masculine_share", "micro_masculine_share")

    def items(self, source: str) -> ClozeItems:
        """Sentences with a mask for the pronoun, by what it refers to."""
        if source == "pocket":
            raise CorpusError("the pocket world has no occupations with pronouns; give dpr:WinoGender.txt, or a table")
        return ClozeItems.of(read_winogender(source), clusters="occupations")


PROBE = PronounGender()
