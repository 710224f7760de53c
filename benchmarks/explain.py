"""Explanations of a classifier, beside captum in a loop; and attribution patching, beside the exact map.

    python -m benchmarks.explain [--texts 100] [--pairs 40] [--repeats 3]

The classifier is the shared encoder with a head of random weights; texts are those of the SST-2 corpus. Lines are
:func:`bertology.causal.attribute` divided by captum's ``LayerIntegratedGradients``, ``LayerGradientXActivation``,
``FeatureAblation`` and ``Occlusion`` for one text after the other, all methods together and each alone, with the
settings that both have by default (of integrated gradients captum takes 50 steps, and bertology 20 where these miss at
most 1 % of the score); then integrated gradients of 50 steps on either side; then the estimates of all effects by
:func:`bertology.causal.patch` with ``method="attribution"``, divided by the exact map of the same pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import torch
from captum.attr import FeatureAblation, LayerGradientXActivation, LayerIntegratedGradients, Occlusion
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from benchmarks._common import CORPUS, MODEL, Line, show, side_by_side
from benchmarks.causal import made_pairs
from bertology.causal import PatchPair, Target, attribute, patch
from bertology.causal.targets import AlignedPair, align_pairs
from bertology.corpora import load_corpus
from bertology.encoders import Encoder, load_encoder

STEPS = 50
METHODS = ("integrated_gradients", "gradient_times_input", "leave_one_out", "occlusion")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(texts=args.texts, pairs=args.pairs, repeats=args.repeats))


def run(*, texts: int = 100, pairs: int = 40, repeats: int = 3) -> list[Line]:
    """All lines."""
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, dtype=torch.float32).eval()
    encoder = Encoder.from_model(model, AutoTokenizer.from_pretrained(MODEL))
    sentences = load_corpus(CORPUS.parent / "sst2")["dev"][:texts]
    questions = [PatchPair(sentence.text, target=Target("label", "LABEL_1", "LABEL_0")) for sentence in sentences]
    aligned = [one for one in align_pairs(encoder, questions, by_word=True) if isinstance(one, AlignedPair)]
    lines = []
    for methods, steps in ((METHODS, None), *(((method,), None) for method in METHODS), (METHODS[:1], STEPS)):
        equal = f" of {steps} steps" if steps else ""
        lines.append(
            side_by_side(
                f"{len(aligned)} texts, {', '.join(methods).replace('_', ' ')}{equal} ÷ captum in a loop",
                lambda methods=methods, n=steps: attribute(encoder, questions, methods=methods, layers=[0], steps=n),
                lambda methods=methods: [by_captum(model, encoder, one, methods) for one in aligned],
                repeats=repeats,
                aim="≤ 0.5" if methods == METHODS else "",
            )
        )
    masked, some = load_encoder(str(MODEL)), made_pairs(pairs)
    lines.append(
        side_by_side(
            f"attribution patching of {len(some)} pairs ÷ exact map",
            lambda: patch(masked, some, by_word=True, method="attribution"),
            lambda: patch(masked, some, by_word=True),
            repeats=repeats,
            aim="≤ 0.1",
        )
    )
    return lines


def by_captum(model: Any, encoder: Encoder, one: AlignedPair, methods: Sequence[str]) -> list[torch.Tensor]:
    """Scores of one text by the methods of captum."""
    ids, empty = torch.from_numpy(one.ids[0])[None], torch.from_numpy(one.ids[0].copy())[None]
    for span in one.spans:
        empty[0, torch.from_numpy(span)] = encoder.mask_id
    words = torch.zeros_like(ids)  # special tokens are the feature 0, which is the same in both
    for number, span in enumerate(one.spans, 1):
        words[0, torch.from_numpy(span)] = number

    def score(some: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=some).logits
        return logits[:, 1] - logits[:, 0]

    def of_words(is_there: torch.Tensor) -> torch.Tensor:
        kept = torch.cat([torch.ones(len(is_there), 1), is_there], dim=1).bool()
        return score(torch.where(kept[:, words[0]], ids, empty))

    there = torch.ones(1, len(one.spans))
    table: Any = model.get_input_embeddings()
    how: dict[str, Callable[[], torch.Tensor]] = {
        "integrated_gradients": lambda: LayerIntegratedGradients(score, table).attribute(ids, empty, n_steps=STEPS),
        "gradient_times_input": lambda: LayerGradientXActivation(score, model.base_model.embeddings).attribute(ids),
        "leave_one_out": lambda: FeatureAblation(score).attribute(ids, empty, feature_mask=words),
        "occlusion": lambda: Occlusion(of_words).attribute(there, (min(3, len(one.spans)),), baselines=0),
    }
    return [how[method]() for method in methods]


if __name__ == "__main__":
    main()
