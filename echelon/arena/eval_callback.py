"""Evaluates the learner during a run, and prints a summary at its end."""

from __future__ import annotations

from pathlib import Path

from echelon.agents.heuristic import scripted
from echelon.arena.config import ArenaConfig
from echelon.arena.evaluator import BEST, Evaluator, Score, evaluation_mode, format_row
from echelon.arena.skills import PROFILE, skill_profile
from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun
from echelon.learn.checkpoint.files import checkpoint_path, newest_checkpoint
from echelon.learn.metrics import read_table
from echelon.learn.opponents.named import OpponentOf
from echelon.replay.battle import Replay
from echelon.replay.file import save
from echelon.runtime.errors import require
from echelon.runtime.files import json_bytes, write_whole
from echelon.runtime.tensor_files import StateDict
from echelon.scenarios.piece import find_piece, pieces


class EvalCallback(Callback):
    """Evaluates the learner with an `Evaluator` before a run, every `EvalConfig.every` iterations and at the end.

    The callback writes `evaluations.csv`, and requests a checkpoint of each new best policy. Only the first process of
    a distributed run evaluates. A signal aborts a running evaluation; the resumed run repeats the evaluation.

    Args:
        opponent_of: builds the commanders to evaluate against, as in `Trainer`.
    """

    name = "panel"

    def __init__(self, opponent_of: OpponentOf = scripted) -> None:
        self.opponent_of = opponent_of
        self.evaluator: Evaluator | None = None
        """None on every process but the first."""
        self.best_saved = 0

    def setup(self, trainer: TrainingRun) -> None:
        if trainer.config.evaluation.pieces > 0:
            width = find_piece(pieces()[0]).scenario.config.comm_dim
            limit = f"0 for battles whose comm_dim is not {width}"
            require(trainer.config.env.comm_dim == width, "EvalConfig.pieces", limit, trainer.config.evaluation.pieces)
        if trainer.ranks.is_first:
            self.evaluator = Evaluator(trainer.policy, trainer.config, trainer.folder, self.opponent_of)

    def on_run_start(self, trainer: TrainingRun) -> None:
        """Evaluate the policy if this iteration is due for an evaluation and has none yet."""
        iteration = trainer.counters.iterations
        if self.evaluator is not None:
            # `last` is -1 in a resumed run that trained without this callback: keep all rows of its table.
            last = self.evaluator.last_iteration
            # An earlier end of the run wrote a final evaluation after its checkpoint: keep it unless it is repeated.
            stays = last < 0 < iteration or not self._is_due(trainer, self.evaluator)
            self.evaluator.open_table(iteration if stays else last)
            trainer.best = self.best_saved = self.evaluator.best_iteration
        self._evaluate_if_due(trainer)
        self._log_best(trainer, checkpoint_path(trainer.folder, iteration))

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Evaluate if due, and request a checkpoint of the best policy so far."""
        self._evaluate_if_due(trainer)

    def _evaluate_if_due(self, trainer: TrainingRun) -> None:
        iteration = trainer.counters.iterations
        if self.evaluator is None or not self._is_due(trainer, self.evaluator):
            return
        if trainer.ended or trainer.requests.stop:
            # Skip this evaluation, because the final evaluation follows.
            return
        if iteration == 0:
            panel = ", ".join(self.evaluator.panel)
            trainer.log(
                f"evaluating before training: {trainer.config.evaluation.battles} battles against each of {panel}"
            )
        scores = self._play(trainer, self.evaluator)
        if scores and self.evaluator.update_best(scores, iteration) and iteration > 0:
            trainer.best = iteration
            trainer.requests.checkpoint = True

    @staticmethod
    def _is_due(trainer: TrainingRun, evaluator: Evaluator) -> bool:
        """Return whether this iteration is due for an evaluation and has not been evaluated."""
        iteration, every = trainer.counters.iterations, trainer.config.evaluation.every
        is_time = iteration == 0 or (every > 0 and iteration % every == 0)
        return is_time and evaluator.last_iteration != iteration

    def _play(self, trainer: TrainingRun, evaluator: Evaluator, is_final: bool = False) -> list[Score]:
        """Play an evaluation, log its scores and write them to files; return the scores, or an empty list after a
        signal.
        """
        scores: list[Score] = []
        replays: list[Replay] = []
        replayed = trainer.config.replay_battles if is_final else min(trainer.config.replay_battles, 1)
        recorded = max(replayed, trainer.config.evaluation.video)

        def play() -> None:
            new_scores = evaluator.evaluate_final() if is_final else evaluator.evaluate()
            if recorded > 0:
                # Name the policy by its run folder, without the path, and its checkpoint.
                checkpoint = checkpoint_path(trainer.folder, trainer.counters.iterations)
                name = f"{trainer.folder.resolve().name}/{checkpoint.name}"
                replays.append(evaluator.record_battles(recorded, name))
            scores.extend(new_scores)

        trainer.run_interruptible(play)
        if scores:
            for replay in replays:
                save(replay, trainer.folder / "evaluation.echelon")
                trainer.callbacks.on_replay(trainer, replay)
        counters = trainer.counters
        evaluator.record(scores, counters.iterations, counters.agent_steps, counters.seconds)
        for score in scores:
            trainer.log(f"{counters.seconds / 60:5.1f} min, against {score}")
        if scores:
            trainer.callbacks.on_evaluation(trainer, scores)
        return scores

    def on_checkpoint(self, trainer: TrainingRun, path: Path) -> None:
        self._log_best(trainer, path)

    def _log_best(self, trainer: TrainingRun, path: Path) -> None:
        if self.evaluator is not None and self.evaluator.best_iteration > self.best_saved:
            self.best_saved = self.evaluator.best_iteration
            trainer.log(f"best so far, kept as {path}")

    def on_run_end(self, trainer: TrainingRun) -> None:
        """Play the set pieces (short test scenarios) and the final evaluation, and record some of its battles, as
        configured.
        """
        if self.evaluator is not None:
            if trainer.config.evaluation.pieces > 0:
                trainer.run_interruptible(lambda: self._play_pieces(trainer))
            scores = self._play(trainer, self.evaluator, is_final=True)
            if scores:
                self.evaluator.update_best(scores, trainer.counters.iterations)

    def _play_pieces(self, trainer: TrainingRun) -> None:
        evaluation, how = trainer.config.evaluation, ArenaConfig.of_run(trainer.config, trainer.device)
        policy, seeds = trainer.policy, evaluation.pieces
        with evaluation_mode(policy):
            profile = skill_profile(policy, seeds=seeds, compiled=how.compiled, cuda_graph=how.cuda_graph)
        write_whole(trainer.folder / PROFILE, json_bytes(profile.as_json()))
        trainer.log(
            f"set pieces: {profile.win_rate:.0%} of {evaluation.pieces} battles of each of {len(profile.results)}"
        )

    def state_dict(self) -> StateDict:
        return StateDict() if self.evaluator is None else self.evaluator.state_dict()

    def load_state_dict(self, state_dict: StateDict) -> None:
        if self.evaluator is not None:
            self.evaluator.load_state_dict(state_dict)


class Summary(Callback):
    """After the last evaluation, logs the scores before and after the run and the paths of the run's files.

    Args:
        evaluation: the run's `EvalCallback`, which must precede this callback in the list.
    """

    def __init__(self, evaluation: EvalCallback) -> None:
        self.evaluation = evaluation

    def on_run_end(self, trainer: TrainingRun) -> None:
        evaluator, folder, log = self.evaluation.evaluator, trainer.folder, trainer.log_plain
        if evaluator is None:
            return
        rows = read_table(folder / "evaluations.csv")
        for moment, iteration in (("before", rows[0]["iteration"]), ("after ", rows[-1]["iteration"])):
            for row in rows:
                if row["iteration"] == iteration and row["rival"] != BEST:
                    log(f"{moment} against {format_row(row)}")
        names = {"metrics": "metrics.csv", "evaluations": "evaluations.csv", "plot": "metrics.png"}
        names |= {"report": "report.html", "replay": "evaluation.echelon"}
        files = {title: folder / name for title, name in names.items()}
        files |= {"best": checkpoint_path(folder, evaluator.best_iteration)}
        for title, path in {**files, "checkpoint": newest_checkpoint(folder / "checkpoints")}.items():
            if path.exists():
                log(f"{title:<11} {path}")
