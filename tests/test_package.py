"""The wheel and the source distribution: what they hold, and that the wheel works where no clone is."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BUILD = "from setuptools import build_meta; build_meta.build_{}({!r})"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made of it."""
    folder = tmp_path_factory.mktemp("package")
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "site", "tests", "notebooks", "docs")
    shutil.copytree(ROOT, folder / "copy", ignore=left_out)
    run(_BUILD.format("sdist", str(folder)), folder / "copy")
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    run(_BUILD.format("wheel", str(folder)), folder / sdist.name.removesuffix(".tar.gz"))
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def run(code: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def of_tree(*packages: str) -> set[str]:
    """The files of packages in the tree, without what is made of them."""
    found = (path for package in packages for path in (ROOT / package).rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_the_packages_and_nothing_else(built: tuple[Path, Path]) -> None:
    names = set(zipfile.ZipFile(built[1]).namelist())
    about = {name for name in names if ".dist-info/" in name}
    packages = {re.sub(r"^bertology_probes/", "probes/", name) for name in names - about}
    missing, foreign = of_tree("bertology", "probes") - packages, packages - of_tree("bertology", "probes")
    assert (sorted(missing), sorted(foreign)) == ([], []), "name new files in [tool.setuptools] of pyproject.toml"
    kept = {name.partition("/")[2] for name in about}
    assert kept == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
    assert sum(one.compress_size for one in zipfile.ZipFile(built[1]).infolist()) < 10e6


def test_the_source_distribution_can_be_built_and_read(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    documents = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "pyproject.toml"}
    assert documents | of_tree("bertology", "probes") <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "notebooks", "build"))]


def test_what_the_wheel_says_of_itself(built: tuple[Path, Path]) -> None:
    archive = zipfile.ZipFile(built[1])
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    told = Parser().parsestr(archive.read(metadata).decode())
    version = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert version is not None
    assert (told["Name"], told["Version"]) == ("bertology", version[1])
    assert f"## [{version[1]}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert told["Description-Content-Type"] == "text/markdown"
    assert told["License-Expression"] == "Apache-2.0"
    assert {"explore", "distributed", "hdf5", "peft", "explain", "notebook"} <= set(told.get_all("Provides-Extra", ()))


def test_the_installed_wheel_answers_without_a_clone(built: tuple[Path, Path], tmp_path: Path) -> None:
    place = tmp_path / "installed"
    zipfile.ZipFile(built[1]).extractall(place)
    code = """
import bertology, bertology_probes, pathlib
place = pathlib.Path({0!r})
assert all(place in pathlib.Path(one.__file__).parents for one in (bertology, bertology_probes)), bertology.__file__
results = bertology.probe("pos", layers=[0], sentences=40, controls="none", progress=False)
print(results.view())
"""
    shown = run(code.format(str(place)), tmp_path, PYTHONPATH=str(place), BERTOLOGY_CACHE=str(tmp_path / "cache"))
    assert "pos" in shown
