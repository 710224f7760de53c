"""Encoders loaded from files, and files that are damaged."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import AutoModelForMaskedLM

from bertology.corpora import Sentence
from bertology.encoders import Encoder, load_encoder, model_fingerprint, model_shape, resolve_model
from bertology.encoders.loading import load_reader, load_whole, multiply_in_tf32
from bertology.encoders.weights import StoredWeights
from bertology.errors import ModelError
from tests.long_numbers import dumped
from tests.mutations import accepted, mutated_tree, times

Tiny = Callable[[str], Path]
IDS = torch.tensor([[6, 9, 12, 30, 8]])


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    """A copy of the tiny BERT to damage."""
    return shutil.copytree(tiny("bert"), tmp_path / "model")


def last_layer(encoder: Encoder) -> torch.Tensor:
    return encoder.hidden_states(IDS, layers=[encoder.n_layers])[encoder.n_layers]


def refused(folder: Path, message: str, **options: Any) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load_encoder(str(folder), device="cpu", **options)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_random_weights(family: str, tiny: Tiny, encoder: Callable[[str], Encoder]) -> None:
    """Same shape, fresh weights: a seed is a model, and the global generator is left as it was."""
    folder = str(tiny(family))
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = load_encoder(folder, device="cpu", init="random", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    again = load_encoder(folder, device="cpu", init="random", seed=1)
    other = load_encoder(folder, device="cpu", init="random", seed=2)
    pretrained = encoder(family)
    torch.testing.assert_close(last_layer(first), last_layer(again), rtol=0, atol=0)
    assert (last_layer(first) - last_layer(other)).abs().max() > 0.01
    shapes = {name: value.shape for name, value in pretrained.model.body.named_parameters()}
    drawn = dict(first.model.body.named_parameters())
    assert {name: value.shape for name, value in drawn.items()} == shapes
    assert len({first.fingerprint, other.fingerprint, pretrained.fingerprint}) == 3
    assert first.fingerprint == again.fingerprint


def test_random_blocks_keep_the_embeddings(family: str, tiny: Tiny, encoder: Callable[[str], Encoder]) -> None:
    """Layer 0 is the pretrained model's, layer 1 is not, and a seed is a model."""
    folder, ids = str(tiny(family)), torch.tensor([[5, 7, 9, 6]])
    pretrained, random = encoder(family), load_encoder(folder, device="cpu", init="random", seed=1)
    mixed = load_encoder(folder, device="cpu", init="random_blocks", seed=1)
    states = [one.model.body(ids, output_hidden_states=True).hidden_states for one in (pretrained, mixed)]
    torch.testing.assert_close(states[0][0], states[1][0], rtol=0, atol=0)
    assert (states[0][1] - states[1][1]).abs().max() > 0.01
    # the blocks are those of the random model of this seed
    names = [name for name, _ in random.model.body.named_parameters() if re.search(r"layers?\.|^block\.|^h\.", name)]
    ours, drawn = (dict(one.model.body.named_parameters()) for one in (mixed, random))
    assert names
    assert all(torch.equal(ours[name], drawn[name]) for name in names)
    assert len({one.fingerprint for one in (pretrained, random, mixed)}) == 3


def test_random_needs_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert load_encoder(str(folder), device="cpu", init="random").init == "random"


@pytest.mark.parametrize(("dtype", "atol"), [("bfloat16", 0.3), ("float16", 0.05)])
def test_number_formats(tiny: Tiny, dtype: str, atol: float) -> None:
    narrow = load_encoder(str(tiny("bert")), device="cpu", dtype=dtype)
    state = last_layer(narrow)
    assert state.dtype == getattr(torch, dtype)
    torch.testing.assert_close(
        state.float(), last_layer(load_encoder(str(tiny("bert")), device="cpu")), atol=atol, rtol=0
    )
    random = load_encoder(str(tiny("bert")), device="cpu", dtype=dtype, init="random")
    assert next(random.model.body.parameters()).dtype == getattr(torch, dtype)


