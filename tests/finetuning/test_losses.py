"""The loss of a fine-tuned model in its task, with heads gated, against the model's own loss with plain hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertology import Corpus, Encoder, load_corpus, load_encoder, probe
from bertology.activations.progress import silent
from bertology.attention.importance import Without, attention_gradients, head_importance, scores_without
from bertology.corpora import Sentence, Sentences, question_sentence
from bertology.errors import BertologyError, ModelError
from bertology.finetuning._items import Collator, encode, predictions
from bertology.finetuning.losses import HeadTask
from bertology.probing import get_probe
from tests.encoders.conftest import HEADS, LAYERS, build_config, build_tokenizer
from tests.encoders.conftest import save_model as save_encoder
from tests.finetuning.conftest import Tune, labelled

Record = dict[str, Any]
KINDS = {
    "sentence_label:label": "SequenceClassification",
    "pair_label:label": "SequenceClassification",
    "pair_number:label": "SequenceClassification",
    "word_label:tag": "TokenClassification",
    "span": "QuestionAnswering",
}
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jump",
    "over",
    "lazy",
    "dogs",
    "and",
    "nobody",
    "knows",
    "why",
    "they",
    "cafés",
]
OUTPUTS = {"bert": "attention.output.dense", "roberta": "attention.output.dense", "distilbert": "attention.out_lin"}


def drawn(task: str, n: int = 13) -> list[Record]:
    """Items of different lengths; words are tagged by their length."""
    dice, made = np.random.default_rng(4), []
    for _ in range(n):
        words = dice.choice(WORDS, dice.integers(12, 30) if task == "span" else dice.integers(2, 9)).tolist()
        place = int(dice.integers(len(words)))
        record: Record = {"text": " ".join(words), "words": words, "tags": [TAGS[len(word) % 3] for word in words]}
        record |= {"text2": " ".join(dice.choice(WORDS, 3).tolist()), "answer": words[place]}
        record |= {"start": len(" ".join(words[:place])) + (place > 0)}
        record |= {"label": round(float(dice.normal()), 2) if "number" in task else TAGS[int(dice.integers(2))]}
        made.append(record)
    return made


TAGS = ("no", "yes", "maybe")


def sentences_of(task: str, records: list[Record]) -> Sentences:
    if task == "span":
        answers = [[(record["answer"], record["start"])] for record in records]
        return Sentences(
            question_sentence(one["text2"], one["text"], answer, name=f"q{number}")
            for number, (one, answer) in enumerate(zip(records, answers, strict=True))
        )
    if task.startswith("word"):
        return Sentences(Sentence.from_words(one["words"], layers={"tag": one["tags"]}) for one in records)
    names = ("text", "text2", "label") if task.startswith("pair") else ("text", "label")
    return load_corpus({"test": [{name: one[name] for name in names} for one in records]})["test"]


@pytest.fixture(scope="module")
def of_kind(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a family's tiny model with a head of random weights for a task."""

    def make(family: str, task: str) -> Path:
        folder = save_encoder(tmp_path_factory.mktemp(family) / "model", family)
        config = build_config(family, build_tokenizer(family)[0].get_vocab_size())
        names = ["number"] if "number" in task else TAGS if task.startswith("word") else TAGS[:2]
        config.id2label = dict(enumerate(names))
        config.label2id = {label: code for code, label in enumerate(names)}
        torch.manual_seed(3)
        model = getattr(transformers, f"AutoModelFor{KINDS[task]}").from_config(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn(weight.shape) * 0.15)
        model.save_pretrained(folder)
        return folder

    return make


@contextlib.contextmanager
def hooked(model: Any, family: str, gates: dict[tuple[int, int], float]) -> Iterator[None]:
    """Heads scaled by hooks on the output projections of attention."""
    blocks = model.base_model.transformer.layer if family == "distilbert" else model.base_model.encoder.layer
    with contextlib.ExitStack() as stack:
        for number, block in enumerate(blocks, 1):

            def scale(module: Any, args: Any, number: int = number) -> Any:
                factors = torch.tensor([gates.get((number, head + 1), 1.0) for head in range(HEADS)])
                return ((args[0].unflatten(-1, (HEADS, -1)) * factors[:, None]).flatten(-2),)

            stack.callback(block.get_submodule(OUTPUTS[family]).register_forward_pre_hook(scale).remove)
        yield


