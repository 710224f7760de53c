"""Every control that any family computes, by the registry of probes, is shown in every format."""

import csv
import dataclasses
import io
from collections.abc import Iterator
from typing import Any

import pytest

from bertology.attention import AttentionProbe
from bertology.errors import ResultsError
from bertology.families.contract import family_of
from bertology.families.request import flat_setting
from bertology.measures.metrics import CONTROLS, LAYER_COLUMNS
from bertology.probing import ControlNote, Probe, ProbeFamily, registered_probes
from bertology.results import ResultRow, Results
from bertology.results.report import write_report
from bertology.results.table import latex_escaped, number
from tests.results.conftest import as_noted

VALUE = 0.1234


def every_probe() -> Iterator[Probe]:
    for entry in registered_probes().values():
        component = entry.load()
        if isinstance(component, ProbeFamily):
            named = [component.make(name) for name in component.instances]
            yield from (*named, *([component.default] if component.default else []))
        else:
            yield component


def of_layers(probe: Probe) -> tuple[ControlNote, ...]:
    return tuple(note for note in family_of(probe).controls(probe) if note.name != "none")


def cases() -> dict[str, tuple[Probe, ControlNote, bool]]:
    """By family, control and label a probe that has it, and whether it is a baseline."""
    found: dict[str, tuple[Probe, ControlNote, bool]] = {}
    for probe in every_probe():
        family = type(family_of(probe)).__name__.strip("_")
        for notes, is_baseline in ((family_of(probe).baselines(probe), True), (of_layers(probe), False)):
            for note in notes:
                found.setdefault(f"{family}-{note.name}-{note.label}", (probe, note, is_baseline))
    return found


CASES = cases()


def test_every_control_is_some_familys_and_has_a_note() -> None:
    of_families = {note.name for _, note, _ in CASES.values()}
    assert of_families == {*CONTROLS} - {"none"}
    assert all(note.label and note.text for _, note, _ in CASES.values())
    by_layer = {note.name for _, note, is_baseline in CASES.values() if not is_baseline}
    assert by_layer <= {*LAYER_COLUMNS}, "a control by layer needs a column of every format"


def test_the_command_names_every_control() -> None:
    asked_for = {*CONTROLS} - {"none", "rescaled", "refit", "reference"}
    assert all(name in flat_setting("controls").description for name in asked_for)


def rows_of(probe: Probe, control: ControlNote, *, is_baseline: bool) -> tuple[ResultRow, ...]:
    """A score of one layer or head, and that of the control."""
    of_heads, metric = isinstance(probe, AttentionProbe), probe.scores[0].name
    shared: dict[str, Any] = {
        **dict.fromkeys(("experiment", "task_version", "corpus", "corpus_fingerprint", "split"), "x"),
        **dict.fromkeys(("n_train", "n_items", "n_clusters", "n_classes"), 9),
        **{"task": probe.task, "metric": metric, "main_metric": True, "group": "obj" if of_heads else None},
    }
    model = {"model": "m", "model_fingerprint": "f", "init": "pretrained", "n_layers": 2, "layer": 1, "seed": 0}
    readout = {"readout": "attention" if of_heads else "linear", "readout_version": "v1"}
    head = {"head": "L1H1"} if of_heads else {}
    own = ResultRow(**shared, **model, **readout, **head, cell_id="own", value=0.9)
    of_layer = {} if is_baseline else {**model, **readout}
    other = ResultRow(**shared, **of_layer, cell_id="control", value=VALUE, control=control.name)
    return as_noted([own, other])


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_is_in_the_terminal_and_in_every_file(name: str, tmp_path) -> None:
    probe, control, is_baseline = CASES[name]
    found = Results(rows_of(probe, control, is_baseline=is_baseline))
    title = control.label if is_baseline else LAYER_COLUMNS[control.name].title
    shown = number(VALUE, metric="accuracy" if control.name == "control_task" else probe.scores[0].name)
    found.save(tmp_path / "run", tables=(), plots=())
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text(encoding="utf-8")
    for text in (str(found), found.to_markdown(), found.to_latex(), found.to_html(), page):
        words = " ".join(text.replace(latex_escaped(title), title).split())
        assert title in words or title.split()[0] in words, text
        assert shown in words, text
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert any(value == str(VALUE) for line in lines for value in line.values())
    for text in (found.to_markdown(), str(found), page):
        assert control.text[:40] in " ".join(text.replace("&#x27;", "'").split()), text


def test_a_control_that_is_unknown_is_refused() -> None:
    made = rows_of(*CASES["Trees-linear_chain-linear chain"][:2], is_baseline=True)[1]
    with pytest.raises(ResultsError, match="control of a row is 'by hand'"):
        dataclasses.replace(made, control="by hand")
