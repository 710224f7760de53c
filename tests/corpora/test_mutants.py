"""Damaged corpora of every format: read, or refused in one line that quotes little of them."""

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bertology.corpora import Corpus, Sentence, annotate_text, load_corpus
from bertology.corpora.formats.penn import OntoNotes
from bertology.corpora.formats.published import SemEval, SentEval, Winograd
from bertology.corpora.prompts.lama import read_lama, read_pararel, read_primed, read_relations
from bertology.corpora.prompts.pairs import read_agreement, read_minimal_pairs
from bertology.corpora.prompts.sets import read_diagnostics, read_documents
from bertology.errors import CorpusError
from tests.corpora.docbins import write_docbin
from tests.long_numbers import dumped
from tests.mutations import MAX_MESSAGE, accepted, mutated_bytes, mutated_tree, times

COUNT = times(60)
"""Mutants of a file."""

LONG, DIGITS = "x" * 100_000, "9" * 5000


def _rows(*rows: str) -> str:
    return "".join(row.replace(" ", "\t") + "\n" for row in rows) + "\n"


CONLLU = (
    "# newdoc id = d\n# sent_id = d-1\n# text = du pain\n"
    + _rows("1-2 du _ _ _ _ _ _ _ _", "1 de de ADP _ _ 3 case _ _", "2 le le DET _ A=B 3 det _ _",
            "2.1 e e X _ _ _ _ _ _", "3 pain pain NOUN _ _ 0 root _ Entity=(e1-person-1)|SpaceAfter=No")
    + "# newdoc id = e\n# sent_id = e-1\n"
    + _rows("1 Go go VERB V _ 0 root _ Entity=(e1-x-1)", "2 ! ! PUNCT _ _ 1 punct _ Entity=(e1-x-1)")
)  # fmt: skip
DOCUMENTS = "".join(
    f"# newdoc id = {name}\n" + _rows("1 Go go VERB V _ 0 root _ _") + _rows("1 On on ADP _ _ 0 root _ _")
    for name in "ab"
)
PROPBANK = _rows(
    "1 He he PRON _ _ 2 nsubj _ _ _ A0", "2 ran run VERB _ _ 0 root _ _ run.01 V", "3 on on ADP _ _ 2 x _ _ _ A1"
)
COLUMNS = "-DOCSTART- O O\n\nAda NNP B-PER\nruns VBZ O\n\n# text = Up, you\nUp RB O\n, , O\nyou PRP B-PER\n\n"
NUMBERED = "# sent_id = 1\n" + _rows("1 Ada B-PER - -", "2 ran O - -") + _rows("1 Oslo B-LOC - -")
IOB = "Ada I-PER\nruns O\n\nOslo I-LOC\nUS B-LOC\n\n"
TREES = "( (S (NP-SBJ (NNP Ada) (-NONE- *)) (VP (VBZ runs)) (. .)) )\n" * 11
CONLL2012 = (
    "#begin document (nw/a_1); part 000\nnw/a_1 0 0 Ann NNP (TOP(S(NP*) - - - - (PERSON) (ARG0*) (0)\n"
    "nw/a_1 0 1 ran VBD (VP*))) run 01 1 - * (V*) -\n\n#end document\n"
)
SEMEVAL = '1\t"The <e1>tea cup</e1> is in the <e2>box</e2>."\nContent-Container(e1,e2)\nComment: none\n\n' * 2
WINOGRAD = "The bee landed on the flower because it had pollen.\nit\nThe bee,the flower\nthe flower\n\n" * 2
EDGES = [
    {"text": "Ada runs home", "targets": [{"span1": [0, 1], "label": "A"}, {"span1": [0, 3], "label": "B"}]},
    {"text": "Go", "targets": [], "info": {"sent_id": "x", "text": "Go"}},
]
FACT = {"sub_label": "Ada", "obj_label": "London", "predicate_id": "P19", "uuid": "1"}
PRIMED = {"sub_label": "Ada", "obj_label": "London", "masked_sentences": ["Ada is in [MASK] ."],
          "masked_negations": ["Ada is not in [MASK] ."], "masked_misprimed": ["Rome? Ada is in [MASK] ."]}  # fmt: skip
