"""Compressed models: what each method does to weights and hidden states, and the folder that is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bertology import BertologyError, Compressed, compress, load_encoder
from bertology.compression import Magnitude, Method, Quantise, read_compressed
from bertology.encoders import Encoder, model_fingerprint, resolve_model
from tests.encoders.conftest import encoder as encoder
from tests.encoders.conftest import tiny as tiny

Made = Callable[..., Compressed]


@pytest.fixture
def make(tiny_bert: Path, tmp_path: Path) -> Made:
    """Compress the tiny BERT, each time into another folder."""
    count = iter(range(100))

    def made(method: Any, model: Any = tiny_bert, **settings: Any) -> Compressed:
        return compress(model, method, out=tmp_path / f"small-{next(count)}", device="cpu", progress=False, **settings)

    return made


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "model.safetensors"))


def matrices(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of linear layers, embeddings and what is tied to them left out."""
    found = weights(folder)
    return {name: w for name, w in found.items() if w.ndim == 2 and "embeddings" not in name and "decoder" not in name}


def states(encoder: Encoder) -> dict[int, torch.Tensor]:
    ids = torch.arange(5, 25)[None]
    return encoder.hidden_states(ids, layers=list(range(encoder.n_layers + 1)))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("magnitude", {"share": 0, "embeddings": True}),
        ("heads", {"share": 0}),
        ("neurons", {"share": 0}),
        ("layers", {"drop_top": 0}),
        ("low_rank", {"share": 0, "embeddings": True}),
    ],
)
def test_taking_nothing_away_is_the_identity(tiny_bert: Path, make: Made, method: str, settings: Any) -> None:
    made, before = weights(make(method, **settings).path), weights(tiny_bert)
    assert made.keys() == before.keys()
    assert all(torch.equal(made[name], value) for name, value in before.items())


@pytest.mark.parametrize("scope", ["global", "tensor"])
def test_magnitude_prunes_exactly_the_share(tiny_bert: Path, make: Made, scope: str) -> None:
    made = make("magnitude", share=0.37, scope=scope)
    before, after = matrices(tiny_bert), matrices(made.path)
    groups = [list(before)] if scope == "global" else [[name] for name in before]
    for names in groups:
        old = np.concatenate([before[name].numpy().ravel() for name in names])
        new = np.concatenate([after[name].numpy().ravel() for name in names])
        assert np.count_nonzero(new == 0) == round(0.37 * len(new))
        assert np.abs(old[new == 0]).max() <= np.abs(new[new != 0]).min()
        assert np.array_equal(new[new != 0], old[new != 0])
    others = set(weights(tiny_bert)) - set(before)
    assert all(torch.equal(weights(made.path)[name], weights(tiny_bert)[name]) for name in others)


@pytest.mark.parametrize(("bits", "most"), [(8, 127), (4, 7), (16, 32767)])
def test_quantising_is_the_formula_by_hand(tiny_bert: Path, make: Made, bits: int, most: int) -> None:
    before, after = weights(tiny_bert), weights(make("quantise", bits=bits).path)
    n_checked = 0
    for name, old in before.items():
        if old.ndim == 2:
            for row, got in zip(old.numpy(), after[name].numpy(), strict=True):
                scale = np.abs(row).max() / np.float32(most)
                assert np.array_equal(got, np.round(row / scale) * scale if scale else row)
                assert np.abs(got - row).max() <= np.abs(row).max() * (1 / (2 * most) + 2**-22)
                n_checked += 1
        else:
            assert torch.equal(after[name], old)
    assert n_checked > 500


def test_low_rank_is_the_nearest_matrix_of_its_rank(tiny_bert: Path, make: Made) -> None:
    before, after = matrices(tiny_bert), matrices(make("low_rank", share=0.75).path)
    for name, old in before.items():
        values = np.linalg.svd(old.numpy(), compute_uv=False)
        rank = len(values) - round(0.75 * len(values))
        assert np.linalg.matrix_rank(after[name].numpy(), tol=1e-4) == rank
        lost = np.linalg.norm(old.numpy() - after[name].numpy())
        assert lost == pytest.approx(np.linalg.norm(values[rank:]), rel=1e-4)  # Eckart & Young (1936)


@pytest.mark.parametrize("method", [Magnitude(0.5, embeddings=True), Quantise(4)])
def test_a_tied_projection_is_changed_once_and_stays_tied(make: Made, method: Method) -> None:
    made = make(method)
    head: Any = load_encoder(str(made.path), device="cpu").model.with_head
    table = head.get_input_embeddings().weight
    assert head.get_output_embeddings().weight is table
    if isinstance(method, Quantise):
        assert all(len(row.unique()) <= 15 for row in table)
    else:
        assert (table == 0).any()


