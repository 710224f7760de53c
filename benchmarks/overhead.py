"""What the runner adds to the work itself: an experiment of many cells in which there is next to nothing to compute.

    python -m benchmarks.overhead [--cells 1000] [--repeats 3] [--engine joblib|dask|serial]

A tiny encoder (four blocks of width 16) with fresh weights stands in the place of five models; four tasks are put to
its five layers, with control tasks and as many seeds as give the cells asked for: twenty units of fifty cells, and the
baselines. Their vectors are in the store beforehand. (i) is the whole of ``run_experiment`` into an empty folder: names
resolved, intervals computed, tables written and checksums taken; but no plots, whose time goes by the number of tables
and not of cells. (j) is the same less the work itself: every unit's vectors read, fitted and predicted in a loop in one
process, and nothing kept. (k) runs the finished experiment again, which finds nothing to do. All are milliseconds a
cell, medians of the repeats; the first run, in which the processes of the engine start, stands next to (i).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks._common import Line, seconds, show
from benchmarks.extraction import own_cache
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import Experiment
from bertology.runner.plan import resolve_work

_MODELS = 5
_TASKS = ("pos", "xpos", "chunk", "deprel")
_LAYERS = 5
_AIMS = {"joblib": "≤ 5 ms", "dask": "≤ 15 ms", "serial": ""}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", choices=sorted(_AIMS), default="joblib")
    args = parser.parse_args()
    if args.engine == "dask" and importlib.util.find_spec("distributed") is None:
        sys.exit("dask is not installed: pip install 'bertology[distributed]'")
    show(run(args.cells, repeats=args.repeats, engine=args.engine))


def run(n_cells: int, *, repeats: int, engine: str) -> list[Line]:
    """The lines of the table."""
    options = RunOptions(engine=engine)  # type: ignore[arg-type]
    with own_cache(), tempfile.TemporaryDirectory() as folder:
        per_seed = _MODELS * len(_TASKS) * _LAYERS * 2  # twice: the task and its control task
        experiment = trivial(Path(folder), seeds=max(1, n_cells // per_seed))
        bare_work(experiment)  # the store is filled, libraries are imported
        n_cells = resolve_work(experiment).n_cells
        out = [Path(folder) / str(number) for number in range(repeats + 1)]
        cold, *whole = [seconds(lambda o=o: run_experiment(experiment, o, options=options)) for o in out]
        again = [seconds(lambda o=o: run_experiment(experiment, o, options=options)) for o in out[1:]]
        bare = [seconds(lambda: bare_work(experiment)) for _ in range(repeats)]
    middle = statistics.median(bare)
    what = f"{n_cells:,} cells, {engine}"
    return [
        _line(
            f"(i) {what}: all of a run, ms a cell",
            whole,
            n_cells,
            _AIMS[engine],
            f"{statistics.median(whole):.1f} s; {cold:.1f} s the first time",
        ),
        _line(
            "(j) … less the fits alone in one process", [s - middle for s in whole], n_cells, "", f"− {middle:.1f} s"
        ),
        _line("(k) a second run, which has nothing to do", again, n_cells, "", f"{statistics.median(again):.1f} s"),
    ]


def _line(what: str, times: Sequence[float], n_cells: int, aim: str, detail: str) -> Line:
    each = [1000 * time / n_cells for time in times]
    return Line(what, statistics.median(each), (min(each), max(each)), aim, detail)


def trivial(folder: Path, *, seeds: int, n_models: int = _MODELS) -> Experiment:
    """An experiment of ten cells for each model, task and seed, its model made in ``folder``."""
    return Experiment.model_validate(
        {
            "name": "overhead",
            "models": [
                {"name": str(_tiny_model(folder)), "id": f"tiny-{seed}", "init": "random", "init_seed": seed}
                for seed in range(n_models)
            ],
            "corpora": [{"name": "pocket", "sentences": 40}],
            "tasks": [{"name": task, "readout": "ridge"} for task in _TASKS],
            "seeds": seeds,
            "controls": ["majority", "control_task"],
            "outputs": {"plots": []},
            "device": "cpu",
        }
    )


def bare_work(experiment: Experiment) -> None:
    """Fit and predict every unit of an experiment, one after another, and keep nothing."""
    from bertology.activations.progress import silent
    from bertology.families.contract import Resources
    from bertology.families.model_corpus import StoredSignal
    from bertology.runner.engines import Context, extract_splits, one_thread, open_encoder

    entries: dict[Any, Any] = {}
    for unit in resolve_work(experiment).units:
        pair = unit.plan.pair
        for group in () if unit.is_baseline else unit.draws:
            key = id(pair), group[0].weights
            if key not in entries:
                entries[key] = extract_splits(pair, StoredSignal(group[0].weights, "words"), Context(Path(), "cpu"))
            encoder = partial(open_encoder, pair, group[0].weights, "cpu")
            with (
                one_thread(),
                patch("bertology.results.predictions.CellFiles"),
                patch("bertology.families.vectors.CellWriter.keep_fit"),
            ):
                job = Resources(Path(), pair, "cpu", silent, encoder, {"words": entries[key]})
                for _, error in unit.family.compute([group], job):
                    if error is not None:
                        raise error


def _tiny_model(folder: Path) -> Path:
    """A configuration and tokenizer in Hugging Face layout, and weights of that shape."""
    from transformers import BertConfig, BertForMaskedLM

    from bertology.encoders import resolve_model

    made = folder / "tiny"
    if made.exists():
        return made
    made.mkdir()
    pocket = resolve_model("pocket").folder
    for path in pocket.iterdir():
        if path.name.startswith(("tokenizer", "vocab", "special_tokens")):
            (made / path.name).write_bytes(path.read_bytes())
    config = BertConfig(
        vocab_size=len((pocket / "vocab.txt").read_text(encoding="utf-8").splitlines()),
        hidden_size=16,
        num_hidden_layers=_LAYERS - 1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=256,
    )
    BertForMaskedLM(config).save_pretrained(made)
    return made


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
