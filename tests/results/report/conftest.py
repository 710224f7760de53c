"""Run folders as a run would leave them."""

import dataclasses
import json
import re

import pytest

from bertology.pocket import load_corpus
from bertology.results import Results
from bertology.results.report._page import find_sentences, read_runs, render_report

HOSTILE = "</script><img src=x onerror=document.title='owned'>{{data}}"


def renamed(results, **fields):
    """The same rows with other values where they have any."""
    rows = [
        dataclasses.replace(row, **{name: value for name, value in fields.items() if getattr(row, name) is not None})
        for row in results.rows
    ]
    return Results(tuple(rows), results.comparisons, results.kept)


def payload(page):
    """What the script of a page is given."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def page_of(*folders, **options):
    """The page on some run folders."""
    runs = read_runs(folders)
    return render_report(runs, find_sentences(runs, **options))


@pytest.fixture(scope="session")
def run(made_up, tmp_path_factory):
    """A run of two tasks and two seeds; its items are words of nothing."""
    folder = tmp_path_factory.mktemp("runs") / "plain"
    return made_up(("pos", "ner"), n_seeds=2).save(folder, tables=(), plots=())


@pytest.fixture(scope="session")
def pocket_run(made_up, tmp_path_factory):
    """A run of one task whose items are the words of the pocket corpus' test split."""
    folder = tmp_path_factory.mktemp("runs") / "pocket"
    results = made_up(("pos",), n_sentences=40)
    results = renamed(results, corpus_fingerprint=load_corpus().fingerprint)
    kept = {cell: _on_pocket(found) for cell, found in results.kept.items()}
    return Results(results.rows, results.comparisons, kept).save(folder, tables=(), plots=())


def _on_pocket(found):
    """Predictions whose items are the first words of the first sentences; some sentences are too short for theirs."""
    sentences = load_corpus()["test"]
    ids, seen = [], {}
    for cluster in found.cluster.tolist():
        seen[cluster] = seen.get(cluster, 0) + 1
        ids.append(f"{sentences.id(cluster)}:{seen[cluster]}")
    return dataclasses.replace(found, item_ids=ids)


@pytest.fixture(scope="session")
def hostile_run(made_up, tmp_path_factory):
    """A run whose names, labels and ids try to break out of the page."""
    folder = tmp_path_factory.mktemp("runs") / "hostile"
    fields = ("model", "corpus", "task", "experiment", "readout", "pooling", "device", "split", "dtype")
    results = renamed(made_up(("pos",), n_sentences=60), **dict.fromkeys(fields, HOSTILE))
    kept = {
        cell: dataclasses.replace(
            found,
            labels=tuple(f"{label}{HOSTILE}" for label in found.labels),
            item_ids=[f"{HOSTILE}{name}" for name in found.item_ids],
        )
        for cell, found in results.kept.items()
    }
    return Results(results.rows, results.comparisons, kept).save(folder, tables=(), plots=())


@pytest.fixture
def shown(opened, files):
    """Opens a page by its name."""
    # Without motion, nothing is in mid-scroll when it is looked at.
    return lambda name, **options: opened(files[name], reduced_motion="reduce", **options)
