package main

import (
	"context"
	"math/rand"
	"slices"
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apiv1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	testprovider "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/test"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	cacontext "k8s.io/autoscaler/cluster-autoscaler/context"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/budgets"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/deletiontracker"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/pdb"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/planner"
	"k8s.io/autoscaler/cluster-autoscaler/core/utils"
	"k8s.io/autoscaler/cluster-autoscaler/processors"
	"k8s.io/autoscaler/cluster-autoscaler/processors/scaledowncandidates"
	"k8s.io/autoscaler/cluster-autoscaler/processors/scaledowncandidates/emptycandidates"
	"k8s.io/autoscaler/cluster-autoscaler/processors/scaledowncandidates/previouscandidates"
	"k8s.io/autoscaler/cluster-autoscaler/resourcequotas"
	"k8s.io/autoscaler/cluster-autoscaler/simulator"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/predicate"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/store"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/drainability/rules"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/options"
	"k8s.io/autoscaler/cluster-autoscaler/utils/taints"
)

// scaleDownCase is a case with the times of scans, in seconds after the time now.
type scaleDownCase struct {
	testCase
	Now                    int64
	Scans                  []float64
	Follow                 []scan // the nodes that are removed instead of those that a scan chooses
	Pdbs                   []*policyv1.PodDisruptionBudget
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet
	ReplicationControllers []*apiv1.ReplicationController
	Jobs                   []*batchv1.Job
	ScaleDown              struct {
		Threshold, UnneededTime, UnreadyTime, Recheck, SystemPodTimeout *float64
		MaxParallel, MaxDrains, MinReplicas                             *int
		IgnoreDaemonSets, IgnoreMirrorPods                              bool
		NoUnready, AnySystemPods, AnyLocalStorage, AnyController        bool
	}
}

type scan struct {
	Unneeded    []string          `json:"unneeded"`
	Unremovable map[string]string `json:"unremovable"`
	Empty       []string          `json:"empty"`
	Drained     []string          `json:"drained"`
}

// order is the position of each node where upstream has the order of a Go map: as a comparer of candidates, it decides last.
type order map[string]int

func (o order) ScaleDownEarlierThan(one, other *apiv1.Node) bool { return o[one.Name] < o[other.Name] }

func (o order) ResetState() {}

// positions returns the order of the nodes in a run: one of three has that of the case, others have a random one.
func (c *scaleDownCase) positions(number int) order {
	made, indexes := order{}, rand.Perm(len(c.Nodes))
	if number%3 == 0 {
		slices.Sort(indexes)
	}
	for position, index := range indexes {
		made[c.Nodes[index].Name] = position
	}
	return made
}

type orderedStore struct {
	*store.DeltaSnapshotStore
	order order
}

func (s orderedStore) NodeInfos() fwk.NodeInfoLister {
	return orderedLister{s.DeltaSnapshotStore.NodeInfos(), s.order}
}

type orderedLister struct {
	fwk.NodeInfoLister
	order order
}

func (l orderedLister) List() ([]fwk.NodeInfo, error) {
	nodes, err := l.NodeInfoLister.List()
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(one, other fwk.NodeInfo) int { return l.order[one.Node().Name] - l.order[other.Node().Name] })
	return nodes, err
}

type scaleDownAnswer struct {
	ID       string   `json:"id"`
	Outcomes [][]scan `json:"outcomesAnyOrder"`
	Error    string   `json:"error,omitempty"`
}

var reasons = map[simulator.UnremovableReason]string{
	simulator.ScaleDownDisabledAnnotation: "ScaleDownDisabledAnnotation",
	simulator.ScaleDownUnreadyDisabled:    "ScaleDownUnreadyDisabled",
	simulator.NotAutoscaled:               "NotAutoscaled",
	simulator.NotUnneededLongEnough:       "NotUnneededLongEnough",
	simulator.NotUnreadyLongEnough:        "NotUnreadyLongEnough",
	simulator.NodeGroupMinSizeReached:     "NodeGroupMinSizeReached",
	simulator.CurrentlyBeingDeleted:       "CurrentlyBeingDeleted",
	simulator.NotUnderutilized:            "NotUnderutilized",
	simulator.RecentlyUnremovable:         "RecentlyUnremovable",
	simulator.NoPlaceToMovePods:           "NoPlaceToMovePods",
	simulator.BlockedByPod:                "BlockedByPod",
	simulator.UnexpectedError:             "UnexpectedError",
	simulator.BlockedByOnCompletionPod:    "BlockedByOnCompletionPod",
}

