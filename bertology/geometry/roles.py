"""The part of a sentence's vector that is a sum over words of word ⊗ role (McCoy et al. 2019; Jawahar et al. 2019, §6).

Fillers say what a word is, roles where it stands. A place in a tree is a path from its root, in letters: ``L`` and
``R`` for a dependent before and after its head, or for the first part and the rest of a phrase. With fixed fillers and
roles such a tensor product representation is linear in their products: ridge regression finds the best map to the
vectors of sentences, from a Gram matrix of products that all layers share. :func:`low_rank_errors` trains fillers,
roles and map instead, as the paper does.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import scipy, torch
from bertology._names import by_key
from bertology.activations.layers import Floats32, Groups, LayerVectors, span_means
from bertology.corpora import Sentences
from bertology.errors import CorpusError, ModelError
from bertology.measures.sums import Floats, Integers, LayerSums, ratio_sums

Paths = Sequence[Sequence[str]]  # [sentence][word] paths from the root of a tree
BAG = "bag"  # the scheme in which all words have one role: a bag of words
STRENGTHS = 10.0 ** np.arange(-5, 3.5, 0.5)
"""Strengths of ridge regression that are tried on dev, as multiples of the mean eigenvalue of the Gram matrix."""
WEIGHTS = (0.1, 0.3, 1.0)
"""Weights of the products with roles that are tried on dev, besides 0, with which a scheme is the bag of words."""
_FEWEST = {"train": 20, "dev": 5, "test": 5}
_POSITIONS = 64  # positions in a sentence whose mean is known; later ones share the last
_DIMS, _BATCH, _EPOCHS, _PATIENCE = 20, 32, 100, 10
"""Trained representations: dimensions of fillers and of roles (McCoy et al.), sentences of a step, and passes."""


def position_roles(lengths: Iterable[int], n_roles: int) -> dict[str, Integers]:
    """Roles ``[word]`` by position in the sentence, of ``n_roles`` or fewer.

    ``left_to_right`` and ``right_to_left`` are numbers from either end, the last that of all further words.
    ``bidirectional`` is both, each with √``n_roles`` numbers: of all pairs of numbers, as in the paper, most would have
    no example.
    """
    pairs = [(np.arange(n), np.arange(n)[::-1]) for n in lengths]
    left, right = (np.concatenate([np.zeros(0, np.int64), *of_side]) for of_side in zip(*pairs, strict=True))
    each = max(1, int(np.sqrt(n_roles)))
    return {
        "left_to_right": np.minimum(left, n_roles - 1),
        "right_to_left": np.minimum(right, n_roles - 1),
        "bidirectional": np.minimum(left, each - 1) * each + np.minimum(right, each - 1),
    }


def dependency_paths(heads: Sequence[int]) -> list[str]:
    """Paths ``[word]`` in a dependency tree, from the head of each word, counted from 1; 0 for the root."""
    below = by_key((head, word) for word, head in enumerate(heads, 1))
    paths, waiting = {0: ""}, [0]
    for head in waiting:  # grows on the way
        for word in below.get(head, ()):
            paths[word] = paths[head] + (("L" if word < head else "R") if head else "")
            waiting.append(word)
    if len(paths) <= len(heads):
        raise CorpusError("heads that form a circle: give a tree")
    return [paths[word] for word in range(1, len(heads) + 1)]


def constituent_paths(n_words: int, phrases: Iterable[tuple[int, int]]) -> list[str]:
    """Paths ``[word]`` in a tree of phrases with two parts each: the first part of a phrase, and the rest of it.

    Phrases are given by their first word and the one after their last; none crosses another.
    """
    paths, waiting, ends = [""] * n_words, [(0, n_words, "")], defaultdict[int, set[int]](set)
    for first, last in phrases:
        ends[first].add(last)
    while waiting:
        first, last, path = waiting.pop()
        if last - first == 1:
            paths[first] = path
            continue
        parts, word = [], first
        while word < last:
            inside = (end for end in ends[word] if end <= last and (word, end) != (first, last))
            parts.append((word, max(inside, default=word + 1)))
            word = parts[-1][1]
        for place, part in enumerate(parts):
            waiting.append((*part, path + "R" * place + ("L" if place < len(parts) - 1 else "")))
    return paths


def random_paths(n_words: int, dice: np.random.Generator, *, has_heads: bool) -> list[str]:
    """Paths ``[word]`` in a random tree of phrases, cut in two at random, or of heads, a random word of each part."""
    paths, waiting = [""] * n_words, [(0, n_words, "")]
    while waiting:
        first, last, path = waiting.pop()
        if has_heads and first < last:
            head = int(dice.integers(first, last))
            paths[head] = path
            waiting += [(first, head, path + "L"), (head + 1, last, path + "R")]
        elif last - first == 1:
            paths[first] = path
        elif last > first:
            cut = int(dice.integers(first + 1, last))
            waiting += [(first, cut, path + "L"), (cut, last, path + "R")]
    return paths


def tree_roles(
    paths: Mapping[str, Paths], n_roles: int, *, has_heads: bool = True, seed: int = 0
) -> dict[str, Integers]:
    """Role of each word ``[word]``, split after split, under three schemes of ``n_roles`` roles, those frequent in
    train.

    A role is a position in a tree: that of the sentence (``tree``); that of another sentence of the same length, in
    turn, or its own paths shuffled where no other has its length (``shuffled_tree``: what is lost is which words the
    tree is of); or a random one (``random_tree``).
    """
    dice = np.random.default_rng(seed)
    shuffled: dict[str, Paths] = {}
    for split, some in paths.items():
        by_length = by_key((len(some[number]), number) for number in dice.permutation(len(some)).tolist())
        others = [list(of_sentence) for of_sentence in some]
        for numbers in by_length.values():
            for number, other in zip(numbers, [*numbers[1:], numbers[0]], strict=True):
                order = dice.permutation(len(some[number])) if other == number else range(len(some[number]))
                others[number] = [some[other][place] for place in order]
        shuffled[split] = others
    random = {
        split: [random_paths(len(one), dice, has_heads=has_heads) for one in some] for split, some in paths.items()
    }
    schemes: dict[str, Mapping[str, Paths]] = {"tree": paths, "shuffled_tree": shuffled, "random_tree": random}
    return {name: np.concatenate(list(path_roles(some, n_roles).values())) for name, some in schemes.items()}


def path_roles(paths: Mapping[str, Paths], n_roles: int) -> dict[str, Integers]:
    """``[word]`` numbers of roles by split: the ``n_roles`` beginnings of paths that most words of train have.

    A longer path has the role of its longest beginning among them.
    """
    of_train = itertools.chain.from_iterable(paths["train"])
    counts = Counter(path[:end] for path in of_train for end in range(len(path) + 1))
    kept = sorted(counts, key=lambda path: (-counts[path], len(path), path))[:n_roles]
    number = {path: place for place, path in enumerate(kept)}

    @cache
    def role(path: str) -> int:
        return next(number[path[:end]] for end in range(len(path), -1, -1) if path[:end] in number)

    return {
        split: np.array([role(path) for of_sentence in some for path in of_sentence], dtype=np.int64)
        for split, some in paths.items()
    }


# Sentences.


def complete_sentences(sentences: Sentences, words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the sentences of which all words are among some, ascending; none of them is empty."""
    numbers, counts = np.unique(sentences.sentence_of_word[words], return_counts=True)
    return np.asarray(numbers[counts == np.diff(sentences.starts)[numbers]], dtype=np.int64)


