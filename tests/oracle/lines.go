package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// response is one line of output; err says that the case could not be answered.
type response struct {
	id     string
	answer any
	err    error
}

func (r response) line() []byte {
	var body any = r.answer
	if r.err != nil {
		body = map[string]string{"id": r.id, "error": r.err.Error()}
	}
	text, err := json.Marshal(body)
	if err != nil { // only reachable when an answer type holds something that is not JSON
		panic(err)
	}
	return append(text, '\n')
}

// openCases opens a path ("" and "-" are standard input) and unpacks it if it is gzipped.
func openCases(path string, stdin io.Reader) (io.ReadCloser, error) {
	source, toClose := stdin, io.Closer(io.NopCloser(nil))
	if path != "" && path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		source, toClose = file, file
	}
	buffered := bufio.NewReaderSize(source, 1<<20)
	if magic, err := buffered.Peek(2); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return readCloser{buffered, toClose}, nil
	}
	unpacked, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return readCloser{unpacked, toClose}, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// answerAll answers the lines of cases with some workers and writes the answers in the order of the lines.
func answerAll(cases io.Reader, out io.Writer, workers int, answer func([]byte) response) (failed int, err error) {
	type job struct {
		line   []byte
		result chan response
	}
	jobs := make(chan job)
	ordered := make(chan chan response, 4*max(workers, 1))
	var pool sync.WaitGroup
	for range max(workers, 1) {
		pool.Add(1)
		go func() { // 1.34 is built as Go 1.24 has it, which has no WaitGroup.Go
			defer pool.Done()
			for j := range jobs {
				j.result <- answer(j.line)
			}
		}()
	}
	var readErr error
	go func() {
		readErr = eachLine(cases, func(line []byte) {
			j := job{line, make(chan response, 1)}
			ordered <- j.result
			jobs <- j
		})
		close(jobs)
		close(ordered)
	}()

	buffered := bufio.NewWriter(out)
	for result := range ordered {
		r := <-result
		if r.err != nil {
			failed++
		}
		if _, writeErr := buffered.Write(r.line()); writeErr != nil {
			return failed, writeErr
		}
	}
	pool.Wait()
	if readErr != nil {
		return failed, readErr
	}
	return failed, buffered.Flush()
}

// eachLine calls do with every line that is not blank; the slice is the callee's to keep.
func eachLine(source io.Reader, do func([]byte)) error {
	reader := bufio.NewReader(source)
	for {
		line, err := reader.ReadBytes('\n')
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			do(trimmed)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
