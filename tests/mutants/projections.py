"""Mutants of the cache's fold, its snapshots, and the quantities that it counts in.

Owns this part of the table. Must not know the runner. Called by `tests.mutants.table`.
"""

from __future__ import annotations

from tests.mutants.model import Mutant

CACHE = (
    "tests/unit/projections",
    "tests/golden/test_vectors.py",
    "tests/golden/test_vector_snapshots.py",
    "tests/stateful/test_cache_laws.py",
    "tests/stateful/test_flow_cache_machine.py",
    "tests/golden/test_recordings_cache.py",
    "tests/golden/test_scenarios.py",
)
VECTORS = ("tests/golden/test_vectors.py", *CACHE)
MODELS = ("tests/unit/projections/test_cache_models.py", *CACHE)
TIME = ("tests/unit/projections/test_cache_time.py", *CACHE)
SNAPSHOTS = (
    "tests/golden/test_vector_snapshots.py",
    "tests/stateful/test_cache_laws.py",
    "tests/unit/vcledger/test_snapshotter.py",
    *CACHE,
)
QUANTITIES = ("tests/unit/volcano_objects", *VECTORS)

_BOOKS = "projections/cache/accounting.py"
_FOLD = "projections/cache/fold.py"
_PODS = "projections/cache/pods.py"
_NODES = "projections/cache/nodes.py"
_JOBS = "projections/cache/jobs.py"
_TASKS = "projections/cache/tasks.py"
_QUEUES = "projections/cache/queues.py"
_RETRIES = "projections/cache/retries.py"
_VOLUMES = "projections/cache/volumes.py"
_ACTIONS = "projections/cache/actions.py"
_WRITE = "projections/cache/snapshot_write.py"
_SNAPSHOT = "projections/cache/snapshot.py"
_PROJECTION = "projections/cache/projection.py"
_REGISTRY = "projections/registry.py"
_QUANTITY = "volcano/objects/quantity.py"
_RESOURCE = "volcano/objects/resource.py"