def tree_paths(sentences: Sentences, numbers: list[int], *, trees: str) -> list[list[str]]:
    """``[sentence][word]`` paths from the root of ``trees``, which are ``dependencies`` or ``constituents``."""
    paths, has_heads = [], trees == "dependencies"
    phrases = {} if has_heads else dict(sentences.targets("constituents"))
    for number in numbers:
        first, last = sentences.starts[number : number + 2].tolist()
        heads = sentences.heads[first:last].tolist() if has_heads and sentences.heads is not None else []
        if heads and min(heads) >= 0:
            paths.append(dependency_paths(heads))
        elif number in phrases:
            paths.append(constituent_paths(last - first, [one.span1 for one in phrases[number]]))
        else:
            problem = f"sentence {sentences.id(number) or number + 1} has no tree of {trees}"
            remedy = "give a treebank, or schemes=left_to_right,right_to_left,bidirectional"
            raise CorpusError(f"{problem}: {remedy}")
    return paths


# Fits.


@dataclass(frozen=True, eq=False)
class RoleItems:
    """Sentences of train, dev and test, one after the other, as fillers in roles.

    Raises:
        CorpusError: a split has too few sentences.
    """

    sizes: Mapping[str, int]  # number of sentences of train, dev and test
    sentences: Integers  # [word] the sentence of each, from 0, ascending
    fillers: Integers  # [word] which filler each word is
    embeddings: Floats32 | None  # [filler, dim] their vectors; None where each filler has a dimension of its own
    roles: Mapping[str, Integers]  # [word] roles by scheme, from 0; the bag of words needs none

    def __post_init__(self) -> None:
        for split, least in _FEWEST.items():
            if self.sizes[split] < least:
                n = f"{self.sizes[split]} sentences of {split} whose words all have vectors"
                raise CorpusError(f"{n} are too few: give {least} or more")

    @property
    def lengths(self) -> Integers:
        """``[sentence]`` numbers of words."""
        return np.bincount(self.sentences)

    @property
    def n_fillers(self) -> int:
        """Number of different fillers."""
        return int(self.fillers.max()) + 1

    def roles_of(self, scheme: str) -> Integers:
        """``[word]`` the role of each."""
        return np.zeros_like(self.fillers) if scheme == BAG else self.roles[scheme]


