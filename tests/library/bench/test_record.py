"""A comparison of speeds, its ratios and its JSON."""

import json

import pytest

from sparsegate.bench import Speed, Timing, speed_table

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


def rows(*timings):
    return speed_table(Speed("lenet5", "", {}, {}, timings))


def test_a_row_has_every_engine_and_both_speed_ups():
    heads, row = rows(Timing(16, 1, {"torch eager": 12.0, "openvino": 0.6, "sparsegate": 0.2}))
    assert heads[:5] == ("threads", "batch", "torch eager ms", "openvino ms", "sparsegate ms")
    assert row == ("1", "16", "12.00", "0.6000", "0.2000", "60.00x", "3.00x (openvino)")


def test_an_engine_without_a_time_is_a_dash():
    _, _, row = rows(
        Timing(1, 1, {"torch eager": 1.0, "openvino": 1.0, "sparsegate": 1.0}),
        Timing(2, 1, {"torch eager": 1.0, "sparsegate": 1.0}),
    )
    assert row == ("1", "2", "1.00", "-", "1.00", "1.00x", "1.00x (torch eager)")


def test_quartiles_follow_their_median():
    quartiles = {"torch eager": (11.5, 12.5), "sparsegate": (0.19, 0.21)}
    _, row = rows(Timing(16, 1, {"torch eager": 12.0, "sparsegate": 0.2}, quartiles=quartiles))
    assert row[2:5] == ("12.00 (11.50 to 12.50)", "0.2000 (0.1900 to 0.2100)", "60.00x")


def test_a_time_that_varies_is_marked_and_gives_no_speed_up():
    quartiles = {"torch eager": (11.5, 400.0), "openvino": (1.0, 1.0), "sparsegate": (0.2, 0.2)}
    milliseconds = {"torch eager": 169.4, "openvino": 1.0, "sparsegate": 0.2}
    _, row = rows(Timing(16, 1, milliseconds, quartiles=quartiles))
    assert row[2] == "169.40 (11.50 to 400.00)!"
    assert row[5:] == ("unsure", "5.00x (openvino)")
