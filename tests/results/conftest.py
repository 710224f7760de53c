"""Rows as a run would write them, of scores made up here."""

import json

import numpy as np
import pytest

from bertology.families.contract import TaskRows, family_of
from bertology.families.rows import noted
from bertology.measures import bootstrap, compare, count_labels
from bertology.measures.intervals import selectivity
from bertology.measures.metrics import Grouped
from bertology.probing import get_probe
from bertology.results import Predictions, ResultRow, Results
from bertology.results.rows import comparison_rows, score_of


def as_noted(rows):
    """Rows with what their tasks say of controls, as a run writes them."""
    found = []
    for task in dict.fromkeys(row.task for row in rows):
        probe = get_probe(task)
        found += noted(family_of(probe), probe, TaskRows(tuple(row for row in rows if row.task == task))).rows
    return tuple(found)


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
    return Results(as_noted(rows), tuple(comparisons), predictions)


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


CLOZE_GROUPS = ("stated 10 times", "stated 2 times", "N-1 P413 position played on team / speciality")
CLOZE_METRICS = {
    "answers": ("p_at_1", "mrr", "micro_p_at_1"),
    "choices": ("choice_accuracy", "micro_choice_accuracy"),
    "changes": ("moved", "probability_lost"),
}


def _said(tally, rate, group, rng):
    """Places and log-probabilities of a layer that is right as often as ``rate`` says, in later groups less often."""
    right = rng.random(len(group)) < rate / (1 + group)
    rank = np.where(right, 1, rng.integers(2, 90, len(group)))
    score = np.where(right, np.log(0.6), np.log(0.01)) + rng.normal(0, 0.1, len(group))
    rival = np.full(len(group), np.log(0.2))
    return rank, score, rival


def made_up_cloze_results(
    task="lama", *, tally="answers", n_layers=4, n_items=40, groups=CLOZE_GROUPS, chances=None, controls=True, left=3
):
    """Results of a model whose own head is asked: ``n_items`` of each group in clusters of two, some not scored.

    Args:
        task: its name.
        tally: what is asked.
        n_layers: blocks of the model.
        n_items: of each group.
        groups: their names.
        chances: by group, of choices.
        controls: whether random weights, blind texts and the majority were asked as well.
        left: items of the last group that are not scored.
    """
    rng = np.random.default_rng(7)
    total, metrics = n_items * len(groups), CLOZE_METRICS[tally]
    group = np.repeat(np.arange(len(groups)), n_items)
    cluster = np.arange(total) // 2
    scored = np.arange(total) < total - left
    reason = ["" if there else "'so-so' in several pieces: 3" for there in scored]
    items = Grouped(
        np.unique(cluster[scored], return_inverse=True)[1], group[scored], len(np.unique(cluster[scored])), len(groups)
    )
    counting = {
        "answers": lambda rank, score, rival: items.count_answers(rank),
        "choices": lambda rank, score, rival: items.count_choices(score, rival),
        "changes": lambda rank, score, rival: items.count_changes(rank, score, rival),
    }
    rows, predictions = [], {}
    about = _identity(task, n_train=0, n_classes=0, n_skipped=left, n_unseen_label=0)
    about |= {"split": "all", "skip_reasons": json.dumps({"in several pieces": left} if left else {})}
    about["params_json"] = json.dumps({"chance": chances} if chances else {})

    def asked(name, rates, layers, **fields):
        said = [_said(tally, rate, group, rng) for rate in rates]
        rank, score, rival = (np.stack(columns)[:, scored] for columns in zip(*said, strict=True))
        counts = counting[tally](rank, score, rival)
        whole = bootstrap(counts, metrics, n_resamples=200)
        alone = [metric for metric in metrics if not metric.startswith("micro_")]
        in_group = {}
        for code in range(len(groups)):
            there = np.unique(items.cluster[items.group == code])
            in_group[code] = bootstrap(counts[:, there, code : code + 1], alone, n_resamples=200), len(there)
        for place, layer in enumerate(layers):
            cell = f"{task}-{name}-{layer}"
            same = {**about, **fields, "cell_id": cell, "layer": layer}
            for metric in metrics:
                main = {"main_metric": metric == metrics[0]}
                sizes = {"n_items": int(scored.sum()), "n_clusters": items.n_clusters}
                rows.append(ResultRow(**same, **main, **sizes, **score_of(whole[metric], place)))
            for code, (found, n_clusters) in in_group.items() if len(groups) > 1 else ():
                there = scored & (group == code)
                sizes = {"n_items": int(there.sum()), "n_clusters": n_clusters}
                sizes |= {"n_skipped": int((group == code).sum() - there.sum()), "skip_reasons": "{}"}
                for metric in alone:
                    main = {"main_metric": metric == metrics[0], "group": groups[code]}
                    rows.append(ResultRow(**{**same, **main, **sizes}, **score_of(found[metric], place)))
            rank_here, score_here, rival_here = said[place]
            predictions[cell] = Predictions.of_cloze(
                item_ids=[f"item-{number}" for number in range(total)],
                cluster=cluster,
                cluster_ids=tuple(f"fact-{number}" for number in range(total // 2)),
                group=[groups[code] for code in group.tolist()],
                gold=[f"answer {number % 5}" for number in range(total)],
                pred=[
                    "" if why else f"answer {number % 5}" if first == 1 else "no"
                    for number, (first, why) in enumerate(zip(rank_here.tolist(), reason, strict=True))
                ],
                score=np.where(scored, score_here, np.nan),
                rival=np.where(scored & (tally != "answers"), rival_here, np.nan),
                rank=np.where(scored, rank_here, 0),
                reason=reason,
            )

    model = {"model": "pocket", "n_layers": n_layers, "readout": "masked_lm", "readout_version": "v1", "seed": 0}
    own = {**model, "model_fingerprint": "beef", "init": "pretrained"}
    layers = range(n_layers + 1)
    rates = [layer / n_layers for layer in layers]
    asked("none", rates, layers, **own)
    if controls:
        asked("random", [0.05] * len(layers), layers, **{**own, "init": "random", "model_fingerprint": "r"})
        asked("blind", [rate / 2 for rate in rates], layers, **own, control="blind")
    if controls and tally == "answers":
        asked("majority", [0.2], [None], control="majority")
    return Results(as_noted(rows), (), predictions)


@pytest.fixture(scope="session")
def made_up_cloze():
    """The function that makes results of cloze tasks up."""
    return made_up_cloze_results


@pytest.fixture(scope="session")
def facts():
    """A cloze task of three groups, with all controls."""
    return made_up_cloze_results()


@pytest.fixture(scope="session")
def pairs():
    """A cloze task of choices, of which one group is easier by chance."""
    return made_up_cloze_results(
        "agreement", tally="choices", groups=("simple", "three rivals"), chances={"simple": 0.5, "three rivals": 0.25}
    )
