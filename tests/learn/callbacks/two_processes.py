"""One of two processes; the first alone requests a stop, and later its league fails."""

import sys
from pathlib import Path
from types import SimpleNamespace

from tiny_runs import tiny_run

from echelon.league.league_callback import LeagueCallback
from echelon.learn.callbacks.base import Callback
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.trainer import Trainer
from echelon.runtime.distributed import Ranks, destroy_ranks, init_ranks
from echelon.runtime.errors import ConfigError


class StopsAtSecond(Callback):
    def on_checkpoint(self, trainer, path):
        if trainer.ranks.is_first and trainer.counters.iterations == 2:
            trainer.stop()


class FullLeague(LeagueCallback):
    def __init__(self):
        super().__init__(SimpleNamespace(store=None), SimpleNamespace(shares={"a": 1.0}, me=None), 1)

    def submit(self, checkpoint, kind="candidate"):
        raise ConfigError("the league is full")


def main(folder: Path, ranks: Ranks) -> None:
    config = tiny_run(total_agent_steps=160 * 20, league_every=2)
    trainer = Trainer(config, folder, ranks=ranks, callbacks=[StopsAtSecond()])
    trainer.train()
    print(trainer.counters.iterations)
    ranks.barrier()
    start = open_checkpoint(newest_checkpoint(folder / "checkpoints"))
    try:
        Trainer(config, folder, start, ranks=ranks, callbacks=[FullLeague()]).train()
    except ConfigError as error:
        print(error)


if __name__ == "__main__":
    ranks = init_ranks()
    main(Path(sys.argv[1]), ranks)
    destroy_ranks(ranks)
    # Gloo threads that still run at interpreter exit could abort the process; they must end with the last trainer.
    threads = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    assert not [name for name in threads if "gloo" in name], threads