MUTANTS: tuple[Mutant, ...] = (
    # --- the books ---
    Mutant(
        "releasing-not-counted",
        _BOOKS,
        "node.releasing.add(task.resreq)",
        "pass",
        "A task that is being released is not in its node's releasing.",
        VECTORS,
    ),
    Mutant(
        "idle-not-restored",
        _BOOKS,
        "node.idle.add(task.resreq)",
        "pass",
        "A deleted task's share of its node is not idle again.",
        VECTORS,
    ),
    Mutant(
        "pipelined-takes-idle",
        _BOOKS,
        "    if task.status == _PIPELINED:\n        node.pipelined.add(task.resreq)\n        return",
        "    if task.status == _PIPELINED:\n        node.pipelined.add(task.resreq)\n        pass",
        "A pipelined task takes what is idle.",
        VECTORS,
    ),
    Mutant(
        "binding-without-room",
        _BOOKS,
        "            if lacking:\n",
        "            if False:\n",
        "A node takes a Binding task for which it has no room.",
        VECTORS,
    ),
    Mutant(
        "allocated-not-given-back",
        _BOOKS,
        "_give_back(cache, job.allocated, task.resreq)",
        "pass",
        "A job's allocated grows for ever.",
        VECTORS,
    ),
    Mutant(
        "empty-status-index",
        _BOOKS,
        "        if not index:\n            del job.tasks_by_status[status]",
        "        if not index:\n            job.tasks_by_status[status]",
        "A job keeps an index of a status that no task has.",
        VECTORS,
    ),
    Mutant(
        "added-twice-counts-twice",
        _BOOKS,
        "if not cache.policy.leaks_duplicate_adds and task.uid in job.tasks:",
        "if False:",
        "Under exact a task added twice is in its job's sum twice.",
        MODELS,
    ),
    Mutant(
        "node-copy-shared",
        _BOOKS,
        "node.tasks[key] = task.clone()",
        "node.tasks[key] = task",
        "A node's task changes with the job's, without its columns.",
        VECTORS,
    ),
    # --- observations ---
    Mutant(
        "late-event-folded",
        _FOLD,
        "if late or (change not in _CHANGES",
        "if (change not in _CHANGES",
        "What came late rewrites what was known when.",
        TIME,
    ),
    Mutant(
        "stale-version-applied",
        _FOLD,
        "return bool(old.isdecimal() and new.isdecimal() and int(new) < int(old))",
        "return False",
        "Under exact an older version of an object is applied.",
        MODELS,
    ),
    Mutant(
        "stale-pod-applied",
        _PODS,
        "return ref.uid == held.uid and 0 < ref.version < held.version",
        "return False",
        "Under exact an older version of a pod is applied.",
        MODELS,
    ),
    Mutant(
        "stale-across-uids",
        _PODS,
        "return ref.uid == held.uid and 0 < ref.version < held.version",
        "return 0 < ref.version < held.version",
        "A pod made again is passed over because its version is lower.",
        MODELS,
    ),
    Mutant(
        "relist-infers-no-pod-deletion",
        _FOLD,
        "            pods.forget_missing_pod(cache, key)",
        "            pass",
        "A pod that a relist no longer has stays.",
        VECTORS,
    ),
    Mutant(
        "relist-infers-no-deletion",
        _FOLD,
        "gone=True, inferred=True), position)",
        "gone=False, inferred=True), position)",
        "An object that a relist no longer has stays.",
        VECTORS,
    ),
    Mutant(
        "inferred-deletion-filtered",
        _PODS,
        "if inferred or responsible(cache, ref):",
        "if responsible(cache, ref):",
        "A pod that a relist found missing stays in the books when the filter would not let it through.",
        VECTORS,
    ),
    Mutant(
        "filter-lost",
        _PODS,
        "return bool(ref.node_name) or ref.scheduler_name in cache.config.scheduler_names",
        "return True",
        "Other schedulers' pods count before they are bound.",
        VECTORS,
    ),
    Mutant(
        "unbound-update-applied",
        _PODS,
        "if cache.policy.ignores_unbound or (task.node_name and not ends):",
        "if False:",
        "An update without a node frees the node of an allocated task.",
        VECTORS,
    ),
    Mutant(
        "unbound-end-ignored",
        _PODS,
        "if cache.policy.ignores_unbound or (task.node_name and not ends):",
        "if True:",
        "Under exact the end of a pod on its way is not noticed.",
        CACHE,
    ),
    Mutant(
        "refresh-forgets-releasing",
        _PODS,
        "node.releasing.add(fresh.resreq)",
        "pass",
        "The short way of an update forgets that a task begins to be released.",
        VECTORS,
    ),
    Mutant(
        "refresh-with-another-request",
        _PODS,
        "if ref.claims or old.claims or not (request is ref.request or request == ref.request):",
        "if ref.claims or old.claims:",
        "An update that changes a pod's request keeps the old one in the books.",
        VECTORS,
    ),
    Mutant(
        "reindex-forgets-the-sum",
        _PODS,
        "job.allocated.subtract_unchecked(fresh.resreq)",
        "pass",
        "A task that ends stays in its job's allocated.",
        VECTORS,
    ),
    Mutant(
        "claims-recounted-never",
        _PODS,
        "            if not _same(task.resreq, resource):",
        "            if False:",
        "A claim that comes after its pod is not counted.",
        MODELS,
    ),
    Mutant(
        "claim-index-keeps-the-gone",
        _PODS,
        "            users.pop(key, None)",
        "            pass",
        "A pod that is gone still uses its claims.",
        CACHE,
    ),
    # --- nodes ---
    Mutant(
        "not-ready-ignored",
        _NODES,
        'if condition.type == "Ready" and condition.status != "True":',
        'if condition.type == "Ready" and condition.status == "False":',
        "A node whose state is unknown counts as ready under 1.10.",
        VECTORS,
    ),
    Mutant(
        "not-ready-updated",
        _NODES,
        "    if not info.ready:\n        return",
        "    if False:\n        return",
        "A node that is not ready changes its books under 1.10.",
        VECTORS,
    ),
    Mutant(
        "node-comes-back-empty",
        _NODES,
        "if cache.policy.forgets_tasks or not info.tasks:",
        "if True:",
        "Under exact a node that comes back has forgotten its pods.",
        MODELS,
    ),
    Mutant(
        "image-keeps-its-node",
        _NODES,
        "state.nodes.pop(info.name, None)",
        "pass",
        "An image counts a node that has it no more.",
        VECTORS,
    ),
    Mutant(
        "attach-limit-from-the-node",
        _NODES,
        "for name, amount in (amounts or {}).items() if name not in csi}",
        "for name, amount in (amounts or {}).items()}",
        "A node's own attach limit is added to its CSINode's.",
        VECTORS,
    ),
    Mutant(
        "idle-without-tasks",
        _NODES,
        "    for task in info.tasks.values():\n        count_on_node(info, task)",
        "    for task in ():\n        count_on_node(info, task)",
        "A node that is updated forgets what its tasks take.",
        VECTORS,
    ),
    # --- jobs ---
    Mutant(
        "same-version-applied",
        _JOBS,
        "if known is not None and known.metadata.resource_version == group.metadata.resource_version:",
        "if False:",
        "A PodGroup of the version that is held is applied once more.",
        VECTORS,
    ),
    Mutant(
        "job-with-tasks-cleaned-up",
        _JOBS,
        "    if not job.terminated:\n        return False",
        "    if False:\n        return False",
        "A clean-up takes a job that has tasks.",
        VECTORS,
    ),
    Mutant(
        "roles-kept",
        _JOBS,
        "    if cache.policy.keeps_roles:",
        "    if True:",
        "Under exact a role that the PodGroup dropped is still asked for.",
        MODELS,
    ),
    Mutant(
        "default-priority-highest",
        _QUEUES,
        "min(defaults, key=lambda each:",
        "max(defaults, key=lambda each:",
        "The default priority is the highest of several.",
        MODELS,
    ),
    Mutant(
        "queue-without-podgroup-shown",
        _ACTIONS,
        "if job.pod_group is None or job.queue not in cache.queues:",
        "if job.pod_group is None:",
        "A snapshot for a session has jobs of unknown queues.",
        VECTORS,
    ),
    Mutant(
        "bind-failure-keeps-status",
        _ACTIONS,
        "        job_set_status(cache, job, task, before)",
        "        pass",
        "A task that its node refused stays Binding.",
        VECTORS,
    ),
    # --- requests ---
    Mutant(
        "init-containers-ignored",
        _TASKS,
        "total.set_max(peak)",
        "pass",
        "A pod's init containers ask for nothing.",
        VECTORS,
    ),
    Mutant(
        "sidecars-forgotten",
        _TASKS,
        "request.add(sidecars)",
        "pass",
        "An init container runs without the sidecars before it.",
        VECTORS,
    ),
    Mutant(
        "priority-zero-by-default",
        _TASKS,
        "priority = 1 if spec.priority is None else spec.priority",
        "priority = 0 if spec.priority is None else spec.priority",
        "A pod without priority has 0, not 1.",
        VECTORS,
    ),
    Mutant(
        "one-volume-of-a-driver",
        _VOLUMES,
        "counts[key] = counts.get(key, 0) + 1",
        "counts[key] = 1",
        "Several volumes of one driver count as one.",
        VECTORS,
    ),
    Mutant(
        "retries-at-one-pace",
        _RETRIES,
        "delay = min(BASE_MICROSECONDS << min(attempts, 40), MAX_MICROSECONDS)",
        "delay = BASE_MICROSECONDS",
        "The back-off of the real cache's queues doesn't grow.",
        TIME,
    ),
    Mutant(
        "settled-but-still-due",
        _RETRIES,
        "    del queue[key]\n    set_next_due(cache)",
        "    del queue[key]\n    pass",
        "The next due time is that of a request that is done with.",
        TIME,
        "The next event then looks at the queues in vain, and sets the time right; no state and no outcome shows it.",
    ),
    # --- quantities ---
    Mutant(
        "milli-is-micro",
        _QUANTITY,
        "return _scaled(_parse(text), -3)",
        "return _scaled(_parse(text), -6)",
        "CPU is counted in millionths.",
        QUANTITIES,
    ),
    Mutant(
        "kibi-is-kilo",
        _QUANTITY,
        '_BINARY = {"Ki": 10, "Mi": 20,',
        '_BINARY = {"Ki": 10, "Mi": 10,',
        "A mebibyte is a kibibyte.",
        QUANTITIES,
    ),
    Mutant(
        "rounded-down",
        _QUANTITY,
        "        away = -(-abs(mantissa) // divisor)\n        return -away if mantissa < 0 else away\n    quotient",
        "        away = abs(mantissa) // divisor\n        return -away if mantissa < 0 else away\n    quotient",
        "Fractions are rounded down.",
        QUANTITIES,
    ),
    Mutant(
        "exact-rounded-down",
        _QUANTITY,
        "    away = -(-abs(parsed.mantissa) // divisor)",
        "    away = abs(parsed.mantissa) // divisor",
        "Under exact fractions are rounded down.",
        QUANTITIES,
    ),
    Mutant(
        "memory-in-milli",
        _RESOURCE,
        "resource.memory += quantities.exact_value(amount)",
        "resource.memory += quantities.exact_value(amount, -3)",
        "Under exact memory is counted in thousandths of bytes.",
        QUANTITIES,
    ),
    Mutant(
        "scalars-not-compared",
        _RESOURCE,
        "                if not (amount < limit or abs(amount - limit) < EPSILON):\n                    return False",
        "                if False:\n                    return False",
        "A task fits onto a node without the GPUs that it asks for.",
        QUANTITIES,
    ),
    # --- snapshots ---
    Mutant(
        "gone-pods-in-snapshot",
        _WRITE,
        "                gone.append(key)",
        "                pass",
        "A pod that went between two snapshots comes back.",
        SNAPSHOTS,
    ),
    Mutant(
        "odd-copies-left-out",
        _WRITE,
        "if (name, key) not in self.node_tasks or actual != self.node_tasks[name, key]:",
        "if False:",
        "A node's copy that differs from its pod is not in the snapshot.",
        SNAPSHOTS,
    ),
    Mutant(
        "queues-left-out-of-snapshot",
        _WRITE,
        "self.small() if self.whole or touched.rest else None",
        "self.small() if self.whole else None",
        "The retry queues of a chain of snapshots are those of its first.",
        SNAPSHOTS,
    ),
    Mutant(
        "idle-follows-always",
        _WRITE,
        "None if expected == node.idle else resource_row(node.idle)",
        "None",
        "A node whose idle is not what follows gets another one from its snapshot.",
        SNAPSHOTS,
    ),
    Mutant(
        "snapshot-of-another-model",
        _SNAPSHOT,
        "if image.format != FORMAT or image.model != cache.model or image.whole != (number == 0):",
        "if image.format != FORMAT or image.whole != (number == 0):",
        "A snapshot of another model is loaded.",
        TIME,
    ),
    Mutant(
        "options-share-snapshots",
        _PROJECTION,
        "    if config == CacheConfig():",
        "    if True:",
        "Folds under different options read each other's snapshots.",
        TIME,
    ),
    Mutant(
        "digest-without-queues",
        _PROJECTION,
        "return [cache.model, state_json(cache), pods, held, images, placed, jobs, positions, queues]",
        "return [cache.model, state_json(cache), pods, held, images, placed, jobs, positions]",
        "Two states that will go different ways have one digest.",
        CACHE,
    ),
    Mutant(
        "projection-of-another-version",
        _REGISTRY,
        "if projection.name == name and projection.version == version:",
        "if projection.name == name:",
        "Snapshots of another projection version are taken for ours.",
        ("tests/unit/vcledger", *SNAPSHOTS),
    ),
)
