"""The loss of a fine-tuned model in its task, with heads gated, against the model's own loss with plain hooks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertology import Corpus, Encoder, load_corpus, load_encoder, probe
from bertology.attention.importance import Without, attention_gradients, head_importance, scores_without
from bertology.corpora import Sentence, Sentences, question_sentence
from bertology.errors import BertologyError, ModelError
from bertology.finetuning._items import Collator, encode, predictions
from bertology.finetuning.losses import HeadTask
from bertology.probing import RunningModel, get_probe
from tests.encoders.conftest import HEADS, build_config, build_tokenizer
from tests.encoders.conftest import save_model as save_encoder
from tests.finetuning.conftest import Tune
from tests.finetuning.test_kinds import WORDS

Record = dict[str, Any]
TASKS = ("sentence_label:label", "pair_label:label", "pair_number:label", "word_label:tag", "span")
HEADED = {"word": "AutoModelForTokenClassification", "span": "AutoModelForQuestionAnswering"}
TAGS = ("no", "yes", "maybe")
OUTPUTS = {"bert": "attention.output.dense", "roberta": "attention.output.dense", "distilbert": "attention.out_lin"}


def drawn(task: str, n: int = 13) -> list[Record]:
    """Items of different lengths; words are tagged by their length."""
    dice, made = np.random.default_rng(4), list[Record]()
    for _ in range(n):
        words = dice.choice(WORDS, dice.integers(12, 30) if task == "span" else dice.integers(2, 9)).tolist()
        place, tags = int(dice.integers(len(words))), [TAGS[len(word) % 3] for word in words]
        label = round(float(dice.normal()), 2) if "number" in task else TAGS[int(dice.integers(2))]
        made.append({"text": " ".join(words), "words": words, "tags": tags, "label": label, "answer": words[place]})
        made[-1] |= {"text2": " ".join(dice.choice(WORDS, 3)), "start": len(" ".join(words[:place])) + (place > 0)}
    return made


def sentences_of(task: str, records: list[Record]) -> Sentences:
    if task == "span":
        parts = ((one["text2"], one["text"], [(one["answer"], one["start"])]) for one in records)
        return Sentences(question_sentence(*of_one, name=f"q{number}") for number, of_one in enumerate(parts))
    if task.startswith("word"):
        return Sentences(Sentence.from_words(one["words"], layers={"tag": one["tags"]}) for one in records)
    names = ("text", "text2", "label") if task.startswith("pair") else ("text", "label")
    return load_corpus({"test": [{name: one[name] for name in names} for one in records]})["test"]


def headed(task: str) -> Any:
    """The class of models with a head for a task."""
    return getattr(transformers, HEADED.get(task[:4], "AutoModelForSequenceClassification"))


def folder_of(path: Path, family: str, task: str) -> Path:
    """The folder of a family's tiny model with a head of random weights for a task."""
    folder = save_encoder(path / f"{family}-{task[:6]}", family)
    config = build_config(family, build_tokenizer(family)[0].get_vocab_size())
    names = ["number"] if "number" in task else TAGS if task.startswith("word") else TAGS[:2]
    config.id2label, config.label2id = dict(enumerate(names)), {label: code for code, label in enumerate(names)}
    torch.manual_seed(3)
    model = headed(task).from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape) * 0.15)
    model.save_pretrained(folder)
    return folder


@contextmanager
def hooked(model: Any, family: str, gates: dict[tuple[int, int], float]) -> Iterator[None]:
    """Heads scaled by hooks on the output projections of attention."""
    blocks = model.base_model.transformer.layer if family == "distilbert" else model.base_model.encoder.layer

    def scale(number: int, module: Any, args: Any) -> Any:
        factors = torch.tensor([gates.get((number, head + 1), 1.0) for head in range(HEADS)])
        return ((args[0].unflatten(-1, (HEADS, -1)) * factors[:, None]).flatten(-2),)

    outputs = [block.get_submodule(OUTPUTS[family]) for block in blocks]
    hooks = [output.register_forward_pre_hook(partial(scale, number)) for number, output in enumerate(outputs, 1)]
    yield
    for hook in hooks:
        hook.remove()