def answer_losses(model: Any, tokenizer: Any, record: Record, **windows: Any) -> list[float]:
    """``[window]`` the losses of a question."""
    how = {"truncation": "only_second", "return_overflowing_tokens": True, "return_offsets_mapping": True}
    found, losses = tokenizer([record["text2"]], [record["text"]], **how, **windows), []
    start, end = record["start"], record["start"] + len(record["answer"])
    for number, one in enumerate(found.encodings):
        inside = [place for place, part in enumerate(one.sequence_ids) if part == 1]
        offsets = found["offset_mapping"][number]
        places = [place for place in inside if offsets[place][0] < end and offsets[place][1] > start]
        is_whole = offsets[inside[0]][0] <= start and offsets[inside[-1]][1] >= end
        first, last = (places[0], places[-1]) if is_whole else (0, 0)
        given = {name: torch.tensor([found[name][number]]) for name in tokenizer.model_input_names}
        ends = {"start_positions": torch.tensor([first]), "end_positions": torch.tensor([last])}
        losses.append(model(**given, **ends).loss.item())
    return losses


def own_loss(model: Any, tokenizer: Any, task: str, record: Record, most: int) -> float:
    """The loss that transformers computes of one text alone, in nats or squared errors."""
    codes = model.config.label2id
    if task == "span":
        return float(np.mean(answer_losses(model, tokenizer, record, max_length=most, stride=most // 4)))
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
        found = tokenizer(
            *[record[name] for name in ("text", "text2")[: 1 + task.startswith("pair")]], return_tensors="pt"
        )
        labels = torch.tensor([record["label"] if "number" in task else codes[record["label"]]])
    return float(model(**found, labels=labels).loss)


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("family", OUTPUTS)
def test_equals_the_loss_of_the_model_with_hooks(of_kind: Callable[..., Path], family: str, task: str) -> None:
    """All items in padded batches and from the layer of the head on, against every text alone."""
    folder, records = of_kind(family, task), drawn(task)
    own = getattr(transformers, f"AutoModelFor{KINDS[task]}").from_pretrained(folder).eval()
    asked = HeadTask(load_encoder(str(folder), device="cpu"), task, sentences_of(task, records))
    assert any((batch.mask == 0).any() for batch in asked.batches)
    sets: list[dict[tuple[int, int], float]] = [{}, {(2, 3): 0.0}, {(1, 1): 0.0, (3, 2): 0.0, (3, 4): 0.0}]
    found = scores_without(asked, [Without(frozenset(gates)) for gates in sets])
    n_items = np.array([len(one["words"]) if task.startswith("word") else 1 for one in records])
    expected = []
    for gates in sets:
        with hooked(own, family, gates), torch.no_grad():
            how = asked.encoder.tokenizer, task
            expected.append([own_loss(own, *how, one, asked.encoder.max_pieces) for one in records])
    scale = 1 if "number" in task else np.log(2)
    np.testing.assert_allclose(found.loss, np.array(expected) * n_items / scale, rtol=2e-4, atol=2e-5)
    np.testing.assert_array_equal(found.items, n_items)
    assert np.abs(found.loss[1:] - found.loss[0]).max(1).min() > 1e-3


@pytest.mark.parametrize("task", KINDS)
def test_importance_equals_finite_differences(of_kind: Callable[..., Path], task: str) -> None:
    """|L(1 + ε) − L(1 − ε)| / 2ε of every text; its attention gradients are finite and sum up all kinds of subwords."""
    encoder = load_encoder(str(of_kind("bert", task)), device="cpu", max_pieces=30 if task == "span" else None)
    asked, step = HeadTask(encoder, task, sentences_of(task, drawn(task, 6))), 0.01
    found = head_importance(asked).over[1]
    for head in ((1, 2), (3, 4)):
        for batch in asked.batches:
            losses = []
            for gate in (1 + step, 1 - step):
                with encoder.gated_heads({head: gate}):
                    answers = asked.ask(encoder, batch)
                texts, loss = answers.texts.numpy(), answers.loss.double().numpy() * asked.scale
                losses.append([loss[texts == one].mean() for one in range(len(batch.clusters))])
            slopes = np.abs(np.subtract(*losses)) / (2 * step)
            np.testing.assert_allclose(
                found[head[0] - 1, head[1] - 1, asked.clusters(batch)], slopes, rtol=0.03, atol=3e-3
            )
    effect = attention_gradients(asked)[1]
    assert effect.metric.endswith("squared_error" if "number" in task else "bits")
    assert effect.names == ("[CLS]", "[SEP]", "other")
    assert np.isfinite(effect.values).all()


def test_questions_in_windows(of_kind: Callable[..., Path]) -> None:
    """The loss is the mean over windows, and the best of their answers counts."""
    folder, records = of_kind("bert", "span"), drawn("span")
    own = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    encoder = load_encoder(str(folder), device="cpu", max_pieces=24)
    asked = HeadTask(encoder, "span", sentences_of("span", records))
    assert sum(len(batch.rows) for batch in asked.batches) > 2 * len(records)
    found = scores_without(asked, [Without(), Without(frozenset({(2, 1)}))])
    gates: dict[tuple[int, int], float]
    for state, gates in enumerate(({}, {(2, 1): 0.0})):
        with hooked(own, "bert", gates), torch.no_grad():
            each = [own_loss(own, encoder.tokenizer, "span", one, 24) for one in records]
        np.testing.assert_allclose(found.loss[state], np.array(each) / np.log(2), rtol=2e-4)
    assert found.items.sum() == len(records)
    # Where the answers are those that fine-tuning would predict, all are correct.
    collator = Collator(asked.known, pad_id=encoder.pad_id, states=None)
    inputs = encode(asked.known, asked.items, encoder, max_pieces=24, stride=6)
    guessed = predictions(own, asked.known, inputs, collator)[0]["pred"]
    for one, answer in zip(records[::2], guessed[::2], strict=True):
        one |= {"answer": answer, "start": one["text"].index(answer)}
    again = scores_without(HeadTask(encoder, "span", sentences_of("span", records)), [Without()]).right[0]
    assert again[::2].all()
    assert not again[1::2].all()


def test_a_head_that_decides_and_one_that_misleads(of_kind: Callable[..., Path], tmp_path: Path) -> None:
    """Labels are the predictions of the whole model, then of the model without a head: it is missed, then harmful."""
    folder, head = of_kind("distilbert", "sentence_label:label"), (2, 3)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        for number, block in enumerate(model.base_model.transformer.layer, 1):
            # Only this head adds anything, and much.
            columns = block.attention.out_lin.weight.unflatten(1, (HEADS, -1))
            columns *= torch.tensor([6.0 * ((number, one + 1) == head) for one in range(HEADS)])[:, None]
        model.pre_classifier.weight.mul_(3)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoder = Encoder.from_model(model, tokenizer, name="planted")
    texts = list(dict.fromkeys(one["text"] for one in drawn("sentence_label:label", 700)))

    def predicted(gates: dict[tuple[int, int], float]) -> list[str]:
        with hooked(model, "distilbert", gates), torch.no_grad():
            return [TAGS[int(model(**tokenizer(one, return_tensors="pt")).logits.argmax())] for one in texts]

    differ = [one for one in zip(texts, predicted({}), predicted({head: 0.0}), strict=True) if one[1] != one[2]]
    assert len(differ) > 60
    asked: Any = get_probe("head_importance:sentence_label:label")
    for place, name in ((1, "none"), (2, "it")):
        text = load_corpus({"test": [{"text": one[0], "label": one[place]} for one in differ]})["test"]
        half = len(text) // 2
        measured = asked.measure(
            encoder, text[:half], layers=[1, 2, 3], on_long="window", progress=silent, dev=text[half:]
        )
        ratios = measured.ratios["test"]
        assert ratios[0].of("importance").argmax() == HEADS + 2
        assert np.count_nonzero(ratios[0].of("gradient_bits") > 1e-7) == 1
        lost = next(one for one in ratios if one.metric == "delta_loss_bits" and one.unit == "head").of("off")
        whole = next(one for one in ratios if one.metric == "accuracy")
        without = whole.of("harmful heads").item()
        if name == "none":
            assert lost[1, 2] == lost.max() > 0.1
            assert whole.of("random 0 %").item() == without == 1
            assert measured.notes[0][1].startswith(f"0 of {LAYERS * HEADS} without which the loss")
        else:
            assert lost[1, 2] == lost.min() < -0.1
            assert whole.of("random 0 %").item() < without == 1
            assert measured.notes[0][1].startswith(f"1 of {LAYERS * HEADS} (L2H3) without which")


def renamed(corpus: Corpus, names: dict[str, str]) -> Corpus:
    """The corpus with other names of its labels."""
    labels = {name: [one.targets["number"][0].labels[0] for one in split] for name, split in corpus.splits.items()}
    splits = {
        name: Sentences(labelled(one, "number", names[label]) for one, label in zip(split, labels[name], strict=True))
        for name, split in corpus.splits.items()
    }
    return Corpus("renamed", splits)


@pytest.mark.parametrize("how", [{}, {"layers": "none"}, {"layers": "lora"}], ids=str)
def test_a_folder_of_finetune_has_the_accuracy_of_its_record(tune: Tune, subjects: Corpus, how: Any) -> None:
    tuned = tune(lr=0.02, epochs=2, **how)
    folder, is_adapter = tuned.folder(), how.get("layers") == "lora"
    corpus = (
        renamed(subjects, dict(zip(("Plur", "Sing"), ("LABEL_0", "LABEL_1"), strict=True))) if is_adapter else subjects
    )
    folder = folder / "adapter" if is_adapter else folder
    given: dict[str, Any] = {"model": str(folder), "corpus": corpus, "controls": "none", "progress": False}
    found = probe("head_importance:sentence_label:number", **given)
    frame = found.to_pandas()
    whole = frame[(frame["metric"] == "accuracy") & (frame["group"] == "random 0 %")]
    assert whole["value"].tolist() == [tuned.record.scores["test"]["accuracy"]["value"]]
    assert set(frame[frame["head"].notna()]["split"]) == {"dev", "test"}
    assert set(frame[frame["head"].isna()]["split"]) == {"test"}
    shown = found.to_markdown()
    for said in ("heads: are chosen on dev, scored on test", "harmful heads: ", "least missed", "sets of heads off"):
        assert said in shown
    one = probe("head_importance:one_head:sentence_label:number", **given).to_pandas()
    assert set(one[one["head"].isna()]["group"]) == {"one head"}


def test_without_dev_each_half_is_ranked_by_the_other(tune: Tune, subjects: Corpus) -> None:
    tuned, alone = tune(), Corpus("test alone", {"test": subjects["test"]})
    found = probe("head_importance:sentence_label:number", model=str(tuned.folder()), corpus=alone, progress=False)
    assert "on half of the texts, for the other half is lower" in found.to_markdown()
    assert set(found.to_pandas()["split"]) == {"test"}


def test_what_cannot_be_asked(of_kind: Callable[..., Path], tiny_bert: Path) -> None:
    kinds = "sentence_label:label", "pair_number:label"
    labels, numbers = (load_encoder(str(of_kind("bert", task)), device="cpu") for task in kinds)
    texts = sentences_of("sentence_label:label", drawn("sentence_label:label"))
    words = sentences_of("word_label:tag", drawn("word_label:tag"))
    with pytest.raises(ModelError, match="its head is for one label, task word_label:tag for a label of each word"):
        HeadTask(labels, "word_label:tag", words)
    with pytest.raises(ModelError, match="its head is for one number, task sentence_label:label for one label"):
        HeadTask(numbers, "sentence_label:label", texts)
    other = load_corpus({"test": [("the dogs", "perhaps"), ("the fox", "no")]})["test"]
    with pytest.raises(ModelError, match=r"label 'perhaps' of the texts is none of those that model .* knows, no, yes"):
        HeadTask(labels, "sentence_label:label", other)
    with pytest.raises(
        ModelError, match="it has no head for a task that is known: give one tuned for one label, one number"
    ):
        HeadTask(load_encoder(str(tiny_bert), device="cpu"), "sentence_label:label", texts)
    with pytest.raises(ModelError, match="on_long skip is not for a task of a fine-tuned model"):
        HeadTask(labels, "sentence_label:label", texts, on_long="skip")
    for name in ("head_importance:perhaps", "head_importance:one_head:perhaps", "head_importance:minimal_pairs"):
        with pytest.raises(BertologyError, match="a task that finetune knows"):
            get_probe(name)
