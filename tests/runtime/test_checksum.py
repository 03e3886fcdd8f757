"""JSON objects carry a checksum of their values."""

import json

import pytest

from sparsegate_runtime.checksum import with_checksum, without_checksum

VALUE = {"kept": 5, "names": ["a", None], "inner": {"rate": 0.25}}


def test_an_object_comes_back_without_its_checksum():
    assert without_checksum(json.loads(json.dumps(with_checksum(VALUE)))) == VALUE


def test_the_order_of_fields_and_the_layout_of_the_text_do_not_count():
    signed = with_checksum(VALUE)
    turned = dict(reversed(list(signed.items())))
    assert without_checksum(json.loads(json.dumps(turned, indent=4))) == VALUE


@pytest.mark.parametrize(
    "change", [{"kept": 6}, {"other": 1}, {"checksum": ""}, {"checksum": None}]
)
def test_a_changed_value_is_refused(change):
    with pytest.raises(ValueError, match="does not match its checksum: the file was damaged"):
        without_checksum({**with_checksum(VALUE), **change})


@pytest.mark.parametrize("value", [VALUE, [], None, 5])
def test_what_has_no_checksum_is_returned_as_it_is(value):
    assert without_checksum(value) == value
