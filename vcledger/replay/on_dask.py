"""Jobs carried out on a Dask cluster.

Owns the connection to its scheduler and the wait for its workers. Must not know what a job does. Called by
`vcledger.replay.workers`. Dask is asked for only here: it is an extra of the package.

Each worker opens the source ledger by itself, so it must reach it: a path on a disk that all share, or the URL of a
PostgreSQL. Dask gives the jobs of a worker that died to another one.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from vcledger.errors import VcledgerError
from vcledger.replay.variants import Job, Ran, perform, tried_again
from vcledger.replay.workers import Watcher

CONNECT_SECONDS = 10
POLL_SECONDS = 0.2
ASK_SECONDS = 1.0
"""So often a job asks the cluster whether it is to stop."""


class DaskMissing(VcledgerError):
    """Dask is not installed."""


class DaskUnreachable(VcledgerError):
    """No scheduler of a Dask cluster answers at that address, or it has gone away."""


class DaskAddressInvalid(DaskUnreachable):
    """What cannot be the address of a scheduler."""


_ADDRESS = re.compile(r"(\w+://)?(\[[\da-fA-F:.%]+\]|[^\s:/@]+):(\d{1,5})/?")
_IN_PROCESS = "inproc://"
_PORT_MAX = 65_535


def run_on_dask(jobs: Sequence[Job], address: str, watcher: Watcher, stop: Callable[[], bool]) -> list[Ran]:
    """What came of each job, in their order. DaskMissing, DaskUnreachable, DaskAddressInvalid."""
    client = _connected(address)
    word = f"vcledger-stop-{uuid4().hex}"
    try:
        futures = [
            client.submit(_on_worker, _reachable(job), word, key=f"{word}-{number}", pure=False)
            for number, job in enumerate(jobs)
        ]
        return _gathered(client, futures, jobs, word, watcher, stop)
    finally:
        client.close(timeout=CONNECT_SECONDS)


def _distributed() -> Any:
    """Dask's module, whose functions have no types."""
    try:
        return import_module("distributed")
    except ImportError:
        raise DaskMissing("Dask is not installed: pip install 'vcledger[dask]'") from None


def _connected(address: str) -> Any:
    distributed = _distributed()
    found = _ADDRESS.fullmatch(address)
    if not address.startswith(_IN_PROCESS) and (found is None or not 0 < int(found[3]) <= _PORT_MAX):
        raise DaskAddressInvalid(f"{address!r} is no address of a Dask scheduler: want its port too, tcp://host:8786")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of lost connections with tracebacks
    client = distributed.Client.__new__(distributed.Client)
    try:
        client.__init__(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        client.status = (
            "closed"  # half made, it would be closed when it is collected: that waits long, with a traceback
        )
        why = " ".join(str(error).split())
        raise DaskUnreachable(f"no Dask scheduler answers at {address}: {why}") from None
    return client


def _reachable(job: Job) -> Job:
    """The job with whole paths: a worker stands in another folder."""
    return replace(job, db=_whole(job.db), out=None if job.out is None else _whole(job.out))


def _whole(place: str) -> str:
    return place if "://" in place else str(Path(place).absolute())


def _on_worker(job: Job, word: str) -> Ran:
    """A worker's turn. What it finds at the job's result, a worker that died has left."""
    asked, said = time.monotonic(), False
    event = _distributed().Event(word)

    def stop() -> bool:
        nonlocal asked, said
        if not said and time.monotonic() - asked >= ASK_SECONDS:
            said, asked = bool(event.is_set()), time.monotonic()
        return said

    return perform(tried_again(job), None, stop)


def _gathered(
    client: Any, futures: list[Any], jobs: Sequence[Job], word: str, watcher: Watcher, stop: Callable[[], bool]
) -> list[Ran]:
    found: dict[int, Ran] = {}
    running = dict(enumerate(futures))
    told = False
    while running:
        for number, future in list(running.items()):
            if future.done():
                del running[number]
                ran = _outcome(future, jobs[number])
                if ran is not None:
                    found[number] = ran
                    watcher.done(number, ran)
        if client.status not in {"running", "connecting"}:
            raise DaskUnreachable(f"the Dask scheduler has gone away, with {len(running)} of {len(jobs)} still to do")
        if stop() and not told:
            told = True
            _stop(client, running, word)
        time.sleep(POLL_SECONDS)
    return [found[number] for number in sorted(found)]


def _stop(client: Any, running: dict[int, Any], word: str) -> None:
    """Has what runs end cleanly, and takes back what has not begun."""
    _distributed().Event(word, client=client).set()
    busy = {key for keys in client.processing().values() for key in keys}
    client.cancel([future for future in running.values() if future.key not in busy])


def _outcome(future: Any, job: Job) -> Ran | None:
    """What came of it; None where it was taken back."""
    if future.status == "cancelled":
        return None
    if future.status == "finished":
        ran = future.result()
        return ran if isinstance(ran, Ran) else None
    error = future.exception()
    if type(error).__name__ == "KilledWorker":
        return Ran(job.label, None, "each of the Dask workers that tried it died, perhaps for want of memory")
    return Ran(job.label, None, f"a Dask worker failed: {type(error).__name__}: {' '.join(str(error).split())}")


__all__ = ["DaskAddressInvalid", "DaskMissing", "DaskUnreachable", "run_on_dask"]
