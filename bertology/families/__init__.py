"""How each kind of question is planned, computed, scored and estimated; :mod:`~bertology.families.contract` first."""
