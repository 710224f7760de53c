"""Association tests: are vectors of two sets of targets nearer to one of two sets of attributes?

WEAT (Caliskan et al. 2017, *Semantics derived automatically from language corpora contain human-like biases*) compares
vectors of words; SEAT (May et al. 2019, *On Measuring Social Biases in Sentence Encoders*) those of sentences such as
*This is a doctor.*, in BERT the vector of its first special token. The effect size d is the difference between the
targets' mean associations in standard deviations; the p-value is that of a permutation test, exact where there are
100,000 divisions of the targets or fewer. Intervals resample all texts, targets and attributes, by the jackknife; of
few texts they are too narrow.

What the number can bear is doubtful. May et al. themselves find that these tests depend on templates and words in ways
that no bias would; Goldfarb-Tarrant et al. (2021), *Intrinsic Bias Metrics Do Not Correlate with Application Bias*,
find that they do not predict the bias of applications. A d near 0 does not say that a model is without bias.

A table has a row for each text: ``set`` (``target_x``, ``target_y``, ``attribute_a``, ``attribute_b``), ``text``, and,
where there are several tests, their name in ``group``. Where a ``word`` is given, the vector is that of the word.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bertology.causal import CausalItems, CausalProbe
from bertology.cloze.prompts import encode, too_long
from bertology.corpora import Sentences
from bertology.corpora.prompts import Form, required_tables
from bertology.errors import CorpusError, ModelError, listed
from bertology.measures import sum_metric
from bertology.measures.sums import Floats, LayerSums, by_layer, jackknife_sums, ratio_sums
from bertology.probing import ControlNote, GeometryCounts, RunningModel

SETS = ("target_x", "target_y", "attribute_a", "attribute_b")
"""The sets of an association test."""
_FORM = Form(needs=("set", "text"), may=("word", "group", "id"), aliases={"group": ("group", "test"), "id": ()})
_CAUTION = (
    "mean association of X minus that of Y, in standard deviations: it depends on templates and words as no bias would "
    "(May et al. 2019), and does not predict the bias of applications (Goldfarb-Tarrant et al. 2021)"
)


def _associations(x: Floats, y: Floats, a: Floats, b: Floats) -> list[Floats]:
    """``[target]`` of both sets of ``[vector, dim]`` targets, the mean cosine with A minus that with B."""
    x, y, a, b = (some / np.linalg.norm(some, axis=1, keepdims=True) for some in (x, y, a, b))
    return [np.asarray((some @ a.T).mean(1) - (some @ b.T).mean(1)) for some in (x, y)]


def _effect_size(*sets: Floats) -> float:
    """Difference of the targets' mean associations in standard deviations (n − 1); NaN where all are the same."""
    x, y = _associations(*sets)
    spread = np.std([*x, *y], ddof=1)
    return float((x.mean() - y.mean()) / spread) if spread > 1e-12 else np.nan


def left_out_effects(*sets: Floats) -> Floats:
    """``[1 + vector]`` the effect size of all vectors, and without each, in the order of the sets."""
    values = [_effect_size(*sets)]
    for number, some in enumerate(sets):
        rest = ([*sets[:number], np.delete(some, one, axis=0), *sets[number + 1 :]] for one in range(len(some)))
        values += [_effect_size(*left) for left in rest]
    return np.array(values)


def association_p(*sets: Floats) -> float:
    """The one-sided p-value: the share of divisions of the targets into two sets of these sizes with as large a
    difference, of all where they are 100,000 or fewer, else of so many random ones."""
    from scipy.stats import permutation_test  # here, so that listing the tasks does not wait for it

    found = permutation_test(
        _associations(*sets),
        lambda one, other, axis: one.mean(axis=axis) - other.mean(axis=axis),
        vectorized=True,
        n_resamples=100_000,
        batch=1000,
        alternative="greater",
        random_state=np.random.default_rng(0),  # its name in all versions of scipy from 1.13 on
    )
    return float(found.pvalue)


@dataclass(frozen=True, slots=True)
class SetText:
    """A text of one set of a test."""

    group: str
    set: str
    text: str
    word: str = ""
    """The word whose vector is taken; empty for that of the text."""


