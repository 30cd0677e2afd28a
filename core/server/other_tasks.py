"""What Trio has to do beside the reader's task, so that the reader may wait for sockets itself.

A message that comes alone pays for the whole round of the event loop in which the reader wakes up: to register for the
wait, to ask Trio's epoll, to wake the task, to ask the reader's own epoll. The reader saves this where it waits by
itself, in one system call. It may do so only while no other task can run, and everything that Trio waits for must wake
it:

- a task that becomes ready: Trio tells an instrument of each;
- a socket, a signal, or another thread: Trio's own epoll becomes readable, and an epoll can be watched by another one;
- a deadline: Trio tells when the next one is.
"""

import os
import select
import socket

import trio

CHECKPOINTS_MAX = 10
"""Rounds of the event loop within which a task that was started waits for its socket."""


QUIET_MIN = 2
"""Trio runs tasks in batches: those that have become ready since the batch before began. A task may run before or after
others of its batch. So those that can still run in a batch have become ready since the task ran in the last batch but
one, and if none has, none can run."""


class OtherTasks(trio.abc.Instrument):
    """Tells whether a task other than one can run."""

    def __init__(self, own: trio.lowlevel.Task) -> None:
        self.became_ready = True
        """Whether another task has become ready since the last look."""
        self._own = own
        self._quiet = 0
        self._heeding = False

    def heed(self) -> None:
        """Have Trio tell of each task that becomes ready, which costs about 1 us for each."""
        if not self._heeding:
            self._heeding = self.became_ready = True
            trio.lowlevel.add_instrument(self)

    def ignore(self) -> None:
        """Have Trio tell no more, until :meth:`heed` is called."""
        if self._heeding:
            self._heeding = False
            trio.lowlevel.remove_instrument(self)

    def look(self) -> int:
        """How often in a row no other task had become ready since the look before. From :data:`QUIET_MIN` on no other
        task can run. The task looks once each time that it runs again after it had waited."""
        self._quiet = 0 if self.became_ready else self._quiet + 1
        self.became_ready = False
        return self._quiet

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """See :class:`trio.abc.Instrument`."""
        if task is not self._own:
            self.became_ready = True


async def trios_epoll() -> int | None:
    """The descriptor of the epoll in which Trio waits; None where it cannot be found.

    Trio does not tell it. But Linux tells which descriptors an epoll watches. So a task waits for a socket that nothing
    else knows, and the epoll that watches this socket is Trio's.
    """
    if not hasattr(select, "epoll"):
        return None
    ends = socket.socketpair()
    with ends[0], ends[1]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.wait_readable, ends[0])
            found = None
            for _ in range(CHECKPOINTS_MAX):
                await trio.lowlevel.checkpoint()
                found = found or _watching(ends[0].fileno())
            nursery.cancel_scope.cancel()
    return found


def _watching(descriptor: int) -> int | None:
    """The epoll that watches this descriptor."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fdinfo") else ():
        try:
            if os.readlink(f"/proc/self/fd/{name}") != "anon_inode:[eventpoll]":
                continue
            with open(f"/proc/self/fdinfo/{name}") as lines:
                watched = [line.split()[1] for line in lines if line.startswith("tfd:")]
        except OSError:
            continue  # closed meanwhile
        if str(descriptor) in watched:
            return int(name)
    return None
