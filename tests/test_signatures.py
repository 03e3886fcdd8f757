"""The checks of signatures that all tests run with find wrong types, shapes and fields."""

from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from sparsegate.graph import unchecked
from sparsegate.schedule import Rounds

from .signatures import checked


@checked
def product(left: Float[Tensor, "n k"], right: Float[Tensor, "k m"]) -> Float[Tensor, "n m"]:
    return (left @ right)[: int(left[0, 0])]


@checked
def shout(word: "str", times: "int" = 2) -> "str":
    return word.upper() * times if times else None


@checked
@dataclass(frozen=True)
class Sized:
    size: int
    table: Float[Tensor, "n n"]

    @property
    def wrong(self) -> str:
        return self.size

    @checked
    def rows(self) -> list["int"]:
        return [str(self.size)]


def test_sizes_of_one_name_agree_between_arguments_and_the_result():
    assert product(torch.full((2, 3), 2.0), torch.ones(3, 4)).shape == (2, 4)
    with pytest.raises(TypeCheckError):
        product(torch.ones(2, 3), torch.ones(4, 4))
    with pytest.raises(TypeCheckError):
        product(torch.ones(2, 3), torch.ones(3, 4))  # returns one row


def test_arguments_and_results_without_shapes_are_checked():
    assert shout("a") == "AA"
    for wrong in (("a", "2"), (1,), ("a", 0)):
        with pytest.raises(TypeCheckError):
            shout(*wrong)


def test_fields_and_methods_of_a_dataclass_are_checked():
    made = Sized(2, torch.ones(3, 3))
    assert hash(made) is not None
    with pytest.raises(TypeCheckError):
        Sized("2", torch.ones(3, 3))
    with pytest.raises(TypeCheckError):
        Sized(2, torch.ones(3, 4))
    with pytest.raises(TypeCheckError):
        made.rows()
    with pytest.raises(TypeCheckError):
        checked(Sized.wrong).__get__(made)


def test_class_methods_and_static_methods_are_checked():
    class Both:
        @classmethod
        def one(cls, size: int) -> int:
            return size

        @staticmethod
        def two(size: int) -> int:
            return size

    Both.one, Both.two = checked(Both.__dict__["one"]), checked(Both.__dict__["two"])
    assert Both.one(1) + Both.two(2) == 3
    for method in (Both.one, Both.two):
        with pytest.raises(TypeCheckError):
            method("1")


def test_a_function_without_annotations_and_a_name_for_type_checkers_only_are_left():
    def plain(x):
        return x

    def unknown(x: "NotImported") -> "NotImported":
        return x

    assert checked(plain) is plain
    assert checked(unknown)(3) == 3


def test_checks_are_off_while_a_model_is_captured():
    with unchecked():
        assert shout("a", times=0) is None
        assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (1, 4)


def test_the_packages_are_checked():
    with pytest.raises(TypeCheckError):
        Rounds(count="3")
