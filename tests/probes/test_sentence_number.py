"""Numbers of sentences on the embedded model."""

from __future__ import annotations

from dataclasses import replace

from bertology import Corpus, load_corpus, probe
from bertology.corpora import Sentences, Target


def with_lengths(corpus: Corpus) -> Corpus:
    def annotated(sentences: Sentences) -> Sentences:
        return Sentences(
            replace(one, targets={**one.targets, "words": (Target((0, len(one.words)), str(len(one.words))),)})
            for one in sentences
        )

    return replace(corpus, splits={name: annotated(split[:150]) for name, split in corpus.splits.items()})


def test_the_length_of_a_sentence_is_read_off_the_mean_of_its_words() -> None:
    corpus = with_lengths(load_corpus("pocket"))
    rows = probe("sentence_number:words", corpus=corpus, layers="0,4", controls="mean", progress=False).to_pandas()
    own = rows[(rows.control == "none") & (rows.metric == "r2")]
    assert (own.value > 0.5).all()
    assert (own.n_items == 150).all()
    assert (own.n_clusters == 150).all()
