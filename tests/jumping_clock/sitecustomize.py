"""Processes whose wall clock jumps while they run, as one that somebody sets does.

A copy of this file in a folder on PYTHONPATH looks at a file `jumps` beside it, of lines `SECONDS PROGRAM`: the clock
of whatever has PROGRAM in its command line is off by as many seconds as long as the line is there. Clocks that nobody
can set (`time.monotonic`) go on as they were.
"""

import ctypes
import datetime
import gc
import os
import sys
import time

_time, _FILE = time.time, os.path.join(os.path.dirname(__file__), "jumps")


def _off_s() -> float:
    try:
        with open(_FILE) as file:
            lines = [line.split(maxsplit=1) for line in file.read().splitlines()]
    except OSError:
        return 0.0
    command = " ".join(sys.orig_argv)
    return sum(float(seconds) for seconds, program in lines if program in command)


def _now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
    return cls.fromtimestamp(time.time(), tz)


time.time = lambda: _time() + _off_s()
# The class has to stay what it is: libraries compare types.
(_methods,) = gc.get_referents(datetime.datetime.__dict__)
_methods["now"] = classmethod(_now)
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
