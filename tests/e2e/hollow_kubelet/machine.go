package main

import (
	"context"
	"fmt"
	"os"
	"time"

	cadvisorv1 "github.com/google/cadvisor/info/v1"
	cadvisor "github.com/google/cadvisor/info/v2"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

const (
	cores = 2
	// ownMemory, ownDisk, ownInodes and ownProcesses are what the node uses without containers.
	ownMemory, ownDisk, ownInodes, ownProcesses = 200 << 20, 1 << 30, 1 << 19, 100

	inodes    = 1 << 20
	diskMount = "/"
)

// machine is the cadvisor of the node: its memory, disk and processes, less what the containers use.
type machine struct {
	name         string
	memory, disk int64
	// loadavg is the file that the kubelet reads as /proc/loadavg; "" for that of the kernel.
	loadavg string
	runtime *runtime
}

func (*machine) Start() error { return nil }

func (m *machine) MachineInfo() (*cadvisorv1.MachineInfo, error) {
	return &cadvisorv1.MachineInfo{NumCores: cores, MachineID: m.name, SystemUUID: m.name, BootID: m.name, MemoryCapacity: uint64(m.memory)}, nil
}

func (*machine) VersionInfo() (*cadvisorv1.VersionInfo, error) {
	return &cadvisorv1.VersionInfo{KernelVersion: "6.1.0", ContainerOsVersion: "hollow"}, nil
}

func (*machine) GetRequestedContainersInfo(string, cadvisor.RequestOptions) (map[string]*cadvisorv1.ContainerInfo, error) {
	return map[string]*cadvisorv1.ContainerInfo{}, nil
}

// ContainerInfoV2 returns the node's cgroup "/", recursively also those of Pods and containers.
func (m *machine) ContainerInfoV2(name string, how cadvisor.RequestOptions) (map[string]cadvisor.ContainerInfo, error) {
	if name != "/" {
		return nil, fmt.Errorf("no cgroup %q", name)
	}
	found := map[string]cadvisor.ContainerInfo{}
	pods := map[string]uint64{}
	used, processes := uint64(ownMemory), uint64(ownProcesses)
	for _, c := range m.runtime.running() {
		used += c.memory
		processes += c.processes
		key := "/kubepods/" + cm.GetPodCgroupNameSuffix(c.podUID())
		pods[key] += c.memory
		if how.Recursive {
			found[key+"/"+c.id] = memoryOf(c.memory, 0, c.labels)
		}
	}
	if how.Recursive {
		for key, memory := range pods {
			found[key] = memoryOf(memory, 0, nil)
		}
	}
	found["/"] = memoryOf(used, uint64(m.memory), nil)
	return found, m.count(processes)
}

// count writes the number of processes where the kubelet reads it, in the format of /proc/loadavg.
func (m *machine) count(processes uint64) error {
	if m.loadavg == "" {
		return nil
	}
	return os.WriteFile(m.loadavg, fmt.Appendf(nil, "0.00 0.00 0.00 1/%d 1\n", processes), 0o644)
}

// memoryOf is a cgroup. limit 0: unlimited.
func memoryOf(used, limit uint64, labels map[string]string) cadvisor.ContainerInfo {
	if limit == 0 {
		limit = 1 << 63
	}
	now := time.Now()
	stats := &cadvisor.ContainerStats{
		Timestamp: now,
		Cpu:       &cadvisorv1.CpuStats{},
		CpuInst:   &cadvisor.CpuInstStats{},
		Memory:    &cadvisorv1.MemoryStats{Usage: used, WorkingSet: used, RSS: used},
	}
	stats.CpuInst.Usage.Total = 1
	spec := cadvisor.ContainerSpec{HasCpu: true, HasMemory: true, CreationTime: now, Labels: labels}
	spec.Memory.Limit = limit
	return cadvisor.ContainerInfo{Spec: spec, Stats: []*cadvisor.ContainerStats{stats}}
}

func (m *machine) fs() cadvisor.FsInfo {
	used, usedInodes := uint64(ownDisk), uint64(ownInodes)
	for _, c := range m.runtime.running() {
		used += c.disk
		usedInodes += c.inodes
	}
	total, free := uint64(inodes), uint64(max(0, inodes-int64(usedInodes)))
	return cadvisor.FsInfo{
		Timestamp: time.Now(), Device: "/dev/vda", Mountpoint: diskMount, Capacity: uint64(m.disk),
		Usage: used, Available: uint64(max(0, m.disk-int64(used))), Inodes: &total, InodesFree: &free,
	}
}

func (m *machine) ImagesFsInfo(context.Context) (cadvisor.FsInfo, error)    { return m.fs(), nil }
func (m *machine) RootFsInfo() (cadvisor.FsInfo, error)                     { return m.fs(), nil }
func (m *machine) ContainerFsInfo(context.Context) (cadvisor.FsInfo, error) { return m.fs(), nil }
func (m *machine) GetDirFsInfo(string) (cadvisor.FsInfo, error)             { return m.fs(), nil }

func usage(bytes, files uint64) *runtimeapi.FilesystemUsage {
	return &runtimeapi.FilesystemUsage{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: diskMount},
		UsedBytes:  &runtimeapi.UInt64Value{Value: bytes},
		InodesUsed: &runtimeapi.UInt64Value{Value: files},
	}
}
