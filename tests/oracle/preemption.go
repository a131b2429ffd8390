package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// preemptionAnswer is what one scheduling cycle came to.
type preemptionAnswer struct {
	ID               string                      `json:"id"`
	ConfigError      string                      `json:"configError,omitempty"`
	PreFilter        *statusAnswer               `json:"preFilter,omitempty"`
	Feasible         []string                    `json:"feasible"`
	Statuses         map[string]*statusAnswer    `json:"statuses,omitempty"`
	Scores           map[string]map[string]int64 `json:"scores,omitempty"`
	Eligible         bool                        `json:"eligible"`
	IneligibleReason string                      `json:"ineligibleReason,omitempty"`
	Candidates       map[string]candidateAnswer  `json:"candidates"`
	NumCandidates    int32                       `json:"numCandidates,omitempty"`
	DryRunStatuses   map[string]*statusAnswer    `json:"dryRunStatuses,omitempty"`
	Selected         []string                    `json:"selected"`
}

type statusAnswer struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons"`
}

type candidateAnswer struct {
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}

func describe(status *fwk.Status) *statusAnswer {
	return &statusAnswer{Code: status.Code().String(), Plugin: status.Plugin(), Reasons: status.Reasons()}
}

func answerPreemption(line []byte, o options) response {
	c, err := parseCase(line)
	if err != nil {
		return response{id: c.ID, err: err}
	}
	if o.withoutNominated {
		c.Pods = slices.DeleteFunc(c.Pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" })
	}
	answer, err := schedule(c)
	return response{id: c.ID, answer: answer, err: err}
}

// cycle is one scheduling cycle for one pod.
type cycle struct {
	*cluster
	pod    *v1.Pod
	state  fwk.CycleState
	answer *preemptionAnswer
}

func schedule(c *preemptionCase) (*preemptionAnswer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	crash := &crashed{}
	ctx = context.WithValue(ctx, crashKey{}, crash)
	answer, err := scheduleWith(ctx, c)
	if text := crash.text.Load(); text != nil {
		return nil, fmt.Errorf("panic: %s", *text)
	}
	return answer, err
}

// crashed is where a crash of kube-scheduler is noted that happened on the way to one answer.
type crashed struct{ text atomic.Pointer[string] }

type crashKey struct{}

func noteCrash(ctx context.Context, reason any) {
	if crash, ok := ctx.Value(crashKey{}).(*crashed); ok {
		text := fmt.Sprint(reason)
		crash.text.Store(&text)
	}
}

func scheduleWith(ctx context.Context, c *preemptionCase) (*preemptionAnswer, error) {
	answer := &preemptionAnswer{
		ID: c.ID, Feasible: []string{}, Eligible: true, Candidates: map[string]candidateAnswer{}, Selected: []string{},
	}
	made, err := newCluster(ctx, c)
	if refused := (refusedConfiguration{}); c.Config != nil && errors.As(err, &refused) {
		answer.ConfigError = refused.Error()
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	cy := &cycle{cluster: made, pod: c.Pod, state: framework.NewCycleState(), answer: answer}
	feasible, statuses, err := cy.filter(ctx)
	if err != nil {
		return nil, err
	}
	if cy.preemption == nil {
		cy.answer.Eligible, cy.answer.IneligibleReason = false, "DefaultPreemption is off"
	} else {
		nominated := statuses.Get(cy.pod.Status.NominatedNodeName)
		cy.answer.Eligible, cy.answer.IneligibleReason = cy.preemption.PodEligibleToPreemptOthers(ctx, cy.pod, nominated)
	}
	if len(feasible) > 0 {
		return cy.answer, cy.score(ctx, feasible)
	}
	return cy.answer, cy.postFilter(ctx, statuses)
}

// filter runs PreFilter and, on every node that PreFilter leaves, Filter with the nominated pods.
func (cy *cycle) filter(ctx context.Context) ([]fwk.NodeInfo, *framework.NodeToStatus, error) {
	statuses := framework.NewDefaultNodeToStatus()
	allowed, status, plugins := cy.framework.RunPreFilterPlugins(ctx, cy.state, cy.pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, nil, fmt.Errorf("PreFilter: %w", status.AsError())
		}
		statuses.SetAbsentNodesStatus(status)
		cy.answer.PreFilter = describe(status)
		return nil, statuses, nil
	}
	if !allowed.AllNodes() {
		reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", slices.Sorted(slices.Values(plugins.UnsortedList())))
		statuses.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason))
	}

	var feasible []fwk.NodeInfo
	cy.answer.Statuses = map[string]*statusAnswer{}
	for _, node := range cy.nodes {
		name := node.Node().Name
		if allowed.AllNodes() || allowed.NodeNames.Has(name) {
			status := cy.framework.RunFilterPluginsWithNominatedPods(ctx, cy.state, cy.pod, node)
			if status.IsSuccess() {
				feasible = append(feasible, node)
				cy.answer.Feasible = append(cy.answer.Feasible, name)
				continue
			}
			if !status.IsRejected() {
				return nil, nil, fmt.Errorf("Filter on %s: %w", name, status.AsError())
			}
			statuses.Set(name, status)
		}
		cy.answer.Statuses[name] = describe(statuses.Get(name))
	}
	return feasible, statuses, nil
}

