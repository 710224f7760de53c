"""Pocket BERT, as shipped, is worth probing: measured, not believed."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer, BertForPreTraining

from bertology.corpora import Corpus, Sentence
from bertology.pocket import agreement_items, facts, load_corpus, load_settings, model_folder
from bertology.pocket._pretrain import Evaluation, Examples, PretrainSettings, encode, evaluate
from bertology.pocket._texts import pretraining_documents

RECIPE = Path(__file__).parents[2] / "experiments" / "pretrain-pocket.yaml"
N_TRAIN, N_TEST = 1200, 400
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
    settings = PretrainSettings(**shape, mask_rate=0.15, salience=1.0, salience_from=0)
    held_out = Examples(text, tokenizer, settings)
    return evaluate(
        model, tokenizer, held_out=[held_out], agreement=agreement_items(400, seed=5), facts=facts(), n_batches=5
    )


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


Words = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[str]]


def _read(model: torch.nn.Module, sentences: list[Sentence]) -> Words:
    """Vectors ``[layer, word, dim]`` by mean over pieces, tags, and lower-cased forms."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    vectors, tags, forms = [], [], []
    for start in range(0, len(sentences), 100):
        batch = sentences[start : start + 100]
        encoded = tokenizer([s.text for s in batch], return_tensors="pt", padding=True, return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping").numpy()
        with torch.inference_mode():
            hidden = torch.stack(model(**encoded, output_hidden_states=True).hidden_states).numpy()
        for row, sentence in enumerate(batch):
            for (first, end), tag, form in zip(sentence.spans, sentence.layers["upos"], sentence.words, strict=True):
                inside = (offsets[row, :, 0] < end) & (offsets[row, :, 1] > first)
                vectors.append(hidden[:, row, inside].mean(axis=1))
                tags.append(tag)
                forms.append(form.lower())
    return np.stack(vectors, axis=1), np.array(tags), forms


def _probe(train: Words, test: Words, layer: int) -> np.ndarray[Any, Any]:
    """Whether a linear probe of a layer is right, test word by test word."""
    scaler = StandardScaler().fit(train[0][layer])
    fitted = LogisticRegression(C=1.0, max_iter=100, tol=1e-3).fit(scaler.transform(train[0][layer]), train[1])
    right: np.ndarray[Any, Any] = fitted.predict(scaler.transform(test[0][layer])) == test[1]
    return right


@pytest.fixture(scope="module")
def majority(corpus: Corpus) -> dict[str, tuple[str, float]]:
    """The most frequent tag of each word in train, and its share."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in corpus["train"]:
        for form, tag in zip(sentence.words, sentence.layers["upos"], strict=True):
            counts[form.lower()][tag or ""] += 1
    return {form: (tags.most_common(1)[0][0], max(tags.values()) / sum(tags.values())) for form, tags in counts.items()}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parts_of_speech_live_in_the_blocks_and_not_in_the_embeddings(
    corpus: Corpus, majority: dict[str, tuple[str, float]]
) -> None:
    model = AutoModel.from_pretrained(model_folder()).eval()
    train, test = _read(model, list(corpus["train"][:N_TRAIN])), _read(model, list(corpus["test"][:N_TEST]))
    by_majority = np.array([majority.get(form, ("", 1.0))[0] for form in test[2]]) == test[1]
    ambiguous = np.array([majority.get(form, ("", 1.0))[1] < 0.85 for form in test[2]])
    bottom, best = _probe(train, test, 0), _probe(train, test, 2)
    assert best.mean() > 0.97
    assert bottom.mean() < 0.94
    assert abs(bottom[ambiguous].mean() - by_majority[ambiguous].mean()) < 0.1
    assert best[ambiguous].mean() > bottom[ambiguous].mean() + 0.2
