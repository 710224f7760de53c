import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import load_corpus, probe
from bertology.activations.layers import LayerVectors
from bertology.corpora import Corpus, Sentences
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.families.request import ReadoutConfig
from bertology.probing import get_probe
from bertology.runner import ProbeRequest, run_probes

PROBE: Any = get_probe("contextuality")


def small(n: int) -> Corpus:
    """Sentences without contractions, in which a piece may belong to two words."""
    text = [
        sentence for sentence in load_corpus("pocket")["test"] if "'" not in sentence.text and "’" not in sentence.text
    ]
    return Corpus("small", {"test": Sentences(text[:n])})


def without_positions(folder: Path) -> Any:
    """The embedded model whose layer 0 knows no place: a word's vector there is the word."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    from bertology.pocket import model_folder

    model = AutoModelForMaskedLM.from_pretrained(model_folder())
    with torch.no_grad():
        for name in ("position_embeddings", "token_type_embeddings"):
            getattr(model.base_model.embeddings, name).weight.zero_()
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model_folder()).save_pretrained(folder)
    return str(folder)


def test_without_positions_a_word_is_itself_at_layer_0(tmp_path: Path) -> None:
    table = probe("contextuality", model=without_positions(tmp_path), layers="0,2", controls=(), corpus=small(150))
    scores = table.scores().set_index(["metric", "layer"]).value
    assert scores["self_similarity", 0] == pytest.approx(1, abs=1e-4)
    assert scores["variance_within", 0] == pytest.approx(0, abs=1e-4)
    assert scores["self_similarity", 2] < 0.95


def test_rows_are_statistics_of_the_encoders_vectors(tiny_bert: Path) -> None:
    text = load_corpus("pocket")["test"][:60]
    request = ProbeRequest(tasks=("contextuality",), model=str(tiny_bert), controls=())
    results = run_probes(request, corpus=Corpus("small", {"test": text}))
    encoder = load_encoder(str(tiny_bert), device="cpu")
    vectors = LayerVectors.of_arrays(encoder.vectors(text).values)
    expected = {
        (one.metric, one.group): one.values
        for one in PROBE.statistics({"test": vectors}, {"test": text}, PROBE.items({"test": text}))
    }
    rows = results.rows
    assert {(row.metric, row.group or "") for row in rows} == set(expected)
    for row in rows:
        assert row.layer is not None
        assert row.value == pytest.approx(expected[row.metric, row.group or ""][row.layer], abs=2e-3)
    units = {row.metric: (row.n_items, row.n_clusters) for row in rows if row.group is None}
    assert units["intra_sentence_similarity"][1] <= 60
    assert units["self_similarity"][0] == units["self_similarity"][1]
    assert units["iso_score"][1] == 20


def test_text_without_repetition_is_refused_by_name() -> None:
    words = [f"word{number}" for number in range(60)]
    text = load_corpus([" ".join(words[n : n + 2]) for n in range(0, 60, 2)])
    with pytest.raises(BertologyError, match="contextuality: no word occurs in 5 sentences"):
        probe("contextuality", corpus=text, controls=())


def test_a_readout_is_refused() -> None:
    request = ProbeRequest(tasks=("contextuality",), configs={"contextuality": (ReadoutConfig("mlp"),)})
    with pytest.raises(BertologyError, match="is about the vectors themselves"):
        run_probes(request, corpus=load_corpus("pocket"))


def test_intervals_over_documents_are_asked_for_by_a_setting(tiny_bert: Path) -> None:
    """Documents by group; of a text that does not tell them the setting is refused."""
    text = load_corpus("pocket")["test"][:160]
    marked = Sentences(replace(sentence, group=f"document {n // 4}") for n, sentence in enumerate(text))
    assert marked.document_of_sentence.tolist() == [n // 4 for n in range(160)]
    configs = {"contextuality": tuple(ReadoutConfig(settings=s) for s in ({}, {"clusters": "documents"}))}
    request = ProbeRequest(tasks=("contextuality",), model=str(tiny_bert), layers="1", controls=(), configs=configs)
    frame = run_probes(request, corpus=Corpus("documents", {"test": marked})).to_pandas()
    rows = frame[frame.group.isna() & (frame.metric == "self_similarity")]
    kinds = {json.loads(row.params_json)["clusters"]: row for row in rows.itertuples()}
    assert set(kinds) == {"word types of these documents", "blocks of whole documents"}
    values = {row.value for row in kinds.values()}
    assert max(values) - min(values) < 1e-6
    assert kinds["blocks of whole documents"].n_clusters == 20
    with pytest.raises(BertologyError, match="1 documents are too few for blocks"):
        run_probes(request, corpus=Corpus("one", {"test": text}))


def test_anisotropy_is_of_all_words_of_the_text(tiny_bert: Path) -> None:
    text = load_corpus("pocket")["test"][:60]
    request = ProbeRequest(tasks=("contextuality",), model=str(tiny_bert), layers="2", controls=())
    rows = run_probes(request, corpus=Corpus("small", {"test": text})).rows
    vectors = load_encoder(str(tiny_bert), device="cpu").vectors(text).values[2].astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = (unit @ unit.T)[np.triu_indices(len(unit), 1)].mean()
    found = {row.metric: row.value for row in rows if row.group is None}
    assert found["anisotropy"] == pytest.approx(expected, abs=1e-3)
    assert abs(found["self_similarity_baseline"] - expected) > 2e-3
