"""Pocket BERT, as shipped, is worth probing: measured, not believed."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertForPreTraining

from bertology.corpora import Corpus
from bertology.pocket import agreement_items, facts, load_corpus, load_settings, model_folder
from bertology.pocket._examples import Examples, encode
from bertology.pocket._pretrain import Evaluation, evaluate
from bertology.pocket._recipe import PretrainSettings
from bertology.pocket._texts import pretraining_documents

RECIPE = Path(__file__).parents[2] / "experiments" / "pretrain-pocket.yaml"
TRAINING = json.loads((model_folder() / "training.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    model = BertForPreTraining.from_pretrained(model_folder())
    text = encode(pretraining_documents(60, seed=77, stated=()), tokenizer)
    shape: dict[str, Any] = {"max_pieces": 64, "batch_pieces": 1024, "alone_share": 0.2, "short_share": 0.3}
    settings = PretrainSettings(**shape, mask_rate=0.15, salience=1.0, salience_from=0, held_out_documents=5)
    held_out = Examples(text, tokenizer, settings)
    return evaluate(model, tokenizer, held_out=[held_out], agreement=agreement_items(400, seed=5), facts=facts())


def test_the_folder_is_small_and_whole() -> None:
    folder = model_folder()
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "README.md", "training.json"} <= names
    assert sum(path.stat().st_size for path in folder.iterdir()) < 5_000_000
    config = json.loads((folder / "config.json").read_text())
    assert (config["num_hidden_layers"], config["hidden_size"], config["num_attention_heads"]) == (4, 128, 4)


def test_it_was_made_by_the_shipped_recipe() -> None:
    assert PretrainSettings(**TRAINING["settings"]) == load_settings(RECIPE)


def test_its_tokenizer_spells_the_corpus(corpus: Corpus) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    assert tokenizer.is_fast
    lengths = []
    for split in corpus.splits:
        texts = [corpus[split].text(number) for number in range(len(corpus[split]))]
        encoded = tokenizer(texts)["input_ids"]
        assert not any(tokenizer.unk_token_id in ids for ids in encoded)
        lengths += [len(ids) for ids in encoded]
    assert max(lengths) <= tokenizer.model_max_length == 64
    several = [word for word in corpus["train"].forms.values if len(tokenizer.tokenize(word)) > 1]
    assert len(several) > 200
    assert all(len(tokenizer.tokenize(fact.object)) == 1 for fact in facts())


def test_agreement_holds_across_attractors(evaluation: Evaluation) -> None:
    assert evaluation.agreement_across_attractors > 0.9
    assert evaluation.agreement_by_attractors[0] > 0.95


def test_facts_are_recalled_when_stated_and_only_then(evaluation: Evaluation) -> None:
    recall, among = evaluation.fact_recall_by_exposure, evaluation.candidate_recall_by_exposure
    assert min(recall[16], recall[32], recall[64]) >= 0.9
    assert among[0] < 0.2
    assert recall[1] < recall[64]
