"""uvicorn's server, over TLS where there are files for it."""

import asyncio

import uvicorn

from control.tls_files import TlsFiles


class HttpServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, tls: TlsFiles | None) -> None:
        """None: plain HTTP."""
        super().__init__(config)
        self._tls = tls
        if tls is not None:
            config.load()
            config.ssl = tls.context

    async def main_loop(self) -> None:
        """Serve until it is to end; new files are taken meanwhile."""
        if self._tls is None:
            await super().main_loop()
            return
        watch = asyncio.create_task(self._tls.watch())
        try:
            await super().main_loop()
        finally:
            watch.cancel()
