// Command kubelet-oracle answers what forewarn whatif pressure answers, by the kubelet's own functions: JSON lines in,
// JSON lines out, a node each (compare.py makes them).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/preemption"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type lack struct {
	Resource v1.ResourceName `json:"resource"`
	Quantity int64           `json:"quantity"`
}

type node struct {
	Pods    []*v1.Pod        `json:"pods"`
	Stats   statsapi.Summary `json:"stats"`
	Admit   *v1.Pod          `json:"admit"`
	Node    *v1.Node         `json:"node"`
	Lacks   []lack           `json:"lacks"`
	Periods [][2]int64       `json:"periods"`
}

type order struct {
	Pods []string `json:"pods"`
	// Tied says of each pod whether it is not told from the one before.
	Tied []bool `json:"tied"`
}

// admission has the reason and message of a rejected pod; "" if the pod is admitted.
type admission struct {
	Reason    string   `json:"reason"`
	Message   string   `json:"message"`
	Preempted []string `json:"preempted"`
}

type answer struct {
	Orders    map[string]order `json:"orders"`
	Critical  []string         `json:"critical"`
	Admitted  []string         `json:"admitted"`
	Refused   bool             `json:"refused"`
	Admission admission        `json:"admission"`
	Groups    [][]string       `json:"groups"`
}

var images = map[string][2]bool{"shared": {false, false}, "own": {true, false}, "split": {true, true}}

var signals = map[string]evictionapi.Signal{
	"memory":             evictionapi.SignalMemoryAvailable,
	"pids":               evictionapi.SignalPIDAvailable,
	"nodefs":             evictionapi.SignalNodeFsAvailable,
	"nodefs inodes":      evictionapi.SignalNodeFsInodesFree,
	"imagefs":            evictionapi.SignalImageFsAvailable,
	"imagefs inodes":     evictionapi.SignalImageFsInodesFree,
	"containerfs":        evictionapi.SignalContainerFsAvailable,
	"containerfs inodes": evictionapi.SignalContainerFsInodesFree,
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for decoder.More() {
		var asked node
		if err := decoder.Decode(&asked); err != nil {
			fmt.Fprintln(os.Stderr, "kubelet-oracle:", err)
			os.Exit(1)
		}
		if err := encoder.Encode(answered(asked)); err != nil {
			fmt.Fprintln(os.Stderr, "kubelet-oracle:", err)
			os.Exit(1)
		}
	}
}

func answered(asked node) answer {
	found := answer{Orders: map[string]order{}, Critical: []string{}, Admitted: []string{}, Groups: [][]string{}}
	stats := statsOf(asked.Stats)
	for _, pod := range append(append([]*v1.Pod{}, asked.Pods...), asked.Admit) {
		corev1.SetObjectDefaults_Pod(pod) // no pod comes to a kubelet without them
	}
	for name, how := range images {
		ranks := buildSignalToRankFunc(how[0], how[1])
		for signal, upstream := range signals {
			if rank, ok := ranks[upstream]; ok {
				found.Orders[name+" "+signal] = ranked(asked.Pods, stats, rank)
			}
		}
	}
	for _, pod := range asked.Pods {
		if kubetypes.IsCriticalPod(pod) {
			found.Critical = append(found.Critical, key(pod))
		}
	}
	requirements := []*admissionRequirement{}
	for _, lacks := range asked.Lacks {
		requirements = append(requirements, &admissionRequirement{lacks.Resource, lacks.Quantity})
	}
	ended, err := getPodsToPreempt(asked.Admit, append([]*v1.Pod{}, asked.Pods...), requirements)
	found.Refused = err != nil
	found.Admitted = append(found.Admitted, keys(ended)...)
	found.Admission = admitted(asked)
	periods := []kubeletconfig.ShutdownGracePeriodByPodPriority{}
	for _, period := range asked.Periods {
		periods = append(periods, kubeletconfig.ShutdownGracePeriodByPodPriority{Priority: int32(period[0]), ShutdownGracePeriodSeconds: period[1]})
	}
	sort.Slice(periods, func(i, j int) bool { return periods[i].Priority < periods[j].Priority }) // as NewManager does
	if len(periods) > 0 {
		for _, group := range groupByPriority(periods, asked.Pods) {
			found.Groups = append(found.Groups, keys(group.Pods))
		}
	}
	return found
}

// admitted is the kubelet's admission of a pod, with preemption.
func admitted(asked node) admission {
	found := admission{Preempted: []string{}}
	pods := func() []*v1.Pod { return append([]*v1.Pod{}, asked.Pods...) }
	kill := func(pod *v1.Pod, _ bool, _ *int64, _ func(*v1.PodStatus)) error {
		found.Preempted = append(found.Preempted, key(pod))
		return nil
	}
	handler := lifecycle.NewPredicateAdmitHandler(
		func(context.Context, bool) (*v1.Node, error) { return asked.Node, nil },
		preemption.NewCriticalPodAdmissionHandler(pods, kill, &record.FakeRecorder{}),
		func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil })
	result := handler.Admit(&lifecycle.PodAdmitAttributes{Pod: asked.Admit, OtherPods: pods()})
	found.Reason, found.Message = result.Reason, result.Message
	return found
}

// ranked sorts the pods; what is tied is found by sorting two that are next to each other, from both sides.
func ranked(pods []*v1.Pod, stats statsFunc, rank func([]*v1.Pod, statsFunc)) order {
	sorted := append([]*v1.Pod{}, pods...)
	rank(sorted, stats)
	found := order{Pods: keys(sorted), Tied: make([]bool, len(sorted))}
	for i := 1; i < len(sorted); i++ {
		one, other := []*v1.Pod{sorted[i-1], sorted[i]}, []*v1.Pod{sorted[i], sorted[i-1]}
		rank(one, stats)
		rank(other, stats)
		found.Tied[i] = one[0] != other[0]
	}
	return found
}

// statsOf is cachedStatsFunc of pkg/kubelet/eviction by name, as the summary of a test has no uids.
func statsOf(summary statsapi.Summary) statsFunc {
	byName := map[string]statsapi.PodStats{}
	for _, pod := range summary.Pods {
		byName[pod.PodRef.Namespace+"/"+pod.PodRef.Name] = pod
	}
	return func(pod *v1.Pod) (statsapi.PodStats, bool) {
		found, ok := byName[key(pod)]
		return found, ok
	}
}

func key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

func keys(pods []*v1.Pod) []string {
	found := []string{}
	for _, pod := range pods {
		found = append(found, key(pod))
	}
	return found
}
