// Reads rdjson as reviewdog does, into its own messages, and strictly: a field that they lack is an error.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/reviewdog/reviewdog/proto/rdf"
	"google.golang.org/protobuf/encoding/protojson"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	var result rdf.DiagnosticResult
	if err == nil {
		err = protojson.Unmarshal(text, &result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, found := range result.Diagnostics {
		where := found.GetLocation()
		start, end := where.GetRange().GetStart(), where.GetRange().GetEnd()
		fmt.Printf("%s:%d:%d:%d:%d %s %q\n", where.GetPath(), start.GetLine(), start.GetColumn(), end.GetLine(),
			end.GetColumn(), found.GetSeverity(), found.GetCode().GetValue())
	}
}
