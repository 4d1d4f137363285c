"""A named task with TorchRL components: create the environment, train, evaluate, print the table row."""

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import echelon


def main(name: str = "small-5v5", num_envs: int = 64, steps: int = 32, iterations: int = 2, **protocol):
    task = echelon.latest(name)
    env = echelon.make(task, view="mechs", num_envs=num_envs, seed=0, opponent="heuristic:easy")
    seen, done = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    net = torch.nn.Sequential(MLP(seen, 2 * done, num_cells=[64]), NormalParamExtractor())
    law = {"distribution_class": TanhNormal, "return_log_prob": True}
    actor = ProbabilisticActor(TensorDictModule(net, ["observation"], ["loc", "scale"]), ["loc", "scale"], **law)
    critic = TensorDictModule(MLP(seen, 1, num_cells=[64]), ["observation"], ["state_value"])
    gae, loss = GAE(gamma=0.99, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic)
    optimiser, frames = torch.optim.Adam(loss.parameters(), lr=1e-3), env.numel() * steps
    for batch in Collector(env, actor, frames_per_batch=frames, total_frames=iterations * frames):
        found = loss(gae(batch).reshape(-1))
        optimiser.zero_grad()
        (found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]).backward()
        optimiser.step()
    print(echelon.evaluate(actor.eval(), task, **protocol))
    return actor


if __name__ == "__main__":
    main()
