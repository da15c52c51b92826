"""`python -m control.gateway.workers FD`: one worker, started by `control.gateway.workers.supervisor`. FD is its end of
a socket pair."""

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
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # else what a worker starts would hold it open when the worker is gone
    try:
        run_loop(work(socket.socket(fileno=descriptor)))
    except PipeClosedError:
        sys.exit("gateway: the supervisor of this worker is gone")
    except (BadKeyError, PepperError, TlsFilesError, OSError) as error:
        sys.exit(f"gateway: {error}")


if __name__ == "__main__":
    main()
