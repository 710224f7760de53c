"""Recipes that train with other objectives, masks, pairs and weights, and on a text of one's own: planted checks."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AlbertForPreTraining, AutoModelForMaskedLM, BertLMHeadModel

from bertology import load_encoder
from bertology.encoders import side_by_side
from bertology.errors import BertologyError, ModelError
from bertology.pocket import _pretrain as pretraining
from bertology.pocket import load_settings, model_folder, pretrain, pretraining_documents
from bertology.pocket._bilingual import SecondLanguage
from bertology.pocket._examples import IGNORED, Examples, encode, piece_id, train_tokenizer
from bertology.pocket._recipe import PretrainSettings

TINY: dict[str, Any] = {
    "documents": 30, "held_out_documents": 10, "vocabulary_size": 300, "layers": 2, "width": 16, "heads": 2,
    "inner_width": 32, "steps": 4, "batch_pieces": 256, "learning_rates": ((0, 0.0), (2, 1e-2), (4, 0.0)),
    "salience": 1.0, "salience_from": 0, "checkpoint_every": 2, "evaluate_every": 2, "next_sentence": "none",
}  # fmt: skip
OF_SHAPE = ("layers", "width", "heads", "inner_width")
OF_POCKET = ("documents", "salience", "salience_from")


def recipe(*left_out: str, **changes: Any) -> PretrainSettings:
    return PretrainSettings(**{key: value for key, value in TINY.items() if key not in left_out} | changes)


def made(folder: Path, settings: PretrainSettings) -> Path:
    pretrain(settings, folder, device="cpu", threads=1, echo=lambda line: None)
    return folder


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer((one for document in pretraining_documents(60) for one in document), vocabulary_size=400)


def examples(tokenizer: Tokenizer, **changes: Any) -> Examples:
    return Examples(encode(pretraining_documents(60), tokenizer), tokenizer, recipe(**changes))


def tensors(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def unmasked(batch: dict[str, Any]) -> Any:
    """The text of a batch with masks, ``[row, piece]``, as it was."""
    ids = batch["input_ids"].copy()
    rows, masks = np.nonzero(batch["masked_labels"] != IGNORED)
    ids[rows, batch["masked"][rows, masks]] = batch["masked_labels"][rows, masks]
    return ids


def is_masked(batch: dict[str, Any]) -> Any:
    """``[row, piece]`` whether a piece is to be predicted."""
    found = np.zeros(batch["input_ids"].shape, dtype=bool)
    rows, masks = np.nonzero(batch["masked_labels"] != IGNORED)
    found[rows, batch["masked"][rows, masks]] = True
    return found


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
def test_what_does_not_fit_together_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(BertologyError, match=message) as caught:
        load_settings(path)
    assert "\n" not in str(caught.value)


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


def test_pairs_are_in_order_or_exchanged(tokenizer: Tokenizer) -> None:
    asked = examples(tokenizer, next_sentence="sentence_order", alone_share=0.0, mask_rate=0.0)
    whole = " ".join(map(str, asked.text.pieces.tolist())) + " "
    labels = []
    for step in range(4):
        batch = asked.batch(step)
        for ids, types, label in zip(unmasked(batch), batch["token_type_ids"], batch["next_labels"], strict=True):
            special = np.isin(ids, [piece_id(tokenizer, name) for name in ("[CLS]", "[SEP]", "[PAD]")])
            first, second = (ids[~special & (types == one)].tolist() for one in (0, 1))
            in_order, exchanged = (" ".join(map(str, pair)) + " " in whole for pair in (first + second, second + first))
            assert (in_order, exchanged) == (label == 0, label == 1)
            labels.append(int(label))
    assert set(labels) == {0, 1}
    assert np.mean(labels) == pytest.approx(0.5, abs=0.3)


def test_without_pairs_rows_are_runs_of_one_document(tokenizer: Tokenizer) -> None:
    asked = examples(tokenizer, alone_share=0.0, mask_rate=0.0)
    batch = asked.batch(0)
    whole = " ".join(map(str, asked.text.pieces.tolist()))
    for ids in unmasked(batch):
        kept = ids[~np.isin(ids, [piece_id(tokenizer, name) for name in ("[CLS]", "[SEP]", "[PAD]")])]
        assert " ".join(map(str, kept.tolist())) in whole
    assert not batch["token_type_ids"].any()
    assert (batch["next_labels"] == IGNORED).all()


@pytest.fixture(scope="module")
def one_sided(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    sides = ("left_to_right", "right_to_left", "masked")
    return {side: made(tmp_path_factory.mktemp(side), recipe(objective=side)) for side in sides}


FIRST, LATER = "The old farmers see the dog.", "The old farmers see a cat."


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


def test_the_loss_from_one_side_is_that_of_transformers(one_sided: dict[str, Path], tokenizer: Tokenizer) -> None:
    model = BertLMHeadModel.from_pretrained(one_sided["left_to_right"]).eval()
    assert model.config.is_decoder
    batch = tensors(examples(tokenizer, objective="left_to_right").batch(0))
    batch = {name: values % model.config.vocab_size if "ids" in name else values for name, values in batch.items()}
    ids, mask = batch["input_ids"], batch["attention_mask"]
    batch["masked_labels"] = torch.where(mask[:, 1:] == 1, ids[:, 1:], IGNORED)
    labels = torch.where(mask == 1, ids, IGNORED)
    expected = model(ids, attention_mask=mask, token_type_ids=batch["token_type_ids"], labels=labels).loss
    torch.testing.assert_close(pretraining.pretraining_loss(model, batch), expected)


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


def test_shared_layers_are_one_block(tmp_path: Path, tokenizer: Tokenizer) -> None:
    settings = recipe(share_layers=True, next_sentence="sentence_order", alone_share=0.4)
    encoder = load_encoder(str(made(tmp_path, settings)), device="cpu")
    assert len(encoder.model.blocks) == 2
    assert len(set(map(id, encoder.model.blocks))) == 1
    assert encoder.has_masked_lm_head
    model = AlbertForPreTraining.from_pretrained(tmp_path).eval()
    size = sum(weight.numel() for weight in model.albert.encoder.parameters())
    deeper = pretraining.new_model(settings.model_copy(update={"layers": 12}), model.config.vocab_size)
    assert sum(weight.numel() for weight in deeper.albert.encoder.parameters()) == size
    batch = tensors(examples(tokenizer, next_sentence="sentence_order", alone_share=0.0, max_pieces=64).batch(0))
    batch["input_ids"] %= model.config.vocab_size
    labels = torch.full_like(batch["input_ids"], IGNORED).scatter(1, batch["masked"], batch["masked_labels"])
    labels = torch.where(labels >= model.config.vocab_size, IGNORED, labels)
    batch["masked_labels"] = labels.gather(1, batch["masked"])
    given = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    expected = model(**given, labels=labels, sentence_order_label=batch["next_labels"]).loss
    torch.testing.assert_close(pretraining.pretraining_loss(model, batch), expected)


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
        recipe(objective="replaced_tokens", generator_share=0.5, dropout=0.1),
        recipe(objective="spans", masking="static"),
        frozen(tokenizer="extended"),
    ],
    ids=["replaced", "spans", "continued"],
)
def test_a_killed_run_resumes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: PretrainSettings
) -> None:
    whole = made(tmp_path / "whole", settings)
    loss, taken = pretraining.pretraining_loss, iter(range(100))

    def dies(*args: Any, **options: Any) -> torch.Tensor:
        if next(taken) == 3:
            raise KeyboardInterrupt
        found: torch.Tensor = loss(*args, **options)
        return found

    monkeypatch.setattr(pretraining, "pretraining_loss", dies)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "killed", settings)
    killed = made(tmp_path / "killed", settings)
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    records = [json.loads((folder / "training.json").read_text()) for folder in (whole, killed)]
    assert records[0] == records[1]
    assert [point["step"] for point in records[0]["held_out"]] == [2, 4]
    assert [point["pieces"] for point in records[0]["held_out"]] == [512, 1024]
    assert all(point["bits"] > 0 for point in records[0]["held_out"])


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_from": "no-such-folder/x"}, r"start_from: no-such-folder/x cannot be loaded \(.*\); give a masked"),
        ({"start_from": "pocket", "max_pieces": 128}, "max_pieces: 128 is more than the 64 of"),
    ],
)
def test_a_model_that_training_cannot_start_from(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BertologyError, match=message) as caught:
        made(tmp_path, recipe(*OF_SHAPE, **changes))
    assert "\n" not in str(caught.value)
