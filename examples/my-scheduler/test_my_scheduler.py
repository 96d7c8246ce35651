"""A project that tests its own choice of a node with vcledger's kit: `pip install vcledger[test]`, then `pytest`.

The logic under test is `roomiest`. A simulated cluster binds what it chooses; the invariants are checked at the end.
"""

from vcledger.scheduler.inputs import AssumeTask, BindTask


def roomiest(nodes, cpu):
    """The node with the most idle milli-cores, the first by name of equals; None when the pod fits nowhere."""
    fitting = [node for node in nodes if node.ready and node.idle.milli_cpu >= cpu]
    return min(fitting, key=lambda node: (-node.idle.milli_cpu, node.name)).name if fitting else None


def pod(name, cpu):
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "volcano", "containers": [container]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_pods_go_where_there_is_room_through_a_crash(sim_cluster, invariants):
    for name, cpu in (("small", "2"), ("large", "6")):
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        sim_cluster.create("Node", {"metadata": {"name": name}, "status": {"allocatable": amounts}})
    for number, cpu in enumerate(("3", "2", "1")):
        sim_cluster.create("Pod", pod(f"p{number}", cpu))
        sim_cluster.run(seconds=1)
        key, milli = f"default/p{number}", int(cpu) * 1000
        node = roomiest(sim_cluster.flow.cache.nodes.values(), milli)
        sim_cluster.put(AssumeTask(key, node))
        sim_cluster.put(BindTask(key, node))
        sim_cluster.run(seconds=0.03)
        sim_cluster.fault("crash")
        sim_cluster.rest()
    assert [sim_cluster.node_of(f"default/p{number}") for number in range(3)] == ["large", "large", "small"]
