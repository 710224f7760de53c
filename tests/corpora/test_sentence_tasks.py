"""The ten probing tasks of sentences, made from a treebank."""

from collections import Counter
from collections.abc import Iterator

import pytest

from bertology import Corpus, Sentence, load_corpus
from bertology.corpora import Sentences
from bertology.corpora.sentence_tasks import SENTENCE_TASKS, sentence_tasks
from bertology.errors import CorpusError, NameNotFoundError

SPLITS = ("train", "dev", "test")


def parsed(text: str, upos: str, heads: str, deprel: str, feats: dict[int, str] | None = None) -> Sentence:
    words = text.split()
    values = tuple((feats or {}).get(place) for place in range(len(words)))
    layers = {"upos": tuple(upos.split()), "deprel": tuple(deprel.split()), "feats": values}
    return Sentence.from_words(words, layers=layers, heads=tuple(map(int, heads.split())))


def treebank(*sentences: Sentence) -> Corpus:
    return Corpus("small", dict.fromkeys(("train", "test"), Sentences()) | {"train": Sentences(sentences)})


def labelled(corpus: Corpus, task: str, split: str = "train") -> dict[str, str]:
    """The label of each text."""
    sentences = corpus[split]
    return {sentences.text(number): str(target.label) for number, (target,) in sentences.targets(f"sentence:{task}")}


def barked(noun: str, verb: str, tense: str, number: str) -> Sentence:
    feats = {1: f"Number={number}", 2: f"Mood=Ind|Tense={tense}|VerbForm=Fin"}
    return parsed(f"The {noun} {verb} loudly today", "DET NOUN VERB ADV ADV", "2 3 0 3 3", "det nsubj root x y", feats)


def test_tense_and_number_are_those_of_the_root_and_its_subject() -> None:
    nouns = {"Sing": ("dog", "cat", "cow"), "Plur": ("dogs", "cats", "cows")}
    verbs = {"Pres": ("barks", "runs", "sleeps", "eats"), "Past": ("barked", "ran", "slept", "ate")}
    sentences = [
        barked(noun, verb, tense, number)
        for number, of_number in nouns.items()
        for noun in of_number
        for tense, of_tense in verbs.items()
        for verb in of_tense
    ]
    corpus = sentence_tasks(Corpus("small", {"train": Sentences(sentences), "test": Sentences(sentences[:1])}))
    names = {"Sing": "singular", "Plur": "plural", "Pres": "present", "Past": "past"}
    number_of = {noun: names[number] for number, of_number in nouns.items() for noun in of_number}
    tense_of = {verb: names[tense] for tense, of_tense in verbs.items() for verb in of_tense}
    numbers, tenses = labelled(corpus, "subject_number"), labelled(corpus, "tense")
    assert numbers
    assert tenses
    assert all(label == number_of[text.split()[1]] for text, label in numbers.items())
    assert all(label == tense_of[text.split()[2]] for text, label in tenses.items())
    assert not labelled(corpus, "object_number")
    assert set(labelled(corpus, "length").values()) == {"5-8"}
    assert set(labelled(corpus, "top").values()) == {"nsubj root x y"}


def test_clauses_change_places_and_capitals_stay_with_the_beginning_and_with_names() -> None:
    one = "DET NOUN VERB ADV PUNCT CCONJ PROPN VERB PUNCT", "2 3 0 3 8 8 8 3 3"
    one = *one, "det nsubj root advmod punct cc nsubj conj punct"
    other = "PROPN VERB PUNCT CCONJ DET ADJ NOUN VERB PUNCT", "2 0 8 8 7 7 8 2 2"
    other = *other, "nsubj root punct cc det amod nsubj conj punct"
    texts = (
        ("The dog barked loudly , and Paul left .", one),
        ("Paul left , but the old dog barked .", other),
        ("The cat ran away , or Mary came .", one),
        ("Mary came , and the young cat ran .", other),
    )
    sentences = [parsed(text, *annotation) for text, annotation in texts]
    found = labelled(sentence_tasks(treebank(*sentences), tasks=["coordination"]), "coordination")
    inverted = {
        "Paul left , and the dog barked loudly .",
        "The old dog barked , but Paul left .",
        "Mary came , or the cat ran away .",
        "The young cat ran , and Mary came .",
    }
    assert Counter(found.values()) == {"original": 2, "inverted": 2}
    assert {text for text, label in found.items() if label == "inverted"} <= inverted


@pytest.fixture(scope="module")
def pocket() -> Corpus:
    return load_corpus("sentence_tasks:pocket")


@pytest.fixture(scope="module")
def sources() -> dict[str, Sentence]:
    corpus = load_corpus("pocket")
    return {f"{split}/{number}": sentence for split in SPLITS for number, sentence in enumerate(corpus[split])}


