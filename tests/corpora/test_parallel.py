"""Corpora of several languages: marks of sentences, joins by id, parallel files, gold links of words."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertology import Corpus, Sentence, load_corpus
from bertology.corpora import Links, ParallelText, Sentences, multilingual_corpus, parallel_corpus, translations
from bertology.errors import CorpusError

ENGLISH, GERMAN = "the dog sleeps", "Hund schläft tief"


def unit(name: str, english: str = ENGLISH, german: str = GERMAN, links: Links | None = None) -> list[Sentence]:
    both = {"en": Sentence.from_words(english.split()), "de": Sentence.from_words(german.split())}
    return translations(both, unit=name, links={("en", "de"): links} if links else None)


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def test_sentences_carry_language_translation_and_links() -> None:
    # dog = Hund; sleeps = schläft tief (possible); "the" is linked with nothing
    gold = Links(frozenset({(1, 0), (2, 1)}), frozenset({(2, 2)}))
    text = ParallelText.of(Sentences([*unit("a", links=gold), *unit("b"), *unit("c", links=Links(frozenset()))]))
    assert text.languages == ("en", "de")
    assert [text.sentences.id(number) for number in text.numbers("de")] == ["a/de", "b/de", "c/de"]
    assert text.pairs("de", "en").tolist() == [[1, 0], [3, 2], [5, 4]]
    assert text.links("en", "de") == [gold, None, Links(frozenset())]
    assert text.links("de", "en") == [gold.turned(), None, Links(frozenset())]
    assert text.sentences[1].layers["links:en"] == ("1", "2", "p2")


def test_links_of_words_that_are_not_there_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="a/en, a/de: links of words that these sentences do not have"):
        unit("a", links=Links(frozenset({(3, 0)})))
    with pytest.raises(ValueError, match="links of en and fr, but sentences of en"):
        translations({"en": Sentence.from_words(["a"])}, links={("en", "fr"): Links(frozenset())})


@pytest.mark.parametrize(
    ("sentences", "problem"),
    [
        ([Sentence.from_words(["a"])], "no sentence states its language: give parallel:en="),
        (translations({"en": Sentence.from_words(["a"])}), "all sentences are en"),
        (unit("a") + translations({"en": Sentence.from_words(["a"])}), "language de has one sentence: give two"),
        (unit("a") + unit("a"), "2 sentences of en have the translation 'a': give one"),
    ],
)
def test_texts_that_are_not_of_several_languages(sentences: list[Sentence], problem: str) -> None:
    with pytest.raises(CorpusError, match=problem):
        ParallelText.of(Sentences(sentences))


def conllu(*names: str | None) -> str:
    word = "1\tword\t_\tX\t_\t_\t0\troot\t_\t_\n\n"
    return "".join((f"# sent_id = {name}\n" if name else "# text = word\n") + word for name in names)


def test_treebanks_are_joined_by_sent_id_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    for language, names in (("en", ("a", "b", None, "c")), ("de", ("c", "a", "a", "d"))):
        (tmp_path / language).mkdir()
        (tmp_path / f"{language}/{language}_pud-ud-test.conllu").write_text(conllu(*names), encoding="utf-8")
    corpus = load_corpus(f"parallel:{tmp_path}/en,{tmp_path}/de")
    assert [corpus["test"].id(number) for number in range(len(corpus["test"]))] == ["a/en", "a/de", "c/en", "c/de"]
    assert corpus.language == "en+de"
    assert corpus.skipped == {
        "sentences of en without sent_id": ("3",),
        "further sentences of de with one id": ("a",),
        "sentences that de does not have": ("b",),
        "sentences that en does not have": ("d",),
    }


def test_every_tenth_unit_of_train_is_held_out_with_its_translations() -> None:
    def corpus(language: str) -> Corpus:
        sentences = Sentences(Sentence.from_words([language, str(number)], id=str(number)) for number in range(20))
        return Corpus(language, {"train": sentences, "test": sentences[:2]})

    joined = parallel_corpus({"en": corpus("en"), "de": corpus("de")})
    assert [sentence.id for sentence in joined["dev"]] == ["9/en", "9/de", "19/en", "19/de"]
    assert len(joined["train"]) == 36
    apart = multilingual_corpus({"en": corpus("en"), "de": corpus("de")})
    assert [sentence.id for sentence in apart["test"]] == ["0/en", "0/de", "1/en", "1/de"]
    assert not len(ParallelText.of(apart["test"]).pairs("en", "de"))


def test_parallel_lines_with_gold_links(tmp_path: Path) -> None:
    written(tmp_path, text_en="the dog\n\nwe sleep\n", text_de="Hund\nleer\nwir schlafen\n", gold="2-1\n\n1-1 2p2\n")
    corpus = load_corpus(f"parallel:en={tmp_path}/text.en,de={tmp_path}/text.de,links={tmp_path}/gold")
    text = ParallelText.of(corpus["test"])
    assert [sentence.text for sentence in corpus["test"]] == ["the dog", "Hund", "we sleep", "wir schlafen"]
    assert corpus.skipped == {"sentences that en does not have": ("2",)}
    assert text.links("en", "de") == [Links(frozenset({(1, 0)})), Links(frozenset({(0, 0)}), frozenset({(1, 1)}))]


def test_one_file_of_both_languages_numbered_from_0(tmp_path: Path) -> None:
    written(tmp_path, both="a b ||| c d\na ||| c\n", gold="0-1\n\n")
    text = ParallelText.of(load_corpus(f"parallel:en+de={tmp_path}/both,links={tmp_path}/gold")["test"])
    assert text.links("en", "de") == [Links(frozenset({(0, 1)})), Links(frozenset())]


def test_a_few_alignments_out_of_range_are_counted_and_many_an_error(tmp_path: Path) -> None:
    lines = "a b ||| c d\n" * 12
    written(tmp_path, both=lines, few="1-1\n" * 11 + "3-1\n", many="1-1\n" * 9 + "3-1\n" * 3)
    name = f"parallel:en+de={tmp_path}/both,links1={tmp_path}/"
    corpus = load_corpus(name + "few")
    assert corpus.skipped == {"gold alignments with links of words that are not there": ("12",)}
    assert ParallelText.of(corpus["test"]).links("en", "de")[-1] is None
    with pytest.raises(
        CorpusError,
        match="parallel:en,de: gold alignments: found '3 of 12 of other words'; expected words that the sentenc",
    ):
        load_corpus(name + "many")


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("en=one.txt,de=three.txt", r"three.txt: found '3 lines'; expected 2 as in"),
        ("en=one.txt", "en: a corpus of several languages needs two or more"),
        ("en=one.txt,en=two.txt", r"parallel:en=one.txt,en=two.txt: found 'en=two\.txt'; expected each language once"),
        ("1=one.txt,de=two.txt", r"parallel:1=one.txt,de=two.txt: found '1=one\.txt'; expected LANGUAGE=path/to/one, "),
        ("en+de=one.txt", r"one.txt:1: found 'a b c'; expected 2 sentences with"),
        ("en=one.txt,de=two.txt,links=odd", "odd:1: found '1=1'; expected links as 3-4, or 3p4 f"),
        ("en=one.txt,de=two.txt,links=short", "short: found '1 lines'; expected 2, one for each line o"),
        ("en=one.txt,de=two.txt,links=vague", "vague: found .*; expected a word 0, or as many a"),
        ("en=one.txt,pocket", "pocket: found 'language en'; expected another one, as by en="),
        ("de=one.txt,pocket", "parallel:de,en: found .*; expected texts that translate e"),
    ],
)
def test_one_line_states_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str, problem: str
) -> None:
    files = {"one_txt": "a b c\nd\n", "two_txt": "a b c\nd\n", "three_txt": "a\nb\nc\n"}
    written(tmp_path, **files, odd="1=1\n\n", short="1-1\n", vague="1-1\n\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match=problem) as raised:
        load_corpus(f"parallel:{rest}")
    assert "\n" not in str(raised.value)


def test_real_treebanks_and_hansards(real_data: Callable[[str], Path]) -> None:
    pud = load_corpus(f"parallel:{real_data('ud_english_pud')},{real_data('ud_german_pud')}")
    assert (len(pud["test"]), pud.language, dict(pud.skipped)) == (2000, "en+de", {})
    folder = real_data("word_alignments")
    hansards = load_corpus(f"parallel:en+fr={folder}/enfr.src-tgt,links={folder}/enfr.gold")
    links = ParallelText.of(hansards["test"]).links("en", "fr")
    assert (sum(len(one.sure) for one in links if one), sum(len(one.possible) for one in links if one)) == (4038, 13400)
    kyoto = load_corpus(f"parallel:ja+en={folder}/jaen.src-tgt,links={folder}/jaen.gold")
    assert list(kyoto.skipped.values()) == [("351", "354", "355", "356")]
