"""The pocket world: a small world whose truth is known, its annotated sentences, and a BERT trained on its text.

``_texts.py``, to be read first, makes the sentences; ``_grammar.py`` makes their trees (``_trees.py``) of the lexicon
(``_words.py``) and of people and places (``_world.py``), ``_bilingual.py`` translates them, ``_items.py`` makes cloze
items whose answers are known, and ``_pretrain.py`` trains the models, by a recipe (``_recipe.py``), on batches of
``_examples.py``.
"""

from typing import TYPE_CHECKING

from bertology._files import is_numeral
from bertology._lazy import lazy_attributes
from bertology.corpora import Corpus
from bertology.errors import CorpusError, cut

if TYPE_CHECKING:
    from bertology.pocket._items import TruthItem as TruthItem
    from bertology.pocket._items import agreement_items
    from bertology.pocket._items import fact_prompts as fact_prompts
    from bertology.pocket._items import role_prompts as role_prompts
    from bertology.pocket._items import truth_items as truth_items
    from bertology.pocket._pretrain import pretrain
    from bertology.pocket._recipe import PretrainSettings, load_settings
    from bertology.pocket._recipe import recipe_schema as recipe_schema
    from bertology.pocket._texts import load_corpus, model_folder
    from bertology.pocket._texts import pretraining_documents as pretraining_documents
    from bertology.pocket._world import Fact, facts
    from bertology.pocket._world import candidates as candidates

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Fact",
    "PretrainSettings",
    "agreement_items",
    "facts",
    "load_corpus",
    "load_settings",
    "model_folder",
    "pretrain",
]


EMBEDDED = ("pocket", "bilingual", "bilingual-apart")
"""Names of the embedded models."""


def corpus_by_name(name: str) -> Corpus:
    """An embedded corpus by its name: ``pocket``, ``pocket:20000``, ``bilingual``, ``bilingual:20000,anchors=0.2``.

    Raises:
        CorpusError: what follows the colon is not what the corpus takes.
    """
    from bertology.pocket._texts import load_corpus

    stem, colon, options = name.partition(":")
    if stem == "bilingual":
        from bertology.pocket._bilingual import load_bilingual

        return load_bilingual(options)
    if colon and not is_numeral(options):
        raise CorpusError(f"{cut(name)}: write how many training sentences, as in {stem}:20000")
    return load_corpus(int(options)) if colon else load_corpus()
