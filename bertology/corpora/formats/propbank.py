"""Universal PropBank: CoNLL-U with predicates and their arguments in further columns (Akbik et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bertology.corpora._corpus import Corpus, corpus_from_files
from bertology.corpora._files import Oddities, split_files, suffix_of, text_lines
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats._words import Span
from bertology.corpora.formats.conllu import read_sentences
from bertology.corpora.formats.conllu_lines import N_COLUMNS, Block
from bertology.errors import CorpusError

_ROLESET, _FIRST_ROLE = N_COLUMNS, N_COLUMNS + 1
_PREDICATE = "V"
_NONE = frozenset(["", "_"])
_UNANNOTATED = "propbank = no-up"
_WORDLESS = 0.9


def looks_like_propbank(path: Path) -> bool:
    """Whether the first word of a CoNLL-U file has more columns than CoNLL-U has."""
    if suffix_of(path) != ".conllu":
        return False
    first = next((line for line in text_lines(path) if line[0].isdigit()), "")
    return first.count("\t") >= N_COLUMNS


def read_propbank(path: Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a file of Universal PropBank 1.0, which is CoNLL-U with further columns.

    The eleventh column holds the roleset of a predicate (``nominate.01``), here the layer ``roleset``; each column
    after it belongs to one predicate, in order, and holds the role of each argument at its head word. Targets ``srl``
    are predicate (``span1``, one word), argument (``span2``) and role, ``ARG0`` or ``ARGM-TMP``; those that refer
    (``R-``) or continue (``C-``) another are kept with their marks, the predicate's own ``V`` is none.

    Since Tenney et al. 2019 label spans, an argument is the subtree of its head word in the file's own tree, without
    the branch that holds the predicate (the relative clause of the noun it modifies). Where that leaves several
    pieces, as of *they are very old* without the copula *are*, it is the piece around the head word, without
    punctuation at its ends (*very old*); these are counted in ``oddities``, as are predicates without arguments and
    sentences that were not annotated.

    Raises:
        CorpusError: the file or a line of it is not as it should be; the message names file and line.
    """
    oddities = oddities or Oddities()
    for block, sentence in read_sentences(path, oddities, wider=True):
        if any(comment.strip() == _UNANNOTATED for comment in block.comments):
            oddities.skip("sentences without PropBank annotation", sentence.id)
            yield sentence
        else:
            yield _with_roles(sentence, block, oddities)


def _with_roles(sentence: Sentence, block: Block, oddities: Oddities) -> Sentence:
    rows = block.split_lines()
    places = [place for place, row in enumerate(rows) if row[0].isdecimal()]
    words = [rows[place] for place in places]
    width = len(words[0])
    for place, row in zip(places, words, strict=True):
        if len(row) <= _ROLESET:
            raise block.error(place, f"{len(row)} columns, but the eleventh should hold a roleset; write _ for none")
        if len(row) != width:
            raise block.error(place, f"{len(row)} columns where the sentence has {width}; give each predicate one")
    predicates = [index for index, row in enumerate(words) if row[_ROLESET] not in _NONE]
    columns = list(zip(*(row[_FIRST_ROLE:] for row in words), strict=True))
    while len(columns) > len(predicates) and set(columns[-1]) <= {""}:
        columns.pop()  # files end lines in a tab where a sentence has no predicate
    if len(columns) != len(predicates):
        raise block.error(
            places[0], f"{len(predicates)} rolesets but {len(columns)} columns of roles; give each predicate one"
        )
    targets: list[Target] = []
    for predicate, column in zip(predicates, columns, strict=True):
        roles = [(index, role) for index, role in enumerate(column) if role not in _NONE and role != _PREDICATE]
        where = f"{block.path.name}:{block.first_line + places[predicate]}"
        if not roles:
            oddities.skip("predicates without arguments", where)
        if roles and sentence.heads is None:
            raise block.error(places[predicate], "roles in a sentence without heads, which say how far they reach")
        for argument, role in roles:
            inside = _below(sentence.heads or (), argument, predicate)
            span = (min(inside), max(inside) + 1)
            if span[1] - span[0] > len(inside):
                oddities.note("arguments not in one piece, given by the piece around their head word", where)
                span = _piece(inside, argument, sentence.layers.get("deprel") or (None,) * len(sentence))
            targets.append(Target((predicate, predicate + 1), role, span))
    rolesets = tuple(None if row[_ROLESET] in _NONE else row[_ROLESET] for row in words)
    return replace(
        sentence,
        layers={**sentence.layers, "roleset": rolesets} if any(rolesets) else sentence.layers,
        targets={**sentence.targets, "srl": tuple(targets)} if targets else sentence.targets,
    )


def _below(heads: Sequence[int], argument: int, predicate: int) -> set[int]:
    """The words below ``argument`` in a tree, and itself, but for the branch of ``predicate``."""
    if argument == predicate:
        return {argument}
    branch, above = predicate, heads[predicate] - 1
    while above not in (argument, -1):
        branch, above = above, heads[above] - 1
    left_out = branch if above == argument else None
    inside = {argument}
    more = inside
    while more:
        more = {i for i, head in enumerate(heads) if head - 1 in more and i != left_out}
        inside = inside | more
    return inside


def _piece(inside: set[int], head: int, relations: Sequence[str | None]) -> Span:
    """The unbroken stretch of words ``inside`` around ``head``, without punctuation at its ends."""
    start, end = head, head + 1
    while start - 1 in inside:
        start -= 1
    while end in inside:
        end += 1
    while start < head and relations[start] == "punct":
        start += 1
    while end - 1 > head and relations[end - 1] == "punct":
        end -= 1
    return start, end


def load_propbank(path: Path, *, joined: bool = False) -> Corpus:
    """The corpus in a folder of Universal PropBank files, one a split, or in one file.

    Raises:
        CorpusError: no such file, one that is not as it should be, or one without words, unless it is to be ``joined``
            to a corpus that has them.
    """
    corpus = corpus_from_files(path, read_propbank, [".conllu"], what="CoNLL-U")
    for split, sentences in corpus.splits.items():
        if not joined and _is_wordless(sentences):
            file = split_files(path, [".conllu"], what="CoNLL-U")[split][0]
            raise CorpusError(f"{file}: its words are all _; name the treebank that has them: {path}+path/to/treebank")
    return corpus


def _is_wordless(sentences: Sentences) -> bool:
    """Whether nearly all words were taken out, as treebanks under licence do."""
    if "_" not in sentences.forms.values:
        return False
    code = sentences.forms.values.index("_")
    return float((sentences.forms.codes == code).mean()) > _WORDLESS
