"""`python -m control.gateway`: the gateway as a process of its own."""

import argparse
from dataclasses import replace
from pathlib import Path

from agents.channels.errors import BadKeyError
from agents.tracing.json_lines import log_json_lines
from control.access.pepper import PepperError
from control.gateway.settings import GatewaySettings
from control.gateway.start import start
from control.tls_files import TlsFilesError, tls_files

_TUNABLE = (
    *("header_timeout_s", "body_timeout_s", "write_timeout_s", "request_timeout_s", "resume_wait_s", "max_wait_s"),
    *("hold_comment_s", "worker_silence_s"),
)
_BOUNDS = {
    "max_connections": "connections; more are answered with 503",
    "max_open_calls": "answers under way; more requests are told to come again",
    "max_open_runs": "requests that wait for runs of workflows",
    "max_bodies_bytes": "memory for what clients send, until it is tokens",
    "max_pieces_bytes": "memory for sound and pictures that clients have not taken",
}
"""Of all workers together."""
_PREPROCESSOR = ("preprocessor_interface", "preprocessor_slab_mib")
_CHANNEL = ("heartbeat_s", "lost_after_s")


def _count(text: str) -> int:
    """Raises ArgumentTypeError."""
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{count} is fewer than 1")
    return count


def main() -> None:
    defaults = GatewaySettings()
    parser = argparse.ArgumentParser(prog="control.gateway", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1, help="processes that share the port; 0: one for each core")
    parser.add_argument("--table", type=Path, required=True, help="routing table that the control plane publishes")
    parser.add_argument("--key", type=Path, required=True, help="key file that instances know this gateway by")
    for name in _TUNABLE:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(defaults, name))
    for name, about in _BOUNDS.items():
        whose = f"of all workers together: {about}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=_count, default=getattr(defaults, name), help=whose)
    interval = "seconds over which offered load is summed up"
    parser.add_argument("--metering-interval-s", type=int, default=defaults.metering_interval_s, help=interval)
    for name in _CHANNEL:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(defaults.channel, name))
    fetched = "host that pictures may be fetched from, over HTTPS (repeat; `.example.org`: all below it)"
    parser.add_argument("--image-host", action="append", default=[], metavar="HOST", help=fetched)
    runs = "URL of the admin API, where clients' runs of workflows are started"
    parser.add_argument("--api", default=defaults.api_url, metavar="URL", help=runs)
    parser.add_argument("--tls-cert", type=Path, help="certificate chain, PEM: serve HTTPS")
    parser.add_argument("--tls-key", type=Path, help="its private key, PEM")
    interface = "address of this machine, by which nodes of encoders pull pictures and sounds from it"
    parser.add_argument("--preprocessor-interface", default=defaults.preprocessor_interface, help=interface)
    slab = "shared memory for pictures and sounds that are not pulled yet, of all workers together: its part of it "
    slab += "bounds the largest that a worker takes; 0: in each as the models that are served ask for"
    parser.add_argument("--preprocessor-slab-mib", type=int, default=defaults.preprocessor_slab_mib, help=slab)
    given = parser.parse_args()
    log_json_lines()
    channel = replace(defaults.channel, **{name: getattr(given, name) for name in _CHANNEL})
    interval_s = min(max(1, given.metering_interval_s), 3600)
    tuned = {name: getattr(given, name) for name in (*_TUNABLE, *_BOUNDS)}
    hosts = tuple(given.image_host)
    tuned |= {name: getattr(given, name) for name in _PREPROCESSOR}
    tuned["worker_silence_s"] = max(1.0, given.worker_silence_s)
    tuned |= {"image_hosts": hosts, "api_url": given.api}
    settings = replace(defaults, channel=channel, metering_interval_s=interval_s, **tuned)
    try:
        tls = tls_files(given.tls_cert, given.tls_key)
        start(given.host, given.port, given.table, given.key, settings, tls, max(0, given.workers))
    except (BadKeyError, PepperError, TlsFilesError, OSError) as error:
        parser.exit(1, f"gateway: {error}\n")


if __name__ == "__main__":
    main()
