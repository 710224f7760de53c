"""Formats of annotated text, each a class derived from ``Format`` (``corpora/_corpus.py``)."""
