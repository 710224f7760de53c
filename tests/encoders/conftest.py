"""Tiny random models of every family, with tokenizers built on the spot, saved as people save theirs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from bertology.corpora import Sentence
from bertology.encoders import Encoder, load_encoder
from bertology.pocket import model_folder

TEXTS = [
    "The quick brown fox doesn't jump over the lazy dogs, and nobody knows why they'd care.",
    "Well-known facts: naïve cafés in São Paulo sell ten coffees a day; 3.5 million of them!",
    "你好世界 今天天气很好 我们去公园",
    "She said: “What a day 🙂🙂 it was 👩‍👩‍👧”, e.g. at 12:30 p.m.",
    "L'été dernier, nous sommes allés à la plage; c'était très beau.",
    "Überraschung! Straße, Äpfel und Öl kosten 20 €.",
]
MASKED = ("bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta-v2", "mpnet", "modernbert")
FAMILIES = (*MASKED, "deberta-v3", "t5", "bart", "gpt2")
HIDDEN, LAYERS, HEADS = 32, 3, 4


def word_piece(cls: str, specials: tuple[str, str, str, str, str], *, lower: bool = True) -> tuple[Tokenizer, str]:
    """BERT's: pad, unk, cls, sep, mask in ``specials``."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=specials[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=220, special_tokens=list(specials)))
    close(tokenizer, specials[2], specials[3])
    return tokenizer, cls


def byte_level(cls: str, specials: tuple[str, ...], *, first: str | None, last: str | None) -> tuple[Tokenizer, str]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=list(specials), initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    if first is None or last is None:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    elif cls == "PreTrainedTokenizerFast":
        close(tokenizer, first, last)
    else:
        ends = [(token, tokenizer.token_to_id(token)) for token in (last, first)]
        tokenizer.post_processor = processors.RobertaProcessing(*ends, trim_offsets=True, add_prefix_space=False)
    return tokenizer, cls


def sentence_piece(
    cls: str, specials: tuple[str, ...], *, unk: str, first: str | None, last: str, split: bool = False
) -> tuple[Tokenizer, str]:
    tokenizer = Tokenizer(models.Unigram())
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace]) if split else metaspace
    )
    trainer = trainers.UnigramTrainer(vocab_size=180, special_tokens=list(specials), unk_token=unk)
    tokenizer.train_from_iterator(TEXTS, trainer)
    close(tokenizer, first, last)
    return tokenizer, cls


def close(tokenizer: Tokenizer, first: str | None, last: str) -> None:
    """Put special tokens around a text."""
    tokens = [token for token in (first, last) if token]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*([first] if first else []), "$A", last],
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in tokens],
    )


BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
ROLES = {
    "[PAD]": "pad_token",
    "<pad>": "pad_token",
    "[UNK]": "unk_token",
    "<unk>": "unk_token",
    "[CLS]": "cls_token",
    "[SEP]": "sep_token",
    "[MASK]": "mask_token",
    "<mask>": "mask_token",
}


def build_tokenizer(family: str) -> tuple[Tokenizer, str, dict[str, Any]]:
    """A tokenizer of the family's kind, its class, and its special tokens by role."""
    roberta = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
    roberta |= {"unk_token": "<unk>", "mask_token": "<mask>"}
    bert = {ROLES[token]: token for token in BERT_SPECIALS}
    if family in ("bert", "bert-cased", "electra"):
        return *word_piece("BertTokenizer", BERT_SPECIALS, lower=family != "bert-cased"), bert
    if family == "distilbert":
        return *word_piece("DistilBertTokenizer", BERT_SPECIALS), bert
    if family == "mpnet":
        specials = ("<pad>", "[UNK]", "<s>", "</s>", "<mask>")
        return *word_piece("MPNetTokenizer", specials), roberta | {"unk_token": "[UNK]"}
    if family in ("roberta", "bart"):
        name = "RobertaTokenizer" if family == "roberta" else "BartTokenizer"
        return *byte_level(name, ROBERTA_SPECIALS, first="<s>", last="</s>"), roberta
    if family == "gpt2":
        end = "<|endoftext|>"
        roles = {"bos_token": end, "eos_token": end, "unk_token": end}
        return *byte_level("GPT2Tokenizer", (end,), first=None, last=None), roles
    if family == "modernbert":
        return *byte_level("PreTrainedTokenizerFast", BERT_SPECIALS, first="[CLS]", last="[SEP]"), bert
    if family == "xlm-roberta":
        built = sentence_piece(
            "XLMRobertaTokenizer", ROBERTA_SPECIALS, unk="<unk>", first="<s>", last="</s>", split=True
        )
        return *built, roberta
    if family == "t5":
        roles = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
        built = sentence_piece("T5Tokenizer", ("<pad>", "</s>", "<unk>"), unk="<unk>", first=None, last="</s>")
        return *built, roles | {"extra_ids": 0}
    name = "AlbertTokenizer" if family == "albert" else "DebertaV2Tokenizer"
    return *sentence_piece(name, BERT_SPECIALS, unk="[UNK]", first="[CLS]", last="[SEP]"), bert