RELATION = {"relation": "P19", "template": "[X] was born in [Y] .", "label": "born", "type": "N-1"}
BLIMP = {
    "sentence_good": "A b",
    "sentence_bad": "A c",
    "UID": "u",
    "pairID": "1",
    "linguistics_term": "t",
    "field": "f",
}
STIMULUS = {"case": "simple_agrmt", "condition": "sing_MS", "sentences": ["the boy is", "the boy are"]}
GULORDAVA = (
    "pattern\tconstr_id\tsent_id\tcorrect_number\tform\tclass\ttype\tprefix\tn_attr\tpunct\tfreq\tlen_context\t"
    "len_prefix\tsent\n"
    "a!b\t1\t0\tsing\tis\tcorrect\toriginal\tx\t1\ty\t3\t2\t2\tthe boy is here <eos>\n"
    "a!b\t1\t0\tsing\tare\twrong\toriginal\tx\t1\ty\t3\t2\t2\tthe boy is here <eos>\n"
)
LINZEN = "1\tthe boy is here\tthe boy ***mask*** here\tis\tare\n0\ta b\ta ***mask***\tb\tc\n"
CPRAG = (
    "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
    "0\tIt rained.\tShe took an\tumbrella\tcoat\tdog\tH\n"
)


def jsonl(*objects: Any) -> bytes:
    return "".join(dumped(json.dumps, one) + "\n" for one in objects).encode()


def used(corpus: Corpus) -> Corpus:
    """Whatever a corpus is used for first: its content hashed, its sentences made, their text given to a tokenizer."""
    assert corpus.fingerprint
    for sentences in corpus.splits.values():
        for sentence in sentences:
            assert len(sentence.spans) == len(sentence.words)
            sentence.text.encode()
    return corpus


def consumed(reader: Callable[[Path], Any], path: Path) -> None:
    found = reader(path)
    repr(tuple(found) if isinstance(found, Iterator) else found).encode()


def edges(path: Path) -> Corpus:
    return load_corpus(f"{path}#made_up")


