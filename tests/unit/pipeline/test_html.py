"""Values in a notebook: all that `explain` says, escaped, without secrets, on any background."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from tests.unit.pipeline.examples import pipeline, session, source
from tidegate.pipeline import Join, Pipeline, Window
from tidegate.pipeline.explain import operator_lines
from tidegate.pipeline.html import fields_html, line_html, table_html

HOSTILE = "<script>alert('x')</script> & \"quotes\""
EVERY = [
    lambda text: fields_html(text, {text: text}),
    lambda text: table_html([text], [[text]]),
    line_html,
]


class Texts(HTMLParser):
    """The texts between tags, and the tags; a tag that is not closed in its place is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def html_of(value: Pipeline | Window | Join) -> str:
    return value._repr_html_()


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_pipeline_says_what_explain_says() -> None:
    made = Pipeline.from_dict(
        pipeline(sources=[source(columns={"user": "string", "ts": "long"}, event_time_unit="ms")])
    )
    assert words(" ".join(Texts(html_of(made)).texts)) == words(made.explain())


def test_lines_keep_their_spaces() -> None:
    made = Window.from_dict(session())
    assert "\n".join(operator_lines(made)) in Texts(html_of(made)).texts


def test_a_window_and_a_join_say_what_explain_says_of_them() -> None:
    join = Join(left="clicks", right="orders", on="user", time_window_ms=60_000)
    assert Texts(html_of(Window.from_dict(session()))).texts[0] == "window"
    assert Texts(html_of(Window.from_dict(session(id="visits")))).texts[0] == "window visits"
    assert Texts(html_of(join)).texts == ["join", "\n".join(operator_lines(join))]


@pytest.mark.parametrize("shown", EVERY)
def test_everything_is_escaped(shown: object) -> None:
    assert callable(shown)
    html = shown(HOSTILE)
    assert "script" not in Texts(html).tags
    assert HOSTILE in Texts(html).texts
    assert unescape(html) != html


def test_names_of_users_are_escaped() -> None:
    window = session(id=HOSTILE, group_by=[HOSTILE])
    html = html_of(Window.from_dict(window))
    assert Texts(html).texts[0] == f"window {HOSTILE}"
    whole = html_of(Pipeline.from_dict(pipeline(window={**window, "id": "visits"})))
    for page in (html, whole):
        assert "script" not in Texts(page).tags
        assert any(HOSTILE in text for text in Texts(page).texts[1:])


def test_secrets_are_not_shown() -> None:
    made = Pipeline.from_dict(
        pipeline(
            sources=[
                source(
                    format="jdbc",
                    options={"url": "jdbc:postgresql://ann:pw1@db/x", "password": "pw2"},
                )
            ],
            target={"format": "delta", "options": {"path": "/x", "storage.secret_key": "pw3"}},
            state_store={"kind": "postgres", "url": "postgresql://ann:pw4@db/x"},
        )
    )
    assert re.findall(r"pw\d", html_of(made)) == []


def test_text_and_background_are_those_of_the_notebook() -> None:
    html = html_of(Pipeline.from_dict(pipeline()))
    styles = ";".join(re.findall(r'style="([^"]*)"', html)).split(";")
    colours = {each for each in styles if each.split(":")[0] in ("color", "background")}
    assert colours == {"color:inherit", "background:none"}
    assert "#" not in html


def test_the_page_of_a_pipeline_is_small_and_needs_nothing_else() -> None:
    html = html_of(Pipeline.from_dict(pipeline()))
    assert len(html) < 5_000
    assert not {"script", "link", "img", "style"} & Texts(html).tags
