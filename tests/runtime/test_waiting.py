"""Messages of processes that wait for each other."""

import threading

from echelon.runtime import distributed
from echelon.runtime.distributed import print_after


class Clock(threading.Timer):
    """A timer that fires immediately or never."""

    is_up = True

    def start(self):
        if self.is_up:
            self.run()

    def run(self):
        self.function(*self.args, **self.kwargs)


def test_waiting_process_prints_what_it_waits_for(capsys, monkeypatch):
    monkeypatch.setattr(distributed.threading, "Timer", Clock)
    with print_after(2.0, "waiting for rank 0"):
        pass
    assert capsys.readouterr().err == "waiting for rank 0\n"
    monkeypatch.setattr(Clock, "is_up", False)
    with print_after(2.0, "waiting for rank 0"):
        pass
    assert capsys.readouterr().err == ""
