//go:build !kubernetes_1_34

package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler"
)

// batchingCases are profiles: with the default one no Pod can be batched, because its PodTopologySpread has default
// constraints; the other one has none, and there OpportunisticBatching changes which node the second Pod gets.
var batchingCases = []struct {
	profile string
	on, off []string
}{
	{"", []string{"a", "b"}, []string{"a", "b"}},
	{`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration","profiles":[{"pluginConfig":
		[{"name":"PodTopologySpread","args":{"defaultingType":"List"}}]}]}`, []string{"a", "c"}, []string{"a", "b"}},
}

// TestBatchingOfIdenticalPods schedules two identical Pods, of which each node fits one. They prefer node a (weight
// 100) to b (1) to c (0); c has the most free cpu. NodeAffinity's scores are relative to the best node that is left:
// without a, b is worth as much as a was, but a batch keeps the order of the first cycle.
func TestBatchingOfIdenticalPods(t *testing.T) {
	for number, c := range batchingCases {
		for _, on := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/%v", number, on), func(t *testing.T) {
				gate := fmt.Sprintf("OpportunisticBatching=%v", on)
				if err := utilfeature.DefaultMutableFeatureGate.Set(gate); err != nil {
					t.Fatal(err)
				}
				defer utilfeature.DefaultMutableFeatureGate.Set("OpportunisticBatching=true")
				want := c.off
				if on {
					want = c.on
				}
				if got := nodesInTurn(t, c.profile); !slices.Equal(got, want) {
					t.Errorf("%s: nodes %v, want %v", gate, got, want)
				}
			})
		}
	}
}

// nodesInTurn are the nodes of two identical Pods that a running scheduler binds one after the other.
func nodesInTurn(t *testing.T, profile string) []string {
	silenceUpstream()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	objects := []runtime.Object{preferringPod("first"), preferringPod("second")}
	for name, used := range map[string]string{"a": "100m", "b": "900m", "c": "0"} {
		objects = append(objects, labelledNode(name), fillingPod(name, used))
	}
	client, bound := fake.NewClientset(objects...), make(chan string, 2)
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		bound <- binding.Target.Name
		return true, binding, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	configured, err := configure(nil)
	if profile != "" {
		configured, err = configure([]byte(profile))
	}
	if err != nil {
		t.Fatal(err)
	}
	sched, err := scheduler.New(ctx, client, factory, nil, silentRecorder, configured...)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	go sched.Run(ctx)
	var nodes []string
	for range 2 {
		select {
		case node := <-bound:
			nodes = append(nodes, node)
		case <-time.After(10 * time.Second):
			t.Fatalf("only %v were bound", nodes)
		}
	}
	slices.Sort(nodes) // bindings are concurrent
	return nodes
}

func labelledNode(name string) *v1.Node {
	has := v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("9")}
	labels := map[string]string{"kubernetes.io/hostname": name}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: v1.NodeStatus{Allocatable: has, Capacity: has}}
}

func requesting(name, cpu string) *v1.Pod {
	requests := v1.ResourceList{"cpu": resource.MustParse(cpu)}
	container := v1.Container{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: requests}}
	spec := v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{container}}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}, Spec: spec}
}

func fillingPod(node, cpu string) *v1.Pod {
	pod := requesting("on-"+node, cpu)
	pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning
	return pod
}

func preferringPod(name string) *v1.Pod {
	pod := requesting(name, "1100m")
	var terms []v1.PreferredSchedulingTerm
	for _, prefers := range []struct {
		node   string
		weight int32
	}{{"a", 100}, {"b", 1}} {
		is := v1.NodeSelectorRequirement{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{prefers.node}}
		terms = append(terms, v1.PreferredSchedulingTerm{Weight: prefers.weight, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{is}}})
	}
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	return pod
}
