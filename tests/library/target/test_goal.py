"""Goals find the number of weights that fits a wish, in a world whose laws are known."""

import math
from dataclasses import dataclass

import pytest

from sparsegate.target.accuracy_drop import AccuracyDrop
from sparsegate.target.file_size import FileSize
from sparsegate.target.goal import LOOKS, Goal, View, WeightCount, largest, smallest
from sparsegate.target.target import Target, UnreachableTarget


@dataclass
class World(View):
    """A hundred thousand gates: a weight costs 4 bytes and its place, and accuracy falls below 1,000 weights."""

    count: int = 100_000
    best: float = 99.0
    noise: tuple[float, ...] = (0.0,)
    looked: int = 0
    settled: bool = False

    def num_layers(self) -> int:
        return 4

    def num_gates(self) -> int:
        return 100_000

    def num_open(self) -> int:
        return self.count

    def bytes_of(self, count: int) -> int:
        return 200 + round(count * (4 + math.log2(1 + 100_000 / count) / 8))

    def accuracy_of(self, count: int) -> float:
        return self.best - max(0.0, math.log(1000 / count))

    def settle_(self) -> None:
        self.settled = True

    def accuracy(self) -> float:
        self.looked += 1
        return self.accuracy_of(self.count) - self.noise[self.looked % len(self.noise)]


def trained(goal: Goal, world: World, freeze: float = 0.8) -> int:
    """The world's gates do at once what the goal says."""
    for look in range(1, round(LOOKS * freeze) + 1):
        progress = look / LOOKS
        world.count = round(goal.budget(progress))
        goal.look(world, progress)
    return goal.final(world)


def test_a_number_falls_as_a_cube_to_what_was_asked():
    goal = WeightCount(Target(keep=0.01, begin=0.2, reach=0.6), World())
    assert [goal.budget(progress) for progress in (0.0, 0.2, 0.6, 1.0)] == [
        100_000,
        100_000,
        1000,
        1000,
    ]
    assert goal.budget(0.4) == pytest.approx(1000 + 99_000 / 8)


def test_a_number_falls_by_the_same_factor_at_every_step_if_asked_to():
    goal = WeightCount(Target(keep=0.01, begin=0.2, reach=0.6, fall="factor"), World())
    assert [goal.budget(progress) for progress in (0.0, 0.2, 0.3, 0.4, 0.6, 1.0)] == pytest.approx(
        [100_000, 100_000, 100_000 / 10**0.5, 10_000, 1000, 1000]
    )


def test_a_number_above_what_is_open_is_wanted_from_the_beginning():
    assert WeightCount(Target(weights=500), World(count=100)).budget(0.3) == 500


@pytest.mark.parametrize("wanted", [1000, 20_000, 300_000])
def test_a_file_is_filled_but_not_over_filled(wanted):
    world = World()
    world.count = trained(FileSize(Target(bytes=wanted), world), world)
    assert 0.98 * wanted < world.bytes_of(world.count) <= wanted


def test_a_file_that_has_grown_is_cut_again():
    world = World()
    goal = FileSize(Target(bytes=20_000), world)
    world.count = trained(goal, world)
    assert goal.end(world) is None
    world.count += 500
    assert world.bytes_of(goal.end(world)) <= 20_000 < world.bytes_of(goal.end(world) + 1)


def test_a_file_that_holds_everything_is_said():
    with pytest.warns(UnreachableTarget, match="holds the network with all its weights"):
        FileSize(Target(bytes=10**6), World())


def test_a_drop_ends_where_the_accuracy_is_just_above_the_floor():
    # 99.0 - log(1000 / n) is 98.875 at n = 1000 / e^0.125 = 882 and 98.5 at n = 607
    world = World()
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), world)
    world.count = trained(goal, world)
    assert world.count == pytest.approx(882, rel=0.1)
    count = goal.end(world)
    assert count == pytest.approx(607, rel=0.01)
    assert world.accuracy_of(count) >= 98.5


