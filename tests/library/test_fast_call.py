"""Direct calls compute what they are given to, and step back whenever a module has to be called in full."""

import ctypes
import gc
import weakref

import pytest
import torch
from torch import nn

from sparsegate.fast_call import EXCHANGE, MAKE, readable
from sparsegate.fast_call import direct as make

pytestmark = pytest.mark.skipif(
    MAKE is None or EXCHANGE is None, reason="not built, or torch is older than 2.10"
)
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_void_p,) * 3, ctypes.c_int64, ctypes.c_int64)
WIRED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p)
SIZE = 6  # of one input, 2 by 3
seen = []


@FUNCTION
def twice(context, given, made, count, threads):
    """Doubles what it is given, and says by how many threads."""
    seen.append((context, threads))
    x, y = (ctypes.cast(each, ctypes.POINTER(ctypes.c_float)) for each in (given, made))
    for i in range(SIZE * count):
        y[i] = 2 * x[i]
    return 0


@FUNCTION
def fails(*_):
    return 1


@WIRED
def wired(given, count, made):
    twice(0, given, made, count, 0)


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def doubled(owner=None, function=twice, out=(3, 2)):
    return make(owner or nn.Module(), (address(function), 7), ((2, 3), out), function)


def images(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) + 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("count", [1, 5])
def test_the_function_is_called_on_the_images_and_makes_the_output(mode, count):
    x, run = images(count, 2, 3), doubled()
    with mode():
        made = run(x)
    assert made.shape == (count, 3, 2)
    assert (made.dtype, made.device.type, made.is_contiguous(), made.is_inference()) == (
        *(torch.float32, "cpu", True),
        mode is torch.inference_mode,
    )
    assert torch.equal(made, 2 * x.view(count, 3, 2))
    assert seen[-1] == (7, torch.get_num_threads())


def test_hard_wired_code_is_called_too():
    run = make(nn.Module(), (0, address(wired)), ((2, 3), (6,)), wired)
    with torch.no_grad():
        assert torch.equal(run(images(4, 2, 3)), 2 * images(4, 6))


def test_outputs_are_ordinary_tensors_that_outlive_the_call():
    run, x = doubled(), images(1, 2, 3)
    with torch.no_grad():
        made = [run(x) for _ in range(3)]
    del run
    gc.collect()
    made[0].add_(1)
    assert torch.equal(made[1], made[2])
    assert torch.equal(made[0], made[1] + 1)
    assert all(each.data_ptr() % 64 == 0 for each in made)


@pytest.mark.parametrize(
    "x",
    [
        *(images(2, 3), images(1, 3, 2), images(1, 2, 3, 1), images(0, 2, 3)),
        *(
            images(1, 2, 3).double(),
            images(1, 2, 3).half(),
            images(1, 2, 3).int(),
            images(1, 2, 3).to("meta"),
        ),
        *(
            images(2, 3, 2).permute(0, 2, 1),
            images(2, 2, 6)[..., ::2],
            images(1, 2, 3).expand(4, 2, 3),
        ),
        *(
            nn.Parameter(images(1, 2, 3)),
            images(1, 2, 3).to_sparse(),
            images(1, 2, 3).numpy(),
            None,
        ),
    ],
    ids=str,
)
def test_inputs_of_any_other_kind_are_left_to_the_module(x):
    with torch.no_grad():
        assert doubled()(x) is NotImplemented


def test_a_line_of_one_may_have_any_stride():
    x = torch.as_strided(images(12), (1, 2, 3), (99, 3, 1))
    with torch.no_grad():
        assert torch.equal(doubled()(x), 2 * x.reshape(1, 3, 2))


def test_where_gradients_are_recorded_the_module_is_called():
    assert doubled()(images(1, 2, 3)) is NotImplemented


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_where_somebody_listens_the_module_is_called(register):
    owner = nn.Module()
    run = doubled(owner)
    for register_one in (
        getattr(owner, register),
        getattr(nn.modules.module, register.replace("r_f", "r_module_f")),
    ):
        with torch.no_grad():
            assert run(images(1, 2, 3)) is not NotImplemented
            hook = register_one(lambda *_: None)
            assert run(images(1, 2, 3)) is NotImplemented
            hook.remove()


def test_it_takes_one_argument():
    with torch.no_grad():
        assert doubled()(images(1, 2, 3), images(1, 2, 3)) is NotImplemented
        assert doubled()(x=images(1, 2, 3)) is NotImplemented


def test_a_function_that_finds_no_memory_says_so():
    with torch.no_grad(), pytest.raises(MemoryError):
        doubled(function=fails)(images(1, 2, 3))


def test_shapes_without_any_values_are_left_to_the_module():
    assert doubled(out=(0,)) is None


@pytest.mark.parametrize("shape", [(1,) * 8, (-1,)])
def test_a_shape_that_cannot_be_is_refused(shape):
    with pytest.raises(ValueError, match="shape"):
        doubled(out=shape)


def test_a_call_in_a_cycle_is_collected():
    class Owner(nn.Module):
        pass

    owner = Owner()
    owner.run = doubled(owner)
    owner.register_forward_hook(lambda *_, owner=owner: None)  # so that the hooks know their owner
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_a_tensor_with_the_negative_bit_is_left_to_the_module():
    x = torch._neg_view(images(2, 2, 3))
    with torch.no_grad():
        assert doubled()(x) is NotImplemented
        assert torch.equal(doubled()(x.resolve_neg()), -2 * images(2, 3, 2))


@pytest.mark.parametrize("first", [0, 1], ids=["all of it", "a view with an offset"])
def test_a_tensor_whose_storage_was_freed_is_left_to_the_module(first):
    x = images(3, 2, 3)[first:]
    x.untyped_storage().resize_(0)
    with torch.no_grad():
        assert doubled()(x) is NotImplemented


def test_a_readable_tensor_has_its_layout_and_no_negative_bit():
    x = images(2, 3, 4, 5)
    assert readable(x) is x
    assert torch.equal(readable(torch._neg_view(x)), -x)
    assert not readable(torch._neg_view(x)).is_neg()
    last = readable(x, torch.channels_last)
    assert last.is_contiguous(memory_format=torch.channels_last)


def test_a_freed_tensor_is_not_readable_but_an_empty_one_is():
    x = images(2, 3)
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"a tensor of shape \(2, 3\) whose storage was freed"):
        readable(x)
    assert readable(torch.empty(0, 3)).shape == (0, 3)
