import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from bertology.corpora import Corpus, load_corpus
from bertology.errors import BertologyError, NameNotFoundError
from bertology.probing import get_probe
from bertology.runner import ProbeRequest
from bertology.runner.plan import Plan, make_plan
from tests.runner.conftest import fits_of
from tests.runner.requests import but


@pytest.fixture
def request_(tiny_bert: Path, tiny_corpus: Path) -> ProbeRequest:
    return ProbeRequest(model=str(tiny_bert), corpus=str(tiny_corpus), layers="0,2")


def cells(plan: Plan) -> dict[tuple[object, ...], str]:
    """Cell ids by what a table calls the cell."""
    found: dict[tuple[object, ...], str] = {}
    for group in fits_of(plan):
        found |= {(group.probe.task, group.weights.init, *key): cell.id for key, cell in group.cells.items()}
    for of_task in plan.baselines:
        found |= {(of_task.probe.task, control): cell.id for (control, *_), cell in of_task.cells.items()}
    return found


def test_a_plan_has_one_cell_for_every_score(request_: ProbeRequest) -> None:
    found = cells(make_plan(but(request_, tasks=("pos", "deprel"), seeds=3)))
    expected = {(control,) for control in ("majority", "word_majority")}
    for seed in range(3):
        for layer in (0, 2):
            expected |= {("pretrained", "none", seed, layer), ("pretrained", "control_task", seed, layer)}
            expected |= {("random", "none", seed, layer)}
    assert set(found) == {(task, *rest) for task in ("pos", "deprel") for rest in expected}
    assert len(set(found.values())) == len(found)


def test_names_places_and_device_do_not_change_a_cell(request_: ProbeRequest, tmp_path: Path) -> None:
    model, corpus = tmp_path / "another-name", tmp_path / "elsewhere"
    shutil.copytree(request_.model, model)
    shutil.copytree(request_.corpus, corpus)
    for path in corpus.iterdir():
        path.rename(corpus / path.name.replace("tiny", "huge"))
    moved = but(request_, model=str(model), corpus=str(corpus), device="cpu", trust_remote_code=True)
    assert cells(make_plan(moved)) == cells(make_plan(request_))


def test_other_layers_tasks_seeds_and_controls_leave_a_cell_as_it_is(request_: ProbeRequest) -> None:
    few, many = (
        cells(make_plan(request))
        for request in (
            but(request_, controls=()),
            but(request_, layers="all", tasks=("deprel", "pos"), seeds=2),
        )
    )
    assert set(few) < set(many)
    assert all(many[key] == few[key] for key in few)


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "first"},
        {"dtype": "bfloat16"},
        {"stored_dtype": "float32"},
        {"on_long": "skip"},
        {"max_pieces": 32},
        {"readout": "ridge.v1"},
    ],
)
def test_a_setting_that_moves_numbers_changes_every_cell_of_a_layer(
    request_: ProbeRequest, change: dict[str, Any]
) -> None:
    before, after = cells(make_plan(request_)), cells(make_plan(but(request_, **change)))
    assert set(before) == set(after)
    layers = [key for key in before if len(key) > 2]
    assert all(before[key] != after[key] for key in layers)
    # What looks at no vector does not depend on how vectors are made.
    assert all(before[key] == after[key] for key in before if key not in layers)


def test_one_label_or_one_word_changes_every_cell(request_: ProbeRequest, tmp_path: Path) -> None:
    before = cells(make_plan(request_))
    for name, old, new in (("train", "NOUN", "PROPN"), ("dev", "NOUN", "PROPN"), ("test", "a", "an")):
        folder = tmp_path / name
        shutil.copytree(request_.corpus, folder)
        file = next(folder.glob(f"*-{name}.conllu"))
        column = "\t"
        text = file.read_text()
        assert column + old + column in text
        changed = text.replace(column + old + column, column + new + column, 1)
        file.write_text(changed if old != "a" else "\n".join(_without_text(changed)))
        after = cells(make_plan(but(request_, corpus=str(folder))))
        assert all(before[key] != after[key] for key in before), name


def _without_text(content: str) -> list[str]:
    """A comment that repeats the text would contradict a word that was changed."""
    return [line for line in content.split("\n") if not line.startswith("# text")]


