"""Measure whether numba loops compute decisions faster than other forms on a device, and whether they give the same
bits."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from echelon.env.env import EchelonEnv
from echelon.env.footprint import needed_bytes
from echelon.env.form import form_of, without_loops
from echelon.env.measurement import Measurement, measurement_file, save_measurement
from echelon.env.rehearsal import BATTLES, DECISIONS, crowded, decision_in_place, leaves, random_actions, with_actions
from echelon.rules.config import EnvConfig
from echelon.runtime.cuda_graphs import WARM_UPS
from echelon.runtime.device import free_memory

CPU = torch.device("cpu")
MOST_BATTLES = 8192
"""Number of timed battles on a GPU, if its free memory is enough for four times as many."""
ROUNDS = 3
"""Number of times that each form plays the decisions of a rehearsal."""


def measure(device: torch.device) -> Measurement:
    """Measure the numba loops on a device, and save the result for the backend `auto`. This takes minutes if nothing is
    compiled yet.

    Args:
        device: a CPU or a GPU.

    Returns:
        The speed of the loops and of the form without loops, and whether the loops gave the same bits.

    Raises:
        ConfigError: if there are no loops for this device.
    """
    config = EnvConfig.small() if device.type == "cpu" else EnvConfig.standard()
    file, other = measurement_file(device), form_of(device, without_loops(device))
    if file is not None:
        # Delete an earlier result first, so that no outdated result remains if this measurement fails.
        file.unlink(missing_ok=True)
    is_equal = plays_equally(config, device)
    num_envs, maps = battles_to_time(config, device), None
    timers = {}
    for form in ("loops", other):
        env = EchelonEnv(config, num_envs, device, seed=0, maps=maps, backend=form)
        maps, timers[form] = env.sim_model.maps, timed_rollout(env)
    seconds: dict[str, list[float]] = {form: [] for form in timers}
    for _ in range(ROUNDS):
        # Alternate between the two backends, so that other load on the machine slows both.
        for form, timer in timers.items():
            seconds[form].append(timer())
    agent_steps = DECISIONS * num_envs * config.num_mechs
    loops_per_s, other_per_s = (agent_steps / sorted(seconds[form])[ROUNDS // 2] for form in timers)
    measurement = Measurement(other, is_equal, loops_per_s, other_per_s)
    save_measurement(device, measurement)
    return measurement


def battles_to_time(config: EnvConfig, device: torch.device) -> int:
    """Return the number of battles to time, which is `BATTLES` on a CPU. On a GPU, the number is `MOST_BATTLES`,
    halved until four times as many battles fit into free memory."""
    num_envs = BATTLES if device.type == "cpu" else MOST_BATTLES
    while num_envs > BATTLES and 4 * needed_bytes(config, num_envs, device) > free_memory(device):
        num_envs //= 2
    return num_envs


def plays_equally(config: EnvConfig, device: torch.device) -> bool:
    """Return whether loops on a device give the same bits as the dense form on a CPU."""
    loops = EchelonEnv(config, BATTLES, device, seed=0, backend="loops")
    dense = EchelonEnv(config, BATTLES, CPU, seed=0, backend="eager")
    td, expected_td = crowded(loops), crowded(dense)
    for action in random_actions(dense):
        after, td = loops.step_and_maybe_reset(with_actions(td, loops, action.to(device)))
        expected_after, expected_td = dense.step_and_maybe_reset(with_actions(expected_td, dense, action))
        for pair in ((after.get("next"), expected_after.get("next")), (loops.state, dense.state)):
            values, expected = ({name: bytes_of(leaf) for name, leaf in leaves(value)} for value in pair)
            if values != expected:
                return False
    return True


def bytes_of(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor on any device."""
    return tensor.to(CPU).contiguous().view(torch.uint8).numpy().tobytes()


def timed_rollout(env: EchelonEnv) -> Callable[[], float]:
    """Return a warmed-up function that plays `DECISIONS` decisions of crowded battles, as CUDA graphs on a GPU.

    The function returns the time in seconds that these decisions and the restarts took.
    """
    actions = random_actions(env)
    decide, inputs = decision_in_place(env, actions[0])

    def play() -> float:
        start_s = time.perf_counter()
        for action in actions:
            inputs.copy_(action)
            decide("measurement")
        if env.device.type == "cuda":
            torch.cuda.synchronize(env.device)
        return time.perf_counter() - start_s

    for _ in range(WARM_UPS + 1):
        decide("measurement")
    play()
    return play
