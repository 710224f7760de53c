"""spaCy in and out: documents, ``.spacy`` files, and raw text annotated by a pipeline."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from bertology._files import digest, opened
from bertology._lazy import spacy
from bertology.corpora._corpus import Corpus, Format, corpus_at
from bertology.corpora._files import split_files, text_lines, wrong
from bertology.corpora._sentences import Sentence, Sentences
from bertology.corpora._words import entities_of
from bertology.errors import CorpusError, quoted

_SEGMENT = "add a sentencizer or a parser to the pipeline: nlp.add_pipe('sentencizer')"
_UNSTATED = "not stated in the file; taken for people"


def from_docs(
    docs: "Iterable[spacy.tokens.Doc]", *, annotator: str | None, name: str = "docs", split: str = "test"
) -> Corpus:
    """A corpus of spaCy documents.

    Words are the tokens that are not white space; white space of any kind and amount between two words is one space
    of the natural text. Layers are those that a document has: ``upos``, ``xpos``, ``lemma``, ``feats``, ``deprel``
    with heads (the root's label as in Universal Dependencies, ``root``), and ``ner`` in IOB2, from which follow the
    targets ``entities``.

    Args:
        docs: documents with sentence boundaries.
        annotator: name and version of the pipeline that made the labels (results are then marked silver), or
            ``None`` when people made them.
        name: name of the corpus.
        split: split of the documents.

    Raises:
        CorpusError: a document has no sentence boundaries, or a head outside the sentence.
    """
    return Corpus(name, {split: Sentences(sentences_of_docs(docs))}, annotator=annotator)


def annotate_text(path_or_text: str | Path, pipeline: "str | spacy.language.Language" = "en_core_web_sm") -> Corpus:
    """Raw text, annotated by a spaCy pipeline; its labels are silver.

    The corpus has the one split ``test``; its ``annotator`` is the pipeline's name and version.

    Args:
        path_or_text: a file, when given as a ``Path``; a text, when given as a ``str``. Paragraphs are parted by
            blank lines; a single line break is white space.
        pipeline: the name or folder of an installed pipeline, or a loaded one.

    Raises:
        CorpusError: the pipeline is not installed or finds no sentences, or there is no word in the text.
    """
    try:
        nlp = spacy.load(pipeline) if isinstance(pipeline, str) else pipeline
    except OSError:
        what = f"is not installed; python -m spacy download {pipeline}, or name another"
        raise CorpusError(f"spaCy pipeline {quoted(pipeline)} {what}") from None
    is_file = isinstance(path_or_text, Path)
    where = str(path_or_text) if is_file else "the text"
    lines = text_lines(Path(path_or_text)) if is_file else iter(str(path_or_text).splitlines(keepends=True))
    blocks = ["".join(block) for is_text, block in groupby(lines, key=lambda line: bool(line.strip())) if is_text]
    if (longest := max(map(len, blocks), default=0)) > nlp.max_length:
        raise wrong(f"{where}: paragraph", f"{longest:,} characters", f"{nlp.max_length:,} at most between blank lines")
    sentences = Sentences(sentences_of_docs(nlp.pipe(blocks)))
    if not len(sentences):
        raise CorpusError(f"{where}: no word in it; give some text")
    meta, name = nlp.meta, Path(path_or_text).stem if is_file else "text"
    annotator = f"{meta['lang']}_{meta['name']} {meta['version']}"
    return Corpus(name, {"test": sentences}, language=str(meta["lang"]), annotator=annotator)


def to_docs(sentences: Iterable[Sentence], vocab: "spacy.vocab.Vocab") -> "Iterator[spacy.tokens.Doc]":
    """A spaCy document for each sentence.

    Carries words, spacing, heads and the layers ``upos xpos lemma feats deprel ner``; other layers, comments and
    span-level annotation have no place there and are left out. Words that do not spell the multiword token they
    belong to (French *du* = *de* + *le*) are parted by spaces, since a document is spelled by its tokens. The
    sentence's id is kept as ``doc.user_data["sent_id"]``.

    Raises:
        CorpusError: spaCy does not take an annotation, such as a ``upos`` that is not universal.
    """
    for sentence in sentences:
        layers = {name: [value or "" for value in values] for name, values in sentence.layers.items()}
        # A space follows inside tokens that their words do not spell.
        of_tokens = (one for one in sentence.multiword if sentence.spans[one.first] == sentence.spans[one.last])
        apart = {index for token in of_tokens for index in range(token.first, token.last)}
        spaced = [sentence.text[end : end + 1].isspace() for _, end in sentence.spans]
        heads = None
        if sentence.heads is not None:
            heads = [head - 1 if head else index for index, head in enumerate(sentence.heads)]
        deps = layers.get("deprel") or (["dep"] * len(sentence) if heads else None)
        try:
            doc = spacy.tokens.Doc(
                vocab,
                words=list(sentence.words),
                spaces=[space or index in apart for index, space in enumerate(spaced)],
                tags=layers.get("xpos"),
                pos=layers.get("upos"),
                morphs=layers.get("feats"),
                lemmas=layers.get("lemma"),
                heads=heads,
                deps=["ROOT" if dep == "root" else dep for dep in deps] if deps and heads else None,
                ents=layers.get("ner"),
                sent_starts=[index == 0 for index in range(len(sentence))] if heads is None else None,
            )
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise CorpusError(f"sentence {quoted(sentence.id)}: spaCy refuses it: {reason}") from error
        doc.user_data["sent_id"] = sentence.id
        yield doc


class DocBins(Format):
    """``.spacy`` files; documents may state the pipeline that annotated them as ``user_data["annotator"]``."""

    title, suffixes, described = ".spacy", (".spacy",), "spaCy (.spacy)"

    def load(self, path: Path) -> Corpus:
        """The corpus in a file, or in a folder of files, one a split."""
        stated, splits = set[str | None](), dict[str, list[Sentence]]()
        by_split = split_files(path, self.suffixes, what=self.title)
        for split, file in ((split, file) for split, files in by_split.items() for file in files):
            with opened(file, error=CorpusError) as opened_file:
                content = opened_file.read()
            try:
                docs = list(spacy.tokens.DocBin().from_bytes(content).get_docs(spacy.vocab.Vocab()))
                # What a word is annotated with is looked up when it is asked for.
                splits.setdefault(split, []).extend(sentences_of_docs(docs, where=f"{file}: "))
                annotators = [doc.user_data.get("annotator", "") for doc in docs]
            except CorpusError:
                raise
            except Exception as error:  # whatever zlib, msgpack or spaCy raise on bytes that are none of theirs
                what = f"not a .spacy file ({type(error).__name__}); write it again by DocBin"
                raise CorpusError(f"{file}: {what}") from error
            if not docs or not all(one is None or isinstance(one, str) for one in annotators):
                raise wrong(f"{file}: annotators", annotators, "documents, each with a name or None for people")
            stated.update(annotators)
        annotator = " and ".join(sorted(name for name in stated if name)) or None
        notes = {"annotator": _UNSTATED} if annotator is None and "" in stated else {}
        return replace(corpus_at(path, splits, notes=notes), annotator=annotator)


def sentences_of_docs(docs: "Iterable[spacy.tokens.Doc]", *, where: str = "") -> Iterator[Sentence]:
    """The sentences of each document that has any text; those of one document are a group."""
    for number, doc in enumerate(docs, 1):
        if not len(doc):
            continue
        if not doc.has_annotation("SENT_START"):
            raise CorpusError(f"{where}document {number} has no sentence boundaries; {_SEGMENT}")
        spans = [span for span in doc.sents if any(not token.is_space for token in span)]
        name = doc.user_data.get("sent_id")
        # By its content, so that what splits are made of it does not depend on the order of documents.
        group = digest([doc.text.encode("utf-8", "surrogatepass")]) if len(spans) > 1 else ""
        for order, span in enumerate(spans, 1):
            yield _sentence(span, name if name and len(spans) == 1 else f"{name or number}-{order}", group)


def _sentence(span: "spacy.tokens.Span", name: str, group: str) -> Sentence:
    tokens = [token for token in span if not token.is_space]
    ends = [token.idx + len(token.text) for token in tokens]
    begins = [token.idx for token in tokens[1:]] + [ends[-1]]
    attributes: dict[str, Any] = {
        "upos": ("POS", lambda token: token.pos_),
        "xpos": ("TAG", lambda token: token.tag_),
        "lemma": ("LEMMA", lambda token: token.lemma_),
        # In the order of Universal Dependencies, whatever their case; spaCy puts capitals first.
        "feats": ("MORPH", lambda token: "|".join(sorted(str(token.morph).split("|"), key=str.lower))),
        "deprel": ("DEP", lambda token: "root" if token.dep_ == "ROOT" else token.dep_),
    }
    layers: dict[str, tuple[str | None, ...]] = {
        layer: tuple(value(token) or None for token in tokens)
        for layer, (annotation, value) in attributes.items()
        if span.doc.has_annotation(annotation)
    }
    if span.doc.has_annotation("ENT_IOB"):
        # An entity that begins in white space or the sentence before begins at its first word.
        tags, begun = list[str | None](), False
        for token in span:
            begun = begun and token.ent_iob_ == "I"
            if not token.is_space:
                tag = f"{'I' if begun else 'B'}-{token.ent_type_}" if token.ent_type_ else "O"
                tags.append(tag if token.ent_iob_ else None)
                begun = bool(token.ent_type_)
        layers["ner"] = tuple(tags)
    heads, has_heads = list[int](), span.doc.has_annotation("DEP")
    numbers = {token.i: number for number, token in enumerate(tokens, 1)}
    for token in tokens if has_heads else ():
        head = token.head  # where the head is white space, that one's head
        while head.is_space and head.head.i != head.i:
            head = head.head
        is_root = head.i == token.i or head.is_space
        if not is_root and head.i not in numbers:
            what = f"{quoted(token.text)} has its head in another sentence"
            raise CorpusError(f"sentence {quoted(name)}: {what}; {_SEGMENT}")
        heads.append(0 if is_root else numbers[head.i])
    entities = entities_of(layers.get("ner", ()))
    return Sentence.from_words(
        [" ".join(token.text.split()) for token in tokens],
        id=name,
        space_after=[begin > end for end, begin in zip(ends, begins, strict=True)],
        layers=layers,
        targets={"entities": entities},
        derived=frozenset(["entities"] if entities else []),
        heads=tuple(heads) if has_heads else None,
        group=group,
    )
