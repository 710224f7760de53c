"""Data sets and treebanks by name: what can be had, and downloads that are resumed, checked and pinned."""

import csv
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from bertology import _files
from bertology._names import name_not_found
from bertology.errors import CorpusError, NameNotFoundError

RELEASE: Final = "2.18"
"""The release of Universal Dependencies whose treebanks are known."""
_UD: Final = "ud"
_SPLITS: Final = ("train", "dev", "test")
_OF_TREEBANKS: Final = (
    *("pos", "xpos", "deprel", "feats", "ancestors", "sentence", "word_order", "roles_and_fillers"),
    *("structural_distance", "structural_depth", "structural_parse", "edge_pos", "edge_dependencies"),
    *("head_syntax", "head_roles", "head_statistics", "head_patterns", "contextuality", "layer_similarity", "position"),
    *("dimensions", "erase_and_predict", "word_label"),
)
"""Tasks that any treebank serves."""
_README: Final = "README.md"
_HOSTS: Final = {
    "github": "https://raw.githubusercontent.com/{0}/{1}/{2}",
    "hub": "https://huggingface.co/datasets/{0}/resolve/{1}/{2}",
}
_MIRROR, _OFFLINE = "BERTOLOGY_MIRROR", ("BERTOLOGY_OFFLINE", "HF_HUB_OFFLINE")
_MOVING: Final = ("HEAD", "main", "master")
"""Revisions whose files may change: downloads of such files are not resumed unless their hash is known."""
_TIMEOUT_S, _CHUNK = 30, 1 << 16
_REMEDY: Final = "set BERTOLOGY_CACHE to another folder"
_ELSEWHERE: Final = f"set {_MIRROR}, or give the path of a copy"
_NOT_FOUND, _PARTIAL, _NOT_SATISFIABLE = 404, 206, 416
_USED: dict[str, dict[str, str]] = {}
"""SHA-256 by file of the data that this process has read, by name."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Files of one data set at one revision of its repository."""

    name: str
    repository: str
    """Owner and name."""
    files: Mapping[str, str]
    """Hash (SHA-256) by path below ``root``; empty for a file that is pinned when it is first downloaded."""
    description: str
    language: str
    """ISO 639 codes, separated by spaces."""
    licence: str
    """Empty where the README of the repository states it."""
    reference: str
    tasks: tuple[str, ...] = ()
    """Tasks that can read it; a treebank serves all tasks whose annotation it has."""
    revision: str = "HEAD"
    """Commit or tag."""
    root: str = ""
    """Folder of the repository in which the files lie."""
    host: Literal["github", "hub"] = "github"
    reads: str = "{}"
    """The name or path by which the downloaded folder ``{}`` is read."""
    columns: str | None = None
    """Columns of its tables, where they are not those that are recognised."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Paths below ``root`` of the files whose names there do not state their split."""
    language_name: str = ""
    """Language of a treebank in words."""

    @property
    def folder(self) -> Path:
        """Folder of the downloaded files."""
        return _files.cache_folder() / "corpora" / self.repository / self.revision / self.root

    @property
    def is_of_release(self) -> bool:
        """Whether it is a treebank of a release: which splits it has is known when it is first downloaded."""
        return _README in self.files

    @property
    def described(self) -> str:
        """One line: the description, of treebanks the splits that are known to be there, and the licence."""
        splits = [split for split in _SPLITS if any(f"-ud-{split}" in file for file in self.files)]
        about = "; ".join(filter(None, ("" if self.is_of_release else ", ".join(splits), self.licence)))
        return f"{self.description} ({about})" if about else self.description

    def serves(self, *, language: str | None, task: str | None) -> bool:
        """Whether it is in a language, named by its code or in words, and can be read by a task."""
        languages = (*self.language.split(), self.language_name.lower())
        return (not language or language.lower() in languages) and (not task or task in (self.tasks or _OF_TREEBANKS))

    def pins(self) -> dict[str, str | None]:
        """Hash of each file as it was first downloaded or is known; None for a split that does not exist."""
        path = self._pins_path
        kept = _files.read_json(path, what="hashes of data", form=dict[str, str | None]) if path.is_file() else {}
        return kept | {file: sha256 for file, sha256 in self.files.items() if sha256}

    @property
    def _pins_path(self) -> Path:
        return _files.cache_folder() / "corpora" / "pins" / f"{self.name.replace(':', '--')} {self.revision}.json"

    def within(self, part: str) -> list[str]:
        """The files of a part: all, one, or those of a folder."""
        return [file for file in self.files if not part or file == part or file.startswith(f"{part}/")]

    def missing(self, part: str) -> list[str]:
        """The files of a part that are not in the cache as they were pinned."""
        pins = self.pins()
        return [file for file in self.within(part) if file not in pins or not self._is_as(file, pins[file])]

    def _is_as(self, file: str, sha256: str | None) -> bool:
        path = self.folder / file
        return sha256 is None or (path.is_file() and _files.file_sha256(path) == sha256)

    def url(self, file: str) -> str:
        """Where a file is downloaded from; of a mirror ``<repository>/<revision>/<path>``."""
        mirror = os.environ.get(_MIRROR, "").rstrip("/")
        path = self.renamed.get(file, file)
        path = f"{self.root}/{path}" if self.root else path
        form = f"{mirror}/{{0}}/{{1}}/{{2}}" if mirror else _HOSTS[self.host]
        return form.format(self.repository, self.revision, path)

    def download(self, files: list[str]) -> None:
        """Download files, each checked against its pin, or pinned where it has none."""
        is_first, pins = not self._pins_path.is_file(), self.pins()
        for file in files:
            pins[file] = found = self._download(file, pins.get(file))
            if found is None and not self.is_of_release:
                raise CorpusError(f"{self.url(file)} is not there any more (404): {_ELSEWHERE}")
            _files.write_atomically(self._pins_path, _files.canonical_json(pins), remedy=_REMEDY)
            if is_first and found is not None:
                source = f"{self.reference or self.description}; {self.repository} {self.revision}"
                print(f"bertology: {self.name}: {self.stated_licence}; {source}", file=sys.stderr)
                is_first = False
        if not any(found for file, found in pins.items() if file != _README):
            self._pins_path.unlink()
            raise CorpusError(f"{self.url('')} is not there (404): no such release of this treebank? {_ELSEWHERE}")

    @property
    def stated_licence(self) -> str:
        """The licence, of treebanks without a known one as their README states it."""
        path = self.folder / _README
        if self.licence or not path.is_file():
            return self.licence or "not stated here, see the repository"
        match = re.search(r"^License: *(.+)$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        return match[1].strip() if match else "see its README"

    def _download(self, file: str, sha256: str | None) -> str | None:
        """The hash of a file that is downloaded; None if there is no such file."""
        import requests

        url, path = self.url(file), self.folder / file
        if any(os.environ.get(one, "").lower() in ("1", "true", "yes", "on") for one in _OFFLINE):
            raise CorpusError(f"{self.name}: {file} is not in the cache, and this is offline; go online, {_ELSEWHERE}")
        is_resumed = sha256 is not None or self.revision not in _MOVING
        kept = path.with_name(f".{path.name}.part")
        # A request that fails is an OSError too, and is explained first.
        with _files.explained_write_errors(path, remedy=_REMEDY):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                if not _fetch(url, kept, is_resumed=is_resumed):
                    return None
            except requests.RequestException as error:
                status = "" if error.response is None else f" {error.response.status_code}"
                problem = f"cannot be downloaded ({type(error).__name__}{status})"
                raise CorpusError(f"{url} {problem}; go online, {_ELSEWHERE}") from error
            found = _files.file_sha256(kept)
            if sha256 is not None and found != sha256:
                kept.unlink()
                problem = f"is not the file that was pinned (SHA-256 {sha256[:12]}… was due, {found[:12]}… came)"
                raise CorpusError(f"{url} {problem}; try again, {_ELSEWHERE}")
            kept.replace(path)
        return found


def _fetch(url: str, kept: Path, *, is_resumed: bool) -> bool:
    """Download into ``kept``, after what is there of an earlier download; False if there is no such file."""
    import requests
    from tqdm import tqdm

    n_kept = kept.stat().st_size if is_resumed and kept.is_file() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={n_kept}-"} if n_kept else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_S) as answer:
        if answer.status_code == _NOT_FOUND:
            return False
        if answer.status_code == _NOT_SATISFIABLE and n_kept:  # all of it was there, or more
            kept.unlink()
            return _fetch(url, kept, is_resumed=False)
        answer.raise_for_status()
        total, name = int(answer.headers.get("Content-Length", 0)), kept.name[1:-5]
        bar = tqdm(total=total, desc=name, unit="B", unit_scale=True, leave=False, disable=None)
        with kept.open("ab" if answer.status_code == _PARTIAL else "wb") as file, bar:
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
    return True


@lru_cache
def data_sets() -> dict[str, DataSet]:
    """The data sets that are known by name, those treebanks among them whose hashes are known."""
    sets = tomllib.loads(Path(__file__).with_name("data_sets.toml").read_text(encoding="utf-8"))
    return {name: DataSet(name, **{**fields, "tasks": tuple(fields["tasks"])}) for name, fields in sets.items()}


@lru_cache
def treebanks() -> dict[str, DataSet]:
    """All treebanks of the known release of Universal Dependencies by name, ``ud:CODE``."""
    with Path(__file__).with_name("treebanks.tsv").open(encoding="utf-8", newline="") as file:
        made = [_treebank(*row) for row in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]]
    return {one.name: replace(data_sets().get(one.name, one), language_name=one.language_name) for one in made}


