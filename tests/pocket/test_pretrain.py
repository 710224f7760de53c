"""Pretraining: recipes, batches, objectives, resuming, two languages, a text of one's own: planted checks."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import (
    AlbertForPreTraining,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoTokenizer,
    BertLMHeadModel,
)
from typer.testing import CliRunner

from bertology import load_encoder
from bertology.cli._app import app
from bertology.encoders import side_by_side
from bertology.errors import BertologyError, ModelError
from bertology.pocket import _pretrain as pretraining
from bertology.pocket import load_settings, model_folder, pretrain, pretraining_documents
from bertology.pocket._bilingual import SecondLanguage, bilingual_documents, is_of_second
from bertology.pocket._examples import (
    IGNORED,
    IS_NEXT,
    Examples,
    encode,
    piece_id,
    train_tokenizer,
    whole_words,
)
from bertology.pocket._recipe import PretrainSettings

PAIRS = {"next_sentence": "next_sentence", "batch_pieces": 1024, "alone_share": 0.4, "short_share": 0.3}
RECIPE = Path(__file__).parents[2] / "experiments" / "pretrain-pocket.yaml"
TINY: dict[str, Any] = {
    "documents": 30, "held_out_documents": 10, "vocabulary_size": 300, "layers": 2, "width": 16, "heads": 2,
    "inner_width": 32, "steps": 4, "batch_pieces": 256, "learning_rates": ((0, 0.0), (2, 1e-2), (4, 0.0)),
    "salience": 1.0, "salience_from": 0, "checkpoint_every": 2, "evaluate_every": 2, "next_sentence": "none",
}  # fmt: skip
OF_SHAPE = ("layers", "width", "heads", "inner_width")
OF_POCKET = ("documents", "salience", "salience_from")


def recipe(*left_out: str, **changes: Any) -> PretrainSettings:
    return PretrainSettings(**{key: value for key, value in TINY.items() if key not in left_out} | changes)


MICRO = recipe(
    *("next_sentence", "salience"), layers=1, steps=6, learning_rates=((0, 0), (2, 1e-3), (6, 0)), salience_from=3,
    checkpoint_every=3, evaluate_every=100, dropout=0.1,
)  # fmt: skip


def silent(line: str) -> None:
    assert isinstance(line, str)


def made(folder: Path, settings: PretrainSettings, echo: Callable[[str], None] = silent) -> Path:
    pretrain(settings, folder, device="cpu", threads=1, echo=echo)
    return folder


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer((one for document in pretraining_documents(60) for one in document), vocabulary_size=400)


def examples(tokenizer: Tokenizer, **changes: Any) -> Examples:
    return Examples(encode(pretraining_documents(60), tokenizer), tokenizer, recipe(**changes))


def tensors(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def is_masked(batch: dict[str, Any]) -> Any:
    """``[row, piece]`` whether a piece is to be predicted."""
    found = np.full(batch["input_ids"].shape, IGNORED)
    np.put_along_axis(found, batch["masked"], batch["masked_labels"], axis=1)
    return found != IGNORED


def unmasked(batch: dict[str, Any]) -> Any:
    """The text of a batch with masks, ``[row, piece]``, as it was."""
    found = batch["input_ids"].copy()
    there = np.take_along_axis(found, batch["masked"], axis=1)
    labels = np.where(batch["masked_labels"] == IGNORED, there, batch["masked_labels"])
    np.put_along_axis(found, batch["masked"], labels, axis=1)
    return found


def special(tokenizer: Tokenizer, ids: Any) -> Any:
    """Whether numbers are those of special tokens that stand in rows."""
    return np.isin(ids, [piece_id(tokenizer, name) for name in ("[CLS]", "[SEP]", "[PAD]")])


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
        ("objective: left_to_right", "next_sentence: with objective left_to_right no pairs are read; give none"),
        ("{objective: spanz}", "objective: should be masked, spans"),
        ("{objective: right_to_left, next_sentence: none, masking: static}", "masking: with objective right_to_left"),
        ("{objective: replaced_tokens, next_sentence: none, share_layers: true}", "share_layers: not together with"),
        (
            "{objective: replaced_tokens, next_sentence: none, width: 12, generator_share: 0.6}",
            "generator_share: width 7 cannot be split over 2 heads",
        ),
        ("{next_sentence: sentence_order, alone_share: 1.0}", "next_sentence: with alone_share 1 there are no pairs"),
        ("{stack_from: pocket, share_layers: true}", "stack_from: blocks are repeated of BERTs alone"),
        ("freeze: all_but_embeddings", "freeze: is about a model that training starts from; give start_from as well"),
        ("start_from: pocket", "next_sentence: with start_from no pairs are read; give none"),
        ("{start_from: pocket, next_sentence: none, layers: 6}", "layers: is that of the model in start_from"),
        ("{text: a.txt, salience: 2.0}", "salience: is about the text of the pocket world; leave it out"),
        ("span_end: 0.0", "span_end: should be over 0"),
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


def test_batches_hold_what_they_say(tokenizer: Tokenizer) -> None:
    special = [piece_id(tokenizer, token) for token in ("[CLS]", "[SEP]", "[PAD]")]
    lengths, shown, fill, asked = set(), [], [], examples(tokenizer, **PAIRS, mask_rate=0.16)
    for step in range(30):
        batch = asked.batch(step)
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


def test_salient_words_are_masked_more_often(tokenizer: Tokenizer) -> None:
    is_ = tokenizer.token_to_id("is")
    shares = []
    for salience in (1.0, 4.0):
        weighted = examples(tokenizer, **PAIRS, mask_rate=0.16, salience=salience)
        batches = [weighted.batch(step) for step in range(20)]
        predicted = sum(int((batch["masked_labels"] == is_).sum()) for batch in batches)
        left = sum(int((batch["input_ids"] == is_).sum()) for batch in batches)
        shares.append(predicted / (predicted + left))
    assert 0.1 < shares[0] < 0.25
    assert shares[1] > 1.5 * shares[0]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"next_sentence": "next_sentence"}, "next_sentence_label"),
        ({"next_sentence": "sentence_order", "share_layers": True}, "sentence_order_label"),
        ({"objective": "left_to_right"}, None),
    ],
)
def test_the_loss_is_that_of_transformers(tokenizer: Tokenizer, changes: dict[str, Any], name: str | None) -> None:
    """Projecting only places that predict gives what Hugging Face computes from all of them."""
    asked = examples(tokenizer, alone_share=0.0, **changes)
    model, batch = pretraining.new_model(asked.settings, 1000), tensors(asked.batch(0))
    given = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    if name is None:
        given["labels"] = torch.where(batch["attention_mask"] == 1, batch["input_ids"], IGNORED)
    else:
        masked = torch.full_like(batch["input_ids"], IGNORED).scatter(1, batch["masked"], batch["masked_labels"])
        given |= {"labels": masked, name: batch["next_labels"]}
    torch.testing.assert_close(pretraining.pretraining_loss(model, batch), model(**given).loss)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_pieces": 16, "vocabulary_size": 1}, r"max_pieces is 16, but evaluation has prompts of \d+ pieces: give"),
        ({"initializer_range": 1e6, "steps": 1}, r"a weight of .* is not finite in float16: lower learning_rates or"),
        ({"start_from": "no-such-folder/x"}, r"start_from: no-such-folder/x cannot be loaded \(.*\); give a masked"),
        ({"start_from": "pocket", "max_pieces": 128}, "max_pieces: 128 is more than the 64 of"),
    ],
)
def test_settings_that_only_training_finds_wrong(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BertologyError, match=message) as raised:
        made(tmp_path, recipe(*(OF_SHAPE if "start_from" in changes else ()), **changes))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "model.safetensors").exists()


def test_checkpoints_are_model_folders(tmp_path: Path) -> None:
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


TWO_LANGUAGES = recipe(
    *("next_sentence", "salience"), steps=6, alone_share=1.0, learning_rates=((0, 0), (2, 1e-2), (6, 0)),
    salience_from=3, checkpoint_every=3, evaluate_every=100, second_language=SecondLanguage(switched=0.3),
)  # fmt: skip
APART = SecondLanguage(shared_specials=False, shared_positions=False)
FIRST, LATER, SECOND = "The old farmers see the dog.", "The old farmers see a cat.", "Палоди зади."


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
    pairs = {
        tuple(tuple(tokenizer.encode(text, add_special_tokens=False).ids) for text in pair)
        for pair in zip(*texts, strict=True)
    }
    turned = set()
    for row, segments, length in zip(
        unmasked(batch), batch["token_type_ids"], batch["attention_mask"].sum(1), strict=True
    ):
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


def test_spans_are_contiguous_whole_words(tokenizer: Tokenizer) -> None:
    """Words are masked as a whole, in spans: where one word is, the next one is much more often than elsewhere."""
    text = encode(pretraining_documents(60), tokenizer)
    runs, shares = defaultdict[float, list[bool]](list), dict[float, float]()
    for end in (1.0, 0.2):
        asked = Examples(text, tokenizer, recipe(objective="spans", span_end=end, mask_rate=0.3, alone_share=0.0))
        for step in range(8):
            batch = asked.batch(step)
            ids, masked = unmasked(batch), is_masked(batch)
            shares[end] = masked.sum() / batch["attention_mask"].sum()
            for row, chosen in zip(ids, masked, strict=True):
                pieces = [str(tokenizer.id_to_token(int(number))) for number in row]
                inside = np.array([piece.startswith("##") for piece in pieces])
                # A piece that continues a word is masked exactly where the piece before it is.
                assert (chosen[1:] == chosen[:-1])[inside[1:]].all()
                begins = chosen & ~inside & (row > 4)
                runs[end] += [bool(begins[place + 1]) for place in np.flatnonzero(begins)[:-1]]
                disguised = {piece for piece, hit in zip(pieces, chosen, strict=True) if hit}
                assert disguised.isdisjoint({"[CLS]", "[SEP]", "[PAD]"})
    assert shares[1.0] == pytest.approx(0.3, abs=0.03)
    assert shares[0.2] == pytest.approx(0.3, abs=0.03)
    assert np.mean(runs[0.2]) > np.mean(runs[1.0]) + 0.2


def test_lengths_of_spans_are_geometric(tokenizer: Tokenizer) -> None:
    """One span in each long row of one-piece words: its lengths are those of scipy's truncated distribution."""
    from scipy.stats import chisquare, geom

    asked = examples(tokenizer, objective="spans", longest_span=4, span_end=0.4)
    n = 200
    asked.text.begins_word[:] = True
    places = np.concatenate([[[-1]], np.arange(n)[None], [[-1]]], axis=1)
    lengths = []
    for seed in range(400):
        spans = asked._spans(np.random.default_rng(seed), np.ones(places.shape), places, np.array([40]))
        first = spans == 1
        if not first[0, n - 4 :].any():  # not one that the end of the segment cut off
            lengths.append(int(first.sum()))
    expected = np.array([geom.pmf(1, 0.4), geom.pmf(2, 0.4), geom.pmf(3, 0.4), geom.sf(3, 0.4)]) * len(lengths)
    assert chisquare(np.bincount(lengths, minlength=5)[1:], expected).pvalue > 0.001


