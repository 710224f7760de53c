"""The page as a widget: what is looked at is the same in the notebook and in the page."""

import builtins
import json
from typing import Any

import pytest

from bertology.attention import view
from bertology.errors import BertologyError

from .conftest import SENTENCE

HOST = """<!doctype html><div id="here"></div><script type="module">
{script}
const model = {{
  values: {{ page: {page}, state: {state}, height: 700 }}, listeners: {{}}, saved: [],
  get(name) {{ return this.values[name]; }},
  set(name, value) {{ this.values[name] = value; }},
  save_changes() {{ this.saved.push(this.values.state); }},
  on(name, listener) {{ this.listeners[name] = listener; }},
  off(name) {{ delete this.listeners[name]; }},
}};
window.model = model;
window.end = render({{ model, el: document.getElementById("here") }});
</script>"""


def widget(encoder: Any, **state: Any) -> Any:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    return view(SENTENCE, model=encoder).widget(**state)


def test_a_widget_holds_the_page_and_what_is_looked_at(encoder: Any) -> None:
    found = widget(encoder, layer=2, heads=[1])
    assert found.page == view(SENTENCE, model=encoder).html
    assert found.state == {"layer": 2, "heads": [1]}
    assert {"page", "state", "height", "_esm"} <= set(found.get_state())


def test_both_sides_look_at_the_same(encoder: Any, browser: Any) -> None:
    made = widget(encoder, view="heads", layer=2)
    script = made._esm.replace("export default { render };", "")
    host = HOST.format(script=script, page=json.dumps(made.page).replace("</", "<\\/"), state=json.dumps(made.state))
    page = browser.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.set_content(host)
    frame = page.frame_locator("iframe")
    page.wait_for_function("window.model.values.state.layer === 2 && window.model.values.state.view === 'heads'")
    assert frame.locator("#layer").input_value() == "2"
    frame.locator("#layer").select_option("1")
    page.wait_for_function("window.model.values.state.layer === 1")
    assert page.evaluate("window.model.saved.length") > 0
    page.evaluate(
        "model.values.state = {...model.values.state, layer: 3, heads: [2]}; model.listeners['change:state']()"
    )
    page.wait_for_function("window.model.values.state.heads.length === 1")
    assert frame.locator("#layer").input_value() == "3"
    assert frame.locator("#head-chips [aria-pressed=true]").all_inner_texts() == ["H2"]
    # What cannot be looked at is not taken.
    page.evaluate("model.values.state = {...model.values.state, layer: 99, word: 1}; model.listeners['change:state']()")
    page.wait_for_function("window.model.values.state.word === 1")
    assert frame.locator("#layer").input_value() == "3"
    page.evaluate("window.end()")
    assert page.evaluate("Object.keys(model.listeners).length") == 0
    assert not said
    page.close()


def test_without_anywidget_one_line_says_so(encoder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = builtins.__import__

    def without(name: str, *given: Any, **more: Any) -> Any:
        if name == "anywidget":
            raise ImportError(name)
        return known(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BertologyError, match=r"needs anywidget: pip install 'bertology\[notebook\]'"):
        view(SENTENCE, model=encoder).widget()
