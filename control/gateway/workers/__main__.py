"""`python -m control.gateway.workers FD COUNTS`: one worker, started by `control.gateway.workers.supervisor`. FD is its
end of a socket pair, COUNTS the file that all workers count in."""

import os
import socket
import sys

from agents.channels.errors import BadKeyError
from control.access.pepper import PepperError
from control.gateway.process import run_loop
from control.gateway.workers.pipe import PipeClosedError
from control.gateway.workers.worker import work
from control.tls_files import TlsFilesError


def main() -> None:
    descriptor, counts = map(int, sys.argv[1:])
    for each in (descriptor, counts):  # else what a worker starts would hold them open when the worker is gone
        os.set_inheritable(each, False)
    try:
        run_loop(work(socket.socket(fileno=descriptor), counts))
    except PipeClosedError:
        sys.exit("gateway: the supervisor of this worker is gone")
    except (BadKeyError, PepperError, TlsFilesError, OSError) as error:
        sys.exit(f"gateway: {error}")


if __name__ == "__main__":
    main()
