"""Counts and metrics of them, against scikit-learn, scipy and counting by hand."""

import itertools

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, r2_score

from bertology.errors import NameNotFoundError
from bertology.measures import bootstrap, count_labels, count_numbers, find_metric, majority, read_heads
from bertology.measures.baselines import word_majority
from bertology.measures.metrics import (
    ANSWER_F1,
    ENTITY_F1,
    EXACT_MATCH,
    METRICS,
    PEARSON,
    Grouped,
    binary_f1,
    count_answers,
    count_correlation,
    count_entities,
    count_trees,
    grouped_macro_f1,
    label_scores,
    mean_numbers,
    mean_over_groups,
    metric_form,
    micro_f1,
)

OF_LABELS = [metric for metric in METRICS.values() if metric.count_kind == "labels"]
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "never")


def made_up(seed=0, *, n_items=400, n_labels=4, n_layers=3, n_clusters=37):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, n_labels, n_items)
    pred = np.where(rng.random((n_layers, n_items)) < 0.7, gold, rng.integers(0, n_labels, (n_layers, n_items)))
    return gold, pred, rng.integers(0, n_clusters, n_items)


def test_counts_are_what_a_loop_counts():
    gold, pred, cluster = made_up(n_items=120)
    expected = np.zeros((3, 37, 4, 3), dtype=int)
    for layer in range(3):
        for g, p, c in zip(gold, pred[layer], cluster, strict=True):
            if g == p:
                expected[layer, c, g, 0] += 1
            else:
                expected[layer, c, p, 1] += 1
                expected[layer, c, g, 2] += 1
    counts = count_labels(gold, pred, cluster, n_labels=4, n_clusters=37)
    assert counts.dtype == np.int32
    np.testing.assert_array_equal(counts, expected)


def test_metrics_equal_scikit_learn():
    gold, pred, cluster = made_up(3)
    pred[0, gold == 2] = 1  # a label never found
    pred[1, :20] = 4  # a label that does not occur, yet is predicted
    totals = count_labels(gold, pred, cluster, n_labels=5, n_clusters=37).sum(axis=1)
    present = np.unique(gold)
    for layer in range(3):
        assert METRICS["accuracy"](totals)[layer] == pytest.approx(accuracy_score(gold, pred[layer]), abs=1e-12)
        macro = f1_score(gold, pred[layer], average="macro", labels=present, zero_division=0)
        assert METRICS["macro_f1"](totals)[layer] == pytest.approx(macro, abs=1e-12)
        micro = f1_score(gold, pred[layer], average="micro", labels=[1, 2, 3, 4], zero_division=0)
        assert METRICS["micro_f1"](totals, LABELS)[layer] == pytest.approx(micro, abs=1e-12)


def test_a_metric_of_nothing_is_undefined():
    nothing = np.zeros((2, 3), dtype=np.int32)
    assert all(np.isnan(metric(nothing)) for metric in OF_LABELS)


def test_an_unknown_metric_is_answered_with_the_nearest():
    with pytest.raises(NameNotFoundError, match="did you mean macro_f1"):
        find_metric("macro-f1")


@pytest.mark.parametrize(
    ("gold", "pred", "cluster", "message"),
    [
        ([0, 1], [[0]], [0, 0], "shapes do not fit"),
        ([0, 3], [[0, 1]], [0, 0], "gold has numbers outside 0…2"),
        ([0, 1], [[0, -1]], [0, 0], "pred has numbers outside 0…2"),
        ([0, 1], [[0, 1]], [0, 2], "cluster has numbers outside 0…1"),
    ],
)
def test_impossible_input_is_refused(gold, pred, cluster, message):
    with pytest.raises(ValueError, match=message):
        count_labels(gold, pred, cluster, n_labels=3, n_clusters=2)


N_ITEMS, N_LABELS = 300, 5


@pytest.fixture
def drawn():
    rng = np.random.default_rng(4)
    gold = rng.random((N_ITEMS, N_LABELS)) < [0.5, 0.3, 0.1, 0.7, 0.02]
    pred = np.stack([gold ^ (rng.random(gold.shape) < share) for share in (0.1, 0.3)])
    return gold, pred, rng.integers(0, 20, N_ITEMS)


def as_sets(gold, pred):
    members, codes = np.unique(np.concatenate([gold, *pred]), axis=0, return_inverse=True)
    codes = codes.reshape(3, -1)
    return members, codes[0], codes[1:]


