"""The exact cut keeps as many weights as were asked for, the best ones, in every layer at least one."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples

from sparsegate.target.cut import choose

VALUES = st.sampled_from([0.0, 0.25, 0.5, 0.5000001, 1.0]) | st.floats(0, 1, width=32)
LAYERS = st.lists(
    st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), min_size=1, max_size=4
)


@settings(max_examples=examples(60))
@given(LAYERS, st.data())
def test_it_keeps_the_first_of_a_sorted_list_and_the_best_of_each_layer(layers, data):
    total = sum(map(len, layers))
    count = data.draw(st.integers(len(layers), total))
    gates, ties = (
        [torch.tensor([pair[side] for pair in layer]) for layer in layers] for side in (0, 1)
    )
    masks = choose(gates, ties, count)
    kept = {
        (place, index)
        for place, mask in enumerate(masks)
        for index in mask.nonzero().flatten().tolist()
    }
    rank = lambda at: (-layers[at[0]][at[1]][0], -layers[at[0]][at[1]][1], at)
    order = sorted(
        ((place, index) for place, layer in enumerate(layers) for index in range(len(layer))),
        key=rank,
    )
    best = {next(at for at in order if at[0] == place) for place in range(len(layers))}
    others = [at for at in order if at not in best]
    assert kept == best | set(others[: count - len(best)])


def test_shapes_and_layouts_stay():
    gate = torch.rand(4, 3, 2, 2).to(memory_format=torch.channels_last)
    (mask,) = choose([gate], [torch.zeros_like(gate)], 7)
    assert mask.shape == gate.shape
    assert mask.sum() == 7
    assert gate[mask].min() >= gate[~mask].max()
