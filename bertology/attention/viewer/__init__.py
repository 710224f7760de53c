"""The viewer: one page that shows the attention maps of a sentence, head by head, and needs no other file.

``_view.py`` has :func:`bertology.attention.view`, ``_read.py`` reads maps, ``_page.py`` fills the page in ``assets``.
"""
