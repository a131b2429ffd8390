package main

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	_ "k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	_ "k8s.io/kubernetes/pkg/kubelet/nodeshutdown"
	_ "k8s.io/kubernetes/pkg/kubelet/preemption"
)

// The kubelet's own functions, which it does not export, by their symbols; linked.s lets the compiler accept
// declarations without bodies. Types that are not exported either stand here with the same fields.

type statsFunc = func(pod *v1.Pod) (statsapi.PodStats, bool)

//go:linkname buildSignalToRankFunc k8s.io/kubernetes/pkg/kubelet/eviction.buildSignalToRankFunc
func buildSignalToRankFunc(withImageFs bool, imageContainerSplitFs bool) map[evictionapi.Signal]func([]*v1.Pod, statsFunc)

type admissionRequirement struct {
	resourceName v1.ResourceName
	quantity     int64
}

//go:linkname getPodsToPreempt k8s.io/kubernetes/pkg/kubelet/preemption.getPodsToPreempt
func getPodsToPreempt(pod *v1.Pod, pods []*v1.Pod, requirements []*admissionRequirement) ([]*v1.Pod, error)

type podShutdownGroup struct {
	kubeletconfig.ShutdownGracePeriodByPodPriority
	Pods []*v1.Pod
}

//go:linkname groupByPriority k8s.io/kubernetes/pkg/kubelet/nodeshutdown.groupByPriority
func groupByPriority(periods []kubeletconfig.ShutdownGracePeriodByPodPriority, pods []*v1.Pod) []podShutdownGroup
