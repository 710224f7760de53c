"""Cloze beside the fill-mask pipeline, a loop written by hand, and minicons, and its peak memory.

    python -m benchmarks.cloze [--facts 600] [--pairs 60] [--times 10]

Facts are LAMA's (T-REx): each is asked for the best ten, and of the answer for its log-probability and rank; the
pipeline gives the best ten alone. The answers of all layers stand beside the same, since it has no way to give those.
Pairs are BLiMP's, scored as wholes; minicons joins in for both where it is installed (``pip install --no-deps minicons
wonderwords``), with the same weights in the same precision, in batches of ten pairs. A fair peer of both is a loop that
one would write by hand: inputs sorted by length, in padded batches of 32, the head at the masks alone. Memory is that
of a process of its own that asks so many different prompts, and so many times as many.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks._common import CORPUS, MODEL, Line, show, side_by_side
from benchmarks.memory import peak
from bertology.cloze import MASK, Prompt, ask, pseudo_log_likelihood
from bertology.encoders import Encoder, load_encoder

_PAIRS_AT_ONCE = 10
_ROWS_AT_ONCE = 32
_PROMPTS = """
import sys
from bertology.cloze import Prompt, ask
from bertology.encoders import load_encoder
encoder = load_encoder(sys.argv[2], device="cpu")
prompts = [Prompt(f"Number {number} was born in {{mask}} .", ("paris", "london")) for number in range(int(sys.argv[3]))]
scores = ask(encoder, prompts, ranks=True, top=10)
print(len(scores.prompts))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--facts", type=int, default=600)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(args.facts, n_pairs=args.pairs, times=args.times, repeats=args.repeats))


def run(n_facts: int, *, n_pairs: int, times: int, repeats: int) -> list[Line]:
    """The lines of the table."""
    encoder = load_encoder(str(MODEL), device="cpu")
    prompts = facts(n_facts)
    pipe = fill_mask(encoder, prompts)
    lines = []
    for warm in (asked(encoder, prompts[:50], None), fill_mask(encoder, prompts[:5])):
        warm()
    for what, layers in (("the last layer", None), ("all layers", range(encoder.n_layers + 1))):
        ours = asked(encoder, prompts, layers)
        what = f"(i) facts of LAMA, {what} ÷ fill-mask, last layer"
        lines.append(side_by_side(what, ours, pipe, repeats=repeats, aim="≤ 0.2" if layers is None else ""))
    what, pipe = "(i) facts of LAMA, the last layer ÷ fill-mask, 20 at a time", fill_mask(encoder, prompts, 20)
    lines.append(side_by_side(what, asked(encoder, prompts, None), pipe, repeats=repeats, aim="≤ 0.3"))
    loop, texts = facts_by_length(encoder, prompts), pairs(n_pairs)
    what = "(i) facts of LAMA, the last layer ÷ sorted batches, head at the masks alone"
    lines.append(side_by_side(what, asked(encoder, prompts, None), loop, repeats=repeats, aim="≤ 0.8"))
    what = "(j) pairs of BLiMP ÷ sorted batches, head at the masks alone"
    loop = pairs_by_length(encoder, texts)
    lines.append(side_by_side(what, scored(encoder, texts), loop, repeats=repeats, aim="≤ 0.75"))
    if importlib.util.find_spec("minicons"):
        ours = asked(encoder, prompts, None)
        for what, step in (("one at a time", 1), (f"{2 * _PAIRS_AT_ONCE} at a time", 2 * _PAIRS_AT_ONCE)):
            theirs = minicons_facts(encoder, prompts, step)
            what = f"(i) facts of LAMA, the last layer ÷ minicons, {what}"
            lines.append(side_by_side(what, ours, theirs, repeats=repeats, aim="≤ 0.2"))
        what = "(j) pairs of BLiMP ÷ minicons"
        ours = scored(encoder, texts)
        for warm in (scored(encoder, texts[:4]), minicons(encoder, texts[:4])):
            warm()
        lines.append(side_by_side(what, ours, minicons(encoder, texts), repeats=repeats, aim="≤ 0.33"))
    lines.append(memory(len(prompts), times))
    return lines


