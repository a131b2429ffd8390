package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/option"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"

	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/events"
)

// disruptionAnswer is the first command of a round of the disruption controller. Kept: node -> why it is no candidate or cannot be
// removed, in the words of the events.
type disruptionAnswer struct {
	ID           string              `json:"id,omitempty"`
	Method       string              `json:"method"`
	Nodes        []string            `json:"nodes"`
	Replacements []claim             `json:"replacements"`
	Existing     []onNode            `json:"existing"`
	Candidates   map[string][]string `json:"candidates"`
	Budgets      map[string]any      `json:"budgets"`
	Kept         map[string][]string `json:"kept"`
	Error        string              `json:"error,omitempty"`
	Runs         int                 `json:"runs,omitempty"`
	Distinct     int                 `json:"distinct,omitempty"`
	Outcomes     []disruptionAnswer  `json:"outcomes,omitempty"`
}

type eventLog struct{ kept map[string][]string }

func (l eventLog) Publish(evts ...events.Event) {
	for _, e := range evts {
		kind := fmt.Sprintf("%T", e.InvolvedObject)
		if kind != "*v1.Node" || !slices.Contains([]string{"DisruptionBlocked", "Unconsolidatable"}, e.Reason) {
			continue
		}
		name := e.InvolvedObject.(interface{ GetName() string }).GetName()
		if !slices.Contains(l.kept[name], e.Message) {
			l.kept[name] = append(l.kept[name], e.Message)
		}
	}
}

// unvalidated accepts each command: nothing changes between its computation and its execution.
type unvalidated struct{}

func (unvalidated) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

// disrupt follows Controller.Reconcile and Controller.disrupt: the first method with a command ends the round.
func disrupt(line []byte) disruptionAnswer {
	log := eventLog{map[string][]string{}}
	w := load(line, log)
	a := disruptionAnswer{ID: w.c.ID, Nodes: []string{}, Replacements: []claim{}, Existing: []onNode{}, Candidates: map[string][]string{}, Budgets: map[string]any{}, Kept: log.kept}
	if !w.cluster.Synced(w.ctx) {
		a.Error = "cluster state not synced"
		return a
	}
	queue := disruption.NewQueue(w.client, log, w.cluster, w.clock, w.prov)
	c := disruption.MakeConsolidation(w.clock, w.cluster, w.client, w.prov, w.provider, log, queue)
	accept := []option.Function[disruption.MethodOptions]{disruption.WithValidator(unvalidated{})}
	methods := []disruption.Method{
		disruption.NewEmptiness(c, accept...), disruption.NewDrift(w.client, w.cluster, w.prov, log, w.clock),
		disruption.NewMultiNodeConsolidation(c, accept...), disruption.NewSingleNodeConsolidation(c, accept...),
	}
	for _, m := range methods {
		name := strings.TrimPrefix(fmt.Sprintf("%T", m), "*disruption.")
		candidates, totals, err := disruption.GetCandidatesWithTotals(w.ctx, w.cluster, w.client, log, w.clock, w.provider, m.ShouldDisrupt, m.Class(), queue, nil)
		must(err)
		a.Candidates[name] = lo.Map(candidates, func(c *disruption.Candidate, _ int) string { return c.Name() })
		sort.Strings(a.Candidates[name])
		if len(candidates) == 0 {
			continue
		}
		if setter, ok := m.(disruption.NodePoolTotalsSetter); ok {
			setter.SetNodePoolTotals(totals)
		}
		budgets, err := disruption.BuildDisruptionBudgetMapping(w.ctx, w.cluster, w.clock, w.client, w.provider, log, m.Reason())
		must(err)
		a.Budgets[name] = lo.Assign(budgets)
		cmds, err := m.ComputeCommands(w.ctx, budgets, candidates...)
		if err != nil {
			a.Error = err.Error()
			return a
		}
		cmds = lo.Filter(cmds, func(c disruption.Command, _ int) bool { return c.Decision() != disruption.NoOpDecision })
		if len(cmds) == 0 {
			continue
		}
		a.Method, a.Nodes = name, cmds[0].SourceNodeNames()
		sort.Strings(a.Nodes)
		for _, r := range cmds[0].Replacements {
			pods := lo.Map(r.Pods, podName)
			sort.Strings(pods)
			a.Replacements = append(a.Replacements, show(w.ctx, r.NodeClaim, w.client, w.cluster, pods))
		}
		sort.Slice(a.Replacements, func(i, j int) bool { return fmt.Sprint(a.Replacements[i].Pods) < fmt.Sprint(a.Replacements[j].Pods) })
		for _, n := range cmds[0].Results.ExistingNodes {
			if len(n.Pods) > 0 {
				pods := lo.Map(n.Pods, podName)
				sort.Strings(pods)
				a.Existing = append(a.Existing, onNode{n.Name(), pods})
			}
		}
		sort.Slice(a.Existing, func(i, j int) bool { return a.Existing[i].Node < a.Existing[j].Node })
		break
	}
	for _, messages := range log.kept {
		sort.Strings(messages)
	}
	return a
}

func disrupted(line []byte) disruptionAnswer {
	counts, outcomes := map[string]int{}, map[string]disruptionAnswer{}
	for range *repeat {
		a := disrupt(line)
		b := a
		b.Kept = nil
		key := string(lo.Must(json.Marshal(b)))
		counts[key]++
		outcomes[key] = a
	}
	keys := lo.Keys(counts)
	sort.Slice(keys, func(i, j int) bool { return counts[keys[i]] > counts[keys[j]] })
	first := outcomes[keys[0]]
	first.Runs, first.Distinct = *repeat, len(keys)
	if len(keys) > 1 {
		first.Outcomes = lo.Map(keys, func(k string, _ int) disruptionAnswer { return outcomes[k] })
	}
	return first
}

func podName(p *corev1.Pod, _ int) string { return p.Name }
