package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-api/pkg/apis/testing"
	kubelettypes "k8s.io/kubelet/pkg/types"
	utilexec "k8s.io/utils/exec"
)

const (
	killed     = 137
	terminated = 143
	// settling is how long a container runs before it exceeds its limit or exits.
	settling = time.Second
)

// runtime runs containers by their `args`:
//
//	memory=412Mi    working set; above the limit the kernel kills the container (OOMKilled)
//	disk=2Gi        bytes in the writable layer
//	inodes=500000   files in the writable layer
//	processes=900   processes, of which the kernel counts none
//	file=/a/b:2Mi   a file of this size, in a volume that is mounted
//	exit=3          exits with this code after a second
//	unhealthy       every command in it fails, as exec probes
//	stubborn        ignores SIGTERM
//
// An image whose name starts with `missing` cannot be pulled.
type runtime struct {
	*cri.FakeRuntimeService
	programs map[string]*program
}

// program is what a container does.
type program struct {
	id                  string
	labels              map[string]string
	memory, limit, disk uint64
	inodes, processes   uint64
	files               map[string]int64
	exit                *int32
	unhealthy, stubborn bool
	mounts              []*runtimeapi.Mount
}

func (p *program) podUID() types.UID { return types.UID(p.labels[kubelettypes.KubernetesPodUIDLabel]) }

func newRuntime() *runtime {
	fake := cri.NewFakeRuntimeService()
	ready := func(kind string) *runtimeapi.RuntimeCondition {
		return &runtimeapi.RuntimeCondition{Type: kind, Status: true}
	}
	fake.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		ready(runtimeapi.RuntimeReady), ready(runtimeapi.NetworkReady)}}
	return &runtime{fake, map[string]*program{}}
}

func programOf(id string, config *runtimeapi.ContainerConfig) (*program, error) {
	p := &program{id: id, labels: config.Labels, files: map[string]int64{}, mounts: config.Mounts}
	p.limit = uint64(config.GetLinux().GetResources().GetMemoryLimitInBytes())
	for _, arg := range config.Args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "memory":
			p.memory = uint64(bytesOf(value))
		case "disk":
			p.disk = uint64(bytesOf(value))
		case "inodes":
			p.inodes = uint64(bytesOf(value))
		case "processes":
			p.processes = uint64(bytesOf(value))
		case "file":
			path, size, _ := strings.Cut(value, ":")
			p.files[path] = bytesOf(size)
		case "exit":
			code, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return nil, err
			}
			exit := int32(code)
			p.exit = &exit
		case "unhealthy":
			p.unhealthy = true
		case "stubborn":
			p.stubborn = true
		default:
			return nil, fmt.Errorf("unknown argument %q", arg)
		}
	}
	return p, nil
}

func (r *runtime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.FakeRuntimeService.CreateContainer(ctx, sandbox, config, pod)
	if err != nil {
		return "", err
	}
	p, err := programOf(id, config)
	if err != nil {
		return "", err
	}
	log := filepath.Join(pod.LogDirectory, config.LogPath)
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, nil, 0o600)); err != nil {
		return "", err
	}
	r.Lock()
	defer r.Unlock()
	r.programs[id] = p
	return id, nil
}

func (r *runtime) StartContainer(ctx context.Context, id string) error {
	if err := r.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	r.Lock()
	p := r.programs[id]
	r.Unlock()
	for path, size := range p.files {
		if err := p.write(path, size); err != nil {
			return err
		}
	}
	if p.limit > 0 && p.memory > p.limit {
		time.AfterFunc(settling, func() { r.end(id, killed, "OOMKilled") })
	} else if p.exit != nil {
		reason := "Error"
		if *p.exit == 0 {
			reason = "Completed"
		}
		time.AfterFunc(settling, func() { r.end(id, *p.exit, reason) })
	}
	return nil
}

func (p *program) write(path string, size int64) error {
	for _, mounted := range p.mounts {
		if inside, err := filepath.Rel(mounted.ContainerPath, path); err == nil && !strings.HasPrefix(inside, "..") {
			return os.WriteFile(filepath.Join(mounted.HostPath, inside), make([]byte, size), 0o600)
		}
	}
	return fmt.Errorf("no volume is mounted for %s", path)
}

// end records the exit of a running container, as containerd does.
func (r *runtime) end(id string, code int32, reason string) {
	r.Lock()
	defer r.Unlock()
	if c, ok := r.Containers[id]; ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		c.State, c.ExitCode, c.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, code, reason
		c.FinishedAt = time.Now().UnixNano()
	}
}

func (r *runtime) StopContainer(_ context.Context, id string, timeout int64) error {
	r.Lock()
	p, ok := r.programs[id]
	r.Unlock()
	if !ok {
		return fmt.Errorf("container %q not found", id)
	}
	if p.stubborn || timeout == 0 {
		time.Sleep(time.Duration(timeout) * time.Second)
		r.end(id, killed, "Error")
	} else {
		r.end(id, terminated, "Error")
	}
	return nil
}

func (r *runtime) ExecSync(_ context.Context, id string, _ []string, _ time.Duration) ([]byte, []byte, error) {
	r.Lock()
	defer r.Unlock()
	if p, ok := r.programs[id]; ok && p.unhealthy {
		return nil, nil, &utilexec.CodeExitError{Err: fmt.Errorf("command failed"), Code: 1}
	}
	return nil, nil, nil
}

// running returns the programs of running containers.
func (r *runtime) running() []*program {
	r.Lock()
	defer r.Unlock()
	found := []*program{}
	for id, p := range r.programs {
		if c, ok := r.Containers[id]; ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			found = append(found, p)
		}
	}
	return found
}

// ListContainerStats returns the disk usage of containers; the kubelet takes their memory from machine.
func (r *runtime) ListContainerStats(_ context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	found := []*runtimeapi.ContainerStats{}
	for _, p := range r.running() {
		r.Lock()
		c := r.Containers[p.id]
		r.Unlock()
		if filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.SandboxID {
			continue
		}
		found = append(found, &runtimeapi.ContainerStats{
			Attributes:    &runtimeapi.ContainerAttributes{Id: p.id, Metadata: c.Metadata, Labels: c.Labels, Annotations: c.Annotations},
			WritableLayer: usage(p.disk, p.inodes),
		})
	}
	return found, nil
}

// images can be pulled, all but those whose name starts with `missing`.
type images struct{ *cri.FakeImageService }

func newImages() images {
	fake := cri.NewFakeImageService()
	fake.SetFakeFilesystemUsage([]*runtimeapi.FilesystemUsage{usage(1, 1)})
	fake.SetFakeContainerFilesystemUsage([]*runtimeapi.FilesystemUsage{usage(1, 1)})
	return images{fake}
}

func (i images) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	if strings.HasPrefix(image.Image, "missing") {
		return "", fmt.Errorf("failed to resolve reference %q: not found", image.Image)
	}
	return i.FakeImageService.PullImage(ctx, image, auth, pod)
}
