"""Families whose hidden states are those that the whole model returns."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from bertology import finetune, load_encoder, probe
from bertology.encoders import Encoder, Intervention
from bertology.errors import BertologyError, ModelError
from bertology.pocket import model_folder

library: Any = transformers
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
GROUPS = dict.fromkeys(("q_groups", "k_groups", "v_groups", "post_attention_groups", "intermediate_groups"), 1)
XLM = {"emb_dim": 16, "n_layers": 2, "n_heads": 2}
SIZES: dict[str, dict[str, Any]] = {
    "flaubert": XLM,
    "funnel": {
        **{"block_sizes": [2, 1, 1], "num_decoder_layers": 2, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32},
        "architectures": ["FunnelModel"],
    },
    "longformer": {**BERT, "attention_window": [8, 8], "max_position_embeddings": 66},
    "squeezebert": {**BERT, **GROUPS, "output_groups": 1, "embedding_size": 16},
    "xlm": XLM,
    "xlnet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32},
}
TEXTS = ["The dogs chased a cat.", "A cat slept."]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Saves a small model of a family with fresh weights and pocket's tokenizer, with its masked-LM head if wanted."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder("pocket"))

    def save(family: str, *, kind: Any = AutoModel) -> Path:
        folder = tmp_path_factory.mktemp("models") / family
        torch.manual_seed(0)
        config = library.CONFIG_MAPPING[family](vocab_size=len(tokenizer), **SIZES.get(family, BERT))
        kind.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


@pytest.mark.parametrize("family", SIZES)
def test_vectors_are_those_of_transformers(folders: Any, family: str) -> None:
    folder = folders(family)
    encoder = load_encoder(str(folder))
    found = encoder.vectors(TEXTS, pooling="first").to_numpy()
    model, inputs = AutoModel.from_pretrained(folder).eval(), [encoder.tokenizer(text) for text in TEXTS]
    words = iter(range(found.shape[1]))
    for text, read in zip(TEXTS, inputs, strict=True):
        with torch.inference_mode():
            given = {name: torch.tensor([read[name]]) for name in ("input_ids", "attention_mask")}
            states = model(**given, output_hidden_states=True).hidden_states
        if family == "funnel":  # two layers of its first block, two that pool, what its decoder begins with, and two
            assert (
                len({state.shape for state in states[:3] + states[-2:]}) == 1 < len({state.shape for state in states})
            )
            states = states[:3] + states[-2:]
        assert len(states) == encoder.n_layers + 1 == len(found)
        encoding = encoder.tokenizer(text, return_offsets_mapping=True)
        for word in dict.fromkeys(one for one in encoding.word_ids() if one is not None):
            first, place = encoding.word_ids().index(word), next(words)
            expected = np.stack([state[0, first].numpy() for state in states])
            np.testing.assert_allclose(found[:, place], expected, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_funnel_reads_texts_without_what_pads_them(folders: Any, side: str) -> None:
    folder = folders("funnel")
    encoder, model = load_encoder(str(folder)), AutoModel.from_pretrained(folder).eval()
    rows = [torch.tensor(encoder.tokenizer(text)["input_ids"]) for text in (*TEXTS, "cat")]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_side=side)
    found = encoder.hidden_states(ids, (ids != 0).long(), layers=range(5))
    for number, row in enumerate(rows):
        # A text of one subword is too short for the model itself, which pools twice, unless it is padded.
        alone = torch.nn.functional.pad(row, (0, max(0, 5 - len(row))))[None]
        with torch.inference_mode():
            states = model(alone, attention_mask=(alone != 0).long(), output_hidden_states=True).hidden_states
        for layer, state in enumerate(states[:3] + states[-2:]):
            torch.testing.assert_close(found[layer][number][ids[number] != 0], state[0, : len(row)], atol=1e-5, rtol=0)
    short = encoder.hidden_states(rows[2][None], layers=range(5))
    assert torch.equal(short[4][0], found[4][2][ids[2] != 0])


def test_other_funnel_models_and_signals_are_refused_in_one_line(folders: Any, tmp_path: Path) -> None:
    folder = folders("funnel")
    with pytest.raises(BertologyError, match="of funnel models hidden states alone are read"):
        load_encoder(str(folder)).attention(TEXTS[0])
    library.FunnelBaseModel.from_pretrained(folder).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="funnel models without decoder"):
        load_encoder(str(tmp_path)).vectors(TEXTS)


def test_labels_are_found_and_blocks_are_refused(folders: Any) -> None:
    folder = folders("xlnet")
    frame = probe("pos", model=str(folder), controls="majority", layers=[0, 2]).to_pandas()
    accuracy = frame[frame.metric == "accuracy"]
    assert set(accuracy.layer.dropna()) == {0, 2}
    majority = accuracy[accuracy.control == "majority"].value.item()
    assert (accuracy[accuracy.control == "none"].ci_low > majority + 0.1).all()  # even random weights know the words
    encoder = load_encoder(str(folder))
    with pytest.raises(ModelError, match="of xlnet models hidden states alone are read"):
        encoder.run(TEXTS, interventions=[Intervention(1, lambda state: state * 0)])
    with pytest.raises(BertologyError, match="of xlnet models hidden states alone are read"):
        encoder.attention(TEXTS[0])


def test_the_masked_head_is_that_of_transformers(folders: Any) -> None:
    folder = folders("longformer", kind=AutoModelForMaskedLM)
    encoder, model = load_encoder(str(folder)), AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids = torch.tensor([encoder.tokenizer("The dogs [MASK] a cat.")["input_ids"]])
    place = int((ids[0] == encoder.mask_id).nonzero())
    with torch.inference_mode():
        states = model.longformer(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        expected = model.lm_head(states)[0, place].log_softmax(-1)
    found = encoder.masked_logits(ids, torch.tensor([[0, place]]))[2]
    torch.testing.assert_close(torch.as_tensor(found)[0].log_softmax(-1), expected, atol=1e-4, rtol=0)


def test_a_model_with_embeddings_of_another_kind_is_refused_in_one_line() -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder("pocket"))
    config = library.CONFIG_MAPPING["ibert"](vocab_size=len(tokenizer), **BERT)
    with pytest.raises(ModelError, match="of another"):
        Encoder.from_model(AutoModel.from_config(config), tokenizer)


@pytest.fixture(scope="module")
def canine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "canine"
    torch.manual_seed(0)
    library.CanineModel(library.CanineConfig(num_hash_buckets=256, **BERT)).save_pretrained(folder)
    library.CanineTokenizer().save_pretrained(folder)
    return folder


def test_canine_reads_the_characters_of_its_own_tokenizer(canine: Path) -> None:
    own, ours = library.CanineTokenizer(), load_encoder(str(canine)).tokenizer
    for text in (*TEXTS, "é ñ  two\nlines\t😀 𝒳", "ﬁ 的", "", "a"):
        assert ours(text)["input_ids"] == own(text)["input_ids"]
    assert ours("one", "two")["input_ids"] == own("one", "two")["input_ids"]
    assert ours("\U000f0000")["input_ids"][1] == ord("\N{REPLACEMENT CHARACTER}")  # private use: not in the vocabulary


def test_states_of_canine_are_those_of_padded_texts_in_transformers(canine: Path) -> None:
    """The embeddings, the local block, deep blocks repeated for their characters, and the final block."""
    encoder, model = load_encoder(str(canine)), library.CanineModel.from_pretrained(canine).eval()
    rows = [torch.tensor(encoder.tokenizer(text)["input_ids"]) for text in (*TEXTS, "a")]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = (torch.arange(ids.shape[1]) < torch.tensor([[len(row)] for row in rows])).long()
    found = encoder.hidden_states(ids, mask, layers=range(5))
    for number, row in enumerate(rows):
        padded = torch.nn.functional.pad(row, (0, 128 - len(row)))[None]
        with torch.inference_mode():
            given = (torch.arange(128) < len(row)).long()[None]
            states = model(padded, attention_mask=given, output_hidden_states=True).hidden_states
        deep = [model._repeat_molecules(state, 128) for state in states[3:-2]]
        for layer, state in enumerate([*states[:2], *deep, states[-1]]):
            torch.testing.assert_close(found[layer][number, : len(row)], state[0, : len(row)], atol=1e-5, rtol=0)
    alone = encoder.hidden_states(rows[1][None], layers=range(5))
    assert all(torch.equal(alone[layer][0], found[layer][1, : len(rows[1])]) for layer in range(5))


def test_canine_is_probed_and_given_in_memory(canine: Path, tmp_path: Path) -> None:
    rows = probe("pos", model=str(canine), controls="majority", layers=[0], sentences=60).rows
    majority = next(row.value for row in rows if row.control == "majority" and row.metric == "accuracy")
    scores = {row.layer: row for row in rows if row.control == "none" and row.metric == "accuracy"}
    assert majority < scores[0].ci_low  # characters that words are made of tell something
    model = library.CanineModel.from_pretrained(canine).eval()
    for held in (copy.deepcopy(model).to(torch.bfloat16), library.CanineForSequenceClassification(model.config)):
        assert Encoder.from_model(held.eval(), library.CanineTokenizer()).n_layers == 4
    encoder = Encoder.from_model(model, library.CanineTokenizer())
    ids = torch.tensor([encoder.tokenizer(TEXTS[0])["input_ids"]])
    with pytest.raises(ModelError, match="canine models pool hidden words with those that are read"):
        encoder.hidden_states(ids, torch.tensor([[0] * 4 + [1] * (ids.shape[1] - 4)]), layers=[1])
    np.testing.assert_allclose(encoder.vectors(TEXTS), load_encoder(str(canine)).vectors(TEXTS), atol=1e-5)
    for ask in (encoder.attention, lambda text: encoder.run(text, interventions=[Intervention(1, torch.relu)])):
        with pytest.raises(ModelError, match="of canine models hidden states alone are read"):
            ask(TEXTS[0])
    with pytest.raises(ModelError, match="layers lstm: canine models have no table of subword embeddings"):
        finetune(str(canine), task="pos", out=tmp_path, sentences=60, layers="lstm")
