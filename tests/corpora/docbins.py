"""Files of spaCy with sentences in them."""

from collections.abc import Iterable
from pathlib import Path

from spacy.tokens import DocBin
from spacy.vocab import Vocab

from bertology.corpora import Sentence, to_docs


def write_docbin(path: Path, sentences: Iterable[Sentence], *, annotator: str | None = None) -> None:
    docbin = DocBin(store_user_data=True)
    for doc in to_docs(sentences, Vocab()):
        doc.user_data["annotator"] = annotator
        docbin.add(doc)
    docbin.to_disk(path)