def _treebank(code: str, repository: str, language: str, parts_of_train: str) -> DataSet:
    names = ["train", *(f"train-{part}" for part in parts_of_train.split()), "dev", "test"]
    return DataSet(
        f"{_UD}:{code}",
        f"UniversalDependencies/{repository}",
        {_README: "", **{f"{code}-ud-{name}.conllu": "" for name in names}},
        f"{repository.removeprefix('UD_').replace('_', ' ').replace('-', ' ')} of Universal Dependencies",
        code.partition("_")[0],
        licence="",
        reference="",
        revision=f"r{RELEASE}",
        language_name=language,
    )


def is_data_name(source: object) -> bool:
    """Whether a name is that of a data set, or begins as those of some do (``ud:``, ``glue:``)."""
    return isinstance(source, str) and source.partition(":")[0] in _beginnings()


@lru_cache
def _beginnings() -> frozenset[str]:
    return frozenset({_UD, *(name.partition(":")[0] for name in data_sets())})


def data_set(name: str) -> tuple[DataSet, str]:
    """The data set of a name, and the part that is named after it (``coarsewsd20:bank``).

    A treebank of another release is ``ud:en_gum@2.17``: the files at the tag ``r2.17`` of its repository.

    Raises:
        NameNotFoundError: there is no such data set, or it has no such part.
    """
    known = {**treebanks(), **data_sets()}
    stem, at, release = name.partition("@")
    if at and stem in known and stem.startswith(f"{_UD}:") and re.fullmatch(r"\d+\.\d+", release):
        found = treebanks()[stem]
        names = [_README, *(f"{stem.removeprefix('ud:')}-ud-{split}.conllu" for split in _SPLITS)]
        files = dict.fromkeys((*names, *found.files), "")
        return replace(found, name=name, revision=f"r{release}", files=files, licence=""), ""
    parts = name.split(":")
    whole = next((one for n in range(len(parts), 0, -1) if (one := ":".join(parts[:n])) in known), None)
    if whole is None:
        remedy = "any other treebank can be given by the path of its folder" if name.startswith(f"{_UD}:") else ""
        raise name_not_found("corpus", name, known, remedy=remedy or "`bertology corpora` lists them")
    found, part = known[whole], name[len(whole) + 1 :].strip("/")
    if part and not found.within(part):
        inside = {one for file in found.files for one in (file, *map(str, Path(file).parents)) if one != "."}
        raise name_not_found(f"part of {whole}", part, inside)
    return found, part