CORPORA: dict[str, tuple[str, bytes, Callable[[Path], Any]]] = {
    "conllu": ("test.conllu", CONLLU.encode(), load_corpus),
    "propbank": ("test.conllu", PROPBANK.encode(), load_corpus),
    "columns": ("test.conll", COLUMNS.encode(), load_corpus),
    "stated columns": ("test.conll", COLUMNS.encode(), partial(load_corpus, columns="form,xpos,ner")),
    "conllu plus": ("test.conllup", b"# global.columns = ID FORM X:Y\n1\ta\tb\n2\tc\t*\n\n", load_corpus),
    "packed": ("test.conllu.gz", gzip.compress(CONLLU.encode()), load_corpus),
    "bioes": ("test.iob2", b"Ada B-PER\nKing E-PER\nran O\n\nUS S-LOC\n\n", load_corpus),
    "cola": ("test.tsv", b"gj04\t1\t\tHe sings.\ngj04\t0\t*\tHe sing.\n", load_corpus),
    "array": ("test.json", b'[{"text": "He sings.", "label": "x"}, {"text": "No.", "label": "y"}]', load_corpus),
    "numbered": ("test.iob2", NUMBERED.encode(), load_corpus),
    "iob": ("test.iob", IOB.encode(), load_corpus),
    "brackets": ("all.mrg", TREES.encode(), load_corpus),
    "conll2012": ("test_conll", CONLL2012.encode(), OntoNotes().load),
    "semeval": ("test.txt", SEMEVAL.encode(), SemEval().load),
    "senteval": ("past_present.txt", b"tr\tPAST\tHe said so .\nva\tPRES\tHe says .\n", SentEval().load),
    "winograd": ("test.c", WINOGRAD.encode(), Winograd().load),
    "any text": ("test.txt", WINOGRAD.encode(), load_corpus),
    "edges": ("test.jsonl", jsonl(*EDGES), edges),
}
PROMPTS: dict[str, tuple[str, bytes, Callable[[Path], Any]]] = {
    "lama": ("P19.jsonl", jsonl(FACT, FACT), read_lama),
    "relations": ("relations.jsonl", jsonl(RELATION), read_relations),
    "primed": ("TREx/P19.jsonl", jsonl(PRIMED, PRIMED), read_primed),
    "pararel": ("trex_lms_vocab/P19.jsonl", jsonl(FACT), read_pararel),
    "blimp": ("a.jsonl", jsonl(BLIMP, BLIMP), read_minimal_pairs),
    "stimuli": ("a.jsonl", jsonl(STIMULUS, STIMULUS), read_minimal_pairs),
    "agreement": ("a.jsonl", jsonl(STIMULUS, STIMULUS), read_agreement),
    "gulordava": ("generated.tab", GULORDAVA.encode(), read_agreement),
    "linzen": ("linzen.tsv", LINZEN.encode(), read_agreement),
    "diagnostics": ("a.tsv", CPRAG.encode(), read_diagnostics),
    "items": ("a.csv", b"good,bad,group,id\na b,a c,g,1\nd,e,g,2\n", read_minimal_pairs),
    "named items": ("a.tsv", b"sen\twrong\na b\ta c\n", partial(read_minimal_pairs, columns="good=sen,bad=wrong")),
    "array of items": ("a.json", b'[{"text": "a {mask}", "good": "b", "bad": ["c", "d"]}]', read_agreement),
    "documents": ("a.conllu", DOCUMENTS.encode(), read_documents),
    "plain documents": ("a.txt", b"A b.\nC d.\n\nE.\nF.\n", read_documents),
}


def written(folder: Path, name: str, content: bytes) -> Path:
    """The file, beside all that its reader looks for elsewhere."""
    for other, text in (
        ("relations.jsonl", jsonl(RELATION)),
        ("pattern_data/graphs_json/P19.jsonl", jsonl({"pattern": "[X] is [Y]."}, {"pattern": "In [Y] is [X]."})),
        (name, content),
    ):
        path = folder / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return path


