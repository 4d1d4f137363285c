"""Settings of a run that depend on the machine."""

import dataclasses

from echelon.learn.config import TrainConfig


def test_nothing_is_compiled_where_there_is_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CXX", "")
    config = dataclasses.replace(TrainConfig.quick(), compile_policy="all")
    assert config.compiled_if_possible() == dataclasses.replace(config, compiled=False, compile_policy="off")
    eager = dataclasses.replace(config, compiled=False)
    assert eager.compiled_if_possible() is eager