def test_closed_heads_are_heads_with_a_gate_of_zero(tiny_bert: Path, make: Made) -> None:
    full, closed = load_encoder(str(tiny_bert), device="cpu"), make("heads", by=["L1H2", "L3H4"])
    assert closed.steps[0]["outcome"]["closed"] == ["L1H2", "L3H4"]
    with full.gated_heads({(1, 2): 0.0, (3, 4): 0.0}):
        gated = states(full)
    found = states(closed.encoder(device="cpu"))
    assert all(torch.allclose(gated[layer], found[layer], atol=1e-5) for layer in gated)
    maps = closed.encoder(device="cpu").attentions(torch.arange(5, 15)[None], layers=[1])[1][0]
    assert torch.allclose(maps[1], torch.full((10, 10), 0.1))
    assert not torch.allclose(maps[0], torch.full((10, 10), 0.1), atol=1e-2)


def test_heads_go_in_the_order_of_their_importance(tiny_bert: Path, make: Made) -> None:
    from bertology import load_corpus
    from bertology.attention.importance import MaskedWords, head_importance

    words = MaskedWords(load_encoder(str(tiny_bert), device="cpu"), load_corpus("pocket")["train"][:20])
    order = head_importance(words).of("importance").ravel().argsort()[:6]
    expected = sorted(f"L{place // 4 + 1}H{place % 4 + 1}" for place in order)
    assert make("heads", share=0.5, sentences=20).steps[0]["outcome"]["closed"] == expected
    at_random = [make("heads", share=0.5, by="random", seed=seed).steps[0]["outcome"]["closed"] for seed in (0, 0, 1)]
    assert at_random[0] == at_random[1] != at_random[2]
    assert len(at_random[0]) == 6


def test_neurons_that_do_nothing_go_first_and_nothing_changes(tiny_bert: Path, make: Made, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.output.dense.weight[:, 7:31] = 0
    model.save_pretrained(tmp_path / "half")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "half")
    made = make("neurons", tmp_path / "half", share=0.5)
    assert json.loads((made.path / "config.json").read_text())["intermediate_size"] == 24
    one, other = states(load_encoder(str(tmp_path / "half"), device="cpu")), states(made.encoder(device="cpu"))
    assert all(torch.allclose(one[layer], other[layer], atol=1e-5) for layer in one)
    assert make("neurons", share=1.0).steps[0]["outcome"]["neurons"] == 1


def test_layers_below_what_is_taken_out_are_those_of_the_full_model(tiny_bert: Path, make: Made) -> None:
    full = states(load_encoder(str(tiny_bert), device="cpu"))
    short = make("layers", drop_top=1).encoder(device="cpu")
    assert short.n_layers == 2
    assert all(torch.equal(full[layer], states(short)[layer]) for layer in (0, 1, 2))
    gap = make("layers", keep=[1, 3])
    found = states(gap.encoder(device="cpu"))
    assert torch.equal(full[1], found[1])
    assert not torch.allclose(full[3], found[2], atol=1e-2)
    assert gap.record.n_parameters < gap.record.source_parameters


# The others have the names of BERT's modules.
@pytest.mark.parametrize("family", ["bert", "distilbert", "albert", "deberta-v2", "mpnet", "modernbert"])
def test_every_family_can_be_compressed(tiny: Callable[[str], Path], make: Made, family: str) -> None:
    folder = tiny(family)
    done = make(
        ["magnitude", "heads", "neurons", "layers", "low_rank", "quantise"],
        folder,
        magnitude={"share": 0.2},
        heads={"share": 0.25, "by": "random"},
        neurons={"share": 0.25},
        layers={"drop_top": 1},
        low_rank={"share": 0.1},
    )
    before, after = load_encoder(str(folder), device="cpu"), done.encoder(device="cpu")
    assert after.n_layers == before.n_layers - 1
    assert after.has_masked_lm_head
    ids = torch.arange(5, 25)[None]
    assert not torch.allclose(before.hidden_states(ids, layers=[2])[2], after.hidden_states(ids, layers=[2])[2])
    head = make("heads", folder, by=["L1H1"]).encoder(device="cpu")
    gates = {(layer, 1): 0.0 for layer in ((1, 2, 3) if family == "albert" else (1,))}  # ALBERT's layers share a block
    with before.gated_heads(gates):
        gated = before.hidden_states(ids, layers=[3])[3]
    assert torch.allclose(gated, head.hidden_states(ids, layers=[3])[3], atol=1e-4)


def test_a_classifier_is_kept(tiny_bert: Path, make: Made, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_pretrained(tiny_bert, num_labels=3).save_pretrained(tmp_path / "sorts")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "sorts")
    made = make("magnitude", tmp_path / "sorts", share=0.5)
    assert AutoModelForSequenceClassification.from_pretrained(made.path).config.num_labels == 3
    assert weights(made.path).keys() == weights(tmp_path / "sorts").keys()
    with pytest.raises(BertologyError, match="no masked-LM head"):
        make("distil", tmp_path / "sorts", layers=1)


