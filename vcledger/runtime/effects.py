"""Effects carried out: requests to the API port on worker threads, the task's own handlers in the process.

Owns the threads and that every effect gets exactly one answer, whatever goes wrong. Must not know what is decided.
Called by the loop, which hands effects over after their commit; the answers go back through its queue.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping

from vcledger.runtime.port import ApiPort
from vcledger.scheduler.inputs import Answered, Effect
from vcledger.scheduler.requests import Answer, CallHandler

BindErrorHandler = Callable[[CallHandler], None]
"""A task's own handler of bind errors: it returns, or raises to be called again."""

WORKERS = 16


class Workers:
    """So many threads on one port. `handlers`: bind error handlers by name. `close` waits for what is being done;
    what has not begun is not begun any more, and is in doubt for the next process."""

    def __init__(
        self,
        port: ApiPort,
        put: Callable[[Answered], None],
        *,
        threads: int = WORKERS,
        handlers: Mapping[str, BindErrorHandler] | None = None,
    ) -> None:
        self._port, self._put, self._handlers = port, put, dict(handlers or {})
        self._queue: queue.SimpleQueue[Effect | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._work, name=f"effects-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def carry_out(self, effect: Effect) -> None:
        """Takes an effect; its answer comes through `put`."""
        self._queue.put(effect)

    def close(self) -> None:
        """Ends the threads."""
        self._closing.set()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (effect := self._queue.get()) is not None:
            if not self._closing.is_set():
                self._put(Answered(effect, self._answer(effect)))

    def _answer(self, effect: Effect) -> Answer:
        """A port or a handler that raises has given no answer; nothing may end a worker."""
        request = effect.request
        try:
            if isinstance(request, CallHandler):
                return self._call(request)
            return self._port.do(request)
        except Exception as error:  # whatever it is: the answer is lost, and asking settles what became of it
            code = 500 if isinstance(request, CallHandler) else None
            return Answer(code, f"{type(error).__name__}: {error}".encode())

    def _call(self, request: CallHandler) -> Answer:
        handler = self._handlers.get(request.handler)
        if handler is None:
            return Answer(404, f"no bind error handler is named {request.handler}".encode())
        handler(request)
        return Answer(200)


__all__ = ["BindErrorHandler", "Workers"]