def role_items(
    vectors: Mapping[str, LayerVectors],
    sentences: Mapping[str, Sentences],
    schemes: Sequence[str],
    n_roles: int,
    *,
    trees: str = "",
    has_embeddings: bool = True,
    seed: int = 0,
) -> tuple[RoleItems, Floats32]:
    """The sentences of all splits of which every word has a vector, and ``[layer, sentence, dim]`` their vectors.

    These are those of the special token before a sentence where ``cls:`` and the split has them, else means over words.
    ``trees`` are ``dependencies`` or ``constituents``, where a scheme is of trees. With ``has_embeddings`` fillers are
    mean vectors of a form in layer 0, less the means of the positions that they stand at: it knows the position of a
    word, so that the mean of a rare word would be of its role as well.
    """
    numbers, lengths, forms, lowest, targets = dict[str, Any](), dict[str, Any](), list[str](), [], []
    for split, text in sentences.items():
        words, special = vectors[split], vectors.get(f"cls:{split}")
        numbers[split] = complete_sentences(text, words.words)
        if special is not None:
            numbers[split] = np.intersect1d(numbers[split], special.words)
            chosen = np.searchsorted(special.words, numbers[split])
            targets.append(np.stack([special.of(layer)[chosen] for layer in special.layers]))
        places = np.flatnonzero(np.isin(text.sentence_of_word[words.words], numbers[split]))
        lengths[split] = np.diff(text.starts)[numbers[split]]
        if special is None:
            ends = lengths[split].cumsum()
            spans = np.stack([ends - lengths[split], ends], axis=1)
            targets.append(np.stack([span_means(words.of(layer)[places], spans) for layer in words.layers]))
        if has_embeddings:
            lowest.append(words.of(0)[places])
        forms += [text.word(word) for word in words.words[places].tolist()]
    every = np.concatenate(list(lengths.values()))
    fillers = np.unique(forms, return_inverse=True)[1] if forms else np.zeros(0, np.int64)
    embeddings = None
    if has_embeddings:
        starts = np.repeat(every.cumsum() - every, every)
        positions = np.minimum(np.arange(every.sum()) - starts, _POSITIONS - 1)
        embeddings = Groups(fillers).means(Groups(positions).centred(np.concatenate(lowest)))
    of_words = position_roles(every.tolist(), n_roles)
    if trees:
        paths = {split: tree_paths(text, numbers[split].tolist(), trees=trees) for split, text in sentences.items()}
        of_words |= tree_roles(paths, n_roles, has_heads=trees == "dependencies", seed=seed)
    sizes, of_word = {split: len(some) for split, some in lengths.items()}, np.repeat(np.arange(len(every)), every)
    items = RoleItems(sizes, of_word, fillers, embeddings, {name: of_words[name] for name in schemes})
    return items, np.concatenate(targets, axis=1)


