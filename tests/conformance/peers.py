"""What bertology and another library compute of the same data: ours, the peer's, and the peer's with its own defaults.

    python -m tests.conformance.peers        # prints the table of docs/concepts/conformance.md

Everything is computed offline: on random numbers, on the embedded model, and on a GPT-2 with random weights.
"""

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
TEXTS = (
    "The dogs near the cat see the bird.",
    "A cat sees the dog.",
    "The birds sleep.",
    "The shopkeeper gave reddish bread.",
)
QUESTION = "The dogs near the cat [MASK] the bird."


@dataclass(frozen=True)
class Values:
    """The same numbers by both."""

    ours: ArrayLike
    peer: ArrayLike
    defaults: ArrayLike | None = None
    """The peer's with its own defaults, where they are other ones."""


@dataclass(frozen=True)
class Comparison:
    """One quantity that a peer computes too."""

    name: str
    peer: str
    """The distribution, as pip calls it."""
    module: str
    tolerance: float
    """Of the largest absolute difference."""
    compute: Callable[[], Values]
    settings: str = ""
    """What the peer has to be asked for, where its defaults differ."""

    @property
    def is_installed(self) -> bool:
        """Whether the peer can be imported."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """Of the peer."""
        return metadata.version(self.peer)


COMPARISONS: dict[str, Comparison] = {}


def comparison(name: str, peer: str, module: str, *, tolerance: float, settings: str = "") -> Callable[[Any], Any]:
    """Register a function that gives :class:`Values`."""

    def register(function: Callable[[], Values]) -> Callable[[], Values]:
        COMPARISONS[f"{peer}: {name}"] = Comparison(name, peer, module, tolerance, function, settings)
        return function

    return register


def largest_difference(one: ArrayLike, other: ArrayLike) -> float:
    """The largest absolute difference; arrays have to be of one shape."""
    a, b = (np.asarray(values, dtype=np.float64) for values in (one, other))
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} cannot be compared")
    return float(np.abs(a - b).max())


# Alignment of words: simalign (Jalili Sabet et al. 2020).


def _similarities() -> list[Floats]:
    dice = np.random.default_rng(1)
    return [dice.random(dice.integers(2, 9, size=2)) for _ in range(20)]


def _links(method: str, peer: Callable[[Any, Floats], ArrayLike]) -> Values:
    from simalign.simalign import SentenceAligner

    from bertology.geometry.alignment import align_words

    similar = _similarities()
    ours = [align_words(one, method).ravel() for one in similar]
    return Values(np.concatenate(ours), np.concatenate([np.ravel(peer(SentenceAligner, one)) > 0 for one in similar]))


@comparison("links by argmax", "simalign", "simalign", tolerance=0)
def argmax() -> Values:
    """The intersection of both directions."""
    return _links("argmax", lambda aligner, one: np.multiply(*aligner.get_alignment_matrix(one)))


@comparison("links by itermax", "simalign", "simalign", tolerance=0)
def itermax() -> Values:
    """More rounds of the same."""
    return _links("itermax", lambda aligner, one: aligner.iter_max(one))


@comparison("links by match", "simalign", "simalign", tolerance=0)
def match() -> Values:
    """The assignment of maximal weight."""
    return _links("match", lambda aligner, one: aligner.get_max_weight_match(one))


@comparison("similarity of words with distortion", "simalign", "simalign", tolerance=1e-6)
def distortion() -> Values:
    """(cosine + 1) / 2, lower for words far from the diagonal."""
    from simalign.simalign import SentenceAligner

    from bertology.geometry.alignment import word_similarity

    dice = np.random.default_rng(2)
    one, other = (dice.normal(size=(n, 16)).astype(np.float32) for n in (7, 5))
    peer = SentenceAligner.apply_distortion(SentenceAligner.get_similarity(one, other), 0.5)
    return Values(word_similarity(one, other, distortion=0.5), peer)


# Erasure: concept-erasure (Belrose et al. 2023).


@comparison(
    "vectors after LEACE", "concept-erasure", "concept_erasure", tolerance=1e-6,
    settings="shrinkage=False, constrain_cov_trace=False, svd_tol=1e-9",
)  # fmt: skip
def leace() -> Values:
    """Three classes in 900 vectors of 40 dimensions."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from concept_erasure import LeaceEraser

    from bertology.readouts import ArrayFeatures, fit_erasure

    dice = np.random.default_rng(3)
    labels = dice.integers(0, 3, 900)
    vectors = dice.normal(size=(900, 40)) * np.linspace(0.1, 3, 40) + dice.normal(size=(3, 40))[labels]
    vectors = vectors.astype(np.float32).astype(np.float64)
    source, known = torch.from_numpy(vectors), torch.nn.functional.one_hot(torch.from_numpy(labels), 3).double()
    erasure = fit_erasure(ArrayFeatures(vectors[None].astype(np.float32)), labels, 3)
    equal = LeaceEraser.fit(source, known, shrinkage=False, constrain_cov_trace=False, svd_tol=1e-9)
    return Values(erasure.erase(source[None])[0], equal(source), LeaceEraser.fit(source, known)(source))


