// Command hollow-kubelet is the kubelet of Kubernetes with containers that are only data, as in kubemark: it registers
// its node, and admits, probes, evicts and shuts down Pods by its own code. containers.go describes the containers,
// machine.go the node, shutdown.go how SIGUSR1 shuts it down. It reads /dev/kmsg and needs root.
package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"time"

	noop "go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"
)

// containerManager is the stub, with the capacity of the node's disk.
type containerManager struct {
	cm.ContainerManager
	disk int64
}

func (m containerManager) GetCapacity(bool) v1.ResourceList {
	return v1.ResourceList{v1.ResourceEphemeralStorage: *resource.NewQuantity(m.disk, resource.BinarySI)}
}

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file")
	name := flag.String("name", "", "name of the node")
	root := flag.String("root", "", "directory for the files of the kubelet")
	memory := flag.String("memory", "1Gi", "memory of the node")
	disk := flag.String("disk", "10Gi", "disk of the node")
	loadavg := flag.String("loadavg", "", "file that is mounted at /proc/loadavg")
	flag.Parse()
	m := &machine{*name, bytesOf(*memory), bytesOf(*disk), *loadavg, newRuntime()}
	ctx := context.Background()
	must(app.RunKubelet(ctx, server(*name, *root), dependencies(*kubeconfig, m)))
	select {}
}

func server(name, root string) *options.KubeletServer {
	must(os.MkdirAll(filepath.Join(root, "static"), 0o755))
	flags := options.NewKubeletFlags()
	flags.RootDirectory = root
	flags.HostnameOverride = name
	flags.NodeLabels = map[string]string{"disk": "ssd"}
	config, err := options.NewKubeletConfiguration()
	must(err)
	config.EnableServer = false
	config.ReadOnlyPort = 0
	config.RegisterNode = true
	config.StaticPodPath = filepath.Join(root, "static")
	config.PodLogsDir = filepath.Join(root, "logs")
	config.FileCheckFrequency.Duration = time.Second
	config.NodeStatusUpdateFrequency.Duration = time.Second
	config.NodeLeaseDurationSeconds = 8
	config.SyncFrequency.Duration = time.Second
	config.MaxPods = 20
	config.ClusterDNS = []string{"10.0.0.10"}
	config.CgroupsPerQOS = false
	config.EnforceNodeAllocatable = nil
	config.EnableControllerAttachDetach = false
	config.LocalStorageCapacityIsolation = true
	config.VolumeStatsAggPeriod.Duration = time.Second
	config.EvictionHard = map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "pid.available": "10%"}
	config.EvictionSoft = map[string]string{"memory.available": "150Mi"}
	config.EvictionSoftGracePeriod = map[string]string{"memory.available": "3s"}
	config.EvictionMaxPodGracePeriod = 5
	config.EvictionPressureTransitionPeriod.Duration = 30 * time.Second
	config.ShutdownGracePeriod = metav1.Duration{Duration: 10 * time.Second}
	config.ShutdownGracePeriodCriticalPods = metav1.Duration{Duration: 3 * time.Second}
	return &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
}

func dependencies(kubeconfig string, m *machine) *kubelet.Dependencies {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(err)
	config.QPS, config.Burst = 100, 100
	client, err := kubernetes.NewForConfig(config)
	must(err)
	systemDbus = func() (dbusInhibiter, error) { return newLogind(), nil }
	return &kubelet.Dependencies{
		KubeClient:                client,
		HeartbeatClient:           client,
		EventClient:               client.CoreV1(),
		RemoteRuntimeService:      m.runtime,
		RemoteImageService:        newImages(),
		CAdvisorInterface:         m,
		OSInterface:               &containertest.FakeOS{},
		ContainerManager:          containerManager{cm.NewStubContainerManager(), m.disk},
		VolumePlugins:             []volume.VolumePlugin(emptydir.ProbeVolumePlugins()),
		OOMAdjuster:               oom.NewFakeOOMAdjuster(),
		Mounter:                   &mount.FakeMounter{},
		Subpather:                 &subpath.FakeSubpath{},
		HostUtil:                  hostutil.NewFakeHostUtil(nil),
		PodStartupLatencyTracker:  kubeletutil.NewPodStartupLatencyTracker(),
		NodeStartupLatencyTracker: kubeletutil.NewNodeStartupLatencyTracker(),
		TracerProvider:            noop.NewTracerProvider(),
	}
}

func bytesOf(quantity string) int64 {
	parsed := resource.MustParse(quantity)
	return parsed.Value()
}

func must(err error) {
	if err != nil {
		klog.Fatal(err)
	}
}
