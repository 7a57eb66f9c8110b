"""Connections between processes for short messages, one JSON object per line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import selectors
import socket
import time
from collections.abc import Iterator
from typing import Any

from open_seq2seq.runners.watchdog.members import Member, neighbours

Message = dict[str, Any]

# Limit of unsent or unparsed data, in bytes: a peer that does not read, or never ends a line, is stuck or not part of
# the run.
_MOST_BYTES = 1 << 18
_HELLO_SECONDS = 5.0  # time within which a new connection has to identify itself
_REDIAL_SECONDS = 1.0  # time between two attempts to connect to a neighbour


class Link:
    """A non-blocking connection.

    Args:
      connection: the connected socket, which the link owns from now on.

    Attributes:
      socket: the socket.
      rank: rank of the peer, the process at the other end; None until the peer has identified itself.
      silence: seconds since the peer's last message, updated by the owner of the link.
      born: time at which the link was made, of ``time.monotonic``.
      left: whether the peer has announced its end with a goodbye message; set by the owner of the link.
      closed: whether the connection has ended.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.rank: int | None = None
        self.silence, self.born = 0.0, time.monotonic()
        self.left = self.closed = False
        self._incoming, self._outgoing = b"", b""
        self._unread: list[Message] = []

    def send(self, message: Message) -> None:
        """Sends as much of a message as the socket accepts; ``flush`` sends the rest."""
        if len(self._outgoing) < _MOST_BYTES:  # otherwise the peer does not read
            self._outgoing += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Sends as much of the pending data as the socket accepts; returns False if it accepts no more for now."""
        try:
            while self._outgoing and not self.closed:
                self._outgoing = self._outgoing[self.socket.send(self._outgoing):]
        except BlockingIOError:
            return False
        except OSError as error:
            # After these errors, data that the peer sent before it closed may still be unread: ``receive`` reads it
            # first, and then sets ``closed``.
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                self.closed = True
        return True

    def receive(self) -> list[Message]:
        """Returns the messages received so far; sets ``closed`` if the connection has ended."""
        messages, self._unread = self._unread, []
        while not self.closed:
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            *lines, self._incoming = (self._incoming + data).split(b"\n")
            self.closed = not data or len(self._incoming) > _MOST_BYTES
            for line in lines:
                with contextlib.suppress(ValueError):
                    message = json.loads(line)
                    messages += [message] if isinstance(message, dict) else []
        return messages

    def put_back(self, messages: list[Message]) -> None:
        """Makes the next ``receive`` return these messages again, before new ones."""
        self._unread = messages + self._unread

    def close(self) -> None:
        """Closes the connection."""
        self.closed = True
        self.socket.close()


def listen() -> socket.socket:
    """Returns a socket that listens on a free port at all of the host's addresses."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be disabled
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    return socket.create_server(("", 0), backlog=128)


