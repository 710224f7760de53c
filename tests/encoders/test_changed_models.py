"""Models in memory that are no longer what files hold."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.nn.utils import parametrizations, prune
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from bertology import Encoder, compare, load_corpus, probe
from bertology.encoders import load_encoder, model_name, resolve_model
from bertology.encoders.memory import model_names
from bertology.errors import BertologyError, ModelError
from bertology.pocket import model_folder
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import Experiment

TEXTS = ("The farmers see the dog.", "The guards near the dog open the door.", "She sleeps.")


@pytest.fixture
def model() -> Any:
    return AutoModelForMaskedLM.from_pretrained(model_folder(), dtype=torch.float32)


class Halved(transformers.BertForMaskedLM):
    """Half the logits."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        output = super().forward(*args, **settings)
        output.logits = output.logits / 2
        return output


class Scaled(nn.Module):
    """An activation of one's own."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return 0.3 * values


def weights(model: Any) -> Any:
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight.mul_(1.5)
    return model


def own_activation(model: Any) -> Any:
    model.bert.encoder.layer[2].intermediate.intermediate_act_fn = Scaled()
    return model


def eps(model: Any) -> Any:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 10.0
    return model


def forward_around(model: Any) -> Any:
    """A forward of one's own, which closes over the old one."""
    layer = model.bert.encoder.layer[1]
    old = layer.forward

    def forward(*args: Any, **settings: Any) -> Any:
        output = old(*args, **settings)
        return (output[0] * 0.5, *output[1:]) if isinstance(output, tuple) else output * 0.5

    layer.forward = forward
    return model


