"""Treebanks of Universal Dependencies by name: pinned, downloaded once, checked by their hash."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bertology._files import cache_folder, explained_write_errors
from bertology.corpora._corpus import Corpus
from bertology.corpora.formats.conllu import load_conllu
from bertology.errors import CorpusError

_HOME = "https://raw.githubusercontent.com/UniversalDependencies"
_TIMEOUT_S = 30


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


TREEBANKS: dict[str, Treebank] = {
    "ud:en_ewt": Treebank(
        "UD_English-EWT",
        "15d613d8447b3478787d4c278730a1e48a945efb",
        "en_ewt",
        {
            "train": "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
            "dev": "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
            "test": "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd",
        },
        "English Web Treebank: weblogs, newsgroups, e-mail, reviews, answers",
        "en",
        "CC BY-SA 4.0",
        "Silveira et al. 2014, A Gold Standard Dependency Corpus for English (LREC)",
    ),
    "ud:en_pud": Treebank(
        "UD_English-PUD",
        "f16eba4ae7f3d161870ed320676c5088b8fa476c",
        "en_pud",
        {"test": "c80584f2bc2b31d5bada78a1136f9feec7ac49e5e18898db02dea434b5b8f0aa"},
        "English part of the Parallel UD treebanks: news, Wikipedia",
        "en",
        "CC BY-SA 3.0",
        "Zeman et al. 2017, CoNLL 2017 Shared Task: Multilingual Parsing from Raw Text to Universal Dependencies",
    ),
    "ud:fr_sequoia": Treebank(
        "UD_French-Sequoia",
        "f5b049600c89d2cf15ebbec860f75d703884d32b",
        "fr_sequoia",
        {
            "train": "56424954edf9d20a4d1184e37bfe931fb7c64da82bf2a587b4f35b828d79d767",
            "dev": "a5138dc5e8886484c2f8919e97113f56b9e4329e5cf2a999c021d6ee45e8b45d",
            "test": "a650e7a223fe191009ded17cedae740659449be20354bd68205c376de4ddef2d",
        },
        "French Sequoia: Europarl, regional news, Wikipedia, medicine",
        "fr",
        "LGPL-LR",
        "Candito & Seddah 2012, Le corpus Sequoia (TALN)",
    ),
    "ud:de_gsd": Treebank(
        "UD_German-GSD",
        "297fcf350481058d0737a27f0f8fd03b2eadd67a",
        "de_gsd",
        {
            "dev": "00431f2624cbbf66796c097a9303bbc8f8e8ca88ef35c4c5664aa396b2d674c9",
            "test": "bceb8e867ba3ee7f1449d44fb31538d63a514f07e6763e7d9a5ffe794407bed4",
        },
        "German GSD: reviews, news, Wikipedia",
        "de",
        "CC BY-SA 4.0",
        "McDonald et al. 2013, Universal Dependency Annotation for Multilingual Parsing (ACL)",
    ),
    "ud:es_gsd": Treebank(
        "UD_Spanish-GSD",
        "57c045644664e5c1e169263cc4e3b95e40c078ba",
        "es_gsd",
        {
            "dev": "d5018974cb6a4adb03435f76ac4914a388f4fc763b35b6c4a6a2dc27874b0dff",
            "test": "37612cb7cc13eab62e6f95b06504a31f252ecc56acb52a06d142bf872318b872",
        },
        "Spanish GSD: blogs, news, reviews, Wikipedia",
        "es",
        "CC BY-SA 4.0",
        "McDonald et al. 2013, Universal Dependency Annotation for Multilingual Parsing (ACL)",
    ),
}
"""What there is by name. Only files whose hash is known are offered, so a treebank may lack its train split here."""


def treebank_is_cached(treebank: Treebank) -> bool:
    """Whether all files of a treebank have been downloaded before."""
    folder = _folder(treebank)
    return all((folder / treebank.file_name(split)).is_file() for split in treebank.sha256)


def _folder(treebank: Treebank) -> Path:
    return cache_folder() / "corpora" / treebank.repository / treebank.commit


def load_treebank(name: str, treebank: Treebank) -> Corpus:
    """A treebank from the cache, downloaded where it is not there yet.

    ``BERTOLOGY_UD_MIRROR`` names another place than GitHub to download from; below it files lie as
    ``<repository>/<commit>/<file>``.

    Args:
        name: what to call the corpus.
        treebank: which files.

    Raises:
        CorpusError: a file cannot be downloaded, or is not the one that was pinned.
        StoreError: the cache cannot be written.
    """
    folder = _folder(treebank)
    for split, sha256 in treebank.sha256.items():
        _fetch(treebank, treebank.file_name(split), sha256, folder)
    return replace(
        load_conllu(folder),
        name=name,
        language=treebank.language,
        licence=treebank.licence,
        reference=treebank.reference,
    )


def _fetch(treebank: Treebank, file_name: str, sha256: str, folder: Path) -> None:
    """Have one file in ``folder``; what is there with another hash is downloaded again."""
    import pooch
    import requests

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
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__