// score ranks the feasible nodes as the scheduler does: one node is taken without scoring.
func (cy *cycle) score(ctx context.Context, feasible []fwk.NodeInfo) error {
	if len(feasible) == 1 {
		cy.answer.Selected = []string{feasible[0].Node().Name}
		return nil
	}
	if status := cy.framework.RunPreScorePlugins(ctx, cy.state, cy.pod, feasible); !status.IsSuccess() {
		return fmt.Errorf("PreScore: %w", status.AsError())
	}
	scored, status := cy.framework.RunScorePlugins(ctx, cy.state, cy.pod, feasible)
	if !status.IsSuccess() {
		return fmt.Errorf("Score: %w", status.AsError())
	}
	best := slices.MaxFunc(scored, func(a, b nodePluginScores) int { return int(a.TotalScore - b.TotalScore) })
	cy.answer.Scores = map[string]map[string]int64{}
	for _, node := range scored {
		row := map[string]int64{"total": node.TotalScore}
		for _, score := range node.Scores {
			row[score.Name] = score.Score
		}
		cy.answer.Scores[node.Name] = row
		if node.TotalScore == best.TotalScore {
			cy.answer.Selected = append(cy.answer.Selected, node.Name)
		}
	}
	slices.Sort(cy.answer.Selected)
	return nil
}

// postFilter dry-runs DefaultPreemption on every potential node.
func (cy *cycle) postFilter(ctx context.Context, statuses *framework.NodeToStatus) error {
	if !cy.answer.Eligible {
		return nil
	}
	potential, err := statuses.NodesForStatusCode(cy.framework.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil || len(potential) == 0 {
		return err
	}
	pdbs, err := cy.informers.Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	all := int32(len(potential))
	_, cy.answer.NumCandidates = cy.preemption.GetOffsetAndNumCandidates(all)
	candidates, dropped, err := cy.preemption.Evaluator.DryRunPreemption(ctx, cy.state, cy.pod, potential, pdbs, 0, all)
	if err != nil && len(candidates) == 0 {
		return fmt.Errorf("dry run: %w", err)
	}
	for _, candidate := range candidates {
		cy.answer.Candidates[candidate.Name()] = describeCandidate(candidate)
	}
	cy.answer.DryRunStatuses = map[string]*statusAnswer{}
	dropped.ForEachExplicitNode(func(node string, status *fwk.Status) { cy.answer.DryRunStatuses[node] = describe(status) })
	cy.answer.Selected = cy.selectable(ctx, candidates)
	return nil
}

func describeCandidate(candidate preemption.Candidate) candidateAnswer {
	answer := candidateAnswer{Victims: []string{}, PDBViolations: candidate.Victims().NumPDBViolations}
	for _, pod := range candidate.Victims().Pods {
		answer.Victims = append(answer.Victims, pod.Namespace+"/"+pod.Name)
	}
	return answer
}

// duels is how often two candidates are compared before one of them is taken to be worse. SelectCandidate breaks a tie by
// the iteration order of a map of two, which begins with either key in at least one of eight runs: all of these runs agree
// on a tie with a probability below 1e-14.
const duels = 256

// selectable finds all candidates that SelectCandidate may return: those that can win a duel against one that won.
func (cy *cycle) selectable(ctx context.Context, candidates []preemption.Candidate) []string {
	names := []string{}
	best := cy.preemption.Evaluator.SelectCandidate(ctx, candidates)
	for _, candidate := range candidates {
		pair := []preemption.Candidate{candidate, best}
		for wins, run := false, 0; run < duels && !wins; run++ {
			if wins = cy.preemption.Evaluator.SelectCandidate(ctx, pair).Name() == candidate.Name(); wins {
				names = append(names, candidate.Name())
			}
		}
	}
	slices.Sort(names)
	return names
}