def changed(corpus: Corpus, sources: dict[str, Sentence], task: str) -> Iterator[tuple[str, Sentence, Sentence]]:
    """The split, the sentence and its source of every changed item of a task."""
    for split in SPLITS:
        for number, (target,) in corpus[split].targets(f"sentence:{task}"):
            sentence = corpus[split][number]
            assert [sentence.text[start:end] for start, end in sentence.spans] == list(sentence.words)
            if target.label != "original":
                yield split, sentence, sources["/".join(sentence.id.split("/")[:2])]


def test_every_task_is_made_of_the_pocket_corpus(pocket: Corpus) -> None:
    assert pocket.name == "sentence_tasks:pocket"
    assert pocket["train"].target_layers == tuple(sorted(f"sentence:{task}" for task in SENTENCE_TASKS))
    assert pocket.notes["sentence:shift"] == "2,850 train, 468 dev, 758 test sentences"
    assert pocket.fingerprint == sentence_tasks(load_corpus("pocket")).fingerprint


@pytest.mark.parametrize(
    "task", ["length", "depth", "tense", "subject_number", "object_number", "shift", "odd_word", "coordination"]
)
def test_labels_are_equally_frequent_in_each_split(pocket: Corpus, task: str) -> None:
    for split in SPLITS:
        counts = Counter(labelled(pocket, task, split).values())
        assert len(counts) > 1
        assert max(counts.values()) - min(counts.values()) <= 1  # two items may have one text


def test_length_predicts_no_depth(pocket: Corpus) -> None:
    by_depth: dict[str, Counter[int]] = {}
    for number, (target,) in pocket["train"].targets("sentence:depth"):
        by_depth.setdefault(str(target.label), Counter())[len(pocket["train"][number])] += 1
    first, *others = by_depth.values()
    assert len(others) == 2
    assert all(other == first for other in others)


def test_no_form_asked_about_is_in_two_splits(pocket: Corpus, sources: dict[str, Sentence]) -> None:
    for task, relation in (("subject_number", "nsubj"), ("object_number", "obj"), ("tense", "root")):
        forms: list[set[str]] = []
        for split in SPLITS:
            of_split = set()
            for number, (target,) in pocket[split].targets(f"sentence:{task}"):
                source = sources["/".join(pocket[split].id(number).split("/")[:2])]
                heads = source.heads or ()
                above = 0 if relation == "root" else heads.index(0) + 1
                (word,) = (
                    place
                    for place, head in enumerate(heads)
                    if head == above and str(source.layers["deprel"][place]).split(":")[0] == relation
                )
                feats = str(source.layers["feats"][word])
                names = {"past": "Past", "present": "Pres", "singular": "Sing", "plural": "Plur"}
                assert f"={names[str(target.label)]}" in feats
                of_split.add(source.words[word].lower())
            forms.append(of_split)
        assert all(forms)
        assert len(set.union(*forms)) == sum(map(len, forms))


def test_two_adjacent_words_change_places(pocket: Corpus, sources: dict[str, Sentence]) -> None:
    found = list(changed(pocket, sources, "shift"))
    for _, sentence, source in found:
        places = [
            place for place, pair in enumerate(zip(sentence.words, source.words, strict=True)) if len(set(pair)) > 1
        ]
        one, other = places
        assert other == one + 1 > 1
        assert sentence.words[one : other + 1] == source.words[one : other + 1][::-1]
        assert "PUNCT" not in source.layers["upos"][one : other + 1]
    assert len(found) == 1425 + 234 + 379


def test_one_word_is_replaced_by_another_of_its_kind(pocket: Corpus, sources: dict[str, Sentence]) -> None:
    touched: dict[str, set[str]] = {split: set() for split in SPLITS}
    for split, sentence, source in changed(pocket, sources, "odd_word"):
        (place,) = (
            place for place, pair in enumerate(zip(sentence.words, source.words, strict=True)) if len(set(pair)) > 1
        )
        assert source.layers["upos"][place] in ("NOUN", "VERB")
        touched[split] |= {sentence.words[place], source.words[place]}
    assert all(touched.values())
    assert len(set.union(*touched.values())) == sum(map(len, touched.values()))


def test_what_lacks_is_said() -> None:
    small = treebank(barked("dog", "barks", "Pres", "Sing"))
    with pytest.raises(NameNotFoundError, match="did you mean tense"):
        sentence_tasks(small, tasks=["tens"])
    with pytest.raises(CorpusError, match="no split test; give a corpus with train and test"):
        sentence_tasks(Corpus("half", {"train": small["train"], "dev": small["train"]}))
    with pytest.raises(CorpusError, match="no task can be made; give a treebank with upos, feats, heads"):
        sentence_tasks(treebank(Sentence.from_words(["Short", "."])))
