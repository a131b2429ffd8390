//go:build kubernetes_1_37

package main

import (
	"context"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	schedulingclient "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/controller/scheduling/podgroupprotection"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// PodGroups: with the feature gate GenericWorkload.

var groupsGVR = schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")

// slowCycles has each scheduling cycle, of a pod or of a PodGroup, take its time.
func (w *world) slowCycles(sched *scheduler.Scheduler) {
	next := sched.NextEntity
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		entity, err := next(logger)
		if err == nil && entity != nil {
			time.Sleep(w.takes.of(cycleTakes, "cycle", entity.GetNamespace()+"/"+entity.GetName()))
		}
		return entity, err
	}
}

// newGroupControllers wires the controller that keeps a PodGroup while pods refer to it.
func (w *world) newGroupControllers(ctx context.Context, factory informers.SharedInformerFactory) (start func(), err error) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		return func() {}, nil
	}
	protects, err := podgroupprotection.NewPodGroupProtectionController(
		klog.FromContext(ctx), factory.Scheduling().V1beta1().PodGroups(), factory.Core().V1().Pods(), w.client("PodGroup protection"))
	return func() { w.goes(func() { protects.Run(ctx, 1) }) }, err
}

func (c *client) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return slowScheduling{c.Clientset.SchedulingV1beta1(), c}
}

type slowScheduling struct {
	schedulingclient.SchedulingV1beta1Interface
	client *client
}

func (s slowScheduling) PodGroups(namespace string) schedulingclient.PodGroupInterface {
	return slowGroups{s.SchedulingV1beta1Interface.PodGroups(namespace), namespace, s.client}
}

type slowGroups struct {
	schedulingclient.PodGroupInterface
	namespace string
	client    *client
}

func (g slowGroups) Update(
	ctx context.Context, group *schedulingv1beta1.PodGroup, o metav1.UpdateOptions,
) (*schedulingv1beta1.PodGroup, error) {
	g.client.takes.write("update", g.namespace, group.Name)
	return g.PodGroupInterface.Update(ctx, group, o)
}

func (g slowGroups) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*schedulingv1beta1.PodGroup, error) {
	g.client.takes.write("patch", g.namespace, name)
	return g.PodGroupInterface.Patch(ctx, name, kind, data, o, subresources...)
}

func gvrOfGroup(object apiObject) (schema.GroupVersionResource, bool) {
	return groupsGVR, isGroup(object)
}

func isGroup(object any) bool {
	_, ok := object.(*schedulingv1beta1.PodGroup)
	return ok
}

func (s *store) noteGroup(event string, object apiObject) {
	if isGroup(object) {
		s.timeline.add(happening{Event: event, Group: keyOf(object).String()})
	}
}

// protectGroup is what admission does with a new PodGroup (plugin PodGroupProtection).
func protectGroup(object apiObject) {
	if isGroup(object) {
		object.SetFinalizers([]string{scheduling.PodGroupProtectionFinalizer})
	}
}

// deleteGroup is DELETE; the caller holds the lock.
func (s *store) deleteGroup(gvr schema.GroupVersionResource, old apiObject) {
	if old.GetDeletionTimestamp() != nil {
		return
	}
	s.noteGroup("groupDeleted", old)
	now := metav1.Time{Time: time.Now().Truncate(time.Second)}
	deleted := old.DeepCopyObject().(apiObject)
	deleted.SetDeletionTimestamp(&now)
	s.put(gvr, deleted)
}

func updatedGroup(old, object apiObject) {
	if group, ok := object.(*schedulingv1beta1.PodGroup); ok {
		group.Status = old.(*schedulingv1beta1.PodGroup).Status
		group.Finalizers, group.DeletionTimestamp = old.GetFinalizers(), old.GetDeletionTimestamp()
	}
}

// changedGroup stores what a component has made of a PodGroup; the caller holds the lock.
func (s *store) changedGroup(gvr schema.GroupVersionResource, old, object apiObject) bool {
	group, ok := object.(*schedulingv1beta1.PodGroup)
	if !ok {
		return false
	}
	const kind = schedulingv1beta1.PodGroupInitiallyScheduled
	before := meta.FindStatusCondition(old.(*schedulingv1beta1.PodGroup).Status.Conditions, kind)
	if after := meta.FindStatusCondition(group.Status.Conditions, kind); after != nil && (before == nil ||
		before.Status != after.Status || before.Reason != after.Reason || before.Message != after.Message) {
		s.timeline.add(happening{
			Event: "groupCondition", Group: keyOf(group).String(), Status: string(after.Status), Reason: after.Reason, Message: after.Message,
		})
	}
	s.put(gvr, group)
	if group.DeletionTimestamp != nil && len(group.Finalizers) == 0 {
		s.noteGroup("groupGone", group)
		s.remove(gvr, group)
	}
	return true
}