def forward_bound(model: Any) -> Any:
    def forward(self: Any, hidden: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.LayerNorm(2 * self.dense(hidden) + inputs)
        return made

    part = model.bert.encoder.layer[0].output
    part.forward = MethodType(forward, part)
    return model


def forward_partial(model: Any) -> Any:
    part = model.bert.encoder.layer[0].attention.output
    old = part.forward
    part.forward = partial(lambda before, scale, *args, **settings: scale * before(*args, **settings), old, 1.5)
    return model


def subclass(model: Any) -> Any:
    made = Halved(model.config)
    made.load_state_dict(model.state_dict())
    return made


def hooks(model: Any) -> Any:
    def zero(module: nn.Module, args: Any, output: Any) -> Any:
        first = output[0] if isinstance(output, tuple) else output
        first = torch.cat([torch.zeros_like(first[..., :40]), first[..., 40:]], dim=-1)
        return (first, *output[1:]) if isinstance(output, tuple) else first

    model.bert.encoder.layer[2].register_forward_hook(zero)
    return model


def hook_of_some_texts(model: Any) -> Any:
    """A hook that fires where a text has the word *guards* alone."""
    number = AutoTokenizer.from_pretrained(model_folder()).convert_tokens_to_ids("guards")
    seen: dict[str, Any] = {}

    def look(module: nn.Module, args: Any, settings: Any) -> None:
        seen["has"] = (settings["input_ids"] == number).any(1)

    def change(module: nn.Module, args: Any, output: Any) -> Any:
        return torch.where(seen["has"][:, None, None], -output, output)

    model.bert.embeddings.register_forward_pre_hook(look, with_kwargs=True)
    model.bert.embeddings.register_forward_hook(change)
    return model


def head_hook(model: Any) -> Any:
    model.cls.predictions.decoder.register_forward_hook(lambda module, args, output: output.flip(-1))
    return model


def parametrized(model: Any) -> Any:
    parametrizations.orthogonal(model.bert.encoder.layer[3].attention.output.dense)
    return model


def pruned(model: Any) -> Any:
    for layer in model.bert.encoder.layer:
        prune.l1_unstructured(layer.intermediate.dense, "weight", amount=0.6)
    return model


def half_precision(model: Any) -> Any:
    return model.to(torch.bfloat16)


def adapted(model: Any) -> Any:
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of transformers, about what peft calls
        return peft.get_peft_model(model, settings)


def adapted_and_compiled(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, about what its compiler imports
        return torch.compile(nn.DataParallel(adapted(model)))


WAYS = (
    *(weights, own_activation, eps, forward_around, forward_bound, forward_partial, subclass),
    *(hooks, hook_of_some_texts, head_hook, parametrized, pruned, half_precision, adapted, adapted_and_compiled),
)


def inner(model: Any) -> Any:
    """What runs, without what cannot run here: a compiler."""
    return inner(model._orig_mod) if hasattr(model, "_orig_mod") else model


def plain(model: Any, tokenizer: Any, text: str) -> tuple[list[torch.Tensor], torch.Tensor]:
    """``[piece, dim]`` by layer and ``[piece, entry]`` of a pass of the object alone."""
    model = inner(model).eval()
    with torch.no_grad():
        output = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    return [state[0].float() for state in output.hidden_states], output.logits[0].float()


@pytest.mark.parametrize("way", WAYS)
def test_vectors_and_predictions_are_those_of_the_object(way: Callable[[Any], Any], model: Any, tokenizer: Any) -> None:
    changed = way(model)
    encoder = Encoder.from_model(changed, tokenizer)
    close = {"rtol": 0.05, "atol": 0.15} if way is half_precision else {"rtol": 1e-4, "atol": 1e-4}
    stock = load_encoder("pocket", device="cpu")
    moved = 0.0
    for text in TEXTS:
        states, logits = plain(changed, tokenizer, text)
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        for layer, state in encoder.hidden_states(ids, layers=range(5)).items():
            torch.testing.assert_close(state[0].float().cpu(), states[layer].cpu(), **close)
        places = torch.tensor([[0, n] for n in range(ids.shape[1])])
        ours = encoder.masked_logits(ids, places)[4].float().cpu()
        torch.testing.assert_close(ours, logits.cpu(), **close)
        moved = max(moved, float((stock.masked_logits(ids, places)[4] - logits.cpu()).abs().max()))
    assert moved > 1e-2 or way is half_precision  # the way changes something


def test_models_are_compared_by_readable_names(model: Any, tokenizer: Any) -> None:
    one, other = forward_around(copy.deepcopy(model)), hooks(copy.deepcopy(model))
    small = load_corpus("pocket")
    small = replace(small, splits={name: small[name][:20] for name in small.splits})
    settings: dict[str, Any] = {"corpus": small, "layers": "1", "controls": "none", "progress": False}
    pairs = [(one, tokenizer), (other, tokenizer)]
    assert set(probe("pos", model=pairs, **settings).to_pandas().model) == {"model (in memory)", "model (in memory 2)"}
    found = probe("pos", model=[*pairs, "pocket"], names=["halved", "zeroed", None], **settings)
    assert set(found.to_pandas().model) == {"halved", "zeroed", "pocket"}
    asked: dict[str, Any] = {"corpus": small, "layers": "3", "measures": "vectors,masked_loss", "progress": False}
    compared = compare("pocket", *pairs, names=[None, "halved", "zeroed"], **asked)
    assert (compared.reference, compared.models, compared.failures) == ("pocket", ("halved", "zeroed"), ())
    frame = compared.to_pandas()
    alike = frame[(frame.task == "comparison:vectors") & (frame.metric == "rsa_spearman")].set_index("model").value
    assert max(alike["halved"], alike["zeroed"]) < 0.9999
    assert alike["halved"] != alike["zeroed"]
    encoder = Encoder.from_model(*pairs[0], name="held")
    with_encoder = compare("pocket", encoder, tasks="pos", corpus=small, layers="1", measures="none", progress=False)
    assert with_encoder.models == ("held",)


def test_names_fit_the_models(model: Any, tokenizer: Any) -> None:
    pair = (weights(model), tokenizer)
    with pytest.raises(ModelError, match="names: a for 2 models"):
        model_names([pair, "pocket"], ["a"])
    with pytest.raises(ModelError, match="names: model pocket has a name"):
        model_names([pair, "pocket"], ["a", "b"])
    assert [Path(name).name for name in model_names([pair, "pocket"], ["a", None])] == ["a", "pocket"]
    with pytest.raises(ModelError, match="given twice"):
        compare(pair, pair, corpus="pocket")


def test_a_wrapped_model_is_the_model_in_it(model: Any, tokenizer: Any) -> None:
    folder = model_name((AutoModelForPreTraining.from_pretrained(model_folder()), tokenizer))
    wrapped = AutoModelForPreTraining.from_pretrained(model_folder())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert model_name((torch.compile(nn.DataParallel(wrapped)), tokenizer)) == folder
    prompts = pytest.importorskip("peft").PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=4)
    classifier = AutoModelForSequenceClassification.from_pretrained(model_folder())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        tuned = pytest.importorskip("peft").get_peft_model(classifier, prompts)
    with pytest.raises(ModelError, match="is not what the object returns"):
        model_name((tuned, tokenizer))


def test_a_classifier_is_not_answered_by_a_head_of_its_files(tokenizer: Any) -> None:
    classifier = AutoModelForSequenceClassification.from_pretrained(model_folder())
    settings: dict[str, Any] = {"corpus": "pocket", "layers": "-1", "controls": "none", "progress": False}
    with pytest.raises(ModelError, match="no masked-LM head"):
        probe("agreement", model=(classifier, tokenizer), **settings)
    hooked = hooks(classifier)
    with pytest.raises(ModelError, match="no masked-LM head"):
        probe("agreement", model=(hooked, tokenizer), **settings)
    encoder = load_encoder(resolve_model(model_name((hooked, tokenizer))), device="cpu")
    ids = tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        torch.testing.assert_close(encoder.task_output(ids).logits, hooked.eval()(ids).logits, rtol=1e-4, atol=1e-4)


def test_an_encoder_with_hooks_is_not_known_by_its_files() -> None:
    encoder = load_encoder("pocket", device="cpu")
    assert model_name(encoder) == "pocket"
    handle = encoder.model.blocks[1].register_forward_hook(lambda module, args, output: output * 2)
    name = model_name(encoder)
    assert name == "model (in memory)"
    assert load_encoder(name).fingerprint != encoder.fingerprint
    handle.remove()
    assert model_name(encoder) == "pocket"


def test_a_model_that_is_trained_on_is_another_model(model: Any, tokenizer: Any) -> None:
    changed = hooks(model)
    encoder = Encoder.from_model(changed, tokenizer)
    ids = tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    before = encoder.hidden_states(ids, layers=[4])[4]
    weights(changed)  # the encoder stays what the model was
    torch.testing.assert_close(encoder.hidden_states(ids, layers=[4])[4], before)
    again = Encoder.from_model(changed, tokenizer)
    assert again.fingerprint != encoder.fingerprint
    assert (again.hidden_states(ids, layers=[4])[4] - before).abs().max() > 0.01


def test_models_that_are_described_share_results_and_others_do_not(tokenizer: Any) -> None:
    def fingerprint(way: Callable[[Any], Any]) -> str:
        model = AutoModelForMaskedLM.from_pretrained(model_folder(), dtype=torch.float32)
        return load_encoder(model_name((way(model), tokenizer))).fingerprint

    for way in (weights, eps, half_precision):
        assert fingerprint(way) == fingerprint(way)
    for way in (forward_around, hooks):
        assert fingerprint(way) != fingerprint(way)


def test_twins_run_side_by_side_without_each_other(model: Any, tokenizer: Any) -> None:
    encoder = Encoder.from_model(forward_around(model), tokenizer)
    twin, ran = encoder.twin(), set[int]()
    own = {id(module) for module in encoder.model.outermost.modules()}
    handle = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, args: ran.add(id(module)))
    twin.hidden_states(tokenizer(TEXTS[0], return_tensors="pt")["input_ids"], layers=[4])
    handle.remove()
    assert ran
    assert not ran & own
    one, other = (next(each.model.body.parameters()) for each in (encoder, twin))
    assert one is other