def test_weights_stored_in_half_are_read_in_float32(folder: Path) -> None:
    weights = {name: value.half() for name, value in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    for init in ("pretrained", "random"):
        encoder = load_encoder(str(folder), device="cpu", init=init)
        assert {parameter.dtype for parameter in encoder.model.body.parameters()} == {torch.float32}


def test_sharded_weights(tiny: Tiny, sharded: Path) -> None:
    shards = sorted(sharded.glob("model-*.safetensors"))
    assert len(shards) > 2
    torch.testing.assert_close(
        last_layer(load_encoder(str(sharded), device="cpu")), last_layer(load_encoder(str(tiny("bert")), device="cpu"))
    )
    shards[1].unlink()
    refused(sharded, rf"model.safetensors.index.json: it names '{shards[1].name}', which is no file of its folder")


def test_the_first_load_of_a_process_says_nothing_either(tiny: Tiny) -> None:
    code = (
        "from bertology.encoders import load_encoder\n"
        f"print(load_encoder({str(tiny('bert'))!r}, device='cpu', init='random').n_layers)\n"
        f"print(load_encoder({str(tiny('bert'))!r}, device='cpu').n_layers)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("3\n3\n", "")


def save_unfamiliar(folder: Path, tokenizer: Path, model: Any) -> Path:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder / name)
    model.eval().save_pretrained(folder)
    return folder


def test_families_not_named_anywhere(tiny: Tiny, tmp_path: Path) -> None:
    """A family that is like others is read as they are, after a trial at loading."""
    settings = {"vocab_size": 330, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    settings |= {"intermediate_size": 37, "max_position_embeddings": 80, "pad_token_id": 1}
    config = transformers.Data2VecTextConfig(**settings)
    folder = save_unfamiliar(tmp_path, tiny("roberta"), transformers.Data2VecTextForMaskedLM(config))
    encoder = load_encoder(str(folder), device="cpu")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = model(IDS, output_hidden_states=True)
    for layer, state in encoder.hidden_states(IDS, layers=range(4)).items():
        torch.testing.assert_close(state, expected.hidden_states[layer], rtol=1e-5, atol=1e-5)
    logits = encoder.masked_logits(IDS, torch.tensor([[0, 2]]))[3]
    torch.testing.assert_close(logits, expected.logits[0, 2:3], rtol=1e-5, atol=1e-5)
    with (
        pytest.raises(ModelError, match="site head: not known of data2vec-text models"),
        encoder.gated_heads({(1, 1): 0}),
    ):
        raise AssertionError("the gate should have been refused")


def test_families_that_are_not_read_rightly_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    """X-MOD has to be told the language of its adapters."""
    config = transformers.XmodConfig(vocab_size=330, **SIZES)
    folder = save_unfamiliar(tmp_path, tiny("roberta"), transformers.XmodForMaskedLM(config))
    refused(folder, r"xmod models \(XmodModel\) are not supported \(Input language unknown")


def lost(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def written(name: str, content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def cut(n_bytes: int) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:n_bytes])

    return damage


def vocabulary_of(*pieces: str) -> Callable[[Path], object]:
    made = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    return lambda folder: made.save(str(folder / "tokenizer.json"))


TRUNCATED = "the weights cannot be loaded .*download the model again"
DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (lost("config.json"), "no config.json; give a folder written by save_pretrained"),
    (written("config.json", "{"), "config.json: not readable as JSON"),
    (written("config.json", "{}"), "no model_type"),
    (written("config.json", '{"model_type": "nonsense", "hidden_size": 4}'), "model_type 'nonsense' is not known"),
    (written("config.json", '{"model_type": "vit_mae", "hidden_size": "wide"}'), "config.json"),
    (lost("model.safetensors"), r"no weights \(model.safetensors or pytorch_model.bin\)"),
    *((cut(n_bytes), TRUNCATED) for n_bytes in (0, 4, 100, -1)),
    (written("model.safetensors", b"\x10\0\0\0\0\0\0\0" + b"this is no JSON!" + b"x" * 50), TRUNCATED),
    (lost("tokenizer.json"), r"no tokenizer \(tokenizer.json, vocab.txt …\)"),
    (written("tokenizer.json", '{"version": "1.0"'), "its tokenizer cannot be loaded"),
    (
        vocabulary_of("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the"),
        r"does not fit the weights \(6 pieces with numbers up to 5 for 220 embeddings",
    ),
    (
        vocabulary_of("[unused0]", "[UNK]", *(f"[unused{number}]" for number in range(2, 200))),
        "0 of 7 plain words are known",
    ),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_damaged_folders_are_refused(damage: Callable[[Path], object], message: str, folder: Path) -> None:
    damage(folder)
    refused(folder, message)


def test_code_of_its_own_is_not_run(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    refused(folder, "runs Python code of its own: pass --trust-remote-code")
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_are_loaded_as_weights_only(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    message = (
        r"cannot be loaded \(it is a pickle that holds more than tensors, which can run code\); ask its author for"
    )
    refused(folder, message)  # and not to set weights_only=False, as torch advises
    with pytest.raises(ModelError, match=r"pytorch_model\.bin: .*more than tensors"):
        StoredWeights(resolve_model(str(folder)))
    assert not (tmp_path / "ran").exists()


def test_missing_encoder_weights_are_not_made_up(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    lost = "bert.encoder.layer.1.attention.self.query.weight"
    save_file({n: v for n, v in weights.items() if n != lost}, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, rf"the weights lack {re.escape(lost)}, which would be random")
    kept = {n: v for n, v in weights.items() if "encoder" not in n}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, r"the weights lack bert.encoder.layer.0\S+ and \d+ more")


def test_weights_of_another_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 48}))
    refused(folder, "the weights cannot be loaded .*check that they belong to its config.json")


def test_a_missing_pooler_is_nobodys_concern(tiny: Tiny, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny("bert"), tmp_path / "body")
    body = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False)
    body.save_pretrained(folder)
    encoder = load_encoder(str(folder), device="cpu")
    assert not encoder.has_masked_lm_head
    torch.testing.assert_close(last_layer(encoder), last_layer(load_encoder(str(tiny("bert")), device="cpu")))