@dataclass(frozen=True)
class AssociationTest(CausalProbe):
    """Are the vectors of two sets of texts nearer to one of two sets of attributes?"""

    vector: Literal["cls", "mean"] = "cls"
    """Vector of a text: ``cls`` that of the special token before it, as in SEAT; ``mean`` that of its subwords."""
    task = "association"
    subject = "meaning"
    about = "Texts of the sets of all tests."
    reference = "Caliskan et al. 2017; May et al. 2019; cf. Goldfarb-Tarrant et al. 2021"
    controls = (ControlNote("none", "readout", "vectors of texts, or of the words that are named"),)
    metrics = (
        sum_metric("effect_size", _CAUTION),
        sum_metric("permutation_p", "p-value: share of divisions of the targets with as large a difference"),
    )

    def items(self, source: str, *, columns: str | None = None) -> CausalItems:
        """Texts of the sets of all tests."""
        if source == "pocket":
            raise CorpusError("the pocket world has no association tests; give a table with set, text and group")
        return CausalItems(_read(source, columns))

    def counts(self, sentences: Mapping[str, Sentences], items: CausalItems | None) -> GeometryCounts:
        """Texts; a :class:`CorpusError` for a test without two texts in each set."""
        sizes = Counter((one.group, one.set) for one in items.items) if items is not None else Counter[Any]()
        for test, name in itertools.product(dict.fromkeys(test for test, _ in sizes), SETS):
            if sizes[test, name] < 2:
                raise CorpusError(f"test {test!r} has fewer than two texts in {name}; give more, or no max_items")
        return GeometryCounts(sizes.total(), unit="texts")

    def measure(self, model: RunningModel) -> Iterator[LayerSums | GeometryCounts]:
        """Effect sizes of each layer and test; items are texts."""
        items: tuple[SetText, ...] = model.items.items
        vectors, layers = self._vectors(model, items), tuple(model.layers)
        tests = list(dict.fromkeys(one.group for one in items))
        sets_of = [(one.group, one.set) for one in items]
        places = [[[n for n, of in enumerate(sets_of) if of == (test, name)] for name in SETS] for test in tests]

        def of_layer(found: Floats) -> Iterator[LayerSums]:
            wholes, parts = list[float](), list[Floats]()
            for test, sets in zip(tests, places, strict=True):
                some = [found[chosen] for chosen in sets]
                whole, *without = left_out_effects(*some)
                wholes.append(whole)
                parts.append(whole - np.array(without))
                group = test if len(tests) > 1 else ""
                if group:
                    yield jackknife_sums("effect_size", whole, parts[-1], "items", group=group, n_items=len(without))
                if np.isfinite(whole):  # not where all vectors are the same, as those of [CLS] in layer 0 are
                    yield ratio_sums("permutation_p", [association_p(*some)], group=group)
            influences = np.concatenate(parts) / len(tests)
            yield jackknife_sums("effect_size", np.mean(wholes), influences, "items", n_items=len(items))

        yield from by_layer((layer, of_layer(vectors[place])) for place, layer in enumerate(layers))

    def _vectors(self, model: RunningModel, items: tuple[SetText, ...]) -> Floats:
        """The vectors ``[layer, text, dim]``."""
        import torch  # here, so that listing the tasks does not wait for it

        encoder, made = model.encoder, []
        if self.vector == "cls" and not encoder.n_prefix and not all(one.word for one in items):
            raise ModelError(f"model {encoder.name} has no special token before a text: set vector=mean")
        for one, encoding in zip(items, encode(encoder, [one.text for one in items]), strict=True):
            inside = list(range(encoder.n_prefix, len(encoding.ids) - encoder.n_suffix))
            if one.word:
                ((start, end),) = _spans(one)
                offsets = encoding.offsets
                inside = [at for at in inside if offsets[at][0] < end and offsets[at][1] > start]
            if not inside or (why := too_long(encoder, len(encoding.ids))):
                raise ModelError(f"text {one.text!r}: {why if inside else 'no subword'}; give another text")
            at = [0] if self.vector == "cls" and not one.word else inside
            states = encoder.hidden_states(torch.tensor([encoding.ids]), layers=model.layers)
            made.append([states[layer][0, at].mean(0).double().cpu().numpy() for layer in model.layers])
        return np.stack(made, axis=1)


def _spans(one: SetText) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(rf"(?<!\w){re.escape(one.word)}(?!\w)", one.text, re.IGNORECASE)]


def _read(source: Any, columns: str | None) -> tuple[SetText, ...]:
    """The texts of a table."""
    found = list[SetText]()
    for table, chosen in required_tables(source, _FORM, columns=columns):
        for row in table.rows():
            cells = {key: row.text(chosen[key][0], numbers=key in ("group", "word")) for key in chosen if key != "id"}
            one = SetText(cells.get("group", "test"), cells["set"].lower(), cells["text"], cells.get("word", ""))
            if one.set not in SETS:
                raise row.error(chosen["set"][0], listed(SETS))
            if one.word and len(_spans(one)) != 1:
                raise row.error(chosen["word"][0], f"a word that stands once in {one.text!r}")
            if one in found:
                raise row.error(chosen["text"][0], "each text once in a set")
            found.append(one)
    return tuple(found)


PROBE = AssociationTest()
