"""spaCy in and out, with pipelines made here: nothing is downloaded."""

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from bertology.corpora import MultiwordToken, Sentence, Target, annotate_text, from_docs, load_corpus, to_docs
from bertology.errors import CorpusError
from tests.corpora.docbins import write_docbin


@Language.component("bertology_test_tagger")
def _tagger(doc: Doc) -> Doc:
    """Tags a word by its first letter."""
    for token in doc:
        token.pos_ = "SPACE" if token.is_space else "PROPN" if token.text[0].isupper() else "NOUN"
    return doc


@pytest.fixture(scope="module")
def nlp() -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("bertology_test_tagger")
    return nlp


def _parsed() -> Sentence:
    return Sentence.from_words(
        ["Ada", "does", "n't", "visit", "New", "York", "."],
        id="s-1",
        space_after=[True, False, True, True, True, False, True],
        layers={
            "upos": ("PROPN", "AUX", "PART", "VERB", "PROPN", "PROPN", "PUNCT"),
            "xpos": ("NNP", "VBZ", "RB", "VB", "NNP", "NNP", "."),
            "lemma": ("Ada", "do", "not", "visit", "New", "York", "."),
            "feats": ("Number=Sing", "Mood=Ind|Number=Sing", None, "VerbForm=Inf", None, None, None),
            "deprel": ("nsubj", "aux", "advmod", "root", "compound", "obj", "punct"),
            "ner": ("B-PER", "O", "O", "O", "B-LOC", "I-LOC", "O"),
        },
        heads=(4, 4, 4, 0, 6, 4, 4),
        targets={"entities": (Target((0, 1), "PER"), Target((4, 6), "LOC"))},
        derived=frozenset({"entities"}),
    )


def test_out_and_in_again():
    vocab = spacy.blank("en").vocab
    docs = list(to_docs([_parsed()], vocab))
    assert docs[0].text == "Ada doesn't visit New York."
    assert docs[0][3].dep_ == "ROOT"
    assert docs[0][4].head.text == "York"
    assert [entity.text for entity in docs[0].ents] == ["Ada", "New York"]
    corpus = from_docs(docs, annotator=None, name="made", split="dev")
    assert list(corpus["dev"]) == [_parsed()]
    assert not corpus.is_silver


def test_a_docbin_keeps_sentences_and_annotator(tmp_path):
    made = [_parsed(), Sentence.from_words(["Yes"], id="s-2", layers={"upos": ("INTJ",)})]
    write_docbin(tmp_path / "train.spacy", made)
    write_docbin(tmp_path / "test.spacy", made[1:], annotator="en_made 1.0")
    gold = load_corpus(tmp_path / "train.spacy")
    assert list(gold["train"]) == made
    assert gold.annotator is None
    assert gold.notes == {}
    both = load_corpus(tmp_path)
    assert list(both.splits) == ["train", "test"]
    assert both.annotator == "en_made 1.0"


def test_a_docbin_of_other_origin_does_not_say_who_annotated(tmp_path, nlp):
    DocBin(docs=[nlp("One here. Two there.")]).to_disk(tmp_path / "dev.spacy")
    corpus = load_corpus(tmp_path / "dev.spacy")
    assert [sentence.text for sentence in corpus["dev"]] == ["One here.", "Two there."]
    assert [sentence.id for sentence in corpus["dev"]] == ["1-1", "1-2"]
    assert corpus.notes == {"annotator": "not stated in the file; taken for people"}


def test_text_is_annotated_and_marked_silver(nlp):
    corpus = annotate_text("Ada  met\nBo. Then,\tthey left.\n\nThe end", pipeline=nlp)
    sentences = list(corpus["test"])
    assert [sentence.text for sentence in sentences] == ["Ada met Bo.", "Then, they left.", "The end"]
    for sentence in sentences:
        assert [sentence.text[a:b] for a, b in sentence.spans] == list(sentence.words)
    assert sentences[0].layers == {"upos": ("PROPN", "NOUN", "PROPN", "NOUN")}
    assert sentences[0].heads is None
    assert corpus.is_silver
    assert corpus.annotator == "en_pipeline 0.0.0"
    assert corpus.language == "en"


def test_a_pipeline_that_is_not_installed():
    message = "spaCy pipeline 'xx_none_sm' is not installed; python -m spacy download xx_none_sm"
    with pytest.raises(CorpusError, match=message):
        annotate_text("One.", pipeline="xx_none_sm")


def test_a_pipeline_that_finds_no_sentences():
    message = r"document 1 has no sentence boundaries; add a sentencizer or a parser to the pipeline"
    with pytest.raises(CorpusError, match=message):
        annotate_text("One. Two.", pipeline=spacy.blank("en"))


def test_a_paragraph_longer_than_the_pipeline_takes():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.max_length = 10
    with pytest.raises(CorpusError, match="the text: paragraph: found '18 characters'; expected 10"):
        annotate_text("One two three four", pipeline=nlp)
    assert len(annotate_text("One two\n\nthree", pipeline=nlp)["test"]) == 2


def test_white_space_tokens_are_no_words():
    """Heads and entities go round them."""
    words = ["In", "\n", "New", " ", "York", "\t", "Bo", "ate"]
    doc = Doc(
        spacy.blank("en").vocab,
        words=words,
        spaces=[False] * 8,
        heads=[7, 0, 3, 4, 1, 4, 7, 7],
        deps=["prep", "space", "compound", "space", "pobj", "space", "nsubj", "ROOT"],
        ents=["O", "B-LOC", "I-LOC", "I-LOC", "I-LOC", "B-PER", "I-PER", "O"],
    )
    (sentence,) = from_docs([doc], annotator=None)["test"]
    assert sentence.words == ("In", "New", "York", "Bo", "ate")
    assert sentence.text == "In New York Boate"
    assert sentence.heads == (5, 3, 1, 5, 0)
    assert sentence.layers["ner"] == ("O", "B-LOC", "I-LOC", "B-PER", "O")


def test_words_that_do_not_spell_their_token_are_parted():
    sentence = Sentence.from_words(["de", "le", "port"], multiword=[MultiwordToken(0, 1, "du")])
    (doc,) = to_docs([sentence], spacy.blank("en").vocab)
    assert doc.text == "de le port"


def test_what_spacy_refuses_is_one_line():
    sentence = Sentence.from_words(["a"], id="s", layers={"upos": ("NN",)})
    with pytest.raises(CorpusError, match=r"sentence 's': spaCy refuses it: .*NN") as caught:
        list(to_docs([sentence], spacy.blank("en").vocab))
    assert "\n" not in str(caught.value)


def test_what_is_no_docbin(tmp_path):
    (tmp_path / "bad.spacy").write_bytes(b"not this")
    with pytest.raises(CorpusError, match=r"bad.spacy: not a .spacy file \(\w+\); write it again by DocBin"):
        load_corpus(tmp_path / "bad.spacy")
    DocBin().to_disk(tmp_path / "empty.spacy")
    with pytest.raises(CorpusError, match=r"empty.spacy: annotators: found \[\]; expected documents, each with a"):
        load_corpus(tmp_path / "empty.spacy")


def test_heads_are_counted_inside_each_sentence():
    doc = Doc(
        spacy.blank("en").vocab,
        words=["He", "ran", "She", "hid"],
        heads=[1, 1, 3, 3],
        deps=["nsubj", "ROOT", "nsubj", "ROOT"],
    )
    assert [sentence.heads for sentence in from_docs([doc], annotator=None)["test"]] == [(2, 0), (2, 0)]