# Attribution: captum (Kokhlikyan et al. 2020).


@cache
def _pocket() -> tuple[Any, Any, int, list[int]]:
    """Encoder, ids of the question, place of its mask, and the two words."""
    from bertology import load_encoder

    encoder = load_encoder("pocket")
    ids = encoder.tokenizer(QUESTION, return_tensors="pt")["input_ids"]
    mask = int((ids[0] == encoder.mask_id).nonzero()[0, 0])
    return encoder, ids, mask, [encoder.tokenizer.convert_tokens_to_ids(word) for word in ("see", "sees")]


def _difference(**inputs: Any) -> Any:
    encoder, _, mask, (good, bad) = _pocket()
    logits = encoder.model.with_head(**inputs).logits
    return logits[:, mask, good] - logits[:, mask, bad]


def _scores(method: str, *, layer: int = 0, **settings: Any) -> Floats:
    from bertology.causal import PatchPair, attribute

    question = PatchPair(QUESTION.replace("[MASK]", "{mask}"), "", "see", "sees")
    found = attribute(_pocket()[0], [question], methods=[method], layers=[layer], **settings).found[0]
    return np.asarray(found.scores[method, layer])


@comparison(
    "integrated gradients", "captum", "captum", tolerance=1e-4,
    settings="the text of masks as baseline, n_steps=64, method=riemann_middle",
)  # fmt: skip
def integrated_gradients() -> Values:
    """Of word embeddings, from a text of masks."""
    import torch
    from captum.attr import IntegratedGradients

    encoder, ids, _, _ = _pocket()
    start = ids.clone()
    start[0, 1:-1] = encoder.mask_id
    look_up = encoder.model.with_head.get_input_embeddings()
    vectors, baseline = look_up(ids).detach(), look_up(start).detach()
    peer = IntegratedGradients(lambda some: _difference(inputs_embeds=some))
    with torch.enable_grad():
        equal = peer.attribute(vectors, baseline, n_steps=64, method="riemann_middle")
        plain = peer.attribute(vectors)
    ours = _scores("integrated_gradients", baseline="mask", steps=64)
    return Values(ours, *(one.sum(-1)[0, 1:-1].detach() for one in (equal, plain)))


@comparison("gradient × input at layer 0", "captum", "captum", tolerance=1e-4)
def gradient_times_input() -> Values:
    """Of the hidden states of layer 0, which are the output of the embeddings."""
    import torch
    from captum.attr import LayerGradientXActivation

    encoder, ids, _, _ = _pocket()
    embeddings = encoder.model.body.embeddings
    peer = LayerGradientXActivation(lambda some: _difference(input_ids=some), embeddings)
    with torch.enable_grad():
        found = peer.attribute(ids)
    return Values(_scores("gradient_times_input"), found.sum(-1)[0, 1:-1].detach())


@comparison("leave one out", "captum", "captum", tolerance=1e-4, settings="FeatureAblation with baselines=mask")
def leave_one_out() -> Values:
    """The difference of logits less that with a word masked."""
    from captum.attr import FeatureAblation

    encoder, ids, _, _ = _pocket()
    peer = FeatureAblation(lambda some: _difference(input_ids=some))
    found = peer.attribute(ids, baselines=encoder.mask_id)
    return Values(_scores("leave_one_out"), found[0, 1:-1].detach(), peer.attribute(ids)[0, 1:-1].detach())


# Sentences and words scored by masked and left-to-right models: minicons (Misra 2022).


def _masked_scorer() -> Any:
    from minicons.scorer import MaskedLMScorer

    tokenizer = _pocket()[0].tokenizer
    tokenizer.batch_encode_plus = tokenizer.__call__  # a method that transformers 5 took away and minicons still calls
    return MaskedLMScorer(_pocket()[0].model.with_head, "cpu", tokenizer=tokenizer)


