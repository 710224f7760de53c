"""Edge probes fitted side by side are single probes, written as they are usually written, on the same batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertology._workers import Workers
from bertology.readouts import EdgeReadout
from bertology.readouts._edge import Design, Shuffle, SpanWindow, TrainingWindows
from tests.readouts.spans import Spans, edge_loop, planted

N_STEPS = 12


class PlainProbe(nn.Module):
    """One layer, two spans, one item at a time."""

    def __init__(self, start: dict[str, Tensor]) -> None:
        super().__init__()
        width, projected = start["project_0"].shape
        self.projections = [nn.Linear(width, projected) for _ in range(2)]
        self.attentions = [nn.Linear(projected, 1, bias=False) for _ in range(2)]
        self.spans = nn.ModuleList([*self.projections, *self.attentions])
        hidden = start["hidden"].shape[1]
        self.first = nn.Linear(2 * projected, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, start["out"].shape[1])
        with torch.no_grad():
            for span in range(2):
                self.projections[span].weight.copy_(start[f"project_{span}"].T)
                self.projections[span].bias.copy_(start[f"project_{span}_bias"][0])
                self.attentions[span].weight.copy_(start[f"attend_{span}"].T)
            for module, name in ((self.first, "hidden"), (self.out, "out")):
                module.weight.copy_(start[name].T)
                module.bias.copy_(start[f"{name}_bias"][0])

    def forward(self, words: Tensor, spans: Tensor, mask: Tensor) -> Tensor:
        rows = []
        for item in spans:
            pooled = []
            for span, (low, high) in enumerate(item.tolist()):
                projected = self.projections[span](words[low:high])
                pooled.append(self.attentions[span](projected).softmax(0).T @ projected)
            rows.append(torch.cat(pooled, dim=1)[0])
        scores: Tensor = self.out(self.norm(self.first(torch.stack(rows)).tanh()) * mask)
        return scores


@pytest.mark.parametrize("is_sigmoid", [False, True])
def test_side_by_side_is_one_by_one(is_sigmoid: bool) -> None:
    train = planted(300, 5, multi=is_sigmoid)
    design = Design(((0,), (1,), (2,)), "one", 8, (0, 1), 3, "attention", projection=6, hidden=10)
    start, window = design.start(1, seed=3), first_window(train)
    with Workers(torch.device("cpu")) as workers:
        loop = edge_loop(train, design, workers, is_sigmoid=is_sigmoid)
        loop.learn_window(window)
        loop.keep(np.ones((1, 3), dtype=bool))
    found = loop.best
    for layer in range(3):
        probe = by_hand(train, layer, window, {name: value[0, layer] for name, value in start.items()}, is_sigmoid)
        for mine, theirs in (
            (found["project_1"][0, layer], probe.projections[1].weight.T),
            (found["attend_0"][0, layer], probe.attentions[0].weight.T),
            (found["norm"][0, layer, 0], probe.norm.weight),
            (found["out"][0, layer], probe.out.weight.T),
        ):
            torch.testing.assert_close(mine, theirs.detach(), atol=2e-4, rtol=1e-3)
        assert (found["out"][0, layer] - start["out"][0, layer]).abs().max() > 0.01


@pytest.mark.parametrize("kept", [[0, 1, 2], [0, 2], [1]])
def test_fits_that_go_on_go_on_as_if_all_did(kept: list[int]) -> None:
    train = planted(300, 5)
    design = Design(((0,), (1,), (2,)), "one", 8, (0, 1), 3, "attention", projection=6, hidden=10)
    start, window = design.start(1, seed=3), first_window(train)
    found = []
    with Workers(torch.device("cpu")) as workers:
        for fits in (kept, None):
            loop = edge_loop(train, design, workers)
            loop.learn_window(window)
            if fits is not None:
                loop.stopping.running[0] = np.isin(np.arange(3), fits)
                loop.keep(np.zeros((1, 3), dtype=bool))
                assert loop.fits == fits
            loop.learn_window(window)
            loop.keep(np.isin(np.arange(3), kept)[None])
            found.append(loop.best)
    for name, value in found[1].items():
        torch.testing.assert_close(found[0][name], value, atol=2e-5, rtol=1e-4)
        assert (value[0, kept] != start[name][0, kept]).any()


def first_window(train: Spans) -> SpanWindow:
    shuffle = Shuffle(25, torch.Generator().manual_seed(0), hidden=10, dropout=0.2)
    (window,) = TrainingWindows(train.source, torch.ones(300, dtype=torch.bool), shuffle)
    assert len(window.batches) == N_STEPS
    return window


def by_hand(train: Spans, layer: int, window: SpanWindow, start: dict[str, Tensor], is_sigmoid: bool) -> PlainProbe:
    probe = PlainProbe(start)
    optimiser = torch.optim.Adam(probe.parameters(), lr=1e-2)
    words, labels = torch.from_numpy(train.words[layer]), torch.from_numpy(train.labels)
    for batch in window.batches:
        optimiser.zero_grad()
        assert batch.dropout is not None
        scores = probe(words, torch.from_numpy(train.spans)[batch.items], batch.dropout)
        if is_sigmoid:
            truth = labels[batch.items].float()
            loss = nn.functional.binary_cross_entropy_with_logits(scores, truth, reduction="none").sum(1).mean()
        else:
            loss = nn.functional.cross_entropy(scores, labels[batch.items])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return probe


def test_how_many_workers_there_are_does_not_matter() -> None:
    train, dev = planted(400, 1, n_layers=5), planted(200, 2, n_layers=5)
    readout = EdgeReadout(projection=6, hidden=8, max_epochs=2, learning_rate=1e-2)
    before = torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            fitted = readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
            found.append(fitted.predict(dev.source).log_prob)
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-4)
