"""Settings of a run that depend on the machine."""

import dataclasses

from echelon.learn.config import TrainConfig


def test_nothing_is_compiled_where_there_is_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CXX", "")
    config = dataclasses.replace(TrainConfig.quick(), compile_policy="all", device="cpu")
    assert config.compiled_if_possible() == dataclasses.replace(config, compile_policy="off")
    loops = dataclasses.replace(config, compile_policy="off")
    assert loops.compiled_if_possible() is loops
    graph = dataclasses.replace(loops, backend="graph")
    assert graph.compiled_if_possible() == dataclasses.replace(loops, backend="eager")
