package otp

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// maker makes a random program. It knows what it declared, not what becomes of it: a
// command that hits nothing has an answer too.
type maker struct {
	*rand.Rand
	lines []string
	sups  map[string]bool     // path of a supervisor to whether it is simple_one_for_one
	below map[string][]string // ids ever declared below it
	traps map[string]bool     // paths at and above something that traps exits
	all   bool                // all children of the present supervisor are significant
	fresh int
}

func generate(seed uint64) []string {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 0)), sups: map[string]bool{}, below: map[string][]string{}, traps: map[string]bool{}}
	m.supervisor("", "sup", 0)
	m.line("boot")
	for range 4 + m.IntN(16) {
		m.command()
	}
	if m.odds(3) {
		m.line("stop")
	}
	return m.lines
}

func (m *maker) line(words ...string) {
	m.lines = append(m.lines, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
}

func (m *maker) odds(n int) bool { return m.IntN(n) == 0 }

func (m *maker) pick(of ...string) string { return of[m.IntN(len(of))] }

// supervisor declares a supervisor and what stands below it.
func (m *maker) supervisor(path, head string, depth int) {
	strategy := m.pick("one_for_one", "one_for_all", "rest_for_one", "rest_for_one", "simple_one_for_one")
	auto := m.pick("never", "never", "any_significant", "all_significant", "all_significant")
	m.all = auto != "never" && m.odds(2)
	m.line(head, "strategy="+strategy, "intensity="+m.pick("0", "1", "2", "3", "5", "9"), "auto="+auto)
	simple := strategy == "simple_one_for_one"
	m.sups[path] = simple
	n := m.IntN(5)
	if simple {
		n = 1
	}
	for i := range n {
		id := string(rune('a' + i))
		at := join(path, id)
		if depth < 2 && m.odds(4) {
			all := m.all
			m.supervisor(at, "child "+at+" shutdown=infinity"+m.restart(auto), depth+1)
			m.all = all
		} else {
			m.line("child", at, m.worker(at, auto, simple))
		}
		m.below[path] = append(m.below[path], id)
	}
	m.all = false
}

// restart draws restart type and significance, now and then a bad combination.
func (m *maker) restart(auto string) string {
	s := " restart=" + m.pick("permanent", "permanent", "transient", "temporary")
	if m.all {
		return " significant restart=" + m.pick("transient", "transient", "temporary")
	}
	if good := auto != "never" && s != " restart=permanent"; good && m.odds(2) || m.odds(150) {
		s += " significant"
	}
	return s
}

func (m *maker) worker(path, auto string, template bool) string {
	s := m.restart(auto)
	switch m.IntN(6) {
	case 0, 1:
		s += m.trap(path)
	case 2:
		s += " shutdown=brutal" + m.pick("", m.trap(path))
	case 3:
		s += " shutdown=infinity" + m.pick("", m.trap(path))
	case 4:
		s += " shutdown=1 linger" + m.trap(path)
	}
	return s + m.inits(template)
}

func (m *maker) trap(path string) string {
	for at := path; at != ""; at = parent(at) {
		m.traps[at] = true
	}
	return " trap"
}

// inits draws the outcomes of a worker's starts. A template never ignores a restart: see
// the package comment.
func (m *maker) inits(template bool) string {
	outcomes := []string{"ok", "ok", "error", "crash", "ignore"}
	switch {
	case m.odds(2):
		return ""
	case m.odds(12):
		return " init=" + m.pick(outcomes...)
	case template:
		outcomes = outcomes[:4]
	}
	all := []string{"ok"}
	for range 1 + m.IntN(4) {
		all = append(all, m.pick(outcomes...))
	}
	if m.odds(2) {
		all = append(all, "ok")
	}
	return " init=" + strings.Join(all, ",")
}

// somewhere draws a supervisor that is not a template or below one.
func (m *maker) somewhere() string {
	at := ""
	for m.odds(2) {
		var deeper []string
		for _, id := range m.below[at] {
			if _, sup := m.sups[join(at, id)]; sup && !m.isTemplate(at, id) {
				deeper = append(deeper, join(at, id))
			}
		}
		if len(deeper) == 0 {
			break
		}
		at = m.pick(deeper...)
	}
	return at
}

func (m *maker) isTemplate(sup, id string) bool { return m.sups[sup] && id == "a" }

// child draws a child of a supervisor.
func (m *maker) child(sup string) string {
	var ids []string
	for _, id := range m.below[sup] {
		if !m.isTemplate(sup, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || m.odds(60) {
		return join(sup, "x")
	}
	// The latest live longest.
	return join(sup, ids[max(m.IntN(len(ids)), m.IntN(len(ids)))])
}

func (m *maker) command() {
	sup := m.somewhere()
	if m.odds(4) {
		m.held(sup)
		return
	}
	m.simply(sup)
}

// simply does one thing to a supervisor or a child of it.
func (m *maker) simply(sup string) {
	if m.sups[sup] && m.odds(2) {
		m.add(sup)
		return
	}
	path := m.child(sup)
	switch m.IntN(10) {
	case 0:
		m.add(sup)
	case 1:
		m.line("terminate", path)
	case 2:
		m.line("restart", path)
	case 3:
		m.line("delete", path)
	default:
		m.exit(path, m.pick("normal", "shutdown", "{shutdown,x}", "crash", "crash", "crash", "kill"))
	}
}

func (m *maker) exit(path, why string) {
	if _, sup := m.sups[path]; sup {
		if m.traps[path] {
			return
		}
		why = "kill"
	}
	m.line("exit", path, why)
}

func (m *maker) add(sup string) {
	m.fresh++
	id := fmt.Sprint("n", m.fresh)
	switch simple := m.sups[sup]; {
	case simple:
		m.instance(sup, id)
	case m.odds(2) && len(m.below[sup]) > 0:
		id = m.pick(m.below[sup]...)
		fallthrough
	default:
		m.line("add", join(sup, id), m.worker(join(sup, id), m.pick("never", "any_significant"), false))
	}
	m.below[sup] = append(m.below[sup], id)
}

// instance adds a child from the template of sup, and knows what stands below it.
func (m *maker) instance(sup, id string) {
	path, template := join(sup, id), join(sup, "a")
	if _, isSup := m.sups[template]; isSup {
		m.line("add", path)
	} else {
		m.line("add", path, m.inits(true))
	}
	m.copyOf(template, path)
}

func (m *maker) copyOf(template, path string) {
	m.traps[path] = m.traps[template]
	simple, isSup := m.sups[template]
	if !isSup {
		return
	}
	m.sups[path] = simple
	if simple {
		m.below[path] = []string{"a"}
		m.copyOf(join(template, "a"), join(path, "a"))
		return
	}
	for _, id := range m.below[template] {
		m.below[path] = append(m.below[path], id)
		m.copyOf(join(template, id), join(path, id))
	}
}

// held holds a child, does things behind its back, and lets it go on.
func (m *maker) held(sup string) {
	path := m.child(sup)
	where := m.pick("init", "init", "stop")
	m.line("hold", path, where)
	switch m.IntN(4) {
	case 0:
		m.simply(sup)
	case 1:
		if where == "stop" {
			m.line(m.pick("terminate "+path, "terminate "+path, "stop"))
		} else {
			m.line("terminate", path)
			m.line("restart", path)
		}
	default:
		target := path
		if where == "stop" || m.odds(3) {
			target = m.child(sup)
		}
		m.exit(target, "crash")
	}
	if m.odds(4) { // everybody else leaves
		for _, id := range m.below[sup] {
			m.exit(join(sup, id), m.pick("normal", "normal", "crash"))
		}
	}
	for range 1 + m.IntN(5) {
		switch m.IntN(8) {
		case 0, 1:
			m.line(m.pick("terminate", "restart", "delete"), path)
		case 2:
			if !m.sups[sup] {
				m.line("add", path, m.worker(path, "never", false))
			}
		default:
			m.simply(sup)
		}
	}
	verdict := m.pick("ok", "error", "error", "ignore", "crash")
	if verdict == "ignore" && m.sups[sup] {
		verdict = "error"
	}
	m.line("open", verdict)
}