def build_config(family: str, vocabulary: int) -> Any:
    """A configuration of three small blocks."""
    common: dict[str, Any] = {"vocab_size": vocabulary, "pad_token_id": 0}
    plain = common | {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 37,
        "max_position_embeddings": 80,
    }
    deberta = plain | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
    deberta |= {"norm_rel_ebd": "layer_norm", "share_att_key": True, "max_relative_positions": -1}
    dimensions = {"d_model": HIDDEN, "encoder_layers": LAYERS, "encoder_attention_heads": HEADS, "encoder_ffn_dim": 37}
    dimensions |= {"decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 21}
    make: dict[str, Callable[[], Any]] = {
        **dict.fromkeys(("bert", "bert-cased"), lambda: transformers.BertConfig(**plain)),
        "roberta": lambda: transformers.RobertaConfig(**plain | {"pad_token_id": 1}),
        "xlm-roberta": lambda: transformers.XLMRobertaConfig(**plain | {"pad_token_id": 1}),
        "mpnet": lambda: transformers.MPNetConfig(**plain | {"pad_token_id": 1}),
        "electra": lambda: transformers.ElectraConfig(**plain, embedding_size=16),
        "albert": lambda: transformers.AlbertConfig(**plain, embedding_size=16),
        "distilbert": lambda: transformers.DistilBertConfig(
            **common, dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS, hidden_dim=37, max_position_embeddings=80
        ),
        "deberta-v2": lambda: transformers.DebertaV2Config(**deberta, conv_kernel_size=3, conv_act="gelu"),
        "deberta-v3": lambda: transformers.DebertaV2Config(**deberta, position_biased_input=False, type_vocab_size=0),
        "modernbert": lambda: transformers.ModernBertConfig(
            **plain, global_attn_every_n_layers=2, local_attention=8, bos_token_id=2, eos_token_id=3, cls_token_id=2
        ),
        "t5": lambda: transformers.T5Config(
            **common, d_model=HIDDEN, d_kv=8, d_ff=37, num_layers=LAYERS, num_decoder_layers=2, num_heads=HEADS
        ),
        "bart": lambda: transformers.BartConfig(**common | dimensions | {"pad_token_id": 1, "bos_token_id": 0}),
        "gpt2": lambda: transformers.GPT2Config(
            vocab_size=vocabulary,
            n_embd=HIDDEN,
            n_layer=LAYERS,
            n_head=HEADS,
            n_positions=80,
            bos_token_id=0,
            eos_token_id=0,
        ),
    }
    return make[family]()


def build_model(family: str, config: Any) -> Any:
    """A model as such checkpoints are saved, every weight and bias of it random."""
    if family == "t5":
        model = transformers.T5ForConditionalGeneration(config)
    elif family == "bart":
        model = transformers.BartModel(config)
    elif family == "gpt2":
        model = transformers.GPT2LMHeadModel(config)
    else:
        model = transformers.AutoModelForMaskedLM.from_config(config)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


def save_model(folder: Path, family: str, **changes: Any) -> Path:
    """Build a family's tiny model and save it as a folder in Hugging Face layout."""
    tokenizer, cls, roles = build_tokenizer(family)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": cls, "model_max_length": 70 if family == "roberta" else 10**30, **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = build_config(family, tokenizer.get_vocab_size())
    for name, value in changes.items():
        setattr(config, name, value)
    torch.manual_seed(11)
    build_model(family, config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a family's tiny model, built once."""
    built: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in built:
            built[family] = save_model(tmp_path_factory.mktemp("models") / family, family)
        return built[family]

    return folder


@pytest.fixture(scope="session")
def encoder(tiny: Callable[[str], Path]) -> Callable[[str], Encoder]:
    """A family's tiny encoder, loaded once."""
    loaded: dict[str, Encoder] = {}

    def load(family: str) -> Encoder:
        if family not in loaded:
            loaded[family] = load_encoder(str(tiny(family)), device="cpu")
        return loaded[family]

    return load


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """The tokenizer of the embedded model."""
    return transformers.AutoTokenizer.from_pretrained(model_folder())


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=(*MASKED, "deberta-v3"))
def masked_family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session", name="save_model")
def save_model_fixture() -> Callable[..., Path]:
    """Save a family's tiny model to a folder of one's own, with changes to its configuration."""
    return save_model


@pytest.fixture(scope="session")
def overlaps() -> Callable[[Any, Sentence], list[list[int]]]:
    """For each word of a sentence its pieces in the encoded text, by brute force: those that show any of its
    characters, and those of no word before them, or at the end after them."""

    def search(tokenizer: Any, sentence: Sentence) -> list[list[int]]:
        encoded = tokenizer(sentence.text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
        metaspace = "Metaspace" in repr(tokenizer.backend_tokenizer.pre_tokenizer)
        shown = []
        offsets, special = encoded["offset_mapping"], encoded["special_tokens_mask"]
        for token, (start, end), is_special in zip(tokens, offsets, special, strict=True):
            visible = [place for place in range(start, end) if not sentence.text[place].isspace()]
            nothing = not visible or is_special or (metaspace and not token.strip("▁"))
            shown.append(set() if nothing else set(range(visible[0], visible[-1] + 1)))
        words = [[i for i, places in enumerate(shown) if places & set(range(*span))] for span in sentence.spans]
        words = [list(range(own[0], own[-1] + 1)) if own else [] for own in words]
        without = {i for i, is_special in enumerate(special) if not is_special}.difference(*words)
        for own in [own for own in words if own]:
            while own[0] - 1 in without:
                own.insert(0, own[0] - 1)
            at_end = range(own[-1] + 1, len(tokens) - sum(special[own[-1] :]))
            own += at_end if without.issuperset(at_end) else ()
        return words

    return search