@pytest.mark.parametrize("objective", ["masked", "spans"])
def test_static_masks_are_the_same_each_time(tokenizer: Tokenizer, objective: str) -> None:
    """All masks of one sentence, and what is shown in their place, over many steps."""
    seen: dict[str, dict[Any, set[Any]]] = {}
    text = encode(pretraining_documents(20, stated=()), tokenizer)
    for masking in ("static", "dynamic"):
        settings = recipe(objective=objective, masking=masking, alone_share=1.0)
        asked, found = Examples(text, tokenizer, settings), defaultdict(set)
        for step in range(40):
            batch = asked.batch(step)
            for whole, ids, chosen in zip(unmasked(batch), batch["input_ids"], is_masked(batch), strict=True):
                found[tuple(whole.tolist())].add((tuple(ids.tolist()), tuple(chosen.tolist())))
        seen[masking] = found
    sentences = Counter(
        tuple(text.pieces[start:end].tolist()) for start, end in pairwise(text.starts)
    )  # each occurrence has masks of its own
    once = [whole for whole in seen["dynamic"] if sentences[tuple(piece for piece in whole if piece > 4)] == 1]
    assert sum(len(seen["dynamic"][whole]) > 2 for whole in once) > 10
    assert all(len(seen["static"][whole]) == 1 for whole in once)
    assert all(any(chosen) for whole in once for _, chosen in seen["static"][whole])


