"""A comparison of speeds, its ratios and its JSON."""

import json

import pytest

from sparsegate.bench import Speed, Timing

TIMING = Timing(
    16,
    2,
    {"torch eager": 12.0, "openvino": 6.0, "deepsparse": 1.5, "sparsegate": 2.0},
    {"openvino": 1e-7},
)


def speed(*timings):
    return Speed(
        "lenet5",
        "sparsegate bench",
        {"cores": 2},
        {"torch": "2"},
        timings,
        ({"batch": 16},),
        ("a note",),
    )


def test_the_best_dense_engine_is_none_that_skips_zeros():
    assert TIMING.best_dense == "openvino"
    assert TIMING.over_best_dense() == 3.0
    assert TIMING.over_baseline() == 6.0
    assert TIMING.over_baseline("deepsparse") == 8.0


def test_an_engine_that_failed_once_keeps_its_column():
    other = Timing(64, 2, {"torch eager": 12.0, "onnxruntime": 8.0, "sparsegate": 2.0})
    assert speed(TIMING, other).engines == [
        "torch eager",
        "openvino",
        "deepsparse",
        "sparsegate",
        "onnxruntime",
    ]


def test_a_record_comes_back_from_its_file_whole(tmp_path):
    speed(TIMING).save(tmp_path / "speed.json")
    assert Speed.load(tmp_path / "speed.json") == speed(TIMING)


def test_quartiles_come_back_and_a_record_without_them_is_read(tmp_path):
    timing = Timing(1, 1, {"torch eager": 2.0}, quartiles={"torch eager": (1.5, 2.5)})
    value = json.loads(json.dumps(speed(timing).to_json()))
    assert Speed.from_json(value) == speed(timing)
    del value["timings"][0]["quartiles"]
    assert Speed.from_json(value).timings[0].quartiles == {}


def test_the_file_holds_the_speed_ups_beside_the_times():
    (row,) = speed(TIMING).to_json()["timings"]
    assert row["over_baseline"] == {
        "torch eager": 1.0,
        "openvino": 2.0,
        "deepsparse": 8.0,
        "sparsegate": 6.0,
    }
    assert row["best_dense"] == "openvino"


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="expected a speed record of format 1, got 7"):
        Speed.from_json({"format": 7})


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda value: value.pop("timings"), "timings: missing"),
        (lambda value: value.update(timings=None), "timings: expected a list, got null"),
        (lambda value: value["timings"].append([]), r"timings\[1\]: expected an object"),
        (lambda value: value["timings"][0].update(batch="a"), r"timings\[0\]\.batch: expected a"),
        (
            lambda value: value["timings"][0].update(milliseconds={}),
            "a dense time of 'torch eager'",
        ),
        (
            lambda value: value["timings"][0]["milliseconds"].update({"sparsegate": 0}),
            r"timings\[0\]: milliseconds are above zero",
        ),
        (lambda value: value.update(notes=5), "notes: expected a list, got 5"),
    ],
)
def test_a_damaged_record_is_refused_by_file_and_field(change, wanted, tmp_path):
    value = json.loads(json.dumps(speed(TIMING).to_json()))
    change(value)
    (tmp_path / "speed.json").write_text(json.dumps(value))
    with pytest.raises(ValueError, match=rf"speed\.json: .*{wanted}"):
        Speed.load(tmp_path / "speed.json")
