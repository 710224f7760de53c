"""Targets of every head: attributions against captum, patches against plain hooks, and one model in three forms.

``captum.json`` holds what captum 0.9.0 computes for these models of random weights; where captum is installed it is
computed again, so that a stored number is always one of captum's.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from bertology import Encoder, attribute, load_encoder, patch, probe
from bertology._machine import quiet_loading
from bertology.attention import view
from bertology.causal import PatchPair, Target
from bertology.causal import attribute as attribute_questions
from bertology.causal import patch as patch_pairs
from bertology.causal.patching import trace
from bertology.errors import BertologyError

STORED = json.loads((Path(__file__).parent / "captum.json").read_text(encoding="utf-8"))
HAS_CAPTUM = importlib.util.find_spec("captum") is not None
KINDS: dict[str, Any] = {
    "label": BertForSequenceClassification,
    "pair": BertForSequenceClassification,
    "tag": BertForTokenClassification,
    "answer": BertForQuestionAnswering,
    "choice": BertForMultipleChoice,
}
TEXT, SECOND = "The guards near the dog see the farmer.", "The dog sees."
QUESTIONS = {
    "label": PatchPair(TEXT, target=Target("label", "b", "a")),
    "pair": PatchPair(TEXT, target=Target("label", "b", "a"), seconds=(SECOND,)),
    "tag": PatchPair(TEXT, target=Target("tag", "b", "a", word=5)),
    "answer": PatchPair(SECOND, target=Target("answer", "the dog"), seconds=(TEXT,)),
}
METHODS = {"integrated_gradients": 1e-5, "gradient_times_input": 1e-5, "occlusion": 1e-5}


@pytest.fixture(scope="module")
def make(tiny_bert: Path) -> Callable[[str], tuple[Any, Any]]:
    """A model with a head of each kind, its weights random, and its tokenizer."""

    def made(kind: str) -> tuple[Any, Any]:
        labels = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
        own = {} if kind in ("answer", "choice") else labels
        config = KINDS[kind].config_class.from_pretrained(tiny_bert, **own)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            return KINDS[kind](config).eval(), AutoTokenizer.from_pretrained(tiny_bert)

    return made


def scored(model: Any, tokenizer: Any, kind: str) -> tuple[torch.Tensor, Any, Callable[..., torch.Tensor]]:
    """Vocabulary numbers with their encoding, and the score as a function of vocabulary numbers, by hand."""
    question = QUESTIONS[kind]
    inputs = tokenizer(question.text, *question.seconds, return_tensors="pt")
    given = {name: value for name, value in inputs.items() if name != "input_ids"}
    ids = inputs["input_ids"]

    def score(some: torch.Tensor) -> torch.Tensor:
        output = model(input_ids=some, **{name: value.expand(len(some), -1) for name, value in given.items()})
        if kind == "answer":
            text = inputs.encodings[0]
            start = QUESTIONS[kind].seconds[0].index("the dog")
            at = [text.char_to_token(place, 1) for place in (start, start + len("the dog") - 1)]
            ends = (output.start_logits, output.end_logits)
            return sum(logits.log_softmax(1)[:, place] for logits, place in zip(ends, at, strict=True))  # type: ignore
        logits = output.logits
        if kind == "tag":
            logits = logits[:, inputs.encodings[0].char_to_token(TEXT.index("dog"))]
        return logits[:, 1] - logits[:, 0]

    return ids, inputs.encodings[0], score


def by_captum(model: Any, tokenizer: Any, kind: str, method: str) -> list[float]:
    """Scores of words as captum computes them, those of subwords summed."""
    from captum.attr import LayerGradientXActivation, LayerIntegratedGradients, Occlusion

    ids, encoding, score = scored(model, tokenizer, kind)
    # Words as spelled: white space and the full stop divide these texts.
    texts, spans = (QUESTIONS[kind].text, *QUESTIONS[kind].seconds), []
    for part, text in enumerate(texts):
        start = 0
        for word in text.replace(".", " .").split():
            at = text.index(word, start)
            start = at + len(word)
            spans.append(sorted({encoding.char_to_token(place, part) for place in range(at, start)}))
    empty = ids.clone()
    empty[0, [place for span in spans for place in span]] = tokenizer.mask_token_id
    with torch.enable_grad():
        if method == "integrated_gradients":
            peer = LayerIntegratedGradients(score, model.get_input_embeddings())
            found = peer.attribute(ids, empty, n_steps=50, method="riemann_middle").sum(-1)[0]
        elif method == "gradient_times_input":
            found = LayerGradientXActivation(score, model.base_model.embeddings).attribute(ids).sum(-1)[0]
        else:

            def of_words(is_there: torch.Tensor) -> torch.Tensor:
                rows = ids.expand(len(is_there), -1).clone()
                for row, words in zip(rows, is_there.tolist(), strict=True):
                    left_out = [place for n, span in enumerate(spans) if not words[n] for place in span]
                    row[left_out] = tokenizer.mask_token_id
                return score(rows)

            found = Occlusion(of_words).attribute(torch.ones(1, len(spans)), sliding_window_shapes=(3,), baselines=0)[0]
            return [float(one) for one in found]
    return [float(found.detach()[span].sum()) for span in spans]


@pytest.mark.parametrize("kind", QUESTIONS)
def test_scores_are_those_of_captum(make: Callable[[str], tuple[Any, Any]], kind: str) -> None:
    model, tokenizer = make(kind)
    encoder = Encoder.from_model(model, tokenizer)
    found = attribute_questions(encoder, [QUESTIONS[kind]], methods=list(METHODS), steps=50)
    ids, _, score = scored(model, tokenizer, kind)
    with torch.no_grad():
        expected = float(score(ids)[0])
    assert found.found[0].difference == pytest.approx(expected, abs=1e-5)
    for method, close in METHODS.items():
        ours = found.found[0].scores[method, 0]
        assert ours == pytest.approx(STORED[kind][method], abs=close), method
        if HAS_CAPTUM:
            assert STORED[kind][method] == pytest.approx(by_captum(model, tokenizer, kind, method), abs=close)


@pytest.mark.skipif(not HAS_CAPTUM, reason="captum is not installed: pip install 'bertology[explain]'")
def test_shapley_values_sum_to_what_the_words_add(make: Callable[[str], tuple[Any, Any]]) -> None:
    encoder = Encoder.from_model(*make("label"))
    methods = ["shapley", "kernel_shap", "leave_one_out"]
    found = attribute_questions(encoder, [QUESTIONS["label"]], methods=methods, samples=200, unit="subword")
    assert found.found[0].words == tuple(encoder.tokenizer.tokenize(TEXT))
    assert found.found[0].errors["shapley", 0] < 1e-5
    exact, estimate = (found.found[0].scores[name, 0] for name in ("shapley", "kernel_shap"))
    assert np.abs(exact - estimate).max() < 0.35 * np.abs(exact).max()
    again = attribute_questions(encoder, [QUESTIONS["label"]], methods=methods, samples=200, unit="subword")
    assert (again.found[0].scores["shapley", 0] == exact).all()


@pytest.mark.parametrize("kind", ["label", "tag", "answer"])
def test_patches_are_those_of_plain_hooks(make: Callable[[str], tuple[Any, Any]], kind: str) -> None:
    model, tokenizer = make(kind)
    text, other = TEXT, TEXT.replace("near", "behind")
    of_second = kind == "answer"
    pair = PatchPair(
        SECOND if of_second else text,
        SECOND if of_second else other,
        target=QUESTIONS[kind].target,
        seconds=(text,) if of_second else (),
        other_seconds=(other,) if of_second else None,
    )
    found = patch_pairs(Encoder.from_model(model, tokenizer), pair, by_word=True)
    inputs = [tokenizer(*((SECOND, one) if of_second else (one,)), return_tensors="pt") for one in (text, other)]
    *_, score = scored(model, tokenizer, kind)
    layers, changed = model.bert.encoder.layer, int((inputs[0]["input_ids"] != inputs[1]["input_ids"]).nonzero()[0, 1])
    with torch.no_grad():
        states = model(**inputs[0], output_hidden_states=True).hidden_states
        plain = score(inputs[1]["input_ids"])
        for layer in range(len(layers)):

            def exchange(module: Any, args: Any, kwargs: Any, layer: int = layer) -> Any:
                state = args[0].clone()
                state[:, changed] = states[layer][:, changed]
                return (state, *args[1:]), kwargs

            with layers[layer].register_forward_pre_hook(exchange, with_kwargs=True):
                expected = float(score(inputs[1]["input_ids"]) - plain)
            name = next(name for name in found.places if "near" in name)
            assert found.changes[layer, found.places.index(name), 0] == pytest.approx(expected, abs=1e-5)
        assert found.whole[0] == pytest.approx(float(score(inputs[0]["input_ids"]) - plain), abs=1e-5)
    assert found.effects[:, -1] == pytest.approx(1, abs=1e-4)


def test_attribution_patching_is_exact_where_the_model_is_linear(make: Callable[[str], tuple[Any, Any]]) -> None:
    """A tag is read off the last layer by a linear map; in lower layers the estimates of a path come near."""
    pair = PatchPair(TEXT, TEXT.replace("near", "behind"), target=QUESTIONS["tag"].target)
    encoder = Encoder.from_model(*make("tag"))
    found = patch_pairs(encoder, pair, method="both")
    assert found.estimates is not None
    assert found.estimates[-1] == pytest.approx(found.changes[-1], abs=1e-5)
    alone = patch_pairs(encoder, pair, method="attribution")
    assert alone.changes == pytest.approx(found.estimates, abs=1e-6)
    path = patch_pairs(encoder, pair, method="both", steps=64)
    assert path.estimates is not None
    # The mean gradient along the path gives what all embeddings together change.
    assert path.estimates[0, -1] == pytest.approx(path.changes[0, -1], rel=0.02)
    assert "mean error of an effect" in str(path)


def test_a_model_in_memory_in_a_folder_and_as_an_adapter_are_the_same(
    make: Callable[[str], tuple[Any, Any]], tiny_bert: Path, tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft")
    model, tokenizer = make("label")
    folders = [tmp_path / name for name in ("base", "adapter", "merged")]
    model.save_pretrained(folders[0])
    tokenizer.save_pretrained(folders[0])
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, init_lora_weights=False, modules_to_save=["classifier"])
    torch.manual_seed(1)
    with quiet_loading():
        adapted = peft.get_peft_model(model, config).eval()
    adapted.save_pretrained(folders[1])
    settings = json.loads((folders[1] / "adapter_config.json").read_text())
    (folders[1] / "adapter_config.json").write_text(json.dumps(settings | {"base_model_name_or_path": str(folders[0])}))
    forms = [(adapted, tokenizer), str(folders[1])]
    found = [attribute(TEXT, model=one, methods="integrated_gradients,leave_one_out", device="cpu") for one in forms]
    merged = adapted.merge_and_unload()
    merged.save_pretrained(folders[2])
    tokenizer.save_pretrained(folders[2])
    found.append(attribute(TEXT, model=str(folders[2]), methods="integrated_gradients,leave_one_out", device="cpu"))
    for other in found[1:]:
        assert other.found[0].target == found[0].found[0].target
        for key, scores in found[0].found[0].scores.items():
            assert other.found[0].scores[key] == pytest.approx(scores, abs=1e-5)


def test_a_choice_is_one_of_several_second_texts(make: Callable[[str], tuple[Any, Any]]) -> None:
    model, tokenizer = make("choice")
    choices = ("The dog sees.", "The farmers near the cats run.", "A cat.")
    encoder = Encoder.from_model(model, tokenizer)
    question = PatchPair(TEXT, target=Target("choice"), seconds=choices)
    found = attribute_questions(encoder, [question], layers=[0, 2]).found[0]
    inputs = tokenizer([TEXT] * 3, list(choices), padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**{name: one[None] for name, one in inputs.items()}).logits[0]
    best, second = logits.argsort(descending=True)[:2].tolist()
    assert (found.target.good, found.target.bad) == (str(best + 1), str(second + 1))
    assert found.difference == pytest.approx(float(logits[best] - logits[second]), abs=1e-5)
    # Words of the choice that is not compared have no effect; attention does not pass from one to another.
    starts = np.cumsum([len(one.replace(".", " .").split()) for one in (TEXT, *choices)])
    (third,) = {0, 1, 2} - {best, second}
    of_third = slice(int(starts[third]), int(starts[third + 1]))
    for key, scores in found.scores.items():
        if key[0] != "random":
            assert np.abs(scores[of_third]).max() < 1e-6, key
            assert np.abs(scores).max() > 1e-6, key


def test_labels_are_traced_and_probes_explained(make: Callable[[str], tuple[Any, Any]], tmp_path: Path) -> None:
    encoder = Encoder.from_model(*make("label"))
    places = ("other", "subject", *["other"] * 6, "end")
    question = PatchPair(TEXT, target=QUESTIONS["label"].target, places=places)
    found = trace(encoder, [question], n_draws=2)
    assert found.effects[:, found.places.index("all")] == pytest.approx(1, abs=1e-4)
    with pytest.raises(BertologyError, match="no place is called subject"):
        trace(encoder, [QUESTIONS["label"]], n_draws=2)
    results = probe("pos", layers=[2], sentences=60, controls="none", out=tmp_path / "run", device="cpu")
    fitted = results.fitted("pos", 2)
    target = Target("probe", word=2, probe=fitted)
    pocket = load_encoder("pocket", device="cpu")
    one = attribute_questions(pocket, [PatchPair(TEXT, target=target)], methods=["leave_one_out"]).found[0]
    predicted = fitted.predict_proba([TEXT], model=pocket).iloc[1]
    assert one.target.good == predicted.idxmax() == "NOUN"
    expected = np.log(predicted[one.target.good]) - np.log(predicted[one.target.bad])
    assert one.difference == pytest.approx(expected, abs=0.05)  # the probe reads vectors rounded to float16
    with pytest.raises(BertologyError, match="layer 3: the probe reads layer 2, which no layer above it affects"):
        attribute_questions(pocket, [PatchPair(TEXT, target=target)], methods=["attention"], layers=[3])
    written = attribute(TEXT, target="probe=2:NOUN", probe=f"{tmp_path / 'run'},pos,2", methods="leave_one_out")
    assert written.found[0].difference == pytest.approx(one.difference, abs=1e-5)


def test_a_column_of_scores_belongs_to_the_rows_in_their_order(make: Callable[[str], tuple[Any, Any]]) -> None:
    rows = [{"text": f"The dog sees {n} cats.", "label": "ab"[n % 2], "mine": [n, 0, 0, 0, 0, 0]} for n in range(12)]
    settings: dict[str, Any] = {"model": make("label"), "task": "sentence_label:label", "methods": "leave_one_out"}
    found = attribute(corpus={"dev": rows}, scores="mine", **settings)
    assert [one.scores["mine", 0][0] for one in found.found] == list(range(12))
    assert len(attribute(corpus=rows, **settings).found) == 12
    with pytest.raises(BertologyError, match="scores 'mine': give the table as one split"):
        attribute(corpus=rows, scores="mine", **settings)


def test_scores_of_others_are_tested_alike(make: Callable[[str], tuple[Any, Any]]) -> None:
    model, texts = make("label"), [TEXT, SECOND]
    own = attribute(texts, model=model, methods="leave_one_out")
    given = {"mine": [one.scores["leave_one_out", 0].tolist() for one in own.found]}
    found = attribute(texts, model=model, methods="leave_one_out", scores=given)
    rows = found.summary().set_index("method")
    tests = ["comprehensiveness", "sufficiency", "rank_correlation"]
    assert rows.loc["mine", tests].tolist() == pytest.approx(rows.loc["leave_one_out", tests].tolist())
    assert rows.loc["mine", "rank_correlation"] == pytest.approx(1)
    assert np.isfinite(rows.loc["leave_one_out", ["completeness_error", "seconds"]].astype(float)).all()
    with pytest.raises(BertologyError, match="scores 'mine': 2 numbers for the 9 words"):
        attribute(texts, model=model, methods="leave_one_out", scores={"mine": [[1, 2], [1, 2, 3, 4]]})


@pytest.mark.parametrize(
    ("kind", "target", "message"),
    [
        ("label", "label=good", r"label 'good' is none of a, b, c"),
        ("label", "label=a,a", r"'a' is compared with itself"),
        ("label", "tag=3", r"a head for labels of texts, none for tags of words"),
        ("label", "number", r"predicts the labels a, b, c of a text"),
        ("label", "word=are,is", "no masked-LM head"),
        ("label", "lable", r"unknown target 'lable': did you mean label"),
        ("label", "label=a,b,c", "3 are named: give one, or two to compare"),
        ("tag", "tag", r"name a word by its number, tag=3 or tag=3:PER"),
        ("tag", "tag=12", r"tag=12: the text has 9 words"),
        ("tag", "tag=2:PER", r"tag 'PER' is none of a, b, c"),
        ("tag", None, r"predicts tags of words: name a word"),
        ("answer", "answer=the", r"the answer 'the' stands 2 times in the passage"),
        ("answer", "answer=Rome", r"the answer 'Rome' does not stand in the passage"),
        ("choice", "choice=4", r"choice '4' is none of 1, 2"),
    ],
)
def test_mistakes_are_one_line(
    make: Callable[[str], tuple[Any, Any]], kind: str, target: str | None, message: str
) -> None:
    second = {"answer": TEXT, "choice": "One. ||| Two."}.get(kind)
    with pytest.raises(BertologyError, match=message) as error:
        attribute(TEXT, model=make(kind), target=target, second=second)
    assert "\n" not in str(error.value)


def test_mistakes_of_pairs(make: Callable[[str], tuple[Any, Any]]) -> None:
    with pytest.raises(BertologyError, match="is predicted of both texts"):
        patch(TEXT, TEXT.replace("near", "behind"), model=make("label"))
    with pytest.raises(BertologyError, match="a question without its passage"):
        attribute(TEXT, model=make("answer"))
    with pytest.raises(BertologyError, match="2 second texts: only a choice is among several"):
        attribute(TEXT, model=make("label"), second="One. ||| Two.")
    with pytest.raises(BertologyError, match=r"predicts words: name those for the mask"):
        attribute(TEXT)


def test_the_viewer_shows_effects_on_a_prediction(make: Callable[[str], tuple[Any, Any]]) -> None:
    """Each weight × the gradient of the score, by the maps that transformers returns; sums of pieces between words."""
    model, tokenizer = make("pair")
    page = view(TEXT, SECOND, model=(model, tokenizer), prediction=Target("label", "b", "a"), weights="effect")
    model.set_attn_implementation("eager")
    output = model(**tokenizer(TEXT, SECOND, return_tensors="pt"), output_attentions=True)
    score = output.logits[0, 1] - output.logits[0, 0]
    slopes = torch.autograd.grad(score, output.attentions)
    assert page.reading.prediction == f"logit of b − logit of a = {float(score.detach()):.2f}"
    assert page.reading.weights == ("raw", "norm", "effect")
    for layer, (maps, slope) in enumerate(zip(output.attentions, slopes, strict=True), 1):
        effects = (maps * slope)[0].detach()
        found = page.reading.maps(layer, level="piece", weights="effect")
        assert found == pytest.approx(effects.clamp_min(0).numpy(), abs=1e-6)
        member = page.reading.units("word").member
        words = page.reading.maps(layer, level="word", weights="effect")
        assert words == pytest.approx((member @ effects @ member.T).clamp_min(0).numpy(), abs=1e-6)
    assert 'value="effect"' in page.html
    assert "logit of b − logit of a" in page.html
    with pytest.raises(BertologyError, match="weights effect: name the prediction that they are on"):
        view(TEXT, model=(model, tokenizer), weights="effect")
    with pytest.raises(BertologyError, match="no masked-LM head"):
        view(TEXT, model=(model, tokenizer), prediction=Target("word", "are", "is"))
