"""A session plugin: the node with the fewest pods first, and small jobs before large ones.

- name: evenly
  arguments: {evenly.weight: 10}
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vcledger.scheduler.session.conf import Argument
from vcledger.scheduler.session.framework import Session
from vcledger.scheduler.session.model import SessionJob, SessionTask


class Evenly:
    name = "evenly"
    ARGUMENTS = (Argument("evenly.weight", int, least=0),)  # what is not named here is refused

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.weight: int = arguments.get("evenly.weight", 1)

    def on_open(self, ssn: Session) -> None:
        def fewest_pods(task: SessionTask, rows: NDArray[np.intp]) -> NDArray[np.float64]:
            return np.multiply(-self.weight, ssn.nodes.pod_counts[rows], dtype=np.float64)

        ssn.add("node_order", self.name, fewest_pods)
        ssn.add("job_order", self.name, smallest_first)

    def on_close(self, ssn: Session) -> None:
        pass


def smallest_first(left: SessionJob, right: SessionJob) -> int:
    return (len(left.tasks) > len(right.tasks)) - (len(left.tasks) < len(right.tasks))
