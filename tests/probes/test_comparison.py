"""What differs between a model and its reference: vectors and attention, of models made for it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from bertology import Results, probe
from bertology.corpora import Corpus
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.geometry import linear_cka
from bertology.pocket import load_corpus
from bertology.results.report import write_report
from bertology.runner.experiment import ModelSettings

SMALL = Corpus("small", {name: load_corpus()[name][:25] for name in ("dev", "test")})
BOTH = ["comparison:vectors", "comparison:attention"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared") / "run"


@pytest.fixture(scope="module")
def found(tiny_bert: Path, run: Path) -> Results:
    """A model beside other blocks over the same embeddings."""
    other = ModelSettings(name=str(tiny_bert), init="random_blocks", init_seed=4, id="other")
    return probe(BOTH, model=tiny_bert, reference=other, corpus=SMALL, layers="0,3", controls="none", out=run)


def value(results: Results, metric: str, layer: int, head: str | None = None) -> float:
    (row,) = [
        one for one in results.rows if (one.metric, one.layer, one.head, one.group) == (metric, layer, head, None)
    ]
    assert row.value is not None
    return row.value


def test_scores_are_those_of_the_encoders_themselves(found: Results, tiny_bert: Path) -> None:
    text = SMALL["test"]
    encoders = [
        load_encoder(str(tiny_bert), init=init, seed=4, device="cpu")  # type: ignore[arg-type]
        for init in ("pretrained", "random_blocks")
    ]
    vectors = [encoder.vectors(text).at(layer=3).values for encoder in encoders]
    assert value(found, "cka", 3) == pytest.approx(linear_cka(*vectors), abs=2e-3)
    divergences, cosines = [], []
    for sentence in text:
        maps = [one.attention(sentence, layers=[3]).values[0, 1, 1:-1].astype(float) for one in encoders]
        divergences += (jensenshannon(*maps, base=2, axis=1) ** 2).tolist()
        cosines.append(np.vdot(*maps) / np.prod([np.linalg.norm(one) for one in maps]))
    assert value(found, "divergence_bits", 3, "L3H2") == pytest.approx(np.mean(divergences), abs=1e-5)
    assert value(found, "map_cosine", 3, "L3H2") == pytest.approx(np.mean(cosines), abs=1e-5)
    heads = [value(found, "divergence_bits", 3, f"L3H{head}") for head in range(1, 5)]
    assert value(found, "divergence_bits", 3) == pytest.approx(np.mean(heads))


def test_what_both_models_share_is_the_same(found: Results) -> None:
    assert (value(found, "cka", 0), value(found, "anisotropy_change", 0)) == (pytest.approx(1), 0)
    assert value(found, "procrustes_distance", 0) == pytest.approx(0, abs=1e-6)
    assert value(found, "cka", 3) < 0.9
    assert "reference   other" in found.view().to_text()


def test_the_report_shows_sums(found: Results, run: Path, tmp_path: Path) -> None:
    page = write_report([run], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "statistics of vectors are kept as sums" in page
    assert "statistics of heads are kept as sums" in page


def test_a_rotated_model_is_the_same_but_for_single_words(rotated: Path, tiny_bert: Path) -> None:
    results = probe(BOTH, model=rotated, reference=tiny_bert, corpus=SMALL, layers="3", controls="none")
    assert value(results, "cka", 3) == pytest.approx(1, abs=1e-4)
    assert value(results, "procrustes_distance", 3) == pytest.approx(0, abs=1e-4)
    assert value(results, "divergence_bits", 3) == pytest.approx(0, abs=1e-6)
    assert value(results, "map_cosine", 3) == pytest.approx(1, abs=1e-6)
    assert value(results, "cosine_reference", 3) < 0.5


def test_what_cannot_be_compared_is_one_line(tiny_bert: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, BertForMaskedLM

    with pytest.raises(BertologyError, match="vectors, attention"):
        probe("comparison:weight", model=tiny_bert, reference=tiny_bert, corpus=SMALL)
    readout = {"name": "vectors", "settings": {"match": "ckb"}}
    with pytest.raises(BertologyError, match=r"match of task comparison:vectors.*cka"):
        probe("comparison:vectors", model=tiny_bert, reference=tiny_bert, corpus=SMALL, readout=readout)
    other = tmp_path / "other"
    BertForMaskedLM.from_pretrained(tiny_bert, num_attention_heads=8).save_pretrained(other)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(other)
    with pytest.raises(BertologyError, match=r"^task comparison:attention: .* 4 heads in a layer, .*other 8: "):
        probe("comparison:attention", model=tiny_bert, reference=other, corpus=SMALL, controls="none")
