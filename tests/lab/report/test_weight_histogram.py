"""Quantiles and pictures of the sizes of kept weights."""

import dataclasses

import pytest

from sparsegate_lab.record import SIZE_EDGES, Record
from sparsegate_lab.report import draw_sizes, mean_sizes, quantile, save_figure

RECORD = Record("run", {}, "", {}, {}, (), 0, 0, 99.0, 99.0, (), 1.0)


def counts(**at):
    found = [0.0] * (len(SIZE_EDGES) + 1)
    for place, count in at.items():
        found[int(place.removeprefix("bin"))] = float(count)
    return found


def test_counts_are_averaged_over_seeds():
    records = [
        dataclasses.replace(RECORD, sizes=tuple(map(int, counts(bin3=each)))) for each in (1, 2)
    ]
    assert mean_sizes(records)[3] == 1.5


def test_a_record_from_before_sizes_were_counted_is_named():
    with pytest.raises(ValueError, match="record of run has no sizes of weights"):
        mean_sizes([RECORD])


@pytest.mark.parametrize(("fraction", "edge"), [(0.5, 40), (0.75, 60.5), (1.0, 61)])
def test_a_quantile_is_found_inside_its_bin(fraction, edge):
    # Half of them end at edge 40, the others lie between the edges 60 and 61.
    assert quantile(counts(bin40=8, bin61=8), fraction) == pytest.approx(
        SIZE_EDGES[0] * 2 ** (edge / 4)
    )


def test_sizes_beyond_the_edges_are_said_to_be_at_the_edge():
    assert quantile(counts(bin0=1), 0.5) == SIZE_EDGES[0]
    assert quantile(counts(**{f"bin{len(SIZE_EDGES)}": 1}), 0.5) == SIZE_EDGES[-1]


def test_the_picture_names_every_network(tmp_path):
    pytest.importorskip("matplotlib")

    def draw(figure):
        draw_sizes(figure.subplots(), {"lasso": counts(bin20=3), "gates": counts(bin60=4)})
        labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        return labels == ["lasso: 3 weights", "gates: 4 weights"]

    assert len(save_figure(draw, tmp_path / "sizes")) == 2
