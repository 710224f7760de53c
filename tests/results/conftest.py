"""Rows as a run would write them, of scores made up here."""

import json

import numpy as np
import pytest

from bertology.measures import bootstrap, compare, count_labels, selectivity
from bertology.results import Predictions, ResultRow, Results, comparison_rows, score_of

LABELS = ("NOUN", "VERB", "ADJ", "DET", "ADP", "X")
RATES = {"pos": (0.80, 0.88, 0.93, 0.932, 0.915, 0.90), "ner": (0.70, 0.76, 0.80, 0.86, 0.90, 0.90)}


def _identity(task, **more):
    return {
        "experiment": "made-up",
        "task": task,
        "task_version": "v1",
        "corpus": "pocket",
        "corpus_fingerprint": "c0ffee",
        "split": "test",
        "language": "en",
        "n_train": 5000,
        "n_classes": len(LABELS) - 1,
        "n_skipped": 3,
        "skip_reasons": json.dumps({"no piece": 2, "too long": 1}),
        "n_unseen_label": 2,
        **more,
    }


def made_up_results(tasks=("pos",), *, n_seeds=1, n_sentences=300, n_layers=5, controls=True, **more):
    """Results of a model of five blocks whose layers are right as often as ``RATES`` says."""
    rows, comparisons, predictions = [], [], {}
    for task in tasks:
        rng = np.random.default_rng(sorted(RATES).index(task))
        sizes = rng.poisson(9, n_sentences) + 2
        cluster = np.repeat(np.arange(n_sentences), sizes)
        gold = rng.choice(len(LABELS), len(cluster), p=[0.4, 0.25, 0.15, 0.12, 0.079, 0.001])
        noise = rng.random(len(cluster))
        sizes_of = {"n_items": len(cluster), "n_clusters": n_sentences}

        def answers(rates, *, rng=rng, gold=gold, noise=noise):
            right = (noise * 0.7 + rng.random((len(rates), len(gold))) * 0.3) < np.array(rates)[:, None]
            return np.where(right, gold, (gold + 1) % (len(LABELS) - 1))

        def scored(pred, *, gold=gold, cluster=cluster):
            counts = count_labels(gold, pred, cluster, n_labels=len(LABELS), n_clusters=n_sentences)
            return bootstrap(counts, ["accuracy", "macro_f1"], labels=LABELS, n_resamples=500)

        def cell(name, found, column, *, task=task, sizes_of=sizes_of, **fields):
            for metric in found:
                yield ResultRow(
                    **_identity(task, **sizes_of, cell_id=name, main_metric=metric == "accuracy", **fields, **more),
                    **score_of(found[metric], column),
                )

        model = {
            "model": "pocket",
            "n_layers": n_layers,
            "pooling": "mean",
            "readout": "linear",
            "readout_version": "v1",
        }
        for seed in range(n_seeds):
            rates = RATES[task][: n_layers + 1]
            pred = answers(rates)
            found = scored(pred)
            fingerprint = {"model_fingerprint": "beef", "init": "pretrained", "seed": seed}
            for layer in range(n_layers + 1):
                name = f"{task}-{seed}-{layer}"
                rows += cell(name, found, layer, layer=layer, **model, **fingerprint)
                predictions[name] = Predictions(
                    item_ids=[f"s{c}:{i}" for i, c in enumerate(cluster)],
                    cluster=cluster,
                    cluster_ids=[f"s{c}" for c in range(n_sentences)],
                    gold=gold,
                    pred=pred[layer],
                    score=np.log(noise + 1e-6),
                    labels=LABELS,
                )
            if seed == 0:
                best = found["accuracy"]
                comparisons += comparison_rows(
                    compare(best.values, best.replicates, n_clusters=n_sentences),
                    family=f"{task}/accuracy",
                    metric="accuracy",
                    cells=[f"{task}-0-{layer}" for layer in range(n_layers + 1)],
                    layers=range(n_layers + 1),
                )
            if not controls:
                continue
            random = scored(answers([rate - 0.2 for rate in rates]))
            control = scored(answers([0.75 - 0.03 * layer for layer in range(n_layers + 1)]))["accuracy"]
            selective = selectivity(found["accuracy"], control)
            for layer in range(n_layers + 1):
                common = {"layer": layer, "seed": seed, **model}
                unpretrained = {"model_fingerprint": f"r{seed}", "init": "random"}
                rows += cell(f"{task}-{seed}-{layer}-random", random, layer, **common, **unpretrained)
                of_control = {"control": "control_task", "model_fingerprint": "beef", "init": "pretrained"}
                both = {"accuracy": control, "selectivity": selective}
                rows += cell(f"{task}-{seed}-{layer}-control", both, layer, **common, **of_control)
        if controls:
            for name, rate in (("majority", 0.40), ("word_majority", 0.82)):
                rows += cell(f"{task}-{name}", scored(answers([rate])), 0, control=name)
    return Results(tuple(rows), tuple(comparisons), predictions)


@pytest.fixture(scope="session")
def made_up():
    """The function that makes results up."""
    return made_up_results


@pytest.fixture(scope="session")
def pos():
    """One task, one seed, with all controls."""
    return made_up_results()


@pytest.fixture(scope="session")
def two_tasks():
    """Two tasks, two seeds."""
    return made_up_results(("pos", "ner"), n_seeds=2)
