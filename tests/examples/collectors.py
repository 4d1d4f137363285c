"""Views in TorchRL's distributed collectors, with your own policy.

python tests/examples/collectors.py         # two processes of this machine
python tests/examples/collectors.py auto    # two workers of the Ray cluster at this address
"""

import sys

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import MultiSyncCollector
from torchrl.modules import MLP

import echelon
from echelon import EnvConfig

BATTLES, STEPS = 4, 8


def battles(seed: int):
    return echelon.versus(EnvConfig.small(), "heuristic:easy", num_envs=BATTLES, device="cpu", seed=seed)


def policy() -> TensorDictModule:
    network = torch.nn.Sequential(MLP(544, 26, num_cells=[64]), torch.nn.Tanh())
    return TensorDictModule(network, [("agents", "observation")], [("agents", "action")])


def collector_of(address: str = ""):
    """Return the collector, on the Ray cluster at `address`, or without one on this machine."""
    makers = [lambda seed=seed: battles(seed) for seed in range(2)]
    frames = len(makers) * BATTLES * STEPS
    sizes = {"frames_per_batch": frames, "total_frames": 3 * frames}
    if not address:
        return MultiSyncCollector(makers, policy(), **sizes)
    import ray
    from torchrl.collectors.distributed import RayCollector

    ray.init(address, log_to_driver=False)
    resources = {"num_cpus": 1, "num_gpus": 0}
    return RayCollector(makers, policy(), remote_configs=resources, sync=True, **sizes)


if __name__ == "__main__":
    collector = collector_of(*sys.argv[1:])
    for batch in collector:  # [2, 4, 8]: process, battle, time
        print(tuple(batch.shape), float(batch["next", "agents", "reward"].mean()))
        collector.update_policy_weights_()  # after your optimiser's step
    collector.shutdown()
