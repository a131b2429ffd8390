// Command oracle answers cases with upstream's RunOnce: one JSON line for each case, with all first scale-ups of some runs.
// With -scale-down, it answers with the unneeded, unremovable and removed nodes of each scan.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiv1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	v1lister "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	testprovider "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/test"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	cacontext "k8s.io/autoscaler/cluster-autoscaler/context"
	"k8s.io/autoscaler/cluster-autoscaler/core"
	coreoptions "k8s.io/autoscaler/cluster-autoscaler/core/options"
	"k8s.io/autoscaler/cluster-autoscaler/core/podlistprocessor"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaleup/orchestrator"
	"k8s.io/autoscaler/cluster-autoscaler/debuggingsnapshot"
	"k8s.io/autoscaler/cluster-autoscaler/estimator"
	"k8s.io/autoscaler/cluster-autoscaler/expander"
	"k8s.io/autoscaler/cluster-autoscaler/expander/factory"
	"k8s.io/autoscaler/cluster-autoscaler/expander/priority"
	"k8s.io/autoscaler/cluster-autoscaler/processors"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodegroupset"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodeinfosprovider"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/predicate"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/clustersnapshot/store"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/framework"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/options"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/scheduling"
)

type group struct {
	Name             string
	MinSize, MaxSize int
	Size             int
	Nodes            []string
	Template         *apiv1.Node
}

type testCase struct {
	ID             string `json:"id"`
	Nodes          []*apiv1.Node
	Pods, Pending  []*apiv1.Pod
	Daemonsets     []*appsv1.DaemonSet
	Pvcs           []*apiv1.PersistentVolumeClaim
	Pvs            []*apiv1.PersistentVolume
	StorageClasses []*storagev1.StorageClass
	Namespaces     []*apiv1.Namespace
	Groups         []group
	Options        struct {
		Expander                     string
		BalanceSimilar               bool
		MaxNodesTotal                int
		ExpendablePodsPriorityCutoff *int
		MaxCoresTotal                int64
		MaxMemoryTotalGiB            int64
		ForceDaemonSets              bool
		BalancingIgnoredLabels       []string
		Priorities                   *string // of the ConfigMap of the expander priority
	}
}

type scaleUp struct {
	Group string `json:"group"`
	Nodes int    `json:"nodes"`
}

type answer struct {
	ID       string      `json:"id"`
	Outcomes [][]scaleUp `json:"outcomesAnyOrder"`
	ScaleUps []scaleUp   `json:"scaleUps"`
	Error    string      `json:"error,omitempty"`
}

func (c *testCase) objects() (all []kuberuntime.Object) {
	for _, o := range c.Nodes {
		all = append(all, o)
	}
	for _, o := range append(append([]*apiv1.Pod{}, c.Pods...), c.Pending...) {
		all = append(all, o)
	}
	for _, o := range c.Daemonsets {
		all = append(all, o)
	}
	for _, o := range c.Pvcs {
		all = append(all, o)
	}
	for _, o := range c.Pvs {
		all = append(all, o)
	}
	for _, o := range c.StorageClasses {
		all = append(all, o)
	}
	for _, o := range c.Namespaces {
		all = append(all, o)
	}
	return all
}

func (c *testCase) autoscalingOptions() config.AutoscalingOptions {
	cutoff := -10
	if c.Options.ExpendablePodsPriorityCutoff != nil {
		cutoff = *c.Options.ExpendablePodsPriorityCutoff
	}
	expander := c.Options.Expander
	if expander == "" {
		expander = "least-waste"
	}
	return config.AutoscalingOptions{
		NodeGroupDefaults: config.NodeGroupAutoscalingOptions{
			MaxNodeProvisionTime: 15 * time.Minute, MaxNodeStartupTime: 15 * time.Minute,
		},
		NodeGroupSetRatios:             config.NewDefaultNodeGroupDifferenceRatios(),
		MaxTotalUnreadyPercentage:      45,
		OkTotalUnreadyCount:            3,
		EstimatorName:                  estimator.BinpackingEstimatorName,
		ExpanderNames:                  expander,
		MaxBinpackingTime:              5 * time.Minute,
		MaxNodesPerScaleUp:             1000,
		MaxNodeGroupBinpackingDuration: 10 * time.Second,
		MaxNodesTotal:                  c.Options.MaxNodesTotal,
		BalanceSimilarNodeGroups:       c.Options.BalanceSimilar,
		BalancingExtraIgnoredLabels:    c.Options.BalancingIgnoredLabels,
		ExpendablePodsPriorityCutoff:   cutoff,
		ForceDaemonSets:                c.Options.ForceDaemonSets,
		NodeInfoCacheExpireTime:        time.Hour,
		PredicateParallelism:           1,
	}
}

