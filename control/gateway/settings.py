"""Limits and times of a gateway."""

from dataclasses import dataclass, field, replace

from agents.channels.settings import ChannelSettings
from control.http_protocol import HttpLimits
from templates_lib.media.image_header import ImageLimits
from templates_lib.media.wav_header import AudioLimits

_LEAST_SLAB_MIB = 8
"""Of each process that has a slab: less holds no picture of a usual size."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Bounds are those of a whole gateway, however many processes it has."""

    max_body_bytes: int = 8 << 20
    """A context of 1 Mi tokens is about 4 MB of text. Texts to embed, of which a body may have thousands, have as much
    whatever the contexts."""
    body_bytes: int = 2 << 20
    """Of a body beside its prompt: tools, schemas, more prompts, and what JSON adds."""
    body_bytes_per_token: int = 32
    """Of the longest context that is served: six times what text takes, as JSON may have six letters for one. To read a
    body takes milliseconds a megabyte, in which nobody else is served."""
    max_media_body_bytes: int = 50 << 20
    """The same while some model takes pictures or sounds: base64 is a third longer than what it stands for."""
    images: ImageLimits = field(default_factory=ImageLimits)
    sounds: AudioLimits = field(default_factory=AudioLimits)
    image_hosts: tuple[str, ...] = ()
    """Hosts that pictures may be fetched from, over HTTPS; `.example.org`: all below it. None: no URL is fetched."""
    preprocessor_interface: str = "127.0.0.1"
    """Address of this machine, by which the nodes of encoders pull pictures and sounds from its preprocessor."""
    preprocessor_slab_mib: int = 0
    """Shared memory for those that are not pulled yet, which bounds the largest; 0: as the largest of the models that
    are served takes in numbers of four bytes, and 256 at least."""
    max_bodies_bytes: int = 256 << 20
    """Of all bodies together, while they arrive and until they are tokens; of one account's half as much."""
    max_pieces_bytes: int = 256 << 20
    """Of all sound and pictures that are made and that clients have not taken; an answer that holds more than is free
    ends."""
    max_header_bytes: int = 32 << 10
    max_connections: int = 8192
    """Of several processes, each takes its part (`of_each`): the system spreads connections evenly."""
    header_timeout_s: float = 10.0
    """Span from connection, or the first byte of a request, to the end of its headers: ends slow-loris clients."""
    body_timeout_s: float = 30.0
    keep_alive_s: float = 75.0
    """Idle time between two requests; longer than the 60 s of usual load balancers, so that they close first."""
    write_timeout_s: float = 60.0
    """Time in which a client reads nothing of a stream that waits for it; it is cut off then."""
    request_timeout_s: float = 600.0
    """The whole answer; the OpenAI client's own default."""
    resume_wait_s: float = 30.0
    """How long a request waits for an instance when none can be used, before it fails."""
    max_resumptions: int = 8
    """A request that loses this many instances fails: it may be what kills them."""
    max_open_calls: int = 4096
    """Beyond it new requests are told to come again."""
    max_open_runs: int = 1024
    """The same of requests that wait for runs of workflows, each of which asks the API once a second."""
    api_url: str = ""
    """Of the admin API, at which clients' runs are started; empty: no runs."""
    max_wait_s: float = 10.0
    """Admitted work that may wait, in seconds of its class's capacity: what a TTFT objective leaves for queueing."""
    metering_interval_s: int = 60
    """Load is counted in intervals of this length, which begin at its multiples: several gateways add up."""
    max_unstored_intervals: int = 1440
    """A day's, that the control plane may be away without anything being forgotten."""
    hold_comment_s: float = 10.0
    """A stream that is held says that it lives this often: well within the idle times of proxies."""
    table_poll_s: float = 0.5
    """How often the files of the routing table and of the key are looked at."""
    worker_silence_s: float = 15.0
    """Of several processes, one that gives no sign of life for so long hangs: it is ended, and replaced. Longer than
    what a busy machine may keep a healthy one from its turn, as its answers break off."""
    channel: ChannelSettings = field(default_factory=ChannelSettings)

    def body_limit(self, context_tokens: int) -> int:
        """Bytes of a body while the longest context of what is served has so many tokens."""
        return min(self.max_body_bytes, self.body_bytes + self.body_bytes_per_token * context_tokens)

    def of_each(self, processes: int) -> "GatewaySettings":
        """Return the settings of each of so many processes that are one gateway: its part of what they cannot count
        together (`control.gateway.counts`), rounded up."""
        slab_mib = self.preprocessor_slab_mib and max(_LEAST_SLAB_MIB, -(-self.preprocessor_slab_mib // processes))
        connections = -(-self.max_connections // processes)
        return replace(self, max_connections=connections, preprocessor_slab_mib=slab_mib)

    @property
    def http(self) -> HttpLimits:
        return HttpLimits(self.max_header_bytes, self.header_timeout_s, write_timeout_s=self.write_timeout_s)