def _pseudo_likelihood(form: Any) -> Values:
    from bertology.cloze import pseudo_log_likelihood

    peer = _masked_scorer()
    found = pseudo_log_likelihood(_pocket()[0], list(TEXTS), form=form)
    equal = peer.sequence_score(list(TEXTS), reduction=lambda scores: scores.sum().item(), PLL_metric=form)
    return Values(found.totals[0], equal, peer.sequence_score(list(TEXTS)))


@comparison(
    "pseudo-log-likelihood, original", "minicons", "minicons", tolerance=1e-3,
    settings="PLL_metric=original, reduction by sum",
)  # fmt: skip
def original() -> Values:
    """Each subword masked in turn."""
    return _pseudo_likelihood("original")


@comparison(
    "pseudo-log-likelihood, within_word_l2r", "minicons", "minicons", tolerance=1e-3,
    settings="PLL_metric=within_word_l2r, reduction by sum",
)  # fmt: skip
def within_word() -> Values:
    """Each subword masked with those of its word that follow."""
    return _pseudo_likelihood("within_word_l2r")


@comparison(
    "continuations given their contexts", "minicons", "minicons", tolerance=1e-3,
    settings="conditional_score, reduction by sum; of a left-to-right model bos_token=True",
)  # fmt: skip
def conditional() -> Values:
    """The second half of each text given the first; minicons gives the mean over subwords."""
    from minicons.scorer import IncrementalLMScorer

    from bertology.cloze import continuations
    from bertology.encoders import Encoder

    halves = [
        tuple(map(" ".join, (words[: len(words) // 2], words[len(words) // 2 :]))) for words in map(str.split, TEXTS)
    ]
    firsts, seconds = ([half[place] for half in halves] for place in (0, 1))
    model, tokenizer = _gpt2()
    ours, equal, plain = [], [], []
    peers = (
        (_pocket()[0], _masked_scorer()),
        (Encoder.from_model(model, tokenizer), IncrementalLMScorer(model, "cpu", tokenizer=tokenizer)),
    )
    for encoder, peer in peers:
        ours += continuations(encoder, list(zip(firsts, seconds, strict=True))).totals[0].tolist()
        begins = {"bos_token": True} if encoder.causal_head else {}
        equal += peer.conditional_score(firsts, seconds, reduction=lambda scores: scores.sum().item(), **begins)
        plain += peer.conditional_score(firsts, seconds)
    return Values(ours, equal, plain)


@comparison("surprisal of subwords, left to right", "minicons", "minicons", tolerance=1e-4, settings="bos_token=True")
def surprisal() -> Values:
    """Of a GPT-2 with random weights, after the token that begins a text; the defaults leave the first subword out."""
    from minicons.scorer import IncrementalLMScorer

    from bertology.cloze import surprisal as score

    model, tokenizer = _gpt2()
    peer = IncrementalLMScorer(model, "cpu", tokenizer=tokenizer)
    found = score((model, tokenizer), list(TEXTS))
    # With bos_token the token itself comes first, without a value; the defaults give the first subword the value 0.
    equal, plain = (peer.token_score(list(TEXTS), surprisal=True, bos_token=bos) for bos in (True, False))
    return Values(
        found.piece_nats,
        [value for text in equal for _, value in text[1:]],
        [value for text in plain for _, value in text],
    )


@cache
def _gpt2() -> tuple[Any, Any]:
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    made = ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS, vocab_size=300, special_tokens=["<|endoftext|>"])
    tokenizer = GPT2TokenizerFast(tokenizer_object=made._tokenizer)
    tokenizer.pad_token = tokenizer.eos_token
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=2, n_head=2)
        return GPT2LMHeadModel(config).eval(), tokenizer


# Readouts and scores: scikit-learn.


def _classes(n: int = 700, dim: int = 12, seed: int = 4) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    dice = np.random.default_rng(seed)
    labels = dice.integers(0, 4, n)
    means = np.random.default_rng(0).normal(size=(4, dim))
    return (dice.normal(size=(n, dim)) + means[labels]).astype(np.float32), labels


def _fitted(readout: Any) -> Floats:
    """``[class, dim]`` coefficients for standardised features."""
    from bertology.readouts import ArrayFeatures, Targets

    (train, labels), (dev, dev_labels) = _classes(), _classes(100, seed=5)
    fitted = readout.fit(
        ArrayFeatures(train[None]), Targets(labels[None], 4), dev=ArrayFeatures(dev[None]),
        dev_targets=Targets(dev_labels[None], 4),
    )  # fmt: skip
    return np.asarray(fitted.model.coefficients[0, 0, 0].double().numpy() * train.astype(np.float64).std(0))


def _standardised() -> tuple[Floats, NDArray[np.int64]]:
    from sklearn.preprocessing import StandardScaler

    vectors, labels = _classes()
    return StandardScaler().fit_transform(vectors.astype(np.float64)), labels


@comparison(
    "coefficients of the readout linear", "scikit-learn", "sklearn", tolerance=2e-3,
    settings="LogisticRegression on standardised features, C = strength, tol=1e-9",
)  # fmt: skip
def logistic() -> Values:
    """Multinomial logistic regression of strength 0.03."""
    from sklearn.linear_model import LogisticRegression

    from bertology.readouts import LinearReadout

    features, labels = _standardised()
    peer = LogisticRegression(C=0.03, tol=1e-9, max_iter=5000).fit(features, labels)
    ours = _fitted(LinearReadout(strengths=(0.03,), tolerance=1e-6))
    return Values(ours, peer.coef_, LogisticRegression().fit(_classes()[0], labels).coef_)


@comparison(
    "coefficients of the readout ridge", "scikit-learn", "sklearn", tolerance=5e-4,
    settings="Ridge on standardised features and one-hot labels, alpha = strength",
)  # fmt: skip
def ridge() -> Values:
    """Ridge regression of strength 30 on one-hot labels."""
    from sklearn.linear_model import Ridge

    from bertology.readouts import get_readout

    features, labels = _standardised()
    peer = Ridge(alpha=30.0).fit(features, np.eye(4)[labels])
    return Values(
        _fitted(get_readout("ridge", strengths=(30.0,))),
        peer.coef_,
        Ridge().fit(_classes()[0], np.eye(4)[labels]).coef_,
    )


def _labelled() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gold labels 0 to 3, and predictions of which some are 4, a label that does not occur."""
    dice = np.random.default_rng(6)
    gold = dice.integers(0, 4, 500)
    return gold, np.where(dice.random(500) < 0.7, gold, dice.integers(0, 5, 500))


def _scored(metric: str) -> float:
    from bertology.measures import count_labels, find_metric

    gold, pred = _labelled()
    counts = count_labels(gold, pred[None], np.arange(500), n_labels=5, n_clusters=500)
    return float(find_metric(metric)(counts.sum(axis=1))[0])


@comparison("Matthews' correlation", "scikit-learn", "sklearn", tolerance=1e-12)
def matthews() -> Values:
    """Of four labels."""
    from sklearn.metrics import matthews_corrcoef

    return Values(_scored("matthews"), matthews_corrcoef(*_labelled()))


@comparison(
    "macro-F1", "scikit-learn", "sklearn", tolerance=1e-12,
    settings="labels = those of the gold items; the default counts predicted ones as well",
)  # fmt: skip
def macro_f1() -> Values:
    """Over the labels that occur in the gold items."""
    from sklearn.metrics import f1_score

    gold, pred = _labelled()
    equal = f1_score(gold, pred, labels=np.unique(gold), average="macro")
    return Values(_scored("macro_f1"), equal, f1_score(gold, pred, average="macro"))


@comparison("V-measure and adjusted Rand index", "scikit-learn", "sklearn", tolerance=1e-12)
def clusterings() -> Values:
    """Of two partitions."""
    from sklearn.metrics import adjusted_rand_score, v_measure_score

    from bertology.geometry.senses import adjusted_rand, v_measure

    gold, pred = _labelled()
    pairs = np.zeros((4, 5))
    np.add.at(pairs, (gold, pred), 1.0)
    return Values(
        [v_measure(pairs), adjusted_rand(pairs)],
        [v_measure_score(gold, pred), adjusted_rand_score(gold, pred)],
    )


@comparison("RBF kernel alignment", "scikit-learn", "sklearn", tolerance=1e-4, settings="gamma by the median distance")
def kernels() -> Values:
    """Unbiased HSIC of kernels by ``rbf_kernel``."""
    from sklearn.metrics import pairwise_distances
    from sklearn.metrics.pairwise import rbf_kernel

    from bertology.geometry import likeness
    from bertology.geometry.similarity import gram_cka

    x, y = (_classes(200, seed=seed)[0] for seed in (7, 8))
    y = y + x

    def gram(some: Any) -> Floats:
        median = np.median(pairwise_distances(some)[np.triu_indices(len(some), 1)])
        kernel = np.asarray(rbf_kernel(some, gamma=1 / (2 * (0.8 * median) ** 2)), dtype=np.float64)
        np.fill_diagonal(kernel, 0)
        return kernel

    return Values(likeness(x, y, measure="rbf"), gram_cka(gram(x), gram(y)))


# Statistics: scipy.


@comparison("Procrustes similarity", "scipy", "scipy", tolerance=1e-6, settings="√(1 − disparity)")
def rotation() -> Values:
    """Of two sets of vectors after the best rotation."""
    from scipy.spatial import procrustes as disparity

    from bertology.geometry import likeness

    x, y = (_classes(300, seed=seed)[0].astype(np.float64) for seed in (9, 10))
    y = x + y
    return Values(likeness(x, y, measure="procrustes"), np.sqrt(1 - disparity(x, y)[2]))


@comparison("representational similarity of ranks", "scipy", "scipy", tolerance=1e-6)
def ranks() -> Values:
    """Spearman's correlation of the cosines of all pairs."""
    from scipy.spatial.distance import pdist
    from scipy.stats import spearmanr

    from bertology.geometry import likeness

    x, y = (_classes(150, seed=seed)[0].astype(np.float64) for seed in (11, 12))
    y = x + y
    peer = spearmanr(1 - pdist(x, "cosine"), 1 - pdist(y, "cosine")).statistic
    return Values(likeness(x, y, measure="rsa_spearman"), peer)


@comparison(
    "bounds of the bootstrap over clusters", "scipy", "scipy", tolerance=1e-9,
    settings="paired sums of clusters, rng=default_rng(0): the same draws",
)  # fmt: skip
def bca() -> Values:
    """BCa of accuracy over 40 sentences of very different length."""
    from scipy import stats

    from bertology.measures import bootstrap

    dice = np.random.default_rng(13)
    sizes = np.ceil(dice.lognormal(3, 1.2, 40)).astype(int)
    hits = dice.binomial(sizes, np.clip(0.95 - sizes / 400, 0.1, 1))
    counts = np.zeros((1, 40, 1, 3), dtype=np.int32)
    counts[0, :, 0, 0], counts[0, :, 0, 2] = hits, sizes - hits
    found = bootstrap(counts, ["accuracy"], n_resamples=20_000)["accuracy"]

    def theirs(method: Any) -> Any:
        return stats.bootstrap(
            (hits, sizes), lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis), paired=True, n_resamples=20_000,
            method=method, rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip

    return Values([found.ci_low[0], found.ci_high[0]], theirs("BCa"))


@comparison("exact bounds where all is right", "scipy", "scipy", tolerance=1e-12)
def exact() -> Values:
    """Clopper–Pearson of 80 sentences."""
    from scipy.stats import binomtest

    from bertology.measures import bootstrap_ratio

    found = bootstrap_ratio(np.ones(80), np.ones(80), metric="share", bounds="share", n_resamples=100)
    bounds = binomtest(80, 80).proportion_ci(0.95, method="exact")
    return Values([found.ci_low[0], found.ci_high[0]], [bounds.low, bounds.high])


@comparison("p-values after Benjamini–Hochberg", "scipy", "scipy", tolerance=1e-12)
def discoveries() -> Values:
    """Of fifty."""
    from scipy.stats import false_discovery_control

    from bertology.measures import compare

    dice = np.random.default_rng(14)
    values = dice.normal(size=11)
    found = compare(values, values + dice.normal(size=(500, 11)), n_clusters=40)
    return Values([one.p_adj for one in found], false_discovery_control([one.p_raw for one in found]))


def table() -> str:
    """Ours, the peer's, and their difference, in Markdown; of peers that are not installed a dash."""
    head = ("quantity", "peer", "ours", "peer's", "largest difference", "tolerance", "at the peer's defaults")
    lines = [head, ("---",) * len(head)]
    for one in COMPARISONS.values():
        if not one.is_installed:
            lines.append((one.name, f"{one.peer}, not installed", *"–––", f"{one.tolerance:g}", "–"))
            continue
        found = one.compute()
        mean = [f"{np.abs(np.asarray(values, dtype=np.float64)).mean():.5g}" for values in (found.ours, found.peer)]
        difference = f"{largest_difference(found.ours, found.peer):.1g}"
        default = "the same" if found.defaults is None else f"{largest_difference(found.ours, found.defaults):.2g}"
        lines.append((one.name, f"{one.peer} {one.version}", *mean, difference, f"{one.tolerance:g}", default))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    print(table())