TABLE = [{"text": f"Ada runs {n} times, home", "label": "AB"[n % 2], "group": str(n)} for n in range(12)]
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Ada",
            "paragraphs": [
                {
                    "context": "She lived in London.",
                    "qas": [
                        {"id": "1", "question": "Where?", "answers": [{"text": "London", "answer_start": 13}]},
                        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
SENSEVAL = "".join(
    f'<lexelt item="hard-a">\n<instance id="hard-a.{n}:">\n<answer instance="hard-a.{n}:" senseid="HARD{n % 2}"/>\n'
    f'<context>\n<wf pos="PRP">it</wf> <head> <wf pos="JJ">hard</wf></head> <wf pos="CD">{n}</wf>\n</context>\n'
    "</instance>\n</lexelt>\n"
    for n in range(12)
)


def parquet() -> bytes:
    sink = io.BytesIO()
    pd.DataFrame(TABLE).to_parquet(sink)
    return sink.getvalue()


def splits(ending: str, content: str) -> dict[str, bytes]:
    """The same content as a file of each split."""
    return {f"{split}{ending}": content.encode() for split in WIC}


WIC = ("train", "dev", "test")
SESAME = ("aux.train", "aux.test", "aux.gen")
FOLDERS: dict[str, tuple[dict[str, bytes], Callable[[Path], Any]]] = {
    "csv": ({"all.csv": pd.DataFrame(TABLE).to_csv(index=False).encode()}, load_corpus),
    "tsv": ({"all.tsv": pd.DataFrame(TABLE).to_csv(index=False, sep="\t").encode()}, load_corpus),
    "records": ({"all.jsonl": jsonl(*TABLE)}, load_corpus),
    "parquet": ({"all.parquet": parquet()}, load_corpus),
    "squad": (splits("-v2.0.json", json.dumps(SQUAD)), load_corpus),
    "senseval": ({"hard.pos": f'<corpus lang="en">\n{SENSEVAL}</corpus>\n'.encode()}, load_corpus),
    "coarsewsd": (
        {
            "bank/classes_map.txt": b'{"0": "bank_bank", "1": "bank_bank_(geography)"}',
            **{f"bank/{split}.data.txt": b"1\tthe bank 's money\n2\ton the bank .\n" for split in ("train", "test")},
            **{f"bank/{split}.gold.txt": b"0\n1\n" for split in ("train", "test")},
        },
        load_corpus,
    ),
    "wic": (
        {
            **{f"{split}/{split}.data.txt": b"board\tN\t2-1\tRoom and board .\tHe boards it\n" for split in WIC},
            **{f"{split}/{split}.gold.txt": b"T\n" for split in WIC},
        },
        load_corpus,
    ),
    "wic-tsv": (
        {
            **splits("_examples.txt", "bank\t1\tthe bank of it\n"),
            **splits("_definitions.txt", "sloping land\n"),
            **splits("_labels.txt", "T\n"),
            **splits("_hypernyms.txt", "slope\tincline\n"),
        },
        load_corpus,
    ),
    "open-sesame": (
        dict.fromkeys(SESAME, b"can your dog that can sing laugh ?\t0\nyour dog can laugh .\t2\n"),
        load_corpus,
    ),
    "bitext": (
        {"both": b"ein Hund ||| a dog\nzwei ||| two\n"},
        lambda path: load_corpus(f"parallel:de+en={path}/both"),
    ),
    "lines and links": (
        {
            "one.txt": b"ein Hund schl\xc3\xa4ft\nzwei\n",
            "other.txt": b"a dog sleeps\ntwo\n",
            "gold": b"0-0 1-1 2p2\n0-0\n",
        },
        lambda path: load_corpus(f"parallel:de={path}/one.txt,en={path}/other.txt,links={path}/gold"),
    ),
    "treebanks": (
        {f"{name}/test.conllu": CONLLU.encode() for name in ("one", "other")},
        lambda path: load_corpus(f"parallel:fr={path}/one,en={path}/other"),
    ),
    "joined": (
        {f"{name}/test.conllu": CONLLU.encode() for name in ("one", "other")},
        lambda path: load_corpus(f"{path}/one+{path}/other"),
    ),
}


CASES: dict[str, tuple[dict[str, bytes], str, Callable[[Path], Any]]] = {
    **{format: (files, "", lambda path, load=load: used(load(path))) for format, (files, load) in FOLDERS.items()},
    **{format: ({name: content}, name, lambda path, load=load: used(load(path)))
       for format, (name, content, load) in CORPORA.items()},
    **{format: ({name: content}, name, partial(consumed, read)) for format, (name, content, read) in PROMPTS.items()},
}  # fmt: skip


@pytest.mark.parametrize("format", CASES)
def test_damaged_files(format: str, tmp_path: Path) -> None:
    """One file of several that belong together is damaged at a time."""
    files, place, read = CASES[format]
    for name, content in files.items():
        if format in PROMPTS:
            written(tmp_path, name, content)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    read(tmp_path / place)
    for number, (name, content) in enumerate(files.items()):
        for mutant in mutated_bytes(content, seed=number + len(format), count=max(5, COUNT // len(files))):
            (tmp_path / name).write_bytes(mutant)
            accepted(lambda: read(tmp_path / place))
        (tmp_path / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "plain", "read"),
    [
        ("test.jsonl", EDGES[0], lambda path: used(edges(path))),
        ("test.jsonl", EDGES[1], lambda path: used(edges(path))),
        ("P19.jsonl", FACT, partial(consumed, read_lama)),
        ("relations.jsonl", RELATION, partial(consumed, read_relations)),
        ("TREx/P19.jsonl", PRIMED, partial(consumed, read_primed)),
        ("trex_lms_vocab/P19.jsonl", FACT, partial(consumed, read_pararel)),
        ("pattern_data/graphs_json/P19.jsonl", {"pattern": "[X] is [Y]."}, partial(consumed, read_relations)),
        ("a.jsonl", BLIMP, partial(consumed, read_minimal_pairs)),
        ("a.jsonl", STIMULUS, partial(consumed, read_agreement)),
    ],
)
def test_json_lines_with_other_values(
    name: str, plain: dict[str, Any], read: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = written(tmp_path, name, jsonl(plain))
    for mutant in mutated_tree(plain, seed=3, count=COUNT):
        path.write_bytes(jsonl(mutant, plain))
        accepted(lambda: read(path))


SENTENCES = [
    Sentence.from_words(
        ["Ada", "runs", "."],
        id="a",
        layers={
            "upos": ("PROPN", "VERB", "PUNCT"),
            "ner": ("B-PER", "O", "O"),
            "lemma": ("Ada", "run", "."),
            "deprel": ("nsubj", "root", "punct"),
        },
        heads=(2, 0, 2),
    ),
    Sentence.from_words(["Go"], id="b", layers={"feats": ("Mood=Imp",), "xpos": ("VB",)}),
]


def test_damaged_docbins(tmp_path: Path) -> None:
    """Damage is done to what is compressed: anything else fails the checksum of zlib."""
    path = tmp_path / "test.spacy"
    write_docbin(path, SENTENCES)
    used(load_corpus(path))
    content = zlib.decompress(path.read_bytes())
    for mutant in mutated_bytes(content, seed=1, count=COUNT):
        path.write_bytes(zlib.compress(mutant))
        accepted(lambda: used(load_corpus(path)))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conllu", _rows(f"1 a _ _ _ _ {DIGITS} _ _ _"), "a.conllu:1: found .*; expected the number of one of t"),
        ("a.iob", f"a O\nb I-{LONG}\nc O\nd B-X\n", "a.iob:2: ner tag: found .*; expected B- where a span begins"),
        ("a.mrg", f"(A (B b) {LONG})", "a.mrg:1: found .*; expected trees in brackets, as "),
    ],
)
def test_what_messages_quote_is_cut(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(CorpusError, match=message) as raised:
        load_corpus(path)
    assert len(str(raised.value)) < MAX_MESSAGE


FILES_THAT_ARE_NONE = {
    "device": lambda folder: Path("/dev/zero"),
    "pipe": lambda folder: os.mkfifo(folder / "pipe.txt") or folder / "pipe.txt",
    "pipe of a format": lambda folder: os.mkfifo(folder / "a.spacy") or folder / "a.spacy",
    "empty device": lambda folder: Path("/dev/null"),
    "long": lambda folder: folder / ("x" * 300),
    "NUL": lambda folder: folder / "a\0b",
    "loop": lambda folder: (folder / "loop.conllu").symlink_to(folder / "loop.conllu") or folder / "loop.conllu",
}


@pytest.mark.parametrize("kind", FILES_THAT_ARE_NONE)
@pytest.mark.parametrize(
    "read",
    [load_corpus, lambda path: load_corpus(f"{path}#edges"), lambda path: load_corpus(path, columns="form,ner"),
     lambda path: load_corpus(f"{path}+{path}"), read_lama, read_relations, read_pararel, read_primed,
     read_minimal_pairs, read_agreement, read_diagnostics, read_documents, annotate_text],
)  # fmt: skip
def test_files_that_are_none(kind: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    """Refused before a byte of them is read: a device never ends, and nobody writes to the pipe."""
    path = FILES_THAT_ARE_NONE[kind](tmp_path)
    assert not accepted(lambda: consumed(read, path))


@pytest.mark.parametrize("name", [f"pocket:{DIGITS}", "pocket:٣", "pocket:²"])
def test_numbers_of_sentences_that_are_none(name: str) -> None:
    with pytest.raises(CorpusError, match="write how many training sentences, as in pocket:20000"):
        load_corpus(name)
