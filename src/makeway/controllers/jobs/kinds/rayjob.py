"""RayJobs: a Ray cluster of a head and groups of workers, and the pod that hands the job in (api 18.10)."""

from __future__ import annotations

from makeway.api.objects.custom import CustomObject
from makeway.api.versions import Kind
from makeway.controllers.jobs.kinds.described import All, Description, Ending, Is, IsNot, IsSet, PodSets, Tree, values

CLUSTER = "spec.rayClusterSpec"
DEPLOYED = "status.jobDeploymentStatus"


def submitter(tree: Tree) -> Tree:
    """The pod that hands the job in, where the user does not define it: KubeRay runs the image of the head."""
    images = values(tree, f"{CLUSTER}.headGroupSpec.template.spec.containers[*].image")
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
    container = {"name": "ray-job-submitter", "image": next(images, ""), "resources": resources}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


RAYJOB = Description(
    resource=Kind(
        name="RayJob", group="ray.io", versions=("v1",), type=CustomObject, plural="rayjobs", namespaced=True,
        ours=False,
    ),
    framework="ray.io/rayjob",
    pod_sets=(
        PodSets(at=f"{CLUSTER}.headGroupSpec", name="head"),
        PodSets(at=f"{CLUSTER}.workerGroupSpecs[*]", name="groupName", count=(("replicas",), ("numOfHosts",))),
        PodSets(
            name="submitter",
            template="submitterPodTemplate",
            where=Is("spec.submissionMode", ("", "K8sJobMode")),
            otherwise=submitter,
        ),
    ),
    has_pods=IsNot(DEPLOYED, ("", "Suspended", "Complete", "Failed")),
    is_ready=Is("status.rayClusterStatus.state", ("ready",)),
    endings=(
        Ending("Succeeded", All((Is(DEPLOYED, ("Complete", "Failed")), Is("status.jobStatus", ("SUCCEEDED",)))),
               "status.message"),
        Ending("Failed", Is(DEPLOYED, ("Complete", "Failed")), "status.message"),
    ),
    refused=(
        (IsSet("spec.clusterSelector"), "it runs on a Ray cluster that is there already"),
        (IsSet(f"{CLUSTER}.enableInTreeAutoscaling"), "its Ray cluster would change its size by itself"),
        (lambda tree: not IsSet("spec.shutdownAfterJobFinishes")(tree), "its Ray cluster would outlive it: "
         "spec.shutdownAfterJobFinishes must be true"),
    ),
).kind()  # fmt: skip
