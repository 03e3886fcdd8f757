"""On two processes gates stay the same everywhere and train as on one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TIMEOUT = 100  # seconds; a process that waits for the other for ever must not stop the tests


def run(script: str, folder: Path) -> list[dict]:
    """What each of two processes wrote."""
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen(
        [*launch, str(SCRIPTS / script), str(folder)],
        env=environment,
        start_new_session=True,
        **pipe,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its workers too
        pytest.fail(f"{script} took more than {TIMEOUT} s:\n{process.communicate()[0]}")
    assert process.returncode == 0, output
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def ddp(tmp_path_factory) -> list[dict]:
    return run("ddp_gates.py", tmp_path_factory.mktemp("ddp"))


@pytest.fixture(scope="module")
def fsdp(tmp_path_factory) -> list[dict]:
    return run("fsdp_gates.py", tmp_path_factory.mktemp("fsdp"))


def flat(values: list) -> list[float]:
    return [number for each in values for number in each]


def test_ddp_gives_every_process_the_same_mask_after_each_step(ddp):
    one, other = (each["threshold"] for each in ddp)
    assert one["masks"] == other["masks"]
    assert one["gates"] == other["gates"]
    assert len({str(mask) for mask in one["masks"]}) > 1  # gates did open or close on the way


def test_ddp_equals_one_process_with_the_whole_batch(ddp):
    together, alone = ddp[0]["threshold"], ddp[0]["alone"]
    assert flat(together["gates"]) == pytest.approx(flat(alone["gates"]), abs=1e-5)
    assert together["weights"] == pytest.approx(alone["weights"], abs=1e-5)


def test_ddp_processes_with_different_seeds_draw_different_masks_and_keep_equal_gates(ddp):
    one, other = (each["sample"] for each in ddp)
    assert one["drawn"] != other["drawn"]
    assert one["gates"] == other["gates"]
    assert one["weights"] == other["weights"]


def test_ddp_ends_on_a_target_with_the_mask_of_one_process(ddp):
    assert ddp[0]["aimed"] == ddp[1]["aimed"]
    assert sum(ddp[0]["aimed"]["mask"]) == 20
    assert ddp[0]["aimed"]["mask"] == ddp[0]["aimed alone"]["mask"]
    assert ddp[0]["aimed"]["control"]["push"] == pytest.approx(
        ddp[0]["aimed alone"]["control"]["push"], rel=1e-4
    )


def test_a_model_inside_ddp_cannot_be_gated(ddp):
    assert all("gate it first, then wrap it" in each["refusal"] for each in ddp)


def test_gates_inside_ddp_have_the_names_of_the_weights(ddp):
    assert ddp[0]["names"] == ["0.weight", "2.weight"]
    assert sum(ddp[0]["kept"].values()) == sum(ddp[0]["threshold"]["masks"][-1])


def test_finish_takes_the_ddp_wrapper_off(ddp):
    assert all(each["gap to finished"] == 0 for each in ddp)
    assert ddp[0]["finished"] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_sharded_model_trains_as_one_process_does(fsdp):
    for each in fsdp:
        assert each["difference"] < 1e-5
        assert each["movement"] > 0.05


def test_a_census_of_a_sharded_model_counts_the_whole_model_on_every_process(fsdp):
    for each in fsdp:
        for together, alone in zip(each["readings"], each["alone"], strict=True):
            assert together["kept"] == alone["kept"]
            assert together["histogram"] == alone["histogram"]
            assert sum(together["histogram"]) == 42 + 21
            assert together["total"] == alone["total"] == {"0.weight": 42, "2.weight": 21}
            for fraction in ("keep", "variance", "undecided", "flipped"):
                assert together[fraction] == pytest.approx(alone[fraction], abs=1e-6)
    assert any(reading["flipped"] > 0 for reading in fsdp[0]["readings"])


def test_a_census_of_a_sharded_sampled_model_is_the_same_on_every_process(fsdp):
    one, other = (each["sample"] for each in fsdp)
    assert one["readings"] == other["readings"]
    assert one["readings"][-1]["keep"] == pytest.approx(one["mean gate"], abs=1e-6)


def test_a_sharded_model_ends_on_a_target_with_the_mask_of_one_process(fsdp):
    for target in ("aimed", "sized", "listening"):
        assert fsdp[0][target]["together"] == fsdp[1][target]["together"]
        together, alone = (fsdp[0][target][each] for each in ("together", "alone"))
        assert together["masks"] == alone["masks"]
        assert set(flat(together["masks"])) == {0.0, 1.0}
        assert together["control"]["push"] == pytest.approx(alone["control"]["push"], rel=1e-4)
    assert sum(flat(fsdp[0]["aimed"]["together"]["masks"])) == 20
    assert sum(flat(fsdp[0]["sized"]["together"]["masks"])) < 63


def test_a_sharded_model_cannot_be_finished_but_its_full_state_dict_can(fsdp):
    for each in fsdp:
        assert "load its full state dict" in each["finish"]
        assert each["gap to sharded"] < 1e-5
        assert each["kept by the finished"] == each["readings"][-1]["kept"]


def test_a_sharded_model_cannot_be_gated(fsdp):
    assert all("gate it first, then shard it" in each["gate"] for each in fsdp)
