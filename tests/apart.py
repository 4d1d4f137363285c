"""Cost of a refusal, measured in a fork: imports do not count, and memory is that of this work alone."""

import json
import os
import resource
import time
from collections.abc import Callable

from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


def apart(work: Callable[[], None]) -> tuple[str, float, int]:
    """Run `work`, which must be refused, in another process; return its message, CPU seconds and memory in bytes."""
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        before, began, said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), ""
        try:
            work()
        except (ConfigError, FileError) as error:
            said = str(error)
        except BaseException as error:
            said = f"neither ConfigError nor FileError but {error!r}"
        seconds = time.process_time() - began
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(tell, json.dumps([said, seconds, more << 10]).encode())
        os._exit(0)
    os.close(tell)
    with open(hear, "rb") as file:
        told = file.read()
    os.waitpid(child, 0)
    assert told, "the process died"
    said, seconds, needed = json.loads(told)
    return said, seconds, needed
