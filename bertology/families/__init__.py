"""Task families: how each kind of question is planned, computed, scored and estimated.

Open :mod:`~bertology.families.contract` first: a family is one object behind that contract, found through the
entry-point group ``bertology.families`` (:mod:`~bertology.families.registry`). :mod:`~bertology.families.tasks` has
what families work on: a model and a corpus (``Pair``), the cells of a task, and what computing and scoring need.
``labels``, ``trees``, ``cloze`` and ``heads`` are ours; those that fit readouts to stored vectors share
:mod:`~bertology.families.vectors`.
"""
