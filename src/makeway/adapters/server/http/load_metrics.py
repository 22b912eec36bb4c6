"""Metrics of what the server holds for its clients at the moment. They are read on request and counted nowhere else."""

from __future__ import annotations

from makeway.adapters.server.http.connections import Connections
from makeway.adapters.server.http.streams import Streams
from makeway.adapters.server.http.uploads import BodyBytes
from makeway.runtime.metrics.exposition import Registry


class LoadMetrics:
    def __init__(self) -> None:
        self.registry = registry = Registry({"replica_role": "standalone"}, ())
        self._connections = registry.gauge("makeway_connections", "Connections to the API server", "state")
        self._ended = registry.gauge(
            "makeway_connections_ended", "Connections that the API server ended since it began", "reason"
        )
        self._streams = registry.gauge("makeway_streams", "Watches and follows of logs that are open")
        self._buffered = registry.gauge(
            "makeway_stream_buffered_bytes", "Bytes of answers that wait for clients to take them"
        )
        self._bodies = registry.gauge(
            "makeway_upload_bytes", "Bytes of large bodies that are on their way or worked on"
        )

    def text(self, connections: Connections, streams: Streams, bodies: BodyBytes) -> str:
        for state, count in connections.counts.items():
            self._connections.set(state, value=count)
        for reason in ("idle", "token", "unknown", "unread"):
            self._ended.set(reason, value=connections.ended[reason])
        self._streams.set(value=streams.count)
        self._buffered.set(value=connections.buffered_bytes)
        self._bodies.set(value=bodies.held)
        return self.registry.text()