class Network:
    """A process's links to its neighbours; used from one thread.

    Of two neighbours (see ``members.neighbours``), the one with the higher rank opens the connection; it tries the
    addresses of the other one in order. Both use the token to prove that they belong to the run.

    Args:
      listener: this process's listening socket; see ``listen``.
      members: all processes of the run, by rank.
      rank: rank of this process.
      token: a secret of this run.

    Attributes:
      links: established links by rank.
      missing: ranks of the neighbours that have not been linked yet.
    """

    def __init__(self, listener: socket.socket, members: list[Member], rank: int, token: str) -> None:
        self._listener, self._members, self._rank, self._token = listener, members, rank, token.encode()
        self.links: dict[int, Link] = {}
        self.missing = set(neighbours(rank, len(members)))
        self._strangers: list[Link] = []
        self._calls: dict[int, tuple[Link, Iterator[str]]] = {}
        self._redial_at = 0.0
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def poll(self, seconds: float) -> list[tuple[Link, Message]]:
        """Waits at most ``seconds`` for messages from neighbours, and returns pairs of a link and a message from it.

        All links are read, even those that the selector does not report: the selector only ends the wait early.
        """
        self._call_missing()
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._accept()
        self._admit()
        news = []
        for link in self.links.values():
            messages = link.receive()
            news += [(link, message) for message in messages]
            link.flush()
            if messages:
                link.silence = 0.0
            if link.closed:
                self._unregister(link)
        return news

    def broadcast(self, message: Message) -> None:
        """Sends a message to all linked neighbours."""
        for link in self.links.values():
            if not link.closed:
                link.send(message)

    def flush(self, seconds: float) -> None:
        """Sends pending data, for at most ``seconds``."""
        until = time.monotonic() + seconds
        # A list, because ``all`` would stop a generator at the first link that is not flushed.
        while not all([link.flush() for link in self.links.values()]) and time.monotonic() < until:
            time.sleep(0.01)

    def close(self) -> None:
        """Closes all connections and the listener."""
        for link in (*self.links.values(), *self._strangers, *(link for link, _ in self._calls.values())):
            self._drop(link)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._strangers.append(self._register(self._listener.accept()[0]))

    def _register(self, connection: socket.socket) -> Link:
        link = Link(connection)
        self._selector.register(connection, selectors.EVENT_READ)
        return link

    def _unregister(self, link: Link) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(link.socket)

    def _drop(self, link: Link) -> None:
        self._unregister(link)
        link.close()

    def _call_missing(self) -> None:
        if time.monotonic() < self._redial_at:
            return
        self._redial_at = time.monotonic() + _REDIAL_SECONDS
        for rank in sorted(self.missing - set(self._calls)):
            if rank < self._rank:
                self._call(rank, iter(self._members[rank].addresses_from(self._members[self._rank])))

    def _call(self, rank: int, addresses: Iterator[str]) -> None:
        """Starts to connect to a rank, at the first of the remaining addresses for which this is possible."""
        self._calls.pop(rank, None)
        for address in addresses:
            with contextlib.suppress(OSError):
                family, kind, number, _, where = socket.getaddrinfo(
                    address, self._members[rank].port, type=socket.SOCK_STREAM)[0]
                connection = socket.socket(family, kind, number)
                connection.setblocking(False)
                connection.connect_ex(where)
                link = self._register(connection)
                link.send(self._hello(rank))
                self._calls[rank] = link, addresses
                return

    def _hello(self, to: int) -> Message:
        return {"rank": self._rank, "proof": self._proof(self._rank, to)}

    def _proof(self, sender: int, receiver: int) -> str:
        return hmac.new(self._token, f"{sender} to {receiver}".encode(), hashlib.sha256).hexdigest()

    def _admit(self) -> None:
        """Adds new connections to the links when the processes at their other ends have proved to belong to the run."""
        for link in list(self._strangers):
            rank = self._identify(link)
            if rank is not None:
                link.send(self._hello(rank))
            if rank is not None or link.closed:
                self._strangers.remove(link)
        for rank, (link, addresses) in list(self._calls.items()):
            link.flush()
            if self._identify(link) is not None:
                del self._calls[rank]
            elif link.closed:
                self._call(rank, addresses)

    def _identify(self, link: Link) -> int | None:
        """Reads the peer's first message and returns the peer's rank, or None if there is no valid message.

        Closes the connection if the message is invalid, or does not arrive within a few seconds.
        """
        messages = link.receive()
        if messages:
            rank, proof = messages[0].get("rank"), str(messages[0].get("proof"))
            if isinstance(rank, int) and rank in self.missing and hmac.compare_digest(
                    proof.encode(), self._proof(rank, self._rank).encode()):
                link.rank, link.closed = rank, False  # if the connection has ended, the next ``receive`` notices
                link.put_back(messages[1:])
                self.links[rank] = link
                self.missing.discard(rank)
                return rank
        if messages or link.closed or time.monotonic() - link.born > _HELLO_SECONDS:
            self._drop(link)
        return None
