"""Words that are found by where they stand or by what they are: sentences with the word that is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology import readouts
from bertology._lazy import sklearn
from bertology.corpora import Sentences
from bertology.encoders.alignment import Integers, numbers_in
from bertology.errors import CorpusError, quoted

_SHARE = 1e-9  # scores that differ by less are equal


@dataclass(frozen=True, eq=False)
class OrderItems:
    """Sentences with the word that is asked for; words are numbered in the split."""

    gold: Integers  # [item], as the following
    first: Integers  # the first word of the kind; that one, where place is all that is asked about
    last: Integers
    starts: Integers
    ends: Integers  # one after its last word
    asked: NDArray[np.bool_]  # whether the score is of it: order and structure part

    def of(self, chosen: NDArray[np.bool_]) -> "OrderItems":
        """Some of the sentences."""
        return OrderItems(**{name: values[chosen] for name, values in vars(self).items()})

    def readable(self, words: Integers) -> "OrderItems":
        """The items all of whose words are among ``words`` (ascending)."""
        inside = np.searchsorted(words, self.ends) - np.searchsorted(words, self.starts)
        return self.of(inside == self.ends - self.starts)

    @property
    def words(self) -> Integers:
        """Numbers of all words, sentence by sentence."""
        return numbers_in(self.starts, self.ends)[1]

    @property
    def is_gold(self) -> Integers:
        """``[1, word]`` whether each of :attr:`words` is the one."""
        return np.isin(self.words, self.gold).astype(np.int64)[None]

    def right(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """``[item]`` whether the word of the highest score ``[word]`` is the one; of equals its share."""
        lengths = self.ends - self.starts
        bounds = np.append(0, lengths.cumsum()[:-1])
        highest = scores >= np.repeat(np.maximum.reduceat(scores, bounds), lengths) - _SHARE
        return np.add.reduceat(highest * self.is_gold[0], bounds) / np.add.reduceat(highest, bounds, dtype=np.int64)


def nth_words(sentences: Sentences, n: int) -> OrderItems:
    """The n-th word of every sentence that has as many."""
    starts, ends = sentences.starts[:-1], sentences.starts[1:]
    gold = starts + n - 1
    return OrderItems(gold, gold, gold, starts, ends, np.ones(len(gold), bool)).of(gold < ends)


def marked_words(sentences: Sentences, name: str) -> OrderItems:
    """The word of each sentence that is marked ``yes`` in a column, among others of its kind, marked ``no``."""
    rows = []
    for number, targets in sentences.targets(name):
        start, end = sentences.starts[number : number + 2]
        places = [start + target.span1[0] for target in targets]
        asked = [place for place, target in zip(places, targets, strict=True) if target.label == "yes"]
        if len(asked) != 1 or any(target.label not in ("yes", "no") for target in targets):
            what = f"{len(asked)} words with the label 'yes' in column {quoted(name)}"
            raise CorpusError(f"sentence {sentences.id(number)} has {what}: give one, and 'no' for others of its kind")
        rows.append((asked[0], min(places), max(places), start, end))
    gold, first, last, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return OrderItems(gold, first, last, starts, ends, gold != first)


def order_scores(vectors: Mapping[str, Any], items: Mapping[str, OrderItems]) -> NDArray[np.float64]:
    """``[word]`` logits of the words of test, by a logistic regression whose strength does best on dev."""
    source = {split: readouts.ArrayFeatures(of_split[None]) for split, of_split in vectors.items()}
    train, dev = (readouts.Targets(items[split].is_gold, 2) for split in ("train", "dev"))
    fitted = readouts.get_readout("linear").fit(source["train"], train, dev=source["dev"], dev_targets=dev)
    shape = 1, len(vectors["test"])
    yes, no = (fitted.log_probs(source["test"], np.full(shape, label, dtype=np.int64)) for label in (1, 0))
    return np.asarray((yes - no)[0, 0])


def by_forms_and_places(items: Mapping[str, OrderItems], sentences: Mapping[str, Sentences]) -> NDArray[np.float64]:
    """``[item]`` whether a logistic regression on word forms and places finds the word of a sentence of test."""
    facts = {}
    for split, some in items.items():
        places = some.words - np.repeat(some.starts, some.ends - some.starts)
        both = zip(some.words.tolist(), places.tolist(), strict=True)
        facts[split] = [{f"word {sentences[split].word(word)}": 1.0, f"place {place}": 1.0} for word, place in both]
    features = sklearn.feature_extraction.DictVectorizer()
    train = features.fit_transform(facts["train"])
    model = sklearn.linear_model.LogisticRegression(max_iter=1000).fit(train, items["train"].is_gold[0])
    return items["test"].right(np.asarray(model.decision_function(features.transform(facts["test"])), dtype=np.float64))
