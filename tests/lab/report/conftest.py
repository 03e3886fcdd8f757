"""A small record with everything in it."""

import pytest

from sparsegate_lab.record import Epoch, Layer, Record


@pytest.fixture
def record():
    gates = [(0,) * 19 + (120,) + (0,) * 12, (60,) + (0,) * 30 + (60,), (114,) + (0,) * 30 + (6,)]
    return Record(
        name="toy-0",
        run={
            "model": "toy",
            "data": "digits",
            "method": {"name": "learned_gates", "only": ["*"]},
            "epochs": 2,
        },
        command="sparsegate train toy",
        machine={"cores": 2, "gpu": None},
        versions={"sparsegate": "1", "python": "3.11"},
        layers=(Layer("fc1.weight", (10, 10), 100, 5), Layer("fc2.weight", (2, 10), 20, 1)),
        num_biases=12,
        biases_kept=10,
        validation=97.5,
        test=98.25,
        epochs=(Epoch(1, 0.5, 90.0, 60, gates=gates[1]), Epoch(2, 0.25, 97.5, 6, gates=gates[2])),
        seconds=1.5,
        first_gates=gates[0],
    )
