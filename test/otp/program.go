package otp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/supervision"
)

// Program is a parsed program.
type Program struct {
	top      Sup
	commands []command
	lines    []string
}

// Sup is a supervisor's part of a declaration.
type Sup struct {
	Flags    supervision.Flags
	Children []*Spec
}

// Spec declares a child.
type Spec struct {
	Path        string
	Restart     supervision.Restart
	Shutdown    supervision.Shutdown
	Significant bool
	Init        []string // the outcomes of its starts; nil: all well
	Trap        bool
	Linger      bool
	Sup         *Sup // of a supervisor
}

// command is one line behind the declarations.
type command struct {
	verb, path, arg string
	spec            *Spec // of add
	wait            int   // of pass, in ms
}

// forms are the words that may follow a command's path; "" is none.
var forms = map[string][]string{
	"boot": {"alone"}, "stop": {"alone"}, "open ok": {"alone"}, "open ignore": {"alone"}, "open error": {"alone"}, "open crash": {"alone"},
	"exit": {"normal", "shutdown", "{shutdown,x}", "crash", "kill"}, "hold": {"init", "stop"},
	"terminate": {""}, "restart": {""}, "delete": {""},
}

// outcome is what the n-th start comes to.
func (s *Spec) outcome(n int) string {
	if s.Init == nil {
		return "ok"
	}
	return s.Init[min(n, len(s.Init))-1]
}

// Lines returns the program as it is sent and printed.
func (p Program) Lines() []string { return p.lines }

// Parse reads a program.
func Parse(lines []string) (Program, error) {
	p := Program{lines: lines}
	for i, line := range lines {
		if err := p.read(strings.Fields(line)); err != nil {
			return Program{}, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
	}
	return p, nil
}

func (p *Program) read(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("it is empty")
	}
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	c := command{verb: words[0], path: arg(1), arg: arg(2)}
	var err error
	switch c.verb {
	case "sup":
		s, err := parseSpec("", words[1:])
		if err == nil && s.Sup == nil {
			err = fmt.Errorf("no strategy")
		}
		if err != nil {
			return err
		}
		p.top = *s.Sup
		return nil
	case "child", "add":
		s, err := parseSpec(c.path, words[2:])
		if err != nil {
			return err
		}
		if c.verb == "child" {
			return p.declare(s)
		}
		c.spec = s
	case "pass":
		c.wait, err = strconv.Atoi(c.path)
	default:
		if !slices.ContainsFunc(forms[c.verb], func(f string) bool { return f == c.arg || f == "" && len(words) == 2 }) &&
			!slices.Contains(forms[strings.Join(words, " ")], "alone") {
			err = fmt.Errorf("no such command")
		}
	}
	p.commands = append(p.commands, c)
	return err
}

func (p *Program) declare(s *Spec) error {
	sup := &p.top
	if above := parent(s.Path); above != "" {
		at := p.find(above)
		if at == nil || at.Sup == nil {
			return fmt.Errorf("%s is no supervisor", above)
		}
		sup = at.Sup
	}
	sup.Children = append(sup.Children, s)
	return nil
}

// find returns the declaration at a path.
func (p *Program) find(path string) *Spec {
	sup, at := &p.top, (*Spec)(nil)
	for id := range strings.SplitSeq(path, "/") {
		if sup == nil {
			return nil
		}
		i := slices.IndexFunc(sup.Children, func(s *Spec) bool { return last(s.Path) == id })
		if i < 0 {
			return nil
		}
		at = sup.Children[i]
		sup = at.Sup
	}
	return at
}

func parseSpec(path string, words []string) (*Spec, error) {
	s := &Spec{Path: path, Shutdown: supervision.After(time.Minute)}
	flags := supervision.Flags{Intensity: 1, Period: 1000000 * time.Second}
	isSup := false
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "restart":
			s.Restart, err = named[supervision.Restart](value)
		case "shutdown":
			s.Shutdown, err = parseShutdown(value)
		case "significant":
			s.Significant = true
		case "trap":
			s.Trap = true
		case "linger":
			s.Linger = true
		case "init":
			s.Init = strings.Split(value, ",")
		case "strategy":
			isSup = true
			flags.Strategy, err = named[supervision.Strategy](value)
		case "auto":
			flags.AutoShutdown, err = named[supervision.AutoShutdown](value)
		case "intensity":
			flags.Intensity, err = strconv.Atoi(value)
		case "period":
			var seconds int
			seconds, err = strconv.Atoi(value)
			flags.Period = time.Duration(seconds) * time.Second
		default:
			err = fmt.Errorf("no such word")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	if isSup {
		s.Sup = &Sup{Flags: flags}
	}
	return s, nil
}

func parseShutdown(value string) (supervision.Shutdown, error) {
	switch value {
	case "infinity":
		return supervision.Infinity, nil
	case "brutal":
		return supervision.Brutal, nil
	}
	ms, err := strconv.Atoi(value)
	return supervision.After(time.Duration(ms) * time.Millisecond), err
}

// named returns the value that prints so.
func named[T interface {
	~uint8
	String() string
}](name string) (T, error) {
	for v := T(0); v < 8; v++ {
		if v.String() == name {
			return v, nil
		}
	}
	return 0, fmt.Errorf("no such value")
}

// normal sorts the events that have no order among each other: those of different
// instances below one simple_one_for_one supervisor, and when a held child goes on those
// of different supervisors, since one has calls to answer while the one above it goes on
// with what it was doing.
func (p Program) normal(line, answer string) string {
	answer = strings.TrimSuffix(answer, " | ") // no events
	parts := strings.Split(answer, " | ")
	if len(parts) != 3 {
		return answer
	}
	events := strings.Split(parts[2], ", ")
	rank := func(event string) string {
		_, path, _ := strings.Cut(event, " ")
		if strings.HasPrefix(line, "open") {
			return p.instance(path) + " " + parent(path)
		}
		return p.instance(path)
	}
	slices.SortStableFunc(events, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	return strings.Join([]string{parts[0], parts[1], strings.Join(events, ", ")}, " | ")
}

// instance returns the path of the instance, below simple_one_for_one, that path is part
// of, the deepest one; empty if it stands below none.
func (p Program) instance(path string) (deepest string) {
	sup, at := &p.top, ""
	for id := range strings.SplitSeq(path, "/") {
		at = join(at, id)
		i := 0 // the template
		if sup.Flags.Strategy == supervision.SimpleOneForOne {
			deepest = at
		} else {
			i = slices.IndexFunc(sup.Children, func(s *Spec) bool { return last(s.Path) == id })
		}
		if i < 0 || sup.Children[i].Sup == nil {
			break
		}
		sup = sup.Children[i].Sup
	}
	return deepest
}

func join(parent, id string) string {
	if parent == "" {
		return id
	}
	return parent + "/" + id
}

func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
