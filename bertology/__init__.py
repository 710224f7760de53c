"""Where in a BERT-like encoder does a piece of knowledge live, and how sure are we?"""

__version__ = "0.1.0"