def answer_loss(model: Any, tokenizer: Any, record: Record, most: int) -> float:
    """The mean loss of the windows of a question."""
    how: Any = {"return_overflowing_tokens": True, "return_offsets_mapping": True, "stride": most // 4}
    found = tokenizer([record["text2"]], [record["text"]], truncation="only_second", max_length=most, **how)
    start, end, losses = record["start"], record["start"] + len(record["answer"]), []
    for number, offsets in enumerate(found["offset_mapping"]):
        inside = [place for place, part in enumerate(found.sequence_ids(number)) if part == 1]
        places = [place for place in inside if offsets[place][0] < end and offsets[place][1] > start]
        is_whole = offsets[inside[0]][0] <= start and offsets[inside[-1]][1] >= end
        first, last = (places[0], places[-1]) if is_whole else (0, 0)
        given = {name: torch.tensor([found[name][number]]) for name in tokenizer.model_input_names}
        given |= {"start_positions": torch.tensor([first]), "end_positions": torch.tensor([last])}
        losses.append(model(**given).loss.item())
    return float(np.mean(losses))


def own_loss(model: Any, tokenizer: Any, task: str, record: Record, most: int) -> float:
    """The loss that transformers computes of one text alone, in nats or squared errors."""
    codes = model.config.label2id
    if task == "span":
        return answer_loss(model, tokenizer, record, most)
    if task.startswith("word"):
        found = tokenizer(record["text"], return_offsets_mapping=True, return_tensors="pt")
        offsets, labels, end = found.pop("offset_mapping")[0].tolist(), torch.full(found["input_ids"].shape, -100), -1
        inside = [place for place, part in enumerate(found.sequence_ids()) if part == 0]
        for word, tag in zip(record["words"], record["tags"], strict=True):
            start, end = end + 1, end + 1 + len(word)
            # A piece of the space before a word alone is the word's first.
            first = next(place for place in inside if offsets[place][1] > start or offsets[place] == [start, start])
            labels[0, first] = codes[tag]
    else:
        found = tokenizer(record["text"], record["text2"] if task.startswith("pair") else None, return_tensors="pt")
        labels = torch.tensor([record["label"] if "number" in task else codes[record["label"]]])
    return float(model(**found, labels=labels).loss)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", OUTPUTS)
def test_equals_the_loss_of_the_model_with_hooks(tmp_path: Path, family: str, task: str) -> None:
    """All items in padded batches and from the layer of the head on, against every text alone; questions in windows."""
    folder, records, most = folder_of(tmp_path, family, task), drawn(task), 32 if task == "span" else 70
    own = headed(task).from_pretrained(folder).eval()
    encoder = load_encoder(str(folder), device="cpu", max_pieces=most)
    asked = HeadTask(encoder, task, sentences_of(task, records))
    assert any((batch.mask == 0).any() for batch in asked.batches)
    sets: list[dict[tuple[int, int], float]] = [{}, {(2, 3): 0.0}, {(1, 1): 0.0, (3, 2): 0.0, (3, 4): 0.0}]
    found = scores_without(asked, [Without(frozenset(gates)) for gates in sets])
    n_items, expected = [len(one["words"]) if task.startswith("word") else 1 for one in records], []
    for gates in sets:
        with hooked(own, family, gates), torch.no_grad():
            expected.append([own_loss(own, encoder.tokenizer, task, one, most) for one in records])
    expected = np.array(expected) * n_items / (1 if "number" in task else np.log(2))
    np.testing.assert_allclose(found.loss, expected, rtol=2e-4, atol=2e-5)
    np.testing.assert_array_equal(found.items, n_items)
    assert np.abs(found.loss[1:] - found.loss[0]).max(1).min() > 1e-3


@pytest.mark.parametrize("task", TASKS)
def test_importance_equals_finite_differences(tmp_path: Path, task: str) -> None:
    """|L(1 + ε) − L(1 − ε)| / 2ε of every text; its attention gradients are finite and sum up all kinds of subwords."""
    encoder = load_encoder(
        str(folder_of(tmp_path, "bert", task)), device="cpu", max_pieces=30 if task == "span" else None
    )
    asked, step = HeadTask(encoder, task, sentences_of(task, drawn(task, 6))), 0.01
    found = head_importance(asked).over[1]
    for batch in asked.batches:
        losses = []
        for gate in (1 + step, 1 - step):
            with encoder.gated_heads({(2, 3): gate}):
                answers = asked.ask(encoder, batch)
            texts, loss = answers.texts.numpy(), answers.loss.double().numpy() * asked.scale
            losses.append([loss[texts == one].mean() for one in range(len(batch.clusters))])
        slopes = np.abs(np.subtract(*losses)) / (2 * step)
        np.testing.assert_allclose(found[1, 2, asked.clusters(batch)], slopes, rtol=0.03, atol=3e-3)
    effect = attention_gradients(asked)[1]
    assert np.isfinite([effect.of(name) for name in ("[CLS]", "[SEP]", "other")]).all()


def test_answers_are_those_that_fine_tuning_scores(tmp_path: Path) -> None:
    """Where they are what it would predict, the best of all windows, they are correct."""
    folder, records = folder_of(tmp_path, "bert", "span"), drawn("span")
    own = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    encoder = load_encoder(str(folder), device="cpu", max_pieces=24)
    asked = HeadTask(encoder, "span", sentences_of("span", records))
    collator = Collator(asked.known, pad_id=encoder.pad_id, states=None)
    inputs = encode(asked.known, asked.items, encoder, max_pieces=24, stride=6)
    assert len(inputs.rows) > 2 * len(records)
    guessed = predictions(own, asked.known, inputs, collator)[0]["pred"]
    for one, answer in zip(records[::2], guessed[::2], strict=True):
        one |= {"answer": answer, "start": one["text"].index(answer)}
    again = scores_without(HeadTask(encoder, "span", sentences_of("span", records)), [Without()]).right[0]
    assert again[::2].all() > again[1::2].all()


def test_a_head_that_decides_and_one_that_misleads(tmp_path: Path) -> None:
    """Labels are the predictions of the whole model, then of the model without a head: it is missed, then harmful."""
    folder, head = folder_of(tmp_path, "distilbert", "sentence_label:label"), (2, 3)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        for number, block in enumerate(model.base_model.transformer.layer, 1):
            # Only this head adds anything, and much.
            columns = block.attention.out_lin.weight.unflatten(1, (HEADS, -1))
            columns *= torch.tensor([6.0 * ((number, one + 1) == head) for one in range(HEADS)])[:, None]
        model.pre_classifier.weight.mul_(3)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = list(dict.fromkeys(one["text"] for one in drawn("sentence_label:label", 160)))

    def margins(gates: dict[tuple[int, int], float]) -> torch.Tensor:
        with hooked(model, "distilbert", gates), torch.no_grad():
            return torch.cat([model(**tokenizer(one, return_tensors="pt")).logits.diff(dim=1)[0] for one in texts])

    both = torch.stack([margins({}), margins({head: 0.0})])
    model.classifier.bias.data[1] -= both.mean()  # so that the head decides most texts
    labels = [[TAGS[int(one > both.mean())] for one in of_state] for of_state in both]
    differ = [one for one in zip(texts, *labels, strict=True) if one[1] != one[2]]
    assert len(differ) > 40
    encoder = Encoder.from_model(model, tokenizer, name="planted")
    asked: Any = get_probe("head_importance:sentence_label:label")
    for place, said in ((1, "0 of 12 without"), (2, "1 of 12 (L2H3) without")):
        text = load_corpus({"test": [{"text": one[0], "label": one[place]} for one in differ]})["test"]
        splits = {"dev": text[::2], "test": text[1::2]}
        ratios, _, notes = asked.measure(RunningModel(encoder, splits, [1, 2, 3]))
        found = ratios["test"]
        assert found[0].of("importance").argmax() == HEADS + 2
        assert np.count_nonzero(found[0].of("gradient_bits") > 1e-7) == 1
        lost, whole = (next(one for one in found if one.metric == name) for name in ("delta_loss_bits", "accuracy"))
        assert np.abs(lost.of("off")).argmax() == HEADS + 2
        assert lost.of("off")[1, 2] * (-1, 1)[place == 1] > 0.1
        assert (whole.of("random 0 %").item(), whole.of("harmful heads").item()) == (place == 1, 1)
        assert notes[0][1].startswith(said)


@pytest.mark.parametrize("how", ["all", "none", "lora"])
def test_a_folder_of_finetune_has_the_accuracy_of_its_record(tune: Tune, how: str) -> None:
    texts = [(one["text"], f"LABEL_{TAGS.index(one['label'])}") for one in drawn("sentence_label:label", 160)]
    corpus = load_corpus({"train": texts[:80], "dev": texts[80:120], "test": texts[120:]})
    task = "sentence_label:label"
    tuned = tune(corpus=corpus, task=task, lr=0.02, epochs=2, layers=how, seeds=2)
    folder = tuned.folder() / "adapter" if how == "lora" else tuned.folder()
    given: dict[str, Any] = {"model": str(folder), "corpus": corpus, "controls": "none", "progress": False}
    frame = (found := probe(f"head_importance:{task}", **given)).to_pandas()
    whole = frame[(frame["metric"] == "accuracy") & (frame["group"] == "random 0 %")]
    assert whole["value"].tolist() == [tuned.record.scores["test"]["accuracy"]["value"]]
    assert set(frame[frame["head"].notna()]["split"]) == {"dev", "test"}
    for said in ("heads: are chosen on dev, scored on test", "harmful heads: ", "least missed", "sets of heads off"):
        assert said in found.to_markdown()
    one = probe(f"head_importance:one_head:{task}", **given).to_pandas()
    assert set(one[one["head"].isna()]["group"]) == {"one head"}
    asked: Any = get_probe(f"head_importance:{task}")
    assert len({str(asked.model_identity(tuned.encoder(seed, device="cpu").source)) for seed in (1, 2)}) == 2
    halved = probe(f"head_importance:{task}", **given | {"corpus": Corpus("test", {"test": corpus["test"]})})
    assert "on half of the texts, for the other half is lower" in halved.to_markdown()


def test_what_cannot_be_asked(tmp_path: Path, tiny_bert: Path) -> None:
    folders = [folder_of(tmp_path, "bert", "sentence_label:label"), folder_of(tmp_path, "bert", "pair_number:label")]
    labels, numbers, plain = (load_encoder(str(folder), device="cpu") for folder in (*folders, tiny_bert))
    texts, words = (sentences_of(task, drawn(task)) for task in ("sentence_label:label", "word_label:tag"))
    other = load_corpus({"test": [("the dogs", "perhaps")]})["test"]
    for encoder, task, asked, said in (
        (
            labels,
            "word_label:tag",
            words,
            "its head is for one label of a text, task word_label:tag for a label of each word",
        ),
        (numbers, "sentence_label:label", texts, "its head is for one number of a text, task sentence_label:label"),
        (labels, "sentence_label:label", other, "label 'perhaps' of the texts is none of those that .* knows, no, yes"),
        (plain, "sentence_label:label", texts, "it has no head for a task that is known: give one tuned for one label"),
    ):
        with pytest.raises(ModelError, match=said):
            HeadTask(encoder, task, asked)
    config = json.loads((folders[0] / "config.json").read_text())
    (folders[0] / "config.json").write_text(json.dumps(config | {"problem_type": "multi_label_classification"}))
    with pytest.raises(ModelError, match="it has no head for a task that is known"):
        HeadTask(load_encoder(str(folders[0]), device="cpu"), "sentence_label:label", texts)
    with pytest.raises(ModelError, match="on_long skip is not for a task of a fine-tuned model"):
        HeadTask(labels, "sentence_label:label", texts, on_long="skip")
    for name in ("head_importance:perhaps", "head_importance:one_head:perhaps", "head_importance:minimal_pairs"):
        with pytest.raises(BertologyError, match="a task that finetune knows"):
            get_probe(name)