def facts(n_facts: int) -> list[Prompt]:
    """Facts of all relations in turn, each a template filled in."""
    folder = CORPUS.parent / "lama" / "data"
    with (folder / "relations.jsonl").open(encoding="utf-8") as file:
        templates = {line["relation"]: line["template"] for line in map(json.loads, file)}
    files = sorted((folder / "TREx").glob("*.jsonl"))
    found = []
    for path in files:
        with path.open(encoding="utf-8") as file:
            lines = [json.loads(line) for _, line in zip(range(-(-n_facts // len(files))), file, strict=False)]
        template = templates[path.stem].replace("[Y]", MASK)
        found += [Prompt(template.replace("[X]", line["sub_label"]), (line["obj_label"],)) for line in lines]
    return found[:n_facts]


def pairs(n_pairs: int) -> list[str]:
    """Sentences of BLiMP, the good and the bad one of a pair in turn."""
    files = sorted((CORPUS.parent / "blimp" / "data").glob("*.jsonl"))
    texts = []
    for path in files:
        with path.open(encoding="utf-8") as file:
            for _, line in zip(range(-(-n_pairs // len(files))), map(json.loads, file), strict=False):
                texts += [line["sentence_good"], line["sentence_bad"]]
    return texts[: 2 * n_pairs]


def asked(encoder: Encoder, prompts: Sequence[Prompt], layers: Sequence[int] | None) -> Callable[[], object]:
    return lambda: ask(encoder, prompts, layers=layers, ranks=True, top=10)


def scored(encoder: Encoder, texts: Sequence[str]) -> Callable[[], object]:
    return lambda: pseudo_log_likelihood(encoder, texts)


def fill_mask(encoder: Encoder, prompts: Sequence[Prompt], batch_size: int = 1) -> Callable[[], object]:
    """Prompts through Hugging Face's pipeline, so many at a time."""
    from transformers import pipeline

    model: Any = encoder.model.with_head
    pipe = pipeline("fill-mask", model=model, tokenizer=encoder.tokenizer, top_k=10, device="cpu")
    texts = [prompt.written(encoder.mask_token) for prompt in prompts]
    return lambda: pipe(texts, batch_size=batch_size)


def facts_by_length(encoder: Encoder, prompts: Sequence[Prompt]) -> Callable[[], object]:
    """The best ten, and of the answer the log-probability and rank."""
    texts = [prompt.written(encoder.mask_token) for prompt in prompts]
    answers: list[int] = encoder.tokenizer.convert_tokens_to_ids(
        [str(prompt.candidates[0]).lower() for prompt in prompts]
    )

    def job() -> list[Any]:
        ids: list[list[int]] = encoder.tokenizer(texts)["input_ids"]
        found = []
        for logs, wanted in _by_length(encoder, list(zip(ids, answers, strict=True))):
            own = logs.gather(1, wanted[:, None])
            found.append((logs.topk(10), own, (logs > own).sum(1) + 1))
        return found

    return job


def pairs_by_length(encoder: Encoder, texts: Sequence[str]) -> Callable[[], object]:
    """Log-probabilities of every piece where it is masked; equal masked sentences of a pair are read twice."""

    def job() -> list[Any]:
        rows = []
        for ids in encoder.tokenizer(list(texts))["input_ids"]:
            for place in range(1, len(ids) - 1):
                rows.append(([*ids[:place], encoder.mask_id, *ids[place + 1 :]], ids[place]))
        return [logs.gather(1, wanted[:, None]) for logs, wanted in _by_length(encoder, rows)]

    return job


def _by_length(encoder: Encoder, rows: list[tuple[list[int], int]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Log-probabilities ``[row, entry]`` at the mask of inputs with a number each, which go with them."""
    model: Any = encoder.model.with_head
    rows = sorted(rows, key=lambda row: len(row[0]))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        batch = encoder.tokenizer.pad({"input_ids": [ids for ids, _ in part]}, return_tensors="pt")
        with torch.inference_mode():
            hidden = model.bert(batch["input_ids"], batch["attention_mask"]).last_hidden_state
            logits = model.cls(hidden[batch["input_ids"] == encoder.mask_id])
            yield logits.log_softmax(1), torch.tensor([wanted for _, wanted in part])


def minicons_scorer(encoder: Encoder) -> Any:
    from minicons.scorer import MaskedLMScorer
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    # A method that transformers 5 took away and minicons still calls.
    tokenizer.batch_encode_plus = tokenizer.__call__
    return MaskedLMScorer(encoder.model.with_head, "cpu", tokenizer=tokenizer)


def minicons_facts(encoder: Encoder, prompts: Sequence[Prompt], step: int) -> Callable[[], object]:
    """The distribution at the masks of ``step`` prompts at a time, and out of it the best ten."""
    peer = minicons_scorer(encoder)
    queries = [(prompt.text.replace(MASK, "blankword"), "blankword") for prompt in prompts]
    parts = [queries[start : start + step] for start in range(0, len(queries), step)]
    return lambda: [peer.cloze_distribution(part).topk(10) for part in parts]


def minicons(encoder: Encoder, texts: Sequence[str]) -> Callable[[], object]:
    """Some pairs at a time, as its own examples do."""
    peer = minicons_scorer(encoder)
    step = 2 * _PAIRS_AT_ONCE
    parts = [list(texts[start : start + step]) for start in range(0, len(texts), step)]
    return lambda: [peer.sequence_score(part, reduction=lambda scores: scores.sum().item()) for part in parts]


def memory(n_prompts: int, times: int) -> Line:
    """Peak memory of many prompts, and of so many times as many."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = (peak(_PROMPTS, Path(folder), Path(folder), str(n))[0] for n in (n_prompts, times * n_prompts))
    ratio = large / small
    detail = f"{large / 1e6:.0f} MB ÷ {small / 1e6:.0f} MB"
    return Line(f"(k) peak memory, {times}× prompts ÷ prompts", ratio, (ratio, ratio), "≤ 1.2", detail)


if __name__ == "__main__":
    main()