def raising(model: Any) -> Any:
    def stop(module: nn.Module, args: Any, output: Any) -> Any:
        raise ValueError("no more\nlines")

    model.bert.encoder.layer[1].register_forward_hook(stop)
    return model


def to_nan(model: Any) -> Any:
    model.bert.encoder.layer[1].register_forward_hook(lambda module, args, output: output * float("nan"))
    return model


def of_the_batch(model: Any) -> Any:
    model.bert.encoder.layer[1].register_forward_hook(lambda module, args, output: output - output.mean(dim=(0, 1)))
    return model


def by_an_object(model: Any) -> Any:
    """A function that finds the old forward where no copy of it is found."""
    layer = model.bert.encoder.layer[1]
    kept = SimpleNamespace(forward=layer.forward)
    layer.forward = lambda *args, **settings: kept.forward(*args, **settings)
    return model


def quantised(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


def before_the_encoder(model: Any) -> Any:
    def exchange(module: nn.Module, args: Any, settings: dict[str, Any]) -> Any:
        return args, {**settings, "input_ids": settings["input_ids"].flip(-1)}

    model.register_forward_pre_hook(exchange, with_kwargs=True)
    return model


def in_a_wrapper(model: Any) -> Any:
    wrapper = nn.DataParallel(model)
    wrapper.register_forward_hook(lambda module, args, output: None)
    return wrapper


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (raising, r"does not run a few texts \(no more\)"),
        (to_nan, "layer 2 is not finite; mend the weight, hook or forward"),
        (of_the_batch, "layer 2 of a few texts read together is not what the object returns"),
        (by_an_object, r"runs a Bert\w+ of the object"),
        (quantised, "arithmetic that depends on the batch"),
        (before_the_encoder, "is not what the object returns for each alone"),
        (in_a_wrapper, "hooks of a wrapper; put them on the model"),
    ],
)
def test_what_cannot_be_computed_as_given_is_refused(
    way: Callable[[Any], Any], message: str, model: Any, tokenizer: Any
) -> None:
    changed = way(model).train()
    with pytest.raises(BertologyError, match=message) as error:
        probe("pos", model=(changed, tokenizer), corpus="pocket", layers="1", controls="none", progress=False)
    assert "\n" not in str(error.value)
    assert changed.training


