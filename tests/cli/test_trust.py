"""Code that comes with a model runs only where the command line or the call says so, each time; never by a file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bertology import finetune_grid
from bertology.corpora import Sentence
from bertology.encoders import load_encoder, resolve_model
from bertology.encoders.sources import code_files, code_fingerprint
from bertology.errors import BertologyError, ModelError
from bertology.parsing import ParseRequest, parse
from bertology.runner import RunOptions, rerun, run_experiment
from bertology.runner.experiment import Experiment, load_experiment

SERIAL = RunOptions(engine="serial")
CODE = """\
from pathlib import Path
from transformers import BertConfig, BertForMaskedLM, BertModel
Path({mark!r}).touch()
class StrangeConfig(BertConfig):
    model_type = "strange"
class StrangeModel(BertModel):
    config_class = StrangeConfig
class StrangeLM(BertForMaskedLM):
    config_class = StrangeConfig
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that the code of the model makes when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def strange(tiny_bert: Path, mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that needs Python code of its own."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = shutil.copytree(tiny_bert, tmp_path / "strange")
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "StrangeConfig", "AutoModel": "StrangeModel", "AutoModelForMaskedLM": "StrangeLM"}
    # The name of the module is that of the test: transformers keeps modules of one name for the whole process.
    module = f"code_{tmp_path.name.replace('-', '_')}"
    config |= {"model_type": "strange", "auto_map": {auto: f"{module}.{name}" for auto, name in classes.items()}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / f"{module}.py").write_text(CODE.format(mark=str(mark)))
    return folder


@pytest.fixture
def file(strange: Path, tmp_path: Path) -> Path:
    """An experiment that asks to run the code, as a stranger may have written it."""
    content = {
        "name": "trial",
        "models": [{"name": str(strange), "id": "strange", "trust_remote_code": True}],
        "corpora": [{"name": "pocket", "sentences": 20}],
        "tasks": ["pos"],
        "layers": 0,
        "controls": "none",
        "outputs": {"plots": []},
    }
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


ASKS = r"trial\.yaml:5: asks to run Python code that comes with a model: give --trust-remote-code"


def test_a_file_only_asks(file: Path, mark: Path, tmp_path: Path) -> None:
    including = tmp_path / "including.yaml"
    including.write_text("include: trial.yaml\nname: other\n")
    for path in (file, including):
        with pytest.raises(BertologyError, match=ASKS):
            load_experiment(path)
    nested = yaml.safe_load(file.read_text())
    nested["models"] = [{"name": "pocket", "reference": nested["models"][0]}]
    (tmp_path / "nested.yaml").write_text(yaml.safe_dump(nested))
    with pytest.raises(BertologyError, match="asks to run Python code"):
        load_experiment(tmp_path / "nested.yaml")
    assert not mark.exists()


def test_a_run_is_repeated_only_with_the_flag_and_the_same_code(
    file: Path, strange: Path, mark: Path, own_cache: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run_experiment(load_experiment(file, trust_remote_code=True), run, options=SERIAL)
    assert mark.exists(), "the fixture has no code that runs"
    mark.unlink()
    record = json.loads((run / "run.json").read_text())
    assert record["content"]["code"] == {"strange": code_fingerprint(resolve_model(str(strange)))}
    shutil.rmtree(own_cache)
    with pytest.raises(BertologyError, match=r"run/experiment.yaml:\d+: asks to run Python code"):
        rerun(run, tmp_path / "again", options=SERIAL)
    assert not mark.exists()
    assert not rerun(run, tmp_path / "again", options=SERIAL, trust_remote_code=True).moved
    code = next(strange.glob("code_*.py"))
    code.write_text(code.read_text() + "# changed\n")
    with pytest.raises(BertologyError, match="the Python code of model strange is not that which the run was made"):
        rerun(run, tmp_path / "third", options=SERIAL, trust_remote_code=True)


def test_in_a_call_it_is_said_in_the_call(strange: Path, mark: Path) -> None:
    settings: dict[str, Any] = {"corpora": ["pocket"], "tasks": ["pos"], "name": "trial"}
    experiment = Experiment(models=[{"name": str(strange), "trust_remote_code": True}], **settings)
    assert experiment.models[0].trust_remote_code
    load_encoder(str(strange), device="cpu", trust_remote_code=True)
    assert mark.exists()
    mark.unlink()
    # Having been trusted once, it is not trusted the next time.
    with pytest.raises(ModelError, match="runs Python code of its own: pass --trust-remote-code"):
        load_encoder(str(strange), device="cpu")
    assert not mark.exists()


def test_a_grid_of_fine_tunings_only_asks(strange: Path, mark: Path, tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    text = f"name: grid\ntasks: [pos]\nruns: [{{id: one}}]\nmodel: {strange}\ntrust_remote_code: true\n"
    path.write_text(text)
    with pytest.raises(BertologyError, match=r"grid\.yaml:5: asks to run Python code"):
        finetune_grid(path, out=tmp_path / "out")
    assert not mark.exists()


def test_a_kept_probe_only_asks(file: Path, mark: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(file, run / "experiment.yaml")
    with pytest.raises(BertologyError, match=r"experiment\.yaml:5: asks to run Python code"):
        parse(Sentence.from_words(["The", "dog"]), ParseRequest(probe=run))
    assert not mark.exists()


def test_commands_have_the_flag(file: Path, tmp_path: Path, bertology: Callable) -> None:
    run, again = ((tmp_path / name) for name in ("run", "again"))
    for given in ("run", file, "--out", run, "--jobs", 1), ("plan", file, "--out", run), ("rerun", run, "--out", again):
        assert "--trust-remote-code" in bertology(*given).one_line()
        done = bertology(*given, "--trust-remote-code")
        assert done.status == 0, done.err


def test_code_is_part_of_what_a_model_is(strange: Path) -> None:
    source = resolve_model(str(strange))
    before = code_fingerprint(source)
    code = next(strange.glob("code_*.py"))
    code.write_text(code.read_text() + "# changed\n")
    assert before is not None
    assert code_fingerprint(source) != before
    assert code_fingerprint(resolve_model("pocket")) is None
    # Tokenizers have classes of their own as well.
    config = json.loads((strange / "config.json").read_text())
    del config["auto_map"]
    (strange / "config.json").write_text(json.dumps(config))
    assert not code_files(strange)
    settings = json.loads((strange / "tokenizer_config.json").read_text())
    settings["auto_map"] = {"AutoTokenizer": [None, f"{code.stem}.Strange"]}
    (strange / "tokenizer_config.json").write_text(json.dumps(settings))
    assert code_files(strange) == [code]


def test_code_in_another_repository_is_hashed_or_refused(strange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads((strange / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "someone/elsewhere--modeling.Strange"}
    (strange / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"cannot get its code from someone/elsewhere \(not in its cache"):
        code_fingerprint(resolve_model(str(strange)))
    other = strange.parent / "elsewhere"
    other.mkdir()
    (other / "modeling.py").write_text("class Strange: pass\n")
    monkeypatch.setattr("bertology.encoders.sources.download", lambda *_, **__: other)
    assert other / "modeling.py" in code_files(strange)
