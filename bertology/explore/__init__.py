"""A local page on which one sentence is looked at from all sides, live: ``bertology explore``.

``panels`` is to be read first: each panel (``panels.yaml``) is a view that a command and a function make as well, with
the lines that give the same. ``worker`` computes one view after the other, in one thread; ``server``, which alone needs
starlette and uvicorn, is what the browser talks to.
"""