def test_other_weights_change_the_cells_that_read_them(request_: ProbeRequest, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(request_.model, model)
    weights = load_file(model / "model.safetensors")
    first = next(iter(weights))
    weights[first] = weights[first] + 1
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    before, after = cells(make_plan(request_)), cells(make_plan(but(request_, model=str(model))))
    for key in before:
        # Random weights are drawn by the configuration, whatever was trained.
        assert (before[key] != after[key]) == ("pretrained" in key), key


def test_the_version_of_a_probe_changes_its_cells(request_: ProbeRequest) -> None:
    plan = make_plan(request_)
    newer = replace(plan, probes=(_raised(get_probe("pos")),))
    before, after = cells(plan), cells(newer)
    assert all(before[key] != after[key] for key in before)


def _raised(probe: Any) -> Any:
    kind = type("Raised", (type(probe),), {"version": probe.version + 1})
    return kind()


def test_where_a_run_is_kept_follows_from_its_cells(request_: ProbeRequest) -> None:
    plan = make_plan(request_)
    assert plan.run_id == make_plan(but(request_, device="cpu")).run_id
    assert plan.run_id != make_plan(but(request_, layers="0")).run_id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ("pso",)}, "unknown task 'pso': did you mean pos"),
        ({"tasks": ("pos", "pos.v1")}, "task 'pos' is asked for twice"),
        ({"layers": "7"}, r"layer '7': the model has layers 0 \(embeddings\) to 3"),
        ({"test_split": "tets"}, "unknown split of corpus tiny 'tets': did you mean test.*--test-split"),
        ({"train_split": "test"}, "split 'test' cannot both train and test"),
        ({"annotate": "en_core_web_sm", "corpus": "nowhere.txt"}, "there is no file nowhere.txt"),
    ],
)
def test_what_there_is_not_is_told(request_: ProbeRequest, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BertologyError, match=message):
        make_plan(but(request_, **change))


def test_an_unknown_metric_of_a_probe_is_told_before_anything_is_computed(
    request_: ProbeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(get_probe("pos")), "metrics", ("acuracy",))
    with pytest.raises(NameNotFoundError, match="unknown metric of task pos 'acuracy': did you mean accuracy"):
        make_plan(request_)


def test_a_corpus_without_train_says_what_it_has(request_: ProbeRequest) -> None:
    whole = load_corpus(request_.corpus)
    corpus = Corpus("half", {"test": whole["test"], "dev": whole["test"]})
    with pytest.raises(NameNotFoundError, match="unknown split of corpus half 'train': there is dev, test; choose one"):
        make_plan(request_, corpus=corpus)
    # a split that is named is not made
    with pytest.raises(NameNotFoundError, match="unknown split of corpus half 'train': there is test; choose one to"):
        make_plan(but(request_, test_split="dev"), corpus=corpus.as_one("test"))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spaCy pipeline that labels by a few rules."""
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("attribute_ruler")
    for word, tag in {"the": "DET", "a": "DET", "sees": "VERB", ".": "PUNCT"}.items():
        ruler.add([[{"LOWER": word}]], {"POS": tag})
    ruler.add([[{"LOWER": {"IN": ["cat", "cow", "dog"]}}]], {"POS": "NOUN"})
    folder = tmp_path_factory.mktemp("pipeline")
    nlp.to_disk(folder)
    return folder


def test_raw_text_is_labelled_and_split(request_: ProbeRequest, pipeline: Path, tmp_path: Path) -> None:
    text = tmp_path / "raw.txt"
    text.write_text(" ".join(f"The {animal} sees a dog {n} ." for n, animal in enumerate(["cat", "cow"] * 15)))
    plan = make_plan(but(request_, corpus=str(text), annotate=str(pipeline)))
    # all of it is one paragraph, which is too few documents to keep them whole
    assert {name: len(split) for name, split in plan.pair.splits.by_name.items()} == {"train": 24, "dev": 3, "test": 3}
    assert any("made by a hash of text (1 document: too few to keep whole), 8 : 1 : 1" in one for one in plan.notes)
    assert plan.pair.corpus.is_silver
    assert plan.pair.splits.test.layers["upos"].decoded(0, 5) == ("DET", "NOUN", "VERB", "DET", "NOUN")
