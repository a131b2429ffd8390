package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	testclock "k8s.io/utils/clock/testing"
)

// quotaCase is a pod, and what a ResourceQuota may ask about it. Now is in seconds since 1970.
type quotaCase struct {
	ID        string                                 `json:"id"`
	Pod       *v1.Pod                                `json:"pod"`
	Selectors []v1.ScopedResourceSelectorRequirement `json:"selectors"`
	Hard      []v1.ResourceName                      `json:"hard"`
	Now       int64                                  `json:"now"`
}

// quotaAnswer is what the evaluator of pods says: a selector's match is a boolean, or the error as text.
type quotaAnswer struct {
	ID          string            `json:"id"`
	Usage       map[string]string `json:"usage"`
	Matches     []any             `json:"matches"`
	Resources   []v1.ResourceName `json:"resources"`
	Constraints string            `json:"constraints"`
}

func answerQuota(line []byte, _ options) response {
	c := &quotaCase{}
	if err := json.Unmarshal(line, c); err != nil {
		return response{id: c.ID, err: fmt.Errorf("not a case: %w", err)}
	}
	if c.Pod == nil {
		return response{id: c.ID, err: errors.New("not a case: it has no pod")}
	}
	corev1.SetObjectDefaults_Pod(c.Pod)
	evaluator := core.NewPodEvaluator(nil, testclock.NewFakeClock(time.Unix(c.Now, 0)))
	used, err := evaluator.Usage(c.Pod)
	if err != nil {
		return response{id: c.ID, err: err}
	}
	answer := &quotaAnswer{ID: c.ID, Usage: map[string]string{}, Matches: []any{}}
	for name, quantity := range used {
		answer.Usage[string(name)] = quantity.String()
	}
	for _, selector := range c.Selectors {
		matched, err := evaluator.MatchingScopes(c.Pod, []v1.ScopedResourceSelectorRequirement{selector})
		if err != nil {
			answer.Matches = append(answer.Matches, err.Error())
		} else {
			answer.Matches = append(answer.Matches, len(matched) > 0)
		}
	}
	answer.Resources = evaluator.MatchingResources(c.Hard)
	slices.Sort(answer.Resources)
	if err := evaluator.Constraints(answer.Resources, c.Pod); err != nil {
		answer.Constraints = err.Error()
	}
	return response{id: c.ID, answer: answer}
}