def _role_gram(items: RoleItems, scheme: str) -> Floats32:
    """``[sentence, train sentence]`` Σ over pairs of words with the same role of the products of their fillers.

    A sentence is the mean over its words of filler ⊗ role, with a dimension for each role: not the sum, as in the
    paper, since layer normalisation lets no vector grow with the length of a sentence.
    """
    n_sentences, n_train = len(items.lengths), items.sizes["train"]
    gram = np.zeros((n_sentences, n_train), dtype=np.float32)
    shares, roles = (1.0 / items.lengths[items.sentences]).astype(np.float32), items.roles_of(scheme)
    for role in np.unique(roles):
        words = np.flatnonzero(roles == role)
        places = items.sentences[words], items.fillers[words]
        counts = scipy.sparse.csr_array((shares[words], places), shape=(n_sentences, items.n_fillers))
        rows = np.flatnonzero(np.diff(counts.indptr))
        n_known = int(np.searchsorted(rows, n_train))
        if items.embeddings is None:
            products = (counts[rows] @ counts[rows[:n_known]].T).toarray()
        else:
            own = counts[rows] @ items.embeddings
            products = own @ own[:n_known].T
        gram[np.ix_(rows, rows[:n_known])] += np.asarray(products, dtype=np.float32)
    return gram


def length_features(items: RoleItems, scale: float) -> Floats32:
    """``[sentence, 2]`` logarithm and inverse of the number of words, standardised, times ``scale``.

    Every scheme has them: roles would else give away how long a sentence is, which is no matter of what stands where.
    """
    n = items.lengths.astype(np.float64)
    features = np.stack([np.log(n), 1 / n], axis=1)
    features -= features.mean(axis=0)
    deviation = features.std(axis=0)
    scaled = np.divide(scale * features, deviation, out=np.zeros_like(features), where=deviation > 0)
    return np.asarray(scaled, dtype=np.float32)


def ridge_errors(gram: Floats32, targets: Floats32, n_dev: int) -> tuple[Floats, Floats]:
    """Squared errors ``[layer]`` on dev and ``[layer, sentence]`` on test of ridge regression with an intercept.

    It follows from the products ``[sentence, train sentence]`` of all sentences, train first, then dev; the best of
    :data:`STRENGTHS` is chosen by layer on dev. Targets ``[layer, sentence, dim]`` are less the means of train.
    """
    n_train, whole = gram.shape[1], gram.astype(np.float64)
    means = whole.mean(axis=1, keepdims=True)
    centred = whole - means - means[:n_train].T + means[:n_train].mean()
    values, axes = np.linalg.eigh(centred[:n_train])
    projected, values = (centred[n_train:] @ axes).astype(np.float32), np.maximum(values, 0.0)
    vectors = axes.astype(np.float32)
    on_dev, on_test = [], []
    for of_layer in targets:
        rotated, wanted = vectors.T @ of_layer[:n_train], of_layer[n_train:]

        def squared(strength: float, items: slice, rotated: Floats32 = rotated, wanted: Floats32 = wanted) -> Floats:
            weights = (1 / (values + strength * values.mean())).astype(np.float32)
            predicted = projected[items] @ (rotated * weights[:, None])
            return np.asarray(((wanted[items] - predicted) ** 2).sum(axis=1, dtype=np.float64))

        tried = [float(squared(strength, slice(0, n_dev)).sum()) for strength in STRENGTHS]
        best = int(np.argmin(tried))
        on_dev.append(tried[best])
        on_test.append(squared(STRENGTHS[best], slice(n_dev, None)))
    return np.array(on_dev), np.stack(on_test)


