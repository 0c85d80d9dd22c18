// A second opinion on histories: reads what history_dump writes, has Porcupine check it, and prints
// "SEED VERDICT" for each.
package main

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

type contents = map[uint64]uint64

type entry struct{ key, value uint64 }

type call struct {
	kind             string
	key, value       uint64
	returned         uint64
	result, pending  bool
	visited          []entry
	invoked, returns int64
	thread           int
}

type recorded struct {
	name, guarantee string
	initial         contents
	calls           []call
}

// step gives the contents after the call, and whether the map would have answered so.
func step(before contents, c call) (bool, contents) {
	value, present := before[c.key]
	after := before
	set := func(value uint64) {
		after = maps.Clone(before)
		after[c.key] = value
	}
	remove := func() {
		after = maps.Clone(before)
		delete(after, c.key)
	}
	answered := c.pending || present == c.result && (!present || value == c.returned)
	switch c.kind {
	case "find":
		return answered, before
	case "contains":
		return present == c.result, before
	case "insert":
		if !present {
			set(c.value)
		}
		return c.pending || c.result != present, after
	case "insert_or_assign":
		set(c.value)
		return c.pending || c.result != present, after
	case "erase":
		remove()
		return c.pending || c.result == present, after
	case "exchange":
		set(c.value)
		return answered, after
	case "extract":
		remove()
		return answered, after
	case "update":
		set(value + c.value)
		return answered, after
	}
	var held []entry
	for key, value := range before {
		if !c.precedes(key, c.key) {
			held = append(held, entry{key, value})
		}
	}
	slices.SortFunc(held, func(a, b entry) int {
		if c.precedes(a.key, b.key) {
			return -1
		}
		return 1
	})
	if !c.result && len(held) > len(c.visited) {
		held = held[:len(c.visited)]
	}
	return slices.Equal(held, c.visited), before
}

func (c call) scans() bool { return c.kind == "scan" || c.kind == "reverse_scan" }

// precedes tells whether a scan of this kind visits a before b.
func (c call) precedes(a, b uint64) bool {
	if c.kind == "reverse_scan" {
		return b < a
	}
	return a < b
}

// finds gives what a scan tells of single keys.
func finds(scan call, keys map[uint64]bool) []call {
	var told []call
	seen := contents{}
	last := uint64(0)
	for _, e := range scan.visited {
		seen[e.key] = e.value
		last = e.key
	}
	for key := range keys {
		if scan.precedes(key, scan.key) || !scan.result && (len(seen) == 0 || scan.precedes(last, key)) {
			continue
		}
		f := scan
		f.kind, f.key = "find", key
		f.returned, f.result = seen[key]
		told = append(told, f)
	}
	return told
}

func inOrder(scan call) bool {
	for i, e := range scan.visited {
		if scan.precedes(e.key, scan.key) || i > 0 && !scan.precedes(scan.visited[i-1].key, e.key) {
			return false
		}
	}
	return true
}

func check(h recorded) bool {
	keys := map[uint64]bool{}
	for key := range h.initial {
		keys[key] = true
	}
	for _, c := range h.calls {
		if !c.scans() {
			keys[c.key] = true
		}
		for _, e := range c.visited {
			keys[e.key] = true
		}
	}
	parts := map[uint64][]porcupine.Operation{}
	for _, c := range h.calls {
		single := []call{c}
		if c.scans() {
			if !c.pending && !inOrder(c) {
				return false
			}
			if h.guarantee == "per_key" {
				single = finds(c, keys)
			}
		}
		for _, s := range single {
			if s.pending && (s.kind == "find" || s.kind == "contains" || s.scans()) {
				continue
			}
			part := uint64(0)
			if h.guarantee == "per_key" {
				part = s.key
			}
			// A pending call that had no effect may as well come after all others.
			parts[part] = append(parts[part], porcupine.Operation{
				ClientId: s.thread, Input: s, Call: s.invoked, Return: s.returns})
		}
	}
	model := porcupine.Model{
		Init:  func() any { return h.initial },
		Equal: func(a, b any) bool { return maps.Equal(a.(contents), b.(contents)) },
		Step: func(state, input, _ any) (bool, any) {
			return step(state.(contents), input.(call))
		},
	}
	for _, operations := range parts {
		if !porcupine.CheckOperations(model, operations) {
			return false
		}
	}
	return true
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func parse(fields []string) call {
	c := call{
		kind: fields[0], thread: int(number(fields[1])), invoked: int64(number(fields[2])),
		returns: math.MaxInt64, pending: fields[3] == "-",
		key: number(fields[4]), value: number(fields[5]),
	}
	switch c.kind {
	case "find", "exchange", "extract", "update":
		if fields[6] != "-" {
			c.returned, c.result = number(fields[6]), true
		}
	default:
		c.result = fields[6] == "1"
	}
	if !c.pending {
		c.returns = int64(number(fields[3]))
	}
	for rest := fields[7:]; len(rest) >= 2; rest = rest[2:] {
		c.visited = append(c.visited, entry{number(rest[0]), number(rest[1])})
	}
	return c
}

func main() {
	var h recorded
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch fields[0] {
		case "history":
			h = recorded{name: fields[1], guarantee: fields[2], initial: contents{}}
		case "initial":
			h.initial[number(fields[1])] = number(fields[2])
		case "end":
			verdict := "violation"
			if check(h) {
				verdict = "linearizable"
			}
			fmt.Println(h.name, verdict)
		default:
			h.calls = append(h.calls, parse(fields))
		}
	}
}
