// Command sallyport-cell is the child side of sallyport's sandbox. People never
// start it: sallyport does, with a socket as descriptor 3.
package main

import (
	"fmt"
	"io"
	"os"

	"sallyport/sandbox/cell"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, errw io.Writer) int {
	var err error
	switch {
	case len(args) == 1 && args[0] == cell.StarterCommand:
		err = cell.Starter()
	case len(args) == 1 && args[0] == cell.CellCommand:
		err = cell.Cell()
	default:
		fmt.Fprintln(errw, "sallyport-cell is started by sallyport; run `sallyport exec -- COMMAND` instead")
		return 2
	}
	if err != nil {
		fmt.Fprintln(errw, "sallyport-cell:", err)
		return 1
	}
	return 0
}