def test_random_weights_are_drawn_within_the_changed_modules(model: Any, tokenizer: Any) -> None:
    source = resolve_model(model_name((own_activation(model), tokenizer)))
    fresh = [load_encoder(source, init="random", seed=seed, device="cpu") for seed in (0, 0, 1)]
    ids = tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    states = [encoder.hidden_states(ids, layers=[4])[4] for encoder in (*fresh, load_encoder(source, device="cpu"))]
    torch.testing.assert_close(states[0], states[1])
    assert all((states[0] - other).abs().max() > 0.1 for other in states[2:])
    assert len({encoder.fingerprint for encoder in fresh}) == 2
    own = dict(load_encoder(source, device="cpu").model.outermost.named_parameters())
    for name, weight in fresh[0].model.outermost.named_parameters():
        assert weight.isfinite().all()
        assert weight.ndim < 2 or not torch.equal(weight, own[name])
    assert isinstance(fresh[0].model.blocks[2].intermediate.intermediate_act_fn, Scaled)
    blocks = load_encoder(source, init="random_blocks", device="cpu").hidden_states(ids, layers=[0, 4])
    torch.testing.assert_close(blocks[0], load_encoder(source, device="cpu").hidden_states(ids, layers=[0])[0])


def test_other_processes_do_not_have_the_object(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    plain_settings = {"name": "held", "corpora": ["pocket"], "tasks": ["pos"], "layers": "1", "controls": "none"}
    experiment = Experiment(models=[{"name": (hooks(model), tokenizer)}], **plain_settings)
    with pytest.raises(ModelError, match="in the memory of this process alone"):
        run_experiment(experiment, tmp_path / "run", options=RunOptions(engine="joblib", jobs=2))


def test_the_type_of_the_object_is_the_type_of_the_run(model: Any, tokenizer: Any) -> None:
    name = model_name((half_precision(model), tokenizer))
    assert load_encoder(name).dtype == "bfloat16"
    with pytest.raises(ModelError, match="held in memory in bfloat16: ask for dtype 'bfloat16', or change the object"):
        load_encoder(name, dtype="float32")


def test_parts_that_do_not_run_are_not_closed_or_changed(model: Any, tokenizer: Any) -> None:
    class Mean(nn.Module):
        """Attention to all alike, without the projections that a BERT has."""

        def forward(self, hidden_states: torch.Tensor, attention_mask: Any = None, **_: Any) -> Any:
            return hidden_states * 0.5, None

    model.bert.encoder.layer[1].attention = Mean()
    encoder = Encoder.from_model(model, tokenizer)
    assert encoder.family == "changed bert"
    with (
        pytest.raises(ModelError, match="site head: not known of changed bert models"),
        encoder.gated_heads({(1, 1): 0}),
    ):
        pass


@pytest.mark.parametrize("family", ["albert", "gpt2", "t5"])
def test_a_model_of_any_family_is_its_files_until_it_is_changed(family: str, tiny: Callable[[str], Path]) -> None:
    folder = tiny(family)
    read = AutoTokenizer.from_pretrained(folder)
    kind = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
    model = kind.from_pretrained(folder, dtype=torch.float32)
    assert model_name((model, read)) == str(folder)
    encoder = load_encoder(str(folder), device="cpu")
    encoder.model.blocks[1].register_forward_hook(
        lambda module, args, output: (output[0] * 2, *output[1:]) if isinstance(output, tuple) else output * 2
    )
    held = load_encoder(model_name(encoder), device="cpu")
    ids = read("The quick brown fox", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = encoder.model.body.eval()(input_ids=ids, output_hidden_states=True).hidden_states
    for layer, state in held.hidden_states(ids, layers=range(held.n_layers + 1)).items():
        torch.testing.assert_close(state, expected[layer], rtol=1e-4, atol=1e-4)
    assert (load_encoder(str(folder), device="cpu").hidden_states(ids, layers=[3])[3] - expected[3]).abs().max() > 1e-3