def test_a_model_in_memory_without_a_pooler_gets_none(tiny_bert: Path, make: Made) -> None:
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(tiny_bert), AutoTokenizer.from_pretrained(tiny_bert)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.add_(0.5)
    made = make("quantise", (model, tokenizer))
    assert not any("pooler" in name for name in weights(made.path))
    ours, theirs = states(made.encoder()), states(Encoder.from_model(model, tokenizer))
    assert torch.allclose(ours[0], theirs[0], atol=0.1)
    assert made.record.model == "tiny-bert (in memory)"


def test_what_was_done_stands_in_the_folder_and_its_fingerprint(tiny_bert: Path, make: Made) -> None:
    source = model_fingerprint(resolve_model(str(tiny_bert)))
    made = [make("magnitude", share=0), make("quantise", bits=16), make("layers", drop_top=0)]
    assert len({source, *(model_fingerprint(resolve_model(str(one.path))) for one in made)}) == 4
    again = make("magnitude", share=0)
    assert model_fingerprint(resolve_model(str(again.path))) == model_fingerprint(resolve_model(str(made[0].path)))
    twice = make("quantise", made[0].path)
    written = json.loads((twice.path / "config.json").read_text())["bertology_compression"]
    assert written["steps"] == [{"method": "quantise", "bits": 8, "embeddings": True}]
    assert written["earlier"]["source_fingerprint"] == source
    assert written["earlier"]["steps"] == [{"method": "magnitude", "share": 0, "scope": "global", "embeddings": False}]
    assert read_compressed(twice.path) == twice
    assert "| bits 8, embeddings True |" in (twice.path / "README.md").read_text()
    assert (made[0].path / "tokenizer.json").read_bytes() == (tiny_bert / "tokenizer.json").read_bytes()


def test_sizes_are_those_counted_by_hand(tiny_bert: Path, make: Made) -> None:
    before = weights(tiny_bert)
    tied = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
    values = {name: value for name, value in before.items() if name not in tied}
    full = make("magnitude", share=0).record
    assert full.n_parameters == full.source_parameters == sum(value.numel() for value in values.values())
    assert full.bytes_estimated == 4 * full.n_parameters
    eight = make("quantise", bits=8)
    by_hand = sum(v.numel() + 4 * len(v) if v.ndim == 2 else 4 * v.numel() for v in values.values())
    assert eight.record.bytes_estimated == by_hand
    # Compressed once more, what is quantised stays so, and what is zero takes a bit.
    both = make("magnitude", eight.path, share=0.9)
    after = {name: value for name, value in weights(both.path).items() if name not in tied}
    assert both.record.n_nonzero == sum(int((value != 0).sum()) for value in after.values())
    for name in matrices(both.path):
        n = after[name].numel()
        by_hand += min(0, -(-(8 * int((after[name] != 0).sum()) + n) // 8) - n)
    assert both.record.bytes_estimated == by_hand
    assert make("low_rank", share=0.9).record.bytes_estimated < full.bytes_estimated


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("magnitud", {}, "unknown method 'magnitud': did you mean magnitude"),
        ("magnitude", {}, "method magnitude needs share"),
        ("magnitude", {"share": 1.5}, "setting share of method magnitude is 1.5: input should be less"),
        ("magnitude", {"shares": 0.5}, "unknown setting of method magnitude 'shares': did you mean share"),
        ("magnitude", {"share": "half"}, "setting share of method magnitude is 'half'"),
        ("quantise", {"bits": 3}, "setting bits of method quantise"),
        ("layers", {"drop_top": 3}, "the model has 3, and one has to stay"),
        ("layers", {"keep": [1, 5]}, "there is no layer 5; the model has 1…3"),
        ("layers", {"keep": [2, 1]}, "rising order"),
        ("layers", {}, "give keep"),
        ("heads", {"by": ["L4H1"]}, "the model has 3 layers"),
        ("heads", {}, "give share, or the heads by name"),
        ("distil", {"layers": 4}, "the model has 3 layers"),
        (["magnitude", "quantise"], {"share": 0.5}, "write it with its method's name"),
    ],
)
def test_mistakes_are_one_line(make: Made, method: Any, settings: Any, message: str) -> None:
    with pytest.raises(BertologyError) as caught:
        make(method, **settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_what_is_no_encoder_like_bert_is_refused(tiny: Callable[[str], Path], make: Made, family: str) -> None:
    with pytest.raises(BertologyError, match="encoder"):
        make("quantise", tiny(family))


def test_a_folder_that_holds_something_is_left_alone(tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(BertologyError, match="holds something already"):
        compress(tiny_bert, "quantise", out=tmp_path / "full")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
