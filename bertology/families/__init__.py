"""Task families: how each kind of question is planned, computed, scored and estimated.

Open :mod:`~bertology.families.contract` first: a family is one object behind that contract, found through the
entry-point group ``bertology.families``. :mod:`~bertology.families.tasks` has what families work on: a model and a
corpus (``Pair``), the cells of a task, and what computing and scoring need. ``labels``, ``numbers`` and ``trees`` fit
readouts to stored vectors (:mod:`~bertology.families.vectors`), ``cloze`` and ``heads`` fit nothing
(:mod:`~bertology.families.unfitted`).
"""
