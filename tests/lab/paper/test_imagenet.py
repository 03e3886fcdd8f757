"""Studies of the large networks are read by the order of their layers, and say what data they are of."""

import dataclasses

import pytest

from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.paper import EXHIBITS, Archive, make
from sparsegate_lab.paper.imagenet import NETWORKS, began_with
from sparsegate_lab.record import Layer, Record
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run


def study(network, rate=1.0, test=50.0, *, extra_layers=0, apart=0.1, begun="dense"):
    """Two seeds of a network whose layers have a hundred weights, of which the last two share what is left."""
    count = NETWORKS[network].parts["total"].stop + extra_layers
    kept = round(100 * count / rate) - 100 * (count - 2) if rate > 1 else 200
    sizes = [100] * (count - 2) + [kept // 2, kept - kept // 2]
    layers = tuple(
        Layer(f"{place}.weight", (10, 10), 100, size) for place, size in enumerate(sizes)
    )
    method = LearnedGates() if rate > 1 else Dense()
    run = Run(model=network, data="flowers", epochs=3, method=method).to_json()
    name = "gates" if rate > 1 else "dense"
    record = Record(f"{name}-0", run, "", {}, {}, layers, 0, 0, 50.0, test, (), 1.0)
    # The weights that a run began with need not be here where it is read.
    first = dataclasses.replace(record, run=run | {"weights": f"runs/{begun}-0"})
    other = dataclasses.replace(
        record,
        name=f"{name}-1",
        run=run | {"seed": 1, "weights": f"runs/{begun}-1"},
        test=test + apart,
    )
    return Study(f"{network}-toy", "python benchmarks/toy.py", (first, other))


def toys(network):
    """A dense network and learned gates at three rates, of which the middle one is near the paper's table of layers."""
    return {f"{network}-{rate}": study(network, rate, test) for rate, test in TESTS.items()}


# With all but two layers whole, rates are small; they are told apart as large ones are.
TESTS = {1.0: 60.0, 1.05: 60.2, 1.1: 59.9, 1.14: 40.0}


@pytest.mark.parametrize(("network", "num_layers"), [("alexnet", 8), ("vgg16", 16)])
def test_every_layer_belongs_to_one_row_of_the_paper(network, num_layers):
    about = NETWORKS[network]
    rows = {name: part for name, part in about.parts.items() if name != "total"}
    covered = [place for part in rows.values() for place in range(num_layers)[part]]
    assert covered == list(range(num_layers))
    assert list(about.parts) == list(about.layers.rows)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_study_fills_the_rows_and_says_plainly_what_was_run(network):
    findings = EXHIBITS[f"{network}-layers"].findings(toys(network))
    ours = {check.paper.row: check.ours.mean for check in findings.checks}
    # 1.14 is nearest to the paper's rates: AlexNet keeps 702 of 800 weights, 51 each of fc7 and fc8
    count = NETWORKS[network].parts["total"].stop
    left = round(100 * count / 1.14) - 100 * (count - 2)
    assert ours["fc7"] == pytest.approx(100 - left // 2)
    assert ours["fc6"] == 0
    assert all(
        text in findings.to_markdown()
        for text in ("not ImageNet", "flowers with 10 classes", "toy.py")
    )
    assert all(check.tolerance.reason for check in findings.checks)


@pytest.mark.parametrize("network", NETWORKS)
def test_studies_stand_below_the_papers_rows_each_against_its_own_dense_network(network):
    findings = EXHIBITS[f"{network}-compare"].findings(toys(network))
    whose = [row[-1] for row in findings.rows[1:]]
    assert whose == ["paper"] * len(NETWORKS[network].compare.rows) + ["ours"] * len(TESTS)
    against = findings.rows[0].index("against dense")
    assert [row[against] for row in findings.rows if row[-1] == "ours"] == [
        "-",
        "+0.20",
        "-0.10",
        "-20.00",
    ]
    proposed = next(row for row in findings.rows if row[0] == "Proposed method")
    assert proposed[against] == {"alexnet": "-0.24", "vgg16": "+0.07"}[network]


@pytest.mark.parametrize(("test", "verdict"), [(59.9, "holds"), (59.5, "does not hold")])
def test_a_network_may_lose_no_more_than_the_papers(test, verdict):
    studies = {
        "alexnet-dense": study("alexnet", 1.0, 60.0),
        "alexnet-gates": study("alexnet", 1.1, test),
    }
    for name in ("alexnet-layers", "alexnet-compare"):
        (claim,) = EXHIBITS[name].findings(studies).claims
        assert claim.verdict == verdict
        assert f"{test - 60:+.2f}" in claim.evidence


@pytest.mark.parametrize("content", ["", "a1", "b2"])
def test_a_dense_network_of_the_same_name_and_other_content_is_not_what_a_run_began_with(content):
    dense = dataclasses.replace(study("vgg16").records[0], content=content)
    sparse = study("vgg16", 1.1).records[0]
    sparse = dataclasses.replace(sparse, run=sparse.run | {"weights_content": "a1"}, content="c3")
    assert began_with(sparse, [dense]) == (dense if content != "b2" else None)
    assert began_with(dense, [dense]) == dense


@pytest.mark.parametrize(
    ("begun", "verdict", "evidence"),
    [("dense", "does not hold", "-0.90 ± 0.20"), ("older", "holds", "-0.90 ± 14.")],
)
def test_what_is_lost_is_counted_against_what_each_began_with_if_that_is_here(
    begun, verdict, evidence
):
    studies = {
        "dense": study("vgg16", 1.0, 60.0, apart=10.0),
        "gates": study("vgg16", 1.1, 59.0, apart=10.2, begun=begun),
    }
    findings = EXHIBITS["vgg16-compare"].findings(studies)
    (claim,) = findings.claims
    assert claim.verdict == verdict
    assert evidence in claim.evidence
    assert ("mean of the current ones: `gates`." in findings.to_markdown()) == (begun == "older")


def test_a_network_with_other_layers_is_no_row_of_the_papers():
    findings = EXHIBITS["vgg16-layers"].findings(
        {"vgg16-cifar10": study("vgg16", 1.05, extra_layers=-1)}
    )
    assert {check.verdict for check in findings.checks} == {"not run yet"}


@pytest.mark.parametrize("network", NETWORKS)
def test_committed_studies_are_found_and_drawn_and_other_files_are_passed_over(network, tmp_path):
    pytest.importorskip("matplotlib")
    for name, each in toys(network).items():
        each.save(tmp_path / f"{name}.json")
    (tmp_path / f"{network}-speed.json").write_text('{"title": "how fast it is"}')
    exhibit = EXHIBITS[f"{network}-compare"]
    studies = Archive(results=tmp_path).studies(exhibit, (0, 1, 2))
    assert list(studies) == list(toys(network))
    assert len(make("toy", exhibit, studies, folder=tmp_path / "made").pictures) == 2
