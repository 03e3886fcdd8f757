"""Elements escape every text, and nothing else."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sparsegate.web import Html, element, join


class Seen(HTMLParser):
    """What a browser would see."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_any_text_is_only_text_to_a_browser(text):
    seen = Seen()
    seen.feed(element("p", text, title=text).text)
    seen.close()
    assert seen.tags == [("p", {"title": text})]
    assert "".join(seen.texts) == text


def test_what_is_html_already_is_left_as_it_is():
    assert join([element("b", "x"), Html("<i>y</i>"), None, "z"]).text == "<b>x</b><i>y</i>z"


def test_attributes_that_are_false_or_none_are_left_out_and_true_has_no_value():
    assert (
        element("input", disabled=True, checked=False, name=None, max=3).text
        == '<input disabled max="3">'
    )