def fetched(name: str) -> tuple[DataSet, Path]:
    """A data set by its name, and its folder or only file in the cache, after what is missing has been downloaded.

    ``BERTOLOGY_MIRROR`` names another place than GitHub and the hub to download from; below it files lie as
    ``<owner>/<repository>/<revision>/<path>``.

    Raises:
        NameNotFoundError: there is no such data set or part.
        CorpusError: a file cannot be downloaded, or is not the one that was pinned.
        StoreError: the cache cannot be written.
    """
    found, part = data_set(name)
    if found.missing(part):
        with _files.lock_in(_files.cache_folder() / "corpora", found.repository.replace("/", "--"), remedy=_REMEDY):
            found.download(found.missing(part))  # another process may have downloaded them meanwhile
    pins = found.pins()
    _USED[name] = {file: sha256 for file in found.within(part) if (sha256 := pins[file])}
    return found, found.folder / (part or (*found.files,)[0] if len(found.files) == 1 else part)


def data_is_available(name: str) -> bool:
    """Whether all files of a name are in the cache."""
    try:
        found, part = data_set(name)
    except NameNotFoundError:
        return False
    pins = found.pins()
    return all(file in pins and (pins[file] is None or (found.folder / file).is_file()) for file in found.within(part))


def data_path(source: str | Path) -> Path:
    """The folder or file of a data set by name, which is downloaded where it is missing; or the path that is given."""
    return fetched(str(source))[1] if is_data_name(source) else _files.given_path(source, error=CorpusError)


def data_read(text: str) -> dict[str, dict[str, str]]:
    """Hashes by file of the data that this process has read and that a text names, such as a run's settings."""
    return {name: dict(files) for name, files in _USED.items() if name in text}
