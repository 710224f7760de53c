import shutil
from pathlib import Path
from typing import Any

import pytest

from bertology import load_corpus, probe
from bertology.activations import read_words
from bertology.activations.layers import LayerVectors
from bertology.corpora import Corpus, Sentences
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.families.request import ReadoutConfig
from bertology.probing import get_probe
from bertology.results import Results

PROBE: Any = get_probe("position")
# Without contractions, in which a piece may belong to two words.
_WHOLE = [sentence for sentence in load_corpus("pocket")["test"] if not {"'", "’"} & set(sentence.text)]
SMALL = Corpus("small", {"test": Sentences(_WHOLE[:120])})


def asked(model: str, *, layers: str = "0,2", corpus: Corpus = SMALL, **settings: Any) -> Results:
    configs = {"position": (ReadoutConfig(settings=settings),)}
    return probe("position", model=model, layers=layers, controls=(), corpus=corpus, configs=configs)


def scores(results: Results) -> dict[tuple[str, int], float]:
    return {(row.metric, row.layer): row.value for row in results.rows}  # type: ignore[misc]


def saved(folder: Path, model: Any, tokenizer: Any) -> str:
    model.save_pretrained(folder)
    shutil.copytree(
        tokenizer, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json"), dirs_exist_ok=True
    )
    return str(folder)


def pocket_without(folder: Path, *tables: str) -> str:
    """The embedded model with some of its embeddings zeroed."""
    import torch
    from transformers import AutoModelForMaskedLM

    from bertology.pocket import model_folder

    model = AutoModelForMaskedLM.from_pretrained(model_folder())
    with torch.no_grad():
        for name in tables:
            getattr(model.base_model.embeddings, f"{name}_embeddings").weight.zero_()
    return saved(folder, model, model_folder())


def test_without_positions_a_shift_does_nothing(tmp_path: Path) -> None:
    found = scores(asked(pocket_without(tmp_path, "position"), layers="all"))
    for layer in range(5):
        assert found["moved_shift", layer] == found["moved_shift_text", layer] == 0
        assert found["cosine_shift", layer] == pytest.approx(1, abs=1e-12)
        assert found["neighbours_changed_shift", layer] == 0
        assert abs(found["across_within_shift", layer]) < 0.02
        assert found["moved_segment", layer] > 0.05
    # A word is itself at layer 0.
    assert found["cosine_other_sentence", 0] == pytest.approx(1, abs=1e-3)
    assert found["cosine_other_sentence", 2] < 0.95


def test_relative_positions_are_not_shifted(tmp_path: Path, tiny_bert: Path) -> None:
    """ModernBERT rotates queries and keys: the same up to rounding. DeBERTa-v3 buckets distances: the same."""
    import torch
    from transformers import AutoModelForMaskedLM, DebertaV2Config, ModernBertConfig

    shape: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    n_pieces = len(load_encoder(str(tiny_bert), device="cpu").tokenizer)
    shape |= {"vocab_size": n_pieces, "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0}
    special = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
    configs: list[tuple[Any, float]] = [
        (ModernBertConfig(**shape, **special), 1e-3),
        (DebertaV2Config(**shape, **relative), 0.0),
    ]
    for config, rounding in configs:
        torch.manual_seed(1)
        model = saved(tmp_path / config.model_type, AutoModelForMaskedLM.from_config(config), tiny_bert)
        found = scores(asked(model, changes="shift,segment"))
        for layer in (0, 2):
            assert 0 <= found["moved_shift", layer] <= rounding
            assert found["moved_segment", layer] == 0


def test_rows_are_statistics_of_the_encoders_vectors(tiny_bert: Path) -> None:
    results = asked(str(tiny_bert), changes="after,after_hidden", layers="all")
    encoder, text = load_encoder(str(tiny_bert), device="cpu"), SMALL["test"]
    chosen = PROBE.with_settings({"changes": "after,after_hidden"})
    assert list(chosen.encodings) == ["after", "after_hidden"]
    read = {"test": None, **chosen.encodings}
    vectors = {
        name: LayerVectors.of_arrays(read_words(encoder, text, layers=range(4), encoding=encoding).numpy())
        for name, encoding in read.items()
    }
    expected = {
        one.metric: one.values for one in chosen.statistics(vectors, {"test": text}, chosen.items({"test": text}))
    }
    assert {row.metric for row in results.rows} == set(expected)
    for row in results.rows:
        assert row.layer is not None
        assert row.value == pytest.approx(expected[row.metric][row.layer], abs=0.02 if "_p_" in row.metric else 2e-3)
    by_name = {row.metric: row for row in results.rows}
    assert by_name["moved_after"].ci_low < by_name["moved_after"].value < by_name["moved_after"].ci_high  # type: ignore[operator]
    assert by_name["across_within_p_after"].ci_low is None
    assert by_name["moved_after"].main_metric


def test_words_that_do_not_fit_are_counted(tiny_bert: Path) -> None:
    lengths = load_encoder(str(tiny_bert), device="cpu").tokenize(SMALL["test"]).window_lengths
    shift = 64 - int(lengths.max()) + 1
    rows = {row.metric: row for row in asked(str(tiny_bert), layers="0", changes="shift", shift=shift).rows}
    moved = rows["moved_shift"]
    assert moved.n_skipped > 0
    assert moved.n_items == SMALL["test"].n_words - moved.n_skipped
    assert "is longer than" in moved.skip_reasons
    # Occurrences of one type in two sentences: of types in five sentences or more, one a sentence.
    assert 0 < rows["moved_other_sentence"].n_items < moved.n_items


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"changes": "shift,place"}, "changes has 'place'; it should be some of shift, shift_text"),
        ({"shift": 0}, "shift should be at least 1"),
        ({"neutral": " "}, "neutral a sentence"),
        ({"shift": 64}, "no sentence fits into the 64 positions"),
    ],
)
def test_settings_that_do_not_do(settings: dict[str, Any], problem: str, tiny_bert: Path) -> None:
    with pytest.raises(BertologyError, match=problem):
        asked(str(tiny_bert), **settings)
