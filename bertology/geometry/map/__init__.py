"""The map: one page on which the occurrences of words lie in two dimensions, layer by layer, and can be searched.

``_map.py`` has :class:`OccurrenceMap` and makes it of chosen words, ``_projection.py`` finds their places in each
layer, ``_page.py`` packs them into the page in ``assets``.
"""

from bertology.geometry.map._map import OccurrenceMap, occurrence_map
from bertology.geometry.map._projection import Planes, principal_planes, tsne_planes

__all__ = ["OccurrenceMap", "Planes", "occurrence_map", "principal_planes", "tsne_planes"]