def test_counts_of_sets_are_those_of_each_label_as_a_yes_or_no(drawn):
    gold, pred, cluster = drawn
    members, gold_sets, pred_sets = as_sets(gold, pred)
    counts = count_labels(gold_sets, pred_sets, cluster, members=members, n_labels=members.shape[1], n_clusters=20)
    for layer in range(2):
        for label in range(N_LABELS):
            yes_no = count_labels(
                gold[:, label].astype(int), pred[layer, :, label].astype(int)[None], cluster, n_labels=2, n_clusters=20
            )
            np.testing.assert_array_equal(counts[layer, :, label], yes_no[0, :, 1])


def test_micro_f1_of_sets_equals_scikit_learn(drawn):
    gold, pred, cluster = drawn
    members, gold_sets, pred_sets = as_sets(gold, pred)
    counts = count_labels(gold_sets, pred_sets, cluster, members=members, n_labels=members.shape[1], n_clusters=20)
    found = bootstrap(counts, ["micro_f1", "macro_f1"], labels=tuple("abcde"), n_resamples=50)
    for layer in range(2):
        assert found["micro_f1"].values[layer] == pytest.approx(f1_score(gold, pred[layer], average="micro"))
        assert found["macro_f1"].values[layer] == pytest.approx(f1_score(gold, pred[layer], average="macro"))
    each = label_scores(counts[0].sum(axis=0))
    np.testing.assert_allclose(each.f1, f1_score(gold, pred[0], average=None))


def test_a_label_left_out_of_micro_f1_earns_nothing():
    gold, pred = np.array([0, 0, 0, 1, 1, 0]), np.array([[0, 0, 1, 1, 0, 0]])
    counts = count_labels(gold, pred, np.zeros(6, dtype=int), n_labels=2, n_clusters=1)[:, 0]
    metric = micro_f1(without=("0",))
    assert metric.name == "micro_f1"
    assert metric(counts, ("0", "1"))[0] == pytest.approx(f1_score(gold, pred[0], pos_label=1))


def test_directions_of_a_relation_are_scored_together_but_must_be_right():
    names = ("A(e1,e2)", "A(e2,e1)", "B(e1,e2)", "Other")
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 4, 200)
    pred = np.where(rng.random(200) < 0.6, gold, rng.integers(0, 4, 200))
    metric = grouped_macro_f1("macro_f1", "by relation", group=lambda n: None if n == "Other" else n[0])
    counts = count_labels(gold, pred[None], np.zeros(200, dtype=int), n_labels=4, n_clusters=1)[:, 0]
    scores = []
    for members in ((0, 1), (2,)):
        right = sum(int(((gold == m) & (pred == m)).sum()) for m in members)
        claimed, there = np.isin(pred, members).sum(), np.isin(gold, members).sum()
        scores.append(2 * right / (claimed + there))
    assert metric(counts, names)[0] == pytest.approx(np.mean(scores))


def test_majority_of_sets_is_label_by_label():
    labels = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0]], dtype=bool)
    assert majority(labels).tolist() == [True, False, False]
    words = np.array([0, 0, 1, 1])
    found = word_majority(words, labels, np.array([0, 1, -1]), n_words=2)
    assert found.tolist() == [[True, False, False], [False, False, False], [True, False, False]]
    with pytest.raises(ValueError, match="no training labels"):
        majority(labels[:0])


RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("n_labels", [2, 4])
def test_matthews_and_binary_f1_are_those_of_scikit_learn(n_labels: int) -> None:
    gold, pred = RANDOM.integers(0, n_labels, 200), RANDOM.integers(0, n_labels, 200)
    pred[:120] = gold[:120]
    counts = count_labels(gold, pred[None], np.arange(200), n_labels=n_labels, n_clusters=200).sum(axis=1)[0]
    labels = [str(number) for number in range(n_labels)]
    assert find_metric("matthews")(counts, labels) == pytest.approx(matthews_corrcoef(gold, pred))
    assert binary_f1("1")(counts, labels) == pytest.approx(f1_score(gold == 1, pred == 1))
    assert np.isnan(binary_f1("yes")(counts, labels))


def test_matthews_of_one_predicted_label_is_zero() -> None:
    counts = count_labels([0, 1, 1], [[1, 1, 1]], [0, 1, 2], n_labels=2, n_clusters=3).sum(axis=1)[0]
    assert find_metric("matthews")(counts) == matthews_corrcoef([0, 1, 1], [1, 1, 1]) == 0