@pytest.mark.parametrize("kind", ["next_sentence", "sentence_order"])
def test_pairs_are_labelled_by_their_order(tokenizer: Tokenizer, kind: str) -> None:
    asked = examples(tokenizer, next_sentence=kind, alone_share=0.0, mask_rate=0.0)
    whole = " ".join(map(str, asked.text.pieces.tolist())) + " "
    labels = []
    for step in range(4):
        batch = asked.batch(step)
        for ids, types, label in zip(unmasked(batch), batch["token_type_ids"], batch["next_labels"], strict=True):
            first, second = (ids[~special(tokenizer, ids) & (types == one)].tolist() for one in (0, 1))
            in_order, exchanged = (" ".join(map(str, pair)) + " " in whole for pair in (first + second, second + first))
            assert in_order == (label == IS_NEXT)
            assert exchanged == (label != IS_NEXT) or kind == "next_sentence"
            labels.append(int(label))
    assert set(labels) == {0, 1}
    assert np.mean(labels) == pytest.approx(0.5, abs=0.3)


def test_without_pairs_rows_are_runs_of_one_document(tokenizer: Tokenizer) -> None:
    asked = examples(tokenizer, alone_share=0.0, mask_rate=0.0)
    batch = asked.batch(0)
    whole = " ".join(map(str, asked.text.pieces.tolist()))
    for ids in unmasked(batch):
        assert " ".join(map(str, ids[~special(tokenizer, ids)].tolist())) in whole
    assert not batch["token_type_ids"].any()
    assert (batch["next_labels"] == IGNORED).all()