func number[T any](given *T, usual T) T {
	if given == nil {
		return usual
	}
	return *given
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (c *scaleDownCase) allObjects() []kuberuntime.Object {
	all := c.objects()
	for _, o := range c.Pdbs {
		all = append(all, o)
	}
	for _, o := range c.ReplicaSets {
		all = append(all, o)
	}
	for _, o := range c.StatefulSets {
		all = append(all, o)
	}
	for _, o := range c.ReplicationControllers {
		all = append(all, o)
	}
	for _, o := range c.Jobs {
		all = append(all, o)
	}
	return all
}

func (c *scaleDownCase) scaleDownOptions() config.AutoscalingOptions {
	opts, s := c.autoscalingOptions(), c.ScaleDown
	opts.NodeGroupDefaults.ScaleDownUtilizationThreshold = number(s.Threshold, config.DefaultScaleDownUtilizationThreshold)
	opts.NodeGroupDefaults.ScaleDownGpuUtilizationThreshold = config.DefaultScaleDownGpuUtilizationThreshold
	opts.NodeGroupDefaults.ScaleDownUnneededTime = seconds(number(s.UnneededTime, 600))
	opts.NodeGroupDefaults.ScaleDownUnreadyTime = seconds(number(s.UnreadyTime, 1200))
	opts.NodeGroupDefaults.IgnoreDaemonSetsUtilization = s.IgnoreDaemonSets
	opts.IgnoreMirrorPodsUtilization = s.IgnoreMirrorPods
	opts.ScaleDownUnreadyEnabled = !s.NoUnready
	opts.UnremovableNodeRecheckTimeout = seconds(number(s.Recheck, 300))
	opts.MaxScaleDownParallelism = number(s.MaxParallel, 10)
	opts.MaxDrainParallelism = number(s.MaxDrains, 1)
	opts.ScaleDownSimulationTimeout = time.Hour
	opts.SkipNodesWithSystemPods = !s.AnySystemPods
	opts.SkipNodesWithLocalStorage = !s.AnyLocalStorage
	opts.SkipNodesWithCustomControllerPods = !s.AnyController
	opts.MinReplicaCount = number(s.MinReplicas, 0)
	opts.BspDisruptionTimeout = seconds(number(s.SystemPodTimeout, 3600))
	return opts
}

func (c *scaleDownCase) runScans(opts config.AutoscalingOptions, cluster *fakeCluster, positions order) ([]scan, error) {
	provider := testprovider.NewTestCloudProviderBuilder().Build()
	byName, groups := map[string]*apiv1.Node{}, map[string]string{}
	for _, node := range c.Nodes {
		byName[node.Name] = node
	}
	nodes := slices.Clone(c.Nodes)
	nodes, _ = taints.FilterOutNodesWithStartupTaints(taints.NewTaintConfig(opts), nodes, nodes) // as obtainNodeLists
	for _, g := range c.Groups {
		provider.InsertNodeGroup(provider.BuildNodeGroup(g.Name, g.MinSize, g.MaxSize, g.Size, true, false, g.Name, nil))
		for _, name := range g.Nodes {
			provider.AddNode(g.Name, byName[name])
			groups[name] = g.Name
		}
	}
	procs := processors.DefaultProcessors(opts)
	snapshot := predicate.NewPredicateSnapshot(orderedStore{store.NewDeltaSnapshotStore(), positions}, cluster.handle, false, 1, false)
	autoscaling := cacontext.NewAutoscalingContext(opts, cluster.handle, snapshot, cluster.clients, provider, nil, nil, nil, pdb.NewBasicRemainingPdbTracker(), nil, nil, nil, nil)
	deleteOptions := options.NewNodeDeleteOptions(opts)
	drainability := rules.Default(deleteOptions)
	previous := previouscandidates.NewPreviousCandidates()
	sorting := scaledowncandidates.NewScaleDownCandidatesSortingProcessor([]scaledowncandidates.CandidatesComparer{
		emptycandidates.NewEmptySortingProcessor(emptycandidates.NewNodeInfoGetter(snapshot), deleteOptions, drainability), previous, positions,
	})
	quotas := resourcequotas.NewTrackerFactory(resourcequotas.TrackerOptions{
		CustomResourcesProcessor: procs.CustomResourcesProcessor, QuotaProvider: resourcequotas.NewCloudMinProvider(provider),
	})
	planned := planner.New(autoscaling, procs, deleteOptions, drainability, quotas)
	tracker := deletiontracker.NewNodeDeletionTracker(0)
	pods := utils.FilterOutExpendablePods(c.Pods, opts.ExpendablePodsPriorityCutoff)
	scans := []scan{}
	for number, at := range c.Scans {
		now := time.Unix(c.Now, 0).Add(seconds(at))
		if err := snapshot.SetClusterState(nodes, pods, nil, nil); err != nil {
			return nil, err
		}
		if err := autoscaling.RemainingPdbTracker.SetPdbs(c.Pdbs); err != nil {
			return nil, err
		}
		status := tracker.Snapshot()
		candidates, err := sorting.GetScaleDownCandidates(autoscaling, nodes)
		if err != nil {
			return nil, err
		}
		if err := planned.UpdateClusterState(nodes, candidates, status, now); err != nil {
			return nil, err
		}
		previous.UpdateScaleDownCandidates(planned.UnneededNodes(), now)
		done := scan{Unneeded: []string{}, Unremovable: map[string]string{}, Empty: []string{}, Drained: []string{}}
		for _, node := range planned.UnneededNodes() {
			done.Unneeded = append(done.Unneeded, node.Node.Name)
		}
		empty, drain := planned.NodesToDelete(now)
		for _, node := range planned.UnremovableNodes() {
			done.Unremovable[node.Node.Name] = reasons[node.Reason]
			if node.BlockingPod != nil {
				done.Unremovable[node.Node.Name] += ":" + node.BlockingPod.Reason.String()
			}
		}
		emptyViews, drainViews := budgets.NewScaleDownBudgetProcessor(autoscaling).CropNodes(tracker, empty, drain)
		for _, view := range emptyViews {
			for _, node := range view.Nodes {
				done.Empty = append(done.Empty, node.Name)
			}
		}
		for _, view := range drainViews {
			for _, node := range view.Nodes {
				done.Drained = append(done.Drained, node.Name)
			}
		}
		removed := done
		if number < len(c.Follow) {
			removed = c.Follow[number]
		}
		for _, name := range removed.Empty {
			tracker.StartDeletion(groups[name], name)
		}
		for _, name := range removed.Drained {
			tracker.StartDeletionWithDrain(groups[name], name)
		}
		sort.Strings(done.Unneeded)
		sort.Strings(done.Empty)
		sort.Strings(done.Drained)
		scans = append(scans, done)
	}
	return scans, nil
}

func (c *scaleDownCase) answer(repeat int) scaleDownAnswer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opts := c.scaleDownOptions()
	cluster, err := start(ctx, opts, c.allObjects())
	if err != nil {
		return scaleDownAnswer{ID: c.ID, Error: err.Error()}
	}
	found, err := outcomes(repeat, func(number int) ([]scan, error) { return c.runScans(opts, cluster, c.positions(number)) })
	if err != nil {
		return scaleDownAnswer{ID: c.ID, Error: err.Error()}
	}
	return scaleDownAnswer{ID: c.ID, Outcomes: found}
}
