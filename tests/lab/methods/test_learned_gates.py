"""Where learned gates start."""

import torch
from torch import nn

from sparsegate.gates import require_gates
from sparsegate_lab.methods import LearnedGates


def test_named_layers_begin_with_few_open_gates_and_all_others_in_the_order_of_their_weights():
    model = LearnedGates(graded=True, keeps=(("0.*", 0.25),)).prepare(
        nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    )
    few, others = (each.gate.detach().flatten() for each in require_gates(model).values())
    assert few.sort().values.tolist() == [torch.tensor(0.49).item()] * 9 + [1.0] * 3
    assert (others > 0.5).all()
    weights = model[1].parametrizations.weight.original.detach()
    assert torch.equal(others.argsort(), weights.abs().flatten().argsort())
