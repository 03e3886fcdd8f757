"""Studies of the large networks are read by the order of their layers, and say what data they are of."""

import pytest

from sparsegate.record import Layer, Record
from sparsegate.reproduce import EXHIBITS
from sparsegate.reproduce.imagenet import NETWORKS
from sparsegate.study import Study


def study(network, kept_of_last=1):
    """One seed of a network whose layers have ten weights, of which so many are left in the last."""
    count = NETWORKS[network].parts["total"].stop
    layers = [Layer(f"{place}.weight", (10, 1), 10, 10) for place in range(count - 1)]
    layers.append(Layer("last.weight", (10, 1), 10, kept_of_last))
    run = {"model": network, "data": "flowers", "epochs": 3, "method": {"name": "learned_gates"}, "seed": 0}
    record = Record("name", run, "", {}, {}, tuple(layers), 0, 0, 50.0, 51.0, (), 1.0)
    return Study(f"{network}-toy", "python benchmarks/seeds.py toy", (record,))


@pytest.mark.parametrize(("network", "num_layers"), [("alexnet", 8), ("vgg16", 16)])
def test_every_layer_belongs_to_one_row_of_the_paper(network, num_layers):
    about = NETWORKS[network]
    rows = {name: part for name, part in about.parts.items() if name != "total"}
    covered = [place for part in rows.values() for place in range(num_layers)[part]]
    assert covered == list(range(num_layers))
    assert list(about.parts) == list(about.layers.rows)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_study_fills_the_rows_and_names_its_data(network):
    findings = EXHIBITS[f"{network}-layers"].findings({f"{network}-toy": study(network)})
    ours = {check.paper.row: check.ours.mean for check in findings.checks}
    assert ours["fc8"] == pytest.approx(90)
    assert ours["fc7"] == 0
    assert any("flowers" in note and "ImageNet" in note for note in findings.notes)


@pytest.mark.parametrize("network", NETWORKS)
def test_of_several_studies_the_sparsest_is_shown_layer_by_layer(network):
    studies = {f"{network}-{kept}": study(network, kept) for kept in (5, 2, 9)}
    findings = EXHIBITS[f"{network}-layers"].findings(studies)
    assert {check.paper.row: check.ours.mean for check in findings.checks}["fc8"] == pytest.approx(80)


@pytest.mark.parametrize("network", NETWORKS)
def test_studies_stand_below_the_papers_rows(network):
    findings = EXHIBITS[f"{network}-compare"].findings({f"{network}-toy": study(network)})
    assert [row[-1] for row in findings.rows[1:]] == ["paper"] * len(NETWORKS[network].compare.rows) + ["ours"]
    assert findings.checks[0].ours is not None
