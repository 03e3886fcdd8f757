"""Ctrl-C and SIGTERM end a training between two steps, and a second one ends it at once."""

import os
import signal
import threading

import pytest

from sparsegate_lab.methods import Dense
from sparsegate_lab.train import Run, Watcher, train
from sparsegate_lab.train.interrupts import Interrupts


@pytest.fixture(autouse=True)
def _handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_raised_where_it_is_asked_for(number):
    interrupts, passed = Interrupts(), []

    def work():
        with interrupts.postponed():
            os.kill(os.getpid(), number)
            passed.append("the line after the signal")
            interrupts.check()
            passed.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert passed == ["the line after the signal"]
    assert signal.getsignal(number) is signal.default_int_handler


def test_an_interrupt_that_nobody_asked_for_is_raised_at_the_end():
    with pytest.raises(KeyboardInterrupt), Interrupts().postponed():
        os.kill(os.getpid(), signal.SIGINT)


def test_a_second_interrupt_is_raised_at_once():
    passed = []

    def work():
        with Interrupts().postponed():
            os.kill(os.getpid(), signal.SIGINT)
            passed.append("after the first")
            os.kill(os.getpid(), signal.SIGINT)
            passed.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert passed == ["after the first"]


def test_a_handler_of_the_caller_stays():
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append("the caller's"))
    with Interrupts().postponed():
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == ["the caller's"]


def test_another_thread_than_the_main_one_leaves_signals_alone():
    ended = []

    def work():
        with Interrupts().postponed():
            ended.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [signal.default_int_handler]


class Interrupted(Watcher):
    """Presses Ctrl-C at a step, and counts the steps that are taken."""

    def __init__(self, step):
        self.step, self.last = step, 0

    def stepped(self, step):
        self.last = step
        if step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_training_ends_after_the_step_and_continues_bit_for_bit(digits, tmp_path):
    run = Run(model="lenet300", data=str(digits), epochs=2, batch_size=100, method=Dense())
    watch = Interrupted(12)
    with pytest.raises(KeyboardInterrupt):
        train(run, folder=tmp_path / "a", watch=watch)
    assert watch.last == 12
    assert not list((tmp_path / "a").rglob("*.partial"))
    train(run, folder=tmp_path / "a")
    train(run, folder=tmp_path / "b")
    one, other = (tmp_path / name / run.name / "network.safetensors" for name in "ab")
    assert one.read_bytes() == other.read_bytes()
