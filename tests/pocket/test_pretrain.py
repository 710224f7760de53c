"""Pretraining: recipes, batches, resuming, two languages, and the folder it makes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForPreTraining
from typer.testing import CliRunner

from bertology import load_encoder
from bertology.cli._app import app
from bertology.errors import BertologyError
from bertology.pocket import _pretrain as pretraining
from bertology.pocket import load_settings, pretrain, pretraining_documents
from bertology.pocket._bilingual import SecondLanguage, bilingual_documents, is_of_second
from bertology.pocket._examples import IGNORED, IS_NEXT, Examples, encode, train_tokenizer, whole_words
from bertology.pocket._recipe import PretrainSettings

RECIPE = Path(__file__).parents[2] / "experiments" / "pretrain-pocket.yaml"
SHAPE: dict[str, Any] = {"max_pieces": 64, "batch_pieces": 1024, "alone_share": 0.4, "short_share": 0.3}
MICRO = PretrainSettings(
    documents=30, held_out_documents=10, vocabulary_size=300, layers=1, width=16, heads=2, inner_width=32, steps=6,
    batch_pieces=256,
    learning_rates=((0, 0), (2, 1e-3), (6, 0)), salience_from=3, checkpoint_every=3, evaluate_every=100, dropout=0.1,
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    sentences = [sentence for document in pretraining_documents(60) for sentence in document]
    return train_tokenizer(sentences, vocabulary_size=400)


@pytest.fixture(scope="module")
def examples(tokenizer: Tokenizer) -> Examples:
    text = encode(pretraining_documents(60), tokenizer)
    return Examples(text, tokenizer, PretrainSettings(**SHAPE, mask_rate=0.16, salience=1.0, salience_from=0))


def silent(line: str) -> None:
    assert isinstance(line, str)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 20", r"recipe.yaml:1: unknown key 'stepz': did you mean steps\?"),
        ("dropout: false", "recipe.yaml:1: dropout: should be a number, not false"),
        ("learning_rates: [[5, 1], [2, 1]]", "recipe.yaml:1: learning_rates: steps must rise, but are 5, 2"),
        ("learning_rates: [[0, 1.2]]", r"learning_rates\[0\]\[1\]: should be at most 1"),
        ("heads: 3", "recipe.yaml:1: width: 128 cannot be split over 3 heads"),
        ("keep_checkpoints: [290000]", "recipe.yaml:1: keep_checkpoints: 290000 is beyond the last of 36000 steps"),
        (f"seed: {'9' * 5000}", r"recipe.yaml:1: '9+…' \(5,000 characters\) is not a finite number"),
        ("clip_norm: .nan", "recipe.yaml:1: '.nan' is not a finite number"),
        ("seed: 1\nsteps: 2\nseed: 3", r"recipe.yaml:3: key 'seed' is written twice \(first in line 1\)"),
        ("steps: " + "[" * 2000, "recipe.yaml:1: not valid YAML .nested too deeply"),
        ("max_pieces: 1", "recipe.yaml:1: max_pieces: should be at least 16"),
        ("second_language: {paired: 0.5, parallel: false}\nalone_share: 1.0", "paired: only translations can be read"),
        (
            "second_language: {paired: 0.5, shared_positions: false}\nalone_share: 1.0",
            "special tokens and positions of",
        ),
        ("second_language: {switched: 0.3}\nalone_share: 0.5", "alone_share: with a second_language, sentences are"),
    ],
)
def test_a_wrong_recipe_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(BertologyError, match=message) as caught:
        load_settings(path)
    assert "\n" not in str(caught.value)


def test_tokenizer_spells_every_word(tokenizer: Tokenizer) -> None:
    sentences = [sentence for document in pretraining_documents(40, seed=5) for sentence in document]
    assert all("[UNK]" not in encoding.tokens for encoding in tokenizer.encode_batch(sentences))
    assert tokenizer.encode("The zyxomorph isn't here.").tokens.count("[UNK]") == 0
    assert all(len(tokenizer.encode(word, add_special_tokens=False).ids) == 1 for word in whole_words())


def test_batches_hold_what_they_say(examples: Examples, tokenizer: Tokenizer) -> None:
    special = [tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]", "[PAD]")]
    lengths, shown, fill = set(), [], []
    for step in range(30):
        batch = examples.batch(step)
        lengths.add(batch["input_ids"].shape[1])
        assert (batch["input_ids"][:, 0] == special[0]).all()
        assert ((batch["input_ids"] == special[2]) == (batch["attention_mask"] == 0)).all()
        fill.append(batch["attention_mask"].mean())
        segments = (batch["input_ids"] == special[1]).sum(axis=1)
        assert (segments == np.where(batch["next_labels"] == IGNORED, 1, 2)).all()
        wanted = batch["masked_labels"] != IGNORED
        assert not np.isin(batch["masked_labels"][wanted], special).any()
        here = np.take_along_axis(batch["input_ids"], batch["masked"], axis=1)[wanted]
        shown.append(np.stack([here, batch["masked_labels"][wanted]]))
        assert abs(wanted.sum() / batch["attention_mask"].sum() - 0.16) < 0.03
    assert {32, 64} < lengths <= {12, 16, 22, 32, 64}
    assert np.mean(fill) > 0.75
    here, labels = np.concatenate(shown, axis=1)
    masked = here == tokenizer.token_to_id("[MASK]")
    assert abs(masked.mean() - 0.8) < 0.03
    assert abs((here == labels).mean() - 0.1) < 0.03


def test_salient_words_are_masked_more_often(examples: Examples, tokenizer: Tokenizer) -> None:
    is_ = tokenizer.token_to_id("is")
    shares = []
    for salience in (1.0, 4.0):
        settings = PretrainSettings(**SHAPE, mask_rate=0.16, salience=salience, salience_from=0)
        weighted = Examples(examples.text, tokenizer, settings)
        batches = [weighted.batch(step) for step in range(20)]
        predicted = sum(int((batch["masked_labels"] == is_).sum()) for batch in batches)
        left = sum(int((batch["input_ids"] == is_).sum()) for batch in batches)
        shares.append(predicted / (predicted + left))
    assert 0.1 < shares[0] < 0.25
    assert shares[1] > 1.5 * shares[0]


def test_pairs_labelled_next_do_follow(examples: Examples, tokenizer: Tokenizer) -> None:
    whole = " ".join(map(str, examples.text.pieces.tolist()))
    settings = PretrainSettings(**SHAPE, mask_rate=0.0, salience=1.0, salience_from=0)
    unmasked = Examples(examples.text, tokenizer, settings)
    seen = set()
    for step in range(6):
        batch = unmasked.batch(step)
        rows, places = np.nonzero(batch["masked_labels"] != IGNORED)
        batch["input_ids"][rows, batch["masked"][rows, places]] = batch["masked_labels"][rows, places]
        for ids, label in zip(batch["input_ids"], batch["next_labels"], strict=True):
            kept = ids[~np.isin(ids, [tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]", "[PAD]")])]
            if label == IS_NEXT:
                assert " ".join(map(str, kept.tolist())) in whole
            seen.add(int(label))
    assert seen == {IGNORED, 0, 1}


def test_the_loss_is_that_of_the_model_itself(examples: Examples) -> None:
    """Projecting only masked places gives what Hugging Face computes from all of them."""
    from bertology.pocket._pretrain import new_model

    model = new_model(MICRO.model_copy(update={"dropout": 0.0, "max_pieces": 64}), 1000)
    batch = examples.batch(0)
    labels = np.full_like(batch["input_ids"], IGNORED)
    np.put_along_axis(labels, batch["masked"], batch["masked_labels"], axis=1)
    expected = model(
        input_ids=torch.from_numpy(batch["input_ids"]),
        attention_mask=torch.from_numpy(batch["attention_mask"]),
        token_type_ids=torch.from_numpy(batch["token_type_ids"]),
        labels=torch.from_numpy(labels),
        next_sentence_label=torch.from_numpy(batch["next_labels"]),
    ).loss
    torch.testing.assert_close(
        pretraining.pretraining_loss(model, {name: torch.from_numpy(part) for name, part in batch.items()}), expected
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_pieces": 16, "vocabulary_size": 1}, r"max_pieces is 16, but evaluation has prompts of \d+ pieces: give"),
        ({"initializer_range": 1e6}, "a weight of .* is not finite in float16: lower learning_rates or initializer"),
    ],
)
def test_settings_that_only_training_finds_wrong(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    settings = MICRO.model_copy(update={"steps": 1, **change})
    with pytest.raises(BertologyError, match=message) as raised:
        pretrain(settings, tmp_path, device="cpu", threads=1, echo=silent)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, taken = pretraining.pretraining_loss, count()

    def dies_at_step_four(model: Any, batch: Any, **options: Any) -> torch.Tensor:
        if next(taken) == 4:
            raise KeyboardInterrupt
        return loss(model, batch, **options)

    whole = made(tmp_path / "whole", MICRO)
    monkeypatch.setattr(pretraining, "pretraining_loss", dies_at_step_four)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "killed", MICRO)
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    last = tmp_path / "killed" / "training" / "checkpoint-3"
    damaged = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")
    for number, name in enumerate(damaged, start=4):
        broken = shutil.copytree(last, last.with_name(f"checkpoint-{number}"))
        (broken / name).write_bytes((last / name).read_bytes()[:100])
    (shutil.copytree(last, last.with_name("checkpoint-9")) / "trainer_state.json").write_text("[]")
    said: list[str] = []
    killed = made(tmp_path / "killed", MICRO, said.append)
    assert "going on from step 3" in said
    for name in ("model.safetensors", "tokenizer.json", "config.json", "README.md"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    with pytest.raises(BertologyError, match="from a run with other seed; delete it or choose another"):
        made(killed, MICRO.model_copy(update={"seed": 1}))
    (killed / "training" / "plan.json").write_text('{"settings": "none"}')
    with pytest.raises(BertologyError, match="from a run with other seed, documents"):
        made(killed, MICRO)


def test_checkpoints_are_model_folders(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    settings = MICRO.model_copy(update={"keep_checkpoints": (0, 6)})
    made = pretrain(settings, tmp_path, device="cpu", threads=1, echo=silent)
    folders = sorted((tmp_path / "checkpoints").iterdir())
    assert [folder.name for folder in folders] == ["step-000000", "step-000006"]
    assert (folders[1] / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    assert (folders[0] / "model.safetensors").read_bytes() != (tmp_path / "model.safetensors").read_bytes()
    model = AutoModelForPreTraining.from_pretrained(folders[0])
    assert model.dtype == torch.float32
    stored = load_file(folders[0] / "model.safetensors")
    assert all(tensor.dtype == torch.float16 for tensor in stored.values())
    assert torch.equal(model.cls.predictions.decoder.weight, model.bert.embeddings.word_embeddings.weight)
    assert AutoTokenizer.from_pretrained(folders[0]).is_fast
    record = json.loads((made.folder / "training.json").read_text())
    assert record["settings"]["steps"] == 6
    assert record["evaluation"] == made.evaluation.to_dict()


TWO_LANGUAGES = PretrainSettings(
    documents=30, held_out_documents=10, vocabulary_size=300, layers=2, width=16, heads=2, inner_width=32, steps=6,
    batch_pieces=256, alone_share=1.0, learning_rates=((0, 0), (2, 1e-2), (6, 0)), salience_from=3, checkpoint_every=3,
    evaluate_every=100, second_language=SecondLanguage(switched=0.3),
)  # fmt: skip
APART = SecondLanguage(shared_specials=False, shared_positions=False)
FIRST, SECOND = "The old farmers see the dog.", "Палоди зади."


def made(folder: Path, settings: PretrainSettings, echo: Callable[[str], None] = silent) -> Path:
    pretrain(settings, folder, device="cpu", threads=1, echo=echo)
    return folder


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {"second_language": APART, "random_replacement": False}
    return made(tmp_path_factory.mktemp("apart"), TWO_LANGUAGES.model_copy(update=changes))


def test_words_are_switched_for_their_translations() -> None:
    plain, mixed, all_switched = (
        list(bilingual_documents(40, SecondLanguage(switched=share), stated=())) for share in (0.0, 0.3, 1.0)
    )

    def share_of_second(documents: Any, side: int) -> float:
        words = [word for pair in documents for sentence in pair[side] for word in sentence.split()]
        return sum(map(is_of_second, words)) / len(words)

    assert (share_of_second(plain, 0), share_of_second(plain, 1)) == (0.0, 1.0)
    # Words without a translation of their own, such as articles, stay.
    most = share_of_second(all_switched, 0)
    assert 0.4 < most < 0.9
    assert share_of_second(mixed, 0) == pytest.approx(0.3 * most, abs=0.03)
    first, switched = plain[0][0][0].split(), all_switched[0][0][0].split()
    assert len(first) == len(switched)  # in the places of the words that they replace
    assert 0.0 < share_of_second(all_switched, 1) < share_of_second(mixed, 1) < 1.0


def test_the_card_describes_the_second_language(tmp_path: Path) -> None:
    card = (made(tmp_path, TWO_LANGUAGES) / "README.md").read_text(encoding="utf-8")
    assert "Of the words with one word as their translation 30%" in card.replace("\n", " ")
    assert "the same of the second language" in card


def test_a_shifted_language_has_the_pieces_of_the_first() -> None:
    second = SecondLanguage(fake="shift")
    firsts, _ = zip(*bilingual_documents(10, second, stated=()), strict=True)
    tokenizer = train_tokenizer(chain.from_iterable(firsts), vocabulary_size=300, second=second)
    pieces = [piece for piece in tokenizer.get_vocab() if not piece.startswith("[")]
    assert len(pieces) == 2 * sum(map(is_of_second, pieces))


def test_special_tokens_and_positions_are_those_of_the_language_of_the_text(apart: Path) -> None:
    """By hand: the embeddings of a text in the second language are sums of its own rows."""
    encoder = load_encoder(str(apart), device="cpu")
    body: Any = encoder.model.body
    declared, embeddings = body.config.second_language, body.embeddings
    for text, is_second in ((FIRST, False), (SECOND, True)):
        ids = torch.tensor(encoder.tokenizer(text)["input_ids"])
        shown = torch.tensor(
            [declared["specials_from"] + (number - 2) if is_second and 2 <= number < 5 else number for number in ids]
        )
        places = torch.arange(len(ids)) + (declared["positions_from"] if is_second else 0)
        summed = (
            embeddings.word_embeddings.weight[shown]
            + embeddings.position_embeddings.weight[places]
            + embeddings.token_type_embeddings.weight[0]
        )
        found = body(input_ids=ids[None], output_hidden_states=True).hidden_states[0][0]
        torch.testing.assert_close(found, embeddings.LayerNorm(summed))


def test_sentences_are_read_with_their_translations() -> None:
    second = SecondLanguage(paired=1.0)
    firsts, seconds = (list(some) for some in zip(*bilingual_documents(30, second, stated=()), strict=True))
    texts = [list(chain.from_iterable(documents)) for documents in (firsts, seconds)]
    tokenizer = train_tokenizer(texts[0], vocabulary_size=300, others=texts[1], second=second)
    settings = TWO_LANGUAGES.model_copy(update={"second_language": second, "max_pieces": 64})
    batch = Examples(encode([*firsts, *seconds], tokenizer), tokenizer, settings).batch(0)
    ids = batch["input_ids"].copy()
    rows, masks = np.nonzero(batch["masked_labels"] != IGNORED)
    ids[rows, batch["masked"][rows, masks]] = batch["masked_labels"][rows, masks]
    pairs = {
        tuple(tuple(tokenizer.encode(text, add_special_tokens=False).ids) for text in pair)
        for pair in zip(*texts, strict=True)
    }
    turned = set()
    for row, segments, length in zip(ids, batch["token_type_ids"], batch["attention_mask"].sum(1), strict=True):
        parts = [tuple(row[:length][segments[:length] == segment].tolist()) for segment in (0, 1)]
        pair = parts[0][1:-1], parts[1][:-1]  # without special tokens
        turned.add(pair not in pairs)
        assert pair in pairs or pair[::-1] in pairs
    assert turned == {False, True}, "in either order"
    assert (batch["next_labels"] == IGNORED).all()


SMALL = (
    "documents=20", "held_out_documents=10", "layers=1", "width=16", "heads=2", "inner_width=16",
    "vocabulary_size=200", "batch_pieces=128",
)  # fmt: skip


def test_it_trains_and_says_where_the_model_is(tmp_path: Path) -> None:
    arguments = ["pretrain", str(RECIPE), "--out", str(tmp_path / "model"), "--set", "steps=2", "--device", "cpu"]
    for change in SMALL:
        arguments += ["--set", change]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "model" in result.output.splitlines()[-1]
    assert "agreement by attractors" in result.output
    assert (tmp_path / "model" / "model.safetensors").exists()
    assert "2 steps" in (tmp_path / "model" / "README.md").read_text()