def test_a_drop_is_not_held_up_by_single_bad_looks():
    world = World(noise=(0.0, 0.0, 0.0, 2.0))
    count = trained(AccuracyDrop(Target(max_drop=0.5, baseline=99.0), world), world)
    assert 800 < count < 4000  # cuts after the freeze are left to spend the rest


def test_no_weight_comes_back_after_the_moment_of_reach():
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), World())
    goal.look(World(), 0.2)
    goal.look(World(count=500), 0.3)
    assert 500 < goal.budget(0.5) < 560
    goal.look(World(count=500), 0.7)
    assert goal.budget(0.8) < 560


def test_a_network_with_all_its_weights_says_what_can_be_expected_at_a_moment():
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), World())
    goal.look(World(best=97.0), 0.1)
    goal.look(World(best=98.5), 0.3)  # above the floor, so weights are removed
    assert goal.budget(0.4) < 100_000
    late = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), World())
    late.look(World(best=97.0), 0.1)
    late.look(World(best=96.0), 0.3)  # learns later than expected
    assert late.floor(0.3) == pytest.approx(96.0)
    late.look(World(best=98.5), 0.4)
    assert late.budget(0.5) < 100_000


def test_after_the_freeze_weights_that_can_be_spared_are_cut_a_few_at_a_time():
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), World())
    world, counts = World(count=2000), []
    for look in range(41, 51):
        world.count = goal.spare(world, look / LOOKS) or world.count
        counts.append(world.count)
    assert counts[0] == pytest.approx(1500, rel=0.05)
    assert counts[-1] == pytest.approx(607, rel=0.05)
    assert goal.spare(World(count=500), 0.9) is None


def test_at_the_end_weights_settle_first():
    world = World()
    AccuracyDrop(Target(max_drop=0.5, baseline=99.0), world).end(world)
    assert world.settled


def test_a_budget_does_not_run_ahead_of_gates_that_cannot_follow():
    world = World()
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), world)
    for look in range(10, 40):
        goal.look(world, look / LOOKS)  # all gates stay open
    assert goal.budget(0.8) > 40_000
    assert goal.final(world) == pytest.approx(
        12_500, rel=0.03
    )  # an eighth of what is open, where the search ends


def test_what_can_be_spared_after_the_weights_have_settled_is_cut_at_the_end():
    world = World()
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), world)
    trained(goal, world)
    world.count = 5000
    fewer = goal.end(world)
    assert fewer == pytest.approx(607, rel=0.01)
    assert world.accuracy_of(fewer) >= 98.5


def test_before_the_end_a_drop_allows_for_what_the_network_has_not_learned_yet():
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0, begin=0.2), World(best=97.0))
    goal.look(World(best=97.0), 0.1)
    assert [goal.floor(progress) for progress in (0.2, 0.6, 0.8, 1.0)] == pytest.approx(
        [96.875, 98.625, 98.875 - 2 / 64, 98.5]
    )


def test_a_drop_out_of_reach_keeps_the_weights_and_says_so_before_the_cut_and_at_the_end():
    world = World(best=97.0)
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), world)
    with pytest.warns(
        UnreachableTarget, match=r"out of reach so far: .* is 97\.00 %, which is max_drop=2\.00"
    ):
        world.count = trained(goal, world)
    assert world.count > 10_000  # about where it was seen
    with pytest.warns(
        UnreachableTarget, match=r"was not met: 97\.00 % with .* reached is max_drop=2\.00"
    ):
        assert goal.end(world) is None


def test_a_drop_that_was_met_says_nothing(recwarn):
    world = World()
    goal = AccuracyDrop(Target(max_drop=0.5, baseline=99.0), world)
    world.count = trained(goal, world)
    assert goal.end(world) <= world.count
    assert len(recwarn) == 0


@pytest.mark.parametrize(("search", "answer"), [(largest, 10), (smallest, 10**6)])
def test_bisection_asks_no_more_often_than_it_may_and_answers_what_is_known(search, answer):
    asked = []
    assert search(lambda number: asked.append(number) or False, 10, 10**6, tries=3) == answer
    assert len(asked) == 3
