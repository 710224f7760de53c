"""Docstrings as Markdown: Sphinx roles such as ``:func:`extract``` become links or code, doctests code blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?m)^>>> .*\n(?:(?!$).*\n?)*")
_ROLE = re.compile(r":(?:class|func|mod|meth|attr|data|exc|obj):`(?P<hidden>~?)(?P<target>[\w.]+)`")


class Roles(griffe.Extension):
    """Docstrings are written with Sphinx roles, which editors know; the site is written in Markdown."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings of a package once all of it is loaded, when names can be looked up."""
        public = _public(pkg)
        for module in _modules(pkg):
            for thing in _documented(module):
                if thing.docstring:
                    text = _ROLE.sub(lambda found: _link(found, public), thing.docstring.value)
                    thing.docstring.value = _DOCTEST.sub(_fenced, text)


def _link(found: re.Match[str], public: dict[str, str]) -> str:
    target = found["target"]
    page = public.get(target) or public.get(target.rpartition(".")[2])
    shown = target.rpartition(".")[2] if found["hidden"] else target
    return f"[`{shown}`][{page}]" if page else f"`{shown}`"


def _fenced(found: re.Match[str]) -> str:
    code = re.sub(r"  # doctest: .*", "", found[0].rstrip("\n"))
    return f"```pycon\n{code}\n```\n"


def _public(package: griffe.Module) -> dict[str, str]:
    """By full and by bare name, the path under which an exported name has its page."""
    pages = {}
    for module in _modules(package):
        for name in module.exports or ():
            pages.setdefault(str(name), f"{module.path}.{name}")
            pages[f"{module.path}.{name}"] = f"{module.path}.{name}"
    return pages


def _modules(module: griffe.Module) -> list[griffe.Module]:
    inner = [below for one in module.modules.values() if not one.is_alias for below in _modules(one)]
    return [module, *inner]


def _documented(thing: griffe.Object) -> list[griffe.Object]:
    found = [thing]
    for member in thing.members.values():
        if not member.is_alias and not member.is_module:
            found += _documented(member)
    return found
