package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// emptyClient is only what the scheduler's constructor asks for: nothing is listed from it or written to it.
var emptyClient = sync.OnceValue(func() *fake.Clientset { return fake.NewClientset() })

// cluster is kube-scheduler, not started, after it has seen all objects of a case.
type cluster struct {
	framework  framework.Framework
	nodes      []fwk.NodeInfo
	preemption *defaultpreemption.DefaultPreemption // nil: the profile has it not among its PostFilter plugins
	informers  informers.SharedInformerFactory
}

// newCluster wires a scheduler with the configuration of the case, or the default one, and fills what it would have
// watched.
//
// The informers do not run: their stores are filled here, in the order of the case, so that the answer to a case never
// depends on the order in which watch events arrive.
func newCluster(ctx context.Context, c *preemptionCase) (*cluster, error) {
	client := clientOf(c)
	factory := newInformerFactory(client)
	tellOfVolumes(factory)
	configured, err := configure(c.Config)
	if err != nil {
		return nil, err
	}
	sched, err := scheduler.New(ctx, client, factory, nil, silentRecorder, append(configured, scheduler.WithParallelism(1))...)
	if err != nil {
		return nil, refusedConfiguration{err}
	}
	if err := fillStores(factory, c); err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	for _, node := range c.Nodes {
		sched.Cache.AddNode(logger, node)
	}
	for _, pod := range c.Pods {
		if err := addPod(ctx, sched, whereItIs(sched, pod, c.PVCs)); err != nil {
			return nil, err
		}
	}

	profile, ok := sched.Profiles[c.Pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("scheduler: no profile %q", c.Pod.Spec.SchedulerName)
	}
	if err := followDevices(ctx, factory, sched.Profiles, profile, c); err != nil {
		return nil, err
	}
	snapshot, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("scheduler: unexpected snapshot type %T", profile.SnapshotSharedLister())
	}
	if err := sched.Cache.UpdateSnapshot(logger, snapshot); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	made := &cluster{framework: profile, informers: factory}
	if made.nodes, err = nodesInOrder(snapshot, c.Nodes); err != nil {
		return nil, err
	}
	made.preemption = preemptionOf(profile)
	return made, nil
}

// preemptionOf finds the profile's DefaultPreemption among the plugins that say which events wake a pod: it is there
// whatever extension points it is enabled at.
func preemptionOf(profile framework.Framework) *defaultpreemption.DefaultPreemption {
	enabled := profile.ListPlugins().PostFilter.Enabled
	if !slices.ContainsFunc(enabled, func(p config.Plugin) bool { return p.Name == defaultpreemption.Name }) {
		return nil
	}
	for _, plugin := range profile.EnqueueExtensions() {
		if found, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
			return found
		}
	}
	return nil
}

// addPod does what the scheduler's event handlers do with a pod that is already there.
func addPod(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) error {
	switch {
	case finished(pod):
		return nil
	case pod.Spec.NodeName != "":
		return sched.Cache.AddPod(klog.FromContext(ctx), pod)
	case pod.Status.NominatedNodeName != "" && sched.Profiles.HandlesSchedulerName(pod.Spec.SchedulerName):
		enqueue(ctx, sched, pod)
	}
	return nil
}

// whereItIs gives a pod whose volumes are being bound its node: the scheduler has assumed it there, and has told the claims.
func whereItIs(sched *scheduler.Scheduler, pod *v1.Pod, claims []*v1.PersistentVolumeClaim) *v1.Pod {
	node, ours := pod.Status.NominatedNodeName, sched.Profiles.HandlesSchedulerName(pod.Spec.SchedulerName)
	toldTo := func(claim *v1.PersistentVolumeClaim) bool {
		bound := claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
		return !bound && claim.Annotations[volume.AnnSelectedNode] == node && uses(pod, claim)
	}
	waits := ours && pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0
	if !waits || node == "" || !slices.ContainsFunc(claims, toldTo) {
		return pod
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName, assumed.Status.NominatedNodeName = node, ""
	return assumed
}

func uses(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return claim.Namespace == pod.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		ephemeral := v.Ephemeral != nil && claim.Name == pod.Name+"-"+v.Name
		return ephemeral || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
	})
}

// finished tells which pods the scheduler's informer leaves out.
func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func nodesInOrder(snapshot *internalcache.Snapshot, nodes []*v1.Node) ([]fwk.NodeInfo, error) {
	ordered := make([]fwk.NodeInfo, 0, len(nodes))
	for _, node := range nodes {
		info, err := snapshot.NodeInfos().Get(node.Name)
		if err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
		ordered = append(ordered, info)
	}
	return ordered, nil
}

func fillStores(factory informers.SharedInformerFactory, c *preemptionCase) error {
	core, apps, storage := factory.Core().V1(), factory.Apps().V1(), factory.Storage().V1()
	pods := []*v1.Pod{c.Pod}
	for _, pod := range c.Pods {
		if !finished(pod) {
			pods = append(pods, pod)
		}
	}
	return errors.Join(
		fill(core.Nodes().Informer(), c.Nodes),
		fill(core.Pods().Informer(), pods),
		fill(core.Namespaces().Informer(), c.Namespaces),
		fill(core.Services().Informer(), c.Services),
		fill(core.ReplicationControllers().Informer(), c.ReplicationControllers),
		fill(core.PersistentVolumeClaims().Informer(), c.PVCs),
		fill(core.PersistentVolumes().Informer(), c.PVs),
		fill(apps.ReplicaSets().Informer(), c.ReplicaSets),
		fill(apps.StatefulSets().Informer(), c.StatefulSets),
		fill(storage.StorageClasses().Informer(), c.StorageClasses),
		fill(storage.CSINodes().Informer(), c.CSINodes),
		fill(storage.CSIDrivers().Informer(), c.CSIDrivers),
		fill(storage.CSIStorageCapacities().Informer(), c.CSIStorageCapacities),
		fill(storage.VolumeAttachments().Informer(), c.VolumeAttachments),
		fill(factory.Policy().V1().PodDisruptionBudgets().Informer(), c.PDBs),
	)
}

func fill[T any](informer cache.SharedIndexInformer, objects []T) error {
	for _, object := range objects {
		if err := informer.GetIndexer().Add(object); err != nil {
			return err
		}
		if handlers, ok := informer.(interface{ tell(object any) }); ok {
			handlers.tell(object)
		}
	}
	return nil
}
