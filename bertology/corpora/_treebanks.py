"""Treebanks of Universal Dependencies by name: pinned, downloaded once, checked by their hash."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bertology._files import cache_folder, explained_write_errors
from bertology.corpora._corpus import Corpus
from bertology.corpora.formats.conllu import load_conllu
from bertology.errors import CorpusError

_HOME: Final = "https://raw.githubusercontent.com/UniversalDependencies"
_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Treebank:
    """Files of one treebank at one commit of its repository."""

    repository: str
    commit: str
    prefix: str
    """How its files are named: ``<prefix>-ud-<split>.conllu``."""
    sha256: Mapping[str, str]
    """Hash of the file of each split that is offered."""
    description: str
    language: str
    licence: str
    reference: str

    def file_name(self, split: str) -> str:
        """The name of the file of ``split``."""
        return f"{self.prefix}-ud-{split}.conllu"

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        return cache_folder() / "corpora" / self.repository / self.commit


TREEBANKS: dict[str, Treebank] = {
    name: Treebank(**fields)
    for name, fields in tomllib.loads(Path(__file__).with_name("treebanks.toml").read_text(encoding="utf-8")).items()
}
"""The treebanks known by name."""


def load_treebank(name: str, treebank: Treebank) -> Corpus:
    """A treebank from the cache under that name, downloaded where it is not there yet.

    ``BERTOLOGY_UD_MIRROR`` names another place than GitHub to download from; below it files lie as
    ``<repository>/<commit>/<file>``.

    Raises:
        CorpusError: a file cannot be downloaded, or is not the one that was pinned.
        StoreError: the cache cannot be written.
    """
    for split in treebank.sha256:
        _fetch(treebank, split)
    described = {field: getattr(treebank, field) for field in ("language", "licence", "reference")}
    return replace(load_conllu(treebank.folder), name=name, **described)


def _fetch(treebank: Treebank, split: str) -> None:
    """Have one file in the cache; what is there with another hash is downloaded again."""
    import pooch
    import requests

    folder, file_name, sha256 = treebank.folder, treebank.file_name(split), treebank.sha256[split]
    home = os.environ.get("BERTOLOGY_UD_MIRROR", "").rstrip("/") or _HOME
    url = f"{home}/{treebank.repository}/{treebank.commit}/{file_name}"
    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_TIMEOUT_S)
    # A request that fails is an OSError too, and is explained first.
    with explained_write_errors(folder / file_name, remedy="set BERTOLOGY_CACHE to another folder"):
        try:
            pooch.retrieve(url, f"sha256:{sha256}", fname=file_name, path=folder, downloader=downloader)
        except requests.RequestException as error:
            raise CorpusError(
                f"{url} cannot be downloaded ({_reason(error)}); go online, set BERTOLOGY_UD_MIRROR, "
                "or give the path of a copy"
            ) from error
        except ValueError as error:
            raise CorpusError(
                f"{url} is not the file that was pinned (SHA-256 {sha256[:12]}… was due); "
                "try again, set BERTOLOGY_UD_MIRROR, or give the path of a copy"
            ) from error


def _reason(error: Exception) -> str:
    """What went wrong with a request, in a few words."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return f"no answer in {_TIMEOUT_S} s"
    return "no connection" if isinstance(error, requests.ConnectionError) else type(error).__name__