// expanders returns the default expanders; the ConfigMap of priority is in a store, as the fake client has no REST client.
func (c *testCase) expanders(provider cloudprovider.CloudProvider, clients *cacontext.AutoscalingKubeClients, client *fake.Clientset, names string) (expander.Strategy, error) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if c.Options.Priorities != nil {
		meta := metav1.ObjectMeta{Namespace: "kube-system", Name: priority.PriorityConfigMapName}
		data := map[string]string{priority.ConfigMapKey: *c.Options.Priorities}
		if err := store.Add(&apiv1.ConfigMap{ObjectMeta: meta, Data: data}); err != nil {
			return nil, err
		}
	}
	known := factory.NewFactory()
	known.RegisterDefaultExpanders(provider, clients, client, "kube-system", "", "")
	known.RegisterFilter(expander.PriorityBasedExpanderName, func() expander.Filter {
		return priority.NewFilter(v1lister.NewConfigMapLister(store).ConfigMaps("kube-system"), clients.Recorder)
	})
	return known.Build(strings.Split(names, ","))
}

func (c *testCase) run(ctx context.Context, opts config.AutoscalingOptions, cluster *fakeCluster) ([]scaleUp, error) {
	ups := []scaleUp{}
	templates := map[string]*framework.NodeInfo{}
	provider := testprovider.NewTestCloudProviderBuilder().WithOnScaleUp(func(id string, delta int) error {
		ups = append(ups, scaleUp{id, delta})
		return nil
	}).WithMachineTemplates(templates).Build()
	limits := map[string]int64{}
	if c.Options.MaxCoresTotal > 0 {
		limits[cloudprovider.ResourceNameCores] = c.Options.MaxCoresTotal
	}
	if c.Options.MaxMemoryTotalGiB > 0 {
		limits[cloudprovider.ResourceNameMemory] = c.Options.MaxMemoryTotalGiB << 30
	}
	provider.SetResourceLimiter(cloudprovider.NewResourceLimiter(map[string]int64{}, limits))
	nodes := map[string]*apiv1.Node{}
	for _, node := range c.Nodes {
		nodes[node.Name] = node
	}
	procs := processors.DefaultProcessors(opts)
	procs.PodListProcessor = podlistprocessor.NewDefaultPodListProcessor(scheduling.ScheduleAnywhere)
	procs.TemplateNodeInfoProvider = nodeinfosprovider.NewDefaultTemplateNodeInfoProvider(&opts.NodeInfoCacheExpireTime, opts.ForceDaemonSets)
	procs.NodeGroupSetProcessor = &nodegroupset.BalancingNodeGroupSetProcessor{
		Comparator: nodegroupset.CreateGenericNodeInfoComparator(opts.BalancingExtraIgnoredLabels, opts.NodeGroupSetRatios),
	}
	strategy, err := c.expanders(provider, cluster.clients, cluster.client, opts.ExpanderNames)
	if err != nil {
		return nil, err
	}
	autoscaler, err := core.NewAutoscaler(ctx, coreoptions.AutoscalerOptions{
		AutoscalingOptions: opts, KubeClient: cluster.client, InformerFactory: cluster.factory, AutoscalingKubeClients: cluster.clients,
		CloudProvider: provider, FrameworkHandle: cluster.handle, Processors: procs, ExpanderStrategy: strategy,
		ClusterSnapshot:      predicate.NewPredicateSnapshot(store.NewDeltaSnapshotStore(), cluster.handle, false, 1, false),
		DebuggingSnapshotter: debuggingsnapshot.NewDebuggingSnapshotter(false),
		ScaleUpOrchestrator:  orchestrator.New(), DeleteOptions: options.NewNodeDeleteOptions(opts),
	}, cluster.factory)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, index := range rand.Perm(len(c.Groups)) {
		g := c.Groups[index]
		templates[g.Name] = framework.NewNodeInfo(g.Template.DeepCopy(), nil)
		made := provider.BuildNodeGroup(g.Name, g.MinSize, g.MaxSize, g.Size, true, false, g.Name, nil)
		provider.InsertNodeGroup(made)
		for _, name := range g.Nodes {
			provider.AddNode(g.Name, nodes[name])
		}
		if missing := g.Size - len(g.Nodes); missing > 0 {
			procs.ScaleStateNotifier.RegisterScaleUp(made, missing, now)
		}
	}
	if err := autoscaler.RunOnce(now); err != nil {
		return nil, err
	}
	sort.Slice(ups, func(i, j int) bool { return ups[i].Group < ups[j].Group })
	return ups, nil
}