def _errors_of_schemes(items: RoleItems, targets: Floats32) -> dict[str, Floats]:
    """``[layer, test sentence]`` squared errors of ridge regression with the roles of each scheme.

    All have the means of fillers and lengths, as the bag of words; the weight of the products with roles against these,
    which may be 0, is chosen on dev, by layer.
    """
    n_train, n_dev = items.sizes["train"], items.sizes["dev"]
    bag = _role_gram(items, BAG)
    lengths = length_features(items, float(np.sqrt(np.trace(bag[:n_train]) / n_train)))
    bag = np.asarray(bag + lengths @ lengths[:n_train].T)
    of_bag, errors = ridge_errors(bag, targets, n_dev), {}
    errors[BAG] = of_bag[1]
    for scheme in items.roles:
        (best, errors[scheme]), own = of_bag, _role_gram(items, scheme)
        for weight in WEIGHTS:
            on_dev, on_test = ridge_errors(bag + np.float32(weight) * own, targets, n_dev)
            errors[scheme] = np.where((on_dev < best)[:, None], on_test, errors[scheme])
            best = np.minimum(best, on_dev)
    return errors


def role_scores(
    layers: tuple[int, ...], items: RoleItems, targets: Floats32, *, is_trained: bool = False, seed: int = 0
) -> Iterator[LayerSums]:
    """R² of the vectors of test sentences by every scheme, and its gain over that of the bag of words.

    Of ridge regression a scheme includes the bag of words, so that its gain is 0 where roles add nothing on dev. The
    gain of ``tree`` over ``shuffled_tree`` and ``random_tree`` is given as well.
    """
    n_train, n_test = items.sizes["train"], items.sizes["test"]
    centred = targets - targets[:, :n_train].mean(axis=1, keepdims=True)
    size = (targets[:, :n_train] ** 2).sum(axis=(1, 2), dtype=np.float64)
    varies = (centred[:, :n_train] ** 2).sum(axis=(1, 2), dtype=np.float64) > 1e-6 * size
    if not varies.any():
        raise ModelError("all sentences have the same vector in the layers read: read further layers, or pool mean")
    chosen, centred = tuple(np.array(layers)[varies].tolist()), centred[varies]
    total = (centred[:, -n_test:] ** 2).sum(axis=2, dtype=np.float64)
    if is_trained:
        errors = {scheme: low_rank_errors(items, scheme, centred, seed=seed) for scheme in (BAG, *items.roles)}
    else:
        errors = _errors_of_schemes(items, centred)
    for scheme, of_scheme in errors.items():
        yield ratio_sums(f"r2_{scheme}", total - of_scheme, total, layers=chosen)
        if scheme != BAG:
            yield ratio_sums(f"gain_{scheme}", errors[BAG] - of_scheme, total, layers=chosen)
    for other in ("shuffled_tree", "random_tree"):
        if "tree" in errors and other in errors:
            yield ratio_sums(f"tree_over_{other}", errors[other] - errors["tree"], total, layers=chosen)