def test_vocabulary_larger_than_the_embeddings(tiny: Tiny, folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny("roberta") / name, folder / name)
    refused(folder, "numbers up to 329 for 220 embeddings")


def test_truncation_saved_with_a_tokenizer_is_not_obeyed(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(6)
    tokenizer.enable_padding(length=6)
    tokenizer.save(str(folder / "tokenizer.json"))
    pieces = load_encoder(str(folder), device="cpu").tokenize(
        [Sentence.from_words(["x"] * 30), Sentence.from_words("y")]
    )
    assert pieces.window_lengths.tolist() == [32, 3]


@pytest.mark.parametrize("dtype", ["float8", "int8", ""])
def test_unknown_dtype(tiny: Tiny, dtype: str) -> None:
    refused(tiny("bert"), "give float32, bfloat16, float16, tf32", dtype=dtype)


def test_tf32_is_for_gpus_and_for_passes_of_the_model_alone(tiny: Tiny) -> None:
    refused(tiny("bert"), "dtype 'tf32' is for CUDA GPUs .*: take float32 on cpu", dtype="tf32")
    body: Any = load_encoder(str(tiny("bert")), device="cpu").model.body
    multiply_in_tf32(body)
    seen = list[str]()
    body.encoder.register_forward_hook(lambda *_: seen.append(torch.get_float32_matmul_precision()))
    body(torch.tensor([[2, 3]]))
    with pytest.raises(IndexError):
        body(torch.tensor([[10**6]]))
    assert (seen, torch.get_float32_matmul_precision()) == (["high"], "highest")


@pytest.mark.parametrize("device", ["tpu9", "cuda:99", "nonsense"])
def test_devices_that_are_not_there(tiny: Tiny, device: str) -> None:
    with pytest.raises(ModelError, match="device"):
        load_encoder(str(tiny("bert")), device=device)


SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
LOAD: dict[str, Callable[[str], object]] = {
    "encoder": lambda name: load_encoder(name, device="cpu"),
    "reader": lambda name: load_reader(resolve_model(name)),
    "whole": lambda name: load_whole(resolve_model(name)),
}


@pytest.fixture
def folder_unusual(tiny_bert: Path, tmp_path: Path) -> Callable[[Any], Path]:
    """A folder_unusual of a model with the tokenizer of the tiny BERT."""

    def make(model: Any) -> Path:
        model.save_pretrained(tmp_path / "model")
        for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
            shutil.copy(tiny_bert / name, tmp_path / "model" / name)
        return tmp_path / "model"

    return make


@pytest.mark.parametrize("how", LOAD)
def test_families_without_a_table_of_subwords(how: str, folder_unusual: Callable[[Any], Path]) -> None:
    ibert = transformers.IBertConfig(vocab_size=478, pad_token_id=1, **SIZES)
    with pytest.raises(ModelError, match="ibert models have embeddings of another kind"):
        LOAD[how](str(folder_unusual(transformers.IBertForMaskedLM(ibert))))
    canine = transformers.CanineConfig(num_hash_buckets=64, local_transformer_stride=16, **SIZES)
    problem = "no table of subword embeddings" if how == "whole" else "tokenizer that belongs to the weights"
    with pytest.raises(ModelError, match=problem):  # the tokenizer is that of BERT
        LOAD[how](str(folder_unusual(transformers.CanineModel(canine))))


def test_luke_is_read_without_its_head_of_entities(folder_unusual: Callable[[Any], Path]) -> None:
    config = transformers.LukeConfig(vocab_size=478, entity_vocab_size=20, entity_emb_size=16, **SIZES)
    encoder = load_encoder(str(folder_unusual(transformers.LukeForMaskedLM(config))), device="cpu")
    ids = torch.tensor([[6, 9, 12]])
    assert encoder.hidden_states(ids, layers=[2])[2].shape == (1, 3, 32)
    with pytest.raises(ModelError, match="no masked-LM head"):
        encoder.masked_logits(ids, torch.tensor([[0, 1]]))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_an_implementation_of_attention_that_is_not_there(key: str, tiny_bert: Path, tmp_path: Path) -> None:
    """It is how a model was trained, and no part of what it computes."""
    model = shutil.copytree(tiny_bert, tmp_path / "flash")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {key: "flash_attention_2"}))
    ids = torch.tensor([[6, 9, 12]])
    states, plain = (
        load_encoder(str(one), device="cpu").hidden_states(ids, layers=[3])[3] for one in (model, tiny_bert)
    )
    assert torch.equal(states, plain)
    load_whole(resolve_model(str(model)))


