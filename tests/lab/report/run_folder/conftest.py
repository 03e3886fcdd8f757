"""A sparse LeNet-5 with gates, trained in some seconds, with its folder."""

import pytest

from sparsegate.price import Penalty
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run, train

METHOD = LearnedGates(penalty=Penalty(count=30.0), gate_lr=300.0, ramp=0.6, freeze=0.8)


@pytest.fixture(scope="session")
def sparse_run(digits, tmp_path_factory):
    """The folder of the run; some four thousand weights, right about nine digits of ten."""
    folder = tmp_path_factory.mktemp("runs")
    record = train(
        Run(model="lenet5", data=str(digits), epochs=4, batch_size=50, lr=0.05, method=METHOD),
        folder=folder,
        command="sparsegate train lenet5 --data '<b>digits</b>'",
    )
    assert 500 < record.kept < 25_000
    assert record.test > 60
    return folder / record.name
