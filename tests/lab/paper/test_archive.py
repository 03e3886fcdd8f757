"""Records are found by the run that they are of, and by no other."""

import dataclasses
import json
from dataclasses import dataclass

import pytest

from sparsegate_lab.methods import Dense
from sparsegate_lab.paper import Archive, Exhibit, save_studies, seconds_for, train_all
from sparsegate_lab.paper.estimate import threads_each
from sparsegate_lab.paper.findings import Findings
from sparsegate_lab.study import Study
from sparsegate_lab.train import machine, train


@pytest.fixture(scope="module")
def run(small):
    return small(method=Dense(), epochs=1)


@pytest.fixture(scope="module")
def record(run, tmp_path_factory):
    return train(run, folder=tmp_path_factory.mktemp("runs"))


@dataclass(frozen=True)
class Toy(Exhibit):
    """One run, and whatever studies are called toy-something."""

    run: object

    def title(self):
        return "Table 0: toy"

    def plan(self):
        return {"only": self.run}

    def wanted(self):
        return "toy-*.json"

    def findings(self, studies):
        return Findings(self.title())


def test_a_record_of_a_study_counts_for_its_run(run, record, tmp_path):
    Study("toy", "", (record,)).save(tmp_path / "any.json")
    assert Archive(results=tmp_path).record(run) == record


def test_records_of_several_studies_in_one_file_count_in_folders_below_too(run, record, tmp_path):
    (tmp_path / "compare").mkdir()
    save_studies(
        tmp_path / "compare" / "toy.json", "toy", "", {"only": Study("toy", "", (record,))}
    )
    assert Archive(results=tmp_path).record(run) == record


def test_of_two_records_of_one_run_the_one_at_the_top_of_the_folder_counts(run, record, tmp_path):
    (tmp_path / "single").mkdir()
    Study("toy", "", (dataclasses.replace(record, seconds=600.0),)).save(
        tmp_path / "single" / "toy.json"
    )
    Study("toy", "", (record,)).save(tmp_path / "toy.json")
    assert Archive(results=tmp_path).record(run) == record


def test_a_record_of_another_setting_does_not_count(run, record, tmp_path):
    Study("toy", "", (record,)).save(tmp_path / "any.json")
    archive = Archive(results=tmp_path)
    assert archive.record(dataclasses.replace(run, lr=0.01)) is None
    assert archive.record(dataclasses.replace(run, seed=1)) is None


def test_a_record_from_before_a_setting_was_added_still_counts(run, record, tmp_path):
    settings = {name: value for name, value in record.run.items() if name != "compile"}
    old = dataclasses.replace(record, run=settings, name="another-hash")
    Study("toy", "", (old,)).save(tmp_path / "any.json")
    assert Archive(results=tmp_path).record(run) == old


def test_a_record_of_a_method_that_is_no_more_is_passed_over(run, record, tmp_path):
    old = dataclasses.replace(
        record, run={**record.run, "method": {"name": "forgotten"}}, name="forgotten"
    )
    Study("toy", "", (old,)).save(tmp_path / "any.json")
    assert Archive(results=tmp_path).record(run) is None


def test_other_files_are_left_alone(run, tmp_path):
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "other.json").write_text(json.dumps({"rows": []}))
    assert Archive(results=tmp_path).record(run) is None


def test_missing_are_the_runs_without_a_record_and_training_makes_them(run, tmp_path):
    exhibit = Toy(run)
    assert [each.seed for each in Archive(runs=tmp_path).missing(exhibit, (0, 1))] == [0, 1]
    heard = []
    made = train_all(
        Archive(runs=tmp_path).missing(exhibit, (0, 1)),
        folder=tmp_path,
        command="toy",
        told=lambda epochs, about: heard.append(epochs),
    )
    assert [each.run["seed"] for each in made] == [0, 1]
    assert sum(heard) == pytest.approx(2)  # one epoch each
    archive = Archive(runs=tmp_path)
    assert archive.missing(exhibit, (0, 1)) == []
    assert len(archive.studies(exhibit, (0, 1))["only"].records) == 2


@pytest.mark.slow
def test_two_processes_make_the_same_records_as_one(run, record, tmp_path):
    runs = [run, dataclasses.replace(run, seed=1)]
    heard = []
    told = lambda epochs, about: heard.append((epochs, about))
    first, second = train_all(runs, folder=tmp_path, command="", processes=2, told=told)
    assert sum(epochs for epochs, _ in heard) == pytest.approx(2)
    assert {about.split(":")[0] for _, about in heard} == {first.name, second.name}
    assert (first.test, first.epochs[-1].loss) == (
        record.test,
        pytest.approx(record.epochs[-1].loss, rel=1e-4),
    )
    assert second.run["seed"] == 1


def test_studies_are_also_found_by_their_files_name(run, record, tmp_path):
    Study("toy", "", (record,)).save(tmp_path / "toy-one.json")
    assert set(Archive(results=tmp_path).studies(Toy(run), (5,))) == {"toy-one"}


def test_no_processes_at_all_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        train_all([], folder=tmp_path, command="", processes=0)


def test_time_is_told_from_records_of_this_machine(run, record):
    here = dataclasses.replace(record, machine=machine(), seconds=7.0)
    assert seconds_for([run, dataclasses.replace(run, epochs=3)], [here]) == pytest.approx(28)


def test_of_several_records_the_calmest_tells_the_time_and_processes_share_it(run, record):
    here = {**machine(), "threads": threads_each(2)}
    records = [
        dataclasses.replace(record, machine=here, seconds=seconds) for seconds in (70.0, 8.0, 9.0)
    ]
    assert seconds_for([run] * 4, records, processes=2) == pytest.approx(16)


def test_time_is_measured_where_there_is_no_record_of_this_machine(run, record, tmp_path):
    elsewhere = dataclasses.replace(
        record, machine={**machine(), "processor": "abacus"}, seconds=1e6
    )
    assert 0 < seconds_for([run], [elsewhere]) < 60
