"""An experiment file says what it means, or is answered with file, line and key."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bertology._settings import Place, parse_yaml, to_yaml
from bertology.corpora._data import data_set
from bertology.errors import BertologyError
from bertology.families.request import ALL_CONTROLS
from bertology.runner.experiment import experiment_schema, load_experiment

TEXT = """\
name: trial
models: [pocket, {name: pocket, init: random}]
corpora: [pocket]
tasks:
  - pos
  - {name: ner, readout: mlp}
layers: 0-2
seeds: 2
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "trial.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_names_and_defaults(write: Callable[..., Path]) -> None:
    found = load_experiment(write(TEXT))
    assert [model.title for model in found.models] == ["pocket", "pocket-random"]
    assert [[config.readout for config in task.configs] for task in found.tasks] == [[], ["mlp"]]
    assert (found.layer_spec, found.seeds, found.controls) == ("0-2", 2, ALL_CONTROLS)
    assert found.statistics.resamples == 10_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("1e-3", 0.001),
        ("010", 10),
        ("1:30", "1:30"),
        ("2019-06-02", "2019-06-02"),
        ("~", None),
        ("'1e-3'", "1e-3"),
        ("", None),
        ("[1, a]", [1, "a"]),
    ],
)
def test_text_stays_text(text: str, value: object) -> None:
    assert parse_yaml(text, Place("here")) == value
    assert parse_yaml(to_yaml(value), Place("here")) == value


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("seeds: 2", "seds: 2", 8, "unknown key 'seds': did you mean seeds?"),
        ("readout: mlp", "redout: mlp", 6, "unknown key 'redout' in tasks[1]: did you mean readout?"),
        ("seeds: 2", "seeds: true", 8, "seeds: should be a whole number, not true"),
        ("seeds: 2", "seeds: 0", 8, "seeds: should be at least 1, not 0"),
        ("name: trial", "name: 1e3", 1, "name: should be text, not 1000.0"),
        ("name: trial", "name: a/b", 1, "name: should be letters, digits"),
        (
            "init: random",
            "init: rnadom",
            2,
            "models[1].init: should be pretrained, random or random_blocks, not 'rnadom'",
        ),
        ("{name: pocket, init: random}", "pocket", 2, "models: two are called 'pocket': give each an id of its own"),
        ("[pocket]", "pocket", 3, "corpora: should be a list, such as [a, b], not 'pocket'"),
        ("[pocket]", "[3]", 3, "corpora[0]: should be a mapping of keys to values, not 3"),
        ("corpora: [pocket]", "", 1, "key 'corpora' is missing"),
        ("readout: mlp", "corpora: [pocet]", 1, "task ner asks for corpus 'pocet': there is pocket"),
        ("seeds: 2", "controls: majority,randm", 8, "controls: unknown control 'randm': did you mean random?"),
        ("seeds: 2", "seeds: 2\nseeds: 3", 9, "key 'seeds' is written twice (first in line 8)"),
        (
            "seeds: 2",
            "seeds: !!python/object/apply:os.system [ls]",
            8,
            "could not determine a constructor for the tag 'tag:yaml.org,2002:python/object",
        ),
        ("seeds: 2", "x: &a [*a]", 1, "aliases make over 100,000 values of it: write out what is meant"),
        ("seeds: 2", "x: [", 9, "not valid YAML (expected the node content, but found '<stream end>')"),
        ("seeds: 2", "include: none.yaml", 8, "include: no file"),
        (TEXT, "", None, "empty; an experiment has name, models, corpora and tasks"),
        (TEXT, "[" * 1000, None, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(
    write: Callable[..., Path], old: str, new: str, line: int | None, message: str
) -> None:
    assert old in TEXT
    path = write(TEXT.replace(old, new))
    with pytest.raises(BertologyError) as raised:
        load_experiment(path)
    told = str(raised.value)
    assert message in told
    assert "\n" not in told
    assert told.startswith(f"{path}:{line}: " if line else str(path))


def test_controls_with_commas_are_the_list_of_them(write: Callable[..., Path]) -> None:
    """As on the command line, in files and in what editors check them by."""
    listed = load_experiment(write(TEXT + "controls: [majority, word_majority, random]"))
    for text in ("majority,word_majority,random", "majority, word-majority, random,"):
        found = load_experiment(write(TEXT + f"controls: {text}"))
        assert found == listed
        assert found.plain()["controls"] == ["majority", "word_majority", "random"]
    for special, expected in (("all", ALL_CONTROLS), ("none", ())):
        assert load_experiment(write(TEXT + f"controls: {special}")).controls == expected
    options = experiment_schema()["properties"]["controls"]["anyOf"]
    (pattern,) = (option["pattern"] for option in options if "pattern" in option)
    assert re.search(pattern, "majority, random")
    assert not re.search(pattern, "")


def test_files_that_are_no_experiment(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.yaml").write_bytes(b"#" * (2 << 20))
    for name, message in (
        ("none.yaml", "no such file"),
        ("binary.yaml", "not UTF-8"),
        ("large.yaml", "too many"),
        (".", "a folder where a file was due"),
    ):
        with pytest.raises(BertologyError, match=message):
            load_experiment(tmp_path / name)


def test_changes_from_the_command_line(write: Callable[..., Path]) -> None:
    changes = ["models[0].dtype=bfloat16", "seeds=5", "statistics.resamples=100", "tasks=[pos]", "layers=1,-1"]
    found = load_experiment(write(TEXT), changes=changes)
    assert found.models[0].dtype == "bfloat16"
    assert found.models[0].name == "pocket"
    assert (found.seeds, found.statistics.resamples, found.layer_spec) == (5, 100, "1,-1")
    assert [task.name for task in found.tasks] == ["pos"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seeds", "write key=value"),
        ("models[5].dtype=float16", "there is no [5]; the list has 2"),
        ("seeds.x=1", "'x' is a key, but there is 2 in its place"),
    ],
)
def test_changes_that_are_wrong(write: Callable[..., Path], change: str, message: str) -> None:
    with pytest.raises(BertologyError, match=re.escape(message)) as raised:
        load_experiment(write(TEXT), changes=[change])
    assert str(raised.value).startswith(f"--set {change}: ")


def test_a_file_builds_on_others(write: Callable[..., Path]) -> None:
    write("statistics: {resamples: 500, seed: 3}\nseeds: 4\ncorpora: [pocket]\n", "base.yaml")
    write("seeds: 3\ndevice: cpu\n", "more.yaml")
    text = TEXT.replace("corpora: [pocket]\n", "").replace("seeds: 2", "statistics: {seed: 7}")
    found = load_experiment(write(text + "include: [base.yaml, more.yaml]\n"))
    assert (found.seeds, found.device, found.corpora[0].name) == (3, "cpu", "pocket")
    assert (found.statistics.resamples, found.statistics.seed) == (500, 7)


def test_a_file_for_another_command(write: Callable[..., Path]) -> None:
    assert load_experiment(write(TEXT + "command: run\n")).name == "trial"
    n_lines = len(TEXT.splitlines())
    with pytest.raises(BertologyError, match=rf"trial.yaml:{n_lines + 1}: this is a file for `bertology pretrain`"):
        load_experiment(write(TEXT + "command: pretrain\n"))


def test_a_file_that_includes_itself(write: Callable[..., Path]) -> None:
    write("include: trial.yaml\n", "base.yaml")
    with pytest.raises(BertologyError, match=r"includes itself .*trial.yaml → .*base.yaml → .*trial.yaml"):
        load_experiment(write(TEXT + "include: base.yaml\n"))


def test_the_resolved_file_says_the_same(write: Callable[..., Path]) -> None:
    found = load_experiment(write(TEXT.replace("name: trial", "name: 'no'")))
    again = load_experiment(write(to_yaml(found.plain()), "resolved.yaml"))
    assert again == found
    assert again.name == "no"


EXPERIMENTS = Path(__file__).resolve().parents[3] / "experiments"


@pytest.mark.parametrize("name", ["quickstart", "encoders-side-by-side", "liu-2019-transferability"])
def test_experiments_that_ship_are_well_formed(name: str) -> None:
    path = EXPERIMENTS / f"{name}.yaml"
    assert load_experiment(path).name == name
    assert f"bertology run experiments/{name}.yaml" in path.read_text()


REAL = sorted(path.stem for path in EXPERIMENTS.glob("*.yaml") if "\nreal:\n" in path.read_text())


@pytest.mark.parametrize("name", REAL)
def test_experiments_run_on_the_data_of_the_paper_by_one_option(name: str) -> None:
    """All of these data are known by name."""
    path = EXPERIMENTS / f"{name}.yaml"
    real = load_experiment(path, real=True)
    assert (load_experiment(path).name, real.name) == (name, f"{name}-real")
    assert f"bertology run experiments/{name}.yaml --real\n" in path.read_text()
    for one in real.corpora:
        assert not {"pocket", "bilingual"} & {model.name for model in real.models}
        for source in re.split(r"[,+]|\w+=", one.name.removeprefix("parallel:").removeprefix("multilingual:")):
            assert not source or source == "made" or data_set(re.sub("^sentence_(tasks|order):", "", source))


def test_an_experiment_with_other_settings(write: Callable[..., Path]) -> None:
    path = write(TEXT + "real: {models: [other], seeds: 7}\n")
    assert [model.name for model in load_experiment(path, real=True, changes=["seeds=9"]).models] == ["other"]
    assert (load_experiment(path, real=True).seeds, load_experiment(path, real=True).name) == (7, "trial-real")
    assert load_experiment(path).models == load_experiment(write(TEXT)).models
    with pytest.raises(BertologyError, match=r"trial.yaml: it states no other settings under real: leave --real out"):
        load_experiment(write(TEXT), real=True)
    with pytest.raises(BertologyError, match=r"trial.yaml:\d+: .*modles"):
        load_experiment(write(TEXT + "real:\n  modles: [other]\n"), real=True)


def test_aliases_stand_for_what_they_name(tmp_path: Path) -> None:
    assert parse_yaml("base: &a {x: [1, 2]}\nsame: *a", Place("t.yaml", 1)) == {
        "base": {"x": [1, 2]},
        "same": {"x": [1, 2]},
    }
