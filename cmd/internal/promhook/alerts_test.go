package promhook

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

const alertsFile = root + "/docs/alerts.yml"

var (
	ourName  = regexp.MustCompile(`millrace_[a-z0-9_]+`)
	selector = regexp.MustCompile(`(millrace_[a-z0-9_]+)\{([^}]*)\}`)
	byClause = regexp.MustCompile(`by \(([^)]*)\)`)
)

// scraped is every name that Prometheus finds, with the metric's labels.
func scraped() map[string]Metric {
	names := map[string]Metric{}
	for _, m := range Metrics() {
		names[m.FullName()] = m
		if m.Type == Histogram {
			delete(names, m.FullName())
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[m.FullName()+suffix] = m
			}
		}
	}
	return names
}

// The alert rules speak of metrics that there are, by labels that they have, and each says
// what to do.
func TestAlertsNameWhatIsDeclared(t *testing.T) {
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	names := scraped()
	rules := strings.Split(string(text), "      - alert: ")[1:]
	if len(rules) < 10 {
		t.Fatalf("%d rules were found", len(rules))
	}
	seen := map[string]bool{}
	for _, rule := range rules {
		title, _, _ := strings.Cut(rule, "\n")
		if !regexp.MustCompile(`^Millrace[A-Za-z]+$`).MatchString(title) || seen[title] {
			t.Errorf("alert %q: want a name of its own, of letters, that begins with Millrace", title)
		}
		seen[title] = true
		for _, field := range []string{"\n        expr: ", "\n          severity: ", "\n          summary: ", "\n          action: "} {
			if strings.Count(rule, field) != 1 {
				t.Errorf("%s: it has %d times %q", title, strings.Count(rule, field), strings.TrimSpace(field))
			}
		}
		_, expr, _ := strings.Cut(rule, "\n        expr: ")
		expr, _, _ = strings.Cut(expr, "\n")
		for _, problem := range problems(expr, names) {
			t.Errorf("%s: %s", title, problem)
		}
		// What is said of a metric in words has to exist as well, there under its plain name.
		for _, name := range ourName.FindAllString(strings.Replace(rule, expr, "", 1), -1) {
			if _, bucket := names[name+"_bucket"]; names[name].Name == "" && !bucket {
				t.Errorf("%s: there is no metric %s", title, name)
			}
		}
	}
}

// problems tells what is wrong with an expression.
func problems(expr string, names map[string]Metric) (wrong []string) {
	has := func(m Metric, label string) bool {
		return label == "instance" || label == "le" && m.Type == Histogram || strings.Contains(" "+strings.Join(m.Labels, " ")+" ", " "+label+" ")
	}
	used := ourName.FindAllString(expr, -1)
	if len(used) == 0 {
		wrong = append(wrong, "the expression names no metric of ours")
	}
	for _, name := range used {
		if _, ok := names[name]; !ok {
			wrong = append(wrong, "there is no metric "+name)
		}
	}
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		for _, match := range strings.Split(m[2], ",") {
			label, value, _ := strings.Cut(match, "=")
			if label = strings.TrimSuffix(label, "!"); !has(names[m[1]], label) || !strings.HasPrefix(value, `"`) {
				wrong = append(wrong, m[1]+" has no label "+label)
			}
		}
	}
	for _, m := range byClause.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(m[1], ", ") {
			found := false
			for _, name := range used {
				found = found || has(names[name], label)
			}
			if !found {
				wrong = append(wrong, "nothing has the label "+label)
			}
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			wrong = append(wrong, "unbalanced "+pair)
		}
	}
	return wrong
}

// Credentials that are gone (0) alert like those that expire; those that never do (+Inf), and
// a node that wants none (NaN), do not: the rule is one comparison, without another bound.
func TestCredentialsThatAreGoneAlert(t *testing.T) {
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(text), "alert: MillraceCredentialsExpire\n")
	var limit float64
	expr, rest, _ := strings.Cut(strings.TrimSpace(rule), "\n")
	if _, err := fmt.Sscanf(expr, "expr: millrace_credentials_expiry_timestamp_seconds - time() < %g", &limit); err != nil || !strings.HasPrefix(strings.TrimSpace(rest), "for: 1m\n") {
		t.Fatalf("the rule is %q, then %.20q: %v", expr, strings.TrimSpace(rest), err)
	}
	now := float64(time.Now().Unix())
	for expires, want := range map[float64]bool{0: true, now + 100: true, now + 3600: false, math.Inf(1): false, math.NaN(): false} {
		if fires := expires-now < limit; fires != want {
			t.Errorf("it fires for %v: %v", expires, fires)
		}
	}
}

func TestProblemsOfAlertsAreSeen(t *testing.T) {
	names := scraped()
	for expr, want := range map[string]int{
		`sum by (instance, op) (rate(millrace_store_errors_total{class!="x"}[5m])) > 0`: 0,
		`up == 0`: 1, `millrace_nothing > 0`: 1, `millrace_store_errors_total{stream="x"} > 0`: 1, `sum by (stream) (millrace_store_errors_total)`: 1,
		`sum(millrace_store_errors_total`: 1, `millrace_store_request_duration_seconds > 1`: 1,
	} {
		if got := problems(expr, names); len(got) != want {
			t.Errorf("%s: %q, want %d problems", expr, got, want)
		}
	}
}
