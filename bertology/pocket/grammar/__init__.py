"""The grammar of the pocket world, from words and trees up to annotated sentences (``texts.py``)."""
