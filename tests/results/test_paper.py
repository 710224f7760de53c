"""What ``bertology paper`` writes of a run: figures of a column's width, tables, methods, works and the run's YAML."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bertology import probe, read_results
from bertology.errors import BertologyError
from bertology.probing import get_probe
from bertology.results import Results
from bertology.runner.experiment import load_experiment
from bertology.runner.paper import COLUMN_INCHES, _corpora, cited, works, works_in, write_paper


@pytest.fixture(scope="module")
def run(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run with controls and random weights."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        settings = {"layers": "0-1", "controls": "majority,random,control_task", "device": "cpu", "progress": False}
        probe("pos,deprel", model=tiny_bert, corpus=tiny_corpus, out=folder / "run", **settings)
    return folder / "run"


def test_parts_of_a_paper(run: Path, tmp_path: Path, figures: None) -> None:
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in write_paper(run, tmp_path)}
    assert {"figures/pos.pdf", "figures/deprel.pdf", "tables/pos.tex", "run.yaml", "paper.tex"} <= files.keys()
    for name in ("pos", "deprel"):
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", files[f"figures/{name}.pdf"])
        assert box is not None
        assert float(box[1]) == pytest.approx(72 * COLUMN_INCHES, rel=0.1)
    assert b"/FontFile2" in files["figures/pos.pdf"]  # fonts are embedded
    methods, entries = files["methods.tex"].decode(), files["references.bib"].decode()
    row = next(row for row in read_results(run).rows if row.task == "pos" and row.layer == 1)
    assert f"{row.n_items} items in {row.n_clusters} sentences" in methods
    assert f"weights {str(row.model_fingerprint)[:12]}" in methods
    # Everything that is cited has its entry, and nothing else has.
    keys = set(re.findall(r"\\cite\w+\{([^}]+)\}", methods))
    assert {"liu-2019", "hewitt-liang-2019", "efron-1987"} <= keys == set(re.findall(r"^@\w+\{(.+),$", entries, re.M))
    (caption,) = re.findall(r"\\caption\{(.*)\}", files["tables/pos.tex"].decode())
    assert caption.startswith(rf"pos, accuracy (\%) by layer: tiny-bert on the test split of {row.corpus}")
    assert "Each fit was made with 1 seed" in methods
    assert "vectors of words the mean" in methods
    for name in re.findall(r"\\input\{(tables/[^}]+)\}", files["paper.tex"].decode()):
        assert f"{name}.tex" in files
    assert load_experiment(tmp_path / "run.yaml").plain() == load_experiment(run / "experiment.yaml").plain()


def test_methods_tell_of_no_fits_where_there_are_none(tiny_bert: Path, tmp_path: Path) -> None:
    settings = {"layers": "0,1", "controls": "none", "device": "cpu", "progress": False}
    probe("agreement", model=tiny_bert, max_items=20, out=tmp_path / "run", **settings)
    write_paper(tmp_path / "run", tmp_path / "paper")
    methods = (tmp_path / "paper" / "methods.tex").read_text(encoding="utf-8")
    assert "seed" not in methods
    assert "vectors" not in methods


def test_corpora_are_cited(run: Path) -> None:
    row = read_results(run).rows[0]
    rows = [replace(row, corpus=name) for name in ("ud:fr_sequoia", "ud:fr_gsd", "conll2000", "mine")]
    first, second, third = _corpora(Results(tuple(rows)))
    assert first == r"Corpus \emph{ud:fr\_sequoia} is that of \citet{candito-seddah-2012}."
    assert second == r"Corpus \emph{ud:fr\_gsd} is that of \citet{nivre-2020}."
    assert "Tjong Kim Sang \\& Buchholz 2000" in third


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BertologyError, match=r"no such file|is not the folder of a run"):
        write_paper(tmp_path, tmp_path / "out")


def test_works_of_tasks_are_known() -> None:
    for name in ("pos", "roles_and_fillers", "lama", "lama:paraphrases", "lens", "erase_and_predict:pos"):
        assert works_in(get_probe(name).reference), name
    keys = [work.key for work in works()]
    assert len(set(keys)) == len(keys)
    latex = cited("Liu et al. 2019, §4; 5 % & Tenney et al. 2019a")
    assert latex == r"\citealp{liu-2019}, §4; 5 \% \& \citealp{tenney-2019a}"


def test_results_as_yaml(run: Path, tmp_path: Path) -> None:
    results = read_results(run)
    (tmp_path / "again.yaml").write_text(results.to_yaml(), encoding="utf-8")
    assert load_experiment(tmp_path / "again.yaml").seeds == 1
    with pytest.raises(BertologyError, match=r"^what was asked is not known of results of several runs"):
        Results(results.rows).to_yaml()


def test_several_models_as_yaml(tiny_bert: Path, tiny_corpus: Path, own_cache: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_bert, tmp_path / "other")
    settings = {"layers": "0", "controls": "none", "device": "cpu", "progress": False}
    results = probe("pos", model=[tiny_bert, other], corpus=tiny_corpus, **settings)
    (tmp_path / "both.yaml").write_text(results.to_yaml(), encoding="utf-8")
    experiment = load_experiment(tmp_path / "both.yaml")
    assert [model.name for model in experiment.models] == [str(tiny_bert), str(other)]
    assert [task.name for task in experiment.tasks] == ["pos"]
