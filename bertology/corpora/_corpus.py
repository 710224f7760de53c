"""A corpus: named splits of annotated sentences, how splits and folds are made, and two corpora joined."""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertology._files import digest
from bertology._names import name_not_found
from bertology.corpora._files import Oddities, corpus_name, files_in, language_of, split_files, suffix_of, wrong
from bertology.corpora._sentences import Sentence, Sentences
from bertology.errors import CorpusError, NameNotFoundError

SPLITS = ("train", "dev", "test")
_FEWEST_TEXTS, _FEWEST_KEYS = 10, 3
_CROSS_VALIDATION = "cross-validation"

SENSE, TEXTS = "sense", "texts"
"""Names of the targets that are the senses of words, ``word:sense``, and the texts of a pair, or a text and choices."""
UNLABELLED = "files without labels, left out"
"""The note that names such files, as GLUE's test files are."""


@dataclass(frozen=True)
class Corpus:
    """Splits of one corpus. A split is a :class:`Sentences`; usual names are ``train``, ``dev`` and ``test``."""

    name: str
    splits: Mapping[str, Sentences]
    language: str | None = None
    """ISO 639 code where known."""
    licence: str | None = None
    annotator: str | None = None
    """Name and version of the pipeline that made the labels, or ``None`` when they are gold. Results from
    such labels are marked *silver*."""
    reference: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    """Irregularities in its files, how often they occur, and where."""
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Places of skipped items by kind (``file:line`` or a sentence's id)."""
    groups: str = "documents"
    """Name of the groups of its sentences, in the plural."""

    @property
    def is_silver(self) -> bool:
        """Whether the labels are predictions of a program."""
        return self.annotator is not None

    def __getitem__(self, split: str) -> Sentences:
        """The sentences of ``split``.

        Raises:
            NameNotFoundError: there is no such split.
        """
        if split not in self.splits:
            raise self.split_not_found(split)
        return self.splits[split]

    def split_not_found(self, split: str, *, remedy: str = "") -> NameNotFoundError:
        """The error for a split that is not there, with the files that were left out, of which it may be one."""
        if left_out := self.notes.get(UNLABELLED):
            remedy = f"{left_out} has no labels and was left out{'; ' + remedy if remedy else ''}"
        return name_not_found(f"split of corpus {self.name}", split, self.splits, remedy=remedy)

    def __contains__(self, split: str) -> bool:
        return split in self.splits

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content of all splits, independent of the name."""
        return digest(part.encode() for name in sorted(self.splits) for part in (name, self[name].fingerprint))

    def divided(self, *, by: str | None = None) -> "Corpus":
        """The same corpus, divided 8 : 1 : 1 into train, dev and test where it has one split; its notes state how.

        The split of a sentence is drawn by a hash of its group, or else of its text. It depends on these alone, not on
        the order of the sentences, and no group and no text is in two splits.

        Args:
            by: name of the groups; documents when left out, which are divided where there are fewer than three.

        Raises:
            CorpusError: there are too few sentences, or too few groups of a kind that is named.
        """
        if len(self.splits) != 1:
            return self
        sentences: list[Sentence] = list(*self.splits.values())
        keys, by = _keys_of(sentences, by=by)
        sizes = Counter(keys)
        for n, least, what in ((len(keys), _FEWEST_TEXTS, "sentences"), (len(sizes), _FEWEST_KEYS, f"values of {by}")):
            if n < least:
                due = f"{least} or more, of which train, dev and test are made, or splits of your own"
                raise wrong(self.name, f"{n} {what}", due)
        ordered, split_of = _in_hash_order(sizes), dict[str, str]()
        for split, kept in (("test", 2), ("dev", 1)):
            size = 0
            while size < len(keys) / 10 and len(ordered) > kept:
                key = ordered.pop()
                split_of[key] = split
                size += sizes[key]
        parts: dict[str, list[Sentence]] = {split: [] for split in SPLITS}
        for key, sentence in zip(keys, sentences, strict=True):
            parts[split_of.get(key, "train")].append(sentence)
        counts = ", ".join(f"{split} {len(part):,}" for split, part in parts.items())
        notes = {**self.notes, "splits": f"made by a hash of {by}, 8 : 1 : 1 ({counts})"}
        return replace(self, splits={split: Sentences(part) for split, part in parts.items()}, notes=notes)

    def as_one(self, name: str, splits: Collection[str] = ()) -> "Corpus":
        """The same corpus with the sentences of some splits, or of all if none is named, as the one split ``name``."""
        chosen = [self[split] for split in self.splits if split in splits or not splits]
        whole = chosen[0] if len(chosen) == 1 else Sentences(sentence for part in chosen for sentence in part)
        return replace(self, splits={name: whole})

    def in_folds(
        self, n_folds: int, splits: Collection[str] = SPLITS
    ) -> "tuple[Corpus, tuple[Mapping[str, NDArray[np.bool_]], ...]]":
        """The folds of a cross-validation over the sentences of some splits, or of all if it has none of these.

        Each sentence is in test of one fold, which has none of its group in train and dev; where there are no groups,
        texts take their place. About a tenth of the others, whole groups of them too, are dev. Folds depend on the
        sentences alone, not on their order.

        Returns:
            The same corpus with these sentences as its one split, which is called *5-fold cross-validation over
            documents*; and by fold and split (train, dev and test) which of them are in it, ``bool [sentence]``.

        Raises:
            CorpusError: there are too few groups or sentences.
        """
        # The note on how splits were made does not hold any more.
        notes = {about: note for about, note in self.notes.items() if about != "splits"}
        whole = replace(self.as_one("all", self.splits.keys() & set(splits)), notes=notes)
        keys, by = _keys_of(list(whole["all"]))
        what, sizes = "sentences" if by.startswith("text") else self.groups, Counter(keys)
        # One part of what is not tested in a fold is to choose by and one to fit on.
        if len(sizes) < max(n_folds, 4 if n_folds == 2 else _FEWEST_KEYS):
            due = f"more for {n_folds} folds; give more, or ask for fewer folds"
            raise wrong(self.name, f"{len(sizes)} {what}", due)
        filled, fold_of = [0] * n_folds, dict[str, int]()
        place = {key: number for number, key in enumerate(_in_hash_order(sizes))}
        for key in sorted(sizes, key=lambda key: (-sizes[key], place[key])):
            fold_of[key] = min(range(n_folds), key=filled.__getitem__)
            filled[fold_of[key]] += sizes[key]
        folds = []
        for fold in range(n_folds):
            others = {key: size for key, size in sizes.items() if fold_of[key] != fold}
            # About a tenth of the sentences, in an order drawn by a hash: one key at least, and not all.
            ordered, chosen = _in_hash_order(others, salt=f"fold {fold}"), set[str]()
            while sum(others[key] for key in chosen) < sum(others.values()) / 10 and len(ordered) > 1:
                chosen.add(ordered.pop())
            test, dev = (np.array([key in part for key in keys]) for part in (sizes.keys() - others.keys(), chosen))
            folds.append({"train": ~test & ~dev, "dev": dev, "test": test})
        return whole.as_one(f"{n_folds}-fold {_CROSS_VALIDATION} over {what}"), tuple(folds)

    def as_read(self, fingerprint: str, split: str) -> "Corpus | None":
        """The same corpus as it was read where its fingerprint and a split are these: as it is, divided, or in folds.

        Returns:
            None if what was read is another corpus.
        """
        n_folds, _, rest = split.partition("-fold ")
        with contextlib.suppress(CorpusError):
            if self.fingerprint == fingerprint:
                return self
            in_parts = self.in_folds(int(n_folds))[0] if rest.startswith(_CROSS_VALIDATION) else self.divided()
            return in_parts if in_parts.fingerprint == fingerprint else None
        return None


def _keys_of(sentences: Sequence[Sentence], *, by: str | None = None) -> tuple[list[str], str]:
    """``[sentence]`` key that keeps sentences together, their group or else their text; and its name.

    Documents count where there are at least three; groups of a kind that is named by ``by`` always do.
    """
    n_groups = len({sentence.group for sentence in sentences} - {""})
    if n_groups < _FEWEST_KEYS and by is None:
        few = f" ({n_groups} document{'s' * (n_groups > 1)}: too few to keep whole)" if n_groups else ""
        return [sentence.text for sentence in sentences], f"text{few}"
    return [sentence.group or sentence.text for sentence in sentences], by or "document"


def _in_hash_order(keys: Iterable[str], *, salt: str = "") -> list[str]:
    """Keys in an order that depends on nothing but themselves."""
    return sorted(keys, key=lambda key: (digest([(salt + key).encode("utf-8", "surrogatepass")]), key))


def corpus_at(
    path: Path,
    splits: Mapping[str, Iterable[Sentence]],
    oddities: Oddities | None = None,
    *,
    notes: Mapping[str, str] = MappingProxyType({}),
    language: str | None = None,
    reference: str | None = None,
) -> Corpus:
    """The corpus in a file or folder, called as that is; splits without a sentence are left out.

    Sentences may note irregularities while they are read, which join its ``notes``.
    """
    read = {split: some if isinstance(some, Sentences) else Sentences(some) for split, some in splits.items()}
    oddities = oddities or Oddities()
    return Corpus(
        corpus_name(path),
        {split: sentences for split, sentences in read.items() if len(sentences)},
        language=language,
        reference=reference,
        notes={**notes, **oddities.notes()},
        skipped=oddities.skipped(),
    )


class Format:
    """A format of corpus files, one class, listed in ``FORMATS`` of ``_named.py``.

    A format with a file for each split defines :meth:`read`, and :meth:`recognises` unless its suffixes tell it from
    all others; one that keeps its splits in another way defines :meth:`load`.
    """

    title: ClassVar[str]
    """Name of its files in messages."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of its files."""
    described: ClassVar[str] = ""
    """Its name in the error for a folder without a corpus; title and suffixes when left out."""
    language: ClassVar[str | None] = None
    """Language of its texts, where all have one."""
    names_language: ClassVar[bool] = False
    """Whether the names of its files may state the language, as those of Universal Dependencies do."""
    reference: ClassVar[str | None] = None
    """The paper its files come from."""

    def files(self, path: Path) -> list[Path]:
        """The files that may be of this format: those of a folder, or the one file."""
        return files_in(path, self.suffixes) if path.is_dir() else [path] if suffix_of(path) in self.suffixes else []

    def recognises(self, file: Path) -> bool:
        """Whether one of :meth:`files` is of this format, by its first lines."""
        return True

    def is_at(self, path: Path) -> bool:
        """Whether a file is of this format, or some file of a folder."""
        return any(map(self.recognises, self.files(path)))

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """The sentences of a file, one at a time; ``oddities`` collects irregularities that are no errors.

        Raises:
            CorpusError: something in it is not as it should be; the message names file and line.
        """
        raise NotImplementedError

    def load(self, path: Path) -> Corpus:
        """The corpus in a folder with a file for each split, or in one file: the split that its name states, or test.

        Raises:
            CorpusError: there is no such file, or one is not as it should be.
        """
        oddities, files = Oddities(), split_files(path, self.suffixes, what=self.title)
        splits = {split: self.read_all(paths, oddities) for split, paths in files.items()}
        language = language_of(files) if self.names_language else self.language
        return corpus_at(path, splits, oddities, language=language, reference=self.reference)

    def read_all(self, files: Iterable[Path], oddities: Oddities) -> Iterator[Sentence]:
        """The sentences of some files, each of which must have one."""
        for file in files:
            is_empty = True
            for sentence in self.read(file, oddities):
                is_empty = False
                yield sentence
            if is_empty:
                raise CorpusError(f"{file}: no sentence in it; give a file of {self.title} with some")


def join_corpora(annotation: Corpus, words: Corpus) -> Corpus:
    """The sentences of a treebank with the annotation of another corpus, joined by ``sent_id``.

    Text, words and all annotation are those of ``words``; of ``annotation`` come the targets, and those layers that
    the treebank lacks. A split holds the sentences of that split of ``annotation``, in its order, wherever the
    treebank has them. What cannot be joined is left out, counted and listed: sentences that the treebank does not
    have, sentences whose words are others there, and sentences of a shared split that are annotated nowhere. Words of
    ``annotation`` may be ``_`` throughout.
    """
    oddities = Oddities()
    places = {some.id(n): (split, n) for split, some in words.splits.items() for n in range(len(some))}

    def joined(sentence: Sentence) -> Iterator[Sentence]:
        if sentence.id not in places:
            return oddities.skip(f"sentences that {words.name} does not have", sentence.id)
        split, number = places[sentence.id]
        other = words[split][number]
        if sentence.words != other.words and set(sentence.words) != {"_"}:
            oddities.skip(f"sentences that have other words in {words.name}", sentence.id)
        elif len(sentence) != len(other):
            oddities.skip(f"sentences that have more or fewer words in {words.name}", sentence.id)
        else:
            yield replace(
                other,
                layers={**sentence.layers, **other.layers},
                targets={**other.targets, **sentence.targets},
                derived=(other.derived - sentence.targets.keys()) | sentence.derived,
            )

    splits = {split: Sentences(one for each in of for one in joined(each)) for split, of in annotation.splits.items()}
    if not any(map(len, splits.values())):
        due = "sentences of the first in the second with the same sent_id and words: the treebank that it was made on"
        raise wrong(f"{annotation.name}+{words.name}", "none", due)
    for split in annotation.splits.keys() & words.splits.keys():
        held = {annotation[split].id(number) for number in range(len(annotation[split]))}
        for name in map(words[split].id, range(len(words[split]))):
            if name not in held:
                oddities.skip(f"sentences of {words.name} that {annotation.name} does not have", name)
    # Both corpora may have notes of one kind.
    notes = {f"{one.name}: {kind}": note for one in (annotation, words) for kind, note in one.notes.items()}
    skipped = {f"{one.name}: {kind}": places for one in (annotation, words) for kind, places in one.skipped.items()}
    return replace(
        words,
        name=f"{annotation.name}+{words.name}",
        splits={split: sentences for split, sentences in splits.items() if len(sentences)},
        annotator=annotation.annotator or words.annotator,
        notes={**notes, **oddities.notes()},
        skipped={**skipped, **oddities.skipped()},
    )
