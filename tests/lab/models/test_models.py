"""The networks have the sizes that the literature counts."""

import pytest
import torch
from torch.nn import functional as F

from sparsegate_lab.models import MODELS, AlexNet, LeNet5, LeNet300, ResNet20


def num_parameters(model, dimensions):
    return sum(each.numel() for each in model.parameters() if dimensions(each.ndim))


def test_lenet5_has_431080_parameters_of_which_430500_are_weights():
    model = LeNet5()
    # 20 filters of 1x5x5, 50 of 20x5x5, 500 units on 50x4x4, 10 on 500
    assert (
        num_parameters(model, lambda ndim: ndim >= 2)
        == 20 * 25 + 50 * 20 * 25 + 800 * 500 + 500 * 10
        == 430_500
    )
    assert num_parameters(model, lambda ndim: ndim < 2) == 20 + 50 + 500 + 10 == 580
    assert num_parameters(model, lambda ndim: True) == 431_080


def test_lenet300_has_266610_parameters_of_which_266200_are_weights():
    model = LeNet300()
    assert (
        num_parameters(model, lambda ndim: ndim >= 2) == 784 * 300 + 300 * 100 + 100 * 10 == 266_200
    )
    assert num_parameters(model, lambda ndim: ndim < 2) == 300 + 100 + 10 == 410
    assert num_parameters(model, lambda ndim: True) == 266_610


# weights of convolutions, of fully connected layers, all parameters
COUNTS = {
    "alexnet": (2_332_704, 9216 * 4096 + 4096 * 4096 + 4096 * 1000, 60_965_224),
    "alexnet-torchvision": (2_468_544, 9216 * 4096 + 4096 * 4096 + 4096 * 1000, 61_100_840),
    "vgg16": (14_710_464, 25088 * 4096 + 4096 * 4096 + 4096 * 1000, 138_357_544),
    "vgg16-cifar": (14_710_464, 512 * 512 + 512 * 10, 14_986_698),
    "resnet20": (267_696, 640, 269_722),
    "small-cnn": (144 + 4_608, 100_352 + 640, 105_962),
}
SMALL = [name for name in MODELS if COUNTS.get(name, (0, 0, 0))[2] < 1_000_000]


@pytest.mark.parametrize("name", COUNTS)
def test_every_large_model_has_the_parameters_that_are_counted_in_print(name):
    with torch.device("meta"):
        model = MODELS[name]()
    total = num_parameters(model, lambda ndim: True)
    assert (
        num_parameters(model, lambda ndim: ndim == 4),
        num_parameters(model, lambda ndim: ndim == 2),
        total,
    ) == (COUNTS[name])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("num_classes", [2, 10])
def test_every_model_gives_a_logit_per_class_for_images_of_its_shape(name, num_classes):
    with torch.device("meta"):  # sizes without numbers: one of them has 138 million weights
        model = MODELS[name](num_classes=num_classes)
        assert model(torch.empty(3, *model.image_shape)).shape == (3, num_classes)


@pytest.mark.parametrize("name", SMALL)
def test_every_model_is_the_same_again_from_the_same_seed(name):
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(
            torch.cat([each.flatten() for each in MODELS[name](num_classes=10).parameters()])
        )
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_alexnet_takes_images_of_224_too():
    with torch.device("meta"):
        assert AlexNet()(torch.empty(1, 3, 224, 224)).shape == (1, 1000)


def test_alexnets_norm_divides_by_a_sum_over_five_channels_as_caffe_does():
    with torch.device("meta"):
        norm = AlexNet().norm
    image = torch.rand(1, 7, 1, 1) * 100
    squares = image[0, :, 0, 0].square()
    around = torch.stack([squares[max(0, place - 2) : place + 3].sum() for place in range(7)])
    torch.testing.assert_close(
        norm(image)[0, :, 0, 0], image[0, :, 0, 0] / (1 + 1e-4 / 5 * around) ** 0.75
    )


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("alexnet", {"conv1.weight", "fc8.bias"}),
        (
            "alexnet-torchvision",
            {f"features.{at}.weight" for at in (0, 3, 6, 8, 10)} | {"classifier.6.bias"},
        ),
        (
            "vgg16",
            {f"features.{at}.bias" for at in (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)},
        ),
    ],
)
def test_large_models_have_the_names_of_the_weights_that_are_handed_around(name, names):
    with torch.device("meta"):
        assert names <= set(MODELS[name]().state_dict())


def test_a_residual_network_whose_last_norms_are_zero_only_halves_planes_and_adds_channels():
    torch.manual_seed(0)
    model, image = ResNet20().eval(), torch.randn(2, 3, 32, 32)
    for block in model.blocks:
        torch.nn.init.zeros_(block.norm2.weight)
    first = F.relu(model.norm(model.conv(image)))
    after = model.blocks(first)
    assert after.shape == (2, 64, 8, 8)
    assert torch.equal(after[:, 24:40], first[:, :, ::4, ::4])
    assert torch.count_nonzero(after[:, :24]) + torch.count_nonzero(after[:, 40:]) == 0


def test_lenet5_pools_then_rectifies_which_equals_rectifying_first():
    torch.manual_seed(0)
    model, image = LeNet5(), torch.randn(4, 1, 28, 28)
    hidden = F.max_pool2d(F.relu(model.conv1(image)), 2)
    hidden = F.max_pool2d(F.relu(model.conv2(hidden)), 2)
    assert torch.equal(model(image), model.fc2(F.relu(model.fc1(hidden.flatten(1)))))


def test_lenet300_is_three_matrices_with_rectifiers_between():
    torch.manual_seed(0)
    model, image = LeNet300(), torch.randn(4, 1, 28, 28)
    first = (image.reshape(4, 784) @ model.fc1.weight.T + model.fc1.bias).clamp(min=0)
    second = (first @ model.fc2.weight.T + model.fc2.bias).clamp(min=0)
    torch.testing.assert_close(model(image), second @ model.fc3.weight.T + model.fc3.bias)
