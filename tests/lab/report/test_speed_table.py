"""The rows of a comparison of speeds."""

from sparsegate.speed import Speed, Timing
from sparsegate_lab.report import speed_table


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
