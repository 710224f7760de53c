"""Next sentence: can the model tell what follows from what comes from elsewhere, or came before?

The task that BERT was pretrained on (Devlin et al. 2019, *BERT*, §3.1), asked of its own head on whole sentences.
Besides true and random pairs there are swapped ones, as in the sentence order of Lan et al. (2020), *ALBERT*, §3.1:
those two sentences are about the same things, so that who goes by topic alone takes them for a true pair.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bertology import pocket
from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.corpora.prompts.sets import Document, drawn_order, read_documents
from bertology.probing import LeftOut

_POCKET_DOCUMENTS, _POCKET_SEED = 100, 5_000_011
"""Text of the pocket world that its model was not trained on: a seed that its training does not use, and no facts."""
_TRUE, _RANDOM, _SWAPPED = "true next", "random", "swapped"


@dataclass(frozen=True)
class NextSentence(ClozeProbe):
    """Does one sentence follow another?"""

    task = "next_sentence"
    subject = "meaning"
    reference = "Devlin et al. 2019, §3.1; Lan et al. 2020, §3.1"
    asks = "next_sentence"
    metrics = ("choice_accuracy", "micro_choice_accuracy")

    def items(self, source: str) -> ClozeItems:
        """Neighbours of every document: as they are, the first with a random sentence, and swapped.

        A document's first two sentences are a pair, its next two, and so on; all items of it are one cluster. The
        random sentence is one of another document, by a fixed seed. In the pocket world nothing tells which of two
        sentences came first, so there swapped pairs are left out.
        """
        if source != "pocket":
            return ClozeItems.of(_items(read_documents(source), ordered=True), language=None, clusters="documents")
        made = pocket.pretraining_documents(_POCKET_DOCUMENTS, seed=_POCKET_SEED, stated=())
        documents = [Document(f"document-{number}", tuple(sentences)) for number, sentences in enumerate(made, 1)]
        return ClozeItems.of(_items(documents, ordered=False), clusters="documents")


def _items(documents: Sequence[Document], *, ordered: bool) -> Iterator[ClozeItem | LeftOut]:
    for place, document in enumerate(documents):
        cluster, sentences = f"{place + 1}-{document.id}", document.sentences
        if len(sentences) < 2:
            yield LeftOut(cluster, _TRUE, "a document of one sentence")
        for number in range(len(sentences) // 2):
            one, following = sentences[2 * number : 2 * number + 2]
            elsewhere = documents[(place + 1 + number % (len(documents) - 1)) % len(documents)]
            (stranger, *_) = drawn_order(elsewhere.sentences, f"stranger {place} {number}")
            name = f"{cluster} pair {number + 1}"
            for group, text, other, answer in (
                (_TRUE, one, following, "next"),
                (_RANDOM, one, stranger, "other"),
                (_SWAPPED, following, one, "other"),
            ):
                if group == _SWAPPED and not ordered:
                    yield LeftOut(f"{name} {group}", group, "nothing tells which of the two came first")
                else:
                    yield ClozeItem(f"{name} {group}", cluster, group, text, answer, other=other)


PROBE = NextSentence()
