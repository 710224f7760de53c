"""The ten probing tasks of Conneau et al. (2018), made from a treebank: sentences, some of them changed, with labels.

:func:`sentence_tasks` is the door; labels of sentences as they stand are in ``_labels.py``, changed sentences in
``_changed.py``, what both draw and leave out in ``_items.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bertology._names import name_not_found
from bertology.corpora._corpus import Corpus
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora.sentence_tasks._changed import coordination, odd_word, shift
from bertology.corpora.sentence_tasks._items import Item, Rows, rows_of
from bertology.corpora.sentence_tasks._labels import depth, length, number_of, tense, top, words
from bertology.errors import CorpusError

_MAKERS: Final[Mapping[str, Callable[[Rows], list[Item]]]] = {
    "length": length,
    "words": words,
    "depth": depth,
    "top": top,
    "shift": shift,
    "tense": tense,
    "subject_number": number_of("nsubj"),
    "object_number": number_of("obj"),
    "odd_word": odd_word,
    "coordination": coordination,
}
SENTENCE_TASKS: Final = tuple(_MAKERS)
"""The tasks, in the order of the paper."""


def sentence_target(task: str) -> str:
    """The name of the targets that hold the labels of a task: ``sentence:tense``.

    Raises:
        NameNotFoundError: there is no such task.
    """
    if task not in _MAKERS:
        raise name_not_found("task of sentences", task, SENTENCE_TASKS)
    return f"sentence:{task}"


def sentence_tasks(corpus: Corpus, *, tasks: Collection[str] = SENTENCE_TASKS, seed: int = 0) -> Corpus:
    """The probing tasks of Conneau et al. (2018) made from a treebank, as ``sentence_tasks:CORPUS`` names it.

    Only sentences of 5 to 28 words are used, each text once, in ``train``, ``dev`` and ``test``. What a task asks is
    the label of one target over the whole sentence, ``sentence:tense`` for ``tense``; rules that need more text than a
    treebank has, or phrases where it has none, are adapted, as stated:

    - ``length``: words in six bins (5–8, 9–12, 13–16, 17–20, 21–25, 26–28), equally many of each.
    - ``words``: which of up to 1,000 words the sentence holds, exactly once and none of the others: of nouns, verbs,
      adjectives and adverbs the most frequent of train, one for each 100 of its sentences, none over thrice as
      often as the median.
    - ``depth``: how deep the tree is, in phrases over a word, or else in dependencies from the root: the three adjacent
      depths that leave most sentences when each length has equally many of each depth, so that length predicts nothing.
    - ``top``: the sequence of phrases (and words) just below the whole sentence, or else of relations below the root
      with ``root`` in its place: the 19 most frequent of train, and OTHER, none over thrice as often as the median.
    - ``tense``: whether the main verb, finite and no auxiliary, is present or past.
    - ``subject_number``, ``object_number``: whether the noun that is the root's subject or object is plural.
    - ``shift``: whether two adjacent words (not the first, no punctuation) have changed places, in texts without
      quotes.
    - ``odd_word``: whether a noun or verb was replaced by another of the same tag and features, at least 5 and half to
      twice as frequent, whose bigrams with its neighbours occur as often by a factor of 2 (counts plus one, the
      sentence itself not counted).
    - ``coordination``: whether the two clauses of a coordination at the top have changed places, in texts without
      quotes and brackets; for each label as many sentences with the longer clause first as with the shorter one.

    Labels of the tasks of two classes are equally frequent in each split, by leaving out what is too much. In
    ``tense`` and the numbers no form of the word asked about is in two splits, and in ``odd_word`` no form that is
    replaced or replaces another: sentences of all splits are divided anew by form. They stand in an order drawn at
    random.

    Args:
        corpus: the treebank, with parts of speech and heads.
        tasks: those to make.
        seed: of all draws, which depend on it and on the sentences alone.

    Raises:
        NameNotFoundError: there is no such task.
        CorpusError: the corpus has no train or no test split, or no task can be made from it.
    """
    corpus = corpus.divided()
    for split in ("train", "test"):
        if split not in corpus:
            raise CorpusError(f"sentence_tasks:{corpus.name}: no split {split}; give a treebank with train and test")
    rows = rows_of(corpus, seed=seed)
    made: dict[str, dict[str, Sentence]] = {split: {} for split in rows.splits}
    counts = {}
    for task in tasks:
        target = sentence_target(task)
        items = _MAKERS[task](rows)
        counts[task] = _counted(items, rows.splits)
        for item in items:
            sentence = made[item.split].setdefault(item.sentence.id, item.sentence)
            whole = {target: (Target((0, len(sentence)), item.label),)}
            made[item.split][sentence.id] = replace(sentence, targets={**sentence.targets, **whole})
    if not any(made["train"].values()):
        raise CorpusError(
            f"sentence_tasks:{corpus.name}: no task can be made; give a treebank with upos, feats, heads and sentences "
            "of 5 to 28 words"
        )
    return replace(
        corpus,
        name=f"sentence_tasks:{corpus.name}",
        splits={split: Sentences(_mixed(sentences.values(), rows)) for split, sentences in made.items()},
        notes={**corpus.notes, **{f"sentence:{task}": text for task, text in counts.items()}, "seed": str(seed)},
    )


def _mixed(sentences: Collection[Sentence], rows: Rows) -> list[Sentence]:
    """In an order drawn at random: the first ones, to which a run may be limited, are of all tasks and labels."""
    return sorted(sentences, key=lambda sentence: rows.draw("order", sentence.id))


def _counted(items: Iterable[Item], splits: Sequence[str]) -> str:
    counts = Counter(item.split for item in items)
    return ", ".join(f"{counts[split]:,} {split}" for split in splits) + " sentences"