// fakeCluster is an API server with objects, and what reads them.
type fakeCluster struct {
	client  *fake.Clientset
	clients *cacontext.AutoscalingKubeClients
	factory informers.SharedInformerFactory
	handle  *framework.Handle
}

func start(ctx context.Context, opts config.AutoscalingOptions, objects []kuberuntime.Object) (*fakeCluster, error) {
	client := fake.NewSimpleClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	clients := cacontext.NewAutoscalingKubeClients(ctx, opts, client, factory)
	handle, err := framework.NewHandle(ctx, factory, nil, false, false)
	if err != nil {
		return nil, err
	}
	clients.ListerRegistry.ReplicaSetLister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return &fakeCluster{client, clients, factory, handle}, nil
}

// outcomes returns what runs return, the most frequent first.
func outcomes[T any](repeat int, run func(number int) ([]T, error)) (found [][]T, err error) {
	counts, seen, keys := map[string]int{}, map[string][]T{}, []string{}
	for number := range repeat {
		outcome, err := run(number)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprint(outcome)
		if counts[key]++; counts[key] == 1 {
			keys, seen[key] = append(keys, key), outcome
		}
	}
	sort.Slice(keys, func(i, j int) bool { return counts[keys[i]] > counts[keys[j]] })
	for _, key := range keys {
		found = append(found, seen[key])
	}
	return found, nil
}

func (c *testCase) answer(repeat int) answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opts := c.autoscalingOptions()
	cluster, err := start(ctx, opts, c.objects())
	if err != nil {
		return answer{ID: c.ID, Error: err.Error()}
	}
	found, err := outcomes(repeat, func(int) ([]scaleUp, error) { return c.run(ctx, opts, cluster) })
	if err != nil {
		return answer{ID: c.ID, Error: err.Error()}
	}
	return answer{ID: c.ID, Outcomes: found, ScaleUps: found[0]}
}

func answered(line []byte, repeat int, scaleDown bool) any {
	var c scaleDownCase
	if err := json.Unmarshal(line, &c); err != nil {
		return answer{Error: err.Error()}
	}
	if scaleDown {
		return c.answer(repeat)
	}
	return c.testCase.answer(repeat)
}

func main() {
	repeat := flag.Int("repeat", 40, "runs of each case")
	scaleDown := flag.Bool("scale-down", false, "the cases are of scale-down")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(nil, 1<<26)
	var lines [][]byte
	for scanner.Scan() {
		lines = append(lines, append([]byte{}, scanner.Bytes()...))
	}
	answers := make([]any, len(lines))
	var group sync.WaitGroup
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for i, line := range lines {
		group.Add(1)
		slots <- true
		go func() {
			defer func() { <-slots; group.Done() }()
			answers[i] = answered(line, *repeat, *scaleDown)
		}()
	}
	group.Wait()
	out := json.NewEncoder(os.Stdout)
	for _, a := range answers {
		if err := out.Encode(a); err != nil {
			panic(err)
		}
	}
}
