"""Circuits: against passes written out by hand, total gradients, a linear model, and a planted path."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertology.causal import PatchPair, agreement_pairs, circuit
from bertology.causal.circuits import SIZES, Graph, _Runs
from bertology.causal.patching import Cell, Passes
from bertology.causal.targets import Decision, Target, align_pairs, ids_of
from bertology.encoders import Encoder
from bertology.errors import BertologyError, ClozeError, ModelError

PAIR = PatchPair("The guards near the dog [MASK] open.", "The guard near the dog [MASK] open.", "are", "is")


def _runs(encoder: Encoder, *pairs: PatchPair) -> _Runs:
    rows: Any = align_pairs(encoder, pairs, by_word=False)
    assert not any(isinstance(one, str) for one in rows), rows
    graph = Graph(encoder.n_layers, encoder.n_heads)
    return _Runs(Decision(encoder, rows), ids_of(rows, 0), ids_of(rows, 1), graph)


class _ByHand:
    """The forward pass of BERT written out: what nodes read is made from what the nodes below them wrote."""

    def __init__(self, encoder: Encoder, pair: PatchPair = PAIR) -> None:
        self.model: Any = encoder.model.with_head
        self.graph = Graph(encoder.n_layers, encoder.n_heads)
        aligned: Any = align_pairs(encoder, [pair], by_word=False)[0]
        self.ids, self.mask, self.words = aligned.ids, aligned.mask, aligned.candidates
        self.text, self.other = map(self.plain, self.ids)

    def read(self, values: list[Tensor], place: int) -> Tensor:
        """What the nodes of a place read."""
        state = values[0]
        for below, block in enumerate(self.model.bert.encoder.layer):
            if place == 2 * below + 1:
                return state
            attention = block.attention.output
            state = attention.LayerNorm(attention.dense(values[2 * below + 1]) + state)
            if place == 2 * below + 2:
                return state
            state = block.output.LayerNorm(values[2 * below + 2] + state)
        return state

    def write(self, place: int, read: Tensor) -> Tensor:
        """What the nodes of a place make of it; the output the difference of two logits."""
        if place > 2 * self.graph.n_layers:
            logits = self.model.cls(read)[0, self.mask]
            return logits[self.words[0]] - logits[self.words[1]]
        block = self.model.bert.encoder.layer[(place - 1) // 2]
        return block.attention.self(read)[0] if place % 2 else block.output.dense(block.intermediate(read))

    def onward(self, values: list[Tensor]) -> list[Tensor]:
        """Values of all places, the last one the score, given those of the lower ones."""
        values = list(values)
        for place in range(len(values), 2 * self.graph.n_layers + 2):
            values.append(self.write(place, self.read(values, place)))
        return values

    def plain(self, ids: Any) -> list[Tensor]:
        return self.onward([self.model.bert.embeddings(torch.tensor(ids)[None])])

    def dims(self, node: int) -> slice:
        """Dimensions of a node among those of its place."""
        place = int(self.graph.places[node])
        if place % 2 == 0:
            return slice(None)
        width = self.text[1].shape[-1] // self.graph.n_heads
        head = node - self.graph.nodes(place).start
        return slice(head * width, (head + 1) * width)

    def circuit(self, edges: Any) -> float:
        """The score of a circuit, one node after the other."""
        own = [self.text[0], *map(torch.clone, self.other[1:-1])]
        for node in range(1, len(self.graph.places)):
            mixed, place = [one.clone() for one in self.other[:-1]], int(self.graph.places[node])
            for source in (source for source, target in self.graph.edges[edges].tolist() if target == node):
                at, dims = int(self.graph.places[source]), self.dims(source)
                mixed[at][..., dims] = own[at][..., dims]
            written = self.write(place, self.read(mixed, place))
            if node == len(self.graph.places) - 1:
                return float(written)
            own[place][..., self.dims(node)] = written[..., self.dims(node)]
        raise AssertionError


def test_a_circuit_is_what_nodes_make_of_chosen_values(encoder: Encoder) -> None:
    by_hand, runs = _ByHand(encoder), _runs(encoder, PAIR)
    random, n_edges = np.random.default_rng(0), len(by_hand.graph.edges)
    assert n_edges == 207  # to heads and feed-forward parts 4·1 + 5, 4·6 + 10, 4·11 + 15, 4·16 + 20; 21 to the output
    for share in (0.0, 0.3, 0.6, 0.9, 1.0):
        edges = np.flatnonzero(random.random(n_edges) < share)
        with torch.no_grad():
            expected = by_hand.circuit(edges)
        assert float(runs.circuit_scores(edges)) == pytest.approx(expected, abs=1e-4), share
    assert float(runs.scores) == pytest.approx(float(by_hand.text[-1]), abs=1e-4)
    assert float(runs.other_scores) == pytest.approx(float(by_hand.other[-1]), abs=1e-4)


def test_edges_into_a_node_sum_to_the_effect_of_its_whole_input(encoder: Encoder) -> None:
    """The derivative along a shift of all that the node reads at once, with the gradient of the score at its output."""
    by_hand = _ByHand(encoder)
    graph, found = by_hand.graph, _runs(encoder, PAIR).edge_changes(steps=1)
    values = [one.detach() for one in by_hand.text]
    shifts = [other.detach() - own for own, other in zip(values, by_hand.other, strict=True)]
    for node in range(1, len(graph.places)):
        place, gradient = int(graph.places[node]), torch.ones(1)
        if place < len(values) - 1:
            leaf = values[place].clone().requires_grad_(True)
            (gradient,) = torch.autograd.grad(by_hand.onward([*values[:place], leaf])[-1], leaf)
        along = torch.zeros((), requires_grad=True)
        shifted = [own + along * shift for own, shift in zip(values, shifts, strict=True)]
        written = by_hand.write(place, by_hand.read(shifted, place))
        (expected,) = torch.autograd.grad((written * gradient)[..., by_hand.dims(node)].sum(), along)
        assert float(found[graph.edges[:, 1] == node].sum()) == pytest.approx(float(expected), abs=2e-4), node


def _drawn(family: str, tokenizer: Any) -> Any:
    import transformers as hf

    plain = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    plain |= {"intermediate_size": 24, "max_position_embeddings": 64, "initializer_range": 0.3}
    plain["pad_token_id"] = tokenizer.pad_token_id
    if family == "distilbert":
        names = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "initializer_range": 0.3}
        return hf.DistilBertForMaskedLM(hf.DistilBertConfig(vocab_size=len(tokenizer), **names))
    if family == "roberta":
        return hf.RobertaForMaskedLM(hf.RobertaConfig(**plain))
    if family == "label":
        return hf.BertForSequenceClassification(hf.BertConfig(**plain, num_labels=3))
    special = dict.fromkeys(("bos_token_id", "cls_token_id"), tokenizer.cls_token_id)
    special |= dict.fromkeys(("eos_token_id", "sep_token_id"), tokenizer.sep_token_id)
    return hf.ModernBertForMaskedLM(hf.ModernBertConfig(**plain, **special))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "modernbert", "label"])
def test_edges_out_of_a_node_sum_to_its_attribution(family: str, encoder: Encoder) -> None:
    """The total gradient of attribution patching, of families whose norms stand before, behind or in between."""
    pair = PAIR
    if family != "bert":
        with torch.random.fork_rng():
            torch.manual_seed(3)
            encoder = Encoder.from_model(_drawn(family, encoder.tokenizer), encoder.tokenizer)
    if family == "label":
        pair = PatchPair("The guards open.", "The guard open.", target=Target("label", "LABEL_0", "LABEL_2"))
    runs = _runs(encoder, pair)
    graph = Graph(encoder.n_layers, encoder.n_heads)
    rows: Any = align_pairs(encoder, [pair], by_word=False)
    every = np.arange(len(rows[0].ids[0]))
    cells = [Cell(f"H{head}", every, head) for head in range(1, encoder.n_heads + 1)]
    for steps in (1, 3):
        found = runs.edge_changes(steps=steps)[:, 0]
        sums = torch.zeros(len(graph.places) - 1, dtype=torch.float64)
        sums.index_add_(0, torch.from_numpy(graph.edges[:, 0]), found)
        assert float(sums.abs().max()) > 0.01
        for site, of_cells, start in (("hidden_state", [Cell("all", every)], 0), ("head", cells, 1)):
            passes = Passes(Decision(encoder, rows), ids_of(rows, 1), ids_of(rows, 0), site=site)  # type: ignore[arg-type]
            layers = [0] if site == "hidden_state" else list(range(1, encoder.n_layers + 1))
            expected = passes.linear_changes(layers, [(0, cell) for cell in of_cells], steps=steps)
            for row, layer in enumerate(layers):
                nodes = graph.nodes(2 * layer - start)
                np.testing.assert_allclose(sums[nodes], expected[row], atol=2e-4, err_msg=f"{site} {layer}")
    assert float(runs.circuit_scores(range(len(graph.edges)))) == pytest.approx(float(runs.scores), abs=1e-4)


class _Values(nn.Module):
    """Attention in which each place sees itself alone."""

    def __init__(self, value: nn.Module) -> None:
        super().__init__()
        self.value = value

    def forward(self, state: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
        return self.value(state), None


def test_edges_of_a_linear_model_have_their_exact_effects(tiny_bert: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model = AutoModelForMaskedLM.from_pretrained(tiny_bert)
    for block in model.bert.encoder.layer:
        block.attention.self = _Values(block.attention.self.value)
        block.attention.output.LayerNorm = block.output.LayerNorm = nn.Identity()
        block.intermediate.intermediate_act_fn = nn.Identity()
    model.cls.predictions.transform = nn.Identity()
    encoder = Encoder.from_model(model, AutoTokenizer.from_pretrained(tiny_bert))
    # No piece sees another: the other text is the text with embeddings that are shifted everywhere.
    pair = PatchPair("The dog [MASK].", "The dog [MASK].", "the", "dog")
    by_hand, runs = _ByHand(encoder, pair), _runs(encoder, pair)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        shifted = by_hand.text[0] + torch.randn_like(by_hand.text[0])
        by_hand.other = by_hand.onward([shifted])
    runs._of_other = [one.detach() for one in by_hand.other[:-1]]
    found, every = runs.edge_changes(steps=1)[:, 0], np.arange(len(by_hand.graph.edges))
    with torch.no_grad():
        scores = [by_hand.circuit(np.delete(every, edge)) for edge in every]
    exact = torch.tensor(scores, dtype=torch.float64) - runs.scores
    assert float(exact.abs().max()) > 0.1
    np.testing.assert_allclose(found, exact, atol=1e-3)
    np.testing.assert_allclose(runs.exact_changes()[:, 0], exact, atol=1e-3)


@pytest.fixture(scope="module")
def planted(encoder: Encoder) -> Encoder:
    """The embedded model in which only head L2H3 writes to the residual stream."""
    model: Any = copy.deepcopy(encoder.model.with_head)
    width = encoder.dim // encoder.n_heads
    with torch.no_grad():
        for number, block in enumerate(model.bert.encoder.layer, 1):
            block.output.dense.weight.zero_()
            kept = block.attention.output.dense.weight[:, 2 * width : 3 * width].clone()
            block.attention.output.dense.weight.zero_()
            if number == 2:
                block.attention.output.dense.weight[:, 2 * width : 3 * width] = 10 * kept
    return Encoder.from_model(model, encoder.tokenizer)


def test_a_planted_path_is_found_and_makes_the_whole_prediction(planted: Encoder) -> None:
    nouns = ("guard", "cook", "dog")
    pairs = [PatchPair(f"The {noun}s [MASK] open.", f"The {noun} [MASK] open.", "are", "is") for noun in nouns]
    found = circuit(planted, pairs, rankings=("eap_ig", "eap", "exact", "random"))
    assert {*found.edges.source[:2], *found.edges.target[:2]} == {"embeddings", "L2H3", "output"}
    assert (found.edges.score[2:].abs() < 1e-6).all()
    for name in ("eap_ig", "eap", "exact"):
        curve = found.curve.query(f"ranking == '{name}' and by == '|score|' and measure == 'faithfulness'")
        expected = [float(int(size * 207) >= 2) for size in SIZES]
        assert curve.value.tolist() == pytest.approx(expected, abs=1e-4)
    random = found.curve.query("ranking == 'random'").set_index("measure").value
    assert random["CPR"] < found.cpr - 0.2
    assert random["CMD"] > found.cmd + 0.2


def test_measures_are_areas_of_the_curve(encoder: Encoder) -> None:
    found = circuit(encoder, agreement_pairs(most=6, structure="prepositional"), rankings=("eap_ig",))
    for by in ("score", "|score|"):
        curve = found.curve[found.curve.by == by].set_index("measure")
        reached = curve.value.to_numpy()[: len(SIZES)]
        assert curve.value["CPR"] == pytest.approx(np.trapezoid(reached, SIZES))
        assert curve.value["CMD"] == pytest.approx(np.trapezoid(np.abs(1 - reached), SIZES))
        assert (curve.ci_low <= curve.value + 1e-9).all()
        assert (curve.value <= curve.ci_high + 1e-9).all()
        assert {"score": found.cpr, "|score|": found.cmd}[by] == curve.value["CPR" if by == "score" else "CMD"]
    lost = (found.scores[0] - found.scores[1]).sum()
    assert found.edges.score.sum() == pytest.approx(-found.changes.sum() / lost)
    assert (found.edges.ci_low <= found.edges.score + 1e-9).all()
    assert "embeddings → L1 feed-forward" in str(found)


def test_each_half_of_the_pairs_runs_the_circuit_of_the_other(encoder: Encoder) -> None:
    pairs = [PAIR, PatchPair("The cook [MASK] open.", "The cooks [MASK] open.", "is", "are")]
    found = circuit(encoder, pairs, rankings=("eap",))
    for at, size in enumerate(SIZES):
        reached = []
        for pair, ranked in zip(pairs, found.changes.T[::-1], strict=True):
            reached.append(float(_runs(encoder, pair).circuit_scores(np.argsort(ranked)[: int(size * 207)])))
        expected = (np.array(reached) - found.scores[1]).sum() / (found.scores[0] - found.scores[1]).sum()
        assert found.curve.value[at] == pytest.approx(expected, abs=1e-4)


def test_one_pair_has_no_interval_and_is_drawn(encoder: Encoder, tmp_path: Path) -> None:
    found = circuit(encoder, PAIR, steps=2)
    assert found.to_pandas().ci_low.isna().all()
    assert "on the same pairs" in str(found)
    drawn = found.save(tmp_path / "circuit.svg").read_text(encoding="utf-8")
    assert "L1 FF" in drawn
    assert "the 30 strongest of 207 edges" in drawn


_MISTAKES: list[tuple[Any, dict[str, Any], type[BertologyError], str]] = [
    (PatchPair(PAIR.text, PAIR.other, PAIR.bad, PAIR.good), {}, ClozeError, "not lower: exchange the two"),
    (PatchPair(PAIR.text, "", "are", "is"), {}, ClozeError, "not lower: exchange the two"),
    ([], {}, ClozeError, "no pair"),
    (PAIR, {"rankings": ("random",)}, ClozeError, "the first one gives the scores"),
    (PAIR, {"rankings": ("ig",)}, BertologyError, "unknown ranking of edges"),
    (PAIR, {"steps": 0}, ClozeError, "0 steps"),
    ([PAIR, PatchPair(PAIR.text, PAIR.other, "are")], {}, ClozeError, "one word and with two"),
]


@pytest.mark.parametrize(("pairs", "settings", "kind", "problem"), _MISTAKES)
def test_mistakes(encoder: Encoder, pairs: Any, settings: Any, kind: type[BertologyError], problem: str) -> None:
    with pytest.raises(kind, match=problem):
        circuit(encoder, pairs, **settings)


def test_another_writer_to_the_residual_stream_is_refused(encoder: Encoder) -> None:
    model: Any = copy.deepcopy(encoder.model.with_head)
    block, embed, seen = model.bert.encoder.layer[1], model.bert.embeddings.word_embeddings, list[Tensor]()
    embed.register_forward_hook(lambda _, args, output: seen.append(output))
    block.register_forward_hook(lambda _, args, output: output + seen[-1][:, 2:3])
    with pytest.raises(ModelError, match="not only heads and feed-forward parts write"):
        circuit(Encoder.from_model(model, encoder.tokenizer), PAIR)
