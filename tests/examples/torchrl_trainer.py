"""TorchRL's experimental `PPOTrainer` on `echelon.mechs`."""

import torch
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.objectives import ClipPPOLoss
from torchrl.trainers.algorithms import PPOTrainer

from echelon.pipelines.torchrl_ppo import Args, make_env, make_networks


def main(battles: int = 8, steps: int = 16, iterations: int = 2, minibatch: int = 160) -> PPOTrainer:
    """Train, and return the trainer."""
    learners = make_env(Args(battles=battles))  # echelon.mechs, and the sum of rewards
    actor, critic = make_networks(learners)
    frames, loss = learners.numel() * steps, ClipPPOLoss(actor, critic)
    storage = LazyTensorStorage(frames)
    trainer = PPOTrainer(
        collector=Collector(learners, actor, frames_per_batch=frames, total_frames=iterations * frames),
        loss_module=loss,
        optimizer=torch.optim.Adam(loss.parameters(), lr=5e-4),
        replay_buffer=TensorDictReplayBuffer(
            storage=storage, sampler=SamplerWithoutReplacement(), batch_size=minibatch
        ),
        total_frames=iterations * frames,
        frame_skip=1,
        optim_steps_per_batch=4,
        progress_bar=False,
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    main()
