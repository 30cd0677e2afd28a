"""A change of the definitions on its way to the disk, in steps.

Some steps wait for the disk, and may run in any thread; those between them belong to the thread that uses the
definitions. A caller that needs the change at once takes the steps itself (:meth:`DefinitionRecord.finish`): where a
thread is at one of them, that waits for the thread. So no caller has to know where the other steps are taken.
"""

import threading
from collections.abc import Callable, Generator

from core.errors import PreconditionFailed

Steps = Generator[Callable[[], None], OSError | None, None]
"""Yields each step that waits for the disk, and gets what it raised. Raises PreconditionFailed if the change could not
be recorded."""


class DefinitionRecord:
    """One change, or several that are recorded together."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._lock = threading.Lock()
        """Held while a step waits for the disk."""
        self._failed: OSError | None = None
        self.done = False
        self.error: PreconditionFailed | None = None
        """Why the change could not be recorded, once it is done."""
        self._waiting = False
        """Whether there is a step that waits for the disk."""
        self._wait: Callable[[], None] = lambda: None
        self._go_on()

    def wait(self) -> None:
        """Take the step that waits for the disk, if there is one, in any thread. Raises nothing."""
        with self._lock:
            if self._waiting:
                try:
                    self._wait()
                except OSError as error:
                    self._failed = error
                self._waiting = False

    def proceed(self) -> None:
        """Take the step that follows, in the thread of the definitions. Has no effect before :meth:`wait` was
        called."""
        if not (self.done or self._waiting):
            self._go_on()

    def finish(self) -> None:
        """Take all steps."""
        while not self.done:
            self.wait()
            self.proceed()

    def _go_on(self) -> None:
        failed, self._failed = self._failed, None
        try:
            self._wait = self._steps.send(failed)
            self._waiting = True  # last: a thread may begin with it now
        except StopIteration:
            self.done = True
        except PreconditionFailed as error:
            self.error = error
            self.done = True
