"""The page: one HTML document with its style, script and maps inside it."""

from __future__ import annotations

from html import escape

from bertology import __version__
from bertology._page import asset, embedded_json, fill, policy
from bertology.attention.viewer._payload import Payload

_HERE = "attention/viewer/assets/"
# The report's looks, so that what the project writes looks alike.
_STYLES = ("results/report/assets/page.css", _HERE + "viewer.css")
_THEME = "results/report/assets/theme.js"
# In this order, for each uses those before it.
_PARTS = "start maps pens pictures strokes tiles model heads word stage controls export outside"
_SCRIPTS = tuple(f"{_HERE}{name}.js" for name in _PARTS.split())


def render_page(payload: Payload) -> str:
    """The whole page; it makes no request, and its content security policy allows none."""
    style = "\n".join(asset(name) for name in _STYLES)
    script = "\n".join(asset(name) for name in _SCRIPTS)
    theme = asset(_THEME)
    text = " ".join(payload.values["texts"])
    # Last in the page, after the script: what is seen first is drawn while they are still being read.
    maps = "\n".join(
        f'<script type="text/plain" id="map-{name}">{content}</script>' for name, content in payload.maps.items()
    )
    return fill(
        asset(_HERE + "page.html"),
        {
            "policy": policy(style, theme, script),
            "title": escape(f"Attention: {text[:60]}{'…' if len(text) > 60 else ''}"),
            "texts": "".join(f"<q>{escape(one)}</q> " for one in payload.values["texts"]),
            "model": escape(payload.values["model"]),
            "version": escape(__version__),
            "style": style,
            "theme": theme,
            "data": embedded_json(payload.values),
            "script": script,
            "maps": maps,
        },
    )
