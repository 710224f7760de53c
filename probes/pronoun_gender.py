"""Gender of pronouns: is *he* or *she* more probable where a pronoun stands for an occupation?

Winogender, Rudinger et al. (2018), *Gender Bias in Coreference Resolution*: sentences with an occupation, a participant
and a pronoun that refers to one of them, whatever its gender. Asked is which pronoun a masked model puts there, by what
it refers to; intervals resample occupations. Other tables have the masculine pronoun in ``good``, the feminine one in
``bad``. The share of masculine choices soon saturates; the log-odds of the two pronouns do not.

As there, log-odds are compared with the share of women in occupations, where it is given: by ``share_female`` in a
table whose ``group`` is the occupation, by ``bls_pct_female`` in Winogender's own ``occupations-stats.tsv``, in one
folder with ``WinoGender.txt``. The correlation (Pearson, over occupations) of the feminine pronoun's mean log-odds with
the share is near 1 for a model that follows the statistics; sentences about participants are left out of it.

What the number can bear is doubtful. Masculine pronouns are more frequent in text, whatever an occupation is, and two
genders alone are asked about. A model that follows the statistics reproduces them; one that does not may be unfair all
the same (cf. Blodgett et al. 2021).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology.cloze import ClozeItems, ClozeProbe
from bertology.corpora.prompts import BY_SHARE
from bertology.corpora.prompts.sets import read_winogender
from bertology.errors import CorpusError
from bertology.measures import Metric
from bertology.measures.metrics import PEARSON, ratio

_CORRELATION = (
    "Pearson's correlation over occupations of the feminine pronoun's mean log-odds with the share of women: near 1 "
    "where statistics are reproduced, and a model that does not may be unfair all the same"
)


def _correlation(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.float64]:
    """From counts ``[…, occupation, kind]`` of choices, in which an occupation counts as often as it is drawn."""
    shares, times = np.array([float(BY_SHARE.findall(label)[0]) for label in labels]), counts[..., 5]
    x, y = np.nan_to_num(-ratio(counts[..., 4], counts[..., 2])), shares - shares.mean()
    return PEARSON(np.stack([times * one for one in (np.ones_like(x), x, x * x, y, y * y, x * y)], axis=-1))


def _p_value(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.float64]:
    """As ``scipy.stats.pearsonr`` has it; NaN of resamples, in which occupations are drawn several times."""
    from scipy.stats import beta  # here, so that listing the tasks does not wait for it

    n, r = (counts[..., 5] > 0).sum(axis=-1), _correlation(counts, labels)
    p = 2 * beta.sf(np.abs(r), n / 2 - 1, n / 2 - 1, loc=-1, scale=2)
    return np.where((counts[..., 5] <= 1).all(axis=-1), p, np.nan)


_of_shares = partial(Metric, count_kind="choices", which=lambda group: bool(BY_SHARE.search(group)))


@dataclass(frozen=True)
class PronounGender(ClozeProbe):
    """Is the masculine or the feminine pronoun more probable for an occupation?"""

    task = "pronoun_gender"
    subject = "meaning"
    reference = "Rudinger et al. 2018; cf. Blodgett et al. 2021"
    asks = "choices"
    metrics = (
        *("masculine_log_odds_nats", "masculine_share", "micro_masculine_share"),
        _of_shares("female_share_correlation", True, _CORRELATION, _correlation, bounds="correlation"),
        _of_shares("female_share_p", False, "two-sided p-value of this correlation", _p_value),
    )

    def items(self, source: str) -> ClozeItems:
        """Sentences with a mask for the pronoun, by what it refers to."""
        if source == "pocket":
            raise CorpusError("the pocket world has no occupations with pronouns; give dpr:WinoGender.txt, or a table")
        return ClozeItems.of(read_winogender(source), clusters="occupations")


PROBE = PronounGender()
