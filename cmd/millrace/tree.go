package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/cmd/internal/httpadmin"
)

// overview is how many children of a factory `millrace tree` shows without a path.
const overview = 10

func newTreeCommand(g *globals) *cobra.Command {
	var limit, offset int
	var search string
	c := &cobra.Command{
		Use:   "tree [PATH]",
		Short: "Show the node's processes",
		Long: "Show the processes and how they are: state, restarts within their supervisor's period, messages waiting, and how\n" +
			"the last incarnation ended. PATH shows a part, such as node/log or node/log/STREAM. Of many children those in\n" +
			"trouble come first.",
		Args: operands(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			q := url.Values{}
			if len(args) == 1 {
				q.Set("path", args[0])
			} else if !c.Flags().Changed("limit") {
				limit = overview
			}
			q.Set("limit", strconv.Itoa(limit))
			if offset > 0 {
				q.Set("offset", strconv.Itoa(offset))
			}
			if search != "" {
				q.Set("search", search)
			}
			return ask(g, http.MethodGet, "/tree?"+q.Encode(), nil, showTree)
		},
	}
	c.Flags().IntVarP(&limit, "limit", "n", admin.DefaultPage, "show at most `N` of many children (10 without PATH)")
	c.Flags().IntVar(&offset, "offset", 0, "begin at the `N`th of many children")
	c.Flags().StringVar(&search, "search", "", "of many children, show those whose name contains `TEXT`")
	c.AddCommand(
		newOperateCommand(g, "terminate", "Stop a process until somebody starts it again"),
		newOperateCommand(g, "restart", "Stop a process if it runs, and start it"),
	)
	return c
}

func newOperateCommand(g *globals, what, short string) *cobra.Command {
	return &cobra.Command{
		Use:   what + " PATH",
		Short: short,
		Args:  operands(1, "PATH"),
		RunE: func(_ *cobra.Command, args []string) error {
			return ask(g, http.MethodPost, "/tree/"+what, httpadmin.PathRequest{Path: args[0]}, func(w io.Writer, done map[string]string) {
				for _, did := range sortedKeys(done) {
					fmt.Fprintf(w, "%s %s\n", did, done[did])
				}
			})
		},
	}
}

func showTree(w io.Writer, t admin.TreeNode) {
	rows := [][]string{{"PROCESS", "STATE", "INCARNATION", "RESTARTS", "WAITING", "LAST EXIT"}}
	treeRows(&rows, t, "", "", t.Path)
	table(w, rows)
}

// treeRows appends a process and all below it. lead stands before its own name, below
// before those of its children.
func treeRows(rows *[][]string, t admin.TreeNode, lead, below, name string) {
	if t.Label != "" {
		name = t.Label
	}
	about := t.LastExit
	if t.Note != "" {
		about += " (" + t.Note + ")"
	}
	*rows = append(*rows, []string{lead + name, t.State, strconv.FormatUint(t.Incarnation, 10), strconv.Itoa(t.Restarts), strconv.Itoa(t.MailboxLen), about})
	before, rest := pageWords(t.Page, len(t.Children))
	if before != "" {
		*rows = append(*rows, []string{below + "├── " + before})
	}
	for i, c := range t.Children {
		if i < len(t.Children)-1 || rest != "" {
			treeRows(rows, c, below+"├── ", below+"│   ", c.ID)
		} else {
			treeRows(rows, c, below+"└── ", below+"    ", c.ID)
		}
	}
	if rest != "" {
		*rows = append(*rows, []string{below + "└── " + rest})
	}
}

// pageWords says which children of a factory are not shown: those before the page, and all
// others. Where something is searched for, the first two count what has the name.
func pageWords(p *admin.TreePage, shown int) (before, rest string) {
	if p == nil {
		return "", ""
	}
	skipped := min(p.Offset, p.Matched)
	more := p.Matched - skipped - shown
	all := fmt.Sprintf("%d in all, %d in trouble", p.Total, p.Troubled)
	if p.Matched < p.Total {
		all = fmt.Sprintf("%d of %d have the name that is searched for", p.Matched, p.Total)
	}
	switch {
	case more > 0 && p.Matched == p.Total:
		rest = fmt.Sprintf("... %d more of %d, %d in trouble", more, p.Total, p.Troubled)
	case more > 0:
		rest = fmt.Sprintf("... %d more: %s", more, all)
	case skipped > 0 && shown == 0:
		rest = fmt.Sprintf("... %d before the offset, none from it on: %s", skipped, all)
	case skipped > 0 || p.Matched < p.Total:
		rest = "... " + all
	}
	if skipped > 0 && shown > 0 {
		before = fmt.Sprintf("... %d before these", skipped)
	}
	return before, rest
}
