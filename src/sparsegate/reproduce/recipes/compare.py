"""LeNet-5 on MNIST by the methods that the paper is compared with, each at the size that is printed for it."""

from __future__ import annotations

from sparsegate.methods import GSM, OBD, OBS, Architecture, CollinsKohli, Lasso, Magnitude, SparseVD
from sparsegate.schedule import Rounds
from sparsegate.train import Run

# LeNet-5 has 430 500 weights. Han et al. keep 36K of them: 0.0836.
HAN = 36_000 / 430_500
# Collins and Kohli keep 8.5M of AlexNet's 60.9M: 0.14, the same ratio here.
COLLINS_KOHLI = 8.5 / 60.9


def magnitude() -> Run[Magnitude]:
    """Han et al. 2015: 36K weights at 99.23 % in the paper's table."""
    return Run(epochs=60, method=Magnitude(keep=HAN))


def architecture() -> Run[Architecture]:
    """Srinivas and Babu 2015: 40.9K parameters at 99.04 % in the paper's table."""
    return Run(epochs=60, method=Architecture())


def collins_kohli() -> Run[CollinsKohli]:
    """Collins and Kohli 2014: the ratio that the paper prints for AlexNet."""
    return Run(epochs=60, method=CollinsKohli(keep=COLLINS_KOHLI))


def lasso() -> Run[Lasso]:
    """LASSO by proximal steps, which the paper only discusses."""
    return Run(epochs=60, weight_decay=0.0, method=Lasso())


def lasso_penalty() -> Run[Lasso]:
    """LASSO as a plain penalty with a final cut, at the price of the proximal one."""
    return Run(epochs=60, weight_decay=0.0, method=Lasso(way="penalty"))


def obd() -> Run[OBD]:
    """LeCun et al. 1989, at the size of Han et al."""
    return Run(epochs=60, method=OBD(keep=HAN, num_images=1000))


def obs() -> Run[OBS]:
    """Hassibi and Stork 1993, at the size of Han et al."""
    return Run(epochs=60, method=OBS(keep=HAN, num_images=1000, parts=4, rounds=Rounds(count=3)))


def sparse_vd() -> Run[SparseVD]:
    """Molchanov et al. 2017: 280x at 99.25 %."""
    return Run(epochs=80, method=SparseVD(num_images=55_000))


def gsm() -> Run[GSM]:
    """Ding et al. 2019: 300x at 99.06 %."""
    return Run(epochs=80, lr=0.005, momentum=0.98, weight_decay=5e-4, method=GSM(keep=1 / 270))