def low_rank_errors(items: RoleItems, scheme: str, targets: Floats32, *, seed: int = 0) -> Floats:
    """``[layer, test sentence]`` squared errors of trained tensor product decomposition networks (McCoy et al. 2019).

    Fillers and roles have 20 dimensions each, the former a trained map of their vectors where they have some (as
    Jawahar et al. 2019); a linear map leads from the mean of their products to the vector of the sentence. Adam with a
    rate of 0.001, at most 100 passes, of which each layer keeps the one best on dev. The bag of words is no part of the
    other schemes here, and length no feature. Targets are as for :func:`ridge_errors`.
    """
    n_train, n_dev = items.sizes["train"], items.sizes["dev"]
    scale = np.sqrt((targets[:, :n_train] ** 2).mean(axis=(1, 2), keepdims=True))
    wanted = torch.from_numpy(np.asarray(targets / scale, dtype=np.float32))
    parameters, predict = _network(items, scheme, len(targets), targets.shape[2], seed)
    dice, optimizer = np.random.default_rng(seed), torch.optim.Adam(parameters, lr=1e-3)
    further = np.array_split(np.arange(n_train, targets.shape[1]), -(-(targets.shape[1] - n_train) // 256))
    best, left = np.full(len(targets), np.inf), _PATIENCE
    errors = np.zeros((len(targets), items.sizes["test"]))
    for _ in range(_EPOCHS):
        for batch in np.array_split(dice.permutation(n_train), -(-n_train // _BATCH)):
            optimizer.zero_grad()
            loss = ((predict(batch) - wanted[:, batch]) ** 2).mean(dim=(1, 2)).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            parts = [((predict(one) - wanted[:, one]) ** 2).sum(dim=2) for one in further]
            found = torch.cat(parts, dim=1).double().numpy()
        on_dev = found[:, :n_dev].sum(axis=1)
        better = on_dev < best
        best[better], errors[better] = on_dev[better], found[better, n_dev:]
        left = _PATIENCE if better.any() else left - 1
        if not left:
            break
    return np.asarray(errors * scale[:, 0] ** 2)


def _network(
    items: RoleItems, scheme: str, n_layers: int, dim: int, seed: int
) -> "tuple[list[torch.Tensor], Callable[[Integers], torch.Tensor]]":
    """Fillers, roles and a linear map of every layer, side by side, and what predicts the vectors of sentences."""
    random, roles = torch.Generator().manual_seed(seed), items.roles_of(scheme)
    n_roles = 1 if scheme == BAG else int(roles.max()) + 1
    starts = np.append(0, items.lengths.cumsum())
    # A role that train lacks has no vector.
    known = np.bincount(roles[: starts[items.sizes["train"]]], minlength=n_roles) > 0
    is_known = torch.from_numpy(known.astype(np.float32))[:, None]
    role_of, filler_of = torch.from_numpy(roles), torch.from_numpy(items.fillers.astype(np.int64))
    vectors = None
    if items.embeddings is not None:
        length = np.sqrt((items.embeddings**2).sum(axis=1).mean())
        vectors = torch.from_numpy(np.asarray(items.embeddings / length, dtype=np.float32))

    def started(*shape: int, deviation: float) -> "torch.Tensor":
        # All layers begin alike: what differs between them is what they hold.
        drawn = torch.randn(*shape, generator=random) * deviation
        return drawn[None].repeat(n_layers, *(1 for _ in shape)).requires_grad_()

    of_fillers = started(items.n_fillers if vectors is None else vectors.shape[1], _DIMS, deviation=1.0)
    of_roles, to_sentence = started(n_roles, _DIMS, deviation=1.0), started(_DIMS**2, dim, deviation=1 / _DIMS)
    bias = started(1, dim, deviation=0.0)

    def predict(chosen: Integers) -> "torch.Tensor":
        """``[layer, sentence, dim]`` for numbers ``[sentence]`` of sentences."""
        lengths = starts[chosen + 1] - starts[chosen]
        words = torch.from_numpy(np.concatenate([np.arange(*starts[one : one + 2]) for one in chosen]))
        of_word = torch.from_numpy(np.repeat(np.arange(len(chosen)), lengths))
        fillers = filler_of[words]
        own = of_fillers[:, fillers] if vectors is None else vectors[fillers] @ of_fillers
        in_roles = (of_roles * is_known)[:, role_of[words]]
        shares = torch.from_numpy((1 / np.repeat(lengths, lengths)).astype(np.float32))[:, None, None]
        products = (shares * in_roles[..., :, None] * own[..., None, :]).flatten(2)
        sums = torch.zeros(len(products), len(chosen), _DIMS**2).index_add(1, of_word, products)
        return sums @ to_sentence + bias

    return [of_fillers, of_roles, to_sentence, bias], predict
