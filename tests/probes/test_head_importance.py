"""What a model loses without a head, from the probe to what is measured."""

import pytest

from bertology.encoders import load_encoder, masked_lm_loss
from bertology.errors import ModelError
from bertology.pocket import load_corpus
from bertology.probing import RunningModel
from bertology_probes.head_importance import PROBE as FAMILY
from bertology_probes.head_importance import OneHead

PROBE = FAMILY.example


@pytest.fixture(scope="module")
def own(tiny_bert):
    return load_encoder(str(tiny_bert), device="cpu")


def test_all_that_is_measured(own):
    sentences = load_corpus()["test"][:12]
    probe = PROBE.with_settings({"order_seeds": [5]})
    found = probe.measure(RunningModel(own, {"test": sentences}, [2, 3])).ratios["test"]
    of_heads = [one for one in found if one.unit == "head"]
    metrics = [metric for one in of_heads for metric in ([one.metric] if one.metric else one.names)]
    metrics += [one.metric for one in found if one.unit == "model"]
    assert list(dict.fromkeys(metrics)) == [
        metric.name for metric in PROBE.scores if metric.name not in {"loss_bits", "accuracy"}
    ] + [
        "loss_bits",
        "accuracy",
    ]
    curve = next(one for one in found if one.metric == "loss_bits")
    deltas = [one for one in found if one.metric == "delta_loss_bits"]
    assert [(one.unit, one.names, one.layers) for one in deltas] == [
        ("head", ("off",), (1, 2, 3)),
        ("head", ("uniform",), (2, 3)),
        ("layer", ("all off", "all but one off"), (2, 3)),
        ("model", curve.names, ()),
    ]
    whole = masked_lm_loss(own, sentences)
    with own.gated_heads({(3, 2): 0.0}):
        without = masked_lm_loss(own, sentences)
    assert deltas[0].of("off")[2, 1] == pytest.approx(without.bits - whole.bits, abs=1e-5)
    assert curve.of("random 0 %").item() == pytest.approx(whole.bits, rel=1e-5)


def test_a_model_that_restores_no_words(own, tiny_bert, tmp_path):
    from transformers import BertConfig, BertModel

    BertModel(BertConfig.from_pretrained(tiny_bert)).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny_bert / name).read_bytes())
    headless = load_encoder(str(tmp_path), device="cpu")
    with pytest.raises(ModelError, match="no masked-LM head"):
        PROBE.measure(RunningModel(headless, {"test": load_corpus()["test"][:3]}, [1]))


def test_a_layer_keeps_the_head_that_is_best_on_dev(own):
    dev, test = (load_corpus()[split][:40] for split in ("dev", "test"))
    found = OneHead().measure(RunningModel(own, {"dev": dev, "test": test}, [1, 3])).ratios
    whole = masked_lm_loss(own, dev).bits
    alone = {}
    for layer in (1, 3):
        for kept in (1, 2, 3, 4):
            with own.gated_heads({(layer, head): 0.0 for head in (1, 2, 3, 4) if head != kept}):
                alone[layer, kept] = masked_lm_loss(own, dev).bits - whole
    by_head, by_layer = found["dev"][0], found["test"][0]
    assert by_head.of("one head").ravel() == pytest.approx([*alone.values()], abs=1e-5)
    assert (by_layer.metric, by_layer.unit, by_layer.layers) == ("delta_loss_bits", "layer", (1, 3))
    for place, layer in enumerate((1, 3)):
        best = min((1, 2, 3, 4), key=lambda kept: alone[layer, kept])
        with own.gated_heads({(layer, head): 0.0 for head in (1, 2, 3, 4) if head != best}):
            change = masked_lm_loss(own, test).bits
        change -= masked_lm_loss(own, test).bits
        assert by_layer.of("one head")[place, 0] == pytest.approx(change, abs=1e-5)