def test_pearson_is_that_of_scipy_and_its_interval_holds_it() -> None:
    gold = RANDOM.normal(size=150) + 1000
    pred = gold + RANDOM.normal(size=150)
    counts = count_correlation(gold, pred, np.arange(150) // 3, n_clusters=50)
    found = bootstrap(counts, [PEARSON], n_resamples=500)["pearson"]
    assert found.values[0] == pytest.approx(pearsonr(gold, pred).statistic)
    assert found.ci_low[0] < found.values[0] < found.ci_high[0] <= 1


def test_entities_are_counted_as_conlleval_does() -> None:
    gold = ["O", "B-PER", "I-PER", "O", "B-LOC", "B-LOC", "O", "B-ORG"]
    pred = ["O", "B-PER", "I-PER", "O", "I-LOC", "I-LOC", "O", "I-PER"]
    # The two places run together into one, an I- of another type begins an entity, a sentence ends one.
    counts, types = count_entities(gold, pred, [0, 0, 0, 0, 0, 0, 1, 1], n_clusters=2)
    assert types == ("LOC", "ORG", "PER")
    assert counts[0, 0].tolist() == [[0, 1, 2], [0, 0, 0], [1, 0, 0]]
    assert counts[0, 1].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert ENTITY_F1(counts[0].sum(axis=0)) == pytest.approx(2 / (2 + 2 + 3))


def test_an_entity_ends_with_its_sentence() -> None:
    tags = ["B-PER", "I-PER"]
    assert count_entities(tags, tags, [0, 1], n_clusters=2)[0][0, :, 0, 0].tolist() == [1, 1]


def test_answers_are_compared_as_by_the_script_of_squad() -> None:
    gold = [["The Eiffel Tower", "Eiffel"], ["in 1990"], [], ["a cat"]]
    pred = ["eiffel tower!", "1990", "", ""]
    counts = count_answers(gold, pred, [0, 1, 2, 2], n_clusters=3)
    assert counts[0, :, 0].tolist() == [[1, 1, 1], [0, 2 / 3, 1], [1, 1, 2]]
    totals = counts.sum(axis=1)[0]
    assert EXACT_MATCH(totals) == 2 / 4
    assert ANSWER_F1(totals) == pytest.approx((1 + 2 / 3 + 1) / 4)


MARKS = ("2 0 2 _", "2 3 0 _", "0 1", "2 0", "2:nsubj 0:root 2:obj", "2:nsubj 0:root 1:obj", "3:obj 0:root 2:obj")


def scores(gold, pred, marks, correlation, *, count_kind):
    counts, lengths = count_trees(
        np.asarray(gold), np.asarray(pred), marks, np.asarray(correlation, dtype=float), count_kind=count_kind
    )
    names = [metric.name for metric in METRICS.values() if metric.count_kind == count_kind]
    return {name: found.values for name, found in bootstrap(counts, names, labels=lengths, n_resamples=20).items()}


def test_undirected_edges_by_hand():
    """Of the three edges of both sentences, one layer finds all, one only that of the short sentence and 2–3."""
    found = scores([0, 2], [[0, 3], [1, 2]], MARKS, np.zeros((2, 2)), count_kind="edges")
    assert found["uuas"] == pytest.approx([1.0, 1.0])
    found = scores([0, 2], [[0, 3]], ("2 0 2 _", "x", "0 1", "2 0"), np.zeros((1, 2)), count_kind="edges")
    assert found["uuas"] == pytest.approx([1.0])
    # the chain 1–2–3 for the star around 1
    found = scores([0], [[1]], ("0 1 1", "0 1 2"), np.zeros((1, 1)), count_kind="edges")
    assert found["uuas"] == pytest.approx([0.5])


def test_roots_by_hand():
    marks = ("1 0 1", "1.02 0.2 0.9", "0.1 0.2 0.9", "_ 0 1", "_ 0.5 0.4", "_ 1 1")
    found = scores([0, 0, 3, 5], [[1, 2, 4, 5], [1, 1, 3, 5]], marks, np.zeros((2, 4)), count_kind="roots")
    # the root of the last is punctuation: there is none to be found
    assert found["root_accuracy"] == pytest.approx([1 / 3, 1.0])


def test_arcs_by_hand():
    found = scores([4], [[4], [5], [6]], MARKS, np.zeros((3, 1)), count_kind="arcs")
    assert found["uas"] == pytest.approx([1, 2 / 3, 2 / 3])
    assert found["las"] == pytest.approx([1, 2 / 3, 2 / 3])
    found = scores([0], [[1]], ("2:nsubj 0:root _", "2:obj 0:root _"), np.zeros((1, 1)), count_kind="arcs")
    assert found["uas"] == pytest.approx([1.0])
    assert found["las"] == pytest.approx([0.5])


def test_correlations_are_means_of_means_over_lengths():
    """The definition, word by word: correlations of all words of one length, their mean, the mean of these."""
    draw = np.random.default_rng(0)
    lengths = [3, 5, 5, 6, 9, 50, 51]
    by_word = [
        [spearmanr(draw.random(n), draw.random(n)).statistic for _ in range(n)] if n > 2 else [] for n in lengths
    ]
    expected = np.mean(
        [np.mean([rho for n, words in zip(lengths, by_word, strict=True) if n == length for rho in words])
         for length in (5, 6, 9, 50)]
    )  # fmt: skip
    marks = [" ".join(["0", *["1"] * (n - 1)]) for n in lengths]
    texts = tuple(dict.fromkeys(marks))
    codes = np.array([texts.index(mark) for mark in marks])
    found = scores(codes, codes[None], texts, [[np.mean(words) for words in by_word]], count_kind="edges")
    assert found["dspr"] == pytest.approx([expected])
    # a sentence without a correlation is no zero
    unknown = [[np.mean(words) for words in by_word[:-2]] + [np.nan, 0.3]]
    without = np.mean([np.mean([np.mean(by_word[1]), np.mean(by_word[2])]), np.mean(by_word[3]), np.mean(by_word[4])])
    assert scores(codes, codes[None], texts, unknown, count_kind="edges")["dspr"] == pytest.approx([without])


def of_groups(group: list[int], cluster: list[int] | None = None) -> Grouped:
    cluster = list(range(len(group))) if cluster is None else cluster
    return Grouped(np.array(cluster), np.array(group), max(cluster) + 1, max(group) + 1)


def score(name: str, counts: np.ndarray) -> float:
    return float(find_metric(name)(counts.sum(axis=1))[0])


def test_places_of_answers_by_group_and_over_all() -> None:
    ranks = np.array([[1, 3, 7, 1, 0, 101]])
    counts = of_groups([0, 0, 0, 1, 1, 2]).count_answers(ranks)
    assert score("p_at_1", counts) == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert score("p_at_5", counts) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert score("p_at_10", counts) == pytest.approx((1 + 1 + 0) / 3)
    assert score("p_at_100", counts) == pytest.approx((1 + 1 + 0) / 3)
    assert score("micro_p_at_1", counts) == pytest.approx(2 / 5)
    assert score("mrr", counts) == pytest.approx(((1 + 1 / 3 + 1 / 7) / 3 + 1 + 1 / 101) / 3)
    assert score("micro_mrr", counts) == pytest.approx((1 + 1 / 3 + 1 / 7 + 1 + 1 / 101) / 5)


def test_a_group_without_a_scored_item_is_no_zero() -> None:
    counts = of_groups([0, 1]).count_answers(np.array([[1, 0]]))
    assert score("p_at_1", counts) == 1.0


def test_ties_and_what_was_not_scored_are_no_choices() -> None:
    scores, rivals = np.log([[0.5, 0.2, 0.3, 0.105]]), np.log([[0.1, 0.4, 0.3, 0.1]])
    scores[0, 1] = np.nan
    counts = of_groups([0, 0, 0, 1]).count_choices(scores, rivals)
    assert score("choice_accuracy", counts) == 1.0
    assert score("micro_choice_accuracy", counts) == 1.0
    # of the first group two were scored, one of them by a clear lead; half a per cent is no clear lead
    assert score("sensitivity", counts) == pytest.approx((1 / 2 + 0) / 2)
    wrong = of_groups([0, 0, 0, 1]).count_choices(rivals, scores)
    assert score("choice_accuracy", wrong) == 0.0


def test_what_a_change_moves() -> None:
    ranks = np.array([[1, 2, 0, 9]])
    before, after = np.log([[0.5, 0.6, 0.9, 0.4]]), np.log([[0.4, 0.1, 0.9, 0.2]])
    counts = of_groups([0, 0, 0, 1]).count_changes(ranks, after, before)
    assert score("moved", counts) == pytest.approx((1 / 2 + 1) / 2)
    assert score("probability_lost", counts) == pytest.approx(((0.1 + 0.5) / 2 + 0.2) / 2)


def test_agreement_within_clusters_equals_counting_pairs() -> None:
    random = np.random.default_rng(0)
    cluster, group = random.integers(0, 6, 40), np.zeros(40, dtype=int)
    pred, ranks = random.integers(0, 3, (2, 40)), random.integers(0, 3, (2, 40))
    counts = Grouped(cluster, group, 6, 1).count_agreement(pred, ranks)
    for cell in range(2):
        pairs = [
            (a, b) for a, b in itertools.combinations(np.flatnonzero(ranks[cell] > 0), 2) if cluster[a] == cluster[b]
        ]
        alike = sum(pred[cell, a] == pred[cell, b] for a, b in pairs)
        assert counts[cell, :, 0, 0].sum() == len(pairs)
        assert counts[cell, :, 0, 1].sum() == alike
        right = [set(ranks[cell, (cluster == c) & (ranks[cell] > 0)]) == {1} for c in range(6)]
        assert counts[cell, :, 0, 3].tolist() == right
    summed = counts.sum(axis=1)
    assert find_metric("consistency")(summed)[0] == pytest.approx(summed[0, 0, 1] / summed[0, 0, 0])


def test_a_mean_over_some_groups() -> None:
    counts = of_groups([0, 0, 1, 1, 2, 2]).count_answers(np.array([[1, 2, 1, 2, 2, 1]])).sum(axis=1)
    some = mean_over_groups("some", "of a", of=find_metric("p_at_1"), which=lambda name: name.startswith("a"))
    counts[0, 1, 1] = 2
    assert some(counts, ("a1", "a2", "b")) == pytest.approx([(1 / 2 + 1) / 2])
    assert np.isnan(some(counts, ("c", "d", "e"))).all()


def test_values_are_those_of_scikit_learn_and_scipy() -> None:
    rng = np.random.default_rng(0)
    gold = np.round(rng.normal(1e4, 3, size=300), 1)  # far from zero, with ties
    pred = np.stack([gold + rng.normal(0, scale, size=300) for scale in (0.1, 2, 50)])
    cluster = rng.integers(0, 40, size=300)
    scores = bootstrap(count_numbers(gold, pred, cluster, n_clusters=40), ("r2", "spearman", "rmse"), n_resamples=400)
    for layer, numbers in enumerate(pred):
        assert scores["r2"].values[layer] == pytest.approx(r2_score(gold, numbers), abs=1e-9)
        assert scores["spearman"].values[layer] == pytest.approx(spearmanr(gold, numbers).statistic, abs=1e-9)
        assert scores["rmse"].values[layer] == pytest.approx(np.sqrt(np.mean((gold - numbers) ** 2)), abs=1e-9)
    for name, score in scores.items():
        assert (score.ci_low[:2] < score.values[:2]).all(), name
        assert (score.values[:2] < score.ci_high[:2]).all(), name


def test_constant_numbers_have_no_score() -> None:
    counts = count_numbers(np.ones(6), np.arange(6.0)[None], np.arange(6), n_clusters=6)
    assert np.isnan(bootstrap(counts, ("r2",), n_resamples=5)["r2"].values).all()


def test_means_by_word_and_of_all_for_unknown_words() -> None:
    mean, by_word = mean_numbers([0, 0, 1], np.array([1.0, 3.0, 8.0]), [0, 1, -1], n_words=2)
    assert mean.tolist() == [4, 4, 4]
    assert by_word.tolist() == [2, 8, 4]


def test_an_edge_to_punctuation_does_not_count():
    """The second word hangs from a comma in gold: one edge is left."""
    found = scores([0], [[1]], ("0 3 _ 1", "0 1 _ 1"), np.zeros((1, 1)), count_kind="edges")
    assert found["uuas"] == pytest.approx([1.0])
    assert read_heads("0 3 _ 1:obj") == (0, 3, -1, 1)


def test_a_resample_of_clusters_has_the_r2_of_its_items() -> None:
    rng = np.random.default_rng(1)
    gold, cluster = rng.normal(size=60), np.repeat(np.arange(12), 5)
    pred = gold + rng.normal(size=60)
    counts = count_numbers(gold, pred[None], cluster, n_clusters=12)
    score = bootstrap(counts, ("r2",), n_resamples=10)["r2"]
    for left_out in range(12):
        kept = cluster != left_out
        assert score.jackknife[left_out, 0] == pytest.approx(r2_score(gold[kept], pred[kept]), abs=1e-9)


def test_titles_are_plain_words() -> None:
    assert metric_form("cka_null").title == "CKA of shuffled words"
    assert metric_form("visible_loss_increase_bits").title == "visible words: increase of the loss in bits"
    assert metric_form("p_at_1 N-M").title == "P@1 N-M"
    assert metric_form("decision_divergence_bits_random").unit == "counted"
