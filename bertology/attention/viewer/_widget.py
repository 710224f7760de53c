"""The page as a widget: what is looked at can be read, and set, from the notebook."""

from __future__ import annotations

from typing import Any

from bertology._page import asset
from bertology.errors import BertologyError

_HEIGHT = 760


def make_widget(page: str, state: dict[str, Any]) -> Any:
    """A widget of a page, which Jupyter, VS Code and Colab show alike.

    Args:
        page: HTML that needs nothing beside itself.
        state: what is looked at first, such as ``{"layer": 3, "heads": [1]}``.

    Raises:
        BertologyError: anywidget is not installed.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise BertologyError(
            "a widget needs anywidget: pip install 'bertology[notebook]'; the view itself shows without it"
        ) from None

    class AttentionWidget(anywidget.AnyWidget):
        """The attention of a sentence; :attr:`state` is what is looked at, on both sides."""

        _esm = asset("attention/viewer/assets/widget.js")
        page = traitlets.Unicode().tag(sync=True)
        state = traitlets.Dict().tag(sync=True)
        height = traitlets.Int(_HEIGHT).tag(sync=True)

    return AttentionWidget(page=page, state=state)
