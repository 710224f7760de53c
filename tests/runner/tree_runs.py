"""One finished run of all tasks of trees, and the vectors that it read, by Hugging Face alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from bertology.corpora import Sentence, Sentences, load_corpus
from bertology.families.request import ReadoutConfig
from bertology.runner import ProbeRequest, run_probes

TASKS = ("structural_distance", "structural_depth", "structural_parse")
QUICK: dict[str, Any] = {"rank": 6, "learning_rate": 0.02, "max_epochs": 4}
LAYERS = (0, 2)
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Ran:
    """A finished run, and what it is compared with."""

    request: ProbeRequest
    run: Path
    cache: Path
    frame: pd.DataFrame
    test: Sentences
    vectors: list[Floats]
    """``[layer, word, dim]`` of each test sentence."""

    def row(self, task: str, metric: str, **where: Any) -> Any:
        chosen = self.frame[(self.frame.task == task) & (self.frame.metric == metric)]
        for name, value in {"control": "none", "seed": 0, "init": "pretrained", **where}.items():
            chosen = chosen[chosen[name].isna() if value is None else chosen[name] == value]
        (found,) = chosen.itertuples()
        return found


def asking(model: Path, corpus: str, *tasks: str, settings: dict[str, Any] = QUICK, **chosen: Any) -> ProbeRequest:
    reading = {task: (ReadoutConfig("structural", settings),) for task in tasks}
    given = {"layers": "0,2", "controls": (), "configs": reading, **chosen}
    return ProbeRequest(tasks=tasks, model=str(model), corpus=corpus, **given)


@pytest.fixture(scope="session")
def ran(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All three tasks, two seeds, float32 in the store."""
    folder = tmp_path_factory.mktemp("trees")
    request = asking(tiny_bert, str(tiny_corpus), *TASKS, seeds=2, controls=("linear_chain",), stored_dtype="float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        frame = run_probes(request, out=folder / "run").to_pandas()
    test = load_corpus(str(tiny_corpus))["test"]
    return Ran(request, folder / "run", folder / "cache", frame, test, list(vectors_of(tiny_bert, test)))


def vectors_of(folder: Path, sentences: Sentences) -> Iterator[Floats]:
    """The words of sentences as means of their pieces, by Hugging Face alone."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    return (words_of(sentence, tokenizer, model) for sentence in sentences)


def words_of(sentence: Sentence, tokenizer: Any, model: Any) -> Floats:
    """``[layer, word, dim]``"""
    pieces = tokenizer(sentence.text, return_offsets_mapping=True, return_tensors="pt")
    offsets = pieces.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        states = model(**pieces, output_hidden_states=True).hidden_states
    own = [[n for n, (a, b) in enumerate(offsets) if a < last and b > first] for first, last in sentence.spans]
    return np.stack([[states[layer][0, rows].mean(0).numpy() for rows in own] for layer in LAYERS])