def read(folder: Path) -> None:
    """All that the program asks of a model: what it is, its signals, and a fresh one of its shape."""
    source = resolve_model(str(folder))
    model_shape(source)
    model_fingerprint(source)
    load_encoder(source, device="cpu", init="random")
    own = load_encoder(source, device="cpu")
    pieces = own.tokenize([Sentence.from_words(["The", "quick", "dogs", "jump"])])
    ids = torch.from_numpy(pieces.window(0).astype(np.int64))[None]
    own.hidden_states(ids, torch.ones_like(ids), layers=range(own.n_layers + 1))
    own.attentions(ids, layers=range(1, own.n_layers + 1))
    if own.has_masked_lm_head:
        own.masked_logits(ids, torch.tensor([[0, 1]]), layers=[1, own.n_layers])


FIELDS: list[tuple[str, str, Any, str]] = [
    ("config.json", "architectures", [1], r"architectures is .\[1\]., expected a list of names"),
    ("config.json", "is_encoder_decoder", 0.5, "is_encoder_decoder is '0.5', expected true or false"),
    ("config.json", "model_type", ["bert"], "model_type is .* expected a name"),
    ("config.json", "num_hidden_layers", 2**31, "more than 1,000 layers"),
    ("tokenizer_config.json", "model_max_length", 0.5, "model_max_length is '0.5', expected a number of pieces"),
    ("tokenizer_config.json", "model_max_length", 2, "its windows hold 2 pieces, special tokens included"),
    ("tokenizer_config.json", "pad_token", "\ud800", "not readable as JSON"),
]


@pytest.mark.parametrize(("name", "field", "value", "message"), FIELDS)
def test_fields(name: str, field: str, value: Any, message: str, folder: Path) -> None:
    (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | {field: value}))
    with pytest.raises(ModelError, match=message):
        read(folder)


@pytest.fixture
def sharded(folder: Path) -> Path:
    """A model in shards, with their index."""
    model = AutoModelForMaskedLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="30kB")
    assert (folder / "model.safetensors.index.json").is_file()
    return folder


@pytest.mark.parametrize(
    "name", [None, 0.5, "", ".", "..", "../outside.safetensors", "/dev/zero", "x" * 100_000, "\x00", ["a"], "config"]
)
def test_an_index_names_files_of_its_folder(name: Any, sharded: Path) -> None:
    shutil.copy(next(sharded.glob("model-*.safetensors")), sharded.parent / "outside.safetensors")
    path = sharded / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"][min(index["weight_map"])] = name
    path.write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"index.json: it names ['\"].*['\"], which is no file of its folder"):
        read(sharded)


def test_random_weights_are_drawn_as_the_authors_draw_them(tiny: Tiny) -> None:
    body = load_encoder(str(tiny("bert")), device="cpu", init="random").model.body
    weights = torch.cat([p.flatten() for n, p in body.named_parameters() if n.endswith("query.weight")])
    assert float(weights.std()) == pytest.approx(body.config.initializer_range, rel=0.05)
    biases = [p for n, p in body.named_parameters() if n.endswith("query.bias")]
    assert all(not bias.any() for bias in biases)


COUNT = times(25)
TOKENIZER = ("tokenizer_config.json", "tokenizer.json")


@pytest.mark.parametrize(("name", "family"), [("config.json", "t5"), *((name, "bert") for name in TOKENIZER)])
def test_damaged_settings(name: str, family: str, tiny: Tiny, tmp_path: Path) -> None:
    own = shutil.copytree(tiny(family), tmp_path / family)
    tree = json.loads((own / name).read_text())
    read(own)
    outcomes = []
    for mutant in mutated_tree(tree, seed=11, count=COUNT):
        (own / name).write_text(dumped(json.dumps, mutant), encoding="utf-8")
        outcomes.append(accepted(lambda: read(own)))
    assert not all(outcomes)
