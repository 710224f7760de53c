import importlib
import pickle
import sys
from pathlib import Path

import pytest

import bertology
from bertology._lazy import LazyModule, lazy_attributes

ROOT = Path(bertology.__file__).parent
PACKAGES = sorted(
    ".".join(("bertology", *path.parent.relative_to(ROOT).parts))
    for path in ROOT.rglob("__init__.py")
    if "lazy_attributes(__name__)" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there_and_listed(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None, name
        assert name in dir(module)


def test_unknown_names_are_attribute_errors() -> None:
    get, _ = lazy_attributes("bertology")
    with pytest.raises(AttributeError, match=r"^module 'bertology' has no attribute 'prob'$"):
        get("prob")
    with pytest.raises(ImportError, match="cannot import name 'prob'"):
        from bertology import prob  # type: ignore[attr-defined] # noqa: F401


def test_a_name_is_imported_when_it_is_first_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lazy_example"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from bertology._lazy import lazy_attributes\n"
        "if TYPE_CHECKING:\n"
        "    from collections import Counter\n"
        "    from lazy_example._late import (\n        late,\n        later,\n    )\n"
        "__getattr__, __dir__ = lazy_attributes(__name__)\n"
        "here = 1\n"
    )
    (package / "_late.py").write_text("late, later = 2, 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("lazy_example")
    assert "lazy_example._late" not in sys.modules
    assert {"here", "late", "later"} <= set(dir(module))
    assert "lazy_example._late" not in sys.modules
    assert (module.here, module.late, module.later) == (1, 2, 3)
    assert not hasattr(module, "Counter")


def test_a_module_is_imported_when_something_of_it_is_first_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazy_module.py").write_text("nothing = None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = LazyModule("lazy_module")
    assert "lazy_module" not in sys.modules
    assert module.nothing is None
    assert pickle.loads(pickle.dumps(module)) is sys.modules["lazy_module"]
    assert not hasattr(module, "other")
