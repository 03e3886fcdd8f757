"""The rows of a comparison of speeds."""

from sparsegate.bench import Speed, Timing, speed_table


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