@pytest.fixture(scope="module")
def one_sided(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    sides = ("left_to_right", "right_to_left", "masked")
    return {side: made(tmp_path_factory.mktemp(side), recipe(objective=side)) for side in sides}


def test_a_causal_mask_hides_one_side(one_sided: dict[str, Path]) -> None:
    """Vectors of the words that both texts begin with; the reverse for texts that end alike."""
    for side, folder in one_sided.items():
        encoder = load_encoder(str(folder), device="cpu")
        (beginning, end), n = (encoder.vectors([FIRST, LATER]).values, encoder.vectors([LATER, FIRST]).values), 7
        same_left = np.allclose(beginning[:, :4], beginning[:, n : n + 4], atol=1e-6)
        turned = encoder.vectors(["A dog sees the cat.", "Some cat sees the cat."]).values
        same_right = np.allclose(turned[:, 2:6], turned[:, 8:12], atol=1e-6)
        assert (same_left, same_right) == (side == "left_to_right", side == "right_to_left")
        assert np.isfinite(end).all()


def test_batches_with_padding_and_without_give_the_same(one_sided: dict[str, Path]) -> None:
    for folder in one_sided.values():
        encoder = load_encoder(str(folder), device="cpu")
        alone = encoder.vectors(FIRST).values
        beside = encoder.vectors([FIRST, f"{LATER[:-1]} and the old farmers see the dog."]).values[:, :7]
        np.testing.assert_allclose(alone, beside, atol=1e-5)


def test_right_to_left_is_left_to_right_of_the_reverse(one_sided: dict[str, Path]) -> None:
    """The same weights, run by transformers' causal BERT over the reversed pieces at the reversed positions."""
    folder = one_sided["right_to_left"]
    encoder = load_encoder(str(folder), device="cpu")
    ids = torch.tensor([encoder.tokenizer(FIRST)["input_ids"]])
    found = encoder.hidden_states(ids, layers=[0, 1, 2])
    model = BertLMHeadModel.from_pretrained(folder, is_decoder=True, right_to_left=False).eval()
    places = torch.arange(ids.shape[1]).flip(0)[None]
    expected = model.bert(ids.flip(1), position_ids=places, output_hidden_states=True).hidden_states
    for layer in (0, 1, 2):
        torch.testing.assert_close(found[layer], expected[layer].flip(1), atol=1e-5, rtol=1e-5)


def test_one_side_is_read_by_its_own_commands_alone(one_sided: dict[str, Path]) -> None:
    left, right = (load_encoder(str(one_sided[side]), device="cpu") for side in ("left_to_right", "right_to_left"))
    assert left.causal_head is not None
    assert right.causal_head is None
    for encoder in (left, right):
        with pytest.raises(ModelError, match="no masked-LM head"):
            encoder.masked_head  # noqa: B018 - raises


def test_models_side_by_side_have_the_vectors_of_both(one_sided: dict[str, Path]) -> None:
    left, right = one_sided["left_to_right"], one_sided["right_to_left"]
    both = side_by_side(left, right, name="both-sides")
    assert (both.dim, both.n_layers, both.has_masked_lm_head) == (32, 2, False)
    for init in ("pretrained", "random"):
        apart = [
            load_encoder(str(folder), init=init, device="cpu").vectors([FIRST, "A cat."]).values
            for folder in (left, right)
        ]
        beside = load_encoder(both.source, init=init, device="cpu").vectors([FIRST, "A cat."]).values
        np.testing.assert_allclose(beside, np.concatenate(apart, axis=-1), atol=1e-5)
    with pytest.raises(ModelError, match="their vocabulary or depth differs"):
        side_by_side(left, "bilingual", name="wrong")


def test_shared_layers_are_one_block(tmp_path: Path) -> None:
    settings = recipe(share_layers=True, next_sentence="sentence_order", alone_share=0.4)
    encoder = load_encoder(str(made(tmp_path, settings)), device="cpu")
    assert len(encoder.model.blocks) == 2
    assert len(set(map(id, encoder.model.blocks))) == 1
    assert encoder.has_masked_lm_head
    model = AlbertForPreTraining.from_pretrained(tmp_path).eval()
    size = sum(weight.numel() for weight in model.albert.encoder.parameters())
    deeper = pretraining.new_model(settings.model_copy(update={"layers": 12}), model.config.vocab_size)
    assert sum(weight.numel() for weight in deeper.albert.encoder.parameters()) == size


def test_stacked_blocks_are_those_of_the_source(tmp_path: Path, one_sided: dict[str, Path]) -> None:
    source = one_sided["masked"]
    stacked = made(tmp_path / "stacked", recipe(layers=4, stack_from=str(source), keep_checkpoints=(0,)))
    weights = load_file(stacked / "checkpoints" / "step-000000" / "model.safetensors")
    stored = load_file(source / "model.safetensors")
    for name, values in weights.items():
        below = name.replace("layer.2.", "layer.0.").replace("layer.3.", "layer.1.")
        assert torch.equal(values, stored[below]), name
    assert sum(".layer.3." in name for name in weights) == sum(".layer.1." in name for name in stored)
    assert (stacked / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    with pytest.raises(ModelError, match="their vocabulary or depth differs"):
        side_by_side(source, stacked)
    for changes, message in (
        ({"layers": 3}, "is a bert of 2 layers; give a BERT whose number of layers divides that of the recipe"),
        ({"layers": 4, "width": 32}, "has hidden_size 16, the recipe 32; make them equal"),
        ({"layers": 4, "stack_from": str(tmp_path / "none")}, "config.json: no such file"),
    ):
        with pytest.raises(BertologyError, match=message):
            made(tmp_path / "wrong", recipe(**{"stack_from": str(source), **changes}))
        (tmp_path / "wrong" / "training" / "plan.json").unlink()


def frozen(**changes: Any) -> PretrainSettings:
    given = {"start_from": "pocket", "freeze": "all_but_embeddings", "second_language": SecondLanguage()}
    return recipe(*OF_SHAPE, **{**given, "alone_share": 1.0, **changes})


@pytest.mark.parametrize("vocabulary", ["own", "new", "extended"])
def test_frozen_weights_stay(tmp_path: Path, vocabulary: str) -> None:
    """All but embeddings and output bias; with an extended vocabulary the known rows of these as well."""
    before = AutoModelForMaskedLM.from_pretrained(model_folder()).state_dict()
    folder = made(tmp_path, frozen(tokenizer=vocabulary))
    after = AutoModelForMaskedLM.from_pretrained(folder).state_dict()
    learned = {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"}
    learned |= {"cls.predictions.bias", "cls.predictions.decoder.bias"}
    for name, values in after.items():
        if name not in learned:
            assert torch.equal(values, before[name]), name
    old, new = (state["bert.embeddings.word_embeddings.weight"] for state in (before, after))
    if vocabulary == "extended":
        assert len(new) > len(old)
        assert torch.equal(new[: len(old)], old)
        assert torch.equal(after["cls.predictions.bias"][: len(old)], before["cls.predictions.bias"])
        assert after["cls.predictions.bias"][len(old) :].any()
        texts = ["The old farmers see the dog."]
        here, there = (load_encoder(name, device="cpu").vectors(texts).values for name in (str(folder), "pocket"))
        np.testing.assert_allclose(here, there, atol=1e-5)
    else:
        assert not torch.equal(new, old)


def test_labels_are_where_the_sample_differs(tokenizer: Tokenizer) -> None:
    settings = recipe(objective="replaced_tokens", generator_share=0.5)
    both = pretraining.new_model(settings, tokenizer.get_vocab_size())
    plain = examples(tokenizer, objective="replaced_tokens").batch(0)
    batch, own = tensors(plain), torch.from_numpy(unmasked(plain))
    masked = torch.from_numpy(is_masked(plain))
    assert set(batch["input_ids"][masked].tolist()) == {piece_id(tokenizer, "[MASK]")}
    torch.manual_seed(0)
    _, ids, is_replaced = pretraining.sample_replaced(both["generator"], batch)
    assert torch.equal(is_replaced, ids != own)
    assert torch.equal(ids[~masked], own[~masked])
    assert is_replaced.any()
    # A generator that is always right replaces nothing.
    certain = torch.nn.functional.one_hot(batch["masked_labels"].clamp(min=0), tokenizer.get_vocab_size()) * 1e4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretraining, "predictions", lambda *_: (certain.float(), None, None))
        _, ids, is_replaced = pretraining.sample_replaced(both["generator"], batch)
    assert not is_replaced.any()
    assert torch.equal(ids, own)


def test_a_discriminator_learns_what_was_replaced(tokenizer: Tokenizer) -> None:
    """One batch again and again, with the same samples: chance is the share of pieces that are not replaced, 70 %."""
    asked = examples(tokenizer, objective="replaced_tokens", generator_share=0.5, width=32, mask_rate=0.3)
    both, batch = pretraining.new_model(asked.settings, tokenizer.get_vocab_size()), tensors(asked.batch(0))
    optimizer = torch.optim.AdamW(both.parameters(), lr=3e-3)
    for _ in range(60):
        torch.manual_seed(0)
        pretraining.pretraining_loss(both, batch, weight=50.0).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    torch.manual_seed(0)
    _, ids, is_replaced = pretraining.sample_replaced(both["generator"], batch)
    given = {name: batch[name] for name in ("attention_mask", "token_type_ids")}
    is_right = (both["discriminator"](input_ids=ids, **given).logits > 0) == is_replaced
    assert is_right[batch["attention_mask"] == 1].float().mean() > 0.9


def test_a_generator_has_the_embeddings_of_its_discriminator(tmp_path: Path) -> None:
    folder = made(tmp_path, recipe(objective="replaced_tokens", generator_share=0.5))
    encoder = load_encoder(str(folder), device="cpu")
    assert (encoder.family, encoder.has_masked_lm_head, encoder.dim) == ("electra", False, 16)
    generator = load_encoder(str(folder / "generator"), device="cpu")
    assert (generator.has_masked_lm_head, generator.dim) == (True, 8)
    tables = [one.model.body.get_input_embeddings().weight for one in (encoder, generator)]  # type: ignore[operator]
    assert torch.equal(*tables)
    record = json.loads((folder / "training.json").read_text())
    assert 0 <= record["evaluation"]["replaced_accuracy"] <= 1


@pytest.mark.parametrize(
    "settings",
    [
        recipe("next_sentence", dropout=0.1, salience=4.0, salience_from=3),
        recipe(objective="replaced_tokens", generator_share=0.5, dropout=0.1),
        recipe(objective="spans", masking="static"),
        frozen(tokenizer="extended"),
    ],
    ids=["masked", "replaced", "spans", "continued"],
)
def test_a_killed_run_resumes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: PretrainSettings
) -> None:
    loss, taken = pretraining.pretraining_loss, count()

    def dies(*args: Any, **options: Any) -> torch.Tensor:
        if next(taken) == 3:
            raise KeyboardInterrupt
        return loss(*args, **options)

    whole, folder = made(tmp_path / "whole", settings), tmp_path / "killed"
    monkeypatch.setattr(pretraining, "pretraining_loss", dies)
    with pytest.raises(KeyboardInterrupt):
        made(folder, settings)
    assert not (folder / "model.safetensors").exists()
    last = folder / "training" / "checkpoint-2"
    damaged = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")
    for number, name in enumerate(damaged, start=4):
        broken = shutil.copytree(last, last.with_name(f"checkpoint-{number}"))
        (broken / name).write_bytes((last / name).read_bytes()[:100])
    (shutil.copytree(last, last.with_name("checkpoint-9")) / "trainer_state.json").write_text("[]")
    said: list[str] = []
    made(folder, settings, said.append)
    assert "going on from step 2" in said
    for name in ("model.safetensors", "tokenizer.json", "config.json", "README.md", "training.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    points = json.loads((folder / "training.json").read_text())["held_out"]
    assert [(point["step"], point["pieces"], point["bits"] > 0) for point in points] == [
        (2, 512, True),
        (4, 1024, True),
    ]
    with pytest.raises(BertologyError, match="from a run with other seed; delete it or choose another"):
        made(folder, settings.model_copy(update={"seed": 1}))
    (folder / "training" / "plan.json").write_text('{"settings": "none"}')
    with pytest.raises(BertologyError, match="from a run with other seed, documents"):
        made(folder, settings)


def test_runs_of_equal_pieces_have_steps_in_proportion() -> None:
    settings = recipe(pieces=4 * 256, batch_pieces=512, steps=4, salience_from=2).at_equal_pieces()
    assert (settings.steps, settings.salience_from, settings.evaluate_every) == (2, 1, 1)
    assert settings.learning_rates == ((0, 0.0), (1, 1e-2), (2, 0.0))
    assert recipe().at_equal_pieces() == recipe()


def own(text: Path, **changes: Any) -> PretrainSettings:
    return recipe(*OF_POCKET, **{"text": str(text), "held_out_documents": 3, **changes})


def test_a_text_of_ones_own(tmp_path: Path) -> None:
    """Blank lines part documents; without them each line is one; long sentences are divided, none is cut off."""
    documents = list(pretraining_documents(20, seed=5))
    parted, lines = tmp_path / "parted.txt", tmp_path / "lines.txt"
    parted.write_text("\n\n".join("\n".join(document) for document in documents))
    lines.write_text("\n".join(" ".join(document) for document in documents))
    assert pretraining._own_text(str(parted), 3) == (documents[:-3], documents[-3:])
    assert pretraining._own_text(str(lines), 3)[0] == [[" ".join(document)] for document in documents[:-3]]
    tokenizer = train_tokenizer(chain.from_iterable(documents), vocabulary_size=300, of_pocket=False)
    assert 305 <= tokenizer.get_vocab_size() < 305 + 2 * 27
    whole, divided = (encode([[" ".join(documents[0])]], tokenizer, longest=longest) for longest in (None, 30))
    assert np.array_equal(whole.pieces, divided.pieces)
    assert divided.n_sentences > whole.n_sentences == 1
    assert divided.document.tolist() == [0] * divided.n_sentences
    assert np.diff(divided.starts).max() == 30
    continued = recipe(*OF_POCKET, *OF_SHAPE, text=str(parted), held_out_documents=3, start_from="pocket")
    for name, settings in (("scratch", own(parted, next_sentence="next_sentence")), ("continued", continued)):
        folder = made(tmp_path / name, settings)
        assert load_encoder(str(folder), device="cpu").has_masked_lm_head
        card = (folder / "README.md").read_text()
        assert str(parted) in card
        assert "facts" not in card
    parted.write_text(parted.read_text().replace("the", "a"))
    with pytest.raises(BertologyError, match="begun with another text or other initial weights than are there now"):
        made(tmp_path / "scratch", own(parted, next_sentence="next_sentence"))
    lines.write_text("\n".join(document[0] for document in documents))
    with pytest.raises(BertologyError, match="no document of the text has two sentences; part documents by blank"):
        made(tmp_path / "order", own(lines, next_sentence="sentence_order"))
    with pytest.raises(BertologyError, match="has 20 documents, of which 300 are to be held out; give a longer text"):
        made(tmp_path / "few", own(lines, held_out_documents=300))
