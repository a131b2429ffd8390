package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// refusedConfiguration is why kube-scheduler would not start.
type refusedConfiguration struct{ error }

// configure reads a KubeSchedulerConfiguration as kube-scheduler does when it starts: strict decoding, defaulting,
// validation. What only a plugin's own constructor finds is found when the scheduler is made.
func configure(given json.RawMessage) ([]scheduler.Option, error) {
	if given == nil {
		return nil, nil
	}
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(given, nil, nil)
	if err != nil {
		return nil, refusedConfiguration{err}
	}
	read, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, refusedConfiguration{fmt.Errorf("a configuration, not a %T", object)}
	}
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return nil, refusedConfiguration{err}
	}
	return []scheduler.Option{
		scheduler.WithComponentConfigVersion(kind.GroupVersion().String()),
		scheduler.WithProfiles(read.Profiles...),
		scheduler.WithPercentageOfNodesToScore(read.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(read.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(read.PodMaxBackoffSeconds),
		scheduler.WithExtenders(read.Extenders...),
	}, nil
}
