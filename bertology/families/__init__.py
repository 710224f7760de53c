"""Task families: how each kind of question is planned, computed, scored and estimated.

:mod:`~bertology.families.contract` is what a family has to define, and is the file to open first. Each family is a
file, registered in the entry-point group ``bertology.families``. Those whose cells keep sums by cluster derive from
:mod:`~bertology.families.sums`, those that fit readouts to stored vectors from :mod:`~bertology.families.vectors`.
"""
