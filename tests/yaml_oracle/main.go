// Command yaml-oracle says what kubectl reads in texts: a JSON line {"id", "base64"} in, {"id", "documents", "refused"} out.
//
// Source: k8s.io/cli-runtime pkg/resource/visitor.go, FileVisitor and StreamVisitor.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const longestLine = 64 << 20

type question struct {
	ID   string `json:"id"`
	Text []byte `json:"base64"`
}

type answer struct {
	ID        string            `json:"id"`
	Documents []json.RawMessage `json:"documents"`
	Refused   string            `json:"refused,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), longestLine)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		if err := encoder.Encode(read(asked)); err != nil {
			fail(err)
		}
	}
	if err := errors.Join(lines.Err(), out.Flush()); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "yaml-oracle:", err)
	os.Exit(1)
}

func read(asked question) (told answer) {
	told = answer{ID: asked.ID, Documents: []json.RawMessage{}}
	defer func() {
		if panicked := recover(); panicked != nil {
			told.Refused = fmt.Sprint("panic: ", panicked)
		}
	}()
	text := transform.NewReader(bytes.NewReader(asked.Text), unicode.BOMOverride(unicode.UTF8.NewDecoder()))
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		object := runtime.RawExtension{}
		if err := decoder.Decode(&object); err != nil {
			if err != io.EOF {
				told.Refused = err.Error()
			}
			return told
		}
		raw := bytes.TrimSpace(object.Raw)
		if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
			told.Documents = append(told.Documents, raw)
		}
	}
}
