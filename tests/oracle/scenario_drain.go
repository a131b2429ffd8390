//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// retryEviction is how long kubectl waits where a budget forbids an eviction.
const retryEviction = 5 * time.Second

var budgetsGVR = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")

// drain is what kubectl does (pkg/drain): it cordons the node, and then evicts each pod but those of DaemonSets, all at once, until
// that is allowed.
func (w *world) drain(name string) {
	w.store.mu.Lock()
	old, err := w.store.get(nodesGVR, "", name)
	if err != nil {
		w.store.mu.Unlock()
		return
	}
	node := old.DeepCopyObject().(*v1.Node)
	node.Spec.Unschedulable = true
	w.store.noteNode("nodeUpdated", nodesGVR, name)
	w.store.put(nodesGVR, node)
	var pods []*v1.Pod
	for _, object := range w.store.sorted(podsGVR, "") {
		pod := object.(*v1.Pod)
		owner := metav1.GetControllerOf(pod)
		if pod.Spec.NodeName == name && !finished(pod) && (owner == nil || owner.Kind != "DaemonSet") {
			pods = append(pods, pod)
		}
	}
	w.store.mu.Unlock()
	until := epoch.Add(seconds(w.scenario.HorizonSeconds))
	for _, pod := range pods {
		w.goes(func() {
			for time.Now().Before(until) {
				time.Sleep(w.takes.of(writeTakes, "evict", keyOf(pod).String()))
				if !w.store.isForbidden(pod) {
					w.store.disrupt(pod)
					_ = w.store.deletePod(pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
						"deleted", "drain of "+name) // it may be gone
					return
				}
				if w.isOver() {
					return
				}
				time.Sleep(retryEviction)
			}
		})
	}
}

// disrupt says that a pod is evicted. Source: pkg/registry/core/pod/storage/eviction.go (`addConditionAndDeletePod`).
func (s *store) disrupt(given *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.pod(given.Namespace, given.Name)
	if err != nil || old.UID != given.UID {
		return
	}
	pod := old.DeepCopy()
	podutil.UpdatePodCondition(&pod.Status, &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	})
	s.changed(podsGVR, old, pod)
}

// isOver tells whether nothing has happened for so long that the run has ended: who waits on then would keep the bubble.
func (w *world) isOver() bool {
	return time.Now().After(w.store.timeline.lastChange().Add(seconds(w.scenario.QuietSeconds)))
}

// isForbidden asks the budgets of a pod, and charges the one that allows its eviction: the status is what the controller of
// disruption budgets has written. Source: pkg/registry/core/pod/storage/eviction.go (`checkAndDecrement`).
func (s *store) isForbidden(given *v1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, err := s.pod(given.Namespace, given.Name)
	if err != nil || pod.UID != given.UID || pod.DeletionTimestamp != nil || finished(pod) {
		return false
	}
	var found []*policyv1.PodDisruptionBudget
	for _, object := range s.sorted(budgetsGVR, pod.Namespace) {
		budget := object.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	if len(found) == 0 {
		return false
	}
	if len(found) > 1 || found[0].Status.ObservedGeneration < found[0].Generation || found[0].Status.DisruptionsAllowed <= 0 {
		return true
	}
	budget := found[0].DeepCopy()
	budget.Status.DisruptionsAllowed--
	if budget.Status.DisruptedPods == nil {
		budget.Status.DisruptedPods = map[string]metav1.Time{}
	}
	budget.Status.DisruptedPods[pod.Name] = metav1.Time{Time: time.Now()}
	s.put(budgetsGVR, budget)
	return false
}

// admit gives a new pod what the Priority plugin gives it by its class, where the scenario has classes.
func (s *store) admit(pod *v1.Pod) error {
	if len(s.classes) == 0 || pod.Spec.Priority != nil {
		return nil
	}
	var priority int32
	policy := v1.PreemptLowerPriority
	class, found := s.classes[pod.Spec.PriorityClassName]
	if found {
		priority = class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
		pod.Spec.PriorityClassName = class.Name
	} else if pod.Spec.PriorityClassName != "" {
		return fmt.Errorf("no PriorityClass with name %s was found", pod.Spec.PriorityClassName)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	return nil
}
